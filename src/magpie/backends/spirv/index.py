"""Index arithmetic in as few bits as it needs (RULES 1): see `magpie.passes.index_forms`.

A value of 64 bits that is narrow, or of which only the low 32 bits are asked for, is held as those; whoever wants all
of a narrow one gets it extended. A value that is held whole is cut for whoever wants its low bits.
"""

from __future__ import annotations

from typing import Any

from magpie.backends.spirv.elementwise import Elementwise
from magpie.dtypes import DType, i32, i64, u32, u64
from magpie.ir.nodes import Node, Slot
from magpie.passes.index_forms import index_forms, is_wide

__all__ = ["Index"]

# Ops whose low bits are the same function of their operands' low bits.
_WRAPPING = frozenset(["add", "sub", "mul", "and", "or", "xor", "not", "neg", "shl"])
_COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
# Ops that are done in 32 bits where all operands and the result fit.
_NARROW = frozenset(["min", "max", "abs", "tdiv", "trem", "floordiv", "mod", "shr", "shl"])
_COUNTS = frozenset(["popcount", "clz", "ctz"])


class Index(Elementwise):
    """Pure values, with those of 64 bits in their forms."""

    def __init__(self, *args: Any, checked: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.checked = checked
        self.forms = index_forms(self.kernel, places=checked)
        self.lows: dict[Node, int] = {}  # values of 64 bits that are held as their low 32
        self.highs: dict[Node, int] = {}  # the other half, where the device has no integers of 64 bits

    # --- the forms of a value ------------------------------------------------------------------------------------
    def low(self, node: Node) -> int:
        """The low 32 bits of an integer of any width that has been computed; narrower ones are extended."""
        t = node.dtype
        if t.bits != 64:
            return self.cast(self.map[node], t, i32 if t.kind == "int" else u32)
        if node.op == "const":
            return self.constant(node.attrs["value"], i32)
        found = self.lows.get(node)
        return found if found is not None else self.converted("UConvert", self.type(u32), self.map[node])

    def whole(self, node: Node) -> int:
        """All bits of a value; of an integer of 64, not only the low ones."""
        if not is_wide(node.type):
            return self.map[node]
        if node.op == "const":
            return self.constant(node.attrs["value"], i64)
        found = self.map.get(node)
        if found is None:
            assert self.forms.narrow(node), f"{node} is held in 32 bits, and all of it is asked for"
            low = self.lows[node]
            found = self.conversions.get(("extended", low))
            if found is None:
                found = self.conversions["extended", low] = self.extended(low)
        return found

    def as_index(self, node: Node) -> int:
        """An integer of any width as 64 bits."""
        t = node.dtype
        return self.whole(node) if t.bits == 64 else self.cast(self.map[node], t, i64 if t.kind == "int" else u64)

    def pair(self, node: Node) -> tuple[int, int]:
        """The low and the high half of a value of 64 bits."""
        if node.op == "const":
            value = node.attrs["value"]
            return self.word(value), self.word(value >> 32)
        high = self.highs.get(node)
        if high is not None:
            return self.lows[node], high
        if self.forms.narrow(node) and node in self.lows:
            low = self.lows[node]
            return low, self.op("ShiftRightArithmetic", self.u32, low, self.word(31))
        return self.halves(self.whole(node))

    def set_pair(self, node: Node, low: int, high: int) -> None:
        """Hold a value of 64 bits as two halves."""
        self.lows[node], self.highs[node] = low, high

    def converted(self, name: str, type_: int, value: int) -> int:
        """A conversion, made once in each block."""
        key = (name, value)
        found = self.conversions.get(key)
        if found is None:
            found = self.conversions[key] = self.op(name, type_, value)
        return found

    # --- values --------------------------------------------------------------------------------------------------
    def value(self, node: Node) -> None:
        """Compute a pure op."""
        if self.in_32(node) or (is_wide(node.type) and not self.has(i64) and self.in_pairs(node)):
            return
        t = node.dtype
        leaf = self.leaf(node, t)
        if leaf is not None:
            self.map[node] = leaf
            return
        args = [self.whole(a) for a in node.args]
        assert args, node
        if node.op == "uniform":
            self.map[node] = args[0]
        elif node.op == "select":
            self.map[node] = self.op("Select", self.type(t), *args)
        elif node.op == "cast":
            self.map[node] = self.cast(args[0], node.args[0].dtype, t)
        elif node.op == "bitcast":
            self.map[node] = self.bitcast(args[0], node.args[0].dtype, t)
        else:
            self.map[node] = self.emit(node, args, node.args[0].dtype)

    def leaf(self, node: Node, t: DType) -> int | None:
        """A value without operands; None for another op."""
        raise NotImplementedError

    def low_leaf(self, node: Node) -> int | None:
        """The low 32 bits of a value of 64 without operands; None for another op."""
        raise NotImplementedError

    def in_pairs(self, node: Node) -> bool:
        """What `magpie.passes.legalise` leaves of values of 64 bits where there are none: words put together and taken
        apart."""
        op, args = node.op, node.args
        ends = self.pair_leaf(node)
        if ends is not None:
            self.set_pair(node, *ends)
        elif op in ("shl", "shr") and args[1].op == "const" and args[1].attrs["value"] == 32:
            low, high = self.pair(args[0])
            zero = self.word(0)
            self.set_pair(node, *((zero, low) if op == "shl" else (high, zero)))
        elif op in ("and", "or", "xor", "select"):
            pairs = zip(*(self.pair(a) for a in args[-2:]), strict=True)
            head = [self.map[args[0]]] if op == "select" else []
            name = "Select" if op == "select" else f"Bitwise{op.capitalize()}"
            self.set_pair(node, *(self.op(name, self.u32, *head, *two) for two in pairs))
        elif op == "cast" and args[0].dtype.bits <= 32 and not args[0].dtype.is_float:
            low = self.low(args[0]) if args[0].dtype.is_int else self.cast(self.map[args[0]], args[0].dtype, u32)
            signed = args[0].dtype.kind == "int"
            high = self.op("ShiftRightArithmetic", self.u32, low, self.word(31)) if signed else self.word(0)
            self.set_pair(node, low, high)
        elif op in ("cast", "bitcast", "uniform") and is_wide(args[0].type):
            self.set_pair(node, *self.pair(args[0]))
        else:
            return False
        return True

    def pair_leaf(self, node: Node) -> tuple[int, int] | None:
        """The two halves of a value of 64 bits without operands; None for another op."""
        raise NotImplementedError

    def in_32(self, node: Node) -> bool:
        """Compute a value of 64 bits, or one made of such, in 32; False where that is not the same."""
        op, args, forms = node.op, node.args, self.forms
        if not is_wide(node.type):
            if op in _COMPARE and is_wide(args[0].type) and all(forms.narrow(a) for a in args):
                self.map[node] = self.compare(op, i32, [self.low(a) for a in args])
                return True
            if op == "cast" and is_wide(args[0].type) and node.dtype.is_int:
                self.map[node] = self.from_words(node.dtype, self.low(args[0]))
                return True
            if op == "cast" and is_wide(args[0].type) and forms.narrow(args[0]):
                self.map[node] = self.cast(self.low(args[0]), i32, node.dtype)
                return True
            return False
        if op == "const":
            return True  # made where it is asked for
        if not forms.low(node):
            return False
        found = self.low_leaf(node)
        if found is not None:
            pass
        elif op == "select":
            values = [self.low(a) for a in args[1:]]
            found = self.op("Select", self.type(u32), self.map[args[0]], *values)
        elif op in ("cast", "bitcast", "uniform") and (args[0].dtype.is_int or args[0].dtype.is_bool):
            bool_ = args[0].dtype.is_bool
            found = self.cast(self.map[args[0]], args[0].dtype, u32) if bool_ else self.low(args[0])
        elif op == "shl" and args[1].op == "const":
            found = self.shifted(self.low(args[0]), args[1].attrs["value"] % 64)
        elif op in _WRAPPING and op != "shl":
            found = self.emit(node, [self.low(a) for a in args], i32)
        elif op in _NARROW and forms.narrow(node) and all(forms.narrow(a) for a in args):
            count = forms.ranges.of(args[1]) if op in ("shl", "shr") else (0, 0)
            if count[0] < 0 or count[1] > 31:
                return False
            found = self.emit(node, [self.low(a) for a in args], i32)
        elif op in _COUNTS and args[0].dtype.bits == 64:
            return False
        else:
            return False
        self.lows[node] = found
        return True

    def shifted(self, low: int, count: int) -> int:
        """The low 32 bits of a number of 64 that is shifted to the left."""
        if count > 31:
            return self.word(0)
        return self.op("ShiftLeftLogical", self.u32, low, self.word(count))

    # --- slots ---------------------------------------------------------------------------------------------------
    def slot_type(self, slot: Slot) -> DType:
        """The type that a slot is held in."""
        assert isinstance(slot.type, DType)
        return u32 if self.forms.low_slot(slot) else slot.type
