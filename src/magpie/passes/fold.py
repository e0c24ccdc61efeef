"""Integer arithmetic on constants, as unrolled loops are full of: what the count was is a number now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node
from magpie.passes.rewrite import Rewriter

__all__ = ["fold"]

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
# Op -> the operand on the right (for sums and products on either side) that leaves the other one as it is.
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "or": 0, "xor": 0, "shl": 0, "shr": 0}
_COMMUTES = frozenset(["add", "mul", "or", "xor"])


def fold(kernel: Kernel) -> Kernel:
    """``kernel`` with integer operations on constants computed, and those that change nothing left out."""
    ops = (*_BINARY, *_COMPARE, "neg", "shl", "shr", "cast", "select")
    return replace(kernel, body=Rewriter(dict.fromkeys(ops, _folded)).region(kernel.body))


def _folded(rw: Rewriter, node: Node) -> Node | None:
    t, args = node.type, [rw.value(a) for a in node.args]
    first = args[0].type
    if node.op == "select":
        condition = args[0].attrs["value"] if args[0].op == "const" else None
        return rw.keep(node) if condition is None else args[1] if condition else args[2]
    if not isinstance(t, DType) or not isinstance(first, DType) or not first.is_int:
        return rw.keep(node)
    values = [_constant(a) for a in args]
    known = [v for v in values if v is not None]
    if len(known) == len(args):
        found = _computed(node.op, first, known)
        if found is not None and (t.is_int or (t.is_bool and node.op in _COMPARE)):
            return rw.out.const(_wrapped(found, t), t)
    elif node.op in _NEUTRAL:
        if values[1] == _NEUTRAL[node.op]:
            return args[0]
        if values[0] == _NEUTRAL[node.op] and node.op in _COMMUTES:
            return args[1]
    return rw.keep(node)


def _constant(node: Node) -> int | None:
    return node.attrs["value"] if node.op == "const" else None


def _computed(op: str, t: DType, args: list[int]) -> int | None:
    """The result before it wraps, None for an op that is not computed here."""
    if op == "neg":
        return -args[0]
    if op == "cast":
        return args[0]
    if op in ("shl", "shr"):
        count = args[1] & (t.bits - 1)
        return args[0] << count if op == "shl" else args[0] >> count
    if op in _COMPARE:
        return _COMPARE[op](*args)
    return _BINARY[op](*args)


def _wrapped(value: int, t: DType) -> int:
    """A number in the range of a type, modulo its size."""
    if t.is_bool:
        return value
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if value > t.max else value
