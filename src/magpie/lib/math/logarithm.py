"""log, log2, log10 and log1p.

x = m * 2**e with m near 1. log(1 + f) comes from a polynomial (f32) or, for f64, from the series of
2 atanh(f / (2 + f)) with a correction that keeps the leading f exact (Tang, "Table-driven implementation of the
logarithm function", ACM TOMS 1990; the correction is that of Cody and Waite). Other bases multiply the leading part in
two pieces.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import LOG_F32, LOG_F64
from magpie.lib.math.core import (
    LN2_HI_F32,
    LN2_HI_F64,
    LN2_LO_F32,
    LN2_LO_F64,
    horner,
    log_split_f32,
    log_split_f64,
)

__all__ = ["log1p_f32", "log1p_f64", "log2_f32", "log2_f64", "log10_f32", "log10_f64", "log_f32", "log_f64"]

# 1 / ln 2, 1 / ln 10 and log10(2) in two pieces; the first piece of log10(2) has trailing zeros: exponents times it
# are exact
INV_LN2_HI_F32, INV_LN2_LO_F32 = 1.4426950216293335, 1.925963033500011e-08
INV_LN10_HI_F32, INV_LN10_LO_F32 = 0.4342944920063019, -1.0103049952192578e-08
LOG10_2_HI_F32, LOG10_2_LO_F32 = 0.301025390625, 4.605039066518657e-06
INV_LN2_HI_F64, INV_LN2_LO_F64 = 1.4426950408889634, 2.0355273740931033e-17
INV_LN10_HI_F64, INV_LN10_LO_F64 = 0.4342944819032518, 1.098319650216765e-17
LOG10_2_HI_F64, LOG10_2_LO_F64 = 0.30102999566395283, 2.8363394551044964e-14


@mp.func
def log_special_f32(x: mp.f32, zero: mp.f32, y: mp.f32) -> Any:
    """``y`` for finite x above ``zero``; -inf at it, NaN below it, inf and NaN give themselves."""
    other = mp.select(x == zero, -mp.inf, mp.select(x > zero, x, mp.nan))
    return mp.select((x > zero) & (x < mp.inf), y, other)


@mp.func
def log_special_f64(x: mp.f64, zero: mp.f64, y: mp.f64) -> Any:
    """As `log_special_f32`."""
    other = mp.select(x == zero, -mp.inf, mp.select(x > zero, x, mp.nan))
    return mp.select((x > zero) & (x < mp.inf), y, other)


@mp.func
def log_rest_f32(f: mp.f32) -> Any:
    """log(1 + f) - f."""
    return f * f * mp.fma(f, horner(f, LOG_F32), -0.5)


@mp.func
def log_rest_f64(f: mp.f64) -> Any:
    """log(1 + f) - f = -(h - s * (h + z * p(z))), h = f**2 / 2, s = f / (2 + f), z = s**2."""
    s = f / (f + 2.0)
    z = s * s
    h = 0.5 * f * f
    return mp.fma(s, mp.fma(z, horner(z, LOG_F64), h), -h)


@mp.func
def log_f32(x: mp.f32) -> Any:
    """Natural logarithm."""
    m, e = log_split_f32(x)
    f = m - 1.0
    y = mp.fma(e, LN2_HI_F32, f + mp.fma(e, LN2_LO_F32, log_rest_f32(f)))
    return log_special_f32(x, 0.0, y)


@mp.func
def log_f64(x: mp.f64) -> Any:
    """Natural logarithm."""
    m, e = log_split_f64(x)
    f = m - 1.0
    y = mp.fma(e, LN2_HI_F64, f + mp.fma(e, LN2_LO_F64, log_rest_f64(f)))
    return log_special_f64(x, 0.0, y)


@mp.func
def log1p_f32(x: mp.f32) -> Any:
    """log(1 + x): e is that of the rounded 1 + x, but f = 2**-e * (1 + x) - 1 is formed from x with one rounding."""
    m, e = log_split_f32(1.0 + x)
    s = mp.bitcast(mp.bitcast(12583039.0 - e, mp.i32) << 23, mp.f32)  # 1.5 * 2**23 + 127: its low bits are 127 - e
    f = mp.select(e > 60.0, m - 1.0, mp.fma(s, x, s - 1.0))
    y = mp.fma(e, LN2_HI_F32, f + mp.fma(e, LN2_LO_F32, log_rest_f32(f)))
    return mp.select(mp.abs(x) < 2.9802322387695312e-08, x, log_special_f32(x, -1.0, y))


@mp.func
def log1p_f64(x: mp.f64) -> Any:
    """As `log1p_f32`."""
    m, e = log_split_f64(1.0 + x)
    s = mp.bitcast(mp.bitcast(4503599627371519.0 - e, mp.i64) << 52, mp.f64)
    f = mp.select(e > 200.0, m - 1.0, mp.fma(s, x, s - 1.0))
    y = mp.fma(e, LN2_HI_F64, f + mp.fma(e, LN2_LO_F64, log_rest_f64(f)))
    return mp.select(mp.abs(x) < 5.551115123125783e-17, x, log_special_f64(x, -1.0, y))


@mp.func
def log2_f32(x: mp.f32) -> Any:
    """Logarithm to base 2; exact for powers of two."""
    m, e = log_split_f32(x)
    f = m - 1.0
    hi = f * INV_LN2_HI_F32
    lo = mp.fma(log_rest_f32(f), INV_LN2_HI_F32, mp.fma(f, INV_LN2_LO_F32, mp.fma(f, INV_LN2_HI_F32, -hi)))
    s = e + hi
    return log_special_f32(x, 0.0, s + (((e - s) + hi) + lo))


@mp.func
def log2_f64(x: mp.f64) -> Any:
    """Logarithm to base 2; exact for powers of two."""
    m, e = log_split_f64(x)
    f = m - 1.0
    hi = f * INV_LN2_HI_F64
    lo = mp.fma(log_rest_f64(f), INV_LN2_HI_F64, mp.fma(f, INV_LN2_LO_F64, mp.fma(f, INV_LN2_HI_F64, -hi)))
    s = e + hi
    return log_special_f64(x, 0.0, s + (((e - s) + hi) + lo))


@mp.func
def log10_f32(x: mp.f32) -> Any:
    """Logarithm to base 10."""
    m, e = log_split_f32(x)
    f = m - 1.0
    hi = f * INV_LN10_HI_F32
    lo = mp.fma(log_rest_f32(f), INV_LN10_HI_F32, mp.fma(f, INV_LN10_LO_F32, mp.fma(f, INV_LN10_HI_F32, -hi)))
    whole = e * LOG10_2_HI_F32
    s = whole + hi
    return log_special_f32(x, 0.0, s + (((whole - s) + hi) + mp.fma(e, LOG10_2_LO_F32, lo)))


@mp.func
def log10_f64(x: mp.f64) -> Any:
    """Logarithm to base 10."""
    m, e = log_split_f64(x)
    f = m - 1.0
    hi = f * INV_LN10_HI_F64
    lo = mp.fma(log_rest_f64(f), INV_LN10_HI_F64, mp.fma(f, INV_LN10_LO_F64, mp.fma(f, INV_LN10_HI_F64, -hi)))
    whole = e * LOG10_2_HI_F64
    s = whole + hi
    return log_special_f64(x, 0.0, s + (((whole - s) + hi) + mp.fma(e, LOG10_2_LO_F64, lo)))
