"""Control-flow shapes on which an earlier CPU backend for SIMT kernels went wrong: the seed's later findings, one test each.

Every shape runs at each size, count, gang and thread count of `matrix`; the barrier shapes are in test_seed_barriers.
Those with subgroup operations compute with the subgroup size that the kernel wrote out.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import magpie as mp

from .harness import Run, empty
from .matrix import SHAPES_3D, SIZES, groups, ids, in_subgroups, on_threads, rows, shape, to_lanes

SG = ("subgroups",)


@mp.kernel
def k_split_in_a_guard(data, size, out, which: mp.i32, limit: mp.i32):
    # a uniform choice between loops inside a guard that depends on the work-item, with a reduce after it
    t = mp.thread_id(0)
    row = mp.subgroup.id()
    size[0] = mp.subgroup.size()
    if row < limit:
        acc = 0
        if which == 0:
            for k in range(3):
                acc += data[(t + k) % 64]
        elif which == 1:
            for k in range(5):
                acc += data[(t * k) % 64] * 2
        else:
            k = t % 3
            while k < 6:
                acc -= data[k]
                k += 2
        out[mp.global_id(0)] = mp.subgroup.sum(acc)


@shape(requires=SG)
def test_a_uniform_split_inside_a_per_item_guard(block, grid):
    x = np.arange(64, dtype=np.int32) * 3 + 1
    t, _ = ids(block, grid)
    acc = {0: sum(x[(t + k) % 64] for k in range(3)), 1: sum(x[t * k % 64] * 2 for k in range(5))}
    acc[2] = -np.array([x[r:6:2].sum() for r in range(3)])[t % 3]

    def oracle(which, limit):
        def expect(data, size, *_):
            w = int(size[0])
            total = to_lanes(in_subgroups(acc[which], block, w, 0).sum(2), block, w)
            return {1: size, 2: np.where(t // w < limit, total, 77)}

        return expect

    return [
        Run(k_split_in_a_guard, (x, np.zeros(1, np.int32), empty(t.size, mp.i64), which, limit), oracle(which, limit))
        for which, limit in ((0, 1), (1, 3), (2, 0), (2, 99))
    ]


@mp.kernel
def k_arms_in_a_loop(active, out):
    # a per-item loop whose body branches between stores and an inner strided loop
    i = mp.global_id(0)
    tt = i % 3
    while tt < active[i]:
        if tt * 4 + 4 <= 16:
            for k in range(4):
                out[i, tt * 4 + k] = tt * 100 + k
        else:
            w = i % 4
            while w < 16:
                out[i, w] = out[i, w] + 1
                w += 4
        tt += 2


@shape()
def test_a_predicated_loop_whose_body_holds_arms_and_an_inner_strided_loop(block, grid):
    n = np.random.default_rng(0).integers(0, 9, block * grid).astype(np.int32)
    i, columns = np.arange(n.size), np.arange(16)
    want = np.full((n.size, 16), 77, np.int32)
    for tt in range(9):
        here = (tt >= i % 3) & ((tt - i % 3) % 2 == 0) & (tt < n)
        if tt * 4 + 4 <= 16:
            want[here, tt * 4 : tt * 4 + 4] = tt * 100 + np.arange(4)
        else:
            want += here[:, None] & (columns % 4 == (i % 4)[:, None])
    return Run(k_arms_in_a_loop, (n, empty(want.shape, mp.i32)), {1: want})


@mp.kernel
def k_uniform_loop_in_a_per_item_loop(x, out):
    t = mp.thread_id(0)
    acc = 0
    r = t
    while r < x.shape[0]:
        j = 0
        while j < 16:
            acc += x[r] * j
            j += 1
        r += mp.workgroup_size(0)
    out[mp.global_id(0)] = acc


def strided_sums(x, block):
    """The sum of every block-th element, from each item's number on."""
    padded = np.zeros(-(-x.size // block) * block, np.int64)
    padded[: x.size] = x
    return padded.reshape(-1, block).sum(0)


@shape()
def test_a_uniform_loop_inside_a_predicated_loop(block, grid):
    x = np.random.default_rng(0).integers(0, 99, 300).astype(np.int32)
    want = np.tile(strided_sums(x, block) * 120, grid)
    return Run(k_uniform_loop_in_a_per_item_loop, (x, empty(want.size, mp.i32)), {1: want})


@mp.kernel
def k_uniform_split_in_a_per_item_loop(x, out, mode: mp.i32):
    t = mp.thread_id(0)
    acc = 0
    r = t % 16
    while r < x.shape[0]:
        if mode == 0:
            acc += x[r]
        elif mode == 1:
            acc += x[r] * 2
            if acc > 500:
                break
        else:
            for k in range(3):
                acc += k * x[r]
        r += 16
    out[mp.global_id(0)] = acc


@shape()
def test_a_uniform_split_inside_a_predicated_loop(block, grid):
    x = np.random.default_rng(0).integers(0, 99, 150).astype(np.int32)

    def f(t, mode):
        acc = 0
        for r in range(t, 150, 16):
            acc += (1, 2, 3)[mode] * x[r]
            if mode == 1 and acc > 500:
                break
        return acc

    t, _ = ids(block, grid)
    return [
        Run(
            k_uniform_split_in_a_per_item_loop,
            (x, empty(t.size, mp.i32), m),
            {1: np.array([f(k, m) for k in range(16)])[t % 16]},
        )
        for m in (0, 1, 2)
    ]


@mp.func
def strided_sum(x, lane, width, row):
    acc = 0
    k = lane
    while k < x.shape[1]:
        acc += x[row, k]
        k += width
    return mp.subgroup.sum(acc)


@mp.kernel
def k_reduce_in_a_function(x, out):
    # a matrix-vector shape: the reduce is in a function, after a lane-strided loop. The last subgroup of a workgroup may
    # have fewer lanes than the others: as many as work-items are left take part
    w = mp.subgroup.size()
    lane = mp.subgroup.lane()
    here = mp.min(w, mp.workgroup_size(0) - mp.subgroup.id() * w)
    row = mp.workgroup_id(0) * mp.subgroup.count() + mp.subgroup.id()
    while row < x.shape[0]:
        total = strided_sum(x, lane, here, row)
        if lane == 0:
            out[row] = total
        row += mp.num_workgroups(0) * mp.subgroup.count()


@shape(requires=SG)
def test_a_subgroup_op_in_a_function_called_from_a_lane_strided_loop(block, grid):
    x = np.random.default_rng(0).integers(-9, 9, (37, 70)).astype(np.int32)
    return Run(k_reduce_in_a_function, (x, empty(37, mp.i32)), {1: x.sum(1)})


@mp.func
def strip(x, lane, width, row):
    # the lane-strided loop around the op: lanes leave it at different trips
    best = -1000
    k = lane
    while k < x.shape[1]:
        best = max(best, mp.subgroup.max(x[row, k]))
        k += width
    return best


@mp.kernel
def k_reduce_in_the_loop_of_a_function(x, size, out):
    w = mp.subgroup.size()
    size[0] = w
    out[mp.global_id(0)] = strip(x, mp.subgroup.lane(), w, mp.workgroup_id(0) % x.shape[0])


@shape(requires=SG)
def test_a_subgroup_op_inside_the_lane_strided_loop_of_a_function(block, grid):
    x = np.random.default_rng(0).integers(-99, 99, (3, 70)).astype(np.int32)

    def expect(x, size, *_):
        w = int(size[0])
        t, g = ids(block, grid)
        lane, here = t % w, np.minimum(w, block - t // w * w)  # lanes of the item's own subgroup
        want = np.full(t.size, -1000)
        for first in range(0, 70, w):
            for m in np.unique(here):
                part = x[:, first : min(first + m, 70)]
                at = (here == m) & (first + lane < 70)
                want[at] = np.maximum(want[at], part.max(1)[g[at] % 3])
        return {1: size, 2: want}

    return Run(k_reduce_in_the_loop_of_a_function, (x, np.zeros(1, np.int32), empty(block * grid, mp.i32)), expect)


@mp.kernel
def k_per_item_break(x, out):
    i = mp.global_id(0)
    s = 0
    k = 0
    while k < 20:
        if k * k > x[i]:
            break
        s += k
        if s > 90 + i % 5:
            break
        k += 1
    out[i] = s * 100 + k


@shape()
def test_a_per_item_break(block, grid):
    x = rows(block, grid, -5, 500)

    def f(v, bonus):
        s = k = 0
        while k < 20:
            if k * k > v:
                break
            s += k
            if s > 90 + bonus:
                break
            k += 1
        return s * 100 + k

    known = np.array([[f(v, b) for b in range(5)] for v in range(-5, 500)])
    return Run(k_per_item_break, (x, empty(x.size, mp.i32)), {1: known[x + 5, np.arange(x.size) % 5]})


@mp.kernel
def k_uniform_break(x, out, limit: mp.i32):
    # a uniform break out of a barrier-free loop, out of one with barriers, and one decided by shared memory
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    done = mp.shared(1, mp.i32)
    v = x[mp.global_id(0)]
    for k in range(10):
        if k == limit:
            break
        v += k
    s[t] = v
    r = 0
    while True:
        mp.barrier()
        u = s[(t + 1) % n]
        mp.barrier()
        s[t] = u + 1
        r += 1
        if r >= limit:
            break
        if r % 2 == 0:
            continue
        s[t] += 10
    trips = 0
    for j in range(50):
        mp.barrier()
        if t == 0:
            done[0] = 1 if s[0] > 150 else 0
        mp.barrier()
        if done[0] == 1:
            break
        u = s[(t + 1) % n]
        mp.barrier()
        s[t] = u + 7
        trips = j + 1
    out[mp.global_id(0)] = s[t] * 100 + trips


@shape()
def test_a_uniform_break(block, grid):
    x = rows(block, grid)
    runs = []
    for limit in (1, 5):
        s = groups(x, block) + sum(range(limit))
        for r in range(1, limit + 1):
            s = np.roll(s, -1, axis=1) + 1 + 10 * (r < limit and r % 2 == 1)
        trips = np.zeros((grid, 1), np.int64)
        for j in range(50):
            on = (s[:, :1] <= 150) & (trips == j)  # a workgroup that has left does not come back
            s = np.where(on, np.roll(s, -1, axis=1) + 7, s)
            trips += on
        runs.append(Run(k_uniform_break, (x, empty(x.size, mp.i32), limit), {1: s * 100 + trips}))
    return runs


@mp.kernel
def k_nobody_enters(x, out, counter):
    # every item of most workgroups has left; a uniform loop after that reads a local that nobody there set
    t = mp.thread_id(0)
    last = mp.shared(1, mp.i32)
    if t == 0:
        ticket = mp.atomic_add(counter, 0, 1)
        last[0] = 1 if ticket == mp.num_workgroups(0) - 1 else 0
    mp.barrier()
    if last[0] == 0:
        return
    n = x[0]
    total = 0
    for k in range(n):
        total += x[k + 1]
    out[t] = total


@shape()
def test_a_uniform_local_that_no_work_item_wrote(block, grid):
    x = np.array([5, 1, 2, 3, 4, 5, 99], np.int32)
    return Run(k_nobody_enters, (x, empty(block, mp.i32), np.zeros(1, np.int32)), {1: np.full(block, 15), 2: [grid]})


@mp.kernel
def k_last_block(x, partial, out, counter):
    # each workgroup leaves its sum; the one that comes last adds them up after an acquire fence
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    last = mp.shared(1, mp.i32)
    s[t] = x[mp.global_id(0)]
    m = n
    while m > 1:
        half = (m + 1) // 2
        mp.barrier()
        if t < m - half:
            s[t] += s[t + half]
        m = half
    if t == 0:
        partial[mp.workgroup_id(0)] = s[0]
        mp.fence(order="release")
        last[0] = mp.atomic_add(counter, 0, 1)
    mp.barrier()
    if last[0] == mp.num_workgroups(0) - 1:
        mp.fence(order="acquire")
        acc = 0
        k = t
        while k < mp.num_workgroups(0):
            acc += partial[k]
            k += n
        s[t] = acc
        m = n
        while m > 1:
            half = (m + 1) // 2
            mp.barrier()
            if t < m - half:
                s[t] += s[t + half]
            m = half
        if t == 0:
            out[0] = s[0]


@shape()
def test_the_last_block_pattern_with_an_acquire_fence(block, grid):
    x = rows(block, grid)
    args = (x, empty(grid, mp.i32), empty(1, mp.i32), np.zeros(1, np.int32))
    return Run(k_last_block, args, {1: groups(x, block).sum(1), 2: [x.sum()], 3: [grid]})


@mp.kernel
def k_last_block_return(x, partial, out, counter):
    # the same with an early return on the shared flag, subgroup sums, and barriers behind the return
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    flag = mp.shared(1, mp.i32)
    v = mp.subgroup.sum(x[mp.global_id(0)])
    if mp.subgroup.lane() == 0:
        s[mp.subgroup.id()] = v
    mp.barrier()
    if t == 0:
        total = 0
        for k in range(mp.subgroup.count()):
            total += s[k]
        partial[mp.workgroup_id(0)] = total
        mp.fence()
        flag[0] = 1 if mp.atomic_add(counter, 0, 1) == mp.num_workgroups(0) - 1 else 0
    mp.barrier()
    if flag[0] == 0:
        return
    acc = 0
    k = t
    while k < mp.num_workgroups(0):
        mp.fence(order="acquire")  # in the body of a loop of each item
        acc += partial[k]
        k += n
    mp.barrier()
    s[t] = acc
    mp.barrier()
    if t == 0:
        total = 0
        for k in range(n):
            total += s[k]
        out[0] = total


@shape(requires=SG)
def test_the_last_block_early_return_on_a_shared_flag(block, grid):
    x = rows(block, grid)
    args = (x, empty(grid, mp.i32), empty(1, mp.i32), np.zeros(1, np.int32))
    return Run(k_last_block_return, args, {1: groups(x, block).sum(1), 2: [x.sum()], 3: [grid]})


@mp.kernel
def k_quotient_bound(x, out):
    # a barrier loop whose trips are counted from the quotient of the global id by the workgroup's size
    g = mp.global_id(0) // mp.workgroup_size(0)
    t = mp.global_id(0) % mp.workgroup_size(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.i32)
    s[t] = x[mp.global_id(0)]
    end = g % 4 + 1
    k = 0
    while k < end:
        mp.barrier()
        v = s[(t + 1) % n]
        mp.barrier()
        s[t] = v + k
        k += 1
    out[mp.global_id(0)] = s[t] * 100 + g


def quotient_oracle(block, grid, x):
    s = groups(x, block).copy()
    for g in range(grid):
        for k in range(g % 4 + 1):
            s[g] = np.roll(s[g], -1) + k
    return s * 100 + np.arange(grid)[:, None]


@shape()
def test_a_barrier_loop_bounded_by_the_block_quotient(block, grid):
    x = rows(block, grid)
    return Run(k_quotient_bound, (x, empty(x.size, mp.i32)), {1: quotient_oracle(block, grid, x)})


POWERS = tuple(n for n in SIZES if n & (n - 1) == 0)
# each size is a kernel of its own: a default run has three sizes a gang, every one of them at some gang
FEW = {4: (1, 33, 1024), 8: (16, 100, 256), 16: (32, 64), 32: (1, 33, 64)}


@functools.cache
def quotient_kernel(size, shift):
    """`k_quotient_bound` with a size that the kernel fixes: by // and %, or by >> and & if ``shift`` is not None."""
    if shift is None:

        @mp.kernel(workgroup=(size, 1, 1))
        def k_fixed_quotient(x, out):
            g = mp.global_id(0) // size
            t = mp.global_id(0) % size
            s = mp.shared(1024, mp.i32)
            s[t] = x[mp.global_id(0)]
            k = 0
            while k < g % 4 + 1:
                mp.barrier()
                v = s[(t + 1) % size]
                mp.barrier()
                s[t] = v + k
                k += 1
            out[mp.global_id(0)] = s[t] * 100 + g

        return k_fixed_quotient

    @mp.kernel(workgroup=(size, 1, 1))
    def k_shifted_quotient(x, out):
        g = mp.global_id(0) >> shift
        t = mp.global_id(0) & (size - 1)
        s = mp.shared(1024, mp.i32)
        s[t] = x[mp.global_id(0)]
        k = 0
        while k < (g & 3) + 1:
            mp.barrier()
            v = s[(t + 1) & (size - 1)]
            mp.barrier()
            s[t] = v + k
            k += 1
        out[mp.global_id(0)] = s[t] * 100 + g

    return k_shifted_quotient


@shape(default=FEW)
def test_the_floordiv_and_mod_forms_of_the_block_quotient(block, grid):
    x = rows(block, grid)
    return Run(quotient_kernel(block, None), (x, empty(x.size, mp.i32)), {1: quotient_oracle(block, grid, x)})


@shape(sizes=POWERS, default=FEW)
def test_the_shift_and_mask_forms_of_the_block_quotient(block, grid):
    x = rows(block, grid)
    kernel = quotient_kernel(block, block.bit_length() - 1)
    return Run(kernel, (x, empty(x.size, mp.i32)), {1: quotient_oracle(block, grid, x)})


@mp.kernel
def k_replicated(x, out):
    # every item adds up what is the same for all; none may see another's partial sum
    t = mp.thread_id(0)
    s = mp.shared(4, mp.i32)
    if t == 0:
        for k in range(4):
            s[k] = x[mp.workgroup_id(0) * 4 + k]
    mp.barrier()
    total = 0
    for k in range(4):
        total += s[k]
    mp.barrier()
    twice = 0
    for _ in range(2):
        for k in range(4):
            twice += total + k
        mp.barrier()
    if t == 0:
        total = total + 1000
    out[mp.global_id(0)] = total + twice * 10 + t


@shape()
def test_a_uniform_local_updated_in_a_loop_by_every_work_item(block, grid):
    x = rows(4, grid)
    t, g = ids(block, grid)
    total = x.reshape(grid, 4).sum(1)[g]
    want = total + np.where(t == 0, 1000, 0) + 2 * (4 * total + 6) * 10 + t
    return Run(k_replicated, (x, empty(t.size, mp.i32)), {1: want})


@mp.kernel
def k_keep(x, out):
    # constants assigned under a branch on the item are the item's own after a barrier
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(1024, mp.f32)
    keep = 0.0
    if t % 3 == 0:
        keep = 1.0
    side = 5
    if t % 2 == 0:
        side = 6
        if t % 4 == 0:
            side = 7
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    out[mp.global_id(0)] = s[(t + 1) % n] * keep + side


@shape()
def test_a_local_assigned_under_a_divergent_branch_and_read_after_a_barrier(block, grid):
    x = rows(block, grid, 1, 99).astype(np.float32)
    t, _ = ids(block, grid)
    kept = np.where(t % 3 == 0, np.roll(groups(x, block), -1, axis=1).ravel(), 0)
    side = np.where(t % 4 == 0, 7, np.where(t % 2 == 0, 6, 5))
    return Run(k_keep, (x, empty(x.size, mp.f32)), {1: kept + side})


@mp.kernel
def k_scan_in_a_loop(x, out):
    # a scan in each trip: its result is used by the item itself behind the loop's last barrier
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    s = mp.shared(1024, mp.i32)
    carry = 0
    for p in range(x.shape[1]):
        s[t] = x[g, p, t]
        mp.barrier()
        d = 1
        while d < n:
            v = s[t]
            if t >= d:
                v += s[t - d]
            mp.barrier()
            s[t] = v
            mp.barrier()
            d *= 2
        out[g, p, t] = carry + s[t]
        carry += s[n - 1]
        mp.barrier()


@shape()
def test_a_workgroup_scan_inside_a_loop(block, grid):
    x = rows(block * 3, grid).reshape(grid, 3, block)
    want = x.reshape(grid, -1).cumsum(1)
    return Run(k_scan_in_a_loop, (x, empty(x.shape, mp.i32)), {1: want})


@mp.kernel
def k_scan_with_continue(x, out):
    # trips are left early by `continue`, uniformly before the scan and per item behind it
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    s = mp.shared(1024, mp.i32)
    acc = 0
    for p in range(x.shape[1]):
        if p == 1:
            continue
        v = mp.subgroup.scan(x[g, p, t])
        mp.barrier()
        s[t] = v
        mp.barrier()
        base = 0
        k = mp.subgroup.size() - 1
        while k < t - mp.subgroup.lane():
            base += s[k]
            k += mp.subgroup.size()
        whole = base + v
        if whole % 2 == 0:
            continue
        acc += whole
        if acc > 500:
            acc = -acc
            continue
        acc += 1
    mp.barrier()
    s[t] = acc
    mp.barrier()
    out[mp.global_id(0)] = s[n - 1 - t]


@shape(requires=SG)
def test_a_scan_in_a_loop_with_continue(block, grid):
    x = rows(block * 4, grid, 0, 9).reshape(grid, 4, block)
    acc = np.zeros((grid, block), np.int64)
    for p in (0, 2, 3):
        whole = x[:, p].cumsum(1)
        high = acc + whole
        acc = np.where(whole % 2 == 0, acc, np.where(high > 500, -high, high + 1))
    return Run(k_scan_with_continue, (x, empty(acc.shape, mp.i32).ravel()), {1: acc[:, ::-1]})


@mp.kernel
def k_verbs_in_a_loop(x, out):
    # the library's scan and sum in a loop; trips are left uniformly before them and per item behind them
    t = mp.thread_id(0)
    g = mp.workgroup_id(0)
    acc = 0
    best = 0
    for p in range(x.shape[1]):
        if p == 1:
            continue
        total = mp.workgroup.sum(x[g, p, t])
        if total > 9000:
            break
        v = mp.workgroup.scan(x[g, p, t] + p, exclusive=True)
        if v % 2 == 0:
            continue
        acc += v
        if acc > total:
            best = p
            continue
        acc += total
    out[g, t] = mp.workgroup.max(acc) * 10 + best


@shape(requires=SG)
def test_the_librarys_scan_in_a_loop_with_continue(block, grid):
    x = rows(block * 4, grid, 0, 19).reshape(grid, 4, block)
    acc, best = np.zeros((grid, block), np.int64), np.zeros((grid, block), np.int64)
    left = np.zeros((grid, 1), bool)
    for p in (0, 2, 3):
        total = x[:, p].sum(1, keepdims=True)
        left |= total > 9000
        v = (x[:, p] + p).cumsum(1) - (x[:, p] + p)
        on = ~left & (v % 2 == 1)
        acc = acc + np.where(on, v, 0)
        high = on & (acc > total)
        best = np.where(high, p, best)
        acc = acc + np.where(on & ~high, total, 0)
    want = acc.max(1, keepdims=True) * 10 + best
    return Run(k_verbs_in_a_loop, (x, empty((grid, block), mp.i32)), {1: want})


@mp.kernel
def k_merged_stores(x, bias, size, y, flag: mp.i32):
    # a reduce, then a store on each arm of a branch, one of them with a load of another array
    size[0] = mp.subgroup.size()
    tot = mp.subgroup.sum(x[mp.global_id(0)])
    row = mp.workgroup_id(0) * mp.subgroup.count() + mp.subgroup.id()
    if mp.subgroup.lane() == 0:
        if row % 3 == flag:
            y[row] = tot + bias[row]
        else:
            y[row] = tot
    i = mp.global_id(0)
    total = x[i] * 2
    if i % 5 == flag:
        x[i] = total + bias[i]
    else:
        x[i] = total


@shape(requires=SG)
def test_a_store_on_both_arms_before_a_bias_after_a_reduce(block, grid):
    x = rows(block, grid)
    bias = np.arange(x.size, dtype=np.int32) * 10 - 3
    i = np.arange(x.size)

    def expect(given, bias, size, y, *_):
        # ``given`` is overwritten by the launch: the sums come from what it was
        sums = in_subgroups(x, block, int(size[0]), 0).sum(2).ravel()
        row = np.arange(sums.size)
        want = np.full(y.size, 77)
        want[: sums.size] = np.where(row % 3 == 2, sums + bias[: sums.size], sums)
        return {0: np.where(i % 5 == 2, x * 2 + bias, x * 2), 2: size, 3: want}

    return Run(k_merged_stores, (x.copy(), bias, np.zeros(1, np.int32), empty(x.size, mp.i32), 2), expect)


@mp.kernel
def k_returning_arm(x, out, which: mp.i32, limit: mp.i32):
    # an arm that returns, before a uniform split inside a guard
    i = mp.global_id(0)
    if i < limit:
        if x[i] < 0:
            out[i] = -1
            return
        if which == 0:
            for k in range(x[i]):
                out[i] = k
        else:
            out[i] = which * 10
    out[i] += 1000


@shape()
def test_a_returning_arm_before_a_uniform_split_inside_a_guard(block, grid):
    x = rows(block, grid, -3, 6)
    limit = block * grid * 2 // 3
    i = np.arange(x.size)
    runs = []
    for which in (0, 3):
        inside = np.where(x > 0, x - 1, 77) if which == 0 else which * 10
        want = np.where(i >= limit, 1077, np.where(x < 0, -1, inside + 1000))
        runs.append(Run(k_returning_arm, (x, empty(x.size, mp.i32), which, limit), {1: want}))
    return runs


@mp.kernel
def k_top_k(x, out):
    # a selection loop with a workgroup reduction in each trip; k counts again under lane 0
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    best = mp.shared(1024, mp.i32)
    mine = x[mp.global_id(0)]
    k = 0
    while k < 3:
        best[t] = mine * 1024 + t
        m = n
        while m > 1:
            half = (m + 1) // 2
            mp.barrier()
            if t < m - half:
                best[t] = max(best[t], best[t + half])
            m = half
        mp.barrier()
        top = best[0]
        mp.barrier()
        if t == 0:
            out[g, k] = top // 1024
        if top % 1024 == t:
            mine = -1
        k += 1
    if t == 0:
        k = 0
        total = 0
        while k < 3:
            total += out[g, k]
            k += 1
        out[g, 3] = total * 10 + k


@shape()
def test_a_local_reused_as_a_uniform_counter_and_later_under_lane_0(block, grid):
    x = rows(block, grid, 0, 1000)
    top = np.full((grid, 3), -1)
    ranked = np.sort(groups(x, block), axis=1)[:, ::-1][:, :3]
    top[:, : ranked.shape[1]] = ranked
    want = np.concatenate([top, top.sum(1, keepdims=True) * 10 + 3], axis=1)
    return Run(k_top_k, (x, empty((grid, 4), mp.i32)), {1: want})


@mp.kernel
def k_panel(x, out):
    # the address of a shared panel, computed at the top of a uniform loop's body and used on both sides of an inner loop
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    i = mp.global_id(0)
    s = mp.shared(2048, mp.i32)
    acc = 0
    for r in range(3):
        panel = (t // 4) * 8 + r % 2 * 4
        s[panel + t % 4] = x[i] + r
        mp.barrier()
        last = min(n - t // 4 * 4, 4)
        k = t % 3
        while k < last:
            acc += s[panel + k] * (k + 1)
            k += 1
        for j in range(2):
            mp.barrier()
            acc += s[panel + (t + j) % last]
            mp.barrier()
            s[panel + t % 4] += j
        acc = acc * 2 + s[panel + t % 4]
        mp.barrier()
    out[i] = acc


@shape()
def test_a_shared_panel_address_used_across_an_inner_loop(block, grid):
    x = groups(rows(block, grid), block).astype(np.int64)
    t = np.arange(block)
    base, last = t // 4 * 4, np.minimum(block - t // 4 * 4, 4)
    acc = np.zeros_like(x)
    for r in range(3):
        s = x + r
        for k in range(4):
            on = (k >= t % 3) & (k < last)
            acc += np.where(on, s[:, np.minimum(base + k, block - 1)] * (k + 1), 0)
        for j in range(2):
            acc += s[:, base + (t + j) % last]
            s = s + j
        acc = acc * 2 + s
    return Run(k_panel, (x.astype(np.int32).ravel(), empty(x.size, mp.i32)), {1: acc})


@mp.kernel
def k_one_arm_3d(x, out):
    # a temporary that one arm of a branch sets, in a workgroup of three dimensions, with and without a barrier behind it
    s = mp.shared(1024, mp.i32)
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tz = mp.thread_id(2)
    nx = mp.workgroup_size(0)
    ny = mp.workgroup_size(1)
    nz = mp.workgroup_size(2)
    g = mp.workgroup_id(0)
    l = tx + nx * (ty + ny * tz)
    acc = 0
    for r in range(3):
        if (tx + ty * 2 + tz + r) % 3 == 0:
            v = x[g, tz, ty, tx] * 2
            w = v + r
            acc += w * v % 7
        mp.barrier()
        s[l] = acc
        mp.barrier()
        if ty % 2 == 0:
            u = s[nx - 1 - tx + nx * (ty + ny * (nz - 1 - tz))]
            acc += u % 5
    out[g, tz, ty, tx] = acc


@shape()
def test_a_one_arm_temporary_in_3d_workgroups(block, grid):
    nx, ny, nz = SHAPES_3D[block]
    x = rows(block, grid).reshape(grid, nz, ny, nx).astype(np.int64)
    tz, ty, tx = np.indices((nz, ny, nx))
    acc = np.zeros_like(x)
    for r in range(3):
        acc = acc + np.where((tx + ty * 2 + tz + r) % 3 == 0, (x * 2 + r) * (x * 2) % 7, 0)
        acc = acc + np.where(ty % 2 == 0, acc[:, ::-1, :, ::-1] % 5, 0)
    return Run(k_one_arm_3d, (x.astype(np.int32), empty(x.shape, mp.i32)), {1: acc}, block=(nx, ny, nz))


@mp.kernel
def k_subgroup_quotient(x, size, out):
    # a branch on global_id // subgroup.size, and one on the item's number over it, with loops and reduces on the arms
    i = mp.global_id(0)
    w = mp.subgroup.size()
    size[0] = w
    which = i // w
    acc = 0
    if which % 3 == 0:
        for k in range(which % 5 + 1):
            acc += x[i] * k
    elif which % 3 == 1:
        acc = mp.subgroup.sum(x[i])
    else:
        if mp.thread_id(0) // w % 2 == 0:
            acc = mp.subgroup.max(x[i])
        else:
            acc = -mp.subgroup.min(x[i])
    out[i] = acc


@shape(requires=SG)
def test_a_branch_on_global_id_over_the_subgroup_size(block, grid):
    x = rows(block, grid)
    t, g = ids(block, grid)
    i = np.arange(x.size)

    def expect(x, size, *_):
        w = int(size[0])
        which = i // w
        # the items of one subgroup that agree on the branch: those with the same quotient
        part = (g * block + t // w) * (x.size + 1) + which
        _, label = np.unique(part, return_inverse=True)
        total = np.bincount(label, x).astype(np.int64)[label]
        high, low = np.full(label.max() + 1, -1000), np.full(label.max() + 1, 1000)
        np.maximum.at(high, label, x)
        np.minimum.at(low, label, x)
        n = which % 5 + 1
        third = np.where(t // w % 2 == 0, high[label], -low[label])
        return {1: size, 2: np.where(which % 3 == 0, x * (n * (n - 1) // 2), np.where(which % 3 == 1, total, third))}

    return Run(k_subgroup_quotient, (x, np.zeros(1, np.int32), empty(x.size, mp.i32)), expect)


@mp.kernel
def k_compaction(x, out, count):
    # flags set under a divergent branch, a scan of them across barriers, and a scatter by what it gave
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    s = mp.shared((2, 1024), mp.i32)
    mine = x[mp.global_id(0)]
    keep = 0
    if mine % 3 == 0:
        keep = 1
    s[0, t] = keep
    mp.barrier()
    side = 0
    d = 1
    while d < n:
        v = s[side, t]
        if t >= d:
            v += s[side, t - d]
        s[1 - side, t] = v
        side = 1 - side
        d = d * 2
        mp.barrier()
    if keep == 1:
        out[g, s[side, t] - 1] = mine
    if t == n - 1:
        count[g] = s[side, t]


@shape()
def test_compaction_by_a_scan(block, grid):
    x = rows(block, grid)
    want, count = np.full((grid, block), 77), np.zeros(grid, np.int64)
    for g, row in enumerate(groups(x, block)):
        kept = row[row % 3 == 0]
        want[g, : kept.size], count[g] = kept, kept.size
    return Run(k_compaction, (x, empty(want.shape, mp.i32), np.zeros(grid, np.int32)), {1: want, 2: count})


@mp.kernel
def k_bit_equal(x, out):
    i = mp.global_id(0)
    v = x[i]
    for k in range(5):
        v = v * 1.5 + 1.0 / (v * v + k)
    out[i] = v


@pytest.mark.parametrize("gang", [4, 8, 16, 32])
def test_65536_items_are_bit_equal_serial_and_threaded(gang):
    x = np.random.default_rng(0).standard_normal(65536).astype(np.float32)
    want = x.copy()
    for k in range(5):
        want = want * np.float32(1.5) + np.float32(1) / (want * want + np.float32(k))
    for count in (1, 2, 5):
        out = np.zeros_like(x)
        with on_threads(count):
            k_bit_equal.launch(grid=256, block=256, args=(x, out), device="cpu", gang=gang)
        assert np.array_equal(out.view(np.uint32), want.view(np.uint32)), count
