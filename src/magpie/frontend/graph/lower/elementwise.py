"""Elementwise ops and ops that only move elements along strides: a work-item an element of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from magpie.frontend.graph.lower.base import Lowering, merged
from magpie.frontend.graph.lower.indexing import Access, Index, row_major, view
from magpie.frontend.graph.nodes import Shape, Value
from magpie.ir.nodes import Node

__all__ = ["Elementwise", "Strided"]

Read = Callable[[Value], Node]


class Elementwise(Lowering):
    """An elementwise op with its epilogue."""

    def lower(self) -> None:
        values = self.op.reads
        shape, accesses, out = merged(self.op.result.shape, [self.access(v) for v in values])
        known = dict(zip(values, accesses, strict=True))
        along, count = self.together(shape, accesses)
        space = tuple(n // count if d == along else n for d, n in enumerate(shape))
        with self.elements(space) as first:
            places = [list(first) for _ in range(count)]
            for k, at in enumerate(places):
                at[along] = self.add(self.mul(at[along], count), k)

            def reader(at: list[Index]) -> Read:
                def read(value: Value) -> Node:
                    found = known[value]
                    return self.load(value, self.address(found.offset, at, found.strides))

                return read

            owns = [self.own(reader(at)) for at in places]
            for at, own in zip(places, owns, strict=True):
                done = self.steps(self.op.epilogue, [own], reader(at))[-1]
                self.store(self.address(0, at, out), done)

    def together(self, shape: Shape, accesses: Sequence[Access]) -> tuple[int, int]:
        """A dimension along which a work-item takes several elements, and how many: one."""
        return 0, 1

    def access(self, value: Value) -> Access:
        """How a value that the op reads is read in the space of the result."""
        return view(value, self.op.result.shape)

    def own(self, read: Read) -> Node:
        """The op's own value."""
        operands = [read(v) for v in self.op.operands if isinstance(v, Value)]
        return self.apply(self.op.name, self.op.attrs, operands, self.op.own)


class Strided(Elementwise):
    """transpose, slice, and reshape where memory is not shared."""

    def together(self, shape: Shape, accesses: Sequence[Access]) -> tuple[int, int]:
        """Where the lanes of a target stride through what is read, a work-item takes elements that lie side by side.

        What several lanes read is whole vectors and shuffles then: a transposition takes an eighth of the time.
        """
        strides = accesses[0].strides
        if self.target.lanes and strides[-1] > 1 and 1 in strides[:-1]:
            along = strides.index(1)
            for count in (16, 8, 4, 2):
                if shape[along] % count == 0:
                    return along, count
        return 0, 1

    def access(self, value: Value) -> Access:
        if value is not self.op.operands[0]:
            return super().access(value)
        own, attrs = row_major(value.shape), self.op.attrs
        if self.op.name == "transpose":
            return Access(value, 0, tuple(own[p] for p in attrs["perm"]))
        if self.op.name == "slice":
            offset = sum(a * s for a, s in zip(attrs["starts"], own, strict=True))
            return Access(value, offset, tuple(s * step for s, step in zip(own, attrs["steps"], strict=True)))
        return Access(value, 0, row_major(self.op.result.shape))

    def own(self, read: Read) -> Node:
        (operand,) = self.op.operands
        assert isinstance(operand, Value)
        return read(operand)
