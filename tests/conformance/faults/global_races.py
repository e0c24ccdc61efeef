"""Races in global memory, and waiting that cannot end."""

import numpy as np

import magpie as mp

from .corpus import fault, lookalike


def i32(n):
    return np.arange(n, dtype=np.int32)


def zeros(n):
    return np.zeros(n, np.int32)


@fault(lambda: (i32(128), zeros(1)), grid=2)
@mp.kernel
def sum_without_atomics(x, total):
    total[0] += x[mp.global_id(0)]  # FAULT: MPG_SAN_1001


@lookalike(lambda: (i32(128), zeros(1)), grid=2)
@mp.kernel
def sum_with_atomics(x, total):
    mp.atomic_add(total, 0, x[mp.global_id(0)])


@fault(lambda: (i32(64) // 2, zeros(64)))
@mp.kernel
def scatter_with_duplicates(index, out):
    i = mp.global_id(0)
    out[index[i]] = i  # FAULT: MPG_SAN_1001


@lookalike(lambda: (i32(64)[::-1].copy(), zeros(64)))
@mp.kernel
def scatter_of_a_permutation(index, out):
    i = mp.global_id(0)
    out[index[i]] = i


@fault(lambda: (i32(130),), grid=2)
@mp.kernel
def stencil_in_place(x):
    i = mp.global_id(0) + 1
    x[i] = x[i - 1] + x[i + 1]  # FAULT: MPG_SAN_1001


@lookalike(lambda: (i32(130), zeros(130)), grid=2)
@mp.kernel
def stencil_to_another_array(x, out):
    i = mp.global_id(0) + 1
    out[i] = x[i - 1] + x[i + 1]


@fault(lambda: (zeros(2), zeros(128)), grid=2)
@mp.kernel
def groups_talk_through_plain_memory(flag, out):
    g = mp.workgroup_id(0)
    if mp.thread_id(0) == 0 and g == 0:
        flag[0] = 7
    if g == 1:
        out[mp.global_id(0)] = flag[0]  # FAULT: MPG_SAN_1001


@lookalike(lambda: (zeros(2), zeros(128)), grid=2)
@mp.kernel
def each_group_has_its_own_flag(flag, out):
    g = mp.workgroup_id(0)
    if mp.thread_id(0) == 0:
        flag[g] = 7
    mp.barrier()
    out[mp.global_id(0)] = flag[g]


@fault(lambda: (i32(256), zeros(4), zeros(1), zeros(1)), grid=4)
@mp.kernel
def last_block_without_a_fence(x, partial, done, out):
    t = mp.thread_id(0)
    g = mp.workgroup_id(0)
    if t == 0:
        total = 0
        for k in range(64):
            total += x[g * 64 + k]
        partial[g] = total
        if mp.atomic_add(done, 0, 1) == mp.num_workgroups(0) - 1:
            all_ = 0
            for k in range(mp.num_workgroups(0)):
                all_ += partial[k]  # FAULT: MPG_SAN_1001
            out[0] = all_


@lookalike(lambda: (i32(256), zeros(4), zeros(1), zeros(1)), grid=4)
@mp.kernel
def last_block_with_fences(x, partial, done, out):
    t = mp.thread_id(0)
    g = mp.workgroup_id(0)
    if t == 0:
        total = 0
        for k in range(64):
            total += x[g * 64 + k]
        partial[g] = total
        mp.fence()
        if mp.atomic_add(done, 0, 1) == mp.num_workgroups(0) - 1:
            mp.fence()
            all_ = 0
            for k in range(mp.num_workgroups(0)):
                all_ += partial[k]
            out[0] = all_


@fault(lambda: (i32(128), zeros(128), zeros(128)), grid=2)
@mp.kernel
def barrier_does_not_order_groups(x, tmp, out):
    i = mp.global_id(0)
    tmp[i] = x[i] + 1
    mp.barrier()
    out[i] = tmp[(i + 1) % tmp.shape[0]]  # FAULT: MPG_SAN_1001


@lookalike(lambda: (i32(128), zeros(128), zeros(128)), grid=2)
@mp.kernel
def barrier_orders_a_group(x, tmp, out):
    i = mp.global_id(0)
    base = mp.workgroup_id(0) * 64
    tmp[i] = x[i] + 1
    mp.barrier()
    out[i] = tmp[base + (mp.thread_id(0) + 1) % 64]


def _overlapping():
    base = i32(65)
    return base[:64], base[1:]


def _apart():
    base = i32(128)
    return base[:64], base[64:]


@fault(_overlapping)
@mp.kernel
def two_names_for_one_element(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * 2  # FAULT: MPG_SAN_1001


@lookalike(_apart)
@mp.kernel
def two_names_for_two_halves(x, y):
    i = mp.global_id(0)
    y[i] = x[i] * 2


@fault(lambda: (zeros(256),))
@mp.kernel
def rows_that_overlap(out):
    i = mp.global_id(0)
    for k in range(4):
        out[i * 3 + k] = i  # FAULT: MPG_SAN_1001


@lookalike(lambda: (zeros(256),))
@mp.kernel
def rows_that_touch(out):
    i = mp.global_id(0)
    for k in range(4):
        out[i * 4 + k] = i


@fault(lambda: (zeros(2),), grid=2)
@mp.kernel
def plain_read_of_an_atomic_counter(count):
    mp.atomic_add(count, 0, 1)
    if mp.thread_id(0) == 0:
        mp.atomic_max(count, 1, count[0])  # FAULT: MPG_SAN_1001


@lookalike(lambda: (zeros(2),), grid=2)
@mp.kernel
def atomic_read_of_an_atomic_counter(count):
    mp.atomic_add(count, 0, 1)
    if mp.thread_id(0) == 0:
        mp.atomic_max(count, 1, mp.atomic_load(count, 0))


@fault(lambda: (zeros(1), zeros(1)))
@mp.kernel
def lock_taken_by_every_item(lock, out):
    while mp.atomic_cas(lock, 0, 0, 1) != 0:  # FAULT: MPG_SAN_1012
        pass
    out[0] += 1
    mp.atomic_exchange(lock, 0, 0)


@lookalike(lambda: (zeros(1), zeros(1)), grid=3)
@mp.kernel
def lock_taken_by_one_item_of_a_group(lock, out):
    if mp.thread_id(0) == 0:
        while mp.atomic_cas(lock, 0, 0, 1) != 0:
            pass
        mp.fence()
        out[0] += 1
        mp.fence()
        mp.atomic_exchange(lock, 0, 0)


@fault(lambda: (zeros(1), zeros(64)))
@mp.kernel
def waits_for_an_item_that_cannot_run(flag, out):
    t = mp.thread_id(0)
    if t != 0:
        while mp.atomic_load(flag, 0) == 0:  # FAULT: MPG_SAN_1012
            pass
    else:
        mp.atomic_store(flag, 0, 0)
    out[t] = 1


@lookalike(lambda: (i32(64), zeros(4)))
@mp.kernel
def writes_by_one_item_in_a_loop(x, out):
    if mp.global_id(0) == 3:
        for k in range(64):
            out[k % 4] += x[k]
