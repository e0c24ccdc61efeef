"""Arrays of torch, CuPy, JAX, numba and others in GPU memory, as mp arrays on the same memory: nothing is copied.

What tells of them is `__cuda_array_interface__`, which builds for ROCm have under the same name; torch is asked itself,
since the interface has no name for bfloat16. A launch is ordered with the library's current stream: it runs after what
that has queued, and what is queued there later runs after it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from magpie.dtypes import Type, bf16
from magpie.errors import LaunchTypeError, LaunchValueError
from magpie.runtime.buffer import Buffer, ForeignMemory

if TYPE_CHECKING:
    from magpie.runtime.device import Device

__all__ = ["device_array"]

#: Backends whose devices other libraries' arrays may lie on.
_BACKENDS = ("ptx", "hip")
_LEGACY = (None, 0, 1)  # the ways in which the interface says: the default stream


def device_array(value: Any, name: str) -> Buffer | None:
    """The mp array on the memory of `value`; None where that is no GPU's, or nothing here can reach it.

    Raises LaunchTypeError or LaunchValueError naming the parameter.
    """
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        if not getattr(value, "is_cuda", False):
            return None
        return _torch(value, name)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    address, read_only = interface["data"]
    device = _device_of(address)
    if device is None:
        return None
    import numpy as np

    from magpie.runtime.types import type_of

    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if library == "jaxlib" and dtype.kind == "V" and str(value.dtype) == "bfloat16":
        type_: Type = bf16
    else:
        type_ = type_of(dtype, f"argument {name!r}")
    stream = interface.get("stream")
    cupy = sys.modules.get("cupy")
    if library == "cupy" and cupy is not None:
        stream = cupy.cuda.get_current_stream().ptr
    return _made(device, address, type_, shape, strides, bool(read_only), stream, name)


def _torch(tensor: Any, name: str) -> Buffer | None:
    if tensor.requires_grad:
        raise LaunchTypeError(
            f"argument {name!r}: the tensor requires grad, and a launch is not recorded for it",
            diagnostic="MPG_LAUNCH_1002",
            help=f"pass {name}.detach()",
        )
    if not str(tensor.layout).endswith("strided") or tensor.is_conj() or tensor.is_neg():
        raise LaunchTypeError(
            f"argument {name!r}: only plain strided tensors can be addressed",
            diagnostic="MPG_LAUNCH_1002",
            help=f"pass {name}.resolve_conj().resolve_neg(), or a dense tensor",
        )
    from magpie.runtime.types import as_type

    kind = str(tensor.dtype).removeprefix("torch.")
    type_ = bf16 if kind == "bfloat16" else as_type(kind)
    size = type_.itemsize
    torch = sys.modules["torch"]
    device = _device("hip" if getattr(torch.version, "hip", None) else "ptx", tensor.device.index)
    if device is None:
        return None
    stream = torch.cuda.current_stream(tensor.device).cuda_stream
    strides = tuple(s * size for s in tensor.stride())
    return _made(device, tensor.data_ptr(), type_, tuple(tensor.shape), strides, False, stream, name)


def _made(
    device: Device,
    address: int,
    type_: Type,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    read_only: bool,
    stream: int | None,
    name: str,
) -> Buffer:
    size = type_.itemsize
    if strides is None:
        counted = [size] * len(shape)
        for d in range(len(shape) - 2, -1, -1):
            counted[d] = counted[d + 1] * max(1, shape[d + 1])
        strides = tuple(counted)
    if address % min(size, 8) or any(s % size for s in strides):
        raise LaunchValueError(
            f"argument {name!r} has strides of {strides} bytes, no multiples of its {size}-byte elements",
            diagnostic="MPG_LAUNCH_1018",
            help="pass a contiguous copy",
        )
    if stream not in _LEGACY:
        device.driver.follow(stream)
    memory = ForeignMemory.of(device)
    return Buffer(memory, type_, shape, tuple(s // size for s in strides), address, writable=not read_only)


def _device(backend: str, index: int) -> Device | None:
    from magpie.runtime.dispatch import runtime

    found = runtime().of_backend(backend)
    return found[index] if index < len(found) else None


def _device_of(address: int) -> Device | None:
    """The device whose memory an address is; an empty array has none, and the first will do."""
    for backend in _BACKENDS:
        first = _device(backend, 0)
        if first is None:
            continue
        if not address:
            return first
        ordinal = first.driver.owner_of(address)
        if ordinal is not None:
            return _device(backend, ordinal)
    return None
