"""Copies between mp arrays: on one device, between two of a vendor, and fills, all in the order of a stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchTypeError, LaunchValueError

if TYPE_CHECKING:
    from magpie.runtime.buffer import Buffer
    from magpie.runtime.stream import Stream

__all__ = ["copier", "copy_from", "filler"]

#: Queues one copy in a stream of the driver's; None: the default one.
Queue = Callable[..., None]


def copier(to: Buffer, source: Buffer) -> Queue | None:
    """What queues a copy of a whole array; None where the copy needs more than to move a range of bytes."""
    if to.shape != source.shape or to.dtype != source.dtype or not (to.contiguous and source.contiguous):
        return None
    there, here = to.device, source.device
    if there is here:
        return partial(there.driver.copy, there.index, to._words[0], source._words[0], to.nbytes)
    if there.driver is here.driver:
        copy = there.driver.copy_between
        return partial(copy, there.index, to._words[0], here.index, source._words[0], to.nbytes)
    return None


def filler(to: Buffer, value: Any) -> Queue | None:
    """What queues filling an array with one number; None where the device cannot repeat its bytes."""
    import numpy as np

    from magpie.runtime.types import numpy_type

    if not to.contiguous or np.ndim(value):
        return None
    data = np.asarray(value, numpy_type(to.dtype)).tobytes()
    for size in (1, 2, 4):
        if len(data) % size == 0 and data == data[:size] * (len(data) // size):
            driver = to.device.driver
            return partial(driver.fill, to.device.index, to._words[0], data[:size], to.nbytes // size)
    return None


def copy_from(to: Buffer, source: Any, stream: Stream | None) -> None:
    """Queue a copy and return; see `Buffer.copy_from`."""
    from magpie.runtime.buffer import Buffer, freed_error
    from magpie.runtime.recording import current

    if not isinstance(source, Buffer):
        raise LaunchTypeError(
            f"copy_from takes an mp array; got {type(source).__name__}",
            diagnostic="MPG_LAUNCH_1002",
            help="memory of the host that a device reads by itself is mp.asarray(x, device=..., memory='staging')",
        )
    if to.freed or source.freed:
        raise freed_error()
    if to.shape != source.shape or to.dtype != source.dtype:
        raise LaunchValueError(
            f"copy_from needs equal shapes and types: {to.dtype!r} {to.shape} and {source.dtype!r} {source.shape}"
        )
    if not to._writable:
        raise LaunchValueError("the array is read-only", diagnostic="MPG_LAUNCH_1005")
    recorder = current(to.device)
    if recorder is not None:
        if stream is not None:
            raise LaunchValueError("a copy that a graph records names no stream", diagnostic="MPG_LAUNCH_1022")
        recorder.record_assignment(to, source)
        return
    if stream is not None and stream.device is not to.device:
        raise LaunchValueError(f"the stream belongs to {stream.device.id}, and the array lies on {to.device.id}")
    queue = copier(to, source)
    if queue is None:
        to[...] = source
    else:
        queue(stream=None if stream is None else stream.handle)
