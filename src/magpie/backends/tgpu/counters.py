"""Counters of while loops that 32 bits hold: they start at numbers, are counted up by numbers, and each loop that
counts one ends, before it does so, where the counter has come to something that 32 bits hold."""

from __future__ import annotations

from collections.abc import Iterator

from magpie.dtypes import index
from magpie.ir.nodes import Kernel, Node, Region, Slot
from magpie.passes.narrow_index import Ranges

__all__ = ["bounded_counters"]

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


def bounded_counters(kernel: Kernel, ranges: Ranges) -> set[Slot]:
    """The slots of type index that are such counters.

    In a trip of the innermost loop around it each count happens once at most, and behind the test of that loop. So a
    counter is never above the largest start or end together with all that it is counted by.
    """
    most: dict[Slot, int] = {}
    counted: dict[Slot, int] = {}
    other: set[Slot] = set()
    for node, loop in _sets(kernel.body, None):
        slot, value = node.attrs["slot"], node.args[0]
        if slot.type is not index:
            continue
        by = _count(slot, value)
        start = value.attrs["value"] if value.op == "const" else None
        end = None if by is None or loop is None else _end(slot, loop, ranges)
        if start is not None and start >= _LEAST:
            most[slot] = max(most.get(slot, 0), start)
        elif by is not None and end is not None:
            most[slot] = max(most.get(slot, 0), end)
            counted[slot] = counted.get(slot, 0) + by
        else:
            other.add(slot)
    return {slot for slot in most if slot not in other and most[slot] + counted.get(slot, 0) <= _MOST}


def _sets(region: Region, loop: Node | None) -> Iterator[tuple[Node, Node | None]]:
    """Every slot_set, with the innermost loop around it."""
    for node in region:
        if node.op == "slot_set":
            yield node, loop
        for inner in node.regions:
            yield from _sets(inner, node if node.op == "loop" else loop)


def _count(slot: Slot, value: Node) -> int | None:
    """What a slot is counted up by, where the value is the slot and a number that is not negative."""
    if value.op != "add":
        return None
    for a, b in (value.args, reversed(value.args)):
        if a.op == "slot_get" and a.attrs["slot"] is slot and b.op == "const" and b.attrs["value"] >= 0:
            return int(b.attrs["value"])
    return None


def _end(slot: Slot, loop: Node, ranges: Ranges) -> int | None:
    """The largest value that a slot has behind the first test of a loop; None where nothing says so."""
    for node in loop.regions[0]:
        if node.op == "break_if":
            return _where(slot, node.args[0], False, ranges)
        if node.regions or (node.op == "slot_set" and node.attrs["slot"] is slot):
            return None
    return None


def _where(slot: Slot, cond: Node, sense: bool, ranges: Ranges) -> int | None:
    """The largest value of a slot where a condition is ``sense``."""
    if cond.op == "not":
        return _where(slot, cond.args[0], not sense, ranges)
    if cond.op in ("and", "or"):
        if sense is (cond.op == "or"):
            return None  # only one of the two need hold
        found = [_where(slot, arg, sense, ranges) for arg in cond.args]
        return min((most for most in found if most is not None), default=None)
    if cond.op not in ("lt", "le", "gt", "ge"):
        return None
    a, b = cond.args if cond.op in ("lt", "le") else reversed(cond.args)
    strict = cond.op in ("lt", "gt")
    if not sense:  # not a < b is b <= a
        a, b, strict = b, a, not strict
    if a.op != "slot_get" or a.attrs["slot"] is not slot:
        return None
    return ranges.of(b)[1] - strict
