"""Atomics of GPU targets: one instruction where the hardware has it, a compare-and-swap loop elsewhere.

LLVM's own expansion is left what it does as the op table says: integers of every width, exchange, and addition of f32
and f64. It makes compare-and-swap of 8 and 16 bits from that of the word around it.
"""

from __future__ import annotations

from magpie.backends.llvm.emitter import element, memory_element
from magpie.backends.llvm.simt_subgroups import SubgroupSimt
from magpie.dtypes import DType
from magpie.ir.nodes import Node

__all__ = ["AtomicSimt"]

_FLOAT = ("add", "exchange")


class AtomicSimt(SubgroupSimt):
    """Read-modify-writes that LLVM's own expansion would do otherwise than the op table says, or not at all."""

    def scope(self, node: Node) -> str:
        return self.scopes.get(str(node.attrs.get("scope")), self.scopes["device"])

    def atomic_rmw(self, node: Node) -> None:
        place, t = self.address(node, len(node.args) - 1)
        kind = node.attrs["kind"]
        if kind == "exchange" or t.is_int or (t.bits >= 32 and kind in _FLOAT):
            self.rmw_at(node, place, t)
        else:
            self.map[node] = self.rmw_loop(node, place, t)

    def rmw_loop(self, node: Node, place: str, t: DType) -> str:
        """old = memory; memory = old (kind) operand, tried until nobody came between; gives old."""
        c = self.c
        elem, memory, bits = element(t), memory_element(t), f"i{max(8, t.bits)}"
        scope = self.scope(node)
        start, again, done = c.at_block, c.block("again"), c.block("done")
        align = f"align {t.itemsize}"
        first = c.op(f"load atomic {bits}, {place} {scope}monotonic, {align}")
        c.br(again)
        c.place(again)
        next_ = c.name()
        seen = c.op(f"phi {bits} [ {first}, %{start.label} ], [ {next_}, %{again.label} ]")
        raw = seen if memory == bits else c.op(f"bitcast {bits} {seen} to {memory}")
        old = self.ops.from_memory(raw, t)
        if t.is_bool:
            kind = {"add": "or", "sub": "xor", "min": "and", "max": "or"}.get(node.attrs["kind"], node.attrs["kind"])
            new = c.op(f"{kind} i1 {old}, {self.map[node.args[-1]]}")
        else:
            new = self.ops.emit(Node(node.attrs["kind"], (), t), [old, self.map[node.args[-1]]], t, elem)
        put = self.ops.to_memory(new, t)
        put = put if memory == bits else c.op(f"bitcast {memory} {put} to {bits}")
        pair = c.op(f"cmpxchg {place}, {bits} {seen}, {bits} {put} {scope}monotonic monotonic, {align}")
        c.do(f"{next_} = extractvalue {{ {bits}, i1 }} {pair}, 0")
        c.cbr(c.op(f"extractvalue {{ {bits}, i1 }} {pair}, 1"), done, again)
        c.place(done)
        return old
