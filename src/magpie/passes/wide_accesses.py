"""Accesses of a work-item to neighbours as one of up to 16 bytes, for targets with vectors but no compiler of ours.

A run is some elements that lie side by side, from a multiple of its size on: the fact `aligned` says where arrays and
their rows begin, and what divides the index of the first element follows from the program. All loads of a run may be
done at the first of them, its stores at the last (`magpie.passes.access_groups`).
"""

from __future__ import annotations

from magpie.dtypes import DType
from magpie.ir.nodes import Array, Buffer, Kernel, Node, SharedArray, walk
from magpie.passes.access_groups import Group, find_groups
from magpie.passes.divisors import Divisors
from magpie.passes.narrow_index import ranges
from magpie.records import record

__all__ = ["Run", "wide_accesses"]

# Bytes of an access, the widest first.
_SIZES = (16, 8, 4)


@record
class Run:
    """``elements`` has the accesses to each element of the run in turn: one store, or some loads. ``at`` is the access
    at which all of them are done, and ``place`` says to which element that is."""

    elements: tuple[tuple[Node, ...], ...]
    at: Node
    place: int

    @property
    def nodes(self) -> list[Node]:
        """All accesses."""
        return [node for nodes in self.elements for node in nodes]


def wide_accesses(kernel: Kernel) -> dict[Node, Run]:
    """The runs of a prepared kernel without structs, by the accesses that they replace: in buffers that are aligned and
    contiguous, and of elements of 4 bytes in shared arrays of constant shape."""
    accessed = [n for n in walk(kernel.body) if "array" in n.attrs]
    arrays = {a for n in accessed if _can_be_wide(kernel, a := n.attrs["array"])}
    arrays -= {n.attrs["array"] for n in accessed if n.op not in ("load", "store") and n.info.effect.value != "pure"}
    if not arrays:
        return {}
    order = {node: k for k, node in enumerate(accessed)}
    groups = dict.fromkeys(find_groups([kernel.body], kernel, ranges(kernel)).values())
    divisors = Divisors(kernel)
    found: dict[Node, Run] = {}
    for group in groups:
        if group.array in arrays and len(group.offsets) > 1:
            for run in _runs(group, divisors, order):
                found |= dict.fromkeys(run.nodes, run)
    return found


def _can_be_wide(kernel: Kernel, array: Array) -> bool:
    t, facts = array.type, kernel.facts
    if not isinstance(t, DType) or t.is_bool or not array.rank:
        return False
    if isinstance(array, SharedArray):
        return t.itemsize == 4 and not array.dynamic
    return isinstance(array, Buffer) and array.name in facts.contiguous & facts.aligned


def _runs(group: Group, divisors: Divisors, order: dict[Node, int]) -> list[Run]:
    """The runs of a group, which do not overlap."""
    at: dict[int, list[Node]] = {}
    for node, offset in group.offsets.items():
        at.setdefault(offset, []).append(node)
    size = group.array.type.itemsize
    runs = []
    for nbytes in _SIZES:
        for start in sorted(at):
            places = range(start, start + nbytes, size)
            if len(places) < 2 or not all(p in at for p in places):
                continue
            if _alignment(at[start][0], divisors) * size % nbytes:
                continue
            elements = tuple(tuple(at.pop(p)) for p in places)
            nodes = sorted((n for each in elements for n in each), key=order.__getitem__)
            first = nodes[0] if nodes[0].op == "load" else nodes[-1]
            runs.append(Run(elements, first, next(k for k, each in enumerate(elements) if first in each)))
    return runs


def _alignment(node: Node, divisors: Divisors) -> int:
    """A power of two that divides the number of the element that an access is to, in its array or its row."""
    array: Array = node.attrs["array"]
    found = _divisor(node.args[array.rank - 1], divisors)
    stride = 1
    for dim in range(array.rank - 2, -1, -1):  # rows of aligned buffers begin at multiples of all sizes
        if not isinstance(array, SharedArray):
            break
        extent = array.shape[dim + 1]
        assert isinstance(extent, int)
        stride *= extent
        found = min(found, _divisor(node.args[dim], divisors) * (stride & -stride))
    return found


def _divisor(index: Node, divisors: Divisors) -> int:
    """A power of two that divides an index: of a sum, what divides its terms and all constants together."""
    found, constant = _SIZES[0], 0
    terms = [(index, 1)]
    while terms:
        node, sign = terms.pop()
        if node.op == "const":
            constant += sign * int(node.attrs["value"])
        elif node.op in ("add", "sub"):
            a, b = node.args
            terms += [(a, sign), (b, sign if node.op == "add" else -sign)]
        elif node.op == "cast" and node.args[0].dtype.is_int and node.args[0].dtype.bits >= 32:
            terms.append((node.args[0], sign))
        else:
            found = min(found, divisors.of(node))
    return min(found, constant & -constant) if constant else found
