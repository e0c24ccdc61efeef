"""How many workgroups a block of a SIMT device runs, by what a work-item does: see `magpie.passes.coarsen`.

A block's threads must have some bytes on their way before they wait. Measured on an H200 (saxpy of 2**28 floats, GB/s):
one element a thread 3490 with blocks of 256 and 2540 with blocks of 128, four elements 4360; a register file that holds
fewer blocks takes more than that away, so the number is what a thread's loads ask for and no more.
"""

from __future__ import annotations

from magpie.dtypes import DType
from magpie.ir.nodes import Buffer, Kernel, Node, Region, SharedArray
from magpie.ir.ops import ELEMENTARY, Effect
from magpie.passes.coarsen import can_coarsen

__all__ = ["workgroups_a_block"]

# Bytes that a thread loads and stores before it is through.
_BYTES = 48
_MOST = 8
# Nodes of a kernel whose time goes into memory, for each byte of it; functions count as many.
_WORK_A_BYTE = 8
_ELEMENTARY = 60
_DIVISION = 8
# Values that a thread keeps: the accesses of all its work-items, about.
_KEPT = 32
# Shared memory of a block beyond which an SM has too few of them.
_SHARED = 24 << 10

_DIVISIONS = frozenset(["div", "floordiv", "mod", "tdiv", "trem", "sqrt", "rsqrt", "fmod"])


def workgroups_a_block(kernel: Kernel, asked: int, shared_limit: int) -> int:
    """For a prepared kernel: 1 where it stays as it is. ``asked``: what an option says, 0 where it says nothing."""
    if asked == 1 or not can_coarsen(kernel):
        return 1
    shared = sum(_bytes(array) for array in kernel.shared)
    if asked:
        return asked if asked * shared <= shared_limit else 1
    if kernel.known_workgroup is None or not kernel.facts.noalias:
        return 1  # code for launches of any kind stays small
    if kernel.locals or any(array.dynamic for array in kernel.shared):
        return 1
    found = _Counts()
    if not found.region(kernel.body, 1):
        return 1
    moved, accesses, work = found.moved, found.accesses, found.work
    if not moved or work > _WORK_A_BYTE * moved:
        return 1
    factor = _MOST
    while factor > 1 and (
        factor * moved > _BYTES or factor * accesses > _KEPT or (shared and factor * shared > _SHARED)
    ):
        factor //= 2
    return factor


class _Counts:
    """What a work-item does: bytes and accesses of buffers, and nodes that compute."""

    def __init__(self) -> None:
        self.moved = self.accesses = self.work = 0

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
                t = node.type if node.op == "load" else node.args[-1].type
                assert isinstance(t, DType)
                self.moved += times * t.itemsize
                self.accesses += times
            elif effect is Effect.PURE:
                heavy = _ELEMENTARY if node.op in ELEMENTARY else _DIVISION if node.op in _DIVISIONS else 1
                self.work += times * heavy
        return True


def _trips(loop: Node) -> int | None:
    counted = loop.attrs.get("counted")
    if counted is None or counted[1].op != "const":
        return None
    trips: int = counted[1].attrs["value"]
    return trips


def _bytes(array: SharedArray) -> int:
    """What is known of an array's size; a driver looks at the rest."""
    size = array.type.itemsize
    for n in array.shape:
        size *= n if isinstance(n, int) else 1
    return size
