"""pow, rsqrt, cbrt and hypot."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import ATANH_F32, ATANH_F64, EXP2_F32, EXP2_F64, RCBRT_F32, RCBRT_F64
from magpie.lib.math.core import ROUND_F32, ROUND_F64, horner, log_split_f32, log_split_f64, scale_f32, scale_f64

__all__ = ["cbrt_f32", "cbrt_f64", "hypot_f32", "hypot_f64", "pow_f32", "pow_f64", "rsqrt_f32", "rsqrt_f64"]

# 1/3 and 2 / ln 2 in two pieces
THIRD_HI_F32, THIRD_LO_F32 = 0.3333333432674408, -9.934107758624577e-09
TWO_LOG2E_HI_F32, TWO_LOG2E_LO_F32 = 2.885390043258667, 3.851926067000022e-08
THIRD_HI_F64, THIRD_LO_F64 = 0.3333333333333333, 1.850371707708594e-17
TWO_LOG2E_HI_F64, TWO_LOG2E_LO_F64 = 2.8853900817779268, 4.0710547481862066e-17
# 2**(-1/3) and 2**(-2/3)
CBRT_HALF, CBRT_QUARTER = 0.7937005259840998, 0.6299605249474366


@mp.func
def log2_pair_f32(x: mp.f32) -> Any:
    """log2(x) as hi + lo to about twice the precision, for finite x > 0.

    2 / ln 2 * atanh(s), s = (m - 1) / (m + 1), with the two leading terms of the series in pairs (Markstein, "IA-64 and
    Elementary Functions", chapter 9, does the same with a wider format).
    """
    m, e = log_split_f32(x)
    f = m - 1.0
    d = m + 1.0
    d_lo = m - (d - 1.0)
    inv = 1.0 / d
    s = f * inv
    s_lo = mp.fma(-s, d_lo, mp.fma(-s, d, f)) * inv
    z = s * s
    z_lo = mp.fma(s, s, -z) + 2.0 * s * s_lo
    # t = z / 3 + z**2 * p(z)
    t = z * THIRD_HI_F32
    t_lo = mp.fma(z_lo, THIRD_HI_F32, z * THIRD_LO_F32)
    t_lo = mp.fma(z, THIRD_HI_F32, -t) + mp.fma(z * z, horner(z, ATANH_F32), t_lo)
    w = s * t
    w_lo = mp.fma(s, t, -w) + mp.fma(s, t_lo, s_lo * t)
    h = s + w
    h_lo = ((s - h) + w) + (w_lo + s_lo)
    g = h * TWO_LOG2E_HI_F32
    g_lo = mp.fma(h, TWO_LOG2E_HI_F32, -g) + mp.fma(h, TWO_LOG2E_LO_F32, h_lo * TWO_LOG2E_HI_F32)
    total = e + g
    rest = ((e - total) + g) + g_lo  # not yet small: z**2 * p(z) went with the low parts
    hi = total + rest
    return hi, (total - hi) + rest


@mp.func
def pow_f32(x: mp.f32, y: mp.f32) -> Any:
    """x**y = 2**(y * log2|x|) with the sign and the special values of C99 F.9.4.4.

    The clamp of y keeps its product finite; beyond it |x|**y over- or underflows whatever x but 1 is.
    """
    a = mp.abs(x)
    hi, lo = log2_pair_f32(a)
    c = mp.select(y > 4294967296.0, 4294967296.0, y)
    c = mp.select(c < -4294967296.0, -4294967296.0, c)
    p = c * hi
    p_lo = mp.fma(c, lo, mp.fma(c, hi, -p))
    b = mp.select(p > 130.0, 130.0, p)
    b = mp.select(b < -152.0, -152.0, b)
    t = b + ROUND_F32
    r = (b - (t - ROUND_F32)) + mp.select(b == p, p_lo, 0.0)
    v = scale_f32(mp.fma(r, horner(r, EXP2_F32), 1.0), mp.bitcast(t, mp.i32), b < 0.0)
    v = mp.select(a == 0.0, mp.select(y < 0.0, mp.inf, 0.0), v)
    v = mp.select(a == mp.inf, mp.select(y < 0.0, 0.0, mp.inf), v)
    whole = mp.trunc(y) == y
    half = 0.5 * y
    odd = whole & (mp.trunc(half) != half)
    v = mp.select((mp.bitcast(x, mp.i32) < 0) & odd, -v, v)
    v = mp.select(((x < 0.0) & (x > -mp.inf) & ~whole) | (x != x) | (y != y), mp.nan, v)
    return mp.select((y == 0.0) | (x == 1.0), 1.0, v)


@mp.func
def log2_pair_f64(x: mp.f64) -> Any:
    """log2(x) as hi + lo to about twice the precision, for finite x > 0.

    2 / ln 2 * atanh(s), s = (m - 1) / (m + 1), with the two leading terms of the series in pairs (Markstein, "IA-64 and
    Elementary Functions", chapter 9, does the same with a wider format).
    """
    m, e = log_split_f64(x)
    f = m - 1.0
    d = m + 1.0
    d_lo = m - (d - 1.0)
    inv = 1.0 / d
    s = f * inv
    s_lo = mp.fma(-s, d_lo, mp.fma(-s, d, f)) * inv
    z = s * s
    z_lo = mp.fma(s, s, -z) + 2.0 * s * s_lo
    # t = z / 3 + z**2 * p(z)
    t = z * THIRD_HI_F64
    t_lo = mp.fma(z_lo, THIRD_HI_F64, z * THIRD_LO_F64)
    t_lo = mp.fma(z, THIRD_HI_F64, -t) + mp.fma(z * z, horner(z, ATANH_F64), t_lo)
    w = s * t
    w_lo = mp.fma(s, t, -w) + mp.fma(s, t_lo, s_lo * t)
    h = s + w
    h_lo = ((s - h) + w) + (w_lo + s_lo)
    g = h * TWO_LOG2E_HI_F64
    g_lo = mp.fma(h, TWO_LOG2E_HI_F64, -g) + mp.fma(h, TWO_LOG2E_LO_F64, h_lo * TWO_LOG2E_HI_F64)
    total = e + g
    rest = ((e - total) + g) + g_lo  # not yet small: z**2 * p(z) went with the low parts
    hi = total + rest
    return hi, (total - hi) + rest


@mp.func
def pow_f64(x: mp.f64, y: mp.f64) -> Any:
    """x**y = 2**(y * log2|x|) with the sign and the special values of C99 F.9.4.4.

    The clamp of y keeps its product finite; beyond it |x|**y over- or underflows whatever x but 1 is.
    """
    a = mp.abs(x)
    hi, lo = log2_pair_f64(a)
    c = mp.select(y > 1.1805916207174113e21, 1.1805916207174113e21, y)
    c = mp.select(c < -1.1805916207174113e21, -1.1805916207174113e21, c)
    p = c * hi
    p_lo = mp.fma(c, lo, mp.fma(c, hi, -p))
    b = mp.select(p > 1026.0, 1026.0, p)
    b = mp.select(b < -1078.0, -1078.0, b)
    t = b + ROUND_F64
    r = (b - (t - ROUND_F64)) + mp.select(b == p, p_lo, 0.0)
    v = scale_f64(mp.fma(r, horner(r, EXP2_F64), 1.0), mp.bitcast(t, mp.i64), b < 0.0)
    v = mp.select(a == 0.0, mp.select(y < 0.0, mp.inf, 0.0), v)
    v = mp.select(a == mp.inf, mp.select(y < 0.0, 0.0, mp.inf), v)
    whole = mp.trunc(y) == y
    half = 0.5 * y
    odd = whole & (mp.trunc(half) != half)
    v = mp.select((mp.bitcast(x, mp.i64) < 0) & odd, -v, v)
    v = mp.select(((x < 0.0) & (x > -mp.inf) & ~whole) | (x != x) | (y != y), mp.nan, v)
    return mp.select((y == 0.0) | (x == 1.0), 1.0, v)


@mp.func
def rsqrt_f32(x: mp.f32) -> Any:
    """1 / sqrt(x), both correctly rounded operations; -0 gives -inf (C23 F.10.4.9)."""
    return 1.0 / mp.sqrt(x)


@mp.func
def rsqrt_f64(x: mp.f64) -> Any:
    """1 / sqrt(x), both correctly rounded operations; -0 gives -inf (C23 F.10.4.9)."""
    return 1.0 / mp.sqrt(x)


@mp.func
def cbrt_f32(x: mp.f32) -> Any:
    """Cube root: x = v * 8**q with 1 <= v < 8.

    v**(-1/3) comes from a polynomial and one Newton step without a division; then one step on v**(1/3) itself with an
    exact residual.
    """
    a = mp.abs(x)
    tiny = a < 1.1754943508222875e-38
    u = mp.bitcast(mp.select(tiny, a * 16777216.0, a), mp.i32)
    k = (u >> 23) + 257  # the exponent plus 3 * 128
    q = (k * 43691) >> 17  # k // 3
    rest = k - 3 * q
    m = mp.bitcast((u & 0x7FFFFF) | 0x3F800000, mp.f32)
    v = mp.bitcast(mp.bitcast(m, mp.i32) + (rest << 23), mp.f32)
    y = horner(m, RCBRT_F32) * mp.select(rest == 0, 1.0, mp.select(rest == 1, CBRT_HALF, CBRT_QUARTER))
    y = mp.fma(y * mp.fma(-v * y, y * y, 1.0), 0.3333333432674408, y)
    yy = y * y
    t = v * yy
    tt = t * t
    residual = mp.fma(tt, t, -v) + mp.fma(t, t, -tt) * t
    t = mp.fma(residual * yy, -0.3333333432674408, t)
    root = t * mp.bitcast((q - 1) << 23, mp.f32) * mp.select(tiny, 0.00390625, 1.0)
    return mp.select((a > 0.0) & (a < mp.inf), mp.copysign(root, x), x)


@mp.func
def cbrt_f64(x: mp.f64) -> Any:
    """As `cbrt_f32`, with Householder's step of third order first: y * (1 + h/3 + 2 h**2 / 9), h = 1 - v y**3."""
    a = mp.abs(x)
    tiny = a < 2.2250738585072014e-308
    u = mp.bitcast(mp.select(tiny, a * 18014398509481984.0, a), mp.u64)  # 2**54
    k = mp.i32(u >> 52) + 513  # the exponent plus 3 * 512
    q = (k * 43691) >> 17
    rest = k - 3 * q
    m = mp.bitcast((u & mp.u64(0xFFFFFFFFFFFFF)) | mp.u64(0x3FF0000000000000), mp.f64)
    v = m * mp.select(rest == 0, 1.0, mp.select(rest == 1, 2.0, 4.0))
    y = horner(m, RCBRT_F64) * mp.select(rest == 0, 1.0, mp.select(rest == 1, CBRT_HALF, CBRT_QUARTER))
    h = mp.fma(-v * y, y * y, 1.0)
    y = mp.fma(y * h, mp.fma(h, 0.2222222222222222, 0.3333333333333333), y)
    yy = y * y
    t = v * yy
    tt = t * t
    residual = mp.fma(tt, t, -v) + mp.fma(t, t, -tt) * t
    t = mp.fma(residual * yy, -0.3333333333333333, t)
    root = t * mp.bitcast(mp.i64(q + 511) << 52, mp.f64) * mp.select(tiny, 3.814697265625e-06, 1.0)  # 2**-18
    return mp.select((a > 0.0) & (a < mp.inf), mp.copysign(root, x), x)


@mp.func
def hypot_f32(x: mp.f32, y: mp.f32) -> Any:
    """sqrt(x*x + y*y), both scaled by a power of two where a square would over- or underflow; inf wins over NaN."""
    ax = mp.abs(x)
    ay = mp.abs(y)
    swap = ax < ay
    large = mp.select(swap, ay, ax)
    small = mp.select(swap, ax, ay)
    up = large < 9.094947017729282e-13  # 2**-40: what a target may flush of the other square is of no account
    down = large > 1.152921504606847e18
    s = mp.select(down, 8.271806125530277e-25, mp.select(up, 1.2676506002282294e30, 1.0))
    back = mp.select(down, 1.2089258196146292e24, mp.select(up, 7.888609052210118e-31, 1.0))
    h = large * s
    l = small * s
    v = mp.sqrt(mp.fma(h, h, l * l)) * back
    return mp.select((ax == mp.inf) | (ay == mp.inf), mp.inf, v)


@mp.func
def hypot_f64(x: mp.f64, y: mp.f64) -> Any:
    """sqrt(x*x + y*y), both scaled by a power of two where a square would over- or underflow; inf wins over NaN."""
    ax = mp.abs(x)
    ay = mp.abs(y)
    swap = ax < ay
    large = mp.select(swap, ay, ax)
    small = mp.select(swap, ax, ay)
    up = large < 3.8725919148493183e-121  # 2**-400
    down = large > 3.273390607896142e150
    s = mp.select(down, 2.409919865102884e-181, mp.select(up, 5.260135901548374e210, 1.0))
    back = mp.select(down, 4.149515568880993e180, mp.select(up, 1.90109156629516e-211, 1.0))
    h = large * s
    l = small * s
    v = mp.sqrt(mp.fma(h, h, l * l)) * back
    return mp.select((ax == mp.inf) | (ay == mp.inf), mp.inf, v)
