"""Parts of memory that is too large for one binding, or whose elements do not begin where bindings may."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.drivers.vk.results import BACKEND

if TYPE_CHECKING:
    from magpie.ir.layout import BufferField
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.descriptors import Info
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["window"]


def window(
    context: Context, kernel: str, field: BufferField, size: int, piece: Piece, address: int, *words: int
) -> tuple[Info, int]:
    """What to bind for an array of elements of ``size`` bytes, and the number of its first element in that.

    ``words`` are the array's extents and strides. Raises GpuError BufferError where the array is too large.
    """
    low, high = _span(address, size, words[: field.rank], words[field.rank :])
    align = int(context.physical.limits.minStorageBufferOffsetAlignment)
    # A whole number of elements before the first, at a multiple of the alignment.
    base = piece.address - piece.offset  # of the buffer, which begins at one
    start = low
    while start >= base and (start - base) % align:
        start -= size
        if low - start > math.lcm(size, align):
            start = base - 1
    if start < base:
        raise GpuError(
            GpuErrorKind.BufferError,
            BACKEND,
            f"argument {field.name!r} of kernel {kernel!r} begins at byte {address - piece.address} of its memory: "
            f"{context.name} cannot address elements of {size} bytes from there",
            help="pass a copy of the array",
        )
    nbytes = high - start + -(high - start) % 4
    most = context.memory.most_bound
    if nbytes > most:
        raise GpuError(
            GpuErrorKind.BufferError,
            BACKEND,
            f"argument {field.name!r} of kernel {kernel!r} spans {high - low:,} bytes, and {context.name} lets a "
            f"kernel have {most:,} of an array",
            help="launch on parts of the array, such as x[:n] and x[n:]",
        )
    return (piece.buffer, start - base, max(4, nbytes)), (address - start) // size


def _span(address: int, size: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """The first byte of an array, and the one behind its last."""
    if 0 in extents:
        return address, address
    reach = [(n - 1) * s * size for n, s in zip(extents, strides, strict=True)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + size
