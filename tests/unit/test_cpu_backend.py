"""The cpu backend against NumPy: control flow, memory forms, barriers, at several gangs and with partial gangs."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

GANGS = (4, 8, 16, 32, 64)
F = np.float32


def run(kernel, grid, block, *args, **options):
    kernel.launch(grid=grid, block=block, args=args, device="cpu", **options)


@mp.kernel
def k_paths(x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        r = mp.f32(0)
        if v > 0.5:
            r = v * 2.0
        elif v > 0.25:
            r = v - 1.0
        else:
            for k in range(3):
                r += v + mp.f32(k)
        y[i] = r


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize(("n", "block"), [(1000, 256), (77, 10), (3, 64), (513, 33), (64, 64)])
def test_branches_and_partial_gangs(gang, n, block):
    x = np.random.default_rng(n).random(n, dtype=F)
    y = np.full(n + 40, 7, F)
    run(k_paths, -(-n // block), block, x, y[:n], gang=gang)
    third = ((x + F(0)) + (x + F(1))) + (x + F(2))
    assert (y[:n] == np.where(x > 0.5, x * F(2), np.where(x > 0.25, x - F(1), third))).all()
    assert (y[n:] == 7).all()


@mp.kernel
def k_loops(x: mp.Array[mp.i32], out: mp.Array[mp.i32], trips: mp.i32):
    i = mp.global_id(0)
    if i >= out.shape[0]:
        return
    n = 0
    s = 0
    while True:
        n += 1
        if n > trips:
            break
        v = x[(i + n) % x.shape[0]]
        if v % 3 == 0:
            continue
        if v % 31 == 30:
            out[i] = -s
            return
        s += v
        if s > 500:
            break
    out[i] = s * 100 + n


def loops_reference(x, size, trips):
    out = np.zeros(size, np.int32)
    for i in range(size):
        n = s = 0
        while True:
            n += 1
            if n > trips:
                out[i] = s * 100 + n
                break
            v = int(x[(i + n) % len(x)])
            if v % 3 == 0:
                continue
            if v % 31 == 30:
                out[i] = -s
                break
            s += v
            if s > 500:
                out[i] = s * 100 + n
                break
    return out


@pytest.mark.parametrize("gang", GANGS)
def test_break_continue_and_return_of_some_lanes(gang):
    x = np.random.default_rng(5).integers(0, 100, 257).astype(np.int32)
    out = np.zeros(500, np.int32)
    run(k_loops, 8, 70, x, out, 40, gang=gang)
    assert (out == loops_reference(x, 500, 40)).all()


@mp.kernel
def k_guarded(p: mp.Array[mp.i32], table: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    s = mp.f32(0)
    k = 0
    while True:
        if k >= p[i]:
            break
        s += table[k]
        k += 1
    out[i] = s


@pytest.mark.parametrize("gang", GANGS)
def test_no_read_with_an_empty_mask(gang):
    table = np.arange(9, dtype=F)
    p = np.array([9, 0, 3, 9] * 10, np.int32)
    out = np.zeros(40, F)
    run(k_guarded, 4, 10, p, table, out, gang=gang)
    assert (out == [table[:n].sum() for n in p]).all()


@mp.kernel
def k_stride(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    total = mp.f32(0)
    while i < x.shape[0]:
        total += x[i]
        i += mp.workgroup_size(0) * mp.num_workgroups(0)
    out[mp.global_id(0)] = total


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("n", [1, 100, 1000])
def test_a_grid_stride_loop_ends_lane_by_lane(gang, n):
    x = np.arange(n, dtype=F)
    out = np.zeros(90, F)
    run(k_stride, 3, 30, x, out, gang=gang)
    assert (out == [x[k::90].sum() for k in range(90)]).all()


@mp.kernel
def k_2d(a: mp.Array[mp.f32, 2], o: mp.Array[mp.f32, 2]):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < a.shape[0] and j < a.shape[1]:
        o[j, i] = a[i, j] + a[a.shape[0] - 1 - i, a.shape[1] - 1 - j]


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("view", ["plain", "transposed", "reversed", "every other"])
def test_two_dimensions_and_strides(gang, view):
    base = np.random.default_rng(1).random((70, 66), dtype=F)
    a = {"plain": base, "transposed": base.T, "reversed": base[::-1, ::-1], "every other": base[::2, ::2]}[view]
    o = np.zeros(a.shape[::-1], F)
    run(k_2d, (9, 24), (8, 3), a, o, gang=gang)
    assert (o == (a + a[::-1, ::-1]).T).all()


@mp.kernel
def k_3d(out: mp.Array[mp.i32, 4]):
    g = mp.workgroup_id(0)
    out[g, mp.thread_id(2), mp.thread_id(1), mp.thread_id(0)] = mp.i32(
        mp.thread_id(0) + 10 * mp.thread_id(1) + 100 * mp.thread_id(2)
    )


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("block", [(5, 3, 2), (16, 2, 2), (1, 7, 3), (33, 1, 2)])
def test_three_dimensional_workgroups(gang, block):
    out = np.zeros((2, *block[::-1]), np.int32)
    run(k_3d, 2, block, out, gang=gang)
    z, y, x = np.indices(block[::-1])
    assert (out == x + 10 * y + 100 * z).all()


@mp.kernel
def k_tree(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    s = mp.shared(mp.workgroup_size(0), mp.f32)
    t = mp.thread_id(0)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    k = mp.workgroup_size(0) // 2
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("block", [1, 2, 16, 64, 256])
def test_tree_reduction_in_dynamic_shared_memory(gang, block):
    x = np.arange(5 * block, dtype=F)
    out = np.zeros(5, F)
    run(k_tree, 5, block, x, out, gang=gang)
    assert (out == x.reshape(5, block).sum(1)).all()


@mp.kernel
def k_keep(x: mp.Array[mp.f32], out: mp.Array[mp.f32], rounds: mp.i32):
    s = mp.shared(64, mp.f32)
    t = mp.thread_id(0)
    keep = mp.f32(0)
    total = mp.f32(0)
    if t % 3 == 0:
        keep = mp.f32(1)
    history = mp.local(4, mp.f32)
    for r in range(rounds):
        s[t] = x[t] + total
        mp.barrier()
        left = s[(t + 1) % mp.workgroup_size(0)]
        mp.barrier()
        total += left * (mp.f32(r) + keep)
        history[r % 4] += left
        if r == 3:
            continue
        mp.barrier()
    out[t] = total + history[0] * 2.0 + history[3]


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("block", [1, 7, 40, 64])
def test_what_lives_across_barriers_is_per_item(gang, block):
    x = np.random.default_rng(2).random(block).astype(F)
    out = np.zeros(block, F)
    run(k_keep, 1, block, x, out, 6, gang=gang)
    keep = (np.arange(block) % 3 == 0).astype(F)
    total, history = np.zeros(block, F), np.zeros((4, block), F)
    for r in range(6):
        left = np.roll(x + total, -1)
        total = total + left * (F(r) + keep)
        history[r % 4] += left
    assert (out == total + history[0] * F(2) + history[3]).all()


@mp.kernel
def k_types(a, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if i % 3 != 1:
            out[i] = a[out.shape[0] - 1 - i]


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_masked_accesses_of_every_width(gang, dtype):
    a = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 100, 75).astype(dtype)
    out = np.zeros(75, dtype)
    run(k_types, 3, 30, a, out, gang=gang)
    assert (out == np.where(np.arange(75) % 3 != 1, a[::-1], 0)).all()


@mp.kernel
def k_same_place(out: mp.Array[mp.i32]):
    i = mp.global_id(0)
    if i % 2 == 1:
        out[0] = mp.i32(i)
    out[1 + i // 8] = mp.i32(i)


@pytest.mark.parametrize("gang", GANGS)
def test_stores_of_a_gang_to_one_place_are_in_lane_order(gang):
    out = np.zeros(10, np.int32)
    run(k_same_place, 1, 70, out, gang=gang)
    assert out[0] == 69
    assert (out[1:] == [7, 15, 23, 31, 39, 47, 55, 63, 69]).all()


@mp.kernel
def k_endless(flag: mp.Array[mp.i32], out: mp.Array[mp.i32]):
    n = 0
    while mp.atomic_load(flag, 0) == 0:
        n += 1
        if n > 100:
            mp.atomic_add(flag, 0, 1)
    out[mp.global_id(0)] = n


def test_waiting_loops_poll_and_end():
    flag, out = np.zeros(1, np.int32), np.zeros(8, np.int32)
    run(k_endless, 1, 8, flag, out)
    assert (out == 101).all()


@mp.kernel
def k_matmul(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < c.shape[0] and j < c.shape[1]:
        s = mp.f32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@mp.kernel
def k_matmul_returns(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    i = mp.global_id(1)
    if i >= c.shape[0]:
        return
    j = mp.global_id(0)
    if j >= c.shape[1]:
        return
    s = mp.f32(0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@mp.kernel
def k_matmul_tiled(a: mp.Array[mp.f32, 2], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 2]):
    ta = mp.shared((8, 8), mp.f32)
    tb = mp.shared((8, 8), mp.f32)
    x = mp.thread_id(0)
    y = mp.thread_id(1)
    i = mp.global_id(1)
    j = mp.global_id(0)
    s = mp.f32(0)
    for t in range(mp.cdiv(a.shape[1], 8)):
        ta[y, x] = a[i, t * 8 + x] if i < a.shape[0] and t * 8 + x < a.shape[1] else 0.0
        tb[y, x] = b[t * 8 + y, j] if t * 8 + y < b.shape[0] and j < b.shape[1] else 0.0
        mp.barrier()
        for k in range(8):
            s += ta[y, k] * tb[k, x]
        mp.barrier()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = s


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("kernel", [k_matmul, k_matmul_returns, k_matmul_tiled], ids=["guard", "returns", "tiled"])
@pytest.mark.parametrize("shape", [(33, 20, 21), (8, 8, 8), (5, 64, 40)])
def test_teams_of_gangs(gang, kernel, shape):
    n, k, m = shape
    rng = np.random.default_rng(4)
    a, b, c = rng.random((n, k), dtype=F), rng.random((k, m), dtype=F), np.zeros((n, m), F)
    for block in [(8, 8)] if kernel is k_matmul_tiled else [(8, 8), (16, 5), (32, 1), (4, 3)]:
        c[:] = -1
        run(kernel, (-(-m // block[0]), -(-n // block[1])), block, a, b, c, gang=gang)
        want = np.zeros((n, m), F)
        for p in range(k):
            want += a[:, p : p + 1] * b[p : p + 1]
        assert (c == want).all()


@mp.kernel
def k_large(x: mp.Array[mp.f32], at: mp.Array[mp.i32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = mp.f32(0)
        for k in mp.static_range(60):
            if x[i] > 0.01 * k:
                s += x[at[(i + k) % 64]]
                out[63 - i] = s
        out[63 - i] = s


@pytest.mark.parametrize("gang", GANGS)
def test_a_large_kernel_takes_loops_over_lanes(gang):
    rng = np.random.default_rng(6)
    x, at, out = rng.random(64, dtype=F), rng.permutation(64).astype(np.int32), np.zeros(64, F)
    run(k_large, 3, 30, x, at, out, gang=gang)
    want = np.zeros(64, F)
    for k in range(60):
        want = np.where(x > F(0.01 * k), want + x[at[(np.arange(64) + k) % 64]], want)
    assert (out[::-1] == want).all()


@mp.kernel
def k_some(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if x[i] > 0.5:
            out[i] = x[i] * 2.0


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("order", [np.sort, lambda x: x], ids=["gangs agree", "gangs differ"])
def test_stores_under_a_condition(order, gang):
    x = order(np.random.default_rng(3).random(1000, dtype=F))
    out = np.full(1000, 7, F)
    run(k_some, 4, 256, x, out, gang=gang)
    assert np.array_equal(out, np.where(x > 0.5, x * F(2), F(7)))
