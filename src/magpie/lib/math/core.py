"""What the functions share: polynomials, powers of two, the exponential and logarithm cores.

Two idioms come back everywhere.

* Adding ``1.5 * 2**52`` (f32: ``1.5 * 2**23``) to x leaves the integer nearest to x in the low bits of the sum:
  rounding and conversion in one operation, and vector units without 64-bit conversions need no others (Muller et al.,
  "Handbook of Floating-Point Arithmetic", 2nd ed., 4.4).
* ``fma(a, b, -(a * b))`` is the exact error of a product, and ``(a - (a + b)) + b`` that of a sum with |a| >= |b|
  (Dekker 1971): pairs ``hi, lo`` made that way carry about twice the precision.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import magpie as mp
from magpie.lib.math.coefficients import EXP_F32, EXP_F64

__all__ = [
    "LN2_HI_F32",
    "LN2_HI_F64",
    "LN2_LO_F32",
    "LN2_LO_F64",
    "LOG2E_F32",
    "LOG2E_F64",
    "ROUND_F32",
    "ROUND_F64",
    "exp_parts_f32",
    "exp_parts_f64",
    "horner",
    "log_split_f32",
    "log_split_f64",
    "scale_f32",
    "scale_f64",
]

ROUND_F32 = 12582912.0  # 1.5 * 2**23
ROUND_F64 = 6755399441055744.0  # 1.5 * 2**52

LOG2E_F32 = 1.4426950216293335
LN2_HI_F32 = 0.6931471824645996
LN2_LO_F32 = -1.9046542121259336e-09
LOG2E_F64 = 1.4426950408889634
LN2_HI_F64 = 0.6931471805599453
LN2_LO_F64 = 2.3190468138462996e-17


@mp.func
def horner(x, c: mp.constexpr) -> Any:  # type: ignore[no-untyped-def]  # x has the type of the caller's polynomial
    """The polynomial with coefficients ``c``, lowest power first, by Horner's rule."""
    n = len(c)
    p = mp.fma(c[n - 1], x, c[n - 2])
    for k in mp.static_range(3, n + 1):
        p = mp.fma(p, x, c[n - k])
    return p


@mp.func
def scale_f32(p: mp.f32, k: mp.i32, down: mp.bool_) -> Any:
    """``p * 2**k`` with one rounding, for p in [1/2, 4]; ``down`` says that k is negative.

    k from -180 to 128. The first factor keeps the product normal, so that only the second one can round.
    """
    s = mp.bitcast((k << 23) + mp.select(down, 0x5F800000, 0x3E800000), mp.f32)  # 2**(k + 64) or 2**(k - 2)
    return p * s * mp.select(down, 5.421010862427522e-20, 4.0)  # 2**-64


@mp.func
def scale_f64(p: mp.f64, k: mp.i64, down: mp.bool_) -> Any:
    """As `scale_f32`, for k from -1500 to 1024."""
    s = mp.bitcast((k << 52) + mp.select(down, mp.i64(0x5FF0000000000000), mp.i64(0x3FD0000000000000)), mp.f64)
    return p * s * mp.select(down, 7.458340731200207e-155, 4.0)  # 2**-512


@mp.func
def exp_parts_f32(x: mp.f32) -> Any:
    """(p, k) with exp(x) = p * 2**k: k has the integer in its low 22 bits, p is in [0.7, 1.42].

    Cody and Waite, "Software Manual for the Elementary Functions", chapter 6, with a minimax polynomial.
    """
    t = mp.fma(x, LOG2E_F32, ROUND_F32)
    n = t - ROUND_F32
    r = mp.fma(n, -LN2_LO_F32, mp.fma(n, -LN2_HI_F32, x))
    return mp.fma(r * r, horner(r, EXP_F32), r) + 1.0, mp.bitcast(t, mp.i32)


@mp.func
def exp_parts_f64(x: mp.f64) -> Any:
    """As `exp_parts_f32`; the integer is in the low 51 bits of k."""
    t = mp.fma(x, LOG2E_F64, ROUND_F64)
    n = t - ROUND_F64
    r = mp.fma(n, -LN2_LO_F64, mp.fma(n, -LN2_HI_F64, x))
    return mp.fma(r * r, horner(r, EXP_F64), r) + 1.0, mp.bitcast(t, mp.i64)


@mp.func
def log_split_f32(x: mp.f32) -> Any:
    """(m, e) with x = m * 2**e and sqrt(1/2) <= m < sqrt(2), e as a float, for finite x > 0 (denormals too)."""
    tiny = x < 1.1754943508222875e-38
    u = mp.bitcast(mp.select(tiny, x * 8388608.0, x), mp.i32) - 0x3F3504F3
    e = mp.f32(u >> 23) - mp.select(tiny, 23.0, 0.0)
    return mp.bitcast((u & 0x7FFFFF) + 0x3F3504F3, mp.f32), e


@mp.func
def log_split_f64(x: mp.f64) -> Any:
    """As `log_split_f32`. The exponent becomes a float by way of the bits of 2**52 + e: no 64-bit conversion."""
    tiny = x < 2.2250738585072014e-308
    u = mp.bitcast(mp.select(tiny, x * 4503599627370496.0, x), mp.u64) + mp.u64(0x95F619980C433)
    e = mp.bitcast((u >> 52) | mp.u64(0x4330000000000000), mp.f64) - mp.select(
        tiny, 4503599627371571.0, 4503599627371519.0
    )
    return mp.bitcast((u & mp.u64(0xFFFFFFFFFFFFF)) + mp.u64(0x3FE6A09E667F3BCD), mp.f64), e
