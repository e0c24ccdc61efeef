"""Kernels run from source to result on the interpreter, against Python and NumPy."""

from __future__ import annotations

import itertools
import linecache
import math

import numpy as np
import pytest

import magpie as mp


def run(kernel, n, *args, block=64):
    """Launch over ``n`` work-items on the interpreter."""
    kernel.launch(grid=-(-n // block), block=block, args=args, device="interp")


@mp.kernel
def k_acc(x, out):
    acc = 0
    for j in range(x.shape[0]):
        acc += x[j]
    out[0] = acc


def test_acc_types():
    for dt in (np.float32, np.float64, np.uint8, np.uint32, np.int64):
        x = np.arange(10).astype(dt)
        out = np.zeros(1, dt)
        run(k_acc, 1, x, out, block=1)
        assert out[0] == 45, (dt, out)


@mp.kernel
def k_loopvar2(out):
    for i in range(5):
        pass
    out[0] = i
    for j in range(10, 0, -3):
        out[1] = out[1] + j
    out[2] = j
    s = 0
    while True:
        s += 1
        if s > 7:
            v = s
            break
    out[3] = v
    for i in range(3):
        if i == 5:
            break
    else:
        out[4] = 99
    while s > 0:
        s -= 1
        if s == 3:
            break
    else:
        out[5] = 5


def test_loopvar2():
    out = np.zeros(6, np.int32)
    run(k_loopvar2, 1, out, block=1)
    assert out.tolist() == [4, 22, 1, 8, 99, 0], out


@mp.func
def sq(v):
    return v * v


@mp.func
def divmod2(a, b):
    return a // b, a % b


@mp.func
def dot(r, s, n=3):
    acc = 0.0
    for k in range(n):
        acc += r[k] * s[k]
    return acc


@mp.func
def clampf(v, lo=0.0, *, hi=1.0):
    if v < lo:
        return lo
    if v > hi:
        return hi
    return v


@mp.kernel
def k_func(x, out):
    i = mp.global_id(0)
    if i >= x.shape[0]:
        return
    row = x[i]
    out[i, 0] = dot(row, x[0])
    q, r = divmod2(i, 3)
    out[i, 1] = q
    out[i, 2] = r
    out[i, 3] = clampf(x[i, 0], hi=2.5)
    out[i, 4] = sq(x[i, 1]) + sq(2)


def test_funcs():
    x = np.random.rand(10, 3).astype(np.float32) * 4 - 1
    out = np.zeros((10, 5), np.float32)
    run(k_func, 10, x, out)
    exp = np.stack([x @ x[0], np.arange(10) // 3, np.arange(10) % 3, np.clip(x[:, 0], 0, 2.5), x[:, 1] ** 2 + 4], 1)
    assert np.allclose(out, exp, atol=1e-5), (out, exp)


@mp.struct
class P:
    x: mp.f32
    y: mp.f32


@mp.struct
class B:
    p: P
    m: mp.i32 = 7


@mp.func
def add(a: P, b):
    return P(a.x + b.x, a.y + b.y)


@mp.kernel
def k_struct(ps, bs, c: P):
    i = mp.global_id(0)
    if i < ps.shape[0]:
        p = ps[i]
        p.x = p.x + 1
        p.y *= 2
        p = add(p, c)
        ps[i] = p
        ps[i].x += 1
        b = B(p)
        b.p.x = 5
        b.m += 1
        bs[i] = b
        bs[i].p.y = p.y if i > 2 else -1
        q = p if i % 2 == 0 else c
        ps[i].y = q.y


def test_structs():
    ps = np.zeros(5, P.numpy)
    ps["x"] = np.arange(5)
    ps["y"] = 1
    bs = np.zeros(5, B.numpy)
    run(k_struct, 5, ps, bs, P(10, 20))
    assert ps["x"].tolist() == [12, 13, 14, 15, 16], ps
    assert ps["y"].tolist() == [22, 20, 22, 20, 22], ps
    assert (
        bs["m"].tolist() == [8] * 5
        and bs["p"]["x"].tolist() == [5] * 5
        and bs["p"]["y"].tolist() == [-1, -1, -1, 22, 22]
    ), bs


COEF = (1.0, 2.5, 3.0)
TAB = ((1, 2), (3, 4))
N = 4


@mp.kernel
def k_tab(x, out):
    i = mp.global_id(0)
    if i < 3:
        out[i] = COEF[i] * x[i] + TAB[i % 2][1] + N + COEF[1]
        acc = x[i]
        for k in mp.static_range(len(COEF)):
            acc = acc * x[i] + COEF[k]
        out[i + 3] = acc


def test_tables():
    for dt in (np.float32, np.float64):
        x = np.array([1, 2, 3], dt)
        out = np.zeros(6, dt)
        run(k_tab, 3, x, out)
        a = x.copy()
        for k in COEF:
            a = a * x + dt(k)
        assert np.allclose(out, np.r_[np.array(COEF) * x + [2, 4, 2] + 4 + 2.5, a]), out


@mp.kernel
def k_short(x, idx, out):
    i = mp.global_id(0)
    n = x.shape[0]
    if i < out.shape[0]:
        if idx[i] < n and x[idx[i]] > 0.5:
            out[i] = 1
        elif not (idx[i] < n) or x[idx[i]] < 0.25:
            out[i] = 2
        else:
            out[i] = 3
        j = 0
        while j < n and x[j] < 0.9:
            j += 1
        out[i] += j * 10


def test_short():
    x = np.array([0.1, 0.3, 0.6, 0.95], np.float32)
    idx = np.array([0, 1, 2, 3, 4, 100])
    out = np.zeros(6, np.int32)
    run(k_short, 6, x, idx, out)
    assert out.tolist() == [32, 33, 31, 31, 32, 32], out


@mp.kernel
def k_view(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        s = x[i, 1:7:2]
        out[i, 0] = s[0] + s[s.shape[0] - 1]
        out[i, 1] = len(s)
        row = x[0]
        for k in range(3):
            out[i, 2] += row[k]
            row = x[k + 1]
        col = x[:, 2]
        out[i, 3] = col[i] * col.strides[0]
        sub = x[1:3][0]
        out[i, 4] = sub[i]
        out[i, 5] = x[..., 3][i]


def test_views():
    x = np.arange(80, dtype=np.float32).reshape(8, 10)
    out = np.zeros((8, 6), np.float32)
    run(k_view, 8, x, out)
    exp = np.stack(
        [x[:, 1] + x[:, 5], np.full(8, 3), np.full(8, x[0, 0] + x[1, 1] + x[2, 2]), x[:, 2] * 10, x[1, :8], x[:, 3]], 1
    )
    assert np.allclose(out, exp), (out, exp)


@mp.kernel
def k_cx(x, out, flag: mp.constexpr, bias: mp.constexpr = None):
    i = mp.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        if flag == "relu":
            v = max(v, 0)
        elif flag == "sq":
            K = 2
            v = v**K
        if bias is not None:
            v += bias
        out[i] = v


def test_cexpr():
    x = np.array([-1, 2, 3], np.float32)
    out = np.zeros(3, np.float32)
    run(k_cx, 3, x, out, "relu")
    assert out.tolist() == [0, 2, 3]
    run(k_cx, 3, x, out, "sq")
    assert out.tolist() == [1, 4, 9]
    run(k_cx, 3, x, out, "sq", 2)
    assert out.tolist() == [3, 6, 11], out


@mp.kernel
def k_swap(x):
    a, b = x[0], x[1]
    a, b = b, a
    x[0], x[1] = a, b
    x[2], x[3] = x[3], x[2]
    (c, d), e = (1, 2), 3
    x[4] = c + d * e
    m = n = 5
    x[5] = m + n
    if (w := x[5]) > 3:
        x[6] = w


def test_swap():
    x = np.arange(7, dtype=np.int32)
    run(k_swap, 1, x, block=1)
    assert x.tolist() == [1, 0, 3, 2, 7, 10, 10], x


@mp.kernel
def k_num(x, out):
    i = x[0]
    out[0] = -7 // 2
    out[1] = i // 2
    out[2] = i % 3
    out[3] = 2**i if i > 0 else 0
    out[4] = i**3
    out[5] = (i << 2) | 1
    out[6] = ~i
    out[7] = abs(i) + min(i, 3, 5) + max(i, -1)
    out[8] = int(i / 2)
    out[9] = i in (1, -7, 9)
    out[10] = mp.select(i < 0, 1, 2)
    out[11] = mp.cdiv(i, 4)
    out[12] = not i
    out[13] = True + (i < 0)
    out[14] = int(round(2.5)) + 3 % 2


def test_num():
    x = np.array([-7], np.int32)
    out = np.zeros(15, np.int32)
    run(k_num, 1, x, out, block=1)
    assert out.tolist() == [-4, -4, 2, 0, -343, -27, 6, 7 - 7 - 1, -3, 1, 1, -1, 0, 2, 3], out.tolist()


@mp.kernel
def k_sh(x, out, n):
    s = mp.shared((n, 2), mp.f32)
    t = mp.thread_id(0)
    s[t, 0] = x[t]
    s[t, 1] = 2 * x[t]
    mp.barrier()
    out[t] = s[n - 1 - t, 1]
    loc = mp.local(4, mp.i32)
    loc[t % 4] = t
    out[t] += loc[1]


def test_sh():
    x = np.arange(16, dtype=np.float32)
    out = np.zeros(16, np.float32)
    run(k_sh, 16, x, out, 16, block=16)
    e = 2 * x[::-1].copy()
    e[1::4] += np.arange(16)[1::4]
    assert np.allclose(out, e), out


@mp.kernel
def k_at(h, x, o):
    i = mp.global_id(0)
    if i < x.shape[0]:
        mp.atomic_add(h, x[i], 1)
        mp.atomic_max(o, (0, 1), i)
        mp.atomic_add(o[1], 0, 2)


def test_at():
    h = np.zeros(4, np.uint32)
    x = np.array([0, 1, 1, 3, 3, 3], np.int32)
    o = np.zeros((2, 2), np.int32)
    run(k_at, 6, h, x, o)
    assert h.tolist() == [1, 2, 0, 3] and o.tolist() == [[0, 5], [12, 0]], (h, o)


@mp.func
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps > 1000:
            return -1
    return steps


@mp.kernel
def k_col(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = collatz(x[i])


def test_col():
    x = np.arange(1, 200).astype(np.int32)
    out = np.zeros(199, np.int32)
    run(k_col, 199, x, out)

    def c(n):
        s = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            s += 1
        return s

    assert out.tolist() == [c(int(v)) for v in x]


@mp.kernel
def k_names(out):
    for i in range(3):
        out[0] += i
    for i in range(4):
        out[1] += i
    for k in mp.static_range(3):
        out[2] += k
    for k in range(3):
        out[3] += k
    for k in mp.static_range(5):
        if k == 3:
            break
        if k == 1:
            continue
        out[4] += k + 1
    for i in range(2):
        for j in range(2):
            if j == 1:
                continue
            out[5] += 1
        else:
            out[6] += 1
    n = 10
    while n:
        n -= 1
        if n % 2:
            continue
        out[7] += n


def test_names():
    out = np.zeros(8, np.int32)
    run(k_names, 1, out, block=1)
    assert out.tolist() == [3, 6, 3, 3, 4, 2, 2, 20], out


@mp.kernel
def k_weak(n, a, b, x, y, u, out):
    m = n * 2
    out[0] = m
    x[0] = a * x[0] + n
    y[0] = a * 2 * y[0] + 1
    if b:
        u[0] = u[0] + n
    v = n
    v += 1
    out[1] = v
    out[2] = n // 3 + n % 4
    x[1] = n / 2
    x[2] = a if b else n


def test_weak():
    x = np.array([3, 0, 0], np.float32)
    y = np.array([3], np.float64)
    u = np.array([200], np.uint8)
    out = np.zeros(3, np.int64)
    run(k_weak, 1, 7, 0.1, True, x, y, u, out, block=1)
    assert (
        out.tolist() == [14, 8, 5]
        and np.isclose(x[0], 7.3)
        and x[1] == 3.5
        and y[0] == 0.1 * 2 * 3 + 1
        and u[0] == 207
        and x[2] == np.float32(0.1)
    ), (x, y, u, out)


def mk(scale, f):
    @mp.kernel
    def k(x):
        i = mp.global_id(0)
        x[i] = f(x[i]) * scale

    return k


@mp.func
def dbl(v):
    return v + v


@mp.func
def neg(v):
    return -v


def test_closures():
    x = np.ones(4, np.float32)
    run(mk(3, dbl), 4, x, block=4)
    assert x.tolist() == [6] * 4
    run(mk(0.5, neg), 4, x, block=4)
    assert x.tolist() == [-3] * 4


G = 5


@mp.kernel
def k_g(x):
    x[0] = G


def test_globals_change():
    global G
    x = np.zeros(1, np.int32)
    run(k_g, 1, x, block=1)
    assert x[0] == 5
    G = 6
    run(k_g, 1, x, block=1)
    assert x[0] == 6, x
    G = 6.0
    with pytest.raises(mp.CompileError) as caught:
        run(k_g, 1, x, block=1)
    assert caught.value.code == "MPG_PY_1008"


@mp.kernel
def k_cmp(a, b, out):
    i = mp.global_id(0)
    if i < a.shape[0]:
        out[i, 0] = a[i] < b[i]
        out[i, 1] = a[i] <= b[i]
        out[i, 2] = a[i] > b[i]
        out[i, 3] = a[i] >= b[i]
        out[i, 4] = a[i] == b[i]
        out[i, 5] = a[i] != b[i]
        out[i, 6] = a[i] < 300
        out[i, 7] = -1 < b[i]
        out[i, 8] = a[i] == -1


def test_cmp():
    for ta, tb in itertools.product([np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64], repeat=2):
        va = np.array([np.iinfo(ta).min, np.iinfo(ta).max, 0, 1, 5, 100], ta)
        vb = np.array([np.iinfo(tb).min, np.iinfo(tb).max, 0, 1, 5, 100], tb)
        a = np.repeat(va, 6)
        b = np.tile(vb, 6)
        out = np.zeros((36, 9), bool)
        run(k_cmp, 36, a, b, out)
        al = [int(v) for v in a]
        bl = [int(v) for v in b]
        exp = np.array(
            [[p < q, p <= q, p > q, p >= q, p == q, p != q, p < 300, -1 < q, p == -1] for p, q in zip(al, bl)]
        )
        assert (out == exp).all(), (ta, tb, np.argwhere(out != exp)[:5])


@mp.func
def block_reduce(v, n: mp.constexpr):
    s = mp.shared(n, v.dtype)
    t = mp.thread_id(0)
    s[t] = v
    mp.barrier()
    step = n // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        mp.barrier()
        step //= 2
    r = s[0]
    mp.barrier()
    return r


@mp.kernel
def k_br(x, out):
    i = mp.global_id(0)
    v = block_reduce(x[i], 64)
    w = block_reduce(mp.f64(x[i]), 64)
    if mp.thread_id(0) == 0:
        out[mp.workgroup_id(0)] = v + w


def test_br():
    x = np.arange(128, dtype=np.float32)
    out = np.zeros(2, np.float64)
    run(k_br, 128, x, out)
    assert out.tolist() == [2 * x[:64].sum(), 2 * x[64:].sum()], out


@mp.kernel
def k_life(a, b):
    i, j = mp.global_id(1), mp.global_id(0)
    h, w = a.shape
    if i < h and j < w:
        n = 0
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                if di == 0 and dj == 0:
                    continue
                n += a[(i + di) % h, (j + dj) % w]
        for k, v in ((3, 1), (2, a[i, j])):
            if n == k:
                b[i, j] = v


def test_loops_over_tuples():
    a = np.random.default_rng(1).integers(0, 2, (8, 8)).astype(np.uint8)
    b = np.zeros_like(a)
    k_life.launch(grid=1, block=(8, 8), args=(a, b), device="interp")
    n = sum(np.roll(a, s, (0, 1)) for s in itertools.product((-1, 0, 1), repeat=2)) - a
    assert (b == ((n == 3) | ((n == 2) & (a == 1)))).all()


@mp.kernel
def k_unrolled(x, flag, out):
    for k in mp.static_range(2):
        if k == 0 or flag:
            v = k
            w = x[k]
    out[0] = v
    out[1] = w


def test_one_assignment_in_an_unrolled_loop():
    x = np.array([3.0, 4.0], np.float32)
    for flag, expected in ((False, [0, 3]), (True, [1, 4])):
        out = np.zeros(2, np.float32)
        run(k_unrolled, 1, x, flag, out, block=1)
        assert out.tolist() == expected


@mp.func
def window(a, i):
    return a[i, 1:3], i


@mp.kernel
def k_window(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        w, j = window(x, i)
        out[i] = w[0] + w[w.shape[0] - 1] + j


def test_a_function_returns_a_view():
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    out = np.zeros(4, np.float32)
    run(k_window, 4, x, out)
    assert out.tolist() == (x[:, 1] + x[:, 2] + np.arange(4)).tolist()


@mp.func
def first(t):
    return t[0] + t[1]


@mp.func
def upd(a, i, v):
    a[i] += v


@mp.func
def poly(c, x):
    acc = 0.0
    for k in range(len(c)):
        acc = acc * x + c[k]
    return acc


C3 = (1, 2, 3)


@mp.func
def pick(f, v):
    return f(v)


@mp.kernel
def k_args(x, m):
    mp.global_id(0)
    x[0] = first((x[0], 2)) + first((1, 2.5))
    upd(x, 1, 5)
    upd(m[1], 2, 7)
    x[2] = poly(C3, x[2])
    x[3] = pick(dbl, x[3]) + pick(neg, 3)
    x[4] = pick(v=x[4], f=dbl)


def test_args():
    x = np.arange(5, dtype=np.float32)
    m = np.zeros((2, 3), np.float32)
    run(k_args, 1, x, m, block=1)
    assert x.tolist() == [5.5, 6, 11, 3, 8] and m[1, 2] == 7, (x, m)


@mp.kernel
def k_round(x, out, oi):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = round(x[i])
        oi[i, 0] = math.floor(x[i])
        oi[i, 1] = int(x[i])
        oi[i, 2] = mp.i32(mp.ceil(x[i]))
        oi[i, 3] = math.trunc(x[i])


def test_rnd():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.7], np.float32)
    out = np.zeros(6, np.float32)
    oi = np.zeros((6, 4), np.int32)
    run(k_round, 6, x, out, oi)
    assert out.tolist() == [round(float(v)) for v in x]
    assert oi.tolist() == [[math.floor(v), int(v), math.ceil(v), int(v)] for v in x]


@mp.kernel
def k_print(x):
    i = mp.global_id(0)
    if i < 2:
        mp.print("i", i, f"x={x[i]} {i=}", (1, x[i]))
    assert i < 100, "big"


def test_prints():
    run(k_print, 2, np.ones(2, np.float32), block=2)


@mp.kernel
def k_u(u, out):
    h = u[0]
    h ^= h >> 16
    h *= 0x85EBCA6B
    h ^= h >> 13
    h = h * 0xC2B2AE35 ^ 1
    out[0] = h
    out[1] = (u[0] << 5) | (u[0] >> 27)
    out[2] = mp.u32(1) << 31
    c = mp.u8(200)
    c += 100
    out[3] = c
    out[4] = mp.bitcast(mp.f32(1.0), mp.u32)
    out[5] = mp.u32(-1)
    out[6] = mp.u32(3) - 5


def test_hashes():
    u = np.array([123456789], np.uint32)
    out = np.zeros(7, np.uint32)
    run(k_u, 1, u, out, block=1)
    h = 123456789
    M = 0xFFFFFFFF
    h ^= h >> 16
    h = h * 0x85EBCA6B & M
    h ^= h >> 13
    h = (h * 0xC2B2AE35 & M) ^ 1
    assert out.tolist() == [h, ((123456789 << 5) | (123456789 >> 27)) & M, 1 << 31, 44, 0x3F800000, M, M - 1], out


@mp.kernel
def k_big(out, n):
    i = 70000
    out[0] = mp.index(i) * (i - 1) // 2
    j = mp.global_id(0) + 70000
    out[1] = j * (j - 1) // 2
    k = 3000000000
    out[2] = k + 1
    big = 0
    big = 5000000000
    out[3] = big
    out[4] = 2**40


def test_big():
    out = np.zeros(5, np.int64)
    run(k_big, 1, out, 1, block=1)
    v = 70000 * 69999 // 2
    assert out.tolist() == [v, v, 3000000001, 5000000000, 2**40], out


@mp.kernel
def k_0d(s, out):
    out[0] = s[()] + s.size + s.ndim
    s[()] = 4
    s[...] += 1


def test_zerod():
    s = np.array(3.0, np.float32)
    out = np.zeros(1, np.float32)
    run(k_0d, 1, s, out, block=1)
    assert out[0] == 4 and s[()] == 5, (s, out)


@mp.kernel
def k_loc(out):
    a = mp.local((2, 3), mp.i32)
    for i in range(2):
        for j in range(3):
            a[i, j] = i * 3 + j
    r = a[1]
    for j in range(3):
        out[j] = r[j]
    b = mp.local(2, P2)
    b[1].x = 5
    b[1].y += 2.5
    q = b[1]
    out[3] = int(q.x + q.y)
    t = (q.x, q.y)
    for i in range(2):
        t = (t[1], t[0] + 1)
    out[4] = int(t[0] * 10 + t[1])


@mp.struct
class P2:
    x: mp.f32
    y: mp.f32


def test_loc():
    out = np.zeros(5, np.int32)
    run(k_loc, 1, out, block=1)
    assert out.tolist() == [3, 4, 5, 7, 6 * 10 + 3], out


@mp.func
def scale(a):
    return a * 2


@mp.func
def addk(a, k):
    return a + k


@mp.kernel
def k_lit(y, out):
    y[0] = scale(0.1) * y[0]
    acc = 0
    for k in mp.static_range(100):
        acc += addk(1, k)
    out[0] = acc


def test_lit():
    y = np.array([3.0])
    out = np.zeros(1, np.int64)
    run(k_lit, 1, y, out, block=1)
    assert y[0] == 0.2 * 3 and out[0] == sum(range(100)) + 100, (y, out)


@mp.kernel
def k_vv(x, out):
    r = x
    if out.shape[0] > 1:
        r = x[2:]
    out[0] = r[0]
    out[1] = r.shape[0]
    if r.shape[0] > 3:
        r = r[1::2]
        out[2] = r[1]
    s = mp.local(3, np.int32)
    out[3] = np.float32(7) + s[0]


def test_vv():
    x = np.arange(10, dtype=np.float32)
    out = np.zeros(4, np.float32)
    run(k_vv, 1, x, out, block=1)
    assert out.tolist() == [2, 8, 5, 7], out


def test_too_deep():
    text = "def k(x):\n    x[1] = " + "+".join(["x[0]"] * 2000) + "\n"
    linecache.cache["<deep>"] = (len(text), None, text.splitlines(True), "<deep>")
    scope = {}
    exec(compile(text, "<deep>", "exec"), scope)
    with pytest.raises(mp.CompileError) as caught:
        run(mp.kernel(scope["k"]), 1, np.zeros(2, np.float32))
    assert caught.value.code == "MPG_PY_1001"


@mp.kernel(workgroup=(8, 1, 1))
def k_deco(
    x: mp.Array[mp.f32],
    n: "mp.i32" = 3,
):
    # comment
    i = mp.global_id(0)  # odd indentation
    if i < n:
        x[i] = 1.0 + 2.0
        # dedented comment
        x[i] += mp.workgroup_size(0)
    """a string
at column 0
"""
    if i == 0:
        x[7] = 1


def test_deco():
    x = np.zeros(8, np.float32)
    k_deco.launch(grid=1, block=8, args=(x,), device="interp")
    assert x.tolist() == [11] * 3 + [0] * 4 + [1], x

    def inner():
        @mp.kernel
        def k(x):
            x[0] = 5

        return k

    run(inner(), 1, x, block=1)
    assert x[0] == 5


@mp.kernel
def k_frexp(x, o):
    m, e = math.frexp(x[0])
    o[0] = m
    o[1] = e
    o[2] = math.ldexp(m, e)
    o[3] = math.log(x[0], 2)
    o[4] = math.hypot(3.0, x[1])
    o[5] = math.pow(2, 3)
    o[6] = mp.fma(x[0], 2, 1)
    o[7] = mp.minimum(x[0], 3)
    o[8] = math.radians(x[0])
    o[9] = mp.exp(0.0) * x[0]
    o[10] = math.sqrt(4)
    o[11] = mp.clz(1)
    o[12] = mp.popcount(mp.u8(255))
    o[13] = float(1) / 2
    o[14] = math.inf > x[0]
    o[15] = float("inf")


def test_fre():
    x = np.array([8.0, 4.0], np.float32)
    o = np.zeros(16, np.float32)
    run(k_frexp, 1, x, o, block=1)
    assert np.allclose(o, [0.5, 4, 8, 3, 5, 8, 17, 3, math.radians(8), 8, 2, 31, 8, 0.5, 1, np.inf]), o


@mp.kernel
def k_sg(x, o):
    l = mp.subgroup.lane()
    v = x[mp.global_id(0)]
    o[l, 0] = mp.subgroup.sum(v)
    o[l, 1] = mp.subgroup.scan(v)
    o[l, 2] = mp.subgroup.scan(v, "max", exclusive=False)
    o[l, 3] = mp.subgroup.shuffle_xor(v, 1)
    o[l, 4] = mp.subgroup.ballot_count(v > 3)
    o[l, 5] = mp.subgroup.ballot_rank(v > 3)
    if mp.subgroup.elect():
        o[l, 6] = 1
    o[l, 7] = mp.subgroup.any(v > 100) + mp.subgroup.all(v >= 0) * 2
    o[l, 8] = mp.subgroup.broadcast(v, 2)


def test_sg():
    x = np.arange(8, dtype=np.float32)
    o = np.zeros((8, 9), np.float32)
    run(k_sg, 8, x, o, block=8)
    assert (
        o[:, 0].tolist() == [28] * 8
        and o[:, 1].tolist() == np.cumsum(x).tolist()
        and o[:, 5].tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
        and o[:, 4].tolist() == [4] * 8
        and o[:, 7].tolist() == [2] * 8
    ), o
