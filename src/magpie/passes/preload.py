"""Loads of several trips of a loop before the rest of the first of them.

A thread that loads, computes and loads again waits once a trip. Where the loads of later trips do not depend on what
earlier ones do, they may all be on their way together: the loop is unrolled, and of each body the loads that can go
first, with what their addresses are made of, stand before all else.

What makes a load movable:

- it stands at the top of the body, and its indices follow from the loop's count and from what the loop does not change;
- nothing in the loop synchronises, and no lane may be missed by a cross-lane operation;
- the loop does not write what is loaded. It may store to the same array behind the load and at the same indices, if
  they are others in each trip: a range's variable never takes a value twice, and elements with other indices are other
  elements. No other array that the loop writes may overlap.

Since every trip of such a loop is run to its end, nothing is loaded that the source does not load.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.ir.nodes import Array, Kernel, Node, Slot, walk
from magpie.ir.ops import Effect
from magpie.passes.unroll import Counted, counted_loop, is_test, unroll

__all__ = ["Plan", "preload"]

#: How many trips of a loop to take at once, 1 for none: of the loop and the loads that would go ahead.
Plan = Callable[[Counted, list[Node]], int]

# What must keep its place between the accesses around it.
_FIXED = ("atomic_cas", "atomic_load", "atomic_store", "fence", "trap")
_WRITES = (Effect.WRITE, Effect.ATOMIC)


def _writes(node: Node) -> bool:
    """Whether a node writes to an array; memory of `malloc` is no part of any."""
    return node.info.effect in _WRITES and "array" in node.attrs


def preload(kernel: Kernel, plan: Plan) -> Kernel:
    """A prepared kernel, with or without `trip_count`, whose loops are unrolled as ``plan`` says."""
    factors: dict[Node, int] = {}
    ahead: set[Node] = set()
    for node in walk(kernel.body):
        found = counted_loop(node) if node.op == "loop" else None
        if found is None:
            continue
        loop = _Loop(kernel, found)
        if not loop.loads:
            continue
        factor = plan(found, loop.loads)
        if factor > 1:
            factors[node] = factor
            ahead |= loop.ahead
    return unroll(kernel, factors, ahead) if factors else kernel


class _Loop:
    """The loads of one loop that can go ahead, and all that goes with them."""

    def __init__(self, kernel: Kernel, loop: Counted) -> None:
        self.kernel = kernel
        self.loop = loop
        self.loads: list[Node] = []
        self.ahead: set[Node] = set()
        self.inside = set(walk(loop.body))
        self.changed = {n.attrs["slot"] for n in self.inside if n.op == "slot_set"}
        nodes = [n for n in loop.body if n.op != "break_if" and not is_test(n, loop)]
        effects = {n.info.effect for n in self.inside}
        if Effect.CROSS_LANE in effects or any(n.info.effect is Effect.SYNC or n.op in _FIXED for n in self.inside):
            return
        self.writes = [n for n in self.inside if _writes(n)]
        movable: set[Node] = set()
        before: set[Array] = set()  # written so far in this trip
        for node in nodes:
            if self.goes(node, movable, before):
                movable.add(node)
                if node.op == "load":
                    self.loads.append(node)
            before |= {n.attrs["array"] for n in walk([node]) if _writes(n)}
        todo = list(self.loads)
        while todo:
            node = todo.pop()
            if node in movable and node not in self.ahead:
                self.ahead.add(node)
                todo.extend(node.args)

    def goes(self, node: Node, movable: set[Node], before: set[Array]) -> bool:
        """Whether a node at the top of the body can be executed ahead of earlier trips."""
        if any(a in self.inside and a not in movable for a in node.args):
            return False
        if node.op == "slot_get":
            return node.attrs["slot"] not in self.changed
        if node.op == "load":
            return self.stays(node, before)
        return node.info.pure

    def stays(self, load: Node, before: set[Array]) -> bool:
        """Whether what ``load`` reads is the same if it is read earlier."""
        array = load.attrs["array"]
        if array.space == "const":
            return True
        if array.space not in ("buffer", "shared") or array in before:
            return False
        return all(self.apart(load, write) for write in self.writes)

    def apart(self, load: Node, write: Node) -> bool:
        """Whether ``write`` of an earlier trip is to another element than ``load`` of a later one."""
        array, other = load.attrs["array"], write.attrs["array"]
        facts = self.kernel.facts
        if array is not other:
            both = array.space == "buffer" and other.space == "buffer"
            return facts.noalias or not both
        if write.op != "store" or (array.space == "buffer" and array.name not in facts.contiguous):
            return False
        indices = load.args
        return indices == write.args[: len(indices)] and any(self.differs(i) for i in indices)

    def differs(self, node: Node) -> bool:
        """Whether an index has another value in each trip: the count times a step that is not 0, and what stays."""
        if node.op in ("add", "sub"):
            a, b = node.args
            return (self.differs(a) and b not in self.inside) or (self.differs(b) and self.fixed(a))
        if node.op == "mul":
            k, by = node.args
            return self.counts(k) and (self.steps(by) or (by.op == "const" and 0 < abs(by.attrs["value"]) < 1 << 32))
        return self.counts(node)

    def fixed(self, node: Node) -> bool:
        """Whether a value is the same in each trip."""
        return node not in self.inside or node.op == "const"

    def counts(self, node: Node) -> bool:
        slot: Slot = self.loop.slot
        return node.op == "slot_get" and node.attrs["slot"] is slot

    def steps(self, node: Node) -> bool:
        """Whether this is the step of the range that the loop runs over: a loop with two trips has one other than 0."""
        trips = self.loop.trips
        return trips.op == "trip_count" and trips.args[2] is node
