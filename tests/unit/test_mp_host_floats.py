"""Floats of host programs: against NumPy, ml_dtypes and exact fractions, for f16, bf16, f32 and f64."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from host_tools import binary, call, function, program
from hypothesis import given, settings
from hypothesis import strategies as st

from magpie.host.rounding import round_exact, rounding
from magpie.host.text import scalar_text
from magpie.mpir.types import Ty

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
TYPES = list(NUMPY)
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def same(a, b):
    """One number, with the sign of a zero; all NaN are one."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def from_bits(bits, type_):
    return float(np.array(bits, f"uint{BITS[type_]}").view(NUMPY[type_]))


def samples(type_, rng, count=40):
    """Numbers of all sizes, subnormal ones, halves of steps, infinities, NaN."""
    width = BITS[type_]
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[type_]
    one = int(np.array(1, NUMPY[type_]).view(f"uint{width}"))
    top = (1 << (width - 1)) - (1 << fraction)  # infinity
    fixed = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, one, one + 1, one - 1, top - 1, top, top + (1 << (fraction - 1))]
    fixed += [f | 1 << (width - 1) for f in fixed]
    near = [one + rng.randrange(-(4 << fraction), 4 << fraction) for _ in range(count // 2)]
    return [from_bits(b, type_) for b in (*fixed, *near, *(rng.getrandbits(width) for _ in range(count // 2)))]


def numpy_result(op, x, y, type_):
    kind = NUMPY[type_]
    with np.errstate(all="ignore"):
        a, b = kind(x), kind(y)
        if type_ == "bf16":  # in f64 and rounded: ml_dtypes rounds what it computed in f32
            a, b = np.float64(x), np.float64(y)
        if op == "rem":
            found = np.fmod(a, b)
        else:
            found = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](a, b)
        return float(kind(found))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "rem"])
def test_arithmetic(op, type_):
    names = [f"f.{op}", f"f.{op}.fast"] + ([f"bf16.{op}"] if type_ == "bf16" and op != "rem" else [])
    ready = program("".join(binary(name, type_).replace("@f", f"@f{k}") for k, name in enumerate(names)))
    values = samples(type_, random.Random(op + type_))
    for k, name in enumerate(names):
        for x in values:
            for y in values:
                want = numpy_result(op, x, y, type_)
                if type_ == "bf16" and math.isfinite(want):  # f64 to bf16 of ml_dtypes rounds twice
                    want = exact_result(op, x, y)
                assert same(ready.call(f"f{k}", (x, y)), want), (name, x, y)


def exact_result(op, x, y):
    """The bf16 nearest to the exact result, by fractions."""
    if op == "rem":
        return math.fmod(x, y)
    if not (math.isfinite(x) and math.isfinite(y)):
        return numpy_result(op, x, y, "f64")
    a, b = Fraction(x), Fraction(y)
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b if b else None}[op]
    if not exact:
        return numpy_result(op, x, y, "f32")  # a zero, with the sign that IEEE gives it
    return by_search(exact)


def by_search(exact):
    """The nearest bf16, of two the even one, by looking among all that there are."""
    bits = np.arange(0x7F80, dtype=np.uint32) << 16
    table = bits.view(np.float32).astype(np.float64)
    at = int(np.searchsorted(table, float(abs(exact))))
    near = [k for k in (at - 2, at - 1, at, at + 1) if 0 <= k < len(table)]
    best = min(near, key=lambda k: (abs(Fraction(float(table[k])) - abs(exact)), k % 2))
    found = float(table[best])
    if best == len(table) - 1 and abs(exact) >= Fraction(2) ** 127 * (2 - Fraction(1, 256)):
        found = math.inf
    return math.copysign(found, -1 if exact < 0 else 1)


@pytest.mark.parametrize("type_", TYPES)
def test_comparisons(type_):
    unordered = lambda x, y: x != x or y != y  # noqa: E731
    basic = {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x < y or x > y,
        "lt": lambda x, y: x < y,
        "gt": lambda x, y: x > y,
        "le": lambda x, y: x <= y,
        "ge": lambda x, y: x >= y,
    }
    rules = {f"o{n if n != 'ne' else 'ne'}": f for n, f in basic.items()}
    rules |= {f"u{n}": lambda x, y, f=f: unordered(x, y) or f(x, y) for n, f in basic.items()}
    rules |= {"ord": lambda x, y: not unordered(x, y), "uno": unordered}
    ready = program("".join(binary(f"fcmp.{n}", type_, "bool").replace("@f", f"@{n}") for n in rules))
    values = samples(type_, random.Random(5), 10)
    for n, rule in rules.items():
        for x in values:
            for y in values:
                assert ready.call(n, (x, y)) is rule(x, y), (n, x, y)


INTS = [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64, 128)]


@pytest.mark.parametrize("type_", TYPES)
def test_casts_to_integers_saturate(type_):
    ready = program(
        "".join(
            function(f"%x: {type_}", to, f"    %r: {to} = cast<{type_}, {to}> {{ v=%x }}\n    ret %r", to)
            for to in [*INTS, "bool"]
        )
    )
    for x in [*samples(type_, random.Random(9)), 0.5, -0.5, 1.5, 127.5, -128.75, 255.5]:
        for to in INTS:
            bits = int(to[1:])
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if to[0] == "i" else (0, 2**bits - 1)
            if x != x:
                want = 0
            elif math.isinf(x):
                want = high if x > 0 else low
            else:
                want = min(max(math.trunc(Fraction(x)), low), high)
            assert ready.call(to, (x,)) == want, (to, x)
        assert ready.call("bool", (x,)) is (x != 0)


@pytest.mark.parametrize("to", TYPES)
def test_casts_from_integers_round_once(to):
    rng = random.Random(to)
    with mpmath.workprec({"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[to]):
        for source in INTS:
            bits = int(source[1:])
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if source[0] == "i" else (0, 2**bits - 1)
            ready = program(
                function(f"%x: {source}", to, f"    %r: {to} = cast<{source}, {to}> {{ v=%x }}\n    ret %r")
            )
            ties = [(2 * rng.getrandbits(30) + 1) << s for s in range(0, 90, 3)]
            ties += [t + d for t in ties for d in (-1, 1)] + [(1 << s) + (1 << (s - k)) + d for s in range(20, 127, 7) for k in (8, 9, 11, 12, 24, 25) if s > k for d in (-1, 0, 1)]  # fmt: skip
            for x in [low, high, 0, 1, *ties, *(-t for t in ties), *(rng.randint(low, high) for _ in range(50))]:
                if low <= x <= high:
                    want = float(mpmath.mpf(x))
                    largest = float(np.finfo(np.float16).max) if to == "f16" else math.inf
                    if to in ("bf16", "f32") and abs(want) >= 2.0**128:
                        want = math.copysign(math.inf, want)
                    want = math.copysign(math.inf, want) if abs(want) > largest else want
                    assert ready.call("f", (x,)) == want, (source, x)


PAIRS = [(a, b) for a in TYPES for b in TYPES if not ({a, b} == {"bf16", "f16"} or {a, b} == {"bf16", "f64"})]


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_casts_between_floats(source, to):
    ready = program(
        function(f"%x: {source}", to, f"    %r: {to} = cast<{source}, {to}> {{ v=%x }}\n    ret %r")
    )
    with np.errstate(all="ignore"):
        for x in samples(source, random.Random(source + to), 400):
            assert same(ready.call("f", (x,)), float(NUMPY[source](x).astype(NUMPY[to]))), x


def test_bf16_from_f64_rounds_once():
    ready = program(function("%x: f64", "bf16", "    %r: bf16 = f64.to_bf16 { v=%x }\n    ret %r"))
    x = 1 + 2**-8 + 2**-40  # above the tie; through f32 it would be the tie, and round to even
    assert ready.call("f", (x,)) == 1 + 2**-7 and ready.call("f", (1 + 2**-8,)) == 1.0
    for x in samples("f64", random.Random(2), 400):
        if math.isfinite(x):
            want = by_search(Fraction(x)) if x else x
            assert same(ready.call("f", (x,)), want), x


def test_bf16_and_f32():
    up = function("%x: bf16", "f32", "    %r: f32 = bf16.to_f32 { v=%x }\n    ret %r")
    down = function("%x: f32", "bf16", "    %r: bf16 = f32.to_bf16 { v=%x }\n    ret %r")
    for x in samples("bf16", random.Random(1)):
        assert same(call(up, x), x)
    assert call(down, 1 + 2.0**-8) == 1.0 and call(down, 3.4028234663852886e38) == math.inf


@settings(deadline=None, max_examples=400)
@given(st.floats(width=64), st.sampled_from(["f16", "f32"]))
def test_rounding_is_that_of_numpy(x, type_):
    with np.errstate(all="ignore"):
        assert same(rounding(type_)(x), float(NUMPY[type_](x)))


@settings(deadline=None, max_examples=300)
@given(st.fractions(min_value=-(10**40), max_value=10**40), st.sampled_from(TYPES))
def test_rounding_of_exact_numbers(exact, type_):
    found = round_exact(exact, type_)
    if math.isinf(found):
        assert abs(exact) >= Fraction(float(np.finfo(np.float16).max if type_ == "f16" else 3.3e38))
        return
    kind = NUMPY[type_]
    for other in (np.nextafter(kind(found), kind(np.inf)), np.nextafter(kind(found), kind(-np.inf))):
        if math.isfinite(float(other)):
            assert abs(Fraction(found) - exact) <= abs(Fraction(float(other)) - exact)


# --- as text ----------------------------------------------------------------------------------------------------------
def numpy_text(x, kind):
    """NumPy's shortest digits in the layout of Python."""
    if not math.isfinite(x):
        return repr(float(x))
    digits = np.format_float_scientific(kind(x), unique=True, trim="-")
    mantissa, _, exponent = digits.partition("e")
    if x == 0 or -4 <= int(exponent) < 16:
        return np.format_float_positional(kind(x), unique=True, trim="0")
    return f"{mantissa}e{int(exponent):+03d}"


@pytest.mark.parametrize("type_", ["f16", "f32"])
def test_text_is_the_shortest(type_):
    for x in samples(type_, random.Random(type_), 3000):
        assert scalar_text(x, Ty(type_)) == numpy_text(x, NUMPY[type_])


def test_text_of_f64_is_the_shortest():
    for x in samples("f64", random.Random(4), 300):
        assert scalar_text(x, Ty("f64")) == repr(x)
    assert scalar_text(1e16, Ty("f64")) == "1e+16" and scalar_text(-0.0, Ty("f64")) == "-0.0"


def test_text_of_bf16_reads_back_and_is_the_shortest():
    for bits in range(0x7F80):
        x = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        text = scalar_text(x, Ty("bf16"))
        assert float(ml_dtypes.bfloat16(float(text))) == x
        if bits % 97 == 0 and x:  # no text with a digit less reads back
            digits = len(text.partition("e")[0].replace(".", "").strip("0"))
            exponent = math.floor(math.log10(x))
            unit = Fraction(10) ** (exponent - digits + 2)
            for n in range(int(x / unit) - 1, int(x / unit) + 3):
                assert digits == 1 or float(ml_dtypes.bfloat16(float(n * unit))) != x, text


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32"])
def test_literals_are_rounded_once(type_):
    """Between neighbours, a little below the middle is the lower one, the middle the even one, above it the upper."""
    rng = random.Random(type_)
    one = int(np.array(1, NUMPY[type_]).view(f"uint{BITS[type_]}"))
    lines, wanted = [], []
    with localcontext() as context:
        context.prec = 500
        for bits in [0, 1, one - 1, one, one + 1, *(rng.randrange(2 * one - 1) for _ in range(60))]:
            low, high = (Decimal(from_bits(b, type_)) for b in (bits, bits + 1))
            middle = (low + high) / 2
            for text, value in [
                (middle - middle / 10**30, low),
                (middle, low if bits % 2 == 0 else high),
                (middle + middle / 10**30, high),
            ]:
                for sign in ("", "-"):
                    lines.append(f"    %x{len(wanted)}: {type_} = const.{type_} {sign}{text:e}")
                    wanted.append(math.copysign(float(value), -1 if sign else 1))
    values = ", ".join(f"v{k}=%x{k}" for k in range(len(wanted)))
    lines += [f"    %r: Array<{type_}> = arr.new {{ {values} }}", "    ret %r"]
    found = call(function("", f"Array<{type_}>", "\n".join(lines))).items
    assert all(map(same, found, wanted))
