"""Math functions against mpmath at 80 bits and NumPy, with a tolerance where a libm is free to differ."""

from __future__ import annotations

import math

import mpmath
import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import BOOL, FLOATS, map1, map2, values


@mp.kernel
def k_math(x, out, f: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = f(x[i])


@mp.func
def f_sqrt(v):
    return math.sqrt(v)


@mp.func
def f_cbrt(v):
    return math.cbrt(v)


@mp.func
def f_exp(v):
    return math.exp(v)


@mp.func
def f_exp2(v):
    return math.exp2(v)


@mp.func
def f_expm1(v):
    return math.expm1(v)


@mp.func
def f_log(v):
    return math.log(v)


@mp.func
def f_log2(v):
    return math.log2(v)


@mp.func
def f_log10(v):
    return math.log10(v)


@mp.func
def f_log1p(v):
    return math.log1p(v)


@mp.func
def f_sin(v):
    return math.sin(v)


@mp.func
def f_cos(v):
    return math.cos(v)


@mp.func
def f_tan(v):
    return math.tan(v)


@mp.func
def f_asin(v):
    return math.asin(v)


@mp.func
def f_acos(v):
    return math.acos(v)


@mp.func
def f_atan(v):
    return math.atan(v)


@mp.func
def f_sinh(v):
    return math.sinh(v)


@mp.func
def f_cosh(v):
    return math.cosh(v)


@mp.func
def f_tanh(v):
    return math.tanh(v)


@mp.func
def f_erf(v):
    return math.erf(v)


@mp.func
def f_rsqrt(v):
    return mp.rsqrt(v)


@mp.func
def f_mp_sin(v):
    return mp.sin(v)


@mp.func
def f_mp_exp(v):
    return mp.exp(v)


@mp.kernel
def k_rounding(x, down, up, zero, even):
    i = mp.global_id(0)
    if i < x.shape[0]:
        down[i] = mp.floor(x[i])
        up[i] = mp.ceil(x[i])
        zero[i] = mp.trunc(x[i])
        even[i] = round(x[i])


@mp.kernel
def k_math_floor_to_index(x, out):
    # a float type's floor is of that type; a cast makes it an index
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = mp.i32(math.floor(x[i]))


@mp.kernel
def k_predicates(x, nan, inf, finite):
    i = mp.global_id(0)
    if i < x.shape[0]:
        nan[i] = math.isnan(x[i])
        inf[i] = math.isinf(x[i])
        finite[i] = math.isfinite(x[i])


@mp.kernel
def k_atan2(y, x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.atan2(y[i], x[i])


@mp.kernel
def k_hypot(y, x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.hypot(y[i], x[i])


@mp.kernel
def k_fmod(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.fmod(x[i], y[i])


@mp.kernel
def k_remainder(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.remainder(x[i], y[i])


@mp.kernel
def k_copysign(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.copysign(x[i], y[i])


@mp.kernel
def k_ldexp(x, n, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.ldexp(x[i], n[i])


@mp.kernel
def k_frexp(x, m, e):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a, b = math.frexp(x[i])
        m[i] = a
        e[i] = b


@mp.kernel
def k_constants(out):
    out[0] = math.pi
    out[1] = math.e
    out[2] = math.inf
    out[3] = math.nan
    out[4] = -math.inf
    out[5] = math.tau


@mp.kernel
def k_math_of_an_integer(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = math.sqrt(x[i])


@mp.kernel
def k_math_in_divergent_code(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i]
        if v > 0:
            out[i] = math.log(v) + math.sqrt(v)
        else:
            out[i] = math.exp(v)


def _near(lo, hi, n=150):
    return lambda t: np.random.default_rng(7).uniform(lo, hi, n).astype(np.float32).astype(t.numpy)


def _any(t):
    return values(t, 150)


# function, exact function, inputs, ulps in f32 and f64.  The inputs avoid where the exact function has poles that only
# f64 can see; special values are checked for those that NumPy has.
_FUNCTIONS = {
    "sqrt": (f_sqrt, mpmath.sqrt, _near(0, 1000), 0.5),
    "cbrt": (f_cbrt, lambda v: mpmath.sign(v) * mpmath.cbrt(abs(v)), _near(-1000, 1000), 4),
    "rsqrt": (f_rsqrt, lambda v: 1 / mpmath.sqrt(v), _near(0.01, 1000), 4),
    "exp": (f_exp, mpmath.exp, _near(-20, 11), 4),
    "exp2": (f_exp2, lambda v: mpmath.power(2, v), _near(-14, 14), 4),
    "expm1": (f_expm1, mpmath.expm1, _near(-2, 2), 4),
    "log": (f_log, mpmath.log, _near(0.001, 1000), 4),
    "log2": (f_log2, lambda v: mpmath.log(v, 2), _near(0.001, 1000), 4),
    "log10": (f_log10, lambda v: mpmath.log(v, 10), _near(0.001, 1000), 4),
    "log1p": (f_log1p, mpmath.log1p, _near(-0.5, 100), 4),
    "sin": (f_sin, mpmath.sin, _near(-30, 30), 4),
    "cos": (f_cos, mpmath.cos, _near(-30, 30), 4),
    "tan": (f_tan, mpmath.tan, _near(-1.4, 1.4), 4),
    "asin": (f_asin, mpmath.asin, _near(-1, 1), 4),
    "acos": (f_acos, mpmath.acos, _near(-1, 1), 4),
    "atan": (f_atan, mpmath.atan, _near(-50, 50), 4),
    "sinh": (f_sinh, mpmath.sinh, _near(-8, 8), 4),
    "cosh": (f_cosh, mpmath.cosh, _near(-8, 8), 4),
    "tanh": (f_tanh, mpmath.tanh, _near(-4, 4), 4),
    "erf": (f_erf, mpmath.erf, _near(-3, 3), 4),
    "mp_sin": (f_mp_sin, mpmath.sin, _near(-30, 30), 4),
    "mp_exp": (f_mp_exp, mpmath.exp, _near(-10, 10), 4),
}


def _function_case(name):
    @case(dtypes=FLOATS, software=3)
    def test(t):
        f, exact, inputs, ulps = _FUNCTIONS[name]
        x = inputs(t)
        with mpmath.workprec(80):
            expect = o.array([o.round_to(float(exact(mpmath.mpf(v))), t) for v in o.items(x)], t)
        # f16 and bf16 compute in f32 and round once: one unit where that lands on the other side of a tie
        allowed = min(ulps, 1) if t.bits == 16 else 0 if ulps == 0.5 else ulps
        return Run(k_math, (x, empty(x.size, t), f), {1: expect}, ulps=allowed)

    test.__name__ = f"test_{name}"
    return test


for _name in _FUNCTIONS:
    globals()[f"test_{_name}"] = _function_case(_name)


_SPECIAL = {
    "sqrt": (f_sqrt, np.sqrt),
    "exp": (f_exp, np.exp),
    "log": (f_log, np.log),
    "log2": (f_log2, np.log2),
    "log1p": (f_log1p, np.log1p),
    "sin": (f_sin, np.sin),
    "atan": (f_atan, np.arctan),
    "tanh": (f_tanh, np.tanh),
    "cbrt": (f_cbrt, np.cbrt),
}


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_math_at_special_values(t):
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, -1e30], t.numpy)
    runs = []
    for f, exact in _SPECIAL.values():
        with np.errstate(all="ignore"):
            expect = exact(x.astype(np.float64)).astype(t.numpy)
        runs.append(Run(k_math, (x, empty(x.size, t), f), {1: expect}, ulps=4))
    return runs


@case(dtypes=FLOATS, software=3)
def test_floor_ceil_trunc_round(t):
    x = np.concatenate([values(t, 120), np.arange(-6, 6, 0.5).astype(t.numpy)])
    outs = tuple(empty(x.size, t) for _ in range(4))
    f = lambda g: o.in_f32(g, t, x)  # noqa: E731
    return Run(k_rounding, (x, *outs), {1: f(np.floor), 2: f(np.ceil), 3: f(np.trunc), 4: f(np.rint)})


@case(dtypes=(mp.f32,), software=3)
def test_math_floor_cast_to_an_integer(t):
    x = np.random.default_rng(1).uniform(-100, 100, 80).astype(np.float32)
    return Run(k_math_floor_to_index, (x, empty(80, mp.i32)), {1: np.floor(x).astype(np.int32)})


@case(dtypes=FLOATS, software=3)
def test_isnan_isinf_isfinite(t):
    x = values(t, 90)
    outs = tuple(empty(90, BOOL) for _ in range(3))
    return Run(
        k_predicates,
        (x, *outs),
        {1: map1(math.isnan, x, BOOL), 2: map1(math.isinf, x, BOOL), 3: map1(math.isfinite, x, BOOL)},
    )


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_atan2(t):
    y, x = o.pairs(t)
    with np.errstate(all="ignore"):
        expect = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(t.numpy)
    return Run(k_atan2, (y, x, empty(x.size, t)), {2: expect}, ulps=4)


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_hypot(t):
    y, x = o.pairs(t)
    with np.errstate(all="ignore"):
        wide = map2(lambda a, b: math.hypot(a, b), y, x, mp.f64)
        expect = wide.astype(t.numpy)
    return Run(k_hypot, (y, x, empty(x.size, t)), {2: expect}, ulps=4)


@case(dtypes=FLOATS, software=3)
def test_fmod_is_exact(t):
    x, y = o.pairs(t)
    return Run(k_fmod, (x, y, empty(x.size, t)), {2: o.in_f32(np.fmod, t, x, y)})


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_ieee_remainder_is_exact(t):
    x, y = o.pairs(t)

    def f(a, b):
        try:
            return math.remainder(a, b)
        except ValueError:
            return math.nan

    return Run(k_remainder, (x, y, empty(x.size, t)), {2: map2(f, x, y, t)})


@case(dtypes=FLOATS, software=3)
def test_copysign(t):
    x, y = o.pairs(t)
    x, y = x[~np.isnan(y.astype(np.float64))], y[~np.isnan(y.astype(np.float64))]  # the sign of NaN is not in the contract
    return Run(k_copysign, (x, y, empty(x.size, t)), {2: map2(math.copysign, x, y, t)})


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_ldexp_rounds_once(t):
    x = np.repeat(values(t, 40), 12)
    n = np.tile(np.array([0, 1, -1, 10, -10, 100, -100, -140, 130, 2000, -2000, -1050], np.int32), 40)

    def f(a, k):
        if not math.isfinite(a) or a == 0:
            return a
        from fractions import Fraction

        return Fraction(a) * Fraction(2) ** k

    return Run(k_ldexp, (x, n, empty(x.size, t)), {2: map2(f, x, n, t)})


@case(dtypes=(mp.f32, mp.f64, mp.f16), software=3)
def test_frexp(t):
    x = values(t, 90)
    split = [math.frexp(v) if math.isfinite(v) else (v, 0) for v in o.items(x)]
    return Run(
        k_frexp,
        (x, empty(90, t), empty(90, mp.i32)),
        {1: o.array([m for m, _ in split], t), 2: np.array([e for _, e in split], np.int32)},
    )


@case(dtypes=(mp.f32, mp.f64), software=3)
def test_constants_of_the_math_module(t):
    expect = np.array([math.pi, math.e, math.inf, math.nan, -math.inf, math.tau], t.numpy)
    return Run(k_constants, (empty(6, t),), {0: expect}, grid=1, block=1)


@case(dtypes=(mp.i32, mp.u8), software=3)
def test_math_of_an_integer_is_f32(t):
    x = np.arange(100).astype(t.numpy)
    return Run(k_math_of_an_integer, (x, empty(100, mp.f32)), {1: np.sqrt(x.astype(np.float32))})


@case(dtypes=(mp.f32,), gangs=True, software=3)
def test_math_in_divergent_code(t):
    x = np.random.default_rng(4).uniform(-3, 3, 200).astype(np.float32)
    w = x.astype(np.float64)
    with np.errstate(all="ignore"):
        expect = np.where(x > 0, np.log(w) + np.sqrt(w), np.exp(w)).astype(np.float32)
    return Run(k_math_in_divergent_code, (x, empty(200, t)), {1: expect}, ulps=8, atol=1e-6)
