"""How much one work-item of a kernel has to do, roughly: what a launch weighs against the cost of waking threads."""

from __future__ import annotations

from magpie.ir.nodes import Kernel, Node, Region
from magpie.ir.ops import ELEMENTARY, Effect
from magpie.passes.narrow_index import Ranges

__all__ = ["effort"]

# In units of one simple operation. Elementary functions take 20 to 60 of them (docs/MATH.md has their speeds).
_CALL = 40
_ATOMIC = 20
_DIVISION = frozenset(("floordiv", "mod", "tdiv", "trem", "div"))
_SLOW = 10
# Of a loop whose length only the launch knows. Too high a guess costs a launch the microseconds of waking threads, too
# low a one costs it the other threads.
_TRIPS = 64
_MOST = 1 << 30


def effort(kernel: Kernel, ranges: Ranges) -> int:
    """Simple operations of one work-item that takes the longer arm of each branch."""
    return min(_MOST, max(1, _region(kernel.body, ranges)))


def _region(region: Region, ranges: Ranges) -> int:
    return sum(_node(node, ranges) for node in region)


def _node(node: Node, ranges: Ranges) -> int:
    if node.op == "if":
        return 1 + max(_region(r, ranges) for r in node.regions)
    if node.op == "loop":
        counted = node.attrs.get("counted")
        trips = ranges.of(counted[1])[1] if counted is not None else _MOST
        inside = sum(_region(r, ranges) for r in node.regions)
        return inside * (max(0, trips) if trips <= 1 << 16 else _TRIPS)
    if node.op in ELEMENTARY:
        return _CALL
    if node.info.effect is Effect.ATOMIC:
        return _ATOMIC
    if node.op in _DIVISION or node.info.effect is Effect.CROSS_LANE:
        return _SLOW
    return 0 if node.op in ("const", "param", "slot_get", "slot_set") else 1
