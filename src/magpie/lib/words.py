"""Products of twice the bits; and integers of 64 bits as two u32, the low word first, for targets that have none
(`magpie.passes.legalise`)."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp

__all__ = ["divide_u64", "mul_high_u32", "mul_high_u64", "mul_u64", "power_u64"]


@mp.func
def mul_high_u32(a: mp.u32, b: mp.u32) -> Any:
    """The upper 32 bits of a * b, from four products of halves: not every target has 64-bit integers."""
    a1 = a >> mp.u32(16)
    a0 = a & mp.u32(0xFFFF)
    b1 = b >> mp.u32(16)
    b0 = b & mp.u32(0xFFFF)
    cross = a1 * b0 + ((a0 * b0) >> mp.u32(16))
    other = a0 * b1 + (cross & mp.u32(0xFFFF))
    return a1 * b1 + (cross >> mp.u32(16)) + (other >> mp.u32(16))


@mp.func
def mul_high_u64(a: mp.u64, b: mp.u64) -> Any:
    """The upper 64 bits of a * b, from four products of halves."""
    mask = mp.u64(0xFFFFFFFF)
    a1 = a >> mp.u64(32)
    a0 = a & mask
    b1 = b >> mp.u64(32)
    b0 = b & mask
    low = a0 * b0
    cross = a1 * b0 + (low >> mp.u64(32))
    other = a0 * b1 + (cross & mask)
    return a1 * b1 + (cross >> mp.u64(32)) + (other >> mp.u64(32))


@mp.func
def mul_u64(a0: mp.u32, a1: mp.u32, b0: mp.u32, b1: mp.u32) -> Any:
    """a * b modulo 2**64."""
    return a0 * b0, mul_high_u32(a0, b0) + a0 * b1 + a1 * b0


@mp.func
def clz_u64(a0: mp.u32, a1: mp.u32) -> Any:
    """Leading zeros, as i32."""
    return mp.i32(mp.select(a1 == 0, mp.clz(a0) + mp.u32(32), mp.clz(a1)))


@mp.func
def divide_u64(a0: mp.u32, a1: mp.u32, b0: mp.u32, b1: mp.u32) -> Any:
    """(quotient, rest), each in two words; for a divisor of 0 the quotient is 0. By shifts and subtractions, but for
    numbers that fit in a word."""
    q0 = mp.u32(0)
    q1 = mp.u32(0)
    r0 = a0
    r1 = a1
    if (a1 | b1) == 0:
        q0 = a0 // b0
        r0 = a0 - q0 * b0
    else:
        shift = clz_u64(b0, b1) - clz_u64(a0, a1)
        if (b0 | b1) == 0:
            shift = -1
        s = mp.u32(mp.max(shift, 0))
        d1 = mp.select(s > 31, b0 << (s & 31), (b1 << s) | ((b0 >> mp.u32(1)) >> (mp.u32(31) - (s & 31))))
        d0 = mp.select(s > 31, mp.u32(0), b0 << (s & 31))
        while shift >= 0:
            fits = (r1 > d1) | ((r1 == d1) & (r0 >= d0))
            q1 = (q1 << mp.u32(1)) | (q0 >> mp.u32(31))
            q0 = (q0 << mp.u32(1)) | mp.select(fits, mp.u32(1), mp.u32(0))
            borrow = mp.select(r0 < d0, mp.u32(1), mp.u32(0))
            r1 = mp.select(fits, r1 - d1 - borrow, r1)
            r0 = mp.select(fits, r0 - d0, r0)
            d0 = (d0 >> mp.u32(1)) | (d1 << mp.u32(31))
            d1 = d1 >> mp.u32(1)
            shift = shift - 1
    return q0, q1, r0, r1


@mp.func
def power_u64(x0: mp.u32, x1: mp.u32, n0: mp.u32, n1: mp.u32) -> Any:
    """x**n modulo 2**64, by squaring."""
    p0 = mp.u32(1)
    p1 = mp.u32(0)
    b0 = x0
    b1 = x1
    e0 = n0
    e1 = n1
    while (e0 | e1) != 0:
        m0, m1 = mul_u64(p0, p1, b0, b1)
        odd = (e0 & mp.u32(1)) != 0
        p0 = mp.select(odd, m0, p0)
        p1 = mp.select(odd, m1, p1)
        b0, b1 = mul_u64(b0, b1, b0, b1)
        e0 = (e0 >> mp.u32(1)) | (e1 << mp.u32(31))
        e1 = e1 >> mp.u32(1)
    return p0, p1
