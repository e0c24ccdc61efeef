"""The interpreter on Kernel IR built node by node: control flow, memory, ids, barriers, debugging, the engine itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kir import arrays, program

from magpie.dtypes import ALL_DTYPES, StructType, bf16, bool_, f16, f32, f64, i8, i32, i64, index, u8, u32
from magpie.ir.nodes import Buffer, ConstArray, LocalArray, Scalar, SharedArray, Slot


def test_saxpy_with_a_guard():
    x, y = arrays((f32, f32))

    def body(b):
        i = b.gid()
        b.when(
            b.emit("lt", i, b.emit("extent", array=x, dim=0)),
            lambda: b.store(
                y, (i,), b.emit("add", b.emit("mul", b.emit("param", type=f32, name="a"), b.load(x, i)), b.load(y, i))
            ),
        )

    p = program([Scalar("a", f32), x, y], body)
    for n in (0, 1, 255, 256, 5000, 70001):
        a, c = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        outcome = p.run((-(-n // 256),), (256,), [2.0, a, c])
        assert (c == 2 * a + 1).all()
        assert not outcome.reports


def test_ids_in_three_dimensions():
    names = [("thread_id", d) for d in range(3)] + [("workgroup_id", d) for d in range(3)] + [("global_id", d) for d in range(3)]
    names += [("workgroup_size", d) for d in range(3)] + [("num_workgroups", d) for d in range(3)]
    out = Buffer("out", i64, 2, "write")

    def body(b):
        grid, block = (
            [b.emit(op, dim=d) for d in range(3)] for op in ("num_workgroups", "workgroup_size")
        )
        group = b.emit("workgroup_id", dim=2)
        for d in (1, 0):
            group = b.emit("add", b.emit("mul", group, grid[d]), b.emit("workgroup_id", dim=d))
        size = b.emit("mul", block[0], b.emit("mul", block[1], block[2]))
        row = b.emit("add", b.emit("mul", group, size), b.emit("linear_local_id"))
        for k, (op, d) in enumerate(names):
            b.store(out, (row, b.i(k)), b.cast(b.emit(op, dim=d), i64))
        b.store(out, (row, b.i(len(names))), b.cast(b.emit("subgroup_lane"), i64))
        b.store(out, (row, b.i(len(names) + 1)), b.cast(b.emit("subgroup_id"), i64))
        b.store(out, (row, b.i(len(names) + 2)), b.cast(b.emit("subgroup_count"), i64))

    p = program([out], body)
    for grid, block in (((3, 2, 2), (5, 3, 2)), ((7, 1, 1), (64, 1, 1)), ((1, 1, 9), (1, 1, 8)), ((200, 3, 1), (4, 4, 1))):
        found = np.full((np.prod(grid) * np.prod(block), len(names) + 3), -1, np.int64)
        p.run(grid, block, [found])
        row = 0
        n = int(np.prod(block))
        for gz, gy, gx in itertools.product(*(range(g) for g in reversed(grid))):
            for linear, (tz, ty, tx) in enumerate(itertools.product(*(range(s) for s in reversed(block)))):
                t, g = (tx, ty, tz), (gx, gy, gz)
                ids = [g[d] * block[d] + t[d] for d in range(3)]
                want = [*t, *g, *ids, *block, *grid, linear % 32, linear // 32, -(-n // 32)]
                assert found[row].tolist() == want
                row += 1


def collatz_steps(n):
    k = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    return k


def test_divergent_while_with_if_else():
    x, y = arrays((i32, i32))

    def body(b):
        i = b.gid()
        n, k = Slot("n", i32), Slot("k", i32)
        b.set(n, b.load(x, i))
        one, two, three = (b.const(c, i32) for c in (1, 2, 3))

        def trip():
            v = b.get(n)
            b.emit("break_if", b.emit("le", v, one))
            even = b.emit("eq", b.emit("and", v, one), b.const(0, i32))
            b.when(
                even,
                lambda: b.set(n, b.emit("floordiv", v, two)),
                lambda: b.set(n, b.emit("add", b.emit("mul", v, three), one)),
            )
            b.set(k, b.emit("add", b.get(k), one))

        b.forever(trip)
        b.store(y, (i,), b.get(k))

    a = np.arange(1, 513, dtype=np.int32)
    c = np.zeros_like(a)
    program([x, y], body).run((8,), (64,), [a, c])
    assert c.tolist() == [collatz_steps(int(n)) for n in a]


def test_break_continue_and_return_in_nested_loops():
    x, y = arrays((i32, i32))

    def body(b):
        i = b.gid()
        t = b.cast(i, i32)
        total = Slot("total", i32)
        with b.counted(b.i(0), b.i(10), b.i(1)) as j:
            jj = b.cast(j, i32)
            skip = b.emit("eq", b.emit("mod", b.emit("add", jj, t), b.const(3, i32)), b.const(0, i32))
            b.when(skip, lambda: b.emit("continue"))
            with b.counted(b.i(9), b.i(-1), b.i(-2)) as k:
                kk = b.cast(k, i32)
                b.when(b.emit("gt", b.emit("mul", jj, kk), t), lambda: b.emit("break"))

                def leave():
                    b.store(y, (i,), b.const(-1, i32))
                    b.emit("return")

                b.when(b.emit("eq", b.emit("add", jj, kk), b.const(16, i32)), leave)
                b.set(total, b.emit("add", b.get(total), b.emit("add", jj, kk)))
        b.store(y, (i,), b.get(total))

    def oracle(t):
        total = 0
        for j in range(10):
            if (j + t) % 3 == 0:
                continue
            for k in range(9, -1, -2):
                if j * k > t:
                    break
                if j + k == 16:
                    return -1
                total += j + k
        return total

    c = np.zeros(200, np.int32)
    program([x, y], body).run((4,), (50,), [c, c])
    assert c.tolist() == [oracle(t) for t in range(200)]


def test_continue_goes_to_step_and_slots_start_at_zero():
    (x,) = arrays((i32,))

    def body(b):
        n, odd = Slot("n", i32), Slot("odd", i32)
        one = b.const(1, i32)

        def trip():
            b.emit("break_if", b.emit("ge", b.get(n), b.cast(b.gid(), i32)))
            b.when(b.emit("eq", b.emit("and", b.get(n), one), b.const(0, i32)), lambda: b.emit("continue"))
            b.set(odd, b.emit("add", b.get(odd), one))

        b.forever(trip, lambda: b.set(n, b.emit("add", b.get(n), one)))
        b.store(x, (b.gid(),), b.get(odd))

    c = np.zeros(64, np.int32)
    program([x], body).run((1,), (64,), [c])
    assert c.tolist() == [n // 2 for n in range(64)]


def test_many_early_returns_and_deep_nesting():
    (x,) = arrays((i32,))

    def returns(b):
        i = b.gid()
        for k in range(150):
            def leave(k=k):
                b.store(x, (i,), b.const(k, i32))
                b.emit("return")

            b.when(b.emit("eq", i, b.i(k)), leave)
        b.store(x, (i,), b.const(-1, i32))

    c = np.zeros(160, np.int32)
    program([x], returns).run((5,), (32,), [c])
    assert c.tolist() == [*range(150), *[-1] * 10]

    def nested(b, depth=0):
        if depth == 60:
            b.store(x, (b.gid(),), b.const(7, i32))
            return
        if depth % 2:
            b.when(b.emit("ge", b.gid(), b.i(depth)), lambda: nested(b, depth + 1))
        else:
            def once():
                nested(b, depth + 1)
                b.emit("break")

            b.forever(once)

    c = np.zeros(64, np.int32)
    program([x], nested).run((1,), (64,), [c])
    assert c.tolist() == [0] * 59 + [7] * 5


def test_a_masked_loop_reads_nothing_with_an_empty_mask():
    x, y = arrays((i32, i32))

    def body(b):
        i = b.gid()
        k, s = Slot("k", index), Slot("s", i32)

        def trip():
            b.when(b.emit("ge", b.get(k), b.cast(b.load(x, i), index)), lambda: b.emit("break"))
            b.set(s, b.emit("add", b.get(s), b.load(y, b.get(k))))
            b.set(k, b.emit("add", b.get(k), b.i(1)))

        b.forever(trip)
        b.store(x, (i,), b.get(s))

    counts = np.array([0, 3, 1, 2], np.int32)
    table = np.array([10, 20, 30], np.int32)
    assert not program([x, y], body).run((1,), (4,), [counts, table]).reports
    assert counts.tolist() == [0, 60, 10, 30]


# --- memory -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("t", ALL_DTYPES, ids=str)
def test_copy_of_every_type_through_views(t):
    x, y = arrays((t, t))

    def body(b):
        b.store(y, (b.gid(),), b.load(x, b.gid()))

    p = program([x, y], body)
    raw = np.random.default_rng(3).integers(0, 256, 640 * t.itemsize, np.uint8)
    base = (raw & 1).view(bool) if t.is_bool else raw.view(t.numpy)
    if t.is_float:
        base = np.nan_to_num(base.astype(np.float32), posinf=1, neginf=1).astype(t.numpy) if t.bits < 64 else np.nan_to_num(base)
    for view in (base[:320], base[::-2], base[5:325], base.reshape(320, 2)[:, 1], np.broadcast_to(base[3], (320,))):
        out = np.zeros(960, t.numpy)
        target = out[1::3]
        p.run((5,), (64,), [view, target])
        assert (target == view).all()
        assert not out[0::3].any()
        assert not out[2::3].any()


def test_ranks_zero_to_four():
    rng = np.random.default_rng(0)
    for rank, shape in enumerate([(), (6,), (3, 4), (2, 3, 4), (2, 3, 2, 2)]):
        x, y = arrays((f32, f32), rank)
        n = int(np.prod(shape))

        def body(b, shape=shape, x=x, y=y):
            rest = b.gid()
            where = []
            for extent in reversed(shape):
                where.insert(0, b.emit("mod", rest, b.i(extent)))
                rest = b.emit("floordiv", rest, b.i(extent))
            b.store(y, tuple(where), b.emit("neg", b.load(x, *where)))

        a = rng.random(shape, np.float32)
        a = np.asarray(a, np.float32) if rank == 0 else a.T.copy().T
        c = np.zeros(shape, np.float32)
        program([x, y], body).run((1,), (n,), [a, c])
        assert (c == -a).all()


def test_overlapping_arguments_see_each_other():
    x, y = arrays((i32, i32))

    def body(b):
        i = b.gid()
        b.store(x, (i,), b.const(5, i32))
        b.store(x, (i,), b.emit("add", b.load(y, i), b.const(1, i32)))

    base = np.arange(10, dtype=np.int32)
    program([x, y], body).run((1,), (10,), [base, base])
    assert base.tolist() == [6] * 10


def test_struct_leaves_and_struct_scalars():
    inner = StructType.build("In", [("a", i8), ("b", f64)])
    outer = StructType.build("Out", [("n", i32), ("in", inner), ("flag", bool_)])
    x, y = Buffer("x", outer, 1, "read_write"), Buffer("y", f64, 1, "write")

    def body(b):
        i = b.gid()
        b.store(y, (i,), b.load(x, i, field=(1, 1)))
        b.store(x, (i,), b.emit("add", b.load(x, i, field=(0,)), b.emit("param", type=i32, name="s.n")), field=(0,))
        b.store(x, (i,), b.emit("not", b.load(x, i, field=(2,))), field=(2,))

    from kir import kernel

    from magpie.backends.interp.engine import Program
    from magpie.ir.nodes import Kernel

    k = kernel([x, y], body)
    original = Kernel("k", [x, y, Scalar("s", outer)])
    data = np.zeros(4, outer.numpy)
    data["in"]["b"] = [1, 2, 3, 4]
    data["n"] = 10
    c = np.zeros(4)
    scalar = np.zeros(1, outer.numpy)
    scalar["n"] = 7
    Program(k, original).run((1,), (4,), [data, c, scalar[0]])
    assert c.tolist() == [1, 2, 3, 4]
    assert data["n"].tolist() == [17] * 4
    assert data["flag"].all()
    packed = np.zeros(4, np.dtype([("n", "i4"), ("in", np.dtype([("a", "i1"), ("b", "f8")])), ("flag", "?")]))
    assert packed.itemsize == 14


def test_unaligned_struct_leaves():
    from magpie.dtypes import from_numpy

    dtype = np.dtype([("a", "i1"), ("b", "f4")])
    x = Buffer("x", from_numpy(dtype), 1, "read_write")

    def body(b):
        b.store(x, (b.gid(),), b.emit("add", b.load(x, b.gid(), field=(1,)), b.const(1.0, f32)), field=(1,))

    data = np.zeros(5, dtype)
    data["b"] = np.arange(5)
    program([x], body).run((1,), (5,), [data])
    assert data["b"].tolist() == [1, 2, 3, 4, 5]
    assert not data["a"].any()


def test_out_of_bounds_loads_give_zero_and_stores_are_skipped():
    x, y = arrays((i32, i32))

    def body(b):
        b.at(3)
        i = b.gid()
        v = b.load(x, b.emit("sub", i, b.i(2)))
        b.at(4)
        b.store(y, (b.emit("mul", i, b.i(3)),), b.emit("add", v, b.const(100, i32)))

    guard = np.full(40, -7, np.int32)
    c = guard[10:20]
    outcome = program([x, y], body).run((1,), (8,), [np.arange(4, dtype=np.int32), c])
    assert c.tolist() == [100, -7, -7, 100, -7, -7, 100, -7, -7, 101]
    assert (guard[:10] == -7).all()
    assert (guard[20:] == -7).all()
    assert [(r.code, r.line, r.count) for r in outcome.reports] == [("MPG_SAN_1003", 3, 4), ("MPG_SAN_1004", 4, 4)]
    assert outcome.reports[0].address == ("x", (-2,))
    assert outcome.error() is None
    assert outcome.error(checked=True) is not None


def test_unsigned_indices_past_the_signed_range_are_out_of_bounds():
    from magpie.dtypes import u64

    (x,) = arrays((i32,))
    p = program([x], lambda b: b.store(x, (b.const(2**64 - 1, u64),), b.const(1, i32)))
    c = np.zeros(4, np.int32)
    assert p.run((1,), (1,), [c]).reports
    assert not c.any()


def test_local_and_constant_arrays():
    x, y = arrays((i32, i32))
    local = LocalArray("a", i32, (2, 3))
    table = ConstArray("t", i32, (4,), (3, 1, 4, 1))

    def body(b):
        i = b.gid()
        k = b.emit("mod", i, b.i(3))
        b.store(local, (b.i(1), k), b.emit("add", b.load(local, b.i(1), k), b.cast(i, i32)))
        b.store(y, (i,), b.emit("add", b.load(local, b.i(1), k), b.load(table, b.emit("mod", i, b.i(4)))))
        b.store(x, (i,), b.load(local, b.i(0), b.i(0)))

    a, c = np.ones(9000, np.int32), np.zeros(9000, np.int32)
    program([x, y], body, locals=[local], consts=[table]).run((90,), (100,), [a, c])
    assert not a.any()
    assert c.tolist() == [i + (3, 1, 4, 1)[i % 4] for i in range(9000)]


def test_shared_memory_is_private_to_a_workgroup_and_may_be_dynamic():
    x, y = arrays((i32, i32))
    shared = SharedArray("s", i32, (("add", ("param", "n"), ("const", 0)),))

    def body(b):
        i, t = b.gid(), b.tid()
        b.store(shared, (t,), b.load(x, i))
        b.emit("barrier")
        last = b.emit("sub", b.emit("workgroup_size", dim=0), b.i(1))
        b.store(y, (i,), b.load(shared, b.emit("sub", last, t)))

    p = program([x, y, Scalar("n", i32)], body, shared=[shared])
    for block in (1, 7, 32, 100, 1024):
        a = np.arange(block * 13, dtype=np.int32)
        c = np.zeros_like(a)
        assert not p.run((13,), (block,), [a, c, block]).reports
        assert (c.reshape(13, block) == a.reshape(13, block)[:, ::-1]).all()


# --- barriers, waiting, debugging -------------------------------------------------------------------------------------------
def test_a_barrier_that_some_items_miss_is_reported():
    x, y = arrays((i32, i32))

    def divergent(b):
        b.at(5)
        odd = b.emit("lt", b.tid(), b.i(3))
        b.at(6)

        def arrive():
            b.at(7)
            b.emit("barrier")

        b.when(odd, arrive)
        b.store(y, (b.gid(),), b.const(1, i32))

    c = np.zeros(24, np.int32)
    outcome = program([x, y], divergent).run((3,), (8,), [c, c])
    (report,) = outcome.reports
    assert (report.code, report.line, report.other_line, report.count) == ("MPG_SAN_1006", 7, 6, 3)
    assert report.work_items == (((0, 0, 0), (0, 0, 0)), ((0, 0, 0), (3, 0, 0)))
    assert c.all()
    assert outcome.error() is not None

    def uneven(b):
        with b.counted(b.i(0), b.tid(), b.i(1)):
            b.at(9)
            b.emit("barrier")

    (report,) = program([x, y], uneven).run((1,), (4,), [c, c]).reports
    assert (report.code, report.line) == ("MPG_SAN_1014", 9)

    def returned(b):
        b.when(b.emit("eq", b.tid(), b.i(2)), lambda: b.emit("return"))
        b.emit("barrier")

    (report,) = program([x, y], returned).run((1,), (4,), [c, c]).reports
    assert "returned" in report.message


def test_a_barrier_that_whole_workgroups_skip_is_right():
    x, y = arrays((i32, i32))
    p = program([x, y], lambda b: b.when(b.emit("eq", b.emit("workgroup_id", dim=0), b.i(1)), lambda: b.emit("barrier")))
    c = np.zeros(4, np.int32)
    assert not p.run((4,), (8,), [c, c]).reports


def test_a_loop_that_waits_for_nobody_is_reported():
    (x,) = arrays((i32,))

    def body(b):
        b.at(2)
        _, inner, _ = b.loop()
        with b.into(inner):
            b.emit("break_if", b.emit("ne", b.load(x, b.i(0)), b.const(0, i32)))

    outcome = program([x], body).run((2,), (4,), [np.zeros(1, np.int32)])
    assert [(r.kind, r.line) for r in outcome.reports] == [("livelock", 2)]
    assert outcome.error().kind.name == "TimeoutExpired"
    assert not program([x], body).run((2,), (4,), [np.ones(1, np.int32)]).reports


def test_a_waiting_loop_that_counts_is_reported_too():
    x, y = arrays((i32, i32))

    def body(b):
        n = Slot("n", i32)
        _, inner, _ = b.loop()
        with b.into(inner):
            b.emit("break_if", b.emit("ne", b.load(x, b.i(0)), b.const(0, i32)))
            b.set(n, b.emit("add", b.get(n), b.const(1, i32)))
        b.store(y, (b.gid(),), b.get(n))

    c = np.zeros(4, np.int32)
    assert [r.kind for r in program([x, y], body).run((1,), (4,), [c, c]).reports] == ["livelock"]

    def ends(b):
        n = Slot("n", i32)
        _, inner, _ = b.loop()
        with b.into(inner):
            b.emit("break_if", b.emit("gt", b.get(n), b.const(100_000, i32)))
            b.set(n, b.emit("add", b.get(n), b.const(1, i32)))
        b.store(y, (b.gid(),), b.get(n))

    assert not program([x, y], ends).run((1,), (4,), [c, c]).reports
    assert c.tolist() == [100_001] * 4


def test_workgroups_may_wait_for_lower_ones():
    flag, y = arrays((i32, i32))

    def body(b):
        g = b.emit("workgroup_id", dim=0)

        def first():
            def wait():
                seen = b.emit("atomic_load", b.emit("sub", g, b.i(1)), array=flag, order="acquire", scope="device")
                b.emit("break_if", b.emit("ne", seen, b.const(0, i32)))

            b.when(b.emit("gt", g, b.i(0)), lambda: b.forever(wait))
            b.store(y, (g,), b.const(1, i32))
            b.emit("atomic_store", g, b.const(1, i32), array=flag, order="release", scope="device")

        b.when(b.emit("eq", b.tid(), b.i(0)), first)

    for order in (None, 1, 2):
        c = np.zeros(50, np.int32)
        outcome = program([flag, y], body).run((50,), (8,), [np.zeros(50, np.int32), c], order=order)
        assert not outcome.reports
        assert c.all()


def test_print_assert_and_trap():
    from magpie.backends.interp.sanitizer import Checks

    (x,) = arrays((f32,))

    def body(b):
        i = b.gid()
        b.at(3)

        def say():
            b.emit("print", i, b.load(x, i), pieces=("item ", " has ", "!"))

        b.when(b.emit("gt", i, b.i(1)), say)
        b.at(4)
        b.emit("assert", b.emit("lt", i, b.i(3)), message="i is {small}")

    p = program([x], body)
    a = np.array([0.5, 1.5, 0.1, 3.5], np.float32)
    outcome = p.run((1,), (4,), [a])
    assert outcome.prints == ["item 2 has 0.1!", "item 3 has 3.5!"]
    assert not outcome.reports
    (report,) = p.run((1,), (4,), [a], sanitize=Checks()).reports
    assert (report.kind, report.line) == ("assert", 4)
    assert "i is {small}" in report.message
    assert report.work_items == (((0, 0, 0), (3, 0, 0)),)

    stop = program([x], lambda b: b.when(b.emit("eq", b.gid(), b.i(2)), lambda: b.emit("trap", message="no")))
    outcome = stop.run((1,), (4,), [a])
    assert outcome.error() is not None


# --- the engine -------------------------------------------------------------------------------------------------------------
def test_index_arithmetic_is_64_bit():
    (x,) = arrays((i64,))

    def body(b):
        i = b.emit("add", b.gid(), b.i(70_000))
        b.store(x, (b.gid(),), b.cast(b.emit("floordiv", b.emit("mul", i, b.emit("sub", i, b.i(1))), b.i(2)), i64))

    c = np.zeros(10, np.int64)
    program([x], body).run((1,), (10,), [c])
    assert c.tolist() == [i * (i - 1) // 2 for i in range(70_000, 70_010)]


def test_uniform_values_stay_scalars_and_meet_varying_ones():
    (x,) = arrays((i32,))

    def body(b):
        n = Slot("n", i32)
        three = b.const(3, i32)
        b.set(n, b.emit("add", three, three))
        b.when(b.emit("gt", b.gid(), b.i(4)), lambda: b.set(n, b.emit("mul", b.get(n), three)))
        b.store(x, (b.gid(),), b.select(b.emit("gt", three, b.const(1, i32)), b.get(n), three))

    c = np.zeros(10, np.int32)
    program([x], body).run((1,), (10,), [c])
    assert c.tolist() == [6] * 5 + [18] * 5


@pytest.mark.parametrize("seed", range(4))
def test_order_changes_the_winner_of_a_racing_store_only(seed):
    x, y = arrays((i32, i32))

    def body(b):
        b.store(x, (b.i(0),), b.cast(b.gid(), i32))
        b.store(y, (b.gid(),), b.cast(b.gid(), i32))

    a, c = np.zeros(1, np.int32), np.zeros(640, np.int32)
    program([x, y], body).run((10,), (64,), [a, c], order=seed)
    assert c.tolist() == list(range(640))
    assert 0 <= a[0] < 640


def test_an_interrupt_leaves_the_program_usable(monkeypatch):
    from magpie.backends.interp import engine

    (x,) = arrays((i32,))
    p = program([x], lambda b: b.store(x, (b.gid(),), b.const(1, i32)))
    calls = []
    original = engine._Run.chunk

    def interrupted(self, chunk):
        calls.append(chunk)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(self, chunk)

    monkeypatch.setattr(engine._Run, "chunk", interrupted)
    c = np.zeros(20_000, np.int32)
    with pytest.raises(KeyboardInterrupt):
        p.run((200,), (100,), [c])
    monkeypatch.undo()
    assert not c.all()
    p.run((200,), (100,), [c])
    assert c.all()


def test_no_numpy_warnings_leak(recwarn):
    x, y = arrays((f16, i32))

    def body(b):
        v = b.load(x, b.gid())
        b.store(x, (b.gid(),), b.emit("div", b.emit("mul", v, v), b.const(0.0, f16)))
        b.store(y, (b.gid(),), b.emit("floordiv", b.const(1, i32), b.const(0, i32)))
        b.store(y, (b.gid(),), b.cast(b.emit("log", v), i32))

    a = np.array([60000, -1, 0, 1], np.float16)
    program([x, y], body).run((1,), (4,), [a, np.zeros(4, np.int32)])
    assert not recwarn.list


def test_bf16_memory_as_bits_or_as_ml_dtypes():
    x, y = arrays((bf16, f32))

    def body(b):
        v = b.load(x, b.gid())
        b.store(y, (b.gid(),), b.cast(v, f32))
        b.store(x, (b.gid(),), b.emit("add", v, b.const(1.0, bf16)))

    bits = np.array([0x3F80, 0x4000, 0x4040, 0xBF80], np.uint16)
    for a in (bits.copy(), bits.copy().view(bf16.numpy)):
        c = np.zeros(4, np.float32)
        program([x, y], body).run((1,), (4,), [a, c])
        assert c.tolist() == [1, 2, 3, -1]
        assert a.view(np.uint16).tolist() == [0x4000, 0x4040, 0x4080, 0]


def test_sanitized_results_are_the_same():
    from magpie.backends.interp.sanitizer import Checks

    x, y = arrays((u8, u32))

    def body(b):
        i = b.gid()
        s = Slot("s", u32)
        with b.counted(b.i(0), b.cast(b.load(x, i), index), b.i(1)) as k:
            b.set(s, b.emit("add", b.get(s), b.cast(b.emit("mul", k, i), u32)))
        b.store(y, (i,), b.get(s))

    p = program([x, y], body)
    a = (np.arange(5000) % 97).astype(np.uint8)
    plain, watched = np.zeros(5000, np.uint32), np.zeros(5000, np.uint32)
    p.run((50,), (100,), [a, plain])
    outcome = p.run((50,), (100,), [a, watched], sanitize=Checks.of(("race", "bounds", "uninit", "barrier", "divide", "overflow")))
    assert (plain == watched).all()
    assert not outcome.reports


def test_f64_scalars_and_wrong_counts():
    (x,) = arrays((f64,))
    p = program([x, Scalar("v", f64)], lambda b: b.store(x, (b.gid(),), b.emit("param", type=f64, name="v")))
    c = np.zeros(3)
    p.run((1,), (3,), [c, 0.1])
    assert c.tolist() == [0.1] * 3
    with pytest.raises(TypeError, match="2 arguments"):
        p.run((1,), (3,), [c])
