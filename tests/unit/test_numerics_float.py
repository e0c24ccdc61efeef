"""Floating point ops of the interpreter against exact rational arithmetic, mpmath and CPython."""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from magpie.backends.interp.numerics import fold, implementation
from magpie.backends.interp.numerics.lanes import bf16_bits, register_dtype
from magpie.dtypes import bf16, bool_, f16, f32, f64, i32

FLOATS = (f16, bf16, f32, f64)
# precision in bits, least exponent of a normal number, largest finite number
FORMAT = {f16: (11, -14, 65504.0), bf16: (8, -126, 2.0**127 * (2 - 2**-7)), f32: (24, -126, 2.0**127 * (2 - 2**-23))}


def exact_round(t, x):
    """The float of type t nearest to a Fraction, ties to even; infinity past the range."""
    if x == 0:
        return 0.0
    if t is f64:
        try:
            return x.numerator / x.denominator
        except OverflowError:
            return math.inf if x > 0 else -math.inf
    p, low, largest = FORMAT[t]
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    while Fraction(2) ** e > size:
        e -= 1
    while Fraction(2) ** (e + 1) <= size:
        e += 1
    unit = Fraction(2) ** (max(e, low) - p + 1)
    quotient = size / unit
    n = quotient.numerator // quotient.denominator
    rest = quotient - n
    n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2 == 1)
    value = float(n * unit) if n * unit <= Fraction(largest) else math.inf
    return -value if x < 0 else value


def values(t, n=40, seed=0):
    """Special values and random bit patterns of t, as Python floats."""
    rng = random.Random(f"{t.name}{seed}")
    one = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.0, 3.0, -7.0, 0.1, 100.0, math.inf, -math.inf, math.nan, 1e-7, 65504.0]
    found = [fold("cast", t, (f64,), (v,)) for v in one]
    for _ in range(n):
        if t is f64:
            found.append(struct.unpack("d", rng.randbytes(8))[0])
        elif t is f32:
            found.append(struct.unpack("f", rng.randbytes(4))[0])
        elif t is f16:
            found.append(struct.unpack("e", rng.randbytes(2))[0])
        else:
            found.append(struct.unpack("f", b"\0\0" + rng.randbytes(2))[0])
    return found


def run(op, result, types, *columns):
    args = [np.array(c, register_dtype(t)) for c, t in zip(columns, types, strict=True)]
    with np.errstate(all="ignore"):
        found = implementation(op, result, types)(*args)
    assert found.dtype == register_dtype(result), (op, found.dtype)
    return found


def same(a, b):
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def check(found, expect, *columns):
    for i, (x, y) in enumerate(zip(found.astype(np.float64).tolist(), expect, strict=True)):
        assert same(x, y), (x, y, [c[i] for c in columns])


def finite(*xs):
    return all(math.isfinite(x) for x in xs)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_arithmetic_is_correctly_rounded(op, t):
    exact = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
    }[op]
    a, b = zip(*itertools.product(values(t), values(t, seed=1)), strict=True)
    found = run(op, t, (t, t), a, b).astype(np.float64).tolist()
    for x, y, z in zip(a, b, found, strict=True):
        if not finite(x, y) or (op == "div" and y == 0):
            continue
        want = exact_round(t, exact(Fraction(x), Fraction(y)))
        if t is bf16 and 0 < abs(want) < 2.0**-126:
            continue  # rounded in f32 first, as every target does: a tie of the subnormals may go either way
        assert z == want, (x, y, z, want)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_fma_rounds_once(t):
    a, b, c = zip(*itertools.product(values(t, 8), values(t, 8, 1), values(t, 8, 2)), strict=True)
    found = run("fma", t, (t, t, t), a, b, c).astype(np.float64).tolist()
    for x, y, z, r in zip(a, b, c, found, strict=True):
        if finite(x, y, z):
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            want = exact_round(t, exact) if exact else x * y + z
            assert r == want, (x, y, z, r, want)
        elif not finite(z) and finite(x, y):
            assert same(r, z)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_fma_where_two_roundings_go_wrong(t):
    rng = random.Random(f"fma{t.name}")
    p = 53 if t is f64 else FORMAT[t][0]
    a, b, c = [], [], []
    for _ in range(3000):  # products next to ties of the sum
        x = 1 + rng.randrange(1 << (p - 1)) * 2.0 ** (1 - p)
        y = 1 + rng.randrange(1 << (p - 1)) * 2.0 ** (1 - p)
        z = rng.choice((1, -1)) * 2.0 ** rng.randint(-2 * p, p + 2) * (1 + rng.randrange(2) * 2.0 ** (1 - p))
        x, y, z = (fold("cast", t, (f64,), (v,)) for v in (x, y, z))
        a.append(x), b.append(y), c.append(z)
    expect = [exact_round(t, Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    check(run("fma", t, (t, t, t), a, b, c), expect, a, b, c)


def test_fma_f64_at_the_ends_of_the_range():
    big, tiny = 1.7e308, 5e-324
    edge = [big, -big, tiny, -tiny, 2.0**-1022, 1e-300, 1e300, 1.0, -1.0, 2.0**-540, 2.0**511, 0.0, -0.0]
    a, b, c = zip(*itertools.product(edge, edge, edge), strict=True)
    expect = []
    for x, y, z in zip(a, b, c, strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if x == 0 or y == 0:
            expect.append(x * y + z)
        else:
            expect.append(exact_round(f64, exact) or math.copysign(0.0, exact))
    check(run("fma", f64, (f64,) * 3, a, b, c), expect, a, b, c)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_sqrt_is_correctly_rounded(t):
    a = [abs(v) for v in values(t, 400) if finite(v)]
    found = run("sqrt", t, (t,), a).astype(np.float64).tolist()
    with mpmath.workprec(400):
        for x, r in zip(a, found, strict=True):
            root = mpmath.sqrt(mpmath.mpf(x))
            sign, man, exp, _ = root._mpf_
            want = exact_round(t, Fraction(int(man)) * Fraction(2) ** int(exp))
            assert r == want, (x, r, want)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_minima_and_maxima(t):
    a, b = zip(*itertools.product(values(t, 10), values(t, 10)), strict=True)

    def order(x):
        return (x, math.copysign(1, x))

    def number(pick):
        return [
            y if x != x else x if y != y else pick(x, y, key=order) for x, y in zip(a, b, strict=True)
        ]

    def nan(pick):
        return [math.nan if x != x or y != y else pick(x, y, key=order) for x, y in zip(a, b, strict=True)]

    check(run("min", t, (t, t), a, b), number(min), a, b)
    check(run("max", t, (t, t), a, b), number(max), a, b)
    check(run("minimum", t, (t, t), a, b), nan(min), a, b)
    check(run("maximum", t, (t, t), a, b), nan(max), a, b)


def test_floordiv_and_mod_are_pythons():
    pairs = list(itertools.product(values(f64, 60), values(f64, 60, 1)))
    a, b = zip(*pairs, strict=True)
    check(
        run("floordiv", f64, (f64, f64), a, b),
        [x // y if y else (math.copysign(math.inf, x) * math.copysign(1, y) if x and x == x else math.nan) for x, y in pairs],
        a,
        b,
    )
    check(run("mod", f64, (f64, f64), a, b), [x % y if y else math.nan for x, y in pairs], a, b)
    assert fold("floordiv", f64, (f64, f64), (7.0, 0.1)) == 69.0


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_floordiv_and_mod_of_small_numbers(t):
    grid = [k / 4 for k in range(-20, 21)]
    a, b = zip(*((x, y) for x in grid for y in grid if y), strict=True)
    check(run("floordiv", t, (t, t), a, b), [x // y for x, y in zip(a, b, strict=True)], a, b)
    check(run("mod", t, (t, t), a, b), [x % y for x, y in zip(a, b, strict=True)], a, b)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_fmod_and_remainder_are_exact(t):
    a, b = zip(*((x, y) for x in values(t, 60) for y in values(t, 60, 1)), strict=True)

    def oracle(fn):
        out = []
        for x, y in zip(a, b, strict=True):
            bad = x != x or y != y or math.isinf(x) or y == 0
            out.append(math.nan if bad else fn(x, y))
        return out

    check(run("fmod", t, (t, t), a, b), oracle(math.fmod), a, b)
    check(run("remainder", t, (t, t), a, b), oracle(math.remainder), a, b)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_rounding_functions_and_signs(t):
    a = [v for v in values(t, 200) if finite(v)] + [0.5, 1.5, 2.5, -0.5, -1.5, 127.5]

    def like(fn):
        return [math.copysign(float(fn(x)), x) for x in a]

    check(run("round", t, (t,), a), like(round), a)
    check(run("floor", t, (t,), a), [float(math.floor(x)) if x else x for x in a], a)
    check(run("trunc", t, (t,), a), like(math.trunc), a)
    check(run("ceil", t, (t,), a), [math.copysign(float(math.ceil(x)), x) for x in a], a)
    check(run("neg", t, (t,), a), [-x for x in a], a)
    check(run("abs", t, (t,), a), [abs(x) for x in a], a)
    b = list(reversed(a))
    check(run("copysign", t, (t, t), a, b), [math.copysign(x, y) for x, y in zip(a, b, strict=True)], a, b)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_ldexp_and_frexp(t):
    a = values(t, 60)
    pairs = [(x, n) for x in a for n in (-1100, -160, -150, -130, -30, -1, 0, 1, 20, 200, 1100)]
    x, n = zip(*pairs, strict=True)
    expect = [v if not finite(v) or v == 0 else scaled(t, v, k) for v, k in pairs]
    check(run("ldexp", t, (t, i32), x, n), expect, x, n)
    m = run("frexp_mantissa", t, (t,), a).astype(np.float64).tolist()
    e = run("frexp_exponent", i32, (t,), a).tolist()
    for v, mantissa, exponent in zip(a, m, e, strict=True):
        if finite(v):
            assert (mantissa, exponent) == math.frexp(v)
        else:
            assert same(mantissa, v)
            assert exponent == 0


def scaled(t, v, k):
    return math.copysign(exact_round(t, Fraction(v) * Fraction(2) ** k), v)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_classification(t):
    a = values(t, 20)
    assert run("isnan", bool_, (t,), a).tolist() == [math.isnan(x) for x in a]
    assert run("isinf", bool_, (t,), a).tolist() == [math.isinf(x) for x in a]
    assert run("isfinite", bool_, (t,), a).tolist() == [math.isfinite(x) for x in a]


MP = {
    "exp": (mpmath.exp, -20, 20), "exp2": (lambda x: mpmath.mpf(2) ** x, -20, 20), "expm1": (mpmath.expm1, -10, 10),
    "log": (mpmath.log, 1e-6, 1e6), "log2": (lambda x: mpmath.log(x, 2), 1e-6, 1e6), "log10": (mpmath.log10, 1e-6, 1e6),
    "log1p": (mpmath.log1p, -0.9, 1e3), "sin": (mpmath.sin, -100, 100), "cos": (mpmath.cos, -100, 100),
    "tan": (mpmath.tan, -10, 10), "asin": (mpmath.asin, -1, 1), "acos": (mpmath.acos, -1, 1),
    "atan": (mpmath.atan, -50, 50), "sinh": (mpmath.sinh, -8, 8), "cosh": (mpmath.cosh, -8, 8),
    "tanh": (mpmath.tanh, -5, 5), "erf": (mpmath.erf, -4, 4), "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), -9, 9),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1e-6, 1e6),
}  # fmt: skip


@pytest.mark.parametrize("op", MP)
def test_elementary_functions(op):
    fn, low, high = MP[op]
    rng = random.Random(op)
    for t, bits in ((f32, 24), (f64, 53)):
        a = [fold("cast", t, (f64,), (rng.uniform(low, high),)) for _ in range(200)]
        found = run(op, t, (t,), a).tolist()
        with mpmath.workprec(200):
            for x, r in zip(a, found, strict=True):
                want = fn(mpmath.mpf(x))
                # the library's own tests are stricter; here the right function must be behind each name
                assert abs(r - want) <= 2 * mpmath.mpf(2) ** (mpmath.frexp(want)[1] - bits), (t, x, r, want)


@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_functions_of_two(op):
    fn = {"pow": mpmath.power, "atan2": mpmath.atan2, "hypot": mpmath.hypot}[op]
    rng = random.Random(op)
    a = [fold("cast", f32, (f64,), (rng.uniform(0.1, 20),)) for _ in range(200)]
    b = [fold("cast", f32, (f64,), (rng.uniform(-10, 10),)) for _ in range(200)]
    with mpmath.workprec(200):
        for x, y, r in zip(a, b, run(op, f32, (f32, f32), a, b).tolist(), strict=True):
            want = fn(mpmath.mpf(x), mpmath.mpf(y))
            assert abs(r - want) <= 2 * mpmath.mpf(2) ** (mpmath.frexp(want)[1] - 24)


def test_narrow_types_compute_in_f32():
    a = values(f16, 100)
    for t in (f16, bf16):
        x = [fold("cast", t, (f64,), (v,)) for v in a]
        single = run("exp", f32, (f32,), x)
        with np.errstate(all="ignore"):
            narrow = implementation("cast", t, (f32,))(single)
        check(run("exp", t, (t,), x), narrow.astype(np.float64).tolist(), x)


def test_bf16_bits_against_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.arange(1 << 16, dtype=np.uint32) << 16
    x = np.concatenate([(bits + d).view(np.float32) for d in (0, 1, 0x7FFF, 0x8000, 0x8001)])
    x = x[~np.isnan(x)]
    with np.errstate(all="ignore"):
        assert (bf16_bits(x) == x.astype(ml_dtypes.bfloat16).view(np.uint16)).all()


def test_f64_to_narrow_types_rounds_once():
    rng = random.Random(5)
    for t in (f16, bf16, f32):
        p, low, _ = FORMAT[t]
        xs = []
        for _ in range(4000):  # next to ties, also of subnormal numbers
            tie = (rng.randrange(1 << p) + 0.5) * 2.0 ** rng.choice((low - p + 1, low - p - 3, -3, 4))
            xs += [tie, math.nextafter(tie, 0), math.nextafter(tie, math.inf), -tie, tie * (1 + 2.0**-40)]
        with np.errstate(all="ignore"):
            found = implementation("cast", t, (f64,))(np.array(xs))
        check(found, [exact_round(t, Fraction(x)) for x in xs], xs)
    assert fold("cast", bf16, (f64,), (1e308,)) == math.inf
    assert fold("cast", bf16, (f64,), (5e-324,)) == 0.0
    assert math.isnan(fold("cast", bf16, (f64,), (math.nan,)))
