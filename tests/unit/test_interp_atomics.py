"""Atomics are sequential in lane order, subgroup ops keep their tree: against plain Python loops over lanes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from kir import arrays, program

from magpie.backends.interp.numerics import combine, implementation
from magpie.backends.interp.numerics.lanes import register_dtype, scalar
from magpie.dtypes import ALL_DTYPES, bf16, bool_, f16, f32, f64, i8, i32, i64, index, u8, u32, u64
from magpie.ir.nodes import Buffer, SharedArray
from magpie.ir.ops import RMW_KINDS, identity

KINDS = {t: [k for k in RMW_KINDS if t.is_int or k in ("add", "sub", "min", "max", "exchange")] for t in (i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64)}
KINDS[bool_] = ["and", "or", "xor", "exchange"]


def data(t, n, seed):
    rng = np.random.default_rng(seed)
    if t.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    if t.is_int:
        return rng.integers(t.min, t.max, n, dtype=t.numpy, endpoint=True)
    return rng.uniform(-100, 100, n).astype(np.float32).astype(t.numpy)


def addresses(kind, n, cells):
    rng = random.Random(kind)
    return {
        "one": [3] * n,
        "distinct": list(range(n)),
        "few": [rng.randrange(4) for _ in range(n)],
        "skewed": [0 if rng.random() < 0.5 else rng.randrange(cells) for _ in range(n)],
    }[kind]


def lanes(array, t):
    if t is bf16:
        return array.astype(np.float32)
    return array


@pytest.mark.parametrize("used", [True, False], ids=["old", "unused"])
@pytest.mark.parametrize("where", ["one", "distinct", "few", "skewed"])
@pytest.mark.parametrize(("t", "kind"), [(t, k) for t, ks in KINDS.items() for k in ks], ids=lambda v: str(v))
def test_read_modify_write(t, kind, where, used):
    n = 300
    at, mem, val, old = (Buffer(name, u, 1, "read_write") for name, u in (("at", i32), ("mem", t), ("val", t), ("old", t)))

    def body(b):
        i = b.gid()

        def one():
            found = b.emit("atomic_rmw", b.load(at, i), b.load(val, i), array=mem, kind=kind, scope="device")
            if used:
                b.store(old, (i,), found)

        b.when(b.emit("ne", b.emit("mod", i, b.i(7)), b.i(3)), one)

    where_ = np.array(addresses(where, n, n), np.int32)
    memory, value, before = data(t, n, 1), data(t, n, 2), np.zeros(n, t.numpy)
    want_memory, want_old = lanes(memory.copy(), t), lanes(before.copy(), t)
    values = lanes(value, t)
    fn = combine(kind, t)
    with np.errstate(all="ignore"):
        for i in range(n):
            if i % 7 != 3:
                now = want_memory[where_[i]]
                if used:
                    want_old[i] = now
                want_memory[where_[i]] = fn(now, values[i])
    program([at, mem, val, old], body).run((3,), (100,), [where_, memory, value, before])
    assert (lanes(memory, t) == want_memory).all()
    assert (lanes(before, t) == want_old).all()


@pytest.mark.parametrize("where", ["one", "few", "skewed"])
@pytest.mark.parametrize("t", [i32, u64, f32, bf16, f16, bool_], ids=str)
def test_compare_exchange(t, where):
    n = 200
    at, mem, want, new, old = (Buffer(name, u, 1, "read_write") for name, u in (("at", i32), ("mem", t), ("want", t), ("new", t), ("old", t)))

    def body(b):
        i = b.gid()
        found = b.emit("atomic_cas", b.load(at, i), b.load(want, i), b.load(new, i), array=mem, scope="device")
        b.store(old, (i,), found)

    where_ = np.array(addresses(where, n, n), np.int32)
    small = [data(t, n, k) if t.is_bool else (np.random.default_rng(k).integers(0, 3, n)).astype(np.float32).astype(t.numpy) for k in range(3)]
    memory, wanted, desired = (a.copy() for a in small)
    result = np.zeros(n, t.numpy)
    expect, expect_old = memory.copy(), np.zeros(n, t.numpy)
    for i in range(n):
        expect_old[i] = expect[where_[i]]
        if expect[where_[i]] == wanted[i]:
            expect[where_[i]] = desired[i]
    program([at, mem, want, new, old], body).run((2,), (100,), [where_, memory, wanted, desired, result])
    assert (memory == expect).all()
    assert (result == expect_old).all()


def test_shared_histogram_and_a_ticket_for_each_item():
    x, y = arrays((i32, i32))
    h = SharedArray("h", i32, (8,))

    def body(b):
        i, t = b.gid(), b.tid()
        b.when(b.emit("lt", t, b.i(8)), lambda: b.store(h, (t,), b.const(0, i32)))
        b.emit("barrier")
        ticket = b.emit("atomic_rmw", b.emit("and", b.cast(b.load(x, i), index), b.i(7)), b.const(1, i32), array=h, kind="add", scope="workgroup")
        b.emit("barrier")
        b.store(y, (i,), ticket)

    a = np.random.default_rng(0).integers(0, 100, 640).astype(np.int32)
    c = np.zeros(640, np.int32)
    program([x, y], body, shared=[h]).run((10,), (64,), [a, c])
    for g in range(10):
        part, tickets = a[g * 64 : g * 64 + 64] & 7, c[g * 64 : g * 64 + 64]
        for k in range(8):
            assert tickets[part == k].tolist() == list(range((part == k).sum()))


# --- subgroups ----------------------------------------------------------------------------------------------------------
def tree(fn, values):
    """Adjacent pairs first, absent partners skipped."""
    values = list(values)
    while len(values) > 1:
        values = [fn(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
    return values[0]


def kogge_stone(fn, values):
    values = list(values)
    d = 1
    while d < len(values):
        values = [fn(values[k - d], v) if k >= d else v for k, v in enumerate(values)]
        d *= 2
    return values


def subgroups(n, size):
    return [range(s, min(s + size, n)) for s in range(0, n, size)]


@pytest.mark.parametrize(("block", "size"), [(64, 32), (50, 32), (33, 32), (24, 8), (20, 16), (1, 32), (100, 64)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("t", "kind"), [(f32, "add"), (f32, "min"), (f32, "mul"), (f16, "add"), (bf16, "add"), (i32, "add"), (i8, "max"), (u32, "xor"), (bool_, "and"), (f64, "max")], ids=str)
def test_reduce_and_scan(t, kind, masked, block, size):
    x, y, z, w = arrays((t, t, t, t))
    groups = 3

    def body(b):
        i = b.gid()

        def act():
            v = b.load(x, i)
            b.store(y, (i,), b.emit("subgroup_reduce", v, kind=kind))
            b.store(z, (i,), b.emit("subgroup_scan", v, kind=kind, exclusive=False))
            b.store(w, (i,), b.emit("subgroup_scan", v, kind=kind, exclusive=True))

        if masked:
            b.when(b.emit("ne", b.emit("mod", b.emit("mul", b.tid(), b.tid()), b.i(3)), b.i(1)), act)
        else:
            act()

    n = groups * block
    a = data(t, n, 5)
    out = [np.zeros(n, t.numpy) for _ in range(3)]
    program([x, y, z, w], body).run((groups,), (block,), [a, *out], subgroup_size=size)
    fn = implementation(kind, t, (t, t))
    regs = lanes(a, t)
    with np.errstate(all="ignore"):
        for g in range(groups):
            for lane_ids in subgroups(block, size):
                active = [k for k in lane_ids if not masked or k * k % 3 != 1]
                if not active:
                    continue
                values = [regs[g * block + k] for k in active]
                total, scan = tree(fn, values), kogge_stone(fn, values)
                before = [identity(kind, t), *scan[:-1]]
                for k, s, e in zip(active, scan, before, strict=True):
                    assert lanes(out[0], t)[g * block + k] == total
                    assert lanes(out[1], t)[g * block + k] == s
                    assert lanes(out[2], t)[g * block + k] == e


def test_identity_of_a_sum_keeps_minus_zero():
    assert np.signbit(identity("add", f32))
    for t, kind in itertools.product(ALL_DTYPES, ("add", "mul", "min", "max", "and", "or", "xor")):
        if (t.is_float and kind in ("and", "or", "xor")) or (t.is_bool and kind in ("add", "mul")):
            continue
        fn = combine(kind, t)
        for v in (0, 1) if t.is_bool else (0, 1, 3):
            assert fn(identity(kind, t), scalar(t, v)) == scalar(t, v)


@pytest.mark.parametrize(("block", "size"), [(64, 32), (50, 32), (40, 16)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("how", ["shuffle", "shuffle_xor", "shuffle_up", "shuffle_down"])
def test_shuffles(how, masked, block, size):
    x, y, d = arrays((i32, i32, i32))

    def body(b):
        i = b.gid()

        def act():
            b.store(y, (i,), b.emit(f"subgroup_{how}", b.load(x, i), b.load(d, i)))

        if masked:
            b.when(b.emit("ne", b.emit("mod", b.tid(), b.i(3)), b.i(1)), act)
        else:
            act()

    n = 2 * block
    rng = np.random.default_rng(1)
    a = np.arange(n, dtype=np.int32) + 100
    operand = rng.integers(-2, size + 3, n).astype(np.int32)
    c = np.full(n, -1, np.int32)
    program([x, y, d], body).run((2,), (block,), [a, c, operand], subgroup_size=size)
    for i in range(n):
        g, t = divmod(i, block)

        def on(k):
            return not masked or k % 3 != 1

        if not on(t):
            assert c[i] == -1
            continue
        first, lane, k = t - t % size, t % size, int(operand[i])
        source = {"shuffle": k, "shuffle_xor": lane ^ k, "shuffle_up": lane - k, "shuffle_down": lane + k}[how]
        inside = 0 <= source < size and first + source < block and on(first + source)
        assert c[i] == (a[g * block + first + source] if inside else a[i])


@pytest.mark.parametrize(("block", "size"), [(64, 32), (50, 32), (64, 64)])
def test_votes(block, size):
    x, y, a, e, low, high = arrays((u64, i32, i32, i32, u32, u32))

    def body(b):
        i, t = b.gid(), b.tid()

        def act():
            c = b.emit("eq", b.emit("mod", t, b.i(5)), b.i(0))
            b.store(x, (i,), b.emit("subgroup_ballot", c))
            for word, out in enumerate((low, high)):
                b.store(out, (i,), b.emit("subgroup_ballot_word", c, word=word))
            b.store(y, (i,), b.cast(b.emit("subgroup_any", b.emit("gt", t, b.i(40))), i32))
            b.store(a, (i,), b.cast(b.emit("subgroup_all", b.emit("lt", t, b.i(40))), i32))
            b.store(e, (i,), b.cast(b.emit("subgroup_elect"), i32))

        b.when(b.emit("gt", b.emit("mod", t, b.i(4)), b.i(0)), act)

    n = 2 * block
    out = [np.zeros(n, np.uint64), *(np.full(n, -1, np.int32) for _ in range(3)), *(np.zeros(n, np.uint32) for _ in "lh")]
    program([x, y, a, e, low, high], body).run((2,), (block,), out, subgroup_size=size)
    for g in range(2):
        for ids in subgroups(block, size):
            active = [k for k in ids if k % 4]
            for k in active:
                i = g * block + k
                assert int(out[0][i]) == sum(1 << (j - ids[0]) for j in active if j % 5 == 0)
                assert [int(out[4][i]), int(out[5][i])] == [int(out[0][i]) & 0xFFFFFFFF, int(out[0][i]) >> 32]
                assert out[1][i] == any(j > 40 for j in active)
                assert out[2][i] == all(j < 40 for j in active)
                assert out[3][i] == (k == active[0])


def test_registers_of_bf16_are_float32():
    assert register_dtype(bf16) == np.float32
