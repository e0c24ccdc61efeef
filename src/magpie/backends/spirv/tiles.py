"""Matrix tiles as cooperative matrices (SPV_KHR_cooperative_matrix), of 16 by 16 elements, or 16 by 32 bytes.

A tile is a grid of fragments, each a matrix that the driver spreads over the subgroup. A fragment is loaded and stored
by one instruction where its rows or columns are contiguous, begin at a multiple of 16 bytes, and lie inside of the
array. Else its elements go one by one through a piece of shared memory that the subgroup has for itself: that leaves
out what is beyond the array, and converts to the type of the elements.

`magpie.passes.lower_tiles` makes the tiles of all other kernels: see `native_tiles`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from magpie.backends.spirv.atomics import Atomics
from magpie.backends.spirv.profile import Profile
from magpie.dtypes import DType, bf16, f16, f32, i8, i32, u8, u64
from magpie.ir.nodes import Array, Buffer, Kernel, Node, walk
from magpie.ir.tiles import TILE_OPS, Tile

__all__ = ["Tiles", "native_tiles"]

#: Rows and columns of an accumulator's fragment.
_EDGE = 16

# Type of operands -> extent of their fragments along k, and the features that they take.
_UNITS: dict[DType, tuple[int, tuple[str, ...]]] = {
    f16: (16, ("coopmat", "f16", "s16")),
    bf16: (16, ("coopmat", "coopmat_bf16", "bf16", "i16", "s16")),
    i8: (32, ("coopmat", "coopmat_i8", "i8", "s8")),
    u8: (32, ("coopmat", "coopmat_i8", "i8", "s8")),
}
_USES = {"a": 0, "b": 1, "acc": 2}
_ROW_MAJOR, _COLUMN_MAJOR = 0, 1

# Fragments are aligned to this many bytes, or are no single access.
_ALIGNED = 16

_SIGNED = "|".join(f"Matrix{part}SignedComponentsKHR" for part in ("A", "B", "C", "Result"))


def native_tiles(kernel: Kernel, profile: Profile) -> bool:
    """Whether the devices of a profile do all that a kernel does with tiles."""
    size = kernel.known_workgroup
    found = [n for n in walk(kernel.body) if n.op in TILE_OPS]
    if not found or size is None or not profile.subgroup_size or prod(size) % profile.subgroup_size:
        return False
    return all(_fits(node, profile) for node in found)


def _fits(node: Node, profile: Profile) -> bool:
    tile: Tile = node.attrs["tile"]
    if tile.role != "acc":
        depth, features = _UNITS.get(tile.type, (0, ("none",)))
        along = tile.cols if tile.role == "a" else tile.rows
        if not all(f in profile for f in features) or along % depth:
            return False
    elif tile.type not in (f32, i32):
        return False
    if node.op == "tile_fill":
        return tile.role == "acc"
    if node.op == "tile_mma":
        return bool(node.attrs["a"].type is node.attrs["b"].type)
    array: Array = node.attrs["array"]
    if node.op == "tile_load":
        return array.type is tile.type
    return tile.role == "acc" and (array.type is tile.type or _converts(array.type, tile.type, profile))


def _converts(t: Any, held: DType, profile: Profile) -> bool:
    """Whether elements of an accumulator are written as ``t``."""
    if held is i32:
        return t in (i8, u8) and "i8" in profile and "s8" in profile
    if t is f16:
        return all(f in profile for f in ("f16", "s16", "rte16", "denorm16"))
    return t is bf16 and "i16" in profile and "s16" in profile


class Tiles(Atomics):
    """Emits the operations of `magpie.ir.tiles`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fragments: dict[Tile, list[int]] = {}
        self.scratch: dict[tuple[int, int], int] = {}
        self.scratch_bytes = 0

    def wide_extent(self, op: str, array: Buffer, dim: int) -> tuple[int, int]:
        """The two halves of an extent or a stride of 64 bits."""
        raise NotImplementedError

    # --- fragments -----------------------------------------------------------------------------------------------
    def fragment(self, tile: Tile) -> tuple[int, int]:
        """Rows and columns of a fragment."""
        if tile.role == "acc":
            return _EDGE, _EDGE
        depth = _UNITS[tile.type][0]
        return (_EDGE, depth) if tile.role == "a" else (depth, _EDGE)

    def grid(self, tile: Tile) -> tuple[int, int]:
        """Fragments along rows and columns."""
        rows, cols = self.fragment(tile)
        return tile.rows // rows, tile.cols // cols

    def matrix(self, tile: Tile) -> int:
        """The type of a tile's fragments."""
        m, t = self.module, tile.type
        if t is bf16:
            m.capability("BFloat16CooperativeMatrixKHR")
            component = m.type_float(16, "BFloat16KHR")
        else:
            component = m.type_float(t.bits) if t.is_float else m.type_int(t.bits)
        rows, cols = self.fragment(tile)
        return m.type_cooperative_matrix(component, "Subgroup", m.u32(rows), m.u32(cols), m.u32(_USES[tile.role]))

    def held(self, tile: Tile) -> list[int]:
        """The variables of a tile's fragments, row by row."""
        found = self.fragments.get(tile)
        if found is None:
            count = prod(self.grid(tile))
            type_ = self.matrix(tile)
            found = self.fragments[tile] = [self.f.variable(type_, f"{tile.name}.{k}") for k in range(count)]
            if tile.role != "acc":
                self.unit.needs |= {f for f in _UNITS[tile.type][1] if f.startswith("coopmat")}
        return found

    # --- operations ----------------------------------------------------------------------------------------------
    def tile_fill(self, node: Node) -> None:
        tile: Tile = node.attrs["tile"]
        value = self.op("CompositeConstruct", self.matrix(tile), self.map[node.args[0]])
        for variable in self.held(tile):
            self.f.store(variable, value)

    def tile_mma(self, node: Node) -> None:
        acc, a, b = (node.attrs[k] for k in ("tile", "a", "b"))
        f = self.f
        rows, depth = self.grid(a)
        _, cols = self.grid(b)
        left, right = ([f.load(v) for v in self.held(t)] for t in (a, b))
        signed = (_SIGNED,) if a.type is i8 else ()
        for i in range(rows):
            for j in range(cols):
                variable = self.held(acc)[i * cols + j]
                value = f.load(variable)
                for k in range(depth):
                    factors = (left[i * depth + k], right[k * cols + j])
                    value = self.op("CooperativeMatrixMulAddKHR", self.matrix(acc), *factors, value, *signed)
                f.store(variable, value)

    def tile_load(self, node: Node) -> None:
        access = _Access(self, node)
        self.either(access.direct(), access.load_fragments, access.gather)

    def tile_store(self, node: Node) -> None:
        self.subgroup_barrier()  # what a lane writes, others may have loaded before
        access = _Access(self, node)
        self.either(access.direct(), access.store_fragments, access.scatter)

    # --- control -------------------------------------------------------------------------------------------------
    def either(self, condition: int | None, one: Callable[[], None], other: Callable[[], None]) -> None:
        """What ``one`` emits where a condition holds, else what ``other`` does; a condition of 0 always holds, None
        never."""
        if not condition:
            (other if condition is None else one)()
            return
        f = self.f
        yes, no, merge = f.label(), f.label(), f.label()
        f.selection_merge(merge)
        f.branch_if(condition, yes, no)
        for label, make in ((yes, one), (no, other)):
            self.place(label)
            make()
            self.jump(merge)
        self.place(merge)

    def repeat(self, count: int, make: Callable[[int], None]) -> None:
        """A loop over range(count); ``make`` is given the number of the trip."""
        f, u = self.f, self.u32
        trip = f.variable(u, "trip")
        f.store(trip, self.word(0))
        header, body, step, done = (f.label() for _ in range(4))
        f.branch(header)
        self.place(header)
        f.loop_merge(done, step)
        f.branch(body)
        self.place(body)
        number = f.load(trip)
        make(number)
        f.branch(step)
        self.place(step)
        following = self.op("IAdd", u, f.load(trip), self.word(1))
        f.store(trip, following)
        f.branch_if(self.op("ULessThan", self.bool, following, self.word(count)), header, done)
        self.place(done)

    # --- a subgroup's own piece of shared memory -----------------------------------------------------------------
    def own_piece(self, element: int, itemsize: int, count: int) -> tuple[int, int]:
        """(array in shared memory, number of this subgroup's first element in it) for ``count`` elements of a type."""
        m = self.module
        size = self.kernel.known_workgroup
        assert size is not None
        subgroups = prod(size) // self.profile.subgroup_size
        key = (element, count)
        found = self.scratch.get(key)
        if found is None:
            type_ = m.type_array(element, m.u32(subgroups * count))
            found = self.scratch[key] = m.variable("Workgroup", type_, "fragment")
            self.scratch_bytes += subgroups * count * itemsize
        shift = self.profile.subgroup_size.bit_length() - 1
        subgroup = self.op("ShiftRightLogical", self.u32, self.linear_item(), self.word(shift))
        return found, self.times(subgroup, self.word(count))

    def bits_of_bf16(self, value: int) -> int:
        """An f32 rounded to bf16, to nearest even, as a number of 16 bits in 32; a NaN stays one."""
        u = self.u32
        bits = self.op("Bitcast", u, value)
        odd = self.op("BitwiseAnd", u, self.op("ShiftRightLogical", u, bits, self.word(16)), self.word(1))
        sum_ = self.op("IAdd", u, self.op("IAdd", u, bits, self.word(0x7FFF)), odd)
        rounded = self.op("ShiftRightLogical", u, sum_, self.word(16))
        return self.op("Select", u, self.op("IsNan", self.bool, value), self.word(0x7FC0), rounded)


class _Access:
    """One load or store of a tile: where it lies, and the ways to do it."""

    def __init__(self, kernel: Tiles, node: Node) -> None:
        self.k = kernel
        self.node = node
        self.tile: Tile = node.attrs["tile"]
        self.array: Array = node.attrs["array"]
        self.dims: tuple[int, int] = node.attrs["dims"]
        self.at = kernel.offset(self.array, node.args)
        self.steps = tuple(kernel.stride(self.array, d) for d in self.dims)
        assert isinstance(self.array.type, DType)
        self.type = self.array.type
        self.converts = self.type is not self.tile.type
        # Rows are contiguous where columns are one element apart, as far as that is known.
        self.layout = _COLUMN_MAJOR if kernel.number(self.steps[0]) == 1 else _ROW_MAJOR
        if node.attrs["clip"]:
            self.start = [kernel.as_index(node.args[d]) for d in self.dims]
            self.ends = [self.extent(d) for d in self.dims]

    def extent(self, dim: int) -> int:
        """An extent in 64 bits."""
        k = self.k
        if isinstance(self.array, Buffer):
            low, high = k.wide_extent("extent", self.array, dim)
            return k.joined(low, high, u64)
        return k.op("UConvert", k.type(u64), k.extent(self.array, dim))

    # --- one instruction a fragment --------------------------------------------------------------------------------
    def direct(self) -> int | None:
        """The condition of single accesses: 0 where it always holds, None where it never does."""
        k = self.k
        if self.converts:
            return None
        tests = []
        near, far = self.steps if self.layout == _COLUMN_MAJOR else reversed(self.steps)
        if k.number(near) != 1:
            tests.append(k.op("IEqual", k.bool, near, k.word(1)))
        elements = max(1, _ALIGNED // self.type.itemsize)
        for place in (self.at, far):
            known = k.number(place)
            if known is None:
                rest = k.op("BitwiseAnd", k.u32, place, k.word(elements - 1))
                tests.append(k.op("IEqual", k.bool, rest, k.word(0)))
            elif known % elements:
                return None
        if self.node.attrs["clip"]:
            for first, end, n in zip(self.start, self.ends, (self.tile.rows, self.tile.cols), strict=True):
                # As unsigned numbers: a negative start is far outside.
                tests.append(k.op("ULessThanEqual", k.bool, first, end))
                left = k.op("ISub", k.type(u64), end, first)
                tests.append(k.op("UGreaterThanEqual", k.bool, left, k.constant(n, u64)))
        total = tests[0] if tests else 0
        for test in tests[1:]:
            total = k.op("LogicalAnd", k.bool, total, test)
        return total

    def places(self) -> list[tuple[int, int, int]]:
        """(variable, row, column) of each fragment."""
        k = self.k
        rows, cols = k.fragment(self.tile)
        _, across = k.grid(self.tile)
        return [(v, n // across * rows, n % across * cols) for n, v in enumerate(k.held(self.tile))]

    def distance(self, row: int, col: int) -> int:
        """Elements from the tile's first one on."""
        k = self.k
        return k.plus(k.times(row, self.steps[0]), k.times(col, self.steps[1]))

    def pointer(self, at: int) -> int:
        """A pointer to an element of the array."""
        k, m = self.k, self.k.module
        if isinstance(self.array, Buffer):
            element = k.stored(self.type)
            base = k.unit.view(self.array, element, self.type.itemsize)
            return k.op("AccessChain", m.type_pointer("StorageBuffer", element), base, k.word(0), at)
        base, storage = k.variable(self.array)
        return k.op("AccessChain", m.type_pointer(storage, k.shared_element(self.type)), base, at)

    def fragment_place(self, row: int, col: int) -> tuple[int, int, int]:
        """Pointer, layout and stride of a fragment."""
        k = self.k
        at = k.plus(self.at, self.distance(k.word(row), k.word(col)))
        far = self.steps[1] if self.layout == _COLUMN_MAJOR else self.steps[0]
        return self.pointer(at), k.word(self.layout), far

    def load_fragments(self) -> None:
        k = self.k
        type_, operands = k.matrix(self.tile), k.operands(self.node, self.array)
        for variable, row, col in self.places():
            place = self.fragment_place(row, col)
            k.f.store(variable, k.op("CooperativeMatrixLoadKHR", type_, *place, *operands))

    def store_fragments(self) -> None:
        k = self.k
        operands = k.operands(self.node, self.array)
        for variable, row, col in self.places():
            pointer, layout, stride = self.fragment_place(row, col)
            k.f.do("CooperativeMatrixStoreKHR", pointer, k.f.load(variable), layout, stride, *operands)

    # --- element by element --------------------------------------------------------------------------------------
    def each_element(self, row: int, col: int, visit: Callable[[int, int, int | None], None]) -> None:
        """Each lane's elements of a fragment: the number in the fragment, the number in the array, and whether it
        exists there."""
        k = self.k
        rows, cols = k.fragment(self.tile)
        lanes = k.profile.subgroup_size
        lane = k.op("BitwiseAnd", k.u32, k.linear_item(), k.word(lanes - 1))

        def trip(number: int) -> None:
            e = k.plus(k.times(number, k.word(lanes)), lane)
            r = k.plus(k.word(row), k.op("ShiftRightLogical", k.u32, e, k.word(cols.bit_length() - 1)))
            c = k.plus(k.word(col), k.op("BitwiseAnd", k.u32, e, k.word(cols - 1)))
            visit(e, k.plus(self.at, self.distance(r, c)), self.exists(r, c))

        k.repeat(rows * cols // lanes, trip)

    def exists(self, row: int, col: int) -> int | None:
        k = self.k
        if not self.node.attrs["clip"]:
            return None
        tests = []
        for first, end, more in zip(self.start, self.ends, (row, col), strict=True):
            at = k.op("IAdd", k.type(u64), first, k.op("UConvert", k.type(u64), more))
            tests.append(k.op("ULessThan", k.bool, at, end))
        return k.op("LogicalAnd", k.bool, *tests)

    def piece(self) -> tuple[int, int, int]:
        """(array, first element, type of elements) of the piece of shared memory for a fragment."""
        k, t = self.k, self.tile.type
        element = k.shared_element(t)
        rows, cols = k.fragment(self.tile)
        return *k.own_piece(element, t.itemsize, rows * cols), element

    def gather(self) -> None:
        k, m = self.k, self.k.module
        type_ = k.matrix(self.tile)
        _, cols = k.fragment(self.tile)
        scratch, base, element = self.piece()
        pointer = m.type_pointer("Workgroup", element)
        operands = k.operands(self.node, self.array)
        for variable, row, col in self.places():

            def visit(e: int, at: int, exists: int | None) -> None:
                def load() -> list[int]:
                    return [k.f.load(self.pointer(at), *operands)]

                value = load()[0] if exists is None else k.choose(exists, load, [m.null(element)])[0]
                k.f.store(k.op("AccessChain", pointer, scratch, k.plus(base, e)), value, "NonPrivatePointer")

            self.each_element(row, col, visit)
            k.subgroup_barrier()
            first = k.op("AccessChain", pointer, scratch, base)
            place = (first, k.word(_ROW_MAJOR), k.word(cols))
            k.f.store(variable, k.op("CooperativeMatrixLoadKHR", type_, *place, "NonPrivatePointer"))
            k.subgroup_barrier()

    def scatter(self) -> None:
        k, m = self.k, self.k.module
        _, cols = k.fragment(self.tile)
        scratch, base, element = self.piece()
        pointer = m.type_pointer("Workgroup", element)
        operands = k.operands(self.node, self.array)
        for variable, row, col in self.places():
            first = k.op("AccessChain", pointer, scratch, base)
            value = k.f.load(variable)
            k.f.do("CooperativeMatrixStoreKHR", first, value, k.word(_ROW_MAJOR), k.word(cols), "NonPrivatePointer")
            k.subgroup_barrier()

            def visit(e: int, at: int, exists: int | None) -> None:
                def store() -> None:
                    one = k.f.load(k.op("AccessChain", pointer, scratch, k.plus(base, e)), "NonPrivatePointer")
                    k.f.store(self.pointer(at), self.converted(one), *operands)

                if exists is None:
                    store()
                else:
                    k.when(exists, store)

            self.each_element(row, col, visit)
            k.subgroup_barrier()

    def converted(self, value: int) -> int:
        """An element of the accumulator in the type of the array's elements."""
        k = self.k
        if not self.converts:
            return value
        if isinstance(self.array, Buffer):
            element = k.stored(self.type)
        else:
            element = k.shared_element(self.type)
        if self.type is f16:
            return k.op("FConvert", element, value)
        if self.type is bf16:
            value = k.bits_of_bf16(value)
        return value if k.module.type_of(value) == element else k.op("UConvert", element, value)
