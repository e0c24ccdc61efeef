"""Matrix tiles on tensor cores: fragments of `mma.sync`, from sm_80 on.

A tile is a grid of the instruction's fragments, and a fragment a few registers of each lane, whose elements the PTX ISA
places: with g = lane / 4 and t = lane % 4, a register of the left operand holds elements of row g and of the columns
from t on, one of the right operand those of column g, and one of the accumulator row g and the columns 2 t and
2 t + 1. `ldmatrix` fills them from shared memory where rows are aligned and of the right direction; else each lane
reads its own elements. Registers are stack slots of one word that LLVM promotes.
"""

from __future__ import annotations

from magpie.backends.llvm.emitter import constant, element, memory_element
from magpie.backends.llvm.simt_kernel import SHARED, DeviceKernel
from magpie.dtypes import DType, bf16, f16, f32, f64, i8, index, u8
from magpie.ir.nodes import Array, Kernel, Node, SharedArray
from magpie.ir.tiles import Tile
from magpie.passes.divisors import Divisors
from magpie.records import record

__all__ = ["TileKernel", "Unit", "unit_of"]

# What ldmatrix reads at a time, in bytes, and how it must be aligned.
_ROW = 16


@record
class Unit:
    """One `mma.sync`: its shape, and where the registers of a lane lie in the fragments.

    per: neighbours along k in a register.  a: (row, k) of each register of the left operand, b: k of each of the right
    one, c: (row, column) of each of the accumulator; besides what the lane adds.
    """

    m: int
    k: int
    per: int
    a: tuple[tuple[int, int], ...]
    b: tuple[int, ...]
    c: tuple[tuple[int, int], ...]
    register: str
    result: str


_FOUR = ((0, 0), (8, 0), (0, 1), (8, 1))
_C = ((0, 0), (0, 1), (8, 0), (8, 1))


def _quad(k: int, per: int, register: str, result: str) -> Unit:
    half = k // 2
    return Unit(16, k, per, tuple((r, c * half) for r, c in _FOUR), (0, half), _C, register, result)


_UNITS = {
    f16: _quad(16, 2, "i32", "float"),
    bf16: _quad(16, 2, "i32", "float"),
    f32: _quad(8, 1, "i32", "float"),
    f64: Unit(8, 4, 1, ((0, 0),), (0,), ((0, 0), (0, 1)), "double", "double"),
}
_BYTES = {
    16: Unit(16, 16, 4, ((0, 0), (8, 0)), (0,), _C, "i32", "i32"),
    32: _quad(32, 4, "i32", "i32"),
}


def unit_of(a: DType, depth: int) -> Unit:
    """The instruction for left operands of type ``a`` and tiles that go ``depth`` elements along k."""
    return _BYTES[32 if depth % 32 == 0 else 16] if a in (i8, u8) else _UNITS[a]


def _name(a: DType, b: DType, unit: Unit) -> str:
    shape = f"m{unit.m}n8k{unit.k}.row.col"
    if a is f16:
        return f"llvm.nvvm.mma.{shape}.f32.f32"
    if a in (i8, u8):
        kinds = {i8: "s8", u8: "u8"}
        return f"llvm.nvvm.mma.{shape}.{kinds[a]}" + (f".{kinds[b]}" if a is not b else "")
    return f"llvm.nvvm.mma.{shape}.{'tf32' if a is f32 else a.name}"


class TileKernel(DeviceKernel):
    """Emits the operations of `magpie.ir.tiles`."""

    def prepare_masks(self, kernel: Kernel) -> None:
        super().prepare_masks(kernel)
        self.registers: dict[Tile, list[str]] = {}
        self.divisors = Divisors(kernel)

    # --- registers -----------------------------------------------------------------------------------------------
    def unit(self, tile: Tile) -> Unit:
        """Accumulators have the same registers under all instructions of their type."""
        if tile.role == "acc":
            return {"float": _UNITS[f32], "double": _UNITS[f64], "i32": _BYTES[16]}[element(tile.type)]
        return unit_of(tile.type, tile.cols if tile.role == "a" else tile.rows)

    def grid(self, tile: Tile) -> tuple[int, int, int]:
        """Fragments along rows and columns, and registers of each."""
        u = self.unit(tile)
        if tile.role == "a":
            return tile.rows // u.m, tile.cols // u.k, len(u.a)
        if tile.role == "b":
            return tile.rows // u.k, tile.cols // 8, len(u.b)
        return tile.rows // u.m, tile.cols // 8, len(u.c)

    def held(self, tile: Tile) -> list[str]:
        """The stack slots of a tile, fragment by fragment in rows."""
        found = self.registers.get(tile)
        if found is None:
            rows, cols, count = self.grid(tile)
            type_ = self.register(tile)
            found = self.registers[tile] = [self.stack_memory(type_) for _ in range(rows * cols * count)]
        return found

    def register(self, tile: Tile) -> str:
        return self.unit(tile).result if tile.role == "acc" else self.unit(tile).register

    def read(self, tile: Tile, row: int, col: int) -> list[str]:
        """The registers of a fragment."""
        _, cols, count = self.grid(tile)
        first = (row * cols + col) * count
        type_ = self.register(tile)
        return [self.c.op(f"load {type_}, ptr {p}") for p in self.held(tile)[first : first + count]]

    def write(self, tile: Tile, number: int, value: str) -> None:
        self.c.do(f"store {self.register(tile)} {value}, ptr {self.held(tile)[number]}")

    def places(self, tile: Tile) -> list[tuple[int, int, int]]:
        """(row, column, elements) of each register, besides what the lane adds."""
        u, out = self.unit(tile), []
        rows, cols, count = self.grid(tile)
        for i in range(rows):
            for j in range(cols):
                for r in range(count):
                    if tile.role == "a":
                        out.append((i * u.m + u.a[r][0], j * u.k + u.a[r][1], u.per))
                    elif tile.role == "b":
                        out.append((i * u.k + u.b[r], j * 8, u.per))
                    else:
                        out.append((i * u.m + u.c[r][0], j * 8 + u.c[r][1], 1))
        return out

    def lane_place(self, tile: Tile) -> tuple[str, str]:
        """What a lane adds to rows and columns, as i64."""
        lane = self.in_entry(f"zext nneg i32 {self.entry_lane()} to i64")
        group, rest = self.in_entry(f"lshr i64 {lane}, 2"), self.in_entry(f"and i64 {lane}, 3")
        per = 2 if tile.role == "acc" else self.unit(tile).per
        along = rest if per == 1 else self.in_entry(f"mul nuw nsw i64 {rest}, {per}")
        return (along, group) if tile.role == "b" else (group, along)

    def entry_lane(self) -> str:
        self.c.module.declare("llvm.nvvm.read.ptx.sreg.laneid", "i32", "")
        return self.in_entry("call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()")

    # --- operations ----------------------------------------------------------------------------------------------
    def tile_fill(self, node: Node) -> None:
        tile: Tile = node.attrs["tile"]
        for k in range(len(self.held(tile))):
            self.write(tile, k, self.map[node.args[0]])

    def tile_mma(self, node: Node) -> None:
        acc, a, b = (node.attrs[k] for k in ("tile", "a", "b"))
        u = self.unit(a)
        name, c = _name(a.type, b.type, u), self.c
        type_ = "<2 x half>" if a.type is f16 else u.register
        rows, depth, _ = self.grid(a)
        _, cols, count = self.grid(acc)
        out = f"{{{', '.join([u.result] * count)}}}"
        operands = ", ".join([type_] * (len(u.a) + len(u.b)) + [u.result] * count)
        c.module.declare(name, out, operands)
        for k in range(depth):
            right = [self.fragment(b, k, j, type_) for j in range(cols)]
            for i in range(rows):
                left = self.fragment(a, i, k, type_)
                for j in range(cols):
                    given = [f"{type_} {v}" for v in (*left, *right[j])]
                    given += [f"{u.result} {v}" for v in self.read(acc, i, j)]
                    value = c.op(f"call {out} @{name}({', '.join(given)})")
                    for r in range(count):
                        self.write(acc, (i * cols + j) * count + r, c.op(f"extractvalue {out} {value}, {r}"))

    def fragment(self, tile: Tile, row: int, col: int, type_: str) -> list[str]:
        held = self.read(tile, row, col)
        register = self.register(tile)
        return held if type_ == register else [self.c.op(f"bitcast {register} {v} to {type_}") for v in held]

    # --- addresses -----------------------------------------------------------------------------------------------
    def origin(self, node: Node) -> list[str]:
        """The indices of an access as i64."""
        return [
            self.ops.cast(self.map[a], a.dtype, index, element(a.dtype), "i64") if a.dtype.bits != 64 else self.map[a]
            for a in node.args
        ]

    def sum_of(self, *terms: str) -> str:
        """i64 terms added up; numbers among them are folded."""
        number = sum(int(t) for t in terms if not t.startswith("%"))
        out = ""
        for t in terms:
            if t.startswith("%"):
                out = self.c.op(f"add i64 {out}, {t}") if out else t
        return (self.c.op(f"add i64 {out}, {number}") if number else out) if out else str(number)

    def product(self, a: str, b: str) -> str:
        if not a.startswith("%") and not b.startswith("%"):
            return str(int(a) * int(b))
        return "0" if "0" in (a, b) else a if b == "1" else b if a == "1" else self.c.op(f"mul i64 {a}, {b}")

    def offset(self, array: Array, at: list[str]) -> str:
        """Elements before the place ``at``."""
        return self.sum_of(*(self.product(n, self.stride(array, d)) for d, n in enumerate(at)))

    def moved(self, base: str, space: str, elements: str, size: int) -> str:
        """``base`` moved by a number of elements."""
        bytes_ = self.product(elements, str(size))
        return base if bytes_ == "0" else self.c.op(f"getelementptr i8, ptr{space} {base}, i64 {bytes_}")

    def whole_block(self, array: Array, start: list[str], dims: tuple[int, int], shape: tuple[int, int]) -> str:
        """Whether a block lies inside the array, as an i1."""
        c, tests = self.c, []
        for d, n in zip(dims, shape, strict=True):
            extent = self.extent(array, d)
            # As unsigned numbers: a negative start is far outside.
            tests.append(c.op(f"icmp ule i64 {start[d]}, {extent}"))
            left = c.op(f"sub i64 {extent}, {start[d]}")
            tests.append(c.op(f"icmp uge i64 {left}, {n}"))
        out = tests[0]
        for t in tests[1:]:
            out = c.op(f"and i1 {out}, {t}")
        return out

    # --- loads ---------------------------------------------------------------------------------------------------
    def tile_load(self, node: Node) -> None:
        tile, array, dims = (node.attrs[k] for k in ("tile", "array", "dims"))
        start = self.origin(node)
        if not node.attrs["clip"]:
            if (far := self.matrix_rows(node)) is not None:
                self.load_matrices(tile, array, dims, start, far)
            else:
                self.load_elements(tile, array, dims, start, clip=False)
            return
        c = self.c
        inside, edge, join = c.block("inside"), c.block("edge"), c.block("join")
        c.cbr(self.whole_block(array, start, dims, (tile.rows, tile.cols)), inside, edge)
        c.place(inside)
        self.load_elements(tile, array, dims, start, clip=False)
        c.br(join)
        c.place(edge)
        self.load_elements(tile, array, dims, start, clip=True)
        c.br(join)
        c.place(join)

    def load_elements(self, tile: Tile, array: Array, dims: tuple[int, int], start: list[str], *, clip: bool) -> None:
        """Each lane reads its own elements."""
        c = self.c
        assert isinstance(array.type, DType)
        lane = self.lane_place(tile)
        at = list(start)
        for d, more in zip(dims, lane, strict=True):
            at[d] = self.sum_of(at[d], more)
        base, space = self.place(array)
        first = self.moved(base, space, self.offset(array, at), array.type.itemsize)
        steps = [self.stride(array, d) for d in dims]
        along = 1 if tile.role == "a" else 0
        for number, (row, col, count) in enumerate(self.places(tile)):
            parts = []
            for e in range(count):
                place = (row, col + e) if along else (row + e, col)
                distance = self.sum_of(*(self.product(str(n), s) for n, s in zip(place, steps, strict=True)))
                if not clip:
                    parts.append(self.element_at(tile, array, self.moved(first, space, distance, array.type.itemsize)))
                    continue
                there, before, join = c.block("there"), c.at_block, c.block("next")
                c.cbr(self.exists(array, at, dims, place), there, join)
                c.place(there)
                loaded = self.element_at(tile, array, self.moved(first, space, distance, array.type.itemsize))
                end = c.at_block
                c.br(join)
                c.place(join)
                elem = self.raw_type(tile)
                zero = constant(0, elem)
                parts.append(c.op(f"phi {elem} [ {loaded}, %{end.label} ], [ {zero}, %{before.label} ]"))
            self.write(tile, number, self.packed(tile, parts))

    def exists(self, array: Array, at: list[str], dims: tuple[int, int], place: tuple[int, int]) -> str:
        """Whether the element at ``at`` and a constant distance from it is inside of the array."""
        c = self.c
        tests = [
            c.op(f"icmp ult i64 {self.sum_of(at[d], str(n))}, {self.extent(array, d)}")
            for d, n in zip(dims, place, strict=True)
        ]
        return c.op(f"and i1 {tests[0]}, {tests[1]}")

    def raw_type(self, tile: Tile) -> str:
        """The LLVM type of one element on its way into a register."""
        return self.register(tile) if tile.role == "acc" else memory_element(tile.type)

    def element_at(self, tile: Tile, array: Array, place: str) -> str:
        t = array.type
        assert isinstance(t, DType)
        _, space = self.place(array)
        raw = self.c.op(f"load {memory_element(t)}, ptr{space} {place}, align {t.itemsize}")
        if tile.role != "acc":
            return raw
        value = self.ops.from_memory(raw, t)
        return value if t is tile.type else self.ops.cast(value, t, tile.type, element(t), element(tile.type))

    def packed(self, tile: Tile, parts: list[str]) -> str:
        """The register that holds the elements, the first one lowest."""
        c = self.c
        if tile.role == "acc" or tile.type is f64:
            return parts[0]
        if tile.type is f32:
            return self.tf32(parts[0])
        bits = tile.type.bits
        out = ""
        for k, part in enumerate(parts):
            wide = c.op(f"zext i{bits} {part} to i32")
            if k:
                wide = c.op(f"or i32 {out}, {c.op(f'shl i32 {wide}, {k * bits}')}")
            out = wide
        return out

    def tf32(self, value: str) -> str:
        """The bits of the nearest tf32 number, ties away from zero."""
        return self.c.call("llvm.nvvm.f2tf32.rna", "i32", ("float", value))

    # --- ldmatrix ------------------------------------------------------------------------------------------------
    def matrix_rows(self, node: Node) -> str | None:
        """Whether rows of 16 bytes can be read as they lie: "k" where these go along k, "other" where across it, and
        None where they cannot."""
        tile, array, dims = (node.attrs[k] for k in ("tile", "array", "dims"))
        if tile.role == "acc" or not isinstance(array, SharedArray) or tile.type.bits > 32:
            return None
        last = array.rank - 1
        along = dims[1 if tile.role == "a" else 0] == last
        if dims[0] != last and dims[1] != last:
            return None
        if not along and tile.type.bits != 16:
            return None
        size = tile.type.itemsize
        for d, arg in enumerate(node.args):
            stride = self.stride(array, d)
            if stride.startswith("%") or self.divisors.of(arg) * int(stride) * size % _ROW:
                return None
            if d in dims and d != last and int(stride) * size % _ROW:
                return None
        return "k" if along else "other"

    def load_matrices(self, tile: Tile, array: Array, dims: tuple[int, int], start: list[str], far: str) -> None:
        """Two or four matrices of 8 rows of 16 bytes at a time. Lane l names row l % 8 of matrix l / 8."""
        u, c = self.unit(tile), self.c
        rows, cols, count = self.grid(tile)
        lane = self.in_entry(f"zext nneg i32 {self.entry_lane()} to i64")
        which, row = self.in_entry(f"lshr i64 {lane}, 3"), self.in_entry(f"and i64 {lane}, 7")
        low, high = self.in_entry(f"and i64 {which}, 1"), self.in_entry(f"lshr i64 {which}, 1")
        # Of the matrices, which bit moves across k by 8, and which along it by half of the unit.
        pairs = len(u.b) > 1
        across, along = (low, high) if tile.role == "a" or not pairs else (high, low)
        across = self.in_entry(f"mul nuw nsw i64 {across}, 8")
        along = self.in_entry(f"mul nuw nsw i64 {along}, {u.k // 2}") if pairs else "0"
        if far == "k":
            across = self.in_entry(f"add nuw nsw i64 {across}, {row}")
        else:
            along = self.in_entry(f"add nuw nsw i64 {along}, {row}") if along != "0" else row
        k_dim, other = (dims[1], dims[0]) if tile.role == "a" else (dims[0], dims[1])
        at = list(start)
        at[k_dim], at[other] = self.sum_of(at[k_dim], along), self.sum_of(at[other], across)
        base, space = self.place(array)
        assert space == SHARED
        size = tile.type.itemsize
        first = self.moved(base, space, self.offset(array, at), size)
        strides = {d: self.stride(array, d) for d in dims}
        number = 4 if pairs else 2
        out = f"{{{', '.join(['i32'] * number)}}}"
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{number}{'' if far == 'k' else '.trans'}.b16.p3"
        c.module.declare(name, out, f"ptr{SHARED}")
        # A load fills a fragment of the left operand, or two neighbours of the right one.
        for i in range(rows):
            for j in range(0, cols, 1 if tile.role == "a" else 2):
                place = {other: i * u.m, k_dim: j * u.k} if tile.role == "a" else {k_dim: i * u.k, other: j * 8}
                distance = self.sum_of(*(self.product(str(n), strides[d]) for d, n in place.items()))
                value = c.op(f"call {out} @{name}(ptr{space} {self.moved(first, space, distance, size)})")
                for r in range(number):
                    bits = c.op(f"extractvalue {out} {value}, {r}")
                    if tile.type is f32:
                        bits = self.tf32(c.op(f"bitcast i32 {bits} to float"))
                    self.write(tile, (i * cols + j) * count + r, bits)

    # --- stores --------------------------------------------------------------------------------------------------
    def tile_store(self, node: Node) -> None:
        tile, array, dims = (node.attrs[k] for k in ("tile", "array", "dims"))
        start = self.origin(node)
        self.c.module.declare("llvm.nvvm.bar.warp.sync", "void", "i32")
        self.c.do("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        if not node.attrs["clip"]:
            self.store_elements(tile, array, dims, start, clip=False)
            return
        c = self.c
        inside, edge, join = c.block("inside"), c.block("edge"), c.block("join")
        c.cbr(self.whole_block(array, start, dims, (tile.rows, tile.cols)), inside, edge)
        for block, clip in ((inside, False), (edge, True)):
            c.place(block)
            self.store_elements(tile, array, dims, start, clip=clip)
            c.br(join)
        c.place(join)

    def store_elements(self, tile: Tile, array: Array, dims: tuple[int, int], start: list[str], *, clip: bool) -> None:
        c, t = self.c, array.type
        assert isinstance(t, DType)
        at = list(start)
        for d, more in zip(dims, self.lane_place(tile), strict=True):
            at[d] = self.sum_of(at[d], more)
        base, space = self.place(array)
        first = self.moved(base, space, self.offset(array, at), t.itemsize)
        steps = [self.stride(array, d) for d in dims]
        for number, (row, col, _) in enumerate(self.places(tile)):
            value = c.op(f"load {self.register(tile)}, ptr {self.held(tile)[number]}")
            if t is not tile.type:
                value = self.ops.cast(value, tile.type, t, element(tile.type), element(t))
            raw = self.ops.to_memory(value, t)
            next_ = None
            if clip:
                there, next_ = c.block("there"), c.block("next")
                c.cbr(self.exists(array, at, dims, (row, col)), there, next_)
                c.place(there)
            distance = self.sum_of(*(self.product(str(n), s) for n, s in zip((row, col), steps, strict=True)))
            place = self.moved(first, space, distance, t.itemsize)
            c.do(f"store {memory_element(t)} {raw}, ptr{space} {place}, align {t.itemsize}")
            if next_ is not None:
                c.br(next_)
                c.place(next_)
