"""What orders two accesses besides barriers: subgroup barriers, and fences around atomics (RULES 24).

A release fence, then an atomic write; an atomic read that sees it, then an acquire fence: all that came before the
first comes before all that follows the last. Knowledge travels on: what the releasing work-item knew, by its own fences
and by the barriers of its workgroup, is handed over with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.interp.context import Chunk, Mask
from magpie.backends.interp.shadow import Packing
from magpie.backends.interp.subgroups import rows_of

__all__ = ["Handoffs", "SubgroupClocks"]


class SubgroupClocks:
    """For each lane, up to which tick it knows the other lanes of its subgroup. Belongs to one chunk."""

    def __init__(self, chunk: Chunk, packing: Packing) -> None:
        self.rows = rows_of(chunk.launch, chunk.k)
        self.packing = packing
        self.all = 0  # the tick of the last barrier in which every lane of every subgroup took part
        self.known: Any = None  # [subgroup, lane, other lane] -> tick

    def arrive(self, mask: Mask, tick: int) -> None:
        """The active lanes of each subgroup meet: each now knows what any of them knew, and all of them up to now."""
        if mask is True:
            self.all = tick
            return
        rows = self.rows
        if self.known is None:
            self.known = np.zeros((rows.count, rows.width, rows.width), np.int64)
        on = rows.active(mask)
        joined = np.where(on[:, :, None], self.known, 0).max(1)
        joined = np.where(on, tick, joined)
        self.known = np.where(on[:, :, None], joined[:, None, :], self.known)

    def ordered(self, lanes: Any, me: Any, records: Any) -> Any:
        """Which records come before what the lanes do now."""
        p, rows = self.packing, self.rows
        lane = p.lane_of(records)
        here = p.lane_of(me)
        together = (((records ^ me) & p.group) == 0) & (lane // rows.size == here // rows.size)
        limit = np.full(len(lanes), self.all, np.int64)
        if self.known is not None:
            limit = np.maximum(limit, self.known[rows.row[lanes], rows.lane[lanes], lane % rows.size])
        return together & ((records >> p.tick_shift) < limit)


Knowledge = dict["_Log", int]  # for each log, how many of its entries are known


class _Log:
    """The releases that one atomic location carries: a release and the updates after it (C++ [intro.races] 5)."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.groups: list[int] = []
        self.ticks: list[int] = []
        self.epochs: list[int] = []
        # What was known at the releases up to each entry, joined.
        self.carried: list[Knowledge] = []
        self._index: tuple[int, Any, Any, Any, Any] | None = None

    def append(self, item: int, group: int, tick: int, epoch: int, knowledge: Knowledge) -> None:
        self.items.append(item)
        self.groups.append(group)
        self.ticks.append(tick)
        self.epochs.append(epoch)
        before = self.carried[-1] if self.carried else {}
        self.carried.append(_join(before, knowledge))

    def covers(self, count: int, items: Any, groups: Any, ticks: Any) -> Any:
        """Which accesses (work-item, workgroup, tick) come before one of the first ``count`` releases."""
        size = len(self.items)
        if self._index is None or self._index[0] != size:
            numbers = np.arange(size, dtype=np.int64)
            by_item = np.array(self.items, np.int64) * (1 << 24) + numbers
            by_group = np.array(self.groups, np.int64) * (1 << 24) + numbers
            order_i, order_g = np.argsort(by_item), np.argsort(by_group)
            self._index = (
                size,
                by_item[order_i],
                np.array(self.ticks, np.int64)[order_i],
                by_group[order_g],
                np.array(self.epochs, np.int64)[order_g],
            )
        _, item_keys, item_ticks, group_keys, group_ticks = self._index
        found = np.zeros(len(items), bool)
        for who, keys, limits in ((items, item_keys, item_ticks), (groups, group_keys, group_ticks)):
            at = np.searchsorted(keys, who * (1 << 24) + count) - 1
            hit = (at >= 0) & (keys[np.maximum(at, 0)] >> 24 == who)
            found |= hit & (ticks < limits[np.maximum(at, 0)])
        return found


def _join(a: Knowledge, b: Knowledge) -> Knowledge:
    if not b or a is b:
        return a
    if not a:
        return b
    found = dict(a)
    for log, count in b.items():
        if found.get(log, 0) < count:
            found[log] = count
    return found


class Handoffs:
    """Fences and atomics of a launch whose workgroups run one after the other."""

    def __init__(self, group_size: int, packing: Packing) -> None:
        self.size = group_size
        self.packing = packing
        self.logs: dict[tuple[int, int], _Log] = {}
        self.begin()

    def begin(self) -> None:
        """A new workgroup knows nothing."""
        self.known: list[Knowledge] = [{}] * self.size
        self.pending: list[Knowledge] = [{}] * self.size
        self.released: list[tuple[int, int, Knowledge] | None] = [None] * self.size

    def fence(self, lanes: Any, order: str, tick: int, epoch: int) -> None:
        """A fence of these lanes; what they did before has smaller ticks."""
        for lane in lanes.tolist():
            if order in ("acquire", "acq_rel", "seq_cst"):
                self.known[lane] = _join(self.known[lane], self.pending[lane])
            if order in ("release", "acq_rel", "seq_cst"):
                self.released[lane] = (tick, epoch, self.known[lane])

    def barrier(self) -> None:
        """All lanes of the workgroup learn what any of them knew, or had read and not yet fenced."""
        for table in (self.known, self.pending):
            first = table[0]
            if any(k is not first for k in table):
                joined: Knowledge = {}
                for k in {id(k): k for k in table}.values():
                    joined = _join(joined, k)
                table[:] = [joined] * self.size

    def atomic(self, op: str, order: str, region: int, cells: Any, lanes: Any, me: Any, wrote: Any, now: Any) -> None:
        """Atomics in lane order. ``wrote``: which of them wrote, None for all. ``now``: (tick, epoch)."""
        p = self.packing
        reads, replaces = op != "atomic_store", op == "atomic_store"
        items = (me & p.item).tolist()
        groups = p.group_of(me).tolist()
        for number, (cell, lane) in enumerate(zip(cells.tolist(), lanes.tolist(), strict=True)):
            log = self.logs.get((region, cell))
            if reads and log is not None and log.items:
                seen = _join(log.carried[-1], {log: len(log.items)})
                if order in ("acquire", "acq_rel", "seq_cst"):
                    self.known[lane] = _join(self.known[lane], seen)
                else:
                    self.pending[lane] = _join(self.pending[lane], seen)
            if op == "atomic_load" or (wrote is not None and not wrote[number]):
                continue
            if log is None or replaces:
                log = self.logs[region, cell] = _Log()
            release = self.released[lane]
            if order in ("release", "acq_rel", "seq_cst"):
                release = (now[0], now[1], self.known[lane])
            if release is not None:
                log.append(items[number], groups[number], *release)

    def ordered(self, lanes: Any, records: Any) -> Any:
        """Which records come before what the lanes do now."""
        p = self.packing
        items, groups, ticks = records & p.item, p.group_of(records), records >> p.tick_shift
        found = np.zeros(len(lanes), bool)
        kinds: dict[int, list[int]] = {}
        for position, lane in enumerate(lanes.tolist()):
            if self.known[lane]:
                kinds.setdefault(id(self.known[lane]), []).append(position)
        for members in kinds.values():
            who = np.array(members)
            for log, count in self.known[int(lanes[members[0]])].items():
                found[who] |= log.covers(count, items[who], groups[who], ticks[who])
        return found
