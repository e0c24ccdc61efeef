"""Atomics on shared memory: histograms of every shape, and what must not be taken for one."""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty

BINS = 40


def _items(n, block, grid):
    """(workgroup, item) of every element that a loop ``for i in range(global_id, n, items)`` visits."""
    return (np.arange(n) % (block * grid)) // block


def _skewed(n, seed=3):
    """Mostly one bin."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.9, 7, rng.integers(0, BINS, n)).astype(np.uint8)


def _inputs(n):
    rng = np.random.default_rng(n)
    return rng.integers(0, BINS, n).astype(np.uint8), _skewed(n), np.full(n, 39, np.uint8)


# --- histograms ------------------------------------------------------------------------------------------------------
@mp.kernel
def k_histogram(x, h):
    t = mp.shared(40, mp.i32)
    k = mp.thread_id(0)
    while k < 40:
        t[k] = 0
        k += mp.workgroup_size(0)
    mp.barrier()
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        mp.atomic_add(t, x[i], 1)
    mp.barrier()
    k = mp.thread_id(0)
    while k < 40:
        h[mp.workgroup_id(0), k] = t[k]
        k += mp.workgroup_size(0)


def _histograms(x, block, grid):
    group = _items(x.size, block, grid)
    return np.stack([np.bincount(x[group == g], minlength=BINS) for g in range(grid)])


@case(gangs=True, blocks=(1, 33, 64, 100, 256), grids=(1, 7))
def test_histogram(block, grid):
    return [
        Run(k_histogram, (x, empty((grid, BINS), mp.i32)), {1: _histograms(x, block, grid)}, grid=grid, block=block)
        for n in (0, 1, 3001)
        for x in _inputs(n)
    ]


@case(gangs=True, blocks=(256,), grids=(20, 37))
def test_histogram_of_more_than_a_cache_holds(block, grid):
    return [
        Run(k_histogram, (x, empty((grid, BINS), mp.i32)), {1: _histograms(x, block, grid)}, grid=grid, block=block)
        for x in _inputs(80_301)
    ]


@mp.kernel(workgroup=256)
def k_histogram_256(x, h):
    t = mp.shared(40, mp.u32)
    l = mp.thread_id(0)
    if l < 40:
        t[l] = 0
    mp.barrier()
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 256):
        mp.atomic_add(t, x[i], 1)
    mp.barrier()
    if l < 40:
        mp.atomic_add(h, l, t[l])


@case(gangs="all", grids=(1, 16, 21))
def test_histogram_of_a_known_workgroup_size(grid):
    n = 70_000 + 77 * grid
    return [
        Run(
            k_histogram_256,
            (x, np.full(BINS, 5, np.uint32)),
            {1: 5 + np.bincount(x, minlength=BINS)},
            grid=grid,
            block=256,
        )
        for x in _inputs(n)
    ]


# --- every kind and type ---------------------------------------------------------------------------------------------
@mp.func
def bump(table, j, v):
    mp.atomic_add(table, j, v)


@mp.kernel
def k_kinds(x, idx, tables, T: mp.constexpr):
    # six tables side by side, each with its own kind; sub and add may share one
    k = mp.thread_id(0)
    sums = mp.shared(9, T)
    low = mp.shared(9, T)
    high = mp.shared(9, T)
    both = mp.shared(9, T)
    some = mp.shared(9, T)
    odd = mp.shared(9, T)
    if k < 9:
        sums[k] = tables[0, k]
        low[k] = tables[1, k]
        high[k] = tables[2, k]
        both[k] = tables[3, k]
        some[k] = tables[4, k]
        odd[k] = tables[5, k]
    mp.barrier()
    for i in range(k, x.shape[0], mp.workgroup_size(0)):
        j = idx[i]
        bump(sums, j, x[i])
        mp.atomic_sub(sums, (j + 1) % 9, x[i])
        mp.atomic_min(low, j, x[i])
        mp.atomic_max(high, j, x[i])
        mp.atomic_and(both, j, x[i])
        mp.atomic_or(some, j, x[i])
        mp.atomic_xor(odd, j, x[i])
    mp.barrier()
    if k < 9:
        tables[0, k] = sums[k]
        tables[1, k] = low[k]
        tables[2, k] = high[k]
        tables[3, k] = both[k]
        tables[4, k] = some[k]
        tables[5, k] = odd[k]


@case(dtypes=o.INTS, gangs=True, blocks=(64, 100))
def test_every_kind(t, block):
    x = o.values(t, 301)
    idx = np.random.default_rng(1).integers(0, 9, 301).astype(np.int32)
    tables = o.values(t, 54).reshape(6, 9)
    want = [list(row) for row in tables.tolist()]
    for v, j in zip(o.items(x), idx.tolist(), strict=True):
        want[0][j] = o.wrap(want[0][j] + v, t)
        want[0][(j + 1) % 9] = o.wrap(want[0][(j + 1) % 9] - v, t)
        for row, f in enumerate((min, max, int.__and__, int.__or__, int.__xor__), 1):
            want[row][j] = o.wrap(f(want[row][j], v), t)
    return Run(k_kinds, (x, idx, tables.copy(), t), {2: np.array(want, t.numpy)}, grid=1, block=block)


# --- not histograms --------------------------------------------------------------------------------------------------
@mp.kernel
def k_old_values(x, seen):
    # the old value decides where an item goes: nothing may be counted elsewhere in between
    n = mp.shared(4, mp.i32)
    k = mp.thread_id(0)
    if k < 4:
        n[k] = 0
    mp.barrier()
    for i in range(k, x.shape[0], mp.workgroup_size(0)):
        seen[x[i], mp.atomic_add(n, x[i], 1)] += 1


@case(gangs=True, blocks=(64, 33))
def test_old_values_are_each_seen_once(block):
    x = np.random.default_rng(0).integers(0, 4, 600).astype(np.uint8)
    seen = np.zeros((4, 600), np.int32)
    counts = np.bincount(x, minlength=4)
    want = (np.arange(600)[None, :] < counts[:, None]).astype(np.int32)
    return Run(k_old_values, (x, seen), {1: want}, grid=1, block=block)


@mp.kernel
def k_own_bin(x, out):
    # every item counts in a bin of its own and reads it in the same interval
    n = mp.shared(256, mp.i32)
    k = mp.thread_id(0)
    n[k] = 10
    mp.barrier()
    s = 0
    for i in range(x.shape[0]):
        mp.atomic_add(n, (k * 7 + 3) % 256, x[i])
        s += n[(k * 7 + 3) % 256]
    out[k] = s


@case(gangs=True)
def test_an_array_that_is_read_in_the_same_interval():
    x = np.arange(1, 6, dtype=np.int32)
    return Run(
        k_own_bin,
        (x, empty(256, mp.i32)),
        {1: np.full(256, np.cumsum(10 + np.cumsum(x))[-1] - 10 * 5 + 50)},
        grid=1,
        block=256,
    )


@mp.kernel
def k_mixed(x, h):
    # add and max on one array do not commute: item k uses bin k only, so that the order is fixed
    t = mp.shared(64, mp.i32)
    k = mp.thread_id(0)
    t[k] = 0
    mp.barrier()
    for i in range(x.shape[0]):
        mp.atomic_add(t, k ^ 1, x[i])
        mp.atomic_max(t, k ^ 1, 3)
    mp.barrier()
    h[k] = t[k]


@case(gangs=True)
def test_kinds_that_do_not_commute():
    x = np.array([2, -9, 4, -2, 5], np.int32)
    want = 0
    for v in x.tolist():
        want = max(want + v, 3)
    return Run(k_mixed, (x, empty(64, mp.i32)), {1: np.full(64, want)}, grid=1, block=64)


@mp.kernel
def k_phases(x, h):
    # counted in every trip of a loop with a barrier, and looked at after each
    t = mp.shared(16, mp.i32)
    k = mp.thread_id(0)
    if k < 16:
        t[k] = 0
    mp.barrier()
    for phase in range(3):
        for i in range(k, x.shape[1], mp.workgroup_size(0)):
            mp.atomic_add(t, x[phase, i], 1)
        mp.barrier()
        if k < 16:
            h[phase, k] = t[k]
        mp.barrier()


@case(gangs=True, blocks=(64, 100))
def test_counts_that_are_looked_at_between_phases(block):
    x = np.random.default_rng(5).integers(0, 16, (3, 500)).astype(np.int16)
    want = np.cumsum([np.bincount(row, minlength=16) for row in x], 0)
    return Run(k_phases, (x, empty((3, 16), mp.i32)), {1: want}, grid=1, block=block)


@mp.kernel
def k_guarded(x, h):
    t = mp.shared((2, 32), mp.i64)
    k = mp.thread_id(0)
    if k < 32:
        t[0, k] = 0
        t[1, k] = 0
    mp.barrier()
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        v = x[i]
        if v >= 0:
            mp.atomic_add(t, (v & 1, v % 32), v)
    mp.barrier()
    if k < 32:
        mp.atomic_add(h, (0, k), t[0, k])
        mp.atomic_add(h, (1, k), t[1, k])


@case(requires=("int64",), gangs=True, blocks=(64, 96), grids=(1, 30))
def test_a_guarded_histogram_in_two_dimensions(block, grid):
    x = np.random.default_rng(8).integers(-50, 200, 7 * grid * block + 5).astype(np.int64)
    want = np.zeros((2, 32), np.int64)
    kept = x[x >= 0]
    np.add.at(want, (kept & 1, kept % 32), kept)
    return Run(k_guarded, (x, np.zeros((2, 32), np.int64)), {1: want}, grid=grid, block=block)


@mp.kernel
def k_float_sums(x, idx, out):
    t = mp.shared(8, mp.f32)
    k = mp.thread_id(0)
    if k < 8:
        t[k] = 0.0
    mp.barrier()
    for i in range(k, x.shape[0], mp.workgroup_size(0)):
        mp.atomic_add(t, idx[i], x[i])
    mp.barrier()
    if k < 8:
        out[k] = t[k]


@case(dtypes=(mp.f32,), requires=("atomics_f32",), gangs=True)
def test_float_sums(t):
    # small integers, so that the order of the additions does not matter
    x = np.random.default_rng(0).integers(-9, 9, 700).astype(np.float32)
    idx = np.random.default_rng(1).integers(0, 8, 700).astype(np.uint8)
    want = np.zeros(8, np.float32)
    np.add.at(want, idx, x)
    return Run(k_float_sums, (x, idx, empty(8, mp.f32)), {2: want}, grid=1, block=64)
