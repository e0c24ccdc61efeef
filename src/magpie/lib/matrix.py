"""Products of matrices on matrix tiles: `mp.lib.matmul`.

Two kernels. `staged` is for targets that copy to shared memory beside the computation: a workgroup makes a block of the
result, its subgroups tiles of it, and the copies of the next steps of k are under way while this one is multiplied.
Rows in shared memory are 16 bytes longer than the block, so that the rows that a matrix load reads together lie in
different banks. `direct` is for the others: a subgroup reads its tiles from the arguments.
"""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import functools
from typing import Any

import magpie as mp
from magpie.records import record

__all__ = ["Plan"]

# Blocks of the result are made in groups of this many rows of blocks, so that workgroups that run together share them.
_GROUP = 8


@record
class Plan:
    """Extents of a workgroup's block, of a subgroup's tile, elements of k in a stage, and how many stages there are."""

    block: tuple[int, int]
    tile: tuple[int, int]
    depth: int
    stages: int

    @property
    def subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return (self.block[0] // self.tile[0]) * (self.block[1] // self.tile[1])


@mp.func
def block_of(number, rows, cols) -> Any:
    """Row and column of a block by its number: columns first within a group of rows."""
    group = number // (_GROUP * cols)
    first = group * _GROUP
    height = min(rows - first, _GROUP)
    rest = number - first * cols
    return first + rest % height, rest // height


@functools.cache
def staged(plan: Plan, lanes: int) -> Any:
    """The kernel for a plan."""
    bm, bn = plan.block
    wm, wn = plan.tile
    depth, stages = plan.depth, plan.stages
    across = bn // wn
    waits = 2 * (stages - 2)

    @mp.kernel(workgroup=(plan.subgroups * lanes, 1, 1))
    def matmul(a, b, out, dtype: mp.constexpr, held: mp.constexpr, pad: mp.constexpr):
        left = mp.shared((stages, bm, depth + pad), dtype)
        right = mp.shared((stages, depth, bn + pad), dtype)
        rows, cols = mp.cdiv(a.shape[0], bm), mp.cdiv(b.shape[1], bn)
        block_row, block_col = block_of(mp.workgroup_id(0), rows, cols)
        i, j = block_row * bm, block_col * bn
        m, n = mp.subgroup.id() // across * wm, mp.subgroup.id() % across * wn
        acc = mp.mma.zeros((wm, wn), held)
        for s in mp.static_range(stages - 1):
            mp.copy_async(left[s, :, :depth], a, (i, s * depth))
            mp.copy_async(right[s, :, :bn], b, (s * depth, j))
        now = 0
        ahead = stages - 1
        for k in range(0, a.shape[1], depth):
            mp.copy_wait(waits)
            mp.barrier()
            mp.copy_async(left[ahead, :, :depth], a, (i, k + (stages - 1) * depth))
            mp.copy_async(right[ahead, :, :bn], b, (k + (stages - 1) * depth, j))
            for step in mp.static_range(0, depth, 16):
                x = mp.mma.load_a(left[now], (m, step), (wm, 16))
                y = mp.mma.load_b(right[now], (step, n), (16, wn))
                mp.mma(acc, x, y)
            now = mp.select(now == stages - 1, 0, now + 1)
            ahead = mp.select(ahead == stages - 1, 0, ahead + 1)
        mp.copy_wait(0)
        mp.mma.store(acc, out, (i + m, j + n), clip=True)

    return matmul
