"""Arithmetic: every operator on every type it takes, at the values where implementations go wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import FLOATS, INTS, NUMS, SIGNED, map1, map2, pairs, values


@mp.kernel
def k_add(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] + y[i]


@mp.kernel
def k_sub(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] - y[i]


@mp.kernel
def k_mul(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * y[i]


@mp.kernel
def k_div(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] / y[i]


@mp.kernel
def k_floordiv(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] // y[i]


@mp.kernel
def k_mod(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] % y[i]


@mp.kernel
def k_pow(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] ** y[i]


@mp.kernel
def k_square_cube(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] ** 2 + x[i] ** 3


@mp.kernel
def k_neg(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = -x[i]


@mp.kernel
def k_pos(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = +x[i]


@mp.kernel
def k_abs(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = abs(x[i])


@mp.kernel
def k_min(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = min(x[i], y[i])


@mp.kernel
def k_max(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = max(x[i], y[i])


@mp.kernel
def k_min3(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = min(x[i], y[i], 3)


@mp.kernel
def k_minimum(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.minimum(x[i], y[i])


@mp.kernel
def k_maximum(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.maximum(x[i], y[i])


@mp.kernel
def k_fma(x, y, z, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.fma(x[i], y[i], z[i])


@mp.kernel
def k_mul_add(x, y, z, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * y[i] + z[i]


@mp.kernel
def k_augmented(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] += x[i]
        out[i] -= y[i]
        out[i] *= x[i]
        v = out[i]
        v *= 2
        v -= y[i]
        out[i] = v


@mp.kernel
def k_augmented_int(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        v //= y[i]
        v += 11
        v %= y[i]
        v <<= 3
        v >>= 1
        v |= 4
        v &= 107
        v ^= x[i]
        out[i] = v


@mp.kernel
def k_literals(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = (2 * x[i] + 1) - (x[i] * 3 - 5)


@mp.kernel
def k_long_expression(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        a = x[i]
        b = y[i]
        out[i] = ((a + b) * (a - b) + (a * a - b * b)) * (a + 1) - ((b + 2) * (b - 3) + a) * (a * b + (a - (b - (a - b))))


@mp.kernel
def k_div_exact(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = 1.0 / x[i] + x[i] / 3.0


def _binary(kernel, f_int, f_float, t):
    x, y = pairs(t)
    if t.is_float:
        expect = o.in_f32(f_float, t, x, y)
    else:
        expect = map2(f_int, x, y, t)
    return Run(kernel, (x, y, empty(x.size, t)), {2: expect})


@case(dtypes=NUMS)
def test_add(t):
    return _binary(k_add, lambda a, b: a + b, np.add, t)


@case(dtypes=NUMS)
def test_sub(t):
    return _binary(k_sub, lambda a, b: a - b, np.subtract, t)


@case(dtypes=NUMS)
def test_mul(t):
    return _binary(k_mul, lambda a, b: a * b, np.multiply, t)


@case(dtypes=FLOATS)
def test_div(t):
    return _binary(k_div, None, np.divide, t)


@case(dtypes=INTS)
def test_div_of_integers_is_f32(t):
    x, y = pairs(t)
    with np.errstate(all="ignore"):
        a = o.array([o.round_to(v, mp.f32) for v in o.items(x)], mp.f32)
        b = o.array([o.round_to(v, mp.f32) for v in o.items(y)], mp.f32)
        expect = a / b
    return Run(k_div, (x, y, empty(x.size, mp.f32)), {2: expect})


@case(dtypes=NUMS)
def test_floordiv(t):
    return _binary(k_floordiv, o.floordiv, lambda a, b: o.float_divmod(a, b)[0], t)


@case(dtypes=NUMS)
def test_mod(t):
    return _binary(k_mod, o.mod, lambda a, b: o.float_divmod(a, b)[1], t)


@case(dtypes=(mp.f64,))
def test_floordiv_and_mod_against_cpython(t):
    rng = np.random.default_rng(5)
    x = np.concatenate([[7.0, -7.0, 7.0, -7.0, 1e300, 0.3, -0.0, 0.0, 5.0, -5.0], rng.standard_normal(200) * 1e3])
    y = np.concatenate([[0.1, 0.1, -0.1, -0.1, 1e-3, 0.1, 3.0, -3.0, np.inf, np.inf], rng.standard_normal(200)])
    q = np.array([a // b for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    m = np.array([a % b for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    return [Run(k_floordiv, (x, y, empty(x.size, t)), {2: q}), Run(k_mod, (x, y, empty(x.size, t)), {2: m})]


@case(dtypes=INTS)
def test_pow_of_integers(t):
    x, y = pairs(t)
    return Run(k_pow, (x, y, empty(x.size, t)), {2: map2(lambda a, b: o.ipow(a, b, t), x, y, t)})


@case(dtypes=(mp.f32, mp.f64))
def test_pow_of_floats(t):
    x, y = pairs(t)

    def power(a, b):
        # IEEE pow where math.pow raises: poles, overflow, and a negative base with a fraction
        odd = math.isfinite(b) and b == math.floor(b) and b % 2 == 1
        try:
            return math.pow(a, b)
        except OverflowError:
            return -math.inf if a < 0 and odd else math.inf
        except ValueError:
            return math.nan if a != 0 else math.copysign(math.inf, a) if odd else math.inf

    expect = map2(power, x, y, t)
    return Run(k_pow, (x, y, empty(x.size, t)), {2: expect}, ulps=4, atol=_FEW_DENORMALS[t.name])


_FEW_DENORMALS = {"f32": 4 * 2.0**-149, "f64": 4 * 5e-324}


@case(dtypes=NUMS)
def test_pow_with_literal_exponents(t):
    x = values(t, 60)
    if t.is_float:
        x = o.plain(t, 60)
        expect = map1(lambda a: float(a) ** 2 + float(a) ** 3, x, t)
        return Run(k_square_cube, (x, empty(60, t)), {1: expect}, ulps=8, atol=64 * o.EPS[t.name])
    return Run(k_square_cube, (x, empty(60, t)), {1: map1(lambda a: a**2 + a**3, x, t)})


@case(dtypes=NUMS)
def test_neg(t):
    x = values(t, 101)
    return Run(k_neg, (x, empty(101, t)), {1: map1(lambda a: -a, x, t)})


@case(dtypes=NUMS)
def test_pos(t):
    x = values(t, 101)
    return Run(k_pos, (x, empty(101, t)), {1: x.copy()})


@case(dtypes=NUMS)
def test_abs(t):
    x = values(t, 101)
    return Run(k_abs, (x, empty(101, t)), {1: map1(abs, x, t)})


@case(dtypes=NUMS)
def test_min(t):
    x, y = pairs(t)
    return Run(k_min, (x, y, empty(x.size, t)), {2: map2(o.min_number if t.is_float else min, x, y, t)})


@case(dtypes=NUMS)
def test_max(t):
    x, y = pairs(t)
    return Run(k_max, (x, y, empty(x.size, t)), {2: map2(o.max_number if t.is_float else max, x, y, t)})


@case(dtypes=(mp.i32, mp.u8, mp.f32, mp.f64))
def test_min_of_three(t):
    x, y = pairs(t)
    f = o.min_number if t.is_float else min
    return Run(k_min3, (x, y, empty(x.size, t)), {2: map2(lambda a, b: f(f(a, b), 3), x, y, t)})


@case(dtypes=FLOATS)
def test_minimum_propagates_nan(t):
    x, y = pairs(t)
    return Run(k_minimum, (x, y, empty(x.size, t)), {2: map2(o.minimum, x, y, t)})


@case(dtypes=FLOATS)
def test_maximum_propagates_nan(t):
    x, y = pairs(t)
    return Run(k_maximum, (x, y, empty(x.size, t)), {2: map2(o.maximum, x, y, t)})


def _exact_fma(a, b, c):
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of a zero sum
        return float(a) * float(b) + float(c) if (a == 0 or b == 0) else 0.0
    return exact


@case(dtypes=FLOATS)
def test_fma_rounds_once(t):
    x, y = pairs(t)
    z = np.roll(x, 7)
    # close cancellations: x * y - round(x * y) is the rounding error itself
    tail = values(t, 80, 9)[40:]
    tail = tail[np.isfinite(tail.astype(np.float64))]
    x, y = np.concatenate([x, tail]), np.concatenate([y, tail[::-1]])
    with np.errstate(all="ignore"):
        z = np.concatenate([z, -(tail * tail[::-1])]).astype(t.numpy)
    expect = o.array([o.cast(_exact_fma(a, b, c), t) for a, b, c in zip(o.items(x), o.items(y), o.items(z), strict=True)], t)
    return Run(k_fma, (x, y, z, empty(x.size, t)), {3: expect})


@case(dtypes=FLOATS)
def test_multiply_and_add_are_not_contracted(t):
    x, y = pairs(t)
    z = np.roll(y, 11)
    tail = values(t, 120, 9)[40:]
    tail = tail[np.isfinite(tail.astype(np.float64))]
    x, y = np.concatenate([x, tail]), np.concatenate([y, tail[::-1]])
    product = o.in_f32(np.multiply, t, x, y)
    z = np.concatenate([z, -product[z.size :]]).astype(t.numpy)
    if not o.has_denormals():  # what a device that flushes adds to is 0, or the product
        x, y, z, product = (a[~o.is_denormal(product)] for a in (x, y, z, product))
    return Run(k_mul_add, (x, y, z, empty(x.size, t)), {3: o.in_f32(np.add, t, product, z)})


@case(dtypes=NUMS)
def test_augmented_assignment(t):
    x, y, start = o.plain(t, 77, 1), o.plain(t, 77, 2), o.plain(t, 77, 3)
    if t.is_float:
        op = lambda f, a, b: o.in_f32(f, t, a, b)  # noqa: E731
        v = op(np.multiply, op(np.subtract, op(np.add, start, x), y), x)
        expect = op(np.subtract, op(np.multiply, v, np.full(77, 2, t.numpy)), y)
    else:
        rows = zip(o.items(x), o.items(y), o.items(start), strict=True)
        expect = o.array([o.wrap(((s + a - b) * a) * 2 - b, t) for a, b, s in rows], t)
    return Run(k_augmented, (x, y, start), {2: expect})


@case(dtypes=(mp.i8, mp.i16, mp.i32, mp.i64, mp.u8, mp.u16, mp.u32, mp.u64))
def test_augmented_assignment_of_integer_operators(t):
    x, y = pairs(t)

    def f(a, b):
        v = o.wrap(o.floordiv(a, b), t)
        v = o.wrap(v + 11, t)
        v = o.mod(v, b)
        v = o.wrap(v << 3, t) >> 1
        return ((v | 4) & 107) ^ a

    return Run(k_augmented_int, (x, y, empty(x.size, t)), {2: map2(f, x, y, t)})


@case(dtypes=NUMS)
def test_literals_take_the_type_they_meet(t):
    x = values(t, 90) if t.is_int else o.plain(t, 90)
    if t.is_float:
        op = lambda f, a, b: o.in_f32(f, t, a, b)  # noqa: E731
        c = lambda v: np.full(90, v, t.numpy)  # noqa: E731
        left = op(np.add, op(np.multiply, c(2), x), c(1))
        right = op(np.subtract, op(np.multiply, x, c(3)), c(5))
        expect = op(np.subtract, left, right)
    else:
        expect = map1(lambda a: (2 * a + 1) - (a * 3 - 5), x, t)
    return Run(k_literals, (x, empty(90, t)), {1: expect})


@case(dtypes=INTS)
def test_long_expression(t):
    x, y = pairs(t)

    def f(a, b):
        return ((a + b) * (a - b) + (a * a - b * b)) * (a + 1) - ((b + 2) * (b - 3) + a) * (a * b + (a - (b - (a - b))))

    return Run(k_long_expression, (x, y, empty(x.size, t)), {2: map2(f, x, y, t)})


@case(dtypes=(mp.f32, mp.f64))
def test_division_is_correctly_rounded(t):
    x = values(t, 300)
    with np.errstate(all="ignore"):
        expect = t.numpy.type(1) / x + x / t.numpy.type(3)
    return Run(k_div_exact, (x, empty(300, t)), {1: expect})


@case(dtypes=SIGNED)
def test_minimum_of_the_type_survives_negation_and_division(t):
    x = np.array([t.min, t.min, t.min + 1, -1, 0], t.numpy)
    y = np.array([-1, 1, -1, t.min, t.min], t.numpy)
    return [
        Run(k_floordiv, (x, y, empty(5, t)), {2: map2(o.floordiv, x, y, t)}),
        Run(k_mod, (x, y, empty(5, t)), {2: map2(o.mod, x, y, t)}),
        Run(k_neg, (x, empty(5, t)), {1: map1(lambda a: -a, x, t)}),
        Run(k_abs, (x, empty(5, t)), {1: map1(abs, x, t)}),
    ]
