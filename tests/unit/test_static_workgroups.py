"""Code for one workgroup size: which launches get it, and what must not follow from it."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import magpie as mp

SIZES = (1, 2, 3, 33, 64, (16, 16), (8, 8, 4), 1000, 7, 256, (4, 2))


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


def full(size):
    """A workgroup size with all three extents."""
    return (*size, 1, 1)[:3] if isinstance(size, tuple) else (size, 1, 1)


def fill_kernel():
    """A kernel object of its own: sizes are counted for each."""

    @mp.kernel
    def fill(out):
        size = mp.workgroup_size(0) * mp.workgroup_size(1) * mp.workgroup_size(2)
        plane = mp.thread_id(1) + mp.workgroup_size(1) * mp.thread_id(2)
        local = mp.thread_id(0) + mp.workgroup_size(0) * plane
        out[mp.workgroup_id(0) * size + local] = size * 10000 + local

    return fill


def filled(size, groups=2):
    n = int(np.prod(full(size)))
    return np.tile(n * 10000 + np.arange(n), groups)


def launched(kernel, size, dtype=np.int64):
    out = np.zeros(2 * int(np.prod(full(size))), dtype)
    kernel[2, size](out)
    assert np.array_equal(out, filled(size).astype(dtype))


def sizes_of(kernel):
    return [v.workgroup for v in kernel.variants()]


def test_the_first_eight_sizes_have_code_of_their_own():
    kernel = fill_kernel()
    for size in SIZES:
        launched(kernel, size)
    assert sizes_of(kernel) == [*(full(s) for s in SIZES[:8]), None]
    for size in reversed(SIZES):  # the first eight keep their code, whatever else is launched
        launched(kernel, size)
    kernel[7, SIZES[0]](np.zeros(7 * SIZES[0], np.int64))
    assert len(kernel.variants()) == 9
    launched(kernel, SIZES[-1], np.float64)  # another signature counts anew
    assert sizes_of(kernel)[9:] == [full(SIZES[-1])]


def test_how_many_is_a_knob(monkeypatch):
    monkeypatch.setenv("MAGPIE_STATIC_WORKGROUPS", "0")
    kernel = fill_kernel()
    launched(kernel, 5)
    assert sizes_of(kernel) == [None]
    monkeypatch.setenv("MAGPIE_STATIC_WORKGROUPS", "2")
    for size in (6, 7, 8, 6):
        launched(kernel, size)
    assert sizes_of(kernel) == [None, (6, 1, 1), (7, 1, 1)]


def test_threads_that_come_with_new_sizes():
    kernel = fill_kernel()
    start = threading.Barrier(12)
    errors = []

    def work(size):
        try:
            start.wait()
            for _ in range(3):
                launched(kernel, size)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 13)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    found = sizes_of(kernel)
    assert len(found) == len(set(found)) == 9
    assert None in found


def test_only_backends_that_gain_from_it_are_asked():
    kernel = fill_kernel()
    for size in (4, 5):
        out = np.zeros(2 * size, np.int64)
        kernel.launch(grid=2, block=size, args=(out,), backend="interp")
        assert np.array_equal(out, filled(size))
    assert sizes_of(kernel) == [None]
    assert mp.device("cpu").static_workgroup
    assert not mp.device("interp").static_workgroup


def test_the_general_variant_takes_any_size():
    kernel = fill_kernel()
    for size in (4, 5):
        out = np.zeros(4 * size, np.int64)
        kernel[2, size](out[::2])
        assert np.array_equal(out[::2], filled(size))
    assert [(v.facts, v.workgroup) for v in kernel.variants()] == [("general", None)]


def test_declared_sizes_are_not_counted():
    @mp.kernel(workgroup=(4, 2))
    def fixed(out):
        out[mp.global_id(0) + 4 * mp.thread_id(1)] = mp.workgroup_size(0)

    out = np.zeros(8, np.int32)
    fixed[1, None](out)
    assert out.tolist() == [4] * 8
    assert sizes_of(fixed) == [(4, 2, 1)]


def test_a_size_does_not_decide_what_is_accepted():
    # Of 64 work-items, `global_id(0) // 64` is the workgroup's number. The code may use that; the check must not, or the
    # kernel would be right in one launch and wrong in the next.
    def body(x):
        s = mp.shared(64, mp.f32)
        t = mp.thread_id(0)
        s[t] = x[mp.global_id(0)]
        if mp.global_id(0) // 64 == 0:
            mp.barrier()
            x[mp.global_id(0)] = s[63 - t]

    x = np.arange(128, dtype=np.float32)
    for size in (64, 32):
        with pytest.raises(mp.CompileError, match="MPG_CORE_1400"):
            mp.kernel(body)[128 // size, size](x)
    assert np.array_equal(x, np.arange(128))
    mp.kernel(workgroup=64)(body)[2, None](x)
    assert np.array_equal(x, [*range(63, -1, -1), *range(64, 128)])


def test_quotients_by_the_launched_size():
    @mp.kernel
    def quotients(out: mp.Array[mp.i64, 2]):
        i = mp.global_id(0)
        out[i, 0] = i // 32
        out[i, 1] = i % 32
        out[i, 2] = i >> 5
        out[i, 3] = i & 31

    i = np.arange(96)
    for size in (32, 16, 48):
        out = np.zeros((96, 4), np.int64)
        quotients[96 // size, size](out)
        assert np.array_equal(out, np.stack([i // 32, i % 32, i >> 5, i & 31], 1))


def test_warnings_are_for_the_kernel():
    @mp.kernel
    def doubtful(x: mp.Array[mp.i32]):
        if x[0] == 0:
            mp.barrier()
        x[mp.global_id(0) + 1] = 1

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for size in (1, 2, 4):
            x = np.zeros(9, np.int32)
            doubtful[1, size](x)
            assert x.tolist() == [0] + [1] * size + [0] * (8 - size)
    assert ["MPG_CORE_1401" in str(w.message) for w in seen] == [True]
    assert len(doubtful.variants()) == 3


def test_a_subgroup_is_as_large_in_every_launch():
    @mp.kernel
    def sizes(out):
        t = mp.thread_id(0) + mp.workgroup_size(0) * mp.thread_id(1)
        acc = 0.0
        for k in range(mp.workgroup_size(0)):
            acc += k
        out[t] = mp.subgroup.size() + mp.subgroup.sum(acc) * 0.0

    found = set()
    for size in (1, 4, 7, 16, 33, 64, 256, (8, 8), (1, 64), 5):
        out = np.zeros(int(np.prod(full(size))), np.float32)
        sizes[1, size](out)
        found |= set(out.tolist())
    strided = np.zeros(128, np.float32)
    sizes[1, 64](strided[::2])
    found |= set(strided[::2].tolist())
    assert len(sizes.variants()) == 10
    assert len(found) == 1


def test_dynamic_shared_memory_is_still_asked_for():
    @mp.kernel
    def swap(x: mp.Array[mp.f32]):
        s = mp.shared((mp.workgroup_size(1), mp.workgroup_size(0)), mp.f32)
        s[mp.thread_id(1), mp.thread_id(0)] = x[mp.thread_id(1) * mp.workgroup_size(0) + mp.thread_id(0)]
        mp.barrier()
        x[mp.thread_id(1) * mp.workgroup_size(0) + mp.thread_id(0)] = s[
            mp.workgroup_size(1) - 1 - mp.thread_id(1), mp.workgroup_size(0) - 1 - mp.thread_id(0)
        ]

    for size in ((4, 2), (16, 3), (5, 5)):
        n = size[0] * size[1]
        x = np.arange(n, dtype=np.float32)
        with pytest.raises(mp.LaunchValueError, match=f"needs {4 * n} bytes"):
            swap[1, size, None, 4 * n - 1](x)
        assert np.array_equal(x, np.arange(n))
        swap[1, size, None, 4 * n](x)
        assert np.array_equal(x, np.arange(n)[::-1])
    assert len(swap.variants()) == 3


def test_both_keys_on_disk_hold_the_size(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(tmp_path))
    first = fill_kernel()
    launched(first, 8)
    launched(first, (4, 2))
    assert [v.from_cache for v in first.variants()] == [False, False]
    again = fill_kernel()
    for size in ((4, 2), 8, 16):
        launched(again, size)
    assert [v.from_cache for v in again.variants()] == [True, True, False]
    assert sizes_of(again) == [(4, 2, 1), (8, 1, 1), (16, 1, 1)]


def test_compile_and_inspect_take_a_size():
    @mp.kernel
    def scale(x: mp.Array[mp.f32, 1]):
        x[mp.global_id(0)] *= 2.0

    for text in (scale.compile(workgroup=48).text, scale.inspect("llvm", workgroup=(48,))):
        assert "mul i64 %" in text
        assert ", 48" in text
    assert "workgroup(48, 1, 1)" in scale.inspect("kir", workgroup=48)
    assert scale.compile().text == scale.compile(workgroup=None).text != scale.compile(workgroup=48).text
    with pytest.raises(mp.LaunchValueError, match="any workgroup size"):
        scale.compile(workgroup=48, variant="general")
    with pytest.raises(mp.LaunchValueError, match="at least 1"):
        scale.inspect("llvm", workgroup=0)
    fixed = mp.kernel(workgroup=32)(scale.fn)
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1013"):
        fixed.compile(workgroup=48)
    assert fixed.compile(workgroup=32).blob == fixed.compile().blob


def test_inspect_shows_what_was_launched():
    @mp.kernel
    def open_scale(x):
        x[mp.global_id(0)] *= 2

    open_scale[1, 24](np.ones(24, np.float32))
    assert "workgroup(24, 1, 1)" in open_scale.inspect("kir")
    (variant,) = open_scale.variants()
    assert "fast 24 on cpu:0" in str(variant)
