"""What every value op of the table means, on NumPy lanes: the definition that all other backends are tested against.

`implementation(op, result, operands)` gives a function of lanes (NumPy scalars or arrays of the register dtypes, see
`lanes`). It also folds constants: `fold` evaluates one op on Python numbers by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from magpie.backends.interp.numerics import casts, elementary, floats, integers
from magpie.backends.interp.numerics.lanes import (
    Lanes,
    python_value,
    register_dtype,
    round_bf16,
    round_f64_to_bf16,
    scalar,
    select,
)
from magpie.dtypes import DType, bf16, bool_, f32, f64

__all__ = ["FOLDABLE", "Function", "combine", "fold", "implementation", "scalar"]

Function = Callable[..., Lanes]

_COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

# Ops that NumPy has with the meaning of the table, on every type they take (integers wrap, halves round once).
_SHARED: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.absolute,
}

_INT: dict[str, Function] = {
    **_SHARED,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "tdiv": integers.tdiv,
    "trem": np.fmod,
    "pow": integers.ipow,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "popcount": integers.popcount,
    "clz": integers.clz,
    "ctz": integers.ctz,
    "trip_count": integers.trip_count,
}

_BOOL: dict[str, Function] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "min": np.logical_and,
    "max": np.logical_or,
}

# Exact on every float format: the result of a narrow type needs no rounding.
_FLOAT_EXACT: dict[str, Function] = {
    "neg": np.negative,
    "abs": np.absolute,
    "min": floats.minimum_number,
    "max": floats.maximum_number,
    "minimum": floats.minimum,
    "maximum": floats.maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "frexp_mantissa": elementary.frexp_mantissa,
    "frexp_exponent": elementary.frexp_exponent,
}

# In f32 with one rounding for the 16-bit types: innocuous for + - * / and sqrt (24 >= 2 * 11 + 2; Figueroa 1995).
_FLOAT_ROUNDED: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "floordiv": floats.floordiv,
    "mod": floats.mod,
    "remainder": floats.remainder,
}


def implementation(op: str, result: DType, operands: Sequence[DType]) -> Function:
    """The function of lanes that ``op`` is, for these result and operand types. KeyError: not a value op."""
    return _implementation(op, result, tuple(operands))


@lru_cache(maxsize=4096)
def _implementation(op: str, result: DType, operands: tuple[DType, ...]) -> Function:
    first = operands[0]
    if op == "cast":
        return casts.cast(first, result)
    if op == "bitcast":
        return casts.bitcast(first, result)
    if op == "select":
        return select
    if op in ("uniform",):
        return _same
    if op in _COMPARE:
        return _COMPARE[op]
    if first.is_bool:
        return _BOOL[op]
    if first.is_int:
        if op == "shl":
            return integers.shl(first)
        if op == "shr":
            return integers.shr(first)
        return _INT[op]
    return _float(op, first)


def _same(x: Lanes) -> Lanes:
    return x


def _float(op: str, type_: DType) -> Function:
    if op in _FLOAT_EXACT:
        return _FLOAT_EXACT[op]
    if op in elementary.ELEMENTARY:
        return elementary.elementary(op, type_)
    if op == "ldexp":
        return elementary.ldexp(type_)
    if op == "fma":
        return _fma(type_)
    fn = _FLOAT_ROUNDED[op]
    if type_ is f32 or type_ is f64:
        return fn
    if type_ is bf16:
        return lambda *args: round_bf16(fn(*args))
    if isinstance(fn, np.ufunc):
        return fn  # NumPy's float16 loops compute in float32 and round once
    return lambda *args: fn(*(a.astype(np.float32) for a in args)).astype(np.float16)


def _fma(type_: DType) -> Function:
    if type_ is f64:
        return floats.fma64

    if type_ is f32:
        return floats.fma32

    def wide(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        # The product of two f32 has 48 bits: exact. The sum is rounded to odd, so the last rounding is the only one.
        return floats.add_round_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))

    if type_ is bf16:
        return lambda a, b, c: round_f64_to_bf16(wide(a, b, c))
    return lambda a, b, c: wide(a, b, c).astype(np.float16)


def combine(kind: str, type_: DType) -> Function:
    """The binary function of an atomic or a reduction ``kind`` (add, sub, mul, min, max, and, or, xor, exchange)."""
    if kind == "exchange":
        return _second
    return implementation(kind, type_, (type_, type_))


def _second(old: Lanes, new: Lanes) -> Lanes:
    return select(np.bool_(False), old, new)


#: Ops that `fold` evaluates.
FOLDABLE = frozenset(
    {*_INT, *_BOOL, *_FLOAT_EXACT, *_FLOAT_ROUNDED, *_COMPARE, *elementary.ELEMENTARY}
    | {"cast", "bitcast", "select", "shl", "shr", "ldexp", "fma"}
)


def fold(
    op: str,
    result: DType,
    operands: Sequence[DType],
    values: Sequence[Any],
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """``op`` on Python numbers, as a Python number: what every backend computes for these operands.

    ``attrs`` are those of the node; no value op reads them today. KeyError for an op that is not in `FOLDABLE`.
    """
    with np.errstate(all="ignore"):
        args = [scalar(t, v) for t, v in zip(operands, values, strict=True)]
        found = implementation(op, result, operands)(*args)
        return python_value(register_dtype(result).type(found) if result is not bool_ else np.bool_(found))
