"""The heap of the process as that of the device: each lane's `malloc`, `free`, and accesses through what it was given.

Pointers are addresses here, of type i64 (`magpie.passes.pointers`). Lanes go one by one, in ascending order; they reach
memory far apart, so there is nothing to gain from vector instructions.
"""

from __future__ import annotations

from magpie.backends.cpu.checks import ChecksMixin
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.llvm.emitter import memory_element
from magpie.dtypes import index
from magpie.ir.nodes import Node
from magpie.ir.ops import MOST_ELEMENTS

__all__ = ["HeapMixin"]


class HeapMixin(ChecksMixin):
    """`malloc`, `free`, `ptr_load` and `ptr_store`."""

    def malloc(self, node: Node) -> Value:
        """Addresses; 0 for the lanes that get nothing, and for those that are off."""
        c, size = self.c, node.attrs["dtype"].itemsize
        c.module.declare("malloc", "ptr", "i64")
        c.module.helper(_TAKE, _take)
        found, counts = self.spill("zeroinitializer", "i64"), self.spill_value(self.map[node.args[0]])
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        address = c.op(f"call i64 @{_TAKE}(i64 {self.spilled_lane(counts, 'i64', lane)}, i64 {size})")
        c.do(f"store i64 {address}, ptr {c.op(f'getelementptr i64, ptr {found}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        return self.vec(c.op(f"load <{self.w} x i64>, ptr {found}, align 64"), "i64")

    def free(self, node: Node) -> None:
        c = self.c
        addresses = self.spill_value(self.map[node.args[0]])
        c.module.declare("free", "void", "ptr")
        lane, header, exit_, left, rest = self.begin_lane_loop(self.mask)
        c.do(f"call void @free(ptr {self.heap_pointer(addresses, lane)})")
        self.end_lane_loop(header, exit_, left, rest)

    def ptr_load(self, node: Node) -> Value:
        c, t = self.c, node.dtype
        elem = memory_element(t)
        lanes = self.inside(node)
        found, addresses = self.spill("zeroinitializer", elem), self.spill_value(self.map[node.args[0]])
        lane, header, exit_, left, rest = self.begin_lane_loop(lanes)
        x = c.op(f"load {elem}, ptr {self.heap_pointer(addresses, lane)}, align {t.itemsize}")
        c.do(f"store {elem} {x}, ptr {c.op(f'getelementptr {elem}, ptr {found}, i64 {lane}')}")
        self.end_lane_loop(header, exit_, left, rest)
        raw = c.op(f"load <{self.w} x {elem}>, ptr {found}, align 64")
        return self.vec(self.vector.from_memory(raw, t), self.register(t))

    def ptr_store(self, node: Node) -> None:
        c, t = self.c, node.args[1].dtype
        elem = memory_element(t)
        lanes = self.inside(node)
        value = self.vector.to_memory(self.lanes(self.map[node.args[1]], self.register(t)), t)
        values, addresses = self.spill(value, elem), self.spill_value(self.map[node.args[0]])
        lane, header, exit_, left, rest = self.begin_lane_loop(lanes)
        x = self.spilled_lane(values, elem, lane)
        c.do(f"store {elem} {x}, ptr {self.heap_pointer(addresses, lane)}, align {t.itemsize}")
        self.end_lane_loop(header, exit_, left, rest)

    def spill_value(self, value: Value) -> str:
        """64-bit integers of all lanes in stack memory."""
        return self.spill(self.lanes(value, "i64"), "i64")

    def heap_pointer(self, addresses: str, lane: str) -> str:
        return self.c.op(f"inttoptr i64 {self.spilled_lane(addresses, 'i64', lane)} to ptr")

    def inside(self, node: Node) -> Mask | None:
        """The active lanes whose access is to memory that `malloc` gave; checked mode reports the others."""
        if not (self.env.checked and node.checked):
            return self.mask
        c, w, m = self.c, self.w, self.masks
        origin, at, count = (self.lanes(self.map[a], "i64") for a in node.args[-3:])
        within = c.op(f"icmp ult <{w} x i64> {at}, {count}")
        given = c.op(f"icmp ne <{w} x i64> {origin}, zeroinitializer")
        good = m.from_i1(c.op(f"and <{w} x i1> {within}, {given}"))
        bad = m.not_(good)
        if self.mask is not None:
            good, bad = m.and_(self.mask, good), m.and_(self.mask, bad)
        site = self.site(node, "bounds", array="malloc", types=[index.name])
        self.report(site, bad, [(index, self.map[node.args[-2]])])
        return good


_TAKE = "heap.take"


def _take() -> str:
    """`malloc` for a number of elements that makes sense; 0 for others, and where there is no room."""
    lines = [
        f"define internal i64 @{_TAKE}(i64 %count, i64 %size) nounwind noinline {{",
        "entry:",
        "  %last = sub i64 %count, 1",
        f"  %sensible = icmp ult i64 %last, {MOST_ELEMENTS}",
        "  br i1 %sensible, label %ask, label %none",
        "ask:",
        "  %bytes = mul i64 %count, %size",
        "  %found = call ptr @malloc(i64 %bytes)",
        "  %address = ptrtoint ptr %found to i64",
        "  ret i64 %address",
        "none:",
        "  ret i64 0",
        "}",
    ]
    return "\n".join(lines)
