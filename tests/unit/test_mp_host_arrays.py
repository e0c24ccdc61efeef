"""Arrays and maps of host programs, against Python's lists and dicts."""

from __future__ import annotations

import math
import random

import pytest
from host_tools import call, function, program

from magpie.host.panics import Panic
from magpie.host.values import ArrayValue
from magpie.mpir.types import Ty

I32, F64 = Ty("i32"), Ty("f64")
ARRAY_OPS = {
    "len": ("i64", ""),
    "get": ("i32", "%idx: i64"),
    "set": ("", "%idx: i64, %v: i32"),
    "push": ("", "%v: i32"),
    "pop": ("TOption<i32>", ""),
    "insert": ("", "%idx: i64, %v: i32"),
    "remove": ("i32", "%idx: i64"),
    "clear": ("", ""),
    "fill": ("", "%v: i32"),
    "slice": ("Array<i32>", "%start: i64, %end: i64"),
    "contains": ("bool", "%v: i32"),
    "find": ("TOption<i64>", "%v: i32"),
    "reverse": ("", ""),
    "sort": ("", ""),
    "clone": ("Array<i32>", ""),
}


def one(name, result, params, kind="arr", owner="Array<i32>"):
    given = "".join(f", {p.split(':')[0][1:]}={p.split(':')[0]}" for p in params.split(", ") if p)
    op = f"{name} {{ v=%{kind}" if name == "clone" else f"{kind}.{name} {{ {kind}=%{kind}"
    body = f"{op}{given} }}"
    text = f"    %r: {result} = {body}\n    ret %r" if result else f"    {body}\n    ret"
    return function(f"%{kind}: {owner}" + (f", {params}" if params else ""), result or "unit", text, name)


ARRAYS = program("".join(one(name, result, params) for name, (result, params) in ARRAY_OPS.items()))


def option(value):
    return value.fields[0] if value.variant == "Some" else None


def test_an_array_is_a_list():
    rng = random.Random(1)
    mine, theirs = ArrayValue(I32, []), []
    do = ARRAYS.call
    for _ in range(4000):
        name = rng.choice([n for n in ARRAY_OPS if n != "clear"] if len(theirs) < 40 else list(ARRAY_OPS))
        k, v = rng.randint(-1, len(theirs) + 1), rng.randint(0, 20)
        try:
            match name:
                case "len":
                    want = len(theirs)
                    assert do("len", (mine,)) == want
                case "get" | "remove":
                    want = (theirs[k] if name == "get" else theirs.pop(k)) if 0 <= k < len(theirs) else None
                    assert do(name, (mine, k)) == want
                case "set":
                    want = None
                    if 0 <= k < len(theirs):
                        theirs[k] = want = v
                    do("set", (mine, k, v))
                case "insert":
                    want = None
                    if 0 <= k <= len(theirs):
                        want = theirs.insert(k, v) or v
                    do("insert", (mine, k, v))
                case "push":
                    want = theirs.append(v) or v
                    do("push", (mine, v))
                case "pop":
                    want = 0
                    assert option(do("pop", (mine,))) == (theirs.pop() if theirs else None)
                case "slice":
                    end = rng.randint(-1, len(theirs) + 1)
                    want = theirs[k:end] if 0 <= k <= end <= len(theirs) else None
                    assert do("slice", (mine, k, end)).items == want
                case "contains":
                    want = 0
                    assert do("contains", (mine, v)) is (v in theirs)
                case "find":
                    want = 0
                    assert option(do("find", (mine, v))) == (theirs.index(v) if v in theirs else None)
                case "clone":
                    want = 0
                    copy = do("clone", (mine,))
                    assert copy is not mine and copy.items == theirs and copy.items is not mine.items
                case _:
                    want = 0
                    do(name, (mine, v) if name == "fill" else (mine,))
                    theirs[:] = {"fill": [v] * len(theirs), "clear": []}.get(name, theirs)
                    theirs.sort() if name == "sort" else theirs.reverse() if name == "reverse" else None
            assert want is not None
        except Panic:
            assert want is None, (name, k)
        assert mine.items == theirs


def test_what_panics_says_the_place_and_the_length():
    with pytest.raises(Panic) as caught:
        ARRAYS.call("get", (ArrayValue(I32, [5, 6, 7]), 3))
    assert caught.value.text == "there is no element 3 in an Array of 3"
    assert ("arr", "[5, 6, 7]") in caught.value.values and ("idx", "3") in caught.value.values
    with pytest.raises(Panic, match="-1 elements"):
        call(function("%n: i64", "Array<i32>", "    %r: Array<i32> = arr.with_len { len=%n, v=const.i32 0 }\n    ret %r"), -1)
    with pytest.raises(Panic, match="out of memory"):
        call(function("%n: i64", "Array<i32>", "    %r: Array<i32> = arr.with_len { len=%n, v=const.i32 0 }\n    ret %r"), 2**40)


def test_new_concat_and_with_len():
    text = function(
        "",
        "Array<i32>",
        """    %a: Array<i32> = arr.new { v0=const.i32 1, v1=const.i32 2 }
    %b: Array<i32> = arr.with_len { len=const.u8 3, v=const.i32 9 }
    %c: Array<i32> = arr.concat { a=%a, b=%b }
    arr.push { arr=%a, v=const.i32 0 }
    ret %c""",
    )
    found = call(text)
    assert found.items == [1, 2, 9, 9, 9] and found.element == I32


def test_sorting_floats_puts_nan_last_and_keeps_the_order_of_zeros():
    ready = program(one("sort", "", "", owner="Array<f64>") + one("find", "TOption<i64>", "%v: f64", owner="Array<f64>"))
    values = ArrayValue(F64, [math.nan, 1.0, 0.0, -0.0, -math.inf, math.nan, math.inf])
    ready.call("sort", (values,))
    assert values.items[:5] == [-math.inf, 0.0, -0.0, 1.0, math.inf] and all(map(math.isnan, values.items[5:]))
    assert math.copysign(1, values.items[2]) == -1
    assert ready.call("find", (values, math.nan)).variant == "None"
    assert ready.call("find", (values, -0.0)).fields == (1,)


def test_an_array_is_one_object_for_all_names():
    text = function(
        "",
        "i64",
        """    %a: Array<i32> = arr.new
    %done: unit = call @add { a=%a }
    %more: unit = call @add { a=%a }
    %n: i64 = arr.len { arr=%a }
    ret %n""",
    ) + function("%a: mutborrow Array<i32>", "unit", "    arr.push { arr=%a, v=const.i32 1 }\n    ret", "add")
    assert call(text) == 2


CALLABLES = """sig TOne(i64) -> i64
sig TTest(i64) -> bool
sig TTwo(i64, i64) -> i64
sig TDo(i64) -> unit
fn @scaled(%k: i64, %x: i64) -> i64 {
bb0:
    %y: i64 = i.mul { a=%k, b=%x }
    ret %y
}
fn @odd(%x: i64) -> bool {
bb0:
    %y: i64 = i.and { a=%x, b=const.i64 1 }
    %r: bool = icmp.ne { a=%y, b=const.i64 0 }
    ret %r
}
fn @digits(%a: i64, %x: i64) -> i64 {
bb0:
    %t: i64 = i.mul { a=%a, b=const.i64 10 }
    %r: i64 = i.add { a=%t, b=%x }
    ret %r
}
fn @keep(%into: Array<i64>, %x: i64) -> unit {
bb0:
    arr.push { arr=%into, v=%x }
    ret
}
"""


def test_map_filter_reduce_foreach():
    text = CALLABLES + function(
        "%a: Array<i64>",
        "i64",
        """    %triple: TCallable<TOne> = callable.capture @scaled { k=const.i64 3 }
    %odd: TCallable<TTest> = callable.capture @odd {}
    %digits: TCallable<TTwo> = callable.capture @digits {}
    %b: Array<i64> = arr.map { arr=%a, fn=%triple }
    %c: Array<i64> = arr.filter { arr=%b, fn=%odd }
    %kept: Array<i64> = arr.new
    %keep: TCallable<TDo> = callable.capture @keep { into=%kept }
    arr.foreach { arr=%c, fn=%keep }
    %r: i64 = arr.reduce { arr=%kept, init=const.i64 0, fn=%digits }
    %s: i64 = call.indirect { callee=%triple, args=[%r] }
    ret %s""",
    )
    assert call(text, ArrayValue(Ty("i64"), [1, 2, 3, 0])) == 3 * 39


def test_a_callable_may_change_the_array_that_it_is_called_for():
    text = CALLABLES + function(
        "%a: Array<i64>",
        "i64",
        """    %keep: TCallable<TDo> = callable.capture @keep { into=%a }
    arr.foreach { arr=%a, fn=%keep }
    %n: i64 = arr.len { arr=%a }
    ret %n""",
    )
    assert call(text, ArrayValue(Ty("i64"), [1, 2, 3])) == 6


def test_recursion_through_map_is_as_deep_as_any():
    text = """sig TDown(i64) -> i64
fn @f(%n: i64) -> i64 {
bb0:
    %end: bool = icmp.eq { a=%n, b=const.i64 0 }
    cbr %end bb1 bb2
bb1:
    ret const.i64 0
bb2:
    %less: i64 = i.sub { a=%n, b=const.i64 1 }
    %a: Array<i64> = arr.new { v0=%less }
    %down: TCallable<TDown> = callable.capture @f {}
    %b: Array<i64> = arr.map { arr=%a, fn=%down }
    %rest: i64 = arr.get { arr=%b, idx=const.i32 0 }
    %sum: i64 = i.add { a=%n, b=%rest }
    ret %sum
}
"""
    assert call(text, 50_000) == 50_000 * 50_001 // 2


# --- maps -------------------------------------------------------------------------------------------------------------
MAP_OPS = {
    "len": ("i64", ""),
    "get": ("TOption<i32>", "%key: Str"),
    "get_or": ("i32", "%key: Str, %default: i32"),
    "set": ("", "%key: Str, %v: i32"),
    "contains": ("bool", "%key: Str"),
    "remove": ("TOption<i32>", "%key: Str"),
    "clear": ("", ""),
    "keys": ("Array<Str>", ""),
    "values": ("Array<i32>", ""),
}


def test_a_map_is_a_dict():
    text = "".join(one(n, r, p, "map", "Map<Str, i32>") for n, (r, p) in MAP_OPS.items())
    do = program(text + function("", "Map<Str, i32>", "    %r: Map<Str, i32> = map.new\n    ret %r", "new")).call
    rng = random.Random(2)
    mine, theirs = do("new"), {}
    for step in range(3000):
        key, v = rng.choice("abcdefgé"), rng.randint(0, 99)
        match rng.choice([n for n in MAP_OPS if n != "clear" or step % 50 == 0]):
            case "len":
                assert do("len", (mine,)) == len(theirs)
            case "get":
                assert option(do("get", (mine, key))) == theirs.get(key)
            case "get_or":
                assert do("get_or", (mine, key, v)) == theirs.get(key, v)
            case "set":
                do("set", (mine, key, v))
                theirs[key] = v
            case "contains":
                assert do("contains", (mine, key)) is (key in theirs)
            case "remove":
                assert option(do("remove", (mine, key))) == theirs.pop(key, None)
            case "clear":
                do("clear", (mine,))
                theirs.clear()
            case "keys":
                assert do("keys", (mine,)).items == list(theirs)
            case "values":
                assert do("values", (mine,)).items == list(theirs.values())
        assert mine.items == theirs


def test_keys_of_a_type_with_its_own_hash_and_eq():
    text = """value struct TMod {
    field n: i64
}
impl hash for TMod = @hash
impl eq for TMod = @eq
fn @hash(%a: borrow TMod) -> u64 {
bb0:
    %n: i64 = getfield { obj=%a, field=n }
    %r: i64 = i.urem { a=%n, b=const.i64 5 }
    %h: u64 = cast<i64, u64> { v=%r }
    ret %h
}
fn @eq(%a: borrow TMod, %b: borrow TMod) -> bool {
bb0:
    %x: i64 = getfield { obj=%a, field=n }
    %y: i64 = getfield { obj=%b, field=n }
    %p: i64 = i.urem { a=%x, b=const.i64 10 }
    %q: i64 = i.urem { a=%y, b=const.i64 10 }
    %r: bool = icmp.eq { a=%p, b=%q }
    ret %r
}
fn @f(%n: i64) -> i64 {
bb0:
    %m: Map<TMod, i64> = map.new
    br bb1
bb1:
    %i: i64 = phi [bb0: const.i64 0] [bb2: %next]
    %more: bool = icmp.slt { a=%i, b=%n }
    cbr %more bb2 bb3
bb2:
    %key: TMod = new TMod { n=%i }
    map.set { map=%m, key=%key, v=%i }
    %next: i64 = i.add { a=%i, b=const.i64 1 }
    br bb1
bb3:
    %k: TMod = new TMod { n=const.i64 37 }
    %v: i64 = map.get_or { map=%m, key=%k, default=const.i64 -1 }
    %keys: Array<TMod> = map.keys { map=%m }
    %first: TMod = arr.get { arr=%keys, idx=const.i32 0 }
    %zero: i64 = getfield { obj=%first, field=n }
    %len: i64 = map.len { map=%m }
    %t: i64 = i.mul { a=%len, b=const.i64 1000 }
    %r: i64 = i.add { a=%t, b=%v }
    %s: i64 = i.add { a=%r, b=%zero }
    ret %s
}
"""
    # ten classes; 7, 17, 27, ... have the key of 37, and the last of them below 30 is 27
    assert call(text, 30) == 10_027 and call(text, 5) == 5000 - 1


def test_recursion_through_a_hash_ends_in_a_panic():
    text = """value struct TKey {
    field n: i64
}
impl hash for TKey = @hash
impl eq for TKey = @eq
fn @hash(%a: borrow TKey) -> u64 {
bb0:
    %m: Map<TKey, i64> = map.new
    %r: bool = map.contains { map=%m, key=%a }
    ret const.u64 0
}
fn @eq(%a: borrow TKey, %b: borrow TKey) -> bool {
bb0:
    ret const.bool true
}
fn @f() -> u64 {
bb0:
    %k: TKey = new TKey { n=const.i64 1 }
    %h: u64 = call @hash { a=%k }
    ret %h
}
"""
    with pytest.raises(Panic, match="nest too deep"):
        call(text)
