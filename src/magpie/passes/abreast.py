"""What is the same for all work-items that `coarsen` runs in one thread.

They differ in ids along one dimension, of their workgroup or their own, and in what follows from these: values, slots,
and control.
"""

from __future__ import annotations

from collections.abc import Sequence

from magpie.ir.nodes import Node, Region, Slot
from magpie.ir.ops import Effect

__all__ = ["Sameness"]


class Sameness:
    """The answer for each node of a region without `return`. What is read from memory counts as different."""

    def __init__(self, region: Region, dim: int, ids: Sequence[str]) -> None:
        self.dim = dim
        self.ids = ids
        self.varying: set[Node] = set()
        self.varying_slots: dict[Slot, None] = {}
        self._grown = True
        while self._grown:
            self._grown = False
            self._region(region, False, None, False)

    def of(self, node: Node) -> bool:
        """Of a value or the set of a slot: whether it is the same. Of a loop: whether all begin and end its trips
        together; of a jump: whether all make it."""
        if node.op == "slot_set":
            return node.attrs["slot"] not in self.varying_slots
        return node not in self.varying

    def _vary(self, node: Node) -> None:
        if node not in self.varying:
            self.varying.add(node)
            self._grown = True

    def _region(self, region: Region, apart: bool, loop: Node | None, parted: bool) -> None:
        """``apart``: not all of them come here together. ``loop``: the innermost one around; ``parted``: not all that
        began its trip come here."""
        for node in region:
            op, effect = node.op, node.info.effect
            differs = any(a in self.varying for a in node.args)
            if op == "slot_set":
                slot = node.attrs["slot"]
                if (differs or apart) and slot not in self.varying_slots:
                    self.varying_slots[slot] = None
                    self._grown = True
            elif op == "slot_get":
                differs = node.attrs["slot"] in self.varying_slots
            elif op in self.ids:
                differs = node.attrs["dim"] == self.dim
            elif op in ("break", "break_if", "continue"):
                if (differs or parted) and loop is not None:
                    self._vary(loop)
            elif op == "if":
                for inner in node.regions:
                    self._region(inner, apart or differs, loop, parted or differs)
            elif op == "loop":
                alone = apart or node in self.varying
                for inner in node.regions:
                    self._region(inner, alone, node, False)
            elif effect is not Effect.PURE:
                differs = True
            if differs:
                self._vary(node)
