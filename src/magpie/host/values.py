"""Values of host programs.

Numbers, bools and strings are Python's: an integer is within its type, a float is rounded to it, a Str counts its UTF-8
bytes. ``unit`` is None. What is on the heap is one object for all names that it has; value structs and enums are never
changed. Handles of the GPU are in `magpie.host.gpu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from magpie.mpir.types import Ty
from magpie.records import record

__all__ = ["ArrayValue", "CallableValue", "EnumValue", "MapValue", "StructValue", "err", "ok"]


@dataclass(slots=True, eq=False)
class ArrayValue:
    """An Array<element>."""

    element: Ty
    items: list[Any]


@dataclass(slots=True, eq=False)
class MapValue:
    """A Map<key, value>; its entries keep the order in which they came."""

    key: Ty
    value: Ty
    items: dict[Any, Any]


@dataclass(slots=True, eq=False)
class StructValue:
    """A struct of ``type``, the type with its arguments; the fields of a heap struct may be set."""

    type: Ty
    fields: dict[str, Any]


@record
class EnumValue:
    """A variant of an enum: its name, its number in the declaration, and its fields in their order."""

    type: Ty
    variant: str
    tag: int
    fields: tuple[Any, ...] = ()


@record
class CallableValue:
    """A function with values for its first parameters."""

    function: str
    captured: tuple[Any, ...] = ()


def ok(type_: Ty, value: Any = None) -> EnumValue:
    """``value`` as the Ok of a TResult; ``type_`` is the TResult."""
    return EnumValue(type_, "Ok", 0, (value,))


def err(type_: Ty, error: Any) -> EnumValue:
    """``error`` as the Err of a TResult; ``type_`` is the TResult."""
    return EnumValue(type_, "Err", 1, (error,))
