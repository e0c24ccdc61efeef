"""What only a real device can show. Everything here is skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuErrorKind


def _device():
    try:
        return mp.device("cuda")
    except mp.GpuError:
        return None


DEVICE = _device()
pytestmark = pytest.mark.skipif(DEVICE is None, reason="no CUDA device")


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def test_gpu_is_chosen_by_itself():
    assert mp.device() is DEVICE


def test_gpu_arrays_stay_there_between_launches():
    n = 1 << 20
    x = mp.asarray(np.arange(n, dtype=np.float32), device="cuda")
    y = mp.zeros(n, mp.f32, device="cuda")
    for _ in range(3):
        saxpy[mp.cdiv(n, 256), 256](1.0, x, y)
    assert np.array_equal(y.to_numpy(), 3 * np.arange(n, dtype=np.float32))


def test_gpu_events_measure_time():
    n = 1 << 26
    x, y = (mp.zeros(n, mp.f32, device="cuda") for _ in range(2))
    stream = mp.Stream("cuda")
    saxpy[mp.cdiv(n, 256), 256, stream](1.0, x, y)
    start = stream.record()
    saxpy[mp.cdiv(n, 256), 256, stream](1.0, x, y)
    end = stream.record()
    assert 1e-3 < end.elapsed_ms(start) < 1e3


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_gpu_torch_tensors_are_used_where_they_are(dtype):
    torch = pytest.importorskip("torch")

    @mp.kernel
    def twice(x, y):
        i = mp.global_id(0)
        if i < x.shape[0]:
            y[i] = x[i] + x[i]

    x = torch.arange(1000, device="cuda").to(getattr(torch, dtype))
    y = torch.zeros(2000, device="cuda", dtype=x.dtype)
    stream = torch.cuda.Stream()
    for current in (torch.cuda.current_stream(), stream):
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(current):
            z = x + 1
            twice[4, 256](z, y[::2])
            total = y.sum()
        torch.cuda.synchronize()
        assert torch.equal(y[::2], (x + 1) * 2) and not y[1::2].any()
        assert torch.equal(total, y.sum())


def test_gpu_cupy_arrays_are_used_where_they_are():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=np.float32), cupy.ones(1000, dtype=np.float32)
    saxpy[4, 256](2.0, x, y)
    assert np.array_equal(cupy.asnumpy(y), 2 * np.arange(1000, dtype=np.float32) + 1)


@mp.kernel
def k_large_tile(x, n: mp.constexpr):
    t = mp.shared(n, mp.f32)
    i = mp.thread_id(0)
    for k in range(i, n, 256):
        t[k] = mp.f32(k)
    mp.barrier()
    if i == 0:
        total = mp.f32(0)
        for k in range(n):
            total += t[k]
        x[0] = total


def test_gpu_shared_memory_beyond_48_kb():
    n = DEVICE.max_shared_bytes // 4
    out = np.zeros(1, np.float32)
    k_large_tile.launch(grid=1, block=256, args=(out, n), device="cuda")
    want = np.float32(0)
    for k in range(n):
        want = np.float32(want + np.float32(k))
    assert out[0] == want


@mp.kernel(checked=True)
def k_checked(x, out):
    i = mp.global_id(0)
    out[i] = x[i + 1]


def test_gpu_checked_mode_reports_the_line_and_goes_on():
    out = np.zeros(64, np.float32)
    with pytest.raises(mp.GpuError, match="out-of-bounds") as caught:
        k_checked.launch(grid=1, block=64, args=(np.arange(64, dtype=np.float32), out), device="cuda")
    assert caught.value.kind is GpuErrorKind.LaunchFailed and "test_gpu.py" in str(caught.value)
    assert np.array_equal(out, [*range(1, 64), 0])


def test_gpu_print(capfd):
    @mp.kernel
    def k(x):
        i = mp.global_id(0)
        if i == 3:
            mp.print("item", i, "has", x[i])

    k.launch(grid=1, block=64, args=(np.full(64, 1.5, np.float32),), device="cuda")
    assert capfd.readouterr().out.split() == ["item", "3", "has", "1.5"]


def test_gpu_lib_sums_torch_tensors_where_they_lie():
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.rand(3, 1 << 20, device="cuda")
        for _ in range(20):
            x = x * 0.5 + 0.25  # what the sum must wait for
        total, rows = mp.lib.sum(x), mp.lib.max(x, axis=-1)
    want = x.double()
    assert total.device is DEVICE and abs(total.item() / want.sum().item() - 1) < 1e-6
    assert np.array_equal(rows.to_numpy(), want.max(1).values.float().cpu().numpy())
