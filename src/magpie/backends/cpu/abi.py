"""What a compiled cpu kernel and its driver agree on: the launch block, the arena, the records.

Entry point
    ``void kernel_range(ptr args, i64 wg_begin, i64 wg_end, ptr arena)`` runs the workgroups with linear numbers
    ``wg_begin <= w < wg_end`` (x fastest) on the calling thread. `Artifact.info["entry"]` is its name.

Launch block (`args`), 8-byte words, 8-byte aligned
    The parameters at their layout offsets (rule WORD8), then from byte ``layout.size`` on, in words:

    ==========  ================================================================================================
    0, 1, 2     num_workgroups x, y, z (each at least 1; fewer than 2**48 work-items along each dimension)
    3, 4, 5     workgroup_size x, y, z
    6           bytes from which an output is written past the cache (see `magpie.backends.cpu.streaming`)
    7           work-items of the launch
    8 ...       for every *dynamic* shared array in layout order, its extents in order, each evaluated on the host
    last        address of the record buffer; there only if ``info["records"]`` is true
    ==========  ================================================================================================

Arena
    One block of `arena_bytes(info, block, extents)` bytes for each thread, aligned to `ARENA_ALIGN`, content arbitrary.
    No initialisation is needed between launches.

Records
    What `assert`, `print` and checked mode report: see `magpie.backends.record_format`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magpie.ir.layout import KernelLayout

__all__ = [
    "ARENA_ALIGN",
    "BLOCK_WORD",
    "ENTRY",
    "EXTENT_WORD",
    "GRID_WORD",
    "ITEMS_WORD",
    "STREAM_WORD",
    "arena_bytes",
    "dynamic_extents",
    "launch_block_size",
]

ENTRY = "kernel_range"
GRID_WORD = 0
BLOCK_WORD = 3
STREAM_WORD = 6
ITEMS_WORD = 7
EXTENT_WORD = 8
ARENA_ALIGN = 64


def dynamic_extents(layout: KernelLayout) -> int:
    """How many extent words the launch block holds."""
    return sum(len(s.extents) for s in layout.shared if s.dynamic)


def launch_block_size(layout: KernelLayout, info: dict[str, Any]) -> int:
    """Bytes of the launch block."""
    return layout.size + 8 * (EXTENT_WORD + dynamic_extents(layout) + bool(info.get("records")))


def _round(size: int) -> int:
    return (size + ARENA_ALIGN - 1) // ARENA_ALIGN * ARENA_ALIGN


def arena_bytes(info: dict[str, Any], block: tuple[int, int, int], extents: Sequence[int] = ()) -> int:
    """Bytes of arena that one thread needs for workgroups of size ``block``.

    ``extents`` are the extent words of the launch block. ``info["arena"]`` holds: fixed (bytes), per_gang (bytes for
    each gang), rows (true if gangs do not cross rows of x), dynamic ((itemsize, rank) of each dynamic array) and batch
    (workgroups that are in the arena at once).
    """
    arena: dict[str, Any] = info["arena"]
    width: int = info["gang"]
    x, y, z = block
    gangs = -(-x // width) * y * z if arena["rows"] else -(-x * y * z // width)
    total, at = int(arena["fixed"]) + int(arena["per_gang"]) * gangs, 0
    for itemsize, rank in arena["dynamic"]:
        size = int(itemsize)
        for n in extents[at : at + rank]:
            size *= n
        at += rank
        total += _round(size)
    return total * int(arena["batch"])
