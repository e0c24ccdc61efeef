"""Numbers and strings of `.mp` text: reading, ranges, and the one way to print each."""

from __future__ import annotations

import math
import re
from fractions import Fraction

#: Largest finite value of each float type, and half a step above it, from which on a number rounds to infinity.
_FLOAT_LIMIT = {
    "f16": 65520.0,
    "bf16": (2.0 - 2.0**-8) * 2.0**127,
    "f32": (2.0 - 2.0**-24) * 2.0**127,
    "f64": math.inf,
}
#: Digits of the types that are narrower than f64, and the exponent of their least number.
_NARROW = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149)}
FLOAT_TYPES = tuple(_FLOAT_LIMIT)
INT_TYPES = tuple(f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64, 128))

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\"}
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|x([0-7][0-9A-Fa-f])|(.))", re.DOTALL)


class LiteralError(ValueError):
    """A literal that cannot be read; ``at`` is where in it, ``str()`` says why."""

    def __init__(self, message: str, at: int = 0, size: int = 0) -> None:
        super().__init__(message)
        self.at = at
        self.size = size


def read_int(text: str) -> int:
    """An INT token as a number."""
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.removeprefix("-")
    base = {"0x": 16, "0b": 2}.get(digits[:2], 10)
    digits = digits[2:] if base != 10 else digits
    if len(digits) > 200:  # far above any type; int() takes quadratic time
        raise LiteralError("the number is out of range of every type")
    if not digits:
        raise LiteralError(f"`{text}` has no digits")
    return sign * int(digits, base)


def read_float(text: str, type_name: str = "f64") -> float:
    """A FLOAT or INT token as an f64 that rounds to the value of its type; one that overflows f64 is an error."""
    if len(text) > 2000:
        raise LiteralError("the number has more than 2,000 characters")
    digits = text.replace("_", "")
    try:
        value = float(read_int(text)) if digits.lstrip("-")[:2] in ("0x", "0b") else float(digits)
    except OverflowError:
        value = math.inf
    if math.isinf(value) and "inf" not in text:
        raise LiteralError(f"{text[:40]} is out of range of f64")
    if type_name in _NARROW and _is_tie(value, type_name):
        number = read_int(text) if digits.lstrip("-")[:2] in ("0x", "0b") else Fraction(digits)
        if number != Fraction(value):  # rounded to a tie that it is not: to the side on which it is
            value = math.nextafter(value, math.inf if number > value else -math.inf)
    return math.nan if math.isnan(value) else value  # one object, so that trees with it are equal


def _is_tie(value: float, type_name: str) -> bool:
    """Whether a number is in the middle between two neighbours of a type."""
    digits, least = _NARROW[type_name]
    if value == 0 or not math.isfinite(value):
        return False
    halves = math.ldexp(value, 1 - max(math.frexp(value)[1] - digits, least))
    return halves % 2 == 1


def check_range(type_name: str, value: int | float) -> str | None:
    """Why ``value`` does not fit the type, or None where it does."""
    if isinstance(value, int):
        bits = int(type_name[1:])
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_name[0] == "i" else (0, (1 << bits) - 1)
        high = max(high, 1)  # the bit of i1 is -1 as a number, and 1 to most readers
        return None if low <= value <= high else f"{type_name} holds {low} to {high}"
    if math.isfinite(value) and abs(value) >= _FLOAT_LIMIT[type_name]:
        return f"the largest {type_name} is {_FLOAT_LARGEST[type_name]}"
    return None


_FLOAT_LARGEST = {"f16": "65504", "bf16": "3.3895314e38", "f32": "3.4028235e38", "f64": "1.7976931348623157e308"}


def read_string(text: str) -> str:
    """A STRING token, with its quotes, as the text that it means."""
    body = text[1:-1]
    if "\\" not in body:
        return body

    def one(match: re.Match[str]) -> str:
        long, short, char = match.groups()
        if long or short:
            number = int(long or short, 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise LiteralError(f"{match[0]} is not a character", match.start() + 1, len(match[0]))
            return chr(number)
        if char not in _ESCAPES:
            raise LiteralError(f"{match[0]} is not an escape", match.start() + 1, len(match[0]))
        return _ESCAPES[char]

    return _ESCAPE.sub(one, body)


def show_string(value: str) -> str:
    """``value`` as a STRING token: what cannot be seen as \\u{...}."""
    if value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return '"' + "".join(_SHORT.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in value) + '"'


def show_float(value: float) -> str:
    """The shortest text that reads back as ``value``, with a point or an exponent."""
    return repr(value)


__all__ = [
    "FLOAT_TYPES",
    "INT_TYPES",
    "LiteralError",
    "check_range",
    "read_float",
    "read_int",
    "read_string",
    "show_float",
    "show_string",
]
