"""Blocks that run several workgroups: the coarsened IR, on the interpreter, gives the bits of the source's launch."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest
from ptx_tools import assemble, ptxas

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.hip.metadata import kernel_facts
from magpie.backends.interp.engine import Program
from magpie.backends.registry import backend
from magpie.ir.nodes import walk
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.coarsen import can_coarsen, can_pack, coarsen
from magpie.runtime.compiling import with_facts
from magpie.runtime.inspection import _lowered
from magpie.runtime.specialise import Variant
from tests.conformance import fuzz_barriers
from tests.conformance.barriergen import BarrierGenerator
from tests.conformance.fuzz import arguments, load
from tests.conformance.fuzzgen import Generator

FACTORS = (2, 4, 8)

needs_ptxas = pytest.mark.skipif(ptxas() is None, reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")


def prepared(kernel, args, block=None):
    """The kernel as backends see it; ``block``: with the facts of a launch of this size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        lowered = _lowered(kernel, args, {}).kernel
    return prepare(lowered if block is None else with_facts(lowered, Variant(True, False, block)))


def run(ready, grid, block, args, factor=1, dim=0, packed=False):
    """Launch a prepared kernel on the interpreter, ``factor`` workgroups a block."""
    grid, block = ((*d, 1, 1)[:3] for d in (grid, block))
    if factor > 1:
        ready = coarsen(ready, factor, dim, packed=packed)
        verify(ready)
        args = (*args, grid[dim])
        grid = tuple(-(-n // factor) if d == dim else n for d, n in enumerate(grid))
    Program(ready).run(grid, block, args)


@mp.kernel
def k_ids(out: mp.Array[mp.i64, 2]):
    i, j, k = mp.global_id(0), mp.global_id(1), mp.global_id(2)
    nx = mp.num_workgroups(0) * mp.workgroup_size(0)
    ny = mp.num_workgroups(1) * mp.workgroup_size(1)
    at = i + nx * (j + ny * k)
    out[at, 0] = mp.workgroup_id(0)
    out[at, 1] = mp.workgroup_id(1)
    out[at, 2] = mp.workgroup_id(2)
    out[at, 3] = mp.thread_id(0)
    out[at, 4] = mp.thread_id(1)
    out[at, 5] = mp.thread_id(2)
    out[at, 6] = mp.num_workgroups(0)
    out[at, 7] += 1


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("grid", [(1,), (7,), (8,), (9,), (5, 3), (4, 2, 3), (3, 5, 2)])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("known", [False, True])
def test_every_work_item_runs_once_with_the_ids_of_the_source(grid, factor, dim, known):
    block = {1: (4, 1, 1), 2: (4, 2, 1), 3: (2, 3, 2)}[len(grid)]
    full = (*grid, 1, 1)[:3]
    shape = tuple(g * b for g, b in zip(full, block, strict=True))
    out = np.zeros((np.prod(shape), 8), np.int64)
    run(prepared(k_ids, (mp.Array[mp.i64, 2],), block if known else None), grid, block, (out,), factor, dim)
    z, y, x = np.indices(shape[::-1]).reshape(3, -1)
    want = [x // block[0], y // block[1], z // block[2], x % block[0], y % block[1], z % block[2]]
    want += [np.full(len(x), full[0]), np.ones(len(x), int)]
    assert np.array_equal(out, np.stack(want, 1))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("grid", [(1,), (7,), (8,), (9,), (5, 3), (4, 2, 3)])
def test_packed_work_items_have_the_ids_of_the_source(grid, factor):
    block = {1: (24, 1, 1), 2: (8, 2, 1), 3: (16, 3, 2)}[len(grid)]
    full = (*grid, 1, 1)[:3]
    shape = tuple(g * b for g, b in zip(full, block, strict=True))
    out = np.zeros((np.prod(shape), 8), np.int64)
    ready = prepared(k_ids, (mp.Array[mp.i64, 2],), block)
    assert can_pack(ready, factor)
    run(ready, grid, block, (out,), factor, packed=True)
    z, y, x = np.indices(shape[::-1]).reshape(3, -1)
    want = [x // block[0], y // block[1], z // block[2], x % block[0], y % block[1], z % block[2]]
    want += [np.full(len(x), full[0]), np.ones(len(x), int)]
    assert np.array_equal(out, np.stack(want, 1))


@mp.kernel
def k_halves(x: mp.Array[mp.f16, 1], m: mp.Array[mp.u8, 1], y: mp.Array[mp.f16, 1], w: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * mp.f16(w[0]) + mp.f16(m[i])


def aligned(kernel, block):
    """The PTX of a launch on aligned arrays."""
    ptx = backend("ptx")
    ir = with_facts(_lowered(kernel, (), {}).kernel, Variant(True, True, block))
    return ptx.emit(ir, ptx.layout(ir), Options(arch="sm_90"))


def test_small_elements_that_are_aligned_are_moved_in_words():
    made = aligned(k_halves, (256, 1, 1))
    text = entry(made.text, made.info["coarse"]["entry"])
    assert made.info["coarse"]["factor"] == 8
    assert re.search(r"st\.global\.v4\.b32", text) and re.search(r"ld\.global\.nc\.v2\.b32", text)
    assert len(re.findall(r"st\.global", text)) == 2  # the other one is that of the work-items one by one
    # a workgroup that is no multiple, or arrays that may lie anywhere: one element at a time
    assert "v4" not in aligned(k_halves, (252, 1, 1)).text
    assert "v4" not in k_halves.compile(backend="ptx", arch="sm_90", workgroup=256).text


@mp.kernel
def k_early(x, y, n: mp.i32):
    i = mp.global_id(0)
    if i >= n:
        return
    v = x[i]
    if v < 0:
        y[i] = -1
        return
    total = mp.i32(0)
    for k in range(i % 5):
        if k == 3:
            break
        total += v * k
    if v % 2 == 0:
        y[i] = total + x[n - 1 - i]
    else:
        y[i] = total - v


@pytest.mark.parametrize("factor", FACTORS)
def test_returns_loops_and_branches_of_each_work_item(factor):
    n = 203
    x = np.random.default_rng(3).integers(-20, 100, n).astype(np.int32)
    y = np.zeros(260, np.int32)
    ready = prepared(k_early, (x, y, n))
    assert can_coarsen(ready)
    run(ready, (13,), (20,), (x, y, n), factor)
    i = np.arange(n)
    trips = np.minimum(i % 5, 3)
    total = x * (trips * (trips - 1) // 2)
    want = np.where(x < 0, -1, np.where(x % 2 == 0, total + x[::-1], total - x))
    assert np.array_equal(y, np.concatenate([want, np.zeros(57, int)]))


@mp.kernel(workgroup=(8, 4))
def k_transpose(x: mp.Array[mp.i32, 2], y: mp.Array[mp.i32, 2]):
    tile = mp.shared((8, 9), mp.i32)
    i, j = mp.thread_id(0), mp.thread_id(1)
    column, row = mp.workgroup_id(0) * 8, mp.workgroup_id(1) * 8
    for k in range(0, 8, 4):
        if row + j + k < x.shape[0] and column + i < x.shape[1]:
            tile[j + k, i] = x[row + j + k, column + i]
    mp.barrier()
    for k in range(0, 8, 4):
        if row + i < x.shape[0] and column + j + k < x.shape[1]:
            y[column + j + k, row + i] = tile[i, j + k]


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("shape", [(30, 41), (8, 64), (5, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_workgroups_of_a_block_have_shared_arrays_of_their_own(shape, factor, dim):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    y = np.zeros(shape[::-1], np.int32)
    grid = (-(-shape[1] // 8), -(-shape[0] // 8))
    run(prepared(k_transpose, (x, y)), grid, (8, 4), (x, y), factor, dim)
    assert np.array_equal(y, x.T)


@mp.kernel
def k_scratch(x: mp.Array[mp.i32, 1], y: mp.Array[mp.i32, 1]):
    own = mp.shared(64, mp.i32)
    i, t = mp.global_id(0), mp.thread_id(0)
    if i < x.shape[0]:
        own[t] = x[i] * 3
        y[i] = own[t] + 1


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("n", [1, 100, 130, 511])
def test_a_guard_that_parts_a_block_leads_no_part_of_it_to_a_barrier(n, factor):
    x, y = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ready = prepared(k_scratch, (x, y), (64, 1, 1))
    assert can_coarsen(ready)
    assert not any(node.op == "barrier" for node in walk(coarsen(ready, factor).body))
    run(ready, (-(-n // 64),), (64,), (x, y), factor)
    np.testing.assert_array_equal(y, x * 3 + 1)


@mp.kernel
def k_slots(x, y):
    i = mp.global_id(0)
    best = mp.i32(0)
    for k in range(3):
        if x[i] > best and mp.workgroup_id(0) % 3 != k:
            best = x[i] + k
    y[i] = best


def test_variables_begin_anew_for_each_workgroup_of_a_partial_block():
    x = np.random.default_rng(5).integers(-3, 3, 44).astype(np.int32)
    for factor in FACTORS:
        y = np.zeros(44, np.int32)
        run(prepared(k_slots, (x, y)), (11,), (4,), (x, y), factor)
        want = np.zeros(44, np.int32)
        for k in range(3):
            want = np.where((x > want) & (np.arange(44) // 4 % 3 != k), x + k, want)
        assert np.array_equal(y, want)


@mp.kernel
def k_saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def test_all_loads_stand_before_the_first_store():
    ready = coarsen(prepared(k_saxpy, (mp.f32, mp.Array[mp.f32, 1], mp.Array[mp.f32, 1]), (256, 1, 1)), 4)
    fast = next(n for n in ready.body if n.op == "if").regions[0]
    ops = [n.op for n in fast if n.op in ("load", "store")]
    assert ops == ["load"] * 8 + ["store"] * 4


def entry(text, name):
    """The body of an entry of a PTX module."""
    return text.partition(f".entry {name}(")[2].partition("\n}\n")[0]


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_70", "sm_90"])
def test_the_second_entry_of_a_module_is_taken_by_ptxas(arch, tmp_path):
    made = k_saxpy.compile(backend="ptx", arch=arch, workgroup=256)
    assert made.info["coarse"] == {
        "entry": "magpie_k_saxpy_by4",
        "static_shared": 0,
        "fixed_shared": 0,
        "dynamic_shared": [],
        "factor": 4,
        "dim": 0,
        "always": False,
    }
    plain, coarse = entry(made.text, "magpie_k_saxpy"), entry(made.text, "magpie_k_saxpy_by4")
    assert (plain.count("ld.global"), plain.count("st.global")) == (2, 1)
    assert coarse.partition("st.global")[0].count("ld.global") == 8
    assert assemble([made.text], arch, tmp_path) == ""


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_code_objects_have_both_entries(arch):
    made = k_saxpy.compile(backend="hip", arch=arch, workgroup=256)
    assert made.info["coarse"]["factor"] == 4
    for name in ("magpie_k_saxpy", "magpie_k_saxpy_by4"):
        assert kernel_facts(made.blob, name)["max_workgroup"] == 256


@mp.kernel
def k_work(x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    y[i] = mp.sin(x[i]) + mp.exp(x[i]) + mp.log(x[i])


@mp.kernel
def k_counts(x: mp.Array[mp.i32, 1], y: mp.Array[mp.i32, 1]):
    mp.atomic_add(y, x[mp.global_id(0)], 1)


@mp.kernel
def k_rows(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 1]):
    i, s = mp.global_id(0), 0.0
    for k in range(x.shape[1]):
        s += x[k, i]
    y[i] = s


def test_kernels_that_do_not_wait_for_single_loads_keep_one_workgroup_a_block(monkeypatch):
    for kernel in (k_work, k_counts, k_rows):
        assert "coarse" not in kernel.compile(backend="ptx", workgroup=256).info
    for options in ({"variant": "general"}, {}, {"workgroup": 256, "checked": True}):
        assert "coarse" not in k_saxpy.compile(backend="ptx", **options).info
    monkeypatch.setenv("MAGPIE_COARSEN", "2")
    for kernel in (k_work, k_counts, k_rows, k_saxpy):
        assert kernel.compile(backend="ptx").info["coarse"]["factor"] == 2


@mp.kernel
def k_local(out, n):
    a = mp.local((2, 2), mp.i32)
    s = mp.shared(n, mp.i32)
    t = mp.thread_id(0)
    a[t % 2, mp.workgroup_id(0) % 2] += 1
    s[t] = a[1, 0] + 2 * a[0, 0]
    mp.barrier()
    out[mp.global_id(0)] = s[n - 1 - t] + a[1, 1]


@pytest.mark.parametrize("factor", FACTORS)
def test_local_arrays_begin_as_zeros_and_shared_ones_may_have_any_size(factor):
    out = np.zeros(77, np.int32)
    run(prepared(k_local, (out, 7)), (11,), (7,), (out, 7), factor)
    group, t = np.divmod(np.arange(77), 7)
    mirrored = 6 - t
    assert np.array_equal(out, np.where(group % 2, t % 2, np.where(mirrored % 2, 1, 2)))


@mp.kernel
def k_large(out):
    a = mp.local(1000, mp.i32)
    a[mp.global_id(0) % 1000] += 1
    out[mp.global_id(0)] = a[0]


@mp.kernel
def k_prints(out):
    mp.print("item", mp.global_id(0))


@mp.kernel
def k_waits(out, flag):
    if mp.workgroup_id(0) > 0:
        while mp.atomic_load(flag, mp.workgroup_id(0) - 1) == 0:
            pass
    out[mp.global_id(0)] = 1
    mp.atomic_store(flag, mp.workgroup_id(0), 1)


def test_what_is_never_coarsened():
    x = np.zeros(8, np.int32)
    assert not can_coarsen(prepared(k_large, (x,)))
    assert not can_coarsen(prepared(k_prints, (x,)))
    assert not can_coarsen(prepared(k_waits, (x, x)))


SHAPES = ((1, 64, 1), (2, 33, 2), (3, 7, 3), (6, 16, 4), (9, 5, 5))


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_random_kernels(first, tmp_path):
    taken = together = 0
    for seed in range(first, first + 40):
        program = Generator(random.Random(seed).randrange).program()
        kernel = load(program, tmp_path).kernel
        grid, block, data = SHAPES[seed % len(SHAPES)]
        want = arguments(program.types, program.atomics, grid * block, data)
        ready = prepared(kernel, want, (block, 1, 1) if seed % 2 else None)
        if not can_coarsen(ready):
            continue
        taken += 1
        run(ready, (grid,), (block,), want)
        got = arguments(program.types, program.atomics, grid * block, data)
        factor = FACTORS[seed % 3]
        packed = can_pack(ready, factor)
        run(ready, (grid,), (block,), got, factor, packed=packed)
        together += packed
        for a, b in zip(got, want, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"seed {seed}\n{program.source}"
    assert taken > 15 and together > 1


@pytest.mark.parametrize("first", [0, 20])
def test_random_barrier_kernels_against_their_models(first, tmp_path):
    taken = 0
    for seed in range(first, first + 20):
        program = BarrierGenerator(random.Random(seed).randrange).program()
        shapes = fuzz_barriers.SHAPES[program.dims]
        grid, block, _, data = shapes[seed % len(shapes)]
        grid += seed % 4  # partial blocks
        size = block if isinstance(block, tuple) else (block, 1, 1)
        items = size[0] * size[1] * size[2]
        kernel = fuzz_barriers.load(program, tmp_path)
        ready = prepared(kernel, fuzz_barriers.arguments(grid, items, data), size if seed % 2 else None)
        if not can_coarsen(ready):
            continue
        taken += 1
        want, got = (fuzz_barriers.arguments(grid, items, data) for _ in range(2))
        if program.model:
            fuzz_barriers.run_model(program, grid, size, want)
        else:
            run(ready, (grid,), size, want)
        run(ready, (grid,), size, got, FACTORS[seed % 3])
        fuzz_barriers.same(got, want, f"seed {seed}\n{program.source}")
    assert taken > 4
