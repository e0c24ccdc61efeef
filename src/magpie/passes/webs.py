"""Splits each slot into its def-use webs (RULES 5): a name used for two unrelated things becomes two slots.

Without this, a uniform counter whose name is later assigned under a divergent branch would count as varying everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from magpie.ir.nodes import Kernel, Node, Slot, walk
from magpie.passes.reaching import reaching_definitions
from magpie.passes.rewrite import Rewriter

__all__ = ["split_webs"]


class _Sets:
    """Union-find over definitions and uses."""

    def __init__(self) -> None:
        self.parent: dict[object, object] = {}

    def find(self, x: object) -> object:
        while (p := self.parent.setdefault(x, x)) is not x:
            self.parent[x] = self.parent[p]
            x = p
        return x

    def union(self, a: object, b: object) -> None:
        self.parent[self.find(a)] = self.find(b)


def split_webs(kernel: Kernel) -> Kernel:
    """``kernel`` with one slot a web. A set that reaches no use is a web of its own (dead-value removal drops it)."""
    sets = _Sets()
    owner: dict[Slot, list[Node]] = {}
    reach = reaching_definitions(kernel)
    for node in walk(kernel.body):
        if node.op in ("slot_get", "slot_set"):
            owner.setdefault(node.attrs["slot"], []).append(node)
    for get, definitions in reach.items():
        slot = get.attrs["slot"]
        for definition, _ in definitions:
            # all uses of the initial zero share one web
            sets.union(get, definition if definition is not None else slot)
    renamed: dict[Node, Slot] = {}
    for slot, nodes in owner.items():
        webs: dict[object, Slot] = {}
        for node in nodes:
            web = sets.find(node)
            if web not in webs:
                webs[web] = slot if not webs else Slot(f"{slot.name}.{len(webs)}", slot.type)
            if webs[web] is not slot:
                renamed[node] = webs[web]
    if not renamed:
        return kernel

    class Rename(Rewriter):
        def visit(self, node: Node) -> None:
            self.out.loc = node.loc
            if node in renamed:
                args = tuple(self.value(a) for a in node.args)
                copy = Node(node.op, args, node.type, {**node.attrs, "slot": renamed[node]}, (), node.loc)
                self.out.region.append(copy)
                self.values[node] = copy
                return
            if node.op == "loop" and node.attrs.get("counted") is not None:
                # the counter's web is that of its use at the top of the body
                slot = node.attrs["counted"][0]
                uses = [n for n in node.regions[0] if n.op == "slot_get" and n.attrs["slot"] is slot]
                self.slots = {slot: renamed[uses[0]]} if uses and uses[0] in renamed else {}
            self.keep(node)
            self.slots = {}

    return replace(kernel, body=Rename().region(kernel.body))
