"""Formulas as nodes: what the passes of this package write their replacements with."""

from __future__ import annotations

from magpie.dtypes import DType, bool_, i8, i16, i32, i64, u8, u16, u32, u64
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node
from magpie.ir.ops import OPS

__all__ = ["Calc", "constant", "signed", "unsigned"]

Operand = Node | int | float

_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}
_SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}


def unsigned(bits: int) -> DType:
    """The unsigned integer type of this width."""
    return _UNSIGNED[bits]


def signed(bits: int) -> DType:
    """The signed one."""
    return _SIGNED[bits]


def constant(node: Node) -> int | float | None:
    """The value of a constant number."""
    return node.attrs["value"] if node.op == "const" and not node.dtype.is_bool else None


class Calc:
    """Appends ops through ``out``; a Python number becomes a constant of the type of the first operand that is a node.

    What stands for a node of the math library is ``strict``, as that is.
    """

    def __init__(self, out: Builder, of: Node | None = None) -> None:
        self.out = out
        self.strict = of is not None and "strict" in of.attrs

    def __call__(self, op: str, *args: Operand, type: DType | None = None) -> Node:
        """The node ``op``; ``type`` where the op table says that it is given."""
        kind = next(a.dtype for a in args if isinstance(a, Node) and not (op == "select" and a is args[0]))
        nodes = tuple(a if isinstance(a, Node) else self.const(a, kind) for a in args)
        if type is None and OPS[op].result == "given":
            type = kind
        node = self.out.emit(op, *nodes, type=type)
        if self.strict:
            node.attrs["strict"] = True
        return node

    def const(self, value: float, type: DType) -> Node:
        """A constant; an integer is taken modulo the width."""
        if type.is_int:
            value = int(value) & ((1 << type.bits) - 1)
            value -= (value > type.max) << type.bits
        return self.out.const(value, type)

    def select(self, cond: Node, a: Operand, b: Operand) -> Node:
        """``a`` where ``cond``, else ``b``; one of them is a node."""
        return self("select", cond, a, b)

    def cast(self, value: Node, type: DType) -> Node:
        """The value conversion of the op table."""
        return value if value.type is type else self("cast", value, type=type)

    def bits(self, value: Node, type: DType | None = None) -> Node:
        """The same bits as another type; as the unsigned integer of that width where none is given."""
        wanted = type or unsigned(value.dtype.bits)
        return value if value.type is wanted else self("bitcast", value, type=wanted)

    def flag(self, cond: Node, type: DType) -> Node:
        """1 where ``cond``, else 0."""
        return self.select(cond, self.const(1, type), self.const(0, type))

    def both(self, *conds: Node) -> Node:
        """The conjunction."""
        return self._all("and", conds)

    def either(self, *conds: Node) -> Node:
        """The disjunction."""
        return self._all("or", conds)

    def _all(self, op: str, conds: tuple[Node, ...]) -> Node:
        found = conds[0]
        for c in conds[1:]:
            assert c.type is bool_
            found = self(op, found, c)
        return found
