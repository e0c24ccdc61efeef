"""softmax and layernorm, and long reductions: a workgroup takes a row, its work-items reduce together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from magpie.dtypes import DType, f32
from magpie.frontend.graph.lower.indexing import Index, view
from magpie.frontend.graph.lower.reduce import KINDS, Reducing, wide
from magpie.frontend.graph.nodes import Value
from magpie.ir.nodes import Node, SharedArray

__all__ = ["LayerNorm", "RowReduce", "Softmax", "takes_rows"]

#: Elements of a row that a work-item keeps in registers.
_KEPT = 8

#: Work-items of a row's workgroup where the size of subgroups is not known.
_GROUP = 64


def takes_rows(lowering: Reducing) -> bool:
    """Whether a prepared reduction is over rows of consecutive elements that are worth a workgroup each."""
    if lowering.target.flat or len(lowering.reduced) != 1 or lowering.reduced[0] < 32:
        return False
    return any(s == (1,) for s in lowering.inner.values()) and all(s in ((0,), (1,)) for s in lowering.inner.values())


class Rows(Reducing):
    """A row: elements are at ``t``, ``t + size``, ... for work-item t."""

    def start_rows(self) -> Sequence[Index]:
        """One workgroup a row; gives the coordinates of the row."""
        b = self.b
        (self.length,) = self.reduced
        self.size = self.target.subgroup or _GROUP
        rows = math.prod(self.kept)
        self.grid, self.block = (rows, 1, 1), (self.size, 1, 1)
        self.t = b.emit("thread_id", dim=0)
        row: Index = b.emit("workgroup_id", dim=0) if rows > 1 else 0
        self.trips = -(-self.length // self.size)
        self.kept_values: list[Node] | None = None
        return self.unravel(row, self.kept)

    def each(self, body: Callable[[int | None, Index], None]) -> None:
        """Call ``body`` with the number of the trip, None in a loop, and the place in the row."""
        if self.trips > _KEPT:
            with self.b.counted(self.t, self.node(self.length), self.node(self.size)) as k:
                body(None, k)
            return
        for trip in range(self.trips):
            at = self.add(self.t, trip * self.size)
            if (trip + 1) * self.size <= self.length:
                body(trip, at)
            else:
                _, then, _ = self.b.if_(self.b.emit("lt", self.node(at), self.node(self.length)))
                with self.b.into(then):
                    body(trip, at)

    def together(self, kind: str, value: Node, name: str) -> Node:
        """The reduction of a value over the workgroup, for all of its work-items."""
        b = self.b
        if self.target.subgroup:
            return b.emit("subgroup_reduce", value, kind=kind)
        array = SharedArray(name, value.dtype, (self.size,))
        self.kernel.shared.append(array)
        b.store(array, (self.t,), value)
        half = self.size // 2
        while half:
            b.emit("barrier")
            _, then, _ = b.if_(b.emit("lt", self.t, self.node(half)))
            with b.into(then):
                other = b.load(array, self.node(self.add(self.t, half)))
                b.store(array, (self.t,), self.joined(kind, b.load(array, self.t), other))
            half //= 2
        b.emit("barrier")
        return b.load(array, self.node(0))

    def reduced_row(self, kind: str, start: Node, element: Callable[[int | None, Index], Node], name: str) -> Node:
        """The reduction of ``element`` over the row."""
        b = self.b
        total = self.slot(name, start)

        def body(trip: int | None, at: Index) -> None:
            x = element(trip, at)
            b.set(total, self.joined(kind, b.get(total), x))

        self.each(body)
        return self.together(kind, b.get(total), name)


class RowReduce(Rows):
    """reduce_* over rows."""

    def lower(self) -> None:
        op, b = self.op, self.b
        row = self.start_rows()
        kind = KINDS[op.name]
        held = wide(op.own) if kind == "add" else op.own
        start = 0 if kind == "add" else _worst(kind, held)
        total = self.reduced_row(
            kind, b.const(start, held), lambda trip, at: b.cast(self.element(row, [at]), held), "total"
        )
        if op.name == "reduce_mean":
            total = b.emit("div", total, b.const(self.length, held))
        _, then, _ = b.if_(b.emit("eq", self.t, self.node(0)))
        with b.into(then):
            self.store(self.address(0, row, self.out), self.finished(b.cast(total, op.own), row))


def _worst(kind: str, dtype: DType) -> float | int:
    low = kind == "max"
    if dtype.is_float:
        return -math.inf if low else math.inf
    return dtype.min if low else dtype.max


class RowWise(Rows):
    """Ops with a result for each element of a row. The values of a short row stay in registers."""

    def prepare(self, axis: int) -> None:
        self.split_space((axis,))
        shape = self.op.result.shape
        self.axis = axis
        self.result_inner = math.prod(shape[axis + 1 :])

    def values(self, row: Sequence[Index]) -> Callable[[int | None, Index], Node]:
        """Reads elements of the row in f32, each once where the row is short."""
        b = self.b
        slots: dict[int, Any] = {}

        def read(trip: int | None, at: Index) -> Node:
            if trip is None:
                return b.cast(self.element(row, [at]), f32)
            if trip not in slots:
                slots[trip] = self.slot(f"x{trip}", b.cast(self.element(row, [at]), f32))
            return b.get(slots[trip])

        return read

    def write(self, row: Sequence[Index], at: Index, own: Node) -> None:
        """An element of the result, through the epilogue."""
        op = self.op
        address = self.address(self.node(self.address(0, row, self.out)), [at], (self.result_inner,))
        value = self.b.cast(own, op.own)

        def read(v: Value) -> Node:
            strides = _axis_stride(v, op.result.shape, self.axis)
            return self.load(v, self.address(self.address(0, row, self.after[v]), [at], (strides,)))

        self.store(address, self.steps(op.epilogue, [value], read)[-1])


def _axis_stride(value: Value, shape: tuple[int, ...], axis: int) -> int:
    return view(value, shape).strides[axis]


class Softmax(RowWise):
    def lower(self) -> None:
        b = self.b
        self.prepare(self.op.attrs["axis"])
        row = self.start_rows()
        x = self.values(row)
        top = self.reduced_row("max", b.const(-math.inf, f32), x, "top")
        powers: dict[int, Any] = {}

        def power(trip: int | None, at: Index) -> Node:
            if trip is None:
                return b.emit("exp", b.emit("sub", x(trip, at), top))
            if trip not in powers:
                powers[trip] = self.slot(f"e{trip}", b.emit("exp", b.emit("sub", x(trip, at), top)))
            return b.get(powers[trip])

        total = self.reduced_row("add", b.const(0.0, f32), power, "total")
        scale = b.emit("div", b.const(1.0, f32), total)
        self.each(lambda trip, at: self.write(row, at, b.emit("mul", power(trip, at), scale)))


class LayerNorm(RowWise):
    def lower(self) -> None:
        b, op = self.b, self.op
        self.prepare(len(op.result.shape) - 1)
        row = self.start_rows()
        x = self.values(row)
        count = b.const(self.length, f32)
        mean = b.emit("div", self.reduced_row("add", b.const(0.0, f32), x, "sum"), count)

        def square(trip: int | None, at: Index) -> Node:
            d = b.emit("sub", x(trip, at), mean)
            return b.emit("mul", d, d)

        variance = b.emit("div", self.reduced_row("add", b.const(0.0, f32), square, "squares"), count)
        root = b.emit("sqrt", b.emit("add", variance, b.const(op.attrs["epsilon"], f32)))
        scale = b.emit("div", b.const(1.0, f32), root)
        weights = [v for v in op.operands[1:] if isinstance(v, Value)]

        def write(trip: int | None, at: Index) -> None:
            w, c = (b.cast(self.load(v, self.node(at)), f32) for v in weights)
            centred = b.emit("mul", b.emit("sub", x(trip, at), mean), scale)
            self.write(row, at, b.emit("add", b.emit("mul", centred, w), c))

        self.each(write)
