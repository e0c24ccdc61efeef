"""A fused multiply-add out of integers, for targets whose own rounds twice (`magpie.passes.legalise.fused`).

The product is exact in two words, the addend is aligned to it (or it to the addend) with what is shifted out kept as
one sticky bit, and the sum is rounded once: the method of Berkeley SoftFloat's mulAdd, for subnormal numbers too,
whatever the target does with them.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.words import mul_high_u32, mul_high_u64

__all__ = ["fma_f32", "fma_f64", "fma_normal_f32", "fma_odd_f32"]


def _fused(f: Any, u: Any, mul_high: Any, odd: bool) -> Any:
    """The function for floats ``f`` with bits ``u``; ``odd``: an inexact result gets an odd last bit instead."""
    width = f.bits
    digits = {32: 23, 64: 52}[width]
    guard = width - 1 - digits  # bits of the exponent, and free ones above a significand
    most = (1 << guard) - 1
    bias = most >> 1
    one = 1 << digits
    infinity = most << digits

    @mp.func
    def split(b):  # type: ignore[no-untyped-def]
        """(exponent, significand) of finite bits, subnormal numbers normalised."""
        e = mp.i32((b >> u(digits)) & u(most))
        m = b & u(one - 1)
        up = mp.i32(mp.clz(m)) - guard
        tiny = e == 0
        return mp.select(tiny, 1 - up, e), mp.select(tiny, m << u(up), m | u(one))

    @mp.func
    def fused(x, y, z):  # type: ignore[no-untyped-def]
        bx = mp.bitcast(x, u)
        by = mp.bitcast(y, u)
        bz = mp.bitcast(z, u)
        ex, mx = split(bx)
        ey, my = split(by)
        ez, mz = split(bz)
        minus = (bx ^ by) >> u(width - 1)
        zero_z = (bz << u(1)) == u(0)
        ez = mp.select(zero_z, -4 * most, ez)
        mz = mp.select(zero_z, u(0), mz)

        # The product and the addend in two words, their units at bit 2 * width - 3.
        a = mx << u(guard)
        b = my << u(guard - 1)
        ph = mul_high(a, b)
        pl = a * b
        zh = mz << u(guard - 2)
        e = ex + ey - bias
        d = e - ez
        e = mp.max(e, ez)
        later = d >= 0  # the addend is the one to shift
        sh = mp.select(later, zh, ph)
        sl = mp.select(later, u(0), pl)
        s = mp.abs(d)
        far = s >= width
        gone = s >= 2 * width
        lost = mp.select(gone, sh | sl, mp.select(far, sl, u(0)))
        sl = mp.select(gone, u(0), mp.select(far, sh, sl))
        sh = mp.select(far, u(0), sh)
        n = u(s & (width - 1))
        back = u(width - 1) - n
        lost = lost | ((sl << u(1)) << back)
        sl = (sl >> n) | ((sh << u(1)) << back) | mp.select(lost != u(0), u(1), u(0))
        sh = sh >> n
        ph = mp.select(later, ph, sh)
        pl = mp.select(later, pl, sl)
        zh = mp.select(later, sh, zh)
        zl = mp.select(later, sl, u(0))

        # Their sum, or difference, as sign and magnitude.
        differ = minus != (bz >> u(width - 1))
        sum_l = pl + zl
        sum_h = ph + zh + mp.select(sum_l < pl, u(1), u(0))
        dif_l = pl - zl
        dif_h = ph - zh - mp.select(pl < zl, u(1), u(0))
        below = differ & ((ph < zh) | ((ph == zh) & (pl < zl)))
        neg_l = u(0) - dif_l
        neg_h = u(0) - dif_h - mp.select(dif_l != u(0), u(1), u(0))
        h = mp.select(differ, mp.select(below, neg_h, dif_h), sum_h)
        l = mp.select(differ, mp.select(below, neg_l, dif_l), sum_l)
        minus = mp.select(below, u(1) - minus, minus)
        nothing = (h | l) == u(0)

        # One word with a one on top and a sticky bit below; for a subnormal result shifted down.
        h_empty = h == u(0)
        n = mp.clz(mp.select(h_empty, l, h))
        up = mp.select(h_empty, u(0), l)
        h = mp.select(h_empty, l, h)
        e = e + 2 - mp.i32(n) - mp.select(h_empty, width, 0)
        h = (h << n) | ((up >> u(1)) >> (u(width - 1) - n))
        h = h | mp.select((up << n) != u(0), u(1), u(0))
        under = mp.min(mp.max(1 - e, 0), width - 1)
        n = u(under)
        h = (h >> n) | mp.select(((h << u(1)) << (u(width - 1) - n)) != u(0), u(1), u(0))
        e = mp.max(e, 1)
        whole = h >> u(guard)
        rest = h & u(most)
        middle = u(1 << (guard - 1))
        if odd:
            whole = whole | mp.select(rest != u(0), u(1), u(0))
        else:
            up_one = (rest > middle) | ((rest == middle) & ((whole & u(1)) != u(0)))
            whole = whole + mp.select(up_one, u(1), u(0))
        r = whole + (u(e - 1) << u(digits))
        r = mp.select(e >= most, u(infinity - 1 if odd else infinity), r)
        r = mp.select(nothing, u(0), r | (minus << u(width - 1)))

        wild = ((bx >> u(digits)) & u(most)) == u(most)
        wild = wild | (((by >> u(digits)) & u(most)) == u(most))
        endless = ((bz >> u(digits)) & u(most)) == u(most)
        zero = ((bx << u(1)) == u(0)) | ((by << u(1)) == u(0))
        plain = mp.select(endless & ~wild, z, x * y + z)
        return mp.select(wild | endless | zero, plain, mp.bitcast(r, f))

    return fused


@mp.func
def two_sum(a: mp.f32, b: mp.f32) -> Any:
    """(sum, its error), Knuth's."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@mp.func
def upper_half(a: mp.f32) -> Any:
    """The first 12 bits of a significand."""
    return mp.bitcast(mp.bitcast(a, mp.u32) & mp.u32(0xFFFFF000), mp.f32)


@mp.func
def fma_normal_f32(x: mp.f32, y: mp.f32, z: mp.f32) -> Any:
    """The same where subnormal numbers are zeros, in half the instructions: after Boldo and Melquiond ("Emulation of a
    FMA and correctly rounded sums", IEEE TC 2008), with factors in [1, 2) and the addend scaled along, so that no step
    leaves the range. An addend that is far off is brought to 2**60 times the product, or of it."""
    bx = mp.bitcast(x, mp.u32)
    by = mp.bitcast(y, mp.u32)
    bz = mp.bitcast(z, mp.u32)
    ex = mp.i32((bx >> mp.u32(23)) & mp.u32(255))
    ey = mp.i32((by >> mp.u32(23)) & mp.u32(255))
    ez = mp.i32((bz >> mp.u32(23)) & mp.u32(255))
    ep = ex + ey - 127
    far = mp.max(mp.min(ez - ep, 60), -60)
    digits = mp.u32(0x807FFFFF)
    one = mp.u32(0x3F800000)
    a = mp.bitcast((bx & digits) | one, mp.f32)
    b = mp.bitcast((by & digits) | one, mp.f32)
    c = mp.bitcast((bz & digits) | mp.u32((far + 127) << 23), mp.f32)
    c = mp.select(ez == 0, 0.0, c)
    # Dekker's product
    a1 = upper_half(a)
    b1 = upper_half(b)
    a0 = a - a1
    b0 = b - b1
    p = a * b
    e = (((a1 * b1 - p) + a1 * b0) + a0 * b1) + a0 * b0
    th, tl = two_sum(c, e)
    vh, vl = two_sum(p, th)
    # what is left, rounded to odd: the last addition then rounds as if it had all of it
    s, e = two_sum(tl, vl)
    bits = mp.bitcast(s, mp.i32)
    away = (e != 0.0) & ((bits ^ mp.bitcast(e, mp.i32)) < 0)
    bits = (bits - mp.select(away, 1, 0)) | mp.select(e != 0.0, 1, 0)
    r = mp.bitcast(vh + mp.bitcast(bits, mp.f32), mp.u32)
    er = mp.i32((r >> mp.u32(23)) & mp.u32(255))
    er = mp.select(er == 0, 0, er + (mp.max(ep, ez - 60) - 127))
    whole = (r & digits) | mp.u32(er << 23)
    sign = r & mp.u32(0x80000000)
    whole = mp.select(er >= 255, sign | mp.u32(0x7F800000), mp.select(er <= 0, sign, whole))
    wild = (ex == 255) | (ey == 255)
    plain = mp.select((ez == 255) & ~wild, z, x * y + z)
    return mp.select(wild | (ez == 255) | (ex == 0) | (ey == 0), plain, mp.bitcast(whole, mp.f32))


fma_f32 = _fused(mp.f32, mp.u32, mul_high_u32, False)
fma_f64 = _fused(mp.f64, mp.u64, mul_high_u64, False)
fma_odd_f32 = _fused(mp.f32, mp.u32, mul_high_u32, True)
