"""Loops whose trips are counted for a whole gang: when they are, and the trips of every lane."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu import control

BOUNDS = [
    (0, 0),
    (0, 1),
    (3, 3),
    (5, 2),
    (0, 63),
    (0, 64),
    (0, 65),
    (1, 200),
    (7, 640),
    (0, 1000),
    (-50, 333),
    (0, 70000),
]


@mp.kernel
def k_up(out: mp.Array[mp.i64, 2], first: mp.i32, stop: mp.i32):
    t = mp.thread_id(0)
    trips = mp.i64(0)
    total = mp.i64(0)
    for j in range(first + t, stop, 64):
        trips += 1
        total = 3 * total + j  # tells the order too
    out[0, t] = trips
    out[1, t] = total


@mp.kernel
def k_turned(out: mp.Array[mp.i64, 2], first: mp.i32, stop: mp.i32):
    t = mp.thread_id(0)
    trips = mp.i64(0)
    total = mp.i64(0)
    for j in range(first + 63 - 2 * t, stop, 5):  # the last lane comes first
        trips += 1
        total = 3 * total + j
    out[0, t] = trips
    out[1, t] = total


@mp.kernel
def k_twice(out: mp.Array[mp.i64, 2], first: mp.i32, stop: mp.i32):
    t = mp.thread_id(0)
    trips = mp.i64(0)
    total = mp.i64(0)
    for _ in range(2):
        for j in range(first + t, stop, 1):
            if j % 7 == 3:  # some lanes only
                total = 3 * total + j
            trips += 1
    out[0, t] = trips
    out[1, t] = total


@mp.kernel
def k_left(out: mp.Array[mp.i64, 2], first: mp.i32, stop: mp.i32):
    t = mp.thread_id(0)
    trips = mp.i64(0)
    total = mp.i64(0)
    for j in range(first + t, stop, 64):
        if j > 300:
            break
        trips += 1
        total = 3 * total + j
    out[0, t] = trips
    out[1, t] = total


def js(kernel, t, first, stop):
    """The values of the counter that a work-item goes through."""
    if kernel is k_turned:
        return list(range(first + 63 - 2 * t, stop, 5))
    if kernel is k_twice:
        return 2 * list(range(first + t, stop))
    found = list(range(first + t, stop, 64))
    return [j for j in found if j <= 300] if kernel is k_left else found


def expected(kernel, items, first, stop):
    out = np.zeros((2, items), np.int64)
    for t in range(items):
        total = 0
        values = js(kernel, t, first, stop)
        for j in values:
            if kernel is not k_twice or j % 7 == 3:
                total = (3 * total + j) % 2**64
        out[0, t], out[1, t] = len(values), total - 2**64 * (total >= 2**63)
    return out


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("kernel", [k_up, k_turned, k_twice, k_left], ids=lambda k: k.__name__)
def test_every_lane_makes_its_trips(monkeypatch, kernel, gang):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    for items in (64, 50):
        for first, stop in BOUNDS:
            if kernel is k_twice and stop > 1000:
                continue
            out = np.full((2, items), -1, np.int64)
            kernel.launch(grid=1, block=items, args=(out, first, stop), gang=gang)
            assert np.array_equal(out, expected(kernel, items, first, stop)), (items, first, stop)


@mp.kernel
def k_many(out: mp.Array[mp.i64, 2], stop: mp.i32):
    t = mp.thread_id(0)
    count = mp.i64(0)
    for _ in range(3 + t, stop, 1):
        count += 1
    nested = mp.i64(0)
    for j in range(3 + t, stop // 100, 1):
        for _ in range(j % 3):
            nested += 1
    out[0, t] = count
    out[1, t] = nested


def test_more_trips_than_a_strip_has():
    stop = 3 * (1 << 16) + 7
    out = np.zeros((2, 40), np.int64)
    k_many.launch(grid=1, block=40, args=(out, stop), device="cpu")
    starts = range(3, 43)
    assert out[0].tolist() == [stop - s for s in starts]
    assert out[1].tolist() == [sum(j % 3 for j in range(s, stop // 100)) for s in starts]


@mp.kernel
def k_by_step(x: mp.Array[mp.f32], out: mp.Array[mp.f32], step: mp.index):
    t = mp.thread_id(0)
    total = mp.f32(0)
    for j in range(t, x.shape[0], mp.num_workgroups(0) * 256):
        total += x[j]
    out[t] = total


@mp.kernel
def k_by_256(x: mp.Array[mp.f32], out: mp.Array[mp.f32], step: mp.index):
    t = mp.thread_id(0)
    total = mp.f32(0)
    for j in range(t, x.shape[0], 256):
        total += x[j]
    out[t] = total


@mp.kernel
def k_while(x: mp.Array[mp.f32], out: mp.Array[mp.f32], step: mp.index):
    t = mp.thread_id(0)
    total = mp.f32(0)
    while t < x.shape[0]:
        total += x[t]
        t += 256
    out[mp.thread_id(0)] = total


COUNTED = [
    (k_up, True),
    (k_turned, True),
    (k_twice, True),
    (k_many, True),
    (k_by_256, True),
    (k_by_step, False),
    (k_while, False),
]


@pytest.mark.parametrize(("kernel", "counted"), COUNTED)
def test_which_loops_are_counted(monkeypatch, kernel, counted):
    """Those of a range whose step is a constant: others would take a division for each gang."""
    found = []
    whole = control.trips_of_lanes

    def note(*args):
        found.append(whole(*args) is not None)
        return whole(*args)

    monkeypatch.setattr(control, "trips_of_lanes", note)
    monkeypatch.setenv("MAGPIE_CACHE", "0")
    kernel.compile(backend="cpu", workgroup=256)
    assert found
    assert set(found) == {counted}
