"""Index arithmetic on Kernel IR: integers that are known stay integers, and strides of views are merged."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from magpie.dtypes import index
from magpie.frontend.graph.nodes import Shape, Value
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node
from magpie.records import record

__all__ = ["Access", "Index", "Indices", "Ints", "collapse", "row_major", "view"]

Ints = tuple[int, ...]
Index = Node | int


def row_major(shape: Shape) -> Ints:
    """Strides in elements."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


@record
class Access:
    """How a value is read at the coordinates of a space: element offset + sum(coordinate * stride)."""

    value: Value
    offset: int
    strides: Ints


def view(value: Value, shape: Shape) -> Access:
    """A value that broadcasts to ``shape``."""
    own = row_major(value.shape)
    lead = len(shape) - len(value.shape)
    strides = [0] * lead + [0 if n == 1 else s for n, s in zip(value.shape, own, strict=True)]
    return Access(value, 0, tuple(strides))


def collapse(shape: Shape, accesses: Sequence[Ints]) -> tuple[Shape, list[Ints]]:
    """The space with as few dimensions as possible in which every one of ``accesses`` (strides) is still linear."""
    kept = [d for d, n in enumerate(shape) if n != 1]
    if not kept:
        return (1,), [(0,)] * len(accesses)
    extents = [shape[kept[0]]]
    rows = [[a[kept[0]]] for a in accesses]
    for d in kept[1:]:
        n = shape[d]
        if all(row[-1] == a[d] * n for row, a in zip(rows, accesses, strict=True)):
            extents[-1] *= n
            for row, a in zip(rows, accesses, strict=True):
                row[-1] = a[d]
        else:
            extents.append(n)
            for row, a in zip(rows, accesses, strict=True):
                row.append(a[d])
    return tuple(extents), [tuple(row) for row in rows]


class Indices:
    """Arithmetic of a builder on indices, folded where operands are known."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

    def node(self, x: Index) -> Node:
        return self.b.const(x, index) if isinstance(x, int) else x

    def add(self, x: Index, y: Index) -> Index:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0 or y == 0:
            return y if x == 0 else x
        return self.b.emit("add", self.node(x), self.node(y))

    def mul(self, x: Index, y: Index) -> Index:
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        if x == 0 or y == 0:
            return 0
        if x == 1 or y == 1:
            return y if x == 1 else x
        return self.b.emit("mul", self.node(x), self.node(y))

    def split(self, x: Index, n: int) -> tuple[Index, Index]:
        """Quotient and remainder by a constant."""
        if isinstance(x, int):
            return divmod(x, n)
        if n == 1:
            return x, 0
        return self.b.emit("floordiv", x, self.node(n)), self.b.emit("mod", x, self.node(n))

    def address(self, offset: Index, coordinates: Sequence[Index], strides: Ints) -> Node:
        """offset + sum(coordinate * stride)."""
        total = offset
        for c, s in zip(coordinates, strides, strict=True):
            total = self.add(total, self.mul(c, s))
        return self.node(total)

    def unravel(self, flat: Index, shape: Shape) -> list[Index]:
        """Coordinates of a row-major number."""
        found: list[Index] = []
        for n in reversed(shape[1:]):
            flat, rest = self.split(flat, n)
            found.append(rest)
        return [flat, *reversed(found)]
