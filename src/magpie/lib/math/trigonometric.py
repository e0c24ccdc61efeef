"""sin, cos and tan: minimax polynomials on [-pi/4, pi/4], with the low part of the reduced angle carried along."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import COS_F32, COS_F64, SIN_F32, SIN_F64, TAN_F32, TAN_F64
from magpie.lib.math.core import horner
from magpie.lib.math.reduction import reduce_f32, reduce_f64

__all__ = ["cos_f32", "cos_f64", "sin_f32", "sin_f64", "tan_f32", "tan_f64"]


@mp.func
def sine_f32(r: mp.f32, lo: mp.f32, z: mp.f32) -> Any:
    """sin(r + lo), z = r**2."""
    return r + mp.fma(r * z, horner(z, SIN_F32), lo)


@mp.func
def cosine_f32(r: mp.f32, lo: mp.f32, z: mp.f32) -> Any:
    """cos(r + lo), z = r**2: the rounding error of 1 - z/2 goes into the small terms."""
    h = 0.5 * z
    w = 1.0 - h
    return w + (((1.0 - w) - h) + mp.fma(z * z, horner(z, COS_F32), -r * lo))


@mp.func
def sine_f64(r: mp.f64, lo: mp.f64, z: mp.f64) -> Any:
    """sin(r + lo), z = r**2."""
    return r + mp.fma(r * z, horner(z, SIN_F64), lo)


@mp.func
def cosine_f64(r: mp.f64, lo: mp.f64, z: mp.f64) -> Any:
    """cos(r + lo), z = r**2."""
    h = 0.5 * z
    w = 1.0 - h
    return w + (((1.0 - w) - h) + mp.fma(z * z, horner(z, COS_F64), -r * lo))


@mp.func
def sin_f32(x: mp.f32) -> Any:
    """Sine."""
    r, lo, n = reduce_f32(x)
    z = r * r
    y = mp.select((n & 1) != 0, cosine_f32(r, lo, z), sine_f32(r, lo, z))
    return mp.select(x == 0.0, x, mp.select((n & 2) != 0, -y, y))


@mp.func
def cos_f32(x: mp.f32) -> Any:
    """Cosine."""
    r, lo, n = reduce_f32(x)
    z = r * r
    y = mp.select((n & 1) != 0, sine_f32(r, lo, z), cosine_f32(r, lo, z))
    return mp.select(((n + 1) & 2) != 0, -y, y)


@mp.func
def sin_f64(x: mp.f64) -> Any:
    """Sine."""
    r, lo, n = reduce_f64(x)
    z = r * r
    y = mp.select((n & 1) != 0, cosine_f64(r, lo, z), sine_f64(r, lo, z))
    return mp.select(x == 0.0, x, mp.select((n & 2) != 0, -y, y))


@mp.func
def cos_f64(x: mp.f64) -> Any:
    """Cosine."""
    r, lo, n = reduce_f64(x)
    z = r * r
    y = mp.select((n & 1) != 0, sine_f64(r, lo, z), cosine_f64(r, lo, z))
    return mp.select(((n + 1) & 2) != 0, -y, y)


@mp.func
def tan_f32(x: mp.f32) -> Any:
    """Tangent: h + l is the tangent of the reduced angle, and in odd quadrants -1 / (h + l) with one Newton step."""
    r, lo, n = reduce_f32(x)
    z = r * r
    w = r * z * horner(z, TAN_F32)
    t = r + w
    w = w + mp.fma(lo, t * t, lo)
    h = r + w
    l = (r - h) + w
    odd = (n & 1) != 0
    v = -1.0 / mp.select(odd, h, 1.0)
    e = mp.fma(v, l, mp.fma(v, h, 1.0))
    return mp.select(x == 0.0, x, mp.select(odd, mp.fma(v, e, v), h))


@mp.func
def tan_f64(x: mp.f64) -> Any:
    """As `tan_f32`."""
    r, lo, n = reduce_f64(x)
    z = r * r
    w = r * z * horner(z, TAN_F64)
    t = r + w
    w = w + mp.fma(lo, t * t, lo)
    h = r + w
    l = (r - h) + w
    odd = (n & 1) != 0
    v = -1.0 / mp.select(odd, h, 1.0)
    e = mp.fma(v, l, mp.fma(v, h, 1.0))
    return mp.select(x == 0.0, x, mp.select(odd, mp.fma(v, e, v), h))
