"""The math library (`magpie.lib.math`) as Python functions of numbers, made from its Kernel IR.

The interpreter of kernels computes with many numbers at once, and takes as long for one. Here each node is a line of
Python: the same operations, rounded as often, so a host program gets the bits that kernels get.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from ctypes import c_float
from functools import cache
from typing import Any

from magpie.dtypes import DType, by_name
from magpie.host.floats import divided
from magpie.host.rounding import rounding
from magpie.ir.nodes import Node, Region, Slot

__all__ = ["fma32", "fma64", "library_function", "square_root"]

#: Between these nothing that `fma64` computes on the way is infinite or loses digits below the least number.
_SMALL, _LARGE = 2.0**-900, 2.0**900


def fma64(a: float, b: float, c: float) -> float:
    """a * b + c of doubles, rounded once. The product is a double and an error (Dekker, "A floating-point technique for
    extending the available precision", 1971), of which Python's `fsum` gives the correctly rounded sum with c."""
    product = a * b
    if _SMALL < abs(product) < _LARGE and abs(a) < _LARGE and abs(b) < _LARGE and abs(c) < _LARGE:
        t, u = a * 134217729.0, b * 134217729.0  # 2**27 + 1
        ah, bh = t - (t - a), u - (u - b)
        al, bl = a - ah, b - bh
        return math.fsum((product, ((ah * bh - product) + ah * bl + al * bh) + al * bl, c))
    return _exact_fma(a, b, c)


def _exact_fma(a: float, b: float, c: float) -> float:
    """The same near the ends of the range: in integers, whose quotient Python rounds correctly."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    exact = p * r * u + t * q * s
    if not exact:
        return a * b + c  # a zero, with its sign
    try:
        return exact / (q * s * u)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma32(a: float, b: float, c: float) -> float:
    """The same of f32: the product is exact as a double, and the sum is rounded to odd, so that only the last rounding
    counts (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", section 3)."""
    product = a * b
    total = product + c
    part = total - product
    lost = (product - (total - part)) + (c - part)
    if lost and total - total == 0:  # not of infinities and NaN
        if not int(math.ldexp(math.frexp(total)[0], 53)) & 1:
            total = math.nextafter(total, math.copysign(math.inf, lost))
    return c_float(total).value


def square_root(x: float) -> float:
    """The square root, rounded to f64; rounded once more it is that of a narrower type, as for + - * /."""
    return math.sqrt(x) if x >= 0 or x != x else math.nan


def _whole(x: float) -> float:
    """Toward zero."""
    return math.copysign(float(int(x)), x) if abs(x) < 4503599627370496.0 else x  # 2**52; a NaN stays


def _pack(kind: str) -> Callable[[Any], bytes]:
    return struct.Struct(kind).pack


def _unpack(kind: str) -> Callable[[bytes], tuple[Any]]:
    return struct.Struct(kind).unpack


_FORMATS = {"i32": "<i", "u32": "<I", "f32": "<f", "i64": "<q", "u64": "<Q", "f64": "<d"}
_NAMES: dict[str, Any] = {
    "c_float": c_float,
    "copysign": math.copysign,
    "divided": divided,
    "fma_f32": fma32,
    "fma_f64": fma64,
    "inf": math.inf,
    "nan": math.nan,
    "root": square_root,
    "whole": _whole,
    **{f"pack_{t}": _pack(f) for t, f in _FORMATS.items()},
    **{f"unpack_{t}": _unpack(f) for t, f in _FORMATS.items()},
}


@cache
def library_function(op: str, type_name: str) -> Callable[..., float]:
    """The library's ``op`` on numbers of a float type. f16 and bf16 compute in f32 and round once."""
    if type_name in ("f16", "bf16"):
        full, rounds = library_function(op, "f32"), rounding(type_name)
        return lambda *values: rounds(full(*values))
    from magpie.backends.interp.library import library_kernel  # takes a while to load, and few programs need it

    kernel, params, out = library_kernel(op, by_name(type_name))
    writer = _Writer()
    writer.region(kernel.body, "    ")
    slots = [f"    {name} = {0.0 if str(slot.type)[0] == 'f' else 0}" for slot, name in writer.slots.items()]
    lines = [f"def f({', '.join(params)}):", *slots, *writer.lines, f"    return {writer.slots[out]}"]
    names = dict(_NAMES)
    exec("\n".join(lines), names)  # text made above, of numbers and of names that are made here
    found: Callable[..., float] = names["f"]
    return found


class _Writer:
    """Kernel IR as lines of Python: each value has a name of its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.slots: dict[Slot, str] = {}

    def slot(self, node: Node) -> str:
        return self.slots.setdefault(node.attrs["slot"], f"s{len(self.slots)}")

    def region(self, region: Region, indent: str) -> None:
        for node in region:
            args = [self.names[a] for a in node.args]
            match node.op:
                case "const":
                    self.names[node] = f"({node.attrs['value']!r})"
                case "param":
                    self.names[node] = node.attrs["name"]
                case "slot_set":
                    self.lines.append(f"{indent}{self.slot(node)} = {args[0]}")
                case "if":
                    for head, part in zip((f"if {args[0]}:", "else:"), node.regions, strict=False):
                        self.lines += [indent + head, f"{indent}    pass"]
                        self.region(part, indent + "    ")
                case _:
                    text = self.slot(node) if node.op == "slot_get" else _expression(node, args)
                    self.names[node] = f"v{len(self.names)}"
                    self.lines.append(f"{indent}{self.names[node]} = {text}")


_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _expression(node: Node, args: list[str]) -> str:
    """The value of a node, as an expression of its operands."""
    op, type_ = node.op, node.dtype
    if op in _COMPARES:
        return f"{args[0]} {_COMPARES[op]} {args[1]}"
    if op == "select":
        return f"{args[1]} if {args[0]} else {args[2]}"
    if op == "bitcast":
        return f"unpack_{type_}(pack_{node.args[0].dtype}({args[0]}))[0]"
    if type_.is_float:
        return _float(op, type_, args)
    if type_.is_bool:
        return f"not {args[0]}" if op == "not" else f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in ("shl", "shr"):
        count = f"({args[1]} & {type_.bits - 1})"
        return _wrapped(f"({args[0]} << {count})", type_) if op == "shl" else f"{args[0]} >> {count}"
    found = {"neg": "-{0}", "not": "~{0}", "cast": "{0}"}.get(op, "{0} " + _INFIX.get(op, "") + " {1}").format(*args)
    return found if op in ("and", "or", "xor") else _wrapped(f"({found})", type_)


def _wrapped(text: str, type_: DType) -> str:
    mask, half = (1 << type_.bits) - 1, 1 << (type_.bits - 1)
    return f"(({text} + {half}) & {mask}) - {half}" if type_.min < 0 else f"{text} & {mask}"


def _float(op: str, type_: DType, args: list[str]) -> str:
    exact = {"neg": "-{0}", "abs": "abs({0})", "copysign": "copysign({0}, {1})", "trunc": "whole({0})"}
    if op in exact:
        return exact[op].format(*args)
    if op == "fma":
        return f"fma_{type_}({', '.join(args)})"
    rounded = {"div": "divided({0}, {1})", "sqrt": "root({0})", "cast": "float({0})"}
    text = rounded.get(op, "{0} " + _INFIX.get(op, "") + " {1}").format(*args)
    return text if type_.name == "f64" else f"c_float({text}).value"
