"""exp, exp2 and expm1: Cody-Waite reduction, a minimax polynomial, and a scaling that rounds denormal results once."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import EXP2_F32, EXP2_F64, EXP_F32, EXP_F64
from magpie.lib.math.core import (
    LN2_HI_F32,
    LN2_HI_F64,
    LN2_LO_F32,
    LN2_LO_F64,
    LOG2E_F32,
    LOG2E_F64,
    ROUND_F32,
    ROUND_F64,
    exp_parts_f32,
    exp_parts_f64,
    horner,
    scale_f32,
    scale_f64,
)

__all__ = ["exp2_f32", "exp2_f64", "exp_f32", "exp_f64", "expm1_f32", "expm1_f64"]


@mp.func
def exp_f32(x: mp.f32) -> Any:
    """e**x. The clamps are comparisons that are false for a NaN, which therefore reaches the result."""
    a = mp.select(x > 89.0, 89.0, x)
    b = mp.select(a < -104.0, -104.0, a)
    p, k = exp_parts_f32(b)
    return scale_f32(p, k, b < 0.0)


@mp.func
def exp_f64(x: mp.f64) -> Any:
    """e**x."""
    a = mp.select(x > 710.0, 710.0, x)
    b = mp.select(a < -746.0, -746.0, a)
    p, k = exp_parts_f64(b)
    return scale_f64(p, k, b < 0.0)


@mp.func
def exp2_f32(x: mp.f32) -> Any:
    """2**x; exact for integers."""
    a = mp.select(x > 129.0, 129.0, x)
    b = mp.select(a < -151.0, -151.0, a)
    t = b + ROUND_F32
    r = b - (t - ROUND_F32)
    return scale_f32(mp.fma(r, horner(r, EXP2_F32), 1.0), mp.bitcast(t, mp.i32), b < 0.0)


@mp.func
def exp2_f64(x: mp.f64) -> Any:
    """2**x; exact for integers."""
    a = mp.select(x > 1025.0, 1025.0, x)
    b = mp.select(a < -1076.0, -1076.0, a)
    t = b + ROUND_F64
    r = b - (t - ROUND_F64)
    return scale_f64(mp.fma(r, horner(r, EXP2_F64), 1.0), mp.bitcast(t, mp.i64), b < 0.0)


@mp.func
def expm1_f32(x: mp.f32) -> Any:
    """e**x - 1 as 2 * (s * w + (s * r + (s - 1/2))), s = 2**(n-1), expm1(r) = r + w; 2**n itself may overflow."""
    a = mp.select(x > 89.0, 89.0, x)
    b = mp.select(a < -18.0, -18.0, a)
    t = mp.fma(b, LOG2E_F32, ROUND_F32)
    n = t - ROUND_F32
    whole = mp.fma(n, -LN2_HI_F32, b)
    tail = n * LN2_LO_F32
    r = whole - tail
    w = mp.fma(r * r, horner(r, EXP_F32), (whole - r) - tail)
    s = mp.bitcast((mp.bitcast(t, mp.i32) << 23) + 0x3F000000, mp.f32)
    y = mp.fma(w, s, mp.fma(r, s, s - 0.5)) * 2.0
    return mp.select(mp.abs(x) < 2.9802322387695312e-08, x, y)  # keeps -0 and denormals


@mp.func
def expm1_f64(x: mp.f64) -> Any:
    """As `expm1_f32`."""
    a = mp.select(x > 710.0, 710.0, x)
    b = mp.select(a < -38.0, -38.0, a)
    t = mp.fma(b, LOG2E_F64, ROUND_F64)
    n = t - ROUND_F64
    whole = mp.fma(n, -LN2_HI_F64, b)
    tail = n * LN2_LO_F64
    r = whole - tail
    w = mp.fma(r * r, horner(r, EXP_F64), (whole - r) - tail)
    s = mp.bitcast((mp.bitcast(t, mp.i64) << 52) + mp.i64(0x3FE0000000000000), mp.f64)
    y = mp.fma(w, s, mp.fma(r, s, s - 0.5)) * 2.0
    return mp.select(mp.abs(x) < 5.551115123125783e-17, x, y)
