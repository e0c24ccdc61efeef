"""Kernels of `.mp` files: what they compute when Python launches them, against NumPy, and where their errors stand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import magpie as mp
from magpie.cli.app import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "mp"
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
