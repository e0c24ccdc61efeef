"""How many workgroups a block of a SIMT device runs, by what a work-item does: see `magpie.passes.coarsen`.

A block's threads must have some bytes on their way before they wait. Measured on an H200 (2**28 elements, GB/s; blocks
of 256):

    ====================  =====  =====  =====  =====
    workgroups a block        1      2      4      8
    ====================  =====  =====  =====  =====
    saxpy of floats        3485   4286   4347   4283
    saxpy, blocks of 128   2526   4349   4344   4303
    copy of floats         2786   3828   4251   4100
    fill with floats       1642   3182   4341   4272
    copy of bytes           784   1363   2249   2774
    copy of bytes, packed   836          2653   3812
    y += x, halves         2127          3731   2768
    y += x, packed         2131          4307   4328
    x / (1 + exp(-x))      2070   2451   2798   2923
    saxpy of doubles       4119   4095   4046   4061
    5-point stencil        2194   2979   3176   3333
    transpose by tiles     3575   3701   3663
    ====================  =====  =====  =====  =====

So a thread shall move about 48 bytes, not more than 16 of an array; and twice that where it also waits at barriers.
Elements of less than 4 bytes are moved in words, where they are aligned: a thread's work-items are neighbours then.
"""

from __future__ import annotations

from magpie.dtypes import DType
from magpie.ir.nodes import Array, Buffer, Kernel, Node, Region, origins, walk
from magpie.ir.ops import ELEMENTARY, Effect
from magpie.passes.coarsen import can_coarsen, can_pack, coarsen
from magpie.records import record

__all__ = ["NONE", "Coarsening", "coarsening"]


@record
class Coarsening:
    """Workgroups a block, along which dimension they are adjacent, and whether a thread's work-items are neighbours."""

    factor: int = 1
    dim: int = 0
    packed: bool = False

    def __call__(self, kernel: Kernel) -> Kernel:
        """The kernel of such blocks."""
        return coarsen(kernel, self.factor, self.dim, packed=self.packed) if self.factor > 1 else kernel


NONE = Coarsening()

_BYTES, _OF_AN_ARRAY = 48, 16
_MOST = 8
# Nodes of a kernel whose time goes into memory, for each byte of it; functions count as many.
_WORK_A_BYTE = 16
_ELEMENTARY = 60
_DIVISION = 8
# Values that a thread keeps: the accesses of all its work-items, about.
_KEPT = 32
# Shared memory of a block beyond which an SM has too few of them.
_SHARED = 24 << 10
# Elements that are nearer than this in each dimension are read for other work-items, too.
_NEAR = 4

_IDS = frozenset(["thread_id", "workgroup_id", "global_id"])
_DIVISIONS = frozenset(["div", "floordiv", "mod", "tdiv", "trem", "sqrt", "rsqrt", "fmod"])


def coarsening(kernel: Kernel, asked: int, shared_limit: int) -> Coarsening:
    """For a prepared kernel. ``asked``: the number of workgroups that an option says, 0 for none."""
    if asked == 1 or not can_coarsen(kernel):
        return NONE
    shared = sum(array.nbytes for array in kernel.shared)
    dim = _dimension(kernel)
    if asked:
        if asked * shared > shared_limit:
            return NONE
        return Coarsening(asked, dim, can_pack(kernel, asked, dim) and _in_words(kernel, dim))
    if kernel.known_workgroup is None or not kernel.facts.noalias:
        return NONE  # code for launches of any kind stays small
    if kernel.locals or any(array.dynamic for array in kernel.shared):
        return NONE
    found = _Counts()
    if not found.region(kernel.body, 1) or not found.moved or found.work > _WORK_A_BYTE * found.moved:
        return NONE
    room = 2 * _BYTES if found.waits else _BYTES
    factor = _MOST
    while factor > 1 and (
        factor * found.moved > room
        or factor * found.widest > _OF_AN_ARRAY
        or factor * found.accesses > _KEPT
        or (shared and factor * shared > _SHARED)
    ):
        factor //= 2
    return Coarsening(factor, dim, can_pack(kernel, factor, dim) and _in_words(kernel, dim)) if factor > 1 else NONE


def _in_words(kernel: Kernel, dim: int) -> bool:
    """Whether neighbours along ``dim`` load and store neighbours, in arrays that are aligned, and some elements have
    less than 4 bytes: then those of a thread are moved together."""
    small = False
    facts = kernel.facts
    for node in walk(kernel.body):
        if node.op not in ("load", "store") or not isinstance(node.attrs["array"], Buffer):
            continue
        array: Buffer = node.attrs["array"]
        indices = node.args[: array.rank]
        small |= array.type.itemsize < 4
        if not any(_follows(i, dim) for i in indices):
            continue
        root = _place(indices[-1])[0]
        adjacent = (
            root.op == "global_id" and root.attrs["dim"] == dim and not any(_follows(i, dim) for i in indices[:-1])
        )
        if not adjacent or array.name not in facts.aligned or array.name not in facts.contiguous:
            return False
    return small


def _follows(value: Node, dim: int | None = None) -> bool:
    """Whether a value may follow from a work-item's ids, along ``dim`` or any dimension."""
    return any(
        (dim is None or node.attrs["dim"] == dim) if node.op in _IDS else not node.info.pure
        for node in origins([value])
    )


def _dimension(kernel: Kernel) -> int:
    """The first dimension whose workgroups store side by side: their id is in the last index of stores. What is written
    is best written in long rows (a transpose by tiles: 3701 GB/s along the other one, 3847 along this)."""
    last = [
        n.args[n.attrs["array"].rank - 1]
        for n in walk(kernel.body)
        if n.op == "store" and isinstance(n.attrs["array"], Buffer) and n.attrs["array"].rank
    ]
    found = {node.attrs["dim"] for node in origins(last) if node.op in ("workgroup_id", "global_id")}
    return min(found, default=0)


class _Counts:
    """What a work-item does: bytes and accesses of buffers, the widest of these, nodes that compute, and barriers."""

    def __init__(self) -> None:
        self.moved = self.accesses = self.work = self.widest = 0
        self.waits = False
        self._places: dict[tuple[Array, str, tuple[Node, ...]], list[tuple[int, ...]]] = {}

    def region(self, region: Region, times: int) -> bool:
        """Count ``region``, which runs so many times; False with atomics and loops of unknown length: it is not the
        latency of one load that a thread waits for then."""
        for node in region:
            effect = node.info.effect
            trips = _trips(node) if node.op == "loop" else 1
            if effect is Effect.ATOMIC or trips is None:
                return False
            if not all(self.region(inner, times * trips) for inner in node.regions):
                return False
            if node.op in ("load", "store") and isinstance(node.attrs["array"], Buffer):
                self.access(node, times)
            elif effect is Effect.PURE:
                heavy = _ELEMENTARY if node.op in ELEMENTARY else _DIVISION if node.op in _DIVISIONS else 1
                self.work += times * heavy
            self.waits |= node.op == "barrier"
        return True

    def access(self, node: Node, times: int) -> None:
        self.accesses += times
        array: Array = node.attrs["array"]
        if not any(_follows(i) for i in node.args[: array.rank]):
            return  # one element for all
        parts = [_place(i) for i in node.args[: array.rank]]
        here = tuple(offset for _, offset in parts)
        others = self._places.setdefault((array, node.op, tuple(root for root, _ in parts)), [])
        if any(all(abs(a - b) < _NEAR for a, b in zip(here, there, strict=True)) for there in others):
            return  # from the cache
        others.append(here)
        t = node.type if node.op == "load" else node.args[-1].type
        assert isinstance(t, DType)
        self.moved += times * t.itemsize
        self.widest = max(self.widest, t.itemsize)


def _place(index: Node) -> tuple[Node, int]:
    """An index as a value and a constant distance from it."""
    offset = 0
    while index.op in ("add", "sub"):
        a, b = index.args
        if b.op == "const":
            offset += b.attrs["value"] if index.op == "add" else -b.attrs["value"]
            index = a
        elif a.op == "const" and index.op == "add":
            offset += a.attrs["value"]
            index = b
        else:
            break
    return index, offset


def _trips(loop: Node) -> int | None:
    counted = loop.attrs.get("counted")
    if counted is None or counted[1].op != "const":
        return None
    trips: int = counted[1].attrs["value"]
    return trips
