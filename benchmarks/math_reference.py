"""What the math library is measured against: NumPy in f64 for f32 functions, mpmath for f64 and for close calls.

Errors are in ulps of the exact value: |got - exact| over the spacing of the format at it, never below the smallest
denormal. A NaN for a NaN and an infinity for an infinity is no error; the wrong sign of a zero is an infinite one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import mpmath
import numpy as np

import magpie as mp
from magpie.lib.math import FUNCTIONS

__all__ = [
    "BINARY",
    "EXACT",
    "UNARY",
    "device_kernel",
    "exact_error",
    "exact_value",
    "library_function",
    "numpy_f64",
    "random_f64",
    "specials",
]

UNARY = [
    op for op in FUNCTIONS if op not in ("pow", "hypot", "atan2", "fmod", "remainder", "ldexp") and "frexp" not in op
]
BINARY = ["pow", "hypot", "atan2"]
EXACT = ["fmod", "remainder", "ldexp", "frexp_mantissa", "frexp_exponent"]

_NUMPY: dict[str, Any] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


def _sinh(x: Any) -> Any:
    e = np.expm1(np.abs(x))  # NumPy's own is four times slower
    return np.copysign(np.where(np.isinf(e), np.inf, 0.5 * (e + e / (e + 1.0))), x)


_NUMPY["sinh"] = _sinh

_EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "pow": lambda x, y: mpmath.power(x, y),
    "hypot": mpmath.hypot,
}

# Where a function does something between its limits: half of the random arguments are drawn from here.
_DOMAIN = {
    "exp": (-746.0, 710.0),
    "exp2": (-1075.0, 1024.0),
    "expm1": (-40.0, 710.0),
    "sinh": (-711.0, 711.0),
    "cosh": (-711.0, 711.0),
    "tanh": (-20.0, 20.0),
    "erf": (-6.0, 6.0),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "log": (0.5, 2.0),
    "log2": (0.5, 2.0),
    "log10": (0.5, 2.0),
    "log1p": (-1.0, 2.0),
}


def numpy_f64(op: str) -> Callable[..., Any]:
    """``op`` on f64 arrays, to an ulp or two of f64."""
    if op == "erf":
        from scipy.special import erf

        return erf  # type: ignore[no-any-return]
    return _NUMPY.get(op) or getattr(np, op)  # type: ignore[no-any-return]


def library_function(op: str, dtype: Any) -> Any:
    """The library's device function for ``op`` on f32 or f64."""
    return getattr(import_module(f"magpie.lib.math.{FUNCTIONS[op]}"), f"{op}_{dtype.name}")


@functools.cache
def device_kernel(op: str, dtype: Any) -> Any:
    """A kernel ``out[i] = f(x[i])``, or ``f(x[i], y[i])``, with the library's function for ``op``."""
    function = library_function(op, dtype)
    if op in BINARY or op in ("fmod", "remainder", "ldexp"):

        @mp.kernel
        def two(x: mp.Array, y: mp.Array, out: mp.Array):
            i = mp.global_id(0)
            if i < x.shape[0]:
                out[i] = function(x[i], y[i])

        return two

    @mp.kernel
    def one(x: mp.Array, out: mp.Array):
        i = mp.global_id(0)
        if i < x.shape[0]:
            out[i] = function(x[i])

    return one


def exact_value(op: str, *args: float) -> Any:
    """``op`` to 130 bits for finite arguments inside its domain."""
    with mpmath.workprec(130):
        xs = [mpmath.mpf(float(a)) for a in args]
        f = _EXACT.get(op) or getattr(mpmath, op)
        if op in ("expm1", "log1p") and abs(args[0]) < 1e-5:
            mpmath.mp.prec = 260
        return f(*xs)


def exact_error(op: str, args: Sequence[float], got: float, bits: int) -> float:
    """The error of ``got`` in ulps of a format with ``bits`` of significand (24 or 53), by mpmath.

    Where the exact value is infinite, NaN or 0, NumPy's f64 result decides, which follows C99 Annex F.
    """
    with np.errstate(all="ignore"):
        plain = float(numpy_f64(op)(*(np.array([a]) for a in args))[0])
    if math.isnan(plain):
        return 0.0 if math.isnan(got) else math.inf
    exponent = {24: (-126, 127), 53: (-1022, 1023)}[bits]
    if not all(map(math.isfinite, args)) or (math.isinf(plain) and 0.0 in args) or (plain == 0.0 and 0.0 in args):
        if math.isinf(plain) or plain == 0.0:
            return 0.0 if got == plain and math.copysign(1, got) == math.copysign(1, plain) else math.inf
        exact = mpmath.mpf(plain)
    elif math.isinf(plain) and op in ("log", "log2", "log10", "log1p"):
        return 0.0 if got == plain else math.inf
    elif op == "pow" and args[0] != 0.0 and abs(args[1] * math.log2(abs(args[0]))) > 1200:  # mpmath would take its time
        return 0.0 if got == plain and math.copysign(1, got) == math.copysign(1, plain) else math.inf
    elif op == "atan2" and 0.0 in args:  # mpmath has no -0
        exact = mpmath.mpf(plain)
    else:
        exact = exact_value(op, *args)
    if math.isnan(got) or (exact != 0 and math.copysign(1, got) != mpmath.sign(exact)):
        return math.inf
    if math.isinf(got):
        # beyond the largest number an infinity counts as the next power of two would
        got_value = mpmath.ldexp(mpmath.sign(exact), exponent[1] + 1)
        if abs(exact) >= abs(got_value):
            return 0.0
    else:
        got_value = mpmath.mpf(got)
        if abs(exact) >= mpmath.ldexp(1, exponent[1] + 1):
            return math.inf
    if exact == 0:
        return 0.0 if got == 0 else math.inf
    with mpmath.workprec(130):
        scale = max(int(mpmath.frexp(exact)[1]) - 1, exponent[0]) - (bits - 1)
        return float(abs(got_value - exact) / mpmath.ldexp(1, scale))


def specials(bits: int) -> Any:
    """Arguments at which functions change their ways: zeros, limits, neighbours of integers, huge angles."""
    t = np.float32 if bits == 24 else np.float64
    info = np.finfo(t)
    tiny, small, big = info.smallest_subnormal, info.tiny, info.max
    base = [
        0,
        tiny,
        small,
        small - tiny,
        1,
        0.5,
        2,
        3,
        1.5,
        2.5,
        10,
        100,
        1000,
        88.72284,
        89.5,
        709.78,
        710.5,
        745.2,
        103.97,
    ]
    base += [
        np.pi / 4,
        np.pi / 2,
        np.pi,
        1e5,
        65536,
        2**30,
        1e22,
        big,
        np.inf,
        np.nan,
        127,
        128,
        149,
        1023.5,
        1024,
        1074,
    ]
    base += [2.0**k for k in (-60, -54, -53, -30, -27, -25, -24, -13, 22, 23, 24, 52, 53, 60)]
    values = np.array(base, dtype=t)
    with np.errstate(over="ignore"):
        near = [values, np.nextafter(values, t(np.inf)), np.nextafter(values, t(-np.inf))]
    both = np.concatenate([*near, *(-v for v in near)])
    return np.unique(both.view(np.int32 if bits == 24 else np.int64)).view(t)


def random_f64(op: str, count: int, seed: int, arguments: int = 1) -> list[Any]:
    """Arrays of f64 arguments: any bit patterns, the domain of ``op``, moderate magnitudes; for two, related ones."""
    rng = np.random.default_rng(seed)

    def bits(n: int) -> Any:
        return rng.integers(0, 1 << 64, n, dtype=np.uint64).view(np.float64)

    def moderate(n: int) -> Any:
        return rng.choice([-1.0, 1.0], n) * np.exp2(rng.uniform(-30, 15, n))

    if arguments == 1:
        low, high = _DOMAIN.get(op, (-10.0, 10.0))
        half, quarter = count // 2, count // 4
        return [np.concatenate([rng.uniform(low, high, half), moderate(quarter), bits(count - half - quarter)])]
    if op == "pow":
        n = count // 4
        x = np.concatenate([np.abs(bits(2 * n)), np.exp2(rng.uniform(-1, 1, n)), bits(count - 3 * n)])
        with np.errstate(all="ignore"):
            y = rng.uniform(-1100, 1100, count) / np.log2(np.abs(x))
        y[3 * n :] = bits(count - 3 * n)
        return [x, np.where(np.isfinite(y), y, 1.0)]
    x = bits(count)
    with np.errstate(all="ignore"):
        y = np.ldexp(np.frexp(bits(count))[0], np.frexp(x)[1] + rng.integers(-60, 60, count))
    return [x, np.where(rng.random(count) < 0.2, bits(count), y)]
