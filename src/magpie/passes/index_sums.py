"""Index expressions as sums: which two accesses lie a known number of bytes apart.

A node is numbered by what it computes (value numbering), so that ``3 * i`` written twice is one number; an integer is
a sum of numbers times coefficients, plus a constant. Two sums with the same terms differ by a constant in every
work-item.
"""

from __future__ import annotations

from magpie.ir.nodes import Node, Slot
from magpie.ir.ops import OPS
from magpie.passes.narrow_index import Ranges, full

__all__ = ["Form", "Forms"]

# (number, coefficient) pairs in order of numbers, and the constant
Form = tuple[tuple[tuple[int, int], ...], int]


class Forms:
    """Numbers the nodes of one walk in program order; slots have versions, one for each value that may be in them."""

    def __init__(self, ranges: Ranges, small: bool) -> None:
        self.ranges = ranges
        self.small = small
        self.numbers: dict[Node, int] = {}
        self.known: dict[tuple[object, ...], int] = {}
        self.versions: dict[Slot, int] = {}
        self.forms: dict[Node, Form] = {}
        self.count = 0

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def changed(self, slot: Slot) -> None:
        """``slot`` may hold another value from here on."""
        self.versions[slot] = self.fresh()

    def visit(self, node: Node) -> None:
        """Number a value node; its operands were visited before, or stand outside of the walk."""
        if node.op == "slot_get":
            key: tuple[object, ...] = ("slot_get", node.attrs["slot"], self.versions.get(node.attrs["slot"], 0))
        elif node.op == "const":
            key = ("const", node.type, repr(node.attrs["value"]))
        elif OPS[node.op].pure:
            attrs = tuple(sorted((k, v) for k, v in node.attrs.items() if v is not None and not isinstance(v, Node)))
            key = (node.op, node.type, attrs, *(self.number(a) for a in node.args))
        else:
            self.numbers[node] = self.fresh()
            return
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.fresh()
        self.numbers[node] = found

    def number(self, node: Node) -> int:
        found = self.numbers.get(node)
        if found is None:
            found = self.numbers[node] = self.fresh()
        return found

    def form(self, node: Node) -> Form:
        """The sum that an index is.

        Arithmetic of narrower types wraps, but not where all of the indices that are compared are in bounds: then
        ``e + 1`` next to ``e`` is one element further. Types that could wrap inside of an array are no sums.
        """
        found = self.forms.get(node)
        if found is None:
            found = self.forms[node] = self.sum_of(node)
        return found

    def sum_of(self, node: Node) -> Form:
        op, t = node.op, node.dtype
        value = _constant(node)
        if value is not None:
            return (), value
        if t.bits >= 32 and (t.kind == "int" or self.small):
            if op in ("add", "sub") and len(node.args) == 2:
                a, b = (self.form(x) for x in node.args)
                return _added(a, b, 1 if op == "add" else -1)
            if op == "neg":
                return _added(((), 0), self.form(node.args[0]), -1)
            if op == "mul":
                for x, y in (node.args, node.args[::-1]):
                    factor = _constant(y)
                    if factor is not None:
                        return _scaled(self.form(x), factor)
            if op == "shl" and (count := _constant(node.args[1])) is not None:
                return _scaled(self.form(node.args[0]), 1 << (count & (t.bits - 1)))
            if op == "cast" and node.args[0].dtype.is_int and self.exact(node.args[0]):
                return self.form(node.args[0])
        return ((self.number(node), 1),), 0

    def exact(self, node: Node) -> bool:
        """Whether a narrower integer is known not to have wrapped."""
        return self.ranges.of(node) != full(node.dtype) and node.dtype.bits >= 32


def _constant(node: Node) -> int | None:
    value = node.attrs["value"] if node.op == "const" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _scaled(a: Form, by: int) -> Form:
    terms, constant = a
    return (tuple((n, c * by) for n, c in terms) if by else ()), constant * by


def _added(a: Form, b: Form, sign: int) -> Form:
    terms = dict(a[0])
    for n, c in b[0]:
        terms[n] = terms.get(n, 0) + sign * c
    return tuple(sorted((n, c) for n, c in terms.items() if c)), a[1] + sign * b[1]
