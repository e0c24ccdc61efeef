"""Comparisons, chains, selection and logic: value-correct across signs and widths, NaN as IEEE has it."""

from __future__ import annotations

import math

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import ALL, BOOL, INTS, NUMS, map1, map2, pairs, values


@mp.kernel
def k_compare(x, y, eq, ne, lt, le, gt, ge):
    i = mp.global_id(0)
    if i < x.shape[0]:
        eq[i] = x[i] == y[i]
        ne[i] = x[i] != y[i]
        lt[i] = x[i] < y[i]
        le[i] = x[i] <= y[i]
        gt[i] = x[i] > y[i]
        ge[i] = x[i] >= y[i]


@mp.kernel
def k_equal_bool(x, y, eq, ne):
    i = mp.global_id(0)
    if i < x.shape[0]:
        eq[i] = x[i] == y[i]
        ne[i] = x[i] != y[i]


@mp.kernel
def k_chain(x, y, z, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] < y[i] <= z[i]


@mp.kernel
def k_long_chain(x, y, z, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = 0 < x[i] < y[i] != z[i] > 1


@mp.kernel
def k_literal_compare(x, a, b, c):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a[i] = x[i] > 3
        b[i] = 100 >= x[i]
        c[i] = x[i] == 7


@mp.kernel
def k_not(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = not x[i]


@mp.kernel
def k_truth(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if x[i]:
            out[i] = 1
        else:
            out[i] = 0


@mp.kernel
def k_select(c, x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.select(c[i], x[i], y[i])


@mp.kernel
def k_conditional(c, x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] if c[i] else y[i]


@mp.kernel
def k_nested_conditional(x, lo, hi, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = lo[0] if x[i] < lo[0] else hi[0] if x[i] > hi[0] else x[i]


@mp.kernel
def k_and_or_conditions(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if (x[i] > 0 and y[i] > 0) or (x[i] < 0 and not y[i] > 0):
            out[i] = 1
        elif x[i] == 0 or y[i] == 0:
            out[i] = 2
        else:
            out[i] = 3


@mp.kernel
def k_short_circuit_guards_an_index(x, table, out):
    # table[x[i]] must not be read where x[i] is out of bounds
    i = mp.global_id(0)
    if i < out.shape[0]:
        j = x[i]
        if 0 <= j and j < table.shape[0] and table[j] > 0:
            out[i] = table[j]
        elif j < 0 or j >= table.shape[0] or table[j] < -5:
            out[i] = -100
        else:
            out[i] = 0


@mp.kernel
def k_conditional_guards_an_index(x, table, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        j = x[i]
        out[i] = table[j] if 0 <= j < table.shape[0] else -1


@mp.kernel
def k_walrus_free_chain(x, out):
    # the middle operand of a chain is evaluated once: an atomic there must count once
    i = mp.global_id(0)
    if i < x.shape[0]:
        if 0 <= mp.atomic_add(out, 0, 1) < 1000000:
            mp.atomic_add(out, 1, 1)


_FLIP = {"eq": "ne", "lt": "ge", "le": "gt"}


@case(dtypes=NUMS)
def test_comparisons(t):
    x, y = pairs(t)
    outs = tuple(empty(x.size, BOOL) for _ in range(6))
    ops = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    import operator

    expect = {2 + k: map2(getattr(operator, name), x, y, BOOL) for k, name in enumerate(ops)}
    return Run(k_compare, (x, y, *outs), expect)


@case(dtypes=(BOOL,))
def test_comparisons_of_bool(t):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    return Run(k_equal_bool, (x, y, empty(4, t), empty(4, t)), {2: x == y, 3: x != y})


_MIXED = [(a, b) for a in INTS for b in INTS if a.kind != b.kind]


@case(dtypes=_MIXED)
def test_comparisons_of_mixed_sign_are_value_correct(t):
    x, y = pairs(*t)
    outs = tuple(empty(x.size, BOOL) for _ in range(6))
    import operator

    ops = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    return Run(k_compare, (x, y, *outs), {2 + k: map2(op, x, y, BOOL) for k, op in enumerate(ops)})


@case(dtypes=(mp.i32, mp.u64, mp.f32, mp.f16))
def test_chained_comparison(t):
    x, y = pairs(t)
    z = np.roll(x, 5)
    rows = zip(o.items(x), o.items(y), o.items(z), strict=True)
    return Run(k_chain, (x, y, z, empty(x.size, BOOL)), {3: np.array([a < b <= c for a, b, c in rows])})


@case(dtypes=(mp.i32, mp.f64))
def test_long_chain_with_literals(t):
    x, y = pairs(t)
    z = np.roll(x, 3)
    rows = zip(o.items(x), o.items(y), o.items(z), strict=True)
    return Run(k_long_chain, (x, y, z, empty(x.size, BOOL)), {3: np.array([0 < a < b != c > 1 for a, b, c in rows])})


@case(dtypes=NUMS)
def test_comparison_with_literals(t):
    x = values(t, 66)
    v = o.items(x)
    outs = tuple(empty(66, BOOL) for _ in range(3))
    return Run(
        k_literal_compare,
        (x, *outs),
        {1: np.array([a > 3 for a in v]), 2: np.array([100 >= a for a in v]), 3: np.array([a == 7 for a in v])},
    )


@case(dtypes=ALL)
def test_not(t):
    x = values(t, 66)
    return Run(k_not, (x, empty(66, BOOL)), {1: map1(lambda a: not a, x, BOOL)})


@case(dtypes=ALL)
def test_truth_of_a_number(t):
    # NaN is true, -0.0 is false
    x = values(t, 66)
    return Run(k_truth, (x, empty(66, mp.i32)), {1: map1(lambda a: 1 if a else 0, x, mp.i32)})


@case(dtypes=ALL)
def test_select(t):
    x, y = values(t, 100, 1), values(t, 100, 2)[::-1].copy()
    c = np.random.default_rng(0).integers(0, 2, 100).astype(bool)
    return Run(k_select, (c, x, y, empty(100, t)), {3: np.where(c, x, y)})


@case(dtypes=ALL)
def test_conditional_expression(t):
    x, y = values(t, 100, 1), values(t, 100, 2)[::-1].copy()
    c = np.random.default_rng(0).integers(0, 2, 100).astype(bool)
    return Run(k_conditional, (c, x, y, empty(100, t)), {3: np.where(c, x, y)})


@case(dtypes=(mp.i32, mp.u8, mp.f32, mp.bf16), gangs=True)
def test_nested_conditional_expression(t):
    x = values(t, 100)
    lo, hi = np.array([2], t.numpy), np.array([9], t.numpy)
    f = lambda a: a if math.isnan(a) else 2 if a < 2 else 9 if a > 9 else a  # noqa: E731
    return Run(k_nested_conditional, (x, lo, hi, empty(100, t)), {3: map1(f, x, t)})


@case(dtypes=(mp.i32, mp.f32), gangs=True)
def test_and_or_not_as_conditions(t):
    x, y = pairs(t)

    def f(a, b):
        if (a > 0 and b > 0) or (a < 0 and not b > 0):
            return 1
        return 2 if a == 0 or b == 0 else 3

    return Run(k_and_or_conditions, (x, y, empty(x.size, mp.i32)), {2: map2(f, x, y, mp.i32)})


@case(dtypes=(mp.i32, mp.i64), gangs=True)
def test_short_circuit_protects_an_index(t):
    table = np.array([3, -9, 0, 8, -1], np.int32)
    x = np.concatenate([np.arange(-4, 9), [t.max, t.min, 10**6, -(10**6)]]).astype(t.numpy)

    def f(j):
        if 0 <= j < 5 and table[j] > 0:
            return int(table[j])
        return -100 if j < 0 or j >= 5 or table[j] < -5 else 0

    return Run(k_short_circuit_guards_an_index, (x, table, empty(x.size, mp.i32)), {2: map1(f, x, mp.i32)})


@case(dtypes=(mp.i32,), gangs=True)
def test_conditional_expression_protects_an_index(t):
    table = np.array([3, -9, 0, 8, -5], np.int32)
    x = np.concatenate([np.arange(-4, 9), [t.max, t.min]]).astype(t.numpy)
    f = lambda j: int(table[j]) if 0 <= j < 5 else -1  # noqa: E731
    return Run(k_conditional_guards_an_index, (x, table, empty(x.size, mp.i32)), {2: map1(f, x, mp.i32)})


@case()
def test_the_middle_of_a_chain_is_evaluated_once():
    x, out = np.zeros(100, np.int32), np.zeros(2, np.int32)
    return Run(k_walrus_free_chain, (x, out), {1: np.array([100, 100])}, grid=2)
