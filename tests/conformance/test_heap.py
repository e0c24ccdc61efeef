"""Memory from the device's heap: each work-item's own, found by nobody else."""

from __future__ import annotations

import numpy as np

import magpie as mp

from .harness import Run, case, empty

NEEDS = ("device_malloc",)
TYPES = (mp.i32, mp.f32, mp.f64, mp.u8, mp.i16, mp.i64, mp.f16, mp.bf16, mp.bool_)


@mp.kernel(requires=NEEDS)
def k_reverse(x, y, n: mp.i32):
    i = mp.global_id(0)
    p = mp.malloc(n, x.dtype)
    for j in range(n):
        p[j] = x[i, j]
    for j in range(n):
        y[i, j] = p[n - 1 - j]
    mp.free(p)


@case(dtypes=TYPES, requires=NEEDS, blocks=(64, 33), gangs=True)
def test_each_work_item_has_its_own(t, block):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2 if t.is_bool else 100, (2 * block, 7)).astype(t.numpy)
    y = empty((2 * block, 7), t)
    return Run(k_reverse, (x, y, 7), {1: x[:, ::-1]}, grid=2, block=block)


@mp.kernel(requires=NEEDS)
def k_divergent(x, y):
    i = mp.global_id(0)
    n = x[i]
    if n % 3 != 0:
        p = mp.malloc(n, mp.i64)
        q = mp.malloc(n, mp.i32)
        for j in range(n):
            p[j] = j * i
            q[j] = j - i
        total = mp.i64(0)
        for j in range(n):
            total += p[j] * 3 + q[j]
        mp.free(q)
        mp.free(p)
        y[i] = total
    else:
        y[i] = -1


@case(requires=NEEDS, blocks=(64, 100), gangs=True)
def test_sizes_and_lives_differ(block):
    n = 3 * block
    x = np.random.default_rng(2).integers(1, 40, n).astype(np.int32)
    i, c = np.arange(n, dtype=np.int64), x.astype(np.int64)
    sums = c * (c - 1) // 2
    want = np.where(x % 3 != 0, 3 * sums * i + sums - c * i, -1)
    return Run(k_divergent, (x, empty(n, mp.i64)), {1: want}, grid=3, block=block)


@mp.kernel(requires=NEEDS)
def k_again(y, trips: mp.i32):
    i = mp.global_id(0)
    total = mp.u32(0)
    for k in range(trips):
        p = mp.malloc(k + 1, mp.u32)
        p[k] = mp.u32(i) * 17 + mp.u32(k)
        total += p[k]
        mp.free(p)
    y[i] = total


@case(requires=NEEDS, gangs=True)
def test_freed_memory_is_used_again():
    i = np.arange(128, dtype=np.uint32)
    return Run(k_again, (empty(128, mp.u32), 50), {0: i * 17 * 50 + 49 * 50 // 2}, grid=2, block=64)


@mp.kernel(requires=NEEDS)
def k_nothing(x, y):
    i = mp.global_id(0)
    p = mp.malloc(x[i], mp.f64)
    y[i] = 1 if p else 0
    mp.free(p)


@case(requires=NEEDS, gangs=True)
def test_what_cannot_be_given_is_null():
    x = np.array([1, 0, -1, 2, -(2**62), 2**62, 2**61 + 1, 2**39] * 8, np.int64)
    return Run(k_nothing, (x, empty(64, mp.i32)), {1: np.array([1, 0, 0, 1, 0, 0, 0, 0] * 8)}, grid=1, block=64)


@mp.kernel(requires=NEEDS)
def k_update(y):
    i = mp.global_id(0)
    p = mp.malloc(4, mp.i32)
    q = p
    for j in mp.static_range(4):
        p[j] = i
    q[1] += 5
    p[2], p[3] = p[1], p[0] * 2
    y[i] = q[1] * 10000 + q[2] * 100 + q[3] + len(p)
    mp.free(q)


@case(requires=NEEDS, gangs=True)
def test_names_and_updates():
    i = np.arange(32)
    return Run(k_update, (empty(32, mp.i32),), {0: (i + 5) * 10100 + 2 * i + 4}, grid=1, block=32)
