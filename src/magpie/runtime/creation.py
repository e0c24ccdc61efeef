"""Making mp arrays and reading them: `mp.empty`, `zeros`, `full`, `asarray`, `to_numpy`, `array_like`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie import dtypes
from magpie.errors import LaunchTypeError, LaunchValueError, public
from magpie.runtime.arrays import foreign_array, is_array_like
from magpie.runtime.buffer import Buffer, allocate
from magpie.runtime.device import Device
from magpie.runtime.device import device as find_device
from magpie.runtime.driver import MemoryHint
from magpie.runtime.shapes import check_shape
from magpie.runtime.types import as_type, type_of

if TYPE_CHECKING:
    import numpy

__all__ = ["array_like", "asarray", "empty", "full", "ones", "to_numpy", "zeros"]

_Hint = MemoryHint | str


@public
def empty(
    shape: int | tuple[int, ...], dtype: Any = dtypes.f32, *, device: str | Device | None = None, memory: _Hint = "auto"
) -> Buffer:
    """An array with arbitrary content on `device` (the default one), aligned for the widest loads of the device.

    `dtype` is an mp dtype, a NumPy dtype or a `@mp.struct` class. `memory` says where it should lie: "auto",
    "device_local", "unified", "staging" or "cached"; a device that knows no difference ignores it.
    Raises GpuError OutOfMemory before anything is committed.
    """
    return allocate(find_device(device), check_shape(shape), as_type(dtype), _hint(memory))


@public
def zeros(
    shape: int | tuple[int, ...], dtype: Any = dtypes.f32, *, device: str | Device | None = None, memory: _Hint = "auto"
) -> Buffer:
    """An array of zeros; see `empty`."""
    return allocate(find_device(device), check_shape(shape), as_type(dtype), _hint(memory), zero=True)


@public
def ones(
    shape: int | tuple[int, ...], dtype: Any = dtypes.f32, *, device: str | Device | None = None, memory: _Hint = "auto"
) -> Buffer:
    """An array of ones; see `empty`."""
    return full(shape, 1, dtype, device=device, memory=memory)


@public
def full(
    shape: int | tuple[int, ...],
    value: Any,
    dtype: Any = dtypes.f32,
    *,
    device: str | Device | None = None,
    memory: _Hint = "auto",
) -> Buffer:
    """An array with `value` everywhere; see `empty`."""
    result = empty(shape, dtype, device=device, memory=memory)
    result[...] = value
    return result


@public
def asarray(value: Any, dtype: Any = None, *, device: str | Device | None = None, memory: _Hint = "auto") -> Buffer:
    """`value` as an mp array: a NumPy, torch, JAX or other array, a list or a number, copied to `device`.

    An mp array that is on that device and of that dtype comes back itself.
    """
    import numpy as np

    type_ = None if dtype is None else as_type(dtype)
    theirs = _on_a_gpu(value)
    if theirs is not None:
        target = theirs.device if device is None else find_device(device)
        result = allocate(target, check_shape(theirs.shape), type_ or theirs.dtype, _hint(memory))
        if target is theirs.device and result.dtype == theirs.dtype and theirs.contiguous:
            target.synchronize()
            target.driver.copy(target.index, result._words[0], theirs._words[0], result.nbytes)
        else:
            result[...] = theirs.to_numpy()
        return result
    if isinstance(value, Buffer):
        same_place = device is None or find_device(device) is value.device
        if same_place and type_ in (None, value.dtype):
            return value
        target = value.device if device is None else find_device(device)
        if type_ in (None, value.dtype):
            result = allocate(target, value.shape, value.dtype, _hint(memory))
            result[...] = value
            return result
        data = value.to_numpy()
    else:
        target = find_device(device)
        if is_array_like(value) and not isinstance(value, np.ndarray | np.generic):
            data = foreign_array(value, "value")
        else:
            data = np.asarray(value, None if type_ is None else type_.numpy)
            if dtype is None and not hasattr(value, "dtype") and data.dtype == np.float64:
                data = data.astype(np.float32)  # numbers without a type are f32, as in kernels
    source = type_of(data.dtype, "the array")
    result = allocate(target, check_shape(data.shape), type_ or source, _hint(memory))
    result[...] = data
    return result


@public
def array_like(other: Any, *, dtype: Any = None, device: str | Device | None = None, memory: _Hint = "auto") -> Buffer:
    """An array with arbitrary content, of the shape, dtype and device of `other` (any array) unless they are given."""
    if isinstance(other, Buffer):
        type_ = other.dtype if dtype is None else as_type(dtype)
        return allocate(other.device if device is None else find_device(device), other.shape, type_, _hint(memory))
    if not hasattr(other, "shape") or not hasattr(other, "dtype"):
        raise LaunchTypeError(f"array_like takes an array; got {type(other).__name__}")
    theirs = _on_a_gpu(other)
    if theirs is not None:
        return array_like(theirs, dtype=dtype, device=device, memory=memory)
    data = other if is_numpy(other) else foreign_array(other, "other")
    type_ = type_of(data.dtype, "the array") if dtype is None else as_type(dtype)
    return allocate(find_device(device), check_shape(tuple(data.shape)), type_, _hint(memory))


@public
def to_numpy(array: Any) -> numpy.ndarray[Any, Any]:
    """A NumPy array with the content of `array`: a copy of an mp array, a view of another library's host array."""
    import numpy as np

    if isinstance(array, Buffer):
        return array.to_numpy()
    theirs = _on_a_gpu(array)
    if theirs is not None:
        return theirs.to_numpy()
    return array if isinstance(array, np.ndarray) else foreign_array(array, "array")


def in_place(value: Any) -> Buffer | None:
    """``value`` as an mp array without a copy: an mp array itself, or another library's in a GPU's memory; else None.

    The next launch of this thread runs behind what the other library's stream has queued.
    """
    if isinstance(value, Buffer):
        return value
    if not is_array_like(value) or is_numpy(value):
        return None
    from magpie.runtime.drivers.gpu.arrays import device_array

    return device_array(value, "value")


def _on_a_gpu(value: Any) -> Buffer | None:
    """The mp array on a GPU's memory of another library; None for everything else."""
    found = None if isinstance(value, Buffer) else in_place(value)
    if found is not None:
        found.device.driver.followed()  # forgotten: what comes waits for all streams, and launches nothing
    return found


def is_numpy(value: Any) -> bool:
    """Whether this is a NumPy array."""
    import numpy as np

    return isinstance(value, np.ndarray)


def _hint(memory: _Hint) -> MemoryHint:
    if isinstance(memory, MemoryHint):
        return memory
    names = {"".join(c for c in hint.name.lower()): hint for hint in MemoryHint}
    found = names.get(str(memory).replace("_", "").lower())
    if found is None:
        raise LaunchValueError(
            f"memory={memory!r} is no memory hint; write auto, device_local, unified, staging or cached"
        )
    return found
