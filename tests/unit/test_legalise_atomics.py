"""Lowered atomics leave what those that they replace leave, in memory and in what they give."""

from __future__ import annotations

import numpy as np
import pytest
from kir import Build, kernel

from magpie.backends.interp.engine import Program
from magpie.dtypes import ALL_DTYPES, bf16, bool_, f16, f32, f64, i8, i32, index, u8, u16, u32, u64
from magpie.ir.nodes import Buffer, SharedArray, walk
from magpie.ir.ops import RMW_KINDS
from magpie.ir.verify import verify
from magpie.passes.legalise.atomics import lower_atomics

TYPES = [t for t in ALL_DTYPES if t is not index]
N = 48


def least(t, kind):
    """What every device with integers has."""
    return t in (i32, u32) or (t.is_int and t.bits == 64) or (kind in ("cas", "load", "store") and not t.is_float)


def adds(t, kind):
    """A device with f32 addition, too."""
    return least(t, kind) or (t is f32 and kind in ("add", "load", "store", "exchange"))


def made(t, kind, shared):
    """Every work-item does one atomic on one of three elements, which others then read, and keeps what it got."""
    x, place, out, left = (Buffer(n, u, 1, "read_write") for n, u in (("x", t), ("p", i32), ("o", t), ("l", t)))
    array = SharedArray("s", t, (3,)) if shared else left

    def body(b: Build) -> None:
        i = b.gid()
        at, value = b.load(place, i), b.load(x, i)
        if shared:
            b.when(b.emit("lt", i, b.i(3)), lambda: b.store(array, (i,), b.load(left, i)))
            b.emit("barrier")
        if kind == "cas":
            got = b.emit("atomic_cas", at, b.load(array, at), value, array=array, scope="device")
        elif kind == "load":
            got = b.emit("atomic_load", at, array=array, order="acquire", scope="workgroup")
        elif kind == "store":
            b.when(
                b.emit("lt", i, b.i(3)),
                lambda: b.emit("atomic_store", i, value, array=array, order="release", scope="device"),
            )
            got = value
        else:
            got = b.emit("atomic_rmw", at, value, array=array, kind=kind, scope="device")
        b.store(out, (i,), got)
        b.emit("barrier")
        b.when(b.emit("lt", i, b.i(3)), lambda: b.store(left, (i,), b.load(array, i)))

    return kernel([x, place, out, left], body, shared=[array] if shared else [], workgroup=(N, 1, 1))


def cases():
    for t in TYPES:
        kinds = ("and", "or", "xor", "exchange") if t.is_bool else RMW_KINDS
        for kind in (*kinds, "cas", "load", "store"):
            if not (t.is_float and kind in ("and", "or", "xor")):
                yield t, kind


@pytest.mark.parametrize("shared", [False, True], ids=["buffer", "shared"])
@pytest.mark.parametrize(("t", "kind"), list(cases()), ids=str)
def test_atomics(t, kind, shared):
    rng = np.random.default_rng(5)
    if t.is_bool:
        x, start = rng.integers(0, 2, N).astype(bool), np.array([True, False, True])
    elif t.is_int:
        x, start = (rng.integers(t.min, t.max, k, dtype=t.numpy, endpoint=True) for k in (N, 3))
    else:
        x, start = (rng.standard_normal(k).astype(np.float32).astype(t.numpy) for k in (N, 3))
        x[5], x[9] = np.nan, -0.0
    place = rng.integers(0, 3, N).astype(np.int32)
    before = made(t, kind, shared)
    verify(before)
    for native in (least, adds):
        after = lower_atomics(before, native)
        verify(after)
        results = []
        for k in (before, after):
            arrays = [x, place, np.zeros(N, t.numpy), start.copy()]
            views = [a.view(p.type.numpy) for a, p in zip(arrays, k.params, strict=True)]
            Program(k).run((1,), (N,), views)
            results.append(arrays[2:])
        for a, b in zip(*results, strict=True):
            same = a.view(f"u{a.itemsize}") == b.view(f"u{a.itemsize}")
            if t.is_float:
                same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
            assert same.all(), (a[~same][:4], b[~same][:4])
        for node in walk(after.body):
            if node.op.startswith("atomic_"):
                element = node.attrs["array"].type
                name = node.attrs.get("kind", node.op.removeprefix("atomic_"))
                assert native(element, name), (node, element)
                assert node.attrs["array"].space == "buffer" or element.itemsize >= 4


def test_what_is_native_stays():
    for t, kind in ((i32, "max"), (u64, "xor"), (f32, "add")):
        before = made(t, kind, True)
        assert lower_atomics(before, adds).shared == before.shared
        assert sum(n.op == "loop" for n in walk(lower_atomics(before, adds).body)) == 0
    sub = lower_atomics(made(f32, "sub", False), adds)
    assert [n.attrs["kind"] for n in walk(sub.body) if n.op == "atomic_rmw"] == ["add"]


def test_arrays_without_atomics_keep_their_types():
    before = made(f16, "add", True)
    after = lower_atomics(before, least)
    assert [p.type for p in after.params] == [f16, i32, f16, f16] and [s.type for s in after.shared] == [u32]
    assert [s.type for s in lower_atomics(made(i8, "add", True), least).shared] == [i32]
    for t, held in ((bool_, u32), (u8, u32)):
        assert [s.type for s in lower_atomics(made(t, "or", True), least).shared] == [held]
    for t, held in ((bf16, u16), (f64, u64), (f32, u32), (u8, u8)):
        assert [p.type for p in lower_atomics(made(t, "max", False), least).params] == [t, i32, t, held]
