"""Reduction of angles: x = n * pi/2 + (r + lo) with |r| <= pi/4, n modulo 4 and lo below half an ulp of r.

Moderate angles: Cody and Waite's method with pi/2 in three pieces; with fma the first step is exact, since x - n *
P1 is a multiple of the ulp of P1 and below 2 (Boldo, Daumas and Li, "Formally verified argument reduction with a
fused multiply-add", IEEE TC 2009). Huge ones: Payne and Hanek's method in integers ("Radian reduction for
trigonometric functions", SIGNUM 1983): of the product of the significand with the bits of 2/pi only a window
matters, what is above being whole turns.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.core import ROUND_F32, ROUND_F64
from magpie.lib.words import mul_high_u32, mul_high_u64

__all__ = ["reduce_f32", "reduce_f64"]

TWO_OVER_PI_F32 = 0.6366197466850281
P1_F32, P2_F32, P3_F32 = 1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15
TWO_OVER_PI_F64 = 0.6366197723675814
P1_F64, P2_F64, P3_F64 = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33

# pi/2 * 2**-32 and pi/2 * 2**-64: what makes radians of a fraction of a quarter turn with 32 or 64 bits before the
# point
TURN_HI_F32, TURN_LO_F32 = 3.65729529994141e-10, -1.017735066980541e-17
TURN_HI_F64, TURN_LO_F64 = 8.515303950216386e-20, 3.319411800407449e-36

# The bits of 2/pi after one word of zeros.
WORDS_F32 = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
WORDS_F64 = (
    0,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)


@mp.func
def pick_u32(k: mp.i32, bit: mp.i32, a: mp.u32, b: mp.u32) -> Any:
    """``b`` where ``bit`` of k is set, else ``a``."""
    return mp.select((k & bit) != 0, b, a)


@mp.func
def pick_u64(k: mp.i32, bit: mp.i32, a: mp.u64, b: mp.u64) -> Any:
    """As `pick_u32`."""
    return mp.select((k & bit) != 0, b, a)


@mp.func
def window_f32(k: mp.i32) -> Any:
    """Words k to k + 3 of 2/pi, k from 0 to 4: a barrel shifter of selects, since a table would be a gather."""
    a0 = pick_u32(k, 4, mp.u32(WORDS_F32[0]), mp.u32(WORDS_F32[4]))
    a1 = pick_u32(k, 4, mp.u32(WORDS_F32[1]), mp.u32(WORDS_F32[5]))
    a2 = pick_u32(k, 4, mp.u32(WORDS_F32[2]), mp.u32(WORDS_F32[6]))
    a3 = pick_u32(k, 4, mp.u32(WORDS_F32[3]), mp.u32(WORDS_F32[7]))
    b0 = pick_u32(k, 2, a0, a2)
    b1 = pick_u32(k, 2, a1, a3)
    b2 = pick_u32(k, 2, a2, mp.u32(WORDS_F32[4]))
    b3 = pick_u32(k, 2, a3, mp.u32(WORDS_F32[5]))
    b4 = mp.u32(WORDS_F32[6])
    b5 = pick_u32(k, 2, mp.u32(WORDS_F32[4]), b4)
    return pick_u32(k, 1, b0, b1), pick_u32(k, 1, b1, b2), pick_u32(k, 1, b2, b3), pick_u32(k, 1, b3, b5)


@mp.func
def funnel_u32(a: mp.u32, b: mp.u32, s: mp.i32) -> Any:
    """The upper half of (a, b) shifted left by s, 0 <= s < 32."""
    return (a << mp.u32(s)) | ((b >> mp.u32(1)) >> mp.u32(31 - s))


@mp.func
def payne_hanek_f32(x: mp.f32) -> Any:
    """(r, lo, n) for 2**16 <= |x|; r is NaN for an infinity.

    The product of the 24-bit significand and 96 bits of 2/pi, modulo 2**96, holds n in its two top bits. The next 62
    bits are the fraction, made signed; they go to floats in exact pieces.
    """
    bits = mp.bitcast(x, mp.i32)
    exponent = (bits >> 23) & 255
    m = mp.u32((bits & 0x7FFFFF) | 0x800000)
    start = exponent - 120
    w0, w1, w2, w3 = window_f32(start >> 5)
    s = start & 31
    v1 = funnel_u32(w1, w2, s)
    low = mul_high_u32(m, funnel_u32(w2, w3, s))
    middle = m * v1 + low
    top = m * funnel_u32(w0, w1, s) + mul_high_u32(m, v1) + mp.select(middle < low, mp.u32(1), mp.u32(0))
    n = mp.i32((top + mp.u32(0x20000000)) >> mp.u32(30))
    high = (top << mp.u32(2)) | (middle >> mp.u32(30))
    tail = middle << mp.u32(2)
    minus = mp.i32(high) < 0
    high = mp.select(minus, ~high + mp.select(tail == 0, mp.u32(1), mp.u32(0)), high)
    tail = mp.select(minus, mp.u32(0) - tail, tail)
    h = mp.f32(mp.i32(high >> mp.u32(8))) * 256.0
    rest = mp.fma(mp.f32(mp.i32(tail >> mp.u32(8))), 5.960464477539063e-08, mp.f32(mp.i32(high & mp.u32(255))))
    f = h + rest
    rest = (h - f) + rest
    r = f * TURN_HI_F32
    lo = mp.fma(rest, TURN_HI_F32, mp.fma(f, TURN_LO_F32, mp.fma(f, TURN_HI_F32, -r)))
    r = mp.select(exponent == 255, mp.nan, r)
    flip = minus != (bits < 0)
    return mp.select(flip, -r, r), mp.select(flip, -lo, lo), mp.select(bits < 0, -n, n)


@mp.func
def reduce_f32(x: mp.f32) -> Any:
    """(r, lo, n) as the module says; only the two low bits of n count. A zero keeps its sign in r."""
    t = mp.fma(x, TWO_OVER_PI_F32, ROUND_F32)
    turns = t - ROUND_F32
    r1 = mp.fma(turns, -P1_F32, x)
    p2 = turns * P2_F32
    r = r1 - p2
    back = r - r1  # the error of the difference by Knuth's two-sum: r1 may be the smaller one
    lo = ((r1 - (r - back)) - (p2 + back)) - mp.fma(turns, P3_F32, mp.fma(turns, P2_F32, -p2))
    n = mp.bitcast(t, mp.i32)
    if mp.abs(x) > 65536.0:
        r, lo, n = payne_hanek_f32(x)
    return r, lo, n


@mp.func
def window_f64(k: mp.i32) -> Any:
    """Words k to k + 3 of 2/pi, k from 0 to 16."""
    a0 = pick_u64(k, 16, mp.u64(WORDS_F64[0]), mp.u64(WORDS_F64[16]))
    a1 = pick_u64(k, 16, mp.u64(WORDS_F64[1]), mp.u64(WORDS_F64[17]))
    a2 = pick_u64(k, 16, mp.u64(WORDS_F64[2]), mp.u64(WORDS_F64[18]))
    a3 = pick_u64(k, 16, mp.u64(WORDS_F64[3]), mp.u64(WORDS_F64[19]))
    b0 = pick_u64(k, 8, a0, mp.u64(WORDS_F64[8]))
    b1 = pick_u64(k, 8, a1, mp.u64(WORDS_F64[9]))
    b2 = pick_u64(k, 8, a2, mp.u64(WORDS_F64[10]))
    b3 = pick_u64(k, 8, a3, mp.u64(WORDS_F64[11]))
    b4 = pick_u64(k, 8, mp.u64(WORDS_F64[4]), mp.u64(WORDS_F64[12]))
    b5 = pick_u64(k, 8, mp.u64(WORDS_F64[5]), mp.u64(WORDS_F64[13]))
    b6 = pick_u64(k, 8, mp.u64(WORDS_F64[6]), mp.u64(WORDS_F64[14]))
    b7 = pick_u64(k, 8, mp.u64(WORDS_F64[7]), mp.u64(WORDS_F64[15]))
    b8 = pick_u64(k, 8, mp.u64(WORDS_F64[8]), mp.u64(WORDS_F64[16]))
    b9 = pick_u64(k, 8, mp.u64(WORDS_F64[9]), mp.u64(WORDS_F64[17]))
    b10 = pick_u64(k, 8, mp.u64(WORDS_F64[10]), mp.u64(WORDS_F64[18]))
    c0 = pick_u64(k, 4, b0, b4)
    c1 = pick_u64(k, 4, b1, b5)
    c2 = pick_u64(k, 4, b2, b6)
    c3 = pick_u64(k, 4, b3, b7)
    c4 = pick_u64(k, 4, b4, b8)
    c5 = pick_u64(k, 4, b5, b9)
    c6 = pick_u64(k, 4, b6, b10)
    d0 = pick_u64(k, 2, c0, c2)
    d1 = pick_u64(k, 2, c1, c3)
    d2 = pick_u64(k, 2, c2, c4)
    d3 = pick_u64(k, 2, c3, c5)
    d4 = pick_u64(k, 2, c4, c6)
    return pick_u64(k, 1, d0, d1), pick_u64(k, 1, d1, d2), pick_u64(k, 1, d2, d3), pick_u64(k, 1, d3, d4)


@mp.func
def funnel_u64(a: mp.u64, b: mp.u64, s: mp.i32) -> Any:
    """The upper half of (a, b) shifted left by s, 0 <= s < 64."""
    return (a << mp.u64(s)) | ((b >> mp.u64(1)) >> mp.u64(63 - s))


@mp.func
def whole_f64(u: mp.u64) -> Any:
    """u < 2**52 as a float by way of the bits of 2**52 + u: no 64-bit conversion."""
    return mp.bitcast(u | mp.u64(0x4330000000000000), mp.f64) - 4503599627370496.0


@mp.func
def payne_hanek_f64(x: mp.f64) -> Any:
    """As `payne_hanek_f32`, for 2**30 <= |x|: a window of 192 bits, of whose product the top 128 are kept."""
    bits = mp.bitcast(x, mp.u64)
    negative = mp.i64(bits) < 0
    exponent = mp.i32(bits >> mp.u64(52)) & 2047
    m = (bits & mp.u64(0xFFFFFFFFFFFFF)) | mp.u64(0x10000000000000)
    start = exponent - 1013
    w0, w1, w2, w3 = window_f64(start >> 6)
    s = start & 63
    v1 = funnel_u64(w1, w2, s)
    low = mul_high_u64(m, funnel_u64(w2, w3, s))
    middle = m * v1 + low
    top = m * funnel_u64(w0, w1, s) + mul_high_u64(m, v1) + mp.select(middle < low, mp.u64(1), mp.u64(0))
    n = mp.i32((top + mp.u64(0x2000000000000000)) >> mp.u64(62))
    high = (top << mp.u64(2)) | (middle >> mp.u64(62))
    tail = middle << mp.u64(2)
    minus = mp.i64(high) < 0
    high = mp.select(minus, ~high + mp.select(tail == 0, mp.u64(1), mp.u64(0)), high)
    tail = mp.select(minus, mp.u64(0) - tail, tail)
    h = whole_f64(high >> mp.u64(12)) * 4096.0
    rest = mp.fma(whole_f64(tail >> mp.u64(12)), 2.220446049250313e-16, whole_f64(high & mp.u64(4095)))
    f = h + rest
    rest = (h - f) + rest
    r = f * TURN_HI_F64
    lo = mp.fma(rest, TURN_HI_F64, mp.fma(f, TURN_LO_F64, mp.fma(f, TURN_HI_F64, -r)))
    r = mp.select(exponent == 2047, mp.nan, r)
    flip = minus != negative
    return mp.select(flip, -r, r), mp.select(flip, -lo, lo), mp.select(negative, -n, n)


@mp.func
def reduce_f64(x: mp.f64) -> Any:
    """As `reduce_f32`."""
    t = mp.fma(x, TWO_OVER_PI_F64, ROUND_F64)
    turns = t - ROUND_F64
    r1 = mp.fma(turns, -P1_F64, x)
    p2 = turns * P2_F64
    r = r1 - p2
    back = r - r1  # the error of the difference by Knuth's two-sum: r1 may be the smaller one
    lo = ((r1 - (r - back)) - (p2 + back)) - mp.fma(turns, P3_F64, mp.fma(turns, P2_F64, -p2))
    n = mp.i32(mp.bitcast(t, mp.i64))
    if mp.abs(x) > 1073741824.0:
        r, lo, n = payne_hanek_f64(x)
    return r, lo, n
