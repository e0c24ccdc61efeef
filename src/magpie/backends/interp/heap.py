"""The device's heap: `malloc`, `free`, and accesses through the pointers that they give and take.

A pointer is a number: the allocation in the upper bits, the element in the lower ones, so that every access knows its
bounds and whether its memory was freed. 0 is the null pointer. Allocations are never numbered twice; their memory is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.context import Chunk, Launch, Mask
from magpie.backends.interp.memory import Window, window_over
from magpie.backends.interp.numerics.lanes import Lanes, register_dtype
from magpie.backends.interp.reports import Report, show_item
from magpie.dtypes import DType
from magpie.ir.nodes import Node, PtrType
from magpie.ir.ops import MOST_ELEMENTS

__all__ = ["HEAP_OPS", "Heap", "compile_heap"]

Frame = list[Any]
Closure = Callable[[Frame, Mask], None]

HEAP_OPS = frozenset({"malloc", "free", "ptr_add", "ptr_valid", "ptr_load", "ptr_store"})

# Pages that nobody touches take no memory.
_BYTES = 1 << 28
_SHIFT = 40
_MIDDLE = 1 << (_SHIFT - 1)  # element 0, so that one before it is no other allocation's


class Heap:
    """The allocations of one launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.data = np.zeros(_BYTES, np.uint8)
        self.written = np.zeros(_BYTES, bool) if launch.sanitizer is not None and launch.sanitizer.uninit else None
        self.windows: dict[DType, Window] = {}
        self.end = 16
        self.idle: dict[int, list[int]] = {}  # starts of freed blocks by their size
        self.count = 0
        self.start, self.bytes = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self.size = np.zeros(64, np.int64)
        self.live = np.zeros(64, bool)
        self.owner = np.zeros((64, 2), np.int64)  # workgroup and lane
        self.origin: list[tuple[int, Node]] = []  # first allocation of a call, and the call

    def allocate(self, node: Node, counts: Any, itemsize: int, owners: Any) -> Any:
        """Pointers to that many elements each, null where there is no room or the number is not sensible."""
        nbytes = np.where((counts > 0) & (counts <= MOST_ELEMENTS), counts, 0) * itemsize
        sizes = np.maximum(16, 1 << np.ceil(np.log2(np.maximum(nbytes, 1))).astype(np.int64))
        starts = np.zeros(len(counts), np.int64)
        for size in np.unique(sizes[nbytes > 0]).tolist():
            who = np.flatnonzero((sizes == size) & (nbytes > 0))
            idle = self.idle.get(size, [])
            again = [idle.pop() for _ in range(min(len(idle), len(who)))]
            if self.written is not None:
                for start in again:
                    self.written[start : start + size] = False
            fresh = min(len(who) - len(again), max(0, _BYTES - self.end) // size)
            found = [*again, *range(self.end, self.end + fresh * size, size)]
            self.end += fresh * size
            starts[who[: len(found)]] = found
        good = np.flatnonzero(starts)
        first = self.count
        self.count += len(good)
        while self.count > len(self.start):
            self.start, self.bytes, self.size, self.live, self.owner = (
                np.concatenate([a, np.zeros_like(a)])
                for a in (self.start, self.bytes, self.size, self.live, self.owner)
            )
        new = slice(first, self.count)
        self.start[new], self.bytes[new], self.size[new] = starts[good], nbytes[good], sizes[good]
        self.live[new], self.owner[new] = True, owners[good]
        self.origin.append((first, node))
        pointers = np.zeros(len(counts), np.int64)
        pointers[good] = (np.arange(first + 1, self.count + 1) << _SHIFT) + _MIDDLE
        return pointers

    def split(self, pointers: Any) -> tuple[Any, Any]:
        """(number of the allocation, element), -1 for null."""
        number = (pointers >> _SHIFT) - 1
        number = np.where((number >= 0) & (number < self.count), number, -1)
        return number, (pointers & ((1 << _SHIFT) - 1)) - _MIDDLE

    def release(self, pointers: Any) -> Any:
        """Free blocks; True where a pointer is one that `allocate` gave and nobody has freed, or null."""
        number, element = self.split(pointers)
        fine = (number >= 0) & (element == 0) & self.live[number]
        # The same block twice in one step is a fault of all but the first.
        chosen, first = np.unique(number[fine], return_index=True)
        self.live[chosen] = False
        for block in chosen.tolist():
            self.idle.setdefault(int(self.size[block]), []).append(int(self.start[block]))
        once = np.zeros(len(pointers), bool)
        once[np.flatnonzero(fine)[first]] = True
        return once | (pointers == 0)

    def place(self, pointers: Any, itemsize: int) -> tuple[Any, Any, Any]:
        """(index of the element in the heap, inside, alive)."""
        number, element = self.split(pointers)
        inside = (number >= 0) & (element >= 0) & (element * itemsize < self.bytes[number])
        alive = self.live[number]
        return np.where(inside & alive, self.start[number] // itemsize + element, 0), inside, alive

    def window(self, type_: DType) -> Window:
        """The heap as elements of a type."""
        found = self.windows.get(type_)
        if found is None:
            found = self.windows[type_] = window_over("malloc", type_, self.data)
        return found

    def report_leaks(self) -> None:
        """One report for each `malloc` whose memory is not all freed."""
        firsts = [first for first, _ in self.origin] + [self.count]
        for (first, node), last in zip(self.origin, firsts[1:], strict=True):
            left = np.flatnonzero(self.live[first:last]) + first
            collector = self.launch.collector
            if not len(left) or collector.seen("MPG_SAN_1016", node.loc, count=len(left)):
                continue
            item = self.launch.item(int(self.owner[left[0], 0]), int(self.owner[left[0], 1]))
            text = f"{self.bytes[left[0]]} bytes from malloc by {show_item(item)} are never freed"
            help_ = "free them with mp.free in the same launch: no later one can reach them"
            report = Report("leak", "MPG_SAN_1016", text, node.loc, work_items=(item,), help=help_, count=len(left))
            collector.add(report)


def heap_of(launch: Launch) -> Heap:
    """The launch's heap, made when it is first used."""
    if launch.heap is None:
        launch.heap = Heap(launch)
    return launch.heap


def compile_heap(node: Node, d: int, args: list[int]) -> Closure:
    """The closure of one of `HEAP_OPS`."""
    return _COMPILE[node.op](node, d, args)


def _lanes_of(value: Lanes, lanes: Any) -> Any:
    """The values of some lanes of a register."""
    return value[lanes] if value.ndim else np.full(len(lanes), value)


def _malloc(node: Node, d: int, args: list[int]) -> Closure:
    itemsize = node.attrs["dtype"].itemsize
    (a,) = args

    def malloc(r: Frame, m: Mask) -> None:
        chunk: Chunk = r[0]
        lanes = chunk.active(m)
        n = chunk.launch.group_size
        owners = np.stack([chunk.groups[lanes // n], lanes % n], axis=1)
        found = np.zeros(chunk.size, np.int64)
        found[lanes] = heap_of(chunk.launch).allocate(node, _lanes_of(r[a], lanes).astype(np.int64), itemsize, owners)
        r[d] = found

    return malloc


def _free(node: Node, d: int, args: list[int]) -> Closure:
    (p,) = args

    def free(r: Frame, m: Mask) -> None:
        chunk: Chunk = r[0]
        lanes = chunk.active(m)
        good = heap_of(chunk.launch).release(_lanes_of(r[p], lanes))
        if not good.all() and chunk.launch.wants("bounds"):
            text = "{item} frees memory that is not there any more, or not from malloc"
            chunk.report("freed", node, lanes[~good], text)

    return free


def _add(node: Node, d: int, args: list[int]) -> Closure:
    p, i = args

    def add(r: Frame, m: Mask) -> None:
        r[d] = r[p] + r[i].astype(np.int64)

    return add


def _valid(node: Node, d: int, args: list[int]) -> Closure:
    (p,) = args

    def valid(r: Frame, m: Mask) -> None:
        r[d] = r[p] != 0

    return valid


def _element(pointer: Node) -> DType:
    assert isinstance(pointer.type, PtrType) and isinstance(pointer.type.element, DType)
    return pointer.type.element


def _found(chunk: Chunk, node: Node, what: str, pointers: Any, lanes: Any, type_: DType) -> tuple[Heap, Any, Any]:
    """(heap, index of each element, which accesses are good); the others are reported."""
    heap = heap_of(chunk.launch)
    index, inside, alive = heap.place(pointers, type_.itemsize)
    good = inside & alive
    if not good.all() and chunk.launch.wants("bounds"):
        number, element = heap.split(pointers)
        outside = ~inside
        if outside.any():
            k = int(np.flatnonzero(outside)[0])
            text = f"out-of-bounds {what} of {{at}} by {{item}}, in memory of {heap.bytes[number[k]] // type_.itemsize}"
            if number[k] < 0:
                text = f"{what} through a null pointer by {{item}}: malloc had no memory left, or was asked for none"
            place = ("malloc", (int(element[k]),))
            chunk.report(what, node, lanes[outside], text, address=lambda lane: place)
        if (inside & ~alive).any():
            chunk.report("freed", node, lanes[inside & ~alive], f"{what} of memory that was freed, by {{item}}")
    return heap, index, good


def _load(node: Node, d: int, args: list[int]) -> Closure:
    type_ = _element(node.args[0])
    (p,) = args

    def load(r: Frame, m: Mask) -> None:
        chunk: Chunk = r[0]
        lanes = chunk.active(m)
        heap, index, good = _found(chunk, node, "read", _lanes_of(r[p], lanes), lanes, type_)
        if heap.written is not None and good.any():
            missing = good & ~heap.written[index * type_.itemsize]
            if missing.any():
                chunk.report(
                    "uninit", node, lanes[missing], "memory from malloc is read by {item} before it is written"
                )
        found = np.zeros(chunk.size, register_dtype(type_))
        found[lanes[good]] = heap.window(type_).get(index[good])
        r[d] = found

    return load


def _store(node: Node, d: int, args: list[int]) -> Closure:
    type_ = _element(node.args[0])
    p, v = args

    def store(r: Frame, m: Mask) -> None:
        chunk: Chunk = r[0]
        lanes = chunk.active(m)
        heap, index, good = _found(chunk, node, "write", _lanes_of(r[p], lanes), lanes, type_)
        at = index[good]
        heap.window(type_).put(at, _lanes_of(r[v], lanes)[good])
        if heap.written is not None:
            heap.written[at * type_.itemsize] = True

    return store


_COMPILE: dict[str, Callable[[Node, int, list[int]], Closure]] = {
    "malloc": _malloc,
    "free": _free,
    "ptr_add": _add,
    "ptr_valid": _valid,
    "ptr_load": _load,
    "ptr_store": _store,
}
