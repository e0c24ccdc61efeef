"""Subgroup operations: a subgroup is a warp, and its lanes are consecutive work-items, x fastest.

Reductions and scans keep the orders of RULES 10: a tree, and Kogge-Stone, over the ranks of the active lanes. With all
32 lanes active a rank is a lane number, and the exchange is a butterfly or a shift; else each lane looks for the lane
of the rank that it needs. Both stand in one function a kind and type, which decides by the mask. Integers of up to 32
bits reduce in one instruction from sm_80 on.
"""

from __future__ import annotations

from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Code, Module, constant, element
from magpie.backends.ptx.masks import MaskedSimt
from magpie.dtypes import DType, index
from magpie.ir.nodes import Node
from magpie.ir.ops import identity

__all__ = ["SubgroupSimt"]

_REDUX = {"add": "add", "and": "and", "or": "or", "xor": "xor"}
_STEPS = (1, 2, 4, 8, 16)


class SubgroupSimt(MaskedSimt):
    """Cross-lane operations."""

    redux = False  # redux.sync exists: sm_80

    def lane(self) -> str:
        """The lane number as an i32."""
        return self.c.op("call range(i32 0, 32) i32 " + self.c.module.declare(_LANE, "i32", "") + "()")

    def barrier(self, node: Node) -> None:
        if node.op == "barrier":
            self.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", "0")
        else:
            self.call_void("llvm.nvvm.bar.warp.sync", self.mask)

    def call_void(self, name: str, operand: str) -> None:
        """An intrinsic that takes an i32 and gives nothing."""
        self.c.do(f"call void {self.c.module.declare(name, 'void', 'i32')}(i32 {operand})")

    def subgroup(self, node: Node, args: list[str]) -> str:
        c, op = self.c, node.op
        if op == "subgroup_size":
            return "32"
        if op == "subgroup_lane":
            return c.op(f"zext i32 {self.lane()} to i64")
        if op == "subgroup_id":
            return c.op(f"lshr i64 {self.linear_local_id()}, 5")
        if op == "subgroup_count":
            x, y, z = (self.coordinate("workgroup_size", d) for d in range(3))
            items = c.op(f"mul i64 {c.op(f'mul i64 {x}, {y}')}, {z}")
            return c.op(f"lshr i64 {c.op(f'add i64 {items}, 31')}, 5")
        if op == "subgroup_ballot":
            return c.op(f"zext i32 {self.ballot(self.mask, args[0])} to i64")
        if op in ("subgroup_any", "subgroup_all"):
            name = f"llvm.nvvm.vote.{op.removeprefix('subgroup_')}.sync"
            return c.call(name, "i1", ("i32", self.mask), ("i1", args[0]))
        if op == "subgroup_elect":
            first = c.op(f"call i32 {_cttz(c.module)}(i32 {self.mask}, i1 false)")
            return c.op(f"icmp eq i32 {self.lane()}, {first}")
        t = node.args[0].dtype
        if op == "subgroup_reduce":
            return self.reduce(node.attrs["kind"], t, args[0])
        if op == "subgroup_scan":
            return self.scan(node.attrs["kind"], t, args[0], bool(node.attrs.get("exclusive")))
        where = self.ops.cast(args[1], node.args[1].dtype, index, element(node.args[1].dtype), "i64")
        return self.shuffle(op, t, args[0], where)

    # --- shuffles ------------------------------------------------------------------------------------------------
    def shuffle(self, op: str, t: DType, value: str, where: str) -> str:
        """The value of another lane; own value where that is inactive or does not exist."""
        c, elem = self.c, element(t)
        if op == "subgroup_broadcast":
            at = c.op(f"and i32 {c.op(f'trunc i64 {where} to i32')}, 31")
            return exchange(c, self.mask, elem, value, at)
        lane = c.op(f"zext i32 {self.lane()} to i64")
        if op != "subgroup_shuffle":
            how = {"subgroup_shuffle_xor": "xor", "subgroup_shuffle_up": "sub", "subgroup_shuffle_down": "add"}[op]
            where = c.op(f"{how} i64 {lane}, {where}")
        valid = c.op(f"icmp ult i64 {where}, 32")
        at = c.op(f"and i32 {c.op(f'trunc i64 {where} to i32')}, 31")
        bit = c.op(f"and i32 {c.op(f'lshr i32 {self.mask}, {at}')}, 1")
        valid = c.op(f"and i1 {valid}, {c.op(f'icmp ne i32 {bit}, 0')}")
        return self.ops.select(valid, elem, exchange(c, self.mask, elem, value, at), value)

    # --- reductions and scans ------------------------------------------------------------------------------------
    def reduce(self, kind: str, t: DType, value: str) -> str:
        c, elem = self.c, element(t)
        kind = _bool_kind(kind) if t.is_bool else kind
        if self.redux and t.bits <= 32 and not t.is_float and (kind in _REDUX or kind in ("min", "max")):
            wide = value if elem == "i32" else c.op(f"{'sext' if t.kind == 'int' else 'zext'} {elem} {value} to i32")
            name = _REDUX.get(kind, kind if t.kind == "int" else f"u{kind}")
            out = c.call(f"llvm.nvvm.redux.sync.{name}", "i32", ("i32", wide), ("i32", self.mask))
            return out if elem == "i32" else c.op(f"trunc i32 {out} to {elem}")
        name = f"subgroup.reduce.{kind}.{t.name}"
        c.module.helper(name, lambda: _reduction(name, kind, t, c.module))
        return c.op(f"call {elem} @{name}({elem} {value}, i32 {self.mask})")

    def scan(self, kind: str, t: DType, value: str, exclusive: bool) -> str:
        c, elem = self.c, element(t)
        kind = _bool_kind(kind) if t.is_bool else kind
        name = f"subgroup.{'exclusive' if exclusive else 'scan'}.{kind}.{t.name}"
        c.module.helper(name, lambda: _prefix(name, kind, t, exclusive, c.module))
        return c.op(f"call {elem} @{name}({elem} {value}, i32 {self.mask})")


_LANE = "llvm.nvvm.read.ptx.sreg.laneid"


def _bool_kind(kind: str) -> str:
    return {"add": "or", "max": "or", "min": "and", "mul": "and"}.get(kind, kind)


def _cttz(module: Module) -> str:
    return module.declare("llvm.cttz.i32", "i32", "i32, i1")


def exchange(c: Code, mask: str, elem: str, value: str, at: str, kind: str = "idx") -> str:
    """The value of lane ``at`` (or of that lane xor, or that far below) by 32-bit shuffles. A shift's first lanes, and
    inactive sources, give what nobody may use."""
    if elem == "double":
        bits = c.op(f"bitcast double {value} to i64")
        return c.op(f"bitcast i64 {exchange(c, mask, 'i64', bits, at, kind)} to double")
    if elem == "i64":
        low, high = c.op(f"trunc i64 {value} to i32"), c.op(f"lshr i64 {value}, 32")
        high = c.op(f"trunc i64 {high} to i32")
        low, high = (c.op(f"zext i32 {exchange(c, mask, 'i32', v, at, kind)} to i64") for v in (low, high))
        return c.op(f"or i64 {low}, {c.op(f'shl i64 {high}, 32')}")
    if elem == "float":
        bits = c.op(f"bitcast float {value} to i32")
        return c.op(f"bitcast i32 {exchange(c, mask, 'i32', bits, at, kind)} to float")
    if elem != "i32":
        wide = c.op(f"zext {elem} {value} to i32")
        return c.op(f"trunc i32 {exchange(c, mask, 'i32', wide, at, kind)} to {elem}")
    # The last operand: segments of 32 lanes, and the bound that a lane number is held to.
    bound = "0" if kind == "up" else "31"
    name = f"llvm.nvvm.shfl.sync.{kind}.i32"
    return c.call(name, "i32", ("i32", mask), ("i32", value), ("i32", at), ("i32", bound))


class _Function:
    """A function ``(value, mask)`` under construction, which goes one way for full warps and another for others."""

    def __init__(self, kind: str, t: DType, module: Module) -> None:
        self.c = Code(module)
        self.ops = Ops(self.c, 1, native_half=True)
        self.kind = kind
        self.t = t
        self.elem = element(t)
        self.full, self.part = self.c.block("full"), self.c.block("part")
        whole = self.c.op("icmp eq i32 %mask, -1")
        self.c.cbr(whole, self.full, self.part)

    def combine(self, a: str, b: str) -> str:
        """a (kind) b."""
        return self.ops.emit(Node(self.kind, (), self.t), [a, b], self.t, self.elem)

    def bits(self, mask: str) -> str:
        """How many bits are set."""
        return self.c.call("llvm.ctpop.i32", "i32", ("i32", mask))

    def rank(self) -> str:
        """How many active lanes stand below this one."""
        below = self.c.call("llvm.nvvm.read.ptx.sreg.lanemask.lt", "i32")
        return self.bits(self.c.op(f"and i32 {below}, %mask"))

    def lane_of(self, rank: str) -> str:
        """The lane of a rank."""
        module = self.c.module
        module.helper("subgroup.lane", lambda: _lane_of_rank(module))
        return self.c.op(f"call i32 @subgroup.lane(i32 %mask, i32 {rank})")

    def from_rank(self, value: str, rank: str) -> str:
        """The value that the lane of ``rank`` has."""
        return exchange(self.c, "%mask", self.elem, value, self.lane_of(rank))

    def text(self, name: str) -> str:
        header = f"define internal {self.elem} @{name}({self.elem} %value, i32 %mask) convergent nounwind"
        return self.c.function(header)


def _reduction(name: str, kind: str, t: DType, module: Module) -> str:
    f = _Function(kind, t, module)
    c = f.c
    c.place(f.full)
    total = "%value"
    for step in _STEPS:
        total = f.combine(total, exchange(c, "-1", f.elem, total, str(step), "bfly"))
    c.ret(f"{f.elem} {total}")
    c.place(f.part)
    rank, count = f.rank(), f.bits("%mask")
    total = "%value"
    for step in _STEPS:
        partner = c.op(f"add i32 {rank}, {step}")
        there = c.op(f"icmp ult i32 {partner}, {count}")
        joined = f.combine(total, f.from_rank(total, partner))
        total = f.ops.select(there, f.elem, joined, total)
    c.ret(f"{f.elem} {f.from_rank(total, '0')}")
    return f.text(name)


def _prefix(name: str, kind: str, t: DType, exclusive: bool, module: Module) -> str:
    f = _Function(kind, t, module)
    c = f.c
    neutral = constant(identity(kind, t), f.elem)
    for full in (True, False):
        c.place(f.full if full else f.part)
        rank = c.call(_LANE, "i32") if full else f.rank()
        total = "%value"

        def below(value: str, step: int, full: bool = full, rank: str = rank) -> str:
            if full:
                return exchange(c, "-1", f.elem, value, str(step), "up")
            return f.from_rank(value, c.op(f"sub i32 {rank}, {step}"))

        for step in _STEPS:
            enough = c.op(f"icmp uge i32 {rank}, {step}")
            total = f.ops.select(enough, f.elem, f.combine(below(total, step), total), total)
        if exclusive:
            first = c.op(f"icmp eq i32 {rank}, 0")
            total = f.ops.select(first, f.elem, neutral, below(total, 1))
        c.ret(f"{f.elem} {total}")
    return f.text(name)


def _lane_of_rank(module: Module) -> str:
    """The position of the set bit of ``mask`` that has ``rank`` set bits below it, by bisection; below 32 always."""
    c = Code(module)
    ops = Ops(c, 1)
    mask, rank, at = "%mask", "%rank", "0"
    for width in (16, 8, 4, 2, 1):
        low = c.op(f"and i32 {mask}, {(1 << width) - 1}")
        count = c.call("llvm.ctpop.i32", "i32", ("i32", low))
        over = c.op(f"icmp uge i32 {rank}, {count}")
        rank = c.op(f"sub i32 {rank}, {ops.select(over, 'i32', count, '0')}")
        mask = c.op(f"lshr i32 {mask}, {ops.select(over, 'i32', str(width), '0')}")
        at = c.op(f"add i32 {at}, {ops.select(over, 'i32', str(width), '0')}")
    c.ret(f"i32 {at}")
    return c.function("define internal i32 @subgroup.lane(i32 %mask, i32 %rank) nounwind")
