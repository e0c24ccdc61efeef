"""Integers of host programs at all widths, against Python's own: what fits, what panics, what wraps."""

from __future__ import annotations

import random

import pytest
from host_tools import binary, call, function, program

from magpie.host.panics import Panic

TYPES = [f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64, 128)]


def bits_of(type_):
    return int(type_[1:])


def span(type_):
    n = bits_of(type_)
    return (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if type_[0] == "i" else (0, 2**n - 1)


def as_type(value, type_):
    """The number of the type with these low bits."""
    n = bits_of(type_)
    value %= 2**n
    return value - 2**n if type_[0] == "i" and value >= 2 ** (n - 1) else value


def as_signed(value, type_):
    return as_type(value, "i" + type_[1:])


def as_unsigned(value, type_):
    return as_type(value, "u" + type_[1:])


def samples(type_, rng):
    low, high = span(type_)
    edges = [low, low + 1, high, high - 1, 0, 1, -1, 2, 3, 7, low // 2, high // 2, bits_of(type_), bits_of(type_) - 1]
    found = {v for v in edges if low <= v <= high}
    while len(found) < min(24, high - low + 1):
        found.add(rng.randint(low, high) >> rng.choice((0, 0, bits_of(type_) // 2)))
    return sorted(found)


def truncated(x, y):
    """The quotient toward zero by the remainder of C, which has the sign of x."""
    r = x % y
    if r and (r < 0) != (x < 0):
        r -= y
    return (x - r) // y, r


OVERFLOW, ZERO, WIDTH = "overflows", "divides by zero", "shifts"


def fitting(value, type_):
    low, high = span(type_)
    return value if low <= value <= high else OVERFLOW


def signed_division(part):
    def divide(x, y, t):
        x, y = as_signed(x, t), as_signed(y, t)
        if y == 0:
            return ZERO
        found = fitting(part(x, y), "i" + t[1:])
        return found if found == OVERFLOW else as_type(found, t)

    return divide


def unsigned_division(part):
    def divide(x, y, t):
        x, y = as_unsigned(x, t), as_unsigned(y, t)
        return as_type(part(x, y), t) if y else ZERO

    return divide


def shift(fn):
    def move(x, y, t):
        count = as_unsigned(y, t)
        return as_type(fn(x, count, t), t) if count < bits_of(t) else WIDTH

    return move


CHECKED = {
    "i.add": lambda x, y, t: fitting(x + y, t),
    "i.sub": lambda x, y, t: fitting(x - y, t),
    "i.mul": lambda x, y, t: fitting(x * y, t),
    "i.sdiv": signed_division(lambda x, y: truncated(x, y)[0]),
    "i.srem": signed_division(lambda x, y: truncated(x, y)[1]),
    "i.udiv": unsigned_division(lambda x, y: x // y),
    "i.urem": unsigned_division(lambda x, y: x % y),
}
OTHER = {
    "i.and": lambda x, y, t: x & y,
    "i.or": lambda x, y, t: x | y,
    "i.xor": lambda x, y, t: x ^ y,
    "i.shl": shift(lambda x, n, t: x << n),
    "i.lshr": shift(lambda x, n, t: as_unsigned(x, t) >> n),
    "i.ashr": shift(lambda x, n, t: as_signed(x, t) >> n),
    "i.floordiv": signed_division(lambda x, y: x // y),
    "i.mod": signed_division(lambda x, y: x % y),
    "i.smin": lambda x, y, t: min(x, y, key=lambda v: as_signed(v, t)),
    "i.smax": lambda x, y, t: max(x, y, key=lambda v: as_signed(v, t)),
    "i.umin": lambda x, y, t: min(x, y, key=lambda v: as_unsigned(v, t)),
    "i.umax": lambda x, y, t: max(x, y, key=lambda v: as_unsigned(v, t)),
}
COMPARES = {
    "icmp.eq": lambda x, y, t: x == y,
    "icmp.ne": lambda x, y, t: x != y,
    **{
        f"icmp.{letter}{name}": (lambda x, y, t, f=f, view=view: f(view(x, t), view(y, t)))
        for letter, view in (("s", as_signed), ("u", as_unsigned))
        for name, f in (
            ("lt", lambda a, b: a < b),
            ("gt", lambda a, b: a > b),
            ("le", lambda a, b: a <= b),
            ("ge", lambda a, b: a >= b),
        )
    },
}
UNARY = {
    "i.not": lambda x, t: as_type(~x, t),
    "i.neg": lambda x, t: fitting(-x, t),
    "i.popcount": lambda x, t: as_type(bin(as_unsigned(x, t)).count("1"), t),
    "i.clz": lambda x, t: as_type(len(f"{as_unsigned(x, t):0{bits_of(t)}b}".split("1")[0]), t),
    "i.ctz": lambda x, t: as_type(len(f"{as_unsigned(x, t):0{bits_of(t)}b}".split("1")[-1]), t),
}


def outcome(ready, name, *arguments):
    """The value, or which fault it is."""
    try:
        return ready.call(name, arguments)
    except Panic as panic:
        (found,) = [word for word in (OVERFLOW, ZERO, WIDTH) if word in panic.text]
        return found


@pytest.mark.parametrize("type_", TYPES)
def test_binary_operations(type_):
    names = {op: k for k, op in enumerate([*CHECKED, *(f"{op}.checked" for op in CHECKED), *OTHER])}
    ready = program("".join(binary(op, type_).replace("@f", f"@f{k}") for op, k in names.items()))
    values = samples(type_, random.Random(type_))
    for op, k in names.items():
        oracle = {**CHECKED, **OTHER}[op.removesuffix(".checked")]
        for x in values:
            for y in values:
                assert outcome(ready, f"f{k}", x, y) == oracle(x, y, type_), (op, type_, x, y)


@pytest.mark.parametrize("type_", TYPES)
def test_wrapping_operations(type_):
    wraps = {
        "i.add": lambda x, y: x + y,
        "i.sub": lambda x, y: x - y,
        "i.mul": lambda x, y: x * y,
        "i.sdiv": lambda x, y: truncated(as_signed(x, type_), as_signed(y, type_))[0],
        "i.srem": lambda x, y: truncated(as_signed(x, type_), as_signed(y, type_))[1],
        "i.udiv": lambda x, y: as_unsigned(x, type_) // as_unsigned(y, type_),
        "i.urem": lambda x, y: as_unsigned(x, type_) % as_unsigned(y, type_),
    }
    ready = program("".join(binary(f"{op}.wrap", type_).replace("@f", f"@{op[2:]}") for op in wraps))
    values = samples(type_, random.Random(type_))
    for op, exact in wraps.items():
        for x in values:
            for y in values:
                want = ZERO if y == 0 and op[-3:] in ("div", "rem") else as_type(exact(x, y), type_)
                assert outcome(ready, op[2:], x, y) == want, (op, type_, x, y)


@pytest.mark.parametrize("type_", TYPES)
def test_comparisons(type_):
    ready = program("".join(binary(op, type_, "bool").replace("@f", f"@{op[5:]}") for op in COMPARES))
    values = samples(type_, random.Random(type_))
    for op, oracle in COMPARES.items():
        for x in values:
            for y in values:
                found = ready.call(op[5:], (x, y))
                assert found is oracle(x, y, type_), (op, type_, x, y)


@pytest.mark.parametrize("type_", TYPES)
def test_operations_of_one(type_):
    one = "    %r: {t} = {op} {{ v=%x }}\n    ret %r"
    ready = program("".join(function(f"%x: {type_}", type_, one.format(t=type_, op=op), op[2:]) for op in UNARY))
    for op, oracle in UNARY.items():
        for x in samples(type_, random.Random(type_)):
            assert outcome(ready, op[2:], x) == oracle(x, type_), (op, type_, x)


def test_the_absolute_value_takes_the_bits_as_signed():
    one = "    %r: {0} = i.abs {{ v=%x }}\n    ret %r"
    assert call(function("%x: i8", "i8", one.format("i8")), -127) == 127
    assert call(function("%x: u8", "u8", one.format("u8")), 255) == 1
    with pytest.raises(Panic, match="i.abs overflows i8"):
        call(function("%x: i8", "i8", one.format("i8")), -128)


@pytest.mark.parametrize("type_", ["i8", "u8", "i32", "u64", "i128"])
def test_powers(type_):
    name = "spow" if type_[0] == "i" else "upow"
    ready = program(binary(f"i.{name}", type_))
    rng = random.Random(3)
    bases = [v for v in (0, 1, 2, 3, -1, -2, 10, *samples(type_, rng)) if span(type_)[0] <= v <= span(type_)[1]]
    for x in bases:
        for y in [v for v in (0, 1, 2, 3, 5, 7, 31, 63, 127, span(type_)[1], -1, -2, -3) if v <= span(type_)[1]]:
            if y < span(type_)[0]:
                continue
            if y >= 0:
                want = fitting(x**y, type_) if y < 200 or x in (0, 1, -1) and y < 300 else OVERFLOW
                if x in (0, 1, -1) and y >= 200:
                    want = {0: 0, 1: 1}.get(x, -1 if y % 2 else 1)
            else:
                want = ZERO if x == 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
            assert outcome(ready, "f", x, y) == want, (x, y)


def test_the_bits_of_bools():
    for op, want in (("i.and", False), ("i.or", True), ("i.xor", True)):
        assert call(binary(op, "bool"), True, False) is want
    assert call(function("%a: bool", "bool", "    %r: bool = i.not { v=%a }\n    ret %r"), True) is False
    assert call(binary("icmp.ult", "bool", "bool"), False, True) is True


def test_trip_counts():
    text = function(
        "%a: i64, %b: i64, %c: i64",
        "i64",
        "    %r: i64 = i.trip_count { start=%a, stop=%b, step=%c }\n    ret %r",
    )
    ready = program(text)
    for start, stop, step in ((0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (-(2**63), 2**63 - 1, 7)):
        assert ready.call("f", (start, stop, step)) == min(len_of(range(start, stop, step)), 2**63 - 1)
    assert ready.call("f", (0, 10, 0)) == 0


def len_of(values):
    return max(0, (values[-1] - values[0]) // values.step + 1) if values else 0


@pytest.mark.parametrize("source", TYPES)
def test_casts_between_integers(source):
    text = "".join(
        function(f"%x: {source}", to, f"    %r: {to} = cast<{source}, {to}> {{ v=%x }}\n    ret %r", to) for to in TYPES
    )
    ready = program(text)
    for to in TYPES:
        for x in samples(source, random.Random(source)):
            assert ready.call(to, (x,)) == as_type(x, to)


def test_the_bit_of_i1_is_minus_one():
    text = "fn @f() -> bool {\nbb0:\n    %r: bool = icmp.slt { a=const.i1 1, b=const.i1 0 }\n    ret %r\n}\n"
    assert call(text) is True and call(text.replace("slt", "ult")) is False
