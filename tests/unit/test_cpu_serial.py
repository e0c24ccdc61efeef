"""When a cpu launch wakes threads, and that they change nothing but the time."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.runtime.drivers import cpu


@pytest.fixture
def woken(monkeypatch):
    """The number of threads of each launch that is bound from here on."""
    counts = []

    class Noting(cpu.LaunchBlock):
        __slots__ = ()

        def fill(self, *args, **options):
            counts.append(options["threads"])
            super().fill(*args, **options)

    monkeypatch.setattr(cpu, "LaunchBlock", Noting)
    monkeypatch.setattr(cpu.threads, "default_threads", lambda: 4)
    monkeypatch.delenv("MAGPIE_CPU_THREADS", raising=False)
    return counts


def scale():
    @mp.kernel
    def scale(x: mp.Array[mp.f32, 1]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] *= 2.0

    return scale


def total():
    @mp.kernel
    def total(x: mp.Array[mp.f32, 1]):
        i = mp.global_id(0)
        acc = 0.0
        for k in range(x.shape[0]):
            acc += x[k]
        x[i] = acc

    return total


def launch(kernel, n, block=64):
    kernel.launch(grid=n // block, block=block, args=(np.zeros(n, np.float32),), backend="cpu")


def test_a_launch_of_little_work_stays_on_its_thread(woken):
    simple = scale()
    effort = simple.compile().info["effort"]
    assert 4 <= effort <= 12, "an id, an extent, a comparison, a branch, a load, a product, a store"
    most = cpu._SMALL // effort // 64 * 64
    launch(simple, most)
    launch(simple, most + 64)
    assert woken == [1, 4]


def test_a_loop_of_unknown_length_counts_as_a_long_one(woken):
    launch(total(), 1024)
    assert woken == [4]


def test_one_workgroup_stays_whatever_its_work(woken):
    launch(total(), 1024, block=1024)
    assert woken == [1]


def test_no_more_threads_than_workgroups(woken):
    launch(total(), 2 * 1024, block=1024)
    assert woken == [2]


def test_the_environment_decides_at_every_launch(woken, monkeypatch):
    kernel, x = total(), np.zeros(1024, np.float32)
    for threads in ("1", "3", "2"):
        monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
        kernel.launch(grid=16, block=64, args=(x,), backend="cpu")
    assert woken == [1, 3, 2]


@pytest.mark.parametrize("stages", [4, 60])
def test_effort_grows_with_the_trips_of_a_loop(stages):
    @mp.kernel
    def polynomial(x: mp.Array[mp.f32, 1], n: mp.constexpr):
        v = x[mp.global_id(0)]
        for _ in range(n):
            v = v * v + 1.0
        x[mp.global_id(0)] = v

    assert 2 * stages <= polynomial.compile(mp.Array[mp.f32, 1], stages).info["effort"] <= 12 * stages + 20


@mp.kernel
def everything(x: mp.Array[mp.f32, 1], out: mp.Array[mp.f32, 1], hits: mp.Array[mp.u32, 1]):
    i = mp.global_id(0)
    t = mp.thread_id(0)
    s = mp.shared(64, mp.f32)
    v = mp.sin(x[i]) * 3.0 + mp.exp(-x[i] * x[i])
    k = 0
    while v < 4.0 and k < 20:
        v = v * 1.25 + 0.3
        k += 1
    s[t] = v
    mp.barrier()
    out[i] = mp.workgroup.sum(s[63 - t]) + s[t ^ 1] / v
    mp.atomic_add(hits, mp.u32(k) % hits.shape[0], mp.u32(1))


def test_a_grid_of_65536_work_items_is_bit_equal_serial_and_threaded(monkeypatch):
    x = np.random.default_rng(0).standard_normal(65_536).astype(np.float32)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
        out, hits = np.zeros_like(x), np.zeros(16, np.uint32)
        everything.launch(grid=1024, block=64, args=(x, out, hits), backend="cpu")
        assert hits.sum() == x.size
        results.append((out.view(np.uint32), hits))
    for out, hits in results[1:]:
        assert np.array_equal(out, results[0][0]) and np.array_equal(hits, results[0][1])
    assert np.unique(results[0][0]).size > 60_000, "the values differ from each other"


# --- shared memory is the workgroup's own --------------------------------------------------------------------------
@mp.kernel
def pairs_static(x: mp.Array[mp.i32, 1], out: mp.Array[mp.i32, 1], n: mp.i32):
    s = mp.shared(2, mp.i32)
    t, i = mp.thread_id(0), mp.global_id(0)
    s[t] = x[i]
    for _ in range(40):  # long enough for the other thread's workgroups to get in between
        mp.barrier()
        v = s[1 - t]
        mp.barrier()
        s[t] = v + 1
    mp.barrier()
    out[i] = s[t]


@mp.kernel
def pairs_dynamic(x: mp.Array[mp.i32, 1], out: mp.Array[mp.i32, 1], n: mp.i32):
    s = mp.shared(n, mp.i32)
    more = mp.shared((n, 3), mp.i64)
    t, i = mp.thread_id(0), mp.global_id(0)
    s[t] = x[i]
    more[t, 2] = 0
    for _ in range(40):
        mp.barrier()
        v = s[1 - t]
        mp.barrier()
        s[t] = v + 1
        more[t, 2] += 1
    mp.barrier()
    out[i] = s[t] + mp.i32(more[1 - t, 2]) - 40


@pytest.mark.parametrize("kernel", [pairs_static, pairs_dynamic], ids=["static", "dynamic"])
@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_64_workgroups_of_2_on_2_threads_do_not_see_each_other(monkeypatch, kernel, threads):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
    monkeypatch.setattr(cpu, "_SMALL", 0)
    x = np.random.default_rng(0).integers(-999, 999, 128).astype(np.int32)
    for _ in range(20):
        out = np.zeros(128, np.int32)
        kernel.launch(grid=64, block=2, args=(x, out, 2), backend="cpu")
        assert np.array_equal(out, x + 40)


def test_lengths_that_the_host_computes_and_shared_bytes_below_them():
    @mp.kernel
    def lengths(x: mp.Array[mp.i32, 2], out: mp.Array[mp.i64, 1], n: mp.i32):
        a = mp.shared(n * 2 + 1, mp.i32)  # from an argument
        b = mp.shared((x.shape[1], 2), mp.i16)  # from a shape
        c = mp.shared(mp.workgroup_size(0) * mp.num_workgroups(0), mp.i8)  # from the launch
        t = mp.thread_id(0)
        a[t], b[t, 1], c[t] = 1, 2, 3
        mp.barrier()
        if mp.global_id(0) == 0:
            out[0], out[1], out[2] = len(a), len(b), len(c)
            out[3] = mp.i64(a[3]) + b[3, 1] + c[3]

    x, out = np.zeros((3, 5), np.int32), np.full(4, 77, np.int64)
    needed = (4 * 2 + 1) * 4 + 5 * 2 * 2 + 4 * 2
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1011") as caught:
        lengths.launch(grid=2, block=4, args=(x, out, 4), backend="cpu", shared_bytes=needed - 1)
    assert f"needs {needed} bytes" in str(caught.value)
    assert (out == 77).all(), "nothing ran"
    lengths.launch(grid=2, block=4, args=(x, out, 4), backend="cpu", shared_bytes=needed)
    assert out.tolist() == [9, 5, 8, 6]
    lengths.launch(grid=2, block=4, args=(x, out, 7), backend="cpu")
    assert out.tolist() == [15, 5, 8, 6]
