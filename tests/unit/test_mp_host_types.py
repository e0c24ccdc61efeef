"""What host programs call: each rule of their types, right and wrong, with its code and line."""

from __future__ import annotations

import time

import pytest

from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir import parse_module, print_module, verify
from magpie.mpir.signatures import signature
from magpie.mpir.types import Ty

pytestmark = pytest.mark.filterwarnings("error")

HEAD = """module t
imports { std.io::{@println, @read_file}, std.math }

sig TUnary(i32) -> i32

sig TText(i32) -> Str

sig TTest(i32) -> bool

sig TEach(i32) -> unit

sig TSum(i64, i32) -> i64

value struct TPoint {
    field x: f32
    field y: f32
}

heap struct TNode {
    field value: i32
    field next: TOption<TNode>
}

heap struct TPair<A: type, B: type> {
    field a: A
    field b: B
}

value struct TKey {
    field k: i64
}

impl hash for TKey = @hash_key

impl eq for TKey = @eq_key

enum TShape {
    Empty
    Circle {
        field radius: f64
    }
    Box {
        field width: f64
        field height: f64
    }
}

enum TTree<T: type> {
    Leaf
    Fork {
        field value: T
        field left: TTree<T>
    }
}

global @limit: i64 = const.i64 9

global @names: Array<Str> = ["a", "b"]

fn @hash_key(%k: borrow TKey) -> u64 {
bb0:
    ret const.u64 1
}

fn @eq_key(%a: borrow TKey, %b: borrow TKey) -> bool {
bb0:
    ret const.bool true
}

fn @add(%a: i32, %b: i32) -> i32 {
bb0:
    ret %a
}

fn @result(%n: i32) -> TResult<i32, Str> {
bb0:
    %r: TResult<i32, Str> = enum.new<Ok> { v=%n }
    ret %r
}

fn @nothing() -> unit {
bb0:
    ret
}

gpu fn @k(%x: gpu.TBuffer<f32>, %n: i32) -> unit target(spv) {
bb0:
    ret
}

fn @f(
    %i: i32,
    %l: i64,
    %u: u32,
    %d: f64,
    %s: Str,
    %t: bool,
    %ints: borrow Array<i32>,
    %map: Map<Str, i32>,
    %shape: borrow TShape,
    %tree: TTree<i32>,
    %node: mutborrow TNode,
    %weak: weak TNode,
    %point: TPoint,
    %pair: TPair<i32, Str>,
    %option: TOption<i32>,
    %r: TResult<i32, Str>,
    %unary: TCallable<TUnary>,
    %text: TCallable<TText>,
    %test: TCallable<TTest>,
    %each: TCallable<TEach>,
    %sum: TCallable<TSum>,
    %dev: borrow gpu.TDevice,
    %buf: gpu.TBuffer<f32>,
    %hint: gpu.MemoryHint,
    %shape_: Array<u64>,
    %session: gpu.TProfileSession,
    %b: mutborrow TStrBuilder
) -> TResult<i64, Str> {
bb0:
"""
LINE = HEAD.count("\n") + 1
TAIL = "\n    %end: TResult<i64, Str> = enum.new<Ok> { v=%l }\n    ret %end\n}\n"


def errors(text):
    return [(d.code, d.loc.line) for d in check_source(Source(text, "t.mp")).diagnostics]


def launch(changes="", **new):
    operands = {"device": "%dev", "kernel": "@k", "grid": "[%u, %u, %u]", "block": "[%u, %u, %u]", "args": "[%buf, %i]"}
    operands |= new
    return "gpu.launch { " + ", ".join(f"{k}={v}" for k, v in operands.items()) + changes + " }"


UNIT = "TResult<unit, gpu.TError>"
LINES = {
    # arrays
    "%x: i32 = arr.get { arr=%ints, idx=%l }": None,
    "%x: i32 = arr.get { arr=%ints, idx=%u } ": None,
    "%x: borrow i32 = arr.get<i32> { arr=%ints, idx=%u }": None,
    "%x: i32 = arr.get { arr=%ints, idx=%d }": "MPS0004",
    "%x: i64 = arr.get { arr=%ints, idx=%l }": "MPS0004",
    "%x: i32 = arr.get<i64> { arr=%ints, idx=%l }": "MPS0004",
    "%x: i32 = arr.get<i32, i32> { arr=%ints, idx=%l }": "MPS0001",
    "%x: i32 = arr.get { arr=%ints }": "MPS0001",
    "%x: i32 = arr.get { arr=%ints, idx=%l, at=%l }": "MPS0001",
    "%x: i32 = arr.get { arr=%s, idx=%l }": "MPS0004",
    "arr.get { arr=%ints, idx=%l }": "MPS0004",  # what it gives has no name
    "%x: Array<i32> = arr.new": None,
    "%x: Array<i32> = arr.new { v0=%i, v1=const.i32 2 }": None,
    "%x: Array<i32> = arr.new { v0=%i, v1=%l }": "MPS0004",
    "%x: Array<i64> = arr.new { v0=%i }": "MPS0004",
    "%x: Array<i32> = arr.new { v0=%i, v2=%i }": "MPS0001",
    "%x: Array<i32> = arr.new { v=%i }": "MPS0001",
    "%x: Map<i32, i32> = arr.new": "MPS0004",
    "%x: Array<Array<i32>> = arr.new { v0=%ints }": None,
    "arr.push { arr=%ints, v=%i }": None,
    "arr.push { arr=%ints, v=%s }": "MPS0004",
    "%x: unit = arr.push { arr=%ints, v=%i }": None,
    "%x: i32 = arr.push { arr=%ints, v=%i }": "MPS0004",
    "arr.pop { arr=%ints }": None,  # may be dropped: it changes the array
    "%x: TOption<i32> = arr.pop { arr=%ints }": None,
    "%x: i32 = arr.pop { arr=%ints }": "MPS0004",
    "%x: i64 = arr.lenn { arr=%ints }": "MPS0007",
    "%x: bool = arr.contains { arr=%ints, v=%i }": None,
    "%x: Array<str> = arr.new": "MPT0001",
    # callables in arrays
    "%x: Array<i32> = arr.map { arr=%ints, fn=%unary }": None,
    "%x: Array<Str> = arr.map { arr=%ints, fn=%text }": None,
    "%x: Array<Str> = arr.map<i32, Str> { arr=%ints, fn=%text }": None,
    "%x: Array<i32> = arr.map { arr=%ints, fn=%text }": "MPS0004",
    "%x: Array<i32> = arr.map { arr=%ints, fn=@add }": "MPS0004",
    "%x: Array<i32> = arr.map { arr=%ints, fn=%sum }": "MPS0004",
    "%x: Array<i32> = arr.filter { arr=%ints, fn=%test }": None,
    "%x: Array<i32> = arr.filter { arr=%ints, fn=%unary }": "MPS0004",
    "%x: i64 = arr.reduce { arr=%ints, init=%l, fn=%sum }": None,
    "%x: i64 = arr.reduce { arr=%ints, init=%i, fn=%sum }": "MPS0004",
    "arr.foreach { arr=%ints, fn=%each }": None,
    "arr.foreach { arr=%ints, fn=%unary }": "MPS0004",
    # maps
    "%x: Map<i64, f32> = map.new {}": None,
    "%x: Map<TKey, f32> = map.new {}": None,
    "%x: Map<i64, f32> = map.new<i64, f32> {}": None,
    "%x: Map<f32, f32> = map.new {}": "MPT0014",
    "%x: Map<TPoint, f32> = map.new {}": "MPT0014",
    "%x: Map<Array<i32>, f32> = map.new {}": "MPT0014",
    "%x: TOption<i32> = map.get { map=%map, key=%s }": None,
    '%x: TOption<i32> = map.get { map=%map, key="a" }': None,
    "%x: i32 = map.get { map=%map, key=%s }": "MPS0004",
    "%x: TOption<i32> = map.get { map=%map, key=%i }": "MPS0004",
    "%x: Array<Map<f64, i32>> = arr.new": "MPT0014",
    "%x: TOption<Map<TShape, i32>> = enum.new<None>": "MPT0014",
    "map.set { map=%map, key=%s, v=%i }": None,
    "map.set { map=%map, key=%s, v=%d }": "MPS0004",
    "%x: Array<Str> = map.keys { map=%map }": None,
    # strings
    '%x: Str = str.concat { a=%s, b="y" }': None,
    "%x: Str = str.concat { lhs=%s, rhs=%s }": None,
    "%x: Str = str.concat { a=%s, rhs=%s }": None,
    "%x: Str = str.concat { a=%s, lhs=%s }": "MPS0001",
    "%x: Str = str.concat { a=%s, b=%i }": "MPS0004",
    "%x: Str = str.from { v=%d }": None,
    "%x: Str = str.from<f64> { v=%d }": None,
    "%x: Str = str.from { v=%s }": "MPT0014",
    "%x: TResult<i64, TParseError> = str.parse_i64 { s=%s }": None,
    "%x: TResult<i64, Str> = str.parse_i64 { s=%s }": "MPS0004",
    "str.builder.append { b=%b, v=%s }": None,
    "str.builder.append { b=%b, v=%d }": None,
    "str.builder.append { b=%b, v=%ints }": "MPT0014",
    # functions of modules
    "call_void @println { text=%s }": None,
    "call_void @println { text=%i }": "MPS0004",
    "call_void @println { txt=%s }": "MPS0001",
    "call_void std.io.@println { text=%s }": None,
    "call_void std.io.@printn { text=%s }": "MPS0007",
    "call_void std.oi.@println { text=%s }": "MPS0007",
    "%x: f64 = call std.math.@sqrt { x=%d }": None,
    "%x: f64 = std.math.@sqrt<f64> { args=[%d] }": None,
    "%x: i32 = std.math.@sqrt { x=%i }": "MPT0014",
    "%x: f64 = call std.math.@pow { x=%d, y=const.f32 1.0 }": "MPS0004",
    "%x: f64 = call @sqrt { x=%d }": "MPT0025",
    "%x: TResult<Str, TIoError> = call @read_file { path=%s }": None,
    "%x: Str = try @read_file { path=%s }": "MPT0015",  # the error is another one
    "%x: u32 = gpu.host.@device_count {}": None,
    "%x: i32 = gpu.host.@device_count {}": "MPS0004",
    # words for variants
    "%x: TResult<gpu.TBuffer<f32>, gpu.TError> = gpu.host.@buffer_new { dev=%dev, len=const.u64 4, usage_flags=%u }": None,
    "%x: TResult<gpu.TBuffer<f32>, gpu.TError> = gpu.host.@buffer_new<f32> "
    "{ dev=%dev, len=const.u64 4, usage_flags=%u, hint=Unified }": None,
    "%x: TResult<gpu.TBuffer<f32>, gpu.TError> = gpu.host.@buffer_new<f32> "
    "{ dev=%dev, len=const.u64 4, usage_flags=%u, hint=%hint }": None,
    "%x: TResult<gpu.TBuffer<f32>, gpu.TError> = gpu.host.@buffer_new<f32> "
    "{ dev=%dev, len=const.u64 4, usage_flags=%u, hint=Fast }": "MPT0016",
    "%x: TResult<gpu.TBuffer<f32>, gpu.TError> = gpu.host.@buffer_new<f32> "
    "{ dev=%dev, len=const.u64 4, usage_flags=Auto }": "MPS0004",
    "%x: TResult<gpu.TBuffer<TPoint>, gpu.TError> = gpu.host.@buffer_new { dev=%dev, len=const.u64 4, usage_flags=%u }": None,
    "%x: TResult<gpu.TBuffer<TNode>, gpu.TError> = gpu.host.@buffer_new { dev=%dev, len=const.u64 4, usage_flags=%u }": "MPT0014",
    # structs
    "%x: TPair<i32, Str> = new TPair<i32, Str> { a=%i, b=%s }": None,
    "%x: TPair<i32, Str> = new TPair<i32, Str> { a=%s, b=%i }": "MPS0004",
    "%x: TPair<i32, i32> = new TPair<i32, Str> { a=%i, b=%s }": "MPS0004",
    "%x: TPair<i32> = new TPair<i32> { a=%i }": "MPT0002",
    "%x: TNode = new TNode { value=%i }": "MPS0001",
    "%x: Str = getfield { obj=%pair, field=b }": None,
    "%x: i32 = getfield { obj=%pair, field=b }": "MPS0004",
    "%x: i32 = getfield { obj=%pair, field=c }": "MPS0001",
    "%x: i32 = getfield { obj=%weak, field=value }": "MPS0004",
    "setfield { obj=%node, field=value, v=%i }": None,
    "setfield { obj=%node, field=value, v=%l }": "MPS0004",
    "setfield { obj=%node, field=valu, v=%l }": "MPS0001",
    "setfield { obj=%node, field=value }": "MPS0001",
    "setfield { obj=%pair, field=b, v=%s }": None,
    "setfield { obj=%point, field=x, v=const.f32 1.0 }": "MPT0018",
    "setfield { obj=%i, field=x, v=%i }": "MPS0004",
    # enums
    "%x: TOption<i32> = enum.new<Some> { v=%i }": None,
    "%x: TOption<i32> = enum.new<None>": None,
    "%x: TOption<i32> = enum.new<Some> { v=%l }": "MPS0004",
    "%x: TOption<i32> = enum.new<Some>": "MPT0016",
    "%x: TOption<i32> = enum.new<Nothing>": "MPT0016",
    "%x: i32 = enum.new<Some> { v=%i }": "MPS0004",
    "%x: TResult<i32, Str> = enum.new<TResult, 1> { v=%s }": None,
    "%x: TResult<i32, Str> = enum.new<TResult, 2> { v=%s }": "MPT0016",
    "%x: TResult<i32, Str> = enum.new<TOption, 0> { v=%s }": "MPT0016",
    "%x: TOption<i32> = enum.new { v=%i }": "MPS0001",
    "%x: TOption<i32> = enum.new<Some, Some> { v=%i }": "MPS0001",
    "%x: bool = enum.is<TShape, 2> { v=%shape }": None,
    "%x: bool = enum.is<TShape, 3> { v=%shape }": "MPT0016",
    "%x: bool = enum.is<TPoint, 0> { v=%shape }": "MPT0016",
    "%x: TShape = enum.new<Box> { height=%d, width=%d }": None,
    "%x: TShape = enum.new<Box> { height=%d, width=%i }": "MPS0004",
    "%x: TTree<i32> = enum.new<Fork> { value=%i, left=%tree }": None,
    "%x: TTree<Str> = enum.new<Fork> { value=%s, left=%tree }": "MPS0004",
    "%x: bool = enum.is<Box> { v=%shape }": None,
    "%x: i32 = enum.is<Box> { v=%shape }": "MPS0004",
    "%x: bool = enum.is<Bax> { v=%shape }": "MPT0016",
    "%x: bool = enum.is<Box> { v=%i }": "MPS0004",
    "%x: i32 = enum.tag { v=%shape }": None,
    "%x: u32 = enum.tag { v=%shape }": "MPS0004",
    "%x: i32 = enum.tag { v=%i }": "MPT0014",
    "%x: f64 = enum.payload<Circle> { v=%shape }": None,
    "%x: f64 = enum.payload<Box> { v=%shape, field=width }": None,
    "%x: f64 = enum.payload<Box> { v=%shape }": "MPT0016",
    "%x: f32 = enum.payload<Circle> { v=%shape }": "MPS0004",
    "%x: i32 = enum.payload<Fork> { v=%tree, field=value }": None,
    "%x: Str = enum.payload<Err> { v=%r }": None,
    # try
    "%x: i32 = try %r": None,
    "try %r": None,
    "%x: Str = try %r": "MPS0004",
    "%x: i32 = try %option": "MPT0015",
    "%x: i32 = try @result { n=%i }": None,
    "%x: i32 = try @result { n=%l }": "MPS0004",
    "%x: i32 = try @add { a=%i, b=%i }": "MPT0015",
    # callables
    "%x: TCallable<TUnary> = callable.capture @add { a=%i }": None,
    "%x: TCallable<TUnary> = callable.capture @add { a=%l }": "MPS0004",
    "%x: TCallable<TUnary> = callable.capture @add {}": "MPT0017",
    "%x: TCallable<TUnary> = callable.capture @add { c=%i }": "MPT0017",
    "%x: TCallable<TText> = callable.capture @add { a=%i }": "MPT0017",
    "%x: TCallable<TUnary> = callable.capture @ad {}": "MPS0007",
    "%x: TCallable<TUnary> = callable.capture @k {}": "MPS0007",
    "%x: TCallable<TPoint> = callable.capture @add {}": "MPT0001",
    "%x: i32 = call.indirect { callee=%unary, args=[%i] }": None,
    "call.indirect { callee=%unary, args=[%i] }": None,
    "call_void.indirect { callee=%unary, args=[%i] }": None,
    "%x: i64 = call.indirect { callee=%unary, args=[%i] }": "MPS0004",
    "%x: i32 = call.indirect { callee=%unary, args=[%l] }": "MPS0004",
    "%x: i32 = call.indirect { callee=%unary, args=[%i, %i] }": "MPT0017",
    "%x: i32 = call.indirect { callee=%i, args=[] }": "MPT0017",
    # elements of MLX
    "call_void mlx.array.@zeros<f16> { shape=%shape_ }": None,
    "call_void mlx.array.@zeros<Str> { shape=%shape_ }": "MPG_MLX_1002",
    "%x: TResult<mlx.TArray<i128>, gpu.TError> = call mlx.array.@zeros { shape=%shape_ }": "MPG_MLX_1002",
    # owners
    "%x: weak TNode = weak.downgrade { v=%node }": None,
    "%x: TNode = weak.downgrade { v=%node }": "MPS0004",
    "%x: TOption<TNode> = weak.upgrade { v=%weak }": None,
    "%x: TOption<TNode> = weak.upgrade { v=%node }": "MPS0004",
    "%x: shared TNode = share { v=%node }": None,
    "retain { v=%node }": None,
    "%x: u64 = gpu.buffer_len<f32> { buf=%buf }": None,
    "%x: u32 = gpu.buffer_len<f32> { buf=%buf }": "MPS0004",
    f"%x: {UNIT} = gpu.profile.@launch_profiled {{ session=%session, dev=%dev, kernel=@k, grid=[%u, %u, %u], "
    "block=[%u, %u, %u], args=[%buf, %i] }": None,
    "gpu.profile.@launch_profiled { session=%session, dev=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], "
    "args=[%buf, %i] }": None,  # what profile calls give may be dropped
    f"%x: {UNIT} = gpu.profile.@launch_profiled {{ session=%session, dev=%dev, kernel=@k, grid=[%u, %u, %u], "
    "block=[%u, %u, %u], args=[%buf] }": "MPT0010",
    f"%x: {UNIT} = gpu.profile.@launch_profiled {{ session=%dev, dev=%dev, kernel=@k, grid=[%u, %u, %u], "
    "block=[%u, %u, %u], args=[%buf, %i] }": "MPS0004",
    "%x: Array<i32> = clone { v=%ints }": None,
    # globals
    "%x: i64 = @limit": None,
    "%x: Array<Str> = @names": None,
    "%x: Array<i32> = @names": "MPS0004",
    "%x: i64 = @limits": "MPT0003",
    # calls
    "%x: i32 = call @add { a=%i, b=%i }": None,
    "call_void @add { a=%i, b=%i }": None,
    "call @add { a=%i, b=%i }": "MPT0024",
    "%x: i32 = call_void @add { a=%i, b=%i }": "MPT0024",
    "call_void @nothing {}": None,
    "%x: i32 = call @nothing {}": "MPS0004",
    "call_void @k { x=%buf, n=%i }": "MPS0007",
    # launches
    f"%x: {UNIT} = {launch()}": None,
    f"%x: {UNIT} = {launch(', fallback=cpu')}": None,
    f"%x: {UNIT} = {launch(', fallback=gpu')}": "MPT0010",
    f"%x: {UNIT} = {launch(', fallback=%s')}": "MPT0010",
    f"%x: {UNIT} = {launch(grid='[%u, %u]')}": "MPT0010",
    f"%x: {UNIT} = {launch(grid='[%u, %u, %i]')}": "MPT0010",
    f"%x: {UNIT} = {launch(block='%u')}": "MPT0010",
    f"%x: {UNIT} = {launch(args='[%buf]')}": "MPT0010",
    f"%x: {UNIT} = {launch(args='[%i, %buf]')}": "MPT0010",
    f"%x: {UNIT} = {launch(kernel='@add')}": "MPT0010",
    f"%x: {UNIT} = {launch(kernel='%s')}": "MPT0010",
    f"%x: {UNIT} = {launch(device='%s')}": "MPS0004",
    f"%x: gpu.TFence = {launch()}": "MPS0004",
    launch(): "MPS0004",  # its error would be lost
    f"%x: TResult<gpu.TFence, gpu.TError> = {launch().replace('launch', 'launch_async')}": None,
}


@pytest.mark.parametrize("line", LINES)
def test_lines(line):
    assert set(errors(f"{HEAD}    {line}{TAIL}")) == ({(LINES[line], LINE)} if LINES[line] else set())


def test_errors_show_the_signature():
    found = check_source(Source(f"{HEAD}    %x: i32 = arr.get {{ arr=%ints, idx=%d }}{TAIL}", "t.mp")).diagnostics[0]
    assert found.message == "idx of arr.get has type f64, wanted an integer type"
    assert found.help == "it is arr.get<T>(arr: borrow Array<T>, idx: int) -> T"
    found = check_source(Source(f"{HEAD}    %x: i64 = arr.lenn {{ arr=%ints }}{TAIL}", "t.mp")).diagnostics[0]
    assert found.help == "did you mean arr.len?"
    found = check_source(Source(f"{HEAD}    %x: i32 = call @add {{ a=%i, b=@limit }}{TAIL}", "t.mp")).diagnostics[0]
    assert found.help == "it is @add(%a: i32, %b: i32) -> i32" and "b of @add has type i64" in found.message


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("%x: i32 = getfield { obj=%node, field=valu }", "did you mean value?"),
        ("%x: i32 = getfield { obj=%node, field=q }", "it has value, next"),
        ("setfield { obj=%node, field=nxt, v=%i }", "did you mean next?"),
        ("%x: bool = enum.is<Bax> { v=%shape }", "did you mean Box?"),
        ("%x: bool = enum.is<Q> { v=%shape }", "it has Empty, Circle, Box"),
        ("%x: f64 = enum.payload<Box> { v=%shape, field=heigth }", "did you mean height?"),
        ("%x: f64 = enum.payload<Empty> { v=%shape }", "it holds nothing to take"),
    ],
)
def test_helps(line, help):
    (found,) = check_source(Source(f"{HEAD}    {line}{TAIL}", "t.mp")).diagnostics
    assert found.help == help


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("%x: i32 = call @add { a=%i, b=Auto }", "has type none, as the bare name Auto, wanted i32"),
        ("%x: i32 = call @add { a=%i, b=@add }", "has type none, as the function @add, wanted i32"),
        ("%x: i32 = call @add { a=%i, b=[%i] }", "has type a list, wanted i32"),
        ("%x: Str = str.concat { a=%s, b=%i.err }", "has type none, as %i is no TResult, wanted borrow Str"),
        ("%x: TOption<i32> = enum.new<Some> { v=None }", "has type none, as the bare name None, wanted i32"),
    ],
)
def test_operands_without_a_type(call, words):
    found = check_source(Source(f"{HEAD}    {call}{TAIL}", "t.mp")).diagnostics[0]
    assert (found.code, found.loc.line) == ("MPS0004", LINE) and words in found.message


# --- gradients ---------------------------------------------------------------------------------------------------------
LOSS = """module t
sig TPlain(mlx.TArray<f32>) -> mlx.TArray<f32>
sig TFails(mlx.TArray<f32>, Array<u64>) -> TResult<mlx.TArray<f32>, gpu.TError>
sig TValue(mlx.TArray<f32>, Array<u64>) -> TResult<mlx.TGradResult<f32>, gpu.TError>
sig TOther(mlx.TArray<f64>) -> mlx.TArray<f32>
fn @f(%p: TCallable<TPlain>, %e: TCallable<TFails>, %o: TCallable<TOther>) -> unit {
bb0:
"""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%g: TCallable<TPlain> = mlx.grad.@grad { fn=%p }", None),
        ("%g: TCallable<TFails> = mlx.grad.@grad { fn=%e }", None),
        ("%g: TCallable<TFails> = mlx.grad.@grad<f32> { fn=%e }", None),
        ("%g: TCallable<TValue> = mlx.grad.@value_and_grad { fn=%e }", None),
        ("%g: TCallable<TPlain> = mlx.grad.@grad { fn=%e }", "MPS0004"),  # other parameters
        ("%g: TCallable<TValue> = mlx.grad.@grad { fn=%e }", "MPS0004"),
        ("%g: TCallable<TOther> = mlx.grad.@grad { fn=%o }", "MPS0004"),
    ],
)
def test_gradients(line, code):
    assert errors(f"{LOSS}    {line}\n    ret\n}}\n") == ([(code, 8)] if code else [])


# --- modules -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("head", "good"),
    [
        ("fn @main() -> i64", True),
        ("fn @main() -> unit", True),
        ("fn @main() -> u8", True),
        ("fn @main() -> TResult<i32, Str>", True),
        ("fn @main() -> TResult<unit, gpu.TError>", True),
        ("fn @main() -> i128", False),
        ("fn @main() -> Str", False),
        ("fn @main() -> TResult<Str, Str>", False),
        ("fn @main(%args: Array<Str>) -> i64", False),
    ],
)
def test_main(head, good):
    assert errors(f"module t\n{head} {{\nbb0:\n    unreachable\n}}\n") == ([] if good else [("MPT0020", 2)])


def test_functions_of_a_kernel_may_use_what_kernels_have():
    """A function that a kernel calls may do what kernels do; if the host program calls it too, it may not."""
    text = """module t
fn @first(%x: gpu.TBuffer<f32>) -> f32 {
bb0:
    %v: f32 = gpu.buffer_load<f32> { buf=%x, idx=const.u32 0 }
    ret %v
}
gpu fn @k(%x: gpu.TBuffer<f32>) -> unit target(spv) {
bb0:
    %v: f32 = call @first { x=%x }
    ret
}
"""
    assert errors(text) == []
    host = "fn @run(%x: gpu.TBuffer<f32>) -> f32 {\nbb0:\n    %v: f32 = call @first { x=%x }\n    ret %v\n}\n"
    assert errors(text + host) == []
    main = "sig TRun(gpu.TBuffer<f32>) -> f32\nfn @main() -> unit {\nbb0:\n"
    main += "    %c: TCallable<TRun> = callable.capture @run {}\n    ret\n}\n"
    assert errors(text + host + main) == [("MPT0023", 4)]


def test_imports():
    def of(imports):
        return [d.help for d in check_source(Source(f"module t\nimports {{ {imports} }}\n", "t.mp")).diagnostics]

    assert of("std.io::{@println, @print}, std.math, mlx.array, gpu.host::{@device_count}, std.io::{TIoError}") == []
    assert of("std.io::{@printn}") == ["did you mean @println?"] or of("std.io::{@printn}") == ["did you mean @print?"]
    assert of("std.oi") == ["did you mean std.io?"]
    text = "module t\nfn @f() -> unit {\nbb0:\n    call_void @println { text=const.Str \"a\" }\n    ret\n}\n"
    (found,) = check_source(Source(text, "t.mp")).diagnostics
    assert (found.code, found.loc.line) == ("MPT0025", 4) and "imports { std.io::{@println} }" in found.help


def test_host_programs_as_text_of_mpir():
    """The same rules hold of MPIR that was read from text."""
    module = check_source(Source(f"{HEAD}    %x: TOption<i32> = arr.pop {{ arr=%ints }}{TAIL}", "t.mp")).checked
    text = print_module(module)
    assert verify(parse_module(text)) == []
    for old, new, code in (
        ("arr.pop { arr=%ints }", "arr.pop { arr=%map }", "MPS0004"),
        ("arr.pop { arr=%ints }", "arr.pop {}", "MPS0001"),
        ("arr.pop { arr=%ints }", "try {}", "MPS0001"),
        ("arr.pop { arr=%ints }", "try { v=%option }", "MPT0015"),
        ("arr.pop { arr=%ints }", "enum.new<Sume> { v=%i }", "MPT0016"),
        ("arr.pop { arr=%ints }", "enum.new<3> { v=%i }", "MPT0016"),
        ("arr.pop { arr=%ints }", "callable.capture { }", "MPS0007"),
        ("arr.pop { arr=%ints }", "call.indirect { callee=%i, args=%i }", "MPT0017"),
    ):
        assert old in text
        assert [d.code for d in verify(parse_module(text.replace(old, new)))] == [code], new


def test_a_long_module_is_checked_fast():
    body = "".join(
        f"    %a{k}: Array<i32> = arr.new {{ v0=%i, v1=%i }}\n"
        f"    %b{k}: i32 = arr.get {{ arr=%a{k}, idx=%l }}\n"
        f"    %c{k}: Str = str.from {{ v=%b{k} }}\n"
        f"    call_void @println {{ text=%c{k} }}\n"
        f"    %d{k}: i32 = try @result {{ n=%b{k} }}\n"
        for k in range(50)
    )
    function = HEAD[HEAD.index("fn @f(") :]
    text = HEAD + body + TAIL
    text += "".join((function + body + TAIL).replace("@f(", f"@f{n}(") for n in range(36))
    assert text.count("\n") > 10_000
    start = time.perf_counter()
    assert errors(text) == []
    assert time.perf_counter() - start < 3 * 3, "seconds; three times what it takes on a slow machine"


def test_types_of_the_table_are_types():
    assert str(signature("arr.get").result) == "T" and signature("weak.upgrade").operands[0].type == Ty("T", (), "weak")


def test_messages_of_operands_without_a_type():
    def said(declarations, body=""):
        text = f"module t\nsig TF(i64) -> i64\nfn @g(%x: i64) -> i64 {{ bb0: ret %x }}\n{declarations}\n"
        if body:
            text += f"fn @f() -> i64 {{ bb0: {body} ret const.i64 0 }}\n"
        (found,) = check_source(Source(text, "t.mp")).diagnostics
        return found.message, found.help or ""

    message, helped = said("", "%y: i64 = call.indirect { callee=@g, args=[const.i64 1] }")
    assert "has type none, as the function @g" in message and "callable.capture @g {}" in helped
    assert said("global @a: i64 = %y")[0] == "@a is i64, and its value is %y, which is no literal"
