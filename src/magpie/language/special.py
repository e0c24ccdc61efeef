"""Printing, compile-time loops, and operations that only some GPUs have."""

from __future__ import annotations

from typing import Any

from magpie.language._builtin import builtin

__all__ = ["constexpr", "free", "malloc", "print", "static_range", "trap"]


class _Constexpr:
    """As an annotation: the parameter is a compile-time value, and each value makes its own specialisation."""

    def __repr__(self) -> str:
        return "mp.constexpr"


constexpr = _Constexpr()


@builtin
def static_range(start: Any, stop: Any = None, step: Any = None) -> Any:
    """As ``range`` with compile-time bounds; the body is written out once per trip, with the variable a constant."""


@builtin
def print(*values: Any) -> None:
    """Print numbers and texts; f-strings with plain ``{name}`` fields work. The order among work-items is open."""


@builtin
def trap(message: str = "trap") -> None:
    """Stop the launch with an error."""


@builtin
def malloc(count: Any, dtype: Any) -> Any:
    """Memory for ``count`` elements from the device's heap, this work-item's own, with unspecified contents.

    ``p[i]``, ``len(p)`` and ``if p:``, which is false where the heap has no room or ``count`` is below 1. Needs
    ``requires=("device_malloc",)``.
    """


@builtin
def free(pointer: Any) -> None:
    """Give memory of ``malloc`` back; each work-item frees what it was given."""
