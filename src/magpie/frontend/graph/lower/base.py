"""What the lowering of every kind of op shares: parameters, coordinates of work-items, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from magpie.dtypes import DType, i32, index
from magpie.frontend.graph.lower.indexing import Access, Index, Indices, Ints, collapse, row_major
from magpie.frontend.graph.lower.scalars import scalar
from magpie.frontend.graph.lower.target import Target
from magpie.frontend.graph.nodes import Op, Operand, Prev, Shape, Step, Value
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Kernel, Node, Slot
from magpie.passes.access import infer as infer_access
from magpie.records import record

__all__ = ["Constants", "Dims", "Lowered", "Lowering", "merged"]

Dims = tuple[int, int, int]
Constants = Mapping[Value, np.ndarray[Any, Any]]

#: Most workgroups along y and z, on the target with the fewest.
_MOST_ROWS = 65_535


@record
class Lowered:
    """One launch: the kernel, its grid and workgroup size, and the values of its parameters in order.

    ``packed`` are values that only this kernel reads: constants of the graph in an order that suits it, and their data.
    """

    kernel: Kernel
    grid: Dims
    block: Dims
    args: tuple[Value, ...]
    op: Op
    packed: tuple[tuple[Value, np.ndarray[Any, Any]], ...] = ()


class Lowering(Indices):
    """One op on its way to a kernel. ``constants`` with one element are written into the code."""

    def __init__(self, op: Op, name: str, target: Target, constants: Constants) -> None:
        self.op = op
        self.target = target
        self.constants = constants
        self.kernel = Kernel(name, loc=op.loc)
        self.args: list[Value] = []
        self.packed: list[tuple[Value, np.ndarray[Any, Any]]] = []
        self.buffers: dict[Value, Buffer] = {}
        self.grid: Dims = (1, 1, 1)
        self.block: Dims = (1, 1, 1)
        super().__init__(Builder(self.kernel.body, op.loc))

    def lower(self) -> None:
        """Fill the kernel."""
        raise NotImplementedError

    def done(self) -> Lowered:
        self.kernel.workgroup = self.block
        infer_access(self.kernel)
        return Lowered(self.kernel, self.grid, self.block, tuple(self.args), self.op, tuple(self.packed))

    # --- parameters --------------------------------------------------------------------------------------------------
    def buffer(self, value: Value) -> Buffer:
        """The parameter of a value; parameters are in the order in which they are first asked for."""
        found = self.buffers.get(value)
        if found is None:
            letter = "y" if value is self.op.result else f"x{len(self.args)}"
            found = self.buffers[value] = Buffer(letter, value.dtype, 1, loc=value.loc)
            self.kernel.params.append(found)
            self.args.append(value)
        return found

    def pack(self, value: Value, data: np.ndarray[Any, Any]) -> Value:
        """A constant in another order, as a parameter of this kernel alone."""
        packed = Value(f"{value.name}.{self.kernel.name}", value.dtype, data.shape, value.loc)
        self.packed.append((packed, np.ascontiguousarray(data)))
        return packed

    def number(self, value: Value) -> Node | None:
        """The constant of a value with one known element."""
        data = self.constants.get(value)
        if data is None or data.size != 1:
            return None
        return self.b.const(data.reshape(-1)[0].item(), value.dtype)

    def load(self, value: Value, address: Node) -> Node:
        found = self.number(value)
        return self.b.load(self.buffer(value), address) if found is None else found

    # --- coordinates -------------------------------------------------------------------------------------------------
    @contextmanager
    def elements(self, shape: Shape) -> Iterator[list[Index]]:
        """The coordinates of a work-item in a space that is the result's, dimensions merged or not; inside it, the
        work-item has an element."""
        if self.target.flat:
            yield self._flat(shape)
            return
        x, y = shape[-1], shape[-2] if len(shape) > 1 else 1
        rest = prod(shape[:-2])
        if y > _MOST_ROWS or rest > _MOST_ROWS:
            total = prod(shape)
            self._launch(total, 1, 1)
            flat = self.b.emit("global_id", dim=0)
            with self.below(flat, total, 0):
                yield self.unravel(flat, shape)
            return
        self._launch(x, y, rest)
        at_x = self.b.emit("global_id", dim=0)
        at_y: Index = self.b.emit("global_id", dim=1) if y > 1 else 0
        with self.below(at_x, x, 0), self.below(at_y, y, 1):
            before: list[Index] = []
            if len(shape) > 2:
                before = self.unravel(self.b.emit("workgroup_id", dim=2) if rest > 1 else 0, shape[:-2])
            yield [*before, *([at_y] if len(shape) > 1 else []), at_x]

    def _launch(self, x: int, y: int, z: int) -> None:
        group = self.target.group
        bx = min(group, x)
        by = min(max(1, group // bx), y)
        self.block = (bx, by, 1)
        self.grid = (-(-x // bx), -(-y // by), z)

    @contextmanager
    def below(self, at: Index, n: int, dim: int) -> Iterator[None]:
        """Only work-items with ``at`` below ``n``, where the launch has more along ``dim``."""
        if isinstance(at, int) or self.grid[dim] * self.block[dim] == n:
            yield
            return
        _, then, _ = self.b.if_(self.b.emit("lt", at, self.node(n)))
        with self.b.into(then):
            yield

    def _flat(self, shape: Shape) -> list[Index]:
        """tiny-gpu: M workgroups of N work-items for [M, N]."""
        own = self.op.result.shape
        rows, columns = prod(own[:-1]), own[-1] if own else 1
        self.grid, self.block = (rows, 1, 1), (columns, 1, 1)
        if prod(shape) == 1:
            return [0] * len(shape)
        if len(shape) == 1:
            if rows == 1:
                return [self.b.emit("thread_id", dim=0)]
            return [self.b.emit("workgroup_id" if columns == 1 else "global_id", dim=0)]
        if shape[-1] == columns and len(shape) == 2:
            return [self.b.emit("workgroup_id", dim=0), self.b.emit("thread_id", dim=0)]
        if shape[-1] == columns:
            return [
                *self.unravel(self.b.emit("workgroup_id", dim=0), shape[:-1]),
                self.b.emit("thread_id", dim=0),
            ]
        return self.unravel(self.b.emit("global_id", dim=0), shape)

    def split(self, x: Index, n: int) -> tuple[Index, Index]:
        """Quotient and remainder by a constant; without a division, by subtracting."""
        if isinstance(x, int) or n == 1 or not self.target.flat:
            return super().split(x, n)
        b = self.b
        rest, count = self.slot("rest", b.cast(x, i32)), self.slot("count", b.const(0, i32))
        _, body, _ = b.loop()
        with b.into(body):
            b.emit("break_if", b.emit("lt", b.get(rest), b.const(n, i32)))
            b.set(rest, b.emit("add", b.get(rest), b.const(-n, i32)))
            b.set(count, b.emit("add", b.get(count), b.const(1, i32)))
        return b.cast(b.get(count), index), b.cast(b.get(rest), index)

    def compared(self, test: str, x: Index, y: Index) -> Node:
        """A comparison of places. On tiny-gpu of 32 bits, which hold every place in a tensor: it has no wider ones."""
        sides = self.node(x), self.node(y)
        return self.b.emit(test, *((self.b.cast(s, i32) for s in sides) if self.target.flat else sides))

    # --- loops -------------------------------------------------------------------------------------------------------
    @contextmanager
    def loop(self, stop: int, start: Index = 0, step: int = 1, name: str = "k") -> Iterator[Index]:
        """A counted loop; one trip is no loop."""
        if isinstance(start, int) and start + step >= stop > start:
            yield start
            return
        with self.b.counted(self.node(start), self.node(stop), self.node(step), name) as k:
            yield k

    @contextmanager
    def loops(self, shape: Shape) -> Iterator[list[Index]]:
        """Nested loops over a space."""
        if not shape:
            yield []
            return
        with self.loop(shape[0], name=f"r{len(shape)}") as first, self.loops(shape[1:]) as rest:
            yield [first, *rest]

    def slot(self, name: str, start: Node) -> Slot:
        slot = Slot(name, start.dtype)
        self.b.set(slot, start)
        return slot

    # --- steps -------------------------------------------------------------------------------------------------------
    def steps(self, steps: Sequence[Step], results: list[Node], read: Callable[[Value], Node]) -> list[Node]:
        """Append the results of steps to those that there are; ``read`` gives a value's element."""
        seen: dict[Value, Node] = {}

        def argument(a: Operand) -> Node:
            if isinstance(a, Prev):
                return results[a.index]
            if a not in seen:
                seen[a] = read(a)
            return seen[a]

        own = self.b.loc
        for step in steps:
            self.b.loc = step.loc or own
            results.append(self.apply(step.op, dict(step.attrs), [argument(a) for a in step.args], step.dtype))
        self.b.loc = own
        return results

    def apply(self, name: str, attrs: dict[str, Any], args: list[Node], dtype: DType) -> Node:
        """The result of an elementwise op for one element of each operand."""
        if name != "relu" or not self.target.flat:
            return scalar(self.b, name, attrs, args, dtype)
        # a branch over an assignment: what tiny-gpu has in the place of a selection
        value = self.slot("relu", args[0])
        _, _, other = self.b.if_(self.b.emit("gt", self.b.get(value), self.b.const(0, dtype)))
        with self.b.into(other):
            self.b.set(value, self.b.const(0, dtype))
        return self.b.get(value)

    def better(self, kind: str, best: Node, x: Node) -> Node:
        """The larger (``max``) or smaller of two numbers, the first where the second is a NaN; one instruction."""
        if best.dtype.is_int:
            return self.b.emit(kind, best, x)
        return self.b.select(self.b.emit("gt" if kind == "max" else "lt", x, best), x, best)

    def joined(self, kind: str, total: Node, x: Node) -> Node:
        """One more element of a reduction by add, max or min."""
        return self.b.emit("add", total, x) if kind == "add" else self.better(kind, total, x)

    def store(self, address: Node, value: Node) -> None:
        assert value.dtype is self.op.result.dtype, (self.op, value)
        self.b.store(self.buffer(self.op.result), (address,), value)


def merged(shape: Shape, accesses: Sequence[Access]) -> tuple[Shape, list[Access], Ints]:
    """The collapsed space, how it is read, and the strides of the row-major result in it."""
    small, strides = collapse(shape, [row_major(shape), *(a.strides for a in accesses)])
    return (
        small,
        [Access(a.value, a.offset, s) for a, s in zip(accesses, strides[1:], strict=True)],
        strides[0],
    )
