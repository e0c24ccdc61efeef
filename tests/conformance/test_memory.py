"""Memory shapes: ranks 0 to 4, strides of every kind, views, aliases, local arrays and constant tables."""

from __future__ import annotations

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import ALL, NUMS, values


@mp.kernel
def k_copy(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i]


@mp.kernel
def k_copy2(x, out):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j]


@mp.kernel
def k_copy3(x, out):
    k = mp.global_id(0)
    j = mp.global_id(1)
    i = mp.global_id(2)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[i, j, k] = x[i, j, k]


@mp.kernel
def k_copy4(x, out):
    t = mp.global_id(0)
    n = x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]
    if t < n:
        l = t % x.shape[3]
        k = t // x.shape[3] % x.shape[2]
        j = t // (x.shape[3] * x.shape[2]) % x.shape[1]
        i = t // (x.shape[3] * x.shape[2] * x.shape[1])
        out[i, j, k, l] = x[i, j, k, l]


@mp.kernel
def k_scalar_array(x, out):
    out[()] = x[()] + x[()]


@mp.kernel
def k_transpose(x, out):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        out[j, i] = x[i, j]


@mp.kernel
def k_chained_index(x, out):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        out[i][j] = x[i][j]


@mp.kernel
def k_gather(x, idx, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[idx[i]]


@mp.kernel
def k_scatter(x, idx, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[idx[i]] = x[i]


@mp.kernel
def k_reverse(x, out):
    i = mp.global_id(0)
    n = x.shape[0]
    if i < n:
        out[n - 1 - i] = x[i]


@mp.kernel
def k_stride3(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[3 * i + 1]


@mp.kernel
def k_shift(x, out):
    i = mp.global_id(0)
    if 0 < i and i < x.shape[0] - 1:
        out[i] = x[i - 1] + x[i] * 2 + x[i + 1]


@mp.kernel
def k_in_place(x):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] * 2 + 1


@mp.kernel
def k_stencil5(a, out):
    x = mp.global_id(0)
    y = mp.global_id(1)
    h, w = a.shape
    if 0 < x < w - 1 and 0 < y < h - 1:
        out[y, x] = (a[y, x] + a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1]) * 0.25


@mp.kernel
def k_matmul(a, b, c):
    col = mp.global_id(0)
    row = mp.global_id(1)
    if row < c.shape[0] and col < c.shape[1]:
        acc = 0.0
        for k in range(a.shape[1]):
            acc += a[row, k] * b[k, col]
        c[row, col] = acc


@mp.func
def row_sum(row):
    s = 0.0
    for j in range(row.shape[0]):
        s += row[j]
    return s


@mp.func
def row_fill(row, v):
    for j in range(len(row)):
        row[j] = v + j


@mp.kernel
def k_row_views(x, out, filled):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = row_sum(x[i])
        row_fill(filled[i], i * 10)


@mp.kernel
def k_row_variable(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        row = x[i]
        plane_row = row[1]
        s = 0.0
        for j in range(plane_row.shape[0]):
            s += plane_row[j]
        out[i] = s + row[0, 0]


@mp.kernel
def k_slices(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        row = x[i, 2:7]
        tail = x[i, 4:]
        column = x[:, 1]
        out[i, 0] = row[0] + row[4]
        out[i, 1] = tail[0]
        out[i, 2] = row.shape[0]
        out[i, 3] = tail.shape[0]
        out[i, 4] = column[i]


@mp.kernel
def k_local_array(x, out):
    i = mp.global_id(0)
    tmp = mp.local(8, mp.f32)
    if i < out.shape[0]:
        for j in range(8):
            tmp[j] = x[i] * j
        s = 0.0
        for j in range(8):
            s += tmp[7 - j] * (j + 1)
        out[i] = s


@mp.kernel
def k_local_dynamic_index(x, out):
    i = mp.global_id(0)
    count = mp.local((2, 5), mp.i32)
    if i < x.shape[0]:
        for j in range(x.shape[1]):
            v = x[i, j]
            count[v % 2, v // 2 % 5] += 1
        for k in range(10):
            out[i, k] = count[k // 5, k % 5]


@mp.kernel
def k_local_starts_at_zero(out):
    i = mp.global_id(0)
    a = mp.local(4, mp.i32)
    a[i % 4] = 5
    if i < out.shape[0]:
        out[i] = a[0] + a[1] * 10 + a[2] * 100 + a[3] * 1000


@mp.kernel
def k_insertion_sort(x, out):
    i = mp.global_id(0)
    a = mp.local(11, mp.i32)
    if i < x.shape[0]:
        for j in range(11):
            a[j] = x[i, j]
        for j in range(1, 11):
            v = a[j]
            k = j - 1
            while k >= 0 and a[k] > v:
                a[k + 1] = a[k]
                k -= 1
            a[k + 1] = v
        for j in range(11):
            out[i, j] = a[j]


TABLE = (3, 1, 4, 1, 5, 9, 2, 6)
WEIGHTS = (0.5, 0.25, 0.125)


@mp.kernel
def k_closure_table(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * TABLE[2] + TABLE[7]


@mp.kernel
def k_weights(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0.0
        for k in mp.static_range(3):
            s += x[i] * WEIGHTS[k]
        out[i] = s


@mp.kernel
def k_two_outputs(x, a, b):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a[i] = x[i] + 1
        b[i] = a[i] * 2


@mp.kernel
def k_alias(x, y, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        out[i] = v + 1
        out[i] = out[i] + y[i]


@mp.kernel
def k_store_then_load_other_name(x, y):
    # x and y may be one array: the load after the store must see it
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] = 5
        v = y[i]
        x[i] = v + 1


@mp.kernel
def k_serial_prefix(x):
    # one work-item, every trip reads what the trip before stored
    if mp.global_id(0) == 0:
        for i in range(1, x.shape[0]):
            x[i] += x[i - 1]


@case(dtypes=ALL, blocks=(64,))
def test_copy(t, block):
    x = values(t, 197)
    return Run(k_copy, (x, empty(197, t)), {1: x.copy()}, block=block)


@case(dtypes=(mp.f32, mp.u8), blocks=(1, 16, 33, 64, 256), grids=(1, 2, 7), gangs=True)
def test_copy_at_many_sizes(t, block, grid):
    n = max(block * grid - block // 3, 1)
    x = values(t, n)
    return Run(k_copy, (x, empty(n, t)), {1: x.copy()}, block=block, grid=grid)


@case(dtypes=ALL)
def test_copy_2d(t):
    x = values(t, 7 * 13).reshape(7, 13)
    return Run(k_copy2, (x, empty((7, 13), t)), {1: x.copy()}, grid=(2, 4), block=(8, 2))


@case(dtypes=(mp.f32, mp.u16))
def test_copy_3d(t):
    x = values(t, 3 * 5 * 9).reshape(3, 5, 9)
    return Run(k_copy3, (x, empty((3, 5, 9), t)), {1: x.copy()}, grid=(3, 3, 2), block=(4, 2, 2))


@case(dtypes=(mp.f64, mp.i8))
def test_copy_4d(t):
    x = values(t, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    return Run(k_copy4, (x, empty((2, 3, 4, 5), t)), {1: x.copy()}, grid=4, block=32)


@case(dtypes=NUMS)
def test_rank_0(t):
    x = np.array(21, t.numpy)
    return Run(k_scalar_array, (x, np.array(0, t.numpy)), {1: np.array(42, t.numpy)}, grid=1, block=1)


_VIEWS = {
    "step": lambda b: b[:, ::2],
    "rows": lambda b: b[1::3],
    "reversed": lambda b: b[:, ::-1],
    "both_reversed": lambda b: b[::-1, ::-1],
    "transposed": lambda b: b.T,
    "transposed_step": lambda b: b.T[::2, ::-3],
    "inner": lambda b: b[2:9, 3:20],
    "broadcast_rows": lambda b: np.broadcast_to(b[3], (5, b.shape[1])),
    "one_column": lambda b: b[:, 4:5],
}


def _view_case(name):
    @case(dtypes=(mp.f32, mp.i16), gangs=True)
    def test(t):
        base = values(t, 12 * 23).reshape(12, 23)
        x = _VIEWS[name](base)
        h, w = x.shape
        grid = (mp.cdiv(w, 16), mp.cdiv(h, 2))
        runs = [Run(k_copy2, (x, empty(x.shape, t)), {1: x.copy()}, grid=grid, block=(16, 2))]
        if x.flags.writeable:  # and as the destination
            target = _VIEWS[name](empty((12, 23), t))
            runs.append(Run(k_copy2, (x.copy(), target), {1: x.copy()}, grid=grid, block=(16, 2)))
        return runs

    test.__name__ = f"test_view_{name}"
    return test


for _name in _VIEWS:
    globals()[f"test_view_{_name}"] = _view_case(_name)


@case(dtypes=ALL)
def test_negative_stride_1d(t):
    x = values(t, 90)
    return [
        Run(k_copy, (x[::-1], empty(90, t)), {1: x[::-1].copy()}),
        Run(k_copy, (x[::-2], empty(45, t)), {1: x[::-2].copy()}),
        Run(k_copy, (x.copy(), empty(90, t)[::-1]), {1: x.copy()}),
        Run(k_copy, (x[80:10:-7], empty(10, t)), {1: x[80:10:-7].copy()}),
    ]


@case(dtypes=(mp.f32, mp.u8), gangs=True)
def test_transpose(t):
    x = values(t, 19 * 34).reshape(19, 34)
    return Run(k_transpose, (x, empty((34, 19), t)), {1: x.T.copy()}, grid=(3, 5), block=(16, 4))


@case(dtypes=(mp.f32,))
def test_chained_indexing(t):
    x = values(t, 5 * 9).reshape(5, 9)
    return Run(k_chained_index, (x, empty((5, 9), t)), {1: x.copy()}, grid=(2, 2), block=(8, 4))


@case(dtypes=ALL, gangs="all")
def test_gather(t):
    x = values(t, 57)
    idx = np.random.default_rng(0).integers(0, 57, 150).astype(np.int32)
    return Run(k_gather, (x, idx, empty(150, t)), {2: x[idx]})


@case(dtypes=[(mp.f32, u) for u in (mp.u8, mp.i16, mp.u32, mp.i64, mp.u64)])
def test_index_of_every_integer_type(t):
    t, u = t
    x = values(t, 100)
    idx = np.random.default_rng(0).integers(0, 100, 150).astype(u.numpy)
    return Run(k_gather, (x, idx, empty(150, t)), {2: x[idx]})


@case(dtypes=ALL, gangs=True)
def test_scatter(t):
    x = values(t, 101)
    idx = np.random.default_rng(0).permutation(120)[:101].astype(np.int32)
    out = empty(120, t)
    want = out.copy()
    want[idx] = x
    return Run(k_scatter, (x, idx, out), {2: want}, grid=2)


@case(dtypes=(mp.f32, mp.u8, mp.f64), gangs=True)
def test_reverse(t):
    x = values(t, 150)
    return Run(k_reverse, (x, empty(150, t)), {1: x[::-1].copy()})


@case(dtypes=(mp.f32, mp.i16), gangs=True)
def test_constant_stride_load(t):
    x = values(t, 300)
    return Run(k_stride3, (x, empty(99, t)), {1: x[1:298:3].copy()})


@case(dtypes=(mp.i32, mp.f32), gangs=True)
def test_neighbours(t):
    x = o.plain(t, 133)
    out = empty(133, t)
    want = out.copy()
    want[1:-1] = x[:-2] + x[1:-1] * t.numpy.type(2) + x[2:]
    return Run(k_shift, (x, out), {1: want})


@case(dtypes=NUMS, gangs=True)
def test_in_place(t):
    x = o.plain(t, 133)
    want = o.map1(lambda v: v * 2 + 1, x, t) if t.is_int else o.in_f32(
        np.add, t, o.in_f32(np.multiply, t, x, np.full(133, 2, t.numpy)), np.full(133, 1, t.numpy)
    )
    return Run(k_in_place, (x,), {0: want})


@case(dtypes=(mp.f32, mp.f64), blocks=((16, 4), (33, 1), (4, 4)), gangs=True)
def test_stencil_2d(t, block):
    a = o.plain(t, 21 * 45).reshape(21, 45)
    out = np.zeros((21, 45), t.numpy)
    want = out.copy()
    q = t.numpy.type(0.25)
    want[1:-1, 1:-1] = (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) * q
    grid = (mp.cdiv(45, block[0]), mp.cdiv(21, block[1]))
    return Run(k_stencil5, (a, out), {1: want}, grid=grid, block=block)


@case(dtypes=(mp.f32, mp.f64), gangs=True)
def test_matmul(t):
    a, b = o.plain(t, 17 * 23, 1).reshape(17, 23), o.plain(t, 23 * 29, 2).reshape(23, 29)
    want = np.zeros((17, 29), t.numpy)
    for k in range(23):
        want += a[:, k : k + 1] * b[k]
    return [
        Run(k_matmul, (a, b, empty((17, 29), t)), {2: want}, grid=(2, 5), block=(16, 4)),
        Run(k_matmul, (a, np.asfortranarray(b).T.copy().T, empty((29, 17), t).T), {2: want}, grid=(2, 5), block=(16, 4)),
    ]


@case(dtypes=(mp.f32, mp.f64), gangs=True)
def test_rows_as_views_through_a_function(t):
    x = o.plain(t, 40 * 7).reshape(40, 7)
    want = np.zeros(40, t.numpy)
    for j in range(7):
        want += x[:, j]
    filled = (np.arange(40)[:, None] * 10 + np.arange(7)).astype(t.numpy)
    return Run(k_row_views, (x, empty(40, t), empty((40, 7), t)), {1: want, 2: filled}, grid=1)


@case(dtypes=(mp.f32,))
def test_row_views_of_a_transposed_array(t):
    x = o.plain(t, 40 * 7).reshape(7, 40).T
    want = np.zeros(40, t.numpy)
    for j in range(7):
        want += x[:, j]
    filled = (np.arange(40)[:, None] * 10 + np.arange(7)).astype(t.numpy)
    return Run(k_row_views, (x, empty(40, t), empty((7, 40), t).T), {1: want, 2: filled}, grid=1)


@case(dtypes=(mp.f32,))
def test_a_view_in_a_variable(t):
    x = o.plain(t, 20 * 3 * 5).reshape(20, 3, 5)
    want = np.zeros(20, t.numpy)
    for j in range(5):
        want += x[:, 1, j]
    return Run(k_row_variable, (x, empty(20, t)), {1: want + x[:, 0, 0]})


@case(dtypes=(mp.f32,))
def test_slices(t):
    x = o.plain(t, 20 * 9).reshape(20, 9)
    want = np.stack([x[:, 2] + x[:, 6], x[:, 4], np.full(20, 5), np.full(20, 5), x[:, 1]], axis=1).astype(t.numpy)
    return Run(k_slices, (x, empty((20, 5), t)), {1: want}, grid=1)


@case(dtypes=(mp.f32,), gangs=True)
def test_local_array(t):
    x = o.plain(t, 75)
    want = np.zeros(75, t.numpy)
    for j in range(8):
        want += x * np.float32(7 - j) * np.float32(j + 1)
    return Run(k_local_array, (x, empty(75, t)), {1: want})


@case(gangs=True)
def test_local_array_with_dynamic_index():
    x = np.random.default_rng(0).integers(0, 10, (75, 30)).astype(np.int32)
    want = np.zeros((75, 10), np.int32)
    for i in range(75):
        for v in x[i]:
            want[i, v % 2 * 5 + v // 2 % 5] += 1
    return Run(k_local_dynamic_index, (x, empty((75, 10), mp.i32)), {1: want}, grid=2)


@case(gangs=True)
def test_local_array_starts_at_zero():
    # several groups on one thread: the second must not see the first one's values
    want = np.array([5, 50, 500, 5000] * 80, np.int32)
    return Run(k_local_starts_at_zero, (empty(320, mp.i32),), {0: want}, block=16)


@case(gangs=True)
def test_insertion_sort_in_a_local_array():
    x = np.random.default_rng(0).integers(-9, 99, (70, 11)).astype(np.int32)
    return Run(k_insertion_sort, (x, empty((70, 11), mp.i32)), {1: np.sort(x, axis=1)}, grid=2)


@case(dtypes=(mp.i32, mp.f32))
def test_tuple_of_constants_from_outside(t):
    x = o.plain(t, 40)
    return Run(k_closure_table, (x, empty(40, t)), {1: x * t.numpy.type(4) + t.numpy.type(6)})


@case(dtypes=(mp.f32,))
def test_float_constants_from_outside(t):
    x = o.plain(t, 40)
    want = np.zeros(40, t.numpy)
    for w in WEIGHTS:
        want += x * np.float32(w)
    return Run(k_weights, (x, empty(40, t)), {1: want})


@case(dtypes=(mp.i32,))
def test_two_outputs_one_read_back(t):
    x = o.plain(t, 99)
    return Run(k_two_outputs, (x, empty(99, t), empty(99, t)), {1: x + 1, 2: (x + 1) * 2})


@case(dtypes=(mp.f32, mp.i32), gangs=True)
def test_arguments_may_be_one_array(t):
    c = t.numpy.type
    x, y = o.plain(t, 99, 1), o.plain(t, 99, 2)
    same = o.plain(t, 99, 3)
    return [
        Run(k_alias, (x, y, empty(99, t)), {2: x + c(1) + y}),
        Run(k_alias, (x.copy(), y, y), {2: (x + c(1)) + (x + c(1))}),
        Run(k_alias, (same, same, same), {2: (same + c(1)) * c(2)}),
    ]


@case(dtypes=(mp.i32,), gangs=True)
def test_a_load_sees_a_store_through_another_name(t):
    x = o.plain(t, 99)
    y = x.copy()
    return [
        Run(k_store_then_load_other_name, (x, x), {0: np.full(99, 6)}),
        Run(k_store_then_load_other_name, (y.copy(), y), {0: y + 1}),
    ]


@case(dtypes=(mp.i32,), gangs=True)
def test_views_of_one_base(t):
    base = np.arange(100, dtype=np.int32)
    return Run(k_store_then_load_other_name, (base[0:20], base[50:70]), {0: np.arange(50, 70) + 1})


@case(dtypes=(mp.i32, mp.f64))
def test_one_item_runs_a_recurrence(t):
    x = o.plain(t, 200)
    want = x.copy()
    for i in range(1, 200):
        want[i] += want[i - 1]
    return Run(k_serial_prefix, (x,), {0: want}, grid=1)


@case(dtypes=ALL)
def test_empty_arrays_and_a_zero_grid(t):
    x, out = np.zeros(0, t.numpy), np.zeros(0, t.numpy)
    untouched = values(t, 5)
    return [
        Run(k_copy, (x, out), {1: out.copy()}, grid=0),
        Run(k_copy, (x, out), {1: out.copy()}, grid=1),
        Run(k_copy, (untouched, untouched.copy()), {1: untouched.copy()}, grid=(0, 3, 1)),
        Run(k_copy2, (np.zeros((0, 4), t.numpy), np.zeros((0, 4), t.numpy)), {1: np.zeros((0, 4), t.numpy)}, grid=(1, 1)),
    ]


@mp.kernel(workgroup=64)
def k_narrowed_under_a_constant_mask(x: mp.Array[mp.i32], out):
    i = mp.thread_id(0)
    if i < 17:  # one lane of a gang of 4, 8 or 16, which the compiler knows
        out[i] = x[i]


@case(dtypes=(mp.i8, mp.u8, mp.i16, mp.u16), gangs=True)
def test_a_narrowed_store_of_one_lane_leaves_its_neighbours(t):
    x = np.arange(64, dtype=np.int32) * 70_000 + 5
    out = np.full(64, 7, t.numpy)
    return Run(k_narrowed_under_a_constant_mask, (x, out), {1: np.where(np.arange(64) < 17, x.astype(t.numpy), out)})
