"""Elementary functions: those of the math library, as every target of the bit contract has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, round_bf16, round_f64_to_bf16, select
from magpie.dtypes import DType, bf16, f16, f64

__all__ = ["ELEMENTARY", "elementary", "frexp_exponent", "frexp_mantissa", "ldexp"]

ELEMENTARY = frozenset(
    {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"}
    | {"sinh", "cosh", "tanh", "erf", "pow", "rsqrt", "cbrt", "hypot"}
)


def elementary(name: str, type_: DType) -> Callable[..., Lanes]:
    """The function ``name`` on lanes of ``type_``; f16 and bf16 compute in f32 and round once."""
    wide = "f64" if type_ is f64 else "f32"

    def full(*args: Lanes) -> Lanes:
        # The library is itself lowered and interpreted: it is there when it is first called, not before.
        from magpie.backends.interp.library import library_function

        return library_function(name, wide)(*args)

    if type_ is f16:
        return lambda *args: full(*(a.astype(np.float32) for a in args)).astype(np.float16)
    if type_ is bf16:
        return lambda *args: round_bf16(full(*args))
    return full


def ldexp(type_: DType) -> Callable[[Lanes, Lanes], Lanes]:
    """x * 2**n with one rounding: exact in float64 for the narrower types."""
    if type_ is f64:
        return np.ldexp
    if type_ is bf16:
        return lambda x, n: round_f64_to_bf16(np.ldexp(x.astype(np.float64), n))
    to = np.float16 if type_ is f16 else np.float32
    return lambda x, n: np.ldexp(x.astype(np.float64), n).astype(to)


def frexp_mantissa(x: Lanes) -> Lanes:
    """m of x = m * 2**e, 0.5 <= \\|m\\| < 1."""
    return select(np.isfinite(x), np.frexp(x)[0], x)


def frexp_exponent(x: Lanes) -> Lanes:
    """e of x = m * 2**e as int32; 0 for 0, infinities and NaN."""
    return select(np.isfinite(x), np.frexp(x)[1], np.int32(0)).astype(np.int32)
