"""Exact numbers rounded to a float type: to nearest, ties to even, once."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_float
from fractions import Fraction
from struct import Struct

__all__ = ["FORMATS", "Format", "round_exact", "rounding"]


class Format:
    """A binary float type: ``digits`` of its significand, and the exponents of its least and its greatest normal
    numbers, 2**least and 2**most."""

    __slots__ = ("digits", "infinite", "least", "most")

    def __init__(self, digits: int, least: int, most: int) -> None:
        self.digits = digits
        self.least = least
        self.most = most
        #: The first number that rounds to infinity: half a step above the greatest one.
        self.infinite = Fraction(2) ** most * (2 - Fraction(1, 1 << digits))

    def step(self, exponent: int) -> int:
        """The exponent of the distance between the numbers around 2**exponent."""
        return max(exponent, self.least) - self.digits + 1


FORMATS = {
    "f16": Format(11, -14, 15),
    "bf16": Format(8, -126, 127),
    "f32": Format(24, -126, 127),
    "f64": Format(53, -1022, 1023),
}


def round_exact(value: int | Fraction, type_name: str) -> float:
    """The nearest number of the type to an exact one, as a double."""
    if not value:
        return 0.0
    format_ = FORMATS[type_name]
    exact = abs(Fraction(value))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** exponent:
        exponent -= 1
    if exact >= format_.infinite:
        found = math.inf
    else:
        step = format_.step(exponent)
        found = math.ldexp(round(exact / Fraction(2) ** step), step)  # Python rounds a Fraction to even
    return -found if value < 0 else found


def _f16(value: float) -> float:
    try:
        return _HALF.unpack(_HALF.pack(value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def _f32(value: float) -> float:
    return c_float(value).value


def _bf16(value: float) -> float:
    if not value or value != value:
        return value
    if abs(value) >= _TOO_LARGE:
        return math.copysign(math.inf, value)
    step = max(math.frexp(value)[1] - 1, -126) - 7
    found = math.ldexp(round(math.ldexp(value, -step)), step)
    found = math.copysign(found, value)  # an integer 0 has no sign
    return found if abs(found) < _TOO_LARGE else math.copysign(math.inf, value)


def _f64(value: float) -> float:
    return value


_HALF = Struct("<e")
_TOO_LARGE = 2.0**128
_ROUNDING: dict[str, Callable[[float], float]] = {"f16": _f16, "bf16": _bf16, "f32": _f32, "f64": _f64}


def rounding(type_name: str) -> Callable[[float], float]:
    """What rounds a double to the type, once."""
    return _ROUNDING[type_name]
