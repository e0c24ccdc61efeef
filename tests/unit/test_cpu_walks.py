"""Strided loops on the cpu: which become walks, in which batches, and which shared arrays get private copies."""

from __future__ import annotations

import re

import numpy as np
import pytest

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu import BACKEND
from magpie.backends.cpu.copies import COPIES, private_arrays, stretches
from magpie.backends.cpu.lane_shapes import analyse_shapes
from magpie.backends.cpu.pipeline import prepared
from magpie.backends.cpu.regions import Plan, Repeat, Run, make_plan
from magpie.backends.cpu.shape_rules import Layout
from magpie.dtypes import f32, i32, index, u8
from magpie.ir.builder import Builder
from magpie.ir.layout import compute_layout
from magpie.ir.nodes import Buffer, Facts, Kernel, Node, SharedArray, Slot, walk
from magpie.passes.narrow_index import ranges


def strided(b: Builder, x: Buffer, name: str = "i"):
    """for i in range(global_id(0), len(x), num_workgroups * workgroup_size)"""
    step = b.emit("mul", b.emit("num_workgroups", dim=0), b.emit("workgroup_size", dim=0))
    return b.counted(b.emit("global_id", dim=0), b.emit("extent", array=x, dim=0), step, name)


def facts(*buffers: Buffer) -> Facts:
    return Facts(frozenset(b.name for b in buffers), frozenset(), True, True)


def total() -> Kernel:
    """s = 0; for i in ...: s += x[i]; y[global_id] = s"""
    x, y = Buffer("x", f32, 1, "read"), Buffer("y", f32, 1, "write")
    k = Kernel("total", [x, y], workgroup=(256, 1, 1), facts=facts(x, y))
    b = Builder(k.body)
    s = Slot("s", f32)
    b.set(s, b.const(0.0, f32))
    with strided(b, x) as i:
        b.set(s, b.emit("add", b.get(s), b.load(x, i)))
    b.store(y, (b.emit("global_id", dim=0),), b.get(s))
    return k


def histogram(bins: int = 256, reads: bool = False, uses: bool = False, second: str = "add", t=i32) -> Kernel:
    """Counts bytes in shared memory; ``reads`` and ``uses`` do what forbids private copies."""
    x, h, s = Buffer("x", u8, 1, "read"), Buffer("h", t, 1, "write"), SharedArray("s", t, (bins,))
    k = Kernel("histogram", [x, h], workgroup=(256, 1, 1), shared=[s], facts=facts(x, h))
    b = Builder(k.body)
    l = b.emit("thread_id", dim=0)
    b.store(s, (l,), b.const(0, t))
    b.emit("barrier")
    with strided(b, x) as i:
        bin_ = b.cast(b.load(x, i), index)
        old = b.emit("atomic_rmw", bin_, b.const(1, t), array=s, kind="add", scope="workgroup")
        b.emit("atomic_rmw", bin_, b.const(3, t), array=s, kind=second, scope="workgroup")
        if reads:
            b.store(h, (i,), b.load(s, bin_))
        if uses:
            b.store(h, (i,), old)
    b.emit("barrier")
    b.store(h, (l,), b.load(s, l))
    return k


def plan(kernel: Kernel) -> tuple[Kernel, Plan]:
    ready = prepared(kernel)
    return ready, make_plan(ready, analyse_shapes(ready, Layout(8, True, kernel.workgroup), ranges(ready)))


def walks(kernel: Kernel) -> list[Node]:
    return [n for n in walk(prepared(kernel).body) if n.attrs.get("walk")]


def text(kernel: Kernel) -> str:
    return BACKEND.emit(kernel, compute_layout(kernel), Options()).text


def copied(kernel: Kernel) -> set[str]:
    ready, found = plan(kernel)
    used = {a for n in walk(ready.body) for a in n.args}
    return {a.name for s in stretches(found.items) for a in private_arrays(s, ready, used)}


# --- walks -----------------------------------------------------------------------------------------------------------
def test_a_strided_sum_is_a_walk_that_takes_four_trips_at_a_time() -> None:
    (loop,) = walks(total())
    assert sum(n.op == "load" for n in walk(loop.regions[0])) == 4
    assert loop.attrs["even"], "adjacent workgroups make the same trips"
    _, found = plan(total())
    (repeat,) = [i for i in found.items if isinstance(i, Repeat)]
    assert repeat.walks and sum(isinstance(i, Run) for i in repeat.body) == 1
    assert [s.name.partition(".")[0] for s in found.context_slots] == ["s"]


def test_the_loop_behind_a_walk_asks_for_distances() -> None:
    # a division a lane for the trip count would cost more than the trips that are left
    (rest,) = [n for n in walk(prepared(total()).body) if n.op == "loop" and not n.attrs.get("walk")]
    (leave,) = [n for n in rest.regions[0] if n.op == "break_if"]
    assert leave.args[0].op == "ge" and [a.op for a in leave.args[0].args] == ["global_id", "sub"]


@mp.kernel
def k_numbered(count: mp.Array[mp.i32], out: mp.Array[mp.i32, 2]):
    # gangs of one thread in turn: what they see is the order in which they run
    for j in range(mp.thread_id(0), out.shape[1], 256):
        n = count[0]
        count[0] = n + 1
        out[mp.workgroup_id(0), j] = n


@mp.kernel
def k_numbered_again(count: mp.Array[mp.i32], out: mp.Array[mp.i32, 2]):
    row, t = mp.workgroup_id(0), mp.thread_id(0)
    out[row, t] = 0  # its lines are there
    mp.barrier()
    for j in range(t, out.shape[1], 256):
        n = count[0]
        count[0] = n + 1
        out[row, j] = n


@pytest.mark.parametrize(
    ("kernel", "rows", "in_order"),
    [(k_numbered, 1024, True), (k_numbered, 1000, False), (k_numbered_again, 1024, False)],
)
def test_short_rows_of_a_large_output_that_nothing_touched_go_in_order(monkeypatch, kernel, rows, in_order) -> None:
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "1")
    count, out = np.zeros(1, np.int32), np.full((rows, 1024), -1, np.int32)
    kernel.launch(grid=1, block=256, args=(count, out), device="cpu", gang=32)
    trip, gang = np.arange(1024) // 256, np.arange(1024) % 256 // 32
    assert np.array_equal(out[0], 8 * trip + gang if in_order else 4 * gang + trip)
    assert (out[1:] == -1).all()


@pytest.mark.parametrize("columns", [1, 255, 1000, 1024, 1300])
def test_values_of_rows_in_order(columns) -> None:
    @mp.kernel
    def scaled(x: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
        row = mp.workgroup_id(0)
        for j in range(mp.thread_id(0), out.shape[1], 256):
            out[row, j] = 2.0 * x[row, j]

    rows = -(-(4 << 20) // (4 * columns))
    x = np.random.default_rng(3).random((min(rows, 2000), columns), dtype=np.float32)
    out = np.full((rows, columns), 7, np.float32)
    scaled.launch(grid=len(x), block=256, args=(x, out), device="cpu")
    assert np.array_equal(out[: len(x)], 2 * x)
    assert (out[len(x) :] == 7).all()


@mp.kernel
def k_window(x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    # a loop over neighbours: a trip moves by one element
    i = mp.global_id(0)
    s = mp.f32(0)
    for k in range(y.shape[0]):
        s += x[i + k]
    y[i] = s


@mp.kernel
def k_search(x: mp.Array[mp.i32], y: mp.Array[mp.i32]):
    # items leave one by one
    g = mp.global_id(0)
    for i in range(g, x.shape[0], 4096):
        if x[i] == 7:
            y[g] = i
            break


@mp.kernel
def k_columns(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32]):
    # lanes are rows apart: nothing lies side by side
    g = mp.global_id(0)
    s = mp.f32(0)
    for i in range(g, x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        s += x[i, 0]
    y[g] = s


@mp.kernel
def k_many(x: mp.Array[mp.f32], y: mp.Array[mp.f32, 2]):
    # more values from trip to trip than a walk may keep
    g = mp.global_id(0)
    a = b = c = d = e = mp.f32(0)
    for i in range(g, x.shape[0], mp.num_workgroups(0) * mp.workgroup_size(0)):
        v = x[i]
        a += v
        b += a
        c += b
        d += c
        e += d
    y[0, g] = a
    y[1, g] = b
    y[2, g] = c
    y[3, g] = d
    y[4, g] = e


@pytest.mark.parametrize("kernel", [k_search, k_columns, k_many], ids=lambda k: k.__name__)
def test_what_is_no_walk(kernel) -> None:
    x = np.zeros((64, 4) if kernel is k_columns else 64, np.int32 if kernel is k_search else np.float32)
    y = np.zeros((5, 64) if kernel is k_many else 64, x.dtype)
    assert "i.walk" not in kernel.inspect("prepared", x, y)


def test_a_window_whose_trips_move_by_less_than_a_workgroup() -> None:
    # has the shape of a walk, which takes no trips then
    x, y = np.arange(40_000, dtype=np.float32), np.zeros(20_000, np.float32)
    k_window.launch(grid=1, block=64, args=(x[:20_063], y), device="cpu")
    want = np.cumsum(np.concatenate([[0.0], x[:20_063].astype(np.float64)]))
    assert np.allclose(y[:64], want[20_000:20_064] - want[:64], rtol=1e-3)


# --- batches and prefetches ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "batch", "lines"), [(total(), 16, 4), (histogram(), 4, 1)], ids=["total", "histogram"]
)
def test_batches_are_as_long_as_a_prefetcher_wants_and_fit_a_cache(kernel: Kernel, batch: int, lines: int) -> None:
    made = BACKEND.emit(kernel, compute_layout(kernel), Options(gang=64))
    assert made.info["arena"]["batch"] == batch
    assert len(re.findall(r"call void @llvm.prefetch", made.text)) == lines


def test_checked_mode_has_no_batches() -> None:
    made = BACKEND.emit(total(), compute_layout(total()), Options(checked=True))
    assert made.info["arena"]["batch"] == 1 and "prefetch" not in made.text


# --- private copies --------------------------------------------------------------------------------------------------
def test_a_histogram_counts_in_private_copies() -> None:
    assert copied(histogram()) == {"s"}
    assert copied(histogram(second="sub")) == {"s"}


@pytest.mark.parametrize(
    ("why", "kernel"),
    [
        ("it is read in the interval", histogram(reads=True)),
        ("an old value is used", histogram(uses=True)),
        ("two kinds do not commute", histogram(second="max")),
        ("floats have an order", histogram(t=f32)),
        ("the copies would fill the cache", histogram(bins=2048)),
    ],
)
def test_what_has_no_private_copies(why: str, kernel: Kernel) -> None:
    assert copied(kernel) == set(), why


def test_a_few_atomics_are_not_worth_a_pass_over_the_array() -> None:
    s, x = SharedArray("s", i32, (1000,)), Buffer("x", i32, 1, "read")
    k = Kernel("few", [x], workgroup=(64, 1, 1), shared=[s], facts=facts(x))
    b = Builder(k.body)
    i = b.emit("global_id", dim=0)
    b.emit("atomic_rmw", b.load(x, i), b.const(1, i32), array=s, kind="add", scope="workgroup")
    b.emit("barrier")
    assert copied(k) == set()


def test_lanes_work_on_four_copies_in_a_loop_that_stays_rolled() -> None:
    made = text(histogram())
    pitch = 256 * 4 + 64
    for n in range(1, COPIES):
        assert f"i64 {n * pitch}" in made
    assert "llvm.loop.unroll.disable" in made


@mp.kernel
def k_rows_start(x: mp.Array[mp.i32], out: mp.Array[mp.i32, 2], step: mp.i64):
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    s = 0
    for k in range(ty * 1000, x.shape[0] - 64, step):
        s += x[k + tx]
    out[ty, tx] = s


@mp.kernel
def k_rows_stop(x: mp.Array[mp.i32], out: mp.Array[mp.i32, 2], step: mp.i64):
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    s = 0
    for k in range(0, ty * 300_000, step):
        s += x[k + tx]
    out[ty, tx] = s


@mp.kernel
def k_rows_step(x: mp.Array[mp.i32], out: mp.Array[mp.i32, 2], step: mp.i64):
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    s = 0
    for k in range(0, x.shape[0] - 64, step * (ty + 1)):
        s += x[k + tx]
    out[ty, tx] = s


@mp.kernel
def k_rows_and_lanes(x: mp.Array[mp.i32], out: mp.Array[mp.i32, 2], step: mp.i64):
    tx, ty = mp.thread_id(0), mp.thread_id(1)
    s = 0
    for k in range(ty * 1000 + tx, x.shape[0] - 64, step):
        s += x[k]
    out[ty, tx] = s


ROWS = {
    k_rows_start: lambda ty, tx, step: (ty * 1000, 999_936, step, tx),
    k_rows_stop: lambda ty, tx, step: (0, ty * 300_000, step, tx),
    k_rows_step: lambda ty, tx, step: (0, 999_936, step * (ty + 1), tx),
    k_rows_and_lanes: lambda ty, tx, step: (ty * 1000 + tx, 999_936, step, 0),
}


@pytest.mark.parametrize("step", [1024, 70_000])
@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.__name__)
def test_loops_that_differ_between_rows_of_a_workgroup(kernel, step):
    """Lanes of a gang lie in one row, so they agree where the workgroup does not."""
    x = np.random.default_rng(4).integers(0, 9, 1_000_000).astype(np.int32)
    out, wanted = np.zeros((3, 64), np.int32), np.zeros((3, 64), np.int32)
    for ty in range(3):
        for tx in range(64):
            start, stop, by, shift = ROWS[kernel](ty, tx, step)
            wanted[ty, tx] = x[start + shift : stop + shift : by].sum()
    kernel.launch(grid=1, block=(64, 3, 1), args=(x, out, step), backend="cpu")
    assert np.array_equal(out, wanted)
