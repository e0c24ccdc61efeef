"""Lowered subgroup operations give the bits of those that they replace, at every subgroup size and under every mask."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from kir import Build, arrays, kernel

import magpie as mp
from magpie.backends.interp.engine import Program
from magpie.dtypes import ALL_DTYPES, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, index, u8, u16, u32, u64
from magpie.frontend.python import lower
from magpie.frontend.signature import ArrayArg
from magpie.ir.nodes import Buffer, walk
from magpie.ir.ops import REDUCTIONS
from magpie.ir.verify import verify
from magpie.passes.legalise.subgroups import lower_subgroups
from magpie.passes.varying_subgroups import check_varying

SIZES = (4, 8, 32, 64)
SHUFFLES = ("subgroup_shuffle", "subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down")
EVERY = {"every type": lambda t: True, "32 bits": lambda t: t.is_bool or t.bits == 32}


def values(t, n):
    """Numbers of all sizes, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(n)
    if t.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    if t.is_int:
        return rng.integers(t.min, t.max, n, dtype=t.numpy, endpoint=True)
    x = rng.standard_normal(n).astype(np.float32)
    x[::7], x[3::11], x[5::13], x[6::17] = 0.0, -0.0, np.inf, np.nan
    return x.astype(t.numpy)


def both(made, n, block, size, lanes, has, inputs, outputs):
    """Run a kernel and its lowered form; every output must have the same bits, NaN being one value."""
    verify(made)
    lowered = lower_subgroups(made, lanes, has)
    verify(lowered)
    results = []
    for k in (made, lowered):
        out = [a.copy() for a in outputs]
        Program(k).run((-(-n // block),), (block,), [*inputs, *out], subgroup_size=size)
        results.append(out)
    for number, (a, b) in enumerate(zip(*results, strict=True)):
        same = a.view(f"u{a.itemsize}") == b.view(f"u{a.itemsize}")
        if a.dtype.kind in "fV":
            same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
        assert same.all(), (number, np.flatnonzero(~same)[:8], a[~same][:8], b[~same][:8])
    return lowered


MASKS = {
    "all": lambda b, t: b.emit("lt", t, b.i(1 << 20)),
    "some": lambda b, t: b.emit("ne", b.emit("mod", t, b.i(3)), b.i(1)),
    "few": lambda b, t: b.emit("eq", b.emit("mod", t, b.i(7)), b.i(2)),
}


def reductions(t, mask):
    """A kernel with every reduction and scan of a type under a mask, and how many results it has."""
    kinds = [k for k in REDUCTIONS if (k in ("and", "or", "xor")) != t.is_float] if not t.is_int else REDUCTIONS
    if t.is_bool:
        kinds = ["and", "or", "xor"]
    x = Buffer("x", t, 1, "read")
    outs = [Buffer(f"o{k}", t, 1, "write") for k in range(3 * len(kinds))]

    def body(b: Build) -> None:
        i = b.gid()

        def act() -> None:
            v = b.load(x, i)
            for k, kind in enumerate(kinds):
                b.store(outs[3 * k], (i,), b.emit("subgroup_reduce", v, kind=kind))
                for more in (False, True):
                    found = b.emit("subgroup_scan", v, kind=kind, exclusive=more)
                    b.store(outs[3 * k + 1 + more], (i,), found)

        b.when(MASKS[mask](b, b.tid()), act)

    return kernel([x, *outs], body), len(outs)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("t", [t for t in ALL_DTYPES if t is not index], ids=str)
def test_reductions_and_scans(t, mask):
    made, count = reductions(t, mask)
    for size in SIZES:
        for block in (128, 40, 1):
            x = values(t, 2 * block)
            for lanes, has in zip((size, None), EVERY.values(), strict=True):
                out = [np.zeros(2 * block, t.numpy) for _ in range(count)]
                lowered = both(made, 2 * block, block, size, lanes, has, [x], out)
                for node in walk(lowered.body):
                    if node.op in ("subgroup_reduce", "subgroup_scan"):
                        assert not node.dtype.is_float and has(node.dtype), node


def test_full_subgroups_need_no_ballot():
    made, count = reductions(f32, "all")
    made.body[:] = [n for n in made.body if n.op != "if"] + next(n for n in made.body if n.op == "if").regions[0]
    made.workgroup = (64, 1, 1)
    x = values(f32, 64)
    for lanes in (*SIZES, None):
        out = [np.zeros(64, np.float32) for _ in range(count)]
        lowered = both(made, 64, 64, lanes or 16, lanes, EVERY["every type"], [x], out)
        ops = {n.op for n in walk(lowered.body)}
        assert "subgroup_ballot_word" not in ops and "if" not in ops


@pytest.mark.parametrize("has", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("where", [i8, u8, i32, u32, i64, u64, index], ids=str)
@pytest.mark.parametrize("op", SHUFFLES)
def test_shuffles_of_any_lane(op, where, has):
    # lane numbers of every width, with and without a sign, near zero, near the sizes and at the ends of their type
    x, at, y = Buffer("x", i32, 1, "read"), Buffer("at", where, 1, "read"), Buffer("y", i32, 1, "write")

    def body(b: Build) -> None:
        i = b.gid()
        b.when(
            MASKS["some"](b, b.tid()),
            lambda: b.store(y, (i,), b.emit(op, b.load(x, i), b.load(at, i))),
        )

    made = kernel([x, at, y], body)
    near = [*(k for k in range(-5, 70) if where.min <= k), where.min, where.min + 1, where.max, where.max - 1]
    n = 256
    ids = np.random.default_rng(1).choice(np.array(near, where.numpy), n)
    for size in SIZES:
        for lanes in (size, None):
            both(made, n, 64, size, lanes, has, [np.arange(n, dtype=np.int32), ids], [np.full(n, -1, np.int32)])


@pytest.mark.parametrize("t", [bool_, i8, u16, i16, u64, i64, f16, bf16, f64], ids=str)
def test_shuffles_of_every_type(t):
    x, y, z, w, v = (Buffer(n, t, 1, "read_write") for n in "xyzwv")

    def body(b: Build) -> None:
        i, lane = b.gid(), b.emit("subgroup_lane")
        value = b.load(x, i)
        b.store(y, (i,), b.emit("subgroup_shuffle", value, b.emit("sub", b.i(3), lane)))
        b.store(z, (i,), b.emit("subgroup_shuffle_xor", value, b.i(2)))
        b.store(w, (i,), b.emit("subgroup_broadcast", value, b.i(1)))
        b.store(v, (i,), b.emit("subgroup_shuffle_down", value, b.const(1, u8)))

    for workgroup in (None, (64, 1, 1)):
        made = kernel([x, y, z, w, v], body, workgroup=workgroup)
        for size in SIZES:
            for has in EVERY.values():
                out = [np.zeros(64, t.numpy) for _ in range(4)]
                lowered = both(made, 64, 64, size, size, has, [values(t, 64)], out)
                moved = [n for n in walk(lowered.body) if n.op in (*SHUFFLES, "subgroup_broadcast")]
                assert all(n.attrs["there"] and has(n.dtype) and not n.dtype.is_bool for n in moved)


@pytest.mark.parametrize("block", [(64,), (40,), (5, 7), (1,)], ids=str)
def test_places_follow_from_the_work_item(block):
    outs = arrays([i32] * 4)

    def body(b: Build) -> None:
        l = b.emit("linear_local_id")
        for out, op in zip(outs, ("size", "lane", "id", "count"), strict=True):
            b.store(out, (l,), b.cast(b.emit(f"subgroup_{op}"), i32))

    n = int(np.prod(block))
    for workgroup in (None, (*block, 1, 1)[:3]):
        made = kernel(outs, body, workgroup=workgroup)
        for size in SIZES:
            for lanes in (size, None):
                lowered = lower_subgroups(made, lanes, EVERY["every type"])
                found = [np.zeros(n, np.int32) for _ in range(4)]
                Program(lowered).run((1,), block, found, subgroup_size=size)
                l = np.arange(n)
                for got, want in zip(found, (size, l % size, l // size, -(-n // size)), strict=True):
                    assert (got == want).all()
                assert not any(x.op in ("subgroup_lane", "subgroup_id", "subgroup_count") for x in walk(lowered.body))


# --- varying flow ------------------------------------------------------------------------------------------------------
@mp.func
def total(v, lo):
    if v > lo:
        return mp.subgroup.sum(v)
    return 0


@mp.kernel
def in_varying_flow(x):
    i = mp.global_id(0)
    x[i] = mp.subgroup.max(x[i])  # all come
    if mp.subgroup.any(x[i] > 3):
        x[i] = mp.subgroup.max(x[i])  # all or none of a subgroup
    if x[i] > 1:
        x[i] = mp.subgroup.max(x[i])  # 1
    while x[i] > 2:
        x[i] = mp.subgroup.sum(1)  # 1
    if mp.thread_id(0) // 64 == 1:
        mp.subgroup.barrier()  # of subgroups of 64 all or none
    x[i] += total(x[i], 1)  # 1
    if x[i] == 9:
        return
    x[i] = mp.subgroup.ballot_count(True)  # 1


@pytest.mark.parametrize("gang", [32, 0])
def test_operations_in_varying_flow_are_found(gang):
    from magpie.passes import prepare

    made = prepare(lower(in_varying_flow.fn, (ArrayArg(i32, 1),)).kernel)
    made.workgroup = (128, 1, 1)
    found = check_varying(made, "a device", gang)
    first = in_varying_flow.fn.__code__.co_firstlineno
    source = inspect.getsource(in_varying_flow.fn).splitlines()
    wanted = [first + k for k, line in enumerate(source) if line.rpartition("# ")[2].isdigit() and "total" not in line]
    wanted.append(total.fn.__code__.co_firstlineno + 3)
    if not gang:  # without the size, what some work-items branch on divides a subgroup
        wanted += [first + k for k, line in enumerate(source) if "barrier" in line]
    assert sorted(d.loc.line for d in found) == sorted(wanted)
    assert {d.code for d in found} == {"MPG_CORE_1200"}
    assert all("'subgroups_varying'" in d.message and "a device does not have it" in d.message for d in found)
