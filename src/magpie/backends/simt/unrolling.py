"""Which counted loops become straight code, for targets whose own compiler may leave them as they are.

A driver's compiler unrolls little of what it is given, and a local array that a loop's count indexes is memory until
the loop is gone. So loops of constant trips are unrolled here: wholly up to some size, and further where the body
indexes a local array by the count; else several trips at a time. Arrays all of whose indices are constants then are
become slots (`magpie.passes.local_slots`).
"""

from __future__ import annotations

from math import prod

from magpie.ir.nodes import Kernel, LocalArray, Node, walk
from magpie.ir.ops import ELEMENTARY
from magpie.passes.fold import fold
from magpie.passes.local_slots import local_slots
from magpie.passes.unroll import Counted, counted_loop, unroll

__all__ = ["straighten"]

# Nodes of all copies of a body: where a loop is unrolled wholly, where that makes slots of a local array, and where
# only some of its trips become one.
_WHOLE, _LOCAL, _PART = 512, 4096, 256
_MOST = 16
# Elements of a local array that registers can hold: a longer one stays in memory, whatever its indices are.
_REGISTERS = 128
_FREE = frozenset(["const", "slot_get", "slot_set", "cast", "break_if"])
# What a function counts as.
_FUNCTION = 16


def straighten(kernel: Kernel) -> Kernel:
    """A kernel that `magpie.passes.prepare` made, with loops of constant trips unrolled, the innermost first."""
    kernel = fold(kernel)
    while True:
        factors = {node: n for node in walk(kernel.body) if node.op == "loop" and (n := _factor(node)) > 1}
        if not factors:
            return local_slots(kernel)
        kernel = fold(unroll(kernel, factors, rolled=True))


def _factor(node: Node) -> int:
    """How many trips of a loop to take at once."""
    loop = None if node.attrs.get("rolled") else counted_loop(node)
    trips = None if loop is None else loop.known
    if loop is None or trips is None:
        return 1
    size = sum(_weight(n) for n in walk(loop.body))
    if trips * size <= (_LOCAL if _indexes_local(loop) else _WHOLE):
        return max(trips, 2)
    count = 1
    while 2 * count * size <= _PART and trips % (2 * count) == 0 and count < _MOST:
        count *= 2
    return count


def _weight(node: Node) -> int:
    return 0 if node.op in _FREE else _FUNCTION if node.op in ELEMENTARY else 1


def _indexes_local(loop: Counted) -> bool:
    """Whether the index of a local array that registers can hold follows from the count."""
    counts: set[Node] = set()
    for node in walk(loop.body):
        if (node.op == "slot_get" and node.attrs["slot"] is loop.slot) or any(a in counts for a in node.args):
            counts.add(node)
            array = node.attrs.get("array")
            if node.op in ("load", "store") and isinstance(array, LocalArray) and prod(array.shape) <= _REGISTERS:
                return any(a in counts for a in node.args[: array.rank])
    return False
