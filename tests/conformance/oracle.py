"""Independent oracles: exact rounding, wrapping integers and the op table's meaning, from Python's own numbers.

Nothing here imports the interpreter or any compiler part: an oracle that shares code with what it judges proves
nothing.  Values are computed one at a time with Python ints and Fractions where NumPy's habit differs from the op
table (out-of-range casts, double rounding through f32, division by zero).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

import magpie as mp

BOOL = mp.bool_
SIGNED = (mp.i8, mp.i16, mp.i32, mp.i64)
UNSIGNED = (mp.u8, mp.u16, mp.u32, mp.u64)
INTS = (*SIGNED, *UNSIGNED)
FLOATS = (mp.f16, mp.bf16, mp.f32, mp.f64)
NUMS = (*INTS, *FLOATS)
ALL = (BOOL, *NUMS)
WIDE = (mp.f32, mp.f64)

# precision in bits with the hidden one, smallest and largest exponent of a normal number
_FORMAT = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
EPS = {name: 2.0 ** (1 - p) for name, (p, _, _) in _FORMAT.items()}


def wrap(value: int, t: mp.DType) -> int:
    """``value`` modulo 2^bits, in the range of ``t``."""
    return (int(value) - t.min) % (1 << t.bits) + t.min


def round_to(value: int | float | Fraction, t: mp.DType) -> float:
    """``value``, taken as exact, rounded once to the float type ``t`` (ties to even); as a Python float."""
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value) or value == 0.0):
        return value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    p, emin, emax = _FORMAT[t.name]
    size = abs(exact)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** e > size:
        e -= 1
    assert Fraction(2) ** e <= size < Fraction(2) ** (e + 1)
    quantum = Fraction(2) ** (max(e, emin) - (p - 1))
    rounded = round(size / quantum) * quantum  # Fraction rounds half to even
    if rounded >= Fraction(2) ** (emax + 1):
        result = math.inf
    else:
        result = float(rounded)  # representable in f64, as every format here is
    return math.copysign(result, -1.0 if exact < 0 else 1.0)


def cast(value: Any, t: mp.DType) -> Any:
    """The op table's cast of a Python number to ``t``, as a Python number."""
    if t.is_bool:
        return bool(value != 0)
    if t.is_float:
        return round_to(int(value) if isinstance(value, bool) else value, t)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return t.max if value > 0 else t.min
        return max(t.min, min(t.max, int(value)))
    return wrap(int(value), t)


def items(a: np.ndarray) -> list[Any]:
    """The elements of ``a`` as exact Python numbers (bf16 too)."""
    if a.dtype.name == "bfloat16":
        return [float(v) for v in a.astype(np.float32).ravel()]
    return a.ravel().tolist()


def array(values: Iterable[Any], t: mp.DType, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Python numbers, exact in ``t``, as an array of ``t``."""
    values = list(values)
    if t.is_float:
        wide = np.array(values, np.float64)
        with np.errstate(all="ignore"):
            out = wide.astype(np.float32).astype(t.numpy) if t is mp.bf16 else wide.astype(t.numpy)
    else:
        out = np.array(values, dtype=t.numpy) if values else np.zeros(0, t.numpy)
    return out if shape is None else out.reshape(shape)


def map1(f: Callable[[Any], Any], a: np.ndarray, t: mp.DType) -> np.ndarray:
    """``f`` over the elements of ``a``; results are exact numbers that `cast` puts into ``t``."""
    return array([cast(f(x), t) for x in items(a)], t, a.shape)


def map2(f: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray, t: mp.DType) -> np.ndarray:
    """``f`` over the pairs of ``a`` and ``b``; results are exact numbers that `cast` puts into ``t``."""
    return array([cast(f(x, y), t) for x, y in zip(items(a), items(b), strict=True)], t, a.shape)


def in_f32(f: Callable[..., Any], t: mp.DType, *arrays: np.ndarray) -> np.ndarray:
    """``f`` on NumPy arrays in the type itself for f32 and f64; f16 and bf16 through f32 with one rounding."""
    with np.errstate(all="ignore"):
        if t.is_float and t.bits == 16:
            result = f(*(a.astype(np.float32) for a in arrays))
            return result.astype(t.numpy) if t is mp.bf16 else result.astype(np.float16)
        return f(*arrays)


# --- integers ---------------------------------------------------------------------------------------------------------
def floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def mod(a: int, b: int) -> int:
    return a % b if b else 0


def ipow(a: int, b: int, t: mp.DType) -> int:
    if b < 0:
        return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    return wrap(pow(a, b, 1 << 64), t)


def bits_of(a: int, t: mp.DType) -> int:
    return a % (1 << t.bits)


def popcount(a: int, t: mp.DType) -> int:
    return bits_of(a, t).bit_count()


def clz(a: int, t: mp.DType) -> int:
    return t.bits - bits_of(a, t).bit_length()


def ctz(a: int, t: mp.DType) -> int:
    b = bits_of(a, t)
    return (b & -b).bit_length() - 1 if b else t.bits


# --- floats -----------------------------------------------------------------------------------------------------------
def py_divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """CPython's float_divmod (Objects/floatobject.c), in the NumPy scalar type of the operands, with the op table's
    answers for a zero divisor."""
    t = type(a)
    with np.errstate(all="ignore"):
        if b == 0:
            return a / b, t(math.nan)
        m = np.fmod(a, b)
        d = (a - m) / b
        if m != 0:
            if (b < 0) != (m < 0):
                m = m + b
                d = d - t(1)
        else:
            m = np.copysign(t(0), b)
        if d != 0:
            q = np.floor(d)
            if d - q > t(0.5):
                q = q + t(1)
        else:
            q = np.copysign(t(0), a / b)
        return q, m


def float_divmod(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`py_divmod` over arrays of f32 or f64."""
    q, m = np.empty_like(a), np.empty_like(a)
    for k in range(a.size):
        q.flat[k], m.flat[k] = py_divmod(a.flat[k], b.flat[k])
    return q, m


def min_number(a: float, b: float) -> float:
    """IEEE 754-2019 minimumNumber."""
    if math.isnan(a):
        return b
    if math.isnan(b):
        return a
    if a == b == 0:
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def max_number(a: float, b: float) -> float:
    """IEEE 754-2019 maximumNumber."""
    return -min_number(-a, -b)


def minimum(a: float, b: float) -> float:
    """IEEE 754-2019 minimum: a NaN wins."""
    return math.nan if math.isnan(a) or math.isnan(b) else min_number(a, b)


def maximum(a: float, b: float) -> float:
    """IEEE 754-2019 maximum: a NaN wins."""
    return -minimum(-a, -b)


_keep_denormals = True

# Smallest exponents of normal numbers. f16 is not among them: its subnormal numbers are normal ones of f32, in which a
# device that flushes computes with them.
_FLUSHED = {"bfloat16": -126, "float32": -126, "float64": -1022}


@contextmanager
def denormals(kept: bool) -> Iterator[None]:
    """Whether the inputs made inside have denormal numbers: for a device that flushes them, what a kernel makes of one
    is not defined. They are the smallest normal number of their sign then."""
    global _keep_denormals
    before, _keep_denormals = _keep_denormals, kept and _keep_denormals
    try:
        yield
    finally:
        _keep_denormals = before


def has_denormals() -> bool:
    """Whether inputs have denormal numbers here: see `denormals`."""
    return _keep_denormals


def is_denormal(a: np.ndarray) -> np.ndarray:
    """Which elements a device that flushes may take for zero."""
    if a.dtype.name not in _FLUSHED:
        return np.zeros(a.shape, bool)
    with np.errstate(all="ignore"):
        size = np.abs(a.astype(np.float64))
        return np.asarray((size > 0) & (size < 2.0 ** _FLUSHED[a.dtype.name]))


def _inputs(a: np.ndarray) -> np.ndarray:
    """``a`` without what the device may take for zero."""
    if _keep_denormals or not (flushed := is_denormal(a)).any():
        return a
    smallest = np.copysign(2.0 ** _FLUSHED[a.dtype.name], a.astype(np.float64))
    return np.where(flushed, smallest.astype(np.float32 if a.itemsize < 8 else np.float64).astype(a.dtype), a)


# --- inputs -----------------------------------------------------------------------------------------------------------
def specials(t: mp.DType) -> np.ndarray:
    """The values of ``t`` at which implementations go wrong."""
    if t.is_bool:
        return np.array([False, True])
    if t.is_int:
        small = [0, 1, 2, 3, 5, 7, 10, t.max, t.max - 1, t.max // 2 + 1, t.bits, t.bits - 1]
        if t.kind == "int":
            small += [-1, -2, -3, -7, -10, t.min, t.min + 1, t.min // 2]
        return np.array(small, t.numpy)
    p, emin, emax = _FORMAT[t.name]
    tiny, largest = 2.0**emin, (2 - 2.0 ** (1 - p)) * 2.0**emax
    denormal = math.ldexp(1.0, emin - (p - 1))
    positive = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 7.0, 1 + 2.0 ** (1 - p), 255.5, tiny, tiny / 2, denormal, largest, math.inf]
    wide = np.array([*positive, *(-v for v in positive), math.nan], np.float64)
    with np.errstate(all="ignore"):
        return _inputs(wide.astype(np.float32).astype(t.numpy) if t is mp.bf16 else wide.astype(t.numpy))


def values(t: mp.DType, n: int, seed: int = 0) -> np.ndarray:
    """``n`` values of ``t``: its specials first, then random ones of many magnitudes."""
    rng = np.random.default_rng([seed, t.bits, ord(t.name[0])])
    if t.is_bool:
        tail = rng.integers(0, 2, n).astype(bool)
    elif t.is_int:
        tail = rng.integers(t.min, t.max, n, dtype=t.numpy, endpoint=True) >> rng.integers(0, t.bits, n).astype(t.numpy)
    else:
        with np.errstate(all="ignore"):
            wide = rng.standard_normal(n) * np.exp2(rng.integers(-12, 12, n))
            tail = wide.astype(np.float32).astype(t.numpy)
    head = specials(t)[:n]
    return _inputs(np.concatenate([head, tail[: n - head.size]]).astype(t.numpy))


def pairs(t: mp.DType, u: mp.DType | None = None, extra: int = 61) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of special values of ``t`` and ``u``, then ``extra`` random pairs."""
    u = u or t
    a, b = specials(t), specials(u)
    x = np.concatenate([np.repeat(a, b.size), values(t, extra + a.size, 1)[a.size :]])
    y = np.concatenate([np.tile(b, a.size), values(u, extra + b.size, 2)[b.size :]])
    return x.astype(t.numpy), y.astype(u.numpy)


def plain(t: mp.DType, n: int, seed: int = 0) -> np.ndarray:
    """Well-behaved values: small integers, or floats of both signs near 1."""
    rng = np.random.default_rng([seed, 17])
    if t.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    if t.is_int:
        return rng.integers(0 if t.kind == "uint" else -50, 50, n).astype(t.numpy)
    return rng.uniform(-4, 4, n).astype(np.float32).astype(t.numpy)
