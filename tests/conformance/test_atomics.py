"""Atomics: every kind on every type, contended and not, on buffers and in shared memory, and the patterns they serve."""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import INTS, values

N = 300
ATOMIC_INTS = (mp.i32, mp.u32, mp.i64, mp.u64)


@mp.kernel
def k_atomic_add(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_add(out, idx[i], x[i])


@mp.kernel
def k_atomic_sub(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_sub(out, idx[i], x[i])


@mp.kernel
def k_atomic_min(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_min(out, idx[i], x[i])


@mp.kernel
def k_atomic_max(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_max(out, idx[i], x[i])


@mp.kernel
def k_atomic_and(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_and(out, idx[i], x[i])


@mp.kernel
def k_atomic_or(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_or(out, idx[i], x[i])


@mp.kernel
def k_atomic_xor(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_xor(out, idx[i], x[i])


def _scatter(f, t, x, idx, start):
    out = list(o.items(start))
    for v, j in zip(o.items(x), idx.tolist(), strict=True):
        out[j] = o.cast(f(out[j], v), t)
    return o.array(out, t)


def _data(t):
    x = values(t, N) if t.is_int else o.plain(t, N)
    idx = np.random.default_rng(0).integers(0, 7, N).astype(np.int32)
    return x, idx, o.plain(t, 9, 5)


@case(dtypes=ATOMIC_INTS, gangs=True)
def test_atomic_add(t):
    x, idx, out = _data(t)
    return Run(k_atomic_add, (x, idx, out), {2: _scatter(lambda a, b: a + b, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS)
def test_atomic_sub(t):
    x, idx, out = _data(t)
    return Run(k_atomic_sub, (x, idx, out), {2: _scatter(lambda a, b: a - b, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS, gangs=True)
def test_atomic_min(t):
    x, idx, out = _data(t)
    return Run(k_atomic_min, (x, idx, out), {2: _scatter(min, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS)
def test_atomic_max(t):
    x, idx, out = _data(t)
    return Run(k_atomic_max, (x, idx, out), {2: _scatter(max, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS)
def test_atomic_and(t):
    x, idx, out = _data(t)
    return Run(k_atomic_and, (x, idx, out), {2: _scatter(lambda a, b: a & b, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS)
def test_atomic_or(t):
    x, idx, out = _data(t)
    return Run(k_atomic_or, (x, idx, out), {2: _scatter(lambda a, b: a | b, t, x, idx, out)}, grid=5)


@case(dtypes=ATOMIC_INTS)
def test_atomic_xor(t):
    x, idx, out = _data(t)
    return Run(k_atomic_xor, (x, idx, out), {2: _scatter(lambda a, b: a ^ b, t, x, idx, out)}, grid=5)


@case(dtypes=(mp.f32,), requires=("atomics_f32",), gangs=True)
def test_atomic_add_f32(t):
    # small integers, so that the order of the additions does not matter
    x = np.random.default_rng(0).integers(-9, 9, N).astype(np.float32)
    idx = np.random.default_rng(1).integers(0, 5, N).astype(np.int32)
    want = np.zeros(5, np.float32)
    np.add.at(want, idx, x)
    return Run(k_atomic_add, (x, idx, np.zeros(5, np.float32)), {2: want}, grid=5)


@case(dtypes=(mp.f64,), requires=("atomics_f64",))
def test_atomic_add_f64(t):
    x = np.random.default_rng(0).integers(-9, 9, N).astype(np.float64)
    idx = np.random.default_rng(1).integers(0, 5, N).astype(np.int32)
    want = np.zeros(5)
    np.add.at(want, idx, x)
    return Run(k_atomic_add, (x, idx, np.zeros(5)), {2: want}, grid=5)


@case(dtypes=(mp.f32,), requires=("atomics_f32",))
def test_atomic_sub_min_max_f32(t):
    x = np.random.default_rng(0).integers(-99, 99, N).astype(np.float32)
    idx = np.random.default_rng(1).integers(0, 5, N).astype(np.int32)
    sub, low, high = np.zeros(5, np.float32), np.full(5, np.inf, np.float32), np.full(5, -np.inf, np.float32)
    np.subtract.at(sub, idx, x)
    np.minimum.at(low, idx, x)
    np.maximum.at(high, idx, x)
    return [
        Run(k_atomic_sub, (x, idx, np.zeros(5, np.float32)), {2: sub}, grid=5),
        Run(k_atomic_min, (x, idx, np.full(5, np.inf, np.float32)), {2: low}, grid=5),
        Run(k_atomic_max, (x, idx, np.full(5, -np.inf, np.float32)), {2: high}, grid=5),
    ]


@mp.kernel
def k_old_values(counter, seen):
    i = mp.global_id(0)
    if i < seen.shape[0]:
        old = mp.atomic_add(counter, 0, 1)
        seen[old] = 1


@case(dtypes=(mp.i32, mp.i64), gangs=True)
def test_atomic_add_returns_each_old_value_once(t):
    return Run(k_old_values, (np.zeros(1, t.numpy), np.zeros(N, np.int32)), {0: [N], 1: np.ones(N)}, grid=5)


@mp.kernel
def k_compaction(x, count, out):
    i = mp.global_id(0)
    if i < x.shape[0] and x[i] > 0:
        k = mp.atomic_add(count, 0, 1)
        out[k] = x[i]


@case(gangs=True)
def test_stream_compaction():
    x = np.random.default_rng(0).permutation(N).astype(np.int32) - N // 2

    class Sorted:
        """The order is open: compare as sets."""

    def expect(x, count, out):
        kept = np.sort(x[x > 0])
        assert np.array_equal(np.sort(out[: kept.size]), kept)
        return {1: [kept.size], 2: out}

    return Run(k_compaction, (x, np.zeros(1, np.int32), empty(N, mp.i32)), expect, grid=5)


@mp.kernel
def k_exchange(x, slot, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = mp.atomic_exchange(slot, 0, x[i])


@case(dtypes=(mp.i32, mp.u64, mp.f32), gangs=True)
def test_exchange_passes_every_value_on(t):
    x = (np.arange(N) + 1).astype(t.numpy)

    def expect(x, slot, out):
        everything = np.sort(np.concatenate([out, slot]))
        assert np.array_equal(everything, np.arange(N + 1).astype(t.numpy)), everything
        return {1: slot, 2: out}

    return Run(k_exchange, (x, np.zeros(1, t.numpy), empty(N, t)), expect, grid=5)


@mp.kernel
def k_cas_first(x, slot, winners):
    i = mp.global_id(0)
    if i < x.shape[0]:
        if mp.atomic_cas(slot, x[i], 0, i + 1) == 0:
            winners[x[i]] = i + 1


@case(gangs=True)
def test_cas_has_one_winner():
    x = np.random.default_rng(0).integers(0, 6, N).astype(np.int32)

    def expect(x, slot, winners):
        assert np.array_equal(slot, winners)
        assert all(x[w - 1] == k for k, w in enumerate(slot))
        return {1: slot, 2: winners}

    return Run(k_cas_first, (x, np.zeros(6, np.int64), np.zeros(6, np.int64)), expect, grid=5)


@mp.kernel
def k_cas_max(x, out):
    # a maximum by compare-and-swap: the loop every other atomic can be made of
    i = mp.global_id(0)
    if i < x.shape[0]:
        seen = mp.atomic_load(out, 0)
        while seen < x[i]:
            old = mp.atomic_cas(out, 0, seen, x[i])
            if old == seen:
                break
            seen = old


@case(dtypes=ATOMIC_INTS, gangs=True)
def test_maximum_by_cas(t):
    x = values(t, N)
    return Run(k_cas_max, (x, np.array([t.min], t.numpy)), {1: [x.max()]}, grid=5)


@mp.kernel
def k_lock(data, lock, out):
    # RULES 11: one work-item of each group takes the lock, between barriers
    t = mp.thread_id(0)
    if t == 0:
        while mp.atomic_cas(lock, 0, 0, 1) != 0:
            pass
        mp.fence()
        out[0] = out[0] * 3 + 1 + data[0]
        out[1] += 1
        mp.fence()
        mp.atomic_store(lock, 0, 0, order="release")


@case(gangs=True)
def test_lock_by_one_work_item_of_each_group():
    out = np.zeros(2, np.uint32)
    v = 0
    for _ in range(7):
        v = (v * 3 + 1 + 5) % 2**32
    return Run(k_lock, (np.array([5], np.uint32), np.zeros(1, np.int32), out), {2: [v, 7]}, grid=7, block=16)


@mp.kernel
def k_last_block(x, partial, done, out):
    # the group that finishes last adds the partial sums
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    last = mp.shared(1, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        mp.atomic_store(partial, mp.workgroup_id(0), s[0])
        mp.fence()
        ticket = mp.atomic_add(done, 0, 1)
        last[0] = 1 if ticket == mp.num_workgroups(0) - 1 else 0
    mp.barrier()
    if last[0] == 1 and t == 0:
        mp.fence()
        total = 0
        for g in range(mp.num_workgroups(0)):
            total += mp.atomic_load(partial, g)
        out[0] = total


@case(gangs=True, grids=(1, 2, 7))
def test_last_block_adds_the_partial_sums(grid):
    x = np.random.default_rng(0).integers(-99, 99, 64 * grid).astype(np.int32)
    sums = x.reshape(grid, 64).sum(1)
    args = (x, np.zeros(grid, np.int32), np.zeros(1, np.int32), empty(1, mp.i32))
    return Run(k_last_block, args, {1: sums, 2: [grid], 3: [sums.sum()]}, grid=grid)


@mp.kernel
def k_shared_atomics(x, out):
    t = mp.thread_id(0)
    s = mp.shared(6, mp.i32)
    if t == 0:
        for k in range(6):
            s[k] = 0
        s[3] = 2147483647
        s[4] = -1
    mp.barrier()
    v = x[mp.global_id(0)]
    mp.atomic_add(s, 0, v)
    mp.atomic_or(s, 1, v)
    mp.atomic_max(s, 2, v)
    mp.atomic_min(s, 3, v)
    mp.atomic_and(s, 4, v)
    mp.atomic_xor(s, 5, v)
    mp.barrier()
    if t < 6:
        out[mp.workgroup_id(0), t] = s[t]


@case(gangs=True, blocks=(1, 16, 33, 64))
def test_atomics_in_shared_memory(block):
    x = np.random.default_rng(0).integers(1, 2**20, 3 * block).astype(np.int32)
    rows = x.reshape(3, block)
    f = np.ufunc.reduce
    parts = [
        f(np.add, rows, axis=1),
        f(np.bitwise_or, rows, axis=1),
        rows.max(1),
        rows.min(1),
        f(np.bitwise_and, rows, axis=1),
        f(np.bitwise_xor, rows, axis=1),
    ]
    want = np.full((3, 6), 77, np.int32)
    n = min(block, 6)
    want[:, :n] = np.stack(parts, axis=1)[:, :n]
    return Run(k_shared_atomics, (x, empty((3, 6), mp.i32)), {1: want}, grid=3, block=block)


@mp.kernel
def k_tuple_index(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_add(out, (x[i] % 3, x[i] % 4), 1)


@case(gangs=True)
def test_atomic_with_a_tuple_index():
    x = np.random.default_rng(0).integers(0, 99, N).astype(np.int32)
    want = np.zeros((3, 4), np.int32)
    np.add.at(want, (x % 3, x % 4), 1)
    return Run(k_tuple_index, (x, np.zeros((3, 4), np.int32)), {1: want}, grid=5)


@mp.kernel
def k_atomic_in_divergent_loop(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        j = 0
        while j < x[i]:
            if j % 2 == 0:
                mp.atomic_add(out, j, i)
            j += 1


@case(dtypes=(mp.i64,), gangs=True)
def test_atomics_in_a_divergent_loop(t):
    x = np.random.default_rng(0).integers(-2, 9, N).astype(np.int32)
    want = np.zeros(9, np.int64)
    for i, v in enumerate(x):
        for j in range(0, max(v, 0), 2):
            want[j] += i
    return Run(k_atomic_in_divergent_loop, (x, np.zeros(9, np.int64)), {1: want}, grid=5)


@mp.kernel
def k_load_store(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_store(out, i, mp.atomic_load(x, i))


@case(dtypes=ATOMIC_INTS)
def test_atomic_load_and_store(t):
    x = values(t, 90)
    return Run(k_load_store, (x, empty(90, t)), {1: x.copy()})


@mp.kernel
def k_uniform_address(x, out):
    # every lane of every gang at one address, and the result used
    i = mp.global_id(0)
    if i < x.shape[0]:
        old = mp.atomic_add(out, 0, x[i])
        if old < 0:
            mp.atomic_add(out, 1, 1)


@case(gangs=True)
def test_atomics_at_one_address():
    x = np.ones(N, np.int32)
    return Run(k_uniform_address, (x, np.zeros(2, np.int32)), {1: [N, 0]}, grid=5)


@mp.kernel(requires=("workgroup_order",))
def k_ordered_groups(out, turn):
    # RULES 11: a group may wait for one with a lower id
    t = mp.thread_id(0)
    g = mp.workgroup_id(0)
    if t == 0:
        while mp.atomic_load(turn, 0, order="acquire") != g:
            pass
        out[0] = out[0] * 2 + g
        mp.fence()
        mp.atomic_store(turn, 0, mp.i32(g + 1), order="release")


@case(requires=("workgroup_order",), gangs=True)
def test_groups_wait_on_lower_groups():
    v = 0
    for g in range(9):
        v = v * 2 + g
    return Run(k_ordered_groups, (np.zeros(1, np.int64), np.zeros(1, np.int32)), {0: [v], 1: [9]}, grid=9, block=4)


def test_integers_cover_the_atomic_types():
    assert set(ATOMIC_INTS) < set(INTS)
