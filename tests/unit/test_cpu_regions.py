"""Cutting kernels at barriers, shapes across lanes, and value ranges: the analyses under the cpu backend."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.backends.base import Options
from magpie.backends.cpu import BACKEND
from magpie.backends.cpu.filled import filled_arrays
from magpie.backends.cpu.lane_shapes import analyse_shapes, forward_slots
from magpie.backends.cpu.regions import Barrier, Branch, Exit, Plan, Repeat, Run, Scalar, make_plan
from magpie.backends.cpu.shape_rules import Layout
from magpie.backends.cpu.skips import branches_for_jumps
from magpie.backends.cpu.teams import find_common
from magpie.dtypes import f32, i32, index
from magpie.ir.builder import Builder
from magpie.ir.layout import compute_layout
from magpie.ir.nodes import Buffer, Facts, Kernel, LocalArray, SharedArray, Slot, walk
from magpie.passes import prepare
from magpie.passes.narrow_index import ranges

LANES = Layout(8, True, None)


def plan(kernel: Kernel) -> Plan:
    ready = forward_slots(prepare(kernel))
    return make_plan(ready, analyse_shapes(ready, LANES, ranges(ready)))


def tree() -> Kernel:
    """s[t] = x[t]; k = 64; loop { break_if k <= 0; barrier; if t < k { s[t] += s[t + k] } } step { k /= 2 }"""
    x, s = Buffer("x", f32, 1, "read_write"), SharedArray("s", f32, (128,))
    k = Kernel("tree", [x], shared=[s])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    step = Slot("step", index)
    b.store(s, (t,), b.load(x, t))
    b.set(step, b.const(64, index))
    _, body, tail = b.loop()
    with b.into(body):
        n = b.get(step)
        b.emit("break_if", b.emit("le", n, b.const(0, index)))
        b.emit("barrier")
        _, then, _ = b.if_(b.emit("lt", t, n))
        with b.into(then):
            b.store(s, (t,), b.emit("add", b.load(s, t), b.load(s, b.emit("add", t, n))))
    with b.into(tail):
        b.set(step, b.emit("shr", b.get(step), b.const(1, index)))
    b.store(x, (t,), b.load(s, t))
    return k


def test_a_uniform_loop_with_a_barrier_is_scaffold() -> None:
    found = plan(tree())
    (repeat,) = [i for i in found.items if isinstance(i, Repeat)]
    assert [type(i) for i in repeat.body if not isinstance(i, Scalar)] == [Exit, Barrier, Run]
    assert len(found.runs) == 3
    assert {s.name for s in found.scaffold_slots} == {"step"}
    assert not found.context_nodes, "a coordinate is computed again"
    assert not found.context_slots


@pytest.mark.parametrize("other_arm", [True, False])
def test_a_slot_that_each_arm_sets_does_not_outlive_its_run(other_arm: bool) -> None:
    x, s = Buffer("x", f32, 1, "read_write"), SharedArray("s", f32, (128,))
    k = Kernel("arms", [x], shared=[s])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    left = Slot("left", f32)
    with b.counted(b.const(0, index), b.const(9, index), b.const(1, index)) as d:
        _, then, else_ = b.if_(b.emit("ge", t, d))
        with b.into(then):
            b.set(left, b.load(s, b.emit("sub", t, d)))
        if other_arm:
            with b.into(else_):
                b.set(left, b.const(0.0, f32))
        value = b.get(left)
        b.emit("barrier")
        b.store(s, (t,), value)
        b.emit("barrier")
    b.store(x, (t,), b.load(s, t))
    found = plan(k)
    assert value in found.context_nodes
    assert [slot.name for slot in found.context_slots] == ([] if other_arm else ["left"])


def test_a_value_from_memory_goes_to_context() -> None:
    x = Buffer("x", f32, 1, "read_write")
    k = Kernel("k", [x])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    v = b.load(x, t)
    b.emit("barrier")
    b.store(x, (b.emit("add", t, b.const(1, index)),), v)
    found = plan(k)
    assert [n.op for n in found.context_nodes] == ["load"]


def test_a_branch_that_holds_a_barrier_and_a_break_out_of_a_scaffold_loop() -> None:
    x = Buffer("x", f32, 1, "read_write")
    k = Kernel("k", [x])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    rounds = Slot("rounds", index)
    b.set(rounds, b.const(0, index))
    _, body, tail = b.loop()
    with b.into(body):
        b.emit("barrier")
        b.store(x, (t,), b.const(1.0, f32))
        _, out, _ = b.if_(b.emit("ge", b.get(rounds), b.const(3, index)))
        with b.into(out):
            b.emit("break")
    with b.into(tail):
        b.set(rounds, b.emit("add", b.get(rounds), b.const(1, index)))
    (repeat,) = [i for i in plan(k).items if isinstance(i, Repeat)]
    (branch,) = [i for i in repeat.body if isinstance(i, Branch)]
    assert isinstance(branch.then[-1], Exit)


def test_what_a_workgroup_shares() -> None:
    x, o = Buffer("x", f32, 1, "read"), Buffer("o", f32, 1, "write")
    k = Kernel("k", [x, o], facts=Facts(frozenset(("x", "o")), frozenset(), True, True))
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    total = Slot("total", f32)
    with b.counted(b.const(0, index), b.emit("extent", array=x, dim=0), b.const(1, index)) as i:
        shared = b.load(x, i)
        b.set(total, b.emit("add", b.get(total), b.emit("mul", shared, b.cast(t, f32))))
    b.store(o, (t,), b.get(total))
    ready = forward_slots(prepare(k))
    common = find_common(ready, analyse_shapes(ready, LANES, ranges(ready)))
    loads = [n for n in common.nodes if n.op == "load"]
    assert len(loads) == 1
    assert len(common.even) == 1
    assert {s.name for s in common.slots} == {"k"}


@pytest.mark.parametrize(
    ("op", "divisor", "kind"),
    [
        ("floordiv", 8, 0),
        ("mod", 8, 1),
        ("floordiv", 32, 0),
        ("floordiv", 4, 2),
        ("floordiv", 12, 2),
        ("shr", 3, 0),
        ("and", 7, 1),
    ],
)
def test_quotients_that_no_gang_straddles(op: str, divisor: int, kind: int) -> None:
    o = Buffer("o", i32, 1, "write")
    k = Kernel("k", [o])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    q = b.emit(op, t, b.const(divisor, index))
    b.store(o, (q,), b.const(1, i32))
    assert analyse_shapes(k, LANES, ranges(k)).of(q).kind == kind


def test_ranges_widen_what_a_loop_makes_grow() -> None:
    o = Buffer("o", i32, 1, "write")
    k = Kernel("k", [o], workgroup=(64, 1, 1), facts=Facts(small=True))
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    grows, kept = Slot("grows", index), Slot("kept", index)
    b.set(kept, b.emit("mul", t, b.const(4, index)))
    with b.counted(b.const(0, index), b.const(10, index), b.const(1, index)) as i:
        b.set(grows, b.emit("add", b.get(grows), t))
        b.set(kept, b.emit("min", b.get(kept), i))
    b.store(o, (b.get(grows),), b.cast(b.get(kept), i32))
    ready = prepare(k)
    known = {s.name: r for s, r in ranges(ready).slots.items()}
    assert known["kept"] == (0, 252)
    assert known["grows"][1] == index.max
    assert ranges(ready).of(next(n for n in ready.body if n.op == "thread_id")) == (0, 63)


@mp.kernel
def k_checked(x: mp.Array[mp.i32], at: mp.Array[mp.i32], out: mp.Array[mp.i32]):
    i = mp.global_id(0)
    out[i] = x[at[i]] + 1


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
def test_checked_mode_skips_a_fault_and_goes_on(gang: int) -> None:
    x, out = np.full(10, 5, np.int32), np.zeros(9, np.int32)
    at = np.array([0, 9, 10, -1, 4, 2**30, 3, 2, 1], np.int32)
    with pytest.raises(mp.GpuError, match="MPG_SAN_1003"):
        k_checked.launch(grid=1, block=9, args=(x, at, out), device="cpu", checked=True, gang=gang)
    assert out.tolist() == [6, 6, 1, 1, 6, 1, 6, 6, 6]


def test_an_impossible_gang_is_a_numbered_error() -> None:
    with pytest.raises(mp.CompileError, match="MPG_CPU_1001"):
        BACKEND.emit(tree(), compute_layout(tree()), Options(gang=5))


@pytest.mark.parametrize(
    ("stored", "read_at", "expected"),
    [((0, 1, 2), 3, True), ((2, 0, 1), 3, True), ((0, 1), 2, False), ((0, 1, 2), 2, False), ((0, 1, 1), 3, False)],
)
def test_local_arrays_that_are_filled_first(stored: tuple[int, ...], read_at: int, expected: bool) -> None:
    x, a = Buffer("x", i32, 1, "read_write"), LocalArray("a", i32, (3,))
    k = Kernel("filled", [x], locals=[a])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    _, then, _ = b.if_(b.emit("lt", t, b.const(9, index)))
    with b.into(then):
        for k_, place in enumerate((*stored, None)):
            if k_ == read_at:
                b.store(x, (t,), b.load(a, b.emit("mod", t, b.const(3, index))))
            if place is not None:
                b.store(a, (b.emit("add", b.const(place, index), b.const(0, index)),), b.load(x, t))
    ready = forward_slots(prepare(k))
    assert [f.name for f in filled_arrays(ready, ranges(ready))] == ["a"] * expected


def _continues(varying: bool) -> Kernel:
    """loop (4 trips) { barrier; if c { continue }; x[t] = t }, where c depends on the item or on the trip."""
    x = Buffer("x", f32, 1, "read_write")
    k = Kernel("continues", [x])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    trip = Slot("trip", index)
    b.set(trip, b.const(0, index))
    _, body, tail = b.loop()
    with b.into(body):
        n = b.get(trip)
        b.emit("break_if", b.emit("ge", n, b.const(4, index)))
        b.emit("barrier")
        _, then, _ = b.if_(b.emit("lt", t if varying else n, b.const(2, index)))
        with b.into(then):
            b.emit("continue")
        b.store(x, (t,), b.cast(t, f32))
    with b.into(tail):
        b.set(trip, b.emit("add", b.get(trip), b.const(1, index)))
    return k


def test_a_continue_of_some_items_is_a_branch_around_what_it_skips() -> None:
    ready = branches_for_jumps(prepare(_continues(varying=True)))
    (loop,) = [n for n in ready.body if n.op == "loop"]
    assert not [n for n in walk(ready.body) if n.op == "continue"]
    last = loop.regions[0][-1]
    assert last.op == "if"
    assert [[n.op for n in arm if n.op == "store"] for arm in last.regions] == [[], ["store"]]
    assert not [n for n in walk(ready.body) if n.op == "slot_set" and n.attrs["slot"].name == "skipped"]


def test_a_continue_of_the_whole_workgroup_stays_one() -> None:
    kernel = prepare(_continues(varying=False))
    assert branches_for_jumps(kernel) is kernel
