"""Barriers that not all work-items of a workgroup reach: found by the mask, explained by where the others went."""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.interp.context import Chunk, Mask
from magpie.backends.interp.reports import Report, show_item
from magpie.ir.nodes import Node

__all__ = ["Barriers"]


class Barriers:
    """`trail` holds the control flow around the point of execution: (node, lanes before it, lanes inside)."""

    def __init__(self) -> None:
        self.trail: list[tuple[Node, Mask, Mask]] = []

    def divergent(self, chunk: Chunk, node: Node, m: Mask, returned: Mask, whole: bool) -> None:
        """Report workgroups of which some, not all, lanes are in ``m``; with ``whole``, launches."""
        rows = np.asarray(m).reshape(1 if whole else chunk.k, -1)
        count = rows.sum(1)
        bad = np.flatnonzero((count > 0) & (count < rows.shape[1]))
        if not len(bad) or not chunk.launch.wants("barrier"):
            return
        row = int(bad[0])
        here = row * rows.shape[1] + int(rows[row].argmax())
        away = row * rows.shape[1] + int(rows[row].argmin())
        code, why, place = self._explain(away, returned)
        loc = node.loc
        if chunk.launch.collector.seen(code, loc, place.loc if place else None, len(bad)):
            return
        first, second = chunk.item(here), chunk.item(away)
        name = "grid_sync" if whole else "barrier"
        chunk.launch.collector.add(
            Report(
                "barrier",
                code,
                f"{name} in divergent control flow: {show_item(first)} waits, {show_item(second)} {why}",
                loc,
                place.loc if place else None,
                "here the work-items part",
                (first, second),
                count=len(bad),
            )
        )

    def _explain(self, lane: int, returned: Mask) -> tuple[str, str, Node | None]:
        if returned is not None and _has(returned, lane):
            return "MPG_SAN_1006", "has returned", None
        for node, before, inside in self.trail:
            if _has(before, lane) and not _has(inside, lane):
                if node.op == "loop":
                    return "MPG_SAN_1014", "has left the loop", node
                return "MPG_SAN_1006", "took the other branch", node
        loops = [node for node, _, _ in self.trail if node.op == "loop"]
        if loops:  # a break or continue in this very trip
            return "MPG_SAN_1014", "has left the loop or this trip of it", loops[-1]
        return "MPG_SAN_1006", "does not", None


def _has(mask: Any, lane: int) -> bool:
    return mask is True or bool(mask[lane])
