"""Drops nodes whose value nobody uses and that have no effect."""

from __future__ import annotations

from dataclasses import replace

from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.ir.ops import Effect
from magpie.passes.rewrite import same_nodes

__all__ = ["drop_dead"]

_DROPPABLE = (Effect.PURE, Effect.SLOT_READ, Effect.READ)


def drop_dead(kernel: Kernel) -> Kernel:
    """``kernel`` without dead values and without slots that are set but never read. Shares what is unchanged."""
    used: set[Node] = set()
    read: set[Slot] = set()
    sets: dict[Slot, list[Node]] = {}
    stack: list[Node] = []
    for node in walk(kernel.body):
        if node.op == "slot_set":
            sets.setdefault(node.attrs["slot"], []).append(node)
        elif node.info.effect not in _DROPPABLE:
            stack.extend(node.args)
            if node.attrs.get("counted") is not None:
                stack.append(node.attrs["counted"][1])
    while stack:
        value = stack.pop()
        if value in used:
            continue
        used.add(value)
        stack.extend(value.args)
        if value.op == "slot_get" and value.attrs["slot"] not in read:
            # what a slot is set to is alive only if somebody reads the slot
            read.add(value.attrs["slot"])
            stack.extend(n.args[0] for n in sets.get(value.attrs["slot"], ()))

    def sweep(region: Region) -> Region:
        out: Region = []
        for node in region:
            if node.info.effect in _DROPPABLE and node not in used:
                continue
            if node.op == "slot_set" and node.attrs["slot"] not in read:
                continue
            if node.regions:
                regions = tuple(sweep(r) for r in node.regions)
                if not all(same_nodes(a, b) for a, b in zip(regions, node.regions, strict=True)):
                    node = Node(node.op, node.args, node.type, node.attrs, regions, node.loc)
            out.append(node)
        return out

    return replace(kernel, body=sweep(kernel.body))
