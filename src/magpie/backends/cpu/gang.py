"""Emits the code of one gang: W work-items as W SIMD lanes, under a mask.

This file holds the values: how each node becomes a scalar, a scalar with a stride or a vector. Control flow, memory,
atomics and subgroup ops are in files of their own, joined by `magpie.backends.cpu.spmd`.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.lane_shapes import Shapes
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.plain import made_by, plain
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.streaming import Streams
from magpie.backends.cpu.values import Mask, MaskOps, Value, ramp
from magpie.backends.llvm.codegen import HostTarget
from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Block, Code, constant, element, splat
from magpie.dtypes import DType, f32
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, Slot
from magpie.passes.access_groups import Group
from magpie.passes.narrow_index import Ranges, full

__all__ = ["LEAVES", "Coordinates", "Env", "GangBase", "Storage", "exact_line"]

# Differences of integers up to this far from zero do not wrap.
_NEAR = 1 << 62
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
# Integer ops that give the same low 32 bits, and whose result is right wherever it and the operands fit.
_NARROW = frozenset(
    [
        "add",
        "sub",
        "mul",
        "and",
        "or",
        "xor",
        "min",
        "max",
        "floordiv",
        "tdiv",
        "mod",
        "trem",
        "neg",
        "abs",
        "select",
        "not",
        "cast",
    ]
)


@plain
class Coordinates:
    """Where the gang is: scalars (i64 text) and the block that defines them."""

    group: tuple[str, str, str]  # workgroup ids
    x0: str  # thread_id(0) of lane 0, or its linear id if lanes run across rows
    y: str
    z: str
    number: str  # of the gang in its workgroup
    block: Block | None
    group_block: Block | None
    last: str = "0"  # workgroup id along x of the last workgroup of the batch


@plain
class Storage:
    """Where a slot lives: an alloca (or context memory) of ``type``."""

    pointer: str
    elem: str
    kind: int
    stride: int = 0


@plain
class Env:
    """What all gangs of a kernel share."""

    code: Code
    kernel: Kernel
    launch: Launch
    shapes: Shapes
    ranges: Ranges
    layout: Layout
    target: HostTarget
    masks: MaskOps
    checked: bool
    fast: str
    streams: Streams
    # pointer text and defining block of shared, local and constant arrays
    arrays: dict[Array, tuple[str, Block | None]] = made_by(default_factory=dict)
    alias: dict[Array, str] = made_by(default_factory=dict)  # metadata to add to accesses
    # (number, distance in bytes) of the private copies that atomics on a shared array work on at present
    copies: dict[Array, tuple[int, int]] = made_by(default_factory=dict)
    sites: list[dict[str, object]] = made_by(default_factory=list)
    spills: list[str] = made_by(default_factory=list)  # stack memory for vectors, see `MemoryMixin.spill`
    nowhere: str = ""  # where lanes that are off may store, see `ScatterMixin.store_apart`
    regular: dict[Node, bool] = made_by(default_factory=dict)  # see `MemoryMixin.is_regular`
    groups: dict[Node, Group] = made_by(default_factory=dict)  # see `magpie.passes.access_groups`
    filled: set[LocalArray] = made_by(default_factory=set)  # see `magpie.backends.cpu.filled`
    used: set[Node] = made_by(default_factory=set)  # nodes that are operands
    group: str = "0"  # linear number of the workgroup
    library: Callable[[str, DType, list[str], int], str] | None = None
    large: bool = False  # so many nodes that code size counts more than speed
    ahead: str = ""  # what walks prefetch: the next "line" or what the next "trip" loads
    polling: bool = True  # whether endless loops look for a cancelled launch
    trips: str = ""  # counter of the trips of endless loops
    leave: Block | None = None  # leaves the kernel
    record_word: int = 0  # where the launch block has the record buffer


class GangBase:
    """Values. ``map`` holds what is emitted; ``mask`` the active lanes, None for all."""

    def __init__(self, env: Env, at: Coordinates) -> None:
        self.env = env
        self.c = env.code
        self.w = env.layout.width
        self.masks = env.masks
        self.at = at
        self.scalar = Ops(env.code, 1, fast=env.fast, native_half=env.target.has_f16c)
        self.vector = Ops(env.code, self.w, fast=env.fast, native_half=env.target.has_f16c)
        self.scalar.library = self.vector.library = env.library
        self.map: dict[Node, Value] = {}
        self.mask: Mask | None = None
        self.full = True  # all lanes are work-items: `mask` is then what control flow left of them
        self.spilled = 0  # of env.spills, in use for the current node
        self.storage: dict[Slot, Storage] = {}

    # --- making values -------------------------------------------------------------------------------------------
    def uni(self, text: str, elem: str, block: Block | None = None) -> Value:
        """A scalar defined here."""
        return Value(0, text, elem, (block or self.c.at_block) if text.startswith("%") else None)

    def lin(self, text: str, elem: str, stride: int | str, block: Block | None = None) -> Value:
        return Value(1, text, elem, (block or self.c.at_block) if text.startswith("%") else None, stride)

    def vec(self, text: str, elem: str) -> Value:
        """A vector, or for i1 a mask of the current block."""
        if elem == "i1":
            return Value(2, "", elem, mask=self.masks.from_i1(text))
        return Value(2, text, elem)

    def bools(self, mask: Mask) -> Value:
        return Value(2, "", "i1", mask=mask)

    def value(self, node: Node) -> Value:
        return self.map[node]

    # --- vectors of values ---------------------------------------------------------------------------------------
    def lanes(self, v: Value, elem: str = "") -> str:
        """``v`` as a vector of ``elem`` (its own by default; integers convert by sign extension or truncation)."""
        c, w = self.c, self.w
        elem = elem or v.elem
        if v.elem == "i1":
            return self.masks.i1(self.as_mask(v))
        if v.kind == 2:
            if v.elem == elem:
                return v.text
            return c.op(
                f"{'trunc' if int(v.elem[1:]) > int(elem[1:]) else 'sext'} <{w} x {v.elem}> {v.text} to <{w} x {elem}>"
            )
        if v.cache is None:
            v.cache = {}
        found = v.cache.get(elem)
        if found is None:
            found = v.cache[elem] = self._spread(v, elem)
        return found

    def _spread(self, v: Value, elem: str) -> str:
        """A scalar or line as a vector, in the block that defines it."""
        c, w = self.c, self.w
        block = v.block or c.entry
        text = v.text
        if v.elem != elem and text.startswith("%"):
            text = c.op_in(block, f"{'trunc' if int(v.elem[1:]) > int(elem[1:]) else 'sext'} {v.elem} {text} to {elem}")
        base = self.splat_in(block, text, elem)
        if v.kind == 0:
            return base
        vt = f"<{w} x {elem}>"
        if isinstance(v.stride, int):
            steps = ramp(elem, v.stride, w)
        else:
            stride = v.stride
            if v.elem != elem:
                stride = c.op_in(block, f"trunc {v.elem} {stride} to {elem}")
            steps = c.op_in(block, f"mul {vt} {self.splat_in(block, stride, elem)}, {ramp(elem, 1, w)}")
        return steps if base == "zeroinitializer" else c.op_in(block, f"add {vt} {base}, {steps}")

    def splat_in(self, block: Block, text: str, elem: str) -> str:
        """``text`` in every lane; instructions go to the end of ``block``."""
        if not text.startswith("%"):
            return splat(text, elem, self.w)
        c, vt = self.c, f"<{self.w} x {elem}>"
        one = c.op_in(block, f"insertelement {vt} poison, {elem} {text}, i64 0")
        return c.op_in(block, f"shufflevector {vt} {one}, {vt} poison, <{self.w} x i32> zeroinitializer")

    def as_mask(self, v: Value) -> Mask:
        """A bool value as lanes."""
        if v.mask is None:
            m = self.masks
            if v.literal:
                v.mask = Mask(wide=m.all_wide if v.text == "true" else "zeroinitializer")
            else:
                block = v.block or self.c.entry
                text = v.text
                if m.bits != 1:
                    text = self.c.op_in(block, f"sext i1 {text} to {m.elem}")
                v.mask = Mask(wide=self.splat_in(block, text, m.elem))
        return v.mask

    # --- nodes ---------------------------------------------------------------------------------------------------
    def shape(self, node: Node) -> int:
        return self.env.shapes.of(node).kind

    def pure(self, node: Node) -> Value:
        """The value of a pure node."""
        op = node.op
        if op == "const":
            t = node.dtype
            return Value(0, constant(node.attrs["value"], element(t)), element(t))
        leaf = LEAVES.get(op)
        if leaf is not None:
            return leaf(self, node)
        args = [self.map[a] for a in node.args]
        if all(a.kind == 0 for a in args):
            return self.uniform_op(node, args)
        if op in _COMPARE:
            return self.compare(node, args)
        if self.shape(node) != 2 and node.dtype.is_int:
            return self.linear_op(node, args)
        return self.vector_op(node, args)

    def uniform_op(self, node: Node, args: list[Value]) -> Value:
        """All operands are scalars."""
        elem = element(node.dtype)
        text = self.elementwise(self.scalar, node, [a.text for a in args], [a.elem for a in args], elem)
        return self.uni(text, elem)

    def elementwise(self, ops: Ops, node: Node, args: list[str], elems: list[str], elem: str) -> str:
        """One pure op at the width of ``ops``; ``elem`` is how the result is held."""
        op = node.op
        if op == "select":
            return ops.select(args[0], elem, args[1], args[2])
        if op == "cast":
            return ops.cast(args[0], node.args[0].dtype, node.dtype, elems[0], elem)
        if op == "bitcast":
            return ops.bitcast(args[0], node.args[0].dtype, node.dtype)
        return ops.emit(node, args, node.args[0].dtype, elems[0])

    def held(self, node: Node) -> str:
        """The element in which a varying value of ``node`` is held: 64-bit integers in 32 bits where they fit."""
        t = node.dtype
        if t.is_int and t.bits == 64 and node.op in _NARROW and self.env.ranges.fits32(node):
            operands = node.args[1:] if node.op == "select" else node.args
            if all(not a.dtype.is_int or self.env.ranges.fits32(a) for a in operands):
                return "i32"
        return element(t)

    def vector_op(self, node: Node, args: list[Value]) -> Value:
        op = node.op
        if node.dtype.is_bool and op in ("and", "or", "xor", "not") and self.masks.bits != 1:
            m = self.masks
            lanes = [self.as_mask(a) for a in args]
            if op == "not":
                return self.bools(m.not_(lanes[0]))
            return self.bools({"and": m.and_, "or": m.or_, "xor": m.xor_}[op](lanes[0], lanes[1]))
        elem = self.held(node)
        if op == "cast" and node.dtype.is_float and args[0].kind == 1:
            return self.line_to_float(node, args[0])
        wants: list[str] = []
        for a, v in zip(node.args, args, strict=True):
            t = a.dtype
            if t.is_int and t.bits == 64:
                if op == "cast":
                    wants.append("i32" if self.env.ranges.fits32(a) else "i64")
                elif node.dtype.is_int and node.dtype.bits == 64:
                    wants.append(elem)
                else:
                    wants.append("i64")
            else:
                wants.append(v.elem)
        texts = [self.lanes(v, e) for v, e in zip(args, wants, strict=True)]
        return self.vec(self.elementwise(self.vector, node, texts, wants, elem), elem)

    def line_to_float(self, node: Node, line: Value) -> Value:
        """A linear integer as floats: exact in i32 or f64 lanes, then one rounding."""
        c, source, target = self.c, node.args[0], node.dtype
        if source.dtype.bits < 64 or self.env.ranges.fits32(source) or not isinstance(line.stride, int):
            elem = "i32" if source.dtype.bits == 64 and self.env.ranges.fits32(source) else line.elem
            text = self.vector.cast(self.lanes(line, elem), source.dtype, target, elem, element(target))
            return self.vec(text, element(target))
        low, high = self.env.ranges.of(source)
        if low < -(1 << 52) or high > 1 << 52:
            text = self.vector.cast(self.lanes(line), source.dtype, target, line.elem, element(target))
            return self.vec(text, element(target))
        from magpie.dtypes import f64

        base = self.c.op(f"sitofp i64 {line.text} to double")
        vt = f"<{self.w} x double>"
        sum_ = c.op(f"fadd {vt} {self.splat_in(c.at_block, base, 'double')}, {ramp('double', line.stride, self.w)}")
        return self.vec(self.vector.float_to_float(sum_, f64, target), element(target))

    # --- linear integers -----------------------------------------------------------------------------------------
    def linear_op(self, node: Node, args: list[Value]) -> Value:
        """A linear (or uniform) integer result from linear operands: arithmetic on lane 0 and on the stride."""
        c, op = self.c, node.op
        elem = element(node.dtype)
        shape = self.env.shapes.of(node)
        if op == "select":
            text = self.scalar.select(args[0].text, elem, args[1].text, args[2].text)
        else:
            text = self.elementwise(self.scalar, node, [a.text for a in args], [a.elem for a in args], elem)
        if shape.kind == 0:
            return self.uni(text, elem)
        if shape.stride is not None:
            return self.lin(text, elem, shape.stride)
        strides = [str(a.stride) for a in args]
        if op == "neg":
            stride = c.op(f"sub {elem} 0, {strides[0]}")
        elif op in ("add", "sub"):
            stride = c.op(f"{op} {elem} {strides[0]}, {strides[1]}")
        elif op in ("mul", "shl"):
            line, factor = (args[0], args[1]) if args[0].kind == 1 else (args[1], args[0])
            stride = c.op(f"{op} {elem} {line.stride}, {factor.text}")
        else:  # cast
            have, want = int(args[0].elem[1:]), int(elem[1:])
            if have == want:
                stride = strides[0]
            else:
                stride = c.op(f"{'trunc' if have > want else 'sext'} {args[0].elem} {strides[0]} to {elem}")
        return self.lin(text, elem, stride)

    def difference(self, node: Node, a: Value, b: Value) -> tuple[str, int] | None:
        """(d, s) such that lane k of ``a`` compares to ``b`` as k * s compares to d; None if unknown."""
        x, y = node.args
        ranges = self.env.ranges
        if not (exact_line(x, a.kind, a.stride, ranges) and exact_line(y, b.kind, b.stride, ranges)):
            return None
        step = (int(a.stride) if a.kind == 1 else 0) - (int(b.stride) if b.kind == 1 else 0)
        if abs(step) * self.w >= 1 << 20:
            return None
        c = self.c
        ax, bx = (v.text if v.elem == "i64" else c.op(f"sext {v.elem} {v.text} to i64") for v in (a, b))
        if all(low >= -_NEAR and high <= _NEAR for low, high in (ranges.of(x), ranges.of(y))):
            d = c.op(f"sub i64 {bx}, {ax}")
        else:  # a uniform side may be anything
            d = self.scalar.intrinsic("ssub.sat", "i64", [bx, ax])
        return d, step

    def compare(self, node: Node, args: list[Value]) -> Value:
        """A comparison; integers on lines are compared as distances, in lanes as wide as the masks."""
        a, b = args
        if node.args[0].dtype.is_int and a.kind != 2 and b.kind != 2:
            found = self.difference(node, a, b)
            if found is not None:
                d, step = found
                if step == 0:
                    return self.uni(self.scalar.compare(node.op, node.args[0].dtype, "i64", ["0", d]), "i1")
                bits = max(32 if self.masks.bits == 1 else self.masks.bits, 8)
                limit = abs(step) * self.w + 1
                if limit > (1 << (bits - 1)) - 1:
                    bits = 32
                elem = f"i{bits}"
                d = self.scalar.intrinsic("smin", "i64", [d, str(limit)])
                d = self.scalar.intrinsic("smax", "i64", [d, str(-limit)])
                narrow = self.c.op(f"trunc i64 {d} to {elem}") if bits < 64 else d
                text = self.vector.compare(
                    node.op,
                    node.args[0].dtype,
                    elem,
                    [ramp(elem, step, self.w), self.splat_in(self.c.at_block, narrow, elem)],
                )
                return self.vec(text, "i1")
        t = node.args[0].dtype
        if t.is_bool:
            same = self.masks.xor_(self.as_mask(a), self.as_mask(b))
            return self.bools(same if node.op == "ne" else self.masks.not_(same))
        elem = a.elem
        if t.is_int and t.bits == 64:
            elem = "i32" if all(self.env.ranges.fits32(x) for x in node.args) else "i64"
        text = self.vector.compare(node.op, t, elem, [self.lanes(a, elem), self.lanes(b, elem)])
        return self.vec(text, "i1")

    # --- leaves --------------------------------------------------------------------------------------------------
    def group_value(self, text: str) -> Value:
        return Value(0, text, "i64", self.at.group_block if text.startswith("%") else None)

    def thread_id(self, node: Node) -> Value:
        dim, at = node.attrs["dim"], self.at
        if self.env.layout.rows:
            if dim == 0:
                return self.lin(at.x0, "i64", 1, at.block)
            return self.uni(at.y if dim == 1 else at.z, "i64", at.block)
        return self.linear_thread_id(dim)

    def linear_thread_id(self, dim: int) -> Value:
        """Lanes run on in linear ids: divide, unless x is a multiple of the gang."""
        c, launch = self.c, self.env.launch
        sx, sy = launch.size(0), launch.size(1)
        if self.env.layout.x_linear:
            if dim == 0:
                return self.lin(c.op(f"urem i64 {self.at.x0}, {sx}"), "i64", 1)
            row = c.op(f"udiv i64 {self.at.x0}, {sx}")
            return self.uni(c.op(f"{'urem' if dim == 1 else 'udiv'} i64 {row}, {sy}"), "i64")
        ids = self.lanes(Value(1, self.at.x0, "i64", self.at.block, 1), "i32")
        wx, wy = (
            splat(s, "i32", self.w) if s.isdigit() else self.splat_in(c.at_block, c.op(f"trunc i64 {s} to i32"), "i32")
            for s in (sx, sy)
        )
        from magpie.dtypes import u32

        row = self.vector.quotient(u32, "i32", ids, wx)
        vt = f"<{self.w} x i32>"
        if dim == 0:
            return self.vec(c.op(f"sub {vt} {ids}, {c.op(f'mul {vt} {row}, {wx}')}"), "i32")
        plane = self.vector.quotient(u32, "i32", row, wy)
        if dim == 2:
            return self.vec(plane, "i32")
        return self.vec(c.op(f"sub {vt} {row}, {c.op(f'mul {vt} {plane}, {wy}')}"), "i32")

    def workgroup_id(self, node: Node) -> Value:
        if node.attrs.get("last"):
            return self.group_value(self.at.last)
        return self.group_value(self.at.group[node.attrs["dim"]])

    def global_id(self, node: Node) -> Value:
        c, dim = self.c, node.attrs["dim"]
        local = self.thread_id(node)
        start = c.op(f"mul i64 {self.at.group[dim]}, {self.env.launch.size(dim)}")
        if local.kind == 2:
            base = self.splat_in(c.at_block, start, "i64")
            return self.vec(c.op(f"add <{self.w} x i64> {base}, {self.lanes(local, 'i64')}"), "i64")
        text = start if local.text == "0" else c.op(f"add i64 {start}, {local.text}")
        return self.lin(text, "i64", 1) if local.kind == 1 else self.uni(text, "i64")

    def linear_local_id(self, node: Node) -> Value:
        c, at, launch = self.c, self.at, self.env.launch
        if not self.env.layout.rows:
            return self.lin(at.x0, "i64", 1, at.block)
        row = c.op(f"add i64 {at.y}, {c.op(f'mul i64 {at.z}, {launch.size(1)}')}")
        return self.lin(c.op(f"add i64 {at.x0}, {c.op(f'mul i64 {row}, {launch.size(0)}')}"), "i64", 1)

    def size_leaf(self, node: Node) -> Value:
        launch, op = self.env.launch, node.op
        if op == "workgroup_size":
            return launch.uniform(launch.size(node.attrs["dim"]))
        if op == "num_workgroups":
            return launch.uniform(launch.groups(node.attrs["dim"]))
        if op == "extent":
            return launch.uniform(launch.extent(node.attrs["array"], node.attrs["dim"]))
        return launch.uniform(launch.stride(node.attrs["array"], node.attrs["dim"]))

    def param(self, node: Node) -> Value:
        return self.env.launch.scalar(node)

    def subgroup_leaf(self, node: Node) -> Value:
        c, op = self.c, node.op
        if op == "subgroup_size":
            return Value(0, str(self.w), "i64")
        if op == "subgroup_lane":
            return Value(1, "0", "i64", None, 1)
        if op == "subgroup_id":
            return self.uni(self.at.number, "i64", self.at.block)
        launch = self.env.launch
        items = c.op(f"mul i64 {launch.size(0)}, {c.op(f'mul i64 {launch.size(1)}, {launch.size(2)}')}")
        return self.uni(c.op(f"udiv i64 {c.op(f'add i64 {items}, {self.w - 1}')}, {self.w}"), "i64")


def exact_line(node: Node, kind: int, stride: int | str | None, ranges: Ranges) -> bool:
    """Whether signed integers, a scalar or a line, do not wrap, so that their order is that of the lanes."""
    if node.dtype.kind != "int" or kind == 0:
        return node.dtype.kind == "int"
    low, high = ranges.of(node)
    limit = 1 << (node.dtype.bits - 2)
    return isinstance(stride, int) and (low, high) != full(node.dtype) and -limit <= low and high <= limit


LEAVES = {
    "thread_id": GangBase.thread_id,
    "workgroup_id": GangBase.workgroup_id,
    "global_id": GangBase.global_id,
    "linear_local_id": GangBase.linear_local_id,
    **dict.fromkeys(("workgroup_size", "num_workgroups", "extent", "stride"), GangBase.size_leaf),
    "param": GangBase.param,
    **dict.fromkeys(("subgroup_size", "subgroup_lane", "subgroup_id", "subgroup_count"), GangBase.subgroup_leaf),
}
assert isinstance(f32, DType)
