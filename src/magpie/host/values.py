"""Values of host programs.

Numbers, bools and strings are Python's: an integer is within its type, a float is rounded to it, a Str counts its UTF-8
bytes. ``unit`` is None. What is on the heap is one object for all names that it has; value structs and enums are never
changed. Handles of the GPU are in `magpie.host.gpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from magpie.mpir.types import Ty
from magpie.records import record

__all__ = [
    "ArrayValue",
    "BuilderValue",
    "CallableValue",
    "EnumValue",
    "MapValue",
    "PointerValue",
    "StructValue",
    "UserKey",
    "err",
    "ok",
]


@dataclass(slots=True, eq=False, weakref_slot=True)
class ArrayValue:
    """An Array<element>."""

    element: Ty
    items: list[Any]


class UserKey:
    """A key of a type that says itself what its hash is, and which of its values are equal."""

    __slots__ = ("equal", "hash", "value")

    def __init__(self, value: Any, hash: int, equal: Callable[[Any, Any], bool]) -> None:
        self.value = value
        self.hash = hash
        self.equal = equal

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserKey) and self.hash == other.hash and self.equal(self.value, other.value)


@dataclass(slots=True, eq=False, weakref_slot=True)
class MapValue:
    """A Map<key, value>; its entries keep the order in which they came. Keys are values of the program, or each in a
    `UserKey`."""

    key: Ty
    value: Ty
    items: dict[Any, Any]


@dataclass(slots=True, eq=False, weakref_slot=True)
class BuilderValue:
    """A TStrBuilder: the parts of its text."""

    parts: list[str]

    def joined(self) -> str:
        """The text so far, which is one part from now on."""
        self.parts[:] = ["".join(self.parts)]
        return self.parts[0]


@dataclass(slots=True, eq=False, weakref_slot=True)
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


@record
class PointerValue:
    """A raw pointer: element ``at`` of ``memory``, whether there is one or not; null without memory."""

    memory: list[Any] | None
    at: int = 0


def ok(type_: Ty, value: Any = None) -> EnumValue:
    """``value`` as the Ok of a TResult; ``type_`` is the TResult."""
    return EnumValue(type_, "Ok", 0, (value,))


def err(type_: Ty, error: Any) -> EnumValue:
    """``error`` as the Err of a TResult; ``type_`` is the TResult."""
    return EnumValue(type_, "Err", 1, (error,))
