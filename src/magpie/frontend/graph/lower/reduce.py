"""Reductions: a work-item an element of the result, or a workgroup where rows are long and contiguous."""

from __future__ import annotations

import math
from collections.abc import Sequence

from magpie.dtypes import DType, f32, i32
from magpie.frontend.graph.lower.base import Lowering
from magpie.frontend.graph.lower.indexing import Index, Ints, collapse, view
from magpie.frontend.graph.nodes import Op, Shape, Value
from magpie.frontend.graph.rules import broadcast_shapes
from magpie.ir.nodes import Node

__all__ = ["KINDS", "Reduce", "Reducing"]

#: Kernel IR's op of each reduction.
KINDS = {
    "reduce_sum": "add",
    "reduce_mean": "add",
    "reduce_max": "max",
    "reduce_min": "min",
}


class Reducing(Lowering):
    """What reductions and row ops share: the space, split into what is kept and what is reduced."""

    def split_space(self, axes: Sequence[int]) -> None:
        """Prepare to read the first operand, or the prologue's values, over kept and reduced dimensions."""
        op = self.op
        self.inputs = op.prologue_values if op.prologue else tuple(v for v in op.operands[:1] if isinstance(v, Value))
        shape = self.space()
        self.kept_dims = [d for d in range(len(shape)) if d not in axes]
        full = {v: view(v, shape).strides for v in self.inputs}
        kept = tuple(shape[d] for d in self.kept_dims)
        reads = [tuple(full[v][d] for d in self.kept_dims) for v in self.inputs]
        others = [self.result_strides(v, kept) for v in op.epilogue_values]
        self.kept, strides = collapse(kept, [self.result_strides(op.result, kept), *others, *reads])
        self.out, rest = strides[0], strides[1:]
        self.after = dict(zip(op.epilogue_values, rest, strict=False))
        self.before = dict(zip(self.inputs, rest[len(others) :], strict=True))
        self.reduced, inner = collapse(
            tuple(shape[a] for a in axes), [tuple(full[v][a] for a in axes) for v in self.inputs]
        )
        self.inner = dict(zip(self.inputs, inner, strict=True))

    def space(self) -> Shape:
        """The shape of what is reduced."""
        if not self.op.prologue:
            (first, *_) = self.op.operands
            assert isinstance(first, Value)
            return first.shape
        return prologue_shape(self.op)

    def result_strides(self, value: Value, kept: Shape) -> Ints:
        """Strides of a value of the result's shape over the kept dimensions."""
        op = self.op
        strides = view(value, op.result.shape).strides
        if len(strides) == len(kept):
            return strides
        return tuple(strides[d] for d in self.kept_dims)

    def element(self, at: Sequence[Index], inner: Sequence[Index]) -> Node:
        """The element that is reduced: the operand's, or what the prologue makes of what it reads."""

        def read(value: Value) -> Node:
            offset = self.address(0, at, self.before[value])
            return self.load(value, self.address(offset, inner, self.inner[value]))

        if not self.op.prologue:
            return read(self.inputs[0])
        return self.steps(self.op.prologue, [], read)[-1]

    def finished(self, own: Node, at: Sequence[Index]) -> Node:
        """A result of the kept space through the epilogue."""
        return self.steps(self.op.epilogue, [own], lambda v: self.load(v, self.address(0, at, self.after[v])))[-1]


def prologue_shape(op: Op) -> Shape:
    """The common shape of a prologue's steps."""
    shape: Shape = ()
    for value in op.prologue_values:
        shape = broadcast_shapes(shape, value.shape)
    for step in op.prologue:
        if step.op == "broadcast":
            shape = broadcast_shapes(shape, dict(step.attrs)["shape"])
    return shape


def wide(dtype: DType) -> DType:
    """What sums of a dtype are held in."""
    return f32 if dtype.is_float else i32


class Reduce(Reducing):
    """reduce_sum, reduce_mean, reduce_max, reduce_min and argmax."""

    def lower(self) -> None:
        op = self.op
        axes = (op.attrs["axis"],) if op.name == "argmax" else op.attrs["axes"]
        self.split_space(axes)
        with self.elements(self.kept) as at:
            own = self._argmax(at) if op.name == "argmax" else self._reduced(at)
            self.store(self.address(0, at, self.out), self.finished(own, at))

    def _reduced(self, at: Sequence[Index]) -> Node:
        op, b = self.op, self.b
        kind = KINDS[op.name]
        sums = kind == "add"
        held = wide(op.own) if sums else op.own
        total = self.slot("total", b.const(_start(kind, held), held))
        with self.loops(self.reduced) as inner:
            x = b.cast(self.element(at, inner), held)
            b.set(total, self.joined(kind, b.get(total), x))
        result = b.get(total)
        if op.name == "reduce_mean":
            # Not times the reciprocal: the mean of equal elements is theirs.
            result = b.emit("div", result, b.const(math.prod(self.reduced), held))
        return b.cast(result, op.own)

    def _argmax(self, at: Sequence[Index]) -> Node:
        b = self.b
        first = self.element(at, [0] * len(self.reduced))
        best, place = self.slot("best", first), self.slot("place", b.const(0, i32))
        (n,) = self.reduced
        if n > 1:
            with b.counted(self.node(1), self.node(n), self.node(1)) as k:
                x = self.element(at, [k])
                _, then, _ = b.if_(self._larger(x, b.get(best)))
                with b.into(then):
                    b.set(best, x)
                    b.set(place, b.cast(k, i32))
        return b.get(place)

    def _larger(self, x: Node, best: Node) -> Node:
        """Whether x is above the best so far; every number is above a NaN, and no NaN is above anything."""
        b = self.b
        if not x.dtype.is_float:
            return b.emit("gt", x, best)
        return b.emit("and", b.emit("not", b.emit("le", x, best)), b.emit("eq", x, x))


def _start(kind: str, dtype: DType) -> float | int:
    if kind == "add":
        return 0
    low = kind == "max"
    if dtype.is_float:
        return -math.inf if low else math.inf
    return dtype.min if low else dtype.max
