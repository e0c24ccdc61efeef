"""Structs, enums, `try`, callables, globals, references and raw pointers of host programs."""

from __future__ import annotations

import pytest
from host_tools import call, function, program

from magpie.host.panics import Panic
from magpie.host.values import PointerValue

NODE = """heap struct TNode {
    field n: i64
    field next: TOption<TNode>
}
value struct TPair {
    field a: i64
    field b: f32
}
"""


def test_a_heap_struct_is_one_object():
    text = NODE + function(
        "",
        "i64",
        """    %none: TOption<TNode> = enum.new<None>
    %n: TNode = new TNode { n=const.i64 1, next=%none }
    %some: TOption<TNode> = enum.new<Some> { v=%n }
    %m: TNode = new TNode { n=const.i64 2, next=%some }
    setfield { obj=%n, field=n, v=const.i64 40 }
    %o: TOption<TNode> = getfield { obj=%m, field=next }
    %p: TNode = enum.payload<Some> { v=%o }
    %x: i64 = getfield { obj=%p, field=n }
    %y: i64 = getfield { obj=%m, field=n }
    %r: i64 = i.add { a=%x, b=%y }
    ret %r""",
    )
    assert call(text) == 42


def test_clone_copies_an_object_and_not_its_parts():
    text = NODE + function(
        "",
        "i64",
        """    %none: TOption<TNode> = enum.new<None>
    %n: TNode = new TNode { n=const.i64 1, next=%none }
    %m: TNode = clone { v=%n }
    setfield { obj=%n, field=n, v=const.i64 5 }
    %x: i64 = getfield { obj=%m, field=n }
    ret %x""",
    )
    assert call(text) == 1


def test_weak_references():
    text = NODE + function(
        "%keep: bool",
        "TNode",
        """    %none: TOption<TNode> = enum.new<None>
    %n: TNode = new TNode { n=const.i64 1, next=%none }
    ret %n""",
        "make",
    ) + """fn @f() -> i64 {
bb0:
    %w: weak TNode = call @lost {}
    %n: TNode = call @make { keep=const.bool true }
    %v: weak TNode = weak.downgrade { v=%n }
    %a: TOption<TNode> = weak.upgrade { v=%w }
    %b: TOption<TNode> = weak.upgrade { v=%v }
    %x: i32 = enum.tag { v=%a }
    %y: i32 = enum.tag { v=%b }
    %p: i64 = cast<i32, i64> { v=%x }
    %q: i64 = cast<i32, i64> { v=%y }
    %t: i64 = i.mul { a=%p, b=const.i64 10 }
    %r: i64 = i.add { a=%t, b=%q }
    retain { v=%n }
    release { v=%n }
    ret %r
}
fn @lost() -> weak TNode {
bb0:
    %n: TNode = call @make { keep=const.bool false }
    %w: weak TNode = weak.downgrade { v=%n }
    ret %w
}
"""
    assert call(text) == 10  # the first is None, tag 1; the second is Some, tag 0


ENUM = """enum TShape {
    Empty
    Circle {
        field r: i64
    }
    Box {
        field w: i64
        field h: i64
    }
}
fn @box() -> TShape {
bb0:
    %s: TShape = enum.new<Box> { h=const.i64 3, w=const.i64 20 }
    ret %s
}
fn @empty() -> TShape {
bb0:
    %s: TShape = enum.new<Empty>
    ret %s
}
fn @r(%s: TShape) -> i64 {
bb0:
    %r: i64 = enum.payload<Circle> { v=%s }
    ret %r
}
fn @w(%s: TShape) -> i64 {
bb0:
    %w: i64 = enum.payload<Box> { v=%s, field=w }
    %h: i64 = enum.payload<Box> { v=%s, field=h }
    %d: i64 = i.sub { a=%w, b=%h }
    ret %d
}
fn @tag(%s: TShape) -> i32 {
bb0:
    %t: i32 = enum.tag { v=%s }
    ret %t
}
fn @is(%s: TShape) -> bool {
bb0:
    %t: bool = enum.is<Box> { v=%s }
    ret %t
}
"""


def test_enums():
    ready = program(ENUM)
    box, empty = ready.call("box"), ready.call("empty")
    assert ready.call("w", (box,)) == 17 and ready.call("tag", (box,)) == 2 and ready.call("is", (box,)) is True
    assert ready.call("tag", (empty,)) == 0 and ready.call("is", (empty,)) is False
    with pytest.raises(Panic, match="enum.payload<Circle> of Box"):
        ready.call("r", (box,))


TRY = """fn @half(%n: i64) -> TResult<i64, Str> {
bb0:
    %odd: i64 = i.srem { a=%n, b=const.i64 2 }
    %even: bool = icmp.eq { a=%odd, b=const.i64 0 }
    cbr %even bb1 bb2
bb1:
    %h: i64 = i.sdiv { a=%n, b=const.i64 2 }
    %ok: TResult<i64, Str> = enum.new<Ok> { v=%h }
    ret %ok
bb2:
    %no: TResult<i64, Str> = enum.new<Err> { v=const.Str "odd" }
    ret %no
}
fn @handed(%n: i64) -> TResult<Str, Str> {
bb0:
    %a: i64 = try @half { n=%n }
    %r: TResult<i64, Str> = call @half { n=%a }
    %b: i64 = try %r
    %s: Str = str.from { v=%b }
    %ok: TResult<Str, Str> = enum.new<Ok> { v=%s }
    ret %ok
}
fn @caught(%n: i64) -> Str {
bb0:
    %r: TResult<i64, Str> = call @half { n=%n }
    %a: i64 = try %r bb1
    %q: TResult<i64, Str> = call @half { n=%a }
    %b: i64 = try %q bb3
    br bb2
bb1:
    %e: Str = phi Str { [bb0: %r.err] }
    %again: Str = enum.payload<Err> { v=%r }
    %both: Str = str.concat { a=%e, b=%again }
    ret %both
bb2:
    %s: Str = str.from { v=%b }
    ret %s
bb3:
    %t: Str = str.concat { a=const.Str "late ", b=%q.err }
    ret %t
}
"""


def test_the_three_forms_of_try():
    ready = program(TRY)
    found = ready.call("handed", (12,))
    assert (found.variant, found.fields) == ("Ok", ("3",)) and str(found.type) == "TResult<Str, Str>"
    for n in (7, 6):
        found = ready.call("handed", (n,))
        assert (found.variant, found.tag, found.fields) == ("Err", 1, ("odd",)) and str(found.type) == "TResult<Str, Str>"
    assert [ready.call("caught", (n,)) for n in (12, 7, 6)] == ["3", "oddodd", "late odd"]


def test_a_result_of_unit():
    text = """fn @g() -> TResult<unit, Str> {
bb0:
    %ok: TResult<unit, Str> = enum.new<Ok> { v=const.unit }
    ret %ok
}
fn @f() -> TResult<i64, Str> {
bb0:
    %done: unit = try @g {}
    %ok: TResult<i64, Str> = enum.new<Ok> { v=const.i64 1 }
    ret %ok
}
"""
    assert call(text).fields == (1,)


def test_globals_are_one_object():
    text = """global @scale: i64 = const.i64 7
global @table: Array<i64> = [const.i64 1, const.i64 2]
fn @f() -> i64 {
bb0:
    %k: i64 = @scale
    %t: Array<i64> = @table
    arr.push { arr=%t, v=%k }
    %u: Array<i64> = @table
    %x: i64 = arr.get { arr=%u, idx=const.i64 2 }
    ret %x
}
"""
    assert call(text) == 7


def test_select_takes_values_of_any_type():
    text = function("%c: bool", "Str", '    %r: Str = select { cond=%c, a=const.Str "yes", b=const.Str "no" }\n    ret %r')
    assert call(text, True) == "yes" and call(text, False) == "no"


POINTERS = """unsafe fn @read(%p: rawptr<i32>, %n: i64) -> i32 {
bb0:
    %q: rawptr<i32> = ptr.add<i32> { p=%p, count=%n }
    %x: i32 = ptr.load<i32> { p=%q }
    ret %x
}
unsafe fn @write(%p: rawptr<i32>, %v: i32) -> unit {
bb0:
    ptr.store<i32> { p=%p, v=%v }
    ret
}
unsafe fn @null(%p: rawptr<i32>) -> bool {
bb0:
    %r: bool = ptr.is_null<i32> { p=%p }
    ret %r
}
"""


def test_raw_pointers_panic_where_c_would_crash():
    ready = program(POINTERS)
    memory = [10, 20, 30]
    p = PointerValue(memory, 1)
    ready.call("write", (p, 21))
    assert memory == [10, 21, 30] and [ready.call("read", (p, n)) for n in (-1, 0, 1)] == [10, 21, 30]
    for n in (2, -2, 2**62):
        with pytest.raises(Panic, match="the pointer points to element"):
            ready.call("read", (p, n))
    null = PointerValue(None)
    assert ready.call("null", (null,)) is True and ready.call("null", (p,)) is False
    with pytest.raises(Panic, match="null"):
        ready.call("write", (null, 1))
