"""Finds races, uninitialised reads and shuffles from nowhere while a kernel runs.

Races are found by happens-before, never by the order in which lanes happen to run (RULES 24): two accesses of one
address by different work-items, of which one writes and not both are atomic, are a race unless something orders them:
a barrier of their workgroup, a subgroup barrier, or fences around atomics. Every access is checked against the shadow
of what it touches (`shadow`) and then recorded there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from magpie.backends.interp.access import Site, address_of
from magpie.backends.interp.context import Chunk, Launch, Mask
from magpie.backends.interp.memory import Window
from magpie.backends.interp.ordering import Handoffs, SubgroupClocks
from magpie.backends.interp.reports import Report, show_item
from magpie.backends.interp.shadow import ATOMIC_READ, ATOMIC_WRITE, READ, WRITE, Packing, Region, regions_of
from magpie.backends.interp.subgroups import Rows
from magpie.diagnostics import Loc
from magpie.ir.nodes import Buffer, Kernel, Node, SharedArray, walk
from magpie.knobs import SANITIZE_CHECKS, SANITIZE_DEFAULT

__all__ = ["Checks", "Sanitizer"]

# Which kinds of earlier accesses each kind conflicts with.
_AGAINST = {
    READ: (WRITE, ATOMIC_WRITE),
    WRITE: (WRITE, READ, ATOMIC_WRITE, ATOMIC_READ),
    ATOMIC_READ: (WRITE,),
    ATOMIC_WRITE: (WRITE, READ),
}


@dataclass(frozen=True, slots=True)
class Checks:
    """What to look for; ``strict`` also reports concurrent stores of one value."""

    names: frozenset[str] = frozenset(SANITIZE_DEFAULT)
    strict: bool = False

    @staticmethod
    def of(names: Iterable[str] = SANITIZE_DEFAULT, race: str = "default") -> Checks:
        """From the names of checks and ``race="default"`` or ``"strict"``; ValueError for others."""
        chosen = frozenset(names)
        unknown = sorted(chosen - set(SANITIZE_CHECKS))
        if unknown:
            raise ValueError(f"there is no check {unknown[0]!r}; the checks are {', '.join(SANITIZE_CHECKS)}")
        if race not in ("default", "strict"):
            raise ValueError(f"race is 'default' or 'strict', not {race!r}")
        return Checks(chosen, race == "strict")


class Sanitizer:
    """Watches one launch."""

    def __init__(self, launch: Launch, checks: Checks, kernel: Kernel) -> None:
        self.launch = launch
        self.checks = checks
        nodes = list(walk(kernel.body))
        sites = sum("array" in n.attrs for n in nodes)
        self.packing = Packing(launch.group_size, launch.groups, sites)
        self.races = "race" in checks.names
        self.uninit = "uninit" in checks.names
        self.sites: dict[int, Site] = {}
        self.tick = 1
        self.epoch: Any = self.packing.tick(1)
        self.whole_epoch = np.int64(0)
        self.items: Any = None
        ordering = {"acquire", "release", "acq_rel", "seq_cst"}
        self.handoffs: Handoffs | None = None
        if self.races and any(n.op == "fence" or n.attrs.get("order") in ordering for n in nodes):
            spread = any(n.op == "grid_sync" for n in nodes)
            lanes = launch.group_size * (launch.groups if spread else 1)
            self.handoffs = Handoffs(lanes, spread, self.packing)
        self.has_clocks = self.races and any(n.op == "subgroup_barrier" for n in nodes)
        self.clocks: SubgroupClocks | None = None
        self.stores = {n.attrs["array"] for n in nodes if n.op in ("store", "atomic_rmw", "atomic_cas", "atomic_store")}

    # --- the life of a launch --------------------------------------------------------------------------------------
    def watch(self, buffers: Sequence[tuple[Buffer, Window]]) -> None:
        """Give the memory of buffers its shadow."""
        if self.races:
            written = {i for i, (array, _) in enumerate(buffers) if array in self.stores}
            regions_of([w for _, w in buffers], written, self.packing)

    def watch_shared(self, array: SharedArray, window: Window) -> None:
        """Give a shared array its shadow, or make it ready for the next workgroups."""
        if window.region is None and (self.races or self.uninit):
            window.region = Region(0, 1, window.flat.size, self.packing, True)
            window.region.races = self.races and array in self.stores
            if self.uninit:
                window.region.written = np.zeros(window.flat.size, bool)
        elif window.region is not None and window.region.written is not None:
            window.region.written[:] = False

    def begin(self, chunk: Chunk) -> None:
        """A new chunk of workgroups starts; call before `watch_shared`."""
        p, n = self.packing, self.launch.group_size
        lanes = np.arange(n, dtype=np.int64)
        self.items = ((np.asarray(chunk.groups, np.int64) << p.lane_bits)[:, None] | lanes[None, :]).ravel()
        self.tick += 1
        self.epoch = p.tick(self.tick)
        if self.handoffs is not None:
            self.handoffs.begin()
        if self.has_clocks:
            self.clocks = SubgroupClocks(chunk, p)

    # --- synchronisation -------------------------------------------------------------------------------------------
    def barrier(self, chunk: Chunk, m: Mask, whole: bool) -> None:
        """The work-items of each workgroup that has a lane in ``m`` have arrived."""
        self.tick += 1
        now = self.packing.tick(self.tick)
        if m is True:
            self.epoch = now
        else:
            groups: Any = np.asarray(m).reshape(chunk.k, -1).any(1)
            old = np.broadcast_to(self.epoch, (chunk.size,)).reshape(chunk.k, -1)
            self.epoch = np.where(groups[:, None], now, old).ravel()
        if whole:
            self.whole_epoch = now
        if self.handoffs is not None:
            self.handoffs.barrier(self._epoch_tick(), whole)

    def subgroup_barrier(self, chunk: Chunk, m: Mask) -> None:
        """The active work-items of each subgroup have arrived."""
        self.tick += 1
        if self.clocks is not None:
            self.clocks.arrive(m, self.tick)

    def fence(self, chunk: Chunk, m: Mask, order: str, scope: str) -> None:
        """A fence of the active work-items."""
        self.tick += 1
        if self.handoffs is not None:
            self.handoffs.fence(chunk.active(m), int(chunk.groups[0]), order, scope, self.tick, self._epoch_tick())

    def _epoch_tick(self) -> int:
        epoch = self.epoch if not self.epoch.ndim else self.epoch[0]  # one workgroup at a time where there are fences
        return int(epoch >> self.packing.tick_shift)

    # --- accesses --------------------------------------------------------------------------------------------------
    def read(self, site: Site, chunk: Chunk, w: Window, address: Any, lanes: Any, indices: Any) -> None:
        """A load by lanes that are in bounds. ``address``: an array over the chunk, or one number for all of it."""
        region = w.region
        if region is None or not len(lanes):
            return
        at = address[lanes] if isinstance(address, np.ndarray) else np.full(len(lanes), address, np.int64)
        if region.written is not None:
            self._initialised(site, chunk, w, at, lanes, indices)
        if not region.races:
            return
        if site.atomic:
            self._access(ATOMIC_READ, site, chunk, w, at, lanes, indices, None)
            self._hand_over(site, w, at, lanes, None)
        else:
            self._access(READ, site, chunk, w, at, lanes, indices, None)

    def write(self, site: Site, chunk: Chunk, w: Window, at: Any, lanes: Any, indices: Any, value: Any) -> None:
        """A store that is about to be done."""
        region = w.region
        if region is None:
            return
        if region.written is not None:
            region.written[at] = True
        if region.races:
            self._access(WRITE, site, chunk, w, at, lanes, indices, value)

    def atomic(self, site: Site, chunk: Chunk, w: Window, at: Any, lanes: Any, indices: Any, wrote: Any = None) -> None:
        """An atomic that has been done; ``wrote``: which lanes wrote, None for all."""
        region = w.region
        if region is None:
            return
        if region.written is not None:
            if site.node.op != "atomic_store":
                self._initialised(site, chunk, w, at, lanes, indices)
            region.written[at] = True
        if region.races:
            self._access(ATOMIC_WRITE, site, chunk, w, at, lanes, indices, None)
            self._hand_over(site, w, at, lanes, wrote)

    def _hand_over(self, site: Site, w: Window, at: Any, lanes: Any, wrote: Any) -> None:
        if self.handoffs is None:
            return
        order = site.node.attrs.get("order") or "relaxed"
        if order in ("release", "acq_rel", "seq_cst"):
            self.tick += 1
        cells, width = w.region.cells(w, at)
        now = (self.tick, self._epoch_tick())
        key = id(w.region)
        self.handoffs.atomic(site.node.op, order, key, cells[::width], lanes, self.items[lanes], wrote, now)

    def _initialised(self, site: Site, chunk: Chunk, w: Window, at: Any, lanes: Any, indices: Any) -> None:
        missing = ~w.region.written[at]
        if missing.any():
            chunk.report(
                "uninit",
                site.node,
                lanes[missing],
                "{at} in shared memory is read by {item}, and no work-item of the workgroup has written it",
                address=lambda lane: address_of(w, indices, lane),
            )

    def _access(
        self, kind: int, site: Site, chunk: Chunk, w: Window, at: Any, lanes: Any, indices: Any, value: Any
    ) -> None:
        """Check an access against the shadow, then record it."""
        region: Region = w.region
        p = self.packing
        self.sites[site.number] = site
        cells, width = region.cells(w, at)
        if width > 1:
            lanes = np.repeat(lanes, width)
        stamp = p.stamp(self.tick, site.number)
        everyone = len(lanes) == chunk.size and width == 1 and chunk.order is None
        me = (self.items if everyone else self.items[lanes]) | stamp
        epoch = self.epoch if not self.epoch.ndim or everyone else self.epoch[lanes]
        benign: Any = None
        for other in _AGAINST[kind]:
            history = region.histories[other]
            if history is None:
                continue
            for bad, records in history.conflicts(cells, me, epoch):
                bad = self._unordered(bad, lanes, me, records)
                if kind == WRITE and other == WRITE and not self.checks.strict and bad.any():
                    if benign is None:
                        benign = np.repeat(_same_bits(w, at, value), width)
                    bad = bad & ~benign
                if bad.any():
                    self._race(site, chunk, w, lanes[bad], records[bad], indices, kind == WRITE and other == WRITE)
        skip = kind != WRITE and self.clocks is None and self.handoffs is None and not self.whole_epoch
        after = region.history(kind).note(cells, me, epoch, skip)
        if kind == WRITE:
            lost = after != me
            if lost.any():
                if not self.checks.strict:
                    lost = lost & _differs(cells, np.repeat(np.broadcast_to(value, at.shape), width))
                if lost.any():
                    self._race(site, chunk, w, lanes[lost], after[lost], indices, True)

    def _unordered(self, bad: Any, lanes: Any, me: Any, records: Any) -> Any:
        """The conflicts that no fence, subgroup barrier or grid barrier orders."""
        if self.whole_epoch:
            bad = bad & (records >= self.whole_epoch)
        for order in (self.clocks, self.handoffs):
            if order is None:
                continue
            who = np.flatnonzero(bad)
            if len(who):
                fine = order.ordered(lanes[who], me[who], records[who])
                bad = bad.copy()
                bad[who[fine]] = False
        return bad

    def _race(self, site: Site, chunk: Chunk, w: Window, lanes: Any, records: Any, indices: Any, both: bool) -> None:
        p = self.packing
        numbers = p.site_of(records)
        shared = bool(w.region.shared)
        code = "MPG_SAN_1002" if shared else "MPG_SAN_1001"
        for number in np.unique(numbers).tolist():
            who = np.flatnonzero(numbers == number)
            earlier = self.sites[number]
            here, there = site.node.loc, earlier.node.loc
            if self.launch.collector.seen(code, here, there, len(who)):
                continue
            lane, record = int(lanes[who[0]]), int(records[who[0]])
            first = chunk.item(lane)
            second = self.launch.item(int(p.group_of(record)), int(p.lane_of(record)))
            address = address_of(w, indices, lane)
            space = "shared memory" if shared else "global memory"
            text = (
                f"data race in {space} on {address[0]}{list(address[1])}: {site.verb} by {show_item(first)}, "
                f"and {earlier.verb} by {show_item(second)}, with nothing that orders them"
            )
            apart = first[0] != second[0]
            if here == there and both:
                help_ = "give each work-item its own element, or use an atomic"
            elif apart:
                help_ = "workgroups are ordered only by the end of the kernel: use an atomic, or a kernel for each step"
            else:
                help_ = _where_a_barrier_goes(here, there)
            self.launch.collector.add(
                Report(
                    "race",
                    code,
                    text,
                    here,
                    there,
                    f"the {earlier.verb} by {show_item(second)}",
                    (first, second),
                    address,
                    help_,
                    len(who),
                )
            )

    # --- subgroups -------------------------------------------------------------------------------------------------
    def shuffle(self, chunk: Chunk, node: Node, rows: Rows, how: str, source: Any, valid: Any, m: Mask) -> None:
        """A shuffle whose sources are valid where the lane read takes part."""
        if "barrier" not in self.checks.names and "race" not in self.checks.names:
            return
        bad = ~valid
        if how in ("shuffle_up", "shuffle_down"):  # past either end a lane keeps its own value, by definition
            last = rows.exists.sum(1)[rows.row]
            bad = bad & (source >= 0) & (source < last)
        if m is not True:
            bad = bad & m
        if bad.any():
            lanes = chunk.active(bad)
            lane = int(lanes[0])
            wanted = int(source[lane] if np.ndim(source) else source)
            text = f"{{item}} reads the value of lane {wanted} of its subgroup, which does not take part"
            chunk.report("shuffle", node, lanes, text)


def _where_a_barrier_goes(later: Loc | None, earlier: Loc | None) -> str:
    inlined = later is not None and earlier is not None and (later.inlined_at or earlier.inlined_at)
    if later is None or earlier is None or inlined or (later.file, later.function) != (earlier.file, earlier.function):
        return "put mp.barrier() between the two"
    if earlier.line < later.line:
        return f"put mp.barrier() between line {earlier.line} and line {later.line}"
    return "put mp.barrier() between the two, in a loop also between one trip and the next"


def _same_bits(w: Window, at: Any, value: Any) -> Any:
    """Where a store writes what is there already."""
    now = np.asarray(w.get(at))
    new = np.broadcast_to(np.asarray(value, now.dtype), now.shape)
    return (
        (now == new) & (np.signbit(now) == np.signbit(new)) | ((now != now) & (new != new))
        if (now.dtype.kind == "f")
        else now == new
    )


def _differs(cells: Any, value: Any) -> Any:
    """Where lanes that store to one cell store another value than the last of them."""
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    last = np.searchsorted(ordered, ordered, side="right") - 1
    winner = np.empty(len(cells), np.int64)
    winner[order] = order[last]
    final = value[winner]
    same = (value == final) | ((value != value) & (final != final))
    if value.dtype.kind == "f":
        same &= (np.signbit(value) == np.signbit(final)) | (value != value)
    return ~same
