"""Pure ops that the sanitizer watches: integer division by zero, signed overflow, values asserted as uniform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.context import Mask
from magpie.backends.interp.numerics.lanes import Lanes
from magpie.dtypes import DType
from magpie.ir.nodes import Node, Region, walk

__all__ = ["guard_of", "loop_arithmetic"]

Frame = list[Any]
Closure = Callable[[Frame, Mask], None]
_DIVISIONS = frozenset({"floordiv", "mod", "tdiv", "trem"})
_SIGN = {"add": "+", "sub": "-", "mul": "*", "neg": "-", "abs": "abs", "floordiv": "//", "tdiv": "//"}
_OVERFLOWS = _SIGN.keys()


def guard_of(node: Node, fn: Callable[..., Lanes], d: int, args: list[int], checks: frozenset[str]) -> Closure | None:
    """The closure of a watched op, or None where ``checks`` do not watch this one."""
    if node.op == "uniform":
        return _uniform(node, d, args[0]) if "barrier" in checks else None
    type_ = node.args[0].dtype if node.args else None
    if type_ is None or not type_.is_int:
        return None
    overflows = node.op in _OVERFLOWS and type_.is_signed and "overflow" in checks
    if node.op in _DIVISIONS and "divide" in checks:
        return _division(node, type_, fn, d, args[0], args[1], overflows)
    if node.op in ("shl", "shr") and "overflow" in checks:
        return _shift(node, type_, fn, d, args[0], args[1])
    return _overflow(node, type_, fn, d, args) if overflows else None


def loop_arithmetic(body: Region) -> frozenset[Node]:
    """The ops that make a loop variable from its counter: start + k * step is right also where the product wraps."""
    counters = {n.attrs["counted"][0]: n.loc for n in walk(body) if n.op == "loop" and n.attrs.get("counted")}
    found: set[Node] = set()
    for node in walk(body):
        for a in node.args:
            counter = a.op == "slot_get" and a.attrs["slot"] in counters and counters[a.attrs["slot"]] == node.loc
            if (node.op == "mul" and counter) or (node.op == "add" and a.op == "mul" and a in found):
                found.add(node)
    return frozenset(found)


def _lanes(chunk: Any, found: Lanes, m: Mask) -> Any:
    """The active lanes of a bool that may be a scalar."""
    if found.ndim:
        return chunk.active(found if m is True else found & m)
    return chunk.active(m)


def _division(
    node: Node, type_: DType, fn: Callable[..., Lanes], d: int, a: int, b: int, overflows: bool
) -> Closure:
    """Divisors of zero, and with ``overflows`` the one quotient that does not fit, MIN / -1."""
    what = "%" if node.op in ("mod", "trem") else "//"

    def divide(r: Frame, m: Mask) -> None:
        zero = r[b] == 0
        if zero.any():
            lanes = _lanes(r[0], zero, m)
            if len(lanes):
                r[0].report("divide", node, lanes, f"integer {what} by zero in {{item}}; the result is 0")
        result = fn(r[a], r[b])
        if overflows:
            _report_wrapped(node, type_, r[0], [r[a], r[b]], result, m)
        r[d] = result

    return divide


def _shift(node: Node, type_: DType, fn: Callable[..., Lanes], d: int, a: int, b: int) -> Closure:
    """Counts out of range (MPG_SAN_1009), and bits of a signed type lost to the left."""
    signed_left = node.op == "shl" and type_.is_signed

    def shift(r: Frame, m: Mask) -> None:
        count = r[b]
        out = (count >= count.dtype.type(type_.bits)) | (count < 0)
        if out.any():
            lanes = _lanes(r[0], out, m)
            if len(lanes):
                shown = int(count[lanes[0]]) if count.ndim else int(count)
                text = f"a shift by {shown} of {type_}, which has {type_.bits} bits, in {{item}}: it shifts by "
                r[0].report("shift", node, lanes, text + f"{shown % type_.bits}")
        result = fn(r[a], count)
        if signed_left:
            lost = _wrapped("shl", type_, [r[a], count], result) & ~out
            if lost.any():
                lanes = _lanes(r[0], lost, m)
                if len(lanes):
                    text = f"a shift to the left loses bits of a value of {type_}, in {{item}}"
                    r[0].report("overflow", node, lanes, text)
        r[d] = result

    return shift


def _overflow(node: Node, type_: DType, fn: Callable[..., Lanes], d: int, args: list[int]) -> Closure:
    def checked(r: Frame, m: Mask) -> None:
        operands = [r[a] for a in args]
        result = fn(*operands)
        _report_wrapped(node, type_, r[0], operands, result, m)
        r[d] = result

    return checked


def _report_wrapped(node: Node, type_: DType, chunk: Any, operands: list[Lanes], result: Lanes, m: Mask) -> None:
    op = node.op
    wrapped = _wrapped(op, type_, operands, result)
    if wrapped.any():
        lanes = _lanes(chunk, wrapped, m)
        if len(lanes):
            lane = int(lanes[0])
            shown = [int(x[lane]) if x.ndim else int(x) for x in operands]
            text = f"{shown[0]} {_SIGN[op]} {shown[1]}" if len(shown) == 2 else f"{_SIGN[op]}({shown[0]})"
            got = int(result[lane]) if result.ndim else int(result)
            chunk.report("overflow", node, lanes, f"{text} does not fit {type_} and wraps to {got}, in {{item}}")


def _wrapped(op: str, type_: DType, operands: list[Lanes], result: Lanes) -> Lanes:
    """Where the exact result is out of range."""
    a = operands[0]
    if op in ("neg", "abs"):
        return a == a.dtype.type(type_.min)
    b = operands[1]
    if op in ("floordiv", "tdiv"):
        return (b == -1) & (a == a.dtype.type(type_.min))
    if op == "add":
        return ((a ^ result) & (b ^ result)) < 0
    if op == "sub":
        return ((a ^ b) & (a ^ result)) < 0
    if op == "shl":
        return np.right_shift(result, b & b.dtype.type(type_.bits - 1)) != a
    if type_.bits < 64:
        exact = a.astype(np.int64) * b.astype(np.int64)
        return exact != result
    # A wrapped 64-bit product does not divide back; MIN * -1 is the one case where the division itself wraps.
    divides = (b == 0) | (np.floor_divide(result, b) == a) & (np.remainder(result, b) == 0)
    return ~divides | ((b == -1) & (a == a.dtype.type(type_.min)))


def _uniform(node: Node, d: int, a: int) -> Closure:
    def uniform(r: Frame, m: Mask) -> None:
        chunk, value = r[0], r[a]
        if value.ndim:
            rows = value.reshape(chunk.k, -1)
            on = np.ones(rows.shape, bool) if m is True else m.reshape(rows.shape)
            first = rows[np.arange(chunk.k), on.argmax(1)]
            differs = on & (rows != first[:, None]) & ((rows == rows) | (first == first)[:, None])
            if differs.any():
                lanes = chunk.active(differs.ravel())
                text = "a value asserted as uniform differs within the workgroup: {item} has another one"
                chunk.report("uniform", node, lanes, text)
        r[d] = value

    return uniform
