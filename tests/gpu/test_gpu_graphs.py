"""Graphs, copies and memory hints on a real device."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from tests.gpu.test_gpu import DEVICE, saxpy

pytestmark = pytest.mark.skipif(DEVICE is None, reason="no CUDA device")
OTHER = mp.devices()[1] if DEVICE is not None and len([d for d in mp.devices() if d.backend == "ptx"]) > 1 else None
N = 1 << 16


def arange():
    return mp.asarray(np.arange(N, dtype=np.float32), device="cuda")


def test_gpu_a_graph_runs_its_steps_in_order_and_again():
    x, y, z = arange(), mp.zeros(N, mp.f32, device="cuda"), mp.zeros(N, mp.f32, device="cuda")
    with mp.graph(device="cuda") as g:
        y[...] = 1.5
        saxpy[N // 256, 256](2.0, x, y)
        z[...] = y
        saxpy[N // 128, 128](1.0, x, z)
    assert len(g.nodes) == 4
    assert not y.to_numpy().any() and not z.to_numpy().any()
    want = np.arange(N, dtype=np.float32)
    for launch in (g, g.launch, lambda: g.launch(stream=mp.Stream("cuda"))):
        z[...] = 0.0
        launch()
        assert np.array_equal(y.to_numpy(), 2 * want + 1.5)
        assert np.array_equal(z.to_numpy(), 3 * want + 1.5)


def test_gpu_a_node_takes_other_arguments():
    x, y, other = arange(), mp.zeros(N, mp.f32, device="cuda"), mp.ones(N, mp.f32, device="cuda")
    want = np.arange(N, dtype=np.float32)
    with mp.graph(device="cuda") as g:
        y[...] = 0.0
        saxpy[N // 256, 256](1.0, x, y)
    for a in (1.0, 5.0, -2.0):
        g.nodes[1].update(a=a)
        g()
        assert np.array_equal(y.to_numpy(), np.float32(a) * want)
    g.nodes[1].update(x=other, y=other)  # one array twice: other code
    g()
    assert np.array_equal(other.to_numpy(), np.full(N, -1, np.float32)) and not y.to_numpy().any()
    g.nodes[1].update(y=y)
    g()
    assert np.array_equal(y.to_numpy(), np.full(N, 2, np.float32))


def test_gpu_a_graph_of_a_kernel_that_is_compiled_while_it_is_recorded():
    @mp.kernel
    def fresh(x):
        t = mp.shared(256, mp.f32)
        i = mp.global_id(0)
        t[mp.thread_id(0)] = x[i]
        mp.barrier()
        x[i] = t[255 - mp.thread_id(0)]

    x = arange()
    with mp.graph(device="cuda") as g:
        for _ in range(3):
            fresh[N // 256, 256](x)
    g()
    assert np.array_equal(x.to_numpy(), np.arange(N, dtype=np.float32).reshape(-1, 256)[:, ::-1].reshape(-1))


def test_gpu_a_graph_is_launched_faster_than_its_launches():
    x, y = arange(), mp.zeros(N, mp.f32, device="cuda")
    stream = mp.Stream("cuda")
    with mp.graph(device="cuda") as g:
        for _ in range(50):
            saxpy[N // 256, 256](1.0, x, y)
    times = {}
    for name in ("graph", "launches", "graph", "launches"):
        start = stream.record()
        if name == "graph":
            g.launch(stream=stream)
        else:
            for _ in range(50):
                saxpy[N // 256, 256, stream](1.0, x, y)
        end = stream.record()
        times[name] = end.elapsed_ms(start)
    assert np.array_equal(y.to_numpy(), 200 * np.arange(N, dtype=np.float32))
    print("50 launches, ms:", times)


def test_gpu_torch_tensors_are_part_of_a_graph():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), mp.graph(device="cuda") as g:
        saxpy[4, 256](2.0, x, y)
    g()
    g()
    mp.synchronize("cuda")
    assert torch.equal(y, 4 * x)


def test_gpu_launches_are_part_of_a_graph_that_torch_records():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.zeros(1000, device="cuda")
    saxpy[4, 256](2.0, x, y)  # a kernel is loaded before, as with all of torch's graphs
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y.mul_(0.5)
        for _ in range(3):
            saxpy[4, 256](2.0, x, y)
        z = y + 1
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)
    g.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 7 * x) and torch.equal(z, 7 * x + 1)


@pytest.mark.parametrize("memory", ["unified", "staging", "cached"])
def test_gpu_memory_that_the_host_sees(memory):
    x = mp.asarray(np.arange(N, dtype=np.float32), device="cuda", memory=memory)
    y = mp.zeros(N, mp.f32, device="cuda", memory=memory)
    view = np.asarray(y)
    saxpy[N // 256, 256](2.0, x, y)
    mp.synchronize("cuda")
    assert np.array_equal(view, 2 * np.arange(N, dtype=np.float32))
    view[...] = 1
    saxpy[N // 256, 256](1.0, x, y)
    assert np.array_equal(y.to_numpy(), np.arange(N, dtype=np.float32) + 1)


def test_gpu_copies_in_the_order_of_a_stream():
    stream = mp.Stream("cuda")
    there, back = (mp.zeros(N, mp.f32, device="cuda", memory="staging") for _ in range(2))
    x, y = (mp.zeros(N, mp.f32, device="cuda") for _ in range(2))
    np.asarray(there)[...] = np.arange(N)
    x.copy_from(there, stream=stream)
    saxpy[N // 256, 256, stream](3.0, x, y)
    back.copy_from(y, stream=stream)
    stream.synchronize()
    assert np.array_equal(np.asarray(back), 3 * np.arange(N, dtype=np.float32))


@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
def test_gpu_other_libraries_see_mp_arrays_where_they_are(library):
    x, y = arange(), mp.zeros(N, mp.f32, device="cuda")
    saxpy[N // 256, 256](2.0, x, y)
    if library == "torch":
        torch = pytest.importorskip("torch")
        theirs, other = torch.from_dlpack(y), torch.as_tensor(y, device="cuda")
        assert theirs.data_ptr() == other.data_ptr() == y._words[0]
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.equal(torch.from_dlpack(y), 2 * torch.arange(N, device="cuda", dtype=torch.float32))
        theirs += 1
        assert torch.from_dlpack(mp.zeros(4, mp.bf16, device="cuda")).dtype is torch.bfloat16
    elif library == "cupy":
        cupy = pytest.importorskip("cupy")
        theirs, other = cupy.from_dlpack(y), cupy.asarray(y)
        assert theirs.data.ptr == other.data.ptr == y._words[0]
        theirs += 1
    else:
        jax = pytest.importorskip("jax")
        theirs = jax.dlpack.from_dlpack(y)
        assert float(theirs[3]) == 6
        y[...] = y.to_numpy() + 1
    del theirs
    assert np.array_equal(y.to_numpy(), 2 * np.arange(N, dtype=np.float32) + 1)


@pytest.mark.parametrize(("dtype", "value"), [(mp.i8, -3), (mp.f16, 1.5), (mp.u32, 77), (mp.f64, 0.0), (mp.f64, 0.1)])
def test_gpu_fills(dtype, value):
    x = mp.zeros(1000, dtype, device="cuda")
    x[10:900] = value
    want = np.zeros(1000, dtype.numpy)
    want[10:900] = value
    assert np.array_equal(x.to_numpy(), want)


@pytest.mark.skipif(OTHER is None, reason="one CUDA device")
def test_gpu_copies_between_devices():
    rng = np.random.default_rng(1)
    data = rng.random(1 << 22, np.float32)
    x = mp.asarray(data, device=DEVICE)
    y = x.to(OTHER)
    assert y.device is OTHER and np.array_equal(y.to_numpy(), data)
    for n in range(3):  # after what the source's device has queued, and before what it queues then
        saxpy[x.size // 256, 256](1.0, x, x)
        y[...] = x
        saxpy[x.size // 256, 256](-0.5, x, x)
        saxpy[x.size // 256, 256](1.0, y, y)
        assert np.array_equal(y.to_numpy(), 4 * data), n
        assert np.array_equal(x.to_numpy(), data)
    stream = mp.Stream(OTHER)
    y.copy_from(x, stream=stream)
    stream.synchronize()
    assert np.array_equal(y.to_numpy(), data)


@pytest.mark.skipif(OTHER is None, reason="one CUDA device")
def test_gpu_an_array_of_another_device_is_an_error_that_names_both():
    x, y = (mp.zeros(256, mp.f32, device=d) for d in (DEVICE, OTHER))
    with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1008") as caught:
        saxpy[1, 256](1.0, x, y)
    assert "ptx:0" in str(caught.value) and "ptx:1" in str(caught.value)
    saxpy[1, 256](1.0, y, y)
    y.to(DEVICE)
