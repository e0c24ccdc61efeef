"""Lanes that are not side by side: arrays of structures, rows, interleaved channels, negative strides, edges."""

from __future__ import annotations

import functools

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import values

SIZES = (mp.bool_, mp.u8, mp.f16, mp.i32, mp.f32, mp.f64)
N = 203  # full gangs of every width, and a partial one


@functools.cache
def loads(stride, offsets):
    @mp.kernel
    def k_loads(x, out, base):
        i = mp.global_id(0)
        if i < out.shape[1]:
            for c in mp.static_range(len(offsets)):
                out[c, i] = x[base + stride * i + offsets[c]]

    return k_loads


def load_run(t, stride, offsets):
    low = min(0, stride * (N - 1)) + min(offsets)
    high = max(0, stride * (N - 1)) + max(offsets)
    x = values(t, high - low + 1)
    at = stride * np.arange(N) - low
    want = np.stack([x[at + c] for c in offsets])
    return Run(loads(stride, offsets), (x, empty((len(offsets), N), t), -low), {1: want}, grid=4)


@case(dtypes=SIZES, gangs=True)
def test_interleaved_loads(t):
    return [load_run(t, s, tuple(range(s))) for s in (2, 3, 4)]


@case(dtypes=SIZES, gangs=True)
def test_some_of_the_channels(t):
    return [
        load_run(t, *row) for row in ((2, (1,)), (3, (2, 0)), (5, (0, 1, 3)), (-2, (0,)), (-3, (0, 1, 2)), (8, (1, 2)))
    ]


STRIDES = (-20, -7, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17)


@case(dtypes=(mp.f32,), gangs=True)
def test_loads_at_many_strides(t):
    return [load_run(t, s, (0, 1, 2)) for s in STRIDES]


@case(dtypes=(mp.u8, mp.i16, mp.f64), gangs=True)
def test_loads_at_some_strides(t):
    return [load_run(t, s, (3, 0, 1)) for s in (-17, -4, 2, 5, 8, 16)]


@case(dtypes=(mp.f32, mp.i64), gangs=True)
def test_windows_over_neighbours(t):
    """Offsets reach into the elements of other lanes."""
    return [load_run(t, s, tuple(range(-4, 7))) for s in (2, 3, 16)]


@functools.cache
def stores(stride, offsets):
    @mp.kernel
    def k_stores(x, out, base):
        i = mp.global_id(0)
        if i < x.shape[1]:
            for c in mp.static_range(len(offsets)):
                out[base + stride * i + offsets[c]] = x[c, i]

    return k_stores


def store_run(t, stride, offsets):
    """Gaps between what is stored keep what was there."""
    low = min(0, stride * (N - 1)) + min(offsets) - 5
    high = max(0, stride * (N - 1)) + max(offsets) + 5
    x = values(t, len(offsets) * N).reshape(len(offsets), N)
    out = values(t, high - low + 1, 7)
    want = out.copy()
    for c, offset in enumerate(offsets):
        want[stride * np.arange(N) - low + offset] = x[c]
    return Run(stores(stride, offsets), (x, out, -low), {1: want}, grid=4)


@case(dtypes=SIZES, gangs=True)
def test_interleaved_stores(t):
    return [store_run(t, s, tuple(range(s))) for s in (2, 3, 4)]


@case(dtypes=SIZES, gangs=True)
def test_stores_with_gaps(t):
    rows = (
        (2, (1,)),
        (3, (2, 0)),
        (4, (0, 1, 3)),
        (5, (0, 1, 2, 3)),
        (-3, (2, 1, 0)),
        (-2, (0, 1)),
        (9, tuple(range(8))),
    )
    return [store_run(t, *row) for row in rows]


@case(dtypes=(mp.f32,), gangs=True)
def test_stores_at_many_strides(t):
    return [store_run(t, s, tuple(range(min(abs(s), 5)))) for s in STRIDES]


@case(dtypes=(mp.u8, mp.i16, mp.f64), gangs=True)
def test_stores_at_some_strides(t):
    return [store_run(t, s, tuple(range(min(abs(s), 16)))) for s in (-17, -4, 2, 5, 8, 16)]


@mp.kernel
def k_swap_pairs(x):
    i = mp.global_id(0)
    if 2 * i + 1 < x.shape[0]:
        a = x[2 * i]
        x[2 * i] = x[2 * i + 1]
        x[2 * i + 1] = a


@mp.kernel
def k_read_back(x, out):
    i = mp.global_id(0)
    if 2 * i + 1 < x.shape[0]:
        x[2 * i] = x[2 * i + 1]
        a = x[2 * i]
        x[2 * i + 1] = a + a
        x[2 * i] = x[2 * i + 1] + a
        out[i] = x[2 * i]


@case(dtypes=(mp.u8, mp.i32, mp.f64), gangs=True)
def test_order_within_an_array(t):
    x = o.plain(t, 2 * N)
    b = x[1::2]
    twice = b + b
    after = np.stack([twice + b, twice], 1).ravel()
    return [
        Run(k_swap_pairs, (x.copy(),), {0: x.reshape(-1, 2)[:, ::-1].ravel()}, grid=4),
        Run(k_read_back, (x.copy(), empty(N, t)), {0: after, 1: twice + b}, grid=4),
    ]


@functools.cache
def in_order(offsets):
    @mp.kernel
    def k_in_order(x, out):
        i = mp.global_id(0)
        if i < x.shape[0]:
            for c in mp.static_range(len(offsets)):
                out[5 * i + offsets[c]] = x[i, c]

    return k_in_order


@case(dtypes=(mp.i16, mp.f32, mp.i64), gangs=True)
def test_stores_in_any_order(t):
    """Windows that overlap: each store belongs to one of them."""
    runs = []
    for offsets in ((1, 3, 2), (2, 0, 1), (3, 1, 4, 2), (4, 2, 0, 3, 1), (0, 3, 1, 4)):
        x = values(t, N * len(offsets)).reshape(N, -1)
        out = values(t, 5 * N, 6)
        want = out.reshape(N, 5).copy()
        want[:, list(offsets)] = x
        runs.append(Run(in_order(offsets), (x, out), {1: want.ravel()}, grid=4))
    return runs


@mp.kernel
def k_through_another(x, y):
    i = mp.global_id(0)
    if 2 * i + 1 < x.shape[0]:
        y[2 * i] = x[2 * i] + 1
        y[2 * i + 1] = x[2 * i] + 2


@case(gangs=True)
def test_order_through_another_name():
    """Two parameters of one array: what is stored through one is loaded through the other."""
    a = np.arange(2 * N, dtype=np.int32) * 3
    want = a.copy()
    want[0::2] += 1
    want[1::2] = want[0::2] + 2
    return Run(k_through_another, (a, a), {0: want, 1: want}, grid=4)


@mp.kernel
def k_divergent(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = 0
        if x[3 * i] > 0:
            out[i] = x[3 * i + 1] - x[3 * i + 2]


@case(dtypes=(mp.i16, mp.f32), gangs=True)
def test_under_a_mask(t):
    x = o.plain(t, 3 * N)
    x[::3] *= np.where(np.arange(N) % 3 == 0, -1, 1).astype(t.numpy)
    a, b, c = x.reshape(-1, 3).T
    return Run(k_divergent, (x, empty(N, t)), {1: np.where(a > 0, b - c, 0).astype(t.numpy)}, grid=4)


@functools.cache
def rows(m):
    @mp.kernel
    def k_rows(x, out, total):
        i = mp.global_id(0)
        if i < total.shape[0]:
            run = mp.local(m, mp.i32)
            s = mp.i32(0)
            for k in range(m):
                s += mp.i32(x[i * m + k])
                run[k] = s
            for k in range(m):
                out[i * m + k] = s - run[k]
            total[i] = s

    return k_rows


@case(dtypes=(mp.u8, mp.i16, mp.i64), gangs=True)
def test_rows_of_known_length(t):
    runs = []
    for m in (1, 3, 16, 18, 40):
        x = (np.arange(N * m) * 7 % 100).astype(t.numpy).reshape(N, m)
        sums = np.cumsum(x, 1, dtype=np.int32)
        out = (sums[:, -1:] - sums).ravel()
        args = (x.ravel(), empty(N * m, mp.i32), empty(N, mp.i32))
        runs.append(Run(rows(m), args, {1: out, 2: sums[:, -1]}, grid=4))
    return runs


@mp.kernel
def k_row_sums(x, out, last):
    i = mp.global_id(0)
    if i < x.shape[0]:
        s = mp.i32(0)
        seen = mp.i32(-1)
        for k in range(1, x.shape[1]):
            s = s * 3 + mp.i32(x[i, k])
            if x[i, k] > 50:
                seen = mp.i32(k)
        out[i] = s
        last[i] = seen


@case(dtypes=(mp.u8, mp.i32), gangs=True)
def test_rows_of_any_length(t):
    runs = []
    for m in (1, 2, 4, 5, 9, 33):
        x = (np.arange(N * m) * 7 % 100).astype(t.numpy).reshape(N, m)
        want = np.zeros(N, np.int32)
        last = np.full(N, -1, np.int32)
        for k in range(1, m):
            want = want * np.int32(3) + x[:, k].astype(np.int32)
            last[x[:, k] > 50] = k
        runs.append(Run(k_row_sums, (x, empty(N, mp.i32), empty(N, mp.i32)), {1: want, 2: last}, grid=4))
    return runs


@mp.struct
class Pixel:
    r: mp.f32
    g: mp.f32
    b: mp.f32


@mp.struct
class Mixed:
    a: mp.f64
    b: mp.i16
    c: mp.i16
    d: mp.f32


@mp.kernel
def k_pixels(p, out):
    i = mp.global_id(0)
    if i < p.shape[0]:
        v = p[i]
        out[i] = Pixel(v.b, v.r, v.g)


@mp.kernel
def k_mixed(p):
    i = mp.global_id(0)
    if i < p.shape[0]:
        v = p[i]
        p[i] = Mixed(v.a + 1.0, v.c, v.b, v.d * 2.0)


@case(gangs=True)
def test_structs():
    raw = np.arange(3 * N, dtype=np.float32).reshape(N, 3)
    pixels = np.array([tuple(r) for r in raw], dtype=Pixel.numpy)
    turned = np.array([tuple(r) for r in raw[:, [2, 0, 1]]], dtype=Pixel.numpy)
    mixed = np.array([(k, k % 90, -k, k / 2) for k in range(N)], dtype=Mixed.numpy)
    after = np.array([(k + 1, -k, k % 90, k) for k in range(N)], dtype=Mixed.numpy)
    return [
        Run(k_pixels, (pixels, np.zeros(N, Pixel.numpy)), {1: turned}, grid=4),
        Run(k_mixed, (mixed,), {0: after}, grid=4),
    ]


@mp.kernel
def k_image(x, out):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j, 0] = x[i, j, 2]
        out[i, j, 1] = x[i, j, 1]
        out[i, j, 2] = x[i, j, 0]
        if x.shape[2] > 3:
            out[i, j, 3] = x[i, j, 3]


@case(dtypes=(mp.u8, mp.f32), gangs=True)
def test_images(t):
    runs = []
    for c in (3, 4):
        x = (np.arange(5 * 67 * c) % 251).astype(t.numpy).reshape(5, 67, c)
        order = [2, 1, 0, 3][:c]
        runs.append(Run(k_image, (x, empty(x.shape, t)), {1: x[:, :, order]}, grid=(5, 5), block=(16, 1)))
    return runs


@mp.kernel
def k_turn(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        re, im = x[i, 0], x[i, 1]
        out[i, 1] = re
        out[i, 0] = -im


@case(dtypes=(mp.i8, mp.i16, mp.f32, mp.f64), gangs=True)
def test_pairs_in_rows_of_any_length(t):
    runs = []
    for m in (2, 3, 5):
        x = o.plain(t, m * N).reshape(N, m)
        out = values(t, m * N, 5).reshape(N, m)
        want = out.copy()
        want[:, 0], want[:, 1] = -x[:, 1], x[:, 0]
        runs.append(Run(k_turn, (x, out), {1: want}, grid=4))
    return runs


@mp.kernel
def k_rows_by_index(x, index, out):
    i = mp.global_id(0)
    if i < index.shape[0]:
        k = index[i] * 4
        out[k] = x[k + 3]
        out[k + 1] = x[k + 2]
        out[k + 2] = x[k + 1]
        out[k + 3] = x[k]


@case(dtypes=(mp.u8, mp.i32, mp.f64), gangs=True)
def test_rows_by_index(t):
    x = values(t, 4 * N).reshape(N, 4)
    index = np.random.default_rng(3).permutation(N)[: N - 20].astype(np.int32)
    out = values(t, 4 * N, 5)
    want = out.reshape(N, 4).copy()
    want[index] = x[index][:, ::-1]
    return Run(k_rows_by_index, (x.ravel(), index, out), {2: want.ravel()}, grid=4)


@mp.kernel
def k_some(x, index, on, out):
    i = mp.global_id(0)
    if i < index.shape[0]:
        if on[i]:
            out[index[i]] = x[i]


@mp.kernel
def k_some_of_rows(x, on, out):
    i = mp.global_id(0)
    if i < on.shape[0]:
        if on[i]:
            out[3 * i + 1] = x[i]


@case(dtypes=SIZES, gangs=True)
def test_some_lanes_store(t):
    """From none to all of a gang, in order and anywhere."""
    rng = np.random.default_rng(5)
    x = values(t, N)
    runs = []
    for share in (0.02, 0.3, 0.6, 1.0):
        on = rng.random(N) < share
        index = rng.permutation(N + 20)[:N].astype(np.int32)
        out = values(t, N + 20, 9)
        want = out.copy()
        want[index[on]] = x[on]
        runs.append(Run(k_some, (x, index, on, out), {3: want}, grid=4))
        out = values(t, 3 * N, 9)
        want = out.copy()
        want[1::3][on] = x[on]
        runs.append(Run(k_some_of_rows, (x, on, out), {2: want}, grid=4))
    return runs


@mp.kernel
def k_shared_pairs(x, out):
    s = mp.shared(144, mp.f32)
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s[2 * t + 1] = x[2 * i + 1]
    s[2 * t] = x[2 * i]
    if t < 16:
        s[128 + t] = 1.0
    mp.barrier()
    r = 63 - t
    out[i] = s[2 * r] * 3.0 + s[2 * r + 1] + s[2 * r + 2]


@case(gangs=True)
def test_shared_pairs():
    x = np.arange(256, dtype=np.float32)
    s = np.concatenate([x.reshape(2, 128), np.ones((2, 16), np.float32)], 1)
    r = 63 - np.arange(64)
    want = (s[:, 2 * r] * 3 + s[:, 2 * r + 1] + s[:, 2 * r + 2]).ravel()
    return Run(k_shared_pairs, (x, empty(128, mp.f32)), {1: want}, grid=2)


@mp.kernel
def k_narrow_index(x, out):
    i = mp.global_id(0)
    k = mp.u8(i + 200)
    out[i] = x[k] + x[mp.u8(k + 1)] * 1000


@case(gangs=True)
def test_indices_that_wrap():
    """A u8 that wraps inside of a gang is in bounds all the while."""
    x = np.arange(256, dtype=np.int32)
    k = (np.arange(128) + 200) % 256
    return Run(k_narrow_index, (x, empty(128, mp.i32)), {1: k + (k + 1) % 256 * 1000}, grid=2)
