"""In which order workgroups are taken, where the order decides what the caches hold.

Row by row is right for what streams through memory. A kernel like a matrix product is another thing: in its loop, one
load is the same for all workgroups of a row (a panel of A) and another for all of a column (a panel of B): a row of
workgroups goes through all of B, and the next row again. Taken in bands of a few rows, column by column, a panel of B
serves the whole band while it is in the cache, and the panels of A of a band stay there.
"""

from __future__ import annotations

from magpie.ir.nodes import Buffer, Kernel, Node, Slot, walk

__all__ = ["BAND", "in_bands"]

#: Rows of workgroups in a band: with 16 x 16 tiles and rows of 1,024 floats, 512 KB of A and 64 KB of B. A tiled
#: product of 1,024 x 1,024 took 0.76 of its time with 4, 0.65 with 8, 0.6 to 0.65 with 16.
BAND = 8

# What orders workgroups, or lets one see how far another has come.
_ORDERED = frozenset(("fence", "atomic_load", "atomic_store", "atomic_cas", "atomic_rmw", "print", "assert", "trap"))


def in_bands(kernel: Kernel) -> bool:
    """Whether a loop of a prepared kernel loads one thing for a row of workgroups and another for a column."""
    for node in walk(kernel.body):
        if node.op in _ORDERED and (not node.op.startswith("atomic") or isinstance(node.attrs["array"], Buffer)):
            return False
    dims = _Dims(kernel)
    for loop in walk(kernel.body):
        if loop.op == "loop":
            inside = [n for r in loop.regions for n in walk(r)]
            found = {dims.of(n) for n in inside if n.op == "load" and isinstance(n.attrs["array"], Buffer)}
            if any(0 in d and 1 not in d for d in found) and any(1 in d and 0 not in d for d in found):
                return True
    return False


class _Dims:
    """Which dimensions of the grid the address of a load rests on, through slots as well."""

    def __init__(self, kernel: Kernel) -> None:
        self.sets: dict[Slot, list[Node]] = {}
        for node in walk(kernel.body):
            if node.op == "slot_set":
                self.sets.setdefault(node.attrs["slot"], []).append(node)

    def of(self, load: Node) -> frozenset[int]:
        seen: set[Node] = set()
        found: set[int] = set()
        todo = list(load.args)
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op in ("workgroup_id", "global_id"):
                found.add(node.attrs["dim"])
            elif node.op == "slot_get":
                todo.extend(self.sets.get(node.attrs["slot"], []))
            todo.extend(node.args)
        return frozenset(found)
