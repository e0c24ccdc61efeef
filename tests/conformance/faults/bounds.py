"""Accesses outside of an array, in every dimension and memory."""

import numpy as np

import magpie as mp

from .corpus import fault, lookalike


def i32(n):
    return np.arange(n, dtype=np.int32)


def zeros(*shape):
    return np.zeros(shape, np.int32)


@fault(lambda: (i32(100), zeros(128)), grid=2)
@mp.kernel
def unguarded_read(x, out):
    i = mp.global_id(0)
    out[i] = x[i]  # FAULT: MPG_SAN_1003


@fault(lambda: (i32(128), zeros(100)), grid=2)
@mp.kernel
def unguarded_write(x, out):
    i = mp.global_id(0)
    out[i] = x[i]  # FAULT: MPG_SAN_1004


@lookalike(lambda: (i32(100), zeros(100)), grid=2)
@mp.kernel
def guarded_copy(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i]


@lookalike(lambda: (i32(100), zeros(100)), grid=2)
@mp.kernel
def guarded_by_an_early_return(x, out):
    i = mp.global_id(0)
    if i >= x.shape[0]:
        return
    out[i] = x[i]


@fault(lambda: (i32(64), zeros(64)))
@mp.kernel
def one_past_the_end(x, out):
    i = mp.global_id(0)
    out[i + 1] = x[i]  # FAULT: MPG_SAN_1004


@lookalike(lambda: (i32(64), zeros(65)))
@mp.kernel
def one_past_is_inside(x, out):
    i = mp.global_id(0)
    out[i + 1] = x[i]


@fault(lambda: (i32(64), zeros(64)))
@mp.kernel
def negative_index(x, out):
    i = mp.global_id(0)
    out[i] = x[i - 1]  # FAULT: MPG_SAN_1003


@lookalike(lambda: (i32(64), zeros(64)))
@mp.kernel
def negative_index_behind_and(x, out):
    i = mp.global_id(0)
    if i > 0 and x[i - 1] >= 0:
        out[i] = x[i - 1]


@lookalike(lambda: (i32(64), zeros(64)))
@mp.kernel
def negative_index_behind_a_conditional(x, out):
    i = mp.global_id(0)
    out[i] = x[i - 1] if i > 0 else -1


@fault(lambda: (zeros(4, 16), zeros(4, 16)), block=(16, 4))
@mp.kernel
def past_the_row_but_inside_the_array(x, out):
    j = mp.thread_id(0)
    i = mp.thread_id(1)
    out[i, j] = x[i, j + 1]  # FAULT: MPG_SAN_1003


@lookalike(lambda: (zeros(4, 17), zeros(4, 16)), block=(16, 4))
@mp.kernel
def past_the_row_of_a_wider_array(x, out):
    j = mp.thread_id(0)
    i = mp.thread_id(1)
    out[i, j] = x[i, j + 1]


@fault(lambda: (zeros(4, 16), zeros(4, 16)), block=(16, 4))
@mp.kernel
def swapped_indices(x, out):
    j = mp.thread_id(0)
    i = mp.thread_id(1)
    out[j, i] = x[i, j]  # FAULT: MPG_SAN_1004


@lookalike(lambda: (zeros(4, 16), zeros(16, 4)), block=(16, 4))
@mp.kernel
def transposed_indices(x, out):
    j = mp.thread_id(0)
    i = mp.thread_id(1)
    out[j, i] = x[i, j]


@fault(lambda: (i32(64), zeros(64)))
@mp.kernel
def halo_off_by_one(x, out):
    t = mp.thread_id(0)
    s = mp.shared(66, mp.i32)
    s[t + 1] = x[t]
    if t == 0:
        s[0] = 0
        s[65] = 0
    mp.barrier()
    out[t] = s[t + 1] + s[t + 2] + s[t + 3]  # FAULT: MPG_SAN_1003


@lookalike(lambda: (i32(64), zeros(64)))
@mp.kernel
def halo_right(x, out):
    t = mp.thread_id(0)
    s = mp.shared(66, mp.i32)
    s[t + 1] = x[t]
    if t == 0:
        s[0] = 0
        s[65] = 0
    mp.barrier()
    out[t] = s[t] + s[t + 1] + s[t + 2]


@fault(lambda: (i32(64), i32(32), zeros(64)))
@mp.kernel
def lookup_past_the_table(x, table, out):
    i = mp.global_id(0)
    out[i] = table[x[i] // 2 + 1]  # FAULT: MPG_SAN_1003


@lookalike(lambda: (i32(64), i32(32), zeros(64)))
@mp.kernel
def lookup_clamped(x, table, out):
    i = mp.global_id(0)
    out[i] = table[min(x[i] // 2 + 1, table.shape[0] - 1)]


@lookalike(lambda: (i32(64) % 33, i32(32), zeros(64)))
@mp.kernel
def search_that_breaks_before_the_end(x, table, out):
    i = mp.global_id(0)
    s = 0
    k = 0
    while True:
        if k >= x[i]:
            break
        s += table[k]
        k += 1
    out[i] = s


@fault(lambda: (i32(64), zeros(64)))
@mp.kernel
def local_array_overrun(x, out):
    i = mp.global_id(0)
    a = mp.local(8, mp.i32)
    for k in range(9):
        a[k] = x[i] + k  # FAULT: MPG_SAN_1004
    out[i] = a[7]


@lookalike(lambda: (i32(64), zeros(64)))
@mp.kernel
def local_array_filled(x, out):
    i = mp.global_id(0)
    a = mp.local(8, mp.i32)
    for k in range(8):
        a[k] = x[i] + k
    out[i] = a[x[i] % 8]


@mp.func
def sum_too_far(row):
    s = 0
    for j in range(row.shape[0] + 1):
        s += row[j]  # FAULT: MPG_SAN_1003
    return s


@mp.func
def sum_of_row(row):
    s = 0
    for j in range(row.shape[0]):
        s += row[j]
    return s


@fault(lambda: (zeros(64, 5), zeros(64)))
@mp.kernel
def row_view_overrun(x, out):
    i = mp.global_id(0)
    out[i] = sum_too_far(x[i])


@lookalike(lambda: (zeros(64, 5), zeros(64)))
@mp.kernel
def row_view(x, out):
    i = mp.global_id(0)
    out[i] = sum_of_row(x[i])


@fault(lambda: (i32(150), zeros(151)), grid=2, block=16)
@mp.kernel
def grid_stride_one_too_many(x, out):
    i = mp.global_id(0)
    while i <= x.shape[0]:
        out[i] = x[i]  # FAULT: MPG_SAN_1003
        i += mp.num_workgroups(0) * mp.workgroup_size(0)


@lookalike(lambda: (i32(150), zeros(150)), grid=2, block=16)
@mp.kernel
def grid_stride(x, out):
    i = mp.global_id(0)
    while i < x.shape[0]:
        out[i] = x[i]
        i += mp.num_workgroups(0) * mp.workgroup_size(0)


@fault(lambda: (i32(64), zeros(16)))
@mp.kernel
def atomic_past_the_end(x, hist):
    i = mp.global_id(0)
    mp.atomic_add(hist, x[i] // 3, 1)  # FAULT: MPG_SAN_1004


@lookalike(lambda: (i32(64), zeros(16)))
@mp.kernel
def atomic_inside(x, hist):
    i = mp.global_id(0)
    mp.atomic_add(hist, x[i] // 4, 1)


@fault(lambda: (i32(64)[::-2], zeros(64)))
@mp.kernel
def past_the_end_of_a_strided_view(x, out):
    i = mp.global_id(0)
    out[i] = x[i]  # FAULT: MPG_SAN_1003


@lookalike(lambda: (i32(128)[::-2], zeros(64)))
@mp.kernel
def all_of_a_strided_view(x, out):
    i = mp.global_id(0)
    out[i] = x[i]
