"""Intervals of loop variables: every value that a range takes lies in them, and they are as narrow as its ends say."""

from __future__ import annotations

import itertools

import pytest

from magpie.dtypes import i32, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Facts, Kernel, Scalar, Slot
from magpie.passes import prepare
from magpie.passes.narrow_index import ranges

SMALL = (1 << 31) - 1


def looped(start, stop, step, *, small=True, workgroup=(64, 1, 1)):
    """Intervals by name: of the variable of range(start, stop, step) in the loop, and of the count behind it.

    An end is a number, or a function of the builder and the buffer.
    """
    x = Buffer("x", i32, 1, "read_write")
    k = Kernel("k", [x, Scalar("n", i32)], workgroup=workgroup, facts=Facts(small=small))
    b = Builder(k.body)
    ends = [e(b, x) if callable(e) else b.const(e, index) for e in (start, stop, step)]
    seen = Slot("seen", index)
    with b.counted(*ends) as v:
        b.store(x, (v,), b.const(1, i32))
        b.set(seen, v)
    b.store(x, (b.get(seen),), b.const(2, i32))
    ready = prepare(k)
    known = ranges(ready)
    loop = next(n for n in ready.body if n.op == "loop")
    store = next(n for n in loop.regions[0] if n.op == "store")
    count, trips = loop.attrs["counted"]
    return known.of(store.args[0]), known.slots[count], known.of(trips)


def extent(b, x):
    return b.emit("extent", array=x, dim=0)


def item(b, x):
    return b.emit("global_id", dim=0)


def items(b, x):
    groups, size = b.emit("num_workgroups", dim=0), b.emit("workgroup_size", dim=0)
    return b.emit("mul", groups, size)


def scalar(b, x):
    return b.cast(b.emit("param", type=i32, name="n"), index)


LARGEST = {extent: SMALL, item: SMALL - 1, items: SMALL, scalar: SMALL}
LEAST = {extent: 0, item: 0, items: 1, scalar: -(1 << 31)}


def ends(value):
    """The least and the largest value of an end of a range."""
    return (LEAST[value], LARGEST[value]) if callable(value) else (value, value)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (0, extent, 1),
        (0, extent, 32),
        (5, extent, 3),
        (item, extent, 1),
        (item, extent, items),
        (scalar, extent, 2),
        (0, scalar, 7),
        (0, 100, 7),
        (100, 0, -7),
        (extent, -1, -1),
        (extent, 0, -5),
    ],
)
def test_a_loop_variable_stays_between_the_ends_of_its_range(start, stop, step):
    (low, high), count, trips = looped(start, stop, step)
    # what the loop takes on at the extremes of its ends, by Python's range
    taken = [range(a, b, c) for a in ends(start) for b in ends(stop) for c in ends(step)]
    taken = [r for r in taken if r]
    assert low <= min(min(r[0], r[-1]) for r in taken) and high >= max(max(r[0], r[-1]) for r in taken)
    assert trips[1] >= max(map(len, taken)) and count == (0, trips[1])
    up = callable(step) or step > 0
    first, last = ends(start), ends(stop)
    assert (low >= first[0] and high < last[1]) if up else (high <= first[1] and low > last[0])


def test_a_step_of_unknown_sign_says_nothing_of_the_variable():
    (low, high), *_ = looped(item, extent, scalar)
    assert low < 0 and high > SMALL


def test_without_facts_nothing_is_small():
    (low, high), *_ = looped(item, extent, items, small=False)
    assert low == 0 and high > SMALL


def test_behind_the_loop_the_count_is_the_trips():
    x = Buffer("x", i32, 1, "read_write")
    k = Kernel("k", [x], facts=Facts(small=True))
    b = Builder(k.body)
    count = Slot("count", index)
    trips = b.const(10, index)
    b.set(count, b.const(0, index))
    _, body, step = b.loop(counted=(count, trips))
    with b.into(body):
        before = b.get(count)
        b.emit("break_if", b.emit("ge", before, trips))
        inside = b.get(count)
        doubled = b.emit("mul", before, b.const(2, index))
        b.store(x, (b.emit("add", inside, doubled),), b.const(1, i32))
    with b.into(step):
        b.set(count, b.emit("add", b.get(count), b.const(1, index)))
        after = b.get(count)
        b.store(x, (after,), b.const(2, i32))
    behind = b.get(count)
    b.store(x, (behind,), b.const(3, i32))
    known = ranges(k)
    assert known.of(before) == known.of(after) == known.of(behind) == (0, 10)
    assert known.of(inside) == (0, 9)
    assert known.of(doubled) == (0, 18)  # the value read before the test, behind it


@pytest.mark.parametrize("op", ["tdiv", "floordiv"])
def test_quotients_of_negative_numbers_hold_every_value(op):
    for low, high, by in itertools.product((-9, -8, -1, 0, 3), (-1, 0, 1, 8), (1, 2, 4, 5)):
        if low > high:
            continue
        k = Kernel("k", [Buffer("x", i32, 1, "read_write")], workgroup=(high - low + 1, 1, 1))
        b = Builder(k.body)
        a = b.emit("add", b.emit("thread_id", dim=0), b.const(low, index))
        q = b.emit(op, a, b.const(by, index))
        values = [int(v / by) if op == "tdiv" else v // by for v in range(low, high + 1)]
        assert ranges(k).of(q) == (min(values), max(values)), (low, high, by)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 9, 40])
def test_what_goes_from_slot_to_slot_reaches_the_last(length):
    """d = c; c = b; b = a; a = a * 3 + 1: each takes the values of the one before, a trip later."""
    x = Buffer("x", i32, 1, "read_write")
    k = Kernel("k", [x], workgroup=(64, 1, 1), facts=Facts(small=True))
    b = Builder(k.body)
    chain = [Slot(f"s{n}", index) for n in range(length)]
    for slot in chain:
        b.set(slot, b.const(0, index))
    with b.counted(b.const(0, index), b.emit("extent", array=x, dim=0), b.const(1, index)):
        for later, earlier in zip(chain[:0:-1], chain[-2::-1], strict=True):
            b.set(later, b.get(earlier))
        b.set(chain[0], b.emit("add", b.emit("mul", b.get(chain[0]), b.const(3, index)), b.const(1, index)))
    b.store(x, (b.const(0, index),), b.emit("cast", b.get(chain[-1]), type=i32))
    known = ranges(prepare(k))
    assert not any(known.slot_fits32(slot) for slot in chain)
