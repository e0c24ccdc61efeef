"""What a frontend specialises a kernel on: one descriptor per parameter. Hashable, part of cache keys."""

from __future__ import annotations

from collections.abc import Hashable

from magpie.dtypes import DType, Type
from magpie.records import record

__all__ = ["Arg", "ArrayArg", "ConstArg", "ScalarArg", "WeakArg"]


@record
class ArrayArg:
    """An array of elements of ``type`` with ``rank`` dimensions (0 to 4)."""

    type: Type
    rank: int


@record
class ScalarArg:
    """A value of a declared type: annotation, NumPy scalar or struct value."""

    type: Type


@record
class WeakArg:
    """A Python scalar for a parameter without annotation: ``"int"``, ``"float"`` or ``"bool"``.

    Like a literal, it takes the type it meets.
    """

    kind: str


@record
class ConstArg:
    """A compile-time value (`mp.constexpr` parameter): number, bool, str, dtype, tuple of these, or function."""

    value: Hashable | DType


Arg = ArrayArg | ScalarArg | WeakArg | ConstArg
