"""mp arrays as arguments: allocated by the runtime, aligned, stream-ordered; the same kernels, the same results."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import TYPE_CAPABILITY, targets

EVERY = pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)


@mp.kernel
def k_axpy(a, x, y):
    i = mp.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def k_transpose(x, out):
    j = mp.global_id(0)
    i = mp.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        out[j, i] = x[i, j]


@mp.kernel
def k_count(out):
    mp.atomic_add(out, 0, 1)


@EVERY
@pytest.mark.parametrize("t", [mp.f32, mp.f64, mp.i32, mp.u8, mp.f16], ids=lambda t: t.name)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_axpy_on_mp_arrays(target, t, n):
    if not target.has([TYPE_CAPABILITY[t.name]] if t.name in TYPE_CAPABILITY else []):
        pytest.skip(f"{target.name} lacks {t}")
    x, y = o.plain(t, n, 1), o.plain(t, n, 2)
    want = o.in_f32(np.add, t, o.in_f32(np.multiply, t, np.full(n, 3, t.numpy), x), y)
    dx, dy = mp.asarray(x, device=target.device), mp.asarray(y, device=target.device)
    k_axpy.launch(grid=mp.cdiv(n, 64), block=64, args=(3, dx, dy), device=target.device)
    assert np.array_equal(mp.to_numpy(dy), want)
    assert np.array_equal(mp.to_numpy(dx), x)
    assert not np.shares_memory(y, mp.to_numpy(dy)) or np.array_equal(y, want)


@EVERY
def test_mixed_mp_and_numpy_arguments(target):
    x, y = o.plain(mp.f32, 100, 1), o.plain(mp.f32, 100, 2)
    want = np.float32(2) * x + y
    k_axpy.launch(grid=2, block=64, args=(2.0, mp.asarray(x, device=target.device), y), device=target.device)
    assert np.array_equal(y, want)


@EVERY
def test_two_dimensional_mp_arrays(target):
    x = o.values(mp.f32, 21 * 37).reshape(21, 37)
    out = mp.zeros((37, 21), mp.f32, device=target.device)
    k_transpose.launch(grid=(5, 3), block=(8, 8), args=(mp.asarray(x, device=target.device), out), device=target.device)
    assert np.array_equal(mp.to_numpy(out), x.T, equal_nan=True)


@EVERY
def test_launches_on_one_array_are_in_order(target):
    out = mp.zeros(1, mp.i32, device=target.device)
    for _ in range(20):
        k_count.launch(grid=3, block=32, args=(out,), device=target.device)
    assert mp.to_numpy(out)[0] == 20 * 96


@EVERY
def test_full_and_empty(target):
    a = mp.full((3, 4), 2.5, mp.f32, device=target.device)
    assert np.array_equal(mp.to_numpy(a), np.full((3, 4), 2.5, np.float32))
    e = mp.empty(0, mp.f32, device=target.device)
    assert mp.to_numpy(e).shape == (0,)
