"""asin, acos, atan and atan2 (Cody and Waite, "Software Manual for the Elementary Functions", chapters 10 and 11)."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64
from magpie.lib.math.core import horner

__all__ = ["acos_f32", "acos_f64", "asin_f32", "asin_f64", "atan2_f32", "atan2_f64", "atan_f32", "atan_f64"]

PI_2_HI_F32, PI_2_LO_F32 = 1.5707963705062866, -4.371138828673793e-08
PI_2_HI_F64, PI_2_LO_F64 = 1.5707963267948966, 6.123233995736766e-17
PI_4_HI_F64, PI_4_LO_F64 = 0.7853981633974483, 3.061616997868383e-17


@mp.func
def asin_f32(x: mp.f32) -> Any:
    """Arc sine; above 1/2 as pi/2 - 2 asin(sqrt((1 - x) / 2)). |x| > 1 gives the NaN of the square root."""
    a = mp.abs(x)
    big = a > 0.5
    z = mp.select(big, 0.5 - 0.5 * a, a * a)
    s = mp.select(big, mp.sqrt(z), a)
    p = s * z * horner(z, ASIN_F32)
    y = mp.select(big, PI_2_HI_F32 - mp.fma(2.0, s, mp.fma(2.0, p, -PI_2_LO_F32)), s + p)
    return mp.copysign(y, x)


@mp.func
def acos_f32(x: mp.f32) -> Any:
    """Arc cosine: pi/2 - asin(x) for small |x|, 2 asin(sqrt((1 - |x|) / 2)) or pi minus that for others."""
    a = mp.abs(x)
    big = a > 0.5
    z = mp.select(big, 0.5 - 0.5 * a, a * a)
    s = mp.select(big, mp.sqrt(z), x)
    p = s * z * horner(z, ASIN_F32)
    inner = PI_2_HI_F32 - (s + (p - PI_2_LO_F32))
    return mp.select(big, 2.0 * mp.select(x < 0.0, inner, s + p), inner)


@mp.func
def asin_f64(x: mp.f64) -> Any:
    """Arc sine; above 1/2 as pi/2 - 2 asin(sqrt((1 - x) / 2)). |x| > 1 gives the NaN of the square root."""
    a = mp.abs(x)
    big = a > 0.5
    z = mp.select(big, 0.5 - 0.5 * a, a * a)
    s = mp.select(big, mp.sqrt(z), a)
    p = s * z * horner(z, ASIN_F64)
    y = mp.select(big, PI_2_HI_F64 - mp.fma(2.0, s, mp.fma(2.0, p, -PI_2_LO_F64)), s + p)
    return mp.copysign(y, x)


@mp.func
def acos_f64(x: mp.f64) -> Any:
    """Arc cosine: pi/2 - asin(x) for small |x|, 2 asin(sqrt((1 - |x|) / 2)) or pi minus that for others."""
    a = mp.abs(x)
    big = a > 0.5
    z = mp.select(big, 0.5 - 0.5 * a, a * a)
    s = mp.select(big, mp.sqrt(z), x)
    p = s * z * horner(z, ASIN_F64)
    inner = PI_2_HI_F64 - (s + (p - PI_2_LO_F64))
    return mp.select(big, 2.0 * mp.select(x < 0.0, inner, s + p), inner)


@mp.func
def atan_f32(x: mp.f32) -> Any:
    """Arc tangent; above 1 as pi/2 + atan(-1 / x)."""
    a = mp.abs(x)
    big = a > 1.0
    t = mp.select(big, -1.0, a) / mp.select(big, a, 1.0)
    z = t * t
    y = t + mp.fma(t * z, horner(z, ATAN_F32), mp.select(big, PI_2_LO_F32, 0.0))
    return mp.copysign(mp.select(big, PI_2_HI_F32, 0.0) + y, x)


@mp.func
def atan2_f32(y: mp.f32, x: mp.f32) -> Any:
    """The angle of (x, y): atan of the smaller over the larger coordinate, then the octant.

    The selects keep a NaN of either operand in the quotient; C99 F.9.1.4 gives the values at zeros and infinities.
    """
    ax = mp.abs(x)
    ay = mp.abs(y)
    swap = ay > ax
    small = mp.select(swap, ax, ay)
    large = mp.select(swap, ay, ax)
    q = small / mp.select(large == 0.0, 1.0, large)
    q = mp.select((small == mp.inf) & (large == mp.inf), 1.0, q)
    left = mp.bitcast(x, mp.i32) < 0
    t = mp.select(swap != left, -q, q)
    z = t * t
    hi = mp.select(swap, PI_2_HI_F32, mp.select(left, 2.0 * PI_2_HI_F32, 0.0))
    lo = mp.select(swap, PI_2_LO_F32, mp.select(left, 2.0 * PI_2_LO_F32, 0.0))
    return mp.copysign(hi + (t + mp.fma(t * z, horner(z, ATAN_F32), lo)), y)


@mp.func
def atan_sum_f64(n: mp.f64, d: mp.f64, turn: mp.f64) -> Any:
    """turn * pi/4 + atan(n / d), |n / d| <= 1/2."""
    t = n / d
    z = t * t
    hi = turn * PI_4_HI_F64
    lo = mp.fma(turn, PI_4_HI_F64, -hi) + turn * PI_4_LO_F64
    return hi + (t + mp.fma(t * z, horner(z, ATAN_F64), lo))


@mp.func
def atan_f64(x: mp.f64) -> Any:
    """Arc tangent.

    Pi/4 + atan((x - 1) / (x + 1)) from 1/2 to 2, where x - 1 is exact, and pi/2 + atan(-1 / x) above.
    """
    a = mp.abs(x)
    low = a <= 0.5
    high = a > 2.0
    n = mp.select(low, a, mp.select(high, -1.0, a - 1.0))
    d = mp.select(low, 1.0, mp.select(high, a, a + 1.0))
    return mp.copysign(atan_sum_f64(n, d, mp.select(low, 0.0, mp.select(high, 2.0, 1.0))), x)


@mp.func
def atan2_f64(y: mp.f64, x: mp.f64) -> Any:
    """As `atan2_f32`, with the reduction of `atan_f64`.

    The quotient is small / large or (small - large) / (small + large).
    """
    ax = mp.abs(x)
    ay = mp.abs(y)
    swap = ay > ax
    scale = mp.select(mp.select(swap, ay, ax) > 1.0715086071862673e301, 0.25, 1.0)  # 2**1000: the sum must not overflow
    small = mp.select(swap, ax, ay) * scale
    large = mp.select(swap, ay, ax) * scale
    both = (small == mp.inf) & (large == mp.inf)
    small = mp.select(both, 1.0, small)
    large = mp.select(both, 1.0, large)
    middle = small > 0.5 * large
    n = mp.select(middle, small - large, small)
    d = mp.select(middle, small + large, mp.select(large == 0.0, 1.0, large))
    left = mp.bitcast(x, mp.i64) < 0
    minus = swap != left
    turn = mp.select(swap, 2.0, mp.select(left, 4.0, 0.0)) + mp.select(middle, mp.select(minus, -1.0, 1.0), 0.0)
    return mp.copysign(atan_sum_f64(mp.select(minus, -n, n), d, turn), y)
