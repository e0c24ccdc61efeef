"""Arrays of torch and CuPy that a launch has seen before: found again in a microsecond each.

The long way asks an array everything (`arguments`, `drivers.gpu.arrays`) and makes an mp array on its memory. It takes
ten times as long as a launch. What it makes says nothing but where the elements lie and of what type they are; so an
array of the same library with the same address, type, extents and strides gets the same mp array. What forbids an array
to be passed, and in which stream it is used, is asked each time.

Arrays on the host are asked for their NumPy array, which is about as fast; nothing is kept of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from magpie.runtime.buffer import Buffer

__all__ = ["readers", "remember", "seen"]

#: How an array of each known class is read: the mp array or NumPy array, or None where the long way has to look.
readers: dict[type, Callable[[Any], Any]] = {}

# Descriptions that are kept; a program that makes new arrays for ever has new ones for ever.
_MOST = 4096

_LEGACY = (0, 1)  # the default stream


def seen(values: Sequence[Any], places: Sequence[bool]) -> tuple[Any, ...] | None:
    """The arguments with mp and NumPy arrays for all arrays of others; None where one was not seen before.

    `places` says which parameters take arrays.
    """
    if len(values) != len(places):
        return None
    found = []
    known = False
    for value, place in zip(values, places, strict=True):
        read = readers.get(value.__class__)
        if read is not None and place:
            value = read(value)
            if value is None:
                return None
            known = True
        found.append(value)
    return tuple(found) if known else None


def remember(value: Any, found: Any) -> None:
    """Let `seen` find what the long way made of an array that it accepts."""
    library = type(value).__module__.partition(".")[0]
    make = _MAKERS.get(library)
    module = sys.modules.get(library)
    if make is None or module is None or type(value) is not getattr(module, _CLASSES[library], None):
        return
    if type(value) not in readers:
        readers[type(value)] = make(module)
    if type(found) is Buffer:
        known = _known()
        if len(known) >= _MOST:
            known.clear()
        known[_KEYS[library](value)] = found


def _known() -> dict[Any, Buffer]:
    from magpie.runtime.dispatch import runtime

    return runtime().foreign


def _torch_key(tensor: Any) -> Any:
    # The device too, since an empty tensor has no address.
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device()


def _cupy_key(array: Any) -> Any:
    return array.data.ptr, array.dtype, array.shape, array.strides, array.data.device_id


def _torch_reader(torch: Any) -> Callable[[Any], Any]:
    # The public function makes an object and takes 2 us.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def stream_of(index: int) -> int:
        found: int = raw(index) if raw is not None else torch.cuda.current_stream(index).cuda_stream
        return found

    def read(tensor: Any) -> Any:
        if tensor.requires_grad or tensor.is_neg():
            return None
        if not tensor.is_cuda:
            try:
                return tensor.numpy()
            except (RuntimeError, TypeError):
                return None
        try:
            key = _torch_key(tensor)
        except RuntimeError:  # a sparse one has no strides: the long way says so
            return None
        found = _known().get(key)
        if found is not None:
            stream = stream_of(key[4])
            if stream not in _LEGACY:
                found.device.driver.follow(stream)
        return found

    return read


def _cupy_reader(cupy: Any) -> Callable[[Any], Any]:
    current = cupy.cuda.get_current_stream

    def read(array: Any) -> Any:
        found = _known().get(_cupy_key(array))
        if found is not None:
            stream = current().ptr
            if stream not in _LEGACY:
                found.device.driver.follow(stream)
        return found

    return read


_CLASSES = {"torch": "Tensor", "cupy": "ndarray"}
_MAKERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {"torch": _torch_reader, "cupy": _cupy_reader}
_KEYS: dict[str, Callable[[Any], Any]] = {"torch": _torch_key, "cupy": _cupy_key}
