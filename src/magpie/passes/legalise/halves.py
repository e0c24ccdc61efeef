"""f16 and bf16 as f32 values: rounding to them, and their bits.

Everything is right where subnormal f32 are flushed, but for subnormal bf16, which are subnormal f32.
"""

from __future__ import annotations

from math import inf, nan

from magpie.dtypes import DType, bf16, f32, f64, u32
from magpie.ir.nodes import Node
from magpie.passes.legalise.calc import Calc, signed

__all__ = ["bits_to_half", "half_to_bits", "integer_to_float", "nearest_half", "odd_float", "sum_to_odd"]

_SIGN = 0x80000000


def nearest_half(c: Calc, x: Node, t: DType) -> Node:
    """An f32 rounded to ``t``, f16 or bf16, still held as f32; ties to even."""
    if t is bf16:
        bits = c.bits(x)
        odd = c("and", c("shr", bits, 16), 1)
        near = c("and", c("add", c("add", bits, 0x7FFF), odd), 0xFFFF0000)
        return c.select(c("ne", x, x), nan, c.bits(near, f32))
    # Adding a power of two whose last place is the one to round to, and taking it off again: 2**13 times that of x, but
    # not below 1/2, whose last place is the unit of f16's subnormal numbers.
    size = c("abs", x)
    power = c.bits(c("max", c("add", c("and", c.bits(size), 0x7F800000), 13 << 23), 0x3F000000), f32)
    near = c("sub", c("add", size, power), power)
    near = c.select(c("ge", size, 65520.0), inf, near)
    return c.bits(c("or", c.bits(near), c("and", c.bits(x), _SIGN)), f32)


def half_to_bits(c: Calc, x: Node, t: DType) -> Node:
    """The bits, in a u32, of an f32 that is a value of ``t``."""
    bits = c.bits(x)
    if t is bf16:
        return c("shr", bits, 16)
    size = c("and", bits, _SIGN - 1)
    normal = c("shr", c("sub", size, 112 << 23), 13)
    tiny = c.cast(c("mul", c.bits(size, f32), 2.0**24), u32)
    huge = c.select(c("gt", size, 255 << 23), c.const(0x7E00, u32), 0x7C00)
    found = c.select(c("ge", size, 143 << 23), huge, c.select(c("lt", size, 113 << 23), tiny, normal))
    return c("or", found, c("and", c("shr", bits, 16), 0x8000))


def bits_to_half(c: Calc, bits: Node, t: DType) -> Node:
    """The value as f32 of the bits of a ``t`` in a u32."""
    if t is bf16:
        return c.bits(c("shl", bits, 16), f32)
    size = c("and", bits, 0x7FFF)
    digits = c("shl", size, 13)
    tiny = c.bits(c("mul", c.cast(size, f32), 2.0**-24))
    normal = c.select(c("lt", size, 0x400), tiny, c("add", digits, 112 << 23))
    found = c.select(c("ge", size, 0x7C00), c("or", digits, 0x7F800000), normal)
    return c.bits(c("or", found, c("shl", c("and", bits, 0x8000), 16)), f32)


def odd_float(c: Calc, x: Node) -> Node:
    """An f64 as f32 rounded to odd, so that rounding that to 16 bits is rounding once (Boldo and Melquiond, 2008)."""
    near = c.cast(x, f32)
    back = c.cast(near, f64)
    over = c("gt", c("abs", back), c("abs", x))
    inexact = c.either(c("lt", back, x), c("gt", back, x))
    bits = c("sub", c.bits(near), c.flag(over, u32))
    return c.bits(c("or", bits, c.flag(inexact, u32)), f32)


def sum_to_odd(c: Calc, a: Node, b: Node) -> Node:
    """a + b rounded to odd: Knuth's TwoSum gives the error, and the sum that is not exact takes the odd neighbour."""
    s = c("add", a, b)
    t = c("sub", s, a)
    e = c("add", c("sub", a, c("sub", s, t)), c("sub", b, t))
    integer = signed(a.dtype.bits)
    bits = c.bits(s, integer)
    inexact = c.either(c("lt", e, 0.0), c("gt", e, 0.0))  # not of an infinity, whose error is no number
    away = c.both(inexact, c("lt", c("xor", bits, c.bits(e, integer)), 0))
    return c.bits(c("or", c("sub", bits, c.flag(away, integer)), c.flag(inexact, integer)), a.dtype)


def integer_to_float(c: Calc, x: Node, double: bool) -> Node:
    """An integer as f32 such that rounding it to f16 or bf16 is rounding once; ``double``: the target has f64."""
    t = x.dtype
    if t.is_bool or t.bits < 32:
        return c.cast(x, f32)
    if t.bits == 64:
        if double:
            return odd_float(c, c.cast(_folded(c, x, 40, 12), f64))
        return _long_to_float(c, x)
    return c.cast(_folded(c, x, 24, 9), f32)


def _folded(c: Calc, x: Node, far: int, low: int) -> Node:
    """``x``, beyond 2**far with its ``low`` bits folded into the one above them, so that it fits a significand and lies
    on the same side of whatever a half is rounded at."""
    t = x.dtype
    some = c.select(c("ne", c("and", x, (1 << low) - 1), 0), c.const(1 << (low - 1), t), 0)
    folded = c("or", c("and", x, -1 << low), some)
    u = c.bits(x)
    if t.kind == "uint":
        return c.select(c("gt", u, 1 << far), folded, x)
    return c.select(c("gt", c("add", u, 1 << far), 1 << (far + 1)), folded, x)


def _long_to_float(c: Calc, x: Node) -> Node:
    """Of a large number the upper 32 or 48 bits, the last of them set where lower ones are."""
    t = x.dtype
    narrow = signed(32) if t.kind == "int" else u32
    found, scale = c.cast(x, narrow), c.const(1.0, f32)
    magnitude = x if t.kind == "uint" else c("max", x, c("not", x))
    for bits in (16, 32):
        large = c("ge", magnitude, 1 << (bits + 15))
        lost = c.select(c("ne", c("and", x, (1 << bits) - 1), 0), c.const(1, narrow), 0)
        upper = c("or", c.cast(c("shr", x, bits), narrow), lost)
        found = c.select(large, upper, found)
        scale = c.select(large, float(1 << bits), scale)
    return c("mul", c.cast(_folded(c, found, 24, 9), f32), scale)
