"""The shapes on which an earlier CPU backend for SIMT kernels went wrong, one test each (seed, increments 6 to 10).

Several need subgroup operations: their oracle computes with the subgroup size that the kernel wrote out.
"""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty
from .test_subgroups import lanes

SG = ("subgroups",)


@mp.kernel
def k_split_in_a_guard(row_data, size, out, which: mp.i32, limit: mp.i32):
    # a uniform choice between loops inside a guard that depends on the work-item, with a reduce after it
    t = mp.thread_id(0)
    row = mp.global_id(0) // mp.subgroup.size()
    size[0] = mp.subgroup.size()
    if row < limit:
        acc = 0
        if which == 0:
            for k in range(3):
                acc += row_data[(t + k) % 64]
        elif which == 1:
            for k in range(5):
                acc += row_data[(t * k) % 64] * 2
        else:
            k = t % 3
            while k < 6:
                acc -= row_data[k]
                k += 2
        out[mp.global_id(0)] = mp.subgroup.sum(acc)


@case(requires=SG, gangs=True)
def test_a_uniform_split_inside_a_per_item_guard():
    x = np.arange(64, dtype=np.int32) * 3 + 1

    def oracle(which, limit):
        def expect(row_data, size, out, *_):
            w = int(size[0])
            want = np.full(128, 77, np.int64)
            acc = np.zeros(128, np.int64)
            for i in range(128):
                t = i % 64
                if which == 0:
                    acc[i] = sum(x[(t + k) % 64] for k in range(3))
                elif which == 1:
                    acc[i] = sum(x[(t * k) % 64] * 2 for k in range(5))
                else:
                    acc[i] = -sum(x[k] for k in range(t % 3, 6, 2))
            for group in lanes(w, 64, 2):
                if group[0] // w < limit:
                    want[group] = acc[group].sum()
            return {1: size, 2: want}

        return expect

    return [
        Run(k_split_in_a_guard, (x, np.zeros(1, np.int32), empty(128, mp.i64), which, limit), oracle(which, limit), grid=2)
        for which in (0, 1, 2)
        for limit in (0, 1, 99)
    ]


@mp.kernel
def k_arms_in_a_loop(n_act, out):
    # a per-item loop whose body branches between stores and an inner strided loop
    i = mp.global_id(0)
    tt = i % 3
    while tt < n_act[i]:
        if tt * 4 + 4 <= 16:
            for k in range(4):
                out[i, tt * 4 + k] = tt * 100 + k
        else:
            w = i % 4
            while w < 16:
                out[i, w] = out[i, w] + 1
                w += 4
        tt += 2


@case(gangs="all")
def test_a_per_item_loop_whose_arms_hold_loops():
    n = np.random.default_rng(0).integers(0, 9, 70).astype(np.int32)
    want = np.full((70, 16), 77, np.int32)
    for i in range(70):
        for tt in range(i % 3, n[i], 2):
            if tt * 4 + 4 <= 16:
                want[i, tt * 4 : tt * 4 + 4] = tt * 100 + np.arange(4)
            else:
                want[i, i % 4 :: 4] += 1
    return Run(k_arms_in_a_loop, (n, empty((70, 16), mp.i32)), {1: want}, grid=2, block=35)


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
    out[t] = acc


@case(gangs=True, blocks=(16, 33))
def test_a_uniform_loop_inside_a_per_item_loop(block):
    x = np.random.default_rng(0).integers(0, 99, 100).astype(np.int32)
    want = np.array([x[t::block].sum() * 120 for t in range(block)])
    return Run(k_uniform_loop_in_a_per_item_loop, (x, empty(block, mp.i32)), {1: want}, grid=1, block=block)


@mp.kernel
def k_uniform_split_in_a_per_item_loop(x, out, mode: mp.i32):
    t = mp.thread_id(0)
    acc = 0
    r = t
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
    out[t] = acc


@case(gangs=True)
def test_a_uniform_split_inside_a_per_item_loop():
    x = np.random.default_rng(0).integers(0, 99, 150).astype(np.int32)

    def f(t, mode):
        acc = 0
        for r in range(t, 150, 16):
            if mode == 0:
                acc += x[r]
            elif mode == 1:
                acc += x[r] * 2
                if acc > 500:
                    break
            else:
                acc += 3 * x[r]
        return acc

    return [
        Run(k_uniform_split_in_a_per_item_loop, (x, empty(16, mp.i32), m), {1: np.array([f(t, m) for t in range(16)])}, grid=1, block=16)
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
    # a matrix-vector shape: the reduce is in a function, after a lane-strided loop
    w = mp.subgroup.size()
    lane = mp.subgroup.lane()
    row = mp.global_id(0) // w
    while row < x.shape[0]:
        total = strided_sum(x, lane, w, row)
        if lane == 0:
            out[row] = total
        row += mp.num_workgroups(0) * mp.workgroup_size(0) // w


@case(requires=SG, gangs="all")
def test_a_reduce_inside_a_device_function_in_a_loop():
    x = np.random.default_rng(0).integers(-9, 9, (37, 100)).astype(np.int32)
    return Run(k_reduce_in_a_function, (x, empty(37, mp.i32)), {1: x.sum(1)}, grid=2)


@mp.kernel
def k_nobody_enters(x, out, counter):
    # every item of most groups returns; a uniform loop after it reads a slot that nobody wrote
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


@case(gangs=True)
def test_groups_that_have_left_run_no_later_loop():
    x = np.array([5, 1, 2, 3, 4, 5, 99], np.int32)
    return Run(k_nobody_enters, (x, empty(64, mp.i32), np.zeros(1, np.int32)), {1: np.full(64, 15), 2: [9]}, grid=9)


@mp.kernel
def k_scan_in_a_loop(x, out):
    # a scan in each pass of a loop: its result is used by the lane itself after the loop's last barrier
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    carry = 0
    for p in range(4):
        s[t] = x[p * 64 + t]
        mp.barrier()
        d = 1
        while d < 64:
            v = s[t]
            if t >= d:
                v += s[t - d]
            mp.barrier()
            s[t] = v
            mp.barrier()
            d *= 2
        out[p * 64 + t] = carry + s[t]
        carry += s[63]
        mp.barrier()


@case(gangs="all")
def test_a_scan_with_a_carry_in_a_loop():
    x = np.random.default_rng(0).integers(-9, 9, 256).astype(np.int32)
    return Run(k_scan_in_a_loop, (x, empty(256, mp.i32)), {1: x.cumsum()}, grid=1)


@mp.kernel
def k_compaction(x, out, count):
    # flags under a divergent branch, a scan of them across barriers, and a scatter by what it gave
    t = mp.thread_id(0)
    s = mp.shared((2, 64), mp.i32)
    keep = 0
    if x[t] % 3 == 0:
        keep = 1
    s[0, t] = keep
    mp.barrier()
    side = 0
    d = 1
    while d < 64:
        v = s[side, t]
        if t >= d:
            v += s[side, t - d]
        s[1 - side, t] = v
        side = 1 - side
        d = d * 2
        mp.barrier()
    if keep == 1:
        out[s[side, t] - 1] = x[t]
    if t == 63:
        count[0] = s[side, 63]


@case(gangs="all")
def test_compaction_by_a_scan():
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)
    kept = x[x % 3 == 0]
    want = np.full(64, 77)
    want[: kept.size] = kept
    return Run(k_compaction, (x, empty(64, mp.i32), np.zeros(1, np.int32)), {1: want, 2: [kept.size]}, grid=1)


@mp.kernel
def k_top_k(x, out):
    # a selection loop with a group reduction in each trip; k is counted again inside a branch
    t = mp.thread_id(0)
    best = mp.shared(64, mp.i32)
    mine = x[t]
    k = 0
    while k < 5:
        best[t] = mine * 64 + t
        mp.barrier()
        h = 32
        while h > 0:
            if t < h:
                best[t] = max(best[t], best[t + h])
            mp.barrier()
            h //= 2
        top = best[0]
        mp.barrier()
        if t == 0:
            out[k] = top // 64
        if top % 64 == t:
            mine = -1
        k += 1
    if t == 0:
        k = 0
        total = 0
        while k < 5:
            total += out[k]
            k += 1
        out[5] = total


@case(gangs="all")
def test_top_k_selection():
    x = np.random.default_rng(0).integers(0, 999, 64).astype(np.int32)
    top = np.sort(x)[::-1][:5]
    return Run(k_top_k, (x, empty(6, mp.i32)), {1: [*top, top.sum()]}, grid=1)


@mp.kernel
def k_break_out_of_a_barrier_loop(x, out):
    # a uniform break out of a loop with a barrier, decided by shared memory
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    done = mp.shared(1, mp.i32)
    s[t] = x[t]
    trips = 0
    for r in range(50):
        mp.barrier()
        if t == 0:
            done[0] = 1 if s[0] > 40 else 0
        mp.barrier()
        if mp.uniform(done[0] == 1):
            break
        v = s[(t + 1) % 64]
        mp.barrier()
        s[t] = v + 1
        trips = r + 1
    out[t] = s[t] * 100 + trips


@case(gangs=True)
def test_a_uniform_break_out_of_a_barrier_loop():
    x = np.arange(64, dtype=np.int32)
    s, trips = x.copy(), 0
    for r in range(50):
        if s[0] > 40:
            break
        s = np.roll(s, -1) + 1
        trips = r + 1
    return Run(k_break_out_of_a_barrier_loop, (x, empty(64, mp.i32)), {1: s * 100 + trips}, grid=1)


@mp.kernel
def k_lane_masks(x, size, a, b, c):
    # power-of-two masks of the work-item id, at several strides, each under a reduce
    t = mp.thread_id(0)
    size[0] = mp.subgroup.size()
    a[t] = mp.subgroup.sum(x[t & 15])
    b[t] = mp.subgroup.sum(x[(t % 16) * 3])
    c[t] = mp.subgroup.sum(x[(mp.i64(t) & 31) * 2])


@case(requires=SG, gangs="all", blocks=(16, 64, 33))
def test_masks_of_the_item_id_under_a_reduce(block):
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)

    def expect(x, size, *_):
        outs = [np.zeros(block, np.int32) for _ in range(3)]
        for group in lanes(int(size[0]), block):
            t = np.array(group)
            for out, index in zip(outs, (t & 15, t % 16 * 3, (t & 31) * 2), strict=True):
                out[group] = x[index].sum()
        return {1: size, 2: outs[0], 3: outs[1], 4: outs[2]}

    args = (x, np.zeros(1, np.int32), *(empty(block, mp.i32) for _ in range(3)))
    return Run(k_lane_masks, args, expect, grid=1, block=block)


@mp.kernel
def k_store_on_both_arms(x, bias, y, flag: mp.i32):
    # a store on each arm of a branch, and a load of another array beside it
    i = mp.global_id(0)
    total = x[i] * 2
    if i % 5 == flag:
        y[i] = total + bias[i]
    else:
        y[i] = total


@case(gangs=True)
def test_a_store_on_each_arm():
    x, bias = np.arange(128, dtype=np.float32), np.arange(128, dtype=np.float32) * 10
    want = np.where(np.arange(128) % 5 == 3, x * 2 + bias, x * 2)
    return [
        Run(k_store_on_both_arms, (x, bias, empty(128, mp.f32), 3), {2: want}, grid=2),
        Run(k_store_on_both_arms, (x, bias, bias.copy(), 3), {2: want}, grid=2),
    ]


@mp.kernel
def k_returning_arm(x, out, which: mp.i32):
    # an arm that returns, before a uniform split inside a guard
    i = mp.global_id(0)
    if i < 100:
        if x[i] < 0:
            out[i] = -1
            return
        if which == 0:
            for k in range(x[i]):
                out[i] = k
        else:
            out[i] = which * 10
    out[i] += 1000


@case(gangs="all")
def test_a_returning_arm_before_a_uniform_split():
    x = np.random.default_rng(0).integers(-3, 6, 128).astype(np.int32)

    def f(i, which):
        if i < 100:
            if x[i] < 0:
                return -1
            o = (x[i] - 1 if x[i] > 0 else 77) if which == 0 else which * 10
            return o + 1000
        return 1077

    return [
        Run(k_returning_arm, (x, empty(128, mp.i32), w), {1: np.array([f(i, w) for i in range(128)])}, grid=2) for w in (0, 3)
    ]
