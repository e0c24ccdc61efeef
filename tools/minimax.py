"""Minimax polynomials with coefficients rounded to the format that evaluates them.

`fit` is the Remez exchange algorithm (E. Remez 1934; Muller, "Elementary Functions", 3rd ed., chapter 3) in mpmath
arithmetic over a Chebyshev grid, with a weight and any set of exponents. Rounding one coefficient to f32 or f64 and
fitting the rest again, from the lowest power up, keeps nearly all accuracy that rounding them all at once would lose
(Brisebarre and Chevillard, "Efficient polynomial L-infinity approximations", ARITH 2007, gives the optimal method).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

__all__ = ["Fit", "fit", "rounded"]

Real = Any  # mpmath's mpf, which has no type hints
Fn = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """Coefficients in ascending order of their exponents, and log2 of the largest weighted error."""

    coefficients: tuple[float, ...]
    log2_error: float


def rounded(value: Real, bits: int) -> float:
    """``value`` rounded to f32 (24 bits) or f64 (53 bits), as a Python float."""
    return float(np.float32(float(value))) if bits == 24 else float(value)


def _grid(low: Real, high: Real, count: int) -> list[Real]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]


def _extrema(error: Sequence[Real], wanted: int) -> list[int]:
    """Indices of alternating extrema of ``error``: the largest of each run of one sign, cut down to ``wanted``."""
    found: list[int] = []
    for i, e in enumerate(error):
        if found and (error[found[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > wanted:
        found.pop(0 if abs(error[found[0]]) < abs(error[found[-1]]) else -1)
    return found


def _remez(xs: list[Real], ys: list[Real], ws: list[Real], exponents: Sequence[int]) -> tuple[list[Real], Real]:
    """Coefficients minimising max |w (p - y)| on the grid, and that maximum."""
    n, m = len(exponents), len(xs)
    powers = [[x**k for k in exponents] for x in xs]
    at = [round(i * (m - 1) / n) for i in range(n + 1)]
    best: tuple[list[Real], Real] | None = None
    for _ in range(30):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for row, i in enumerate(at):
            for k in range(n):
                a[row, k] = powers[i][k] * ws[i]
            a[row, n] = (-1) ** row
            b[row] = ys[i] * ws[i]
        solution = mp.lu_solve(a, b)
        c = [solution[k] for k in range(n)]
        error = [ws[i] * (mp.fdot(zip(powers[i], c, strict=True)) - ys[i]) for i in range(m)]
        worst = max(abs(e) for e in error)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst <= abs(solution[n]) * (1 + mp.mpf(10) ** -3):
            break
        nodes = _extrema(error, n + 1)
        if len(nodes) < n + 1:
            break
        at = nodes
    assert best is not None
    return best


def fit(
    f: Fn,
    low: float,
    high: float,
    exponents: Sequence[int],
    bits: int,
    weight: Fn = lambda x: mp.mpf(1),
    fixed: int = 99,
) -> Fit:
    """Fit ``sum(c[i] * x**exponents[i])`` to ``f`` on [low, high], minimising ``weight * error``.

    The first ``fixed`` coefficients are rounded one by one with the rest fitted again.
    """
    # the weights may vanish at 0: the grid does not hold the ends of the interval
    xs = _grid(mp.mpf(low), mp.mpf(high), 24 * len(exponents) + 60)
    ys = [f(x) for x in xs]
    ws = [weight(x) for x in xs]
    done: list[float] = []
    rest = list(ys)
    for k in range(len(exponents)):
        # dividing by the lowest power keeps the alternation theorem valid on intervals that contain 0
        low_power = exponents[k]
        scaled = [y / x**low_power for x, y in zip(xs, rest, strict=True)]
        weights = [w * abs(x) ** low_power for x, w in zip(xs, ws, strict=True)]
        c, _ = _remez(xs, scaled, weights, [e - low_power for e in exponents[k:]])
        if k >= fixed:
            done += [rounded(v, bits) for v in c]
            break
        done.append(rounded(c[0], bits))
        rest = [y - done[k] * x ** exponents[k] for x, y in zip(xs, rest, strict=True)]
    worst = max(
        abs(w * (mp.fsum(c * x**k for c, k in zip(done, exponents, strict=True)) - y))
        for x, y, w in zip(xs, ys, ws, strict=True)
    )
    return Fit(tuple(done), float(mp.log(worst, 2)))
