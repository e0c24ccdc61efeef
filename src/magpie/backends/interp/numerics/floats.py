"""Floating point beyond what NumPy gives: fma, the four minima and maxima, Python's // and %, the IEEE remainder."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, select, settle

__all__ = [
    "add_round_to_odd",
    "floordiv",
    "fma32",
    "fma64",
    "maximum",
    "maximum_number",
    "minimum",
    "minimum_number",
    "mod",
    "remainder",
]


def _two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Knuth's TwoSum: a + b = s + e exactly, barring overflow."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def add_round_to_odd(a: Lanes, b: Lanes) -> Lanes:
    """a + b on float64, rounded to odd: an inexact sum gets an odd last bit, and rounding again then rounds once."""
    s, e = _two_sum(a, b)
    bits = s.view(np.int64)
    fix = np.isfinite(s) & (e != 0) & ((bits & np.int64(1)) == 0)
    toward = select((e > 0) == (s > 0), np.int64(1), np.int64(-1))
    return (bits + toward * fix).view(np.float64)


_LOST = np.int64(0x1FFFFFFF)  # the bits that float64 has and float32 has not
_TIE = np.int64(0x10000000)
_NORMAL = np.float64(2.0**-126)


def fma32(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c on float32 with one rounding.

    The product is exact in float64. Rounding the sum twice goes wrong only where the first rounding makes a tie of the
    second, or the result is subnormal: there the sum is rounded to odd.
    """
    p, w = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + w
    doubtful = ((s.view(np.int64) & _LOST) == _TIE) | ((np.abs(s) < _NORMAL) & (s != 0))
    if doubtful.any():
        s = add_round_to_odd(p, w)
    return s.astype(np.float32)


_SPLIT = np.float64(134217729.0)  # 2^27 + 1


def _two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Dekker's product: a * b = p + e exactly, barring overflow and underflow."""
    p = a * b
    t = _SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _fma_exact(a: float, b: float, c: float) -> float:
    """a * b + c of finite numbers with one rounding, in rational arithmetic."""
    if a == 0 or b == 0:
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return exact.numerator / exact.denominator or (-0.0 if exact < 0 else 0.0)
    except OverflowError:
        return inf if exact > 0 else -inf


def fma64(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c on float64 with one rounding: Boldo and Melquiond's algorithm, rationals near the range's ends."""
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = a * b + c
    zero = (a == 0) | (b == 0)
    finite = np.isfinite(a) & np.isfinite(b)
    # c infinite, or finite arguments whose product overflows: the sum of the parts would be NaN.
    result = np.where(finite & ~np.isfinite(c), c, plain)
    todo = finite & np.isfinite(c) & ~zero
    if not todo.any():
        return settle(result)
    ea, eb, ec = np.frexp(a)[1], np.frexp(b)[1], np.frexp(c)[1]
    easy = (np.abs(ea) < 900) & (np.abs(eb) < 900) & (ea + eb > -960) & (ea + eb < 1020) & (ec < 1020)
    uh, ul = _two_product(a, b)
    th, tl = _two_sum(c, ul)
    vh, vl = _two_sum(uh, th)
    result = np.where(todo & easy, vh + add_round_to_odd(tl, vl), result)
    hard = todo & ~easy
    if hard.any():
        result = np.asarray(result)
        exact = [_fma_exact(*args) for args in zip(a[hard].tolist(), b[hard].tolist(), c[hard].tolist(), strict=True)]
        result[hard] = exact
    return settle(result)


def minimum_number(a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 minimumNumber: a NaN loses, -0 < +0."""
    return select(a == b, select(np.signbit(a), a, b), np.fmin(a, b))


def maximum_number(a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 maximumNumber: a NaN loses, -0 < +0."""
    return select(a == b, select(np.signbit(a), b, a), np.fmax(a, b))


def minimum(a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 minimum: NaN wins, -0 < +0."""
    return select(a == b, select(np.signbit(a), a, b), np.minimum(a, b))


def maximum(a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 maximum: NaN wins, -0 < +0."""
    return select(a == b, select(np.signbit(a), b, a), np.maximum(a, b))


def mod(a: Lanes, b: Lanes) -> Lanes:
    """Python's float %: CPython's float_rem, step by step in the type of the lanes."""
    m = np.fmod(a, b)
    m = select((m != 0) & ((b < 0) != (m < 0)), m + b, m)
    return select(m == 0, np.copysign(m, b), m)


def floordiv(a: Lanes, b: Lanes) -> Lanes:
    """Python's float //: CPython's float_floor_div, step by step in the type of the lanes; IEEE a / b for b = 0."""
    one = a.dtype.type(1)
    m = np.fmod(a, b)
    quotient = (a - m) / b
    quotient = select((m != 0) & ((b < 0) != (m < 0)), quotient - one, quotient)
    low = np.floor(quotient)
    low = select(quotient - low > a.dtype.type(0.5), low + one, low)
    exact = a / b
    low = select(quotient == 0, np.copysign(a.dtype.type(0), exact), low)
    return select(b == 0, exact, low)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """IEEE remainder, exact: fmod by 2y, then at most two subtractions (fdlibm's e_remainder)."""
    info = np.finfo(x.dtype)
    size = np.abs(y)
    big = size > x.dtype.type(info.max) / x.dtype.type(2)
    r = np.abs(select(big, x, np.fmod(x, y + y)))
    small = size < x.dtype.type(info.tiny) * x.dtype.type(2)
    half = size * x.dtype.type(0.5)
    first = select(small, r + r > size, r > half)
    r = select(first, r - size, r)
    second = first & select(small, r + r >= size, r >= half)
    r = select(second, r - size, r)
    r = select(np.signbit(x), -r, r)
    nan = x.dtype.type(np.nan)
    bad = ~np.isfinite(x) | (y != y) | (y == 0)
    return select(bad, nan, r)
