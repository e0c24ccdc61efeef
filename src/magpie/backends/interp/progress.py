"""Finds loops that can never end: a trip after which mask, slots and written memory are what they were before it.

The program is deterministic and alone with its memory, so such a trip repeats for ever (RULES 11). Looking costs a copy
of the state, so it is done at trip 64 and then at 16 times as many, again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.interp.context import Mask, StopLaunch
from magpie.ir.nodes import Node

__all__ = ["Progress"]

Frame = list[Any]
_LIMIT = 1 << 26  # bytes of memory worth copying


class Progress:
    """The watch of one loop."""

    first = 64

    def __init__(self, node: Node, slots: list[int], windows: list[int]) -> None:
        self.node = node
        self.slots = slots
        self.windows = windows

    def snapshot(self, r: Frame, live: Mask) -> Any:
        """The state before a trip, or None where it is too large."""
        if sum(r[w].flat.nbytes for w in self.windows) > _LIMIT:
            return None
        return live, [r[s] for s in self.slots], [r[w].flat.copy() for w in self.windows]

    def check(self, r: Frame, live: Mask, before: Any) -> None:
        """Stop the launch if nothing is different one trip later."""
        mask, slots, memory = before
        if live is not mask and not (live is not True and mask is not True and np.array_equal(live, mask)):
            return
        for register, old in zip(self.slots, slots, strict=True):
            if not _same(r[register], old, live):
                return
        for window, copy in zip(self.windows, memory, strict=True):
            if not _same(r[window].flat, copy, True):
                return
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
