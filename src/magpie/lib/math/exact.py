"""fmod, remainder, ldexp and frexp: no rounding, or one.

fmod is long division in floating point: a partial quotient below 2**23 (f64: 2**52) times a multiple of the divisor
fits an fma exactly, so each step takes that many bits of the quotient. Nearly always one step is enough.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp

__all__ = [
    "fmod_f32",
    "fmod_f64",
    "frexp_exponent_f32",
    "frexp_exponent_f64",
    "frexp_mantissa_f32",
    "frexp_mantissa_f64",
    "ldexp_f32",
    "ldexp_f64",
    "remainder_f32",
    "remainder_f64",
]


@mp.func
def divide_step_f32(r: mp.f32, d: mp.f32) -> Any:
    """(r mod d, whether the quotient is odd) for 0 <= r < 2**23 d: a quotient that was rounded up is taken back."""
    q = mp.trunc(r / d)
    low = mp.fma(-q, d, r)
    over = low < 0.0
    half = 0.5 * q
    return mp.select(over, low + d, low), (mp.trunc(half) != half) != over


@mp.func
def divide_step_f64(r: mp.f64, d: mp.f64) -> Any:
    """As `divide_step_f32`, for 0 <= r < 2**52 d."""
    q = mp.trunc(r / d)
    low = mp.fma(-q, d, r)
    over = low < 0.0
    half = 0.5 * q
    return mp.select(over, low + d, low), (mp.trunc(half) != half) != over


@mp.func
def exponent_f32(a: mp.f32) -> Any:
    """A power-of-two exponent e of a > 0 with 2**e <= a < 2**(e + 1), denormals included."""
    tiny = a < 1.1754943508222875e-38
    return (mp.bitcast(mp.select(tiny, a * 8388608.0, a), mp.i32) >> 23) - mp.select(tiny, 150, 127)


@mp.func
def exponent_f64(a: mp.f64) -> Any:
    """As `exponent_f32`."""
    tiny = a < 2.2250738585072014e-308
    u = mp.bitcast(mp.select(tiny, a * 4503599627370496.0, a), mp.u64)
    return mp.i32(u >> mp.u64(52)) - mp.select(tiny, 1075, 1023)


@mp.func
def modulo_f32(a: mp.f32, b: mp.f32) -> Any:
    """(a mod b, parity of the quotient) for finite a >= 0 and b > 0."""
    r = a
    if a >= b * 2097152.0:  # 2**21; an infinite product compares false
        # 22 bits of the quotient a trip, from the top: e = b * 2**shift, and the rest stays below 2**23 e
        shift = exponent_f32(a) - exponent_f32(b) - 22
        while shift > 0:
            d = b * mp.bitcast((mp.select(shift > 127, 127, shift) + 127) << 23, mp.f32)
            e = d * mp.bitcast((mp.select(shift > 127, shift - 127, 0) + 127) << 23, mp.f32)
            r, _ = divide_step_f32(r, e)
            shift = shift - 22
    return divide_step_f32(r, b)


@mp.func
def modulo_f64(a: mp.f64, b: mp.f64) -> Any:
    """As `modulo_f32`."""
    r = a
    if a >= b * 1125899906842624.0:  # 2**50
        shift = exponent_f64(a) - exponent_f64(b) - 51
        while shift > 0:
            d = b * mp.bitcast(mp.i64(mp.select(shift > 1023, 1023, shift) + 1023) << mp.i64(52), mp.f64)
            e = d * mp.bitcast(mp.i64(mp.select(shift > 1023, shift - 1023, 0) + 1023) << mp.i64(52), mp.f64)
            r, _ = divide_step_f64(r, e)
            shift = shift - 51
    return divide_step_f64(r, b)


@mp.func
def fmod_f32(x: mp.f32, y: mp.f32) -> Any:
    """C's fmod: the sign of x; NaN for an infinite x or a zero y, x for an infinite y."""
    a = mp.abs(x)
    b = mp.abs(y)
    good = (a < mp.inf) & (b > 0.0)
    r, _ = modulo_f32(mp.select(good, a, 0.0), mp.select(good & (b < mp.inf), b, 1.0))
    r = mp.select(b == mp.inf, a, r)
    return mp.select(good, mp.copysign(r, x), mp.nan)


@mp.func
def fmod_f64(x: mp.f64, y: mp.f64) -> Any:
    """As `fmod_f32`."""
    a = mp.abs(x)
    b = mp.abs(y)
    good = (a < mp.inf) & (b > 0.0)
    r, _ = modulo_f64(mp.select(good, a, 0.0), mp.select(good & (b < mp.inf), b, 1.0))
    r = mp.select(b == mp.inf, a, r)
    return mp.select(good, mp.copysign(r, x), mp.nan)


@mp.func
def remainder_f32(x: mp.f32, y: mp.f32) -> Any:
    """IEEE remainder.

    From fmod, one more b off when the rest is above half of it, or equal to half with an odd quotient.
    """
    a = mp.abs(x)
    b = mp.abs(y)
    good = (a < mp.inf) & (b > 0.0)
    r, odd = modulo_f32(mp.select(good, a, 0.0), mp.select(good & (b < mp.inf), b, 1.0))
    other = b - r
    r = mp.select((r > other) | ((r == other) & odd), r - b, r)
    r = mp.select(b == mp.inf, a, r)
    s = mp.select(mp.bitcast(x, mp.i32) < 0, -r, r)
    return mp.select(good, s, mp.nan)


@mp.func
def remainder_f64(x: mp.f64, y: mp.f64) -> Any:
    """As `remainder_f32`."""
    a = mp.abs(x)
    b = mp.abs(y)
    good = (a < mp.inf) & (b > 0.0)
    r, odd = modulo_f64(mp.select(good, a, 0.0), mp.select(good & (b < mp.inf), b, 1.0))
    other = b - r
    r = mp.select((r > other) | ((r == other) & odd), r - b, r)
    r = mp.select(b == mp.inf, a, r)
    s = mp.select(mp.bitcast(x, mp.i64) < 0, -r, r)
    return mp.select(good, s, mp.nan)


@mp.func
def ldexp_f32(x: mp.f32, n: mp.i32) -> Any:
    """x * 2**n.

    The significand times a power that keeps it normal, then times what is left, which is where it may round.
    """
    a = mp.abs(x)
    e = exponent_f32(mp.select((a > 0.0) & (a < mp.inf), a, 1.0))
    tiny = a < 1.1754943508222875e-38
    m = mp.bitcast((mp.bitcast(mp.select(tiny, x * 8388608.0, x), mp.i32) & -2139095041) | 0x3F800000, mp.f32)
    c = mp.select(n > 400, 400, mp.select(n < -400, -400, n))
    k = e + c
    first = mp.select(k > 127, 127, mp.select(k < -126, -126, k))
    rest = mp.select(k - first > 127, 127, mp.select(k - first < -126, -126, k - first))
    y = m * mp.bitcast((first + 127) << 23, mp.f32) * mp.bitcast((rest + 127) << 23, mp.f32)
    return mp.select((a > 0.0) & (a < mp.inf), y, x)


@mp.func
def ldexp_f64(x: mp.f64, n: mp.i32) -> Any:
    """As `ldexp_f32`."""
    a = mp.abs(x)
    e = exponent_f64(mp.select((a > 0.0) & (a < mp.inf), a, 1.0))
    tiny = a < 2.2250738585072014e-308
    u = mp.bitcast(mp.select(tiny, x * 4503599627370496.0, x), mp.u64)
    m = mp.bitcast((u & mp.u64(0x800FFFFFFFFFFFFF)) | mp.u64(0x3FF0000000000000), mp.f64)
    c = mp.select(n > 3000, 3000, mp.select(n < -3000, -3000, n))
    k = e + c
    first = mp.select(k > 1023, 1023, mp.select(k < -1022, -1022, k))
    rest = mp.select(k - first > 1023, 1023, mp.select(k - first < -1022, -1022, k - first))
    p = mp.bitcast(mp.i64(first + 1023) << mp.i64(52), mp.f64)
    y = m * p * mp.bitcast(mp.i64(rest + 1023) << mp.i64(52), mp.f64)
    return mp.select((a > 0.0) & (a < mp.inf), y, x)


@mp.func
def frexp_mantissa_f32(x: mp.f32) -> Any:
    """m of x = m * 2**e with 1/2 <= \\|m\\| < 1; 0, inf and NaN give themselves."""
    a = mp.abs(x)
    tiny = a < 1.1754943508222875e-38
    m = mp.bitcast((mp.bitcast(mp.select(tiny, x * 8388608.0, x), mp.i32) & -2139095041) | 0x3F000000, mp.f32)
    return mp.select((a > 0.0) & (a < mp.inf), m, x)


@mp.func
def frexp_mantissa_f64(x: mp.f64) -> Any:
    """As `frexp_mantissa_f32`."""
    a = mp.abs(x)
    tiny = a < 2.2250738585072014e-308
    u = mp.bitcast(mp.select(tiny, x * 4503599627370496.0, x), mp.u64)
    m = mp.bitcast((u & mp.u64(0x800FFFFFFFFFFFFF)) | mp.u64(0x3FE0000000000000), mp.f64)
    return mp.select((a > 0.0) & (a < mp.inf), m, x)


@mp.func
def frexp_exponent_f32(x: mp.f32) -> Any:
    """e of x = m * 2**e with 1/2 <= \\|m\\| < 1; 0 for 0, inf and NaN."""
    a = mp.abs(x)
    good = (a > 0.0) & (a < mp.inf)
    return mp.select(good, exponent_f32(mp.select(good, a, 1.0)) + 1, 0)


@mp.func
def frexp_exponent_f64(x: mp.f64) -> Any:
    """As `frexp_exponent_f32`."""
    a = mp.abs(x)
    good = (a > 0.0) & (a < mp.inf)
    return mp.select(good, exponent_f64(mp.select(good, a, 1.0)) + 1, 0)
