"""The chunk of workgroups that runs now: how many lanes, which work-item each lane is, and who gathers reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes
from magpie.backends.interp.reports import Collector, Dims, Report, WorkItem
from magpie.ir.nodes import Node

if TYPE_CHECKING:
    from magpie.backends.interp.barriers import Barriers
    from magpie.backends.interp.heap import Heap
    from magpie.backends.interp.sanitizer import Sanitizer

__all__ = ["Chunk", "Launch", "Mask", "StopLaunch", "merge", "minus", "split"]

# The lanes that take part: True for all of them, a bool array for some; None stands for nobody.
Mask = Any

_count = np.count_nonzero
_CODES = {
    "read": ("bounds", "MPG_SAN_1003"),
    "write": ("bounds", "MPG_SAN_1004"),
    "divide": ("divide", "MPG_SAN_1008"),
    "overflow": ("overflow", "MPG_SAN_1007"),
    "shift": ("overflow", "MPG_SAN_1009"),
    "shuffle": ("shuffle", "MPG_SAN_1010"),
    "assert": ("assert", "MPG_SAN_1011"),
    "trap": ("trap", "MPG_SAN_1011"),
    "livelock": ("livelock", "MPG_SAN_1012"),
    "uniform": ("uniform", "MPG_SAN_1013"),
    "uninit": ("uninit", "MPG_SAN_1005"),
    "freed": ("bounds", "MPG_SAN_1015"),
}


class StopLaunch(Exception):
    """Ends the launch; what is to be said is in the reports."""


def split(mask: Mask, cond: Lanes) -> tuple[Mask, Mask]:
    """The lanes of ``mask`` where ``cond`` holds, and the rest."""
    if cond.__class__ is not np.ndarray:
        return (mask, None) if cond else (None, mask)
    if mask is True:
        yes = _count(cond)
        if yes == 0:
            return None, True
        if yes == cond.size:
            return True, None
        return cond, ~cond
    then = mask & cond
    if not _count(then):
        return None, mask
    other = mask > cond
    if not _count(other):
        return mask, None
    return then, other


def merge(a: Mask, b: Mask) -> Mask:
    """The lanes of either."""
    if a is None or b is True:
        return b
    if b is None or a is True:
        return a
    return a | b


def minus(mask: Mask, gone: Mask) -> Mask:
    """The lanes of ``mask`` that are not in ``gone``."""
    if gone is None:
        return mask
    if gone is True:
        return None
    rest = ~gone if mask is True else mask > gone
    return rest if _count(rest) else None


class Launch:
    """What holds for the whole launch."""

    def __init__(self, grid: Dims, block: Dims, subgroup_size: int, collector: Collector) -> None:
        self.grid = grid
        self.block = block
        self.subgroup_size = subgroup_size
        self.group_size = block[0] * block[1] * block[2]
        self.groups = grid[0] * grid[1] * grid[2]
        self.collector = collector
        self.prints: list[str] = []
        self.sanitizer: Sanitizer | None = None
        self.heap: Heap | None = None
        self.barriers: Barriers
        # Which kinds of fault are reported; None: all that cost nothing to find.
        self.checks: frozenset[str] | None = None
        self.rows: dict[int, Any] = {}
        # order=seed: the order of the lanes of a workgroup at stores and atomics, and of the workgroups.
        self.lane_order: Any = None
        self.group_order: Any = None
        self._ids: dict[tuple[int, int], Lanes] = {}

    def wants(self, check: str) -> bool:
        """Whether this kind of fault is reported."""
        return self.checks is None or check in self.checks

    def thread_ids(self, k: int, dim: int) -> Lanes:
        """Thread ids along ``dim`` of ``k`` workgroups side by side (dim 3: the linear id)."""
        found = self._ids.get((k, dim))
        if found is None:
            linear = np.arange(self.group_size, dtype=np.int64)
            if dim < 3:
                below = int(np.prod(self.block[:dim], dtype=np.int64))
                linear = linear // below % self.block[dim]
            found = np.tile(linear, k)
            self._ids[k, dim] = found
        return found

    def item(self, group: int, lane: int) -> WorkItem:
        """The work-item number ``lane`` of workgroup number ``group``."""
        gx, gy, _ = self.grid
        x, y, _ = self.block
        return (
            (group % gx, group // gx % gy, group // gx // gy),
            (lane % x, lane // x % y, lane // x // y),
        )


class Chunk:
    """Some workgroups of a launch, side by side: lane ``i`` is work-item ``i % n`` of workgroup ``groups[i // n]``."""

    def __init__(self, launch: Launch, groups: Any) -> None:
        self.launch = launch
        self.groups = groups  # linear ids, int64
        self.k = len(groups)
        self.size = self.k * launch.group_size
        # None or the launch's Sanitizer; closures that use it are only compiled where there is one.
        self.sanitizer: Any = launch.sanitizer
        self.order: Any = None
        if launch.lane_order is not None:
            first = np.arange(self.k)[:, None] * launch.group_size
            self.order = (first + launch.lane_order[None, :]).ravel()

    def group_id(self, dim: int) -> Lanes:
        """Workgroup id along ``dim``: a scalar where all workgroups of the chunk share it."""
        gx, gy, _ = self.launch.grid
        g = self.groups
        ids = g % gx if dim == 0 else (g // gx % gy if dim == 1 else g // gx // gy)
        if (ids == ids[0]).all():
            return ids[0]
        return np.repeat(ids, self.launch.group_size)

    def active(self, mask: Mask) -> Any:
        """The numbers of the lanes of ``mask``, ascending, or in the launch's order of lanes."""
        if self.order is not None:
            return self.order if mask is True else self.order[mask[self.order]]
        return np.arange(self.size) if mask is True else mask.nonzero()[0]

    def item(self, lane: int) -> WorkItem:
        """The work-item that is ``lane``."""
        n = self.launch.group_size
        return self.launch.item(int(self.groups[lane // n]), lane % n)

    def report(
        self, what: str, node: Node, lanes: Any, text: str, *, address: Any = None, help: str | None = None
    ) -> None:
        """Gather one finding at ``node`` for the lanes (numbers, at least one); ``address`` is computed when it is new.

        ``text`` may hold ``{item}``, the first lane's work-item.
        """
        kind, code = _CODES[what]
        collector = self.launch.collector
        if collector.seen(code, node.loc, count=len(lanes)):
            return
        lane = int(lanes[0])
        item = self.item(lane)
        where = address(lane) if address else None
        shown = text.format(
            item=f"thread {item[1]} of workgroup {item[0]}", at=f"{where[0]}{list(where[1])}" if where else ""
        )
        collector.add(
            Report(kind, code, shown, node.loc, work_items=(item,), address=where, help=help, count=len(lanes))
        )
