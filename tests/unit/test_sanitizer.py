"""The sanitizer against a brute-force happens-before over random kernels, and case by case."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from kir import arrays, program

from magpie.backends.interp.sanitizer import Checks
from magpie.dtypes import StructType, f32, f64, i8, i32, u8
from magpie.ir.nodes import Buffer, SharedArray, Slot

ALL = Checks.of(("race", "bounds", "uninit", "barrier", "divide", "overflow"))
RACE = Checks.of(("race",))
STRICT = Checks.of(("race",), "strict")


def codes(outcome):
    return [(r.code, r.line, r.other_line) for r in outcome.reports]


# --- random kernels -------------------------------------------------------------------------------------------------------
GROUPS, BLOCK, SUBGROUP = 3, 8, 4


class Step:
    """One line: an access at (a * t + b * g + c) % cells by the items with t % p == q, or a barrier."""

    def __init__(self, rng, cells, local):
        self.kind = rng.choice(["load", "load", "store", "store", "atomic", "barrier", "subgroup", "some barriers"])
        self.a, self.b, self.c = rng.choice([0, 1, 1, 2, 3]), 0 if local else rng.choice([0, 1, 8]), rng.randrange(cells)
        self.p = rng.choice([1, 1, 2, 3, 8])
        self.q = rng.randrange(self.p)
        self.cells = cells

    def cell(self, g, t):
        return (self.a * t + self.b * g + self.c) % self.cells

    def on(self, t):
        return t % self.p == self.q


def build(steps, target, x, shared):
    def body(b):
        t, g = b.tid(), b.emit("workgroup_id", dim=0)
        sink = Slot("sink", i32)
        for line, s in enumerate(steps, 1):
            b.at(line)
            if s.kind == "barrier":
                b.emit("barrier")
            elif s.kind == "some barriers":  # in some workgroups only
                odd = b.emit("eq", b.emit("and", g, b.i(1)), b.i(s.q & 1))
                b.when(odd, lambda: b.emit("barrier"))
            elif s.kind == "subgroup":
                b.emit("subgroup_barrier")
            else:
                at = b.emit("add", b.emit("mul", t, b.i(s.a)), b.emit("add", b.emit("mul", g, b.i(s.b)), b.i(s.c)))
                at = b.emit("mod", at, b.i(s.cells))

                def access(s=s, at=at, line=line):
                    if s.kind == "load":
                        b.set(sink, b.emit("add", b.get(sink), b.load(target, at)))
                    elif s.kind == "store":  # a value that no other store writes
                        v = b.emit("add", b.emit("mul", b.gid(), b.i(100)), b.i(line))
                        b.store(target, (at,), b.cast(v, i32))
                    else:
                        b.emit("atomic_rmw", at, b.const(1, i32), array=target, kind="add", scope="device")

                b.when(b.emit("eq", b.emit("mod", t, b.i(s.p)), b.i(s.q)), access)

    return program([x], body, shared=shared)


def races(steps, local):
    """Every pair of lines that race, by looking at all pairs of accesses of a cell."""
    cells = {}
    epoch, sub = [0] * GROUPS, 0
    for line, s in enumerate(steps, 1):
        if s.kind == "barrier":
            epoch = [e + 1 for e in epoch]
        elif s.kind == "some barriers":
            epoch = [e + (g & 1 == s.q & 1) for g, e in enumerate(epoch)]
        elif s.kind == "subgroup":
            sub += 1
        else:
            for g, t in itertools.product(range(GROUPS), range(BLOCK)):
                if s.on(t):
                    key = (g if local else 0, s.cell(g, t))
                    cells.setdefault(key, []).append((g, t, epoch[g], sub, s.kind, line))
    found = set()
    for accesses in cells.values():
        for one, two in itertools.combinations(accesses, 2):
            if one[:2] == two[:2] or (one[4] == "load" and two[4] == "load") or (one[4] == "atomic" and two[4] == "atomic"):
                continue
            if one[0] == two[0] and one[2] != two[2]:
                continue
            if one[0] == two[0] and one[1] // SUBGROUP == two[1] // SUBGROUP and one[3] != two[3]:
                continue
            found.add(frozenset((one[5], two[5])))
    return found


@pytest.mark.parametrize("local", [True, False], ids=["shared", "global"])
@pytest.mark.parametrize("seed", range(150))
def test_random_kernels(seed, local):
    rng = random.Random(f"{seed}{local}")
    cells = rng.choice([1, 2, 8, 9, 24, 64])
    steps = [Step(rng, cells, local) for _ in range(rng.randint(2, 9))]
    x = Buffer("x", i32, 1, "read_write")
    shared = [SharedArray("s", i32, (cells,))] if local else []
    p = build(steps, shared[0] if local else x, x, shared)
    want = races(steps, local)
    for order in (None, 5):
        outcome = p.run((GROUPS,), (BLOCK,), [np.zeros(cells, np.int32)], sanitize=RACE, order=order, subgroup_size=SUBGROUP)
        got = {frozenset((r.line, r.other_line)) for r in outcome.reports}
        assert got <= want, "a report of what is no race"
        assert bool(got) == bool(want), "a race that is not reported"
        for r in outcome.reports:
            assert r.work_items[0] != r.work_items[1]


@pytest.mark.parametrize("seed", range(40))
def test_two_accesses_are_enough(seed):
    """With one racing pair of lines at most, the very pair is found, wherever it is."""
    rng = random.Random(seed)
    cells = rng.choice([4, 8, 24])
    first, second = (Step(rng, cells, False) for _ in range(2))
    first.kind, second.kind = rng.choice([("load", "store"), ("store", "load"), ("store", "atomic"), ("atomic", "load")])
    x = Buffer("x", i32, 1, "read_write")
    want = {w for w in races([first, second], False)}
    outcome = build([first, second], x, x, []).run((GROUPS,), (BLOCK,), [np.zeros(cells, np.int32)], sanitize=RACE)
    assert {frozenset((r.line, r.other_line)) for r in outcome.reports} == want


# --- values ---------------------------------------------------------------------------------------------------------------
def test_one_value_is_a_race_only_when_strict():
    x, y = arrays((i32, f32))

    def body(b):
        b.at(1)
        b.store(x, (b.i(0),), b.const(7, i32))
        b.at(2)
        b.store(y, (b.i(0),), b.const(float("nan"), f32))

    p = program([x, y], body)
    args = [np.zeros(1, np.int32), np.zeros(1, np.float32)]
    assert not p.run((4,), (8,), args, sanitize=RACE).reports
    assert codes(p.run((4,), (8,), args, sanitize=STRICT)) == [("MPG_SAN_1001", 1, 1), ("MPG_SAN_1001", 2, 2)]


def test_a_third_value_after_two_equal_ones():
    (x,) = arrays((i32,))

    def body(b):
        t = b.tid()
        b.at(1)
        b.when(b.emit("lt", t, b.i(2)), lambda: b.store(x, (b.i(0),), b.const(1, i32)))
        b.at(2)
        b.when(b.emit("eq", t, b.i(1)), lambda: b.store(x, (b.i(0),), b.const(2, i32)))

    outcome = program([x], body).run((1,), (4,), [np.zeros(1, np.int32)], sanitize=RACE)
    assert codes(outcome) == [("MPG_SAN_1001", 2, 1)]


def test_minus_zero_is_another_value():
    (x,) = arrays((f32,))

    def body(b):
        zero = b.const(0.0, f32)
        b.store(x, (b.i(0),), b.select(b.emit("eq", b.tid(), b.i(0)), b.emit("neg", zero), zero))

    p = program([x], body)
    assert p.run((1,), (2,), [np.zeros(1, np.float32)], sanitize=RACE).reports


# --- memory that is one and the same --------------------------------------------------------------------------------------
def test_views_that_overlap_in_part_and_interleave():
    x, y = arrays((i32, i32))

    def body(b):
        b.at(1)
        v = b.load(x, b.gid())
        b.at(2)
        b.store(y, (b.gid(),), v)

    p = program([x, y], body)
    base = np.arange(65, dtype=np.int32)
    assert codes(p.run((1,), (64,), [base[:64], base[1:]], sanitize=RACE)) == [("MPG_SAN_1001", 2, 1)]
    assert not p.run((1,), (32,), [base[0:64:2], base[1:65:2]], sanitize=RACE).reports
    assert not p.run((1,), (32,), [base[31::-1], base[31::-1]], sanitize=RACE).reports
    assert p.run((1,), (32,), [base[31::-1], base[:32]], sanitize=RACE).reports
    grid = np.arange(64, dtype=np.int32).reshape(8, 8)
    x2, y2 = arrays((i32, i32), 2)

    def transpose(b):
        i, j = b.tid(0), b.tid(1)
        b.store(y2, (i, j), b.load(x2, j, i))

    q = program([x2, y2], transpose)
    assert q.run((1,), (8, 8), [grid, grid], sanitize=RACE).reports
    assert not q.run((1,), (8, 8), [grid.T, grid], sanitize=RACE).reports


def test_views_of_other_types_share_bytes():
    x, y = arrays((u8, f64))

    def body(b):
        b.at(1)
        b.store(y, (b.tid(),), b.const(1.5, f64))
        b.at(2)
        b.store(x, (b.emit("mul", b.tid(), b.i(8)),), b.const(3, u8))

    p = program([x, y], body)
    base = np.zeros(8)
    assert not p.run((1,), (8,), [base.view(np.uint8), base], sanitize=RACE).reports

    def shifted(b):
        b.at(1)
        b.store(y, (b.tid(),), b.const(1.5, f64))
        b.at(2)
        b.store(x, (b.emit("mul", b.emit("sub", b.i(7), b.tid()), b.i(8)),), b.const(3, u8))

    assert codes(program([x, y], shifted).run((1,), (8,), [base.view(np.uint8), base], sanitize=RACE)) == [("MPG_SAN_1001", 2, 1)]


def test_fields_of_one_struct_are_apart():
    pair = StructType.build("P", [("a", i8), ("b", f32)])
    x = Buffer("x", pair, 1, "read_write")

    def body(b):
        b.store(x, (b.tid(),), b.const(1, i8), field=(0,))
        other = b.emit("sub", b.emit("sub", b.emit("workgroup_size", dim=0), b.i(1)), b.tid())
        b.store(x, (other,), b.cast(b.tid(), f32), field=(1,))

    data = np.zeros(8, pair.numpy)
    assert not program([x], body).run((1,), (8,), [data], sanitize=RACE).reports
    assert data["b"].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


# --- order that is no barrier ---------------------------------------------------------------------------------------------
def handoff(b, x, flag, out, *, release=True, acquire=True, order="relaxed", rmw=False, scope="device"):
    """Workgroup 0 writes x and raises a flag; workgroup 1 waits for it and reads x."""
    g, zero, one = b.emit("workgroup_id", dim=0), b.i(0), b.const(1, i32)
    relaxed = order == "relaxed"

    def first():
        b.at(10)
        b.store(x, (zero,), b.const(42, i32))
        if release:
            b.emit("fence", scope=scope, order="release")
        b.at(11)
        if rmw:
            b.emit("atomic_rmw", zero, one, array=flag, kind="add", scope="device")
        else:
            b.emit("atomic_store", zero, one, array=flag, order="relaxed" if relaxed else "release", scope="device")

    def second():
        def wait():
            seen = b.emit("atomic_load", zero, array=flag, order="relaxed" if relaxed else "acquire", scope="device")
            b.emit("break_if", b.emit("ne", seen, b.const(0, i32)))

        b.forever(wait)
        if acquire:
            b.emit("fence", scope=scope, order="acquire")
        b.at(12)
        b.store(out, (b.tid(),), b.load(x, zero))

    b.when(b.emit("eq", b.gid(), zero), first)
    b.when(b.emit("eq", g, b.i(1)), second)


@pytest.mark.parametrize(
    ("options", "fine"),
    [
        ({}, True),
        ({"rmw": True}, True),
        ({"release": False}, False),
        ({"acquire": False}, False),
        ({"release": False, "acquire": False, "order": "strong"}, True),
        ({"release": False, "order": "strong"}, True),
        ({"scope": "workgroup"}, False),
    ],
    ids=str,
)
def test_a_flag_hands_memory_over(options, fine):
    x, flag, out = arrays((i32, i32, i32))
    p = program([x, flag, out], lambda b: handoff(b, x, flag, out, **options))
    args = [np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(4, np.int32)]
    outcome = p.run((2,), (4,), args, sanitize=RACE)
    assert args[2].tolist() == [42] * 4
    assert codes(outcome) == ([] if fine else [("MPG_SAN_1001", 12, 10)])


@pytest.mark.parametrize("everyone_fences", [False, True])
def test_the_last_workgroup_reads_what_all_wrote(everyone_fences):
    count, part, out = arrays((i32, i32, i32))
    last = SharedArray("last", i32, (1,))

    def body(b):
        zero, t, g = b.i(0), b.tid(), b.emit("workgroup_id", dim=0)
        size = b.emit("workgroup_size", dim=0)
        b.at(1)
        b.store(part, (b.gid(),), b.cast(b.gid(), i32))
        if everyone_fences:
            b.emit("fence", scope="device", order="acq_rel")
        b.emit("barrier")

        def ticket():
            if not everyone_fences:
                b.emit("fence", scope="device", order="acq_rel")
            b.at(2)
            old = b.emit("atomic_rmw", zero, b.const(1, i32), array=count, kind="add", scope="device")
            b.store(last, (zero,), old)

        b.when(b.emit("eq", t, zero), ticket)
        b.emit("barrier")
        groups = b.emit("num_workgroups", dim=0)

        def finish():
            b.emit("fence", scope="device", order="acq_rel")
            total = Slot("total", i32)
            with b.counted(zero, groups, b.i(1)) as k:
                b.at(3)
                b.set(total, b.emit("add", b.get(total), b.load(part, b.emit("add", b.emit("mul", k, size), t))))
            b.store(out, (t,), b.get(total))

        b.when(b.emit("eq", b.load(last, zero), b.cast(b.emit("sub", groups, b.i(1)), i32)), finish)
        del g

    p = program([count, part, out], body, shared=[last])
    args = [np.zeros(1, np.int32), np.zeros(64, np.int32), np.zeros(8, np.int32)]
    outcome = p.run((8,), (8,), args, sanitize=RACE)
    assert args[2].tolist() == [sum(range(t, 64, 8)) for t in range(8)]
    assert codes(outcome) == []


def test_a_chain_of_handoffs():
    x, flag, out = arrays((i32, i32, i32))

    def body(b):
        g, zero, one = b.emit("workgroup_id", dim=0), b.i(0), b.const(1, i32)

        def act():
            def wait():
                before = b.emit("sub", g, b.i(1))
                seen = b.emit("atomic_load", before, array=flag, order="acquire", scope="device")
                b.emit("break_if", b.emit("ne", seen, b.const(0, i32)))

            b.when(b.emit("gt", g, zero), lambda: b.forever(wait))
            b.when(b.emit("eq", g, zero), lambda: b.store(x, (zero,), b.const(5, i32)))
            b.when(b.emit("eq", g, b.i(4)), lambda: b.store(out, (zero,), b.load(x, zero)))
            b.emit("atomic_store", g, one, array=flag, order="release", scope="device")

        b.when(b.emit("eq", b.tid(), zero), act)

    args = [np.zeros(1, np.int32), np.zeros(5, np.int32), np.zeros(1, np.int32)]
    outcome = program([x, flag, out], body).run((5,), (4,), args, sanitize=RACE)
    assert not outcome.reports
    assert args[2][0] == 5


def test_a_subgroup_barrier_under_a_mask_orders_those_who_meet():
    x = Buffer("x", i32, 1, "read_write")
    s = SharedArray("s", i32, (8,))

    def body(b, all_read):
        t = b.tid()
        low = b.emit("lt", t, b.i(2))
        b.at(1)
        b.store(s, (t,), b.cast(t, i32))
        b.when(low, lambda: b.emit("subgroup_barrier"))
        b.at(2)

        def read():
            b.store(x, (t,), b.load(s, b.emit("xor", t, b.i(1))))

        if all_read:
            read()
        else:
            b.when(low, read)

    c = np.zeros(8, np.int32)
    fine = program([x], lambda b: body(b, False), shared=[s]).run((1,), (8,), [c], sanitize=RACE, subgroup_size=8)
    assert not fine.reports
    bad = program([x], lambda b: body(b, True), shared=[s]).run((1,), (8,), [c], sanitize=RACE, subgroup_size=8)
    assert codes(bad) == [("MPG_SAN_1002", 2, 1)]


def test_grid_sync_orders_all():
    x, y = arrays((i32, i32))

    def body(b, sync):
        n = b.emit("mul", b.emit("num_workgroups", dim=0), b.emit("workgroup_size", dim=0))
        b.store(x, (b.gid(),), b.cast(b.gid(), i32))
        if sync:
            b.emit("grid_sync")
        b.store(y, (b.gid(),), b.load(x, b.emit("sub", b.emit("sub", n, b.i(1)), b.gid())))

    a, c = np.zeros(5000, np.int32), np.zeros(5000, np.int32)
    assert not program([x, y], lambda b: body(b, True)).run((50,), (100,), [a, c], sanitize=RACE).reports
    assert c.tolist() == list(range(4999, -1, -1))
    assert program([x, y], lambda b: body(b, False)).run((50,), (100,), [a, c], sanitize=RACE).reports


# --- the other checks -------------------------------------------------------------------------------------------------------
def test_uninitialised_reads_are_of_this_workgroup():
    x = Buffer("x", i32, 1, "read_write")
    s = SharedArray("s", i32, (8,))

    def body(b):
        g, t = b.emit("workgroup_id", dim=0), b.tid()
        b.when(b.emit("ne", b.emit("and", g, b.i(1)), b.i(1)), lambda: b.store(s, (t,), b.const(1, i32)))
        b.emit("barrier")
        b.at(3)
        b.store(x, (b.gid(),), b.load(s, t))

    c = np.zeros(80, np.int32)
    (report,) = program([x], body, shared=[s]).run((10,), (8,), [c], sanitize=ALL).reports
    assert (report.code, report.line, report.count) == ("MPG_SAN_1005", 3, 40)
    assert report.work_items == (((1, 0, 0), (0, 0, 0)),)
    assert report.address == ("s", (0,))


def test_division_is_judged_for_active_lanes():
    x, y = arrays((i32, i32))

    def body(b):
        v = b.load(x, b.gid())
        b.at(1)
        b.when(b.emit("ne", v, b.const(0, i32)), lambda: b.store(y, (b.gid(),), b.emit("tdiv", b.const(9, i32), v)))
        b.at(2)
        b.store(y, (b.gid(),), b.emit("mod", b.const(9, i32), v))

    (report,) = program([x, y], body).run((1,), (5,), [np.arange(5, dtype=np.int32), np.zeros(5, np.int32)], sanitize=ALL).reports
    assert (report.code, report.line, report.work_items) == ("MPG_SAN_1008", 2, (((0, 0, 0), (0, 0, 0)),))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "neg", "abs", "shl", "tdiv", "floordiv"])
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_overflow_is_exact(op, bits):
    from magpie.dtypes import by_name

    t = by_name(f"i{bits}")
    rng = random.Random(f"{op}{bits}")
    edge = [t.min, t.min + 1, -2, -1, 0, 1, 2, 3, t.max - 1, t.max]
    values = edge + [rng.randint(t.min, t.max) >> rng.randrange(bits) for _ in range(10)]
    pairs = list(itertools.product(values, values))
    x, y, z = (Buffer(n, t, 1, "read_write") for n in "xyz")
    unary = op in ("neg", "abs")

    def body(b):
        i = b.gid()
        args = [b.load(x, i)] if unary else [b.load(x, i), b.load(y, i)]
        b.store(z, (i,), b.emit(op, *args))

    a, c = (np.array([p[k] for p in pairs], t.numpy) for k in range(2))
    outcome = program([x, y, z], body).run((len(pairs),), (1,), [a, c, np.zeros(len(pairs), t.numpy)], sanitize=ALL)
    exact = {
        "add": lambda p, q: p + q, "sub": lambda p, q: p - q, "mul": lambda p, q: p * q,
        "neg": lambda p, q: -p, "abs": lambda p, q: abs(p), "shl": lambda p, q: p << (q % bits), "tdiv": lambda p, q: p // q if q == -1 else 0,
        "floordiv": lambda p, q: p // q if q else 0,
    }[op]  # fmt: skip
    wide = [p for p in pairs if op == "shl" and not 0 <= p[1] < bits]
    lost = [p for p in pairs if p not in wide and not t.min <= exact(*p) <= t.max]
    counts = {code: sum(r.count for r in outcome.reports if r.code == code) for code in ("MPG_SAN_1007", "MPG_SAN_1009")}
    assert counts == {"MPG_SAN_1007": len(lost), "MPG_SAN_1009": len(wide)}
    assert all(r.kind in ("overflow", "divide") for r in outcome.reports)
    assert op != "tdiv" or lost  # MIN / -1


def test_shuffles_from_nowhere():
    x, y = arrays((i32, i32))

    def body(b):
        t = b.tid()
        b.at(1)
        b.store(y, (t,), b.emit("subgroup_shuffle_down", b.load(x, t), b.i(1)))
        b.at(2)
        b.store(y, (t,), b.emit("subgroup_shuffle", b.load(x, t), b.emit("add", t, b.i(1))))

    c = np.zeros(12, np.int32)
    (report,) = program([x, y], body).run((1,), (12,), [c, c], sanitize=ALL, subgroup_size=8).reports
    assert (report.code, report.line) == ("MPG_SAN_1010", 2)


def test_uniform_is_checked_per_workgroup():
    x, y = arrays((i32, i32))

    def body(b):
        b.at(1)
        b.store(y, (b.gid(),), b.cast(b.emit("uniform", b.emit("workgroup_id", dim=0)), i32))
        b.at(2)
        b.store(y, (b.gid(),), b.emit("uniform", b.load(x, b.gid())))

    a = np.array([3, 3, 3, 3, 4, 4, 4, 5], np.int32)
    (report,) = program([x, y], body).run((2,), (4,), [a, np.zeros(8, np.int32)], sanitize=ALL).reports
    assert (report.code, report.line, report.work_items) == ("MPG_SAN_1013", 2, (((1, 0, 0), (3, 0, 0)),))


def test_checks_are_chosen_by_name():
    with pytest.raises(ValueError, match="no check 'races'"):
        Checks.of(("races",))
    with pytest.raises(ValueError, match="strict"):
        Checks.of(("race",), "loose")
    x, y = arrays((i32, i32))

    def body(b):
        b.store(y, (b.i(0),), b.emit("floordiv", b.load(x, b.emit("add", b.gid(), b.i(1))), b.const(0, i32)))

    p = program([x, y], body)
    args = [np.arange(4, dtype=np.int32), np.zeros(1, np.int32)]
    assert {r.kind for r in p.run((1,), (4,), args, sanitize=ALL).reports} == {"bounds", "divide"}
    assert {r.kind for r in p.run((1,), (4,), args, sanitize=Checks.of(("divide",))).reports} == {"divide"}
    assert not p.run((1,), (4,), args, sanitize=Checks.of(("race", "overflow"))).reports


def test_a_report_reads_well():
    s, x = SharedArray("s", i32, (8,)), Buffer("x", i32, 1, "read_write")

    def body(b):
        t = b.tid()
        b.at(1)
        b.store(s, (t,), b.cast(t, i32))
        b.at(2)
        b.store(x, (t,), b.load(s, b.emit("xor", t, b.i(1))))

    (report,) = program([x], body, shared=[s]).run((1,), (8,), [np.zeros(8, np.int32)], sanitize=ALL).reports
    text = str(report)
    assert "data race in shared memory on s[1]: read by thread (0, 0, 0) of workgroup (0, 0, 0)" in text
    assert "kernel.py:2" in text
    assert "kernel.py:1" in text
    assert "mp.barrier()" in text
    assert report.file == "kernel.py"
    assert report.address == ("s", (1,))


# --- random kernels with fences -------------------------------------------------------------------------------------------
class Handover:
    """One line: a plain access, an atomic on a flag, a fence or a barrier, by the items with t % p == q."""

    def __init__(self, rng):
        kinds = ["load", "store", "rmw", "rmw", "atomic load", "atomic store", "fence", "fence", "fence", "barrier"]
        self.kind = rng.choice(kinds)
        self.p = rng.choice([1, 2])
        self.q = rng.randrange(self.p)
        self.by_group, self.c = rng.choice([0, 1]), rng.randrange(2)
        self.order = rng.choice(["acq_rel", "acq_rel", "acquire", "release"])
        self.strong = rng.random() < 0.2
        self.only = rng.choice([None, None, 0, 1, 2])  # a workgroup

    def cell(self, g):
        return (self.by_group * g + self.c) % 2

    def on(self, g, t):
        return t % self.p == self.q and (self.only is None or g == self.only)

    def atomic_order(self):
        return "relaxed" if not self.strong else "acquire" if self.kind == "atomic load" else "release"


def build_handover(steps, x, flag):
    def body(b):
        t, g = b.tid(), b.emit("workgroup_id", dim=0)
        sink = Slot("sink", i32)
        for line, s in enumerate(steps, 1):
            b.at(line)
            if s.kind == "barrier":
                b.emit("barrier")
                continue
            at = b.emit("mod", b.emit("add", b.emit("mul", g, b.i(s.by_group)), b.i(s.c)), b.i(2))
            v = b.cast(b.emit("add", b.emit("mul", b.gid(), b.i(100)), b.i(line)), i32)

            def act(s=s, at=at, v=v):
                if s.kind == "load":
                    b.set(sink, b.emit("add", b.get(sink), b.load(x, at)))
                elif s.kind == "store":
                    b.store(x, (at,), v)
                elif s.kind == "rmw":
                    b.emit("atomic_rmw", at, v, array=flag, kind="add", scope="device")
                elif s.kind == "atomic load":
                    found = b.emit("atomic_load", at, array=flag, order=s.atomic_order(), scope="device")
                    b.set(sink, b.emit("add", b.get(sink), found))
                elif s.kind == "atomic store":
                    b.emit("atomic_store", at, v, array=flag, order=s.atomic_order(), scope="device")
                else:
                    b.emit("fence", scope="device", order=s.order)

            cond = b.emit("eq", b.emit("mod", t, b.i(s.p)), b.i(s.q))
            if s.only is not None:
                cond = b.emit("and", cond, b.emit("eq", g, b.i(s.only)))
            b.when(cond, act)

    return program([x, flag], body)


def join(a, b):
    return [max(x, y) for x, y in zip(a, b, strict=True)]


def handover_races(steps, groups, block):
    """Vector clocks of all work-items, workgroups one after the other as the interpreter runs these kernels."""
    n = groups * block
    none = [0] * n
    clock = [list(none) for _ in range(n)]
    pending = [none] * n
    released = {}
    logs = {}
    accesses = {}
    found = set()
    for g in range(groups):
        items = [g * block + t for t in range(block)]
        passed, epoch = none, 0
        for line, s in enumerate(steps, 1):
            if s.kind == "barrier":
                for table in (clock, pending):
                    total = none
                    for i in items:
                        total = join(total, table[i])
                    for i in items:
                        table[i] = list(total)
                passed = none
                for i in items:
                    if i in released:
                        passed = join(passed, released[i][0])
                epoch += 1
                continue
            for t, i in enumerate(items):
                if not s.on(g, t):
                    continue
                clock[i] = list(clock[i])
                clock[i][i] += 1
                strong = s.atomic_order()
                if s.kind == "fence":
                    if s.order in ("acquire", "acq_rel"):
                        clock[i] = join(clock[i], pending[i])
                    if s.order in ("release", "acq_rel"):
                        released[i] = (list(clock[i]), epoch)
                elif s.kind in ("load", "store"):
                    for j, c, kind, other in accesses.setdefault(s.cell(g), []):
                        if j != i and "store" in (kind, s.kind) and clock[i][j] < c:
                            found.add(frozenset((line, other)))
                    accesses[s.cell(g)].append((i, clock[i][i], s.kind, line))
                else:
                    cell = s.cell(g)
                    if s.kind in ("rmw", "atomic load") and cell in logs:
                        if strong == "acquire" and s.kind == "atomic load":
                            clock[i] = join(clock[i], logs[cell])
                        else:
                            pending[i] = join(pending[i], logs[cell])
                    if s.kind == "atomic load":
                        continue
                    carries = none if s.kind == "atomic store" or cell not in logs else logs[cell]
                    if s.kind == "atomic store" and strong == "release":
                        carries = join(carries, clock[i])
                    else:
                        if i in released:
                            carries = join(carries, released[i][0])
                        if i not in released or released[i][1] < epoch:
                            carries = join(carries, passed)
                    logs[cell] = carries
    return found


def handover_steps(rng):
    """Half of them free, half a handing over in which a line may be missing or twice."""
    if rng.random() < 0.5:
        return [Handover(rng) for _ in range(rng.randint(4, 12))]
    steps = []
    for kind in ("store", "barrier", "fence", "rmw", "fence", "barrier", "load", "store"):
        for _ in range(rng.choices([0, 1, 2], [1, 8, 1])[0]):
            s = Handover(rng)
            s.kind = kind if kind != "rmw" else rng.choice(["rmw", "rmw", "atomic store", "atomic load"])
            s.p, s.q = rng.choices([(1, 0), (2, 0), (2, 1)], [1, 6, 1])[0]
            s.by_group, s.c, s.order = 0, 0, "acq_rel"
            s.only = {"store": rng.choice([0, 0, 2]), "load": rng.choice([1, 2])}.get(kind)
            steps.append(s)
    return steps


@pytest.mark.parametrize("seed", range(300))
def test_random_kernels_with_fences(seed):
    rng = random.Random(f"fences{seed}")
    steps = handover_steps(rng)
    x, flag = arrays((i32, i32))
    want = handover_races(steps, 3, 2)
    outcome = build_handover(steps, x, flag).run((3,), (2,), [np.zeros(2, np.int32), np.zeros(2, np.int32)], sanitize=RACE)
    got = {frozenset((r.line, r.other_line)) for r in outcome.reports}
    assert got <= want, "a report of what is no race"
    assert bool(got) == bool(want), "a race that is not reported"
