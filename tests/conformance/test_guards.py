"""Guards of every kind around work that reads the same place in all work-items: bounds on both sides, rows that no
guard lets through, guards that let the middle or both ends of a row through, and indices that are no lines."""

from __future__ import annotations

import functools

import numpy as np

import magpie as mp

from .harness import Run, case, cover, empty

BLOCKS = ((256, 1), (64, 4), (32, 2), (16, 16), (1000, 1), (100, 3), (24, 8))
ROWS, COLUMNS = 9, 517  # no multiple of any block


@mp.func
def below(j, i, lo, n):
    return j < n


@mp.func
def between(j, i, lo, n):
    return lo < j < n - 1


@mp.func
def inside(j, i, lo, n):
    return 0 < i < 8 and lo <= j and j < n


@mp.func
def not_outside(j, i, lo, n):
    return not (j < lo or j >= n)


@mp.func
def outside(j, i, lo, n):
    return j < lo or j >= n


@mp.func
def from_the_end(j, i, lo, n):
    return n - j > lo


@mp.func
def doubled(j, i, lo, n):
    return 2 * j + 1 < n


@mp.func
def diagonal(j, i, lo, n):
    return j < i * 60


@mp.func
def first_of_each_32(j, i, lo, n):
    return j % 32 < 16 and j < n


@mp.func
def some_sixteens(j, i, lo, n):
    return j // 16 < n // 32 or j // 16 > 30


@mp.func
def one(j, i, lo, n):
    return j == lo


@mp.func
def of_the_workgroup(j, i, lo, n):
    return mp.thread_id(0) < n and mp.thread_id(0) + 1 > lo


@mp.func
def numbered(j, i, lo, n):
    return mp.thread_id(1) * mp.workgroup_size(0) + mp.thread_id(0) < n and mp.workgroup_id(0) < 3


@mp.func
def wrapping(j, i, lo, n):
    return mp.i32(j) + mp.i32(2147483647) - mp.i32(lo) < mp.i32(n)


@mp.func
def by_one_test(j, i, lo, n):
    return mp.u32(j) - mp.u32(lo) < mp.u32(n) - mp.u32(lo)


def truth(name, block, lo, n):
    """The guard of each work-item of an array of ROWS x COLUMNS."""
    i, j = np.indices((ROWS, COLUMNS))
    thread, group = j % block[0], j // block[0]
    signed = (j + 2147483647 - lo + 2**31) % 2**32 - 2**31  # i32 wraps around
    return {
        "below": j < n,
        "between": (lo < j) & (j < n - 1),
        "inside": (0 < i) & (i < 8) & (lo <= j) & (j < n),
        "not_outside": (lo <= j) & (j < n),
        "outside": (j < lo) | (j >= n),
        "from_the_end": n - j > lo,
        "doubled": 2 * j + 1 < n,
        "diagonal": j < i * 60,
        "first_of_each_32": (j % 32 < 16) & (j < n),
        "some_sixteens": (j // 16 < n // 32) | (j // 16 > 30),
        "one": j == lo,
        "of_the_workgroup": (thread < n) & (thread + 1 > lo),
        "numbered": (i % block[1] * block[0] + thread < n) & (group < 3),
        "wrapping": signed < n,
        "by_one_test": (j - lo) % 2**32 < (n - lo) % 2**32,
    }[name]


GUARDS = (
    below,
    between,
    inside,
    not_outside,
    outside,
    from_the_end,
    doubled,
    diagonal,
    first_of_each_32,
    some_sixteens,
    one,
    of_the_workgroup,
    numbered,
    wrapping,
    by_one_test,
)


@functools.cache
def filtered(guard):
    @mp.kernel
    def k_filtered(x, w, out, lo: mp.index, n: mp.index):
        j, i = mp.global_id(0), mp.global_id(1)
        if i < out.shape[0] and j < out.shape[1] and guard(j, i, lo, n):
            out[i, j] = w[0] * x[i, j] + w[1] * x[i, j + 1] + w[2] * x[i, j + 2]

    return k_filtered


def arrays():
    rng = np.random.default_rng(5)
    x = rng.integers(-99, 99, (ROWS, COLUMNS + 2)).astype(np.int32)
    return x, np.array([3, -5, 7], np.int32), empty((ROWS, COLUMNS), mp.i32)


def filtered_run(guard, block, lo, n):
    x, w, out = arrays()
    value = w[0] * x[:, :-2] + w[1] * x[:, 1:-1] + w[2] * x[:, 2:]
    want = np.where(truth(guard.fn.__name__, block, lo, n), value, out)
    grid = (cover(COLUMNS, block), mp.cdiv(ROWS, block[1]))
    return Run(filtered(guard), (x, w, out, lo, n), {2: want}, grid=grid, block=block)


@case(blocks=BLOCKS, gangs=True)
def test_parts_of_a_row(block):
    return [filtered_run(g, block, 3, 490) for g in GUARDS]


@case(blocks=((256, 1), (64, 4)), gangs=True)
def test_bounds_anywhere(block):
    """Nothing, one work-item, less than a gang, the last work-item, and beyond all of them."""
    ends = ((0, 0), (5, 5), (5, 6), (0, 1), (250, 260), (516, 517), (0, 600), (-9, 9), (700, 900), (17, 3))
    return [filtered_run(g, block, lo, n) for g in (below, between, inside, not_outside, outside) for lo, n in ends]


@mp.kernel
def k_by_return(x, w, out, lo: mp.index, n: mp.index):
    j, i = mp.global_id(0), mp.global_id(1)
    if i >= out.shape[0] or j < lo or j >= n:
        return
    out[i, j] = w[0] * x[i, j] + w[1]


@case(blocks=BLOCKS, gangs=True)
def test_an_early_return(block):
    runs = []
    for lo, n in ((0, COLUMNS), (30, 300), (300, 30)):
        x, w, out = arrays()
        want = out.copy()
        want[:, lo:n] = w[0] * x[:, lo:n] + w[1]
        grid = (cover(COLUMNS, block), mp.cdiv(ROWS, block[1]))
        runs.append(Run(k_by_return, (x, w, out, lo, n), {2: want}, grid=grid, block=block))
    return runs


@mp.kernel
def k_far(x, w, out, far: mp.index):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < out.shape[0] and j < out.shape[1] and far < w.shape[0]:
        out[i, j] = x[i, j] * w[far]


@case(blocks=BLOCKS, gangs=True)
def test_what_the_guard_forbids_is_not_read(block):
    x, w, out = arrays()
    grid = (cover(COLUMNS, block), mp.cdiv(ROWS, block[1]))
    return [
        Run(k_far, (x, w, out, 1 << 40), {}, grid=grid, block=block),
        Run(k_far, (x, w, out.copy(), 2), {2: x[:, :-2] * w[2]}, grid=grid, block=block),
    ]


@mp.kernel
def k_own_weights(x, out):
    j, i = mp.global_id(0), mp.global_id(1)
    if 0 < i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * out[0, 0] + out[0, 1]


@mp.kernel
def k_below_first_row(x, w, out):
    j, i = mp.global_id(0), mp.global_id(1)
    if 0 < i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * w[0] + w[1]


@mp.kernel
def k_own_place(x, w, out):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 1
        if i == 4 and j == 300:
            out[i, j] = w[0] * 10  # `w` may be that very element


@case(blocks=BLOCKS, gangs=True)
def test_weights_that_lie_in_what_is_written(block):
    """In the output itself, and in another argument that overlaps it."""
    grid = (cover(COLUMNS, block), mp.cdiv(ROWS, block[1]))
    x, _, out = arrays()
    out[0, :2] = (3, 4)
    want = out.copy()
    want[1:] = x[1:, :-2] * 3 + 4
    runs = [Run(k_own_weights, (x, out), {1: want}, grid=grid, block=block)]
    x, _, out = arrays()
    out[0, :2] = (5, 6)
    want = out.copy()
    want[1:] = x[1:, :-2] * 5 + 6
    runs.append(Run(k_below_first_row, (x, out[0, :2], out), {2: want}, grid=grid, block=block))
    x, _, out = arrays()
    want = x[:, :-2] + 1
    want[4, 300] *= 10
    runs.append(Run(k_own_place, (x, out[4, 300:301], out), {2: want}, grid=grid, block=block))
    return runs
