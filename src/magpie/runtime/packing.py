"""From arguments to the words of a layout, and from the words to bytes.

The words of a layout, in parameter order, are what `Loaded.bind(...)`'s function takes: for a buffer its address, its
extents and its strides in elements; for a scalar its value as `struct` packs it (see `scalars.convert`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magpie.ir.layout import BufferField, KernelLayout, ScalarField
from magpie.runtime.scalars import scalar_format

if TYPE_CHECKING:
    import numpy

__all__ = ["Packer", "host_span", "host_words", "struct_format"]


def struct_format(layout: KernelLayout, *, pointer: str = "Q", index: str = "q") -> str:
    """The struct format (without byte order) of the layout's argument block, padding included."""
    parts: list[str] = []
    at = 0

    def put(offset: int, code: str) -> None:
        nonlocal at
        if offset > at:
            parts.append(f"{offset - at}x")
        parts.append(code)
        at = offset + struct.calcsize("<" + code)

    for p in layout.params:
        if isinstance(p, BufferField):
            put(p.offset, pointer)
            for d in range(p.rank):
                put(p.extents + d * struct.calcsize("<" + index), index)
            for d in range(p.rank):
                put(p.strides + d * struct.calcsize("<" + index), index)
        else:
            put(p.offset, scalar_format(p))
    if layout.size > at:
        parts.append(f"{layout.size - at}x")
    return "".join(parts)


class Packer:
    """Packs the words of one layout, and takes them apart again for the host (names to values)."""

    __slots__ = ("format", "layout", "struct", "words")

    def __init__(self, layout: KernelLayout) -> None:
        self.layout = layout
        self.format = struct_format(layout)
        self.struct = struct.Struct("<" + self.format)
        self.words = sum(1 + 2 * p.rank if isinstance(p, BufferField) else 1 for p in layout.params)

    def pack(self, *words: Any) -> bytes:
        """The argument block."""
        return self.struct.pack(*words)

    def split(self, words: tuple[Any, ...]) -> dict[str, Any]:
        """Parameter name -> (address, extents, strides) of a buffer, or the value of a scalar."""
        found: dict[str, Any] = {}
        at = 0
        for p in self.layout.params:
            if isinstance(p, BufferField):
                r = p.rank
                found[p.name] = (words[at], words[at + 1 : at + 1 + r], words[at + 1 + r : at + 1 + 2 * r])
                at += 1 + 2 * r
            else:
                found[p.name] = words[at]
                at += 1
        return found


def host_words(address: Callable[[Any], int]) -> Callable[[numpy.ndarray[Any, Any]], tuple[int, ...]]:
    """A function from a NumPy array to its words; strides in elements."""

    def words(array: numpy.ndarray[Any, Any]) -> tuple[int, ...]:
        shape = array.shape
        size = array.itemsize
        if len(shape) == 1:
            return (address(array), shape[0], array.strides[0] // size)
        return (address(array), *shape, *[s // size for s in array.strides])

    return words


def host_span(array: numpy.ndarray[Any, Any], address: int) -> tuple[int, int]:
    """First byte and the one after the last of a NumPy array."""
    if array.flags.c_contiguous:
        return address, address + array.nbytes
    low = high = address
    for n, s in zip(array.shape, array.strides, strict=True):
        if n == 0:
            return address, address
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    return low, high + array.itemsize


def is_scalar(field: BufferField | ScalarField) -> bool:
    """Whether a parameter goes by value."""
    return isinstance(field, ScalarField)
