"""Local arrays that work-items fill before they read them: the zeros that they start with need not be written."""

from __future__ import annotations

from magpie.ir.nodes import Kernel, LocalArray, Node, Region, walk
from magpie.passes.index_sums import Forms
from magpie.passes.narrow_index import Ranges

__all__ = ["filled_arrays"]


def filled_arrays(kernel: Kernel, ranges: Ranges) -> set[LocalArray]:
    """The local arrays of which every element is stored, one by one, before anything else is done with them."""
    forms = Forms(ranges, kernel.facts.small)
    return {a for a in kernel.locals if _fills(_home(kernel.body, a), a, forms)}


def _home(region: Region, array: LocalArray) -> Region:
    """The innermost region that holds all accesses of an array."""
    while True:
        users = [n for n in region if _accesses(n, array)]
        inner = [r for n in users for r in n.regions if any(_accesses(m, array) for m in r)]
        if len(users) != 1 or len(inner) != 1:
            return region
        region = inner[0]


def _accesses(node: Node, array: LocalArray) -> bool:
    return node.attrs.get("array") is array or any(n.attrs.get("array") is array for r in node.regions for n in walk(r))


def _fills(region: Region, array: LocalArray, forms: Forms) -> bool:
    elements = 1
    for extent in array.shape:
        elements *= extent
    stored: set[int] = set()
    for node in region:
        if not _accesses(node, array):
            continue
        if node.op != "store" or node.attrs.get("field") is not None:
            return False
        at = 0
        for extent, index in zip(array.shape, node.args, strict=False):
            terms, constant = forms.form(index)
            if terms or not 0 <= constant < extent:
                return False
            at = at * extent + constant
        stored.add(at)
        if len(stored) == elements:
            return True
    return False
