"""Operations on floats: IEEE 754, each rounded once to its type. `.fast` allows more, and is the same here.

A value of a narrow type is held as a double. + - * / of doubles, rounded to the narrow type, are the ones of that type:
a double has more than twice its digits and two (Figueroa, "When is double rounding innocuous?").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from magpie.host.builtins import Site, Step, operation
from magpie.host.rounding import rounding
from magpie.mpir.types import Ty

__all__ = ["divided", "remainder"]


def divided(x: float, y: float) -> float:
    """x / y where Python has no answer: y is 0."""
    try:
        return x / y
    except ZeroDivisionError:
        return math.nan if not x or x != x else math.copysign(math.inf, x) * math.copysign(1.0, y)


def remainder(x: float, y: float) -> float:
    """C's fmod: exact, with the sign of x."""
    try:
        return math.fmod(x, y)
    except ValueError:  # of an infinity, or by 0
        return math.nan


def _add(a: int, b: int) -> Step:
    return lambda frame: frame[a] + frame[b]


def _sub(a: int, b: int) -> Step:
    return lambda frame: frame[a] - frame[b]


def _mul(a: int, b: int) -> Step:
    return lambda frame: frame[a] * frame[b]


def _div(a: int, b: int) -> Step:
    return lambda frame: divided(frame[a], frame[b])


def _rem(a: int, b: int) -> Step:
    return lambda frame: remainder(frame[a], frame[b])


def _rounded(step: Step, type_: Ty) -> Step:
    if type_.name == "f64":
        return step
    rounds = rounding(type_.name)
    return lambda frame: rounds(step(frame))


def _arithmetic(make_step: Callable[[int, int], Step]) -> Callable[[Site], Step]:
    return lambda site: _rounded(make_step(site.slots["lhs"], site.slots["rhs"]), site.of("lhs"))


for _name, _make in (("add", _add), ("sub", _sub), ("mul", _mul), ("div", _div), ("rem", _rem)):
    operation(f"f.{_name}", f"f.{_name}.fast", *((f"bf16.{_name}",) if _name != "rem" else ()))(_arithmetic(_make))


# --- comparisons: ordered ones are false for a NaN, unordered ones true -----------------------------------------------
def _one(x: float, y: float) -> bool:
    return x < y or x > y


_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "oeq": lambda x, y: x == y,
    "one": _one,
    "ord": lambda x, y: x == x and y == y,
    "une": lambda x, y: x != y,
    "ueq": lambda x, y: not _one(x, y),
    "uno": lambda x, y: x != x or y != y,
    "ult": lambda x, y: not x >= y,
    "ugt": lambda x, y: not x <= y,
    "ule": lambda x, y: not x > y,
    "uge": lambda x, y: not x < y,
}


def _lt(a: int, b: int) -> Step:
    return lambda frame: frame[a] < frame[b]


def _le(a: int, b: int) -> Step:
    return lambda frame: frame[a] <= frame[b]


@operation("fcmp.olt")
def _olt(site: Site) -> Step:
    return _lt(site.slots["lhs"], site.slots["rhs"])


@operation("fcmp.ogt")
def _ogt(site: Site) -> Step:
    return _lt(site.slots["rhs"], site.slots["lhs"])


@operation("fcmp.ole")
def _ole(site: Site) -> Step:
    return _le(site.slots["lhs"], site.slots["rhs"])


@operation("fcmp.oge")
def _oge(site: Site) -> Step:
    return _le(site.slots["rhs"], site.slots["lhs"])


def _compare(fn: Callable[[float, float], bool]) -> Callable[[Site], Step]:
    def make(site: Site) -> Step:
        a, b = site.slots["lhs"], site.slots["rhs"]
        return lambda frame: fn(frame[a], frame[b])

    return make


for _name, _fn in _COMPARES.items():
    operation(f"fcmp.{_name}")(_compare(_fn))


# --- all others: by the numbers of Kernel IR --------------------------------------------------------------------------
def _unary(fn: Callable[[float], Any]) -> Callable[[Site], Step]:
    def make(site: Site) -> Step:
        a = site.slots["v"]
        return lambda frame: fn(frame[a])

    return make


operation("f.neg")(_unary(lambda x: -x))
operation("f.abs")(_unary(abs))
operation("f.is_nan")(_unary(lambda x: x != x))
operation("f.is_inf")(_unary(lambda x: x in (math.inf, -math.inf)))
operation("f.is_finite")(_unary(math.isfinite))
