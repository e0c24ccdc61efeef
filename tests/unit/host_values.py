"""For tests of host programs: random values of a type, and whether a value is one of its type."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from magpie.host.constants import wrapped
from magpie.host.rounding import rounding
from magpie.host.values import ArrayValue, BuilderValue, EnumValue, MapValue, StructValue
from magpie.mpir.types import Ty

TEXTS = ["", "a", "ab", "é", "a€b", "12", "-7", "1e5", "nan", "true", " x ", "\n", "\U0001f426"]


def value(type_: Ty, rng: Random) -> Any:
    """A random value of a type, edges often."""
    match type_.name:
        case "bool":
            return rng.random() < 0.5
        case "Str":
            return rng.choice(TEXTS) + rng.choice(TEXTS)
        case "Array":
            return ArrayValue(type_.args[0], [value(type_.args[0], rng) for _ in range(rng.randrange(4))])
        case "Map":
            key, of = type_.args
            return MapValue(key, of, {value(key, rng): value(of, rng) for _ in range(rng.randrange(4))})
        case "TOption":
            some = EnumValue(type_, "Some", 0, (value(type_.args[0], rng),))
            return some if rng.random() < 0.7 else EnumValue(type_, "None", 1)
        case "TStrBuilder":
            return BuilderValue([rng.choice(TEXTS) for _ in range(rng.randrange(3))])
    if type_.is_int:
        edge = rng.choice([0, 1, 2, 3, -1, 1 << (type_.bits - 1), (1 << (type_.bits - 1)) - 1, rng.getrandbits(type_.bits)])
        return wrapped(edge, type_)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-40, 1e300, -1e5, 3.25, math.inf, -math.inf, math.nan, rng.gauss(0, 9)]
    return rounding(type_.name)(rng.choice(edges))


def fits(found: Any, type_: Ty) -> bool:
    """Whether a value is one of its type."""
    match type_.name:
        case "unit":
            return found is None
        case "bool":
            return type(found) is bool
        case "Str":
            return type(found) is str
        case "Array":
            return (
                isinstance(found, ArrayValue)
                and found.element == type_.args[0]
                and all(fits(v, found.element) for v in found.items)
            )
        case "Map":
            return isinstance(found, MapValue) and (found.key, found.value) == type_.args
        case "TStrBuilder":
            return isinstance(found, BuilderValue)
        case "TOption" | "TResult":
            names = {"TOption": ["Some", "None"], "TResult": ["Ok", "Err"]}[type_.name]
            if not isinstance(found, EnumValue) or found.type != type_ or found.variant != names[found.tag]:
                return False
            wanted = type_.args[found.tag : found.tag + 1]
            return len(found.fields) == len(wanted) and all(map(fits, found.fields, wanted))
        case "TParseError":
            return isinstance(found, StructValue) and set(found.fields) == {"text", "message"}
    if type_.is_int:
        return type(found) is int and wrapped(found, type_) == found
    assert type_.is_float, type_
    return type(found) is float and (found != found or rounding(type_.name)(found) == found)
