"""Drops nodes whose value nobody uses and that have no effect."""

from __future__ import annotations

from dataclasses import replace

from magpie.ir.nodes import Kernel, Node, Region
from magpie.ir.ops import Effect
from magpie.passes.rewrite import same_nodes

__all__ = ["drop_dead"]

_DROPPABLE = (Effect.PURE, Effect.SLOT_READ, Effect.READ)


def drop_dead(kernel: Kernel) -> Kernel:
    """``kernel`` without dead values and without slots that are set but never read. Shares what is unchanged."""
    used: set[Node] = set()
    read: set[object] = set()

    def mark(region: Region) -> None:
        for node in reversed(region):
            if node.op == "slot_get" or (node.info.effect in _DROPPABLE and node.op != "call_result"):
                continue
            _root(node)
            for r in reversed(node.regions):
                mark(r)

    def _root(node: Node) -> None:
        stack = list(node.args)
        counted = node.attrs.get("counted")
        if counted is not None:
            stack.append(counted[1])
        while stack:
            a = stack.pop()
            if a in used:
                continue
            used.add(a)
            if a.op == "slot_get":
                read.add(a.attrs["slot"])
            stack.extend(a.args)

    mark(kernel.body)

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
