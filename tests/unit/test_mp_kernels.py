"""Kernels of `.mp` files: what they compute when Python launches them, against NumPy, and where their errors stand."""

from __future__ import annotations

import itertools
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import magpie as mp
from magpie.cli.app import app
from magpie.diagnostics import lookup
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.runtime.modules import check_module

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "mp"
SPEC = Path(__file__).parent / "mp"
BACKENDS = ["interp", "cpu"] + (["vulkan"] if any(d.backend == "spv" for d in mp.devices()) else [])

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def load(tmp_path):
    """Loads a text as a module."""

    def load(text):
        path = tmp_path / "t.mp"
        path.write_text("module t\n" + text)
        return mp.load_module(path)

    return load


def kernel(params, body, head="target(spv)"):
    return f"gpu fn @k({params}) -> unit {head} {{\nbb0:\n{body}\n}}\n"


ONE_ITEM = "target(spv) workgroup(1, 1, 1)"


# --- launching --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("vector_add_*.mp")), ids=lambda p: p.stem)
def test_vector_add(path, backend):
    k = mp.load_module(path).kernel_add
    n = 1000
    x = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    out = np.full(n + 24, 7, np.float32)
    k.launch(grid=mp.cdiv(n, k.workgroup[0]), args=(x, out, n), backend=backend)
    assert np.array_equal(out, np.append(x + np.float32(1), np.full(24, 7, np.float32)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_mp_arrays(backend):
    k = mp.load_module(EXAMPLES / "vector_add_spv.mp").kernel_add
    x = np.arange(500, dtype=np.float32)
    a, out = mp.asarray(x, device=backend), mp.zeros(500, mp.f32, device=backend)
    for _ in range(3):  # the long way, then the plan, then the native one
        k[2](a, out, 500)
        k[2](out, a, 500)
    assert np.array_equal(mp.to_numpy(a), x + 6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reduction_in_shared_memory(backend):
    k = mp.load_module(EXAMPLES / "reduce_sum.mp").reduce_sum
    x = np.random.default_rng(2).integers(-50, 50, 1000).astype(np.float32)  # sums are exact in any order
    out = np.zeros(4, np.float32)
    k.launch(grid=4, args=(x, out, 1000), backend=backend)
    assert np.array_equal(out, np.append(x, np.zeros(24, np.float32)).reshape(4, 256).sum(1))


def test_another_workgroup_size_than_the_declared_one(load):
    text = kernel(
        "%out: gpu.TBuffer<u32>",
        """    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %s: u32 = gpu.workgroup_size { dim=const.u32 0 }
    gpu.buffer_store<u32> { buf=%out, idx=%g, v=%s }
    ret""",
    )
    k = load(text).k
    assert k.workgroup == (64, 1, 1), "the size of a kernel that declares none"
    for backend in BACKENDS:
        for launch, size in ((k[2], 64), (k[4, 32], 32), (k[1, (16, 2, 2)], 16)):
            out = mp.zeros(128, mp.u32, device=backend)
            launch(out)
            wanted = np.full(128, size, np.uint32)
            wanted[16 if size == 16 else 128 :] = 0
            assert np.array_equal(mp.to_numpy(out), wanted), (backend, size)


def test_workgroup_sizes_once_launches_are_native(load):
    """After some launches the object's class is another: what a kernel of a file can must not go with it."""
    k = load(
        kernel(
            "%x: gpu.TBuffer<f32>",
            "    %g: u32 = gpu.global_id { dim=const.u32 0 }\n    %v: f32 = gpu.buffer_load<f32> { buf=%x, idx=%g }\n"
            "    %w: f32 = f.add { a=%v, b=const.f32 1.0 }\n    gpu.buffer_store<f32> { buf=%x, idx=%g, v=%w }\n    ret",
        )
    ).k
    x = mp.zeros(64, mp.f32, device="cpu")
    for _ in range(4):
        k[1](x)
    for size in (8, 16, 32, 64):
        for _ in range(4):
            k[64 // size, size](x)
            k.launch(grid=64 // size, block=size, args=(x,))
    assert (mp.to_numpy(x) == 36).all() and k.parameters[0].type is mp.f32 and repr(k).startswith("<kernel t.k")
    with pytest.raises(mp.LaunchValueError, match="2000 work-items"):
        k[1, 2000](x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_phis_switches_calls_and_structs(load, backend):
    text = """
global @limit: i32 = const.i32 100

value struct TPair {
    field low: i32
    field high: i32
}

fn @order(%x: i32, %y: i32) -> TPair {
bb0:
    %less: bool = icmp.slt { a=%x, b=%y }
    cbr %less bb1 bb2
bb1:
    br bb2
bb2:
    %low: i32 = phi i32 { [bb0: %y], [bb1: %x] }
    %high: i32 = phi i32 { [bb0: %x], [bb1: %y] }
    %p: TPair = new TPair { low=%low, high=%high }
    ret %p
}

;;; Steps of the Collatz sequence up to a limit, chosen by i % 3: the count, its negative, or the span of two counts.
gpu fn @collatz(%out: gpu.TBuffer<i32>) -> unit target(spv) workgroup(32, 1, 1) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %n: u32 = gpu.buffer_len<i32> { buf=%out }
    %in: bool = icmp.ult { a=%g, b=%n }
    cbr %in bb1 bb9
bb1:
    %limit: i32 = @limit
    %g1: u32 = i.add { a=%g, b=const.u32 1 }
    %start: i32 = cast<u32, i32> { v=%g1 }
    br bb2
bb2:
    %x: i32 = phi i32 { [bb1: %start], [bb5: %half], [bb6: %more] }
    %steps: i32 = phi [bb1: const.i32 0] [bb5: %next] [bb6: %next]
    %one: bool = icmp.eq { a=%x, b=const.i32 1 }
    cbr %one bb7 bb3
bb3:
    %far: bool = icmp.sge { a=%steps, b=%limit }
    cbr %far bb7 bb4
bb4:
    %next: i32 = i.add { a=%steps, b=const.i32 1 }
    %bit: i32 = i.and { a=%x, b=const.i32 1 }
    switch %bit {
        case 0 -> bb5
    } else bb6
bb5:
    %half: i32 = i.sdiv { a=%x, b=const.i32 2 }
    br bb2
bb6:
    %triple: i32 = i.mul { a=%x, b=const.i32 3 }
    %more: i32 = i.add { a=%triple, b=const.i32 1 }
    br bb2
bb7:
    %p: TPair = call @order { args=[%steps, %start] }
    %low: i32 = getfield { obj=%p, field=low }
    %high: i32 = getfield { obj=%p, field=high }
    %span: i32 = i.sub { a=%high, b=%low }
    %minus: i32 = i.sub { a=const.i32 0, b=%steps }
    %kind: i32 = i.srem { a=%start, b=const.i32 3 }
    switch %kind {
        case 0 -> bb8
        case const.i32 1 -> bb10
    } else bb11
bb8:
    gpu.buffer_store<i32> { buf=%out, idx=%g, v=%steps }
    br bb9
bb10:
    gpu.buffer_store<i32> { buf=%out, idx=%g, v=%minus }
    br bb9
bb11:
    gpu.buffer_store<i32> { buf=%out, idx=%g, v=%span }
    br bb9
bb9:
    ret
}
"""

    def wanted(start):
        x, steps = start, 0
        while x != 1 and steps < 100:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps += 1
        return (steps, -steps, abs(steps - start))[start % 3]

    out = np.zeros(200, np.int32)
    load(text).collatz.launch(grid=7, args=(out,), backend=backend)
    assert out.tolist() == [wanted(i + 1) for i in range(200)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_scalars_and_structs_as_arguments(load, backend):
    text = """
value struct TLine {
    field slope: f32
    field at: f32
}
gpu fn @line(%t: borrow TLine, %by: i64, %y: gpu.TBuffer<f32>) -> unit target(spv) workgroup(8, 1, 1) {
bb0:
    %g: u32 = gpu.global_id { dim=const.u32 0 }
    %k: f32 = cast<u32, f32> { v=%g }
    %slope: f32 = getfield { obj=%t, field=slope }
    %at: f32 = getfield { obj=%t, field=at }
    %m: f32 = f.mul { a=%slope, b=%k }
    %s: f32 = f.add { a=%m, b=%at }
    %b: f32 = cast<i64, f32> { v=%by }
    %r: f32 = f.div { a=%s, b=%b }
    gpu.buffer_store<f32> { buf=%y, idx=%g, v=%r }
    ret
}
"""
    line = np.array((0.5, -3.0), [("slope", np.float32), ("at", np.float32)])[()]
    y = np.zeros(16, np.float32)
    load(text).line.launch(grid=2, args=(line, -4, y), backend=backend)
    assert np.array_equal(y, (np.float32(0.5) * np.arange(16, dtype=np.float32) - 3) / np.float32(-4))


def test_operations_of_metal_run_where_there_are_subgroups():
    k = mp.load_module(EXAMPLES / "simd_sum_msl.mp").simd_reduce_kernel
    x = np.random.default_rng(3).integers(-9, 9, 512).astype(np.float32)
    for backend in ("interp", "cpu"):
        for size in (8, 32):
            out = np.zeros(512, np.float32)
            k.launch(grid=2, args=(x, out, 512), backend=backend, subgroup_size=size)
            assert np.array_equal(out, x.reshape(-1, size).sum(1).repeat(size))


def test_device_memory(load):
    k = mp.load_module(EXAMPLES / "device_malloc.mp").dynamic_kernel
    for backend in ("interp", "cpu"):
        out = np.zeros(300, np.float32)
        k.launch(grid=2, args=(out, 300), backend=backend)
        assert np.array_equal(out, np.arange(300) + 0.5)
    text = """unsafe gpu fn @k(%out: gpu.TBuffer<u8>, %count: i64) -> unit target(ptx) requires(device_malloc) {
bb0:
    %p: rawptr<f64> = gpu.malloc<f64> { count=%count }
    %null: bool = ptr.is_null<f64> { p=%p }
    %byte: u8 = cast<bool, u8> { v=%null }
    gpu.buffer_store<u8> { buf=%out, idx=const.u32 0, v=%byte }
    gpu.free { p=%p }
    ret
}
"""
    for count, backend in itertools.product((-1, 0, 5), ("interp", "cpu")):  # no memory for fewer than one element
        out = np.full(1, 7, np.uint8)
        load(text).k.launch(grid=1, block=1, args=(out, count), backend=backend)
        assert out[0] == (count < 1)


def test_a_second_process_finds_the_code_on_disk(load, tmp_path, monkeypatch):
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(tmp_path / "cache"))
    store = "    gpu.buffer_store<u32> {{ buf=%x, idx=const.u32 0, v=const.u32 {} }}\n    ret"
    for number, cached in ((1, False), (1, True), (2, False), (1, True)):
        k = load(kernel("%x: gpu.TBuffer<u32>", store.format(number))).k
        x = np.zeros(1, np.uint32)
        k.launch(grid=1, block=1, args=(x,), backend="cpu")
        assert x[0] == number and [v.from_cache for v in k.variants()] == [cached] * len(k.variants())


PARTS = """module t
value struct TInner { field x: f32 }
value struct TUsed { field inner: TInner }
value struct TOther { field y: f32 }
global @used: i32 = const.i32 3
global @other: i32 = const.i32 4
fn @deep(%x: f32) -> f32 {
bb0:
    %i: i32 = @used
    %y: f32 = cast<i32, f32> { v=%i }
    ret %y
}
fn @called(%x: f32) -> f32 {
bb0:
    %y: f32 = call @deep { x=%x }
    ret %y
}
fn @host(%x: f32) -> f32 {
bb0:
    ret %x
}
gpu fn @k(%data: gpu.TBuffer<TUsed>, %x: f32) -> unit target(spv) {
bb0:
    %y: f32 = call @called { x=%x }
    ret
}
gpu fn @other_kernel(%n: u32) -> unit target(spv) {
bb0:
    ret
}
"""


def test_code_on_disk_is_known_by_the_kernel_and_what_it_calls(tmp_path):
    def key(text):
        path = tmp_path / "t.mp"
        path.write_text(text)
        return mp.load_module(path).k._specialiser()._fingerprint().text

    base = key(PARTS)
    for old, new in (
        ("@host", "@hosting"),
        ("    ret %x", "    %z: f32 = f.add { a=%x, b=%x }\n    ret %z"),
        ("field y", "field z"),
        ("const.i32 4", "const.i32 5"),
        ("@other_kernel(%n: u32)", "@other_kernel(%n: u64)"),
        ("module t", "; a comment\nmodule t"),
    ):
        assert old in PARTS and key(PARTS.replace(old, new)) == base, new
    for old, new in (
        ("const.i32 3", "const.i32 6"),
        ("{ x=%x }\n    ret %y", "{ x=const.f32 1.0 }\n    ret %y"),
        ("TInner { field x: f32", "TInner { field x: f64"),
        ("target(spv) {\nbb0:\n    %y", "target(spv) workgroup(32, 1, 1) {\nbb0:\n    %y"),
        ("@deep", "@deeper"),
    ):
        assert old in PARTS and key(PARTS.replace(old, new)) != base, new


def test_a_module_shows_its_kernels(load):
    module = load(kernel("%n: u32", "    ret") + "fn @host() -> unit {\nbb0:\n    ret\n}\n")
    assert list(module) == ["k"] and module["k"] is module.k and "k" in dir(module) and len(module) == 1
    assert "t.mp" in repr(module) and repr(module.k).startswith("<kernel t.k")
    with pytest.raises(AttributeError, match="no kernel 'host'"):
        module.host  # noqa: B018
    with pytest.raises(mp.LaunchTypeError):
        module.k[1](1.5)


def test_artifacts_and_stages_need_no_device():
    k = mp.load_module(EXAMPLES / "vector_add_spv.mp").kernel_add
    assert k.compile(backend="spv").extension == ".spv"
    assert "kernel kernel_add(in: " in k.inspect("kir")
    assert not [d for d in k.check() if d.is_error]
    assert k.compile(backend="cpu", workgroup=32).layout.workgroup == (32, 1, 1)
    assert "workgroup(8, 4, 1)" in k.inspect("kir", workgroup=(8, 4)) and "workgroup(256, 1, 1)" in k.inspect("kir")


def test_the_sanitizer_reports_each_overflow_but_those_of_wrap(load):
    ops = ["i.add", "i.add.wrap", "i.add.checked", "i.sub", "i.sub.wrap", "i.mul", "i.mul.wrap", "i.sdiv"]
    body = "".join(
        f"    %r{k}: i32 = {op} {{ a=%n, b=%{'n' if op == 'i.mul' or '.mul.' in op or '.add' in op else 'm'} }}\n"
        f"    gpu.buffer_store<i32> {{ buf=%x, idx=const.u32 {k}, v=%r{k} }}\n"
        for k, op in enumerate(ops)
    )
    k = load(kernel("%x: gpu.TBuffer<i32>, %n: i32, %m: i32", body + "    ret", ONE_ITEM)).k
    out, least = np.zeros(len(ops), np.int32), -(2**31)
    checks = ("bounds", "divide", "overflow")
    found = {r.line for r in k.sanitize(grid=1, block=1, args=(out, least, -1), checks=checks)}
    wraps = {"i.add": 0, "i.mul": 0, "i.sdiv": least, "i.sub": least + 1}
    assert out.tolist() == [wraps[".".join(op.split(".")[:2])] for op in ops]
    assert found == {4 + 2 * ops.index(op) for op in ("i.add", "i.add.checked", "i.mul", "i.sdiv")}


def test_the_sanitizer_names_the_line(load):
    text = kernel(
        "%x: gpu.TBuffer<f32>",
        "    %g: u32 = gpu.global_id { dim=const.u32 0 }\n"
        "    gpu.buffer_store<f32> { buf=%x, idx=%g, v=const.f32 1.0 }\n    ret",
    )
    reports = load(text).k.sanitize(grid=1, args=(np.zeros(60, np.float32),))
    assert {r.kind for r in reports} == {"bounds"} and {r.line for r in reports} == {5}
    assert load(text).k.sanitize(grid=6, block=10, args=(np.zeros(60, np.float32),)) == []


def test_build_writes_the_kernels_of_a_file(tmp_path):
    options = ["--emit", "spv", "--emit", "kir", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, ["build", str(EXAMPLES / "reduce_sum.mp"), *options])
    assert done.exit_code == 0, done.output
    assert {p.name for p in tmp_path.iterdir()} == {"reduce_sum.spv", "reduce_sum.spv.kir"}
    assert (tmp_path / "reduce_sum.spv").read_bytes()[:4] == bytes.fromhex("03022307"), "the magic number of SPIR-V"
    bad = tmp_path / "bad.mp"
    bad.write_text("module t\nexports { @f }\n")
    done = CliRunner().invoke(app, ["build", str(bad), "-o", str(tmp_path)])
    assert done.exit_code == 1 and "MPT0003" in done.output


# --- errors -----------------------------------------------------------------------------------------------------------
def errors(text):
    """(code, line) of each error."""
    return [(d.code, d.loc.line) for d in check_source(Source(text, "t.mp")).diagnostics if d.is_error]


LINES = [
    ("%x: float32 = const.f32 1.0", "MPT0001"),
    ("%x: f32 = cast<i32, float> { v=%a }", "MPT0001"),
    ("%x: gpu.TBufer<f32> = gpu.buffer_len<f32> { buf=%p }", "MPT0001"),
    ("%x: f32<i32> = const.f32 1.0", "MPT0002"),
    ("%x: gpu.TBuffer = const.i32 1", "MPT0002"),
    ("%x: i32 = @limit", "MPT0003"),
    ("%x: i32 = call @id { args=[%a, %a] }", "MPT0004"),
    ("%x: i32 = call @id { args=[] }", "MPT0004"),
    ("%x: i32 = call @same { n=%a }", None),
    ("%x: f32 = f.add { a=%f, b=%a }", "MPS0004"),
    ("%x: f32 = f.add { a=%a, b=%a }", "MPS0004"),
    ("%x: f32 = const.f64 1.0", "MPS0004"),
    ("%x: i64 = i.add { a=%a, b=%a }", "MPS0004"),
    ("%x: i32 = call @id { n=%f }", "MPS0004"),
    ("%x: f64 = gpu.buffer_load<f64> { buf=%p, idx=%a }", "MPS0004"),
    ("gpu.buffer_store<f32> { buf=%p, idx=%a, v=%a }", "MPS0004"),
    ("%x: f32 = f.add { a=%f, c=%f }", "MPS0001"),
    ("%x: f32 = f.add { a=%f, lhs=%f }", "MPS0001"),
    ("%x: f32 = f.add { a=%f }", "MPS0001"),
    ("%x: u32 = gpu.global_id { dim=const.u32 3 }", "MPS0001"),
    ("%x: i32 = call @id { m=%a }", "MPS0001"),
    ("%x: f32 = f.add { a=%g, b=%f }", "MPS0002"),
    ("%a: f32 = const.f32 1.0", "MPS0003"),
    ("%x: f32 = f.plus { a=%f, b=%f }", "MPS0007"),
    ("%x: i32 = call @ident { n=%a }", "MPS0007"),
    ("%x: i32 = call @k { n=%a }", "MPS0007"),
    ("%x: TBox = new TBox { v=%a }", "MPG_CORE_1100"),
    ("%x: i32 = call @puts { n=%a }", "MPG_CORE_1405"),
    ("%x: gpu.TDevice = gpu.host.@device_default {}", "MPG_CORE_1405"),
    ("%x: i32 = try @id { n=%a }", "MPG_CORE_1405"),
    ('call_void @println { text=const.Str "a" }', "MPG_CORE_1405"),
    ("%x: i32 = call @same_of<i32, i32> { n=%a }", "MPT0002"),
    ("%x: Array<f32> = arr.new {}", "MPG_CORE_1100"),
    ("%x: TCallable<TSig> = callable.capture @id {}", "MPG_CORE_1100"),
    ('%x: Str = const.Str "a"', "MPG_CORE_1104"),
    ("%x: i128 = const.i128 1", "MPG_CORE_1404"),
    ("%x: f32 = ptr.load<f32> { p=%q }", "MPT0009"),
    ("unsafe { %x: f32 = ptr.load<f32> { p=%f } }", "MPS0004"),
    ("unsafe { %x: f32 = ptr.load<bool> { p=%f } }", "MPS0004"),
    ("%x: rawptr<f32> = gpu.malloc<f32> { count=%a }", "MPG_CORE_1201"),
    ("gpu.grid_barrier", "MPS0007"),
]
REST = """
fn @id(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @same(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @same_of<T: type>(%n: T) -> T {
bb0:
    ret %n
}
heap struct TBox {
    field v: i32
}
sig TSig(i32) -> i32
extern "c" module libc {
    fn @puts(%n: i32) -> i32
}
"""


@pytest.mark.parametrize(("line", "code"), LINES)
def test_errors_stand_at_their_line(line, code):
    found = errors(
        "module t imports { std.io::{@println} }\ngpu fn @k(%a: i32, %f: f32, %p: gpu.TBuffer<f32>) -> unit "
        f"target(spv) {{\nbb0:\n    {line}\n    ret\n}}\n{REST}"
    )
    if code is None:
        assert found == []
    elif code == "MPS0003":
        assert (code, 4) in found
    else:
        assert found and {f for f in found if f[1] == 4} == {(code, 4)}, found
        assert [f for f in found if f[1] != 4] == []


def test_helps_name_what_is_near_and_what_is_wanted():
    def text(line):
        source = f"module t\nfn @id(%n: i32) -> i32 {{\nbb0:\n    ret %n\n}}\n{kernel('%a: i32', line)}"
        return "\n".join(map(str, check_source(Source(source, "t.mp")).diagnostics))

    assert "did you mean f32?" in text("    %x: f23 = const.f32 1.0\n    ret")
    assert "it takes (%n: i32)" in text("    %x: i32 = call @id { args=[] }\n    ret")


def test_cases_phis_and_declarations():
    body = "    switch %n {\n        case const.i64 1 -> bb1\n        case 2 -> bb1\n    } else bb1\nbb1:\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body)) == [("MPT0005", 5)]
    body = "    br bb1\nbb1:\n    %y: i32 = i.add { a=%n, b=%n }\n    %x: i32 = phi { [bb0: %n] }\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body)) == [("MPT0006", 7)]
    twice = "fn @f() -> unit {\nbb0:\n    ret\n}\n"
    assert errors("module t\n" + twice + twice) == [("MPT0007", 6)]
    assert errors("module t\nglobal @f: i32 = const.i32 1\n" + twice) == [("MPT0007", 3)]
    assert errors("module t\nsig TA(i32) -> unit\nvalue struct TA {\n    field x: i32\n}\n") == [("MPT0007", 3)]
    assert errors("module t\ngpu fn @g<T: type>(%n: T) -> unit target(spv) {\nbb0:\n    ret\n}\n") == [("MPT0008", 2)]
    assert errors("module t\nexports { @f, @g }\n" + twice) == [("MPT0003", 2)]
    assert errors("module t\nexports { @f, i64, gpu.TError, f }\n" + twice) == [("MPT0003", 2)] * 3
    assert errors("module t\nexports { @f, TE }\nenum TE { A }\n" + twice) == []
    assert errors("module t\nvalue struct TA {\n    field x: TB\n    field y: Map<i32>\n}\n") == [
        ("MPT0001", 3),
        ("MPT0002", 4),
    ]


def test_rules_of_kernels():
    def head(text, params="%n: i32"):
        return errors("module t\n" + kernel(params, "    ret", text))

    assert head("target(spv) workgroup(0, 1, 1)") == [("MPG_CORE_1302", 2)]
    assert head("target(spv) workgroup(64, 32, 1)") == [("MPG_CORE_1302", 2)]
    assert head("target(spirit)") == [("MPG_CORE_1300", 2)]
    for type_, code in {
        "Str": "MPG_CORE_1104",
        "Array<f32>": "MPG_CORE_1105",
        "Map<i32, f32>": "MPG_CORE_1106",
        "TCallable<TSig>": "MPG_CORE_1107",
    }.items():
        found = errors("module t\n" + kernel(f"%n: {type_}", "    ret") + "sig TSig(i32) -> i32\n")
        assert found == [(code, 2)]
    unsafe = "unsafe gpu fn @k(%n: i32) -> unit target(wgsl) requires(device_maloc) {\nbb0:\n    ret\n}\n"
    assert errors("module t\n" + unsafe) == [("MPG_WGSL_1004", 2), ("MPG_CORE_1200", 2)]


def test_recursion_and_faults_of_called_functions_stand_in_those():
    text = "module t\n" + kernel("%n: i32", "    %x: i32 = call @f { n=%n }\n    ret")
    loop = "fn @f(%n: i32) -> i32 {\nbb0:\n    %x: i32 = call @f { n=%n }\n    ret %x\n}\n"
    assert errors(text + loop) == [("MPG_CORE_1103", 9)]
    chain = "".join(
        f"fn @f{k}(%n: i32) -> i32 {{\nbb0:\n    %x: i32 = call @f{k + 1} {{ n=%n }}\n    ret %x\n}}\n"
        for k in range(80)
    )
    chain += "fn @f80(%n: i32) -> i32 {\nbb0:\n    ret %n\n}\n"
    assert {code for code, _ in errors(text.replace("@f", "@f0") + chain)} == {"MPG_CORE_1409"}
    heap = 'fn @f(%n: i32) -> i32 {\nbb0:\n    %s: Str = const.Str "a"\n    ret %n\n}\n'
    assert errors(text + heap) == [("MPG_CORE_1104", 9)]


def test_memory_is_of_its_element_type_and_known_where_it_is_used():
    shared = "    %s: ptr = gpu.shared<8, i32>\n    %x: f32 = gpu.buffer_load<f32> { buf=%s, idx=const.u32 0 }\n    ret"
    assert errors("module t\n" + kernel("%n: u32", shared)) == [("MPS0004", 5)]
    two = (
        "    %s: ptr = gpu.shared<8, i32>\n    %r: ptr = gpu.shared<8, i32>\n    cbr %c bb1 bb2\nbb1:\n    br bb2\nbb2:\n"
        "    %p: ptr = phi { [bb0: %s], [bb1: %r] }\n    ret"
    )
    assert errors("module t\n" + kernel("%c: bool", two)) == [("MPG_CORE_1405", 10)]


def test_check_applies_the_rules_of_the_declared_target():
    def check(text):
        return {(d.code, d.loc.line) for d in check_module(Source("module t\n" + text, "t.mp"))}

    divergent = (
        "    %i: u32 = gpu.thread_id { dim=const.u32 0 }\n    %c: bool = icmp.eq { a=%i, b=%n }\n    cbr %c bb1 bb2\n"
        "bb1:\n    gpu.barrier\n    br bb2\nbb2:\n    ret"
    )
    for target in ("spv", "ptx", "hip", "msl", "wgsl", "cpu", "interp"):
        assert check(kernel("%n: u32", divergent, f"target({target})")) == {("MPG_CORE_1400", 6)}, "at the branch"
    needs = kernel("%n: u32", "    ret", "target(ptx) requires(device_malloc)")
    assert check(f"unsafe {needs}") == {("MPG_CORE_1202", 2)}
    assert check(kernel("%n: u32", "    ret")) == set()


def test_errors_of_several_functions_in_one_run():
    text = "module t\n"
    for k in range(3):
        text += (
            f"gpu fn @k{k}(%n: i32) -> unit target(spv) {{\nbb0:\n    %x: f32 = f.add {{ a=%n, b=%n }}\n    ret\n}}\n"
        )
    text += kernel("%n: i32", "    %x: foo = const.i32 1\n    ret")
    assert errors(text) == [("MPS0004", 4), ("MPS0004", 9), ("MPS0004", 14), ("MPT0001", 19)]


def test_load_module_raises_all_errors_and_warns_of_a_digest(tmp_path, load):
    with pytest.raises(mp.CompileError) as error:
        load(kernel("%n: i32", "    %x: f32 = const.i32 1\n    %y: f32 = @z\n    ret"))
    assert [d.code for d in error.value.diagnostics] == ["MPT0003"] or len(error.value.diagnostics) == 2
    with pytest.raises(mp.CompileError, match="MPP0005"):
        load("gpu k")
    with pytest.raises(FileNotFoundError):
        mp.load_module(tmp_path / "none.mp")
    with pytest.warns(mp.CompileWarning, match="MPL0001"):
        load(f'digest "{"1" * 64}"\n' + kernel("%n: i32", "    ret"))


# --- host programs ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mp")), ids=lambda p: p.stem)
def test_programs_that_are_right_have_no_errors(path):
    assert errors(path.read_text()) == []


def test_programs_of_the_specification_that_leave_parts_out():
    wanted = {1: [("MPS0002", 29)] * 3, 9: [("MPS0006", 22), ("MPS0002", 50)]}
    wanted |= {k: [("MPT0003", 2)] for k in (6, 7, 8)}  # they export a @main that is not there
    for k in range(1, 11):
        assert errors((SPEC / f"spec_17_{k:02}.mp").read_text()) == wanted.get(k, []), k


HOST = [
    ("%x: i32 = i.add { a=%a, b=%a }", None),
    ("%x: i32 = i.add { a=%a, b=%b }", "MPS0004"),
    ("%x: i64 = i.add { a=%a, b=%a }", "MPS0004"),
    ("%x: i32 = i.add { a=%a, c=%a }", "MPS0001"),
    ("%x: i32 = i.plus { a=%a, b=%a }", "MPS0007"),
    ("%x: i32 = i.add { a=%a, b=%z }", "MPS0002"),
    ("%x: i64 = arr.len { arr=%z }", "MPS0002"),
    ("call_void @println { text=%z }", "MPS0002"),
    ('call_void @println { text=const.Str "a" }', None),
    ("%x: i32 = call @other { n=%a }", None),
    ("%x: i32 = call @other { n=%b }", "MPS0004"),
    ("%x: i64 = call @other { n=%a }", "MPS0004"),
    ("%x: i32 = call @other { m=%a }", "MPS0001"),
    ("%x: i32 = call @other { args=[%a, %a] }", "MPT0004"),
    ("%x: i32 = call @othr { n=%a }", "MPS0007"),
    ("call_void @k { x=%d, n=%a }", "MPS0007"),
    ("%x: i32 = try @result { n=%a }", "MPT0015"),
    ("%x: i32 = try %z", "MPS0002"),
    ("%a: i32 = const.i32 1", "MPS0003"),
    ("%x: i32 = @limit", "MPS0004"),
    ("%x: i64 = @limit", None),
    ("%x: i64 = @lim", "MPT0003"),
    ("%x: f32 = const.f64 1.0", "MPS0004"),
    ("%x: TPoint = new TPoint { x=%a }", None),
    ("%x: TPoint = new TPoint { y=%a }", "MPS0001"),
    ("%x: TPoint = new TPoint { x=%b }", "MPS0004"),
    ("%x: TUnknown = arr.get { arr=%a }", "MPT0001"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d, %a] }", None),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u], block=[%u, %u, %u], args=[%d, %a] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%a, %d] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@k, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%d, const.i64 1] }", "MPT0010"),
    ("%l: TResult<unit, gpu.TError> = gpu.launch { device=%dev, kernel=@other, grid=[%u, %u, %u], block=[%u, %u, %u], args=[%a] }", "MPT0010"),
    ("ptr.store<i32> { p=%q, v=%a }", "MPT0009"),
    ("unsafe { ptr.store<i32> { p=%q, v=%a } }", None),
    ("unsafe { ptr.store<i32> { p=%q, v=%b } }", "MPS0004"),
]
HOST_REST = """
fn @other(%n: i32) -> i32 {
bb0:
    ret %n
}
fn @result(%n: i32) -> TResult<i32, Str> {
bb0:
    %r: TResult<i32, Str> = enum.new<Ok> { v=%n }
    ret %r
}
heap struct TPoint {
    field x: i32
}
global @limit: i64 = const.i64 9
gpu fn @k(%x: gpu.TBuffer<f32>, %n: i32) -> unit target(spv) {
bb0:
    ret
}
"""


@pytest.mark.parametrize(("line", "code"), HOST)
def test_errors_of_hosts_stand_at_their_line(line, code):
    text = "module t imports { std.io::{@println} }\nfn @f(%a: i32, %b: i64, %d: gpu.TBuffer<f32>, "
    text += "%u: u32, %q: rawptr<i32>, %dev: gpu.TDevice) "
    found = errors(f"{text}-> unit {{\nbb0:\n    {line}\n    ret\n}}\n{HOST_REST}")
    assert set(found) == ({(code, 4)} if code else set())


def test_results_and_phis_of_hosts():
    def text(phi, end="%x"):
        return (
            "module t\nfn @f(%r: TResult<i32, Str>, %c: bool) -> Str {\nbb0:\n    %v: i32 = try %r bb_fail\n"
            f"    cbr %c bb1 bb_fail\nbb1:\n    br bb1\nbb_fail:\n    %x: Str = {phi}\n    ret {end}\n}}\n"
        )

    assert errors(text("phi { [bb0: %r.err] }")) == []
    assert errors(text("phi { [bb0: %v] }")) == [("MPS0002", 9)]  # not there where the `try` found an error
    assert errors(text("phi { [bb1: %r.err] }")) == [("MPS0006", 9)]
    assert errors(text("phi { [bb0: %c.err] }")) == [("MPS0004", 9)]
    assert errors(text("phi { [bb0: %r.err] }", "%v")) == [("MPS0002", 10)]
    assert errors(text("phi { [bb0: %r.err] }", "%c")) == [("MPS0004", 10)]
    assert errors(text("phi i32 { [bb0: %r.err] }")) == [("MPS0004", 9)]


def test_changed_programs_never_break_the_checks():
    """Words of programs in each other's places: most still parse, few are right, and all get an answer."""
    corpus = [p.read_text() for p in [*sorted(EXAMPLES.glob("*.mp")), *sorted(SPEC.glob("*.mp"))]]
    pieces = re.compile(r"[%@]?[\w.]+|\s+|.")
    rng = random.Random(11)
    codes: set[str] = set()
    for _ in range(300):
        words = pieces.findall(rng.choice(corpus))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(words))
            kind = words[at][0] if words[at][0] in "%@" else words[at][:2]
            words[at] = rng.choice([w for w in words if w.startswith(kind)])
        found = check_source(Source("".join(words), "t.mp")).diagnostics
        codes |= {d.code[:3] for d in found}
        assert all(d.loc is not None and d.loc.line >= 1 for d in found)
    assert {"MPP", "MPS", "MPT"} <= codes


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("enum TE {\n    A\n    B\n    A\n}\n", "MPS0003", 5),
        ("enum TE {\n    A {\n        field x: i64\n        field x: i64\n    }\n}\n", "MPS0003", 5),
        ("fn @f<T: type, T: type>(%x: T) -> unit {\nbb0:\n    ret\n}\n", "MPS0003", 2),
        ("value struct TP<T: type, T: type> {\n    field x: T\n}\n", "MPS0003", 2),
        ("enum TP<A: type, A: type> {\n    Some\n}\n", "MPS0003", 2),
        ("value struct TOption {\n    field x: i64\n}\n", "MPT0007", 2),
        ("heap struct Str {\n    field x: i64\n}\n", "MPT0007", 2),
        ("value struct i64 {\n    field x: i32\n}\n", "MPT0007", 2),
        ("enum gpu.ErrorKind {\n    Fine\n}\n", "MPT0007", 2),
        ("sig gpu.TError() -> unit\n", "MPT0007", 2),
        ("fn @f<i64: type>(%x: i64) -> unit {\nbb0:\n    ret\n}\n", "MPT0007", 2),
        ("enum TE<TE: type> {\n    A\n}\n", "MPT0007", 2),
        ("fn @f<T: int>(%x: T) -> unit {\nbb0:\n    ret\n}\n", "MPT0001", 2),
        ("fn std.io.@print(%text: Str) -> unit {\nbb0:\n    ret\n}\n", "MPP0005", 2),
        ("global other.@g: i64 = const.i64 1\n", "MPP0005", 2),
    ],
)
def test_declarations_and_their_parts_have_names_of_their_own(text, code, line):
    assert errors("module t\n" + text) == [(code, line)]


def test_value_structs_have_an_end_and_fields_of_their_own():
    def fields(kind, *lines):
        return f"{kind} struct TA {{\n" + "".join(f"    field {line}\n" for line in lines) + "}\n"

    assert errors("module t\n" + fields("value", "x: f32", "x: f32")) == [("MPS0003", 4)]
    assert errors("module t\n" + fields("value", "x: TA")) == [("MPT0011", 2)]
    assert errors("module t\n" + fields("heap", "x: TA")) == []
    wide = fields("value", *(f"x{k}: f32" for k in range(4096)))
    assert errors("module t\n" + wide) == []
    assert errors("module t\n" + wide + "value struct TB {\n    field x: TA\n    field y: f32\n}\n") == [
        ("MPT0011", 4100)
    ]
    for count, twice in ((64, False), (65, False), (3000, False), (40, True)):
        text = "module t\n" + kernel("%s: TA0", "    ret")
        for k in range(count):
            inner = f"TA{k + 1}" if k < count - 1 else "i32"
            text += f"value struct TA{k} {{\n    field x: {inner}\n" + f"    field y: {inner}\n" * twice + "}\n"
        assert {code for code, _ in errors(text)} == ({"MPT0011"} if count != 64 else set())


def test_long_modules_are_checked_in_time():
    """10,000 lines in under 3 seconds of the processor, right or wrong in every line."""
    text = (EXAMPLES / "reduce_sum.mp").read_text()
    one = text[text.index("gpu fn") : text.index("\n}\n") + 3]
    many = "module t\n" + "".join(one.replace("@reduce_sum", f"@k{k}") for k in range(10_000 // one.count("\n") + 1))
    wrong = "module t\n" + kernel(
        "%n: i32", "".join(f"    %v{k}: i32 = i.add {{ a=%w{k}, b=%n }}\n" for k in range(9990)) + "    ret"
    )
    host = wrong.replace("gpu fn", "fn").replace(" target(spv)", "")
    for source, count in ((many, 0), (wrong, 20), (host, 20)):
        assert source.count("\n") > 9990
        start = time.process_time()
        found = errors(source)
        assert time.process_time() - start < 3
        assert len(found) == count


def test_every_code_of_names_and_types_shows_what_is_wrong_and_right():
    from magpie.diagnostics import table

    assert all("wrong:" in lookup(code).text for code in table() if code.startswith("MPT"))


def test_memory_holds_no_structs_without_numbers():
    head = "module t\nvalue struct TA {\n}\nvalue struct TB {\n    field a: TA\n    field b: TA\n}\n"
    for params, body, line in [
        ("%b: gpu.TBuffer<TA>", "    ret", 8),
        ("%b: gpu.TBuffer<TB>", "    ret", 8),
        ("", "    %s: ptr = gpu.shared<4, TB>\n    ret", 10),
        ("", "    %s: ptr = gpu.local<4, TA>\n    ret", 10),
    ]:
        found = errors(head + kernel(params, body))
        assert ("MPG_CORE_1404", line) in found and {code for code, _ in found} == {"MPG_CORE_1404"}
    assert errors(head + kernel("%a: TB", "    %e: TA = new TA {}\n    ret")) == []


@pytest.mark.parametrize(
    ("type_", "cases", "helped"),
    [
        ("bool", "case true -> bb1 case const.bool false -> bb1", "branch on it with cbr"),
        ("TE", "case 0 -> bb1", "switch on what enum.tag gives"),
        ("Str", 'case "a" -> bb1', None),
        ("f32", "", None),
    ],
)
def test_a_switch_is_of_an_integer(type_, cases, helped):
    text = f"enum TE {{ A B }} fn @f(%x: {type_}) -> unit {{ bb0: switch %x {{ {cases} }} else bb1 bb1: ret }}"
    (found,) = check_source(Source(f"module t\n{text}", "t.mp")).diagnostics
    assert (found.code, found.help) == ("MPS0004", helped) and f"an integer, not {type_}" in found.message


def test_a_kernel_may_be_called_main_and_no_host_program_calls_kernels():
    body = "    %g: u32 = gpu.global_id { dim=const.u32 0 }\n    ret"
    assert errors("module t\n" + kernel("%n: i32", body).replace("@k(", "@main(")) == []
    host = "fn @main() -> unit {\nbb0:\n    call_void @k { n=const.i32 1 }\n    ret\n}\n"
    assert errors("module t\n" + host + kernel("%n: i32", body)) == [("MPS0007", 4)]
