"""Barrier shapes on which an earlier CPU backend for SIMT kernels went wrong (the seed, increments 6 to 10), one test each.

Every shape runs at each size, count, gang and thread count of `matrix`; no value comes from Magpie itself.
"""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from .harness import Run, empty
from .matrix import SHAPES_3D, groups, ids, in_subgroups, of_lanes, rows, shape, to_lanes

SG = ("subgroups",)


def neighbour(x, block, by=1):
    """The value of the item ``by`` further, round the workgroup."""
    return np.roll(groups(x, block), -by, axis=1).ravel()


@mp.kernel
def k_two_regions(x, first, second):
    i = mp.global_id(0)
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    a = x[i] * 2
    first[i] = a + t
    mp.barrier()
    second[i] = a + first[i] * 3 + first[mp.workgroup_id(0) * n + n - 1 - t]


@shape()
def test_two_straight_line_regions(block, grid):
    x = rows(block, grid)
    t, _ = ids(block, grid)
    first = x * 2 + t
    second = x * 2 + first * 3 + groups(first, block)[:, ::-1].ravel()
    return Run(k_two_regions, (x, empty(x.size, mp.i32), empty(x.size, mp.i32)), {1: first, 2: second})


@mp.kernel
def k_staging(x, out):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    out[mp.global_id(0)] = s[n - 1 - t] * 1000 + s[(t + 1) % n] * 10 + s[(t * 7) % n]


@shape()
def test_shared_staging_read_cross_lane(block, grid):
    x = rows(block, grid)
    r = groups(x, block)
    t = np.arange(block)
    want = r[:, ::-1] * 1000 + r[:, (t + 1) % block] * 10 + r[:, t * 7 % block]
    return Run(k_staging, (x, empty(x.size, mp.i32)), {1: want})


@mp.kernel
def k_tree(x, out):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    k = 512
    while k > 0:
        if t < k and t + k < n:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@shape()
def test_canonical_tree_reduction(block, grid):
    g = np.arange(grid)
    want = g * block * block + block * (block - 1) // 2
    if (block, grid) == (256, 1):
        assert want[0] == 32640
    return Run(k_tree, (np.arange(block * grid, dtype=np.int32), empty(grid, mp.i32)), {1: want})


@mp.kernel
def k_tree_halving(x, out):
    # the loop bound is the workgroup's own size, and an odd rest is carried
    t = mp.thread_id(0)
    s = mp.shared(1024, mp.f32)
    s[t] = x[mp.global_id(0)]
    m = mp.workgroup_size(0)
    while m > 1:
        half = (m + 1) // 2
        mp.barrier()
        if t < m - half:
            s[t] = s[t] + s[t + half]
        m = half
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@shape()
def test_tree_reduction_of_any_size(block, grid):
    x = rows(block, grid).astype(np.float32)
    return Run(k_tree_halving, (x, empty(grid, mp.f32)), {1: groups(x, block).sum(1)}, zero_sign=False)


@mp.kernel
def k_no_aliasing(out):
    # each workgroup fills its shared array over and over; another thread's workgroup in it would be seen
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    s = mp.shared(1024, mp.i32)
    wrong = 0
    for r in range(6):
        s[t] = g * 10000 + t + r
        mp.barrier()
        u = (t + r * 5 + 1) % n
        if s[u] != g * 10000 + u + r:
            wrong += 1
        mp.barrier()
    out[mp.global_id(0)] = wrong * 100000000 + s[n - 1 - t]


@shape(also=((256, 32),))
def test_workgroups_on_several_threads_do_not_share(block, grid):
    t, g = ids(block, grid)
    return Run(k_no_aliasing, (empty(block * grid, mp.i32),), {0: g * 10000 + block - 1 - t + 5})


@mp.kernel
def k_small_groups(x, out):
    # workgroups of two: shared memory must neither leak between them nor be expected to be zero
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = 0
    mp.barrier()
    s[n - 1 - t] += x[mp.global_id(0)]
    mp.barrier()
    out[mp.global_id(0)] = s[t]


@shape(also=((2, 64), (3, 64)))
def test_shared_memory_does_not_leak_across_workgroups(block, grid):
    x = rows(block, grid)
    return Run(k_small_groups, (x, empty(x.size, mp.i32)), {1: groups(x, block)[:, ::-1]})


@mp.kernel
def k_ping_pong(x, out, rounds: mp.i32):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    for _ in range(rounds):
        v = s[t] + s[(t + 1) % n]
        mp.barrier()
        s[t] = v
        mp.barrier()
    out[mp.global_id(0)] = s[t]


@shape()
def test_ping_pong_with_two_barriers_a_trip(block, grid):
    x = rows(block, grid)
    want = x
    for _ in range(5):
        want = want + neighbour(want, block)
    return Run(k_ping_pong, (x, empty(x.size, mp.i32), 5), {1: want})


@mp.kernel
def k_carried(x, out):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    r = 0
    while r < 4:
        mp.barrier()
        a = s[t] + s[(t + 1) % n]  # lives across three barriers
        odd = a % 2 == 1
        mp.barrier()
        b = s[(t + 2) % n]
        mp.barrier()
        if odd:
            b = b - a
        s[t] = a * 3 + b + r
        r += 1
    mp.barrier()
    out[mp.global_id(0)] = s[n - 1 - t]


@shape()
def test_a_local_carried_across_an_in_loop_barrier(block, grid):
    x = rows(block, grid)
    s = x
    for r in range(4):
        a, b = s + neighbour(s, block), neighbour(s, block, 2)
        s = a * 3 + np.where(a % 2 == 1, b - a, b) + r
    return Run(k_carried, (x, empty(x.size, mp.i32)), {1: groups(s, block)[:, ::-1]})


@mp.kernel
def k_accumulator(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.f32)
    acc = 0.0
    best = -1
    for k in range(x.shape[0]):
        s[t] = x[k, i]
        mp.barrier()
        v = s[(t + k) % n]
        acc += v * 2.0
        if v > 0.0:
            best = k
        mp.barrier()
    out[i] = acc * 100.0 + best


@shape()
def test_a_register_accumulator_over_the_back_edge(block, grid):
    x = np.stack([rows(block, grid, seed=k) for k in range(5)]).astype(np.float32)
    acc, best = np.zeros(block * grid, np.float32), np.full(block * grid, -1)
    for k in range(5):
        v = neighbour(x[k], block, k)
        acc, best = acc + v * 2, np.where(v > 0, k, best)
    return Run(k_accumulator, (x, empty(block * grid, mp.f32)), {1: acc * 100 + best}, zero_sign=False)


@mp.kernel
def k_doubly_nested(x, out):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    acc = 0
    for a in range(3):
        for b in range(2):
            mp.barrier()
            v = s[(t + a + b) % n]
            acc += v
            mp.barrier()
            s[t] = v + a * 10 + b
    out[mp.global_id(0)] = acc * 10 + s[t]


@shape()
def test_nested_uniform_loops_with_barriers(block, grid):
    x = rows(block, grid)
    s, acc = x, np.zeros(x.size, np.int64)
    for a in range(3):
        for b in range(2):
            v = neighbour(s, block, a + b)
            acc, s = acc + v, v + a * 10 + b
    return Run(k_doubly_nested, (x, empty(x.size, mp.i32)), {1: acc * 10 + s})


@mp.kernel
def k_outer_regions(x, out):
    # region, barrier, region, barrier, inner loop, region: all in the outer loop
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    total = t
    for a in range(3):
        mp.barrier()
        left = s[(t + n - 1) % n]
        mp.barrier()
        s[t] = left + a
        for b in range(a + 1):
            mp.barrier()
            v = s[(t + b + 1) % n]
            total += v
            mp.barrier()
            s[t] = v ^ b
        total += s[t]
    out[mp.global_id(0)] = total


@shape()
def test_outer_level_regions_around_the_inner_loop(block, grid):
    x = rows(block, grid)
    s, total = x, ids(block, grid)[0]
    for a in range(3):
        s = neighbour(s, block, -1) + a
        for b in range(a + 1):
            v = neighbour(s, block, b + 1)
            total, s = total + v, v ^ b
        total = total + s
    return Run(k_outer_regions, (x, empty(x.size, mp.i32)), {1: total})


@mp.kernel
def k_ifs_in_two_loops(x, out, mode: mp.i32):
    # barriers in uniform ifs inside two nested loops; the ifs read loop variables, a parameter and a carried local
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    acc = 0
    phase = 0
    for a in range(3):
        for b in range(3):
            if (a + b) % 2 == mode:
                v = s[(t + 1) % n]
                mp.barrier()
                s[t] = v + a
                mp.barrier()
            elif phase < 2:
                acc += s[(t + 2) % n]
                phase += 1
                if b > a:
                    mp.barrier()
                    s[t] += b
                    mp.barrier()
            acc += s[t] * b
    out[mp.global_id(0)] = acc


@shape()
def test_barriers_in_uniform_ifs_inside_two_nested_loops(block, grid):
    x = rows(block, grid)
    runs = []
    for mode in (0, 1, 5):
        s, acc, phase = x, np.zeros(x.size, np.int64), 0
        for a in range(3):
            for b in range(3):
                if (a + b) % 2 == mode:
                    s = neighbour(s, block) + a
                elif phase < 2:
                    acc = acc + neighbour(s, block, 2)
                    phase += 1
                    if b > a:
                        s = s + b
                acc = acc + s * b
        runs.append(Run(k_ifs_in_two_loops, (x, empty(x.size, mp.i32), mode), {1: acc}))
    return runs


@mp.kernel
def k_locals_live_on(x, out):
    # a barrier in a for and in a while loop; what they leave behind is used after both
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    mine = x[mp.global_id(0)]
    s[t] = mine
    high = mine
    steps = 0
    for k in range(1, 4):
        mp.barrier()
        v = s[(t + k) % n]
        if v > high:
            high = v
            steps = k
    low = high
    j = 1
    while j < n and j < 20:
        mp.barrier()
        v = s[(t + j) % n]
        if v < low:
            low = v
            steps += 10
        j *= 2
    out[mp.global_id(0), 0] = mine
    out[mp.global_id(0), 1] = high
    out[mp.global_id(0), 2] = low
    out[mp.global_id(0), 3] = steps * 100 + j


@shape()
def test_a_barrier_in_for_and_while_loops_with_locals_that_live_on(block, grid):
    x = rows(block, grid)
    high, steps = x, np.zeros(x.size, np.int64)
    for k in range(1, 4):
        v = neighbour(x, block, k)
        steps, high = np.where(v > high, k, steps), np.maximum(high, v)
    low, j = high, 1
    while j < block and j < 20:
        v = neighbour(x, block, j)
        steps, low, j = np.where(v < low, steps + 10, steps), np.minimum(low, v), j * 2
    want = np.stack([x, high, low, steps * 100 + j], axis=1)
    return Run(k_locals_live_on, (x, empty((x.size, 4), mp.i32)), {1: want})


@mp.kernel
def k_two_level(x, out):
    # subgroup sums, staging, a barrier, and the first subgroup's combine: any subgroup size
    s = mp.shared(1024, mp.i32)
    v = mp.subgroup.sum(x[mp.global_id(0)])
    if mp.subgroup.lane() == 0:
        s[mp.subgroup.id()] = v
    mp.barrier()
    if mp.subgroup.id() == 0:
        total = 0
        k = mp.subgroup.lane()
        while k < mp.subgroup.count():
            total += s[k]
            k += mp.subgroup.size()
        total = mp.subgroup.sum(total)
        if mp.subgroup.lane() == 0:
            out[mp.workgroup_id(0)] = total


@shape(requires=SG)
def test_two_level_reduction_with_subgroup_sum_staging_and_barrier(block, grid):
    g = np.arange(grid)
    want = g * block * block + block * (block - 1) // 2
    return Run(k_two_level, (np.arange(block * grid, dtype=np.int32), empty(grid, mp.i32)), {1: want})


@mp.kernel
def k_membership(x, size, before, after):
    # the same work-items form a subgroup in every region and trip
    i = mp.global_id(0)
    t = mp.thread_id(0)
    s = mp.shared(1024, mp.i32)
    size[0] = mp.subgroup.size()
    before[i] = mp.subgroup.sum(1)
    s[t] = mp.subgroup.max(t)
    total = 0
    for _ in range(2):
        mp.barrier()
        total += mp.subgroup.sum(x[i])
        total += s[t] - mp.subgroup.min(s[t])
        mp.barrier()
    after[i] = total


@shape(requires=SG)
def test_subgroup_membership_is_the_same_in_every_region(block, grid):
    def expect(x, size, *_):
        w = int(size[0])
        count = in_subgroups(np.ones(block * grid, np.int64), block, w, 0).sum(2)
        return {1: size, 2: to_lanes(count, block, w), 3: to_lanes(2 * count, block, w)}

    n = block * grid
    return Run(k_membership, (np.ones(n, np.int32), np.zeros(1, np.int32), empty(n, mp.i32), empty(n, mp.i32)), expect)


@mp.kernel
def k_dynamic(x, out, n: mp.i32):
    # the length comes from a parameter
    t = mp.thread_id(0)
    s = mp.shared(n, mp.i32)
    s[t] = x[mp.global_id(0)]
    m = n
    while m > 1:
        half = (m + 1) // 2
        mp.barrier()
        if t < m - half:
            s[t] += s[t + half]
        m = half
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@shape()
def test_dynamic_shared_memory(block, grid):
    x = rows(block, grid)
    want = groups(x, block).sum(1)
    options: list[dict[str, int]] = [{}, {"shared_bytes": 4 * block}, {"shared_bytes": 1 << 14}]
    return [Run(k_dynamic, (x, empty(grid, mp.i32), block), {1: want}, launch=o) for o in options]


@mp.kernel
def k_two_dynamic(x, out):
    # lengths from a launch size and from a shape, of two types, one of two dimensions
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    a = mp.shared((2, mp.workgroup_size(0)), mp.i32)
    b = mp.shared(x.shape[1] + 1, mp.f64)
    g = mp.workgroup_id(0)
    a[0, t] = x[g, t]
    a[1, n - 1 - t] = x[g, t] * 2
    b[n - t] = x[g, t] * 0.5
    if t == 0:
        b[0] = 0.25
    mp.barrier()
    out[g, t] = a[0, n - 1 - t] + a[1, t] + b[t]


@shape(requires=("f64",))
def test_two_dynamic_shared_arrays(block, grid):
    x = groups(rows(block, grid), block)
    b = np.zeros((grid, block + 1))
    b[:, block - np.arange(block)] = x * 0.5
    b[:, 0] = 0.25
    want = x[:, ::-1] + x[:, ::-1] * 2 + b[:, :block]
    return Run(k_two_dynamic, (x, empty(x.shape, mp.f64)), {1: want})


def test_a_smaller_shared_bytes_is_an_error():
    x = np.arange(64, dtype=np.int32)
    out = empty(1, mp.i32)
    with pytest.raises(mp.LaunchValueError) as caught:
        k_dynamic.launch(grid=1, block=64, args=(x, out, 64), shared_bytes=255)
    assert caught.value.diagnostic == "MPG_LAUNCH_1011"
    assert out[0] == 77


@mp.kernel
def k_lane_masks(x, a, b, c):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    a[i] = x[(t & 7) * 4]
    b[i] = x[t % 16] + x[(t % 16) * 3 + 1]
    c[i] = x[(mp.i64(t) & 31) * 2] + x[mp.u32(t) & 15]


@shape()
def test_lane_masks(block, grid):
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)
    t, _ = ids(block, grid)
    want = {1: x[(t & 7) * 4], 2: x[t % 16] + x[t % 16 * 3 + 1], 3: x[(t & 31) * 2] + x[t & 15]}
    return Run(k_lane_masks, (x, *(empty(t.size, mp.i32) for _ in range(3))), want)


@mp.kernel
def k_lane_masks_reduced(x, size, a, b, c):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    a[i] = mp.subgroup.sum(x[(t & 7) * 4])
    b[i] = mp.subgroup.sum(x[(t % 16) * 3]) + mp.subgroup.max(x[t & 15])
    c[i] = mp.subgroup.sum(x[(mp.i64(t) & 31) * 2])


@shape(requires=SG)
def test_lane_masks_under_a_reduce(block, grid):
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)
    t, _ = ids(block, grid)

    def expect(x, size, *_):
        w = int(size[0])

        def each(v, f):
            return to_lanes(f(in_subgroups(v, block, w, 0), axis=2), block, w)

        b = each(x[t % 16 * 3], np.sum) + each(x[t & 15], np.max)
        return {1: size, 2: each(x[(t & 7) * 4], np.sum), 3: b, 4: each(x[(t & 31) * 2], np.sum)}

    return Run(k_lane_masks_reduced, (x, np.zeros(1, np.int32), *(empty(t.size, mp.i32) for _ in range(3))), expect)


@mp.kernel
def k_wave_ops(x, size, total, votes, moved, first):
    # sums and votes under a guard that the last gang meets half way, shuffles on full subgroups
    i = mp.global_id(0)
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    lane = mp.subgroup.lane()
    size[0] = mp.subgroup.size()
    if t < n - n // 3:
        total[i] = mp.subgroup.sum(x[i])
        votes[i] = mp.subgroup.ballot_count(x[i] > 0) * 100 + mp.i32(mp.subgroup.any(x[i] > 90))
    before = mp.subgroup.shuffle_up(x[i], 1) + mp.subgroup.broadcast(x[i], 0)
    moved[i] = before if lane > 0 else x[i]
    first[i] = 1 if lane == 0 else 0


@shape(requires=SG)
def test_subgroup_ops_under_a_guard_and_a_partial_last_gang(block, grid):
    x = rows(block, grid)
    t, _ = ids(block, grid)
    inside = t < block - block // 3

    def expect(x, size, *_):
        w = int(size[0])
        sums = to_lanes(in_subgroups(np.where(inside, x, 0), block, w, 0).sum(2), block, w)
        positive = to_lanes(in_subgroups((inside & (x > 0)).astype(np.int64), block, w, 0).sum(2), block, w)
        high = to_lanes(in_subgroups(inside & (x > 90), block, w, False).any(2), block, w)
        lanes = in_subgroups(x, block, w, 0)
        before = of_lanes(np.roll(lanes, 1, axis=2), block) + of_lanes(
            np.broadcast_to(lanes[:, :, :1], lanes.shape), block
        )
        lane = t % w
        return {
            1: size,
            2: np.where(inside, sums, 77),
            3: np.where(inside, positive * 100 + high, 77),
            4: np.where(lane > 0, before, x),
            5: lane == 0,
        }

    return Run(k_wave_ops, (x, np.zeros(1, np.int32), *(empty(x.size, mp.i32) for _ in range(4))), expect)


@mp.kernel
def k_uniform_return(x, out, n: mp.i32):
    # workgroups past n leave before the barrier, all items of one alike
    t = mp.thread_id(0)
    s = mp.shared(1024, mp.i32)
    if mp.workgroup_id(0) >= n:
        return
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    v = s[mp.workgroup_size(0) - 1 - t]
    if n == 1:
        out[mp.global_id(0)] = v
        return
    mp.barrier()
    s[t] = v + 1
    mp.barrier()
    out[mp.global_id(0)] = s[(t + 1) % mp.workgroup_size(0)]


@shape()
def test_a_uniform_return_before_a_barrier(block, grid):
    x = rows(block, grid)
    runs = []
    for n in (0, 1, grid // 2 + 1):
        want = np.full((grid, block), 77)
        want[:n] = groups(x, block)[:n, ::-1]
        if n > 1:
            want[:n] = np.roll(want[:n] + 1, -1, axis=1)
        runs.append(Run(k_uniform_return, (x, empty(x.size, mp.i32), n), {1: want}))
    return runs


@mp.kernel
def k_return_after(x, out):
    # after the last barrier a return may depend on the item
    t = mp.thread_id(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    v = s[(t + 1) % mp.workgroup_size(0)]
    if v < 0:
        return
    for k in range(3):
        if v % 7 == k:
            out[mp.global_id(0)] = -k
            return
    out[mp.global_id(0)] = v


@shape()
def test_a_return_that_depends_on_the_item_after_the_last_barrier(block, grid):
    x = rows(block, grid)
    v = neighbour(x, block)
    want = np.where(v < 0, 77, np.where(v % 7 < 3, -(v % 7), v))
    return Run(k_return_after, (x, empty(x.size, mp.i32)), {1: want})


@mp.kernel
def k_continue(x, out, mode: mp.i32):
    # behind a trip's last barrier some items go on to the next trip, from several depths and past a uniform branch
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    mine = x[mp.global_id(0)]
    acc = 0
    for k in range(4):
        s[t] = mine + k
        mp.barrier()
        other = s[n - 1 - t]
        acc += 1
        if k != mode:
            mp.barrier()
            if mine > 20 + k:
                if mine % 2 == 0:
                    continue
                acc += 7
            acc += other
        elif other < 0:
            continue
        else:
            acc += 5
        acc += 100
        if acc % 3 == 0:
            acc += 1
            continue
        acc += 1000
    out[mp.global_id(0)] = acc


@shape()
def test_a_continue_of_some_items_behind_the_last_barrier_of_a_trip(block, grid):
    x = rows(block, grid)
    other = groups(x, block)[:, ::-1].ravel()
    runs = []
    for mode in (1, 9):
        acc = np.zeros(x.size, np.int64)
        for k in range(4):
            o = other + k
            acc += 1
            if k != mode:
                gone = (x > 20 + k) & (x % 2 == 0)
                acc += np.where(gone, 0, np.where(x > 20 + k, 7, 0) + o)
            else:
                gone = o < 0
                acc += np.where(gone, 0, 5)
            acc += np.where(gone, 0, 100)
            third = ~gone & (acc % 3 == 0)
            acc += np.where(third, 1, np.where(gone, 0, 1000))
        runs.append(Run(k_continue, (x, empty(x.size, mp.i32), mode), {1: acc}))
    return runs


@mp.func
def look_up(s, t, n, v, limit):
    # returns for the whole workgroup before the barrier, and for some items behind it, also out of a loop
    if limit < 0:
        return v
    s[t] = v
    mp.barrier()
    if v > limit:
        return s[n - 1 - t]
    for k in range(3):
        if s[(t + k) % n] > limit:
            return s[(t + k) % n] * 10 + k
    if v % 2 == 0:
        return s[(t + 1) % n] + 1
    return 0


@mp.kernel
def k_function_returns(x, out, limit: mp.i32):
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    r = look_up(s, t, n, x[mp.global_id(0)], limit)
    mp.barrier()
    out[mp.global_id(0)] = look_up(s, t, n, r % 97, limit) * 1000 + r


@shape()
def test_early_returns_of_some_items_behind_the_barrier_of_a_function(block, grid):
    def look(v, limit):
        if limit < 0:
            return v
        r = np.where(v % 2 == 0, neighbour(v, block) + 1, 0)
        for k in (2, 1, 0):
            r = np.where(neighbour(v, block, k) > limit, neighbour(v, block, k) * 10 + k, r)
        return np.where(v > limit, groups(v, block)[:, ::-1].ravel(), r)

    x = rows(block, grid)
    runs = []
    for limit in (-1, 40, 90):
        r = look(x, limit)
        runs.append(Run(k_function_returns, (x, empty(x.size, mp.i32), limit), {1: look(r % 97, limit) * 1000 + r}))
    return runs


@mp.kernel
def k_3d(x, out):
    s = mp.shared(1024, mp.i32)
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tz = mp.thread_id(2)
    nx = mp.workgroup_size(0)
    ny = mp.workgroup_size(1)
    nz = mp.workgroup_size(2)
    g = mp.workgroup_id(0)
    s[tx + nx * (ty + ny * tz)] = x[g, tz, ty, tx]
    keep = tx * 100 + ty * 10 + tz
    for r in range(2):
        mp.barrier()
        v = s[(nx - 1 - tx) + nx * ((ny - 1 - ty) + ny * ((tz + r) % nz))]
        mp.barrier()
        s[tx + nx * (ty + ny * tz)] = v + keep
    out[g, tz, ty, tx] = s[tx + nx * (ty + ny * tz)]


@shape()
def test_barriers_in_workgroups_of_three_dimensions(block, grid):
    nx, ny, nz = SHAPES_3D[block]
    x = rows(block, grid).reshape(grid, nz, ny, nx)
    tz, ty, tx = np.indices((nz, ny, nx))
    s = x
    for r in range(2):
        s = np.roll(s[:, :, ::-1, ::-1], -r, axis=1) + tx * 100 + ty * 10 + tz
    return Run(k_3d, (x, empty(x.shape, mp.i32)), {1: s}, block=(nx, ny, nz))


# --- what is refused, with its code -----------------------------------------------------------------------------------
def refused(kernel, *args):
    """The error of a kernel that no launch may run."""
    outs = [np.zeros(64, np.int32) for _ in args]
    with pytest.raises(mp.CompileError) as caught:
        kernel.launch(grid=1, block=64, args=tuple(outs), device="cpu")
    return caught.value


def test_an_early_return_of_some_items_before_a_barrier_is_an_error():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        if x[t] > 0:
            return
        mp.barrier()
        out[t] = 1

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"
    assert "some work-items return here" in str(error)


def test_a_guarded_barrier_in_a_loop_of_different_trip_counts_is_an_error_at_the_branch():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        for j in range(x[t]):
            if j < 2:
                mp.barrier()
        out[t] = 1

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"
    assert "for j in range(x[t]):" in str(error)
    assert "different work-items leave this loop at different trips" in str(error)


def test_a_nested_barrier_loop_whose_inner_trip_count_differs_is_an_error():
    @mp.kernel
    def k(out):
        t = mp.thread_id(0)
        for a in range(3):
            for b in range(t % 4 + a):
                mp.barrier()
                out[t] = b

    error = refused(k, 0)
    assert error.code == "MPG_CORE_1400"
    assert "for b in range(t % 4 + a):" in str(error)
    assert "thread_id(0)" in str(error)


def test_a_barrier_under_a_branch_on_the_item_is_an_error():
    @mp.kernel
    def k(out):
        t = mp.thread_id(0)
        odd = t % 2
        if odd == 1:
            out[t] = 1
            mp.barrier()

    error = refused(k, 0)
    assert error.code == "MPG_CORE_1400"
    assert "if odd == 1:" in str(error)


def test_a_barrier_loop_with_a_break_that_depends_on_the_item_is_an_error():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        for j in range(8):
            mp.barrier()
            if x[t] == j:
                break
            out[t] = j

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"


def test_a_return_of_some_items_from_a_barrier_loop_is_an_error():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        for j in range(8):
            mp.barrier()
            out[t] = j
            if x[t] == j:
                return

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"
    assert "some work-items return here" in str(error)
    assert "if x[t] == j:" in str(error)


def test_a_barrier_after_an_early_return_of_some_items_in_a_function_is_an_error():
    @mp.func
    def f(v):
        if v > 0:
            return 1
        mp.barrier()
        return 2

    @mp.kernel
    def k(x, out):
        out[mp.thread_id(0)] = f(x[mp.thread_id(0)])

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"
    assert "some work-items leave here" in str(error)


def test_a_barrier_after_a_continue_that_depends_on_the_item_is_an_error():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        for j in range(8):
            if x[t] == j:
                continue
            mp.barrier()
            out[t] = j

    error = refused(k, 0, 0)
    assert error.code == "MPG_CORE_1400"
