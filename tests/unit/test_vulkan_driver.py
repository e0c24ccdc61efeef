"""The Vulkan driver on lavapipe and SwiftShader, under the validation layer where that is installed."""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import os
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import LaunchShape, MemoryHint
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.lane import MOST_PENDING
from magpie.runtime.drivers.vk.pipelines import _HEAD
from magpie.runtime.drivers.vk.transfer import PART
from magpie.runtime.drivers.vulkan import VulkanDriver
from tests.unit.vulkan_tools import NEEDS_ASSEMBLER, hide_memory, opened, saxpy

pytestmark = NEEDS_ASSEMBLER

N = 1000


@pytest.fixture(scope="module")
def module_driver():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGPIE_VULKAN_VALIDATION", "1")
        driver = opened()
        if driver is None:
            patch.setenv("MAGPIE_VULKAN_VALIDATION", "0")
            driver = opened()
    if driver is None:
        pytest.skip("no Vulkan driver")
    yield driver
    driver.close()
    assert driver.messages == []  # everything was destroyed before its device


@pytest.fixture(scope="module")
def far_driver(module_driver):
    """A driver whose device has memory that the host does not see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGPIE_VULKAN_VALIDATION", str(int(module_driver.validated)))
        driver = opened()
    if driver._physical[0].memory.memoryTypeCount > 1:
        driver.close()
        pytest.skip("this device has several kinds of memory, and needs no stand-in for one")
    hide_memory(driver, 0)
    yield driver
    driver.close()
    assert driver.messages == []


GPU = ["gpu"] if any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dri/renderD128"))) else []


@pytest.fixture(params=["llvmpipe", "SwiftShader", "far", *GPU])
def on(request, module_driver):
    """The driver, and the number of one of its devices."""
    if request.param == "far":
        driver = request.getfixturevalue("far_driver")
        yield driver, 0
        driver.synchronize(0)
        assert driver.messages == []
        return
    for n, info in enumerate(module_driver.devices()):
        real = request.param == "gpu" and not info.properties["software"]
        if real or info.name.startswith(request.param):
            yield module_driver, n
            module_driver.synchronize(n)
            assert module_driver.messages == []
            return
    pytest.skip(f"no {request.param} here")


class Arrays:
    """x, y of saxpy on a device, and a launch on them."""

    def __init__(self, driver, device, n=N, hint=MemoryHint.Auto, uniform=False, artifact=None):
        self.driver, self.device, self.n = driver, device, n
        self.x = np.arange(n, dtype=np.float32)
        self.y = np.ones(n, np.float32)
        self.kernel = driver.load(device, artifact or saxpy(uniform))
        self.memory = [driver.alloc(device, 4 * n, hint) for _ in range(2)]
        for host, there in zip((self.x, self.y), self.memory, strict=True):
            driver.copy_in(device, there.address, host.ctypes.data, host.nbytes)

    def bind(self, stream=None, block=(64, 1, 1)):
        return self.kernel.bind(LaunchShape((-(-self.n // block[0]), 1, 1), block, (), stream))

    def words(self, a=2.0):
        x, y = (m.address for m in self.memory)
        return a, x, self.n, 1, y, self.n, 1

    def result(self):
        out = np.empty(self.n, np.float32)
        self.driver.copy_out(self.device, out.ctypes.data, self.memory[1].address, out.nbytes)
        return out

    def free(self):
        for m in self.memory:
            self.driver.free(self.device, m)


def test_devices_are_described(on):
    driver, device = on
    info = driver.devices()[device]
    assert info.backends == ("spv",)
    assert info.properties["vulkan"].startswith("1.") and info.properties["arch"].startswith("vulkan1.")
    assert info.memory_total > 1 << 28 and 0 < driver.memory_available(device) <= info.memory_total
    if not info.properties["software"]:
        assert info.manifest.max_shared_bytes >= 16384 and info.subgroup_size in info.manifest.subgroup_sizes
        return
    assert info.properties["vulkan"].startswith("1.3.") and info.properties["arch"].startswith("vulkan1.3+")
    lavapipe = "llvmpipe" in info.name  # (what stands in for a GPU is lavapipe)
    assert info.subgroup_size == (8 if lavapipe else 4)
    assert info.manifest.max_workgroup_size == (1024 if lavapipe else 256)
    assert info.manifest.max_shared_bytes == 32768
    features = set(info.properties["arch"].split("+"))
    # what the drivers' own tables say of integers, floats and atomics
    more = {"i64", "i16", "i8", "f16", "f64", "s8", "s16", "atomic_f32", "atomic_i64"}
    assert features & more == (more if lavapipe else set())
    assert "lockstep" in features and "div" in features and "fma" not in features
    assert ("f64" in info.manifest.capabilities) == lavapipe


def test_lavapipe_comes_before_swiftshader(module_driver):
    names = [info.name[:5] for info in module_driver.devices() if info.properties["software"]]
    assert names == sorted(names, key=["llvmp", "Swift"].index)


@pytest.mark.parametrize("uniform", [False, True], ids=["push", "uniform"])
def test_launches_run_in_order(on, uniform):
    a = Arrays(*on, uniform=uniform)
    call = a.bind()
    for factor in (1.0, 2.0, 4.0):
        call(*a.words(factor))
    assert np.array_equal(a.result(), 1 + 7 * a.x)
    a.free()


def test_kernels_with_scalars_here_and_there_take_turns(on):
    driver, device = on
    a, b = Arrays(driver, device, uniform=True), Arrays(driver, device)
    calls = a.bind(), b.bind()
    for n in range(600):  # more than one chunk of scalars
        calls[n % 2](*(a if n % 3 else b).words(1.0))
    times = [sum(1 for n in range(600) if bool(n % 3) is mine) for mine in (True, False)]
    assert np.array_equal(a.result(), 1 + times[0] * a.x) and np.array_equal(b.result(), 1 + times[1] * b.x)
    driver.synchronize(device)
    assert all(len(m.owner.sets) <= 6 for each in (a, b) for m in each.memory)
    a.free()
    b.free()


def test_the_workgroup_size_is_the_launch_s(on):
    a = Arrays(*on)
    for block in (1, 7, 64, 128):
        a.bind(block=(block, 1, 1))(*a.words(1.0))
    assert np.array_equal(a.result(), 1 + 4 * a.x)
    a.free()


def test_arrays_may_begin_anywhere_in_their_memory(on):
    driver, device = on
    a = Arrays(driver, device)
    x, y = (m.address for m in a.memory)
    call = a.bind()
    call(1.0, x + 4 * 11, 100, 1, y + 4 * 501, 100, 1)
    want = np.ones(N, np.float32)
    want[501:601] += a.x[11:111]
    assert np.array_equal(a.result(), want)
    a.free()


@pytest.mark.parametrize("hint", list(MemoryHint))
def test_memory_by_hint(on, hint):
    driver, device = on
    a = Arrays(driver, device, hint=hint)
    a.bind()(*a.words())
    assert np.array_equal(a.result(), 1 + 2 * a.x)
    if driver.host_visible(hint):
        driver.synchronize(device)
        seen = (ctypes.c_float * N).from_address(a.memory[1].address)
        assert list(seen) == list(1 + 2 * a.x)
    else:
        # where only the device sees it, its address is none of the host's
        assert (a.memory[0].address >= 1 << 62) == (not a.memory[0].owner.host)
    assert a.memory[0].address % 256 == 0
    a.free()


@pytest.mark.parametrize("cached", [True, False])
def test_large_copies_go_in_parts(on, cached):
    driver, device = on
    data = np.random.default_rng(2).integers(0, 256, 4 * PART * 3 + 12345, np.uint8)
    a = driver.alloc(device, data.size)
    if not cached:  # what the host sees and does not cache is brought to it by the device
        a.owner.block.cached = False
    for shift in (0, 1):
        data += 1
        driver.copy_in(device, a.address + shift, data.ctypes.data, data.size - shift)
        out = np.zeros_like(data)
        driver.copy_out(device, out.ctypes.data, a.address + shift, data.size - shift)
        assert np.array_equal(out[: data.size - shift], data[: data.size - shift])
    driver.free(device, a)


def test_copies_on_the_device(on):
    driver, device = on
    data = np.random.default_rng(1).integers(0, 256, 9001, np.uint8)
    a, b = driver.alloc(device, data.size), driver.alloc(device, data.size, zero=True)
    driver.copy_in(device, a.address, data.ctypes.data, data.size)
    driver.copy(device, b.address + 3, a.address + 1, 4001)
    want = np.zeros_like(data)
    want[3:4004] = data[1:4002]
    assert np.array_equal(_read(driver, device, b, data.size), want)
    for to, source in ((1, 0), (0, 1), (100, 77)):  # within one array, and overlapping
        driver.copy(device, a.address + to, a.address + source, 5000)
        data[to : to + 5000] = data[source : source + 5000].copy()
    assert np.array_equal(_read(driver, device, a, data.size), data)
    for m in (a, b):
        driver.free(device, m)


def _read(driver, device, allocation, nbytes):
    out = np.empty(nbytes, np.uint8)
    driver.copy_out(device, out.ctypes.data, allocation.address, nbytes)
    return out


@pytest.mark.parametrize("size", [1, 2, 4])
def test_fills(on, size):
    driver, device = on
    pattern = bytes(range(0x11, 0x11 + size))
    for offset in range(0, 8, size):
        for count in (0, 1, 2, 3, 5, 64, 101):
            a = driver.alloc(device, 512, zero=True)
            driver.fill(device, a.address + offset, pattern, count)
            want = np.zeros(512, np.uint8)
            want[offset : offset + size * count] = np.frombuffer(pattern * count, np.uint8)
            assert np.array_equal(_read(driver, device, a, 512), want), (offset, count)
            driver.free(device, a)


def test_copies_between_devices(module_driver):
    driver = module_driver
    if len(driver.devices()) < 2:
        pytest.skip("one device")
    data = np.arange(5000, dtype=np.uint16)
    for source, to in ((0, 1), (1, 0)):
        a, b = driver.alloc(source, data.nbytes), driver.alloc(to, data.nbytes)
        driver.copy_in(source, a.address, data.ctypes.data, data.nbytes)
        driver.copy_between(to, b.address, source, a.address, data.nbytes)
        assert np.array_equal(_read(driver, to, b, data.nbytes).view(np.uint16), data)
        driver.free(source, a)
        driver.free(to, b)


def test_streams_wait_for_the_default_one_and_it_for_them(on):
    driver, device = on
    a = Arrays(driver, device)
    streams = [driver.create_stream(device) for _ in range(3)]
    calls = [a.bind(s) for s in (None, *streams)]
    want = a.y.copy()
    for n in range(40):
        factor = float(n % 5)
        calls[0](*a.words(factor))
        calls[1 + n % 3](*a.words(1.0))
        want += (factor + 1) * a.x
    assert np.array_equal(a.result(), want)
    a.free()


def test_a_dropped_stream_is_used_again(on):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device)
    for _ in range(10):
        stream = driver.create_stream(device)
        a.bind(stream)(*a.words(1.0))
        del stream
        gc.collect()
    before = len(context.lanes)
    assert before <= 5
    assert np.array_equal(a.result(), 1 + 10 * a.x)
    a.free()


def test_events_tell_the_device_s_time(on):
    driver, device = on
    a = Arrays(driver, device, n=1 << 18)
    call = a.bind()
    call(*a.words())
    first = driver.record_event(device, None)
    for _ in range(20):
        call(*a.words(1.0))
    last = driver.record_event(device, None)
    started = time.perf_counter()
    last.synchronize(10)
    took = last.elapsed_ms(first)
    assert 0 < took < 1e3 * (time.perf_counter() - started) + 1e4
    assert first.elapsed_ms(last) == pytest.approx(-took, rel=1e-6)
    a.free()


def test_a_wait_with_a_limit(on, monkeypatch):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device)
    call = a.bind()
    driver.synchronize(device, timeout=10.0)
    call(*a.words(1.0))
    event = driver.record_event(device, None)
    with monkeypatch.context() as patch:
        patch.setitem(context.call, "vkWaitSemaphores", lambda *args: vk.VK_TIMEOUT)  # a kernel that does not end
        for wait in (lambda t: driver.synchronize(device, timeout=t), event.synchronize):
            for seconds in (0.0, 0.02):
                started = time.monotonic()
                with pytest.raises(GpuError, match=f"has not ended after {seconds:g} s; the kernel .* is 'saxpy'") as caught:
                    wait(seconds)
                assert caught.value.kind is GpuErrorKind.TimeoutExpired
                assert time.monotonic() - started >= seconds
        assert context.stuck  # the end of the process would not wait
    driver.synchronize(device, timeout=60.0)
    assert not context.stuck
    assert np.array_equal(a.result(), 1 + a.x)
    a.free()


def test_what_is_recorded_is_submitted_though_nobody_asks(on):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device)
    call = a.bind()
    driver.synchronize(device)
    for _ in range(6):  # batches of 1, 2, and 3 of 4
        call(*a.words(1.0))
    end = time.monotonic() + 5
    while context.default.batch is not None and time.monotonic() < end:
        time.sleep(0.001)
    assert context.default.batch is None
    a.free()


@pytest.mark.parametrize("by", ["event", "device"])
def test_an_idle_device_starts_at_once(on, by, monkeypatch):
    driver, device = on
    context = driver.context(device)
    monkeypatch.setattr(context, "flush_old", lambda: None)
    a = Arrays(driver, device)
    call = a.bind()
    for _ in range(40):
        call(*a.words(1.0))
    if by == "event":
        driver.record_event(device, None).synchronize(60)
    else:
        driver.synchronize(device)
    seen = []
    for _ in range(7):
        before = context.submissions
        call(*a.words(1.0))
        seen.append(context.submissions - before)
    assert seen == [1, 0, 1, 0, 0, 0, 1]  # batches of 1, 2 and 4
    driver.synchronize(device)
    a.free()


def test_a_thousand_launches_of_a_graph_are_one_submission(on):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device)
    stream = driver.create_recording_stream(device)
    call = a.bind(stream)
    graph = driver.record(device, stream, [lambda: call(*a.words(1.0))] * 1000)
    driver.synchronize(device)
    assert np.array_equal(a.result(), a.y)  # nothing has run
    before = context.submissions
    graph.launch(None)
    assert context.submissions == before + 1
    assert np.array_equal(a.result(), _repeated(a.y, a.x, 1000))
    graph.update(3, lambda: call(*a.words(-998.0)))
    graph.launch(None)
    graph.launch(driver.create_stream(device))
    want = _repeated(a.y, a.x, 1000)
    for _ in range(2):
        want = _repeated(_repeated(want, a.x, 3) - 998 * a.x, a.x, 996)
    assert np.array_equal(a.result(), want)
    del graph
    gc.collect()
    a.free()


def _repeated(y, x, times):
    y = y.copy()
    for _ in range(times):
        y += x
    return y


def test_barriers_stand_where_memory_depends(on, monkeypatch):
    driver, device = on
    context = driver.context(device)
    x, y, z, w = memory = [driver.alloc(device, 4 * N, zero=True) for _ in range(4)]
    kernel = driver.load(device, saxpy())
    stream = driver.create_recording_stream(device)
    call = kernel.bind(LaunchShape((16, 1, 1), (64, 1, 1), (), stream))

    def steps(*pairs):
        return [lambda a=a, b=b: call(1.0, a.address, N, 1, b.address, N, 1) for a, b in pairs]

    driver.synchronize(device)  # (what is open has barriers, too)
    barrier, count = context.barrier, []
    monkeypatch.setattr(context, "barrier", lambda *args: (count.append(args), barrier(*args)))
    for pairs, wanted in (
        ([(x, y)], 0),
        ([(x, y), (x, z), (x, w)], 0),  # all read one array
        ([(x, y), (z, w)], 0),
        ([(x, y), (x, y)], 1),  # y is read and written again
        ([(x, y), (y, z), (x, w)], 1),
        ([(x, y), (z, x)], 1),  # written after it was read
        ([(x, y), (z, w), (y, z), (w, x)], 1),
        ([(x, y), (y, z), (z, w), (w, x)], 3),
    ):
        count.clear()
        driver.record(device, stream, steps(*pairs))
        assert len(count) - 2 == wanted, pairs  # one at the start, and one for the host
    for m in memory:
        driver.free(device, m)


def test_launches_from_many_threads(on):
    driver, device = on
    a = Arrays(driver, device)
    shared = a.bind()
    own = [a.bind(driver.create_stream(device)) for _ in range(4)]
    target = [driver.alloc(device, 4 * N, zero=True) for _ in range(4)]
    errors = []

    def work(n):
        try:
            words = (1.0, a.memory[0].address, N, 1, target[n].address, N, 1)
            for _ in range(50):
                (shared if n % 2 else own[n])(*words)
                made = driver.alloc(device, 5000)
                driver.free(device, made)
        except GpuError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    for m in target:
        out = np.empty(N, np.float32)
        driver.copy_out(device, out.ctypes.data, m.address, 4 * N)
        assert np.array_equal(out, 50 * a.x)
        driver.free(device, m)
    a.free()


def test_nothing_leaks_over_ten_thousand_launches(on):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device, uniform=True)
    call = a.bind()

    def state():
        driver.synchronize(device)
        gc.collect()
        driver.synchronize(device)
        memory, descriptors = context.memory, context.descriptors
        commands = max(len(lane._spare) + len(lane.pending) for lane in context.lanes)
        return {
            "allocations": memory.allocations,
            "bytes": memory.allocated,
            "pieces": len(memory.starts),
            "sets": descriptors.live,
            "pools": descriptors.pools,
            "pipelines": len(context.pipelines.live),
            "modules": len(context.pipelines.modules),
            "command buffers": commands,
            "lanes": len(context.lanes),
            "marks": len(context.marks._pools),
            "buried": len(context.buried),
        }

    def some(times):
        for n in range(times):
            call(*a.words(0.0))
            if n % 100 == 0:
                temporary = driver.alloc(device, 1000 + n)
                call(0.0, temporary.address, 10, 1, a.memory[1].address, N, 1)
                driver.free(device, temporary)
                driver.record_event(device, None)
                a.bind(block=(32, 1, 1))(*a.words(0.0))

    some(1000)
    before = state()
    some(10_000)
    after = state()
    # how many command buffers are under way at once is a matter of time, and bounded
    assert max(after.pop("command buffers"), before.pop("command buffers")) <= MOST_PENDING + 4
    assert after == before
    a.free()


def test_freed_memory_is_used_again_when_the_device_is_done(on):
    driver, device = on
    context = driver.context(device)
    a = Arrays(driver, device)
    driver.synchronize(device)
    stream = driver.create_recording_stream(device)
    call = a.bind()
    temporary = driver.alloc(device, 4 * N)
    call(1.0, a.memory[0].address, N, 1, temporary.address, N, 1)
    call(1.0, a.memory[0].address, N, 1, temporary.address, N, 1)  # recorded, not submitted
    piece = temporary.owner
    driver.free(device, temporary)
    if piece.busy():
        assert piece.address in context.memory.starts
    driver.synchronize(device)
    assert piece.address not in context.memory.starts
    with pytest.raises(GpuError, match="is no memory of"):
        call(1.0, piece.address + 8, N, 1, a.memory[1].address, N, 1)
    del stream
    a.free()


def test_more_memory_than_there_is(on):
    driver, device = on
    for nbytes in (1 << 40, driver.devices()[device].memory_total + 1):
        with pytest.raises(GpuError) as caught:
            driver.alloc(device, nbytes)
        assert caught.value.kind is GpuErrorKind.OutOfMemory and caught.value.diagnostic == "MPG_LAUNCH_1010"
    a = driver.alloc(device, 1 << 20)  # and it goes on
    driver.free(device, a)


def test_a_module_is_looked_at_before_the_driver_gets_it(on):
    driver, device = on
    for change, words in (
        (lambda blob: b"", "no SPIR-V module"),
        (lambda blob: blob[:-2], "no SPIR-V module"),
        (lambda blob: b"\x7fELF" + blob[4:], "no SPIR-V module"),
        (lambda blob: blob[:4] + (0x00020000).to_bytes(4, "little") + blob[8:], "SPIR-V 2.0"),
        (lambda blob: blob[:-8], "cut short"),
        (lambda blob: blob.replace(b"saxpy\0", b"other\0"), "no entry saxpy"),
    ):
        artifact = saxpy()
        artifact.blob = change(artifact.blob)
        with pytest.raises(GpuError, match=words) as caught:
            driver.load(device, artifact)
        assert caught.value.kind is GpuErrorKind.InvalidKernel


def test_what_a_device_lacks_is_named_at_load(on):
    driver, device = on
    artifact = saxpy()
    artifact.info["needs"] = ["i64", "sg128"]
    with pytest.raises(GpuError, match="subgroups of 128") as caught:
        driver.load(device, artifact)
    assert caught.value.kind is GpuErrorKind.Unsupported and caught.value.diagnostic == "MPG_CORE_1200"
    assert ("shaderInt64" in str(caught.value)) == ("i64" not in driver.devices()[device].properties["arch"])


def test_shapes_that_a_device_does_not_take(on):
    driver, device = on
    a = Arrays(driver, device)
    most = driver.context(device).physical.limits.maxComputeWorkGroupCount
    for axis in range(3):
        grid = [1, 1, 1]
        grid[axis] = most[axis] + 1  # the driver's own words: no launch has so many
        with pytest.raises(GpuError, match=f"along {'xyz'[axis]}") as caught:
            a.kernel.bind(LaunchShape(tuple(grid), (64, 1, 1)))
        assert caught.value.diagnostic == "MPG_LAUNCH_1006"
    with pytest.raises(GpuError, match="along z") as caught:
        a.kernel.bind(LaunchShape((1, 1, 1), (1, 1, 2048)))
    assert caught.value.diagnostic == "MPG_LAUNCH_1007"
    shared = driver.devices()[device].manifest.max_shared_bytes
    a.kernel.info["static_shared"] = a.kernel.info["fixed_shared"] = shared + 16
    with pytest.raises(GpuError, match=f"need {shared + 16:,} bytes.* has {shared:,}") as caught:
        a.bind()
    assert caught.value.diagnostic == "MPG_SPV_2001" and caught.value.kind is GpuErrorKind.ResourceExhausted
    a.free()


def test_more_arrays_than_a_device_binds(on):
    driver, device = on
    artifact = saxpy()
    artifact.info["buffers"] = driver.context(device).descriptors.most + 1
    with pytest.raises(GpuError, match="arrays") as caught:
        driver.load(device, artifact)
    assert caught.value.kind is GpuErrorKind.ResourceExhausted


def test_an_array_larger_than_a_binding(on, monkeypatch):
    driver, device = on
    memory = driver.context(device).memory
    monkeypatch.setattr(memory, "most_bound", 4096)  # its pieces are then as large arrays are
    a = Arrays(driver, device, n=5000)
    x, y = (m.address for m in a.memory)
    call = a.kernel.bind(LaunchShape((20, 1, 1), (64, 1, 1)))
    # any part of it that is small enough, forwards and backwards
    call(1.0, x + 4 * 3000, 900, 1, y + 4 * 4099, 900, 1)
    want = np.ones(5000, np.float32)
    want[4099:4999] += a.x[3000:3900]
    assert np.array_equal(a.result(), want)
    with pytest.raises(GpuError, match="argument 'x' of kernel 'saxpy' spans 20,000 bytes") as caught:
        call(1.0, x, 5000, 1, y, 100, 1)
    assert caught.value.kind is GpuErrorKind.BufferError
    assert np.array_equal(a.result(), want)
    a.free()


def test_a_pipeline_cache_is_kept_and_distrusted(on, tmp_path, monkeypatch):
    driver, device = on
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(tmp_path))
    pipelines = driver.context(device).pipelines
    # These drivers keep nothing: this is what one that does would give.
    properties = driver.context(device).physical.properties
    data = struct.pack("<4I", 32, 1, properties.vendorID, properties.deviceID) + bytes(properties.pipelineCacheUUID)
    data += bytes(range(100))
    monkeypatch.setattr(pipelines, "_data", lambda: data)
    assert pipelines._load() == b""
    a = Arrays(driver, device)
    a.bind(block=(16, 1, 1))(*a.words())
    pipelines.save()
    path = pipelines.path()
    assert pipelines._load() == data and not [f for f in os.listdir(tmp_path) if f != os.path.basename(path)]
    raw = open(path, "rb").read()
    for damaged in (b"", raw[:40], raw[:-1], raw[:60] + bytes([raw[60] ^ 1]) + raw[61:], b"x" + raw[1:]):
        with open(path, "wb") as file:
            file.write(damaged)
        assert pipelines._load() == b""
    # whole, and of another device
    other = bytearray(data)
    other[12] ^= 1
    with open(path, "wb") as file:
        file.write(_HEAD.pack(b"MPGVKPC1", zlib.crc32(other), len(other)) + other)
    assert pipelines._load() == b""
    a.free()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_made_by_fork_is_told(on):
    driver, device = on
    a = Arrays(driver, device)
    call = a.bind()
    call(*a.words(1.0))
    call(*a.words(1.0))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            call(*a.words(1.0))
        except GpuError as error:
            code = 0 if error.kind is GpuErrorKind.BackendUnavailable and "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert np.array_equal(a.result(), 1 + 2 * a.x)
    a.free()


def _probe(tmp_path, **environment):
    text = "from magpie.runtime.drivers.vulkan import VulkanDriver\nd = VulkanDriver()\nprint(d.probe())\n"
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_reasons_that_a_person_can_act_on(tmp_path):
    assert "cannot be opened" in _probe(tmp_path, MAGPIE_VULKAN_LIBRARY=str(tmp_path / "none.so"))
    libc = ctypes.util.find_library("c")
    assert "is no Vulkan loader" in _probe(tmp_path, MAGPIE_VULKAN_LIBRARY=libc)
    if VulkanDriver().probe() is not None:
        return
    nowhere = {"VK_ICD_FILENAMES": os.devnull, "VK_DRIVER_FILES": os.devnull}
    assert "VK_ICD_FILENAMES" in _probe(tmp_path, **nowhere)
    nowhere = {"VK_LAYER_PATH": str(tmp_path), "MAGPIE_VULKAN_VALIDATION": "1"}
    assert "vulkan-validationlayers" in _probe(tmp_path, **nowhere)
