"""Strided accesses of the cpu backend: what is chosen, what is emitted, and that nothing beside the lanes is touched."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from kir import Build, kernel

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu.lane_shapes import forward_slots
from magpie.backends.cpu.pipeline import llvm_text
from magpie.backends.cpu.strided_plan import Window, choose_loads, choose_stores, guessed
from magpie.backends.interp.engine import Program
from magpie.backends.llvm import codegen
from magpie.dtypes import DType, f32, i32, index, u8
from magpie.ir.builder import Builder
from magpie.ir.layout import compute_layout
from magpie.ir.nodes import Buffer, Facts, Kernel, Scalar, Slot, walk
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.unroll import counted_loop, unroll

AVX512 = codegen.make_target(
    "x86_64-unknown-linux-gnu",
    "skylake-avx512",
    dict.fromkeys("avx512f avx512vl avx512bw avx512dq avx2 fma f16c".split(), True),
)
AVX2 = codegen.make_target("x86_64-unknown-linux-gnu", "haswell", dict.fromkeys(["avx2", "fma", "f16c"], True))
SSE = codegen.make_target("x86_64-unknown-linux-gnu", "x86-64", {})


def shown(w: Window | None) -> tuple[object, ...] | None:
    return None if w is None else (w.block, w.start, w.extent, w.size, w.used)


@pytest.mark.parametrize(
    ("offsets", "stride", "lanes", "row", "expected"),
    [
        ({0}, 2, 8, 4, (True, 0, 1, 2, (0,))),
        ({0, 1, 2}, 3, 8, 4, (True, 0, 3, 3, (0, 1, 2))),
        ({-2, -1, 0}, 3, 8, 4, (True, -2, 3, 3, (0, 1, 2))),  # the first that a kernel loads need not be the lowest
        ({0, 1, 2, 3}, 4, 8, 4, (False, 0, 4, 4, (0, 1, 2, 3))),
        ({0, 1, 2, 3, 4, 5, 6, 7}, 16, 8, 4, (False, 0, 4, 4, (0, 1, 2, 3))),
        ({-5, -4, 0, 1}, 16, 8, 4, (False, 0, 2, 4, (0, 1))),
        ({0, 1, 2}, None, 8, 4, None),  # a row of 4 would read an element that nobody asks for
        ({0, 1, 2, 3}, None, 8, 4, (False, 0, 4, 4, (0, 1, 2, 3))),
        ({0}, 17, 8, 4, None),
        ({0}, 8, 8, 4, None),
    ],
)
def test_chosen_loads(
    offsets: set[int], stride: int | None, lanes: int, row: int, expected: tuple[object, ...] | None
) -> None:
    assert shown(choose_loads(offsets, stride, lanes, row)) == expected


@pytest.mark.parametrize(
    ("offsets", "stride", "expected"),
    [
        ({0, 1}, 2, (True, 0, 2, 2, (0, 1))),
        ({0, 1}, 3, None),  # a gap
        ({0, 1, 2}, -3, (True, 0, 3, 3, (0, 1, 2))),
        ({0, 1, 2, 3}, 9, (False, 0, 4, 4, (0, 1, 2, 3))),
        ({0, 1, 2, 3}, 3, (True, 0, 3, 3, (0, 1, 2))),
        ({0, 1, 2, 3}, 1, None),  # lanes overlap
        ({0, 1, 3}, None, None),
    ],
)
def test_chosen_stores(offsets: set[int], stride: int | None, expected: tuple[object, ...] | None) -> None:
    assert shown(choose_stores(offsets, stride, 8, 4)) == expected


def test_a_block_is_guessed_where_the_launch_knows_the_distance() -> None:
    assert shown(guessed({-1, 0, 1, 5}, 4)) == (True, -1, 3, 3, (0, 1, 2))
    assert guessed({0, 2}, 4) is None
    assert guessed({0, 1, 2, 3}, 4) is None, "rows do as well at any distance"


# --- text --------------------------------------------------------------------------------------------------------------


def channels(count: int, t: DType = f32) -> Kernel:
    """y[count * i + c] = x[count * i + count - 1 - c]"""
    x, y = Buffer("x", t, 1, "read"), Buffer("y", t, 1, "write")
    k = Kernel("channels", [x, y], facts=Facts(frozenset(("x", "y")), frozenset(), True, True), workgroup=(64, 1, 1))
    b = Builder(k.body)
    at = b.emit("mul", b.emit("global_id", dim=0), b.const(count, index))
    for c in range(count):
        value = b.load(x, b.emit("add", at, b.const(count - 1 - c, index)))
        b.store(y, (b.emit("add", b.const(c, index), at),), value)
    return k


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_channels_take_neither_gathers_nor_scalar_stores(target: codegen.HostTarget, count: int) -> None:
    k = channels(count)
    assembly = codegen.emit_assembly(llvm_text(k, compute_layout(k), Options(gang=16), target).text, target)
    code = [line.split()[0] for line in assembly.splitlines() if line.startswith("\t") and "(" in line]
    assert not any("gather" in op or "scatter" in op for op in code)
    assert not {"vmovss", "movss", "vextractps", "extractps", "vinsertps"} & set(code)


def test_without_the_promise_that_buffers_are_apart_every_access_is_alone() -> None:
    k = replace(channels(2), facts=Facts(frozenset(("x", "y")), frozenset(), False, True))
    text = llvm_text(k, compute_layout(k), Options(gang=8), AVX2).text
    assert text.count("store float") == 16  # of each lane and channel
    assert text.count("load <8 x float>") == 4  # but what is read may still be read in whole vectors


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse"])
def test_bytes_compile_for_all_processors(target: codegen.HostTarget) -> None:
    for gang in (4, 8, 16, 32, 64):
        k = channels(3, u8)
        assert codegen.compile_object(llvm_text(k, compute_layout(k), Options(gang=gang), target).text, target)


def some(t: DType = f32) -> Kernel:
    """if x[i] > 0: y[index[i]] = x[i]"""
    x, y, at = Buffer("x", t, 1, "read"), Buffer("y", t, 1, "write"), Buffer("index", i32, 1, "read")
    facts = Facts(frozenset(("x", "y", "index")), frozenset(), True, True)
    k = Kernel("some", [x, y, at], facts=facts, workgroup=(64, 1, 1))
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    value = b.load(x, i)
    _, then, _ = b.if_(b.emit("gt", value, b.const(0, t)))
    with b.into(then):
        b.store(y, (b.load(at, i),), value)
    return k


def test_lanes_that_are_off_store_to_nowhere() -> None:
    k = some()
    assembly = codegen.emit_assembly(llvm_text(k, compute_layout(k), Options(gang=8), AVX2).text, AVX2)
    assert assembly.count("cmov") >= 8  # and not a branch for each lane
    assembly = codegen.emit_assembly(llvm_text(k, compute_layout(k), Options(gang=16), AVX512).text, AVX512)
    assert "vscatterdps" in assembly


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse"])
def test_masked_stores_compile_for_all_processors(target: codegen.HostTarget, gang: int) -> None:
    for t in (u8, f32):
        k = some(t)
        assert codegen.compile_object(llvm_text(k, compute_layout(k), Options(gang=gang), target).text, target)


# --- edges of memory ---------------------------------------------------------------------------------------------------


@contextmanager
def fenced(count: int, t: type[np.generic], *, at_end: bool) -> Iterator[np.ndarray]:
    """An array that begins or ends where memory that may be touched does."""
    page = mmap.PAGESIZE
    size = count * np.dtype(t).itemsize
    inside = -(-size // page) * page
    area = mmap.mmap(-1, inside + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (base, base + page + inside):
        assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    start = page + (inside - size if at_end else 0)
    yield np.frombuffer(area, t, count, start)
    for guard in (base, base + page + inside):
        assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 3) == 0


def picker(stride: int, offset: int) -> mp.Kernel:
    @mp.kernel
    def k_pick(x, out, base):
        i = mp.global_id(0)
        out[i] = x[base + stride * i + offset]

    return k_pick


def pair_picker(stride: int) -> mp.Kernel:
    @mp.kernel
    def k_pairs(x, out, base):
        i = mp.global_id(0)
        out[i] = x[base + stride * i] + x[base + stride * i + 1] * 2 + x[base + stride * i + 2] * 4

    return k_pairs


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect")
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("t", [np.uint8, np.int16, np.float32, np.float64])
def test_nothing_beyond_the_lanes_is_read(t: type[np.generic], at_end: bool) -> None:
    n = 64
    cases: list[tuple[int, int, Callable[[np.ndarray, np.ndarray], np.ndarray], mp.Kernel]] = []
    for stride in (2, 3, -2, 5, 7):
        cases.append((stride, 1, lambda x, i: x[i], picker(stride, 0)))
    for stride in (3, 4, -3, 9):
        cases.append((stride, 3, lambda x, i: x[i] + x[i + 1] * 2 + x[i + 2] * 4, pair_picker(stride)))
    for stride, extent, oracle, pick in cases:
        with fenced(abs(stride) * (n - 1) + extent, t, at_end=at_end) as x:
            x[:] = np.arange(x.size) % 13
            base = 0 if stride > 0 else -stride * (n - 1)
            want = oracle(x, base + stride * np.arange(n)).astype(t)
            out = np.zeros(n, t)
            pick[n // 64, 64](x, out, base)
            assert np.array_equal(out, want), stride
            del x


# --- unrolling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2, 3, 4, 16])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 11, 16, None])
def test_an_unrolled_loop_computes_the_same(factor: int, length: int | None) -> None:
    """s = s * 3 + x[i * 16 + k], less 7 where above 50; trips known or not."""
    x, n, y = Buffer("x", i32, 1, "read"), Scalar("n", index), Buffer("y", i32, 1, "write")
    s = Slot("s", i32)

    def body(b: Build) -> None:
        b.set(s, b.const(0, i32))
        stop = b.emit("param", name="n", type=index) if length is None else b.i(length)
        with b.counted(b.i(0), stop, b.i(1)) as k:
            at = b.emit("add", b.emit("mul", b.gid(), b.i(16)), k)
            b.set(s, b.emit("add", b.emit("mul", b.get(s), b.const(3, i32)), b.load(x, at)))
            b.when(
                b.emit("gt", b.get(s), b.const(50, i32)),
                lambda: b.set(s, b.emit("sub", b.get(s), b.const(7, i32))),
            )
        b.store(y, (b.gid(),), b.get(s))

    k = forward_slots(prepare(kernel([x, n, y], body)))
    loop = next(m for m in walk(k.body) if m.op == "loop")
    changed = unroll(k, {loop: factor})
    verify(changed)
    nodes = list(walk(changed.body))
    assert len(set(nodes)) == len(nodes), "a node stands in two places"
    loads = sum(m.op == "load" for m in nodes)
    whole = length is not None and length <= factor
    rest = length is None or length % factor > 0
    assert loads == (length if whole else factor + rest)
    data = np.arange(64, dtype=np.int32) % 11
    for trips in (0, 1, 5, 16) if length is None else (length,):
        want = np.zeros(4, np.int32)
        for j in range(trips):
            want = want * 3 + data[np.arange(4) * 16 + j]
            want[want > 50] -= 7
        out = np.zeros(4, np.int32)
        Program(changed).run((1,), (4,), [data, trips, out])
        assert out.tolist() == want.tolist()


def test_loops_that_end_early_stay() -> None:
    x, y = Buffer("x", i32, 1, "read"), Buffer("y", i32, 1, "write")

    def body(b: Build) -> None:
        with b.counted(b.i(0), b.i(8), b.i(1)) as k:
            b.emit("break_if", b.emit("gt", b.load(x, k), b.const(5, i32)))
            b.store(y, (k,), b.const(1, i32))

    loop = next(n for n in walk(prepare(kernel([x, y], body)).body) if n.op == "loop")
    assert counted_loop(loop) is None
