"""Casts and bit casts of the interpreter between all types, against exact arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from test_numerics import values as int_values
from test_numerics import wrap
from test_numerics_float import exact_round
from test_numerics_float import values as float_values

from magpie.backends.interp.numerics import fold, implementation
from magpie.backends.interp.numerics.lanes import register_dtype
from magpie.dtypes import ALL_DTYPES, bf16, bool_, f16, f32, f64, i16, i32, i64, index, u16, u32, u64

TYPES = (*ALL_DTYPES, index)
INTS = [t for t in TYPES if t.is_int]
FLOATS = [t for t in TYPES if t.is_float]


def cast(source, target, column):
    with np.errstate(all="ignore"):
        found = implementation("cast", target, (source,))(np.array(column, register_dtype(source)))
    assert found.dtype == register_dtype(target)
    return found.tolist()


@pytest.mark.parametrize("target", INTS, ids=str)
@pytest.mark.parametrize("source", INTS, ids=str)
def test_int_to_int_wraps(source, target):
    a = int_values(source, 100)
    assert cast(source, target, a) == [wrap(target, x) for x in a]


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", INTS, ids=str)
def test_int_to_float_rounds_once(source, target):
    a = int_values(source, 100)
    rng = random.Random(f"{source}{target}")
    for _ in range(500):  # next to ties of 8, 11, 24 and 53 bits
        p = rng.choice((8, 11, 24, 53))
        top = rng.randrange(1 << (p - 1), 1 << p) * 2 + 1
        shift = rng.randrange(0, 64)
        for d in (-1, 0, 1):
            v = (top << shift >> 1) + d
            a += [x for x in (v, -v) if source.min <= x <= source.max]
    for x, r in zip(a, cast(source, target, a), strict=True):
        assert r == exact_round(target, Fraction(x)), (x, r)


@pytest.mark.parametrize("target", INTS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_float_to_int_saturates(source, target):
    a = float_values(source, 200)
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        for d in (-1.0, -0.5, 0.0, 0.5, 1.0):
            a += [fold("cast", source, (f64,), (s * (2.0**bits + d),)) for s in (1, -1)]
    a += [fold("cast", source, (f64,), (v,)) for v in (1e10, -1e10, 2.0**53 + 2, -0.9, 254.9)]
    for x, r in zip(a, cast(source, target, a), strict=True):
        if x != x:
            want = 0
        elif math.isinf(x):
            want = target.max if x > 0 else target.min
        else:
            want = max(target.min, min(target.max, int(x)))
        assert r == want, (x, r, want)


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_float_to_float_rounds_once(source, target):
    for x, r in zip(a := float_values(source, 300), cast(source, target, a), strict=True):
        if math.isfinite(x):
            assert r == exact_round(target, Fraction(x)), (x, r)
            assert math.copysign(1, r) == math.copysign(1, x)
        else:
            assert r == x or (r != r and x != x)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_to_and_from_bool(t):
    a = [False, True] if t.is_bool else float_values(t) if t.is_float else int_values(t)
    assert cast(t, bool_, a) == [x != 0 for x in a]
    assert cast(bool_, t, [False, True]) == [0, 1]


@pytest.mark.parametrize(
    ("a", "b"), [(f32, u32), (f32, i32), (f64, u64), (f64, i64), (f16, u16), (bf16, i16), (i32, u32), (index, u64)],
    ids=str,
)  # fmt: skip
def test_bitcasts_go_back(a, b):
    bits = int_values(b, 500)
    with np.errstate(all="ignore"):
        there = implementation("bitcast", a, (b,))(np.array(bits, register_dtype(b)))
        assert there.dtype == register_dtype(a)
        back = implementation("bitcast", b, (a,))(there)
    keep = there == there  # NaN is one value
    assert (np.array(bits, register_dtype(b))[keep] == back[keep]).all()


def test_known_bits():
    assert fold("bitcast", u32, (f32,), (1.0,)) == 0x3F800000
    assert fold("bitcast", u16, (bf16,), (1.0,)) == 0x3F80
    assert fold("bitcast", u16, (f16,), (-2.0,)) == 0xC000
    assert fold("bitcast", f64, (u64,), (0x3FF8000000000000,)) == 1.5
    assert fold("cast", i32, (f32,), (1e10,)) == 2**31 - 1
