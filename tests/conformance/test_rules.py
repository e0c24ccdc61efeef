"""The case of each rule of the design that the frontend, the interpreter and the CPU answer for.

A rule's number stands in the test's name.  Rule 26 (legalisation) and 30 (the worker that generates GPU code) concern
other targets; 28 and 29 are also held by tests of the emitted text (tests/unit/test_cpu_backend_text.py).  Rules 1, 10 and
24 have more cases in test_index, test_subgroups, test_faults and tests/unit/test_sanitizer.py.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import Run, case, empty, gang_targets, targets
from .matrix import on_threads

EVERY = pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
EVERY_GANG = pytest.mark.parametrize("target", [*targets(), *gang_targets()], ids=lambda t: t.name)
N = 131


# --- 1: index (see test_index for large arrays) ------------------------------------------------------------------------
@mp.kernel
def k_low_bits(x, out):
    # only the low bits matter: an offset built from + - * << into a small array
    i = mp.global_id(0)
    if i < out.shape[0]:
        big = i * 4294967296 + (i << 40) + i
        out[i] = x[big - i * 4294967296 - (i << 40)]


@case(requires=("int64",))
def test_rule_01_offsets_whose_parts_are_large():
    x = np.arange(N, dtype=np.int32) * 3
    return Run(k_low_bits, (x, empty(N, mp.i32)), {1: x})


@mp.kernel
def k_triangle(out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = i * (i - 1) // 2


@case(requires=("int64",), gangs=True)
def test_rule_01_triangular_numbers_of_70000_elements():
    i = np.arange(70_000)
    return Run(k_triangle, (empty(i.size, mp.i64),), {0: i * (i - 1) // 2}, block=256)


# --- 2: counted for ---------------------------------------------------------------------------------------------------
@mp.kernel
def k_count(start, stop, step, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        n = 0
        last = mp.i64(0)
        for v in range(start[i], stop[i], step[i]):
            n += 1
            last = mp.i64(v)
        out[i, 0] = n
        out[i, 1] = last


_EDGES_32 = [
    (2**31 - 5, 2**31 - 1, 3),
    (2**31 - 2, 2**31 - 1, 2**31 - 1),
    (-(2**31) + 4, -(2**31), -3),
    (-(2**31), 2**31 - 1, 2**30),
    (2**31 - 1, -(2**31), -(2**30)),
    (-(2**31), -(2**31), 1),
    (0, 2**31 - 1, 2**31 - 1),
    (5, -(2**31), -(2**31)),
]
_EDGES_64 = [
    (2**63 - 5, 2**63 - 1, 3),
    (-(2**63) + 4, -(2**63), -3),
    (-(2**63), 2**63 - 1, 2**62),
    (2**63 - 1, -(2**63), -(2**62)),
    (2**31 - 3, 2**31 + 3, 2),
    (2**32 - 3, 2**32 + 3, 2),
    (3, -(2**63), -(2**63)),
]


@case(dtypes=(mp.i32, mp.i64), gangs=True)
def test_rule_02_trip_counts_near_the_ends_of_the_type(t):
    rows = _EDGES_32 + (_EDGES_64 if t is mp.i64 else [])
    start, stop, step = (np.array(c, t.numpy) for c in zip(*rows, strict=True))
    want = np.array([[len(range(*r)), range(*r)[-1] if range(*r) else 0] for r in rows])
    return Run(k_count, (start, stop, step, empty((len(rows), 2), mp.i64)), {3: want}, grid=1)


@mp.kernel
def k_uniform_count(a: mp.i32, b: mp.i32, c: mp.i32, out):
    n = 0
    for _ in range(a, b, c):
        n += 1
    out[mp.global_id(0)] = n


@case(gangs=True)
def test_rule_02_uniform_loops_near_the_ends_of_the_type():
    return [Run(k_uniform_count, (*r, empty(32, mp.i64)), {3: np.full(32, len(range(*r)))}, grid=1, block=32) for r in _EDGES_32]


@mp.kernel
def k_step_zero(out, step: mp.i32):
    i = mp.global_id(0)
    n = 0
    for _ in range(0, 10, step):
        n += 1
    out[i] = n


@case()
def test_rule_02_a_step_of_zero_at_run_time_makes_no_trip():
    return Run(k_step_zero, (empty(16, mp.i32), 0), {0: np.zeros(16)}, grid=1, block=16)


def test_rule_02_a_literal_step_of_zero_is_an_error():
    @mp.kernel
    def k(out):
        for j in range(0, 10, 0):
            out[j] = 1

    with pytest.raises(mp.CompileError) as caught:
        k.compile(np.zeros(10, np.int32), backend="interp")
    assert caught.value.code == "MPG_PY_1016"


@mp.kernel
def k_assigned_variable(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        j = 0
        for j in range(x[i]):
            s += j
            j = j * 2 + 1
            s += j
        out[i, 0] = s
        out[i, 1] = j


@EVERY
@pytest.mark.filterwarnings("ignore::magpie.CompileWarning")
def test_rule_02_assigning_the_variable_does_not_steer_the_loop(target):
    x = np.arange(30, dtype=np.int32) % 7
    out = np.zeros((30, 2), np.int32)
    k_assigned_variable.launch(grid=1, block=32, args=(x, out), device=target.device)

    def f(n):
        s = j = 0
        for j in range(n):
            s += j
            j = j * 2 + 1
            s += j
        return s, j

    assert np.array_equal(out, [f(v) for v in x])


def test_rule_02_assigning_the_variable_is_a_warning():
    @mp.kernel
    def k(out):
        for j in range(3):
            j += 1
            out[j] = 1

    with pytest.warns(mp.CompileWarning, match="MPG_PY_1028"):
        k.compile(np.zeros(10, np.int32), backend="interp")


# --- 3: exits over several levels ---------------------------------------------------------------------------------------
@mp.func
def first_pair(x, want):
    for a in range(x.shape[0]):
        for b in range(x.shape[0]):
            k = 0
            while k < 3:
                if x[a] + x[b] + k == want:
                    return a * 10000 + b * 100 + k
                k += 1
    return -1


@mp.kernel
def k_exits(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        total = 0
        for r in range(3):
            if r == 1:
                continue
            total += first_pair(x, i + r)
        out[i] = total


@case(gangs=True)
def test_rule_03_an_inlined_early_return_leaves_only_its_own_loops():
    x = np.array([3, 14, 15, 9, 26], np.int32)

    def f(want):
        for a in range(5):
            for b in range(5):
                for k in range(3):
                    if x[a] + x[b] + k == want:
                        return a * 10000 + b * 100 + k
        return -1

    return Run(k_exits, (x, empty(60, mp.i32)), {1: np.array([f(i) + f(i + 2) for i in range(60)])})


# --- 4: tables, trap ----------------------------------------------------------------------------------------------------
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
TWO_D = ((1, 2, 3), (4, 5, 6))


@mp.kernel
def k_table(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = PRIMES[x[i]]


@case(gangs=True)
def test_rule_04_a_table_with_a_dynamic_index():
    x = np.random.default_rng(0).integers(0, 8, N).astype(np.int32)
    return Run(k_table, (x, empty(N, mp.i32)), {1: np.array(PRIMES)[x]})


@mp.kernel
def k_table_2d(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = TWO_D[x[i]][y[i]] * 10 + TWO_D[1][y[i]]


@case(gangs=True)
def test_rule_04_a_table_of_two_dimensions():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, N).astype(np.int32), rng.integers(0, 3, N).astype(np.int32)
    table = np.array(TWO_D)
    return Run(k_table_2d, (x, y, empty(N, mp.i32)), {2: table[x, y] * 10 + table[1, y]})


@mp.kernel(requires=("workgroup_order",))
def k_ordered(data, flags, out):
    # a workgroup hands a value to the next one through an atomic store and load
    g = mp.workgroup_id(0)
    if mp.thread_id(0) == 0:
        v = 1
        if g > 0:
            while mp.atomic_load(flags, g - 1, order="acquire") == 0:
                pass
            v = data[g - 1] * 3 % 1000 + 1
        data[g] = v
        mp.atomic_store(flags, g, 1, order="release")
        out[g] = v


@case(requires=("workgroup_order",), gangs=True)
def test_rule_04_atomic_loads_and_stores_with_an_order():
    want = [1]
    for _ in range(19):
        want.append(want[-1] * 3 % 1000 + 1)
    args = (np.zeros(20, np.int32), np.zeros(20, np.int32), empty(20, mp.i32))
    return Run(k_ordered, args, {0: want, 1: np.ones(20), 2: want}, grid=20, block=32)


# --- 5: uniformity ------------------------------------------------------------------------------------------------------
@mp.kernel
def k_temporal(x, out):
    # k is stored in a loop with a varying exit, so it varies outside: it must not be kept once per group
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    k = 0
    while True:
        k = k + 1
        if k > x[t]:
            break
    s[t] = k
    mp.barrier()
    out[t] = s[t] * 100 + k


@case(gangs=True)
def test_rule_05_temporal_divergence_across_a_barrier():
    x = np.random.default_rng(0).integers(0, 9, 64).astype(np.int32)
    return Run(k_temporal, (x, empty(64, mp.i32)), {1: (x + 1) * 101}, grid=1)


@mp.kernel
def k_webs(x, out):
    # v is two variables with one name: uniform first, then varying
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    v = 3
    for _ in range(v):
        mp.barrier()
    v = x[t]
    s[t] = v
    mp.barrier()
    out[t] = s[63 - t] + v


@case(gangs=True)
def test_rule_05_a_name_reused_for_another_value():
    x = np.arange(64, dtype=np.int32)
    return Run(k_webs, (x, empty(64, mp.i32)), {1: np.full(64, 63)}, grid=1)


@mp.kernel
def k_gang_uniform(x, out):
    i = mp.global_id(0)
    g = mp.thread_id(0) // 32
    if g % 2 == 0:
        out[i] = x[g]
    else:
        s = 0
        for k in range(g):
            s += x[k]
        out[i] = s


@case(gangs=True)
def test_rule_05_branches_on_the_quotient_of_the_thread_id():
    x = np.arange(8, dtype=np.int32) + 5
    g = np.arange(256) // 32
    want = np.where(g % 2 == 0, x[g], np.concatenate([[0], np.cumsum(x)])[g])
    return Run(k_gang_uniform, (x, empty(256, mp.i32)), {1: want}, grid=1, block=256)


def test_rule_05_a_barrier_under_a_branch_that_a_gang_agrees_on_is_an_error():
    # thread_id // 32 is the same for a gang, not for the workgroup
    @mp.kernel(workgroup=(64, 1, 1))
    def k(out):
        t = mp.thread_id(0)
        if t // 32 == 0:
            mp.barrier()
        out[t] = 1

    with pytest.raises(mp.CompileError) as caught:
        k.launch(grid=1, block=64, args=(np.zeros(64, np.int32),), device="cpu", gang=32)
    assert caught.value.code == "MPG_CORE_1400"


@mp.kernel
def k_linear_that_wraps(x, out, big: mp.u32):
    # steps of one from lane to lane, but for the lane where the type wraps
    i = mp.global_id(0)
    a = mp.u8(i) + mp.u8(200)
    b = (mp.u32(i) + big) & mp.u32(255)
    out[i] = x[a] * 1000 + x[b]


@case(gangs="all", blocks=(64, 100))
def test_rule_05_a_linear_index_that_wraps_is_not_linear(block):
    x = np.random.default_rng(0).integers(0, 999, 256).astype(np.int32)
    i = np.arange(4 * block)
    want = x[(i + 200) % 256] * 1000 + x[(i + 2**32 - 70) % 2**32 % 256]
    return Run(k_linear_that_wraps, (x, empty(i.size, mp.i32), 2**32 - 70), {1: want}, grid=4, block=block)


def test_rule_05_a_barrier_under_a_varying_branch_is_an_error():
    @mp.kernel
    def k(out):
        t = mp.thread_id(0)
        half = t < 16
        if half:
            mp.barrier()
        out[t] = 1

    with pytest.raises(mp.CompileError) as caught:
        k.compile(np.zeros(32, np.int32), backend="interp")
    assert caught.value.code == "MPG_CORE_1400"
    assert "thread_id" in str(caught.value)


def test_rule_05_a_barrier_after_a_varying_return_is_an_error():
    @mp.kernel
    def k(x, out):
        t = mp.thread_id(0)
        if x[t] > 0:
            return
        mp.barrier()
        out[t] = 1

    with pytest.raises(mp.CompileError) as caught:
        k.compile(np.zeros(32, np.int32), np.zeros(32, np.int32), backend="interp")
    assert caught.value.code == "MPG_CORE_1400"


@pytest.mark.filterwarnings("error::magpie.CompileWarning")
def test_rule_05_uniform_by_provenance_is_no_error():
    @mp.kernel
    def k(x, out, n: mp.i32):
        t = mp.thread_id(0)
        for r in range(n):
            if x[r] > 0:  # x is only read, at a uniform address
                mp.barrier()
        out[t] = 1

    k.compile(np.zeros(32, np.int32), np.zeros(32, np.int32), 3, backend="interp")


# --- 6: references ------------------------------------------------------------------------------------------------------
def test_rule_06_a_join_of_two_arrays_is_an_error():
    @mp.kernel
    def k(a, b, out, odd: mp.bool_):
        if odd:
            src = a
        else:
            src = b
        out[0] = src[0]

    x = np.zeros(4, np.float32)
    with pytest.raises(mp.CompileError) as caught:
        k.compile(x, x, x, True, backend="interp")
    assert caught.value.code == "MPG_PY_1015"


@mp.kernel
def k_select_of_loads(a, b, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = a[i] if i % 2 == 1 else b[i]


@case(gangs=True)
def test_rule_06_a_select_of_loads():
    a, b = np.arange(N, dtype=np.float32), -np.arange(N, dtype=np.float32)
    return Run(k_select_of_loads, (a, b, empty(N, mp.f32)), {2: np.where(np.arange(N) % 2 == 1, a, b)})


# --- 7: slots -----------------------------------------------------------------------------------------------------------
def test_rule_07_a_name_not_assigned_on_all_paths_is_an_error_at_its_read():
    @mp.kernel
    def k(x, out):
        i = mp.global_id(0)
        if x[i] > 0:
            v = x[i]
        out[i] = v

    with pytest.raises(mp.CompileError) as caught:
        k.compile(np.zeros(4, np.float32), np.zeros(4, np.float32), backend="interp")
    assert caught.value.code == "MPG_PY_1003"
    assert "out[i] = v" in str(caught.value)


# --- 8: what stands behind any(mask) --------------------------------------------------------------------------------------
@mp.kernel
def k_lookup(p, tab, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        s = 0
        k = 0
        while True:
            if k >= p[i]:
                break
            s += tab[k]
            k += 1
        out[i] = s


@EVERY_GANG
def test_rule_08_an_empty_mask_reads_nothing(target):
    # the table ends at the end of a page that is followed by one that cannot be read
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    raw = np.frombuffer(area, np.uint8)
    address = raw.__array_interface__["data"][0]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + page), page, 0) != 0:
        pytest.skip("mprotect is not possible here")
    try:
        n = page // 4
        tab = raw[:page].view(np.int32)
        tab[:] = np.arange(n)
        out = np.zeros(70, np.int64)
        p = np.full(70, n, np.int32)
        p[::3] = np.arange(24)
        k_lookup.launch(grid=2, block=64, args=(p, tab, out), device=target.device, **dict(target.options))
        assert np.array_equal(out, [v * (v - 1) // 2 for v in p.tolist()])
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, mmap.PROT_READ | mmap.PROT_WRITE)


@mp.kernel
def k_loops_behind_a_mask(x, out):
    # the loop never ends for an item that is not in it
    i = mp.global_id(0)
    if i < out.shape[0]:
        n = 0
        if x[i] > 0:
            v = x[i]
            while v != 1:
                v = v // 2 if v % 2 == 0 else 3 * v + 1
                n += 1
                if n % 3 == 0:
                    k = v % 5
                    while k != 0:
                        k = k - 1
                        n += 1
        out[i] = n


@case(gangs="all")
def test_rule_08_loops_stand_behind_a_test_of_the_mask():
    def f(v):
        n = 0
        while v > 0 and v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            n += 1
            if n % 3 == 0:
                n += v % 5
        return n

    # whole gangs without an item that enters, and some with one
    x = np.where(np.arange(N) // 32 % 2 == 0, 0, np.random.default_rng(0).integers(-9, 30, N)).astype(np.int32)
    return Run(k_loops_behind_a_mask, (x, empty(N, mp.i32)), {1: np.array([f(int(v)) for v in x])})


@mp.kernel
def k_masked_divisor(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if y[i] != 0:
            out[i] = x[i] // y[i] + x[i] % y[i]
        else:
            out[i] = -1


@case(dtypes=(mp.i8, mp.i16, mp.i32, mp.i64, mp.u32, mp.u64), gangs=True)
def test_rule_08_division_under_a_mask(t):
    x, y = o.pairs(t)

    def f(a, b):
        return -1 if b == 0 else o.wrap(o.wrap(a // b, t) + o.wrap(a % b, t), t)

    return Run(k_masked_divisor, (x, y, empty(x.size, mp.i64 if t.kind == "int" else t)), {2: o.map2(lambda a, b: f(a, b), x, y, mp.i64 if t.kind == "int" else t)}) if t.kind == "int" else Run(
        k_masked_divisor_unsigned, (x, y, empty(x.size, t)), {2: o.map2(lambda a, b: 7 if b == 0 else a // b + a % b, x, y, t)}
    )


@mp.kernel
def k_masked_divisor_unsigned(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        if y[i] != 0:
            out[i] = x[i] // y[i] + x[i] % y[i]
        else:
            out[i] = 7


# --- 9, 10: reconvergence and subgroup order: see test_subgroups --------------------------------------------------------------
@mp.kernel
def k_arms(x, size, out):
    # the two arms of a branch are separate active sets; after it all are together again
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    if x[i] % 2 == 0:
        a = mp.subgroup.ballot_count(True)
    else:
        a = mp.subgroup.ballot_count(True) * 100
    out[i] = a + mp.subgroup.ballot_count(True) * 10000


@case(requires=("subgroups",), gangs=True)
def test_rule_09_arms_are_apart_and_join_again():
    x = np.random.default_rng(0).integers(0, 9, 64).astype(np.int32)

    def expect(x, size, out):
        w, want = int(size[0]), np.zeros(64, np.int64)
        for a in range(0, 64, w):
            part = x[a : a + w]
            even = int((part % 2 == 0).sum())
            want[a : a + w] = np.where(part % 2 == 0, even, (part.size - even) * 100) + part.size * 10000
        return {1: size, 2: want}

    return Run(k_arms, (x, np.zeros(1, np.int32), empty(64, mp.i32)), expect, grid=1)


@mp.kernel
def k_rejoin(x, size, out):
    # who continues is there again in the next trip, who breaks after the loop
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    acc = 0
    for k in range(4):
        acc += mp.subgroup.ballot_count(True)
        if x[i] % 4 == k:
            continue
        acc += mp.subgroup.ballot_count(True) * 100
        if x[i] + k > 9:
            break
    out[i] = acc + mp.subgroup.ballot_count(True) * 100000


@case(requires=("subgroups",), gangs="all", blocks=(64, 33))
def test_rule_09_a_continue_joins_at_the_step_and_a_break_behind_the_loop(block):
    x = np.random.default_rng(0).integers(0, 12, block).astype(np.int32)

    def expect(x, size, out):
        w, want = int(size[0]), np.zeros(block, np.int64)
        for a in range(0, block, w):
            part = x[a : a + w]
            acc, here = np.zeros(part.size, np.int64), np.ones(part.size, bool)
            for k in range(4):
                acc[here] += here.sum()
                on = here & (part % 4 != k)
                acc[on] += on.sum() * 100
                here &= ~(on & (part + k > 9))
            want[a : a + w] = acc + part.size * 100000
        return {1: size, 2: want}

    return Run(k_rejoin, (x, np.zeros(1, np.int32), empty(block, mp.i32)), expect, grid=1, block=block)


@mp.kernel
def k_negative_zero_sum(x, out):
    out[mp.global_id(0)] = mp.subgroup.sum(x[mp.global_id(0)])


@case(dtypes=(mp.f32, mp.f64), requires=("subgroups",), gangs=True)
def test_rule_10_the_identity_of_sum_is_negative_zero(t):
    x = np.full(5, -0.0, t.numpy)
    return Run(k_negative_zero_sum, (x, empty(5, t)), {1: x.copy()}, grid=1, block=5)


@mp.kernel
def k_compacted(x, size, total, scan):
    # every third lane: adjacent lanes that take part are not adjacent lanes
    i = mp.global_id(0)
    size[0] = mp.subgroup.size()
    if mp.thread_id(0) % 3 == 1:
        total[i] = mp.subgroup.sum(x[i])
        scan[i] = mp.subgroup.scan(x[i])


@case(requires=("subgroups",), gangs="all")
def test_rule_10_partial_masks_are_compacted_before_they_are_reduced():
    from .test_subgroups import kogge_stone, lanes, tree

    # 1e8 and -1e8 cancel or swallow the small ones, by the order in which they meet
    x = np.tile(np.array([1, 1e8, 2, 3, 0.5, -1e8, 7, -1e8, 1, 1e8, 3, 5, 4], np.float32), 5)[:60].copy()

    def expect(x, size, total, scan):
        want, prefix = empty(60, mp.f32), empty(60, mp.f32)
        for group in lanes(int(size[0]), 60):
            active = [k for k in group if k % 3 == 1]
            if active:
                want[active] = tree([x[k] for k in active], lambda a, b: a + b)
                prefix[active] = kogge_stone([x[k] for k in active], lambda a, b: a + b)
        return {1: size, 2: want, 3: prefix}

    return Run(k_compacted, (x, np.zeros(1, np.int32), empty(60, mp.f32), empty(60, mp.f32)), expect, grid=1, block=60)


# --- 11: forward progress: see test_atomics; 12, 13: see test_shared ------------------------------------------------------------
def test_rule_11_waiting_on_a_plain_load_is_a_warning():
    @mp.kernel
    def k(flag, out):
        while flag[0] == 0:
            pass
        out[0] = 1

    with pytest.warns(mp.CompileWarning, match="MPG_CORE_1402"):
        k.compile(np.zeros(1, np.int32), np.zeros(1, np.int32), backend="interp")


@mp.kernel(requires=("workgroup_order",))
def k_wait_below(flags, out):
    # a workgroup waits on a lower one: they start in increasing order
    g = mp.workgroup_id(0)
    if mp.thread_id(0) == 0:
        if g > 0:
            while mp.atomic_load(flags, g - 1) == 0:
                pass
        mp.atomic_store(flags, g, 1)
        out[g] = g


@EVERY
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rule_11_a_workgroup_may_wait_on_lower_ones(target, threads):
    flags, out = np.zeros(200, np.int32), np.full(200, -1, np.int32)
    with on_threads(threads):
        k_wait_below.launch(grid=200, block=16, args=(flags, out), device=target.device)
    assert np.array_equal(out, np.arange(200))


@mp.kernel
def k_buffers_and_shared(x, tmp, out):
    # what an item wrote to a buffer and to shared memory is there for the others of its workgroup behind the barrier
    t = mp.thread_id(0)
    n = mp.workgroup_size(0)
    base = mp.workgroup_id(0) * n
    s = mp.shared(128, mp.i32)
    for r in range(3):
        tmp[base + t] = x[base + t] + r
        s[t] = tmp[base + t] * 2
        mp.barrier()
        out[base + t] += tmp[base + (t + 1) % n] * 1000 + s[n - 1 - t]
        mp.barrier()


@case(gangs="all", blocks=(33, 128))
def test_rule_12_a_barrier_orders_buffers_and_shared_memory(block):
    x = np.random.default_rng(0).integers(0, 99, (3, block)).astype(np.int32)
    want = sum(np.roll(x + r, -1, axis=1) * 1000 + (x + r)[:, ::-1] * 2 for r in range(3))
    args = (x.ravel(), empty(x.size, mp.i32), np.zeros(x.size, np.int32))
    return Run(k_buffers_and_shared, args, {1: x + 2, 2: want}, grid=3, block=block)


@mp.kernel
def k_per_item(x, out):
    # a sum whose parts are uniform is still per work-item; an atomic in a uniform region runs once an item
    t = mp.thread_id(0)
    s = mp.shared(1, mp.i32)
    if t == 0:
        s[0] = 0
    mp.barrier()
    mp.atomic_add(s, 0, 1)
    mp.atomic_add(out, 0, x[0])
    mp.barrier()
    out[1] = s[0]


@case(gangs=True, blocks=(1, 33, 64))
def test_rule_13_atomics_in_uniform_code_run_once_per_item(block):
    return Run(k_per_item, (np.array([3], np.int32), np.zeros(2, np.int32)), {1: [3 * block, block]}, grid=1, block=block)


CHECKED = pytest.mark.parametrize(
    "target", [t for t in [*targets(), *gang_targets()] if "checked" in t.manifest.capabilities], ids=lambda t: t.name
)


@mp.kernel
def k_not_uniform(x, out):
    t = mp.thread_id(0)
    if mp.uniform(x[t] > 0):
        mp.barrier()
    out[t] = 1


@CHECKED
@pytest.mark.parametrize("odd", [0, 3, 40, 63])
def test_rule_13_a_condition_that_differs_is_reported_in_checked_mode(target, odd):
    x = np.ones(64, np.int32)
    launch = {"device": target.device, "checked": True, **dict(target.options)}
    k_not_uniform.launch(grid=1, block=64, args=(x, np.zeros(64, np.int32)), **launch)
    x[odd] = 0
    with pytest.raises(mp.GpuError) as caught:
        k_not_uniform.launch(grid=1, block=64, args=(x, np.zeros(64, np.int32)), **launch)
    assert caught.value.diagnostic == "MPG_SAN_1013"
    assert "if mp.uniform(x[t] > 0):" in str(caught.value)


# --- 14: shapes of groups against gangs -----------------------------------------------------------------------------------------
@mp.kernel
def k_2d_access(x, out):
    tx = mp.thread_id(0)
    ty = mp.thread_id(1)
    tz = mp.thread_id(2)
    s = 0
    for k in range(ty + 1):
        s += x[tz, k, tx]
    out[mp.workgroup_id(0), tz, ty, tx] = s


@case(gangs=True, blocks=((64, 2, 1), (4, 8, 2), (8, 4, 1), (5, 7, 3), (1, 32, 1), (33, 3, 1), (16, 1, 4), (2, 2, 2)))
def test_rule_14_groups_of_every_shape(block):
    bx, by, bz = block
    x = np.random.default_rng(0).integers(0, 99, (bz, by, bx)).astype(np.int32)
    want = np.broadcast_to(np.cumsum(x, axis=1), (2, bz, by, bx))
    return Run(k_2d_access, (x, empty((2, bz, by, bx), mp.i32)), {1: want}, grid=2, block=block)


# --- 15: stores never touch what they do not own ----------------------------------------------------------------------------------
@mp.kernel
def k_interleaved(x, out, phase: mp.i32):
    i = mp.global_id(0)
    if i < out.shape[0] and i % 3 == phase:
        out[i] = x[i]


@case(dtypes=(mp.u8, mp.i16, mp.f32, mp.f64, mp.bool_), gangs=True)
def test_rule_15_masked_stores_leave_the_other_lanes_alone(t):
    x, out = o.values(t, N), o.values(t, N, 1)
    i = np.arange(N)
    return [Run(k_interleaved, (x, out.copy(), p), {1: np.where(i % 3 == p, x, out)}) for p in range(3)]


@mp.kernel
def k_alternate(out, wrong):
    # workgroup g owns every element whose number has g's parity, and stores there again and again
    g = mp.workgroup_id(0)
    bad = 0
    for r in range(400):
        for p in range(4):
            i = p * 64 + mp.thread_id(0)
            if i % 2 == g:
                if r > 0:
                    if mp.i32(out[i]) != (r - 1) % 100:
                        bad += 1
                out[i] = r % 100
    wrong[g * 64 + mp.thread_id(0)] = bad


@pytest.mark.parametrize("t", [mp.u8, mp.i16, mp.i32, mp.f64], ids=lambda t: t.name)
@EVERY
def test_rule_15_masked_stores_write_nothing_back_that_another_thread_has_changed(target, t):
    out, wrong = np.zeros(256, t.numpy), np.zeros(128, np.int32)
    with on_threads(2):
        k_alternate.launch(grid=2, block=64, args=(out, wrong), device=target.device)
    assert not wrong.any()
    assert np.all(out == 99)


@EVERY_GANG
def test_rule_15_masked_stores_beside_a_page_that_cannot_be_written(target):
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    raw = np.frombuffer(area, np.uint8)
    address = raw.__array_interface__["data"][0]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + page), page, 0) != 0:
        pytest.skip("mprotect is not possible here")
    try:
        out = raw[page - 4 * 37 : page].view(np.int32)
        args = (np.arange(37, dtype=np.int32), out, 1)
        k_interleaved.launch(grid=1, block=64, args=args, device=target.device, **dict(target.options))
        i = np.arange(37)
        assert np.array_equal(out, np.where(i % 3 == 1, i, 0))
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, mmap.PROT_READ | mmap.PROT_WRITE)


# --- 16: storage ------------------------------------------------------------------------------------------------------------------
@mp.kernel
def k_large_local(x, out):
    i = mp.global_id(0)
    a = mp.local(2000, mp.f64)
    s = mp.shared(2000, mp.f64)
    if i < out.shape[0]:
        for k in range(2000):
            a[k] = x[i] + k
        if mp.thread_id(0) == 0:
            for k in range(2000):
                s[k] = k
        out[i] = a[1999] + a[i % 7]


@mp.kernel
def k_long_local(out, n: mp.constexpr):
    i = mp.global_id(0)
    a = mp.local(n, mp.f32)
    a[i % n] = 5.0
    if i < out.shape[0]:
        s = 0.0
        for k in range(n):
            s += a[k] * (k + 1)
        out[i] = s


@case()
def test_rule_16_long_local_arrays_start_at_zero():
    for n in (64, 65, 200):
        i = np.arange(100)
        yield Run(k_long_local, (empty(100, mp.f32), n), {0: (5.0 * (i % n + 1)).astype(np.float32)}, grid=2)


@case(requires=("f64",))
def test_rule_16_large_local_and_shared_arrays():
    x = np.arange(256, dtype=np.float64)
    return Run(k_large_local, (x, empty(256, mp.f64)), {1: (x + 1999) + (x + np.arange(256) % 7)}, grid=1, block=256)


# --- 17: checked mode ---------------------------------------------------------------------------------------------------------------
@mp.kernel
def k_unguarded(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    out[mp.global_id(0)] = s[63 - t]


@pytest.mark.parametrize("target", [t for t in targets() if "checked" in t.manifest.capabilities], ids=lambda t: t.name)
def test_rule_17_a_fault_is_recorded_and_skipped(target):
    base = np.arange(200, dtype=np.int32)
    x, out = base[:100], np.full(200, 7, np.int32)
    with pytest.raises(mp.GpuError) as caught:
        k_unguarded.launch(grid=2, block=64, args=(x, out[:100]), device=target.device, checked=True)
    assert "test_rules.py" in str(caught.value)
    assert "s[t] = x[mp.global_id(0)]" in str(caught.value) or "out[mp.global_id(0)]" in str(caught.value)
    assert np.all(out[100:] == 7)
    assert np.array_equal(out[:64], base[63::-1])


# --- 18: the floating-point environment ---------------------------------------------------------------------------------------------
@mp.kernel
def k_denormal(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * 0.5


@EVERY
def test_rule_18_flush_to_zero_of_the_process_does_not_leak_in(target):
    if target.manifest.flushes_denormals:
        pytest.skip("the target flushes denormals")
    code = f"""
        import ctypes, sys
        import numpy as np
        sys.path.insert(0, {os.getcwd()!r})
        libm = ctypes.CDLL("libm.so.6")
        env = (ctypes.c_uint32 * 8)()
        libm.fegetenv(env)
        before = env[7]
        env[7] |= 0x8040  # FTZ and DAZ, as one -Ofast library in the process sets them
        from tests.conformance.test_rules import k_denormal
        x = np.full(4000, 1e-45, np.float32) * np.float32(4)
        out = np.zeros(4000, np.float32)
        libm.fesetenv(env)
        import magpie as mp
        refused = None
        try:
            k_denormal.launch(grid=63, block=64, args=(x, out), device={target.device!r})
        except mp.GpuError as error:  # a target that cannot set the mode says so
            refused = str(error)
        libm.fegetenv(env)
        assert env[7] & 0x8040 == 0x8040, hex(env[7])
        env[7] = before
        libm.fesetenv(env)
        if refused is not None:
            assert "denormal" in refused, refused
        else:
            assert (out.view(np.uint32) == 2).all(), out
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    if "fegetenv" in done.stderr and "undefined symbol" in done.stderr:
        pytest.skip("no fegetenv in libm here")
    assert done.returncode == 0, done.stderr


@EVERY
def test_rule_18_a_forked_child_can_launch(target):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    x, out = np.ones(4000, np.float32), np.zeros(4000, np.float32)
    k_denormal.launch(grid=63, block=64, args=(x, out), device=target.device)
    code = f"""
        import os, sys, warnings
        import numpy as np
        sys.path.insert(0, {os.getcwd()!r})
        import magpie as mp
        from tests.conformance.test_rules import k_denormal
        x, out = np.ones(40000, np.float32), np.zeros(40000, np.float32)
        k_denormal.launch(grid=625, block=64, args=(x, out), device={target.device!r})
        pid = os.fork()
        if pid == 0:
            out[:] = 0
            try:
                k_denormal.launch(grid=625, block=64, args=(x, out), device={target.device!r})
            except mp.GpuError as error:  # where the vendor's library does not allow it, it is said
                good = not mp.device({target.device!r}).driver.host_memory and "fork" in str(error)
            else:
                good = (out == 0.5).all()
            os._exit(0 if good else 1)
        _, status = os.waitpid(pid, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# --- 19, 20, 21, 22: numbers (see test_arith, test_bits, test_cast) -------------------------------------------------------------------
@mp.kernel
def k_total(a, b, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i, 0] = a[i] // b[i]
        out[i, 1] = a[i] % b[i]
        out[i, 2] = a[i] << b[i]
        out[i, 3] = mp.clz(a[i])


@case()
def test_rule_19_integer_operators_are_total():
    a = np.array([7, -(2**31), 1, 0, -8], np.int32)
    b = np.array([0, -1, 33, 31, -1], np.int32)
    want = np.array(
        [
            [0, 0, 7, 29],
            [-(2**31), 0, 0, 0],
            [0, 1, 2, 31],
            [0, 0, 0, 32],
            [8, 0, 0, 0],
        ],
        np.int64,
    )
    return Run(k_total, (a, b, empty((5, 4), mp.i32)), {2: want}, grid=1)


@mp.kernel
def k_float_floordiv(a, b, q, r):
    i = mp.global_id(0)
    if i < q.shape[0]:
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]


@case(dtypes=(mp.f64,))
def test_rule_19_float_floor_division_is_cpythons(t):
    a = np.array([7.0, -7.0, 1.0, -1.0, 0.0, -0.0, 5.5])
    b = np.array([0.1, 0.1, 0.1, 3.0, -2.0, 2.0, np.inf])
    q = np.array([x // y for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    r = np.array([x % y for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    assert q[0] == 69.0
    return Run(k_float_floordiv, (a, b, empty(7, t), empty(7, t)), {2: q, 3: r}, grid=1)


@mp.kernel
def k_saturate(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.i32(x[i])


@case(dtypes=(mp.f32, mp.f64), gangs=True)
def test_rule_19_float_to_int_saturates(t):
    x = np.array([1e10, -1e10, np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 0.99, -0.99, 2147483520.0], t.numpy)
    want = [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 0, 2147483520]
    return Run(k_saturate, (x, empty(10, mp.i32)), {1: want}, grid=1)


@mp.kernel
def k_minmax(x, y, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i, 0] = min(x[i], y[i])
        out[i, 1] = max(x[i], y[i])
        out[i, 2] = mp.minimum(x[i], y[i])
        out[i, 3] = mp.maximum(x[i], y[i])


@case(dtypes=o.FLOATS)
def test_rule_20_zeros_and_nan_in_min_and_max(t):
    n = math.nan
    x = np.array([0.0, -0.0, n, 1.0, n]).astype(np.float32).astype(t.numpy)
    y = np.array([-0.0, 0.0, 2.0, n, n]).astype(np.float32).astype(t.numpy)
    want = np.array([[-0.0, 0.0, -0.0, 0.0], [-0.0, 0.0, -0.0, 0.0], [2, 2, n, n], [1, 1, n, n], [n, n, n, n]])
    return Run(k_minmax, (x, y, empty((5, 4), t)), {2: want.astype(np.float32).astype(t.numpy)}, grid=1)


@mp.kernel
def k_to_bf16(x, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = mp.bf16(x[i])


@case(dtypes=(mp.bf16,))
def test_rule_21_f64_to_bf16_rounds_once(t):
    # halfway between two bf16 values, plus an amount that f32 drops: rounding twice gives the even one, once the upper
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-40, -(1 + 3 * 2.0**-8 - 2.0**-40)])
    want = np.array([1 + 2.0**-7, 1.0, 1.0, -(1 + 2.0**-7)], np.float32).astype(t.numpy)
    return Run(k_to_bf16, (x, empty(4, t)), {1: want}, grid=1)


@mp.kernel
def k_fma_pair(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        p = x[i] * y[i]
        out[i] = mp.fma(x[i], y[i], -p)


@case(dtypes=(mp.f32, mp.f64))
def test_rule_22_fma_gives_the_rounding_error_of_a_product(t):
    x, y = o.values(t, 150, 3)[50:], o.values(t, 150, 4)[50:]
    exact = [
        o.round_to(o.Fraction(a) * o.Fraction(b) - o.Fraction(o.round_to(o.Fraction(a) * o.Fraction(b), t)), t)
        for a, b in zip(o.items(x), o.items(y), strict=True)
    ]
    return Run(k_fma_pair, (x, y, empty(100, t)), {2: o.array(exact, t)}, zero_sign=False)


@mp.kernel
def k_no_contraction(x, y, z, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * y[i] + z[i]


@case(dtypes=(mp.f32, mp.f64), gangs=True)
def test_rule_22_a_product_and_a_sum_are_two_roundings(t):
    x, y = np.random.default_rng(5).standard_normal((2, 100)).astype(t.numpy)
    z = -(x * y)
    exact = [o.Fraction(a) * o.Fraction(b) + o.Fraction(c) for a, b, c in zip(*map(o.items, (x, y, z)), strict=True)]
    assert sum(e != 0 for e in exact) > 90, "one rounding would give the error of the product"
    return Run(k_no_contraction, (x, y, z, empty(100, t)), {3: np.zeros(100)})


# --- 23: no poison, no nsw ----------------------------------------------------------------------------------------------------------
@mp.kernel
def k_wrap_compare(x, out):
    # a compiler that assumes no overflow folds this to True
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] + 1 > x[i]


@case(dtypes=o.INTS)
def test_rule_23_overflow_wraps_before_it_is_compared(t):
    x = np.array([t.max, t.max - 1, 0, t.min], t.numpy)
    return Run(k_wrap_compare, (x, empty(4, mp.bool_)), {1: [False, True, True, True]}, grid=1)


@mp.kernel
def k_float_identities(x, out):
    # none of these may be folded: x - x, x * 0, x / x, x + 0
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i, 0] = x[i] - x[i]
        out[i, 1] = x[i] * 0.0
        out[i, 2] = x[i] / x[i]
        out[i, 3] = x[i] + 0.0
        out[i, 4] = (x[i] + 1e30) - 1e30


@case(dtypes=(mp.f32, mp.f64))
def test_rule_23_strict_floating_point(t):
    x = np.array([1.5, -0.0, np.inf, -np.inf, np.nan, 0.0, -3.0], t.numpy)
    c = t.numpy.type
    with np.errstate(all="ignore"):
        want = np.stack([x - x, x * c(0), x / x, x + c(0), (x + c(1e30)) - c(1e30)], axis=1)
    return Run(k_float_identities, (x, empty((7, 5), t)), {1: want}, grid=1)


# --- 24, 25: the sanitizer, dense ops ----
@mp.kernel
def k_race_in_order(x, out):
    # run in ascending order this gives the right values: only happens-before tells
    t = mp.thread_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[t]
    out[t] = s[t - 1] if t > 0 else s[0]


def test_rule_24_a_race_is_found_whatever_the_order_of_execution():
    for order in (None, 1, 2):
        options = {} if order is None else {"order": order}
        args = (np.arange(64, dtype=np.int32), np.zeros(64, np.int32))
        reports = list(k_race_in_order.sanitize(grid=1, block=64, args=args, **options))
        assert [r.code for r in reports] == ["MPG_SAN_1002"]


@mp.kernel
def k_shifted(a, b):
    i = mp.global_id(0)
    if i < a.shape[0]:
        b[i] = a[i]


def test_rule_24_two_arguments_that_overlap_share_their_shadow():
    base = np.arange(65, dtype=np.int32)
    reports = list(k_shifted.sanitize(grid=2, block=32, args=(base[:64], base[1:])))
    assert "MPG_SAN_1001" in [r.code for r in reports]
    apart = np.arange(128, dtype=np.int32)
    assert not list(k_shifted.sanitize(grid=2, block=32, args=(apart[:64], apart[64:])))


@mp.kernel
def k_guarded_division(x, y, out):
    i = mp.global_id(0)
    if y[i] != 0:
        out[i] = x[i] // y[i]


def test_rule_25_a_division_that_no_active_item_makes_is_no_fault():
    x, y = np.arange(64, dtype=np.int32), (np.arange(64) % 3).astype(np.int32)
    assert not list(k_guarded_division.sanitize(grid=1, block=64, args=(x, y, np.zeros(64, np.int32)), checks=("divide",)))


# --- 27: variants ------------------------------------------------------------------------------------------------------------------------
@mp.kernel
def k_variants(x, out):
    i = mp.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] + 1


@EVERY
def test_rule_27_facts_that_fail_take_the_general_variant(target):
    for n in (10, 100):
        base = np.arange(2 * n, dtype=np.float32)
        for x in (base[:n].copy(), base[::2], base[::-2], base[1 : n + 1]):
            for out in (np.zeros(n, np.float32), np.zeros(3 * n, np.float32)[::3], np.zeros(n, np.float32)[::-1]):
                want = x + 1
                k_variants.launch(grid=mp.cdiv(n, 64), block=64, args=(x, out), device=target.device)
                assert np.array_equal(out, want)
        y = base[:n]
        want = y + 1
        k_variants.launch(grid=mp.cdiv(n, 64), block=64, args=(y, y), device=target.device)
        assert np.array_equal(y, want)


@EVERY
def test_rule_27_more_than_eight_workgroup_sizes(target):
    # the ninth and later ones share code for any size
    kernel = mp.kernel(k_variants.fn)
    for _ in range(2):
        for block in (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31):
            x = np.arange(100, dtype=np.float32)
            out = np.zeros(100, np.float32)
            kernel.launch(grid=mp.cdiv(100, block), block=block, args=(x, out), device=target.device)
            assert np.array_equal(out, x + 1)
    assert len(kernel.variants()) == (9 if target.manifest.static_workgroup else 1)


# --- 28, 29: large kernels ----
def large_kernel(folder, statements):
    """A kernel of many statements behind a guard, each using the value of the one before, and what it computes."""
    import importlib.util

    lines = [f"        v = (v * {3 + k % 5} + {k}) % 10007" for k in range(statements)]
    file = folder / f"large{statements}.py"
    head = ["import magpie as mp", "", "@mp.kernel", "def kernel(x, out):", "    i = mp.global_id(0)", "    if i < x.shape[0]:", "        v = x[i]"]
    file.write_text("\n".join([*head, *lines, "        out[i] = v", ""]))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def compute(x):
        v = x.astype(np.int64)
        for k in range(statements):
            v = (v * (3 + k % 5) + k) % 10007
        return v

    return module.kernel, compute


@EVERY
@pytest.mark.parametrize("statements", [60, 260])
def test_rules_28_29_kernels_beyond_the_limits_of_inlining_and_recursion(target, statements, tmp_path):
    kernel, compute = large_kernel(tmp_path, statements)
    x, out = np.arange(50, dtype=np.int32), np.full(64, 7, np.int32)
    kernel.launch(grid=1, block=64, args=(x, out), device=target.device)
    assert np.array_equal(out[:50], compute(x))
    assert np.all(out[50:] == 7)


# --- 31: offsets ------------------------------------------------------------------------------------------------------------------------------
@case(dtypes=(mp.u8, mp.f32))
def test_rule_31_views_at_every_offset(t):
    base = o.plain(t, 90)
    runs = []
    for k in (1, 3, 5, 17):
        out = empty(90, t)
        runs.append(Run(k_variants, (base[k : k + 40], out[k + 2 : k + 42]), {1: base[k : k + 40] + t.numpy.type(1)}, grid=1))
    return runs
