"""Elementary functions. float64 is NumPy's or libm's, float32 is computed in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, round_bf16, round_f64_to_bf16, select
from magpie.dtypes import DType, bf16, f16, f32, f64

__all__ = ["BINARY", "UNARY", "binary", "frexp_exponent", "frexp_mantissa", "ldexp", "unary"]

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Lanes) -> Lanes:
    found = _ERF(x)
    return found.astype(np.float64) if isinstance(found, np.ndarray) else np.float64(found)


def _rsqrt(x: Lanes) -> Lanes:
    return np.float64(1.0) / np.sqrt(x)


UNARY: dict[str, Callable[[Lanes], Lanes]] = {
    "rsqrt": _rsqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "erf": _erf,
}

BINARY: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
}


def unary(name: str, type_: DType) -> Callable[[Lanes], Lanes]:
    """The function ``name`` on lanes of ``type_``; f16 and bf16 compute in f32 and round once more."""
    fn = UNARY[name]
    if type_ is f64:
        return fn

    def single(x: Lanes) -> Lanes:
        return fn(x.astype(np.float64)).astype(np.float32)

    if type_ is f32:
        return single
    if type_ is f16:
        return lambda x: single(x).astype(np.float16)
    return lambda x: round_bf16(single(x))


def binary(name: str, type_: DType) -> Callable[[Lanes, Lanes], Lanes]:
    """As `unary`, for two operands."""
    fn = BINARY[name]
    if type_ is f64:
        return fn

    def single(x: Lanes, y: Lanes) -> Lanes:
        return fn(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)

    if type_ is f32:
        return single
    if type_ is f16:
        return lambda x, y: single(x, y).astype(np.float16)
    return lambda x, y: round_bf16(single(x, y))


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
