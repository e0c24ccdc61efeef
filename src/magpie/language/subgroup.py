"""Operations among the work-items of a subgroup (a warp, wave or SIMD group).

Subgroups are consecutive runs of the work-items of a workgroup, x fastest. Only active work-items take part.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from magpie.language._builtin import Builtin

_F = TypeVar("_F", bound=Callable[..., Any])


def _sub(fn: _F) -> _F:
    return cast(_F, Builtin(cast(FunctionType, fn), "subgroup."))


@_sub
def size() -> Any:
    """Work-items of a full subgroup."""


@_sub
def lane() -> Any:
    """The work-item's number within its subgroup."""


@_sub
def id() -> Any:
    """The subgroup's number within its workgroup."""


@_sub
def count() -> Any:
    """Subgroups of the workgroup; the last may be partial."""


@_sub
def barrier() -> None:
    """Wait for the active work-items of the subgroup; orders memory within it."""


@_sub
def sum(x: Any) -> Any:
    """The sum over the active work-items, as a binary tree over their ranks."""


@_sub
def prod(x: Any) -> Any:
    """The product over the active work-items."""


@_sub
def min(x: Any) -> Any:
    """The smallest value of the active work-items."""


@_sub
def max(x: Any) -> Any:
    """The largest value of the active work-items."""


@_sub
def reduce(x: Any, op: str = "add") -> Any:
    """Reduction with ``op``: add, mul, min, max, and, or, xor."""


@_sub
def scan(x: Any, op: str = "add", exclusive: bool = False) -> Any:
    """Prefix reduction in lane order; inclusive unless ``exclusive``."""


@_sub
def shuffle(x: Any, lane: Any) -> Any:
    """The value of ``x`` in the given lane; unspecified if that lane is inactive."""


@_sub
def shuffle_xor(x: Any, mask: Any) -> Any:
    """The value of ``x`` in lane ``lane() ^ mask``."""


@_sub
def shuffle_up(x: Any, delta: Any) -> Any:
    """The value of ``x`` in lane ``lane() - delta``; the own value where there is none."""


@_sub
def shuffle_down(x: Any, delta: Any) -> Any:
    """The value of ``x`` in lane ``lane() + delta``; the own value where there is none."""


@_sub
def broadcast(x: Any, lane: Any = 0) -> Any:
    """The value of ``x`` in one lane, the same for all."""


@_sub
def ballot(cond: Any) -> Any:
    """A u64 whose bit i says that lane i is active and its ``cond`` true."""


@_sub
def ballot_count(cond: Any) -> Any:
    """The number of active work-items with a true ``cond``."""


@_sub
def ballot_rank(cond: Any) -> Any:
    """The number of active lanes below this one with a true ``cond``."""


@_sub
def any(cond: Any) -> Any:
    """True if ``cond`` is true for any active work-item."""


@_sub
def all(cond: Any) -> Any:
    """True if ``cond`` is true for every active work-item."""


@_sub
def elect() -> Any:
    """True for the lowest active lane only."""


@_sub
def is_first() -> Any:
    """True for lane 0, whether other lanes are active or not."""
