"""Unrolls counted loops: wholly where the trips are known and few, else several trips at a time.

Values live across trips in slots, so that copies of the body one behind the other are the loop. What a backend wins is
its own affair, so it says which loops and how far.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from magpie.dtypes import index
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.passes.expand import range_length
from magpie.passes.rewrite import Rewriter

__all__ = ["Counted", "counted_loop", "is_test", "unroll"]


class Counted:
    """A loop of which only the count decides when it ends: the slot, the trips, and the body behind the test."""

    __slots__ = ("body", "slot", "trips")

    def __init__(self, slot: Slot, trips: Node, body: Region) -> None:
        self.slot = slot
        self.trips = trips
        self.body = body

    @property
    def known(self) -> int | None:
        """The number of trips, if it is a constant."""
        if self.trips.op == "trip_count" and all(a.op == "const" for a in self.trips.args):
            return range_length(*(a.attrs["value"] for a in self.trips.args))
        return self.trips.attrs["value"] if self.trips.op == "const" else None


def counted_loop(loop: Node) -> Counted | None:
    """``loop`` as one that runs to its count: nothing leaves it early, and it holds no loop and no barrier."""
    hint = loop.attrs.get("counted")
    if hint is None:
        return None
    slot, trips = hint
    body, step = loop.regions
    at = next((k for k, n in enumerate(body) if n.op == "break_if"), None)
    if at is None or at > 2 or not _tests(body[at].args[0], slot, trips):
        return None
    rest = body[at + 1 :]
    if any(
        n.op in ("loop", "barrier", "break", "break_if", "continue", "return", "subgroup_barrier") for n in walk(rest)
    ):
        return None
    advances = [n for n in walk(step) if n.op == "slot_set"]
    if len(advances) != 1 or advances[0].attrs["slot"] is not slot or any(n.regions for n in step):
        return None
    if any(n.op == "slot_set" and n.attrs["slot"] is slot for n in walk(rest)):
        return None
    return Counted(slot, trips, body)


def _tests(node: Node, slot: Slot, trips: Node) -> bool:
    """Whether ``node`` is the count reaching the trips."""
    return node.op == "ge" and node.args[1] is trips and _gets(node.args[0], slot)


def _gets(node: Node, slot: Slot) -> bool:
    return node.op == "slot_get" and node.attrs["slot"] is slot


class _Copy(Rewriter):
    """A copy of a body for one trip, of new nodes throughout."""

    def __init__(self, outer: Rewriter, slot: Slot, count: Node) -> None:
        super().__init__({"slot_get": self.get})
        self.values = dict(outer.values)
        self.out = outer.out
        self.slot = slot
        self.count = count

    def get(self, rewriter: Rewriter, node: Node) -> Node:
        return self.count if node.attrs["slot"] is self.slot else self.keep(node)

    def keep(self, node: Node) -> Node:
        args = tuple(self.value(a) for a in node.args)
        attrs: dict[str, Any] = {k: self.attr(v) for k, v in node.attrs.items()}
        new = Node(node.op, args, node.type, attrs, tuple(self.region(r) for r in node.regions), node.loc)
        self.out.region.append(new)
        self.values[node] = new
        return new


class _Unroller(Rewriter):
    def __init__(self, factors: Mapping[Node, int], ahead: Set[Node], rolled: bool) -> None:
        super().__init__({"loop": self.loop})
        self.factors = factors
        self.ahead = ahead
        self.rolled = {"rolled": True} if rolled else {}

    def loop(self, rewriter: Rewriter, node: Node) -> None:
        factor, found = self.factors.get(node, 1), counted_loop(node)
        if factor < 2 or found is None:
            self.keep(node)
            return
        b, known = self.out, found.known
        if known is not None and known <= factor:
            self.trips(found, [b.const(n, index) for n in range(known)])
            b.set(found.slot, b.const(known, index))
            return
        by = b.const(factor, index)
        many = b.const(known // factor, index) if known is not None else b.emit("tdiv", self.value(found.trips), by)
        slot = Slot(f"{found.slot.name}.by{factor}", index)
        b.set(slot, b.const(0, index))
        loop, body, step = b.loop(counted=(slot, many))
        loop.attrs.update(self.rolled)
        with b.into(body):
            k = b.get(slot)
            b.emit("break_if", b.emit("ge", k, many))
            first = b.emit("mul", k, by)
            self.trips(found, [b.emit("add", first, b.const(n, index)) if n else first for n in range(factor)])
        with b.into(step):
            b.set(slot, b.emit("add", b.get(slot), b.const(1, index)))
        b.set(found.slot, b.emit("mul", many, by))
        if known is None or known % factor:
            self.keep(node)

    def trips(self, found: Counted, counts: list[Node]) -> None:
        """The body behind the test, once for each count; first of all trips what goes ahead, then trip by trip."""
        copies = [_Copy(self, found.slot, count) for count in counts]
        nodes = [n for n in found.body if n.op != "break_if" and not is_test(n, found)]
        for copy in copies:
            for node in nodes:
                if node in self.ahead:
                    copy.visit(node)
        for copy in copies:
            for node in nodes:
                if node not in self.ahead:
                    copy.visit(node)


def is_test(node: Node, loop: Counted) -> bool:
    """Whether ``node`` asks if the trips are over."""
    return node.op == "ge" and _tests(node, loop.slot, loop.trips)


def unroll(
    kernel: Kernel, factors: Mapping[Node, int], ahead: Set[Node] = frozenset(), *, rolled: bool = False
) -> Kernel:
    """``kernel`` with loops unrolled: those of at most as many trips as ``factors`` says wholly, the others so many
    trips at a time, and the trips that are left by the loop as it was.

    ``ahead``: nodes at the top of a body that are executed for all these trips before the rest of the first one.
    ``rolled``: loops that take several trips at a time shall stay as they are from here on.
    """
    return replace(kernel, body=_Unroller(factors, ahead, rolled).region(kernel.body))
