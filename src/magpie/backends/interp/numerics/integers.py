"""Integer and bit operations, total: every input has a defined result (the op table's `doc` column)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, register_dtype, select
from magpie.dtypes import DType

__all__ = ["clz", "ctz", "ipow", "popcount", "shl", "shr", "tdiv", "trip_count"]

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _bits(x: Lanes) -> Lanes:
    """The lanes as unsigned integers of the same width."""
    return x.view(_UNSIGNED[x.dtype.itemsize * 8])


def shl(type_: DType) -> Callable[[Lanes, Lanes], Lanes]:
    """x << (n mod width). NumPy alone gives 0 for counts from the width on."""
    mask = register_dtype(type_).type(type_.bits - 1)
    return lambda x, n: np.left_shift(x, n & mask)


def shr(type_: DType) -> Callable[[Lanes, Lanes], Lanes]:
    """x >> (n mod width): arithmetic for signed types."""
    mask = register_dtype(type_).type(type_.bits - 1)
    return lambda x, n: np.right_shift(x, n & mask)


def tdiv(a: Lanes, b: Lanes) -> Lanes:
    """C's division, toward zero: a less its C remainder divides exactly. x / 0 = 0 and MIN / -1 = MIN as NumPy's //."""
    return np.floor_divide(a - np.fmod(a, b), b)


if hasattr(np, "bitwise_count"):  # NumPy 2

    def _count(u: Lanes) -> Lanes:
        return np.bitwise_count(u)

else:  # pragma: no cover - NumPy 1.26
    _TABLE = np.array([bin(i).count("1") for i in range(256)], np.uint8)

    def _count(u: Lanes) -> Lanes:
        wide = np.atleast_1d(u)
        total: Any = _TABLE[wide.view(np.uint8).reshape(len(wide), -1)].sum(-1, dtype=np.uint8)
        return total if u.ndim else total[0]


def popcount(x: Lanes) -> Lanes:
    """Set bits of the two's complement pattern (NumPy counts those of the magnitude)."""
    return _count(_bits(x)).astype(x.dtype)


def ctz(x: Lanes) -> Lanes:
    """Trailing zeros: the bits below the lowest set one; for 0 that is all of them."""
    u = _bits(x)
    return _count(~u & (u - u.dtype.type(1))).astype(x.dtype)


def _smear(u: Lanes) -> Lanes:
    """Every bit below the highest set one set too."""
    width, n = u.dtype.itemsize * 8, 1
    while n < width:
        u = u | (u >> u.dtype.type(n))
        n *= 2
    return u


def clz(x: Lanes) -> Lanes:
    """Leading zeros; the width for 0."""
    return _count(~_smear(_bits(x))).astype(x.dtype)


def ipow(a: Lanes, b: Lanes) -> Lanes:
    """Wrapping power by squaring. Negative exponents: 1 and -1 keep a sign, all other bases (also 0) give 0."""
    one = a.dtype.type(1)
    zero = a.dtype.type(0)
    signed = a.dtype.kind == "i"
    exponent = _bits(select(b < 0, zero, b) if signed else b)
    result = np.broadcast_to(one, np.broadcast_shapes(a.shape, b.shape))
    power, u1 = a, exponent.dtype.type(1)
    while np.any(exponent):
        result = np.where(exponent & u1, result * power, result)
        power = power * power
        exponent = exponent >> u1
    if signed:
        odd = (b & one) != 0
        negative = select(a == one, one, select(a == -one, select(odd, a, one), zero))
        result = np.where(b < 0, negative, result)
    result = np.asarray(result, a.dtype)
    return result if result.ndim else result[()]


_U1 = np.uint64(1)
_MOST = np.uint64((1 << 63) - 1)


def trip_count(start: Lanes, stop: Lanes, step: Lanes) -> Lanes:
    """Trips of range(start, stop, step) on int64, unsigned inside so that no difference overflows."""
    up = step > 0
    span = select(up, stop - start, start - stop).view(np.uint64)
    size = np.abs(step).view(np.uint64)  # |MIN| is 2^63 read unsigned
    some = select(up, start < stop, start > stop) & (step != 0)
    trips = np.floor_divide(span - _U1, size) + _U1
    return select(some, np.minimum(trips, _MOST), np.uint64(0)).view(np.int64)
