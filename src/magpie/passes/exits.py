"""Leaving several loops at once, with what the IR has: a flag slot and one `break` per loop crossed (RULES 3)."""

from __future__ import annotations

from magpie.dtypes import bool_
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node, Region, Slot

__all__ = ["has_return", "returns_to_breaks"]


def has_return(region: Region) -> bool:
    """Whether a `return` stands in ``region`` or inside it."""
    stack = [region]
    while stack:
        for node in stack.pop():
            if node.op == "return":
                return True
            stack.extend(node.regions)
    return False


def returns_to_breaks(region: Region, results: list[Slot]) -> Region:
    """``region`` as the body of a one-trip loop: each `return` sets ``results`` and breaks out of that loop.

    A return inside inner loops sets a flag first; behind each loop that holds one stands a `break_if` of the flag.
    """
    flag = Slot("returned", bool_)
    used = False

    def visit(nodes: Region, depth: int) -> Region:
        nonlocal used
        out = Builder([])
        for node in nodes:
            out.loc = node.loc
            if node.op == "return":
                for slot, value in zip(results, node.args, strict=True):
                    out.set(slot, value)
                if depth:
                    out.set(flag, out.const(True, bool_))
                    used = True
                out.emit("break")
                continue
            if not any(has_return(r) for r in node.regions):
                out.region.append(node)
                continue
            inner = depth + (node.op == "loop")
            regions = tuple(visit(r, inner) for r in node.regions)
            out.region.append(Node(node.op, node.args, node.type, node.attrs, regions, node.loc))
            if node.op == "loop":
                out.emit("break_if", out.get(flag))
        return out.region

    body = visit(region, 0)
    if used:
        head = Builder([], region[0].loc if region else None)
        head.set(flag, head.const(False, bool_))
        body = head.region + body
    return body
