"""Device functions, compile-time parameters, unrolled loops and what kernels see from outside."""

from __future__ import annotations

import math

import numpy as np

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty
from .oracle import NUMS


@mp.func
def square(v):
    return v * v


@mp.func
def poly(v):
    return square(v) + square(v + 1) * 2


@mp.kernel
def k_call(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = poly(x[i])


@case(dtypes=NUMS, gangs=True)
def test_a_function_is_specialised_on_its_argument_types(t):
    x = np.random.default_rng(0).integers(0, 5, 90).astype(np.float32).astype(t.numpy)
    return Run(k_call, (x, empty(90, t)), {1: o.map1(lambda v: v * v + (v + 1) * (v + 1) * 2, x, t)})


@mp.func
def find(x, v):
    # early return inside nested loops
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            if x[a, b] == v:
                return a * 100 + b
            if x[a, b] > 90:
                break
    return -1


@mp.kernel
def k_find(x, keys, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = find(x, keys[i]) + find(x, keys[i] + 1) * 10000


@case(gangs="all", blocks=(1, 33, 64))
def test_early_return_inside_loops_of_a_function(block):
    x = np.random.default_rng(0).integers(0, 100, (5, 9)).astype(np.int32)
    keys = np.arange(99, dtype=np.int32)

    def f(v):
        for a in range(5):
            for b in range(9):
                if x[a, b] == v:
                    return a * 100 + b
                if x[a, b] > 90:
                    break
        return -1

    want = np.array([f(v) + f(v + 1) * 10000 for v in range(99)])
    return Run(k_find, (x, keys, empty(99, mp.i64)), {2: want}, block=block)


@mp.func
def divmod2(a, b):
    return a // b, a % b


@mp.kernel
def k_multiple_results(x, q, r):
    i = mp.global_id(0)
    if i < x.shape[0]:
        a, b = divmod2(x[i], 7)
        q[i] = a
        r[i] = b


@case(dtypes=(mp.i32, mp.u8, mp.i64))
def test_multiple_results(t):
    x = o.values(t, 80)
    return Run(k_multiple_results, (x, empty(80, t), empty(80, t)), {1: o.map1(lambda v: v // 7, x, t), 2: o.map1(lambda v: v % 7, x, t)})


@mp.func
def classify(v):
    if v < 0:
        if v < -10:
            return 0
        return 1
    while v > 5:
        v = v - 6
        if v == 3:
            return 20
    if v == 2:
        return 3
    return v + 100


@mp.kernel
def k_many_returns(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        for k in range(3):
            s = s * 1000 + classify(x[i] + k)
        out[i] = s


@case(gangs=True)
def test_many_returns_called_in_a_loop():
    x = np.random.default_rng(0).integers(-20, 40, 99).astype(np.int32)

    def classify_py(v):
        if v < 0:
            return 0 if v < -10 else 1
        while v > 5:
            v = v - 6
            if v == 3:
                return 20
        return 3 if v == 2 else v + 100

    def f(v):
        s = 0
        for k in range(3):
            s = s * 1000 + classify_py(v + k)
        return s

    return Run(k_many_returns, (x, empty(99, mp.i32)), {1: np.array([f(int(v)) for v in x])})


@mp.func
def store_twice(out, i, v):
    if v < 0:
        return
    out[i] = v
    out[i + 1] = v * 2


@mp.kernel
def k_effects(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        store_twice(out, i * 2, x[i])


@case(gangs=True)
def test_a_function_with_effects_and_no_result():
    x = np.random.default_rng(0).integers(-9, 9, 70).astype(np.int32)
    want = np.full((70, 2), 77)
    want[x >= 0] = np.stack([x, x * 2], 1)[x >= 0]
    return Run(k_effects, (x, empty(140, mp.i32)), {1: want.ravel()}, grid=2)


@mp.kernel
def k_constexpr(x, out, n: mp.constexpr, flag: mp.constexpr):
    i = mp.global_id(0)
    tmp = mp.local(n, mp.i32)
    if i < out.shape[0]:
        s = x[i]
        for k in range(n):
            tmp[k] = s + k
        if flag:
            s = tmp[n - 1]
        else:
            s = tmp[0]
        out[i] = s


@case()
def test_constexpr_parameters():
    x = np.arange(50, dtype=np.int32)
    return [
        Run(k_constexpr, (x, empty(50, mp.i32), 4, True), {1: x + 3}),
        Run(k_constexpr, (x, empty(50, mp.i32), 9, True), {1: x + 8}),
        Run(k_constexpr, (x, empty(50, mp.i32), 4, False), {1: x}),
    ]


@mp.kernel
def k_constexpr_tuple(x, out, taps: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0.0
        for k in mp.static_range(len(taps)):
            s += taps[k] * x[i + k]
        out[i] = s


@case()
def test_constexpr_tuple():
    x = np.arange(60, dtype=np.float32)
    taps = (1.0, -2.0, 0.5)
    want = (x[:50] - 2 * x[1:51]) + np.float32(0.5) * x[2:52]
    return Run(k_constexpr_tuple, (x, empty(50, mp.f32), taps), {1: want})


@mp.func
def apply(f, a, b):
    return f(f(a, b), b)


@mp.func
def plus(a, b):
    return a + b


@mp.func
def times(a, b):
    return a * b


@mp.kernel
def k_function_argument(x, out, f: mp.constexpr):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = apply(f, x[i], 3)


@case()
def test_functions_as_compile_time_arguments():
    x = np.arange(50, dtype=np.int32)
    return [
        Run(k_function_argument, (x, empty(50, mp.i32), plus), {1: x + 6}),
        Run(k_function_argument, (x, empty(50, mp.i32), times), {1: x * 9}),
    ]


@mp.kernel
def k_static_range(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        for k in mp.static_range(8, 0, -3):
            s = s * 10 + k
        for k in mp.static_range(2):
            for l in mp.static_range(k + 1):
                s += x[i] * (k + l)
        out[i] = s


@case()
def test_static_range():
    x = np.arange(50, dtype=np.int32)
    return Run(k_static_range, (x, empty(50, mp.i32)), {1: 852 + x * (0 + 1 + 2)})


SCALE = 2.5
OFFSETS = (4, 5, 6)
ENABLED = True
ELEMENT = mp.f32
INF = math.inf


@mp.kernel
def k_module_constants(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        v = x[i] * SCALE + OFFSETS[1]
        if ENABLED:
            v += ELEMENT(1)
        out[i] = min(v, INF)


@case(dtypes=(mp.f32, mp.f64))
def test_module_constants(t):
    x = o.plain(t, 60)
    return Run(k_module_constants, (x, empty(60, t)), {1: x * t.numpy.type(2.5) + t.numpy.type(5) + t.numpy.type(1)})


def make(n, weights):
    @mp.kernel
    def k_closure(x, out):
        i = mp.global_id(0)
        if i < out.shape[0]:
            s = x[i] * n
            for k in mp.static_range(len(weights)):
                s += weights[k]
            out[i] = s

    return k_closure


@case()
def test_closures_do_not_share_specialisations():
    x = np.arange(60, dtype=np.int32)
    return [
        Run(make(3, (1, 2)), (x, empty(60, mp.i32)), {1: x * 3 + 3}),
        Run(make(5, (10,)), (x, empty(60, mp.i32)), {1: x * 5 + 10}),
    ]


@mp.func
def accumulate(acc, x, i):
    # parameters are values: assigning one does not change the caller's variable
    acc += x[i]
    i = i + 1
    return acc + x[i]


@mp.kernel
def k_by_value(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        acc = 10
        j = i
        r = accumulate(acc, x, j)
        out[i] = r * 100 + acc + (j - i)


@case()
def test_parameters_are_values():
    x = np.arange(61, dtype=np.int32)
    return Run(k_by_value, (x, empty(60, mp.i32)), {1: (10 + x[:60] + x[1:]) * 100 + 10})


@mp.func
def bump(x, i):
    return mp.atomic_add(x, i, 1)


@mp.kernel
def k_evaluation_order(counter, out):
    # operands and arguments are evaluated left to right
    if mp.global_id(0) == 0:
        a = bump(counter, 0) * 100 + bump(counter, 0) * 10 + bump(counter, 0)
        out[0] = a
        out[1] = min(bump(counter, 0), bump(counter, 0))
        p, q = bump(counter, 0), bump(counter, 0)
        out[2] = p * 10 + q


@case()
def test_evaluation_is_left_to_right():
    return Run(k_evaluation_order, (np.zeros(1, np.int32), empty(3, mp.i32)), {0: [7], 1: [12, 3, 56]}, grid=1)


@mp.kernel
def k_tuple_assignment(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        a, b, c = x[i], x[i] + 1, 7
        a, b = b, a
        a, c, b = c, a, b + a
        out[i] = a * 10000 + b * 100 + c


@case()
def test_tuple_assignment():
    x = np.arange(40, dtype=np.int32)
    # a, b, c = x + 1, x, 7; then a = 7, c = x + 1, b = x + (x + 1)
    return Run(k_tuple_assignment, (x, empty(40, mp.i32)), {1: 70000 + (2 * x + 1) * 100 + x + 1})


@mp.kernel
def k_keywords(x, out, alpha: mp.f32 = 2.0, beta: mp.f32 = 0.5):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = alpha * x[i] + beta


@case()
def test_default_arguments():
    x = np.arange(40, dtype=np.float32)
    return [
        Run(k_keywords, (x, empty(40, mp.f32)), {1: 2 * x + np.float32(0.5)}),
        Run(k_keywords, (x, empty(40, mp.f32), 3.0), {1: 3 * x + np.float32(0.5)}),
    ]


@mp.kernel
def k_ids(out):
    x = mp.global_id(0)
    y = mp.global_id(1)
    z = mp.global_id(2)
    out[z, y, x, 0] = mp.thread_id(0) + 10 * mp.thread_id(1) + 100 * mp.thread_id(2)
    out[z, y, x, 1] = mp.workgroup_id(0) + 10 * mp.workgroup_id(1) + 100 * mp.workgroup_id(2)
    out[z, y, x, 2] = mp.workgroup_size(0) + 10 * mp.workgroup_size(1) + 100 * mp.workgroup_size(2)
    out[z, y, x, 3] = mp.num_workgroups(0) + 10 * mp.num_workgroups(1) + 100 * mp.num_workgroups(2)


@case(gangs=True, blocks=((4, 3, 2), (5, 1, 3), (1, 7, 1), (1, 1, 9), (16, 2, 1)), grids=((2, 3, 2), (1, 1, 1)))
def test_ids_in_three_dimensions(block, grid):
    shape = tuple(b * g for b, g in zip(block[::-1], grid[::-1], strict=True))
    z, y, x = np.meshgrid(*map(np.arange, shape), indexing="ij")
    bx, by, bz = block
    want = np.stack(
        [
            x % bx + 10 * (y % by) + 100 * (z % bz),
            x // bx + 10 * (y // by) + 100 * (z // bz),
            np.full(shape, bx + 10 * by + 100 * bz),
            np.full(shape, grid[0] + 10 * grid[1] + 100 * grid[2]),
        ],
        axis=-1,
    )
    return Run(k_ids, (empty((*shape, 4), mp.i32),), {0: want}, grid=grid, block=block)


@mp.kernel
def k_cdiv(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.cdiv(x[i], 7)


@case()
def test_cdiv_in_a_kernel():
    x = np.arange(60, dtype=np.int32)
    assert [mp.cdiv(v, 7) for v in (0, 1, 7, 8)] == [0, 1, 1, 2]
    return Run(k_cdiv, (x, empty(60, mp.i32)), {1: -(-x // 7)})
