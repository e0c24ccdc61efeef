"""`launch(subgroup_size=)`: a kernel written for a GPU's subgroup width gives that GPU's results anywhere."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

BACKENDS = ("cpu", "interp")
SIZES = (4, 8, 16, 32, 64)


@mp.kernel
def warp(x: mp.Array[mp.f64], total: mp.Array[mp.f64], ballots: mp.Array[mp.u64], swapped: mp.Array[mp.f64]):
    # Written for 32 lanes, as a CUDA kernel would be: the numbers are not asked for.
    i = mp.global_id(0)
    lane = mp.thread_id(0) % 32
    v = x[i]
    for k in mp.static_range(5):
        v += mp.subgroup.shuffle_down(v, 16 >> k)
    bits = mp.subgroup.ballot(x[i] > 0.0)
    other = mp.subgroup.shuffle(x[i], 31 - lane)
    if lane == 0:
        total[i // 32] = v
        ballots[i // 32] = bits
    swapped[i] = other


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_kernel_for_warps_of_32(backend):
    # f64 lanes: 2 to 8 of them fill a vector register of the machines that there are
    x = np.random.default_rng(0).integers(-9, 9, 256).astype(np.float64)
    warps = x.reshape(-1, 32)
    total, ballots, swapped = np.zeros(8), np.zeros(8, np.uint64), np.zeros(256)
    warp.launch(grid=2, block=128, args=(x, total, ballots, swapped), backend=backend, subgroup_size=32)
    assert np.array_equal(total, warps.sum(1))
    assert np.array_equal(ballots, ((warps > 0) * (1 << np.arange(32, dtype=np.uint64))).sum(1, dtype=np.uint64))
    assert np.array_equal(swapped, warps[:, ::-1].ravel())


@mp.kernel
def ask(size: mp.Array[mp.i32], lane: mp.Array[mp.i32], count: mp.Array[mp.i32]):
    i = mp.global_id(0)
    size[i], lane[i], count[i] = mp.subgroup.size(), mp.subgroup.lane(), mp.subgroup.count()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", SIZES)
def test_the_kernel_sees_the_size(backend, n):
    size, lane, count = (np.zeros(70, np.int32) for _ in range(3))
    ask.launch(grid=1, block=70, args=(size, lane, count), backend=backend, subgroup_size=n)
    assert (size == n).all() and (count == -(-70 // n)).all()
    assert np.array_equal(lane, np.arange(70) % n)


def test_it_wins_over_the_gang_of_the_environment(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_GANG", "8")
    size, lane, count = (np.zeros(64, np.int32) for _ in range(3))
    ask.launch(grid=1, block=64, args=(size, lane, count), backend="cpu", subgroup_size=32)
    assert (size == 32).all()
    ask.launch(grid=1, block=64, args=(size, lane, count), backend="cpu")
    assert (size == 8).all()


@mp.kernel
def plain(x: mp.Array[mp.f32]):
    x[mp.global_id(0)] *= 2.0


def test_kernels_without_subgroup_operations_keep_their_gang():
    own = plain.compile(backend="cpu").info["gang"]
    assert plain.compile(backend="cpu", subgroup_size=64 if own != 64 else 4).info["gang"] == own
    assert ask.compile(backend="cpu", subgroup_size=64).info["gang"] == 64


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_there_are_not(backend):
    arrays = [np.zeros(8, np.int32) for _ in range(3)]
    for wrong in (3, 12, 128):
        with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1021"):
            ask.launch(grid=1, block=8, args=arrays, backend=backend, subgroup_size=wrong)
        with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1021"):
            ask.compile(backend=backend, subgroup_size=wrong)
    for wrong in (0, -4, True, "32", 32.0):
        with pytest.raises(mp.LaunchTypeError, match="MPG_LAUNCH_1021"):
            ask.launch(grid=1, block=8, args=arrays, backend=backend, subgroup_size=wrong)
    with pytest.raises(mp.LaunchValueError, match="gang=8 and subgroup_size=32"):
        ask.launch(grid=1, block=8, args=arrays, backend=backend, subgroup_size=32, gang=8)
    assert not any(a.any() for a in arrays)


def test_devices_tell_their_sizes():
    assert mp.device("cpu").subgroup_sizes == SIZES
    assert mp.device("interp").properties["subgroup_sizes"] == SIZES


def test_under_the_sanitizer(monkeypatch):
    size, lane, count = (np.zeros(16, np.int32) for _ in range(3))
    assert ask.sanitize(grid=1, block=16, args=(size, lane, count), subgroup_size=8) == []
    assert (size == 8).all()
    monkeypatch.setenv("MAGPIE_SANITIZE", "1")
    ask.launch(grid=1, block=16, args=(size, lane, count), backend="cpu", subgroup_size=4)
    assert (size == 4).all()
