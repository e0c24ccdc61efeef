"""Launched workgroup sizes: good ones, ragged ones and odd ones, with code for the size and with code for any."""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty

SG = ("subgroups",)
ONE = (1, 2, 7, 16, 24, 33, 48, 64, 100, 256, 1000, 1024)
ROWS = ((16, 16), (8, 8, 4), (16, 4), (32, 8), (33, 3), (24, 5), (5, 7, 3), (1, 64), (2, 2, 2), (100, 2), (64, 16))


def shape(block):
    """x, y, z."""
    return (*block, 1, 1)[:3] if isinstance(block, tuple) else (block, 1, 1)


@mp.kernel
def k_ids(out: mp.Array[mp.i32, 4], n: mp.i32):
    # every id and size there is, behind a guard that cuts a group in the middle
    x, y, z = mp.global_id(0), mp.global_id(1), mp.global_id(2)
    if x < n:
        out[z, y, x, 0] = mp.i32(mp.thread_id(0) + mp.workgroup_size(0) * mp.workgroup_id(0))
        out[z, y, x, 1] = mp.i32(mp.thread_id(1) + mp.workgroup_size(1) * mp.workgroup_id(1))
        out[z, y, x, 2] = mp.i32(mp.thread_id(2) + mp.workgroup_size(2) * mp.workgroup_id(2))
        out[z, y, x, 3] = mp.i32(x % mp.workgroup_size(0) * 100 + x // mp.workgroup_size(0))


@case(blocks=(*ONE, *ROWS), gangs=True)
def test_ids(block):
    x, y, z = shape(block)
    n = 2 * x - max(1, x // 3)
    k, j, i = np.meshgrid(np.arange(z), np.arange(2 * y), np.arange(2 * x), indexing="ij")
    want = np.stack([i, j, k, i % x * 100 + i // x], -1)
    want[:, :, n:] = 77
    return Run(k_ids, (empty(want.shape, mp.i32), n), {0: want}, grid=(2, 2), block=block)


@mp.kernel
def k_reduce(x: mp.Array[mp.i32, 1], out: mp.Array[mp.i32, 1]):
    # a tree over a workgroup of any size: the bound halves, rounded up
    s = mp.shared(mp.workgroup_size(0), mp.i32)
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s[t] = x[i] if i < x.shape[0] else 0
    mp.barrier()
    live = mp.workgroup_size(0)
    while live > 1:
        half = (live + 1) // 2
        if t < live - half:
            s[t] += s[t + half]
        mp.barrier()
        live = half
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@case(blocks=ONE, gangs=True)
def test_tree_reduction(block):
    groups = 3
    x = np.random.default_rng(block).integers(-99, 99, groups * block - block // 2).astype(np.int32)
    padded = np.zeros(groups * block, np.int64)
    padded[: x.size] = x
    want = padded.reshape(groups, block).sum(1)
    return Run(k_reduce, (x, empty(groups, mp.i32)), {1: want}, grid=groups, block=block)


@mp.kernel
def k_product(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    # a product of tiles as large as the workgroup, in dynamic shared memory, with ragged edges
    nx, ny = mp.workgroup_size(0), mp.workgroup_size(1)
    s = mp.shared((ny, nx), mp.f32)
    r = mp.shared((nx, nx), mp.f32)
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    col, row = mp.global_id(0), mp.global_id(1)
    total = mp.f32(0)
    for tile in range(mp.cdiv(a.shape[1], nx)):
        at = tile * nx
        s[ty, tx] = a[row, at + tx] if row < a.shape[0] and at + tx < a.shape[1] else 0.0
        k = ty
        while k < nx:
            r[k, tx] = b[at + k, col] if at + k < b.shape[0] and col < b.shape[1] else 0.0
            k += ny
        mp.barrier()
        for k in range(nx):
            total += s[ty, k] * r[k, tx]
        mp.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@case(blocks=((16, 16), (8, 8), (16, 4), (8, 3), (33, 2), (5, 7), (24, 2), (1, 4), (2, 9)), gangs=True)
def test_tiled_product(block):
    m, k, n = 37, 41, 45
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 8, s).astype(np.float32) for s in ((m, k), (k, n)))  # sums are exact
    grid = (mp.cdiv(n, block[0]), mp.cdiv(m, block[1]))
    return Run(k_product, (a, b, empty((m, n), mp.f32)), {2: a @ b}, grid=grid, block=block)


@mp.kernel
def k_carried(x: mp.Array[mp.f32, 3], out: mp.Array[mp.f32, 3]):
    # values that live across barriers, and work-items that are done early
    i, j, k = mp.thread_id(0), mp.thread_id(1), mp.thread_id(2)
    s = mp.shared((64, 64), mp.f32)
    mine = x[k, j, i]
    total = mine
    for turn in range(3):
        if k == 0:
            s[j, i] = total
        mp.barrier()
        total += s[mp.workgroup_size(1) - 1 - j, mp.workgroup_size(0) - 1 - i] * (turn + 1.0)
        mp.barrier()
    if i % 3 == 1:
        return
    out[k, j, i] = total + mine


@case(blocks=((16, 16), (8, 8, 4), (33, 3), (24, 5), (5, 7, 3), (1, 64), (2, 33), (2, 3, 5), (64, 16), (4, 2, 9)), gangs=True)
def test_values_across_barriers(block):
    x, y, z = shape(block)
    data = np.random.default_rng(5).integers(-9, 9, (z, y, x)).astype(np.float32)
    total = data.copy()
    for turn in range(3):
        total = total + total[0][::-1, ::-1] * np.float32(turn + 1)
    want = np.where(np.arange(x) % 3 == 1, np.float32(77), total + data)
    return Run(k_carried, (data, empty(data.shape, mp.f32)), {1: want}, grid=1, block=block)


@mp.kernel
def k_two_levels(x: mp.Array[mp.i64, 1], out: mp.Array[mp.i64, 1]):
    # subgroup sums, staged, then summed: who is in which subgroup must not matter
    s = mp.shared(1024, mp.i64)
    local = mp.thread_id(0) + mp.workgroup_size(0) * (mp.thread_id(1) + mp.workgroup_size(1) * mp.thread_id(2))
    size = mp.workgroup_size(0) * mp.workgroup_size(1) * mp.workgroup_size(2)
    part = mp.subgroup.sum(x[mp.workgroup_id(0) * size + local])
    if mp.subgroup.lane() == 0:
        s[mp.subgroup.id()] = part
    mp.barrier()
    if local == 0:
        total = mp.i64(0)
        for k in range(mp.subgroup.count()):
            total += s[k]
        out[mp.workgroup_id(0)] = total


@case(blocks=(*ONE, *ROWS), requires=(*SG, "int64"), gangs=True)
def test_two_level_reduction(block):
    n = int(np.prod(shape(block)))
    x = np.random.default_rng(n).integers(-(10**12), 10**12, 2 * n)
    want = x.reshape(2, n).sum(1)
    return Run(k_two_levels, (x, empty(2, mp.i64)), {1: want}, grid=2, block=block)


@mp.kernel
def k_sums(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    # rows that share their loads of b, in workgroups with more and with fewer rows than are taken at once
    j, i = mp.global_id(0), mp.global_id(1)
    if i < c.shape[0] and j < c.shape[1]:
        total = mp.f32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@case(blocks=((16, 1), (16, 2), (8, 3), (16, 6), (24, 5), (16, 7), (32, 8), (8, 20), (4, 16), (2, 16), (1, 64), (33, 12)), gangs=True)
def test_rows_taken_together(block):
    m, k, n = 43, 19, 70
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-8, 8, s).astype(np.float32) for s in ((m, k), (k, n)))
    grid = (mp.cdiv(n, block[0]), mp.cdiv(m, block[1]))
    return Run(k_sums, (a, b, empty((m, n), mp.f32)), {2: a @ b}, grid=grid, block=block)
