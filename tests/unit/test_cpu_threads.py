"""Fanning workgroups over threads: every workgroup once, cancelling, Ctrl-C, fork, and the floating-point state."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from magpie.backends.cpu import loader, threads
from magpie.backends.cpu.launch_block import (
    CANCEL_FROM_ARGUMENTS,
    ENTRY_SYMBOL,
    ERROR_FROM_ARGUMENTS,
    LaunchBlock,
    Status,
    launcher_text,
)
from magpie.backends.llvm import codegen

pytestmark = pytest.mark.skipif(not codegen.llvm_version(), reason="llvmlite is not installed")

# mark: adds 1 to counts[i] and stores which arena and which place in the order of work each workgroup had.
# spin: one workgroup that ends only when the cancel flag is set. slow: a workgroup of some microseconds.
# tiny: out = x * y in f32, to see whether denormals are flushed.
KERNELS = f"""
define void @mark(ptr %a, i64 %b, i64 %e, ptr %arena) nounwind {{
entry:
  %counts = load ptr, ptr %a
  %orders.at = getelementptr i8, ptr %a, i64 8
  %orders = load ptr, ptr %orders.at
  %arenas.at = getelementptr i8, ptr %a, i64 16
  %arenas = load ptr, ptr %arenas.at
  %clock = getelementptr i8, ptr %a, i64 24
  br label %loop
loop:
  %i = phi i64 [ %b, %entry ], [ %j, %loop ]
  %p = getelementptr i32, ptr %counts, i64 %i
  %old = atomicrmw add ptr %p, i32 1 monotonic
  %now = atomicrmw add ptr %clock, i64 1 monotonic
  %q = getelementptr i64, ptr %orders, i64 %i
  store i64 %now, ptr %q
  %r = getelementptr ptr, ptr %arenas, i64 %i
  store ptr %arena, ptr %r
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  ret void
}}
define void @spin(ptr %a, i64 %b, i64 %e, ptr %arena) nounwind {{
entry:
  %flag = getelementptr i8, ptr %a, i64 {CANCEL_FROM_ARGUMENTS}
  br label %loop
loop:
  %c = load atomic i32, ptr %flag monotonic, align 4
  %stop = icmp ne i32 %c, 0
  br i1 %stop, label %done, label %loop
done:
  ret void
}}
define void @slow(ptr %a, i64 %b, i64 %e, ptr %arena) nounwind {{
entry:
  %out = load ptr, ptr %a
  br label %group
group:
  %i = phi i64 [ %b, %entry ], [ %j, %next ]
  br label %loop
loop:
  %k = phi i64 [ 0, %group ], [ %k1, %loop ]
  %x = load volatile i64, ptr %arena
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, 20000
  br i1 %again, label %loop, label %next
next:
  %old = atomicrmw add ptr %out, i64 1 monotonic
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %group, label %done
done:
  ret void
}}
define void @tiny(ptr %a, i64 %b, i64 %e, ptr %arena) nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [ %b, %entry ], [ %j, %loop ]
  %x = load float, ptr %a
  %y.at = getelementptr i8, ptr %a, i64 4
  %y = load float, ptr %y.at
  %z = fmul float %x, %y
  %out.at = getelementptr i8, ptr %a, i64 8
  %out = load ptr, ptr %out.at
  %p = getelementptr float, ptr %out, i64 %i
  store float %z, ptr %p
  %error.at = getelementptr i8, ptr %a, i64 {ERROR_FROM_ARGUMENTS}
  %error = load ptr, ptr %error.at
  store i32 77, ptr %error
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  ret void
}}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @get_state() {{
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %x = load i32, ptr %p
  ret i32 %x
}}
define void @set_state(i32 %x) {{
  %p = alloca i32
  store i32 %x, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}}
"""

POOLS = ("crew", "openmp", "python")


@functools.cache
def crew() -> threads.Crew:
    made = threads.Crew.compile()
    if made is None:
        pytest.skip("there is no crew for this system")
    # through bytes: what a warm start does
    return threads.Crew.from_bytes(made.to_bytes())


@pytest.fixture(scope="module")
def launcher() -> threads.Launcher:
    # Through bytes: what a warm start does.
    return threads.Launcher.from_bytes(threads.Launcher.compile().to_bytes())


@pytest.fixture(scope="module")
def image() -> loader.LoadedImage:
    if not codegen.host_target().is_x86:
        pytest.skip("the test kernels use x86 intrinsics")
    return loader.load_object(codegen.compile_object(KERNELS))


class Launch:
    """A kernel with its block and pool."""

    def __init__(self, launcher: threads.Launcher, image: loader.LoadedImage, name: str, pool: str, count: int) -> None:
        self.launcher = launcher
        self.kernel = image.address(name)
        self.block = LaunchBlock(64)
        self.count = count
        self.parallel = threads.openmp_parallel() if pool == "openmp" else 0
        if pool == "openmp" and not self.parallel:
            pytest.skip("libgomp is not installed")
        if pool == "crew":
            crew().grow(count - 1)
            self.parallel = crew().address

    def fill(self, total: int, **fill: Any) -> None:
        self.block.fill(self.kernel, total, threads=self.count, parallel=self.parallel, **fill)

    def run(self, total: int, *, polls: bool = False, **fill: Any) -> None:
        self.fill(total, **fill)
        self.launcher.run(self.block, polls=polls)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("total", "chunk", "first"), [(0, 1, 0), (1, 1, 0), (7, 3, 0), (1000, 8, 0), (50, 100, 9)])
def test_every_workgroup_runs_once_and_in_order(
    launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int, total: int, chunk: int, first: int
) -> None:
    launch = Launch(launcher, image, "mark", pool, count)
    counts = np.zeros(total + 1, np.int32)
    orders = np.zeros(total + 1, np.int64)
    arenas = np.zeros(total + 1, np.uint64)
    struct.pack_into("<QQQq", launch.block.arguments, 0, counts.ctypes.data, orders.ctypes.data, arenas.ctypes.data, 0)
    launch.run(total, chunk=chunk, first=first, arenas=1 << 20, stride=4096)
    assert counts[:first].tolist() == [0] * first
    assert counts[first:total].tolist() == [1] * (total - first)
    assert counts[total] == 0
    assert {(int(a) - (1 << 20)) / 4096 for a in arenas[first:total]} <= set(range(count))
    if count == 1:
        assert orders[first:total].tolist() == list(range(total - first))
    for at in range(first, total - 1):  # ascending within a chunk
        if (at - first) % chunk != chunk - 1:
            assert orders[at] < orders[at + 1]


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2])
def test_slices_lose_and_repeat_nothing(
    launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int
) -> None:
    launch = Launch(launcher, image, "mark", pool, count)
    counts = np.zeros(300, np.int32)
    rest = np.zeros(300, np.int64)
    struct.pack_into("<QQQq", launch.block.arguments, 0, counts.ctypes.data, rest.ctypes.data, rest.ctypes.data, 0)
    launch.run(300, slice_ticks=1)  # every chunk ends a slice
    assert counts.tolist() == [1] * 300
    native = loader.load_object(codegen.compile_object(launcher_text(codegen.host_target()), opt_level=2))
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(native.address(ENTRY_SYMBOL))
    launch.fill(300, slice_ticks=1)
    assert entry(launch.block.address) == Status.UNFINISHED
    assert 1 <= launch.block.next_workgroup <= count


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2])
def test_cancel_ends_one_long_workgroup(
    launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int
) -> None:
    launch = Launch(launcher, image, "spin", pool, count)
    timer = threading.Timer(0.05, launch.block.cancel)
    timer.start()
    with pytest.raises(threads.Cancelled):
        launch.run(1000)
    assert launch.block.next_workgroup <= count


def interrupt_soon(delay: float) -> None:
    threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_between_slices(launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int) -> None:
    launch = Launch(launcher, image, "slow", pool, count)
    arena, done = np.zeros(64, np.int64), np.zeros(1, np.int64)
    struct.pack_into("<Q", launch.block.arguments, 0, done.ctypes.data)
    interrupt_soon(0.1)
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        launch.run(1 << 40, chunk=8, arenas=arena.ctypes.data)
    assert time.perf_counter() - start < 2
    reached = int(done[0])
    time.sleep(0.05)
    assert done[0] == reached  # no thread goes on behind our back


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_within_one_workgroup(
    launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int
) -> None:
    launch = Launch(launcher, image, "spin", pool, count)
    for _ in range(2):
        interrupt_soon(0.05)
        with pytest.raises(KeyboardInterrupt):
            launch.run(1, polls=True)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("state", [0x1F80, 0x9FC0, 0x7F80])  # default; flush and denormals are zero; round up... down
def test_floating_point_state(
    launcher: threads.Launcher, image: loader.LoadedImage, pool: str, count: int, state: int
) -> None:
    launch = Launch(launcher, image, "tiny", pool, count)
    out, error = np.zeros(40, np.float32), np.zeros(1, np.int32)
    struct.pack_into("<ffQ", launch.block.arguments, 0, 1e-20, 1.1e-20, out.ctypes.data)
    get = ctypes.CFUNCTYPE(ctypes.c_uint32)(image.address("get_state"))
    put = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(image.address("set_state"))
    before = get()
    put(state)
    try:
        launch.run(40, error=error.ctypes.data)
        after = get()
    finally:
        put(before)
    assert after & 0xFFC0 == state
    assert out.tolist() == [float(np.float32(1e-20) * np.float32(1.1e-20))] * 40
    assert out[0] > 0
    assert error[0] == 77


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_uses_its_own_pool(launcher: threads.Launcher, image: loader.LoadedImage) -> None:
    def launch_once() -> bool:
        launch = Launch(launcher, image, "mark", "python", 2)
        launch.parallel = threads.openmp_parallel()
        counts, rest = np.zeros(100, np.int32), np.zeros(100, np.int64)
        struct.pack_into("<QQQq", launch.block.arguments, 0, counts.ctypes.data, rest.ctypes.data, rest.ctypes.data, 0)
        launch.run(100, polls=True)
        return bool((counts == 1).all())

    assert launch_once()
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = threads.openmp_parallel() == 0 and launch_once()
        finally:
            os._exit(0 if ok else 1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0
    assert launch_once()


@pytest.mark.parametrize("pool", POOLS)
def test_launches_from_several_python_threads(launcher: threads.Launcher, image: loader.LoadedImage, pool: str) -> None:
    results: list[bool] = []

    def work() -> None:
        launch = Launch(launcher, image, "mark", pool, 2)
        for _ in range(20):
            counts, rest = np.zeros(64, np.int32), np.zeros(64, np.int64)
            address = rest.ctypes.data
            struct.pack_into("<QQQq", launch.block.arguments, 0, counts.ctypes.data, address, address, 0)
            launch.run(64, chunk=2)
            results.append(bool((counts == 1).all()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [True] * 80


def test_blocks_are_aligned_and_chunks_are_sensible() -> None:
    assert all(LaunchBlock(n).address % 64 == 0 for n in range(20))
    assert len(LaunchBlock(24).arguments) == 24
    assert threads.pick_chunk(0, 2) == 1
    assert threads.pick_chunk(10, 2) == 1
    assert threads.pick_chunk(4096, 2) == 128
    assert threads.default_threads() >= 1


def test_a_launch_waits_for_nobody_who_has_not_begun(launcher: threads.Launcher, image: loader.LoadedImage) -> None:
    """With more threads asked for than there are, and with launches from several threads at once."""
    launch = Launch(launcher, image, "mark", "crew", 2)
    launch.count = 64  # only one waits for work
    counts, rest = np.zeros(500, np.int32), np.zeros(500, np.int64)
    struct.pack_into("<QQQq", launch.block.arguments, 0, counts.ctypes.data, rest.ctypes.data, rest.ctypes.data, 0)
    launch.run(500)
    assert (counts == 1).all()

    def many() -> None:
        own = Launch(launcher, image, "mark", "crew", 3)
        mine, others = np.zeros(100, np.int32), np.zeros(100, np.int64)
        struct.pack_into("<QQQq", own.block.arguments, 0, mine.ctypes.data, others.ctypes.data, others.ctypes.data, 0)
        for _ in range(300):
            own.run(100)
        totals.append(bool((mine == 300).all()))

    totals: list[bool] = []
    workers = [threading.Thread(target=many) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert totals == [True] * 4
