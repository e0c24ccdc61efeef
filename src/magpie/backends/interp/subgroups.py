"""Subgroup operations on a chunk: lanes as a matrix with one subgroup a row, under the mask of active lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.interp.context import Launch, Mask
from magpie.backends.interp.numerics import combine
from magpie.backends.interp.numerics.groups import reduce_rows, scan_rows
from magpie.backends.interp.numerics.lanes import Lanes, scalar
from magpie.dtypes import DType
from magpie.ir.ops import identity

__all__ = ["Rows", "rows_of"]


class Rows:
    """Where each lane of ``k`` workgroups stands in the matrix of subgroups. The last subgroup may be partial."""

    def __init__(self, launch: Launch, k: int) -> None:
        n, size = launch.group_size, launch.subgroup_size
        self.size = size
        self.width = 1 << (size - 1).bit_length()
        per_group = -(-n // size)
        local = np.tile(np.arange(n), k)
        self.count = k * per_group
        self.row = np.repeat(np.arange(k) * per_group, n) + local // size
        self.lane = local % size
        self.position = self.row * self.width + self.lane
        self.whole = self.width == size and n % size == 0
        self.exists = np.zeros((self.count, self.width), bool)
        self.exists.ravel()[self.position] = True
        self.lanes = len(local)

    def matrix(self, value: Lanes) -> Any:
        """Lanes as rows, in place of lane number; zero where no lane is."""
        value = np.broadcast_to(value, (self.lanes,))
        if self.whole:
            return value.reshape(self.count, self.width)
        found = np.zeros((self.count, self.width), value.dtype)
        found.ravel()[self.position] = value
        return found

    def active(self, mask: Mask) -> Any:
        """The mask as a matrix."""
        return self.exists if mask is True else self.matrix(mask)

    def lane_of(self, row: int, column: int) -> int:
        """The lane number that stands at a place of the matrix."""
        return int(np.flatnonzero((self.row == row) & (self.lane == column))[0])

    def _compact(self, value: Lanes, mask: Mask) -> tuple[Any, Any, Any]:
        """Rows with the active lanes to the left, how many there are, and the rank of each lane."""
        on = self.active(mask)
        count = on.sum(1)
        if mask is True and self.whole:
            return self.matrix(value), count, self.lane
        rank = (np.cumsum(on, 1) - 1).ravel()[self.position]
        lanes = slice(None) if mask is True else mask
        value = np.broadcast_to(value, (self.lanes,))
        found = np.zeros((self.count, self.width), value.dtype)
        found[self.row[lanes], rank[lanes]] = value[lanes]
        return found, count, np.maximum(rank, 0)

    def reduce(self, kind: str, type_: DType, value: Lanes, mask: Mask) -> Lanes:
        """The reduction of the active lanes of each subgroup, for every lane of it."""
        rows, count, _ = self._compact(value, mask)
        return reduce_rows(combine(kind, type_), rows, count)[self.row]

    def scan(self, kind: str, type_: DType, value: Lanes, mask: Mask, exclusive: bool) -> Lanes:
        """The prefix reduction over the active lanes; ``exclusive`` shifts it by one rank."""
        rows, _, rank = self._compact(value, mask)
        found = scan_rows(combine(kind, type_), rows)
        if not exclusive:
            return found[self.row, rank]
        before = found[self.row, np.maximum(rank - 1, 0)]
        return np.where(rank > 0, before, scalar(type_, identity(kind, type_)))

    def shuffle(self, value: Lanes, source: Lanes, mask: Mask) -> tuple[Lanes, Any]:
        """The value of lane ``source`` of the subgroup, own value where it is not active; and where it was active."""
        value = np.broadcast_to(value, (self.lanes,))
        source = np.broadcast_to(source, (self.lanes,))
        inside = (source >= 0) & (source < self.size)
        at = self.row * self.width + np.where(inside, source, 0)
        valid = inside & self.active(mask).ravel()[at]
        return np.where(valid, self.matrix(value).ravel()[at], value), valid

    def ballot(self, cond: Lanes, mask: Mask) -> Lanes:
        """uint64 with a bit for each active lane whose operand is true."""
        bits = np.uint64(1) << np.arange(self.width, dtype=np.uint64)
        on = self.active(mask) & self.matrix(cond)
        return np.where(on, bits[None, :], np.uint64(0)).sum(1, dtype=np.uint64)[self.row]

    def any(self, cond: Lanes, mask: Mask) -> Lanes:
        """Whether an active lane of the subgroup has a true operand."""
        return (self.active(mask) & self.matrix(cond)).any(1)[self.row]

    def all(self, cond: Lanes, mask: Mask) -> Lanes:
        """Whether every active lane of the subgroup has a true operand."""
        on = self.active(mask)
        return (~on | self.matrix(cond)).all(1)[self.row]

    def first(self, mask: Mask) -> Any:
        """True for the lowest active lane of each subgroup."""
        on = self.active(mask)
        return (on.argmax(1)[self.row] == self.lane) & on.ravel()[self.position]


def rows_of(launch: Launch, k: int) -> Rows:
    """The matrix for ``k`` workgroups, made once a launch."""
    found: Rows | None = launch.rows.get(k)
    if found is None:
        found = launch.rows[k] = Rows(launch, k)
    return found
