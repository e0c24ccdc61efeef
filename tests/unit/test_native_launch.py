"""Native launches do what launches by Python do: values, errors, references, threads, forks and Ctrl-C."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind
from magpie.runtime import buffer
from magpie.runtime.drivers import cpu
from magpie.runtime.launcher import Launcher
from magpie.runtime.native import library

pytestmark = pytest.mark.skipif(not library.supported(), reason="no native launches on this interpreter or machine")


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


def python_calls(run):
    """Names of the Python functions that `run` enters, without its own."""
    seen = []

    def note(frame, event, arg):
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen[1:]


def warm(launcher, *args):
    """Launch until the native path has a plan."""
    for _ in range(2):
        launcher(*args)
    assert launcher.native_plans, "there is no plan for these arguments"
    return launcher


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


# --- which launches are native ------------------------------------------------------------------------------------------
def test_there_is_native_code_here():
    assert library.library() is not None


@pytest.mark.parametrize("make", [mp.asarray, np.array], ids=["mp", "numpy"])
def test_the_third_launch_runs_no_python(make):
    x, y = make(np.arange(5, dtype=np.float32)), make(np.zeros(5, np.float32))
    launch = warm(saxpy[1, 8], 2.0, x, y)
    assert python_calls(lambda: launch(2.0, x, y)) == []
    assert python_calls(lambda: saxpy[1, 8](2.0, x, y)) == []
    assert np.array_equal(np.asarray(y), 4 * 2 * np.arange(5))
    assert isinstance(launch, Launcher) and isinstance(saxpy, mp.Kernel)
    assert repr(launch) == "<launch of kernel 'saxpy', grid (1, 1, 1), workgroup (8, 1, 1)>"


def test_what_the_plan_does_not_know_goes_to_python():
    x, y = np.ones(5, np.float32), np.zeros(10, np.float32)
    launch = warm(saxpy[1, 8], 2.0, x, y)
    launch(np.float32(2), x, y)
    launch(2.0, x=x, y=y)
    launch(2.0, x, y[::2])  # every other element: those five below 5 are 0, 2 and 4
    assert y.tolist() == [10, 8, 10, 8, 10, 0, 2, 0, 2, 0]
    assert "__call__" in python_calls(lambda: launch(2.0, x, y[::2]))


def test_the_knob_leaves_everything_to_python(monkeypatch):
    monkeypatch.setenv("MAGPIE_NATIVE_LAUNCH", "0")
    kernel, x, y = mp.kernel(saxpy.fn), np.ones(5, np.float32), np.zeros(5, np.float32)
    for _ in range(4):
        kernel[1, 8](1.0, x, y)
    assert not kernel[1, 8].native_plans and type(kernel[1, 8]) is Launcher and (y == 4).all()


def test_another_interpreter_takes_the_python_path(monkeypatch):
    monkeypatch.setattr(library, "_made", [])
    monkeypatch.setattr(sys, "abiflags", "t")
    kernel, x, y = mp.kernel(saxpy.fn), np.ones(5, np.float32), np.zeros(5, np.float32)
    for _ in range(4):
        kernel[1, 8](1.0, x, y)
    assert not kernel[1, 8].native_plans and (y == 4).all()


@pytest.mark.parametrize("name", ["WRITABLE", "_key"])
def test_an_object_that_looks_different_is_noticed(monkeypatch, name):
    monkeypatch.setattr(library, "_made", [])
    if name == "_key":
        monkeypatch.setattr(library, "slot_offset", lambda *_: (_ for _ in ()).throw(library.Unsupported(name)))
    else:
        monkeypatch.setattr(library, "_check_objects", lambda: (_ for _ in ()).throw(library.Unsupported(name)))
    assert library.library() is None


def test_a_changed_environment_is_seen(monkeypatch):
    @mp.kernel
    def out_of_bounds(x: mp.Array[mp.f32, 1]):
        x[mp.global_id(0) + 2] = 1.0

    x = np.zeros(3, np.float32)
    warm(out_of_bounds[1, 1], x)
    monkeypatch.setenv("MAGPIE_CHECKED", "1")
    with pytest.raises(mp.GpuError, match="out of bounds|bounds"):
        out_of_bounds[1, 1](x[:2])
    monkeypatch.setenv("MAGPIE_CHECKED", "0")
    out_of_bounds[1, 1](x)
    monkeypatch.delenv("MAGPIE_CHECKED")
    assert python_calls(lambda: out_of_bounds[1, 1](x)) == []


step = 1.0


def test_a_changed_capture_is_seen():
    @mp.kernel
    def add(x: mp.Array[mp.f32, 1]):
        x[mp.global_id(0)] += step

    global step
    step = 1.0
    x = np.zeros(1, np.float32)
    warm(add[1, 1], x)
    add[1, 1](x)
    step = 100.0
    for _ in range(4):
        add[1, 1](x)
    assert x[0] == 403


# --- the same as by Python ------------------------------------------------------------------------------------------------
@mp.kernel
def numbers(
    x: mp.Array[mp.f64, 1], a: mp.f32, b: mp.f64, c: mp.i8, d: mp.u16, e: mp.i32, f: mp.u32, g: mp.i64, h: mp.u64, t: mp.bool_
):
    x[0] = mp.f64(a)
    x[1] = b
    x[2] = mp.f64(c)
    x[3] = mp.f64(d)
    x[4] = mp.f64(e)
    x[5] = mp.f64(f)
    x[6] = mp.f64(g)
    x[7] = mp.f64(h)
    x[8] = 1.0 if t else 0.0


@mp.kernel
def weak(x: mp.Array[mp.f64, 1], a, k: mp.constexpr):
    x[0] = mp.f64(a) + mp.f64(k)


@mp.kernel
def arrays(x, y, out):
    i = mp.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] + y[i]


@mp.kernel
def grids(x: mp.Array[mp.i32, 2], y: mp.Array[mp.i32, 3], z: mp.Array[mp.i32, 0]):
    i, j = mp.global_id(0), mp.global_id(1)
    if i < x.shape[1] and j < x.shape[0]:
        x[j, i] += y[j, i, 0] + z[()] + 10 * x.shape[0] + 100 * y.shape[2]


VALUES = [
    0, 1, -1, True, False, 127, -128, 128, 255, 65535, 65536, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1,
    -(2**63), -(2**63) - 1, 10**400, 0.0, -0.0, 0.1, -1.0, 1e-40, 3.4028234e38, 3.40282356e38, 3.5e38, 1e300, float("inf"),
    float("-inf"), float("nan"), None, "1", 1j, np.float32(0.1), np.float64(0.1), np.int8(-5), np.uint64(2**63), np.bool_(True),
    np.array(3.0), np.array(3), np.float16(2), ml_dtypes.bfloat16(2),
]  # fmt: skip


def outcome(launch, args, results):
    """What the launch left in `results`, or the error that it raised."""
    try:
        launch(*args)
    except Exception as error:
        return type(error), str(error)
    return tuple(np.asarray(r).tobytes() for r in results)


def both(kernel, grid, block, first, monkeypatch):
    """A native launcher and one that goes through Python, each after two launches with ``first``."""
    native = warm(mp.kernel(kernel.fn)[grid, block], *first)
    monkeypatch.setenv("MAGPIE_NATIVE_LAUNCH", "0")
    python = mp.kernel(kernel.fn)[grid, block]
    python(*first)
    python(*first)
    monkeypatch.delenv("MAGPIE_NATIVE_LAUNCH")
    assert not python.native_plans
    return native, python


@pytest.mark.parametrize("seed", range(4))
def test_numbers_become_what_python_makes_of_them(seed, monkeypatch):
    rng = random.Random(seed)
    good = [1.5, 2.5, -3, 4, -5, 6, -7, 8, True]
    x = np.zeros(9)
    native, python = both(numbers, 1, 1, (x, *good), monkeypatch)
    native(x, *good)
    assert x.tolist() == [1.5, 2.5, -3, 4, -5, 6, -7, 8, 1]
    for _ in range(400):
        args = [v if rng.random() < 0.6 else rng.choice(VALUES) for v in good]
        a, b = np.zeros(9), np.zeros(9)
        assert outcome(native, (a, *args), [a]) == outcome(python, (b, *args), [b]), args


def test_each_number_in_each_place(monkeypatch):
    good = [1.5, 2.5, -3, 4, -5, 6, -7, 8, True]
    x = np.zeros(9)
    native, python = both(numbers, 1, 1, (x, *good), monkeypatch)
    for k in range(len(good)):
        for value in VALUES:
            args = [*good[:k], value, *good[k + 1 :]]
            a, b = np.zeros(9), np.zeros(9)
            assert outcome(native, (a, *args), [a]) == outcome(python, (b, *args), [b]), (k, value)


@pytest.mark.parametrize("first", [(2, 3), (2.5, 3), (True, 3), (2, 3.0)], ids=str)
def test_literals_and_constants(first, monkeypatch):
    native, python = both(weak, 1, 1, (np.zeros(1), *first), monkeypatch)
    for a in (2, 2.5, True, False, -7, 2**40, 10**400, np.float32(2), np.int64(3), None):
        for k in (3, 3.0, True, 2.5, 0.0, -0.0):
            one, two = np.zeros(1), np.zeros(1)
            assert outcome(native, (one, a, k), [one]) == outcome(python, (two, a, k), [two]), (a, k)


def made_array(rng, base, own):
    """An array on part of `base`, in a form that the generator picks; the base's own form most often."""
    kind = rng.choice(["whole"] * 4 + ["head", "tail", "step", "reversed", "empty", "other dtype", "2d", "copy", "list"])
    if kind == "copy":
        kind, base = "whole", mp.asarray(np.asarray(base)) if own else base.copy()
    if kind == "other dtype":
        return np.asarray(base).astype(np.int16)
    if kind == "2d":
        return np.asarray(base)[None, :]
    if kind == "list":
        return [1.0, 2.0]
    n = base.shape[0]
    part = {
        "whole": slice(None), "head": slice(0, n - 3), "tail": slice(3, n), "step": slice(0, n, 2),
        "reversed": slice(None, None, -1), "empty": slice(0, 0),
    }[kind]  # fmt: skip
    return base[part]


@pytest.mark.parametrize("own", [True, False], ids=["mp", "numpy"])
@pytest.mark.parametrize("seed", range(3))
def test_arrays_of_every_form_and_overlap(own, seed, monkeypatch):
    """Both launchers get arrays made alike from two copies of the same memory; parts of one memory overlap."""
    make = mp.asarray if own else np.array
    n = 16
    data = np.arange(3 * n, dtype=np.float32)
    first = [make(data[:n]), make(data[n : 2 * n]), make(data[2 * n :])]
    native, python = both(arrays, 1, n, first, monkeypatch)
    for turn in range(150):
        results = []
        for launch in (native, python):
            rng = random.Random(f"{seed} {turn}")
            pool = [make(data[:n]), make(data[n : 2 * n]), make(data[2 * n :])]
            # an output of 16 elements reads beyond shorter inputs: those are for the output only
            args = [pool[rng.randrange(3)], pool[rng.randrange(3)], made_array(rng, pool[rng.randrange(3)], own)]
            if rng.random() < 0.3:
                args[rng.randrange(2)] = made_array(rng, pool[0], own) if rng.random() < 0.3 else None
            if any(np.shape(a) not in ((n,), ()) for a in args[:2]):
                args[2] = args[2][:0] if hasattr(args[2], "shape") and np.ndim(args[2]) == 1 else args[2]
            results.append(outcome(launch, args, pool))
        assert results[0] == results[1], turn


def test_ranks_and_extents(monkeypatch):
    def make(j, i, k):
        return [np.full((j, i), 1, np.int32), np.full((j, i, k), 2, np.int32), np.array(3, np.int32)]

    native, _ = both(grids, (2, 2), (4, 4), make(5, 6, 2), monkeypatch)
    for j, i, k in ((5, 6, 2), (1, 1, 1), (8, 8, 3), (0, 4, 1), (4, 0, 1)):
        args = make(j, i, k)
        if k:
            assert python_calls(lambda: native(*args)) == []
        assert (args[0] == 1 + 2 + 3 + 10 * j + 100 * k).all()


def test_read_only_arrays_are_refused_as_before(monkeypatch):
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    native, python = both(saxpy, 1, 4, (1.0, x, y), monkeypatch)
    y.flags.writeable = False
    assert outcome(native, (1.0, x, y), [y]) == outcome(python, (1.0, x, y), [y])
    with pytest.raises(mp.LaunchValueError, match="read-only"):
        native(1.0, x, y)
    x.flags.writeable = False
    native(1.0, x, np.ones(4, np.float32))  # it only reads x


def test_a_stream_is_part_of_the_shape():
    one, two = mp.Stream(), mp.Stream()
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    for stream in (one, two):
        assert warm(saxpy[1, 8, stream], 1.0, x, y).options.stream is stream
    assert python_calls(lambda: saxpy[1, 8, one](1.0, x, y)) == []
    assert saxpy[1, 8, two] is not saxpy[1, 8, one] and saxpy[1, 8].options.stream is None
    assert python_calls(lambda: saxpy[1, 8, 0]) != [] and saxpy[1, 8, 0].options.stream == 0


@pytest.mark.parametrize("shape", [(1, True), (1.0, 8), (True, 8), (1, (8, 1.0)), (1,), 1, (1, 8, None), (-1, 8), ("1", 8)])
def test_shapes_that_only_equal_one_are_looked_at(shape):
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    warm(saxpy[1, 8], 1.0, x, y)
    fresh = mp.kernel(saxpy.fn)
    found = []
    for kernel in (saxpy, fresh):
        try:
            found.append(repr(kernel[shape]))
        except Exception as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


# --- references and memory ------------------------------------------------------------------------------------------------
def test_references_stay_as_they_were():
    x, y = mp.zeros(8), mp.zeros(8)
    nx, ny = np.zeros(8, np.float32), np.zeros(8, np.float32)
    a, launch = 1.5, saxpy[1, 8]
    warm(launch, a, x, y)
    warm(launch, a, nx, ny)
    watched = [a, x, y, nx, ny, x._key, x._words, nx.dtype, launch, launch.native_plans, buffer.running, None, saxpy]
    wrong = np.zeros(8, np.int32)

    def count():
        gc.collect()
        return [sys.getrefcount(o) for o in watched[:-2]]

    for _ in range(3):
        before = count()
        for _ in range(2000):
            launch(a, x, y)
            launch(a, nx, ny)
            saxpy[1, 8](a, x, ny)
            launch(a, x, x[:])  # overlaps
        for _ in range(50):
            with pytest.raises(mp.LaunchTypeError):
                launch(a, x, wrong)
    assert count() == before and not buffer.running


@mp.kernel
def slow_sum(out: mp.Array[mp.f64, 1], n: mp.i64):
    total = 0.0
    for k in range(n):
        total += 1.0 / (mp.f64(k) + 1.0)
    out[mp.global_id(0)] = total


def started(work):
    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + 30
    while not buffer.running and time.monotonic() < end:
        time.sleep(0.001)
    return thread


def test_memory_that_a_native_launch_uses_cannot_be_freed():
    out = mp.zeros(4, dtype=mp.f64)
    warm(slow_sum[4, 1], out, 10)
    thread = started(lambda: slow_sum[4, 1](out, 30_000_000))
    try:
        assert [name for name, _ in buffer.running.values()] == ["slow_sum"]
        with pytest.raises(mp.GpuError, match="still used by a launch of kernel 'slow_sum'") as caught:
            out.free()
        assert caught.value.kind is GpuErrorKind.BufferError
    finally:
        thread.join(timeout=120)
    assert not buffer.running
    out.free()
    with pytest.raises(mp.GpuError, match="freed"):
        slow_sum[4, 1](out, 10)


def test_arrays_freed_by_another_thread_meanwhile():
    """Each launch is made, or says that the array was freed; none touches freed memory."""
    x = mp.zeros(64)
    launch = warm(saxpy[1, 64], 1.0, x, mp.zeros(64))
    current, done, freed, refused = [mp.zeros(64)], threading.Event(), [], []

    def free():
        while not done.is_set():
            old, current[0] = current[0], mp.zeros(64)
            try:
                old.free()
                freed.append(1)
            except mp.GpuError as error:
                refused.append(str(error))

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=free)
    thread.start()
    try:
        for _ in range(3000):
            y = current[0]
            try:
                launch(1.0, x, y)
            except mp.GpuError as error:
                refused.append(str(error))
    finally:
        done.set()
        thread.join(timeout=60)
        sys.setswitchinterval(old)
    assert freed and not buffer.running
    assert all("the array was freed" in said or "still used by a launch" in said for said in refused)


# --- threads, forks, Ctrl-C -----------------------------------------------------------------------------------------------
def test_one_launcher_from_eight_threads(monkeypatch):
    monkeypatch.setattr(cpu, "_SMALL", 0)  # each launch on two threads, with the GIL released
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "2")
    kernel = mp.kernel(saxpy.fn)
    x = mp.asarray(np.arange(100, dtype=np.float32))
    ys = [mp.zeros(100) for _ in range(8)]
    launch = warm(kernel[4, 32], 0.0, x, ys[0])
    start = threading.Barrier(8)

    def work(y):
        start.wait(timeout=60)
        for _ in range(300):
            launch(1.0, x, y)

    pool = [threading.Thread(target=work, args=(y,)) for y in ys]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join(timeout=120)
    for y in ys:
        assert np.array_equal(y.to_numpy(), 300 * np.arange(100))
    assert not buffer.running


FORKED = """
import os, sys
import numpy as np
import magpie as mp
from magpie.runtime.drivers import cpu

cpu._SMALL = 0

@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]

x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
for _ in range(4):
    saxpy[8, 128](1.0, x, y)
assert saxpy[8, 128].native_plans
child = os.fork()
for _ in range(4):
    saxpy[8, 128](1.0, x, y)
assert np.array_equal(y, 8 * x)
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
os._exit(0)
"""


def test_a_forked_child_launches_on_threads_of_its_own(tmp_path):
    script = tmp_path / "forked.py"
    script.write_text(FORKED)
    environment = os.environ | {"MAGPIE_CPU_THREADS": "2", "MAGPIE_BACKEND": "cpu"}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=120)


@pytest.mark.parametrize("grid", [1, 4])
def test_ctrl_c_ends_a_native_launch(grid):
    out = np.zeros(grid)
    warm(slow_sum[grid, 1], out, 10)
    out[:] = 0
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        slow_sum[grid, 1](out, 1 << 40)
    assert time.monotonic() - start < 30 and not out.any()
    timer.join()
    slow_sum[grid, 1](out, 2)
    assert (out == 1.5).all() and not buffer.running


def test_a_signal_handler_may_launch_and_raise():
    """The handler runs between time slices, while the launch around it is under way."""
    out, other = mp.zeros(2000, dtype=mp.f64), mp.zeros(1, dtype=mp.f64)
    warm(slow_sum[1, 1], other, 10)
    warm(slow_sum[2000, 1], out, 10)
    handled = []

    def handler(number, frame):
        slow_sum[1, 1](other, 2)
        handled.append(len(buffer.running))
        if len(handled) == 2:
            raise RuntimeError("from the handler")

    def launch_for_ever():
        while True:
            slow_sum[2000, 1](out, 200_000)

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(RuntimeError, match="from the handler"):
            launch_for_ever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert other.to_numpy()[0] == 1.5 and not buffer.running
    slow_sum[2000, 1](out, 2)
    assert (out.to_numpy() == 1.5).all()


def test_wrong_arguments_are_refused_as_before(monkeypatch):
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    native, python = both(saxpy, 1, 4, (1.0, x, y), monkeypatch)
    for args in ((), (1.0,), (1.0, x, y, y), (x, y, 1.0), (1.0, x, [1.0])):
        found = outcome(native, args, [y])
        assert found == outcome(python, args, [y]) and found[0] is mp.LaunchTypeError
