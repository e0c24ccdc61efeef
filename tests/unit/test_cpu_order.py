"""Workgroups in bands: which kernels are taken so, and that every workgroup is still taken once."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu.order import BAND, in_bands
from magpie.frontend.signature import ArrayArg
from magpie.passes import prepare


@mp.kernel
def product(a: mp.Array[mp.f32, 3], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 3]):
    j, i, z = mp.global_id(0), mp.global_id(1), mp.global_id(2)
    if i < c.shape[1] and j < c.shape[2]:
        total = 0.0
        for k in range(a.shape[2]):
            total += a[z, i, k] * b[k, j]
        c[z, i, j] = total


@mp.kernel
def product_through_slots(a: mp.Array[mp.f32, 3], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 3]):
    row = mp.workgroup_id(1) * 2 + mp.thread_id(1)
    column = mp.workgroup_id(0) * 4 + mp.thread_id(0)
    z = mp.workgroup_id(2)
    total = 0.0
    k = 0
    at = column
    while k < a.shape[2]:
        if row < c.shape[1] and column < c.shape[2]:
            total += a[z, row, k] * b[k, at]
        k += 1
    if row < c.shape[1] and column < c.shape[2]:
        c[z, row, column] = total


@mp.kernel
def column_sums_of_rows(a: mp.Array[mp.f32, 3], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 3]):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < c.shape[1] and j < c.shape[2]:
        total = 0.0
        for k in range(a.shape[2]):
            total += b[k, j]
        c[0, i, j] = total


@mp.kernel
def counted_product(a: mp.Array[mp.f32, 3], b: mp.Array[mp.f32, 2], c: mp.Array[mp.f32, 3]):
    j, i = mp.global_id(0), mp.global_id(1)
    if i < c.shape[1] and j < c.shape[2]:
        total = 0.0
        for k in range(a.shape[2]):
            total += a[0, i, k] * b[k, j]
        mp.atomic_add(c, (0, i, j), total)


def banded(kernel) -> bool:
    args = (ArrayArg(mp.f32, 3), ArrayArg(mp.f32, 2), ArrayArg(mp.f32, 3))
    return in_bands(prepare(kernel._specialiser().lower(args).kernel))


def test_a_product_goes_in_bands():
    assert banded(product)
    assert banded(product_through_slots)


def test_a_kernel_that_reuses_in_one_direction_does_not():
    assert not banded(column_sums_of_rows)


def test_a_kernel_that_orders_workgroups_does_not():
    assert not banded(counted_product)


@pytest.mark.parametrize("kernel", [product, product_through_slots])
@pytest.mark.parametrize("rows", [1, 2 * BAND - 1, 2 * BAND, 2 * BAND + 3, 4 * BAND + 2])
@pytest.mark.parametrize(("columns", "planes"), [(1, 1), (13, 3)])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_every_workgroup_is_taken_once(kernel, rows, columns, planes, threads, monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
    random = np.random.default_rng(rows)
    a = random.integers(-9, 9, (planes, rows, 5)).astype(np.float32)  # integers: sums are exact
    b = random.integers(-9, 9, (5, columns)).astype(np.float32)
    c = np.full((planes, rows, columns), np.nan, np.float32)
    kernel[(mp.cdiv(columns, 4), mp.cdiv(rows, 2), planes), (4, 2)](a, b, c)
    np.testing.assert_array_equal(c, a @ b)
