"""Arrays of torch that a launch has seen before are found again, and everything that may change is asked each time."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import magpie as mp
from magpie.runtime import dispatch, foreign
from magpie.runtime.drivers.cuda import CudaDriver
from tests.unit import gpu_standin
from tests.unit.gpu_standin import make_saxpy

pytestmark = gpu_standin.NEEDS_CC


class Tensor:
    """What a launch asks of a torch tensor; its memory, also that of the stand-in's device, is the host's."""

    def __init__(self, array, device="cuda", dtype=None):
        self.array, self.shape = array, array.shape
        self.is_cuda = device == "cuda"
        self.device = types.SimpleNamespace(index=0, type=device)
        self.dtype = dtype or f"torch.{array.dtype.name}"
        self.layout = "torch.strided"
        self.requires_grad = self.negative = False

    @property
    def __cuda_array_interface__(self):  # torch's answers: none on the host, and an error of another kind with a gradient
        if not self.is_cuda:
            raise AttributeError("no CUDA tensor")
        raise RuntimeError("requires grad" if self.requires_grad else "torch itself is to be asked")

    def is_conj(self):
        return False

    def is_neg(self):
        return self.negative

    def data_ptr(self):
        return self.array.ctypes.data

    def get_device(self):
        return self.device.index

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def __dlpack__(self, **options):
        raise AssertionError("torch is asked itself")

    def numpy(self):
        if self.is_cuda:
            raise TypeError("can't convert cuda tensor to numpy")
        return self.array


Tensor.__module__ = "torch"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return gpu_standin.built(tmp_path_factory, "fake_cuda.c")


@pytest.fixture
def torch(monkeypatch):
    """A module that stands for torch; `stream` is its current one."""
    module = types.ModuleType("torch")
    module.Tensor, module.stream, module.version = Tensor, 0, types.SimpleNamespace(hip=None)
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: module.stream)
    module.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=module.stream))
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(foreign, "readers", {})
    return module


@pytest.fixture
def cuda(library, torch):
    with gpu_standin.installed(CudaDriver, library, quiet=("cuCtxSetCurrent", "cuFuncGetAttribute")) as fake:
        yield fake


def long_ways(run):
    """How often `run` takes a launcher's long way."""
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen.count("_launch")


def test_the_second_launch_on_a_tensor_is_no_long_way(cuda):
    saxpy = make_saxpy()
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    launch(1.0, Tensor(x), Tensor(y))
    cuda.clear()
    # other objects on the same memory, as torch makes them
    assert long_ways(lambda: [launch(1.0, Tensor(x), Tensor(y)) for _ in range(4)]) == 0
    assert cuda.names() == ["cuLaunchKernel"] * 4
    assert np.array_equal(y, 5 * np.arange(8, dtype=np.float32))


def test_another_place_type_or_form_is_another_array(cuda):
    saxpy = make_saxpy()
    data = np.arange(32, dtype=np.float32)
    x, y = data[:8], np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    launch(1.0, Tensor(x), Tensor(y))
    for other in (data[8:16], data[:4], data[:16:2]):
        y[:] = 0
        launch(1.0, Tensor(other), Tensor(y[: other.size]))
        assert np.array_equal(y[: other.size], other)
    with pytest.raises(mp.LaunchTypeError, match="i32"):
        launch(1.0, Tensor(x.view(np.int32)), Tensor(y))
    with pytest.raises(mp.CompileError, match="a view of x"):  # of two dimensions, which this kernel is not for
        launch(1.0, Tensor(x.reshape(2, 4)), Tensor(y))


def test_overlap_is_seen(cuda):
    saxpy = make_saxpy()
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    for _ in range(3):
        launch(1.0, Tensor(x), Tensor(y))
    launch(1.0, Tensor(x), Tensor(x))
    assert (x == 2).all() and [v.facts for v in saxpy.variants()][-1] == "general"


def test_the_current_stream_is_asked_each_time(cuda, torch):
    saxpy = make_saxpy()
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    for _ in range(3):
        launch(1.0, Tensor(x), Tensor(y))
    torch.stream = 0x99
    cuda.clear()
    assert long_ways(lambda: launch(1.0, Tensor(x), Tensor(y))) == 0
    calls = [c if c.startswith(("cuEvent", "cuStream")) else c.split()[0] for c in cuda.calls()]
    assert calls == [
        "cuEventRecord 0x99",
        "cuStreamWaitEvent (nil)",
        "cuLaunchKernel",
        "cuEventRecord (nil)",
        "cuStreamWaitEvent 0x99",
    ]
    torch.stream = 0
    cuda.clear()
    launch(1.0, Tensor(x), Tensor(y))
    assert cuda.names() == ["cuLaunchKernel"]


def test_what_forbids_a_tensor_is_asked_each_time(cuda):
    saxpy = make_saxpy()
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    for _ in range(3):
        launch(1.0, Tensor(x), Tensor(y))
    for change in ({"requires_grad": True}, {"negative": True}):
        tensor = Tensor(x)
        vars(tensor).update(change)
        for by in (launch, make_saxpy()[1, 64]):  # one that has seen tensors like it, and one that has not
            with pytest.raises(mp.LaunchTypeError, match="requires grad|plain strided"):
                by(1.0, tensor, Tensor(y))
    assert (y == 3).all()


def test_a_sparse_tensor_is_refused_by_our_words(cuda, monkeypatch):
    """It has no strides, and torch raises where one asks for them."""

    def stride(self):
        raise RuntimeError("sparse tensors do not have strides")

    launch = make_saxpy()[1, 64]
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    for _ in range(3):
        launch(1.0, Tensor(x), Tensor(y))
    sparse = Tensor(x)
    sparse.layout = "torch.sparse_coo"
    monkeypatch.setattr(Tensor, "stride", stride)
    with pytest.raises(mp.LaunchTypeError, match="plain strided"):
        launch(1.0, sparse, Tensor(y))
    assert (y == 3).all()


def test_nothing_is_remembered_for_another_runtime(cuda):
    saxpy = make_saxpy()
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    saxpy[1, 64](1.0, Tensor(x), Tensor(y))
    assert len(dispatch.runtime().foreign) == 2
    old = dispatch.reset()
    try:
        assert dispatch.runtime().foreign == {}
    finally:
        dispatch.reset(old)


def test_few_descriptions_are_kept(cuda, monkeypatch):
    monkeypatch.setattr(foreign, "_MOST", 10)
    data, y = np.ones(100, np.float32), np.zeros(8, np.float32)
    launch = make_saxpy()[1, 64]
    for k in range(60):
        launch(1.0, Tensor(data[k : k + 8]), Tensor(y))
        assert len(dispatch.runtime().foreign) <= 10
    assert (y == 60).all()


def test_tensors_on_the_host(torch, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")
    saxpy = make_saxpy()
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    launch = saxpy[1, 64]
    launch(1.0, Tensor(x, "cpu"), Tensor(y, "cpu"))
    assert long_ways(lambda: [launch(1.0, Tensor(x, "cpu"), Tensor(y, "cpu")) for _ in range(4)]) <= 1
    assert np.array_equal(y, 5 * np.arange(8, dtype=np.float32))
    with_grad = Tensor(x, "cpu")
    with_grad.requires_grad = True
    with pytest.raises(mp.LaunchTypeError, match="grad"):
        launch(1.0, with_grad, Tensor(y, "cpu"))
    with pytest.raises(mp.LaunchTypeError):
        launch(Tensor(x, "cpu"), Tensor(x, "cpu"), Tensor(y, "cpu"))
