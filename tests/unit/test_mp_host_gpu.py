"""The GPU in host programs: devices, buffers, launches, fences, and each kind of error that can be had."""

from __future__ import annotations

import math

import numpy as np
import pytest
from host_tools import program

from magpie.errors import GpuErrorKind
from magpie.host.gpu import gpu_of
from magpie.host.values import ArrayValue, EnumValue, StructValue
from magpie.mpir.types import Ty
from magpie.runtime import dispatch
from magpie.runtime.device import Device
from magpie.runtime.driver import DeviceInfo
from magpie.runtime.drivers.cuda import CudaDriver
from magpie.runtime.manifest import GpuSettings
from tests.unit import gpu_standin

HEAD = "module t\nimports { std.io::{@println} }\n"

KERNELS = """
gpu fn @add(%in: gpu.TBuffer<f32>, %out: gpu.TBuffer<f32>, %by: f32, %n: u32) -> unit target(TARGET) workgroup(64, 1, 1) {
bb0:
    %gid: u32 = gpu.global_id { dim=const.u32 0 }
    %inside: bool = icmp.ult { a=%gid, b=%n }
    cbr %inside bb1 bb2
bb1:
    %x: f32 = gpu.buffer_load<f32> { buf=%in, idx=%gid }
    %y: f32 = f.add { a=%x, b=%by }
    gpu.buffer_store<f32> { buf=%out, idx=%gid, v=%y }
    br bb2
bb2:
    ret
}
"""


def result(name, params, type_, call):
    """A function that gives what a call gives, with its type arguments."""
    type_ = f"TResult<{type_}, gpu.TError>"
    return f"fn @{name}({params}) -> {type_} {{\nbb0:\n    %r: {type_} = {call}\n    ret %r\n}}\n"


def plain(name, params, type_, call):
    return f"fn @{name}({params}) -> {type_} {{\nbb0:\n    %r: {type_} = {call}\n    ret %r\n}}\n"


DEVICE = "%dev: borrow gpu.TDevice"
SIZES = ", ".join(f"%{axis}: u32" for axis in ("gx", "gy", "gz", "bx", "by", "bz"))
LAUNCH = "{ device=%dev, kernel=@add, grid=[%gx, %gy, %gz], block=[%bx, %by, %bz], args=[%a, %b, %v, %n]MORE }"
LAUNCH_PARAMS = f"{DEVICE}, {SIZES}, %a: borrow gpu.TBuffer<f32>, %b: borrow gpu.TBuffer<f32>, %v: f32, %n: u32"

HOST = "".join(
    [
        plain("count", "", "u32", "gpu.host.@device_count {}"),
        result("default", "", "gpu.TDevice", "gpu.host.@device_default {}"),
        result("at", "%i: u32", "gpu.TDevice", "gpu.host.@device_by_index { idx=%i }"),
        plain("name", DEVICE, "Str", "gpu.host.@device_name { dev=%dev }"),
        plain("backends", DEVICE, "Array<Str>", "gpu.host.@device_backends { dev=%dev }"),
        *(
            plain(query, DEVICE, "u32", f"gpu.host.@device_{query} {{ dev=%dev }}")
            for query in ("max_workgroup_size", "max_shared_bytes", "max_buffers", "warp_size")
        ),
        plain("memory_total", DEVICE, "u64", "gpu.host.@device_memory_total { dev=%dev }"),
        plain("memory_available", DEVICE, "u64", "gpu.host.@device_memory_available { dev=%dev }"),
        result("sync", DEVICE, "unit", "gpu.host.@device_sync { dev=%dev }"),
        result("wait", "%f: borrow gpu.TFence, %ms: u64", "bool", "gpu.host.@fence_wait { f=%f, timeout_ms=%ms }"),
        result("launch", LAUNCH_PARAMS, "unit", "gpu.launch " + LAUNCH.replace("MORE", "")),
        result("start", LAUNCH_PARAMS, "gpu.TFence", "gpu.launch_async " + LAUNCH.replace("MORE", "")),
        result("stand_in", LAUNCH_PARAMS, "unit", "gpu.launch " + LAUNCH.replace("MORE", ", fallback=cpu")),
        result(
            "hinted",
            f"{DEVICE}, %n: u64, %flags: u32, %hint: gpu.MemoryHint",
            "gpu.TBuffer<f32>",
            "gpu.host.@buffer_new<f32> { dev=%dev, len=%n, usage_flags=%flags, hint=%hint }",
        ),
    ]
)


def buffers(element, suffix=""):
    """The functions of buffers for one type of elements."""
    buffer = f"gpu.TBuffer<{element}>"
    return "".join(
        [
            result(
                f"new{suffix}",
                f"{DEVICE}, %n: u64",
                buffer,
                f"gpu.host.@buffer_new<{element}> {{ dev=%dev, len=%n, usage_flags=const.u32 1 }}",
            ),
            result(
                f"fill{suffix}",
                f"{DEVICE}, %src: borrow Array<{element}>",
                buffer,
                f"gpu.host.@buffer_from_array<{element}> {{ dev=%dev, src=%src, usage_flags=const.u32 1 }}",
            ),
            result(
                f"read{suffix}",
                f"%buf: borrow {buffer}",
                f"Array<{element}>",
                f"gpu.host.@buffer_to_array<{element}> {{ buf=%buf }}",
            ),
            plain(f"len{suffix}", f"%buf: borrow {buffer}", "u64", f"gpu.host.@buffer_len<{element}> {{ buf=%buf }}"),
            result(
                f"copy{suffix}",
                f"%a: borrow {buffer}, %b: borrow {buffer}",
                "unit",
                f"gpu.host.@buffer_copy<{element}> {{ src=%a, dst=%b }}",
            ),
        ]
    )


def loaded(target="spv", more=""):
    return program(KERNELS.replace("TARGET", target) + HOST + buffers("f32") + more, HEAD)


def good(value):
    assert value.variant == "Ok", value.fields[0].fields
    return value.fields[0]


def kind(value):
    """The kind of an Err, which must have a message and the number of its kind."""
    assert value.variant == "Err", value
    fields = value.fields[0].fields
    assert fields["kind"].tag == GpuErrorKind[fields["kind"].variant] and fields["message"]
    return fields["kind"].variant


def array(items, element="f32"):
    return ArrayValue(Ty(element), list(items))


@pytest.fixture(params=["cpu", "vulkan"])
def backend(request, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", request.param)
    reason = dispatch.runtime().unavailable({"vulkan": "spv"}.get(request.param, request.param))
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def gpu(backend):
    """A program, and its default device."""
    made = loaded()
    return made, good(made.call("default"))


def sums(made, device, n=1000, grid=16, block=64, run="launch"):
    """Launch @add over 0, 1, 2, ... and give the result with what was read."""
    a = good(made.call("fill", [device, array(map(float, range(n)))]))
    b = good(made.call("new", [device, n]))
    ran = made.call(run, [device, grid, 1, 1, block, 1, 1, a, b, 0.5, n])
    return ran, good(made.call("read", [b])).items


# --- devices ---------------------------------------------------------------------------------------------------------
def test_the_forced_backend_has_the_first_device(gpu, backend):
    made, device = gpu
    assert device.backend == {"cpu": "cpu", "vulkan": "spv"}[backend]
    assert good(made.call("at", [0])) is device
    count = made.call("count")
    assert count >= 1 and len({good(made.call("at", [i])).id for i in range(count)}) == count
    assert kind(made.call("at", [count])) == "ValidationFailed"
    assert kind(made.call("at", [(1 << 32) - 1])) == "ValidationFailed"


def test_queries_of_a_device(gpu):
    made, device = gpu
    assert made.call("name", [device]) == device.name
    assert made.call("backends", [device]).items[0] == device.backend
    assert made.call("max_workgroup_size", [device]) == device.max_workgroup_size >= 128
    assert made.call("max_shared_bytes", [device]) == device.max_shared_bytes >= 16384
    assert made.call("max_buffers", [device]) >= 8
    assert made.call("warp_size", [device]) == (device.subgroup_size or 32)
    assert made.call("memory_total", [device]) >= made.call("memory_available", [device]) >= 0
    assert good(made.call("sync", [device])) is None


def test_a_backend_that_is_not_there(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "metal")
    made = loaded()
    assert kind(made.call("default")) == "BackendUnavailable" and made.call("count") == 0
    assert made.call("default").fields[0].fields["backend"] == "msl"


# --- buffers ---------------------------------------------------------------------------------------------------------
INTS = {f"{sign}{bits}": (sign, bits) for sign in "iu" for bits in (8, 16, 32, 64)}
FLOATS = {
    "f16": [0.5, -65504.0, 2.0**-24],
    "bf16": [1.0078125, -3.3895313892515355e38, 9.183549615799121e-41],
    "f32": [0.10000000149011612, -3.4028234663852886e38, 1.401298464324817e-45],
    "f64": [0.1, -1.7976931348623157e308, 5e-324],
}
VALUES = {
    **{t: [0, 1, (1 << (b - (s == "i"))) - 1, -(1 << (b - 1)) if s == "i" else 7] for t, (s, b) in INTS.items()},
    **{t: [*v, math.inf, -math.inf, -0.0, math.nan] for t, v in FLOATS.items()},
    "bool": [True, False, False, True, True],
}


@pytest.mark.parametrize("element", VALUES)
def test_elements_of_every_type_go_there_and_back(element, backend):
    made = program(KERNELS.replace("TARGET", "spv") + HOST + buffers(element), HEAD)
    device = good(made.call("default"))
    want = VALUES[element]
    buffer = good(made.call("fill", [device, array(want, element)]))
    found = good(made.call("read", [buffer]))
    assert found.element == Ty(element) and made.call("len", [buffer]) == len(want)
    assert [type(v) for v in found.items] == [type(v) for v in want]
    for got, value in zip(found.items, want, strict=True):
        if value != value:
            assert got != got
        else:
            assert got == value and math.copysign(1, got) == math.copysign(1, value)
    zeros = good(made.call("read", [good(made.call("new", [device, 5]))])).items
    assert zeros == [0] * 5 and type(zeros[0]) is type(want[0])
    empty = good(made.call("fill", [device, array([], element)]))
    assert made.call("len", [empty]) == 0 and good(made.call("read", [empty])).items == []


STRUCTS = """
value struct TInner {
    field b: bool
    field h: bf16
}
value struct TPair {
    field i: i64
    field inner: TInner
    field x: f32
}
gpu fn @swap(%data: gpu.TBuffer<TPair>, %p: TPair) -> unit target(spv) {
bb0:
    %gid: u32 = gpu.global_id { dim=const.u32 0 }
    %old: TPair = gpu.buffer_load<TPair> { buf=%data, idx=%gid }
    %i: i64 = getfield { obj=%old, field=i }
    %inner: TInner = getfield { obj=%old, field=inner }
    %x: f32 = getfield { obj=%p, field=x }
    %new: TPair = new TPair { i=%i, inner=%inner, x=%x }
    gpu.buffer_store<TPair> { buf=%data, idx=%gid, v=%new }
    ret
}
"""


def test_value_structs_in_buffers_and_as_arguments(backend):
    launch = "gpu.launch { device=%dev, kernel=@swap, grid=[const.u32 1, const.u32 1, const.u32 1], "
    launch += "block=[const.u32 3, const.u32 1, const.u32 1], args=[%b, %p] }"
    run = result("run", f"{DEVICE}, %b: borrow gpu.TBuffer<TPair>, %p: TPair", "unit", launch)
    made = program(STRUCTS + run + HOST.replace("@add", "@none").split("fn @launch")[0] + buffers("TPair"), HEAD)
    device = good(made.call("default"))

    def pair(i, b, h, x):
        inner = StructValue(Ty("TInner"), {"b": b, "h": h})
        return StructValue(Ty("TPair"), {"i": i, "inner": inner, "x": x})

    items = [pair(1 << 40, True, 0.5, 1.0), pair(-7, False, -1.0078125, 2.0), pair(0, True, 3.0, 4.0)]
    buffer = good(made.call("fill", [device, array(items, "TPair")]))
    good(made.call("run", [device, buffer, pair(9, True, 0.0, 6.5)]))
    found = good(made.call("read", [buffer])).items
    assert [s.type for s in found] == [Ty("TPair")] * 3 and found[0].fields["inner"].type == Ty("TInner")
    rows = [(s.fields["i"], s.fields["inner"].fields["b"], s.fields["inner"].fields["h"], s.fields["x"]) for s in found]
    assert rows == [(1 << 40, True, 0.5, 6.5), (-7, False, -1.0078125, 6.5), (0, True, 3.0, 6.5)]


@pytest.mark.parametrize("hint", ["Auto", "DeviceLocal", "Unified", "Staging", "Cached"])
def test_hints_reach_the_allocation(gpu, hint):
    made, device = gpu
    value = EnumValue(Ty("gpu.MemoryHint"), hint, 0)
    buffer = good(made.call("hinted", [device, 100, 1, value]))
    assert buffer.memory_hint.name == hint
    b = good(made.call("new", [device, 100]))
    good(made.call("launch", [device, 2, 1, 1, 64, 1, 1, buffer, b, 2.0, 100]))
    assert good(made.call("read", [b])).items == [2.0] * 100


def test_flags_and_sizes_that_cannot_be(gpu):
    made, device = gpu
    auto = EnumValue(Ty("gpu.MemoryHint"), "Auto", 0)
    for flags in (0, 1):
        good(made.call("hinted", [device, 4, flags, auto]))
    for flags in (2, 3, 1 << 31):
        assert kind(made.call("hinted", [device, 4, flags, auto])) == "ValidationFailed"
    for length in (1 << 60, (1 << 64) - 1, 1 << 50):
        assert kind(made.call("new", [device, length])) == "OutOfMemory"


def test_a_buffer_that_no_array_can_hold(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    made = program(KERNELS.replace("TARGET", "spv") + HOST + buffers("u8"), HEAD)
    buffer = good(made.call("new", [good(made.call("default")), (1 << 27) + 1]))  # pages that nobody touches
    assert made.call("len", [buffer]) == (1 << 27) + 1 and kind(made.call("read", [buffer])) == "OutOfMemory"


def test_a_copy_fits_or_nothing_is_written(gpu):
    made, device = gpu
    long = good(made.call("fill", [device, array([1.0, 2.0, 3.0])]))
    short = good(made.call("fill", [device, array([7.0, 8.0])]))
    failed = made.call("copy", [long, short])
    assert kind(failed) == "BufferError" and failed.fields[0].fields["backend"] == device.backend
    assert good(made.call("read", [short])).items == [7.0, 8.0]
    assert good(made.call("copy", [short, long])) is None
    assert good(made.call("read", [long])).items == [7.0, 8.0, 3.0]
    assert good(made.call("copy", [long, long])) is None
    nothing = good(made.call("new", [device, 0]))
    assert good(made.call("copy", [nothing, short])) is None and good(made.call("read", [short])).items == [7.0, 8.0]
    source = array([5.0, 6.0])
    buffer = good(made.call("fill", [device, source]))
    source.items[0] = 0.0  # a copy is no alias
    first = good(made.call("read", [buffer]))
    first.items[1] = 0.0
    assert good(made.call("read", [buffer])).items == [5.0, 6.0]


# --- launches --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("block", [64, 100, 1])
def test_a_launch_with_the_declared_block_and_with_others(gpu, block):
    made, device = gpu
    ran, found = sums(made, device, 1000, -(-1000 // block), block)
    assert good(ran) is None and found == [i + 0.5 for i in range(1000)]


def test_asynchronous_launches_run_in_their_order(gpu):
    made, device = gpu
    a = good(made.call("fill", [device, array([1.0] * 500)]))
    b = good(made.call("new", [device, 500]))
    fences = []
    for k in range(6):
        x, y = (a, b) if k % 2 == 0 else (b, a)
        fences.append(good(made.call("start", [device, 8, 1, 1, 64, 1, 1, x, y, float(k), 500])))
    assert good(made.call("wait", [fences[-1], (1 << 64) - 1])) is True
    assert good(made.call("wait", [fences[0], 0])) is True  # what is done is done, however often it is asked
    assert good(made.call("read", [a])).items == [1.0 + sum(range(6))] * 500


def test_grids_and_blocks_that_cannot_be(gpu):
    made, device = gpu
    ran, found = sums(made, device, 10, grid=0)
    assert good(ran) is None and found == [0.0] * 10
    ran, found = sums(made, device, 10, grid=0, run="start")
    assert good(made.call("wait", [good(ran), 1000])) is True and found == [0.0] * 10
    for grid, block, wanted in ((1, 0, "ValidationFailed"), (0, 0, "ValidationFailed"), (1, 4096, "ResourceExhausted")):
        ran, found = sums(made, device, 10, grid, block)
        assert kind(ran) == wanted and found == [0.0] * 10
        assert kind(sums(made, device, 10, grid, block, "start")[0]) == wanted


BODIES = {
    "ResourceExhausted": "    %s: ptr = gpu.shared<20000000, f32>\n    gpu.barrier\n"
    "    gpu.buffer_store<f32> { buf=%s, idx=%gid, v=const.f32 1.0 }\n"
    "    %x: f32 = gpu.buffer_load<f32> { buf=%s, idx=const.u32 0 }\n"
    "    gpu.buffer_store<f32> { buf=%out, idx=%gid, v=%x }\n",
    "CompilationFailed": "    %s: ptr = gpu.local<2000000, f32>\n"
    "    gpu.buffer_store<f32> { buf=%s, idx=%gid, v=const.f32 1.0 }\n"
    "    %x: f32 = gpu.buffer_load<f32> { buf=%s, idx=const.u32 0 }\n"
    "    gpu.buffer_store<f32> { buf=%out, idx=%gid, v=%x }\n",
    "Unsupported": "    %p: rawptr<f32> = gpu.malloc<f32> { count=const.u32 1 }\n    gpu.free { p=%p }\n",
}


@pytest.mark.parametrize(
    ("wanted", "name"), [("ResourceExhausted", "cpu"), ("CompilationFailed", "cpu"), ("Unsupported", "vulkan")]
)
def test_kernels_that_a_device_cannot_run(wanted, name, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", name)
    reason = dispatch.runtime().unavailable("spv" if name == "vulkan" else name)
    if reason is not None:
        pytest.skip(reason)
    head = "gpu fn @k(%out: gpu.TBuffer<f32>) -> unit target(ptx) {\n"
    if wanted == "Unsupported":
        head = "unsafe gpu fn @k(%out: gpu.TBuffer<f32>) -> unit target(ptx) requires(device_malloc) {\n"
    kernel = head + "bb0:\n    %gid: u32 = gpu.global_id { dim=const.u32 0 }\n" + BODIES[wanted] + "    ret\n}\n"
    one = "const.u32 1, const.u32 1, const.u32 1"
    launch = f"gpu.launch {{ device=%dev, kernel=@k, grid=[{one}], block=[{one}], args=[%b] }}"
    made = loaded(more=kernel + result("run", f"{DEVICE}, %b: borrow gpu.TBuffer<f32>", "unit", launch))
    device = good(made.call("default"))
    failed = made.call("run", [device, good(made.call("new", [device, 4]))])
    assert kind(failed) == wanted and failed.fields[0].fields["backend"] in (device.backend, "")


# --- targets ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["hip", "msl", "wgsl"])
def test_a_target_that_is_not_here(target, monkeypatch, tmp_path):
    monkeypatch.delenv("MAGPIE_BACKEND", raising=False)
    made = loaded(target)
    device = good(made.call("default"))
    assert device.backend == "cpu"
    ran, found = sums(made, device, 10, 1)
    assert kind(ran) == "BackendUnavailable" and ran.fields[0].fields["backend"] == target and found == [0.0] * 10
    ran, found = sums(made, device, 10, 1, run="stand_in")
    assert good(ran) is None and found == [i + 0.5 for i in range(10)]


def vulkan_is_there():
    return dispatch.runtime().unavailable("spv") is None


def test_a_device_of_another_backend_than_the_target():
    if not vulkan_is_there():
        pytest.skip("no Vulkan driver")
    made = loaded("spv")
    device = good(made.call("default"))
    assert device.backend == "spv", "the device for the program's kernels"
    assert good(sums(made, device, 10, 1)[0]) is None
    cpu = next(d for d in (good(made.call("at", [i])) for i in range(made.call("count"))) if d.backend == "cpu")
    ran, _ = sums(made, cpu, 10, 1)
    assert kind(ran) == "InvalidKernel" and "spv" in ran.fields[0].fields["message"]
    ran, found = sums(made, cpu, 10, 1, run="stand_in")
    assert good(ran) is None and found == [i + 0.5 for i in range(10)]
    # buffers of one device, and a launch on another one
    a, b = (good(made.call("new", [cpu, 10])) for _ in range(2))
    ran = made.call("launch", [device, 1, 1, 1, 64, 1, 1, a, b, 0.5, 10])
    assert kind(ran) == "ValidationFailed" and "cpu:0" in ran.fields[0].fields["message"]


def test_a_gpu_that_two_backends_reach_is_one_device(monkeypatch):
    monkeypatch.setattr(dispatch, "_FILES", {})  # of a machine with GPUs

    def device(backend, index, uuid):
        manifest = dispatch.runtime().device("cpu")._info.manifest
        info = DeviceInfo(f"{backend} {index}", index, manifest, 32, 0, (backend,), {"uuid": uuid} if uuid else {})
        return Device(backend, None, info)

    made = dispatch.Runtime()
    made._reasons = {id_: "not here" for id_ in dispatch.ORDER} | {"ptx": None, "spv": None, "cpu": None, "interp": None}
    made._devices = {
        "ptx": (device("ptx", 0, "a"), device("ptx", 1, "b")),
        "spv": (device("spv", 0, "b"), device("spv", 1, "c"), device("spv", 2, "a")),
        "cpu": (device("cpu", 0, None),),
        "interp": (device("interp", 0, None),),
    }
    made._drivers = dict.fromkeys(made._devices)
    cuda = made._devices["ptx"]
    vulkan = made._devices["spv"]
    old = dispatch.reset(made)
    try:
        for target, first, rest in (
            ("ptx", cuda[0], {"ptx:1", "spv:1", "cpu:0"}),
            ("spv", vulkan[0], {"ptx:0", "spv:1", "cpu:0"}),  # ptx:1 is the same GPU
            ("hip", cuda[0], {"ptx:1", "spv:1", "cpu:0"}),
        ):
            ready = loaded(target)
            found = [good(ready.call("at", [i])) for i in range(ready.call("count"))]
            assert found[0] is first is good(ready.call("default")) and {d.id for d in found[1:]} == rest
            assert ready.call("backends", [cuda[1]]).items == ["ptx", "spv"]
            assert ready.call("backends", [vulkan[0]]).items == ["spv", "ptx"]
            assert ready.call("backends", [vulkan[1]]).items == ["spv"]
        for backend, index, wanted in (("spv", 2, vulkan[2]), ("spv", -1, vulkan[0]), (None, 2, None)):
            ready = loaded("ptx")
            gpu_of(ready).settings = GpuSettings(backend, False, index)
            found = [good(ready.call("at", [i])) for i in range(ready.call("count"))]
            assert found[0] is good(ready.call("default")), "the manifest's device is number 0"
            assert len({d.id for d in found}) == len(found) == 4
            assert found[0] is wanted if wanted is not None else found[0] not in (cuda[0],)
    finally:
        dispatch.reset(old)


def test_the_cpu_stands_in_for_a_target_with_buffers_of_another_device():
    if not vulkan_is_there():
        pytest.skip("no Vulkan driver")
    other = KERNELS.replace("TARGET", "spv").replace("@add", "@other")
    made = loaded("hip", other)
    device = good(made.call("default"))
    assert device.backend == "spv"
    ran, found = sums(made, device, 100, 2, run="stand_in")
    assert good(ran) is None and found == [i + 0.5 for i in range(100)]
    # one buffer for both parameters is one copy
    a = good(made.call("fill", [device, array([1.0] * 64)]))
    good(made.call("stand_in", [device, 1, 1, 1, 64, 1, 1, a, a, 2.0, 64]))
    assert good(made.call("read", [a])).items == [3.0] * 64


# --- what drivers report, by a stand-in for NVIDIA's library ---------------------------------------------------------
@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return gpu_standin.built(tmp_path_factory, "fake_cuda.c")


@pytest.fixture
def cuda(library):
    with gpu_standin.installed(CudaDriver, library, quiet=("cuCtxSetCurrent", "cuFuncGetAttribute")) as fake:
        yield fake


SAXPY = """
gpu fn @saxpy(%a: f32, %x: gpu.TBuffer<f32>, %y: gpu.TBuffer<f32>) -> unit target(ptx) workgroup(64, 1, 1) {
bb0:
    %gid: u32 = gpu.global_id { dim=const.u32 0 }
    %n: u32 = gpu.buffer_len<f32> { buf=%x }
    %inside: bool = icmp.ult { a=%gid, b=%n }
    cbr %inside bb1 bb2
bb1:
    %p: f32 = gpu.buffer_load<f32> { buf=%x, idx=%gid }
    %q: f32 = gpu.buffer_load<f32> { buf=%y, idx=%gid }
    %r: f32 = f.mul { a=%a, b=%p }
    %s: f32 = f.add { a=%r, b=%q }
    gpu.buffer_store<f32> { buf=%y, idx=%gid, v=%s }
    br bb2
bb2:
    ret
}
"""
SAXPY_PARAMS = f"{DEVICE}, %x: borrow gpu.TBuffer<f32>, %y: borrow gpu.TBuffer<f32>"
SAXPY_LAUNCH = (
    "{ device=%dev, kernel=@saxpy, grid=[const.u32 2, const.u32 1, const.u32 1], "
    "block=[const.u32 64, const.u32 1, const.u32 1], args=[const.f32 2.0, %x, %y] }"
)


def with_saxpy():
    calls = result("sax", SAXPY_PARAMS, "unit", "gpu.launch " + SAXPY_LAUNCH)
    calls += result("sax_async", SAXPY_PARAMS, "gpu.TFence", "gpu.launch_async " + SAXPY_LAUNCH)
    made = loaded("ptx", SAXPY + calls)
    device = good(made.call("default"))
    x = good(made.call("fill", [device, array([1.0] * 100)]))
    y = good(made.call("fill", [device, array([0.5] * 100)]))
    return made, device, x, y


@gpu_standin.NEEDS_CC
def test_the_target_of_the_kernels_chooses_the_device_and_waits(cuda):
    made, device, x, y = with_saxpy()
    assert device.backend == "ptx" and made.call("warp_size", [device]) == 32
    cuda.clear()
    assert good(made.call("sax", [device, x, y])) is None
    names = cuda.names()
    assert names.index("cuLaunchKernel") < names.index("cuEventSynchronize")
    assert good(made.call("read", [y])).items == [2.5] * 100


@gpu_standin.NEEDS_CC
@pytest.mark.parametrize(
    ("function", "code", "wanted"),
    [
        ("cuLaunchKernel", 701, "ResourceExhausted"),
        ("cuLaunchKernel", 719, "LaunchFailed"),
        ("cuEventSynchronize", 700, "LaunchFailed"),
        ("cuEventSynchronize", 214, "DeviceLost"),
        ("cuEventSynchronize", 999, "DriverError"),
        ("cuModuleLoadDataEx", 218, "CompilationFailed"),
    ],
)
def test_what_the_driver_says_is_an_error_with_its_number(cuda, function, code, wanted):
    made, device, x, y = with_saxpy()
    cuda.fail(function, code)
    failed = made.call("sax", [device, x, y])
    error = failed.fields[0].fields
    assert (kind(failed), error["backend"], error["code"]) == (wanted, "ptx", code)


@gpu_standin.NEEDS_CC
def test_a_fence_that_is_not_reached_in_time(cuda):
    made, device, x, y = with_saxpy()
    fence = good(made.call("sax_async", [device, x, y]))
    cuda.fail("cuEventQuery", 600, forever=True)
    assert kind(made.call("wait", [fence, 10])) == "TimeoutExpired"
    cuda.clear()
    assert good(made.call("wait", [fence, 10])) is True


SLOW = """
gpu fn @slow(%out: gpu.TBuffer<u32>, %trips: u32) -> unit target(spv) workgroup(64, 1, 1) {
bb0:
    %gid: u32 = gpu.global_id { dim=const.u32 0 }
    br bb1
bb1:
    %i: u32 = phi u32 { [bb0: const.u32 0], [bb2: %next] }
    %x: u32 = phi u32 { [bb0: %gid], [bb2: %y] }
    %more: bool = icmp.ult { a=%i, b=%trips }
    cbr %more bb2 bb3
bb2:
    %p: u32 = i.mul { a=%x, b=const.u32 1664525 }
    %y: u32 = i.add { a=%p, b=const.u32 1013904223 }
    %next: u32 = i.add { a=%i, b=const.u32 1 }
    br bb1
bb3:
    gpu.buffer_store<u32> { buf=%out, idx=%gid, v=%x }
    ret
}
"""


def test_a_kernel_that_takes_its_time_on_vulkan(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "vulkan")
    if not vulkan_is_there():
        pytest.skip("no Vulkan driver")
    launch = "{ device=%dev, kernel=@slow, grid=[const.u32 128, const.u32 1, const.u32 1], "
    launch += "block=[const.u32 64, const.u32 1, const.u32 1], args=[%b, %n] }"
    params = f"{DEVICE}, %b: borrow gpu.TBuffer<u32>, %n: u32"
    more = SLOW + result("slow", params, "gpu.TFence", "gpu.launch_async " + launch).replace("@slow(%dev", "@run(%dev")
    made = program(KERNELS.replace("TARGET", "spv") + HOST + buffers("u32") + more, HEAD)
    device = good(made.call("default"))
    out = good(made.call("new", [device, 128 * 64]))
    trips = 60_000  # lavapipe ends loops after 65,535
    good(made.call("wait", [good(made.call("run", [device, out, 1])), 100_000]))  # compiled
    fence = good(made.call("run", [device, out, trips]))
    early = made.call("wait", [fence, 0])
    assert kind(early) == "TimeoutExpired" and early.fields[0].fields["backend"] == "spv"
    assert good(made.call("wait", [fence, 100_000])) is True
    # x -> a x + c, n times: a^n x + c (1 + a + ... + a^(n-1)), by doubling
    a, c, n, x, step = 1664525, 1013904223, trips, np.arange(128 * 64), (1, 0)
    while n:
        if n & 1:
            step = (step[0] * a % 2**32, (a * step[1] + c) % 2**32)
        a, c, n = a * a % 2**32, (a * c + c) % 2**32, n >> 1
    assert good(made.call("read", [out])).items == [(step[0] * v + step[1]) % 2**32 for v in x.tolist()]


@gpu_standin.NEEDS_CC
def test_no_memory_on_the_device(cuda):
    made, device, _, _ = with_saxpy()
    cuda.fail("cuMemAlloc_v2", 2, forever=True)
    failed = made.call("new", [device, 1 << 20])
    assert kind(failed) == "OutOfMemory" and failed.fields[0].fields["code"] == 2


# --- what is not there yet -------------------------------------------------------------------------------------------
def test_the_profiler_and_mlx_say_that_they_are_not_there():
    text = "".join(
        [
            result("begin", DEVICE, "gpu.TProfileSession", "gpu.profile.@begin { dev=%dev }"),
            result("stats", DEVICE, "gpu.TMemoryStats", "gpu.profile.@memory_stats { dev=%dev }"),
            plain("counters", DEVICE, "Array<Str>", "gpu.profile.@available_counters { dev=%dev }"),
            result("zeros", "%s: borrow Array<u64>", "mlx.TArray<f32>", "mlx.array.@zeros<f32> { shape=%s }"),
            result("adam", "", "mlx.optim.TAdam", "mlx.optim.@adam { lr=const.f32 0.1 }"),
            "fn @seed() -> unit {\nbb0:\n    mlx.random.@seed { s=const.u64 1 }\n    ret\n}\n",
        ]
    )
    imports = "module t\nimports { mlx.array, mlx.random, mlx.optim }\n"
    made = program(KERNELS.replace("TARGET", "spv") + HOST + text, imports)
    device = good(made.call("default"))
    for failed, name in (
        (made.call("begin", [device]), ""),
        (made.call("stats", [device]), ""),
        (made.call("zeros", [array([3], "u64")]), "mlx"),
        (made.call("adam"), "mlx"),
    ):
        assert kind(failed) == "BackendUnavailable" and failed.fields[0].fields["kind"].tag == 4
        assert failed.fields[0].fields["backend"] == name
    assert made.call("counters", [device]).items == []
    assert made.call("seed") is None


def test_numpy_and_programs_agree_on_the_bits_of_bf16(backend):
    """Each of the 65,536 patterns but NaNs goes to the device and back as it was."""
    made = program(KERNELS.replace("TARGET", "spv") + HOST + buffers("bf16"), HEAD)
    device = good(made.call("default"))
    words = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    values = words[~np.isnan(words)].astype(np.float64).tolist()
    buffer = good(made.call("fill", [device, array(values, "bf16")]))
    found = np.array(good(made.call("read", [buffer])).items, np.float32)
    assert np.array_equal(found.view(np.uint32), np.array(values, np.float32).view(np.uint32))


def test_the_elements_of_a_buffer_are_found_from_its_operands_and_its_result():
    text = """
value struct TPoint {
    field x: f32
    field n: i32
}
fn @there_and_back(%dev: borrow gpu.TDevice, %src: shared Array<TPoint>) -> TResult<Array<TPoint>, gpu.TError> {
bb0:
    try gpu.host.@buffer_new<i8> { dev=%dev, len=const.u64 3, usage_flags=const.u32 1 }
    %made: gpu.TBuffer<TPoint> = try gpu.host.@buffer_from_array { dev=%dev, src=%src, usage_flags=const.u32 1 }
    %room: gpu.TBuffer<TPoint> = try gpu.host.@buffer_new { dev=%dev, len=const.u64 3, usage_flags=const.u32 1 }
    try gpu.host.@buffer_copy { src=%made, dst=%room }
    call_void gpu.host.@buffer_to_array { buf=%made }
    %r: TResult<Array<TPoint>, gpu.TError> = gpu.host.@buffer_to_array { buf=%room }
    ret %r
}
"""
    p = loaded(more=text)
    point = StructValue(Ty("TPoint"), {"x": 1.5, "n": -2})
    device = good(p.call("at", [0]))
    back = good(p.call("there_and_back", [device, ArrayValue(Ty("TPoint"), [point])]))
    assert back.element == Ty("TPoint")
    assert [v.fields for v in back.items] == [{"x": 1.5, "n": -2}] + [{"x": 0.0, "n": 0}] * 2


def test_both_names_of_the_length_of_a_buffer():
    p = loaded(more=plain("op_len", "%buf: borrow gpu.TBuffer<f32>", "u64", "gpu.buffer_len<f32> { buf=%buf }"))
    buffer = good(p.call("new", [good(p.call("at", [0])), 7]))
    assert p.call("op_len", [buffer]) == p.call("len", [buffer]) == 7
