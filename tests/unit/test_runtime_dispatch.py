"""Devices, the choice among them, drivers that are not there, and a driver whose memory is its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import magpie as mp
from magpie.backends import registry
from magpie.records import replaced
from magpie.runtime import dispatch
from magpie.runtime.driver import Allocation, DeviceInfo
from magpie.runtime.drivers.interp import InterpDriver


@pytest.fixture(autouse=True)
def fresh():
    """A runtime of this test's own."""
    old = dispatch.reset(dispatch.Runtime())
    yield
    dispatch.reset(old)


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def test_devices():
    found = mp.devices()
    assert [d.id for d in found if d.backend in ("cpu", "interp")] == ["cpu:0", "interp:0"]
    for d in found:
        assert d.name
        assert d.max_workgroup_size >= 256
        assert d.max_shared_bytes > 0
        assert d.memory_total >= 0
        assert d.id in repr(d)
        assert d.properties["backend"] == d.backend
        assert d.backends[0] == d.backend
    assert mp.device("cpu") is mp.device("cpu:0") is mp.device("CPU:0")
    assert mp.device(mp.device("cpu")) is mp.device("cpu")


def test_default_and_forced(monkeypatch):
    assert mp.device().backend == "cpu"
    monkeypatch.setenv("MAGPIE_BACKEND", "interp")
    assert mp.device().backend == "interp"
    monkeypatch.setenv("MAGPIE_DEVICE", "cpu:0")
    assert mp.device().backend == "cpu"


@pytest.mark.parametrize("name", ["gpu0", "cpu:", "cpu:x", "cpu:1", "", "cpu 0", "interp:7"])
def test_unknown_device(name):
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1016"):
        mp.device(name)


def test_unknown_device_type():
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1016"):
        mp.device(3)


@pytest.mark.parametrize("name", ["cuda", "ptx:0", "vulkan", "metal", "webgpu", "hip"])
def test_backend_that_cannot_be_used(name):
    backend = registry.canonical(name.partition(":")[0])
    if backend in registry.backend_ids():
        pytest.skip("this installation has it")
    with pytest.raises(mp.GpuError) as caught:
        mp.device(name)
    assert caught.value.kind is mp.GpuErrorKind.BackendUnavailable
    assert caught.value.backend == backend


def test_choice_among_bundled():
    runtime = dispatch.runtime()
    assert runtime.choose(["metal", "cpu"]).backend == "cpu"
    with pytest.raises(mp.GpuError) as caught:
        runtime.choose(["metal"])
    assert caught.value.kind is mp.GpuErrorKind.BackendUnavailable
    assert "no available backend among {metal}; rebuild with cpu to enable CPU fallback" in str(caught.value)
    with pytest.raises(mp.GpuError, match="among {metal, cuda}"):
        runtime.choose(["metal", "ptx"])
    with pytest.raises(mp.GpuError):
        runtime.choose(["interp"])  # never by itself


class _Vulkan(InterpDriver):
    """A driver for GPUs, of a device that is one or runs on the processor."""

    id = "spv"

    def __init__(self, *software):
        super().__init__()
        self.software = software

    def devices(self):
        host = super().devices()[0]
        return tuple(
            replaced(host, index=n, backends=("spv",), properties={"software": flag})
            for n, flag in enumerate(self.software)
        )


@pytest.mark.parametrize(
    ("software", "bundled", "wanted"),
    [
        ((False,), None, "spv:0"),
        ((True, False), None, "spv:1"),
        ((True,), None, "cpu:0"),
        ((True,), ["spv", "cpu"], "cpu:0"),
        ((True,), ["spv"], "spv:0"),
    ],
)
def test_a_driver_that_runs_on_the_processor_comes_last(monkeypatch, software, bundled, wanted):
    monkeypatch.setattr(dispatch, "_worth_a_look", lambda id_: True)
    runtime = dispatch.runtime()
    runtime._drivers["spv"], runtime._reasons["spv"] = _Vulkan(*software), None
    assert runtime.choose(bundled).id == wanted
    ids = [d.id for d in mp.devices() if d.backend in ("spv", "cpu", "interp")]
    assert [i for i in ids if i.startswith("spv")][0] == f"spv:{software.index(min(software))}"
    assert ids.index("cpu:0") == software.count(False) and ids[-1] == "interp:0"
    assert mp.device("vulkan").id == "spv:0"  # named, it is there


@pytest.mark.skipif(dispatch._worth_a_look("spv"), reason="there may be a GPU here")
def test_vulkan_is_not_opened_where_there_is_no_gpu():
    text = "import sys\nimport magpie as mp\nprint(mp.device().backend, 'magpie.runtime.drivers.vulkan' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cpu", "False"]


def test_registry():
    assert registry.canonical("Vulkan") == "spv"
    assert registry.canonical("cuda") == "ptx"
    assert registry.canonical("cpu") == "cpu"
    assert registry.backend("cpu").id == "cpu"
    assert set(registry.backend_ids()) >= {"cpu", "interp"}
    with pytest.raises(mp.GpuError) as caught:
        registry.backend("nonsense")
    assert caught.value.kind is mp.GpuErrorKind.BackendUnavailable


class FarDriver(InterpDriver):
    """The interpreter behind memory that the host must copy to: what a GPU driver looks like from here."""

    id = "far"
    host_memory = False

    def __init__(self):
        super().__init__()
        self.copies_in = self.copies_out = 0

    def devices(self):
        (info,) = super().devices()
        return (DeviceInfo("far device", 0, info.manifest, 32, 0, ("far",)),)

    def alloc(self, device, nbytes, hint=0, *, zero=False):
        made = ctypes.create_string_buffer(nbytes)
        allocation = Allocation(ctypes.addressof(made), nbytes, made)
        self.stats.live[id(allocation)] = nbytes
        return allocation

    def copy_in(self, device, address, host, nbytes):
        self.copies_in += 1
        super().copy_in(device, address, host, nbytes)

    def copy_out(self, device, host, address, nbytes):
        self.copies_out += 1
        super().copy_out(device, host, address, nbytes)


@pytest.fixture
def far(monkeypatch):
    runtime = dispatch.runtime()
    monkeypatch.setitem(registry.BUILTIN, "far", "magpie.backends.interp")
    registry.backend.cache_clear()
    driver = FarDriver()
    runtime._drivers["far"] = driver
    runtime._reasons["far"] = None
    yield driver
    registry.backend.cache_clear()


def test_host_arrays_go_to_the_device_and_back(far):
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    saxpy.launch(grid=1, block=16, args=(2.0, x, y), device="far")
    assert y.tolist() == [1, 3, 5, 7]
    assert (far.copies_in, far.copies_out) == (2, 1)
    saxpy.launch(grid=1, block=16, args=(1.0, x[::-1], y[::2]), device="far")
    assert y.tolist() == [4, 3, 7, 7]
    saxpy.launch(grid=1, block=16, args=(1.0, y, y), device="far")
    assert y.tolist() == [8, 6, 14, 14]
    assert far.stats.buffers == 0


def test_arrays_that_overlap_do_so_there(far):
    data = np.arange(9, dtype=np.float32)
    saxpy.launch(grid=1, block=16, args=(1.0, data[:8:2], data[1:8:2]), device="far")
    assert data.tolist() == [0, 1 + 0, 2, 3 + 2, 4, 5 + 4, 6, 7 + 6, 8]
    assert far.stats.buffers == 0


def test_arrays_of_the_device(far):
    x = mp.asarray(np.arange(4, dtype=np.float32), device="far")
    y = mp.full(4, 1.0, device="far")
    saxpy[1, 16](2.0, x, y)
    assert y.to_numpy().tolist() == [1, 3, 5, 7]
    assert np.asarray(y).tolist() == [1, 3, 5, 7]
    y[1:3] = 0
    assert mp.to_numpy(y).tolist() == [1, 0, 0, 7]
    host = np.ones(4, np.float32)
    saxpy[1, 16](1.0, y, host)
    assert host.tolist() == [2, 1, 1, 8]
    assert saxpy.variants()[-1].device == "far:0"
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1008"):
        saxpy.launch(grid=1, block=16, args=(1.0, x, y), device="interp")
    assert x[::2].to_numpy().tolist() == [0, 2]
    x[::-2] = [8, 9]
    assert x.to_numpy().tolist() == [0, 9, 2, 8]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, copy=False)
    with pytest.raises(BufferError):
        np.from_dlpack(x)
    y.free()
    with pytest.raises(mp.GpuError, match="freed"):
        saxpy[1, 16](1.0, x, y)
