"""Races in shared memory."""

import numpy as np

import magpie as mp

from .corpus import fault, lookalike


def i32(n=64):
    return np.arange(n, dtype=np.int32)


def two(n=64):
    return i32(n), np.zeros(n, np.int32)


@fault(two)
@mp.kernel
def exchange_without_a_barrier(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    y[t] = s[t ^ 1]  # FAULT: MPG_SAN_1002


@lookalike(two)
@mp.kernel
def exchange_with_a_barrier(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    y[t] = s[t ^ 1]


@lookalike(two)
@mp.kernel
def own_element_without_a_barrier(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    y[t] = s[t]


@fault(two)
@mp.kernel
def tree_without_a_barrier_in_the_loop(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]  # FAULT: MPG_SAN_1002
        k //= 2
    if t == 0:
        y[0] = s[0]


@lookalike(two)
@mp.kernel
def tree_with_a_barrier_in_the_loop(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        y[0] = s[0]


@fault(two)
@mp.kernel
def tree_whose_halves_overlap(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k - 1]  # FAULT: MPG_SAN_1002
        mp.barrier()
        k //= 2
    y[t] = s[0]


@lookalike(two)
@mp.kernel
def interleaved_tree(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.barrier()
    k = 1
    while k < 64:
        if t % (2 * k) == 0:
            s[t] += s[t + k]
        mp.barrier()
        k *= 2
    y[t] = s[0]


@fault(two)
@mp.kernel
def all_write_one_element(x, y):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    s[0] = x[t]  # FAULT: MPG_SAN_1002
    mp.barrier()
    y[t] = s[0]


@lookalike(two)
@mp.kernel
def one_writes_one_element(x, y):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    if t == 5:
        s[0] = x[t]
    mp.barrier()
    y[t] = s[0]


@fault(two, race="strict")
@mp.kernel
def all_write_the_same_value_strict(x, y):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    s[0] = x[3]  # FAULT: MPG_SAN_1002
    mp.barrier()
    y[t] = s[0]


@lookalike(two)
@mp.kernel
def all_write_the_same_value(x, y):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    s[0] = x[3]
    mp.barrier()
    y[t] = s[0]


@fault(two)
@mp.kernel
def next_write_before_the_last_read(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    for _ in range(3):
        mp.barrier()
        v = s[(t + 1) % 64]
        s[t] = v  # FAULT: MPG_SAN_1002
    mp.barrier()
    y[t] = s[t]


@lookalike(two)
@mp.kernel
def next_write_after_the_last_read(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    for _ in range(3):
        mp.barrier()
        v = s[(t + 1) % 64]
        mp.barrier()
        s[t] = v
    mp.barrier()
    y[t] = s[t]


@fault(two)
@mp.kernel
def histogram_without_atomics(x, y):
    t = mp.thread_id(0)
    h = mp.shared(16, mp.i32)
    if t < 16:
        h[t] = 0
    mp.barrier()
    h[x[t] % 16] += 1  # FAULT: MPG_SAN_1002
    mp.barrier()
    if t < 16:
        y[t] = h[t]


@lookalike(two)
@mp.kernel
def histogram_with_atomics(x, y):
    t = mp.thread_id(0)
    h = mp.shared(16, mp.i32)
    if t < 16:
        h[t] = 0
    mp.barrier()
    mp.atomic_add(h, x[t] % 16, 1)
    mp.barrier()
    if t < 16:
        y[t] = h[t]


@fault(two)
@mp.kernel
def plain_read_beside_atomics(x, y):
    t = mp.thread_id(0)
    n = mp.shared(1, mp.i32)
    if t == 0:
        n[0] = 0
    mp.barrier()
    mp.atomic_add(n, 0, x[t])
    y[t] = n[0]  # FAULT: MPG_SAN_1002


@lookalike(two)
@mp.kernel
def plain_read_after_atomics_and_a_barrier(x, y):
    t = mp.thread_id(0)
    n = mp.shared(1, mp.i32)
    if t == 0:
        n[0] = 0
    mp.barrier()
    mp.atomic_add(n, 0, x[t])
    mp.barrier()
    y[t] = n[0]


@fault(lambda: (np.zeros((8, 8), np.int32), np.zeros((8, 8), np.int32)), block=(8, 8))
@mp.kernel
def tile_read_before_the_barrier(x, y):
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tile = mp.shared((8, 8), mp.i32)
    tile[ty, tx] = x[ty, tx] + ty * 8 + tx
    v = tile[tx, ty]  # FAULT: MPG_SAN_1002
    mp.barrier()
    y[ty, tx] = v


@lookalike(lambda: (np.zeros((8, 8), np.int32), np.zeros((8, 8), np.int32)), block=(8, 8))
@mp.kernel
def tile_read_after_the_barrier(x, y):
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tile = mp.shared((8, 8), mp.i32)
    tile[ty, tx] = x[ty, tx] + ty * 8 + tx
    mp.barrier()
    v = tile[tx, ty]
    y[ty, tx] = v


@fault(two)
@mp.kernel
def single_buffer_scan(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    d = 1
    while d < 64:
        mp.barrier()
        if t >= d:
            s[t] += s[t - d]  # FAULT: MPG_SAN_1002
        d *= 2
    mp.barrier()
    y[t] = s[t]


@lookalike(two)
@mp.kernel
def double_buffer_scan(x, y):
    t = mp.thread_id(0)
    s = mp.shared((2, 64), mp.i32)
    s[0, t] = x[t]
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
    y[t] = s[cur, t]


@fault(two)
@mp.kernel
def broadcast_without_a_barrier(x, y):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    if t == 0:
        s[0] = x[7]
    y[t] = s[0] + 1  # FAULT: MPG_SAN_1002


@fault(two)
@mp.kernel
def subgroup_barrier_for_the_whole_group(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.subgroup.barrier()
    y[t] = s[63 - t]  # FAULT: MPG_SAN_1002


@lookalike(two)
@mp.kernel
def subgroup_barrier_within_a_subgroup(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    mp.subgroup.barrier()
    y[t] = s[t ^ 1]


@fault(lambda: (i32(64), np.zeros(64, np.int32)))
@mp.kernel
def shuffles_order_no_memory(x, y):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    v = mp.subgroup.shuffle_xor(x[t], 1)
    y[t] = s[t ^ 1] + v  # FAULT: MPG_SAN_1002
