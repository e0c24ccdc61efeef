"""Subgroup operations, for subgroups of 32 or 64 lanes.

Reductions and scans keep the orders of RULES 10: a tree, and Kogge-Stone, over the ranks of the active lanes. With all
lanes active a rank is a lane number, and the exchange is a butterfly or a shift; else each lane looks for the lane of
the rank that it needs. Both stand in one function a kind and type, which decides by the mask.
"""

from __future__ import annotations

from abc import abstractmethod

from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Code, Module, constant, element
from magpie.backends.llvm.lanes import Lanes
from magpie.backends.llvm.simt_masks import MaskedSimt
from magpie.dtypes import DType, index
from magpie.ir.nodes import Node
from magpie.ir.ops import identity

__all__ = ["SubgroupSimt", "bool_kind"]


class SubgroupSimt(MaskedSimt):
    """Cross-lane operations."""

    def barrier(self, node: Node) -> None:
        if node.op == "barrier":
            self.workgroup_barrier()
        else:
            self.lanes.barrier(self.c, self.mask)

    @abstractmethod
    def workgroup_barrier(self) -> None:
        """All work-items of the workgroup arrive, and see what the others stored before (RULES 12)."""

    def subgroup(self, node: Node, args: list[str]) -> str:
        c, op, lanes = self.c, node.op, self.lanes
        shift = lanes.size.bit_length() - 1
        if op == "subgroup_size":
            return str(lanes.size)
        if op == "subgroup_lane":
            return c.op(f"zext i32 {lanes.lane(c)} to i64")
        if op == "subgroup_id":
            return c.op(f"lshr i64 {self.linear_local_id()}, {shift}")
        if op == "subgroup_count":
            x, y, z = (self.coordinate("workgroup_size", d) for d in range(3))
            items = c.op(f"mul i64 {c.op(f'mul i64 {x}, {y}')}, {z}")
            return c.op(f"lshr i64 {c.op(f'add i64 {items}, {lanes.size - 1}')}, {shift}")
        if op == "subgroup_ballot":
            found = self.ballot(self.mask, args[0])
            return found if lanes.size == 64 else c.op(f"zext i32 {found} to i64")
        if op == "subgroup_any":
            return lanes.any(c, self.mask, args[0])
        if op == "subgroup_all":
            return lanes.all(c, self.mask, args[0])
        if op == "subgroup_elect":
            first = self.first_lane()
            return c.op(f"icmp eq i32 {lanes.lane(c)}, {first}")
        t = node.args[0].dtype
        if op == "subgroup_reduce":
            return self.reduce(node.attrs["kind"], t, args[0])
        if op == "subgroup_scan":
            return self.scan(node.attrs["kind"], t, args[0], bool(node.attrs.get("exclusive")))
        where = self.ops.cast(args[1], node.args[1].dtype, index, element(node.args[1].dtype), "i64")
        return self.shuffle(op, t, args[0], where)

    def first_lane(self) -> str:
        """The lowest active lane as an i32."""
        c, m = self.c, self.lanes.mask
        name = c.module.declare(f"llvm.cttz.{m}", m, f"{m}, i1")
        first = c.op(f"call {m} {name}({m} {self.mask}, i1 false)")
        return first if m == "i32" else c.op(f"trunc {m} {first} to i32")

    # --- shuffles ------------------------------------------------------------------------------------------------
    def shuffle(self, op: str, t: DType, value: str, where: str) -> str:
        """The value of another lane; own value where that is inactive or does not exist."""
        c, elem, lanes = self.c, element(t), self.lanes
        m, last = lanes.mask, lanes.size - 1
        if op == "subgroup_broadcast":
            at = c.op(f"and i32 {c.op(f'trunc i64 {where} to i32')}, {last}")
            return lanes.exchange(c, self.mask, elem, value, at, "same")
        lane = c.op(f"zext i32 {lanes.lane(c)} to i64")
        if op != "subgroup_shuffle":
            how = {"subgroup_shuffle_xor": "xor", "subgroup_shuffle_up": "sub", "subgroup_shuffle_down": "add"}[op]
            where = c.op(f"{how} i64 {lane}, {where}")
        valid = c.op(f"icmp ult i64 {where}, {lanes.size}")
        at = c.op(f"and i32 {c.op(f'trunc i64 {where} to i32')}, {last}")
        count = at if m == "i32" else c.op(f"zext i32 {at} to {m}")
        bit = c.op(f"and {m} {c.op(f'lshr {m} {self.mask}, {count}')}, 1")
        valid = c.op(f"and i1 {valid}, {c.op(f'icmp ne {m} {bit}, 0')}")
        return self.ops.select(valid, elem, lanes.exchange(c, self.mask, elem, value, at), value)

    # --- reductions and scans ------------------------------------------------------------------------------------
    def reduce(self, kind: str, t: DType, value: str) -> str:
        c, elem, lanes = self.c, element(t), self.lanes
        kind = bool_kind(kind) if t.is_bool else kind
        name = f"subgroup.reduce.{kind}.{t.name}"
        c.module.helper(name, lambda: _reduction(name, kind, t, c.module, lanes))
        return c.op(f"call {elem} @{name}({elem} {value}, {lanes.mask} {self.mask})")

    def scan(self, kind: str, t: DType, value: str, exclusive: bool) -> str:
        c, elem, lanes = self.c, element(t), self.lanes
        kind = bool_kind(kind) if t.is_bool else kind
        name = f"subgroup.{'exclusive' if exclusive else 'scan'}.{kind}.{t.name}"
        c.module.helper(name, lambda: _prefix(name, kind, t, exclusive, c.module, lanes))
        return c.op(f"call {elem} @{name}({elem} {value}, {lanes.mask} {self.mask})")


def bool_kind(kind: str) -> str:
    """The bitwise operation that a reduction of bools is."""
    return {"add": "or", "max": "or", "min": "and", "mul": "and"}.get(kind, kind)


class _Function:
    """A function ``(value, mask)`` under construction, which goes one way for full subgroups and another for others."""

    def __init__(self, kind: str, t: DType, module: Module, lanes: Lanes) -> None:
        self.c = Code(module)
        self.ops = Ops(self.c, 1, native_half=True)
        self.lanes = lanes
        self.kind = kind
        self.t = t
        self.elem = element(t)
        self.steps = [1 << k for k in range(lanes.size.bit_length() - 1)]
        self.full, self.part = self.c.block("full"), self.c.block("part")
        whole = self.c.op(f"icmp eq {lanes.mask} %mask, -1")
        self.c.cbr(whole, self.full, self.part)

    def combine(self, a: str, b: str) -> str:
        """a (kind) b."""
        return self.ops.emit(Node(self.kind, (), self.t), [a, b], self.t, self.elem)

    def exchange(self, value: str, at: int, kind: str) -> str:
        """The value of a lane at a fixed distance, with all lanes active."""
        return self.lanes.exchange(self.c, "-1", self.elem, value, str(at), kind)

    def from_rank(self, value: str, rank: str) -> str:
        """The value that the lane of ``rank`` has."""
        module, lanes = self.c.module, self.lanes
        module.helper("subgroup.lane", lambda: _lane_of_rank(module, lanes))
        at = self.c.op(f"call i32 @subgroup.lane({lanes.mask} %mask, i32 {rank})")
        return lanes.exchange(self.c, "%mask", self.elem, value, at)

    def text(self, name: str) -> str:
        args = f"{self.elem} %value, {self.lanes.mask} %mask"
        return self.c.function(f"define internal {self.elem} @{name}({args}) convergent nounwind")


def _reduction(name: str, kind: str, t: DType, module: Module, lanes: Lanes) -> str:
    f = _Function(kind, t, module, lanes)
    c = f.c
    c.place(f.full)
    total = "%value"
    for step in f.steps:
        total = f.combine(total, f.exchange(total, step, "butterfly"))
    c.ret(f"{f.elem} {total}")
    c.place(f.part)
    rank, count = lanes.below(c, "%mask"), _bits(c, "%mask", lanes)
    total = "%value"
    for step in f.steps:
        partner = c.op(f"add i32 {rank}, {step}")
        there = c.op(f"icmp ult i32 {partner}, {count}")
        joined = f.combine(total, f.from_rank(total, partner))
        total = f.ops.select(there, f.elem, joined, total)
    c.ret(f"{f.elem} {f.from_rank(total, '0')}")
    return f.text(name)


def _prefix(name: str, kind: str, t: DType, exclusive: bool, module: Module, lanes: Lanes) -> str:
    f = _Function(kind, t, module, lanes)
    c = f.c
    neutral = constant(identity(kind, t), f.elem)
    for full in (True, False):
        c.place(f.full if full else f.part)
        rank = lanes.lane(c) if full else lanes.below(c, "%mask")
        total = "%value"

        def below(value: str, step: int, full: bool = full, rank: str = rank) -> str:
            if full:
                return f.exchange(value, step, "up")
            return f.from_rank(value, c.op(f"sub i32 {rank}, {step}"))

        for step in f.steps:
            enough = c.op(f"icmp uge i32 {rank}, {step}")
            total = f.ops.select(enough, f.elem, f.combine(below(total, step), total), total)
        if exclusive:
            first = c.op(f"icmp eq i32 {rank}, 0")
            total = f.ops.select(first, f.elem, neutral, below(total, 1))
        c.ret(f"{f.elem} {total}")
    return f.text(name)


def _bits(c: Code, mask: str, lanes: Lanes) -> str:
    """How many lanes ``mask`` has, as an i32."""
    m = lanes.mask
    count = c.call(f"llvm.ctpop.{m}", m, (m, mask))
    return count if m == "i32" else c.op(f"trunc {m} {count} to i32")


def _lane_of_rank(module: Module, lanes: Lanes) -> str:
    """The position of the set bit of ``mask`` that has ``rank`` set bits below it, by bisection; a lane always."""
    c = Code(module)
    ops = Ops(c, 1)
    m = lanes.mask
    mask, rank, at = "%mask", "%rank", "0"
    width = lanes.size // 2
    while width:
        low = c.op(f"and {m} {mask}, {(1 << width) - 1}")
        count = _bits(c, low, lanes)
        over = c.op(f"icmp uge i32 {rank}, {count}")
        rank = c.op(f"sub i32 {rank}, {ops.select(over, 'i32', count, '0')}")
        mask = c.op(f"lshr {m} {mask}, {ops.select(over, m, str(width), '0')}")
        at = c.op(f"add i32 {at}, {ops.select(over, 'i32', str(width), '0')}")
        width //= 2
    c.ret(f"i32 {at}")
    return c.function(f"define internal i32 @subgroup.lane({m} %mask, i32 %rank) nounwind")
