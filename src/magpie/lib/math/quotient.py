"""Division and square root with one rounding, from ones that are a few units off (`magpie.passes.legalise.division`).

Vulkan allows 2.5 ulp for a quotient. Newton's steps with fma bring it to one of the two floats around the exact value
(Markstein, "IA-64 and Elementary Functions", chapter 8); the exact remainder says whether the neighbour on its other
side is nearer. Here ``/`` and ``mp.rsqrt`` are the target's own.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp

__all__ = ["div_by_f32", "div_by_f64", "div_f32", "div_f64", "sqrt_f32", "sqrt_f64"]


def _exact(f: Any, u: Any, steps: int) -> tuple[Any, Any, Any]:
    """The functions for floats ``f`` with bits ``u``; ``steps``: of Newton's method, from 21 right bits to all."""
    width = f.bits
    digits = {32: 23, 64: 52}[width]
    guard = width - 1 - digits
    most = (1 << guard) - 1
    bias = most >> 1
    one = 1 << digits
    infinity = most << digits
    sign = 1 << (width - 1)
    # Operands whose quotient, and what remains of it, are far from the ends of the range.
    low = (bias - bias // 2 + 1) << digits
    span = (bias - 4) << digits
    # Square roots are taken of numbers within 2**reach.
    reach = bias // 2
    scale = 2.0 ** (reach + reach % 2 + 2)
    root = 2.0 ** ((reach + reach % 2 + 2) // 2)

    @mp.func
    def near(a, b):  # type: ignore[no-untyped-def]
        """a / b of moderate numbers."""
        y = 1.0 / b
        for _ in mp.static_range(steps):
            y = mp.fma(mp.fma(-b, y, 1.0), y, y)
        q = a * y
        q = mp.fma(mp.fma(-b, q, a), y, q)
        r = mp.fma(-b, q, a)
        inward = (mp.bitcast(r, u) ^ mp.bitcast(a, u)) >> u(width - 1)  # 1: the quotient is too large
        other = mp.bitcast(mp.bitcast(q, u) + u(1) - (inward << u(1)), f)
        return mp.select(mp.abs(mp.fma(-b, other, a)) < mp.abs(r), other, q)

    @mp.func
    def split(b):  # type: ignore[no-untyped-def]
        """(exponent, number in [1, 2)) of bits without sign, subnormal numbers normalised."""
        e = mp.i32(b >> u(digits))
        m = b & u(one - 1)
        up = mp.i32(mp.clz(m)) - guard
        tiny = e == 0
        m = mp.select(tiny, m << u(up), m) & u(one - 1)
        return mp.select(tiny, 1 - up, e), mp.bitcast(m | u(bias << digits), f)

    @mp.func
    def far(a, b):  # type: ignore[no-untyped-def]
        """a / b of any numbers: by their significands, put together as bits."""
        ba = mp.bitcast(a, u) & u(sign - 1)
        bb = mp.bitcast(b, u) & u(sign - 1)
        minus = (mp.bitcast(a, u) ^ mp.bitcast(b, u)) & u(sign)
        ea, n = split(ba)
        eb, d = split(bb)
        q = near(n, d)
        rest = mp.fma(-d, q, n)
        bits = mp.bitcast(q, u)
        e = mp.i32(bits >> u(digits)) + ea - eb
        # With two more places, and the side on which the exact value is: rounded once to what a subnormal number has.
        m = (((bits & u(one - 1)) | u(one)) << u(2)) + mp.select(rest > 0.0, u(1), u(0))
        m = m - mp.select(rest < 0.0, u(1), u(0))
        down = u(mp.min(mp.max(1 - e, 0) + 2, digits + 4))
        whole = m >> down
        lost = m & ((u(1) << down) - u(1))
        middle = u(1) << (down - u(1))
        up = (lost > middle) | ((lost == middle) & ((whole & u(1)) != u(0)))
        under = whole + mp.select(up, u(1), u(0))
        r = mp.select(e <= 0, under, (bits & u(one - 1)) | (u(e) << u(digits)))
        r = mp.select((e >= most) | (ba == u(infinity)) | (bb == u(0)), u(infinity), r)
        r = mp.select((ba == u(0)) | (bb == u(infinity)), u(0), r)
        nan = (ba > u(infinity)) | (bb > u(infinity)) | ((ba == bb) & ((ba == u(0)) | (ba == u(infinity))))
        r = mp.select(nan, u(infinity | one >> 1), r | minus)
        return mp.bitcast(r, f)

    @mp.func
    def div(a, b):  # type: ignore[no-untyped-def]
        size_a = mp.bitcast(a, u) & u(sign - 1)
        size_b = mp.bitcast(b, u) & u(sign - 1)
        q = near(a, b)
        if (size_a - u(low) >= u(span)) | (size_b - u(low) >= u(span)):
            q = far(a, b)
        return q

    @mp.func
    def by(a, b, y):  # type: ignore[no-untyped-def]
        """a / b of a moderate b whose reciprocal, correctly rounded, is y: Markstein's theorem needs no neighbour."""
        q = a * y
        q = mp.fma(mp.fma(-b, q, a), y, q)
        q = mp.fma(mp.fma(-b, q, a), y, q)
        if (mp.bitcast(a, u) & u(sign - 1)) - u(low) >= u(span):
            q = far(a, b)
        return q

    @mp.func
    def sqrt(x):  # type: ignore[no-untyped-def]
        tiny = x < 2.0**-reach
        huge = x > 2.0**reach
        v = x * mp.select(tiny, scale, mp.select(huge, 1.0 / scale, 1.0))
        y = mp.rsqrt(v)
        s = v * y
        half = 0.5 * y
        for _ in mp.static_range(steps):
            s = mp.fma(mp.fma(-s, s, v), half, s)
        r = mp.fma(-s, s, v)
        above = r > 0.0
        other = mp.bitcast(mp.bitcast(s, u) + mp.select(above, u(1), u((1 << width) - 1)), f)
        # Beyond the middle of the two: v > ((s + other) / 2)**2, where all is a multiple of (other - s)**2.
        beyond = mp.fma(-s, other - s, r)
        s = mp.select(mp.select(above, beyond > 0.0, beyond <= 0.0), other, s)
        s = s * mp.select(tiny, 1.0 / root, mp.select(huge, root, 1.0))
        s = mp.select((v > 0.0) & (v < mp.inf), s, v)  # v is zero where x is, or is flushed
        # by the bits: a subnormal number below zero, too
        return mp.select(mp.bitcast(x, u) > u(sign), mp.nan, s)

    return div, by, sqrt


div_f32, div_by_f32, sqrt_f32 = _exact(mp.f32, mp.u32, 1)
div_f64, div_by_f64, sqrt_f64 = _exact(mp.f64, mp.u64, 2)
