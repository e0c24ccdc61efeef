"""Local arrays whose every index is a constant as slots, one for each element: values in registers.

Both begin at zero, and belong to one work-item.
"""

from __future__ import annotations

from dataclasses import replace

from magpie.dtypes import DType
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, Slot, walk
from magpie.passes.rewrite import Rewriter

__all__ = ["local_slots"]


def local_slots(kernel: Kernel) -> Kernel:
    """``kernel``, which has no calls and no structs, with such arrays gone."""
    arrays: dict[Array, dict[int, Slot]] = {a: {} for a in kernel.locals if isinstance(a.type, DType)}
    for node in walk(kernel.body):
        array = node.attrs.get("array")
        if array in arrays and (node.op not in ("load", "store") or _element(node, array) is None):
            del arrays[array]
    if not arrays:
        return kernel

    def slot(node: Node) -> Slot | None:
        array = node.attrs["array"]
        if array not in arrays:
            return None
        at = _element(node, array)
        assert at is not None
        return arrays[array].setdefault(at, Slot(f"{array.name}.{at}", array.type))

    def load(rw: Rewriter, node: Node) -> Node | None:
        found = slot(node)
        return rw.keep(node) if found is None else rw.out.get(found)

    def store(rw: Rewriter, node: Node) -> Node | None:
        found = slot(node)
        return rw.keep(node) if found is None else rw.out.set(found, rw.value(node.args[-1]))

    body = Rewriter({"load": load, "store": store}).region(kernel.body)
    return replace(kernel, body=body, locals=[a for a in kernel.locals if a not in arrays])


def _element(node: Node, array: LocalArray) -> int | None:
    """The number of the element that an access is to; None where it follows from the program, or is outside."""
    at = 0
    for index, extent in zip(node.args[: array.rank], array.shape, strict=True):
        value = index.attrs["value"] if index.op == "const" else None
        if value is None or not 0 <= value < extent:
            return None
        at = at * extent + value
    return at
