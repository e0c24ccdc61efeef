"""Host arrays for a launch on a device with memory of its own: copied there, and back where the kernel writes.

What a kernel only writes is copied in too: it need not write every element, and the others must come back as they
were. Arrays of the device itself are passed as they are. A launch that writes a host array is complete on return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie.dtypes import Type
from magpie.errors import GpuError, GpuErrorKind, LaunchValueError
from magpie.frontend.python.annotations import Parameter
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.buffer import Buffer, freed_error, running
from magpie.runtime.fastpath import numpy_support
from magpie.runtime.keys import FREED
from magpie.runtime.packing import host_span
from magpie.runtime.scalars import convert

if TYPE_CHECKING:
    from magpie.runtime.device import Device
    from magpie.runtime.driver import Allocation

__all__ = ["staged_function"]


def staged_function(
    kernel: str,
    parameters: Sequence[Parameter],
    layout: KernelLayout,
    types: Sequence[Type | None],
    device: Device,
    bind: Callable[[tuple[Any, ...]], Callable[..., None]],
    general: Callable[..., None] | None,
) -> Callable[..., None]:
    """A function that takes the kernel's arguments and launches; `bind(words)` gives the call for those words.

    `general` launches code that assumes nothing; the call that `bind` gives assumes, where there is one, that no array
    overlaps one that the kernel writes.
    """
    fields = {f.name: f for f in layout.params}
    buffers_at = [(n, fields[p.name]) for n, p in enumerate(parameters) if isinstance(fields.get(p.name), BufferField)]
    written_at = {n for n, f in buffers_at if isinstance(f, BufferField) and f.access in ("write", "read_write")}
    pairs = [(i, j) for i, _ in buffers_at for j, _ in buffers_at if i < j and (i in written_at or j in written_at)]
    overlap = numpy_support().overlap

    def run(*values: Any) -> None:
        if general is not None and any(overlap(values[i], values[j]) for i, j in pairs):
            general(*values)
            return
        stage = _Stage(device)
        words: list[Any] = []
        buffers = tuple(v for v in values if type(v) is Buffer)
        token = object()
        running[token] = (kernel, buffers)
        try:
            if any(b._key is FREED for b in buffers):
                raise freed_error()
            for p, value, type_ in zip(parameters, values, types, strict=True):
                field = fields.get(p.name)
                if isinstance(field, BufferField):
                    written = field.access in ("write", "read_write")
                    words += value._words if type(value) is Buffer else stage.put(value, p.name, written)
                elif field is not None:
                    assert type_ is not None
                    words.append(convert(value, type_, p.name))
            packed = tuple(words)
            try:
                bind(packed)(*packed)
            except GpuError as error:
                # A failed assert or a fault that checked mode left out: arrays hold what the kernel had written.
                if error.diagnostic is not None and error.kind is GpuErrorKind.LaunchFailed:
                    stage.take_back()
                raise
            stage.take_back()
        finally:
            stage.free()
            del running[token]

    return run


class _Stage:
    """The copies of one launch."""

    def __init__(self, device: Device) -> None:
        self.device = device
        # (host array, its contiguous form, device memory, name, written)
        self.copies: list[tuple[Any, Any, Allocation, str, bool]] = []

    def put(self, array: Any, name: str, written: bool) -> tuple[int, ...]:
        """Copy an array to the device; its words there, in C order."""
        import numpy as np

        for n, (other, data, allocation, other_name, other_written) in enumerate(self.copies):
            same = array.shape == other.shape and array.strides == other.strides and array.itemsize == other.itemsize
            if not same or array.ctypes.data != other.ctypes.data:
                if not (written or other_written) or not np.may_share_memory(array, other):
                    continue
                low, high = host_span(array, array.ctypes.data)
                other_low, other_high = host_span(other, other.ctypes.data)
                if low < other_high and other_low < high:
                    raise LaunchValueError(
                        f"arguments {other_name!r} and {name!r} overlap, and copies on {self.device.id} would not",
                        backend=self.device.backend,
                        diagnostic="MPG_LAUNCH_1020",
                        help="pass the whole array once, and offsets; or pass copies",
                    )
                continue
            self.copies[n] = (other, data, allocation, other_name, other_written or written)
            return _words(allocation.address, array.shape)
        data = np.ascontiguousarray(array)
        driver, index = self.device.driver, self.device.index
        allocation = driver.borrow(index, max(1, data.nbytes))
        self.copies.append((array, data, allocation, name, written))
        driver.copy_in(index, allocation.address, data.ctypes.data, data.nbytes)
        return _words(allocation.address, array.shape)

    def take_back(self) -> None:
        """Copy what the kernel wrote."""
        import numpy as np

        driver, index = self.device.driver, self.device.index
        if any(written for *_, written in self.copies):
            driver.synchronize(index)
        for array, data, allocation, _, written in self.copies:
            if written and np.shares_memory(array, data):
                driver.copy_out(index, data.ctypes.data, allocation.address, data.nbytes)
            elif written:
                back = np.empty_like(data)
                driver.copy_out(index, back.ctypes.data, allocation.address, back.nbytes)
                array[...] = back

    def free(self) -> None:
        """Give the copies' memory back."""
        for _, _, allocation, _, _ in self.copies:
            self.device.driver.give_back(self.device.index, allocation)


def _words(address: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return (address, *shape, *strides)
