"""Device memory: what the sanitizer finds, what PTX is made, what the frontend refuses. The values: conformance/test_heap."""

from __future__ import annotations

import re
from types import FunctionType

import numpy as np
import pytest
from frontend_helpers import error_of

import magpie as mp
from magpie.backends.interp.heap import Heap

NEEDS = ("device_malloc",)


def reports(kernel: FunctionType, *args, grid=1, block=4, **options):
    found = mp.kernel(requires=NEEDS)(kernel).sanitize(grid=grid, block=block, args=args, **options)
    first = kernel.__code__.co_firstlineno
    return [(r.kind, r.code, r.line - first, r.count) for r in found], found


def test_bounds_are_those_of_the_allocation():
    def k(y):
        i = mp.global_id(0)
        p = mp.malloc(4, mp.i32)
        q = mp.malloc(4, mp.i32)
        q[0] = 7
        p[i] = i
        p[i + 2] = 5
        y[i] = p[i - 1]
        mp.free(q)
        mp.free(p)

    y = np.zeros(4, np.int32)
    rows, found = reports(k, y)
    # Elements 4 and 5 are outside, for work-items 2 and 3; element -1 for work-item 0. Element i - 1 is nobody's before
    # element i for i = 1 and 2 only where i - 1 was not written: work-item 3 wrote 3 only, and 2 wrote 2 only.
    assert ("bounds", "MPG_SAN_1004", 6, 2) in rows and ("bounds", "MPG_SAN_1003", 7, 1) in rows
    assert found[0].address == ("malloc", (4,)) and found[0].work_items == (((0, 0, 0), (2, 0, 0)),)
    assert y[0] == 0, "a faulting load gives 0"


def test_reads_before_writes_are_found():
    def k(y):
        i = mp.global_id(0)
        p = mp.malloc(2, mp.f32)
        p[0] = 1.0
        y[i] = p[0] + p[1]
        mp.free(p)

    rows, _ = reports(k, np.zeros(4, np.float32))
    assert rows == [("uninit", "MPG_SAN_1005", 4, 4)]


def test_reused_memory_counts_as_new():
    def k(y):
        i = mp.global_id(0)
        for trip in range(3):
            p = mp.malloc(1, mp.i32)
            if trip < 2:
                p[0] = 1
            y[i] = p[0]
            mp.free(p)

    rows, _ = reports(k, np.zeros(4, np.int32))
    assert rows == [("uninit", "MPG_SAN_1005", 6, 4)]


def test_use_after_free_and_double_free():
    def k(y):
        i = mp.global_id(0)
        p = mp.malloc(2, mp.i32)
        p[0] = 3
        mp.free(p)
        if i < 3:
            y[i] = p[0]
        if i < 2:
            p[1] = 4
        if i < 1:
            mp.free(p)

    rows, found = reports(k, np.zeros(4, np.int32))
    assert rows == [("bounds", "MPG_SAN_1015", n, c) for n, c in ((6, 3), (8, 2), (10, 1))]
    assert "freed" in found[0].message and "not there any more" in found[2].message


def test_null_is_no_memory_and_may_be_freed():
    def k(y, n: mp.i32):
        i = mp.global_id(0)
        p = mp.malloc(n, mp.i32)
        y[i] = p[0]
        mp.free(p)

    rows, found = reports(k, np.ones(4, np.int32), 0)
    assert rows == [("bounds", "MPG_SAN_1003", 3, 4)] and "null pointer" in found[0].message


def test_leaks_are_counted_by_the_line_that_allocates():
    def k(y):
        i = mp.global_id(0)
        p = mp.malloc(5, mp.f64)
        q = mp.malloc(2, mp.i8)
        y[i] = 1 if p else 0
        if i % 2 == 0:
            mp.free(p)
        mp.free(q)

    rows, found = reports(k, np.zeros(8, np.int32), grid=2)
    assert rows == [("leak", "MPG_SAN_1016", 2, 4)]
    assert found[0].message.startswith("40 bytes from malloc by thread (1, 0, 0) of workgroup (0, 0, 0)")
    rows, _ = reports(k, np.zeros(8, np.int32), grid=2, checks=("bounds",))
    assert rows == []


def test_a_full_heap_gives_null_and_is_whole_again_after_free():
    heap = Heap(type("L", (), {"sanitizer": None, "checks": None})())
    owners = np.zeros((300, 2), np.int64)
    first = heap.allocate(None, np.full(300, 1 << 20), 1, owners)
    given = first[first != 0]
    assert len(given) == 255, "256 MB less the first 16 bytes"
    assert heap.allocate(None, np.array([1 << 20]), 1, owners[:1]).tolist() == [0]
    assert heap.release(given[:2]).all() and not heap.release(given[:2]).any()
    assert np.count_nonzero(heap.allocate(None, np.full(3, 1 << 20), 1, owners[:3])) == 2


@pytest.mark.parametrize("gang", [4, 32])
def test_the_cpu_keeps_pointers_across_barriers(gang):
    @mp.kernel(requires=NEEDS)
    def k(y, n: mp.i32):
        i = mp.global_id(0)
        part = mp.shared(64, mp.i64)
        p = mp.malloc(n, mp.i64)
        q = mp.malloc(1, mp.bool_)
        for j in range(n):
            p[j] = i * j
        q[0] = i % 3 == 0
        part[mp.thread_id(0)] = p[n - 1]
        mp.barrier()
        other = part[63 - mp.thread_id(0)]
        y[i] = other + p[n // 2] if q[0] else -1
        mp.free(q)
        mp.free(p)

    y = np.zeros(128, np.int64)
    k.launch(grid=2, block=64, args=(y, 9), backend="cpu", gang=gang)
    i = np.arange(128)
    partner = i // 64 * 64 + 63 - i % 64
    assert np.array_equal(y, np.where(i % 3 == 0, partner * 8 + i * 4, -1))


def test_checked_mode_of_the_cpu_judges_accesses_by_what_was_asked_for():
    @mp.kernel(requires=NEEDS)
    def k(y, n: mp.i32, at: mp.i32):
        i = mp.global_id(0)
        p = mp.malloc(n, mp.i32)
        p[at] = i
        y[i] = p[at]

    y = np.full(4, 7, np.int32)
    k.launch(grid=1, block=4, args=(y, 3, 2), backend="cpu", checked=True)
    assert y.tolist() == [0, 1, 2, 3]
    for n, at in ((3, 3), (3, -1), (0, 0)):
        with pytest.raises(mp.GpuError, match="MPG_SAN_1003.*malloc") as caught:
            k.launch(grid=1, block=4, args=(y, n, at), backend="cpu", checked=True)
        assert "8 faults in this launch" in str(caught.value) and y.tolist() == [0, 0, 0, 0]  # four stores, four loads: skipped


def test_ptx_calls_the_device():
    @mp.kernel(requires=NEEDS)
    def k(y: mp.Array[mp.i32, 1], n: mp.i32):
        p = mp.malloc(n, mp.i32)
        p[n - 1] = 5
        y[0] = p[0]
        mp.free(p)

    text = k.compile(backend="ptx").text
    assert re.search(r"\.extern \.func +\(\.param \.b64 func_retval0\) malloc", text) and ".extern .func free" in text
    assert "malloc" not in [s.get("array") for s in k.compile(backend="ptx").info["sites"]]
    assert [s["array"] for s in k.compile(backend="ptx", checked=True).info["sites"]] == ["malloc", "malloc", "y"]


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("p = mp.malloc(n, P)", "MPG_PY_1020", "the element type of mp.malloc is a dtype, not the struct P"),
        ("p = mp.malloc(1.5, mp.f32)", "MPG_PY_1007", "the number of elements is an integer"),
        ("mp.free(x)", "MPG_PY_1012", "mp.free takes a result of mp.malloc, not the array x"),
        ("p = mp.malloc(n, mp.f32)\n    x[0] = p + 1.0", "MPG_PY_1018", "not a pointer"),
        (
            "p = mp.malloc(n, mp.f32)\n    if n > 3:\n        p = mp.malloc(4, mp.f32)\n    x[0] = p[0]",
            "MPG_PY_1019",
            "cannot be kept in a variable that is assigned several times",
        ),
    ],
)
def test_what_pointers_cannot_do(body, code, text):
    error = error_of(f"def k(x, n):\n    {body}\n")
    assert error.diagnostics[0].code == code and text in error.diagnostics[0].message


# --- barriers of the launch ----------------------------------------------------------------------------------------------
def _grid_kernel(condition):
    source = f"""
    def k(x, n, i32s):
        if {condition}:
            mp.grid_sync()
        x[mp.global_id(0)] = 1.0
        i32s[0] = 1
    """
    return source


@pytest.mark.parametrize(
    ("condition", "code", "text"),
    [
        ("n > 3", None, ""),
        ("mp.num_workgroups(0) > 1", None, ""),
        ("mp.workgroup_id(0) > 0", "MPG_CORE_1400", "taken by some workgroups only, and a grid_sync depends on it"),
        ("mp.uniform(x[0] > 0.0)", "MPG_CORE_1400", "taken by some workgroups only, and a grid_sync depends on it"),
        ("mp.global_id(0) > 0", "MPG_CORE_1400", "taken by some work-items only, and a grid_sync depends on it"),
        ("i32s[0] > 0", "MPG_CORE_1401", "uniform only if nobody writes what it reads"),
    ],
)
def test_grid_sync_needs_the_whole_launch(condition, code, text):
    from frontend_helpers import lowered

    from magpie.passes.uniformity import check_barriers

    kernel = lowered(_grid_kernel(condition), requires=frozenset({"cooperative_groups"})).kernel
    found = check_barriers(kernel)
    assert [d.code for d in found] == ([] if code is None else [code])
    if code is not None:
        assert text in found[0].message and found[0].loc.line == 2
