"""Memory, synchronisation and debugging operations of `.mp` kernels: what they do on interp and cpu, and their errors."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.mpir import parse_module, print_module

BACKENDS = ("interp", "cpu")


def module_of(tmp_path, text):
    path = tmp_path / "t.mp"
    path.write_text("module t\n" + text)
    found = check_source(Source(path.read_text(), str(path)))
    if found.module is not None:
        printed = print_module(found.module)
        assert print_module(parse_module(printed)) == printed
    return mp.load_module(path)


def kernel(params, body, head="gpu fn", tail=""):
    start = "bb0:\n%g: u32 = gpu.global_id { dim=const.u32 0 }\n%t: u32 = gpu.thread_id { dim=const.u32 0 }\n"
    return f"{head} @k({params}) -> unit target(interp) workgroup(32, 1, 1) {tail} {{\n{start}{body}\nret\n}}\n"


def codes(text):
    return [d.code for d in check_source(Source("module t\n" + text, "t.mp")).diagnostics]


@pytest.mark.parametrize("backend", BACKENDS)
def test_local_arrays_start_at_zero(tmp_path, backend):
    text = """value struct TPair {
    field a: i32
    field b: f32
}
fn @twice(%n: i32) -> i32 {
bb0:
    %l: ptr = gpu.local<4, TPair>
    %at: i32 = i.and { a=%n, b=const.i32 3 }
    %old: i32 = gpu.buffer_load_field<TPair> { buf=%l, idx=%at, field=a }
    %new: i32 = i.add { a=%old, b=%n }
    gpu.buffer_store_field<TPair> { buf=%l, idx=%at, field=a, v=%new }
    ret %new
}
""" + kernel(
        "%out: gpu.TBuffer<i32>",
        """%l: ptr = gpu.local<8, i32>
%k: u32 = i.and { a=%g, b=const.u32 7 }
%x: i32 = cast<u32, i32> { v=%g }
gpu.buffer_store<i32> { buf=%l, idx=%k, v=%x }
%y: i32 = gpu.buffer_load<i32> { buf=%l, idx=const.i32 3 }
%a: i32 = call @twice { n=%x }
%b: i32 = call @twice { n=%x }
%s: i32 = i.add { a=%a, b=%b }
%r: i32 = i.add { a=%s, b=%y }
gpu.buffer_store<i32> { buf=%out, idx=%g, v=%r }""",
    )
    out = np.zeros(64, np.int32)
    module_of(tmp_path, text).k.launch(grid=2, args=(out,), backend=backend)
    n = np.arange(64)
    assert out.tolist() == (2 * n + np.where(n % 8 == 3, n, 0)).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables(tmp_path, backend):
    body = """%f: ptr = gpu.table<f32> { values=[const.f32 0.5, const.f32 -inf, const.f32 3.25] }
%b: ptr = gpu.table<bool> { values=[const.bool true, const.bool false, const.bool true, const.bool true] }
%i: u32 = i.urem { a=%g, b=const.u32 3 }
%j: u32 = i.and { a=%g, b=const.u32 3 }
%x: f32 = gpu.buffer_load<f32> { buf=%f, idx=%i }
%c: bool = gpu.buffer_load<bool> { buf=%b, idx=%j }
%r: f32 = select { cond=%c, a=%x, b=const.f32 7.0 }
gpu.buffer_store<f32> { buf=%out, idx=%g, v=%r }"""
    out = np.zeros(32, np.float32)
    module_of(tmp_path, kernel("%out: gpu.TBuffer<f32>", body)).k.launch(grid=1, args=(out,), backend=backend)
    n = np.arange(32)
    assert out.tolist() == np.where(n % 4 != 1, np.array([0.5, -np.inf, 3.25])[n % 3], 7.0).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_shared_memory_of_a_length_that_the_launch_decides(tmp_path, backend):
    body = """%n: u32 = gpu.workgroup_size { dim=const.u32 0 }
%len: u32 = i.mul { a=%n, b=%times }
%s: ptr = gpu.shared_dynamic<i32> { count=%len }
%last: u32 = i.sub { a=%len, b=const.u32 1 }
%far: u32 = i.sub { a=%last, b=%t }
%x: i32 = cast<u32, i32> { v=%g }
gpu.buffer_store<i32> { buf=%s, idx=%far, v=%x }
gpu.barrier
%i: u32 = i.sub { a=%len, b=%n }
%j: u32 = i.add { a=%i, b=%t }
%y: i32 = gpu.buffer_load<i32> { buf=%s, idx=%j }
gpu.buffer_store<i32> { buf=%out, idx=%g, v=%y }"""
    k = module_of(tmp_path, kernel("%out: gpu.TBuffer<i32>, %times: u32", body)).k
    for times in (1, 3):
        out = np.zeros(64, np.int32)
        k.launch(grid=2, args=(out, times), backend=backend)
        assert out.tolist() == [*range(31, -1, -1), *range(63, 31, -1)]
    bad = "%s: ptr = gpu.shared_dynamic<i32> { count=%g }"
    assert codes(kernel("%out: gpu.TBuffer<i32>", bad)) == ["MPS0001"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_fields_of_structs_in_buffers(tmp_path, backend):
    text = """value struct TInner {
    field u: u8
    field v: f64
}
value struct TOuter {
    field k: i32
    field in: TInner
}
""" + kernel(
        "%p: gpu.TBuffer<TOuter>",
        """%v: f64 = gpu.buffer_load_field<TOuter> { buf=%p, idx=%g, field=in.v }
%d: f64 = f.add { a=%v, b=%v }
gpu.buffer_store_field<TOuter> { buf=%p, idx=%g, field=in.v, v=%d }
%k: i32 = gpu.buffer_load_field<TOuter> { buf=%p, idx=%g, field=k }
%u: u8 = cast<i32, u8> { v=%k }
gpu.buffer_store_field<TOuter> { buf=%p, idx=%g, field=in.u, v=%u }""",
    )
    inner = np.dtype([("u", np.uint8), ("v", np.float64)], align=True)
    p = np.zeros(32, np.dtype([("k", np.int32), ("in", inner)], align=True))
    p["k"], p["in"]["v"], p["in"]["u"] = np.arange(32) * 9, np.arange(32) / 4, 255
    module_of(tmp_path, text).k.launch(grid=1, args=(p,), backend=backend)
    assert p["in"]["v"].tolist() == (np.arange(32) / 2).tolist() and p["k"].tolist() == [9 * i for i in range(32)]
    assert p["in"]["u"].tolist() == [9 * i % 256 for i in range(32)]
    for field in ("w", "in", "in.w", "k.u"):
        bad = text.replace("field=k }", f"field={field} }}")
        assert codes(bad)[:1] in (["MPS0001"], ["MPS0004"]), field


@pytest.mark.parametrize("backend", BACKENDS)
def test_atomics_name_scope_and_order(tmp_path, backend):
    body = """%s: ptr = gpu.shared<1, u32>
%first: bool = icmp.eq { a=%t, b=const.u32 0 }
cbr %first bb1 bb2
bb1:
gpu.buffer_store<u32> { buf=%s, idx=const.u32 0, v=const.u32 0 }
br bb2
bb2:
gpu.barrier
gpu.atomic_add.workgroup<u32> { buf=%s, idx=const.u32 0, v=%g }
gpu.atomic_max.device<u32> { buf=%out, idx=const.u32 1, v=%g }
gpu.fence.workgroup.release
gpu.fence.acquire
gpu.barrier
%all: u32 = gpu.atomic_load.relaxed.workgroup<u32> { buf=%s, idx=const.u32 0 }
%same: u32 = gpu.uniform { v=%all }
gpu.atomic_store.relaxed.device<u32> { buf=%out, idx=const.u32 0, v=%same }
%odd: bool = gpu.atomic_load<bool> { buf=%flag, idx=const.u32 0 }
%was: bool = gpu.atomic_or.device<bool> { buf=%flag, idx=const.u32 0, v=%first }
%f: f32 = gpu.atomic_cas<f32> { buf=%x, idx=%g, expected=const.f32 2.0, desired=const.f32 5.0 }
%id: u32 = gpu.linear_local_id
%at: u32 = i.add { a=%id, b=const.u32 2 }
gpu.buffer_store<u32> { buf=%out, idx=%at, v=%id }"""
    text = kernel(
        "%out: gpu.TBuffer<u32>, %flag: gpu.TBuffer<bool>, %x: gpu.TBuffer<f32>",
        body,
        "unsafe gpu fn",
        "requires(atomics_f32)",
    )
    out, flag, x = np.zeros(34, np.uint32), np.zeros(1, np.bool_), np.arange(32, dtype=np.float32) % 4
    module_of(tmp_path, text).k.launch(grid=1, args=(out, flag, x), backend=backend)
    assert out.tolist() == [sum(range(32)), 31, *range(32)] and flag.tolist() == [True]
    assert x.tolist() == [0, 1, 5, 3] * 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_exclusive_scans(tmp_path, backend):
    body = """%a: u32 = gpu.subgroup_scan_sum.exclusive { v=%g }
%b: u32 = gpu.subgroup_scan_xor { v=%g }
%c: u32 = gpu.subgroup_scan_min.exclusive { v=%g }
%m: u32 = i.add { a=%a, b=%b }
%r: u32 = i.xor { a=%m, b=%c }
gpu.buffer_store<u32> { buf=%out, idx=%g, v=%r }"""
    text = kernel("%out: gpu.TBuffer<u32>", body, "unsafe gpu fn", "requires(subgroups)")
    out = np.zeros(32, np.uint32)
    module_of(tmp_path, text).k.launch(grid=1, args=(out,), backend=backend, subgroup_size=8)
    rows = np.arange(32, dtype=np.uint32).reshape(4, 8)
    sums = np.cumsum(rows, 1, dtype=np.uint32) - rows
    least = np.concatenate([np.full((4, 1), 2**32 - 1, np.uint32), np.minimum.accumulate(rows, 1)[:, :-1]], 1)
    assert out.tolist() == ((sums + np.bitwise_xor.accumulate(rows, 1)) ^ least).ravel().tolist()


def test_grid_sync(tmp_path):
    body = """%one: u32 = gpu.atomic_add<u32> { buf=%out, idx=const.u32 0, v=const.u32 1 }
gpu.grid_sync
%all: u32 = gpu.buffer_load<u32> { buf=%out, idx=const.u32 0 }
%at: u32 = i.add { a=%g, b=const.u32 1 }
gpu.buffer_store<u32> { buf=%out, idx=%at, v=%all }"""
    text = kernel("%out: gpu.TBuffer<u32>", body, "unsafe gpu fn", "requires(cooperative_groups)")
    out = np.zeros(97, np.uint32)
    module_of(tmp_path, text).k.launch(grid=3, args=(out,), backend="interp")
    assert out.tolist() == [96] * 97


@pytest.mark.parametrize("backend", BACKENDS)
def test_print_assert_and_trap(tmp_path, backend, capfd):
    body = """%is: bool = icmp.eq { a=%g, b=const.u32 5 }
%h: f32 = const.f32 0.5
cbr %is bb1 bb2
bb1:
gpu.print { text="g {{{}}} h {}", args=[%g, %h] }
br bb2
bb2:
%low: bool = icmp.ult { a=%g, b=%limit }
gpu.assert { cond=%low, text="too far" }"""
    text = kernel("%limit: u32", body)
    k = module_of(tmp_path, text).k
    k.launch(grid=1, args=(100,), backend=backend, checked=True)
    mp.synchronize()
    assert "g {5} h 0.5" in capfd.readouterr().out

    def run(k):
        k.launch(grid=1, args=(20,), backend=backend, checked=True)
        mp.synchronize()

    with pytest.raises(mp.GpuError, match="too far"):
        run(k)
    stop = kernel("%limit: u32", 'gpu.trap { text="no way on" }')
    with pytest.raises(mp.GpuError, match="no way on"):
        run(module_of(tmp_path, stop).k)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("MPS0001", '%x: f32 = const.f32 1.0\ngpu.print { text="{} {}", args=[%x] }'),
        ("MPS0001", "gpu.print { text=\"{}\", args=%g }"),
        ("MPS0004", "%c: bool = icmp.eq { a=%g, b=%g }\n%r: u32 = select { cond=%c, a=%g, b=const.u64 1 }"),
        ("MPS0004", "%c: bool = icmp.eq { a=%g, b=%g }\n%r: ptr = select { cond=%c, a=%s, b=%s }"),
        ("MPS0004", "%r: u64 = bitcast<u32, u64> { v=%g }"),
        ("MPS0004", "%r: f64 = math.ldexp { v=const.f64 1.0, n=const.i64 1 }"),
        ("MPS0004", "%r: u32 = f.neg { v=%g }"),
        ("MPS0004", "%r: i32 = i.abs { v=%g }"),
        ("MPS0004", "%r: i64 = i.trip_count { start=%g, stop=%g, step=%g }"),
        ("MPS0001", "%r: ptr = gpu.table<u32> { values=[const.u32 1, %g] }"),
        ("MPS0001", "%r: ptr = gpu.table<u32> { values=[] }"),
        ("MPS0001", "%r: ptr = gpu.local<0, u32>"),
        ("MPS0004", "%r: bf16 = f64.to_bf16 { v=const.f32 1.0 }"),
        ("MPS0004", "gpu.assert { cond=%g, text=\"no\" }"),
        ("MPS0007", "gpu.fence.relaxed"),
        ("MPG_CORE_1201", "gpu.grid_sync"),
        ("MPG_CORE_1201", "%r: u32 = gpu.subgroup_scan_sum.exclusive { v=%g }"),
        ("MPG_CORE_1201", "%r: f64 = gpu.atomic_add.device<f64> { buf=%d, idx=%g, v=const.f64 1.0 }"),
    ],
)
def test_what_they_cannot_take(code, body):
    text = kernel("%d: gpu.TBuffer<f64>", f"%s: ptr = gpu.shared<4, u32>\n{body}")
    assert codes(text) == [code]
