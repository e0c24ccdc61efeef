"""Generic functions of `.mp` files: their instances on the host and in kernels, and what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
from host_tools import HEAD, program, run

import magpie as mp
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir import parse_module, print_module

TEXT = """sig TOne(i64) -> i64
fn @same<T: type>(%x: T) -> T {
bb0:
    ret %x
}
fn @last<T: type>(%a: borrow Array<T>) -> TResult<T, Str> {
bb0:
    %n: i64 = arr.len { arr=%a }
    %some: bool = icmp.sgt { a=%n, b=const.i64 0 }
    cbr %some bb1 bb2
bb1:
    %k: i64 = i.sub { a=%n, b=const.i64 1 }
    %x: T = arr.get { arr=%a, idx=%k }
    %y: T = call @same { args=[%x] }
    %ok: TResult<T, Str> = enum.new<Ok> { v=%y }
    ret %ok
bb2:
    %no: TResult<T, Str> = enum.new<Err> { v="nothing" }
    ret %no
}
fn @pair<K: type, V: type>(%k: K, %v: V) -> Map<K, V> {
bb0:
    %m: Map<K, V> = map.new
    map.set { map=%m, key=%k, v=%v }
    ret %m
}
fn @none<T: type>() -> Array<T> {
bb0:
    %a: Array<T> = arr.new
    ret %a
}
"""


def main(body, result="i64"):
    return f"{TEXT}fn @main() -> {result} {{\nbb0:\n{body}\n}}\n"


def test_types_follow_from_arguments_and_results():
    ran = run(
        main("""    %a: Array<Str> = arr.new { v0="a", v1="b" }
    %s: Str = try @last { a=%a }
    call_void @println { text=%s }
    %i: Array<i64> = arr.new { v0=const.i64 7 }
    %x: i64 = try @last { a=%i }
    %m: Map<i64, Str> = call @pair { v=%s, k=%x }
    %keys: Array<i64> = map.keys { map=%m }
    %key: i64 = try @last { args=[%keys] }
    %e: Array<Array<bool>> = call @none {}
    %n: i64 = arr.len { arr=%e }
    %same: TCallable<TOne> = callable.capture @same {}
    %j: Array<i64> = arr.map { arr=%i, fn=%same }
    %y: i64 = try @last { a=%j }
    %p: i64 = i.add { a=%key, b=%n }
    %q: i64 = i.add { a=%p, b=%y }
    %r: TResult<i64, Str> = enum.new<Ok> { v=%q }
    ret %r""", "TResult<i64, Str>")
    )  # fmt: skip
    assert (ran.status, ran.out, ran.err) == (14, "b\n", "")


def test_types_in_angle_brackets():
    ran = run(
        main("""    %a: Array<i64> = call @none<i64> {}
    %r: TResult<i64, Str> = call @last<i64> { a=%a }
    %x: i64 = try %r bb1
    ret %x
bb1:
    call_void @println { text=%r.err }
    ret const.i64 3""")
    )
    assert (ran.status, ran.out) == (3, "nothing\n")


def test_an_instance_is_made_once_and_named_after_its_types():
    module = program(
        main("""    %a: i64 = call @same { x=const.i64 1 }
    %b: i64 = call @same<i64> { x=%a }
    %c: Array<i64> = call @none<i64> {}
    %d: Array<i64> = call @same { x=%c }
    ret %b""")
    ).module
    names = [f.name for f in module.functions]
    assert names == ["same.i64", "same.Array.i64", "none.i64", "main"]
    assert print_module(parse_module(print_module(module), "t.mpir")) == print_module(module)


def test_a_generic_function_may_call_itself():
    text = """fn @down<T: type>(%x: T, %n: i64) -> T {
bb0:
    %end: bool = icmp.eq { a=%n, b=const.i64 0 }
    cbr %end bb1 bb2
bb1:
    ret %x
bb2:
    %less: i64 = i.sub { a=%n, b=const.i64 1 }
    %y: T = call @down { x=%x, n=%less }
    ret %y
}
fn @main() -> i64 {
bb0:
    %s: Str = call @down { x="x", n=const.i64 1000 }
    %r: i64 = call @down { x=const.i64 5, n=const.i64 3 }
    ret %r
}
"""
    assert run(text).status == 5


def test_a_panic_names_the_instance():
    text = """fn @half<T: type>(%x: T, %y: T) -> T {
bb0:
    %r: T = i.sdiv { a=%x, b=%y }
    ret %r
}
fn @main() -> i64 {
bb0:
    %r: i64 = call @half { x=const.i64 1, y=const.i64 0 }
    ret %r
}
"""
    ran = run(text)
    assert ran.status == 101 and "in @half.i64, t.mp:5\n  in @main, t.mp:10" in ran.err


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_kernels_call_instances(tmp_path, backend):
    path = tmp_path / "k.mp"
    path.write_text("""module k
value struct TPair<T: type> {
    field a: T
    field b: T
}
fn @sum<T: type>(%p: TPair<T>) -> T {
bb0:
    %a: T = getfield { obj=%p, field=a }
    %b: T = getfield { obj=%p, field=b }
    %r: T = f.add { a=%a, b=%b }
    ret %r
}
gpu fn @k(%x: gpu.TBuffer<f32>, %y: gpu.TBuffer<f64>) -> unit target(spv) workgroup(32, 1, 1) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %a: f32 = gpu.buffer_load<f32> { buf=%x, idx=%g }
    %b: f64 = gpu.buffer_load<f64> { buf=%y, idx=%g }
    %p: TPair<f32> = new TPair<f32> { a=%a, b=%a }
    %q: TPair<f64> = new TPair<f64> { a=%b, b=const.f64 0.5 }
    %c: f32 = call @sum { p=%p }
    %d: f64 = call @sum<f64> { p=%q }
    gpu.buffer_store<f32> { buf=%x, idx=%g, v=%c }
    gpu.buffer_store<f64> { buf=%y, idx=%g, v=%d }
    ret
}
""")
    x, y = np.arange(32, dtype=np.float32), np.arange(32, dtype=np.float64)
    mp.load_module(path).k.launch(grid=1, args=(x, y), backend=backend)
    assert np.array_equal(x, 2 * np.arange(32)) and np.array_equal(y, np.arange(32) + 0.5)


def errors(text):
    return [(d.code, d.loc.line, d.message) for d in check_source(Source(HEAD + text, "t.mp")).diagnostics]


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("%x: i64 = call @same<i64, i64> { x=const.i64 1 }", "MPT0002", "has 1 type parameters, and here are 2"),
        ("%x: i64 = call @same<4> { x=const.i64 1 }", "MPT0002", "has 1 type parameters"),
        ("call_void @none {}", "MPT0021", "do not say what T is"),
        ("%m: i64 = call @pair { k=const.i64 1, v=const.i64 1 }", "MPS0004", "gives Map<i64, i64>, not i64"),
        ("%x: i32 = call @same<i32> { x=const.i64 1 }", "MPS0004", "has type i64, wanted i32"),
        ("%x: i64 = call @same<i64> { y=const.i64 1 }", "MPS0001", "is given"),
        ("%x: i64 = call @same<TNone> { x=const.i64 1 }", "MPT0001", "no type TNone"),
    ],
)
def test_what_cannot_be_told(call, code, words):
    (found,) = errors(main(f"    {call}\n    ret const.i64 0"))
    assert found[0] == code and words in found[2] and found[1] == 3 + TEXT.count("\n") + 2


def test_what_is_wrong_in_a_generic_function_is_said_once():
    text = """fn @sum<T: type>(%x: T) -> T {
bb0:
    %y: T = i.add { a=%x, b=%z }
    ret %y
}
fn @main() -> i64 {
bb0:
    %a: i64 = call @sum { x=const.i64 1 }
    %b: i32 = call @sum { x=const.i32 1 }
    ret %a
}
"""
    (found,) = errors(text)
    assert found[:2] == ("MPS0002", 5)


def test_a_generic_function_that_nobody_calls_is_no_error():
    assert errors(TEXT) == []


def test_an_async_function_runs_where_it_is_called():
    text = """async fn @later(%x: i64) -> i64 {
bb0:
    call_void @println { text="later" }
    ret %x
}
fn @main() -> i64 {
bb0:
    %x: i64 = call @later { x=const.i64 4 }
    call_void @println { text="done" }
    ret %x
}
"""
    ran = run(text)
    assert (ran.status, ran.out) == (4, "later\ndone\n")


@pytest.mark.parametrize("larger", ["Array<T>", "TResult<T, T>", "TOption<TResult<T, Array<T>>>"])
def test_instances_have_an_end(larger):
    text = f"""fn @f<T: type>(%x: Array<T>) -> unit {{
bb0:
    %a: Array<{larger}> = arr.new
    call_void @f {{ x=%a }}
    call_void @f {{ x=%x }}
    ret
}}
fn @main() -> i64 {{
bb0:
    %a: Array<i64> = arr.new
    call_void @f {{ x=%a }}
    ret const.i64 0
}}
"""
    (found,) = errors(text)
    assert found[:2] == ("MPT0026", 6)


def test_many_instances_have_an_end():
    types = [f"{a}{b}" for a in "iu" for b in (8, 16, 32, 64)]
    body = "".join(f"    call_void @f<{a}, {b}, {c}, {d}> {{}}\n" for a in types for b in types for c in types for d in types[:2])
    text = f"fn @f<A: type, B: type, C: type, D: type>() -> unit {{\nbb0:\n    ret\n}}\nfn @main() -> unit {{\nbb0:\n{body}    ret\n}}\n"
    (found,) = errors(text)
    assert found[0] == "MPT0026" and found[1] == 9 + 1000
