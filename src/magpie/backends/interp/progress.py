"""Finds loops that can never end: a trip after which mask, slots and written memory are what they were before it.

The program is deterministic and alone with its memory, so such a trip repeats for ever (RULES 11). Looking costs a
comparison, so it is done at trip 64 and then at 16 times as many, again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.interp.context import Mask, StopLaunch
from magpie.ir.nodes import Node, Slot, walk

__all__ = ["Progress", "steering_slots"]

Frame = list[Any]
_LIMIT = 1 << 26  # bytes of memory worth copying


def steering_slots(loop: Node) -> list[Slot]:
    """The slots set in a loop that its control flow or its effects depend on; one that only counts trips is not."""
    inside = [n for region in loop.regions for n in walk(region)]
    setters: dict[Slot, list[Node]] = {}
    for node in inside:
        if node.op == "slot_set":
            setters.setdefault(node.attrs["slot"], []).append(node)
    pending = [a for n in inside if not n.info.pure and n.op not in ("slot_set", "slot_get", "load") for a in n.args]
    seen: set[Node] = set()
    found: dict[Slot, None] = {}
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        pending += node.args
        slot = node.attrs.get("slot") if node.op == "slot_get" else None
        if slot is not None and slot in setters and slot not in found:
            found[slot] = None
            pending += [a for setter in setters[slot] for a in setter.args]
    return list(found)


class Progress:
    """The watch of one loop."""

    first = 64

    def __init__(self, node: Node, slots: list[int], windows: list[int]) -> None:
        self.node = node
        self.slots = slots
        self.windows = windows

    def look(self, r: Frame, live: Mask, before: Any) -> Any:
        """The state after a trip, to be given back after the next one; None when there is nothing more to see.

        Memory is copied only after a trip that left mask and slots alone, which no counting loop does. Stops the launch
        when such a trip left memory alone too.
        """
        if before is None:
            return live, [r[s] for s in self.slots], None
        mask, slots, memory = before
        if live is not mask and not (live is not True and mask is not True and np.array_equal(live, mask)):
            return None
        for register, old in zip(self.slots, slots, strict=True):
            if not _same(r[register], old, live):
                return None
        if memory is None:
            if sum(r[w].flat.nbytes for w in self.windows) > _LIMIT:
                return None
            return live, slots, [r[w].flat.copy() for w in self.windows]
        for window, copy in zip(self.windows, memory, strict=True):
            if not _same(r[window].flat, copy, True):
                return None
        chunk = r[0]
        chunk.report(
            "livelock",
            self.node,
            chunk.active(live),
            "this loop can never end: a trip of {item} changed nothing that it could wait for",
            help="within a workgroup there is progress only at barriers; a workgroup may wait only for lower ones",
        )
        raise StopLaunch


def _same(a: Any, b: Any, live: Mask) -> bool:
    if a is b:
        return True
    if live is not True:
        a, b = np.broadcast_to(a, live.shape)[live], np.broadcast_to(b, live.shape)[live]
    return bool(np.all((a == b) | ((a != a) & (b != b))))
