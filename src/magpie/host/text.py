"""Values as text: numbers by their shortest digits, and any value as a panic shows it."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

from magpie.host.rounding import FORMATS, round_exact
from magpie.host.values import ArrayValue, CallableValue, EnumValue, MapValue, StructValue, UserKey
from magpie.mpir.nodes import Module
from magpie.mpir.prelude import fields_of, variants_of
from magpie.mpir.types import Ty

__all__ = ["display", "scalar_text"]

_MOST_ITEMS, _MOST_CHARACTERS, _DEEPEST = 8, 80, 3


def scalar_text(value: Any, type_: Ty) -> str:
    """A number, bool or Str as text. A float has the fewest digits that read back as the same number of its type, and
    of these the nearest ones; an exponent stands below 1e-4 and from 1e16 on, as Python has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if type_.name == "f64" or not math.isfinite(value) else _narrow(value, type_.name)
    if value is None:
        return "unit"
    return str(value)


def _narrow(value: float, type_name: str) -> str:
    """`repr` of a float of a narrower type."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if not value:
        return sign + "0.0"
    digits, exponent = _shortest(abs(value), type_name)
    if not -4 <= exponent < 16:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"


def _shortest(value: float, type_name: str) -> tuple[str, int]:
    """The digits of a number above 0 and the exponent of the first: the fewest in the interval that rounds to it
    (Steele and White, "How to print floating-point numbers accurately", by search instead of generation)."""
    exact = Fraction(value)
    exponent = len(str(int(exact))) - 1 if exact >= 1 else -len(str(int(1 / exact)))
    for count in range(1, FORMATS[type_name].digits + 1):
        unit = Fraction(10) ** (exponent - count + 1)
        below = int(exact / unit)
        near = [n for n in (below, below + 1) if n and round_exact(n * unit, type_name) == value]
        if near:
            found = min(near, key=lambda n: (abs(n * unit - exact), n % 2))
            digits = str(found)
            return digits.rstrip("0"), exponent + len(digits) - count
    raise AssertionError(f"{value} is no number of {type_name}")


def display(value: Any, type_: Ty | None, module: Module, depth: int = 0) -> str:
    """Any value, cut where it is long. ``type_`` is needed of numbers alone; what is on the heap knows its own."""
    if isinstance(value, str):
        short = value if len(value) <= _MOST_CHARACTERS else value[:_MOST_CHARACTERS]
        return json.dumps(short, ensure_ascii=False) + ("..." if short is not value else "")
    if isinstance(value, bool | int | float) or value is None:
        return scalar_text(value, type_ or Ty("f64"))
    if depth >= _DEEPEST:
        return "..."

    def inner(part: Any, of: Ty | None) -> str:
        return display(part, of, module, depth + 1)

    match value:
        case ArrayValue():
            shown = [inner(v, value.element) for v in value.items[:_MOST_ITEMS]]
            return f"[{', '.join(shown)}{_more(value.items)}]"
        case MapValue():
            first = list(value.items.items())[:_MOST_ITEMS]
            keyed = [(k.value if isinstance(k, UserKey) else k, v) for k, v in first]
            pairs = [f"{inner(k, value.key)}: {inner(v, value.value)}" for k, v in keyed]
            return f"{{{', '.join(pairs)}{_more(value.items)}}}"
        case StructValue():
            types = dict(fields_of(module, value.type.owned) or ())
            return f"{value.type} {{ {', '.join(f'{k}={inner(v, types.get(k))}' for k, v in value.fields.items())} }}"
        case EnumValue():
            fields = (variants_of(module, value.type.owned) or {}).get(value.variant) or []
            parts = [inner(v, of) for v, (_, of) in zip(value.fields, fields, strict=False) if v is not None]
            return f"{value.variant}({', '.join(parts)})" if parts else value.variant
        case CallableValue():
            return f"@{value.function}"
    return str(value)


def _more(items: Any) -> str:
    return f", ... {len(items)} in all" if len(items) > _MOST_ITEMS else ""
