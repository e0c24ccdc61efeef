"""Index arithmetic of GPU targets in 32 bits where no value can leave them (RULES 1).

`index` means 64 bits, and a GPU computes with 32: an addition of 64 is two instructions, a product four. So values
whose interval (`magpie.passes.narrow_index`) fits are computed as i32, marked as not wrapping where their operands fit
too, and extended for those who want 64 bits; LLVM drops an extension that only 32-bit code reads. Slots are held
as i32, too.
"""

from __future__ import annotations

from typing import Any

from magpie.backends.llvm.emitter import element
from magpie.backends.llvm.simt import Simt
from magpie.dtypes import DType, i32
from magpie.ir.nodes import Node, Slot
from magpie.passes.narrow_index import ranges

__all__ = ["IndexSimt"]

_WRAPPING = frozenset(["add", "sub", "mul"])
_COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_OTHER = frozenset(["min", "max", "and", "or", "xor", "floordiv", "mod", "tdiv", "trem"])
_SHIFT = frozenset(["shl", "shr"])

# How far sums and products that do not fit are computed again in 32 bits, for one made of them that does.
_DEPTH = 3


class IndexSimt(Simt):
    """A `Simt` that narrows signed 64-bit integers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = ranges(self.kernel)
        self.low: dict[Node, str] = {}  # the i32 of a node whose i64 is an extension of it

    def narrow(self, node: Node) -> bool:
        """Whether this is a signed number of 64 bits that always fits in 32."""
        t = node.type
        return isinstance(t, DType) and t.kind == "int" and t.bits == 64 and self.known.fits32(node)

    def lower(self, node: Node, depth: int = 0) -> str:
        """The low 32 bits of a number of 64."""
        if node.op == "const":
            value = node.attrs["value"] & 0xFFFFFFFF
            return str(value - (value >> 31 << 32))
        found = self.low.get(node)
        if found is not None:
            return found
        if node.op in _WRAPPING and depth < _DEPTH:  # of wider ones, the low bits come from low bits alone
            x, y = (self.lower(a, depth + 1) for a in node.args)
            return self.c.op(f"{node.op} i32 {x}, {y}")
        return self.c.op(f"trunc i64 {self.map[node]} to i32")

    def extended(self, node: Node, value: str) -> str:
        """The i64 of a node that was computed as an i32."""
        self.low[node] = value
        how = "zext nneg" if self.known.of(node)[0] >= 0 else "sext"
        return self.c.op(f"{how} i32 {value} to i64")

    def value(self, node: Node) -> str:
        op, args = node.op, node.args
        if op in _COMPARE and all(self.narrow(a) for a in args):
            return self.ops.emit(node, [self.lower(a) for a in args], i32, "i32")
        if not self.narrow(node):
            return super().value(node)
        if op == "select" and all(self.narrow(a) for a in args[1:]):
            values = [self.lower(a) for a in args[1:]]
            return self.extended(node, self.ops.select(self.map[args[0]], "i32", *values))
        if op in _WRAPPING:
            x, y = (self.lower(a) for a in args)
            return self.extended(node, self.c.op(f"{op} {self.flags(node)}i32 {x}, {y}"))
        if (op in _OTHER or (op in _SHIFT and self.known.of(args[1])[1] < 32)) and all(self.narrow(a) for a in args):
            return self.extended(node, self.ops.emit(node, [self.lower(a) for a in args], i32, "i32"))
        return super().value(node)

    def flags(self, node: Node) -> str:
        """That a sum or product does not wrap. The low bits of a result come from those of the operands, so these need
        not fit (a loop's count times its step); but then it may."""
        if not all(self.narrow(a) for a in node.args):
            return ""
        return "nuw nsw " if all(self.known.of(n)[0] >= 0 for n in (node, *node.args)) else "nsw "

    # --- slots ---------------------------------------------------------------------------------------------------
    def narrow_slot(self, slot: Slot) -> bool:
        t = slot.type
        return isinstance(t, DType) and t.kind == "int" and t.bits == 64 and self.known.slot_fits32(slot)

    def slot_element(self, slot: Slot) -> str:
        assert isinstance(slot.type, DType)
        return "i32" if self.narrow_slot(slot) else element(slot.type)

    def slot_get(self, node: Node) -> None:
        slot = node.attrs["slot"]
        if not self.narrow_slot(slot):
            return super().slot_get(node)
        self.map[node] = self.extended(node, self.c.op(f"load i32, ptr{self.stack} {self.slot(slot)}"))
        return None

    def slot_set(self, node: Node) -> None:
        slot = node.attrs["slot"]
        if not self.narrow_slot(slot):
            return super().slot_set(node)
        self.c.do(f"store i32 {self.lower(node.args[0])}, ptr{self.stack} {self.slot(slot)}")
        return None
