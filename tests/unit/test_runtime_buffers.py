"""mp arrays: making, reading, views, freeing, memory that there is not."""

from __future__ import annotations

import gc
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import magpie as mp
from magpie.runtime import buffer
from magpie.runtime.driver import MemoryHint


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "interp")


def stats():
    gc.collect()
    return mp.device().driver.stats.buffers


@mp.struct
class Pair:
    a: mp.f32
    b: mp.i32


@mp.kernel
def bump(x):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] += 1


def test_making():
    x = mp.zeros((2, 3), mp.i16)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, x.strides) == ((2, 3), 2, 6, 2, 12, (3, 1))
    assert x.dtype is mp.i16
    assert x.contiguous
    assert x.device is mp.device()
    assert np.array_equal(np.asarray(x), np.zeros((2, 3)))
    assert np.asarray(mp.full(3, 2.5)).tolist() == [2.5] * 3
    assert np.asarray(mp.ones(2, np.int64)).dtype == np.int64
    assert mp.empty(4).dtype is mp.f32
    assert mp.empty((), mp.f64).shape == ()
    assert mp.empty(0).nbytes == 0
    for text in ("f16", "u8", "bool"):
        assert mp.empty(1, text).dtype.name == text
    assert mp.zeros(2, Pair).dtype.name == "Pair"
    assert np.asarray(mp.zeros(2, Pair)).dtype == Pair.numpy
    assert mp.array_like(x).shape == (2, 3)
    assert mp.array_like(np.zeros((4, 1), np.uint8)).dtype is mp.u8
    assert mp.array_like(x, dtype=mp.f64).dtype is mp.f64


@pytest.mark.parametrize("n", [0, 1, 3, 63, 64, 65, 1 << 20, 5 << 20])
def test_alignment(n):
    arrays = [mp.empty(n, mp.u8) for _ in range(3)]
    assert all(a._words[0] % 64 == 0 for a in arrays)


def test_asarray():
    source = np.arange(6, dtype=np.float64).reshape(2, 3)
    x = mp.asarray(source)
    assert x.dtype is mp.f64
    assert mp.asarray(x) is x
    assert mp.asarray(x, mp.f32).dtype is mp.f32
    assert np.array_equal(mp.to_numpy(mp.asarray(source.T[::-1])), source.T[::-1])
    source[0, 0] = 9
    assert np.asarray(x)[0, 0] == 0  # a copy
    assert mp.asarray([1, 2, 3]).dtype is mp.i64
    assert mp.asarray([1.5, 2]).dtype is mp.f32
    assert mp.asarray(2.5).item() == 2.5
    assert mp.asarray(np.float16(1)).dtype is mp.f16
    y = mp.asarray(np.array([1.5], ml_dtypes.bfloat16))
    assert y.dtype is mp.bf16
    assert y.to_numpy().tolist() == [1.5]
    for bad in (["a"], np.zeros(1, complex), np.zeros(1, ">f4"), None):
        with pytest.raises(mp.LaunchTypeError):
            mp.asarray(bad)


def test_reading_and_writing():
    x = mp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    copy = x.to_numpy()
    view = np.asarray(x)
    x[1, 2] = 50
    assert view[1, 2] == 50
    assert copy[1, 2] == 6
    x[0] = [9, 8, 7, 6]
    assert view[0].tolist() == [9, 8, 7, 6]
    x[...] = 0
    assert not view.any()
    assert float(x[0, 0]) == 0
    assert int(x[0, 0]) == 0
    assert not bool(x[0, 0])
    assert np.array_equal(np.from_dlpack(x), view)
    assert np.array_equal(np.array(x, dtype=np.float64), view)
    assert len(x) == 3
    assert len(list(iter(x))) == 3


def test_views():
    base = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = mp.asarray(base)
    for index in (0, -1, (0, 1), (0, 1, 2), slice(None), (slice(None), 1), (..., 2), (1, ..., slice(None, None, -1)),
                  (slice(0, 1), slice(2, 0, -1)), (slice(5, 9),), (slice(None), slice(None), slice(1, 4, 2)), ()):  # fmt: skip
        assert np.array_equal(np.asarray(x[index]), base[index]), index
    assert np.array_equal(np.asarray(x[0][1][2:]), base[0][1][2:])
    assert np.array_equal(np.asarray(x.reshape(4, 6)), base.reshape(4, 6))
    assert np.array_equal(np.asarray(x.reshape((-1,))), base.reshape(-1))
    assert x.reshape(3, -1).shape == (3, 8)
    for bad in (2, -3, (0, 3), (0, 0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            x[bad]
    with pytest.raises(TypeError):
        x[[0, 1]]
    for wrong in ((5, 5), (5, -1)):
        with pytest.raises(mp.LaunchValueError):
            x.reshape(*wrong)
    with pytest.raises(mp.LaunchValueError, match="contiguous"):
        x[:, 1].reshape(-1)


def test_launch_on_views():
    x = mp.zeros(10)
    bump[1, 16](x[::2])
    bump[1, 16](x[9:4:-1])
    assert np.asarray(x).tolist() == [1, 0, 1, 0, 1, 1, 2, 1, 2, 1]


def test_shapes_that_are_wrong():
    for shape in (-1, (2, -1), (1, 1, 1, 1, 1)):
        with pytest.raises(mp.LaunchValueError):
            mp.empty(shape)
    for shape in (1.5, "3", (1, None), True):
        with pytest.raises(mp.LaunchTypeError):
            mp.empty(shape)
    with pytest.raises(mp.LaunchTypeError):
        mp.empty(1, "complex64")
    with pytest.raises(mp.LaunchTypeError):
        mp.empty(1, object())
    with pytest.raises(mp.LaunchValueError, match="memory"):
        mp.empty(1, memory="fast")


def test_memory_hints():
    for hint in ("auto", "device_local", "unified", "staging", "cached", MemoryHint.Staging):
        assert isinstance(mp.empty(1, memory=hint).memory_hint, MemoryHint)
    assert mp.empty(1, memory="device_local").memory_hint is MemoryHint.DeviceLocal
    assert [int(h) for h in MemoryHint] == [0, 1, 2, 3, 4]


def test_memory_is_given_back():
    before = stats()
    x = mp.empty(100)
    view = x[10:]
    assert stats() == before + 1
    del x
    assert stats() == before + 1
    del view
    assert stats() == before
    y = mp.empty(100)
    host = np.asarray(y)
    del y
    assert stats() == before + 1  # NumPy still looks at it
    host[:] = 1
    del host
    assert stats() == before


def test_free():
    before = stats()
    x = mp.zeros(4)
    view = x[1:]
    x.free()
    x.free()
    assert stats() == before
    assert x.freed
    assert view.freed
    for use in (lambda: bump[1, 4](x), lambda: bump[1, 4](view), x.to_numpy, lambda: np.asarray(x), lambda: x[0]):
        with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1015") as caught:
            use()
        assert caught.value.kind is mp.GpuErrorKind.BufferError
    assert "freed" in repr(x)


def test_freed_memory_that_numpy_sees_stays():
    x = mp.full(1 << 20, 7.0)
    host = np.asarray(x)
    x.free()
    del x
    gc.collect()
    other = mp.full(1 << 20, 9.0)
    assert host[0] == 7
    del other


def test_free_after_a_launch_found_its_plan():
    x = mp.zeros(4)
    bump[1, 4](x)
    x.free()
    with pytest.raises(mp.GpuError, match="freed"):
        bump[1, 4](x)


def test_freeing_what_a_launch_uses_names_it():
    @mp.kernel
    def slow_kernel(x, n):
        i = mp.global_id(0)
        for k in range(n):
            x[i] += 1

    x = mp.zeros(64)
    worker = threading.Thread(target=lambda: slow_kernel[1, 64](x, 20_000))
    slow_kernel[1, 64](x, 1)
    worker.start()
    deadline = time.monotonic() + 20
    while not buffer.running and time.monotonic() < deadline:
        time.sleep(0.001)
    with pytest.raises(mp.GpuError, match="slow_kernel") as caught:
        x[3:].free()
    assert caught.value.kind is mp.GpuErrorKind.BufferError
    worker.join()
    assert not x.freed
    assert (np.asarray(x) == 20_001).all()
    x.free()


@pytest.mark.parametrize("dtype", [mp.f32, mp.u8])
def test_out_of_memory(dtype):
    before = stats()
    for make in (mp.empty, mp.zeros):
        for n in (10**13, 1 << 62, (1 << 40, 1 << 40)):
            with pytest.raises(mp.GpuError, match="MPG_LAUNCH_1010") as caught:
                make(n, dtype)
            assert caught.value.kind is mp.GpuErrorKind.OutOfMemory
    assert stats() == before
    assert np.asarray(mp.zeros(3)).tolist() == [0, 0, 0]


def test_no_internal_frames():
    x = mp.zeros(4)
    x.free()
    for use in (
        lambda: mp.empty(10**13),
        lambda: mp.zeros(-1),
        lambda: mp.asarray(None),
        x.to_numpy,
        lambda: mp.device("gpu0"),
    ):
        with pytest.raises(mp.GpuError) as caught:
            use()
        assert len(caught.traceback) <= 3  # this function, the lambda, the public function
