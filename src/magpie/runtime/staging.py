"""Host arrays for a launch on a device with memory of its own: copied there, and back where the kernel writes.

What a kernel only writes is copied in too: it need not write every element, and the others must come back as they
were. Arrays of the device itself are passed as they are. A launch that writes a host array is complete on return.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie.dtypes import Type
from magpie.errors import GpuError, GpuErrorKind
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

# A stretch of memory begins at the same place of a line there as here.
_LINE = 64


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
            host_at = [n for n, _ in buffers_at if type(values[n]) is not Buffer]
            host = [(values[n], parameters[n].name, n in written_at) for n in host_at]
            copied = iter(stage.put(host))
            for p, value, type_ in zip(parameters, values, types, strict=True):
                field = fields.get(p.name)
                if isinstance(field, BufferField):
                    words += value._words if type(value) is Buffer else next(copied)
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
        self.memory: list[Allocation] = []
        self.back: list[Callable[[], None]] = []  # each copies something the kernel wrote

    def put(self, arrays: Sequence[tuple[Any, str, bool]]) -> list[tuple[int, ...]]:
        """Copy arrays (each with its name and whether it is written) to the device; the words of each there.

        An array of its own gets a compact copy, in C order. Arrays that overlap where one is written are one stretch
        of memory there too, with the strides that they have here.
        """
        found: list[tuple[int, ...]] = [()] * len(arrays)
        for group in _groups(arrays):
            members = [arrays[n] for n in group]
            same = all(_same(array, members[0][0]) for array, _, _ in members)
            for n, words in zip(group, (self.compact if same else self.stretch)(members), strict=True):
                found[n] = words
        return found

    def allocate(self, size: int) -> int:
        """Device memory until the launch is done."""
        self.memory.append(self.device.driver.borrow(self.device.index, max(1, size)))
        return self.memory[-1].address

    def compact(self, members: Sequence[tuple[Any, str, bool]]) -> list[tuple[int, ...]]:
        """One copy, without gaps, of an array that stands for one parameter or several."""
        import numpy as np

        driver, index = self.device.driver, self.device.index
        array = members[0][0]
        data = np.ascontiguousarray(array)
        address = self.allocate(data.nbytes)
        driver.copy_in(index, address, data.ctypes.data, data.nbytes)

        def back() -> None:
            inside = np.shares_memory(array, data)
            whole = data if inside else np.empty_like(data)
            driver.copy_out(index, whole.ctypes.data, address, whole.nbytes)
            if not inside:
                array[...] = whole

        if any(written for _, _, written in members):
            self.back.append(back)
        return [_words(address, array.shape)] * len(members)

    def stretch(self, members: Sequence[tuple[Any, str, bool]]) -> list[tuple[int, ...]]:
        """One copy of all memory from the first byte of overlapping arrays to their last."""
        import numpy as np

        driver, index = self.device.driver, self.device.index
        spans = [_span(array) for array, _, _ in members]
        low, high = min(a for a, _ in spans), max(b for _, b in spans)
        # Every element is aligned as it is here; and the number of elements before the first is whole, for devices that
        # find an array by that. Sizes that are no powers of two are those of structs, and one stretch has mostly one.
        uneven = next((array for array, _, _ in members if array.itemsize & (array.itemsize - 1)), members[0][0])
        first, size = uneven.ctypes.data - low, uneven.itemsize
        start = self.allocate(high - low + math.lcm(_LINE, size))
        shift = (low - start) % _LINE
        start += next((s for s in range(shift, _LINE * size, _LINE) if (s + first) % size == 0), shift)
        driver.copy_in(index, start, low, high - low)

        def back() -> None:
            whole = np.empty(high - low, np.uint8)
            driver.copy_out(index, whole.ctypes.data, start, high - low)
            for array, _, written in members:
                if written:  # its elements only: what lies between them may have changed here
                    at = array.ctypes.data - low
                    array[...] = np.ndarray(array.shape, array.dtype, whole.data, at, array.strides)

        self.back.append(back)
        found = []
        for array, name, _ in members:
            address, *rest = numpy_support().words(array, name)
            found.append((address - low + start, *rest))
        return found

    def take_back(self) -> None:
        """Copy what the kernel wrote."""
        if self.back:
            self.device.driver.synchronize(self.device.index)
        for back in self.back:
            back()

    def free(self) -> None:
        """Give the copies' memory back."""
        for allocation in self.memory:
            self.device.driver.give_back(self.device.index, allocation)


def _span(array: Any) -> tuple[int, int]:
    return host_span(array, array.ctypes.data)


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays are the same elements in the same order."""
    there = a.ctypes.data == b.ctypes.data
    return bool(there and a.shape == b.shape and a.strides == b.strides and a.itemsize == b.itemsize)


def _groups(arrays: Sequence[tuple[Any, str, bool]]) -> list[list[int]]:
    """Numbers of arrays that have one copy together: the same array, and arrays that overlap one that is written."""
    spans = [_span(array) for array, _, _ in arrays]
    groups: list[list[int]] = []
    for n, (array, _, written) in enumerate(arrays):
        low, high = spans[n]

        def joins(m: int, array: Any = array, low: int = low, high: int = high, written: bool = written) -> bool:
            other, _, other_written = arrays[m]
            overlap = low < spans[m][1] and spans[m][0] < high
            return overlap and (written or other_written or _same(array, other))

        joined = [g for g in groups if any(joins(m) for m in g)]
        groups = [g for g in groups if g not in joined] + [[*(m for g in joined for m in g), n]]
    return groups


def _words(address: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return (address, *shape, *strides)
