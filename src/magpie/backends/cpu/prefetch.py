"""Asking for memory before it is needed, where no hardware prefetcher sees it coming (see `walks`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magpie.ir.nodes import Node

if TYPE_CHECKING:
    from magpie.backends.cpu.memory import Address, MemoryMixin

__all__ = ["next_group", "next_of_walk"]


def next_of_walk(gang: MemoryMixin, node: Node, a: Address) -> None:
    """Ask for what a walk loads next: the same lines a trip later, or in long blocks the line behind these, which sets
    the prefetcher going (an access that is not aligned touches it by itself)."""
    size = a.t.itemsize
    distance, lines = str(gang.w * size), 1
    if gang.env.ahead == "trip":
        array = node.attrs["array"]
        step = gang.mul(gang.map[node.attrs["ahead"]].text, gang.env.launch.stride(array, array.rank - 1))
        distance, lines = gang.mul(step, str(size * node.attrs["ahead_trips"])), _lines(gang, size)
    _ask(gang, a, distance, lines)


def next_group(gang: MemoryMixin, node: Node, a: Address) -> None:
    """Ask for what the next workgroup loads at this place."""
    by, size = node.attrs["next_by"], a.t.itemsize
    step = gang.env.launch.stride(node.attrs["array"], node.attrs["next_dim"])
    step = gang.mul(step, str(by) if isinstance(by, int) else gang.map[by].text)
    _ask(gang, a, gang.mul(step, str(size)), _lines(gang, size))


def _lines(gang: MemoryMixin, size: int) -> int:
    """Lines of 64 bytes that the lanes of a gang fill."""
    return -(-gang.w * size // 64)


def _ask(gang: MemoryMixin, a: Address, distance: str, lines: int) -> None:
    c = gang.c
    c.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    for line in range(lines):
        p = c.op(f"getelementptr i8, ptr {a.base}, i64 {gang.add(distance, str(64 * line))}")
        c.do(f"call void @llvm.prefetch.p0(ptr {p}, i32 0, i32 3, i32 1)")
