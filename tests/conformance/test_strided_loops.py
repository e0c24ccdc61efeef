"""Loops whose trips differ between work-items: grid-stride sums, copies and searches, of every shape and stride."""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty


def _turns(x, items):
    """``x`` as a matrix [trip, item], and which of its places are elements."""
    trips = -(-x.size // items) if x.size else 0
    padded = np.zeros(trips * items, x.dtype)
    padded[: x.size] = x
    return padded.reshape(trips, items), (np.arange(trips * items) < x.size).reshape(trips, items)


def _sums(x, items):
    """Each item's sum in the order of its trips, in f32."""
    total = np.zeros(items, np.float32)
    for row, there in zip(*_turns(x, items), strict=True):
        total = np.where(there, total + row, total)
    return total


def _tree(values, block):
    """The sum of each workgroup by halves."""
    rows = values.reshape(-1, block).copy()
    k = block // 2
    while k:
        rows[:, :k] += rows[:, k : 2 * k]
        k //= 2
    return rows[:, 0]


@mp.kernel
def k_reduce(x, out):
    s = mp.shared(256, mp.f32)
    l = mp.thread_id(0)
    acc = mp.f32(0)
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        acc += x[i]
    s[l] = acc
    mp.barrier()
    k = mp.workgroup_size(0) // 2
    while k > 0:
        if l < k:
            s[l] += s[l + k]
        mp.barrier()
        k //= 2
    if l == 0:
        out[mp.workgroup_id(0)] = s[0]


@case(gangs=True, blocks=(1, 16, 64, 256), grids=(1, 9))
def test_sum(block, grid):
    runs = []
    for n in (0, 5, 4 * block * grid, 9 * block * grid + block // 2 + 3):
        x = np.random.default_rng(n).random(n, dtype=np.float32)
        want = _tree(_sums(x, block * grid), block)
        runs.append(Run(k_reduce, (x, empty(grid, mp.f32)), {1: want}, grid=grid, block=block))
    return runs


@mp.kernel(workgroup=256)
def k_reduce_256(x, out):
    s = mp.shared(256, mp.f32)
    l = mp.thread_id(0)
    acc = mp.f32(0)
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * 256):
        acc += x[i]
    s[l] = acc
    mp.barrier()
    k = 128
    while k > 0:
        if l < k:
            s[l] += s[l + k]
        mp.barrier()
        k //= 2
    if l == 0:
        out[mp.workgroup_id(0)] = s[0]


@case(gangs="all", grids=(1, 4, 8, 19))
def test_sum_in_workgroups_of_a_known_size(grid):
    runs = []
    for n in (0, 700, 256 * grid, 20 * 1024 - 1, 20 * 1024 + 256 * grid + 1):
        x = np.random.default_rng(n).random(n, dtype=np.float32)
        want = _tree(_sums(x, 256 * grid), 256)
        runs.append(Run(k_reduce_256, (x, empty(grid, mp.f32)), {1: want}, grid=grid, block=256))
    return runs


@mp.kernel
def k_find(x, out, where):
    # three values from trip to trip, one of them an index; the largest wins, of equals the first
    best = mp.i32(-1000000)
    at = mp.i32(-1)
    count = 0
    g = mp.global_id(0)
    for i in range(g, x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        if x[i] > best:
            best = x[i]
            at = i
        count += 1
    out[0, g] = best
    out[1, g] = count
    where[g] = at


@case(gangs=True, blocks=(64, 100, 256), grids=(1, 17))
def test_largest_and_where(block, grid):
    items = block * grid
    x = np.random.default_rng(4).integers(-99, 99, 6 * items + 11).astype(np.int32)
    rows, there = _turns(x, items)
    rows = np.where(there, rows, -1000000)
    at = rows.argmax(0)
    want = np.stack([rows.max(0), there.sum(0)]).astype(np.int32)
    arguments = (x, empty((2, items), mp.i32), empty(items, mp.i32))
    return Run(k_find, arguments, {1: want, 2: at * items + np.arange(items)}, grid=grid, block=block)


@mp.kernel
def k_saxpy(a: mp.f32, x, y, first: mp.i32, last: mp.i32):
    # a part of the arrays, from behind an offset that the launch gives
    for i in range(first + mp.global_id(0), last, mp.num_workgroups(0) * mp.workgroup_size(0)):
        y[i] = a * x[i] + y[i]


@case(gangs=True, blocks=(64, 256), grids=(1, 20))
def test_update_of_a_part(block, grid):
    n = 5 * block * grid
    x, y = (np.random.default_rng(k).random(n, dtype=np.float32) for k in (0, 1))
    runs = []
    for first, last in ((0, n), (3, n - 5), (n // 2, n // 2), (n, 0)):
        want = y.copy()
        want[first:last] = np.float32(2) * x[first:last] + y[first:last]
        runs.append(Run(k_saxpy, (2.0, x, y.copy(), first, last), {2: want}, grid=grid, block=block))
    return runs


@mp.kernel
def k_any_step(x, out, start: mp.i64, stop: mp.i64, step: mp.i64, scale: mp.i64):
    # steps of any sign and size; what is visited is summed
    g = mp.global_id(0)
    s = 0
    n = 0
    for i in range(start + scale * g, stop, step):
        if 0 <= i < x.shape[0]:
            s += x[i]
        n += 1
        if n == 20:
            break
    out[0, g] = s
    out[1, g] = n


@case(requires=("int64",), gangs=True)
def test_steps_of_any_sign_and_size():
    x = np.arange(1, 1001, dtype=np.int32)
    top = np.iinfo(np.int64).max
    runs = []
    for start, stop, step, scale in (
        (0, 1000, 130, 1),
        (0, 1000, 1, 3),
        (999, -1, -130, -1),
        (0, 1000, 5000, 9),
        (5, 4, 1, 0),
        (0, top, 5000, 1),
        (top - 200, top, 100, 1),
        (0, 1000, top, 1),
        (-(1 << 62), 1 << 62, 1 << 60, 1),
        (700, -top, -300, 2),
    ):
        want = np.zeros((2, 130), np.int32)
        for g in range(130):
            visited = range(start + scale * g, stop, step)[:20]
            want[:, g] = sum(x[i] for i in visited if 0 <= i < 1000), len(visited)
        runs.append(
            Run(k_any_step, (x, empty((2, 130), mp.i32), start, stop, step, scale), {1: want}, grid=2, block=65)
        )
    return runs


@mp.kernel
def k_chunks(x, out, chunk: mp.i32):
    # a workgroup has a range of its own: both ends depend on it
    g = mp.workgroup_id(0)
    acc = 0
    for i in range(g * chunk + mp.thread_id(0), min((g + 1) * chunk, x.shape[0]), mp.workgroup_size(0)):
        acc += x[i]
    out[mp.global_id(0)] = acc


@case(gangs=True, blocks=(64, 1024))
def test_ranges_of_workgroups(block):
    grid, runs = 6, []
    for n, chunk in (
        (grid * 5 * block, 5 * block),
        (grid * 3 * block - block // 2, 3 * block),
        (17, 4),
        (4 * block, block),
    ):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
        want = np.zeros((grid, block), np.int32)
        for g in range(grid):
            mine = x[g * chunk : min((g + 1) * chunk, n)]
            for l in range(block):
                want[g, l] = mine[l::block].sum()
        runs.append(Run(k_chunks, (x, empty(grid * block, mp.i32), chunk), {1: want}, grid=grid, block=block))
    return runs


@mp.kernel
def k_rows(x, out):
    # a grid of two dimensions: each row of workgroups sums a row of the matrix
    r = mp.workgroup_id(1)
    acc = mp.f32(0)
    for i in range(mp.global_id(0), x.shape[1], mp.num_workgroups(0) * mp.workgroup_size(0)):
        acc += x[r, i]
    out[r, mp.global_id(0)] = acc


@case(gangs=True, grids=((1, 3), (5, 4)))
def test_rows(grid):
    items = 256 * grid[0]
    x = np.random.default_rng(2).random((grid[1], 20_000 + items // 2), dtype=np.float32)
    want = np.stack([_sums(row, items) for row in x])
    return Run(k_rows, (x, empty((grid[1], items), mp.f32)), {1: want}, grid=grid, block=256)


@mp.kernel
def k_skip(x, out):
    # items that go on to the next trip early, and a value that is set in some trips only
    g = mp.global_id(0)
    last = 0
    acc = 0
    for i in range(g, x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        if x[i] % 3 == 0:
            continue
        last = x[i]
        acc += last
    out[0, g] = last
    out[1, g] = acc


@case(gangs=True, grids=(1, 16))
def test_trips_that_end_early(grid):
    items = 128 * grid
    x = np.random.default_rng(6).integers(0, 50, 9 * items - 9).astype(np.int32)
    rows, there = _turns(x, items)
    kept = there & (rows % 3 != 0)
    last = np.zeros(items, np.int32)
    for row, k in zip(rows, kept, strict=True):
        last = np.where(k, row, last)
    want = np.stack([last, np.where(kept, rows, 0).sum(0)])
    return Run(k_skip, (x, empty((2, items), mp.i32)), {1: want}, grid=grid, block=128)


@mp.kernel
def k_two(x, y, out):
    # two walks in a row with a barrier between, the second over the first one's result
    s = mp.shared(256, mp.i32)
    l = mp.thread_id(0)
    g = mp.global_id(0)
    acc = 0
    for i in range(g, x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        acc += x[i]
    s[l] = acc
    mp.barrier()
    offset = s[255 - l]
    acc = 0
    for i in range(g, y.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        acc += y[i] * 2 + offset
    out[g] = acc


@case(gangs=True, grids=(1, 13))
def test_two_loops_with_a_barrier_between(grid):
    items = 256 * grid
    x, y = (np.random.default_rng(n).integers(-50, 50, n).astype(np.int32) for n in (20_000 + 3, 20_000 + items - 3))
    rows, _ = _turns(x, items)
    first = rows.sum(0).reshape(grid, 256)[:, ::-1].ravel()
    rows, there = _turns(y, items)
    want = np.where(there, rows * 2 + first, 0).sum(0)
    return Run(k_two, (x, y, empty(items, mp.i32)), {2: want}, grid=grid, block=256)
