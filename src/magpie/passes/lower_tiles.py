"""Matrix tiles as ordinary operations: what they mean, and how targets without matrix units run them.

A tile becomes a local array. Lane l of a subgroup holds the columns l, l + n, l + 2n, ..., so that a row of it is a few
vectors and a product is, for each k, a broadcast element of the left operand times a row of the right one. Where a row
is shorter than a subgroup, the lanes beyond it hold copies. Blocks of 4 rows by a few vectors stay in registers for 16
steps of k; each element is summed in the order of k, with one rounding a step.

Copies to shared memory are made at once, one row after the other by each subgroup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from magpie.diagnostics import CompileError
from magpie.dtypes import DType, f32, index, u32
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, Slot, walk
from magpie.ir.tiles import TILE_OPS, Tile
from magpie.passes.rewrite import Rewriter
from magpie.passes.tile_rules import SUBGROUP, check_tiles

__all__ = ["LOWERED", "has_tiles", "lower_tiles"]

#: The ops that no kernel has afterwards.
LOWERED = TILE_OPS | {"copy_async", "copy_wait"}

# The block of an accumulator that stays in registers: rows, and steps of k.
_ROWS, _DEPTH = 4, 16


def has_tiles(kernel: Kernel) -> bool:
    """Whether there is something to lower."""
    return any(n.op in LOWERED for body in kernel.bodies() for n in walk(body))


def lower_tiles(
    kernel: Kernel, lanes: int, vectors: int = 4, *, native: bool = False, rolled: bool = False
) -> Kernel:
    """``kernel`` without calls, tiles and copies, for subgroups of ``lanes`` work-items. ``vectors``: how many vectors
    of a row a block of an accumulator has. ``native``: the target has tiles, and only copies go. ``rolled``: loops over
    a tile's parts shall stay loops, for compilers that take long over what they unroll. Raises CompileError where wide
    subgroups would not be whole."""
    from magpie.passes.inline import inline_calls

    if not has_tiles(kernel):
        return kernel
    kernel = inline_calls(kernel)
    if lanes > SUBGROUP and (found := check_tiles(kernel, lanes)):
        raise CompileError(found)
    if native:
        copies = _Lowering(replace(kernel, tiles=[]), lanes, vectors, rolled)
        for op in TILE_OPS:
            del copies.handlers[op]
        return replace(kernel, body=copies.prologue + copies.region(kernel.body))
    lowering = _Lowering(kernel, lanes, vectors, rolled)
    body = lowering.prologue + lowering.region(kernel.body)
    return replace(kernel, body=body, tiles=[], locals=[*kernel.locals, *lowering.locals.values()])


class _Lowering(Rewriter):
    def __init__(self, kernel: Kernel, lanes: int, vectors: int, rolled: bool) -> None:
        super().__init__(
            {
                "tile_fill": lambda rw, node: self.fill(node),
                "tile_load": lambda rw, node: self.load(node),
                "tile_mma": lambda rw, node: self.product(node),
                "tile_store": lambda rw, node: self.store(node),
                "copy_async": lambda rw, node: self.copy(node),
                "copy_wait": lambda rw, node: None,
            }
        )
        self.lanes = lanes
        self.vectors = vectors
        self.rolled = rolled
        self.locals = {t: LocalArray(t.name, t.held, (t.rows * self.row(t),), t.loc) for t in kernel.tiles}
        self.prologue: list[Node] = []
        with self.out.into(self.prologue):
            self.lane = self.out.emit("subgroup_lane")

    # --- small parts ---------------------------------------------------------------------------------------------
    def across(self, tile: Tile) -> int:
        """How many lanes a row of the tile is spread over."""
        return math.gcd(tile.cols, self.lanes)

    def row(self, tile: Tile) -> int:
        """Elements of a row that a lane has."""
        return tile.cols // self.across(tile)

    def number(self, value: int) -> Node:
        return self.out.const(value, index)

    def add(self, a: Node, b: int | Node) -> Node:
        if b == 0:
            return a
        return self.out.emit("add", a, self.number(b) if isinstance(b, int) else b)

    def times(self, a: Node, b: int) -> Node:
        return a if b == 1 else self.out.emit("mul", a, self.number(b))

    @contextmanager
    def each(self, count: int, name: str) -> Iterator[Node]:
        """A loop over range(count)."""
        with self.out.counted(self.number(0), self.number(count), self.number(1), name, rolled=self.rolled) as k:
            yield k

    def place(self, args: tuple[Node, ...]) -> list[Node]:
        """Indices, which all lanes of a subgroup have in common, so that the compiler sees it."""
        out = self.out
        return [
            n if n.op == "const" else out.emit("subgroup_broadcast", n, self.number(0))
            for n in (out.cast(self.value(a), index) for a in args)
        ]

    def inside(self, array: Array, at: list[Node], dims: tuple[int, int]) -> Node:
        """Whether an element exists."""
        out = self.out
        tests = []
        for d in dims:
            tests.append(out.emit("ge", at[d], self.number(0)))
            tests.append(out.emit("lt", at[d], out.emit("extent", array=array, dim=d)))
        test = tests[0]
        for t in tests[1:]:
            test = out.emit("and", test, t)
        return test

    def elements(self, node: Node, visit: Callable[[Node, list[Node], Node | None], None]) -> None:
        """Visit a tile's elements of this lane: where one is in the local array, where in the array, and a test that it
        exists. Blocks that lie inside of the array have a loop of their own, without tests."""
        tile: Tile = node.attrs["tile"]
        array, dims = node.attrs["array"], node.attrs["dims"]
        start = self.place(node.args[: array.rank])
        if not node.attrs["clip"]:
            self.each_element(tile, start, dims, None, visit)
            return
        last = list(start)
        for d, n in zip(dims, (tile.rows, tile.cols), strict=True):
            last[d] = self.add(start[d], n - 1)
        corners = self.out.emit("and", self.inside(array, start, dims), self.inside(array, last, dims))
        _, whole, edge = self.out.if_(corners)
        for region, tested in ((whole, None), (edge, array)):
            with self.out.into(region):
                self.each_element(tile, start, dims, tested, visit)

    def each_element(
        self,
        tile: Tile,
        start: list[Node],
        dims: tuple[int, int],
        tested: Array | None,
        visit: Callable[[Node, list[Node], Node | None], None],
    ) -> None:
        rows, cols = dims
        count, n = self.row(tile), self.across(tile)
        lane = self.lane if n == self.lanes else self.out.emit("and", self.lane, self.number(n - 1))
        first = self.add(start[cols], lane)
        with self.each(tile.rows, "row") as i, self.each(count, "part") as part:
            at = list(start)
            at[rows] = self.add(start[rows], i)
            at[cols] = self.add(first, self.times(part, n))
            test = None if tested is None else self.inside(tested, at, dims)
            visit(self.add(self.times(i, count), part), at, test)

    # --- operations ----------------------------------------------------------------------------------------------
    def fill(self, node: Node) -> None:
        local = self.locals[node.attrs["tile"]]
        value = self.value(node.args[0])
        with self.each(local.shape[0], "element") as e:
            self.out.store(local, (e,), value)

    def load(self, node: Node) -> None:
        out = self.out
        tile: Tile = node.attrs["tile"]
        local, array = self.locals[tile], node.attrs["array"]

        def visit(e: Node, at: list[Node], test: Node | None) -> None:
            if test is None:
                out.store(local, (e,), self.operand(tile, out.load(array, *at)))
                return
            _, there, beyond = out.if_(test)
            with out.into(there):
                out.store(local, (e,), self.operand(tile, out.load(array, *at)))
            with out.into(beyond):
                out.store(local, (e,), out.const(0, tile.held))

        self.elements(node, visit)

    def operand(self, tile: Tile, value: Node) -> Node:
        """An element as it takes part in products."""
        if tile.role != "acc" and tile.type is f32:
            return self.tf32(value)
        return self.out.cast(value, tile.held)

    def tf32(self, value: Node) -> Node:
        """The nearest number with 10 bits of fraction, ties away from zero; infinities and NaN stay."""
        out = self.out
        bits = out.emit("bitcast", value, type=u32)
        half = out.emit("add", bits, out.const(1 << 12, u32))
        rounded = out.emit("bitcast", out.emit("and", half, out.const(0xFFFFE000, u32)), type=f32)
        return out.select(out.emit("isfinite", value), rounded, value)

    def store(self, node: Node) -> None:
        out = self.out
        tile: Tile = node.attrs["tile"]
        local, array = self.locals[tile], node.attrs["array"]
        assert isinstance(array.type, DType)
        out.emit("subgroup_barrier")  # what a lane writes, others may have loaded before

        def visit(e: Node, at: list[Node], test: Node | None) -> None:
            value = out.cast(out.load(local, e), array.type)
            if self.across(tile) < self.lanes:  # the other lanes hold copies
                own = out.emit("lt", self.lane, self.number(self.across(tile)))
                test = own if test is None else out.emit("and", own, test)
            if test is None:
                out.store(array, tuple(at), value)
                return
            _, there, _ = out.if_(test)
            with out.into(there):
                out.store(array, tuple(at), value)

        self.elements(node, visit)

    def product(self, node: Node) -> None:
        acc, a, b = (node.attrs[k] for k in ("tile", "a", "b"))
        across = math.gcd(self.vectors, self.row(acc))
        for k in range(0, a.cols, _DEPTH):
            with self.each(acc.rows // _ROWS, "rows") as i, self.each(self.row(acc) // across, "parts") as j:
                self.block(acc, a, b, self.times(i, _ROWS), self.times(j, across), across, k)

    def block(self, acc: Tile, a: Tile, b: Tile, row: Node, part: Node, across: int, k: int) -> None:
        """4 rows from ``row`` on by ``across`` vectors from ``part`` on, for the steps k to k + 15."""
        out, count = self.out, self.row(acc)
        sums: dict[tuple[int, int], Node] = {}
        places: dict[tuple[int, int], Node] = {}
        for r in range(_ROWS):
            first = self.add(self.times(self.add(row, r), count), part)
            for j in range(across):
                places[r, j] = self.add(first, j)
                sums[r, j] = out.load(self.locals[acc], places[r, j])
        wide, left = self.across(a), self.row(a)
        rows = [self.times(self.add(row, r), left) for r in range(_ROWS)]
        for step in range(k, k + _DEPTH):
            right = [out.load(self.locals[b], self.add(part, step * count + j)) for j in range(across)]
            for r in range(_ROWS):
                held = out.load(self.locals[a], self.add(rows[r], step // wide))
                one = out.emit("subgroup_broadcast", held, self.number(step % wide))
                for j in range(across):
                    sums[r, j] = self.multiply_add(one, right[j], sums[r, j])
        for at, value in sums.items():
            out.store(self.locals[acc], (places[at],), value)

    def multiply_add(self, x: Node, y: Node, z: Node) -> Node:
        if x.dtype.is_float:
            return self.out.emit("fma", x, y, z)
        return self.out.emit("add", self.out.emit("mul", x, y), z)

    # --- copies --------------------------------------------------------------------------------------------------
    def copy(self, node: Node) -> None:
        out, attrs = self.out, node.attrs
        source, target = attrs["array"], attrs["target"]
        indices = self.place(node.args)
        start, into = indices[: source.rank], indices[source.rank :]
        rows, cols = attrs["shape"]
        first = out.emit("subgroup_id")
        with (
            out.counted(first, self.number(rows), out.emit("subgroup_count"), "row") as i,
            self.each(-(-cols // self.lanes), "part") as part,
        ):
            col = self.add(self.times(part, self.lanes), self.lane)
            at, to = list(start), list(into)
            for place, dims in ((at, attrs["dims"]), (to, attrs["target_dims"])):
                place[dims[0]] = self.add(place[dims[0]], i)
                place[dims[1]] = self.add(place[dims[1]], col)
            if cols % self.lanes == 0:
                self.copy_element(source, at, attrs["dims"], target, to)
            else:
                _, own, _ = out.if_(out.emit("lt", col, self.number(cols)))
                with out.into(own):
                    self.copy_element(source, at, attrs["dims"], target, to)

    def copy_element(self, source: Array, at: list[Node], dims: tuple[int, int], target: Array, to: list[Node]) -> None:
        out = self.out
        assert isinstance(target.type, DType)
        slot = Slot("copied", target.type)
        out.set(slot, out.const(0, target.type))
        _, there, _ = out.if_(self.inside(source, at, dims))
        with out.into(there):
            out.set(slot, out.load(source, *at))
        out.store(target, tuple(to), out.get(slot))
