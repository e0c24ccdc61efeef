"""The math library of host programs: the bits of the interpreter of kernels for every function, and a correct fma."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magpie.backends.interp.numerics import implementation
from magpie.dtypes import by_name
from magpie.host.library import fma32, fma64, library_function
from magpie.host.rounding import round_exact
from magpie.mpir.ops import MATH

TWO = ("pow", "atan2", "hypot")


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", [*MATH, *TWO])
def test_functions_have_the_bits_of_kernels(name, type_):
    dtype, rng, count = by_name(type_), random.Random(name + type_), 600
    width = dtype.bits
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, -3.0, math.inf, -math.inf, math.nan, math.pi, 1e9, -1e22]
    sides = []
    for k in range(2 if name in TWO else 1):
        bits = np.array([rng.getrandbits(width) for _ in range(count)], f"uint{width}").view(f"float{width}")
        near = np.array([rng.gauss(0, 3) for _ in range(count)], f"float{width}")
        edges = np.array(special, f"float{width}")
        sides.append(np.concatenate([bits, near, np.tile(edges, 14) if k else np.repeat(edges, 14)]))
    with np.errstate(all="ignore"):
        wanted = implementation(name, dtype, (dtype,) * len(sides))(*sides)
    function = library_function(name, type_)
    for values, want in zip(zip(*(s.tolist() for s in sides), strict=True), wanted.tolist(), strict=True):
        found = function(*values)
        same = found == want and math.copysign(1, found) == math.copysign(1, want)
        assert type(found) is float and (same or (found != found and want != want)), (values, found, want)


def exact_fma(a, b, c, type_):
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return round_exact(exact, type_) if exact else a * b + c


ANY = st.one_of(st.floats(), st.floats(-4, 4), st.sampled_from([0.0, -0.0, 5e-324, 2.0**-540, 2.0**1000, -(2.0**-1074)]))


@settings(deadline=None, max_examples=1000)
@given(ANY, ANY, ANY)
@example(1 + 2.0**-52, 1 - 2.0**-52, -1.0)
@example(2.0**1000, 2.0**1000, -math.inf)
@example(2.0**600, 2.0**600, -(2.0**1023))
@example(2.0**-600, 2.0**-600, 5e-324)
@example(1 + 2.0**-27, 1 + 2.0**-27, 2.0**-106)  # just above a tie
def test_fma_of_f64_rounds_once(a, b, c):
    for x in (c, -a * b):
        found, want = fma64(a, b, x), exact_fma(a, b, x, "f64")
        assert found == want and math.copysign(1, found) == math.copysign(1, want) or (found != found and want != want)


NARROW = st.one_of(st.floats(width=32), st.floats(-4, 4, width=32))


@settings(deadline=None, max_examples=1000)
@given(NARROW, NARROW, NARROW)
@example(2.0**-12 * (1 + 2.0**-23), 2.0**-12 * (1 - 2.0**-23), 1 + 2.0**-23)  # the double below the tie is the tie
def test_fma_of_f32_rounds_once(a, b, c):
    with np.errstate(all="ignore"):
        near = float(np.float32(-a * b))
    for x in (c, near):
        found, want = fma32(a, b, x), exact_fma(a, b, x, "f32")
        assert found == want and math.copysign(1, found) == math.copysign(1, want) or (found != found and want != want)
