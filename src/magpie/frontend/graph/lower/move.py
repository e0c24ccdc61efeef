"""Ops whose elements come from places that are looked up or compared: concat, gather, pad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from magpie.dtypes import i32, index
from magpie.frontend.graph.lower.base import Lowering
from magpie.frontend.graph.lower.indexing import Index, row_major, view
from magpie.frontend.graph.nodes import Value
from magpie.ir.nodes import Node, Slot

__all__ = ["Concat", "Gather", "Pad"]


class Moving(Lowering):
    """A work-item an element. The epilogue's values are read at the result's own coordinates."""

    def write(self, own: Node, flat: Node) -> None:
        """Apply the epilogue and store; ``flat`` is the element's number in the result."""
        shape = self.op.result.shape
        extra = [v for v in self.op.epilogue_values if self.number(v) is None]
        at = self.unravel(flat, shape) if any(v.shape != shape for v in extra) else []

        def read(value: Value) -> Node:
            known = self.number(value)
            if known is not None:
                return known
            if value.shape == shape:
                return self.load(value, flat)
            return self.load(value, self.address(0, at, view(value, shape).strides))

        self.store(flat, self.steps(self.op.epilogue, [own], read)[-1])

    def operand(self, n: int) -> Value:
        found = self.op.operands[n]
        assert isinstance(found, Value)
        return found


class Concat(Moving):
    def lower(self) -> None:
        axis, shape = self.op.attrs["axis"], self.op.result.shape
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        parts = [self.operand(k) for k in range(len(self.op.operands))]
        with self.elements((outer, shape[axis] * inner)) as (row, at):
            found = Slot("found", self.op.own)
            self._part(parts, 0, row, at, inner, found)
            flat = self.address(0, (row, at), (shape[axis] * inner, 1))
            self.write(self.b.get(found), flat)

    def _part(self, parts: Sequence[Value], start: int, row: Index, at: Index, inner: int, found: Slot) -> None:
        """Set ``found`` from the part that ``at`` lies in; ``parts`` begin at ``start``."""
        first = parts[0]
        axis = self.op.attrs["axis"]
        length = first.shape[axis] * inner
        if len(parts) == 1:
            self._take(first, length, row, at, start, found)
            return
        _, then, other = self.b.if_(self.compared("lt", at, start + length))
        with self.b.into(then):
            self._take(first, length, row, at, start, found)
        with self.b.into(other):
            self._part(parts[1:], start + length, row, at, inner, found)

    def _take(self, part: Value, length: int, row: Index, at: Index, start: int, found: Slot) -> None:
        self.b.set(found, self.load(part, self.address(-start, (row, at), (length, 1))))


class Gather(Moving):
    def lower(self) -> None:
        x, indices = self.operand(0), self.operand(1)
        axis = self.op.attrs["axis"]
        n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
        outer = prod(x.shape[:axis])
        space, strides = [], []  # of the result: outer, place among the indices, inner
        for extent, stride in ((outer, indices.size * inner), (indices.size, inner), (inner, 1)):
            space.append(extent)
            strides.append(stride)
        with self.elements(tuple(space)) as (row, which, column):
            held = i32 if self.target.flat else index  # the sum may wrap where it is not taken
            at = self.b.cast(self.load(indices, self.node(which)), held)
            zero, last = self.b.const(0, held), self.b.const(n - 1, held)
            if indices.dtype.min < 0:
                behind = self.b.emit("add", at, self.b.const(n, held))
                at = self.b.select(self.b.emit("lt", at, zero), behind, at)
            at = self.b.cast(self.b.emit("min", self.b.emit("max", at, zero), last), index)
            own = self.load(x, self.address(0, (row, at, column), (n * inner, inner, 1)))
            self.write(own, self.address(0, (row, which, column), tuple(strides)))


class Pad(Moving):
    def lower(self) -> None:
        x = self.operand(0)
        pads, shape = self.op.attrs["pads"], self.op.result.shape
        rank = len(shape)
        # Dimensions that are not padded are one with the next padded one before them, or with the elements behind.
        cut = max((d for d in range(rank) if shape[d] != x.shape[d]), default=0)
        space: list[tuple[int, int, int]] = []  # extent, extent of the source, elements before
        for d in range(min(cut + 1, rank)):
            inner = prod(shape[cut + 1 :]) if d == cut else 1
            plain = shape[d] == x.shape[d]
            if space and plain and space[-1][0] == space[-1][1] and d != cut:
                extent = space[-1][0] * shape[d]
                space[-1] = (extent, extent, 0)
            else:
                space.append((shape[d] * inner, x.shape[d] * inner, pads[d] * inner))
        space = space or [(1, 1, 0)]  # a value without dimensions
        extents, sources, before = (tuple(s[k] for s in space) for k in range(3))
        with self.elements(extents) as at:
            own = self.slot("value", self.b.const(self.op.attrs["value"], self.op.own))
            inside: Node | None = None
            for c, extent, source, first in zip(at, extents, sources, before, strict=True):
                if source == extent:
                    continue
                for test in ("ge", "lt"):
                    bound = first if test == "ge" else first + source
                    if (test == "ge" and bound == 0) or (test == "lt" and bound == extent):
                        continue
                    holds = self.compared(test, c, bound)
                    inside = holds if inside is None else self.b.emit("and", inside, holds)
            strides = row_major(sources)
            offset = -sum(b * s for b, s in zip(before, strides, strict=True))
            if inside is None:
                self.b.set(own, self.load(x, self.address(offset, at, strides)))
            else:
                _, then, _ = self.b.if_(inside)
                with self.b.into(then):
                    self.b.set(own, self.load(x, self.address(offset, at, strides)))
            self.write(self.b.get(own), self.address(0, at, row_major(extents)))
