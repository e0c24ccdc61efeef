"""Products of matrices: a work-item an element, or a tile of elements in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from magpie.frontend.graph.lower.base import Lowering
from magpie.frontend.graph.lower.indexing import Index, Ints, collapse, row_major, view
from magpie.frontend.graph.lower.reduce import wide
from magpie.frontend.graph.nodes import Shape, Value
from magpie.ir.nodes import Node, SharedArray, Slot

__all__ = ["MatMul"]

#: Workgroups that a product should have at least, so that threads have something to share.
_GROUPS = 2


class MatMul(Lowering):
    """matmul with its epilogue."""

    def lower(self) -> None:
        self.prepare()
        if self.target.flat:
            self._flat_element()
        elif self.target.lanes:
            self._tiles()
        elif self.target.block and min(self.m, self.n, self.k) >= self.target.block:
            from magpie.frontend.graph.lower.shared_tiles import SharedTiles

            SharedTiles(self).lower()
        else:
            self._element()

    def prepare(self) -> None:
        """The space as batches, rows and columns; batches are rows where all that is read allows it."""
        op = self.op
        self.a, self.bb = (v for v in op.operands if isinstance(v, Value))
        *batch, self.m, self.n = op.result.shape
        self.k = self.a.shape[-1]
        self.held = wide(op.own)
        shape = tuple(batch)
        scale_a, scale_b = self.m * self.k, self.k * self.n
        a = tuple(s * scale_a for s in view(_batch(self.a), shape).strides)
        b = tuple(s * scale_b for s in view(_batch(self.bb), shape).strides)
        others = [view(v, op.result.shape).strides for v in op.epilogue_values]
        out = row_major(op.result.shape)
        rows, strides = collapse((*shape, self.m), [(*a, self.k), (*b, 0), out[:-1], *(s[:-1] for s in others)])
        self.batch: Shape
        self.a_batch: Ints
        self.b_batch: Ints
        self.out_batch: Ints
        self.other: dict[Value, tuple[Ints, int, int]]
        if len(rows) == 1 and not any(b):
            self.batch, self.m = (1,), rows[0]
            self.a_batch = self.b_batch = self.out_batch = (0,)
            (self.a_row,), _, (self.out_row,), *rest = strides
            self.other = {
                v: ((0,), s[0], full[-1]) for v, s, full in zip(op.epilogue_values, rest, others, strict=True)
            }
            return
        self.batch, strides = collapse(shape, [a, b, out[:-2], *(s[:-2] for s in others)])
        self.a_batch, self.b_batch, self.out_batch, *rest = strides
        self.a_row, self.out_row = self.k, self.n
        self.other = {v: (s, full[-2], full[-1]) for v, s, full in zip(op.epilogue_values, rest, others, strict=True)}

    def write(self, batch: Sequence[Index], i: Index, j: Index, own: Node) -> None:
        """Element [i, j] through the epilogue."""

        def read(value: Value) -> Node:
            outer, row, column = self.other[value]
            return self.load(value, self.address(0, (*batch, i, j), (*outer, row, column)))

        done = self.steps(self.op.epilogue, [self.b.cast(own, self.op.own)], read)[-1]
        self.store(self.address(0, (*batch, i, j), (*self.out_batch, self.out_row, 1)), done)

    def product(self, total: Node, x: Node, y: Node) -> Node:
        """total + x * y in what sums are held in."""
        x, y = self.b.cast(x, self.held), self.b.cast(y, self.held)
        if self.target.fused and self.held.is_float:
            return self.b.emit("fma", x, y, total)
        return self.b.emit("add", total, self.b.emit("mul", x, y))

    # --- an element each ---------------------------------------------------------------------------------------------
    def _element(self) -> None:
        with self.elements((*self.batch, self.m, self.n)) as (*batch, i, j):
            a0 = self.address(0, (*batch, i), (*self.a_batch, self.a_row))
            b0 = self.address(0, (*batch, j), (*self.b_batch, 1))
            total = self.slot("total", self.b.const(0, self.held))
            with self.loop(self.k) as k:
                x = self.load(self.a, self.node(self.add(a0, k)))
                y = self.load(self.bb, self.address(b0, (k,), (self.n,)))
                self.b.set(total, self.product(self.b.get(total), x, y))
            self.write(batch, i, j, self.b.get(total))

    def _flat_element(self) -> None:
        """tiny-gpu: block [batch, i] has the thread j; with ``staged``, the block's row of A is in shared memory."""
        space = (*(() if self.batch == (1,) else self.batch), self.m, self.n)
        with self.elements(space) as at:
            *outer, i, j = at if len(at) > 1 else (0, *at)
            batch = outer or [0]
            row = self.address(0, (*batch, i), (*self.a_batch, self.a_row))
            staged = self._stage(row, j) if self.target.staged and self.k > 1 and self.number(self.a) is None else None
            b0 = self.address(0, (*batch, j), (*self.b_batch, 1))
            total = self.slot("total", self.b.const(0, self.held))
            with self.loop(self.k) as k:
                x = (
                    self.load(self.a, self.node(self.add(row, k)))
                    if staged is None
                    else self.b.load(staged, self.node(k))
                )
                y = self.load(self.bb, self.address(b0, (k,), (self.n,)))
                self.b.set(total, self.product(self.b.get(total), x, y))
            self.write(batch, i, j, self.b.get(total))

    def _stage(self, row: Node, j: Index) -> SharedArray:
        """Copy the workgroup's row of A to shared memory, a work-item every n-th element."""
        tile = SharedArray("row", self.a.dtype, (self.k,))
        self.kernel.shared.append(tile)
        for start in range(0, self.k, self.n):
            at = self.node(self.add(j, start))
            if start + self.n <= self.k:
                self.b.store(tile, (at,), self.load(self.a, self.node(self.add(row, at))))
                continue
            _, then, _ = self.b.if_(self.b.emit("lt", at, self.node(self.k)))
            with self.b.into(then):
                self.b.store(tile, (at,), self.load(self.a, self.node(self.add(row, at))))
        self.b.emit("barrier")
        return tile

    # --- tiles in registers ------------------------------------------------------------------------------------------
    def _tiles(self) -> None:
        lanes, room = self.target.lanes, self.target.rows * self.target.columns
        vectors = -(-self.n // lanes)
        rows = min(self.target.rows, self.m)
        columns = max(1, min(vectors, room // rows))
        if vectors > columns and vectors % columns and columns > 1 and vectors % (columns - 1) == 0:
            columns -= 1
        rows = min(self.m, max(rows, min(room // columns, 16)))
        while columns > 2 and -(-self.m // rows) * -(-vectors // columns) * prod(self.batch) < _GROUPS:
            columns //= 2  # a row or two by a long matrix: for several threads
        across = lanes * columns
        self.block = (lanes, 1, 1)
        self.grid = (-(-self.n // across), -(-self.m // rows), prod(self.batch))
        b = self.b
        batch = self.unravel(b.emit("workgroup_id", dim=2) if self.grid[2] > 1 else 0, self.batch)
        band: Index = b.emit("workgroup_id", dim=1) if self.grid[1] > 1 else 0
        panel: Index = b.emit("workgroup_id", dim=0) if self.grid[0] > 1 else 0
        i, j = self.mul(band, rows), self.add(self.mul(panel, across), b.emit("thread_id", dim=0))
        with self._either(band, self.m, rows) as parts:
            for region, count in parts:
                with b.into(region):
                    self._columns(batch, i, j, panel, count, columns)

    @contextmanager
    def _either(self, at: Index, n: int, size: int) -> Iterator[list[tuple[list[Node], int]]]:
        """The regions of the workgroups whose tile is whole, and of those at the end, with how much they have."""
        rest = n % size
        if not rest or isinstance(at, int):
            yield [(self.b.region, rest or size)]
            return
        _, then, other = self.b.if_(self.b.emit("lt", at, self.node(n // size)))
        yield [(then, size), (other, rest)]

    def _columns(self, batch: Sequence[Index], i: Index, j: Index, panel: Index, rows: int, columns: int) -> None:
        lanes = self.target.lanes
        with self._either(panel, self.n, lanes * columns) as parts:
            for region, count in parts:
                with self.b.into(region):
                    full, rest = divmod(count, lanes)
                    if full:
                        self._tile(batch, i, j, rows, full)
                    if rest:
                        last = self.node(self.add(j, full * lanes))
                        _, then, _ = self.b.if_(self.b.emit("lt", last, self.node(self.n)))
                        with self.b.into(then):
                            self._tile(batch, i, last, rows, 1)

    def _tile(self, batch: Sequence[Index], i: Index, j: Index, rows: int, columns: int) -> None:
        b, lanes = self.b, self.target.lanes
        a0 = [self.address(0, (*batch, self.add(i, r)), (*self.a_batch, self.a_row)) for r in range(rows)]
        b0 = self.address(0, (*batch, j), (*self.b_batch, 1))
        zero = b.const(0, self.held)
        totals: list[list[Slot]] = [[self.slot(f"s{r}_{c}", zero) for c in range(columns)] for r in range(rows)]
        with self.loop(self.k) as k:
            at = self.address(b0, (k,), (self.n,))
            ys = [b.cast(self.load(self.bb, self.node(self.add(at, c * lanes))), self.held) for c in range(columns)]
            for r in range(rows):
                x = b.cast(self.load(self.a, self.node(self.add(a0[r], k))), self.held)
                for c in range(columns):
                    b.set(totals[r][c], self.product(b.get(totals[r][c]), x, ys[c]))
        for r in range(rows):
            for c in range(columns):
                self.write(batch, self.add(i, r), self.add(j, c * lanes), b.get(totals[r][c]))


def _batch(value: Value) -> Value:
    """A value of the batches of a matrix alone, one element each."""
    return Value("", value.dtype, value.shape[:-2])
