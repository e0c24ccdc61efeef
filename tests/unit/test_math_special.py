"""Special values of the math library: C99 Annex F (F.9), and C23 for rsqrt."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import magpie as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_math_accuracy as bench

inf, nan, pi = math.inf, math.nan, math.pi

# op -> (argument, value) pairs; an odd function's are completed with those of the other sign
ODD_ZERO = [(0.0, 0.0), (nan, nan)]
ONE: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, 0.0), (nan, nan), (1e30, inf), (-1e30, 0.0)],
    "exp2": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, 0.0), (nan, nan), (1e30, inf), (-1e30, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1), (nan, nan), (-1e30, -1)],
    "log": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (-inf, nan), (inf, inf), (nan, nan)],
    "log2": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (-inf, nan), (inf, inf), (nan, nan)],
    "log10": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (-inf, nan), (inf, inf), (nan, nan)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -inf), (-1.5, nan), (-inf, nan), (inf, inf), (nan, nan)],
    "sin": [*ODD_ZERO, (inf, nan)],
    "tan": [*ODD_ZERO, (inf, nan)],
    "cos": [(0.0, 1), (-0.0, 1), (inf, nan), (-inf, nan), (nan, nan)],
    "asin": [*ODD_ZERO, (1.25, nan), (inf, nan)],
    "acos": [(1, 0.0), (1.25, nan), (-1.25, nan), (inf, nan), (-inf, nan), (nan, nan)],
    "atan": [*ODD_ZERO, (inf, pi / 2)],
    "sinh": [*ODD_ZERO, (inf, inf), (1e30, inf)],
    "tanh": [*ODD_ZERO, (inf, 1), (1e30, 1)],
    "erf": [*ODD_ZERO, (inf, 1), (1e30, 1)],
    "cbrt": [*ODD_ZERO, (inf, inf), (8, 2), (27, 3)],
    "cosh": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, inf), (nan, nan), (1e30, inf)],
    "rsqrt": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (4, 0.5), (-1, nan), (-inf, nan), (nan, nan)],
    "frexp_mantissa": [*ODD_ZERO, (inf, inf), (8, 0.5)],
    "frexp_exponent": [(0.0, 0), (-0.0, 0), (inf, 0), (-inf, 0), (nan, 0), (8, 4), (-8, 4)],
}
for _op in ("sin", "tan", "asin", "atan", "sinh", "tanh", "erf", "cbrt", "frexp_mantissa"):
    ONE[_op] += [(-x, -y) for x, y in ONE[_op]]

TWO: dict[str, list[tuple[float, float, float]]] = {
    # F.9.4.4
    "pow": [
        *((s * 0.0, -3.0, s * inf) for s in (1, -1)),
        *((s * 0.0, y, inf) for s in (1, -1) for y in (-2.0, -2.5, -inf)),
        *((s * 0.0, 3.0, s * 0.0) for s in (1, -1)),
        *((s * 0.0, y, 0.0) for s in (1, -1) for y in (2.0, 2.5, inf)),
        *((-1.0, y, 1.0) for y in (inf, -inf)),
        *((1.0, y, 1.0) for y in (inf, -inf, nan, 0.5)),
        *((x, s * 0.0, 1.0) for s in (1, -1) for x in (nan, inf, -inf, 0.0, -0.0, 7.0)),
        *((-x, 0.5, nan) for x in (2.0, 0.25, 1e30)),
        *((x, -inf, inf) for x in (0.5, -0.5)),
        *((x, -inf, 0.0) for x in (2.0, -2.0, inf, -inf)),
        *((x, inf, 0.0) for x in (0.5, -0.5)),
        *((x, inf, inf) for x in (2.0, -2.0, inf, -inf)),
        *((-inf, y, -0.0) for y in (-3.0,)),
        *((-inf, y, 0.0) for y in (-2.0, -2.5)),
        *((-inf, y, -inf) for y in (3.0,)),
        *((-inf, y, inf) for y in (2.0, 2.5)),
        *((inf, y, 0.0) for y in (-3.0, -0.5)),
        *((inf, y, inf) for y in (3.0, 0.5)),
        (nan, 1.0, nan),
        (2.0, nan, nan),
        (-2.0, 3.0, -8.0),
        (-2.0, -3.0, -0.125),
        (-1e200, 5.0, -inf),
    ],
    # F.9.1.4, y first
    "atan2": [
        *((s * 0.0, x, s * pi) for s in (1, -1) for x in (-0.0, -1.0, -inf)),
        *((s * 0.0, x, s * 0.0) for s in (1, -1) for x in (0.0, 1.0, inf)),
        *((s * 2.0, z, s * pi / 2) for s in (1, -1) for z in (0.0, -0.0)),
        *((s * 2.0, -inf, s * pi) for s in (1, -1)),
        *((s * 2.0, inf, s * 0.0) for s in (1, -1)),
        *((s * inf, x, s * pi / 2) for s in (1, -1) for x in (3.0, -3.0, 0.0)),
        *((s * inf, -inf, s * 3 * pi / 4) for s in (1, -1)),
        *((s * inf, inf, s * pi / 4) for s in (1, -1)),
        *((x, nan, nan) for x in (0.0, 1.0, inf)),
        *((nan, x, nan) for x in (0.0, 1.0, inf)),
    ],
    "hypot": [
        *((a, b, inf) for a in (inf, -inf) for b in (nan, 0.0, 1.0, inf)),
        *((b, a, inf) for a in (inf, -inf) for b in (nan, 0.0, 1.0)),
        *((a, z, abs(a)) for a in (3.0, -3.0, 0.0) for z in (0.0, -0.0)),
        (nan, 1.0, nan),
        (1.0, nan, nan),
        (3e37, 4e37, 5e37),
        (-3.0, 4.0, 5.0),
    ],
    "fmod": [
        *((s * 0.0, y, s * 0.0) for s in (1, -1) for y in (1.0, -inf)),
        *((x, y, nan) for x, y in ((inf, 1.0), (-inf, inf), (1.0, 0.0), (1.0, -0.0), (nan, 1.0), (1.0, nan))),
        *((x, y, x) for x in (2.5, -2.5) for y in (inf, -inf)),
        (-6.0, 3.0, -0.0),
        (5.5, -2.0, 1.5),
        (-5.5, 2.0, -1.5),
    ],
    "remainder": [
        *((s * 0.0, y, s * 0.0) for s in (1, -1) for y in (1.0, -inf)),
        *((x, y, nan) for x, y in ((inf, 1.0), (-inf, inf), (1.0, 0.0), (1.0, -0.0), (nan, 1.0), (1.0, nan))),
        *((x, y, x) for x in (2.5, -2.5) for y in (inf, -inf)),
        (-6.0, 3.0, -0.0),
        (5.0, 2.0, 1.0),
        (7.0, 2.0, -1.0),
        (3.0, 2.0, -1.0),
        (-3.0, 2.0, 1.0),
    ],
}


def check(got: np.ndarray, want: np.ndarray, args: list[np.ndarray]) -> None:
    for i, (g, w) in enumerate(zip(got.tolist(), want.tolist(), strict=True)):
        at = tuple(float(a[i]) for a in args)
        if math.isnan(w):
            assert math.isnan(g), (at, g)
        else:
            assert g == w and math.copysign(1, g) == math.copysign(1, w), (at, g, w)


@pytest.mark.parametrize("dtype", [mp.f32, mp.f64], ids=str)
@pytest.mark.parametrize("op", ONE)
def test_one_argument(op: str, dtype: mp.DType) -> None:
    x, want = (np.array(column, dtype.numpy) for column in zip(*ONE[op], strict=True))
    check(bench.apply(op, dtype, x), want, [x])


@pytest.mark.parametrize("dtype", [mp.f32, mp.f64], ids=str)
@pytest.mark.parametrize("op", TWO)
def test_two_arguments(op: str, dtype: mp.DType) -> None:
    with np.errstate(over="ignore"):
        x, y, want = (np.array(column, dtype.numpy) for column in zip(*TWO[op], strict=True))
    check(bench.apply(op, dtype, x, y), want, [x, y])


@pytest.mark.parametrize("dtype", [mp.f32, mp.f64], ids=str)
def test_ldexp_at_its_limits(dtype: mp.DType) -> None:
    info = np.finfo(dtype.numpy)
    x = np.array(
        [0.0, -0.0, np.inf, -np.inf, 1, -1, 1.5, info.max, info.smallest_subnormal, 3 * info.smallest_subnormal],
        dtype.numpy,
    )
    n = np.array([5, -5, 7, -7, 2**31 - 1, -(2**31), info.minexp - info.nmant, -info.maxexp, info.maxexp, -1], np.int32)
    with np.errstate(all="ignore"):
        check(bench.apply("ldexp", dtype, x, n), np.ldexp(x, n), [x, n])
