"""The passes: inlining, struct splitting, trip counts, webs, reaching definitions, uniformity."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from magpie.diagnostics import ERROR, WARNING, CompileError
from magpie.dtypes import StructType, bool_, f32, i32, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Buffer, Function, Kernel, LocalArray, Node, Scalar, SharedArray, Slot, walk
from magpie.ir.printer import print_kernel
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.inline import inline_calls
from magpie.passes.uniformity import Level, analyse, check_barriers
from magpie.passes.waiting import check_waiting


class Fixture:
    """A kernel under construction with the usual arrays."""

    def __init__(self, workgroup: tuple[int, int, int] | None = None) -> None:
        self.x = Buffer("x", f32, 1, "read")
        self.out = Buffer("out", f32, 1, "write")
        self.s = SharedArray("s", f32, (256,))
        self.k = Kernel("t", [self.x, self.out, Scalar("n", i32)], workgroup, [self.s])
        self.b = Builder(self.k.body)
        self.t = self.b.emit("thread_id", dim=0)
        self.w = self.b.emit("workgroup_id", dim=0)

    def f(self, v: float) -> Node:
        return self.b.const(v, f32)

    def i(self, v: int) -> Node:
        return self.b.const(v, index)

    def lt(self, a: Node, v: int) -> Node:
        return self.b.emit("lt", a, self.i(v))


def test_return_inside_a_loop_of_a_function_inlines() -> None:
    fx = Fixture()
    f = Function("find", [Scalar("limit", f32)], [index])
    fx.k.functions.append(f)
    b = Builder(f.body)
    with b.counted(b.const(0, index), b.const(10, index), b.const(1, index)) as i:
        big = b.emit("gt", b.load(fx.x, i), b.emit("param", type=f32, name="limit"))
        _, then, _ = b.if_(big)
        with b.into(then):
            b.emit("return", i)
    b.emit("return", b.const(-1, index))
    call = fx.b.emit("call", fx.f(1.0), function=f)
    fx.b.emit("call_result", type=index, call=call, index=0)
    r = fx.b.emit("call_result", type=index, call=call, index=0)
    fx.b.store(fx.out, (fx.t,), fx.b.cast(r, f32))
    verify(fx.k)
    p = prepare(fx.k)
    verify(p)
    ops = [n.op for n in walk(p.body)]
    assert "call" not in ops and "return" not in ops
    assert ops.count("loop") == 2  # the one-trip loop around the body, and the body's own
    assert ops.count("break_if") == 2  # the counted loop's test, and the flag behind it


def test_structs_split_into_scalars() -> None:
    point = StructType.build("P", [("x", f32), ("n", i32)])
    ps, out = Buffer("ps", point, 1, "read_write"), Buffer("out", f32, 1, "write")
    k = Kernel("t", [ps, out, Scalar("p", point)], None, [SharedArray("tile", point, (8,))])
    b = Builder(k.body)
    t = b.emit("thread_id", dim=0)
    q = Slot("q", point)
    b.set(q, b.load(ps, t))
    p = b.emit("param", type=point, name="p")
    made = b.emit(
        "struct_make",
        b.emit("struct_get", p, type=f32, field=0),
        b.emit("struct_get", b.get(q), type=i32, field=1),
        type=point,
    )
    b.store(k.shared[0], (t,), made)
    b.store(ps, (t,), made)
    b.store(out, (t,), b.emit("struct_get", b.load(k.shared[0], t), type=f32, field=0))
    verify(k)
    r = prepare(k)
    verify(r)
    assert (
        print_kernel(r)
        == """\
kernel t(ps: array<struct P{x: f32 @0, n: i32 @4; 8}, 1> read_write, out: array<f32, 1> write, p.x: f32, p.n: i32)
  shared tile.x: f32[8]
  shared tile.n: i32[8]
  %0 = thread_id 0
  %1 = load ps[%0].n
  slot_set q.n, %1
  %2 = param p.x: f32
  %3 = slot_get q.n: i32
  store tile.x[%0], %2
  store tile.n[%0], %3
  store ps[%0].x, %2
  store ps[%0].n, %3
  %4 = load tile.x[%0]
  store out[%0], %4
"""
    )


def _run_trip_count(start: int, stop: int, step: int) -> int:
    """Evaluate what `expand` makes of a trip_count, with Python integers that wrap at 64 bits."""
    k = Kernel("t", [Buffer("o", index, 1, "write")])
    b = Builder(k.body)
    n = b.emit("trip_count", *(b.const(v, index) for v in (start, stop, step)))
    b.store(k.buffers[0], (b.const(0, index),), n)
    values: dict[Node, int] = {}

    def wrap(v: int, node: Node) -> int:
        low = node.dtype.min if node.dtype.is_int else 0
        return (v - low) % (1 << 64) + low

    ops: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "tdiv": lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "bitcast": lambda a: a,
        "gt": lambda a, b: a > b,
        "lt": lambda a, b: a < b,
        "ne": lambda a, b: a != b,
        "and": lambda a, b: a and b,
        "abs": abs,
        "select": lambda c, a, b: a if c else b,
    }
    for node in prepare(k).body:
        if node.op == "const":
            values[node] = node.attrs["value"]
        elif node.op == "store":
            return values[node.args[1]]
        else:
            values[node] = wrap(ops[node.op](*(values[a] for a in node.args)), node)
    raise AssertionError


@pytest.mark.parametrize("start", [0, 1, -5, 2**31 - 3, -(2**62), 2**63 - 2, -(2**63)])
@pytest.mark.parametrize("stop", [0, 7, -9, 2**31 + 2, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("step", [1, 2, 7, -1, -3, 2**62, -(2**63)])
def test_trip_count_is_pythons(start: int, stop: int, step: int) -> None:
    r = range(start, stop, step)
    distance = r.stop - r.start if step > 0 else r.start - r.stop
    expected = max(0, (distance + abs(step) - 1) // abs(step))
    assert _run_trip_count(start, stop, step) == min(expected, 2**63 - 1)


def test_webs_split_a_reused_name() -> None:
    fx = Fixture()
    k = Slot("k", f32)
    fx.b.set(k, fx.f(1.0))
    a = fx.b.get(k)
    fx.b.store(fx.s, (fx.t,), a)
    _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
    with fx.b.into(then):
        fx.b.set(k, fx.b.load(fx.x, fx.t))
        fx.b.store(fx.out, (fx.t,), fx.b.get(k))
    p = prepare(fx.k)
    verify(p)
    names = {n.attrs["slot"].name for n in walk(p.body) if n.op in ("slot_get", "slot_set")}
    assert names == {"k", "k.1"}


def levels(fx: Fixture, *nodes: Node) -> list[Level]:
    verify(fx.k)
    u = analyse(fx.k)
    return [u.level(n) for n in nodes]


def test_slot_set_under_a_divergent_branch_varies_outside_it_only() -> None:
    fx = Fixture()
    keep = Slot("keep", f32)
    fx.b.set(keep, fx.f(0.0))
    _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
    with fx.b.into(then):
        fx.b.set(keep, fx.f(1.0))
        inside = fx.b.get(keep)
    outside = fx.b.get(keep)
    assert levels(fx, inside, outside) == [Level.CONST, Level.VARYING]


def test_temporal_divergence() -> None:
    # k counts in step for all who are still there, but those who left hold different counts
    fx = Fixture()
    k = Slot("k", index)
    fx.b.set(k, fx.i(0))
    _, body, step = fx.b.loop()
    with fx.b.into(body):
        inside = fx.b.get(k)
        fx.b.emit("break_if", fx.b.emit("ge", inside, fx.t))
    with fx.b.into(step):
        fx.b.set(k, fx.b.emit("add", fx.b.get(k), fx.i(1)))
    outside = fx.b.get(k)
    assert levels(fx, inside, outside) == [Level.CONST, Level.VARYING]


def test_a_divergent_continue_makes_what_is_set_behind_it_vary_in_the_next_trip() -> None:
    fx = Fixture()
    k = Slot("k", index)
    fx.b.set(k, fx.i(0))
    with fx.b.counted(fx.i(0), fx.i(4), fx.i(1)):
        at_top = fx.b.get(k)
        _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
        with fx.b.into(then):
            fx.b.emit("continue")
        fx.b.set(k, fx.i(5))
        behind = fx.b.get(k)
    assert levels(fx, at_top, behind) == [Level.VARYING, Level.CONST]


def test_a_set_in_an_earlier_trip_under_a_branch_varies_inside_that_branch() -> None:
    fx = Fixture()
    k = Slot("k", index)
    fx.b.set(k, fx.i(0))
    with fx.b.counted(fx.i(0), fx.i(4), fx.i(1)) as trip:
        _, then, _ = fx.b.if_(fx.b.emit("lt", fx.t, trip))
        with fx.b.into(then):
            before = fx.b.get(k)
            fx.b.set(k, trip)
            after = fx.b.get(k)
    assert levels(fx, before, after) == [Level.VARYING, Level.CONST]


def test_unknown_is_a_uniform_address_of_written_memory() -> None:
    fx = Fixture()
    fx.b.store(fx.s, (fx.t,), fx.f(1.0))
    same_interval = fx.b.load(fx.s, fx.i(0))
    fx.b.emit("barrier")
    next_interval = fx.b.load(fx.s, fx.i(0))
    read_only = fx.b.load(fx.x, fx.w)
    own = LocalArray("l", f32, (4,))
    fx.k.locals.append(own)
    private = fx.b.load(own, fx.i(0))
    u = analyse(fx.k)
    assert [u.level(n) for n in (same_interval, next_interval, read_only, private)] == [
        Level.WORKGROUP,
        Level.WORKGROUP,
        Level.WORKGROUP,
        Level.VARYING,
    ]
    assert [u.unknown(n) for n in (same_interval, next_interval, read_only)] == [True, False, False]


def test_a_store_behind_the_back_edge_is_in_the_interval() -> None:
    fx = Fixture()
    with fx.b.counted(fx.i(0), fx.i(4), fx.i(1)):
        first = fx.b.load(fx.s, fx.i(0))
        fx.b.emit("barrier")
        second = fx.b.load(fx.s, fx.i(0))
        fx.b.emit("barrier")
        fx.b.store(fx.s, (fx.t,), fx.f(1.0))
    u = analyse(fx.k)
    assert [u.unknown(n) for n in (first, second)] == [True, False]


def test_quotients() -> None:
    fx = Fixture((64, 1, 1))
    g = fx.b.emit("global_id", dim=0)
    q = [
        fx.b.emit("floordiv", g, fx.i(64)),
        fx.b.emit("floordiv", g, fx.b.emit("workgroup_size", dim=0)),
        fx.b.emit("shr", g, fx.i(6)),
        fx.b.emit("mod", g, fx.i(64)),
        fx.b.emit("and", g, fx.i(63)),
        fx.b.emit("floordiv", g, fx.i(32)),
        fx.b.emit("floordiv", fx.t, fx.i(32)),
    ]
    for v in q:
        fx.b.store(fx.out, (v,), fx.f(0.0))
    p = prepare(fx.k)
    stores = [n.args[0] for n in p.body if n.op == "store"]
    assert [n.op for n in stores] == ["workgroup_id"] * 3 + ["thread_id"] * 2 + ["floordiv"] * 2
    assert analyse(p, gang=16).level(stores[-1]) is Level.SUBGROUP
    assert analyse(p, gang=64).level(stores[-1]) is Level.VARYING


def _barrier_cases() -> dict[str, tuple[Callable[[Fixture], None], str]]:
    def under_varying_if(fx: Fixture) -> None:
        _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
        with fx.b.into(then):
            fx.b.emit("barrier")

    def under_uniform_if(fx: Fixture) -> None:
        _, then, _ = fx.b.if_(fx.lt(fx.w, 3))
        with fx.b.into(then):
            fx.b.emit("barrier")

    def in_varying_loop(fx: Fixture) -> None:
        with fx.b.counted(fx.i(0), fx.t, fx.i(1)):
            fx.b.emit("barrier")

    def in_uniform_loop(fx: Fixture) -> None:
        with fx.b.counted(fx.i(0), fx.w, fx.i(1)):
            fx.b.emit("barrier")

    def behind_varying_return(fx: Fixture) -> None:
        _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
        with fx.b.into(then):
            fx.b.emit("return")
        fx.b.emit("barrier")

    def behind_uniform_return(fx: Fixture) -> None:
        _, then, _ = fx.b.if_(fx.lt(fx.w, 3))
        with fx.b.into(then):
            fx.b.emit("return")
        fx.b.emit("barrier")

    def behind_varying_continue(fx: Fixture) -> None:
        with fx.b.counted(fx.i(0), fx.i(4), fx.i(1)):
            _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
            with fx.b.into(then):
                fx.b.emit("continue")
            fx.b.emit("barrier")

    def behind_loop_with_varying_return(fx: Fixture) -> None:
        with fx.b.counted(fx.i(0), fx.i(4), fx.i(1)):
            _, then, _ = fx.b.if_(fx.lt(fx.t, 3))
            with fx.b.into(then):
                fx.b.emit("return")
        fx.b.emit("barrier")

    def return_behind_varying_break(fx: Fixture) -> None:
        _, body, _ = fx.b.loop()
        with fx.b.into(body):
            fx.b.emit("break_if", fx.lt(fx.t, 3))
            fx.b.emit("return")
        fx.b.emit("barrier")

    def behind_varying_loop(fx: Fixture) -> None:  # all meet again behind it
        with fx.b.counted(fx.i(0), fx.t, fx.i(1)):
            pass
        fx.b.emit("barrier")

    def under_flag(fx: Fixture) -> None:
        fx.b.store(fx.s, (fx.t,), fx.f(1.0))
        _, then, _ = fx.b.if_(fx.b.emit("gt", fx.b.load(fx.s, fx.i(0)), fx.f(0.0)))
        with fx.b.into(then):
            fx.b.emit("barrier")

    def under_asserted(fx: Fixture) -> None:
        _, then, _ = fx.b.if_(fx.b.emit("uniform", fx.lt(fx.t, 3)))
        with fx.b.into(then):
            fx.b.emit("barrier")

    def under_varying_slot(fx: Fixture) -> None:
        flag = Slot("flag", bool_)
        fx.b.set(flag, fx.lt(fx.t, 3))
        _, then, _ = fx.b.if_(fx.b.get(flag))
        with fx.b.into(then):
            fx.b.emit("barrier")

    return {
        f.__name__: (f, expected)
        for f, expected in (
            (under_varying_if, "error"),
            (under_uniform_if, ""),
            (in_varying_loop, "error"),
            (in_uniform_loop, ""),
            (behind_varying_return, "error"),
            (behind_uniform_return, ""),
            (behind_varying_continue, "error"),
            (behind_loop_with_varying_return, "error"),
            (return_behind_varying_break, "error"),
            (behind_varying_loop, ""),
            (under_flag, "warning"),
            (under_asserted, ""),
            (under_varying_slot, "error"),
        )
    }


@pytest.mark.parametrize("name", _barrier_cases())
def test_barrier(name: str) -> None:
    build, expected = _barrier_cases()[name]
    fx = Fixture()
    build(fx)
    verify(fx.k)
    found = check_barriers(fx.k)
    severities = {ERROR: "error", WARNING: "warning"}
    assert [severities[d.severity] for d in found] == ([expected] if expected else [])
    assert all(d.code == ("MPG_CORE_1401" if expected == "warning" else "MPG_CORE_1400") for d in found)
    if expected == "error":
        assert any("thread_id(0)" in text for text, _ in found[0].notes)


def _waiting_cases() -> dict[str, tuple[Callable[[Fixture], None], bool]]:
    def polls(fx: Fixture) -> None:
        _, body, _ = fx.b.loop()
        with fx.b.into(body):
            fx.b.emit("break_if", fx.b.emit("ne", fx.b.load(fx.x, fx.i(0)), fx.f(0.0)))

    def polls_through_a_slot(fx: Fixture) -> None:
        v = Slot("v", f32)
        fx.b.set(v, fx.f(0.0))
        _, body, step = fx.b.loop()
        with fx.b.into(body):
            fx.b.emit("break_if", fx.b.emit("ne", fx.b.get(v), fx.f(0.0)))
        with fx.b.into(step):
            fx.b.set(v, fx.b.load(fx.x, fx.w))

    def polls_atomically(fx: Fixture) -> None:
        _, body, _ = fx.b.loop()
        with fx.b.into(body):
            v = fx.b.emit("atomic_load", fx.i(0), array=fx.x, order="acquire", scope="device")
            fx.b.emit("break_if", fx.b.emit("ne", v, fx.f(0.0)))

    def searches(fx: Fixture) -> None:
        k = Slot("k", index)
        fx.b.set(k, fx.i(0))
        _, body, step = fx.b.loop()
        with fx.b.into(body):
            fx.b.emit("break_if", fx.b.emit("ne", fx.b.load(fx.x, fx.b.get(k)), fx.f(0.0)))
        with fx.b.into(step):
            fx.b.set(k, fx.b.emit("add", fx.b.get(k), fx.i(1)))

    def counts(fx: Fixture) -> None:
        with fx.b.counted(fx.i(0), fx.i(8), fx.i(1)):
            fx.b.load(fx.x, fx.i(0))

    def stores_itself(fx: Fixture) -> None:
        _, body, _ = fx.b.loop()
        with fx.b.into(body):
            fx.b.emit("break_if", fx.b.emit("ne", fx.b.load(fx.s, fx.i(0)), fx.f(0.0)))
            fx.b.store(fx.s, (fx.t,), fx.f(1.0))

    cases = (polls, True), (polls_through_a_slot, True), (polls_atomically, False), (searches, False)
    return {f.__name__: (f, e) for f, e in (*cases, (counts, False), (stores_itself, False))}


@pytest.mark.parametrize("name", _waiting_cases())
def test_waiting_on_a_plain_load(name: str) -> None:
    build, expected = _waiting_cases()[name]
    fx = Fixture()
    build(fx)
    verify(fx.k)
    assert [d.code for d in check_waiting(fx.k)] == (["MPG_CORE_1402"] if expected else [])


def test_calls_that_multiply_are_refused_before_they_are_copied() -> None:
    region: list[Node] = []
    functions = [Function("f0", [Scalar("v", f32)], [f32])]
    b = Builder(functions[0].body)
    b.emit("return", b.emit("param", type=f32, name="v"))
    for n in range(1, 40):
        below, f = functions[-1], Function(f"f{n}", [Scalar("v", f32)], [f32])
        b = Builder(f.body)
        v = b.emit("param", type=f32, name="v")
        calls = [b.emit("call", v, function=below) for _ in range(2)]
        results = [b.emit("call_result", type=f32, call=c, index=0) for c in calls]
        b.emit("return", b.emit("add", *results))
        functions.append(f)
    b = Builder(region)
    b.emit("call", b.const(1.0, f32), function=functions[-1])
    kernel = Kernel("k", functions=functions, body=region)
    with pytest.raises(CompileError) as caught:
        inline_calls(kernel)
    (found,) = caught.value.diagnostics
    assert found.code == "MPG_CORE_1410" and f"{9 * 2**39 - 5:,} operations" in found.message  # 2 in f0, then 7 and twice the last
    b = Builder(region := [])
    b.emit("call", b.const(1.0, f32), function=functions[10])
    assert inline_calls(Kernel("k", functions=functions[:11], body=region)).functions == []
