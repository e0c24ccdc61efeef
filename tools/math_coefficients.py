"""Computes src/magpie/lib/math/coefficients.py: ``python tools/math_coefficients.py`` writes it again, bit for bit.

Each row of the table is one approximation: what is approximated, on which interval, with which error weight.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from minimax import Fit, fit

mp.mp.dps = 50
TARGET = Path(__file__).resolve().parents[1] / "src/magpie/lib/math/coefficients.py"
Real = Any


def one(x: Real) -> Real:
    return mp.mpf(1)


def over(g: Callable[[Real], Real], power: int) -> Callable[[Real], Real]:
    """The weight of c in g(x) = ... + x**power * c that makes the error relative to g."""
    return lambda x: abs(x) ** power / abs(g(x))


def series(f: Callable[[Real], Real], known: Callable[[Real], Real], power: int) -> Callable[[Real], Real]:
    """(f(x) - known(x)) / x**power, with the digits that cancel near 0 made up for."""

    def rest(x: Real) -> Real:
        with mp.workdps(mp.mp.dps * 3):
            return (f(x) - known(x)) / x**power

    return rest


def even(f: Callable[[Real], Real], known: Callable[[Real], Real], power: int) -> Callable[[Real], Real]:
    """As `series`, as a function of z = x*x."""
    rest = series(f, known, power)
    return lambda z: rest(mp.sqrt(z))


def even_weight(f: Callable[[Real], Real], power: int) -> Callable[[Real], Real]:
    weight = over(f, power)
    return lambda z: weight(mp.sqrt(z))


def identity(x: Real) -> Real:
    return x


LN2_HALF = 0.3470  # half of ln 2, and what an inexact choice of the multiple adds
QUARTER = 0.7900  # pi / 4, likewise
SQRT_HALF, SQRT_TWO = 0.7071, 1.4143
S_MAX = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.001


def odd(f: Callable[[Real], Real], high: float, count: int, bits: int) -> Fit:
    """f(x) = x + x**3 * p(x*x) on [0, high], relative."""
    return fit(even(f, identity, 3), 0, high * high, range(count), bits, even_weight(f, 3))


def nudged(found: Fit) -> Fit:
    """The last coefficient moved by some units in its last place, so that atan(1) in f32 is pi/4 correctly rounded."""
    *first, last = found.coefficients
    target = np.float32(np.pi / 4)
    for step in sorted(range(-400, 400), key=abs):
        c = np.float32(last) + np.float32(step) * np.spacing(np.float32(last))
        p = np.float32(c)
        for k in reversed(first):
            p = np.float32(float(p) + k)  # fma(p, 1, k): exact in f64, rounded once
        if np.float32(1) + p == target:
            return Fit((*first, float(c)), found.log2_error)
    raise ArithmeticError("no such coefficient")


def erfc_log(x: Real) -> Real:
    return mp.log(mp.erfc(x))


def erf_factor(x: Real) -> Real:
    return mp.erf(x) / x - 1


def log2_atanh(z: Real) -> Real:
    s = mp.sqrt(z)
    return mp.atanh(s) / s


def rows(bits: int) -> dict[str, tuple[str, Callable[[], Fit]]]:
    single = bits == 24
    middle = mp.mpf(2) if single else mp.mpf(5) / 2

    def n(a: int, b: int) -> int:
        return a if single else b

    return {
        "EXP": (
            "exp(r) = 1 + r + r**2 * p(r), |r| <= ln(2)/2, relative to r, so that it serves expm1 too",
            lambda: fit(
                series(mp.exp, lambda r: 1 + r, 2), -LN2_HALF, LN2_HALF, range(n(6, 11)), bits, lambda r: abs(r)
            ),
        ),
        "EXP2": (
            "2**r = 1 + r * p(r), |r| <= 1/2",
            lambda: fit(
                series(lambda r: mp.mpf(2) ** r, one, 1), -0.5005, 0.5005, range(n(6, 11)), bits, lambda r: abs(r)
            ),
        ),
        "LOG": (
            "log(1 + f) = f + f**2 * (-1/2 + f * p(f)), sqrt(1/2) <= 1 + f <= sqrt(2)"
            if single
            else "log(1 + f) = 2 s + s * z * p(z), s = f / (2 + f), z = s**2",
            (
                lambda: fit(
                    series(mp.log1p, lambda f: f - f**2 / 2, 3),
                    SQRT_HALF - 1,
                    SQRT_TWO - 1,
                    range(10),
                    bits,
                    over(mp.log1p, 3),
                )
            )
            if single
            else lambda: fit(lambda z: 2 * (log2_atanh(z) - 1) / z, 0, S_MAX, range(8), bits, lambda z: z / 2),
        ),
        "ATANH": (
            "atanh(s) / s = 1 + z/3 + z**2 * p(z), z = s**2: for pow",
            lambda: fit(lambda z: (log2_atanh(z) - 1 - z / 3) / z**2, 0, S_MAX, range(n(3, 8)), bits, lambda z: z**2),
        ),
        "SIN": ("sin(r) = r + r**3 * p(r**2), |r| <= pi/4", lambda: odd(mp.sin, QUARTER, n(4, 6), bits)),
        "COS": (
            "cos(r) = 1 - r**2/2 + r**4 * p(r**2), |r| <= pi/4",
            lambda: fit(
                even(mp.cos, lambda r: 1 - r * r / 2, 4), 0, QUARTER**2, range(n(3, 6)), bits, even_weight(mp.cos, 4)
            ),
        ),
        "TAN": ("tan(r) = r + r**3 * p(r**2), |r| <= pi/4", lambda: odd(mp.tan, QUARTER, n(7, 15), bits)),
        "ASIN": ("asin(x) = x + x**3 * p(x**2), |x| <= 1/2", lambda: odd(mp.asin, 0.5, n(6, 13), bits)),
        "ATAN": (
            f"atan(t) = t + t**3 * p(t**2), |t| <= {'1' if single else '1/2'}",
            lambda: nudged(odd(mp.atan, 1.0, 9, bits)) if single else odd(mp.atan, 0.5, 14, bits),
        ),
        "SINH": ("sinh(x) = x + x**3 * p(x**2), |x| <= 1", lambda: odd(mp.sinh, 1.0, n(4, 8), bits)),
        "TANH": ("tanh(x) = x + x**3 * p(x**2), |x| <= 0.6", lambda: odd(mp.tanh, 0.6, n(6, 12), bits)),
        "ERF": (
            "erf(x) = x + x * p(x**2), |x| <= 1",
            lambda: fit(
                lambda z: erf_factor(mp.sqrt(z)),
                0,
                1.0,
                range(n(8, 15)),
                bits,
                lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
            ),
        ),
        "LOG_ERFC": (
            f"log(erfc(x)) = p(x - {n(2, 5) / n(1, 2)}), 1 <= x <= {n(4, 6)}, relative to erf",
            lambda: fit(
                lambda t: erfc_log(t + middle),
                1 - middle,
                n(4, 6) - middle,
                range(n(9, 23)),
                bits,
                lambda t: mp.erfc(t + middle) / mp.erf(t + middle),
                n(9, 1),
            ),
        ),
        "RCBRT": (
            "m**(-1/3) = p(m), 1 <= m <= 2: the start of an iteration",
            lambda: fit(lambda m: mp.cbrt(1 / m), 1, 2, range(n(4, 5)), 24, lambda m: mp.cbrt(m)),
        ),
    }


def main() -> None:
    only = set(sys.argv[1:])
    lines = [
        '"""Coefficients of the polynomials, lowest power first. Made by tools/math_coefficients.py: do not edit."""',
        "",
        "from __future__ import annotations",
    ]
    for bits in (24, 53):
        for name, (what, make) in rows(bits).items():
            full = f"{name}_F{32 if bits == 24 else 64}"
            if only and full not in only:
                continue
            found = make()
            print(f"{full}: {len(found.coefficients)} coefficients, error 2**{found.log2_error:.1f}", file=sys.stderr)
            lines += ["", f"# {what}; error 2**{found.log2_error:.1f}", f"{full} = ("]
            lines += [f"    {c!r}," for c in found.coefficients]
            lines += [")"]
    text = "\n".join(lines) + "\n"
    if only:
        print(text)
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()
