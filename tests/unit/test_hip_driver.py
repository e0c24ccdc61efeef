"""The HIP driver's calls, against a stand-in for AMD's library that is compiled here; no GPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import types

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind
from magpie.runtime import dispatch
from magpie.runtime.driver import MemoryHint
from magpie.runtime.drivers.hip import HipDriver
from magpie.runtime.drivers.hip_api import HipApi, library_names
from tests.unit import gpu_standin
from tests.unit.gpu_standin import Other, make_saxpy

pytestmark = gpu_standin.NEEDS_CC


@pytest.fixture(scope="module", params=["rocm5", "rocm6"])
def library(request, tmp_path_factory):
    return gpu_standin.built(tmp_path_factory, "fake_hip.c", *(["-DROCM6"] if request.param == "rocm6" else []))


@pytest.fixture
def hip(library):
    with gpu_standin.installed(HipDriver, library, quiet=("hipSetDevice", "hipFuncGetAttribute")) as fake:
        yield fake


def test_the_devices_are_described(hip):
    device = hip.device
    assert (device.id, device.name, device.arch, device.subgroup_size) == ("hip:0", "Stand-in Instinct", "gfx90a", 64)
    assert device.max_workgroup_size == 1024 and device.max_shared_bytes == 65536
    assert device.memory_total == 1 << 36 and device.memory_available == 123456
    assert device.properties["settings"] == "sramecc+:xnack-" and device.properties["hip"] == "5.2"
    assert device.properties["multiprocessors"] == 104 and device.properties["uuid"] == "ab" * 16
    other = mp.device("hip:1")
    assert (other.name, other.arch, other.subgroup_size) == ("gfx1100", "gfx1100", 32)
    assert "uuid" not in other.properties
    assert mp.devices()[0] is device and mp.device() is device
    assert device.subgroup_sizes == (64,) and other.subgroup_sizes == (32, 64)


def test_a_device_that_there_is_no_code_for_is_never_chosen(hip):
    """Device 2 of the stand-in is a gfx803, which has no code here."""
    old = mp.device("hip:2")
    assert old.arch == "gfx803" and old.backends == ()
    with pytest.raises(mp.CompileError, match="no code for the architecture 'gfx803'"):
        make_saxpy()[1, 64](1.0, *(mp.zeros(4, mp.f32, device=old) for _ in range(2)))
    hip.library.fake_first(2)
    try:
        runtime = dispatch.Runtime()
        driver = HipDriver(hip.path)
        assert driver.probe() is None
        runtime._drivers["hip"], runtime._reasons["hip"], runtime._reasons["ptx"] = driver, None, "left out"
        assert runtime.device("hip:0").arch == "gfx803" and runtime.choose().backend == "cpu"
    finally:
        hip.library.fake_first(0)


def test_a_launch_on_host_arrays_copies_runs_and_copies_back(hip):
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 2, np.float32)
    hip.clear()
    make_saxpy()[4, 256](3.0, x, y)
    assert np.array_equal(y, 3 * np.arange(1000, dtype=np.float32) + 2)
    calls = hip.calls()
    assert [c.split()[0] for c in calls] == [
        "hipModuleLoadData",
        "hipModuleGetFunction",
        "hipMalloc",
        "hipMemcpyHtoD",
        "hipMalloc",
        "hipMemcpyHtoD",
        "hipModuleLaunchKernel",
        "hipDeviceSynchronize",
        "hipMemcpyDtoH",
    ]
    assert calls[0] == "hipModuleLoadData \x7fELF on 0"
    assert calls[6] == "hipModuleLaunchKernel magpie_saxpy grid 4,1,1 block 256,1,1 shared 0 stream (nil) extra (nil)"


def test_a_second_launch_on_device_arrays_is_one_call(hip):
    saxpy = make_saxpy()
    x, y = mp.asarray(np.arange(100, dtype=np.float32), device="hip"), mp.zeros(100, mp.f32, device="hip")
    saxpy[1, 128](1.0, x, y)
    hip.clear()
    saxpy[1, 128](1.0, x, y)
    assert hip.names() == ["hipModuleLaunchKernel"]
    assert np.array_equal(y.to_numpy(), 2 * np.arange(100, dtype=np.float32))
    assert hip.names() == ["hipModuleLaunchKernel", "hipDeviceSynchronize", "hipMemcpyDtoH"]


def test_each_launch_makes_its_device_current_where_there_are_several(hip):
    saxpy = make_saxpy()
    for n in (0, 1):
        x, y = (mp.zeros(10, mp.f32, device=f"hip:{n}") for _ in range(2))
        saxpy[1, 64](1.0, x, y)
        hip.clear()
        saxpy[1, 64](1.0, x, y)
        assert hip.library.fake_log().decode().split()[:2] == ["hipSetDevice", str(n)]


def test_streams_and_events(hip):
    stream = mp.Stream("hip:0")
    x, y = (mp.zeros(10, mp.f32, device="hip") for _ in range(2))
    before = stream.record()
    make_saxpy()[1, 64, stream](1.0, x, y)
    after = stream.record()
    stream.synchronize()
    assert after.elapsed_ms(before) == 2.5
    calls = hip.calls()
    assert "hipStreamCreateWithFlags 0" in calls and calls.count("hipEventRecord 0x77") == 2
    assert any(c.startswith("hipModuleLaunchKernel") and "stream 0x77" in c for c in calls)
    assert "hipStreamSynchronize 0x77" in calls


def test_memory_hints(hip):
    for hint, call, free in (
        (MemoryHint.Auto, "hipMalloc 4096", "hipFree"),
        (MemoryHint.DeviceLocal, "hipMalloc 4096", "hipFree"),
        (MemoryHint.Unified, "hipMallocManaged 4096 1", "hipFree"),
        (MemoryHint.Staging, "hipHostMalloc 4096 3", "hipHostFree"),
        (MemoryHint.Cached, "hipHostMalloc 4096 3", "hipHostFree"),
    ):
        hip.clear()
        hip.driver.free(0, hip.driver.alloc(0, 4096, hint))
        assert hip.calls() == [call, free]
    assert hip.driver.stats.nbytes == 0


def test_copies_fills_and_peers(hip):
    data = np.arange(10, dtype=np.float32)
    x = mp.asarray(data, device="hip:0")
    y = mp.zeros(10, mp.f32, device="hip:0", memory="staging")
    hip.clear()
    y.copy_from(x, stream=mp.Stream("hip:0"))
    x[5:] = 1.5
    z = x.to("hip:1")
    x.to("hip:1")
    assert [c for c in hip.calls() if not c.startswith(("hipMalloc", "hipFree", "hipEventCreate"))] == [
        "hipStreamCreateWithFlags 0",
        "hipMemcpyAsync 40 kind 4 0x77",
        "hipStreamDestroy 0x77",
        "hipMemsetD32Async 5 (nil)",
        "hipDeviceCanAccessPeer 1 0",
        "hipDeviceEnablePeerAccess 0",  # the stand-in says that somebody has: no error
        "hipDeviceCanAccessPeer 0 1",
        "hipDeviceEnablePeerAccess 1",
        *(
            "hipEventRecord (nil)",
            "hipStreamWaitEvent (nil)",
            "hipMemcpyPeerAsync 1 from 0 40 (nil)",
            "hipEventRecord (nil)",
            "hipStreamWaitEvent (nil)",
        )
        * 2,
    ]
    assert np.array_equal(np.asarray(y), data)
    assert z.to_numpy().tolist() == [0, 1, 2, 3, 4] + [1.5] * 5


def test_graphs(hip):
    x, y = mp.asarray(np.arange(10, dtype=np.float32), device="hip"), mp.zeros(10, mp.f32, device="hip")
    saxpy = make_saxpy()
    saxpy[1, 64](0.0, x, y)
    hip.clear()
    with mp.graph(device="hip") as g:
        y[...] = 1.0
        saxpy[1, 64](1.0, x, y)
    assert hip.names() == [
        "hipStreamCreateWithFlags",
        "hipStreamBeginCapture",
        "hipMemsetD32Async",
        "hipModuleLaunchKernel",
        "hipStreamEndCapture",
        "hipGraphInstantiateWithFlags",
    ]
    g.nodes[1].update(a=3.0)
    g()
    assert hip.names()[-2:] == ["hipGraphExecKernelNodeSetParams", "hipGraphLaunch"]
    assert np.array_equal(y.to_numpy(), 3 * np.arange(10) + 1)


def test_dynamic_shared_memory_needs_no_opting_in(hip):
    @mp.kernel
    def k_shared(out, n):
        a = mp.shared(n, mp.f32)
        t = mp.thread_id(0)
        a[t] = 1.0
        mp.barrier()
        out[t] = a[t]

    k_shared.launch(grid=1, block=8, args=(np.zeros(8, np.float32), 16000), device="hip")
    assert any("shared 64000 " in c for c in hip.calls())
    with pytest.raises(mp.GpuError, match="65536 for a workgroup"):
        k_shared.launch(grid=1, block=8, args=(np.zeros(8, np.float32), 16385), device="hip")


def test_a_grid_that_hip_does_not_take(hip):
    with pytest.raises(mp.GpuError, match="along x") as caught:
        make_saxpy()[1 << 24, 256](1.0, np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert caught.value.kind is GpuErrorKind.ValidationFailed and caught.value.diagnostic == "MPG_LAUNCH_1006"
    assert "hipModuleLaunchKernel" not in hip.names()


@pytest.mark.parametrize(
    ("function", "code", "kind", "words"),
    [
        ("hipMalloc", 2, GpuErrorKind.OutOfMemory, ["hipErrorOutOfMemory", "4,000 bytes"]),
        ("hipDeviceSynchronize", 719, GpuErrorKind.LaunchFailed, ["hipErrorLaunchFailure", "'saxpy'", "unspecified"]),
        ("hipModuleLoadData", 209, GpuErrorKind.InvalidKernel, ["hipErrorNoBinaryForGpu", "device.arch"]),
        ("hipModuleLaunchKernel", 4711, GpuErrorKind.DriverError, ["hipError_t 4711"]),
    ],
)
def test_errors_have_a_kind_the_librarys_name_and_number(hip, function, code, kind, words):
    def program():
        x, y = (mp.empty(1000, mp.f32, device="hip") for _ in range(2))
        make_saxpy()[1, 64](1.0, x, y)
        mp.synchronize("hip")

    program()
    hip.fail(function, code, forever=True)
    with pytest.raises(mp.GpuError) as caught:
        program()
    error = caught.value
    assert error.kind is kind and error.code == code and error.backend == "hip"
    assert all(word in str(error) for word in words)


def test_code_is_for_the_devices_architecture_and_its_waves(hip):
    @mp.kernel
    def lanes(out):
        out[mp.global_id(0)] = mp.subgroup.size()

    for device, arch, sizes in (("hip:0", "gfx90a", (64,)), ("hip:1", "gfx1100", (32, 64))):
        for size in sizes:
            lanes.launch(grid=1, block=64, args=(mp.zeros(64, mp.i32, device=device),), subgroup_size=size, device=device)
        with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1021"):
            lanes.launch(grid=1, block=64, args=(mp.zeros(64, mp.i32, device=device),), subgroup_size=16, device=device)
        assert {v.options.arch for v in lanes.variants() if v.device == device} == {arch}


def test_arrays_of_other_libraries_are_used_where_they_are_and_after_their_stream(hip):
    x, y = np.arange(100, dtype=np.float32), np.ones(200, np.float32)
    saxpy = make_saxpy()
    for _ in range(2):
        hip.clear()
        saxpy[1, 128](2.0, Other(x, stream=0x99), Other(y[::2]))
    assert np.array_equal(y[::2], 4 * np.arange(100, dtype=np.float32) + 1) and (y[1::2] == 1).all()
    calls = [c for c in hip.calls() if not c.startswith(("hipPointer", "hipEventCreate"))]
    assert [c.partition(" grid")[0] for c in calls] == [
        "hipEventRecord 0x99",
        "hipStreamWaitEvent (nil)",
        "hipModuleLaunchKernel magpie_saxpy",
        "hipEventRecord (nil)",
        "hipStreamWaitEvent 0x99",
    ]


def test_tensors_of_a_torch_for_rocm_lie_on_hip_devices(hip, monkeypatch):
    torch = types.ModuleType("torch")
    torch.version = types.SimpleNamespace(hip="6.2")
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=0x33))
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Tensor:
        __module__ = "torch"
        is_cuda, requires_grad, layout, dtype = True, False, "torch.strided", "torch.float32"
        device = types.SimpleNamespace(index=0, type="cuda")

        def __init__(self, array):
            self.array, self.shape = array, array.shape

        def is_conj(self):
            return False

        is_neg = is_conj

        def data_ptr(self):
            return self.array.ctypes.data

        def stride(self):
            return tuple(s // 4 for s in self.array.strides)

        def __dlpack__(self):
            raise AssertionError("nothing is copied, and nothing exported")

    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    make_saxpy()[1, 64](2.0, Tensor(x), Tensor(y))
    assert np.array_equal(y, 2 * np.arange(8, dtype=np.float32) + 1)
    assert "hipEventRecord 0x33" in hip.calls() and "hipMemcpyHtoD" not in hip.names()


def test_the_library_of_a_loaded_torch_comes_first(monkeypatch):
    torch = types.ModuleType("torch")
    torch.version, torch.__file__ = types.SimpleNamespace(hip="6.2"), "/there/torch/__init__.py"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert library_names()[0] == "/there/torch/lib/libamdhip64.so"
    torch.version.hip = None  # one for CUDA
    assert library_names()[0] == HipApi.table.libraries[0]


def test_no_library_no_device_and_an_old_one(library, tmp_path):
    reason = HipDriver("/nonexistent/libamdhip64.so").probe()
    assert reason is not None and "AMD" in reason and "not installed" in reason
    fake = ctypes.CDLL(library)
    for name, code in (("hipInit", 100), ("hipInit", 101), ("hipGetDeviceCount", 100)):
        fake.fake_reset()
        fake.fake_fail(name.encode(), code, 0)
        assert "no AMD device" in str(HipDriver(library).probe())
    fake.fake_reset()
    source = tmp_path / "old.c"
    source.write_text("int hipInit(unsigned f) { return 0; }")
    old = tmp_path / "libold.so"
    subprocess.run([gpu_standin.CC, "-shared", "-fPIC", str(source), "-o", str(old)], check=True)
    assert "too old" in str(HipDriver(str(old)).probe())


def test_without_a_gpu_hip_is_unavailable_with_the_reason():
    """Also where the library is installed (Debian's libamdhip64-5): it answers, and finds no device."""
    if dispatch.Runtime().unavailable("hip") is None:
        pytest.skip("this machine has an AMD GPU")
    with pytest.raises(mp.GpuError) as caught:
        mp.device("hip")
    assert caught.value.kind is GpuErrorKind.BackendUnavailable
    assert "libamdhip64" in str(caught.value) or "no AMD device" in str(caught.value)
