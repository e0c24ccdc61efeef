"""Operations among all work-items of a workgroup, in the order of their linear numbers, x fastest.

Every work-item of the workgroup must call them, or none: they hold barriers, so a call in a branch that only some
work-items take is an error (``MPG_CORE_1400``). They may stand in loops and be called any number of times. All but
``scan`` give every work-item the same value, which may decide a branch that holds barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from magpie.language._builtin import Builtin

_F = TypeVar("_F", bound=Callable[..., Any])


def _group(fn: _F) -> _F:
    return cast(_F, Builtin(cast(FunctionType, fn), "workgroup."))


@_group
def sum(x: Any) -> Any:
    """The sum over the workgroup, as a binary tree over the linear numbers: the same bits at any subgroup size."""


@_group
def min(x: Any) -> Any:
    """The smallest value of the workgroup."""


@_group
def max(x: Any) -> Any:
    """The largest value of the workgroup."""


@_group
def reduce(x: Any, op: str = "add") -> Any:
    """Reduction with ``op``: add, mul, min, max, and, or, xor; a binary tree as for ``sum``."""


@_group
def scan(x: Any, op: str = "add", exclusive: bool = False) -> Any:
    """Prefix reduction in the order of the linear numbers; inclusive unless ``exclusive``."""


@_group
def broadcast(x: Any, item: Any = 0) -> Any:
    """The value of ``x`` in the work-item with the linear number ``item``, which is the same for all."""
