"""sinh, cosh, tanh and erf: an odd polynomial near 0, the exponential elsewhere."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import (
    ERF_F32,
    ERF_F64,
    LOG_ERFC_F32,
    LOG_ERFC_F64,
    SINH_F32,
    SINH_F64,
    TANH_F32,
    TANH_F64,
)
from magpie.lib.math.core import exp_parts_f32, exp_parts_f64, horner

__all__ = ["cosh_f32", "cosh_f64", "erf_f32", "erf_f64", "sinh_f32", "sinh_f64", "tanh_f32", "tanh_f64"]


@mp.func
def half_exp_f32(a: mp.f32) -> Any:
    """exp(a) / 2 for a >= 0, infinite only where the half is: the power of two is applied in two steps."""
    p, k = exp_parts_f32(mp.select(a > 90.0, 90.0, a))
    return p * mp.bitcast((k << 23) + 0x3E000000, mp.f32) * 4.0


@mp.func
def sinh_f32(x: mp.f32) -> Any:
    """Hyperbolic sine."""
    a = mp.abs(x)
    z = a * a
    e = half_exp_f32(a)
    y = mp.select(a < 1.0, mp.fma(a * z, horner(z, SINH_F32), a), e - 0.25 / e)
    return mp.copysign(y, x)


@mp.func
def cosh_f32(x: mp.f32) -> Any:
    """Hyperbolic cosine."""
    e = half_exp_f32(mp.abs(x))
    return e + 0.25 / e


@mp.func
def tanh_f32(x: mp.f32) -> Any:
    """Hyperbolic tangent: 1 - 2 / (exp(2 x) + 1) above 0.6."""
    a = mp.abs(x)
    z = a * a
    p, k = exp_parts_f32(2.0 * mp.select(a > 10.0, 10.0, a))
    e = p * mp.bitcast((k << 23) + 0x3F800000, mp.f32)
    y = mp.select(a < 0.6, mp.fma(a * z, horner(z, TANH_F32), a), 1.0 - 2.0 / (e + 1.0))
    return mp.copysign(y, x)


@mp.func
def erf_f32(x: mp.f32) -> Any:
    """Error function: 1 - exp(log(erfc(x))) above 1, with a polynomial for the logarithm."""
    a = mp.abs(x)
    z = a * a
    p, k = exp_parts_f32(horner(mp.select(a > 4.0, 4.0, a) - 2.0, LOG_ERFC_F32))
    e = p * mp.bitcast((k << 23) + 0x3F800000, mp.f32)
    y = mp.select(a < 1.0, mp.fma(a, horner(z, ERF_F32), a), 1.0 - e)
    return mp.copysign(y, x)


@mp.func
def half_exp_f64(a: mp.f64) -> Any:
    """exp(a) / 2 for a >= 0, infinite only where the half is: the power of two is applied in two steps."""
    p, k = exp_parts_f64(mp.select(a > 711.0, 711.0, a))
    return p * mp.bitcast((k << 52) + mp.i64(0x3FC0000000000000), mp.f64) * 4.0


@mp.func
def sinh_f64(x: mp.f64) -> Any:
    """Hyperbolic sine."""
    a = mp.abs(x)
    z = a * a
    e = half_exp_f64(a)
    y = mp.select(a < 1.0, mp.fma(a * z, horner(z, SINH_F64), a), e - 0.25 / e)
    return mp.copysign(y, x)


@mp.func
def cosh_f64(x: mp.f64) -> Any:
    """Hyperbolic cosine."""
    e = half_exp_f64(mp.abs(x))
    return e + 0.25 / e


@mp.func
def tanh_f64(x: mp.f64) -> Any:
    """Hyperbolic tangent: 1 - 2 / (exp(2 x) + 1) above 0.6."""
    a = mp.abs(x)
    z = a * a
    p, k = exp_parts_f64(2.0 * mp.select(a > 20.0, 20.0, a))
    e = p * mp.bitcast((k << 52) + mp.i64(0x3FF0000000000000), mp.f64)
    y = mp.select(a < 0.6, mp.fma(a * z, horner(z, TANH_F64), a), 1.0 - 2.0 / (e + 1.0))
    return mp.copysign(y, x)


@mp.func
def erf_f64(x: mp.f64) -> Any:
    """Error function: 1 - exp(log(erfc(x))) above 1, with a polynomial for the logarithm."""
    a = mp.abs(x)
    z = a * a
    p, k = exp_parts_f64(horner(mp.select(a > 6.0, 6.0, a) - 2.5, LOG_ERFC_F64))
    e = p * mp.bitcast((k << 52) + mp.i64(0x3FF0000000000000), mp.f64)
    y = mp.select(a < 1.0, mp.fma(a, horner(z, ERF_F64), a), 1.0 - e)
    return mp.copysign(y, x)
