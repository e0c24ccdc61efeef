"""Raw pointers of host programs: a place in memory of a known size. What C would crash on panics."""

from __future__ import annotations

from typing import Any

from magpie.host.builtins import Site, Step, operation
from magpie.host.panics import Panic
from magpie.host.values import PointerValue

__all__: list[str] = []


def _memory(pointer: PointerValue) -> list[Any]:
    """The memory in which a pointer points to an element."""
    items = pointer.memory
    if items is None:
        raise Panic("the pointer is null")
    if not 0 <= pointer.at < len(items):
        raise Panic(f"the pointer points to element {pointer.at} of {len(items)}")
    return items


@operation("ptr.load")
def _load(site: Site) -> Step:
    p = site.slots["p"]
    return lambda frame: _memory(frame[p])[frame[p].at]


@operation("ptr.store")
def _store(site: Site) -> Step:
    p, v = site.slots["p"], site.slots["v"]

    def step(frame: list[Any]) -> None:
        _memory(frame[p])[frame[p].at] = frame[v]

    return step


@operation("ptr.add")
def _add(site: Site) -> Step:
    p, n = site.slots["p"], site.slots["count"]
    return lambda frame: PointerValue(frame[p].memory, frame[p].at + frame[n])


@operation("ptr.is_null")
def _is_null(site: Site) -> Step:
    p = site.slots["p"]
    return lambda frame: frame[p].memory is None
