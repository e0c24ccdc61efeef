"""Graphs: what is recorded runs later, in order, as often as it is launched; on the host's devices and on stand-ins."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind
from magpie.runtime.drivers.cuda import CudaDriver
from tests.unit import gpu_standin
from tests.unit.gpu_standin import make_saxpy

WANT = np.arange(10, dtype=np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return gpu_standin.built(tmp_path_factory, "fake_cuda.c")


@pytest.fixture(params=["cpu", "interp", pytest.param("cuda", marks=gpu_standin.NEEDS_CC)])
def device(request):
    """A device of each kind; of CUDA a stand-in, whose graphs run saxpy, copies and fills."""
    if request.param != "cuda":
        yield mp.device(request.param)
        return
    with gpu_standin.installed(CudaDriver, request.getfixturevalue("library")) as fake:
        yield fake.device


@pytest.fixture
def cuda(library):
    with gpu_standin.installed(CudaDriver, library, quiet=("cuCtxSetCurrent", "cuFuncGetAttribute")) as fake:
        yield fake


def arrays(device, count=2):
    x = mp.asarray(WANT, device=device)
    return x, *(mp.zeros(10, mp.f32, device=device) for _ in range(count - 1))


def test_nothing_runs_before_the_graph_is_launched_and_everything_then_in_order(device):
    x, y, z = arrays(device, 3)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        y[...] = 1.5
        saxpy[1, 64](2.0, x, y)
        z.copy_from(y)
        saxpy.launch(grid=1, block=64, args=(1.0, x), kwargs={"y": z})
    assert not y.to_numpy().any() and not z.to_numpy().any()
    for launch in (g, g.launch, lambda: g.launch(stream=mp.Stream(device))):
        z[...] = 99.0
        launch()
        mp.synchronize(device)
        assert np.array_equal(y.to_numpy(), 2 * WANT + 1.5)
        assert np.array_equal(z.to_numpy(), 3 * WANT + 1.5)
    assert [node.kernel for node in g.nodes] == ["", "saxpy", "", "saxpy"]
    assert "4 steps" in repr(g) and "copy" in repr(g.nodes[0]) and "'saxpy'" in repr(g.nodes[1])


def test_launches_that_were_seen_often_are_recorded_too(device):
    """Every path of a launch, also the quick ones, must ask whether this thread records."""
    x, y = arrays(device)
    bound = make_saxpy()[1, 64]
    for _ in range(5):
        bound(1.0, x, y)
    with mp.graph(device=device) as g:
        for _ in range(3):
            bound(1.0, x, y)
    assert len(g.nodes) == 3 and np.array_equal(y.to_numpy(), 5 * WANT)
    g()
    bound(1.0, x, y)
    assert np.array_equal(y.to_numpy(), 9 * WANT)


def test_a_node_takes_other_numbers_and_arrays(device):
    x, y, z = arrays(device, 3)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        y[...] = 0.0
        saxpy[1, 64](1.0, x, y)
        saxpy[1, 64](1.0, x, z)
    for a in (1.0, -2.5, 7):
        g.nodes[1].update(a=a)
        g()
        assert np.array_equal(y.to_numpy(), a * WANT)
    assert np.array_equal(z.to_numpy(), 3 * WANT)
    g.nodes[1].update(x=z, a=1.0)
    g()
    assert np.array_equal(y.to_numpy(), 3 * WANT)  # z as it was before the third step
    with pytest.raises(mp.LaunchTypeError, match="no parameter 'b'; it has a, x, y"):
        g.nodes[1].update(b=1)
    with pytest.raises(mp.LaunchTypeError, match="1003"):
        g.nodes[1].update(x=mp.zeros(10, mp.i32, device=device))
    with pytest.raises(mp.LaunchTypeError, match="a copy"):
        g.nodes[0].update(a=1.0)
    g()  # what could not be updated is as it was
    assert np.array_equal(y.to_numpy(), 4 * WANT)


def test_arrays_that_come_to_overlap_run_code_that_assumes_nothing(device):
    x, y = arrays(device)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        saxpy[1, 64](1.0, x, y)
    g.nodes[0].update(y=x)
    g()
    assert np.array_equal(x.to_numpy(), 2 * WANT) and not y.to_numpy().any()
    assert [v.facts for v in saxpy.variants()][-1] == "general"


def test_a_grid_with_a_zero_is_a_step_that_does_nothing(device):
    x, y = arrays(device)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        saxpy[0, 64](1.0, x, y)
        saxpy[1, 64](2.0, x, y)
    g.nodes[0].update(a=3.0)
    g.nodes[1].update(a=4.0)
    g()
    assert np.array_equal(y.to_numpy(), 4 * WANT)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda d, x, y, k: k[1, 64](1.0, np.ones(10, np.float32), y), "argument 'x', an array of the host"),
        (lambda d, x, y, k: y.to_numpy(), "reading or writing an array"),
        (lambda d, x, y, k: float(y[0]), "reading or writing an array"),
        (lambda d, x, y, k: np.asarray(y), "reading or writing an array"),
        (lambda d, x, y, k: y.__setitem__(..., np.ones(10)), "a copy of host data"),
        (lambda d, x, y, k: y.__setitem__(..., [1.0] * 10), "a copy of host data"),
        (lambda d, x, y, k: mp.empty(4, device=d), "making an array"),
        (lambda d, x, y, k: x.to("interp" if d.id == "cpu:0" else "cpu").to(d), "an array"),
        (lambda d, x, y, k: mp.synchronize(d), "waiting for a device"),
        (lambda d, x, y, k: mp.Stream(d).synchronize(), "waiting for a stream"),
        (lambda d, x, y, k: mp.Stream(d).record(), "an event"),
        (lambda d, x, y, k: k[1, 64, mp.Stream(d)](1.0, x, y), "names a stream"),
    ],
)
def test_what_cannot_be_part_of_a_graph_says_so_and_leaves_nothing_behind(device, act, words):
    x, y = arrays(device)
    saxpy = make_saxpy()
    g = mp.graph(device=device)

    def record():
        with g:
            saxpy[1, 64](1.0, x, y)
            act(device, x, y, saxpy)

    with pytest.raises(mp.GpuError, match=words) as caught:
        record()
    assert caught.value.kind is GpuErrorKind.ValidationFailed and "MPG_LAUNCH_1022" in str(caught.value)
    assert caught.value.help
    with pytest.raises(mp.LaunchValueError, match="not recorded"):
        g.launch()
    saxpy[1, 64](1.0, x, y)  # this thread records nothing any more
    assert np.array_equal(y.to_numpy(), WANT)


def test_an_array_elsewhere_is_an_error(device):
    elsewhere = "interp" if device.backend == "cpu" else "cpu"
    x, y = arrays(device)
    other = mp.zeros(10, mp.f32, device=elsewhere)
    with pytest.raises(mp.GpuError, match="from another device"), mp.graph(device=device):
        y.copy_from(other)
    saxpy = make_saxpy()
    with pytest.raises(mp.GpuError, match="the launch runs on"), mp.graph(device=device):
        saxpy.launch(grid=1, block=64, args=(1.0, other, other), device=elsewhere)
    with mp.graph(device=device):
        other[...] = 5.0  # what happens on another device happens at once
    assert (other.to_numpy() == 5).all()


def test_a_freed_array_is_an_error_of_the_next_launch(device):
    x, y = arrays(device)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        saxpy[1, 64](1.0, x, y)
    g()
    mp.synchronize(device)
    x.free()
    with pytest.raises(mp.GpuError, match="freed"):
        g()


def test_a_graph_keeps_its_arrays(device):
    saxpy = make_saxpy()
    y = mp.zeros(10, mp.f32, device=device)

    def record():
        x = mp.asarray(WANT, device=device)
        with mp.graph(device=device) as g:
            saxpy[1, 64](1.0, x, y)
        return g

    g = record()
    for _ in range(50):
        mp.full(10, 9.0, mp.f32, device=device)
    g()
    assert np.array_equal(y.to_numpy(), WANT)


def test_other_threads_launch_while_one_records(device):
    x, y, z = arrays(device, 3)
    saxpy = make_saxpy()
    with mp.graph(device=device) as g:
        saxpy[1, 64](1.0, x, y)
        thread = threading.Thread(target=lambda: saxpy[1, 64](2.0, x, z))
        thread.start()
        thread.join()
        saxpy[1, 64](1.0, x, y)
    assert np.array_equal(z.to_numpy(), 2 * WANT)
    g()
    assert np.array_equal(y.to_numpy(), 2 * WANT) and len(g.nodes) == 2


def test_graphs_neither_nest_nor_record_twice(device):
    g = mp.graph(device=device)
    with g:
        with pytest.raises(mp.LaunchValueError, match="do not contain each other"), mp.graph(device=device):
            pass
    with pytest.raises(mp.LaunchValueError, match="once"), g:
        pass
    g()  # of no steps


def test_the_sanitizer_and_graphs_exclude_each_other(monkeypatch):
    x, y = arrays("cpu")
    saxpy = make_saxpy()
    monkeypatch.setenv("MAGPIE_SANITIZE", "1")
    with pytest.raises(mp.GpuError, match="under the sanitizer"), mp.graph(device="cpu"):
        saxpy[1, 64](1.0, x, y)


def test_a_gpu_captures_a_stream_of_its_own_and_launches_once(cuda):
    x, y = arrays("cuda")
    saxpy = make_saxpy()
    saxpy[1, 64](0.0, x, y)
    cuda.clear()
    with mp.graph(device="cuda") as g:
        y[...] = 1.0
        saxpy[1, 64](1.0, x, y)
        x[2:4] = y[4:6]
    calls = cuda.calls()
    assert [c.partition(" grid")[0] for c in calls] == [
        "cuStreamCreate 1",
        "cuStreamBeginCapture_v2 0x88 mode 2",
        "cuMemsetD32Async 10 0x88",
        "cuLaunchKernel magpie_saxpy",
        "cuMemcpyAsync 8 0x88",
        "cuStreamEndCapture 0x88",
        "cuGraphInstantiateWithFlags 3 nodes",
    ]
    assert "stream 0x88" in calls[3]
    cuda.clear()
    g()
    g.launch(stream=mp.Stream("cuda"))
    assert [c for c in cuda.calls() if "Graph" in c] == ["cuGraphLaunch (nil)", "cuGraphLaunch 0x77"]
    cuda.clear()
    g.nodes[1].update(a=5.0)
    assert cuda.names() == ["cuStreamBeginCapture_v2", "cuLaunchKernel", "cuStreamEndCapture", "cuGraphExecKernelNodeSetParams"]
    g()
    assert y.to_numpy().tolist() == [1, 6, 5 * 5 + 1, 5 * 6 + 1, *(5 * WANT[4:] + 1)]


def test_a_graph_that_another_library_records_has_launches_on_its_arrays(cuda):
    x, y = WANT.copy(), np.zeros(10, np.float32)
    saxpy = make_saxpy()
    arguments = (2.0, gpu_standin.Other(x, stream=0x99), gpu_standin.Other(y, stream=0x99))
    saxpy[1, 64](*arguments)
    y[:] = 0
    cuda.clear()
    stream, graph = ctypes.c_void_p(0x99), ctypes.c_void_p()
    cuda.library.cuStreamBeginCapture_v2(stream, 0)
    for _ in range(4):
        saxpy[1, 64](*arguments)
    cuda.library.cuStreamEndCapture(stream, ctypes.byref(graph))
    assert [c for c in cuda.names() if not c.startswith("cuPointer")] == [
        "cuStreamBeginCapture_v2",
        *["cuLaunchKernel"] * 4,
        "cuStreamEndCapture",
    ]
    assert all("stream 0x99" in c for c in cuda.calls() if c.startswith("cuLaunch")) and not y.any()
    cuda.library.cuGraphLaunch(graph, stream)
    assert np.array_equal(y, 8 * WANT)


def test_a_capture_that_fails_ends(cuda):
    x, y = arrays("cuda")
    saxpy = make_saxpy()
    saxpy[1, 64](0.0, x, y)
    cuda.fail("cuLaunchKernel", 1)
    with pytest.raises(mp.GpuError), mp.graph(device="cuda"):
        saxpy[1, 64](1.0, x, y)
    assert cuda.names()[-1] == "cuStreamEndCapture"
    with mp.graph(device="cuda") as g:
        saxpy[1, 64](1.0, x, y)
    g()
    assert np.array_equal(y.to_numpy(), WANT)


def test_kernels_that_the_host_looks_after_are_no_part_of_a_gpus_graph(cuda):
    @mp.kernel(checked=True)
    def checked(x: mp.Array[mp.i32]):
        x[mp.global_id(0)] = 7

    x = mp.zeros(4, mp.i32, device="cuda")
    with pytest.raises(mp.GpuError, match="prints, asserts or is checked"), mp.graph(device="cuda"):
        checked[1, 4](x)


def test_a_driver_without_graphs_is_named(cuda):
    del cuda.driver.api.functions["begin_capture"]
    x, y = arrays("cuda")
    saxpy = make_saxpy()
    with pytest.raises(mp.GpuError, match="cuStreamBeginCapture_v2") as caught, mp.graph(device="cuda"):
        saxpy[1, 64](1.0, x, y)
    assert caught.value.kind is GpuErrorKind.Unsupported


@pytest.mark.parametrize(
    ("dtype", "value", "call"),
    [
        (mp.i8, -1, "cuMemsetD8Async 8 "),
        (mp.f32, 0.0, "cuMemsetD8Async 32 "),
        (mp.f16, 1.5, "cuMemsetD16Async 8 "),
        (mp.u32, 77, "cuMemsetD32Async 8 "),
        (mp.f64, 0.0, "cuMemsetD8Async 64 "),
        (mp.i64, (3 << 32) + 3, "cuMemsetD32Async 16 "),
        (mp.f64, 0.1, None),
    ],
)
def test_fills_by_the_device(cuda, dtype, value, call):
    x = mp.asarray(np.arange(10).astype(dtype.numpy), device="cuda")
    cuda.clear()
    x[1:9] = value
    if call is None:
        assert "cuMemcpyHtoD_v2" in cuda.names()
        with pytest.raises(mp.GpuError, match="by itself"), mp.graph(device="cuda"):
            x[...] = value
    else:
        assert cuda.calls() == [f"{call}(nil)"]
    want = np.arange(10).astype(dtype.numpy)
    want[1:9] = value
    assert np.array_equal(x.to_numpy(), want)
