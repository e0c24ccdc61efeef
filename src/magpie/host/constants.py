"""Literals as values of their types."""

from __future__ import annotations

from typing import Any

from magpie.host.rounding import rounding
from magpie.host.values import ArrayValue
from magpie.mpir.nodes import Const, Operand
from magpie.mpir.types import Ty

__all__ = ["constant", "global_value", "wrapped"]


def wrapped(value: int, type_: Ty) -> int:
    """An integer as the one of the type that has its low bits."""
    bits = type_.bits
    value &= (1 << bits) - 1
    return value if type_.is_unsigned or not value >> (bits - 1) else value - (1 << bits)


def constant(literal: Const) -> Any:
    """The value of a literal: the bit of i1 may be written as 1, and is -1."""
    value, type_ = literal.value, literal.type
    if type_.is_int:
        return wrapped(int(value), type_)
    if type_.is_float:
        return rounding(type_.name)(float(value))
    if type_.name == "unit":
        return None
    return bool(value) if type_.is_bool else value


def global_value(value: Operand, type_: Ty) -> Any:
    """The value of a global: a literal, or an Array of them."""
    if isinstance(value, tuple):
        element = type_.args[0] if type_.args else Ty("unit")
        return ArrayValue(element, [global_value(v, element) for v in value])
    assert isinstance(value, Const)
    return constant(value)
