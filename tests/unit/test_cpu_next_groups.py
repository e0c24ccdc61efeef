"""Which loads ask for what the next workgroup reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu.pipeline import prepared
from magpie.frontend.signature import ArrayArg, ScalarArg
from magpie.ir.nodes import Facts, walk


@mp.kernel
def rows(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32]):
    total = 0.0
    for j in range(mp.thread_id(0), a.shape[1], 64):
        total += a[mp.workgroup_id(0), j]
    for j in range(mp.thread_id(0), a.shape[1], 64):
        total += a[mp.workgroup_id(0), j]
    out[mp.global_id(0)] = total


@mp.kernel
def flat_rows(a: mp.Array[mp.f32], width: mp.i32, out: mp.Array[mp.f32]):
    total = 0.0
    for j in range(mp.thread_id(0), width, 64):
        total += a[mp.workgroup_id(0) * width + j]
    out[mp.global_id(0)] = total


@mp.kernel
def own_row(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32]):
    total = 0.0
    for j in range(mp.thread_id(0), a.shape[1], 64):
        total += a[0, j]
    out[mp.global_id(0)] = total


@mp.kernel
def adjacent(a: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    total = 0.0
    for j in range(mp.thread_id(0), 64, 64):
        total += a[mp.workgroup_id(0) * 64 + j]
    out[mp.global_id(0)] = total


def prefetches(kernel, *types) -> int:
    """How many loads of a kernel prefetch for the next workgroup."""
    lowered = kernel._specialiser().lower(types).kernel
    names = frozenset(b.name for b in lowered.buffers)
    facts = Facts(contiguous=names, aligned=names, noalias=True, small=True, workgroup=(64, 1, 1))
    return sum("next_by" in n.attrs for n in walk(prepared(replace(lowered, facts=facts)).body))


MATRIX, LIST = ArrayArg(mp.f32, 2), ArrayArg(mp.f32, 1)


def test_the_first_loop_over_a_row_asks_for_the_next_one():
    assert prefetches(rows, MATRIX, LIST) == 1


def test_rows_of_a_list_are_rows():
    assert prefetches(flat_rows, LIST, ScalarArg(mp.i32), LIST) == 1


def test_what_all_workgroups_read_and_what_lies_side_by_side_is_left_alone():
    assert prefetches(own_row, MATRIX, LIST) == 0
    assert prefetches(adjacent, LIST, LIST) == 0


@pytest.mark.parametrize("width", [1, 63, 64, 200, 1030])
def test_sums_of_rows(width):
    a = np.random.default_rng(width).integers(-9, 9, (7, width)).astype(np.float32)
    found = np.empty((7, 64), np.float32)
    for kernel, args, times in ((rows, (a,), 2), (flat_rows, (a.ravel(), width), 1)):
        kernel[7, 64](*args, found.ravel())
        want = [[times * a[r, t::64].sum() for t in range(64)] for r in range(7)]
        np.testing.assert_array_equal(found, want)
