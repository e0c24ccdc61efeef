"""Shared memory and barriers, every shape that the CPU backend's history had trouble with."""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty

B = 256


@mp.kernel
def k_tree_for(x, out):
    # the same with `for`, over a workgroup of any size that is a power of two, and a guard on the load
    t = mp.thread_id(0)
    i = mp.global_id(0)
    n = mp.workgroup_size(0)
    s = mp.shared(256, mp.f32)
    s[t] = x[i] if i < x.shape[0] else 0.0
    mp.barrier()
    half = n // 2
    for _ in range(8):
        if t < half:
            s[t] = s[t] + s[t + half]
        half = half // 2
        mp.barrier()
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@case(gangs=True, blocks=(1, 16, 64, 256))
def test_tree_reduction_with_a_guarded_load(block):
    x = np.arange(200, dtype=np.float32)
    groups = mp.cdiv(200, block)
    padded = np.zeros(groups * block, np.float32)
    padded[:200] = x
    return Run(k_tree_for, (x, empty(groups, mp.f32)), {1: padded.reshape(groups, block).sum(1)}, grid=groups, block=block)


@mp.kernel
def k_neighbours_types(x, out, T: mp.constexpr):
    t = mp.thread_id(0)
    s = mp.shared(64, T)
    s[t] = x[t]
    mp.barrier()
    out[t] = s[(t + 7) % 64]


@case(dtypes=o.ALL, gangs=True)
def test_shared_memory_of_every_type(t):
    x = o.values(t, 64)
    return Run(k_neighbours_types, (x, empty(64, t), t), {1: np.roll(x, -7)}, grid=1)


@mp.kernel
def k_double_buffer(x, out):
    # a 2-D shared array as two buffers whose roles alternate
    t = mp.thread_id(0)
    s = mp.shared((2, 64), mp.i32)
    s[0, t] = x[mp.global_id(0)]
    cur = 0
    d = 1
    while d < 64:
        mp.barrier()
        v = s[cur, t]
        if t >= d:
            v += s[cur, t - d]
        s[1 - cur, t] = v
        cur = 1 - cur
        d *= 2
    mp.barrier()
    out[mp.global_id(0)] = s[cur, t]


@case(gangs=True)
def test_hillis_steele_scan():
    x = np.random.default_rng(0).integers(-9, 9, 128).astype(np.int32)
    return Run(k_double_buffer, (x, empty(128, mp.i32)), {1: x.reshape(2, 64).cumsum(1)}, grid=2)


@mp.kernel
def k_barrier_in_uniform_branch(x, out, mode: mp.i32):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    if mode > 0:
        mp.barrier()
        v = s[(t + 1) % 64]
        if mode > 1:
            mp.barrier()
            s[t] = v
            mp.barrier()
            v = s[(t + 1) % 64]
    else:
        v = -1
    out[t] = v


@case(gangs=True)
def test_barriers_in_uniform_branches():
    x = np.arange(64, dtype=np.int32)
    want = {0: np.full(64, -1), 1: np.roll(x, -1), 2: np.roll(x, -2)}
    return [Run(k_barrier_in_uniform_branch, (x, empty(64, mp.i32), m), {1: w}, grid=1) for m, w in want.items()]


@mp.kernel
def k_divergent_loop_between_barriers(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    n = 0
    v = s[(t + 3) % 64]
    while v > 1:
        if v % 2 == 0:
            v //= 2
        else:
            v = 3 * v + 1
        n += 1
    mp.barrier()
    s[t] = n
    mp.barrier()
    out[t] = s[(t + 1) % 64]


@case(gangs=True, blocks=(64,))
def test_divergent_loop_between_barriers(block):
    from .test_control import collatz

    x = np.random.default_rng(0).integers(1, 60, 64).astype(np.int32)
    n = np.array([collatz(int(v)) for v in np.roll(x, -3)])
    return Run(k_divergent_loop_between_barriers, (x, empty(64, mp.i32)), {1: np.roll(n, -1)}, grid=1, block=block)


@mp.kernel
def k_tile_transpose(x, out):
    tile = mp.shared((8, 9), mp.f32)
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    x0 = mp.workgroup_id(0) * 8
    y0 = mp.workgroup_id(1) * 8
    if y0 + ty < x.shape[0] and x0 + tx < x.shape[1]:
        tile[ty, tx] = x[y0 + ty, x0 + tx]
    mp.barrier()
    if x0 + ty < out.shape[0] and y0 + tx < out.shape[1]:
        out[x0 + ty, y0 + tx] = tile[tx, ty]


@case(gangs=True)
def test_tiled_transpose():
    x = o.values(mp.f32, 21 * 37).reshape(21, 37)
    return Run(k_tile_transpose, (x, empty((37, 21), mp.f32)), {1: x.T.copy()}, grid=(5, 3), block=(8, 8))


@mp.kernel
def k_tiled_matmul(a, b, c):
    sa = mp.shared((8, 8), mp.f32)
    sb = mp.shared((8, 8), mp.f32)
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    col = mp.global_id(0)
    row = mp.global_id(1)
    acc = 0.0
    for k0 in range(0, a.shape[1], 8):
        sa[ty, tx] = a[row, k0 + tx] if row < a.shape[0] and k0 + tx < a.shape[1] else 0.0
        sb[ty, tx] = b[k0 + ty, col] if k0 + ty < b.shape[0] and col < b.shape[1] else 0.0
        mp.barrier()
        for k in range(8):
            acc += sa[ty, k] * sb[k, tx]
        mp.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = acc


@case(gangs=True)
def test_tiled_matmul():
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (19, 21)).astype(np.float32)
    b = rng.integers(-4, 5, (21, 27)).astype(np.float32)
    return Run(k_tiled_matmul, (a, b, empty((19, 27), mp.f32)), {2: a @ b}, grid=(4, 3), block=(8, 8))


@mp.func
def group_sum(s, t, v):
    s[t] = v
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] = s[t] + s[t + k]
        mp.barrier()
        k //= 2
    r = s[0]
    mp.barrier()
    return r


@mp.kernel
def k_barrier_in_function(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s = mp.shared(64, mp.f32)
    total = group_sum(s, t, x[i])
    centred = x[i] - total / 64.0
    spread = group_sum(s, t, centred * centred)
    out[i] = centred + spread


@case(gangs="all")
def test_a_function_with_barriers_called_twice():
    x = np.random.default_rng(0).integers(-8, 8, 128).astype(np.float32)
    rows = x.reshape(2, 64).astype(np.float32)
    centred = rows - rows.sum(1, keepdims=True, dtype=np.float64).astype(np.float32) / np.float32(64)
    spread = np.float32(0)
    want = np.empty_like(rows)
    for g in range(2):
        s = centred[g] * centred[g]
        k = 32
        while k:
            s[:k] = s[:k] + s[k : 2 * k]
            k //= 2
        spread = s[0]
        want[g] = centred[g] + spread
    return Run(k_barrier_in_function, (x, empty(128, mp.f32)), {1: want}, grid=2)


@mp.func
def shared_in_function(x, t):
    s = mp.shared(64, mp.i32)
    s[t] = x[t] * 2
    mp.barrier()
    return s[63 - t]


@mp.kernel
def k_shared_in_function(x, out):
    t = mp.thread_id(0)
    out[t] = shared_in_function(x, t) + 1


@case(gangs=True)
def test_shared_array_declared_in_a_function():
    x = np.arange(64, dtype=np.int32)
    return Run(k_shared_in_function, (x, empty(64, mp.i32)), {1: x[::-1] * 2 + 1}, grid=1)


@mp.kernel
def k_shared_flag(x, out):
    # a shared scalar written by one item and read by all
    t = mp.thread_id(0)
    found = mp.shared(1, mp.i32)
    if t == 0:
        found[0] = -1
    mp.barrier()
    if x[mp.global_id(0)] == 7:
        found[0] = t
    mp.barrier()
    out[mp.global_id(0)] = found[0]


@case(gangs=True)
def test_broadcast_through_shared_memory():
    x = np.zeros((3, 64), np.int32)
    x[0, 5] = x[2, 63] = 7
    want = np.repeat([[5], [-1], [63]], 64, axis=1)
    return Run(k_shared_flag, (x.ravel(), empty(192, mp.i32)), {1: want.ravel()}, grid=3)


@mp.kernel
def k_uniform_shared_loop(x, out):
    # a loop bound read from shared memory at a uniform address
    t = mp.thread_id(0)
    n = mp.shared(1, mp.i32)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    if t == 0:
        n[0] = x[0] % 5 + 2
    mp.barrier()
    trips = n[0]
    mp.barrier()
    for _ in range(mp.uniform(trips)):
        v = s[(t + 1) % 64]
        mp.barrier()
        s[t] = v
        mp.barrier()
    out[t] = s[t]


@case(gangs=True)
def test_a_trip_count_from_shared_memory():
    x = np.arange(64, dtype=np.int32) + 13
    return Run(k_uniform_shared_loop, (x, empty(64, mp.i32)), {1: np.roll(x, -(13 % 5 + 2))}, grid=1)


@mp.kernel
def k_histogram(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    h = mp.shared(16, mp.i32)
    if t < 16:
        h[t] = 0
    mp.barrier()
    if i < x.shape[0]:
        mp.atomic_add(h, x[i] & 15, 1)
    mp.barrier()
    if t < 16:
        mp.atomic_add(out, t, h[t])


@case(dtypes=(mp.i32, mp.u8), gangs="all", blocks=(16, 33, 64, 256))
def test_histogram(t, block):
    x = np.random.default_rng(0).integers(0, 120, 500).astype(t.numpy)
    want = np.bincount(x & 15, minlength=16)
    return Run(k_histogram, (x, np.zeros(16, np.int32)), {1: want}, grid=mp.cdiv(500, block), block=block)


@mp.kernel
def k_halo(x, out):
    # a 1-D stencil with a halo of 2 on each side, in a tile of workgroup_size + 4
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.global_id(0)
    s = mp.shared(mp.workgroup_size(0) + 4, mp.f32)
    s[t + 2] = x[g] if g < x.shape[0] else 0.0
    if t < 2:
        s[t] = x[g - 2] if g >= 2 else 0.0
        s[t + n + 2] = x[g + n] if g + n < x.shape[0] else 0.0
    mp.barrier()
    if g < x.shape[0]:
        acc = 0.0
        for k in range(5):
            acc += s[t + k] * (k + 1)
        out[g] = acc


@case(gangs=True, blocks=(16, 33, 64))
def test_stencil_with_halo(block):
    x = np.random.default_rng(0).integers(-9, 9, 150).astype(np.float32)
    padded = np.concatenate([np.zeros(2), x, np.zeros(2)])
    want = sum(padded[k : k + 150] * (k + 1) for k in range(5)).astype(np.float32)
    return Run(k_halo, (x, empty(150, mp.f32)), {1: want}, grid=mp.cdiv(150, block), block=block)


@mp.kernel
def k_bitonic(x):
    t = mp.thread_id(0)
    s = mp.shared(128, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    k = 2
    while k <= 128:
        j = k // 2
        while j > 0:
            p = t ^ j
            if p > t:
                a = s[t]
                b = s[p]
                if (a > b) == ((t & k) == 0):
                    s[t] = b
                    s[p] = a
            mp.barrier()
            j //= 2
        k *= 2
    x[mp.global_id(0)] = s[t]


@case(gangs=True)
def test_bitonic_sort():
    x = np.random.default_rng(0).integers(-999, 999, 256).astype(np.int32)
    return Run(k_bitonic, (x,), {0: np.sort(x.reshape(2, 128), axis=1).ravel()}, grid=2, block=128)


@mp.kernel
def k_values_live_across(x, out):
    # many values of many types live across a barrier
    t = mp.thread_id(0)
    s = mp.shared(64, mp.f32)
    a = x[t]
    b = mp.i32(a) * 3
    c = mp.u8(b)
    d = a > 2.0
    e = mp.f64(a) / 3.0
    s[t] = a
    mp.barrier()
    f = s[63 - t]
    s2 = f + a
    mp.barrier()
    s[t] = s2
    mp.barrier()
    r = s[(t + 1) % 64] + b + c
    if d:
        r += mp.f32(e)
    out[t] = r


@case(requires=("f64",), gangs=True)
def test_values_of_many_types_live_across_barriers():
    a = np.random.default_rng(0).integers(0, 30, 64).astype(np.float32)
    b = a.astype(np.int32) * 3
    r = np.roll(a[::-1] + a, -1) + b.astype(np.float32) + b.astype(np.uint8).astype(np.float32)
    want = np.where(a > 2, r + (a.astype(np.float64) / 3).astype(np.float32), r).astype(np.float32)
    return Run(k_values_live_across, (a, empty(64, mp.f32)), {1: want}, grid=1)


@mp.kernel
def k_global_between_items(x, tmp, out):
    # barrier orders buffer memory within the workgroup too
    i = mp.global_id(0)
    n = mp.workgroup_size(0)
    base = mp.workgroup_id(0) * n
    tmp[i] = x[i] * 2
    mp.barrier()
    out[i] = tmp[base + (mp.thread_id(0) + 1) % n]


@case(gangs=True, blocks=(16, 33))
def test_barrier_orders_buffers_within_the_group(block):
    x = np.arange(block * 3, dtype=np.int32)
    want = np.roll(x.reshape(3, block), -1, axis=1) * 2
    return Run(k_global_between_items, (x, empty(block * 3, mp.i32), empty(block * 3, mp.i32)), {1: x * 2, 2: want.ravel()}, grid=3, block=block)


@mp.kernel
def k_local_array_across_barrier(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    a = mp.local(3, mp.i32)
    for k in range(3):
        a[k] = x[t] + k * t
    s[t] = a[1]
    mp.barrier()
    a[0] += s[(t + 1) % 64]
    mp.barrier()
    out[t] = a[0] + a[1] * 2 + a[2] * 3


@case(gangs=True)
def test_local_array_lives_across_a_barrier():
    x = np.random.default_rng(0).integers(0, 9, 64).astype(np.int32)
    t = np.arange(64)
    want = (x + np.roll(x + t, -1)) + (x + t) * 2 + (x + 2 * t) * 3
    return Run(k_local_array_across_barrier, (x, empty(64, mp.i32)), {1: want}, grid=1)


@mp.kernel
def k_counts_in_barrier_loops(x, out, seen):
    # shared counters that a loop with barriers only counts up, and such that it reads in another interval of each trip
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    g = mp.workgroup_id(0)
    total = mp.shared(16, mp.i32)
    each = mp.shared(16, mp.i32)
    k = t
    while k < 16:
        total[k] = 0
        each[k] = 0
        k += n
    mp.barrier()
    acc = 0
    for r in range(4):
        v = (x[mp.global_id(0)] + r) & 15
        mp.atomic_add(total, v, r + 1)
        mp.atomic_max(each, v, x[mp.global_id(0)])
        mp.barrier()
        acc += each[(t + r) % 16]
        mp.barrier()
    seen[mp.global_id(0)] = acc
    k = t
    while k < 16:
        out[g, k] = total[k]
        k += n


@case(gangs="all", blocks=(33, 256))
def test_counting_in_a_loop_with_barriers(block):
    x = np.random.default_rng(0).integers(0, 99, (2, block)).astype(np.int32)
    total, each, acc = np.zeros((2, 16), np.int32), np.zeros((2, 16), np.int32), np.zeros((2, block), np.int32)
    for r in range(4):
        for g in range(2):
            np.add.at(total[g], (x[g] + r) & 15, r + 1)
            np.maximum.at(each[g], (x[g] + r) & 15, x[g])
        acc += each[:, (np.arange(block) + r) % 16]
    return Run(k_counts_in_barrier_loops, (x.ravel(), empty((2, 16), mp.i32), empty(x.size, mp.i32)), {1: total, 2: acc.ravel()}, grid=2, block=block)


@mp.kernel
def k_set_by_arms(x, both, one):
    s = mp.shared(64, mp.i32)
    t = mp.thread_id(0)
    i = mp.global_id(0)
    kept = 0
    total = 0
    stayed = 0
    for d in range(1, 6):
        s[t] = x[i] + d
        mp.barrier()
        left = s[t - d] if t >= d else -d  # set in both arms: lives in this part of the trip only
        if (t + d) % 3 == 0:
            kept = d * 10  # set in one: what an earlier trip left is still there
        total = total * 3 + left
        stayed = stayed * 3 + kept
        mp.barrier()
    both[i] = total
    one[i] = stayed


@case(gangs="all", blocks=(33, 64))
def test_slots_that_arms_set_between_barriers(block):
    x = np.random.default_rng(2).integers(0, 99, (2, block)).astype(np.int32)
    t = np.arange(block)
    total, kept, stayed = (np.zeros((2, block), np.int32) for _ in range(3))
    for d in range(1, 6):
        left = np.full((2, block), -d, np.int32)
        left[:, d:] = x[:, :-d] + d
        kept[:, (t + d) % 3 == 0] = d * 10
        total = total * 3 + left
        stayed = stayed * 3 + kept
    args = (x.ravel(), empty(x.size, mp.i32), empty(x.size, mp.i32))
    return Run(k_set_by_arms, args, {1: total.ravel(), 2: stayed.ravel()}, grid=2, block=block)


@mp.kernel
def k_local_after_local(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    first = mp.local(5, mp.i32)
    second = mp.local(5, mp.i32)
    for k in range(5):
        first[k] = x[i] + k
    for k in range(4):  # the last element is still zero
        second[k] = x[i] * k
    s = mp.shared(64, mp.i32)
    s[t] = first[x[i] % 5]
    mp.barrier()
    out[i] = s[t] * 1000 + first[t % 5] * 10 + second[t % 5]


@case(gangs="all", blocks=(33, 64))
def test_local_arrays_filled_or_not(block):
    """Workgroups take turns with the same memory, so that what is not zeroed shows."""
    x = np.random.default_rng(4).integers(1, 99, 8 * block).astype(np.int32)
    k = np.tile(np.arange(block) % 5, 8)
    want = (x + x % 5) * 1000 + (x + k) * 10 + np.where(k < 4, x * k, 0)
    return Run(k_local_after_local, (x, empty(x.size, mp.i32)), {1: want}, grid=8, block=block)
