"""Integer ops of the interpreter against Python's exact integers, over special and random values of every type."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from magpie.backends.interp.numerics import FOLDABLE, fold, implementation
from magpie.backends.interp.numerics.lanes import register_dtype
from magpie.dtypes import ALL_DTYPES, bool_, index
from magpie.ir.ops import OPS

INTS = [t for t in (*ALL_DTYPES, index) if t.is_int]


def values(t, n=24, seed=0):
    rng = random.Random(f"{t.name}{seed}")
    special = {0, 1, 2, 3, 5, 7, t.max, t.max - 1, t.min, t.min + 1, t.max // 2, t.max // 2 + 1, t.bits - 1, t.bits}
    special |= {-1, -2, -3, -7} if t.kind == "int" else set()
    return sorted(special) + [rng.randint(t.min, t.max) >> rng.randrange(t.bits) for _ in range(n)]


def wrap(t, v):
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.kind == "int" and v >> (t.bits - 1) else v


def unsigned(t, v):
    return v & ((1 << t.bits) - 1)


def tdiv(t, a, b):
    if b == 0:
        return 0
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def ipow(t, a, b):
    if b < 0:
        return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)
    return pow(a, b, 1 << t.bits)


BINARY = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "floordiv": lambda t, a, b: a // b if b else 0,
    "mod": lambda t, a, b: a % b if b else 0,
    "tdiv": tdiv,
    "trem": lambda t, a, b: a - tdiv(t, a, b) * b if b else 0,
    "pow": ipow,
    "min": lambda t, a, b: min(a, b),
    "max": lambda t, a, b: max(a, b),
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "shl": lambda t, a, b: a << (b % t.bits),
    "shr": lambda t, a, b: a >> (b % t.bits),
}
UNARY = {
    "neg": lambda t, a: -a,
    "abs": lambda t, a: abs(a),
    "not": lambda t, a: ~a,
    "popcount": lambda t, a: unsigned(t, a).bit_count(),
    "clz": lambda t, a: t.bits - unsigned(t, a).bit_length(),
    "ctz": lambda t, a: (unsigned(t, a) & -unsigned(t, a)).bit_length() - 1 if a else t.bits,
}
COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def run(op, result, types, *columns):
    args = [np.array(c, register_dtype(t)) for c, t in zip(columns, types, strict=True)]
    with np.errstate(all="ignore"):
        found = implementation(op, result, types)(*args)
    assert found.dtype == register_dtype(result)
    return found.tolist()


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, t):
    a, b = zip(*itertools.product(values(t), values(t, seed=1)), strict=True)
    assert run(op, t, (t, t), a, b) == [wrap(t, BINARY[op](t, x, y)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, t):
    a = values(t, 200)
    assert run(op, t, (t,), a) == [wrap(t, UNARY[op](t, x)) for x in a]


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", COMPARE)
def test_compare(op, t):
    a, b = zip(*itertools.product(values(t), values(t)), strict=True)
    assert run(op, bool_, (t, t), a, b) == [COMPARE[op](x, y) for x, y in zip(a, b, strict=True)]


def test_trip_count():
    edge = [-(2**63), -(2**63) + 1, -7, -1, 0, 1, 2, 10, 2**63 - 2, 2**63 - 1]
    start, stop, step = zip(*itertools.product(edge, edge, edge), strict=True)
    expect = [
        min(len_of_range(a, b, c), 2**63 - 1) if c else 0 for a, b, c in zip(start, stop, step, strict=True)
    ]
    assert run("trip_count", index, (index,) * 3, start, stop, step) == expect


def len_of_range(a, b, c):
    return max(0, (b - a + c - 1) // c) if c > 0 else max(0, (a - b - c - 1) // -c)


def test_bools():
    table = [(a, b) for a in (False, True) for b in (False, True)]
    a, b = zip(*table, strict=True)
    assert run("and", bool_, (bool_, bool_), a, b) == [x and y for x, y in table]
    assert run("or", bool_, (bool_, bool_), a, b) == [x or y for x, y in table]
    assert run("xor", bool_, (bool_, bool_), a, b) == [x != y for x, y in table]
    assert run("not", bool_, (bool_,), a) == [not x for x in a]


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", [*BINARY, *UNARY])
def test_scalars_are_as_arrays_and_folding_as_both(op, t):
    count = 2 if op in BINARY else 1
    oracle = BINARY.get(op) or UNARY[op]
    for args in itertools.product([0, 1, 3, t.min, t.max], repeat=count):
        with np.errstate(all="ignore"):
            found = implementation(op, t, (t,) * count)(*(register_dtype(t).type(v) for v in args))
        assert not isinstance(found, np.ndarray)
        assert int(found) == wrap(t, oracle(t, *args))
        folded = fold(op, t, (t,) * count, args)
        assert folded == int(found)
        assert type(folded) is int


def test_every_value_op_of_the_table_is_implemented():
    value_ops = {
        name
        for name, row in OPS.items()
        if row.pure and row.operands and name not in ("struct_make", "struct_get", "uniform", "ptr", "ptr_add", "ptr_valid")
    }
    assert value_ops <= FOLDABLE


@pytest.mark.filterwarnings("error")
def test_folding_gives_no_warnings():
    assert fold("floordiv", INTS[2], (INTS[2],) * 2, (1, 0)) == 0
    assert fold("mul", INTS[2], (INTS[2],) * 2, (INTS[2].max, 2)) == -2
