"""Pieces of one block of memory: best fit, and free neighbours become one piece again."""

from __future__ import annotations

from bisect import bisect_left, insort

__all__ = ["Ranges"]


class Ranges:
    """The free pieces of ``size`` bytes. Sizes and offsets that are given out are multiples of ``unit``."""

    __slots__ = ("_by_end", "_by_start", "_sizes", "free", "size", "unit")

    def __init__(self, size: int, unit: int) -> None:
        self.size = size
        self.unit = unit
        self.free = 0
        self._by_start: dict[int, int] = {}  # offset -> size
        self._by_end: dict[int, int] = {}  # end -> offset
        self._sizes: list[tuple[int, int]] = []  # (size, offset), sorted
        self._add(0, size - size % unit)

    def take(self, size: int) -> int | None:
        """The offset of a piece of at least ``size`` bytes; None where there is none that large."""
        size = self.rounded(size)
        at = bisect_left(self._sizes, (size, 0))
        if at == len(self._sizes):
            return None
        found, offset = self._sizes[at]
        self._remove(offset, found)
        if found > size:
            self._add(offset + size, found - size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Give a piece back, with the size that it was asked for with."""
        size = self.rounded(size)
        before = self._by_end.get(offset)
        if before is not None:
            self._remove(before, offset - before)
            size += offset - before
            offset = before
        after = self._by_start.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        self._add(offset, size)

    def rounded(self, size: int) -> int:
        """What a piece of ``size`` bytes takes."""
        return max(self.unit, size + -size % self.unit)

    @property
    def empty(self) -> bool:
        """Nothing of it is given out."""
        return len(self._sizes) == 1 and self._sizes[0][0] == self.size - self.size % self.unit

    def _add(self, offset: int, size: int) -> None:
        if size:
            self._by_start[offset] = size
            self._by_end[offset + size] = offset
            insort(self._sizes, (size, offset))
            self.free += size

    def _remove(self, offset: int, size: int) -> None:
        del self._by_start[offset]
        del self._by_end[offset + size]
        del self._sizes[bisect_left(self._sizes, (size, offset))]
        self.free -= size
