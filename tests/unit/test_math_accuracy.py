"""A sample of what benchmarks/bench_math_accuracy.py measures in full: errors of the math library in ulps."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import magpie as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_math_accuracy as bench
from math_reference import BINARY, EXACT, UNARY, exact_error, random_f64, specials

# Measured over all arguments, and rounded up: docs/MATH.md has the table. A regression shows long before 2 ulp.
LIMIT = 1.7


@pytest.mark.parametrize("op", UNARY)
def test_f32_against_numpy(op: str) -> None:
    worst, at, _ = bench.unary_f32(op, 65521, True, 1)
    assert worst < LIMIT, (op, at)


@pytest.mark.parametrize("op", UNARY)
def test_f32_special_arguments(op: str) -> None:
    x = specials(24)
    got = bench.apply(op, mp.f32, x)
    with np.errstate(all="ignore"):
        error = bench.errors_f32(got, bench.numpy_f64(op)(x.astype(np.float64)))
    assert error.max() < LIMIT, (op, x[np.argmax(error)])


@pytest.mark.parametrize("op", UNARY)
def test_f64_against_mpmath(op: str) -> None:
    x = np.concatenate([*random_f64(op, 500, 17), specials(53)])
    got = bench.apply(op, mp.f64, x)
    errors = [exact_error(op, (a,), g, 53) for a, g in zip(x.tolist(), got.tolist(), strict=True)]
    assert max(errors) < LIMIT, (op, x[int(np.argmax(errors))])


@pytest.mark.parametrize("op", BINARY)
def test_f32_of_two_arguments(op: str) -> None:
    worst, at, _ = bench.binary_f32(op, 20000)
    assert worst < LIMIT, (op, at)


@pytest.mark.parametrize("op", BINARY)
def test_f64_of_two_arguments(op: str) -> None:
    x, y = random_f64(op, 1500, 17, 2)
    got = bench.apply(op, mp.f64, x, y)
    errors = [exact_error(op, args, g, 53) for *args, g in zip(x.tolist(), y.tolist(), got.tolist(), strict=True)]
    assert max(errors) < LIMIT, (op, int(np.argmax(errors)))


@pytest.mark.parametrize("dtype", [mp.f32, mp.f64], ids=str)
@pytest.mark.parametrize("op", EXACT)
def test_exact_functions(op: str, dtype: mp.DType) -> None:
    assert bench.exact_cases(op, dtype, 20000) == 0


def test_exponentials_and_logarithms_of_powers_are_exact() -> None:
    n = np.arange(-149, 128, dtype=np.float32)
    assert np.array_equal(bench.apply("exp2", mp.f32, n), np.ldexp(np.float32(1), n.astype(int)))
    assert np.array_equal(bench.apply("log2", mp.f32, np.ldexp(np.float32(1), n.astype(int))), n)
    n = np.arange(-1074, 1024, dtype=np.float64)
    assert np.array_equal(bench.apply("exp2", mp.f64, n), np.ldexp(1.0, n.astype(int)))
    assert np.array_equal(bench.apply("log2", mp.f64, np.ldexp(1.0, n.astype(int))), n)


def test_small_powers_of_integers_are_exact() -> None:
    x, y = (a.ravel().astype(np.float64) for a in np.meshgrid(np.arange(-12, 13), np.arange(0, 12)))
    assert np.array_equal(bench.apply("pow", mp.f64, x, y), np.array([a**b for a, b in zip(x, y, strict=True)]))


# The hardest angles for reduction: arguments closest to a multiple of pi/2 (Muller, "Elementary Functions", table 11.1).
HARD = [6381956970095103.0 * 2.0**797, 5319372648326541.0 * 2.0**-13, 1e22, 2.0**1023, 1.7976931348623157e308, 3.5e9]


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_hard_angles(op: str) -> None:
    x = np.array([*HARD, *(-h for h in HARD)])
    got = bench.apply(op, mp.f64, x)
    assert max(exact_error(op, (a,), g, 53) for a, g in zip(x.tolist(), got.tolist(), strict=True)) < 1.5
