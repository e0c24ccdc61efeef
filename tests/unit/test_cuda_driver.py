"""The CUDA driver's calls, against a stand-in for NVIDIA's library that is compiled here; no GPU."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind
from magpie.runtime import dispatch
from magpie.runtime.buffer import running
from magpie.runtime.driver import MemoryHint
from magpie.runtime.drivers.cuda import CudaDriver
from magpie.runtime.native.library import supported
from tests.unit import gpu_standin
from tests.unit.gpu_standin import Other, make_saxpy

pytestmark = gpu_standin.NEEDS_CC


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return gpu_standin.built(tmp_path_factory, "fake_cuda.c")


@pytest.fixture
def cuda(library):
    with gpu_standin.installed(CudaDriver, library, quiet=("cuCtxSetCurrent", "cuFuncGetAttribute")) as fake:
        yield fake


def test_the_device_is_described(cuda):
    device = cuda.device
    assert (device.name, device.subgroup_size, device.arch) == ("Stand-in 0", 32, "sm_90")
    assert device.max_workgroup_size == 1024 and device.max_shared_bytes == 232448
    assert device.memory_total == 1 << 30 and device.memory_available == 123456
    assert device.properties["compute_capability"] == "9.0" and device.properties["cuda"] == "13.0"
    assert mp.devices()[0].id == "ptx:0"


def test_a_launch_on_host_arrays_copies_runs_and_copies_back(cuda):
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 2, np.float32)
    cuda.clear()
    make_saxpy()[4, 256](3.0, x, y)
    assert np.array_equal(y, 3 * np.arange(1000, dtype=np.float32) + 2)
    calls = cuda.calls()
    assert [c.split()[0] for c in calls] == [
        "cuModuleLoadDataEx",
        "cuModuleGetFunction",
        "cuMemAlloc_v2",
        "cuMemcpyHtoD_v2",
        "cuMemAlloc_v2",
        "cuMemcpyHtoD_v2",
        "cuLaunchKernel",
        "cuCtxSynchronize",
        "cuMemcpyDtoH_v2",
    ]
    # for the device's architecture, and with no stream, no dynamic shared memory and no `extra`
    assert calls[0] == "cuModuleLoadDataEx .target sm_90"
    assert calls[6] == "cuLaunchKernel magpie_saxpy grid 4,1,1 block 256,1,1 shared 0 stream (nil) extra (nil)"


def test_memory_of_copies_is_used_again(cuda):
    saxpy = make_saxpy()
    for n in (1000, 600, 1024):  # all of them take 4 KiB
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        saxpy[4, 256](1.0, x, y)
        assert np.array_equal(x, y)
    assert cuda.calls().count("cuMemAlloc_v2 4096") == 2 and "cuMemFree_v2" not in cuda.names()
    x, y = np.zeros(1 << 22, np.float32), np.zeros(1 << 22, np.float32)
    cuda.clear()
    for _ in range(3):
        saxpy[1, 256](1.0, x, np.zeros_like(y))
    # 16 MiB each: kept as well
    assert cuda.names().count("cuMemAlloc_v2") == 2


def test_blocks_run_several_workgroups_where_they_still_fill_the_device(cuda):
    saxpy = make_saxpy()
    n = 4 * 132 * 2048 + 300  # the stand-in holds 132 * 2048 threads
    x, y = mp.asarray(np.arange(n, dtype=np.float32) % 1000, device="cuda"), mp.zeros(n, mp.f32, device="cuda")

    def launched(size):
        cuda.clear()
        saxpy[mp.cdiv(size, 256), 256](1.0, x[:size], y[:size])
        return next(c.split()[1:4] for c in cuda.calls() if c.startswith("cuLaunchKernel"))

    assert launched(n) == ["magpie_saxpy_by4", "grid", "1057,1,1"]
    assert launched(n - 301) == ["magpie_saxpy_by4", "grid", "1056,1,1"]
    assert launched(n - 300 - 4 * 256) == ["magpie_saxpy", "grid", "4220,1,1"]
    times = np.repeat([3, 2, 1, 0], [n - 300 - 1024, 1024 - 1, 301, 0])
    assert np.array_equal(y.to_numpy(), times * (np.arange(n) % 1000))


@pytest.mark.parametrize(("factor", "entry"), [("1", "magpie_saxpy grid 3,"), ("8", "magpie_saxpy_by8 grid 1,")])
def test_how_many_workgroups_a_block_runs_is_a_knob(cuda, monkeypatch, factor, entry):
    monkeypatch.setenv("MAGPIE_COARSEN", factor)
    x, y = np.arange(600, dtype=np.float32), np.ones(600, np.float32)
    make_saxpy()[3, 256](2.0, x, y)
    assert np.array_equal(y, 2 * np.arange(600) + 1)
    assert any(c.startswith(f"cuLaunchKernel {entry}") for c in cuda.calls())


def test_views_with_gaps_are_read_and_written(cuda):
    a = mp.asarray(np.arange(24, dtype=np.float32).reshape(4, 6), device="cuda")
    want = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert np.array_equal(a[1:, ::2].to_numpy(), want[1:, ::2])
    assert np.array_equal(a[::-1, 1].to_numpy(), want[::-1, 1])
    a[::2, 1::3] = 7
    a[3, ::-2] = np.arange(3)
    want[::2, 1::3] = 7
    want[3, ::-2] = np.arange(3)
    assert np.array_equal(a.to_numpy(), want)


def test_a_second_launch_on_device_arrays_is_one_call(cuda):
    saxpy = make_saxpy()
    x, y = mp.asarray(np.arange(100, dtype=np.float32), device="cuda"), mp.zeros(100, mp.f32, device="cuda")
    saxpy[1, 128](1.0, x, y)
    cuda.clear()
    saxpy[1, 128](1.0, x, y)
    assert cuda.names() == ["cuLaunchKernel"]
    assert np.array_equal(y.to_numpy(), 2 * np.arange(100, dtype=np.float32))
    assert cuda.names() == ["cuLaunchKernel", "cuCtxSynchronize", "cuMemcpyDtoH_v2"]


def test_streams_and_events(cuda):
    stream = mp.Stream("cuda:0")
    x, y = (mp.zeros(10, mp.f32, device="cuda") for _ in range(2))
    before = stream.record()
    make_saxpy()[1, 64, stream](1.0, x, y)
    after = stream.record()
    stream.synchronize()
    assert after.elapsed_ms(before) == 2.5
    calls = cuda.calls()
    assert "cuStreamCreate 0" in calls and calls.count("cuEventRecord 0x77") == 2
    assert any(c.startswith("cuLaunchKernel") and "stream 0x77" in c for c in calls)
    assert "cuStreamSynchronize 0x77" in calls
    cuda.library.fake_reset()
    after.synchronize()
    after.synchronize(timeout=1)
    assert cuda.calls() == ["cuEventSynchronize", "cuEventQuery", "cuEventSynchronize"]


def test_memory_hints(cuda):
    for hint, call, free in (
        (MemoryHint.Auto, "cuMemAlloc_v2 4096", "cuMemFree_v2"),
        (MemoryHint.Unified, "cuMemAllocManaged 4096 1", "cuMemFree_v2"),
        (MemoryHint.Staging, "cuMemHostAlloc 4096 3", "cuMemFreeHost"),
    ):
        cuda.clear()
        made = cuda.driver.alloc(0, 4096, hint)
        cuda.driver.free(0, made)
        assert cuda.calls() == [call, free]
        assert made.address % 256 == 0
    assert cuda.driver.stats.nbytes == 0


@pytest.mark.parametrize("memory", ["unified", "staging", "cached"])
def test_memory_that_the_host_sees_is_looked_at_where_it_lies(cuda, memory):
    x = mp.asarray(np.arange(10, dtype=np.float32), device="cuda", memory=memory)
    y = mp.zeros(10, mp.f32, device="cuda", memory=memory)
    view = np.asarray(y)
    cuda.clear()
    make_saxpy()[1, 64](2.0, x, y)
    mp.synchronize("cuda")
    assert np.array_equal(view, 2 * np.arange(10))
    assert y.__dlpack_device__() == ((2, 0) if memory == "unified" else (1, 0))
    view[3] = 50
    y[4] = 7
    assert y.to_numpy().tolist() == [0, 2, 4, 50, 7, 10, 12, 14, 16, 18]
    assert not any(name.startswith("cuMemcpy") for name in cuda.names())
    local = mp.zeros(10, mp.f32, device="cuda")
    with pytest.raises(ValueError, match="without a copy"):
        local.__array__(copy=False)


def test_copies_in_the_order_of_a_stream(cuda):
    stream = mp.Stream("cuda")
    pinned = mp.asarray(np.arange(10, dtype=np.float32), device="cuda", memory="staging")
    x, back = mp.zeros(10, mp.f32, device="cuda"), mp.zeros(10, mp.f32, device="cuda", memory="staging")
    cuda.clear()
    x.copy_from(pinned, stream=stream)
    back.copy_from(x, stream=stream)
    back.copy_from(x)
    assert cuda.calls() == ["cuMemcpyAsync 40 0x77", "cuMemcpyAsync 40 0x77", "cuMemcpyAsync 40 (nil)"]
    assert np.array_equal(np.asarray(back), np.arange(10))
    # views with gaps go through the host
    x[::2].copy_from(back[5:])
    assert x.to_numpy().tolist() == [5, 1, 6, 3, 7, 5, 8, 7, 9, 9]
    for wrong, words in ((np.ones(10, np.float32), "mp array"), (mp.zeros(9, device="cpu"), "equal shapes")):
        with pytest.raises(mp.GpuError, match=words):
            x.copy_from(wrong)
    with pytest.raises(mp.GpuError, match="the stream belongs to cpu:0"):
        x.copy_from(back, stream=mp.Stream("cpu"))
    elsewhere = mp.zeros(10, mp.f32, device="cpu")
    elsewhere.copy_from(x)
    assert np.array_equal(elsewhere.to_numpy(), x.to_numpy())


def test_other_libraries_take_arrays_through_dlpack(cuda):
    class Tensor(ctypes.Structure):  # DLManagedTensor of dlpack.h
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("type", ctypes.c_uint8 * 4),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("offset", ctypes.c_uint64),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        )

    def api(name, result):
        return ctypes.PYFUNCTYPE(result, ctypes.py_object, ctypes.c_char_p)((name, ctypes.pythonapi))

    pointer, rename = api("PyCapsule_GetPointer", ctypes.c_void_p), api("PyCapsule_SetName", ctypes.c_int)
    used = b"used_dltensor"
    codes = {mp.i8: (0, 8), mp.u32: (1, 32), mp.f16: (2, 16), mp.f64: (2, 64), mp.bf16: (4, 16), mp.bool_: (6, 8)}
    for dtype, (code, bits) in codes.items():
        x = mp.zeros((4, 6), dtype, device="cuda")[1:, ::2]
        assert x.__dlpack_device__() == (2, 0)
        capsule = x.__dlpack__(stream=1)
        tensor = Tensor.from_address(pointer(capsule, b"dltensor"))
        assert tensor.data == x._words[0] and tuple(tensor.device) == (2, 0) and tensor.offset == 0
        assert tuple(tensor.type) == (code, bits, 1, 0)
        assert (tensor.shape[:2], tensor.strides[:2], tensor.ndim) == ([3, 3], [6, 2], 2)
        live = cuda.driver.stats.nbytes
        del x
        rename(capsule, used)  # a consumer takes it
        del capsule
        gc.collect()
        assert cuda.driver.stats.nbytes == live
        tensor.deleter(ctypes.addressof(tensor))
        gc.collect()
        assert cuda.driver.stats.nbytes < live
    x = mp.zeros(4, mp.f32, device="cuda")
    live = cuda.driver.stats.nbytes
    cuda.clear()
    capsule = x.__dlpack__(stream=0x99)
    assert [c for c in cuda.calls() if c.startswith(("cuEventRec", "cuStream"))] == ["cuEventRecord (nil)", "cuStreamWaitEvent 0x99"]
    del x, capsule  # nobody took it
    gc.collect()
    assert cuda.driver.stats.nbytes == live - 16


def test_other_libraries_take_arrays_through_their_interface(cuda):
    x = mp.zeros((4, 6), mp.f32, device="cuda")[1:, ::2]
    interface = x.__cuda_array_interface__
    assert interface["data"] == (x._words[0], False) and interface["typestr"] == "<f4" and interface["stream"] == 1
    assert (interface["shape"], interface["strides"]) == ((3, 3), (24, 8))
    assert not hasattr(mp.zeros(4, mp.bf16, device="cuda"), "__cuda_array_interface__")
    assert not hasattr(mp.zeros(4, mp.f32, device="cpu"), "__cuda_array_interface__")


@pytest.fixture
def two(library):
    fake = ctypes.CDLL(library)
    fake.fake_devices(2, 1)
    quiet = ("cuCtxSetCurrent", "cuFuncGetAttribute", "cuDevicePrimaryCtx")
    with gpu_standin.installed(CudaDriver, library, quiet) as found:
        yield found
    fake.fake_devices(1, 0)


def test_a_copy_between_devices_is_ordered_with_both(two):
    data = np.arange(10, dtype=np.float32)
    x = mp.asarray(data, device="cuda:0")
    two.clear()
    y = x.to("cuda:1")
    assert y.device is mp.device("cuda:1") and x.to("cuda:0") is x
    assert [c for c in two.calls() if not c.startswith("cuMemAlloc")] == [
        "cuDeviceCanAccessPeer 1 0",
        "cuCtxEnablePeerAccess 0x1000",
        "cuDeviceCanAccessPeer 0 1",
        "cuCtxEnablePeerAccess 0x1001",
        "cuEventRecord (nil)",  # what the source's device has queued
        "cuStreamWaitEvent (nil)",
        "cuMemcpyPeerAsync 0x1001 from 0x1000 40 (nil)",
        "cuEventRecord (nil)",
        "cuStreamWaitEvent (nil)",
    ]
    assert np.array_equal(y.to_numpy(), data)
    two.clear()
    stream = mp.Stream("cuda:1")
    y[2:4].copy_from(x[:2], stream=stream)
    assert "cuMemcpyPeerAsync 0x1001 from 0x1000 8 0x77" in two.calls() and "cuDeviceCanAccessPeer" not in two.names()
    assert y.to_numpy().tolist() == [0, 1, 0, 1, 4, 5, 6, 7, 8, 9]
    # through the host where elements must be converted
    assert mp.asarray(x, mp.i32, device="cuda:1").to_numpy().tolist() == data.tolist()
    contexts = [c for c in two.library.fake_log().decode().splitlines() if c.startswith("cuCtxSetCurrent")]
    assert {c.split()[1] for c in contexts} == {"0x1000", "0x1001"}


def test_devices_that_do_not_reach_each_other_still_copy(two):
    two.library.fake_devices(2, 0)
    x = mp.asarray(np.arange(10, dtype=np.float32), device="cuda:1")
    assert np.array_equal(x.to("cuda:0").to_numpy(), np.arange(10))
    assert "cuMemcpyPeerAsync" in two.names() and "cuCtxEnablePeerAccess" not in two.names()


def test_an_array_of_another_device_is_an_error_that_names_both(two):
    x, y = (mp.zeros(10, mp.f32, device=f"cuda:{n}") for n in range(2))
    with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1008") as caught:
        make_saxpy()[1, 64](1.0, x, y)
    assert "ptx:0" in str(caught.value) and "ptx:1" in str(caught.value) and "device=" in str(caught.value)


@mp.kernel
def k_shared(out, n):
    a = mp.shared(n, mp.f32)
    b = mp.shared(n + 1, mp.i8)
    t = mp.thread_id(0)
    a[t] = 1.0
    b[t] = 2
    mp.barrier()
    out[t] = a[t] + b[t]


def test_dynamic_shared_memory_is_asked_for_and_beyond_48_kb_opted_into(cuda):
    out = np.zeros(8, np.float32)
    k_shared.launch(grid=1, block=8, args=(out, 100), device="cuda")
    # 100 floats are 400 bytes, 101 bytes are rounded up to 112
    assert any("shared 512 " in c for c in cuda.calls())
    assert not any(c.startswith("cuFuncSetAttribute") for c in cuda.calls())
    k_shared.launch(grid=1, block=8, args=(out, 12288), device="cuda")
    wanted = 4 * 12288 + 12304
    assert f"cuFuncSetAttribute 8 {wanted}" in cuda.calls()
    assert any(f"shared {wanted} " in c for c in cuda.calls())


def test_out_of_memory(cuda):
    cuda.fail("cuMemAlloc_v2", 2)
    with pytest.raises(mp.GpuError, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        mp.empty(1000, mp.f32, device="cuda")
    assert caught.value.kind is GpuErrorKind.OutOfMemory and caught.value.code == 2
    assert "4,000 bytes" in str(caught.value)


def test_memory_that_is_kept_for_copies_is_given_up_before_there_is_none(cuda):
    x = np.zeros(4, np.float32)
    make_saxpy()[1, 64](1.0, x, x.copy())
    cuda.clear()
    cuda.fail("cuMemAlloc_v2", 2)  # once
    made = mp.empty(1000, mp.f32, device="cuda")
    assert cuda.names() == ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemFree_v2", "cuMemAlloc_v2"]
    assert made.shape == (1000,)


def test_cuda_arrays_of_others_are_copied_to_where_they_are_asked_for(cuda):
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    for theirs, want in ((Other(data), data), (Other(data[:, ::2]), data[:, ::2])):
        made = mp.asarray(theirs)
        assert made.device is cuda.device and np.array_equal(made.to_numpy(), want)
        assert np.array_equal(mp.to_numpy(theirs), want)
        assert mp.asarray(theirs, mp.f64).dtype is mp.f64
        assert mp.array_like(theirs).shape == want.shape
    del made
    cuda.clear()
    copied = mp.asarray(Other(data))
    assert copied.shape == (3, 4)
    assert cuda.names()[-2:] == ["cuCtxSynchronize", "cuMemcpyAsync"]


def test_a_fault_on_the_device_names_the_kernel_and_says_what_to_do(cuda):
    x, y = (mp.zeros(10, mp.f32, device="cuda") for _ in range(2))
    make_saxpy()[1, 64](1.0, x, y)
    cuda.fail("cuCtxSynchronize", 700)
    with pytest.raises(mp.GpuError) as caught:
        mp.synchronize("cuda")
    assert caught.value.kind is GpuErrorKind.LaunchFailed and caught.value.code == 700
    text = str(caught.value)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text and "'saxpy'" in text and "illegal memory access" in text
    assert "start it again" in text and "checked=True" in text


def test_waiting_has_an_end_where_one_is_given(cuda):
    x, y = (mp.zeros(10, mp.f32, device="cuda") for _ in range(2))
    make_saxpy()[1, 64](1.0, x, y)
    mp.synchronize("cuda", timeout=5)
    cuda.fail("cuEventQuery", 600, forever=True)
    event = mp.Stream("cuda").record()
    for wait in (mp.synchronize, cuda.device.synchronize, mp.Stream("cuda").synchronize, event.synchronize):
        with pytest.raises(mp.GpuError, match="0.01 s") as caught:
            wait(timeout=0.01)
        assert caught.value.kind is GpuErrorKind.TimeoutExpired
        assert "'saxpy'" in str(caught.value) and "end of this process" in str(caught.value)
    # What would wait for the kernel is not called any more, or the program could not end.
    cuda.clear()
    live = cuda.driver.stats.nbytes
    del x
    assert cuda.driver.stats.nbytes == live - 40 and "cuMemFree_v2" not in cuda.names()
    mp.Stream("cuda").synchronize()
    assert "cuMemFree_v2" not in cuda.names()  # one stream says nothing of the others
    cuda.clear()
    # It was only slow: then memory is freed after all.
    mp.synchronize("cuda")
    assert cuda.names() == ["cuCtxSynchronize", "cuMemFree_v2"]
    with pytest.raises(mp.LaunchValueError, match="timeout"):
        mp.synchronize("cuda", timeout=-1)


def test_ptx_that_the_driver_refuses_shows_its_log(cuda):
    cuda.fail("cuModuleLoadDataEx", 218)
    with pytest.raises(mp.GpuError, match="ptxas said something") as caught:
        make_saxpy()[1, 64](1.0, np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert caught.value.kind is GpuErrorKind.CompilationFailed and "CUresult 218" in str(caught.value)


def test_a_workgroup_that_the_registers_do_not_allow_is_an_error_before_the_launch(cuda):
    cuda.clear()
    with pytest.raises(mp.GpuError, match="at most 512") as caught:
        make_saxpy()[1, 1024](1.0, np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert caught.value.kind is GpuErrorKind.ResourceExhausted
    assert "cuLaunchKernel" not in cuda.names()


def test_a_grid_that_cuda_does_not_take(cuda):
    with pytest.raises(mp.GpuError, match="65536 workgroups along y") as caught:
        make_saxpy()[(1, 65536), 64](1.0, np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert caught.value.kind is GpuErrorKind.ValidationFailed


def test_overlapping_arrays_run_code_that_assumes_nothing(cuda):
    saxpy = make_saxpy()
    x = np.arange(8, dtype=np.float32)
    saxpy[1, 64](1.0, x, x)
    assert np.array_equal(x, 2 * np.arange(8, dtype=np.float32))
    assert [v.facts for v in saxpy.variants()] == ["fast", "general"]
    # one copy for both arguments
    assert cuda.names().count("cuMemcpyHtoD_v2") == 1


def test_arrays_of_other_libraries_are_used_where_they_are(cuda):
    x, y = np.arange(100, dtype=np.float32), np.ones(200, np.float32)
    saxpy = make_saxpy()
    for _ in range(2):
        cuda.clear()
        saxpy[1, 128](2.0, Other(x), Other(y[::2]))
    assert np.array_equal(y[::2], 4 * np.arange(100, dtype=np.float32) + 1) and (y[1::2] == 1).all()
    assert [n for n in cuda.names() if n != "cuPointerGetAttribute"] == ["cuLaunchKernel"]
    with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1005"):
        saxpy[1, 128](2.0, Other(x), Other(y, read_only=True))


def test_arrays_of_other_libraries_that_overlap_run_code_that_assumes_nothing(cuda):
    x = np.arange(8, dtype=np.float32)
    saxpy = make_saxpy()
    saxpy[1, 64](1.0, Other(x), Other(x))
    assert np.array_equal(x, 2 * np.arange(8, dtype=np.float32))
    assert [v.facts for v in saxpy.variants()][-1] == "general"


def test_a_launch_is_ordered_with_the_stream_of_the_other_library(cuda):
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    saxpy = make_saxpy()
    saxpy[1, 64](1.0, Other(x), Other(y))
    cuda.clear()
    saxpy[1, 64](1.0, Other(x, stream=0x99), Other(y, stream=1))
    calls = [c for c in cuda.calls() if not c.startswith("cuPointer")]
    assert [c if c.startswith(("cuEvent", "cuStream")) else c.split()[0] for c in calls] == [
        "cuEventRecord 0x99",
        "cuStreamWaitEvent (nil)",
        "cuLaunchKernel",
        "cuEventRecord (nil)",
        "cuStreamWaitEvent 0x99",
    ]
    cuda.clear()
    saxpy[1, 64](1.0, Other(x), Other(y))
    assert "cuStreamWaitEvent" not in "".join(cuda.calls())


def test_what_a_checked_kernel_wrote_comes_back_with_the_error(cuda):
    cuda.library.fake_fault(1)

    @mp.kernel(checked=True)
    def checked(x: mp.Array[mp.i32]):
        x[mp.global_id(0)] = 7

    x = np.zeros(4, np.int32)
    with pytest.raises(mp.GpuError, match="out-of-bounds") as caught:
        checked[1, 4](x)
    assert "thread (2, 0, 0) of workgroup (0, 0, 0)" in str(caught.value) and "x[9]" in str(caught.value)
    assert x.tolist() == [7, 7, 7, 7]


def test_a_forked_child_is_told_that_cuda_does_not_work_there(cuda):
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    make_saxpy()[1, 64](1.0, x, y)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            make_saxpy()[1, 64](1.0, x, y)
        except mp.GpuError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode()
    os.close(read)
    os.waitpid(child, 0)
    assert "fork" in said and "spawn" in said


def test_no_library_and_no_device(library):
    assert "not installed" in str(CudaDriver("/nonexistent/libcuda.so").probe())
    fake = ctypes.CDLL(library)
    fake.fake_reset()
    fake.fake_fail(b"cuInit", 100, 0)
    assert "CUDA_ERROR_NO_DEVICE" in str(CudaDriver(library).probe())


def test_without_a_gpu_cuda_is_unavailable_with_the_reason():
    if dispatch.Runtime().unavailable("ptx") is None:
        pytest.skip("this machine has an NVIDIA GPU")
    with pytest.raises(mp.GpuError) as caught:
        mp.device("cuda")
    assert caught.value.kind is GpuErrorKind.BackendUnavailable
    assert "libcuda" in str(caught.value) or "CUDA_ERROR_NO_DEVICE" in str(caught.value)  # not there, or hidden


# --- native launches ------------------------------------------------------------------------------------------------
native = pytest.mark.skipif(not supported(), reason="no native launches on this interpreter or machine")


def warm_saxpy():
    """A launcher with a native plan, and its arrays."""
    saxpy = make_saxpy()
    x, y = mp.asarray(np.arange(100, dtype=np.float32), device="cuda"), mp.zeros(100, mp.f32, device="cuda")
    launch = saxpy[1, 128]
    for _ in range(2):
        launch(1.0, x, y)
    assert launch.native_plans
    return launch, x, y


def python_runs(run):
    """Whether `run` enters a launcher's Python code."""
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    return any("launcher.py" in name for name in seen)


@native
def test_a_native_launch_is_the_same_call(cuda):
    launch, x, y = warm_saxpy()
    cuda.clear()
    launch(1.0, x, y)
    expected = cuda.calls()
    launch.__class__.__mro__[1].__call__(launch, 1.0, x, y)  # by Python
    assert cuda.calls() == expected * 2 and not python_runs(lambda: launch(0.5, x, y))
    assert np.array_equal(y.to_numpy(), 4.5 * np.arange(100, dtype=np.float32))


@native
def test_a_native_launch_that_fails_says_what_a_launch_by_python_says(cuda):
    launch, x, y = warm_saxpy()
    said = []
    for call in (launch, lambda *args: launch.__class__.__mro__[1].__call__(launch, *args)):
        cuda.fail("cuLaunchKernel", 700)
        with pytest.raises(mp.GpuError) as caught:
            call(1.0, x, y)
        said.append((str(caught.value), caught.value.kind, caught.value.code))
    assert said[0] == said[1] and "launching kernel 'saxpy'" in said[0][0]
    assert said[0][1:] == (GpuErrorKind.LaunchFailed, 700) and not running
    launch(1.0, x, y)


@native
def test_an_error_that_comes_later_names_the_kernel_launched_natively(cuda):
    launch, x, y = warm_saxpy()

    @mp.kernel
    def other(x: mp.Array[mp.f32]):
        x[mp.global_id(0)] = 1.0

    other[1, 1](y)
    launch(1.0, x, y)
    cuda.fail("cuCtxSynchronize", 700)
    with pytest.raises(mp.GpuError, match="after a launch of kernel 'saxpy'"):
        y.to_numpy()


@native
def test_a_thread_that_has_not_entered_the_device_goes_through_python_once(cuda):
    launch, x, y = warm_saxpy()
    found = []

    def work():
        found.extend(python_runs(lambda: launch(1.0, x, y)) for _ in range(3))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=60)
    assert found == [True, False, False]


@native
def test_a_launch_that_follows_another_librarys_stream_goes_through_python(cuda):
    launch, x, y = warm_saxpy()
    cuda.driver.follow(0x99)
    cuda.driver.follow(0x98)
    cuda.clear()
    launch(1.0, x, y)
    assert sorted(c for c in cuda.calls() if "Wait" in c) == [
        "cuStreamWaitEvent (nil)",
        "cuStreamWaitEvent (nil)",
        "cuStreamWaitEvent 0x98",
        "cuStreamWaitEvent 0x99",
    ]
    assert not python_runs(lambda: launch(1.0, x, y))


@native
def test_a_freed_array_is_no_native_argument(cuda):
    launch, x, y = warm_saxpy()
    x.free()
    cuda.clear()
    with pytest.raises(mp.GpuError, match="freed"):
        launch(1.0, x, y)
    assert "cuLaunchKernel" not in cuda.names()


@native
def test_a_forked_child_makes_no_native_launch(cuda):
    launch, x, y = warm_saxpy()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            launch(1.0, x, y)
        except mp.GpuError as error:
            code = 0 if "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- launches whose workgroups all run at once ---------------------------------------------------------------------------
@mp.kernel(requires=("cuda.cooperative_launch",))
def meeting(x: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    x[i] = 1.0
    mp.grid_sync()
    x[i] += x[x.shape[0] - 1 - i]


def test_a_grid_that_synchronises_is_launched_as_one(cuda):
    x = mp.zeros(264 * 64, mp.f32, device=cuda.device)
    cuda.clear()
    meeting[264, 64](x)
    meeting[264, 64](x)
    calls = [c for c in cuda.calls() if c.startswith(("cuOccupancy", "cuLaunch", "cuMemset", "cuMemAlloc"))]
    # Two workgroups a multiprocessor, 132 of those; the word at which they meet is made once, and zero.
    launch = "cuLaunchCooperativeKernel magpie_meeting grid 264,1,1 block 64,1,1 shared 0 stream (nil) word 0"
    assert calls == [
        "cuOccupancyMaxActiveBlocksPerMultiprocessor 64 0",
        "cuMemAlloc_v2 256",
        "cuMemsetD8Async 256 (nil)",
        launch,
        launch,
    ]


def test_a_grid_that_cannot_be_resident_is_refused_with_the_number(cuda):
    x = mp.zeros(265 * 64, mp.f32, device=cuda.device)
    with pytest.raises(mp.LaunchValueError, match="takes 264 of 64 work-items, and 265 were asked for") as caught:
        meeting[265, 64](x)
    assert caught.value.diagnostic == "MPG_LAUNCH_1023" and "at most 264" in caught.value.help
    assert not any(c.startswith("cuLaunch") for c in cuda.calls())


def test_a_launch_of_another_size_takes_the_code_for_any(cuda, monkeypatch):
    monkeypatch.setenv("MAGPIE_STATIC_WORKGROUPS", "1")

    @mp.kernel
    def fill(x: mp.Array[mp.f32, 1]):
        x[mp.global_id(0)] = 1.0

    x = mp.zeros(4096, mp.f32, device=cuda.device)
    for size in (64, 128, (8, 8), 64):
        fill[2, size](x)
    code = {v.workgroup: v for v in fill.variants()}
    assert set(code) == {(64, 1, 1), None}
    texts = {s.variant.workgroup: s.artifact.text for s in fill._specialiser().specialisations}
    assert ".reqntid 64" in texts[64, 1, 1] and ".reqntid" not in texts[None] and ".maxntid 1024" in texts[None]


def test_a_size_that_uniformity_rests_on_is_declared_and_kept(cuda):
    def body(x: mp.Array[mp.f32, 1]):
        if mp.global_id(0) // 64 == 0:
            mp.barrier()
        x[0] = 1.0

    x = mp.zeros(64, mp.f32, device=cuda.device)
    with pytest.raises(mp.CompileError, match="MPG_CORE_1400"):
        mp.kernel(body)[1, 64](x)
    fixed = mp.kernel(workgroup=64)(body)
    fixed[1](x)
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1013"):
        fixed[1, 128](x)
