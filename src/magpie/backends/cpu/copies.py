"""Private copies of shared arrays for atomics, so that lanes need not wait for each other's stores.

Between two barriers nobody may look at what atomics with unused results do to an array, and with integers any order
gives the same bits. So in a stretch of items without a barrier the lanes may work on several copies of the array, which
are merged at its end. A stretch takes them where that pays: merging is a pass over the array, so there must be more
atomics than elements, and the copies must leave room in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from magpie.backends.cpu.regions import Barrier, Branch, Exit, Item, Repeat, Run, Scalar
from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, Region, SharedArray

__all__ = ["COPIES", "all_stretches", "copy_pitch", "private_arrays", "stretches"]

# A histogram of 2**24 bytes on a Zen 3, all in one bin: 12.8 ms with the array alone, 8.9 with 2 copies, 8.2 with 4,
# and 10.5 with 8, whose memory leaves room for fewer workgroups at a time. Uniform bytes: 9.0, 7.0, 7.3 and 8.6.
COPIES = 4
# Bytes that all copies of the arrays of a stretch may take: half of a first-level cache.
_ROOM = 16 << 10
# What is assumed of a workgroup or a loop whose size is not known.
_ITEMS, _TRIPS = 128, 64

# What joins two copies. Atomics that are joined alike may be mixed.
_JOINS = {"add": "add", "sub": "add", "and": "and", "or": "or", "xor": "xor", "min": "min", "max": "max"}


def stretches(items: list[Item]) -> Iterator[list[Item]]:
    """``items`` cut at barriers, at exits, and at branches and loops that hold a barrier."""
    stretch: list[Item] = []
    for item in items:
        if isinstance(item, Run | Scalar) or (isinstance(item, Repeat) and item.walks):
            stretch.append(item)
            continue
        assert isinstance(item, Barrier | Branch | Exit | Repeat)
        if stretch:
            yield stretch
        yield [item]
        stretch = []
    if stretch:
        yield stretch


def all_stretches(items: list[Item]) -> Iterator[list[Item]]:
    """The stretches of ``items`` and of everything inside them."""
    yield from stretches(items)
    for item in items:
        for inner in (item.then, item.else_) if isinstance(item, Branch) else ():
            yield from all_stretches(inner)
        for inner in (item.body, item.step) if isinstance(item, Repeat) and not item.walks else ():
            yield from all_stretches(inner)


def private_arrays(stretch: list[Item], kernel: Kernel, used: set[Node]) -> dict[SharedArray, str]:
    """The arrays that a stretch works on private copies of, and the op that joins these. ``used``: see `Env.used`."""
    joins: dict[SharedArray, set[str]] = {}
    count: dict[SharedArray, int] = {}
    for node, times in _executed(stretch):
        array = node.attrs.get("array")
        if isinstance(array, SharedArray) and node.op not in ("extent", "stride"):
            plain = node.op == "atomic_rmw" and node not in used
            joins.setdefault(array, set()).add(_JOINS.get(node.attrs["kind"], "") if plain else "")
            count[array] = count.get(array, 0) + times
    size = kernel.known_workgroup
    items = size[0] * size[1] * size[2] if size else _ITEMS
    out: dict[SharedArray, str] = {}
    room = _ROOM
    for array, found in joins.items():
        join = found.pop()
        if found or not join or array.dynamic or not (isinstance(array.type, DType) and array.type.is_int):
            continue
        size_all = copy_pitch(array) * COPIES
        if size_all <= room and count[array] * items > 2 * array.nbytes // array.type.itemsize:
            room -= size_all
            out[array] = join
    return out


def _executed(stretch: list[Item], times: int = 1) -> Iterator[tuple[Node, int]]:
    """Every node of a stretch, and about how often a work-item executes it."""
    for item in stretch:
        if isinstance(item, Run):
            yield from _times(item.nodes, times)
        elif isinstance(item, Scalar):
            yield item.node, times
        elif isinstance(item, Repeat) and item.walks:  # any other loop here holds barriers, and so stretches of its own
            yield from _executed([*item.body, *item.step], times * _TRIPS)


def _times(region: Region, times: int) -> Iterator[tuple[Node, int]]:
    for node in region:
        yield node, times
        inside = times
        if node.op == "loop":
            counted = node.attrs.get("counted")
            trips = counted[1] if counted is not None else None
            known = trips is not None and trips.op == "const"
            inside *= max(1, trips.attrs["value"]) if known and trips is not None else _TRIPS
        for inner in node.regions:
            yield from _times(inner, inside)


def copy_pitch(array: SharedArray) -> int:
    """Bytes from one copy to the next. Not a power of two: a load waits for pending stores at a distance of 4096."""
    return (array.nbytes + 63) // 64 * 64 + 64
