"""Reaching definitions of slots over structured control flow.

For each `slot_get`: which `slot_set`s its value can come from, and through which loop's back edge. None as a definition
is the zero that every slot starts with. The loop, if any, is the outermost one whose back edge the definition crossed,
which says whether the definition and the use belong to one trip (see `magpie.passes.uniformity`).

Every node is visited once. What a slot holds is known relative to the start of the innermost loop's trip: the
definitions made since then, and whether it may still hold what it held there. What it held there is what comes into the
loop and what its trips leave behind, which is known when its end was seen; uses are answered then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magpie.ir.nodes import Kernel, Node, Region, Slot

__all__ = ["Definition", "Reaching", "reaching_definitions"]

# (the slot_set or None, the loop whose back edge was crossed or None)
Definition = tuple[Node | None, Node | None]
Reaching = dict[Node, set[Definition]]

# The definitions made since the start of the trip, and whether what was there before may be left.
_Value = tuple[frozenset[Definition], bool]
_Changes = dict[Slot, _Value]
_INITIAL: frozenset[Definition] = frozenset({(None, None)})
_NONE: frozenset[Definition] = frozenset()
_SAME: _Value = (_NONE, True)


def _join(a: _Value, b: _Value) -> _Value:
    return a if a is b else (a[0] | b[0], a[1] or b[1])


class _Ways:
    """What slots hold on the ways that leave a trip at one kind of place. A way adds only what has changed since the
    last one: many ways that change little cost little."""

    def __init__(self) -> None:
        self.changes: _Changes = {}
        self.dirty: set[Slot] = set()
        self.any = False

    def add(self, now: _Changes) -> None:
        for slot in self.dirty:
            value = now.get(slot, _SAME)
            before = self.changes.get(slot, _SAME) if self.any else value
            self.changes[slot] = _join(before, value)
        self.dirty.clear()
        self.any = True


@dataclass(slots=True, eq=False)
class _Trip:
    """The trip of a loop that is being walked; for what is in no loop, the one trip of the kernel (``loop`` None)."""

    loop: Node | None
    now: _Changes = field(default_factory=dict)
    log: list[tuple[Slot, _Value | None]] = field(default_factory=list)  # what assignments replaced
    breaks: _Ways = field(default_factory=_Ways)
    continues: _Ways = field(default_factory=_Ways)
    asked: dict[Slot, None] = field(default_factory=dict)  # slots whose content at the start matters
    start: dict[Slot, frozenset[Definition]] = field(default_factory=dict)
    gets: list[tuple[Node, _Value]] = field(default_factory=list)
    inner: list[tuple[_Trip, dict[Slot, _Value], _Changes]] = field(default_factory=list)

    def set(self, slot: Slot, value: _Value) -> None:
        self.log.append((slot, self.now.get(slot)))
        self.now[slot] = value
        self.breaks.dirty.add(slot)
        self.continues.dirty.add(slot)

    def undo(self, mark: int) -> _Changes:
        """Go back to where the log had ``mark`` entries; what has changed since then."""
        changed = {slot: self.now[slot] for slot, _ in self.log[mark:]}
        while len(self.log) > mark:
            slot, old = self.log.pop()
            if old is None:
                del self.now[slot]
            else:
                self.now[slot] = old
            self.breaks.dirty.add(slot)
            self.continues.dirty.add(slot)
        return changed


def _region(trip: _Trip, region: Region) -> bool:
    """Walk a region; whether control comes to its end."""
    for node in region:
        op = node.op
        if op == "slot_get":
            slot = node.attrs["slot"]
            value = trip.now.get(slot, _SAME)
            trip.gets.append((node, value))
            if value[1]:
                trip.asked[slot] = None
        elif op == "slot_set":
            trip.set(node.attrs["slot"], (frozenset({(node, None)}), False))
        elif op == "if":
            if not _if(trip, node):
                return False
        elif op == "loop":
            if not _loop(trip, node):
                return False
        elif op in ("break", "break_if"):
            trip.breaks.add(trip.now)
            if op == "break":
                return False
        elif op == "continue":
            trip.continues.add(trip.now)
            return False
        elif op == "return":
            return False
    return True


def _if(trip: _Trip, node: Node) -> bool:
    ends: list[_Changes] = []
    for region in node.regions:
        mark = len(trip.log)
        alive = _region(trip, region)
        changed = trip.undo(mark)
        if alive:
            ends.append(changed)
    if not ends:
        return False
    first, *rest = ends
    for slot in {s: None for end in ends for s in end}:
        before = trip.now.get(slot, _SAME)
        value = first.get(slot, before)
        for end in rest:
            value = _join(value, end.get(slot, before))
        trip.set(slot, value)
    return True


def _loop(around: _Trip, node: Node) -> bool:
    body, step = node.regions
    trip = _Trip(node)
    if _region(trip, body):
        trip.continues.add(trip.now)
    back: _Changes = {}
    if trip.continues.any:
        trip.now, trip.log = {}, []
        for slot in (*trip.breaks.changes, *trip.breaks.dirty):
            trip.breaks.dirty.add(slot)
        for slot, value in trip.continues.changes.items():
            trip.set(slot, value)
        if _region(trip, step):
            back = trip.now
    # by the end of a trip, what was there at its start is there still, or one of these
    left: _Changes = {s: (frozenset((d, node) for d, _ in made), True) for s, (made, _) in back.items() if made}
    entry = {slot: around.now.get(slot, _SAME) for slot in trip.asked}
    for slot, value in entry.items():
        if value[1]:
            around.asked[slot] = None
    around.inner.append((trip, entry, left))
    ways = trip.breaks
    for slot in {**ways.changes, **left} if ways.any else ():
        gone, kept = ways.changes.get(slot, _SAME)
        if kept:
            before = around.now.get(slot, _SAME)
            gone, kept = gone | left.get(slot, _SAME)[0] | before[0], before[1]
        around.set(slot, (gone, kept))
    return ways.any


def reaching_definitions(kernel: Kernel) -> Reaching:
    """For each `slot_get` of the kernel's body (calls inlined), the definitions that reach it."""
    whole = _Trip(None)
    _region(whole, kernel.body)
    whole.start = dict.fromkeys(whole.asked, _INITIAL)
    found: Reaching = {}
    todo = [whole]
    while todo:
        trip = todo.pop()
        for get, (definitions, kept) in trip.gets:
            found[get] = set(definitions | trip.start[get.attrs["slot"]] if kept else definitions)
        for inner, entry, left in trip.inner:
            for slot, (definitions, kept) in entry.items():
                inner.start[slot] = definitions | left.get(slot, _SAME)[0]
                if kept:
                    inner.start[slot] |= trip.start[slot]
            todo.append(inner)
    return found
