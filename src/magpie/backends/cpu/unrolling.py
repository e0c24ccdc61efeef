"""Which loops are unrolled so that their accesses lie side by side.

``for k in range(16): s += x[16 * i + k]`` reads one element of each lane's row a trip: a gather. Four trips together
read pieces of rows, which whole-vector loads and shuffles bring into lanes (`magpie.backends.cpu.strided`).
"""

from __future__ import annotations

from magpie.backends.cpu.lane_shapes import Shapes, analyse_shapes
from magpie.backends.cpu.shape_rules import Layout
from magpie.ir.nodes import Kernel, Node, Slot, leaf_offset, walk
from magpie.passes.index_sums import Forms
from magpie.passes.narrow_index import Ranges
from magpie.passes.unroll import counted_loop, unroll

__all__ = ["unroll_strided"]

# Nodes that the copies of a body may have in all, and trips that are still unrolled wholly.
_NODES = 400
_WHOLE = 16


def unroll_strided(kernel: Kernel, lanes: Layout, ranges: Ranges) -> Kernel:
    """``kernel`` with loops unrolled whose trips make lanes read or write adjacent elements, one at a time."""
    shapes: Shapes | None = None
    factors: dict[Node, int] = {}
    for loop in walk(kernel.body):
        found = counted_loop(loop) if loop.op == "loop" else None
        if found is None:
            continue
        rows = _adjacent(kernel, found.body, found.slot, ranges)
        if not rows:
            continue
        if shapes is None:
            shapes = analyse_shapes(kernel, lanes, ranges)
        if loop in shapes.ragged or shapes.of(found.trips).kind != 0:
            continue
        factor = max((n for node, n in rows.items() if _strided(node, shapes)), default=0)
        size = sum(1 for _ in walk(found.body))
        if found.known is not None and found.known <= _WHOLE and found.known * size <= _NODES:
            factor = found.known if factor else 0
        if factor > 1 and factor * size <= _NODES:
            factors[loop] = factor
    return unroll(kernel, factors) if factors else kernel


def _adjacent(kernel: Kernel, body: list[Node], slot: Slot, ranges: Ranges) -> dict[Node, int]:
    """The accesses of a loop body that move by one element a trip, and how many trips fill 128 bits."""
    forms = Forms(ranges, kernel.facts.small)
    out: dict[Node, int] = {}
    counts: set[int] = set()
    for node in walk(body):
        if node.op == "slot_set":
            forms.changed(node.attrs["slot"])
        elif node.type is not None:
            forms.visit(node)
            if node.op == "slot_get" and node.attrs["slot"] is slot:
                counts.add(forms.number(node))
        if node.op not in ("load", "store") or node.attrs["array"].space == "local":
            continue
        array = node.attrs["array"]
        indices = node.args[: array.rank]
        if not indices:
            continue
        by = [sum(c for n, c in forms.form(i)[0] if n in counts) for i in indices]
        t, _, size = leaf_offset(array, node.attrs.get("field"))
        if by[-1] in (1, -1) and not any(by[:-1]) and size == t.itemsize:
            out[node] = 16 // size
    return out


def _strided(node: Node, shapes: Shapes) -> bool:
    """Whether lanes are neither at one address nor side by side."""
    indices = node.args[: node.attrs["array"].rank]
    if all(shapes.of(i).kind == 0 for i in indices):
        return False
    return any(shapes.of(i).kind for i in indices[:-1]) or not (
        shapes.of(indices[-1]).kind == 1 and shapes.of(indices[-1]).stride in (1, -1)
    )
