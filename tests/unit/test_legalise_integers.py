"""Integer ops out of those that machines have: the same bits as the op table, at every corner of it."""

from __future__ import annotations

import pytest
from legal_tools import TARGETS, WORDS, check, integers, legal, op_kernel, pairs, run

from magpie.dtypes import i8, i16, i32, i64, u8, u16, u32, u64
from magpie.ir.nodes import walk

INTS = (i8, i16, i32, i64, u8, u16, u32, u64)


@pytest.fixture(params=["words", "narrow", "bare"])
def target(request):
    return TARGETS[request.param]


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", ["floordiv", "mod", "tdiv", "trem", "shl", "shr", "min", "max", "add", "sub", "mul"])
def test_two_operands(op, t, target):
    check(op, (t, t), t, pairs(t), target)


@pytest.mark.parametrize("t", INTS, ids=str)
def test_powers(t, target):
    check("pow", (t, t), t, pairs(t), target)
    for n in (0, 1, 2, 3, 10, 63) + ((-1, -2) if t.min < 0 else ()):
        check("pow", (t, t), t, pairs(t), target, n)


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", ["abs", "neg", "not", "popcount", "clz", "ctz"])
def test_one_operand(op, t, target):
    check(op, (t,), t, [integers(t)], target)


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", ["floordiv", "mod", "tdiv", "trem", "shl", "shr"])
def test_constant_divisors_and_counts(op, t, target):
    for n in (0, 1, 2, 3, 7, 8, 10, 64, 65, t.max, t.min) + ((-1, -2, -3, -8) if t.min < 0 else ()):
        check(op, (t, t), t, pairs(t), target, n)


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("u", INTS, ids=str)
def test_casts_between_integers(t, u, target):
    check("cast", (t,), u, [integers(t)], target)


def test_python_and_c_agree_with_the_division():
    """Python's own // and %, on 32 bits."""
    x, y = pairs(i32)
    found = {}
    for op in ("floordiv", "mod", "tdiv", "trem"):
        found[op] = run(legal(op_kernel(op, (i32, i32), i32), WORDS), [x, y], i32)
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        down = a // b if b else 0
        toward = (abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))) if b else 0
        want = {"floordiv": down, "mod": a % b if b else 0, "tdiv": toward, "trem": a - toward * b if b else 0}
        for op, v in want.items():
            assert int(found[op][k]) == (v + 2**31) % 2**32 - 2**31, (op, a, b)


def test_a_divisor_known_to_be_positive_is_not_guarded():
    """The quotient by a constant, and by the number of work-items, is one division."""
    kernel = legal(op_kernel("floordiv", (u32, u32), u32, 10), WORDS)
    assert [n.op for n in walk(kernel.body)].count("tdiv") == 1
    assert not any(n.op in ("select", "eq") for n in walk(kernel.body))
