"""Products through tiles in shared memory, for targets whose work-items are many and whose registers are few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from magpie.frontend.graph.lower.indexing import Index, Ints
from magpie.frontend.graph.lower.matmul import MatMul
from magpie.frontend.graph.nodes import Value
from magpie.ir.nodes import Node, SharedArray

__all__ = ["SharedTiles"]


class SharedTiles:
    """A product through shared memory: a workgroup of B x B work-items computes B * rows x B * columns elements.

    For every B elements of the inner dimension, the workgroup copies what it needs of both operands into shared memory,
    zeros where they end, waits, and adds the products; each work-item keeps rows x columns sums, B apart.
    """

    def __init__(self, product: MatMul) -> None:
        self.p = product
        b, size = product.b, product.target.block
        self.size = size
        self.rows = 4 if product.m >= 4 * size else 1
        self.columns = 4 if product.n >= 4 * size else 1
        high, wide = size * self.rows, size * self.columns
        product.block = (size, size, 1)
        product.grid = (-(-product.n // wide), -(-product.m // high), prod(product.batch))
        self.tile_a = SharedArray("tile_a", product.a.dtype, (high, size))
        self.tile_b = SharedArray("tile_b", product.bb.dtype, (size, wide))
        product.kernel.shared += [self.tile_a, self.tile_b]
        self.x, self.y = (b.emit("thread_id", dim=d) for d in (0, 1))
        outer = b.emit("workgroup_id", dim=2) if product.grid[2] > 1 else 0
        self.batch = product.unravel(outer, product.batch)
        self.i = product.mul(b.emit("workgroup_id", dim=1) if product.grid[1] > 1 else 0, high)
        self.j = product.mul(b.emit("workgroup_id", dim=0) if product.grid[0] > 1 else 0, wide)

    def lower(self) -> None:
        p, b = self.p, self.p.b
        zero = b.const(0, p.held)
        totals = [[p.slot(f"s{r}_{c}", zero) for c in range(self.columns)] for r in range(self.rows)]
        with p.loop(p.k, step=self.size, name="k0") as k0:
            for r in range(self.rows):
                self.copy_a(k0, p.add(self.y, r * self.size))
            for c in range(self.columns):
                self.copy_b(k0, p.add(self.x, c * self.size))
            b.emit("barrier")
            for k in range(self.size):
                at = p.node(k)
                ys = [b.load(self.tile_b, at, p.node(p.add(self.x, c * self.size))) for c in range(self.columns)]
                for r in range(self.rows):
                    x = b.load(self.tile_a, p.node(p.add(self.y, r * self.size)), at)
                    for c in range(self.columns):
                        b.set(totals[r][c], p.product(b.get(totals[r][c]), x, ys[c]))
            b.emit("barrier")
        for r in range(self.rows):
            for c in range(self.columns):
                i, j = (
                    p.add(p.add(base, t), n * self.size) for base, t, n in ((self.i, self.y, r), (self.j, self.x, c))
                )
                with self._within((i, p.m, self.rows), (j, p.n, self.columns)):
                    p.write(self.batch, i, j, b.get(totals[r][c]))

    def copy_a(self, k0: Index, row: Index) -> None:
        p = self.p
        i, k = p.add(self.i, row), p.add(k0, self.x)
        self._copied(self.tile_a, (row, self.x), p.a, ((i, p.m, self.rows), (k, p.k, 1)), (*p.a_batch, p.a_row, 1))

    def copy_b(self, k0: Index, column: Index) -> None:
        p = self.p
        k, j = p.add(k0, self.y), p.add(self.j, column)
        self._copied(self.tile_b, (self.y, column), p.bb, ((k, p.k, 1), (j, p.n, self.columns)), (*p.b_batch, p.n, 1))

    def _copied(
        self,
        tile: SharedArray,
        place: tuple[Index, Index],
        value: Value,
        at: tuple[tuple[Index, int, int], tuple[Index, int, int]],
        strides: Ints,
    ) -> None:
        """An element of an operand into a tile; zero behind its end."""
        p, b = self.p, self.p.b
        found = p.slot("copied", b.const(0, value.dtype))
        with self._within(*at):
            b.set(found, p.load(value, p.address(0, (*self.batch, at[0][0], at[1][0]), strides)))
        b.store(tile, tuple(p.node(n) for n in place), b.get(found))

    @contextmanager
    def _within(self, *bounds: tuple[Index, int, int]) -> Iterator[None]:
        """Only where each (coordinate, extent, tiles a workgroup) is inside; what always is, is not asked."""
        p, b = self.p, self.p.b
        holds: Node | None = None
        for at, n, tiles in bounds:
            if n % (self.size * tiles):
                one = b.emit("lt", p.node(at), p.node(n))
                holds = one if holds is None else b.emit("and", holds, one)
        if holds is None:
            yield
            return
        _, then, _ = b.if_(holds)
        with b.into(then):
            yield
