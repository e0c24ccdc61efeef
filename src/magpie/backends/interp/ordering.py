"""What orders two accesses besides barriers: subgroup barriers, and fences around atomics (RULES 24).

A release fence, then an atomic write; an atomic read that sees it, then an acquire fence: all that came before the
first comes before all that follows the last. Knowledge travels on: what the releasing work-item knew, by its own fences
and by the barriers of its workgroup, is handed over with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class _Release(NamedTuple):
    """What a release fence covers: the work-item before `tick`, its workgroup before `epoch`, what the item knew.

    A fence of workgroup scope is not `wide`: it means nothing to other workgroups.
    """

    tick: int
    epoch: int
    knowledge: Knowledge
    wide: bool


class _Log:
    """The releases that one atomic location carries: a release and the updates after it (C++ [intro.races] 5)."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.groups: list[int] = []
        self.releases: list[_Release] = []
        # What was known at the releases up to each entry, joined.
        self.carried: list[Knowledge] = []
        self._indices: tuple[int, _Index, _Index] | None = None

    def append(self, item: int, group: int, release: _Release) -> None:
        """One more release."""
        self.items.append(item)
        self.groups.append(group)
        self.releases.append(release)
        before = self.carried[-1] if self.carried else {}
        self.carried.append(_join(before, release.knowledge))

    def covers(self, count: int, items: Any, groups: Any, ticks: Any, mine: int) -> Any:
        """Which accesses (work-item, workgroup, tick) come before one of the first ``count`` releases, for ``mine``."""
        if self._indices is None or self._indices[0] != len(self.items):
            everything = range(len(self.items))
            wide = [n for n in everything if self.releases[n].wide]
            self._indices = (len(self.items), _Index(self, wide), _Index(self, list(everything)))
        _, wide_index, near_index = self._indices
        found = wide_index.covers(count, items, groups, ticks)
        return found | ((groups == mine) & near_index.covers(count, items, groups, ticks))


_NUMBER = 24  # bits of a position in a log


class _Index:
    """Some entries of a log, sorted by work-item and by workgroup."""

    def __init__(self, log: _Log, numbers: list[int]) -> None:
        at = np.array(numbers, np.int64)
        self.tables = []
        for who, limits in (
            ([log.items[n] for n in numbers], [log.releases[n].tick for n in numbers]),
            ([log.groups[n] for n in numbers], [log.releases[n].epoch for n in numbers]),
        ):
            keys = (np.array(who, np.int64) << _NUMBER) + at
            order = np.argsort(keys)
            keys = keys[order]
            # What a later entry covers, an earlier one of the same item may have covered already: keep the larger.
            lift = np.cumsum(np.diff(keys >> _NUMBER, prepend=-1) != 0) << 40
            self.tables.append((keys, np.maximum.accumulate(np.array(limits, np.int64)[order] + lift) - lift))

    def covers(self, count: int, items: Any, groups: Any, ticks: Any) -> Any:
        """The latest entry below ``count`` of the same work-item, or of its workgroup, decides."""
        found = np.zeros(len(items), bool)
        for who, (keys, limits) in zip((items, groups), self.tables, strict=True):
            if not len(keys):
                continue
            at = np.searchsorted(keys, (who << _NUMBER) + count) - 1
            entry = np.maximum(at, 0)
            found |= (at >= 0) & (keys[entry] >> _NUMBER == who) & (ticks < limits[entry])
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


_ACQUIRES = frozenset({"acquire", "acq_rel", "seq_cst"})
_RELEASES = frozenset({"release", "acq_rel", "seq_cst"})


class Handoffs:
    """Fences and atomics of a launch whose workgroups run one after the other.

    ``lanes`` are those of a chunk: of one workgroup, or of all of them where a kernel waits for the whole grid. Then a
    workgroup barrier tells nobody anything new, which may report a race too many, never one too few.
    """

    def __init__(self, lanes: int, spread: bool, packing: Packing) -> None:
        self.size = lanes
        self.spread = spread
        self.packing = packing
        self.logs: dict[tuple[int, int], _Log] = {}
        self.begin()

    def begin(self) -> None:
        """A new workgroup knows nothing."""
        self.known: list[Knowledge] = [{}] * self.size
        self.pending: list[Knowledge] = [{}] * self.size
        self.released: dict[int, _Release] = {}
        # Whether lanes may know different things.
        self.mixed = False
        # Fences that other work-items made before the last barrier: their stores are out when this one's atomic is.
        self.passed_on: list[tuple[int, _Release]] = []
        self.passed_at = 0

    def fence(self, lanes: Any, group: int, order: str, scope: str, tick: int, epoch: int) -> None:
        """A fence of these lanes; what they did before has smaller ticks."""
        wide = scope != "workgroup"
        self.mixed = True
        for lane in lanes.tolist():
            if order in _ACQUIRES:
                seen = self.pending[lane]
                if not wide:
                    seen = {log: n for log, n in seen.items() if all(g == group for g in log.groups[:n])}
                self.known[lane] = _join(self.known[lane], seen)
            if order in _RELEASES:
                self.released[lane] = _Release(tick, epoch, self.known[lane], wide)

    def barrier(self, epoch: int, whole: bool) -> None:
        """All lanes of the workgroup learn what any of them knew, or had read and not yet fenced."""
        if self.spread and not whole:
            return
        if self.mixed:
            for table in (self.known, self.pending):
                joined: Knowledge = {}
                for k in {id(k): k for k in table}.values():
                    joined = _join(joined, k)
                table[:] = [joined] * self.size
            self.mixed = False
        if self.spread:
            return
        self.passed_on = list(self.released.items())
        self.passed_at = epoch

    def atomic(self, op: str, order: str, region: int, cells: Any, lanes: Any, me: Any, wrote: Any, now: Any) -> None:
        """Atomics in lane order. ``wrote``: which of them wrote, None for all. ``now``: (tick, epoch)."""
        p = self.packing
        self.mixed = True
        reads, replaces = op != "atomic_store", op == "atomic_store"
        items = (me & p.item).tolist()
        groups = p.group_of(me).tolist()
        for number, (cell, lane) in enumerate(zip(cells.tolist(), lanes.tolist(), strict=True)):
            log = self.logs.get((region, cell))
            if reads and log is not None and log.items:
                seen = _join(log.carried[-1], {log: len(log.items)})
                if order in _ACQUIRES:
                    self.known[lane] = _join(self.known[lane], seen)
                else:
                    self.pending[lane] = _join(self.pending[lane], seen)
            if op == "atomic_load" or (wrote is not None and not wrote[number]):
                continue
            if log is None or replaces:
                log = self.logs[region, cell] = _Log()
            release = self.released.get(lane)
            if order in _RELEASES:
                release = _Release(now[0], now[1], self.known[lane], True)
            if release is None or release.epoch < self.passed_at:
                first = items[number] - lane
                for other, earlier in self.passed_on:
                    log.append(first + other, groups[number], earlier)
            if release is not None:
                log.append(items[number], groups[number], release)

    def ordered(self, lanes: Any, me: Any, records: Any) -> Any:
        """Which records come before what the lanes do now."""
        p = self.packing
        items, groups, ticks = records & p.item, p.group_of(records), records >> p.tick_shift
        mine = int(p.group_of(me[0]))
        found = np.zeros(len(lanes), bool)
        kinds: dict[int, list[int]] = {}
        for position, lane in enumerate(lanes.tolist()):
            if self.known[lane]:
                kinds.setdefault(id(self.known[lane]), []).append(position)
        for members in kinds.values():
            who = np.array(members)
            # What was learnt last explains most: look there first.
            for log, count in reversed(self.known[int(lanes[members[0]])].items()):
                fine = log.covers(count, items[who], groups[who], ticks[who], mine)
                found[who[fine]] = True
                who = who[~fine]
                if not len(who):
                    break
        return found
