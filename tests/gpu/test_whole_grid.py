"""Barriers of the launch and the device's heap, on a real device. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from .test_gpu import DEVICE

pytestmark = pytest.mark.skipif(DEVICE is None, reason="no CUDA device")


@mp.kernel(requires=("cuda.cooperative_launch",))
def rounds(x: mp.Array[mp.i32, 1], trips: mp.i32):
    i = mp.global_id(0)
    n = x.shape[0]
    for _ in range(trips):
        right = x[(i + 1) % n]
        mp.grid_sync()
        x[i] = right + 1
        mp.grid_sync()


@pytest.mark.parametrize("block", [32, 256, 1024])
def test_gpu_a_grid_that_fills_the_device_meets(block):
    per = min(32, 2048 // block)  # workgroups of a multiprocessor
    grid = DEVICE.properties["multiprocessors"] * per
    start = np.arange(grid * block, dtype=np.int32)
    x = mp.asarray(start, device="cuda")
    for _ in range(3):  # the word at which they meet is used again
        rounds[grid, block](x, 100)
    assert np.array_equal(x.to_numpy(), np.roll(start, -300) + 300)


def test_gpu_a_grid_that_does_not_fit_is_refused_with_the_number_that_does():
    x = mp.zeros(1 << 24, mp.i32, device="cuda")
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1023") as caught:
        rounds[1 << 16, 256](x, 1)
    most = int(str(caught.value.help).split("at most ")[1].split()[0])
    assert most % DEVICE.properties["multiprocessors"] == 0
    rounds[most, 256](x, 1)
    assert np.array_equal(x.to_numpy()[: most * 256], np.ones(most * 256, np.int32))


@mp.kernel(requires=("device_malloc",))
def table(y: mp.Array[mp.i64, 1], n: mp.i32, at: mp.i32):
    i = mp.global_id(0)
    p = mp.malloc(n, mp.i64)
    if p:
        for j in range(n):
            p[j] = i * j
        y[i] = p[at]
        mp.free(p)


def test_gpu_device_memory_is_given_back():
    y = mp.zeros(1 << 14, mp.i64, device="cuda")
    for _ in range(200):  # 200 times 16 K times 80 bytes is thirty times the heap
        table[64, 256](y, 10, 9)
    assert np.array_equal(y.to_numpy(), 9 * np.arange(1 << 14))


def test_gpu_checked_mode_leaves_out_what_is_outside_of_an_allocation():
    y = mp.full(256, 5, mp.i64, device="cuda")
    with pytest.raises(mp.GpuError, match=r"malloc\[10\]"):
        table.launch(grid=1, block=256, args=(y, 10, 10), checked=True)
    assert np.array_equal(y.to_numpy(), np.zeros(256))
    table[1, 256](y, 10, 3)  # the device goes on
    assert np.array_equal(y.to_numpy(), 3 * np.arange(256))
