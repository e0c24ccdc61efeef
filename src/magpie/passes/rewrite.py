"""Copying rewrites: what every transforming pass is made of. Unchanged nodes are shared with the input kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Kernel, Node, Region, Slot

__all__ = ["Rewriter", "same_nodes"]

# Types of attributes that name nothing of a kernel.
_PLAIN = frozenset([str, int, float, bool, type(None)])

Handler = Callable[["Rewriter", Node], Node | None]


class Rewriter:
    """Walks regions in order and rebuilds them through a builder.

    ``handlers`` maps an op to a function that appends what replaces the node and returns the value that stands for it
    (None for no value). Other nodes are kept, or copied where an operand, slot, array or region changed.
    """

    def __init__(self, handlers: dict[str, Handler] | None = None) -> None:
        self.handlers = handlers or {}
        self.values: dict[Node, Node] = {}
        self.slots: dict[Slot, Slot] = {}
        self.arrays: dict[Array, Array] = {}
        self.out = Builder([])

    def value(self, node: Node) -> Node:
        """What stands for ``node`` in the output."""
        return self.values.get(node, node)

    def region(self, region: Region) -> Region:
        """The rewritten copy of ``region``."""
        result: Region = []
        with self.out.into(result):
            for node in region:
                self.visit(node)
        return result

    def visit(self, node: Node) -> None:
        """Append what stands for ``node``."""
        self.out.loc = node.loc
        handler = self.handlers.get(node.op)
        if handler is not None:
            new = handler(self, node)
            if new is not None:
                self.values[node] = new
        else:
            self.keep(node)

    def keep(self, node: Node) -> Node:
        """Append ``node`` itself, or a copy with what changed below it."""
        values, args, attrs, regions = self.values, node.args, node.attrs, node.regions
        for a in args:
            if a in values:
                args = tuple([values.get(a, a) for a in args])
                break
        changed: dict[str, Any] = {}
        for key, old in attrs.items():
            if old.__class__ not in _PLAIN:
                new = self.attr(old)
                if new is not old:
                    changed[key] = new
        same = args is node.args and not changed
        if regions:
            regions = tuple(self.region(r) for r in regions)
            same = same and all(same_nodes(a, b) for a, b in zip(regions, node.regions, strict=True))
        new_node = node if same else Node(node.op, args, node.type, attrs | changed, regions, node.loc)
        self.out.region.append(new_node)
        if not same:
            values[node] = new_node
        return new_node

    def attr(self, old: Any) -> Any:
        if isinstance(old, Slot):
            return self.slots.get(old, old)
        if isinstance(old, Array):
            return self.arrays.get(old, old)
        if isinstance(old, Node):
            return self.values.get(old, old)
        if isinstance(old, tuple) and old and isinstance(old[0], Slot):  # the `counted` hint: (slot, trips)
            slot, trips = self.slots.get(old[0], old[0]), self.values.get(old[1], old[1])
            return old if slot is old[0] and trips is old[1] else (slot, trips)
        return old

    def kernel(self, kernel: Kernel, **changes: Any) -> Kernel:
        """``kernel`` with its body rewritten."""
        body = self.region(kernel.body)
        return replace(kernel, body=body, **changes)


def same_nodes(a: Region, b: Region) -> bool:
    """Whether two regions hold the very same nodes."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
