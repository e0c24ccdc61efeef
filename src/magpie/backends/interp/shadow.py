"""Shadow memory: who touched each cell, packed so that a whole chunk is checked with a few array operations.

A record is one int64: (tick, site, workgroup, lane), the tick in the high bits. A tick passes at every synchronisation,
so that "before the last barrier of its workgroup" is one comparison. Record 0 stands for nobody.

A cell remembers two records of each kind of access. Two are enough to find a race for certain: if work-items of two
workgroups touched the cell, one of each is kept, and whoever comes next differs from one of them in workgroup; if they
are of one workgroup, two different ones of its latest barrier interval are kept, and whoever comes next differs from
one of them. (FastTrack, Flanagan and Freund 2009, keeps one writer, and all readers where they are concurrent.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from magpie.backends.interp.memory import Window

__all__ = ["ATOMIC_READ", "ATOMIC_WRITE", "READ", "WRITE", "History", "Packing", "Region", "regions_of"]

READ, WRITE, ATOMIC_READ, ATOMIC_WRITE = range(4)

# Cells up to this many are kept even where most of them lie between the elements of a view.
_DENSE = 1 << 20


class Packing:
    """Where the parts of a record are, for one launch."""

    def __init__(self, group_size: int, groups: int, sites: int) -> None:
        self.lane_bits = max(1, (group_size - 1).bit_length())
        group_bits = max(1, (groups - 1).bit_length())
        self.site_shift = self.lane_bits + group_bits
        site_bits = max(1, (sites - 1).bit_length())
        self.tick_shift = self.site_shift + site_bits
        self.item = np.int64((1 << self.site_shift) - 1)
        self.group = np.int64(((1 << group_bits) - 1) << self.lane_bits)
        self.site = (1 << site_bits) - 1
        self.lane = (1 << self.lane_bits) - 1

    def stamp(self, tick: int, site: int) -> np.int64:
        """The upper parts of a record."""
        return np.int64((tick << self.tick_shift) | (site << self.site_shift))

    def tick(self, tick: int) -> np.int64:
        """A tick in its place: records before it are smaller."""
        return np.int64(tick << self.tick_shift)

    def site_of(self, record: Any) -> Any:
        """Site number."""
        return (record >> self.site_shift) & self.site

    def group_of(self, record: Any) -> Any:
        """Linear workgroup id."""
        return (record & self.group) >> self.lane_bits

    def lane_of(self, record: Any) -> Any:
        """Work-item number within the workgroup."""
        return record & self.lane


class History:
    """The two records of one kind of access for every cell of a region."""

    __slots__ = ("a", "b", "packing", "shared")

    def __init__(self, cells: int, packing: Packing, shared: bool) -> None:
        self.a = np.zeros(cells, np.int64)  # untouched pages of zeros cost nothing
        self.b = np.zeros(cells, np.int64)
        self.packing = packing
        self.shared = shared

    def note(self, cells: Any, me: Any, epoch: Any, skip: bool) -> Any:
        """Record ``me``, one record a lane; gives what the cells then hold: another record where two lanes met.

        With ``skip`` cells that hold two records which will do for any later access stay as they are; the result is
        then meaningless. Not for writes, where the result matters, nor where fences may order one of the two.
        """
        p = self.packing
        old_a = self.a.take(cells)
        old_b: Any = None
        if skip and old_a.any():
            old_b = self.b.take(cells)
            x = old_a ^ old_b
            if self.shared:
                done = ((x & p.item) != 0) & (old_a >= epoch) & (old_b >= epoch)
            else:
                done = ((x & p.group) != 0) & (old_b != 0)
            if done.all():
                return old_a
            if done.any():
                todo = ~done
                cells, me, old_a, old_b = cells[todo], me[todo], old_a[todo], old_b[todo]
                epoch = epoch[todo] if epoch.ndim else epoch
        self.a[cells] = me
        new_a = self.a.take(cells)
        single = bool((new_a == me).all())
        if single and not ((old_a ^ me) & p.item)[old_a != 0].any():
            return new_a  # nobody before, or the same work-item as before: the second record stays right
        if old_b is None:
            old_b = self.b.take(cells)
        if not single:
            self.b[cells[::-1]] = me[::-1]  # the first lane of each cell; `a` has the last one
            new_b = self.b.take(cells)
        else:
            new_b = new_a
        # Two readers of this very access will do, in shared memory, or where they are of two workgroups.
        x = new_a ^ new_b
        few = np.flatnonzero((x & (p.item if self.shared else p.group)) == 0)
        if not len(few):
            return new_a
        if len(few) < len(cells):
            cells, old_a, old_b, x = cells[few], old_a[few], old_b[few], x[few]
            now, pick = new_a[few], new_b[few]
            epoch = epoch[few] if epoch.ndim else epoch
        else:
            now, pick = new_a, new_b
        alone = (x & p.item) == 0
        for old in (old_b, old_a):
            pick = np.where(alone & (((old ^ now) & p.item) != 0) & (old >= epoch), old, pick)
        if not self.shared:
            for old in (old_b, old_a):
                pick = np.where((old != 0) & (((old ^ now) & p.group) != 0), old, pick)
        self.b[cells] = pick
        return new_a

    def conflicts(self, cells: Any, me: Any, epoch: Any) -> list[tuple[Any, Any]]:
        """(lanes in conflict as a bool array, their records) for each of the two records that conflicts anywhere."""
        found = []
        p = self.packing
        for records in (self.a, self.b):
            rec = records.take(cells)
            if self.shared:
                recent = rec >= epoch
                if not recent.any():
                    continue
                bad = recent & (((rec ^ me) & p.item) != 0)
            else:
                if not rec.any():
                    break
                x = rec ^ me
                bad = (rec != 0) & ((x & p.item) != 0) & (((x & p.group) != 0) | (rec >= epoch))
            if bad.any():
                found.append((bad, rec))
        return found


class Region:
    """The shadow of one piece of memory. A cell is the largest unit that all views of it share."""

    def __init__(self, low: int, unit: int, cells: int, packing: Packing, shared: bool) -> None:
        self.low = low
        self.unit = unit
        self.count = cells
        self.packing = packing
        self.shared = shared
        self.histories: list[History | None] = [None] * 4
        # Shared memory: which elements were written since the workgroup began; None where nobody asks.
        self.written: Any = None
        self.races = True
        # Where the memory between the elements is much more than the elements: their cells, sorted.
        self.sparse: Any = None

    def history(self, kind: int) -> History:
        """The records of one kind, made when first needed."""
        found = self.histories[kind]
        if found is None:
            found = self.histories[kind] = History(self.count, self.packing, self.shared)
        return found

    def cells(self, window: Window, address: Any) -> tuple[Any, int]:
        """The cells of elements at addresses of a window, and how many each element covers, side by side."""
        if self.shared:
            return address, 1
        scale = window.step // self.unit
        start = (window.origin - self.low) // self.unit
        cells = address if scale == 1 else address * scale
        if start:
            cells = cells + start
        width = window.flat.itemsize // self.unit
        if width > 1:
            cells = (cells[:, None] + np.arange(width)).ravel()
        if self.sparse is not None:
            cells = np.searchsorted(self.sparse, cells)
        return cells, width

    def thin_out(self, windows: Sequence[Window]) -> None:
        """Keep cells for the elements of these windows only: a view of a few elements may span gigabytes."""
        elements = []
        for w in windows:
            address: Any = np.array([w.base], np.int64)
            for n, stride in zip(w.extents, w.strides, strict=True):
                address = (address[:, None] + np.arange(n) * stride).ravel()
            elements.append(self.cells(w, address)[0])
        self.sparse = np.unique(np.concatenate(elements))
        self.count = len(self.sparse)


def regions_of(windows: Sequence[Window], written: set[int], packing: Packing) -> None:
    """Give each window of a buffer its region; overlapping ones share it. Memory that nobody writes has none.

    ``written`` holds the positions of the windows that the kernel writes.
    """
    spans = []
    for number, w in enumerate(windows):
        if w.flat.size:
            low = w.origin
            spans.append((low, low + (w.flat.size - 1) * w.step + w.flat.itemsize, number))
    spans.sort()
    groups: list[list[int]] = []
    reach = -1
    for low, high, number in spans:
        if low < reach:
            groups[-1].append(number)
        else:
            groups.append([number])
        reach = max(reach, high)
    bounds = {number: (low, high) for low, high, number in spans}
    for group in groups:
        if not written.intersection(group):
            continue
        low = min(bounds[g][0] for g in group)
        high = max(bounds[g][1] for g in group)
        unit = 0
        for g in group:
            w = windows[g]
            unit = gcd(unit, w.step, w.flat.itemsize, w.origin - low)
        region = Region(low, unit, -(-(high - low) // unit), packing, False)
        views = [windows[g] for g in group]
        if region.count > _DENSE + 4 * sum(prod(w.extents) * (w.flat.itemsize // unit) for w in views):
            region.thin_out(views)
        for w in views:
            w.region = region
