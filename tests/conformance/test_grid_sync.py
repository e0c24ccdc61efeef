"""Barriers of the whole launch, and what other work-items write between barriers."""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty

NEEDS = ("cooperative_groups",)


@mp.kernel(requires=NEEDS)
def k_mirror(x, y, trips: mp.i32):
    i = mp.global_id(0)
    n = x.shape[0]
    for k in range(trips):
        if i < n:
            y[i] = x[n - 1 - i] + mp.i32(k)
        mp.grid_sync()
        if i < n:
            x[i] = y[n - 1 - i] * 2
        mp.grid_sync()


@case(requires=NEEDS, blocks=(64, 33, (8, 4)), grids=(1, 7))
def test_every_workgroup_sees_the_others(block, grid):
    items = grid * (block if isinstance(block, int) else block[0])
    x = np.arange(items - 5, dtype=np.int32)
    x0, y = x.copy(), np.empty_like(x)
    for k in range(3):
        y = x0[::-1] + np.int32(k)
        x0 = y[::-1] * 2
    if not isinstance(block, int):  # rows of a workgroup write the same values
        block = (block[0], 1)
    return Run(k_mirror, (x, empty(len(x), mp.i32), 3), {0: x0, 1: y}, grid=grid, block=block)


@mp.kernel(requires=NEEDS)
def k_largest(x, partial, out):
    g = mp.workgroup_id(0) + mp.workgroup_id(1) * mp.num_workgroups(0)
    groups = mp.num_workgroups(0) * mp.num_workgroups(1)
    i = g * mp.workgroup_size(0) + mp.thread_id(0)
    found = mp.workgroup.max(x[i] if i < x.shape[0] else -(2**31))
    if mp.thread_id(0) == 0:
        partial[g] = found
    mp.grid_sync()
    best = partial[0]
    for k in range(1, groups):
        best = max(best, partial[k])
    out[i] = x[i] - best


@case(requires=(*NEEDS, "subgroups"), blocks=(64, 96))
def test_a_result_of_all_for_all(block):
    x = np.random.default_rng(4).integers(-(10**6), 10**6, 6 * block).astype(np.int32)
    return Run(
        k_largest, (x, empty(6, mp.i32), empty(x.size, mp.i32)), {1: x.reshape(6, -1).max(1), 2: x - x.max()},
        grid=(3, 2), block=block,
    )  # fmt: skip


@mp.kernel
def k_twice(x, y):
    """Work-item 0 writes between barriers what all read."""
    t, g = mp.thread_id(0), mp.workgroup_id(0)
    if t == 0:
        x[g] = 3
    mp.barrier()
    first = x[g]
    mp.barrier()
    if t == 0:
        x[g] = 5
    mp.barrier()
    y[mp.global_id(0)] = first * 10 + x[g]


@case(blocks=(64, 256), gangs=True)
def test_a_value_is_not_kept_across_a_barrier(block):
    return Run(
        k_twice,
        (empty(3, mp.i32), empty(3 * block, mp.i32)),
        {0: np.full(3, 5), 1: np.full(3 * block, 35)},
        grid=3,
        block=block,
    )


@mp.kernel
def k_turns(x, y):
    """The last to write in each trip is another work-item."""
    t, g = mp.thread_id(0), mp.workgroup_id(0)
    seen = 0
    for k in range(4):
        if t == 7 * k:
            x[g] = mp.i32(k) + 1
        mp.barrier()
        seen = seen * 10 + x[g]
        mp.barrier()
    y[mp.global_id(0)] = seen


@case(blocks=(64, 256), gangs=True)
def test_nor_in_a_loop(block):
    return Run(
        k_turns,
        (empty(3, mp.i32), empty(3 * block, mp.i32)),
        {0: np.full(3, 4), 1: np.full(3 * block, 1234)},
        grid=3,
        block=block,
    )
