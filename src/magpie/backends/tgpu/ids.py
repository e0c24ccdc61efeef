"""thread_id, workgroup_id and global_id: R6, R5 and R7, or their digits where a launch has several dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.backends.tgpu import hostexpr
from magpie.backends.tgpu.code import BLOCK_ID, LOCAL_ID, THREAD_ID, Label, Virtual
from magpie.backends.tgpu.hostexpr import Known
from magpie.ir.nodes import Node, walk

if TYPE_CHECKING:
    from magpie.backends.tgpu.emit import Emitter

__all__ = ["identity", "prologue"]

Dims = tuple[Known, Known, Known]


def identity(e: Emitter, node: Node) -> None:
    """An id along a dimension."""
    dim = node.attrs.get("dim", 0)
    if node.op == "linear_local_id":
        e.values[node] = LOCAL_ID
    elif node.op == "thread_id":
        e.values[node] = e.ids["thread_id", dim]
    elif node.op == "workgroup_id":
        e.values[node] = e.ids["workgroup_id", dim]
    elif dim == 0 and _flat(e):
        e.values[node] = THREAD_ID
    else:
        e.values[node] = e.add(e.mul(e.ids["workgroup_id", dim], e.block[dim]), e.ids["thread_id", dim])


def _flat(e: Emitter) -> bool:
    """Whether the launch has one dimension only."""
    return all(n == 1 for n in (*e.grid[1:], *e.block[1:]))


def prologue(e: Emitter) -> None:
    """Find the ids that the kernel asks for, before all else: R6 and R5 count work-items and workgroups, x fastest."""
    asked = {(n.op, n.attrs["dim"]) for n in walk(e.kernel.body) if n.op in ("thread_id", "workgroup_id", "global_id")}
    if _flat(e):
        asked.discard(("global_id", 0))
    for op, sizes, whole in (("thread_id", e.block, LOCAL_ID), ("workgroup_id", e.grid, BLOCK_ID)):
        if any(kind in (op, "global_id") for kind, _ in asked):
            e.ids.update(((op, dim), digit) for dim, digit in enumerate(_digits(e, whole, sizes)))


def _digits(e: Emitter, whole: Virtual, sizes: Dims) -> list[Any]:
    """The digits of a flat id, found by subtracting the size as often as it goes."""
    found: list[Any] = []
    rest: Any = whole
    for dim in range(3):
        if all(n == 1 for n in sizes[dim + 1 :]):  # what is left is this digit
            return [*found, rest, 0, 0][:3] if sizes[dim] != 1 else [*found, 0, 0, 0][:3]
        if sizes[dim] == 1:
            found.append(0)
            continue
        digit, count = e.register(rest), e.fresh("SET", 0)
        top, done = Label(), Label()
        e.code.emit("CMP", digit, sizes[dim])
        e.code.emit("BRLT", done)
        e.code.place(top)
        e.code.emit("ADD", digit, digit, hostexpr.mul(sizes[dim], -1))
        e.code.emit("ADD", count, count, 1)
        e.code.emit("CMP", digit, hostexpr.add(sizes[dim], -1))
        e.code.emit("BRGT", top)
        e.code.place(done)
        found.append(digit)
        rest = count
    raise AssertionError("the last dimension has none behind it")
