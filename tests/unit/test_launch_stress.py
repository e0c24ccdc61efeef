"""Launches from many Python threads at once are right, and ten thousand launches leave nothing behind."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy as np
import pytest

import magpie as mp
from magpie.runtime.dispatch import runtime
from magpie.runtime.drivers import cpu

THREADS = 8
LAUNCHES = 10_000


def at_once(work):
    """``work(k)`` on 8 threads that start together; raises what one of them raised."""
    start, errors = threading.Barrier(THREADS), []

    def run(k):
        try:
            start.wait(timeout=60)
            work(k)
        except BaseException as error:
            errors.append(error)

    pool = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join(timeout=300)
        assert not thread.is_alive(), "a launch hangs"
    if errors:
        raise errors[0]


@pytest.fixture(params=["1", "2"], ids=["serial", "two threads"])
def fanned(request, monkeypatch):
    """Launches on one thread or on two, however small they are."""
    monkeypatch.setenv("MAGPIE_CPU_THREADS", request.param)
    monkeypatch.setattr(cpu, "_SMALL", 0)
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


def test_a_kernel_that_all_threads_compile_first(fanned, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE", "0")

    @mp.kernel
    def affine(x: mp.Array[mp.f32, 1], a: mp.f32, b: mp.f32):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] = a * x[i] + b

    def work(k):
        x = np.arange(1000, dtype=np.float32)
        for _ in range(50):
            affine[mp.cdiv(1000, 64), 64](x, 1.0, float(k))
        assert np.array_equal(x, np.arange(1000) + 50 * k)

    at_once(work)
    assert len(affine.variants()) == 1, "one of them compiled, the others waited"


def test_a_kernel_of_its_own_for_each_thread(fanned, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE", "0")

    def make(step):
        @mp.kernel
        def count(x: mp.Array[mp.i32, 1]):
            i = mp.global_id(0)
            if i < x.shape[0]:
                x[i] += step

        return count

    def work(k):
        count, x = make(k + 1), np.zeros(500, np.int32)
        for _ in range(50):
            count[8, 64](x)
        assert (x == 50 * (k + 1)).all()

    at_once(work)


def test_types_sizes_and_options_of_one_kernel(fanned, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE", "0")

    @mp.kernel
    def double(x):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] += x[i]

    def work(k):
        dtype = (np.float32, np.int32, np.float64, np.int16)[k % 4]
        for turn in range(12):  # more workgroup sizes than are compiled for
            x = np.arange(200).astype(dtype)
            block = 8 * (turn + 1)
            double.launch(grid=mp.cdiv(200, block), block=block, args=(x,), gang=(8, 16)[k // 4])
            assert np.array_equal(x, 2 * np.arange(200))

    at_once(work)
    keys = [(v.args, v.workgroup, v.options) for v in double.variants()]
    assert len(keys) == len(set(keys)), "nothing was compiled twice"
    assert all(sum(a == v.args and o == v.options for a, _, o in keys) <= 9 for v in double.variants())


@mp.kernel
def reversed_sums(x: mp.Array[mp.i32, 1], out: mp.Array[mp.i32, 1], n: mp.i32):
    fixed = mp.shared(64, mp.i32)
    sized = mp.shared(n, mp.i32)
    t, i = mp.thread_id(0), mp.global_id(0)
    fixed[t] = x[i]
    mp.barrier()
    sized[t] = fixed[63 - t]
    mp.barrier()
    out[i] = sized[t] + mp.workgroup.sum(x[i])


def test_shared_memory_is_that_of_the_launch(fanned):
    def work(k):
        x = np.random.default_rng(k).integers(-99, 99, (16, 64)).astype(np.int32)
        want = x[:, ::-1] + x.sum(1, keepdims=True)
        for turn in range(40):
            out = np.zeros(x.size, np.int32)
            reversed_sums[16, 64](x.ravel(), out, 64 + (turn + k) % 3)  # three lengths at a time
            assert np.array_equal(out.reshape(x.shape), want)

    at_once(work)


@mp.kernel
def bump(x: mp.Array[mp.f64, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] += 1.0


def test_streams_and_arrays_of_each_thread(fanned):
    def work(k):
        stream = mp.Stream()
        for n in range(1, 30):
            x = mp.zeros(n * 10, dtype=mp.f64)
            bump[mp.cdiv(n * 10, 32), 32, stream](x)
            bump[mp.cdiv(n * 10, 32), 32, stream](x)
            stream.synchronize()
            assert (x.to_numpy() == 2).all()
            x.free()

    at_once(work)


def test_one_array_and_atomics_from_all_threads(fanned):
    @mp.kernel
    def tally(counts: mp.Array[mp.u32, 1]):
        mp.atomic_add(counts, mp.global_id(0) % counts.shape[0], mp.u32(1))

    counts = np.zeros(7, np.uint32)
    at_once(lambda k: [tally[10, 70](counts) for _ in range(20)])
    assert (counts == THREADS * 20 * 100).all()


# --- nothing is left behind -----------------------------------------------------------------------------------------
def resident():
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@mp.kernel
def nothing():
    pass


@mp.kernel
def scaled(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i]


X, Y = np.ones(256, np.float32), np.zeros(256, np.float32)


def launch_empty(k):
    nothing[1, 1]()


def launch_on_one_array(k):
    scaled[4, 64](2.0, X, Y)


def launch_on_new_arrays(k):
    scaled[4, 64](2.0, np.ones(256, np.float32), np.empty(256, np.float32))


def launch_by_name(k):
    scaled.launch(grid=4, block=64, args=(2.0, X, Y), device="cpu", shared_bytes=0, subgroup_size=8)


def launch_on_views(k):
    n = 1 + k % 100
    scaled[4, 64](2.0, X[:n], Y[-n:])


def launch_with_new_grids(k):
    scaled[1 + k % 300, 64](2.0, X, Y)  # more than a kernel keeps


def launch_on_new_buffers(k):
    x = mp.zeros(256)
    scaled[4, 64](2.0, x, x[::-1] if k % 2 else mp.empty(256))


def launch_with_shared_memory(k):
    reversed_sums[2, 64](I32, OUT, 64 + k % 50)


def launch_that_is_refused(k):
    with pytest.raises(mp.LaunchValueError):
        scaled.launch(grid=-1, block=64, args=(2.0, X, Y))


I32, OUT = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.parametrize(
    "launch",
    [
        launch_empty,
        launch_on_one_array,
        launch_on_new_arrays,
        launch_by_name,
        launch_on_views,
        launch_with_new_grids,
        launch_on_new_buffers,
        launch_with_shared_memory,
        launch_that_is_refused,
    ],
    ids=lambda f: f.__name__.removeprefix("launch_"),
)
def test_ten_thousand_launches_leave_nothing(monkeypatch, launch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")

    def all_of_them(count):
        for k in range(count):
            launch(k)
        gc.collect()
        return resident(), len(gc.get_objects()), runtime().driver("cpu").stats.buffers

    all_of_them(1500)  # every grid, length and view: tables were full, and memory is as large as it gets
    memory, objects_after, buffers = all_of_them(1500)
    slow = launch is launch_with_new_grids  # 0.5 ms each, all others some microseconds
    for _ in range(3):  # a leak grows each time; the heap of a process that ran thousands of other tests may grow once
        before, objects = memory, objects_after
        memory, objects_after, buffers_after = all_of_them(3000 if slow else LAUNCHES)
        if memory - before < 2 << 20 and objects_after - objects < 200:
            break
    assert buffers_after == buffers
    assert objects_after - objects < 200, "far below one a launch"
    assert memory - before < 2 << 20, "200 bytes a launch would show"


def test_kernels_that_go_take_their_code_with_them(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")

    def once():
        @mp.kernel
        def mortal(x: mp.Array[mp.f32, 1]):
            x[mp.global_id(0)] += 1.0

        mortal[4, 64](X)

    def all_of_them(count):
        for _ in range(count):
            once()
        gc.collect()
        with open("/proc/self/maps") as file:
            return len(gc.get_objects()), sum(1 for _ in file)

    all_of_them(5)
    objects, maps = all_of_them(5)
    objects_after, maps_after = all_of_them(60)
    assert objects_after - objects < 60, "less than an object a kernel"
    assert maps_after - maps < 30
