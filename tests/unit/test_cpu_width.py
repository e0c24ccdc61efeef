"""How many lanes a gang has at known workgroup sizes, and what the code then does without."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import magpie as mp
from magpie.backends.cpu.pipeline import prepared
from magpie.backends.cpu.width import choose_width, short_rows
from magpie.frontend.signature import ArrayArg
from magpie.passes.narrow_index import ranges
from magpie.runtime.compiling import with_facts
from magpie.runtime.specialise import Variant

AVX2 = SimpleNamespace(vector_bits=256, has_avx512=False)


@mp.kernel
def diverging(x: mp.Array[mp.f32, 1]):
    # work-items leave the loop on their own: a gang under a mask costs twice a full one
    i = mp.global_id(0)
    v = x[i]
    while v > 1.0:
        v = v * 0.5
    x[i] = v


@mp.kernel
def down_columns(x: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 1]):
    # all lanes run alike, and long runs of memory pay
    j = mp.global_id(0)
    total = mp.f32(0)
    for i in range(x.shape[0]):
        total += x[i, j]
    out[j] = total


@mp.kernel
def tree(x: mp.Array[mp.f32, 1], out: mp.Array[mp.f32, 1]):
    # the only loop is the workgroup's: nothing lives in it
    s = mp.shared(1024, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    half = mp.workgroup_size(0) // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        mp.barrier()
        half //= 2
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


@mp.kernel
def transpose(x: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    s = mp.shared((16, 16), mp.f32)
    i, j = mp.thread_id(1), mp.thread_id(0)
    s[i, j] = x[mp.global_id(1), mp.global_id(0)]
    mp.barrier()
    out[mp.workgroup_id(0) * 16 + i, mp.workgroup_id(1) * 16 + j] = s[j, i]


def ready(kernel, workgroup, *ranks):
    args = tuple(ArrayArg(mp.f32, rank) for rank in ranks)
    lowered = kernel._specialiser().lower(args).kernel
    return prepared(with_facts(lowered, Variant(True, False, workgroup)))


def width(kernel, workgroup, *ranks):
    """Lanes of a gang on AVX2."""
    found = ready(kernel, workgroup, *ranks)
    return choose_width(found, AVX2, ranges(found))


@pytest.mark.parametrize(
    ("row", "lanes"),
    [
        (1, 8),
        (4, 4),
        (6, 8),
        (8, 8),
        (24, 8),
        (32, 32),
        (33, 16),
        (48, 16),
        (64, 64),
        (100, 16),
        (1000, 16),
        (1024, 64),
    ],
)
def test_a_row_is_covered_with_few_masked_lanes(row, lanes):
    assert width(diverging, None, 1) == 64
    assert width(diverging, (row, 1, 1), 1) == lanes


@pytest.mark.parametrize(("row", "lanes"), [(16, 16), (24, 16), (33, 32), (64, 64), (100, 64), (256, 64), (1000, 64)])
def test_loops_that_end_together_stay_wide(row, lanes):
    assert width(down_columns, (row, 1, 1), 2, 1) == lanes


def test_a_loop_around_a_barrier_does_not_count():
    assert width(tree, (256, 1, 1), 1, 1) == width(tree, None, 1, 1) == 16


@pytest.mark.parametrize(("size", "lanes"), [((16, 16, 1), 16), ((8, 8, 4), 8), ((32, 8, 1), 16), ((4, 64, 1), 4)])
def test_a_gang_stays_in_its_row(size, lanes):
    assert width(transpose, size, 2, 2) == lanes


@pytest.mark.parametrize(
    ("size", "short", "lanes"),
    [
        ((1, 64, 1), True, 16),
        ((2, 2, 2), True, 8),
        ((2, 32, 1), True, 16),
        ((4, 16, 1), False, 4),
        ((2, 1, 1), False, 8),
    ],
)
def test_gangs_run_on_across_rows_that_are_too_short(size, short, lanes):
    assert short_rows(ready(transpose, size, 2, 2), AVX2) is short
    assert width(transpose, size, 2, 2) == lanes


def test_whole_rows_have_no_masks():
    known = transpose.compile(mp.Array[mp.f32, 2], mp.Array[mp.f32, 2], workgroup=(16, 16), gang=16).text
    assert "masked" not in known
    assert "masked" in transpose.compile(mp.Array[mp.f32, 2], mp.Array[mp.f32, 2], gang=16).text
    ragged = transpose.compile(mp.Array[mp.f32, 2], mp.Array[mp.f32, 2], workgroup=(15, 16), gang=16).text
    assert "masked" in ragged


@mp.kernel
def scattered(x: mp.Array[mp.f32], index: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[mp.i32(index[i])] = x[i]


@mp.kernel
def gathered(x: mp.Array[mp.f32], index: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0)
    out[i] = x[mp.i32(index[i])]


def test_a_scatter_takes_one_vector_where_every_lane_stores_by_itself():
    assert width(scattered, (256, 1, 1), 1, 1, 1) == 8
    assert width(gathered, (256, 1, 1), 1, 1, 1) == 16
