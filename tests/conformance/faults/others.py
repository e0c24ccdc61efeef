"""Uninitialised reads, divergent barriers, arithmetic, shuffles and asserts."""

import numpy as np

import magpie as mp

from .corpus import fault, lookalike

OVERFLOW = ("overflow",)
MIN = -(2**31)


def i32(n=64):
    return np.arange(n, dtype=np.int32)


def zeros(n=64):
    return np.zeros(n, np.int32)


def two():
    return i32(), zeros()


# --- uninitialised shared memory ----------------------------------------------------------------------------------------
@fault(lambda: (i32(50), zeros()))
@mp.kernel
def guard_leaves_elements_unset(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    if t < x.shape[0]:
        s[t] = x[t]
    mp.barrier()
    out[t] = s[63 - t]  # FAULT: MPG_SAN_1005


@lookalike(lambda: (i32(50), zeros()))
@mp.kernel
def guard_with_a_default(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t] if t < x.shape[0] else 0
    mp.barrier()
    out[t] = s[63 - t]


@fault(two)
@mp.kernel
def halo_never_filled(x, out):
    t = mp.thread_id(0)
    s = mp.shared(65, mp.i32)
    s[t + 1] = x[t]
    mp.barrier()
    out[t] = s[t + 1] - s[t]  # FAULT: MPG_SAN_1005


@lookalike(two)
@mp.kernel
def halo_filled_by_item_0(x, out):
    t = mp.thread_id(0)
    s = mp.shared(65, mp.i32)
    s[t + 1] = x[t]
    if t == 0:
        s[0] = 0
    mp.barrier()
    out[t] = s[t + 1] - s[t]


@fault(lambda: (np.ones((8, 8), np.int32), np.zeros((8, 8), np.int32)), block=(8, 8))
@mp.kernel
def tile_filled_in_part(x, out):
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tile = mp.shared((8, 8), mp.i32)
    if tx <= ty:
        tile[ty, tx] = x[ty, tx]
    mp.barrier()
    out[ty, tx] = tile[ty, 7 - tx]  # FAULT: MPG_SAN_1005


@lookalike(lambda: (np.ones((8, 8), np.int32), np.zeros((8, 8), np.int32)), block=(8, 8))
@mp.kernel
def tile_filled_and_read_in_part(x, out):
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tile = mp.shared((8, 8), mp.i32)
    if tx <= ty:
        tile[ty, tx] = x[ty, tx]
    mp.barrier()
    if tx >= ty:
        out[ty, tx] = tile[tx, ty]


@fault(lambda: (i32(), zeros(), 64))
@mp.kernel
def dynamic_array_with_a_gap(x, out, n: mp.i32):
    t = mp.thread_id(0)
    s = mp.shared(n + 1, mp.i32)
    s[t] = x[t]
    mp.barrier()
    out[t] = s[t + 1]  # FAULT: MPG_SAN_1005


@lookalike(lambda: (i32(), zeros(), 64))
@mp.kernel
def dynamic_array_without_a_gap(x, out, n: mp.i32):
    t = mp.thread_id(0)
    s = mp.shared(n + 1, mp.i32)
    s[t] = x[t]
    if t == 0:
        s[n] = 9
    mp.barrier()
    out[t] = s[t + 1]


@fault(two, grid=1)
@mp.kernel
def accumulates_from_nothing(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] += x[t]  # FAULT: MPG_SAN_1005
    out[t] = s[t]


@lookalike(two)
@mp.kernel
def local_arrays_start_at_zero(x, out):
    t = mp.thread_id(0)
    a = mp.local(4, mp.i32)
    a[1] += x[t]
    out[t] = a[0] + a[1]


# --- barriers -----------------------------------------------------------------------------------------------------------
@fault(two)
@mp.kernel
def barrier_under_a_varying_branch(x, out):
    t = mp.thread_id(0)
    if t < 32:  # FAULT: MPG_CORE_1400
        mp.barrier()
    out[t] = x[t]


@lookalike(lambda: (i32(), zeros(), 3))
@mp.kernel
def barrier_under_a_uniform_branch(x, out, mode: mp.i32):
    t = mp.thread_id(0)
    if mode < 32:
        mp.barrier()
    out[t] = x[t]


@fault(two)
@mp.kernel
def uniform_asserted_in_vain(x, out):
    t = mp.thread_id(0)
    if mp.uniform(x[t] > 10):  # FAULT: MPG_SAN_1013
        out[t] = 1


@lookalike(two)
@mp.kernel
def uniform_asserted_rightly(x, out):
    t = mp.thread_id(0)
    if mp.uniform(x[t] >= 0):
        mp.barrier()
    out[t] = 1


@fault(two)
@mp.kernel
def trips_asserted_in_vain(x, out):
    t = mp.thread_id(0)
    n = 0
    for _ in range(mp.uniform(x[t] % 3)):  # FAULT: MPG_SAN_1013
        n += 1
    out[t] = n


@lookalike(two)
@mp.kernel
def barrier_in_a_uniform_loop(x, out):
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    if t == 0:
        s[0] = 3
    mp.barrier()
    n = 0
    for _ in range(mp.uniform(s[0])):
        mp.barrier()
        n += 1
    out[t] = n


# --- arithmetic -----------------------------------------------------------------------------------------------------------
@fault(lambda: (i32() + 50_000, zeros()), checks=OVERFLOW)
@mp.kernel
def square_overflows(x, out):
    i = mp.global_id(0)
    out[i] = x[i] * x[i]  # FAULT: MPG_SAN_1007


@lookalike(lambda: (i32() + 50_000, np.zeros(64, np.int64)), checks=OVERFLOW)
@mp.kernel
def square_in_64_bits(x, out):
    i = mp.global_id(0)
    out[i] = mp.i64(x[i]) * x[i]


@lookalike(lambda: (np.arange(64, dtype=np.uint32) + np.uint32(70_000), np.zeros(64, np.uint32)), checks=OVERFLOW)
@mp.kernel
def unsigned_wraps_on_purpose(x, out):
    i = mp.global_id(0)
    out[i] = x[i] * x[i] - 5_000_000


@lookalike(lambda: (i32() + 50_000, zeros()))
@mp.kernel
def overflow_is_reported_on_request_only(x, out):
    i = mp.global_id(0)
    out[i] = x[i] * x[i]


@fault(lambda: (np.full(64, 2**30, np.int32), zeros(1)), checks=OVERFLOW)
@mp.kernel
def sum_overflows(x, out):
    if mp.global_id(0) == 0:
        s = 0
        for k in range(3):
            s += x[k]  # FAULT: MPG_SAN_1007
        out[0] = s


@fault(lambda: (np.full(64, MIN, np.int32), zeros()), checks=OVERFLOW)
@mp.kernel
def negation_overflows(x, out):
    i = mp.global_id(0)
    out[i] = -x[i]  # FAULT: MPG_SAN_1007


@fault(lambda: (np.full(64, MIN, np.int32), zeros()), checks=OVERFLOW)
@mp.kernel
def absolute_value_overflows(x, out):
    i = mp.global_id(0)
    out[i] = abs(x[i])  # FAULT: MPG_SAN_1007


@lookalike(lambda: (np.full(64, MIN + 1, np.int32), zeros()), checks=OVERFLOW)
@mp.kernel
def the_largest_negation(x, out):
    i = mp.global_id(0)
    out[i] = -x[i] + abs(x[i]) * 0


@lookalike(lambda: (np.full(64, 2**31 - 1, np.int32), zeros()), checks=OVERFLOW)
@mp.kernel
def overflow_of_masked_lanes(x, out):
    i = mp.global_id(0)
    if x[i] < 1000:
        out[i] = x[i] * x[i]


@fault(two)
@mp.kernel
def division_by_zero(x, out):
    i = mp.global_id(0)
    out[i] = 100 // x[i]  # FAULT: MPG_SAN_1008


@fault(two)
@mp.kernel
def remainder_by_zero(x, out):
    i = mp.global_id(0)
    out[i] = x[i] % (x[i] - 7)  # FAULT: MPG_SAN_1008


@lookalike(two)
@mp.kernel
def division_behind_a_guard(x, out):
    i = mp.global_id(0)
    if x[i] != 0:
        out[i] = 100 // x[i]


@lookalike(two)
@mp.kernel
def division_behind_a_conditional(x, out):
    i = mp.global_id(0)
    out[i] = 100 % x[i] if x[i] > 0 else 0


@lookalike(lambda: (np.zeros(64, np.float32), np.zeros(64, np.float32)))
@mp.kernel
def float_division_by_zero(x, out):
    i = mp.global_id(0)
    out[i] = 1.0 / x[i]


# --- subgroups, asserts -----------------------------------------------------------------------------------------------------
@fault(two)
@mp.kernel
def shuffle_from_an_inactive_lane(x, out):
    t = mp.thread_id(0)
    v = x[t]
    if mp.subgroup.lane() % 2 == 0:
        v = mp.subgroup.shuffle(v, mp.subgroup.lane() + 1)  # FAULT: MPG_SAN_1010
    out[t] = v


@lookalike(two)
@mp.kernel
def shuffle_outside_of_the_branch(x, out):
    t = mp.thread_id(0)
    v = x[t]
    w = mp.subgroup.shuffle(v, mp.subgroup.lane() ^ 1)
    if mp.subgroup.lane() % 2 == 0:
        v = w
    out[t] = v


@fault(lambda: (i32(33), zeros(33)), block=33)
@mp.kernel
def shuffle_past_a_partial_subgroup(x, out):
    t = mp.thread_id(0)
    out[t] = mp.subgroup.shuffle(x[t], (mp.subgroup.lane() + 1) % mp.subgroup.size())  # FAULT: MPG_SAN_1010


@lookalike(lambda: (i32(33), zeros(33)), block=33)
@mp.kernel
def shuffle_down_in_a_partial_subgroup(x, out):
    t = mp.thread_id(0)
    out[t] = mp.subgroup.shuffle_down(x[t], 1)


@fault(two)
@mp.kernel
def assert_that_fails(x, out):
    i = mp.global_id(0)
    assert x[i] < 60, "too large"  # FAULT: MPG_SAN_1011
    out[i] = x[i]


@lookalike(two)
@mp.kernel
def assert_that_holds(x, out):
    i = mp.global_id(0)
    if x[i] < 60:
        assert x[i] < 60
    out[i] = x[i]
