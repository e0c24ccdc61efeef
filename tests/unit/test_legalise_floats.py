"""Float ops of a bare machine: the same bits as the op table, NaN, zeros and denormals included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from legal_tools import TARGETS, check, float_pairs, floats, integers

from magpie.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

FLOATS = (f16, bf16, f32, f64)
INTS = (i8, i16, i32, i64, u8, u16, u32, u64)
#: Without f64 where the kernel has none, and native halves.
NAMES = ("words", "narrow", "bare", "full")


@pytest.fixture(params=NAMES)
def target(request):
    return TARGETS[request.param]


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["min", "max", "minimum", "maximum", "copysign", "floordiv", "mod", "add", "sub", "mul", "fmod", "remainder"])
def test_two_operands(op, t, target):
    x, y = float_pairs(t)
    check(op, (t, t), t, [x, y], target)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["min", "max", "minimum", "maximum"])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -2.0, math.inf, math.nan], ids=str)
def test_minima_with_a_constant(op, t, value, target):
    check(op, (t, t), t, [floats(t), floats(t)], target, value)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["neg", "abs", "floor", "ceil", "trunc", "round", "frexp_mantissa", "exp"])
def test_one_operand(op, t, target):
    check(op, (t,), t, [floats(t)], target)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite"])
def test_classes(op, t, target):
    check(op, (t,), bool_, [floats(t)], target)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(op, t, target):
    check(op, (t, t), bool_, float_pairs(t), target)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("u", [*FLOATS, *INTS, bool_], ids=str)
def test_casts_of_floats(t, u, target):
    check("cast", (t,), u, [floats(t, 20000)], target)


@pytest.mark.parametrize("t", [*INTS, bool_], ids=str)
@pytest.mark.parametrize("u", FLOATS, ids=str)
def test_casts_of_integers(t, u, target):
    x = np.array([0, 1], np.uint8) if t is bool_ else integers(t, 20000)
    if t is not bool_ and t.bits > 16:  # where a second rounding shows
        near = [(2**k + d) * s for k in range(8, t.bits - 1) for d in (-1, 0, 1, 2 ** (k - 8), 2 ** max(0, k - 8) + 1, 2 ** max(0, k - 11) + 1, 3 * 2 ** max(0, k - 12)) for s in (1, -1)]
        x = np.concatenate([x, np.array([v for v in near if t.min <= v <= t.max], x.dtype)])
    check("cast", (t,), u, [x], target)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_ldexp(t, target):
    x = floats(t)
    n = np.random.default_rng(1).integers(-300, 300, len(x)).astype(np.int32)
    check("ldexp", (t, i32), t, [x, n], target)


@pytest.mark.parametrize(("t", "u"), [(f16, u16), (f16, i16), (bf16, u16), (bf16, i16), (f32, u32), (f64, i64)], ids=str)
def test_bitcasts(t, u, target):
    x = floats(t)
    x = x[x == x] if t is not bf16 else x[(x & 0x7FFF) <= 0x7F80]
    check("bitcast", (t,), u, [x], target)
    check("bitcast", (u,), t, [x.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[t.itemsize]).view(np.dtype(f"{'u' if u.kind == 'uint' else 'i'}{t.itemsize}"))], target)
