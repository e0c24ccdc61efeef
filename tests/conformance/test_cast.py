"""Casts between all pairs of types: saturation, NaN to 0, wrapping, and one rounding only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import TYPE_CAPABILITY, Run, case, empty
from .oracle import ALL, BOOL, FLOATS, INTS, NUMS, map1, values


@mp.kernel
def k_astype(x, out, T: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i].astype(T)


@mp.kernel
def k_call_cast(x, out, T: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = T(x[i])


@mp.kernel
def k_store(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i]


@mp.kernel
def k_builtin_casts(x, a, b, c):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a[i] = int(x[i])
        b[i] = float(x[i])
        c[i] = bool(x[i])


@mp.kernel
def k_there_and_back(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.f32(mp.i32(x[i] * 1000.0)) / 1000.0


@mp.kernel
def k_cast_literals(out):
    out[0] = mp.i32(3.99)
    out[1] = mp.i32(-3.99)
    out[2] = mp.i32(mp.f32(1e10))
    out[3] = mp.i32(mp.f32(-1e10))
    out[4] = mp.i32(mp.u8(300 & 255))
    out[5] = mp.i32(True)
    out[6] = mp.i32(mp.bool_(5))


def _all_targets_of(source):
    """A dtype tuple for `case`: the pair decides which capabilities are needed."""
    return [(source, target) for target in ALL]


def _inputs(source, target):
    x = values(source, 70)
    if source.is_float and target.is_int:  # the edges of the target, and halves around them
        edges = []
        for edge in (target.min, target.max, 0, 1, 255, -129):
            edges += [o.round_to(edge + d, source) for d in (Fraction(-3, 2), -1, Fraction(-1, 2), 0, Fraction(1, 2), 1)]
        x = np.concatenate([x, o.array(edges, source)])
    if source.is_int and target.is_float:
        near = [2**k + d for k in range(7, source.bits - 1) for d in (-1, 0, 1, 2**k // 256, 2**k // 256 + 1)]
        x = np.concatenate([x, o.array([v for v in near if source.min <= v <= source.max], source)])
    return x


@case(dtypes=[pair for source in ALL for pair in _all_targets_of(source)])
def test_cast(t):
    source, target = t
    x = _inputs(source, target)
    return Run(k_astype, (x, empty(x.size, target), target), {1: map1(lambda v: v, x, target)})


@case(dtypes=[(mp.f32, mp.i8), (mp.i64, mp.f32), (mp.f64, mp.bf16), (mp.f32, mp.u64), (mp.u8, mp.f16), (mp.i32, BOOL)])
def test_cast_by_calling_the_type(t):
    source, target = t
    x = _inputs(source, target)
    return Run(k_call_cast, (x, empty(x.size, target), target), {1: map1(lambda v: v, x, target)})


def _ties(narrow):
    """f64 values at which rounding through f32 first gives another answer than rounding once."""
    p = 8 if narrow is mp.bf16 else 11
    found = []
    for base in (1.0, 1.5, 100.0, 2.0**-10, -3.0):
        e = np.floor(np.log2(abs(base)))
        ulp = 2.0 ** (e - (p - 1))
        half = base + np.copysign(ulp / 2, base)
        for nudge in (2.0**-40, -(2.0**-40), 2.0**-30, 0.0):
            found.append(half + half * nudge)
    return np.array(found, np.float64)


@case(dtypes=[(mp.f64, mp.bf16), (mp.f64, mp.f16)])
def test_narrowing_from_f64_rounds_once(t):
    source, target = t
    tail = np.random.default_rng(0).standard_normal(2000)
    x = np.concatenate([_ties(target), np.nextafter(_ties(target), 0), tail, tail * 1e-6, tail * 1e4, tail * 2.0**-130])
    return Run(k_astype, (x, empty(x.size, target), target), {1: map1(lambda v: v, x, target)})


@case(dtypes=[(mp.i64, mp.bf16), (mp.u64, mp.f16), (mp.i64, mp.f32), (mp.u64, mp.f32), (mp.u64, mp.f64), (mp.i32, mp.bf16)])
def test_integer_to_float_rounds_once(t):
    source, target = t
    rng = np.random.default_rng(1)
    wide = rng.integers(source.min, source.max, 1500, dtype=source.numpy, endpoint=True) >> rng.integers(
        0, source.bits - 2, 1500
    ).astype(source.numpy)
    # just above and below the halfway points of the target
    near = [2**k + 2 ** (k - q) + d for q in (8, 11, 24) for k in range(q + 2, source.bits - 2) for d in (-1, 0, 1)]
    x = np.concatenate([wide, np.array(near, source.numpy)])
    return Run(k_call_cast, (x, empty(x.size, target), target), {1: map1(lambda v: v, x, target)})


_SAME_KIND = (
    [(a, b) for a in FLOATS for b in FLOATS]
    + [(a, b) for a in INTS for b in INTS if a.kind == b.kind]
    + [(a, b) for a in (mp.i32, mp.u8, mp.i64) for b in FLOATS]
    + [(BOOL, b) for b in (mp.i32, mp.u8, mp.u64)]
)


@case(dtypes=_SAME_KIND)
def test_a_store_converts_as_same_kind(t):
    source, target = t
    x = values(source, 70)
    return Run(k_store, (x, empty(x.size, target)), {1: map1(lambda v: v, x, target)})


@case(dtypes=NUMS)
def test_int_float_bool_builtins(t):
    x = values(t, 70)
    # int() of a float is i32 (i64 of an f64) and float() of an integer f32; a type that fits already is kept
    whole = t if t.is_int else mp.i64 if t is mp.f64 else mp.i32
    real = t if t.is_float else mp.f32
    return Run(
        k_builtin_casts,
        (x, empty(70, whole), empty(70, real), empty(70, BOOL)),
        {1: map1(lambda v: v, x, whole), 2: map1(lambda v: v, x, real), 3: map1(lambda v: v, x, BOOL)},
    )


@case(dtypes=(mp.f32,))
def test_cast_there_and_back(t):
    x = np.random.default_rng(3).uniform(-100, 100, 333).astype(np.float32)
    expect = (np.trunc(x * np.float32(1000)).astype(np.float32)) / np.float32(1000)
    return Run(k_there_and_back, (x, empty(333, t)), {1: expect})


@case()
def test_casts_of_literals():
    out = np.zeros(7, np.int32)
    expect = np.array([3, -3, 2**31 - 1, -(2**31), 44, 1, 1], np.int32)
    return Run(k_cast_literals, (out,), {0: expect}, grid=1, block=1)


def test_every_type_has_a_capability_name_or_is_universal():
    assert set(TYPE_CAPABILITY) <= {t.name for t in ALL}
