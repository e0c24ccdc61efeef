"""Atomic operations. Each returns the old value and is relaxed; device scope on buffers, workgroup scope on shared.

``index`` is an integer, or a tuple with one integer per dimension.
"""

from __future__ import annotations

from typing import Any

from magpie.language._builtin import builtin

__all__ = [
    "atomic_add",
    "atomic_and",
    "atomic_and_",
    "atomic_cas",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_or_",
    "atomic_store",
    "atomic_sub",
    "atomic_xor",
]


@builtin
def atomic_add(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] += value``; the old value."""


@builtin
def atomic_sub(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] -= value``; the old value."""


@builtin
def atomic_min(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] = min(array[index], value)``; the old value."""


@builtin
def atomic_max(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] = max(array[index], value)``; the old value."""


@builtin
def atomic_and(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] &= value``; the old value. Integers only."""


@builtin
def atomic_or(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] |= value``; the old value. Integers only."""


@builtin
def atomic_xor(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] ^= value``; the old value. Integers only."""


@builtin
def atomic_exchange(array: Any, index: Any, value: Any, scope: str | None = None) -> Any:
    """``array[index] = value``; the old value."""


@builtin
def atomic_cas(array: Any, index: Any, expected: Any, desired: Any, scope: str | None = None) -> Any:
    """If ``array[index] == expected``, set it to ``desired``; the old value in either case."""


@builtin
def atomic_load(array: Any, index: Any, order: str = "relaxed", scope: str | None = None) -> Any:
    """Read ``array[index]`` atomically. ``order``: relaxed or acquire."""


@builtin
def atomic_store(array: Any, index: Any, value: Any, order: str = "relaxed", scope: str | None = None) -> None:
    """Write ``array[index]`` atomically. ``order``: relaxed or release."""


atomic_and_ = atomic_and
atomic_or_ = atomic_or
