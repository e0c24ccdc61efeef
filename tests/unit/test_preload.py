"""Loads of several trips ahead of the first one: what may go ahead, and that nothing else changes."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest

import magpie as mp
from magpie.backends.interp.engine import Program
from magpie.backends.simt.batching import batch_loads
from magpie.ir.nodes import walk
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.expand import expand
from magpie.passes.preload import preload
from magpie.runtime.compiling import with_facts
from magpie.runtime.inspection import _lowered
from magpie.runtime.specialise import Variant
from tests.conformance.fuzz import arguments, load
from tests.conformance.fuzzgen import Generator

FAST = Variant(True, False, (8, 1, 1))


def prepared(kernel, args, variant=FAST):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        lowered = _lowered(kernel, args, {}).kernel
    return prepare(with_facts(lowered, variant), trips=False)


def batched(kernel, args, factor, variant=FAST):
    """The kernel with every loop unrolled that has loads to go ahead, and how many loads those are."""
    moved = []

    def plan(loop, loads):
        moved.extend(loads)
        return factor

    ready = expand(preload(prepared(kernel, args, variant), plan))
    verify(ready)
    return ready, len(moved)


@mp.kernel
def k_saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    for i in range(mp.global_id(0), x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        y[i] = a * x[i] + y[i]


@mp.kernel
def k_back(x, y):
    for i in range(x.shape[0] - 1 - mp.global_id(0), -1, -8 * mp.num_workgroups(0)):
        y[i] = x[i] - 2 * y[i]


@mp.kernel
def k_rows(x, y):
    for r in range(mp.thread_id(0), x.shape[0], 8):
        for c in range(x.shape[1]):
            y[r, c] += x[r, c]


@mp.kernel
def k_sum(x, y):
    s = x[0] * 0
    for i in range(mp.global_id(0), x.shape[0], 16):
        v = x[i]
        if v > 3:
            s += v
    y[mp.global_id(0)] = s


@pytest.mark.parametrize("factor", [2, 3, 4, 8])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 203])
def test_loops_that_store_where_they_load(factor, n):
    rng = np.random.default_rng(n)
    x, y = (rng.integers(-9, 9, n).astype(np.float32) for _ in range(2))
    ready, moved = batched(k_saxpy, (np.float32(3), x, y), factor)
    assert moved == 2
    got = y.copy()
    Program(ready).run((2,), (8,), (np.float32(3), x, got))
    assert np.array_equal(got, 3 * x + y)
    ready, moved = batched(k_back, (x, y), factor)
    assert moved == 2
    got = y.copy()
    Program(ready).run((2,), (8,), (x, got))
    assert np.array_equal(got, x - 2 * y)
    a, b = (rng.integers(-9, 9, (n, 7)).astype(np.int32) for _ in range(2))
    ready, moved = batched(k_rows, (a, b), factor)
    assert moved == 2
    got = b.copy()
    Program(ready).run((1,), (8,), (a, got))
    assert np.array_equal(got, a + b)
    i = rng.integers(-9, 9, n).astype(np.int32)
    ready, moved = batched(k_sum, (i, i), factor)
    assert moved == 1
    sums = np.zeros(16, np.int32)
    Program(ready).run((2,), (8,), (i, sums))
    assert np.array_equal(sums, [i[k::16][i[k::16] > 3].sum() for k in range(16)])


@mp.kernel
def k_prefix(y):
    for i in range(1, y.shape[0]):
        y[i] = y[i] + y[i - 1]


@mp.kernel
def k_after(x, y):
    for i in range(y.shape[0]):
        y[i] = 5
        x[i] += y[i]


@mp.kernel
def k_scaled(y, s: mp.i32):
    for i in range(8):
        y[i * s] = y[i * s] + 1


@mp.kernel
def k_through(x, y):
    for i in range(x.shape[0]):
        y[x[i]] = y[x[i]] + 1


@mp.kernel
def k_branch(x, y):
    for i in range(x.shape[0]):
        if i % 3 == 0:
            y[i] = x[i]


@mp.kernel
def k_variable(x, y):
    at = mp.i32(0)
    for i in range(x.shape[0]):
        y[i] = x[at]
        at = (at + 7) % 16


@pytest.mark.parametrize(
    ("kernel", "moved"), [(k_prefix, 1), (k_after, 1), (k_scaled, 0), (k_through, 2), (k_branch, 0), (k_variable, 0)]
)
def test_what_depends_on_earlier_trips_stays(kernel, moved):
    """Of the loads, `y[i]` of the prefix sum and `x[i]` of the third may go: no trip stores what another one loads there."""
    rng = np.random.default_rng(4)
    names = [p.name for p in kernel.parameters]
    args = [rng.integers(0, 16, 16).astype(np.int32) if name in "xy" else 0 for name in names]
    ready, found = batched(kernel, tuple(args), 4)
    assert found == moved
    want, got = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    Program(prepare(_lowered(kernel, tuple(args), {}).kernel)).run((1,), (1,), want)
    Program(ready).run((1,), (1,), got)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a, b)


def test_arrays_that_may_overlap_keep_their_loads():
    x = np.zeros(16, np.float32)
    _, moved = batched(k_saxpy, (np.float32(3), x, x), 4, Variant(False, False))
    assert moved == 0


@mp.kernel
def k_vote(x, y):
    for i in range(mp.global_id(0), x.shape[0], 8):
        y[i] = mp.subgroup.sum(x[i])


@mp.kernel
def k_flag(x, y):
    for i in range(mp.global_id(0), x.shape[0], 8):
        while mp.atomic_load(y, 0) == 0:
            pass
        y[i] = x[i]


def test_loops_that_synchronise_stay():
    x = np.zeros(16, np.int32)
    for kernel in (k_vote, k_flag):
        assert batched(kernel, (x, x), 4)[1] == 0


def test_a_grid_stride_loop_has_its_loads_first():
    text = k_saxpy.compile(backend="ptx", arch="sm_90", workgroup=256).text
    loop = max(re.split(r"^\$L__BB\w+:", text, flags=re.MULTILINE), key=lambda part: part.count("ld.global"))
    order = re.findall(r"(ld|st)\.global", loop)
    assert order == ["ld"] * 16 + ["st"] * 8


def test_random_kernels(tmp_path):
    changed = 0
    for seed in range(500, 560):
        program = Generator(random.Random(seed).randrange).program()
        kernel = load(program, tmp_path).kernel
        groups, size = ((1, 8), (3, 8), (2, 5))[seed % 3]
        want, got = (arguments(program.types, program.atomics, groups * size, seed) for _ in range(2))
        plain = prepared(kernel, want, Variant(True, False, (size, 1, 1)))
        ready = batch_loads(plain)
        if ready is plain:
            continue
        changed += 1
        ready = expand(ready)
        verify(ready)
        Program(expand(plain)).run((groups,), (size,), want)
        Program(ready).run((groups,), (size,), got)
        for a, b in zip(got, want, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"seed {seed}\n{program.source}"
    assert changed > 3


def test_nothing_is_unrolled_without_loads_from_buffers():
    @mp.kernel
    def k_count(y):
        s = y[0] * 0
        for i in range(y.shape[0]):
            s += i
        y[0] = s

    plain = prepared(k_count, (np.zeros(4, np.int32),))
    assert batch_loads(plain) is plain and any(n.op == "loop" for n in walk(plain.body))
