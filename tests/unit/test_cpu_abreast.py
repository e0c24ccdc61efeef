"""Adjacent workgroups that go row by row: when they do, in which order work-items then run, and the values."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

F = np.float32


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


# --- when ------------------------------------------------------------------------------------------------------------


@mp.func
def clipped(v):
    if v < 0.0:
        return mp.f32(0)
    return v


@mp.kernel
def k_plane(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = clipped(a[i, j])


@mp.kernel
def k_line(a: mp.Array[mp.f32], out: mp.Array[mp.f32]):
    i = mp.global_id(0) + mp.global_id(1) * 64
    out[i] = a[i]


@mp.kernel
def k_loop(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    s = mp.f32(0)
    for k in range(a.shape[1]):
        s += a[i, k]
    out[i, j] = s


@mp.kernel
def k_counts(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2], n: mp.Array[mp.i32]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[i, j] = a[i, j]
    mp.atomic_add(n, 0, 1)


@mp.kernel
def k_fence(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[i, j] = a[i, j]
    mp.fence()


@mp.kernel
def k_shared(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    tile = mp.shared((16, 16), mp.f32)
    i, j = mp.global_id(1), mp.global_id(0)
    tile[mp.thread_id(1), mp.thread_id(0)] = a[i, j]
    mp.barrier()
    out[i, j] = tile[mp.thread_id(1), mp.thread_id(0)]


@mp.kernel
def k_gather(at: mp.Array[mp.i32], a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[i, j] = a[i, at[j]]


@mp.kernel
def k_turned_store(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[j, i] = a[i, j]


@mp.kernel
def k_turned_load(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[i, j] = a[j, i]


@mp.kernel
def k_turned_line(a: mp.Array[mp.f32], out: mp.Array[mp.f32, 2]):
    i, j = mp.global_id(1), mp.global_id(0)
    out[i, j] = a[j * out.shape[0] + i]


@pytest.mark.parametrize(
    ("kernel", "workgroup", "abreast"),
    [
        (k_plane, (16, 16), True),
        (k_plane, (32, 8), True),
        (k_plane, (16, 2, 4), True),
        (k_plane, (64, 4), True),
        (k_plane, (256, 1), False),
        (k_plane, None, False),
        (k_gather, (64, 4), True),
        (k_turned_store, (16, 16), False),
        (k_turned_load, (16, 16), False),
        (k_turned_line, (16, 16), False),
        (k_line, (16, 16), False),
        (k_loop, (16, 16), False),
        (k_counts, (16, 16), False),
        (k_fence, (16, 16), False),
        (k_shared, (16, 16), False),
    ],
    ids=lambda v: v.__name__ if isinstance(v, mp.Kernel) else str(v),
)
def test_kernels_that_may(kernel, workgroup, abreast):
    assert kernel.compile(backend="cpu", workgroup=workgroup).info["abreast"] == abreast


def make_order():
    @mp.kernel
    def order(count: mp.Array[mp.i32], at: mp.Array[mp.i32, 2]):
        i, j = mp.global_id(1), mp.global_id(0)
        n = count[0]  # gangs of one thread in turn: what they see is the order in which they run
        count[0] = n + 1
        at[i, j] = n

    return order


def numbers(shape, block, gang, abreast):
    """The number of the gang that each work-item belongs to, in order of execution."""
    i, j = np.indices(shape)
    x, y = block
    wide, gangs = shape[1] // x, x // gang
    band, row, group, g = i // y, i % y, j // x, j % x // gang
    if abreast:
        return ((band * y + row) * wide + group) * gangs + g
    return ((band * wide + group) * y + row) * gangs + g


@pytest.mark.parametrize(
    ("block", "columns", "limit", "abreast"),
    [
        ((16, 16), 64, "1G", True),
        ((16, 16), 64, "1", True),  # so many rows always
        ((16, 8), 64, "1G", True),  # small
        ((16, 8), 96, "1", False),  # large, and rows 384 bytes apart
        ((16, 8), 512, "1", True),  # large, and rows 2 KiB apart
        ((64, 4), 512, "1G", True),  # few rows, but small
        ((32, 2), 96, "1G", True),
        ((64, 4), 512, "1", False),  # few rows and large
    ],
)
def test_the_order_of_rows(monkeypatch, block, columns, limit, abreast):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "1")
    monkeypatch.setenv("MAGPIE_CPU_STREAM", limit)
    count, at = np.zeros(1, np.int32), np.full((32, columns), -1, np.int32)
    grid = (columns // block[0], 32 // block[1])
    make_order().launch(grid=grid, block=block, args=(count, at), gang=16)
    assert np.array_equal(at, numbers(at.shape, block, 16, abreast))


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
def test_a_stencil(monkeypatch, gang, threads):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)

    @mp.kernel
    def stencil(a: mp.Array[mp.f32, 2], out: mp.Array[mp.f32, 2]):
        i, j = mp.global_id(1), mp.global_id(0)
        if i == 0 or j == 0 or i >= a.shape[0] - 1 or j >= a.shape[1] - 1:
            return
        out[i, j] = a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]

    for shape in ((3, 3), (17, 512), (64, 1000), (129, 77)):
        a = np.random.default_rng(1).random(shape, dtype=F)
        expected = np.full(shape, 7, F)
        expected[1:-1, 1:-1] = a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        for block in ((16, 16), (8, 32), (33, 8), (3, 9), (64, 4), (17, 2)):
            out = np.full(shape, 7, F)
            grid = tuple(-(-n // b) for n, b in zip(shape[::-1], block, strict=True))
            stencil.launch(grid=grid, block=block, args=(a, out), gang=gang)
            assert np.array_equal(out, expected), (shape, block)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_every_work_item_of_three_dimensions_runs_once(monkeypatch, threads):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)

    @mp.kernel
    def ids(seen: mp.Array[mp.i32, 3], groups: mp.Array[mp.i32, 3]):
        i, j, k = mp.global_id(2), mp.global_id(1), mp.global_id(0)
        if i < seen.shape[0] and j < seen.shape[1] and k < seen.shape[2]:
            seen[i, j, k] += 1
            groups[i, j, k] = mp.workgroup_id(0) + 100 * (mp.workgroup_id(1) + 100 * mp.workgroup_id(2))

    shape = (9, 21, 300)
    for block in ((8, 4, 4), (4, 16, 1), (16, 1, 16), (5, 3, 3), (32, 2, 1), (20, 1, 2)):
        seen, groups = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        ids[tuple(-(-n // b) for n, b in zip(shape[::-1], block, strict=True)), block](seen, groups)
        assert (seen == 1).all()
        i, j, k = np.indices(shape)
        assert np.array_equal(groups, k // block[0] + 100 * (j // block[1] + 100 * (i // block[2])))
