"""Generic functions, structs and enums of `.mp`: which types they are used with, what they compute, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from host_tools import run

import magpie as mp
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir import parse_module, print_module, verify

pytestmark = pytest.mark.filterwarnings("error")

SAME = "fn @same<T: type>(%x: T) -> T {\nbb0:\n    ret %x\n}\n"
PAIR = """heap struct TPair<A: type, B: type> {
    field a: A
    field b: B
}
fn @pair<A: type, B: type>(%a: A, %b: B) -> TPair<A, B> {
bb0:
    %p: TPair<A, B> = new TPair<A, B> { a=%a, b=%b }
    ret %p
}
fn @swap<A, B>(%p: borrow TPair<A, B>) -> TPair<B, A> {
bb0:
    %a: A = getfield { obj=%p, field=a }
    %b: B = getfield { obj=%p, field=b }
    %q: TPair<B, A> = call @pair { a=%b, b=%a }
    ret %q
}
"""


def checked(text):
    return check_source(Source("module t\n" + text, "t.mp"))


def errors(text):
    return [(d.code, d.loc.line) for d in checked(text).diagnostics]


def names(text):
    return {f.name for f in checked(text).checked.functions}


def f(body, params="%i: i32, %s: Str, %d: f64"):
    return f"fn @f({params}) -> unit {{\nbb0:\n{body}\n    ret\n}}\n"


# --- which instances there are ----------------------------------------------------------------------------------------
def test_one_instance_for_each_set_of_types():
    body = """    %a: i32 = call @same { x=%i }
    %b: i32 = call @same<i32> { x=%a }
    %c: i32 = call @same { args=[%b] }
    %e: Str = call @same { x=%s }
    %g: Array<Str> = arr.new { v0=%e }
    %h: Array<Str> = call @same { x=%g }"""
    assert names(f(body) + SAME) == {"f", "same.i32", "same.Str", "same.Array.Str"}
    assert names(SAME) == set(), "what is not called is not made"


def test_types_come_from_operands_results_and_what_is_written():
    empty = "fn @empty<T: type>() -> Array<T> {\nbb0:\n    %a: Array<T> = arr.new\n    ret %a\n}\n"
    assert names(f("    %a: Array<i32> = call @empty {}") + empty) == {"f", "empty.i32"}
    assert names(f("    %a: borrow Array<Str> = call @empty {}") + empty) == {"f", "empty.Str"}
    assert names(f("    call_void @empty<f64> {}") + empty) == {"f", "empty.f64"}
    assert errors(f("    call_void @empty {}") + empty) == [("MPT0021", 4)]
    assert errors(f("    %a: Array<i32> = call @empty<f64> {}") + empty) == [("MPS0004", 4)]


def test_instances_ask_for_instances():
    body = "    %p: TPair<i32, Str> = call @pair { a=%i, b=%s }\n    %q: TPair<Str, i32> = call @swap { p=%p }"
    assert names(f(body) + PAIR) == {"f", "pair.i32.Str", "swap.i32.Str", "pair.Str.i32"}
    assert errors(f(body.replace("%q: TPair<Str, i32>", "%q: TPair<i32, Str>")) + PAIR) == [("MPS0004", 5)]


def test_a_module_with_instances_reads_back_from_its_text():
    body = "    %p: TPair<i32, Str> = call @pair { a=%i, b=%s }\n    %q: TPair<Str, i32> = call @swap { p=%p }"
    text = print_module(checked(f(body) + PAIR).checked)
    assert print_module(parse_module(text)) == text and verify(parse_module(text)) == []


def test_callables_of_generic_functions():
    text = "sig TUnary(i32) -> i32\n" + SAME + f("    %c: TCallable<TUnary> = callable.capture @same {}")
    assert names(text) == {"f", "same.i32"}
    const = "fn @first<A, B>(%a: A, %b: B) -> A {\nbb0:\n    ret %a\n}\n"
    capture = "    %c: TCallable<TUnary> = callable.capture @first { a=%i }"
    assert names("sig TUnary(Str) -> i32\n" + const + f(capture)) == {"f", "first.i32.Str"}
    assert errors("sig TUnary(Str) -> Str\n" + const + f(capture)) == [("MPT0017", 9)]


# --- errors -----------------------------------------------------------------------------------------------------------
def test_a_body_is_checked_for_the_types_that_it_is_used_with():
    add = "fn @twice<T: type>(%x: T) -> T {\nbb0:\n    %y: T = i.add { a=%x, b=%x }\n    ret %y\n}\n"
    assert errors(add) == []
    assert errors(add + f("    %a: i32 = call @twice { x=%i }")) == []
    (found,) = checked(add + f("    %a: f64 = call @twice { x=%d }")).diagnostics
    assert (found.code, found.loc.line) == ("MPS0004", 4) and "(in @twice<f64>)" in found.message
    both = f("    %a: f64 = call @twice { x=%d }\n    %b: Str = call @twice { x=%s }\n    %c: i32 = call @twice { x=%i }")
    assert errors(add + both) == [("MPS0004", 4)], "one fault of one place is told once"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("%a: i64 = call @same { x=%i }", "MPS0004"),
        ("%a: i32 = call @same<i32, i32> { x=%i }", "MPT0002"),
        ("%a: i32 = call @same<i64> { x=%i }", "MPS0004"),
        ("%a: i32 = call @same<i32> { y=%i }", "MPS0001"),
        ("%a: i32 = call @same { args=[%i, %i] }", "MPT0004"),
        ("%a: i32 = call @same { x=%z }", "MPS0002"),
        ("%a: foo = call @same<foo> { x=%i }", "MPT0001"),
        ("call_void @f<i32> { i=%i, s=%s, d=%d }", "MPT0002"),
        ("%c: TCallable<TOne> = callable.capture std.math.@sqrt {}", "MPT0017"),
        ("%c: TCallable<TOne> = callable.capture @none {}", "MPT0021"),
    ],
)
def test_calls(call, code):
    none = "fn @none<T: type>() -> i32 {\nbb0:\n    ret const.i32 0\n}\nsig TOne() -> i32\n"
    assert set(errors(f(f"    {call}") + SAME + none)) == {(code, 4)}


def test_instances_have_an_end():
    nest = "fn @nest<T: type>(%x: T) -> unit {\nbb0:\n    %a: Array<T> = arr.new { v0=%x }\n    call_void @nest { x=%a }\n    ret\n}\n"
    assert errors(nest + f("    call_void @nest { x=%i }")) == [("MPT0026", 5)]
    wide = "fn @wide<A, B>(%a: A, %b: B) -> unit {\nbb0:\n    %m: TP<A, B> = new TP<A, B> { a=%a, b=%b }\n"
    wide += "    call_void @wide { a=%m, b=%m }\n    ret\n}\nheap struct TP<A: type, B: type> {\n    field a: A\n    field b: B\n}\n"
    assert errors(wide + f("    call_void @wide { a=%i, b=%s }")) == [("MPT0026", 5)]
    loop = "fn @loop<T: type>(%x: T) -> unit {\nbb0:\n    call_void @loop { x=%x }\n    ret\n}\n"
    assert names(loop + f("    call_void @loop { x=%i }")) == {"f", "loop.i32"}


def test_elements_of_mlx_are_checked_in_instances():
    zeros = """fn @zeros<T: type>(%x: T, %shape: Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError> {
bb0:
    %r: TResult<mlx.TArray<T>, gpu.TError> = mlx.array.@full { shape=%shape, value=%x }
    ret %r
}
"""
    call = "    %r: TResult<mlx.TArray<TYPE>, gpu.TError> = call @zeros { x=VALUE, shape=%n }"
    good = call.replace("TYPE", "f64").replace("VALUE", "%d")
    assert errors(zeros + f(good, "%d: f64, %n: Array<u64>")) == []
    bad = "    call_void @zeros { x=%s, shape=%n }"
    found = errors(zeros + f(bad, "%s: Str, %n: Array<u64>"))
    assert set(found) == {("MPG_MLX_1002", 2), ("MPG_MLX_1002", 4)}


# --- what they compute ------------------------------------------------------------------------------------------------
def test_generic_programs_run():
    text = PAIR + """
enum TTree<T: type> {
    Leaf
    Fork {
        field value: T
        field left: TTree<T>
        field right: TTree<T>
    }
}

;;; The values of a tree from left to right.
fn @walk<T: type>(%t: borrow TTree<T>, %out: mutborrow Array<T>) -> unit {
bb0:
    %fork: bool = enum.is<Fork> { v=%t }
    cbr %fork bb1 bb2
bb1:
    %left: TTree<T> = enum.payload<Fork> { v=%t, field=left }
    %right: TTree<T> = enum.payload<Fork> { v=%t, field=right }
    %value: T = enum.payload<Fork> { v=%t, field=value }
    call_void @walk { t=%left, out=%out }
    arr.push { arr=%out, v=%value }
    call_void @walk { t=%right, out=%out }
    br bb2
bb2:
    ret
}

fn @leaf<T: type>(%value: T) -> TTree<T> {
bb0:
    %end: TTree<T> = enum.new<Leaf>
    %t: TTree<T> = enum.new<Fork> { value=%value, left=%end, right=%end }
    ret %t
}

sig TLength(Str) -> i64

fn @length(%s: Str) -> i64 {
bb0:
    %n: i64 = str.len { s=%s }
    ret %n
}

fn @apply<A, B>(%xs: borrow Array<A>, %p: TPair<B, B>) -> TPair<Array<A>, B> {
bb0:
    %b: B = getfield { obj=%p, field=b }
    %ys: Array<A> = clone { v=%xs }
    %q: TPair<Array<A>, B> = call @pair { a=%ys, b=%b }
    ret %q
}

fn @main() -> i64 {
bb0:
    %a: TTree<Str> = call @leaf { value="one" }
    %c: TTree<Str> = call @leaf { value="three" }
    %t: TTree<Str> = enum.new<Fork> { value="two,", left=%a, right=%c }
    %out: Array<Str> = arr.new
    call_void @walk { t=%t, out=%out }
    %text: Str = str.join { parts=%out, sep=" " }
    call_void @println { text=%text }
    %numbers: Array<i64> = arr.new
    %n: TTree<i64> = call @leaf { value=const.i64 7 }
    call_void @walk { t=%n, out=%numbers }
    %p: TPair<i64, Str> = call @pair { a=const.i64 1, b="b" }
    %q: TPair<Str, i64> = call @swap { p=%p }
    %first: Str = getfield { obj=%q, field=a }
    call_void @println { text=%first }
    %two: TPair<bool, bool> = call @pair { a=const.bool false, b=const.bool true }
    %r: TPair<Array<i64>, bool> = call @apply { xs=%numbers, p=%two }
    %ys: Array<i64> = getfield { obj=%r, field=a }
    %seven: i64 = arr.get { arr=%ys, idx=const.i64 0 }
    ret %seven
}
"""
    ran = run(text)
    assert ran.lines == ["one two, three", "b"] and ran.status == 7 and ran.err == ""


BACKENDS = ["interp", "cpu"] + (["vulkan"] if any(d.backend == "spv" for d in mp.devices()) else [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernels_call_generic_functions(tmp_path, backend):
    text = """module t
value struct TPair<A: type, B: type> {
    field a: A
    field b: B
}

fn @pair<A, B>(%a: A, %b: B) -> TPair<A, B> {
bb0:
    %p: TPair<A, B> = new TPair<A, B> { a=%a, b=%b }
    ret %p
}

fn @select<T: type>(%c: bool, %x: T, %y: T) -> T {
bb0:
    cbr %c bb1 bb2
bb1:
    ret %x
bb2:
    ret %y
}

gpu fn @k(%x: gpu.TBuffer<f32>, %n: gpu.TBuffer<i32>) -> unit target(spv) workgroup(32, 1, 1) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %a: f32 = gpu.buffer_load<f32> { buf=%x, idx=%g }
    %i: i32 = gpu.buffer_load<i32> { buf=%n, idx=%g }
    %c: bool = icmp.slt { a=%i, b=const.i32 0 }
    %p: TPair<f32, i32> = call @pair { a=%a, b=%i }
    %q: TPair<i32, f32> = call @pair { a=const.i32 -1, b=const.f32 0.5 }
    %pa: f32 = getfield { obj=%p, field=a }
    %pb: i32 = getfield { obj=%p, field=b }
    %qa: i32 = getfield { obj=%q, field=a }
    %qb: f32 = getfield { obj=%q, field=b }
    %s: f32 = call @select { c=%c, x=%qb, y=%pa }
    %t: i32 = call @select { c=%c, x=%qa, y=%pb }
    gpu.buffer_store<f32> { buf=%x, idx=%g, v=%s }
    gpu.buffer_store<i32> { buf=%n, idx=%g, v=%t }
    ret
}
"""
    path = tmp_path / "t.mp"
    path.write_text(text)
    rng = np.random.default_rng(4)
    x, n = rng.standard_normal(64).astype(np.float32), rng.integers(-9, 9, 64).astype(np.int32)
    a, b = x.copy(), n.copy()
    mp.load_module(path).k.launch(grid=2, args=(a, b), backend=backend)
    assert np.array_equal(a, np.where(n < 0, np.float32(0.5), x)) and np.array_equal(b, np.where(n < 0, -1, n))


@pytest.mark.parametrize("backend", BACKENDS)
def test_buffers_of_generic_structs(tmp_path, backend):
    path = tmp_path / "t.mp"
    path.write_text("""module t
value struct TPair<A: type> {
    field a: A
    field b: A
}
gpu fn @k(%x: gpu.TBuffer<TPair<f32>>, %y: gpu.TBuffer<TPair<i32>>) -> unit target(spv) workgroup(32, 1, 1) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %p: TPair<f32> = gpu.buffer_load<TPair<f32>> { buf=%x, idx=%g }
    %a: f32 = getfield { obj=%p, field=a }
    %b: f32 = getfield { obj=%p, field=b }
    %q: TPair<f32> = new TPair<f32> { a=%b, b=%a }
    gpu.buffer_store<TPair<f32>> { buf=%x, idx=%g, v=%q }
    %i: i32 = gpu.buffer_load_field<TPair<i32>> { buf=%y, idx=%g, field=a }
    gpu.buffer_store_field<TPair<i32>> { buf=%y, idx=%g, field=b, v=%i }
    ret
}
""")
    rng = np.random.default_rng(5)
    x = np.zeros(32, [("a", np.float32), ("b", np.float32)])
    y = np.zeros(32, [("a", np.int32), ("b", np.int32)])
    x["a"], x["b"], y["a"] = rng.standard_normal(32), rng.standard_normal(32), rng.integers(-9, 9, 32)
    swapped, kept = x.copy(), y["a"].copy()
    mp.load_module(path).k.launch(grid=1, args=(x, y), backend=backend)
    assert np.array_equal(x["a"], swapped["b"]) and np.array_equal(x["b"], swapped["a"])
    assert np.array_equal(y["a"], kept) and np.array_equal(y["b"], kept)


# --- value structs have an end ----------------------------------------------------------------------------------------
def test_generic_value_structs_have_an_end():
    text = "value struct TA<T: type> {\n    field x: T\n}\n"
    assert errors(text + "value struct TB {\n    field a: TA<i32>\n    field b: TA<TA<f32>>\n}\n") == []
    assert errors(text + "value struct TB {\n    field a: TA<TB>\n}\n") == [("MPT0011", 5)]
    assert errors(text + "value struct TB {\n    field a: TA<Array<TB>>\n}\n") == []  # on the heap
    assert errors("value struct TG<T: type> {\n    field x: TG<TG<T>>\n}\n") == [("MPT0011", 2)]
    assert errors("value struct TG<T: type> {\n    field x: TOption<TG<T>>\n}\n") == []


def test_generic_value_structs_are_not_too_large():
    double = "value struct TD<T: type> {\n    field a: T\n    field b: T\n}\n"
    nested = "i32"
    for count in (2**k for k in range(1, 41)):
        nested = f"TD<{nested}>"
        if count in (2, 4096, 8192, 2**40):
            wanted = [] if count <= 4096 else [("MPT0011", 6)]
            assert errors(double + f"fn @f(%x: {nested}) -> unit {{\nbb0:\n    ret\n}}\n") == wanted, count
            create = f"%r: TResult<gpu.TBuffer<{nested}>, gpu.TError> = gpu.host.@buffer_new "
            create += "{ dev=%dev, len=const.u64 1, usage_flags=const.u32 1 }"
            wanted = [] if count <= 4096 else [("MPT0011", 8)]
            assert errors(double + f(f"    {create}", "%dev: gpu.TDevice")) == wanted, count
