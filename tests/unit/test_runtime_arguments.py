"""What a launch refuses, before anything runs: every array stays as it was, and the message names the parameter."""

from __future__ import annotations

import enum
import sys
import types

import ml_dtypes
import numpy as np
import pytest

import magpie as mp
from magpie.runtime.scalars import bf16_bits, convert

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(params=["interp", "cpu"])
def backend(request, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", request.param)
    return request.param


@mp.struct
class Point:
    x: mp.f32
    n: mp.i32


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def open_copy(x, y):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i]


@mp.kernel
def fill_u8(x: mp.Array[mp.u8], value: mp.u8):
    x[mp.global_id(0)] = value


@mp.kernel
def fill_any(x, value):
    x[mp.global_id(0)] = value


@mp.kernel
def copy2(x: mp.Array[mp.f32, 2], y: mp.Array[mp.f32, 2]):
    i = mp.global_id(1)
    j = mp.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j]


@mp.kernel
def scaled(x: mp.Array[mp.f32], k: mp.constexpr = 3):
    x[mp.global_id(0)] = x[mp.global_id(0)] * k


@mp.kernel
def use_point(out: mp.Array[mp.f32], p: Point):
    out[0] = p.x * 2
    out[1] = p.n


def f32(*values):
    return np.array(values, np.float32)


BAD = {
    "list": (lambda y: (2.0, [1.0, 2.0], y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'x'"),
    "none": (lambda y: (2.0, None, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "None"),
    "number for array": (lambda y: (2.0, 5, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'x'"),
    "text for number": (lambda y: ("2", y, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'a'"),
    "array for number": (lambda y: (y, y, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'a'"),
    "complex": (lambda y: (1j, y, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'a'"),
    "none for number": (lambda y: (None, y, y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "'a'"),
    "object array": (lambda y: (2.0, np.array([None, 1], object), y), mp.LaunchTypeError, "MPG_LAUNCH_1017", "'x'"),
    "complex array": (lambda y: (2.0, np.zeros(2, np.complex64), y), mp.LaunchTypeError, "MPG_LAUNCH_1017", "'x'"),
    "date array": (lambda y: (2.0, np.zeros(2, "M8[s]"), y), mp.LaunchTypeError, "MPG_LAUNCH_1017", "'x'"),
    "dtype": (lambda y: (2.0, np.ones(2), y), mp.LaunchTypeError, "MPG_LAUNCH_1003", "f64"),
    "byte order": (lambda y: (2.0, np.ones(2, ">f4"), y), mp.LaunchTypeError, "MPG_LAUNCH_1009", "byte order"),
    "masked": (lambda y: (2.0, np.ma.masked_equal(f32(1, 2), 1), y), mp.LaunchTypeError, "MPG_LAUNCH_1002", "mask"),
    "too few": (lambda y: (2.0, y), mp.LaunchTypeError, "MPG_LAUNCH_1001", "'y'"),
    "too many": (lambda y: (2.0, y, y, y), mp.LaunchTypeError, "MPG_LAUNCH_1001", "takes 3"),
    "read-only": (lambda y: (2.0, y, np.broadcast_to(np.float32(1), 2)), mp.LaunchValueError, "MPG_LAUNCH_1005", "'y'"),
    "odd address": (
        lambda y: (2.0, np.zeros(9, np.uint8)[1:].view(np.float32), y), mp.LaunchValueError, "MPG_LAUNCH_1018", "address"
    ),
    "odd stride": (
        lambda y: (2.0, np.zeros(2, [("a", "f4"), ("b", "i2")])["a"], y), mp.LaunchValueError, "MPG_LAUNCH_1018", "strides"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused(name):
    arguments, kind, code, text = BAD[name]
    y = f32(3, 4)
    before = y.tobytes()
    with pytest.raises(kind) as caught:
        saxpy[1, 256](*arguments(y))
    assert caught.value.diagnostic == code
    assert text in str(caught.value)
    assert isinstance(caught.value, mp.GpuError)
    assert caught.value.kind is mp.GpuErrorKind.ValidationFailed
    assert y.tobytes() == before


def test_no_internal_frames():
    with pytest.raises(mp.LaunchTypeError) as caught:
        saxpy[1, 256](2.0, None, None)
    frames = [entry.path.name for entry in caught.traceback]
    assert frames[0] == "test_runtime_arguments.py"
    assert len(frames) == 2


def test_strided_field_of_structs_works():
    # A field of a record whose size is a multiple of the field's: strides of 2 elements.
    records = np.zeros(3, [("a", "f4"), ("b", "i4")])
    records["a"] = 1, 2, 3
    y = f32(0, 0, 0)
    saxpy[1, 256](2.0, records["a"], y)
    assert y.tolist() == [2, 4, 6]


def test_rank():
    with pytest.raises(mp.LaunchTypeError, match=r"(?s)MPG_LAUNCH_1004.*'x' has 1 dim"):
        copy2[1, 16](f32(1), np.zeros((1, 1), np.float32))
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1018"):
        open_copy[1, 16](np.zeros((1,) * 5), np.zeros((1,) * 5))


def test_keywords_and_defaults():
    y = f32(1, 1)
    saxpy[1, 256](2.0, y=y, x=f32(1, 2))
    assert y.tolist() == [3, 5]
    saxpy.launch(grid=1, block=256, args=(2.0,), kwargs={"x": f32(1, 1), "y": y})
    assert y.tolist() == [5, 7]
    x = f32(1)
    scaled[1, 1](x)
    assert x[0] == 3
    scaled[1, 1](x, 2)
    scaled[1, 1](x, k=2.0)
    assert x[0] == 12
    with pytest.raises(mp.LaunchTypeError, match="no parameter 'z'"):
        saxpy[1, 256](2.0, y, z=y)
    with pytest.raises(mp.LaunchTypeError, match="two values for 'a'"):
        saxpy[1, 256](2.0, y, a=3.0)
    with pytest.raises(mp.LaunchTypeError, match="MPG_LAUNCH_1019"):
        scaled[1, 1](x, k=[1])


def test_scalar_range_and_kind():
    x = np.zeros(1, np.uint8)
    fill_u8[1, 1](x, 255)
    assert x[0] == 255
    fill_u8[1, 1](x, np.uint64(7))
    assert x[0] == 7
    fill_u8[1, 1](x, True)
    assert x[0] == 1
    fill_u8[1, 1](x, np.array(9))
    assert x[0] == 9
    for wrong in (256, -1, np.int64(300), 1 << 80):
        with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1014"):
            fill_u8[1, 1](x, wrong)
    for wrong in (1.0, np.float32(1), "1"):
        with pytest.raises(mp.LaunchTypeError, match="'value'"):
            fill_u8[1, 1](x, wrong)
    assert x[0] == 9


def test_float_overflow_becomes_infinity():
    y = f32(1)
    saxpy[1, 256](1e300, f32(1), y)
    assert y[0] == np.inf
    y = f32(1)
    saxpy[1, 256](-(10**400), f32(1), y)
    assert y[0] == -np.inf
    y = f32(0)
    saxpy[1, 256](float("nan"), f32(1), y)
    assert np.isnan(y[0])


def test_convert_rounds_once():
    assert convert(0.1, mp.f32, "a") == 0.1  # struct rounds it, from the double
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.standard_normal(2000) * 10.0 ** rng.integers(-42, 39, 2000), [0.0, -0.0, np.inf, -np.inf]]
    )
    exact = [float(ml_dtypes.bfloat16(np.float32(v))) for v in values]
    for v, e in zip(values, exact, strict=True):
        bits = bf16_bits(float(v))
        got = float(np.array([bits << 16], np.uint32).view(np.float32)[0])
        # ml_dtypes goes through f32 and may round twice; ours may only differ there, and then be nearer
        assert got == e or abs(got - v) <= abs(e - v)
    assert bf16_bits(float("nan")) == 0x7FC0
    assert bf16_bits(-0.0) == 0x8000
    # halfway between two bf16, and a little above it in double precision only
    assert bf16_bits(1.00390625 + 2**-40) == 0x3F81
    assert bf16_bits(1.00390625) == 0x3F80


def test_weak_and_strong_scalars():
    x = np.zeros(1, np.float32)
    for value in (3, 3.0, True, np.float32(3), np.int64(3), np.uint8(3)):
        fill_any[1, 1](x, value)
        assert x[0] == float(value)

    class Level(enum.IntEnum):
        HIGH = 4

    fill_any[1, 1](x, Level.HIGH)
    assert x[0] == 4
    with pytest.raises(mp.LaunchTypeError, match="constexpr"):
        fill_any[1, 1](x, (1, 2))
    with pytest.raises(mp.LaunchTypeError, match="constexpr"):
        fill_any[1, 1](x, mp.f32)


def test_structs():
    out = np.zeros(2, np.float32)
    use_point[1, 1](out, Point(1.5, 7))
    assert out.tolist() == [3.0, 7.0]
    record = np.zeros((), Point.numpy)
    record["x"], record["n"] = 2.5, -1
    use_point[1, 1](out, record[()])
    assert out.tolist() == [5.0, -1.0]
    use_point[1, 1](out, record)
    assert out.tolist() == [5.0, -1.0]
    with pytest.raises(mp.LaunchTypeError, match="'p'"):
        use_point[1, 1](out, 3.0)
    with pytest.raises(mp.LaunchValueError, match=r"p\.n"):
        use_point[1, 1](out, Point(1.0, 1 << 40))


def test_strides_of_every_sign():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (
        base,
        base.T,
        base[::-1],
        base[:, ::-2],
        base[::2, 1::2],
        base[:0],
        base[1:2],
        np.asfortranarray(base),
    ):
        target = np.zeros(view.shape, np.float32)
        copy2[1, (8, 8)](view, target)
        assert np.array_equal(target, view)
        target = np.zeros((*view.shape[::-1],), np.float32).T[:, ::-1]
        copy2[1, (8, 8)](view, target)
        assert np.array_equal(target, view)


def test_overlap_takes_the_general_variant():
    data = np.arange(10, dtype=np.float32)
    saxpy[1, 1](1.0, data[:1], data[1:2])
    assert data[1] == 1
    x = f32(1, 2)
    saxpy[1, 256](1.0, x, x)
    assert x.tolist() == [2, 4]
    assert {v.facts for v in saxpy.variants()} >= {"general"}


class _Interface:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.keep = array


class _DLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class _OldDLPack(_DLPack):
    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class _OnCuda:
    shape = (2,)

    def __init__(self, how):
        if how == "interface":
            self.__cuda_array_interface__ = {"data": (1, False), "shape": (2,), "typestr": "<f4", "version": 3}

    def __dlpack__(self, **options):
        raise AssertionError("must not be asked")

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize("wrap", [_Interface, _DLPack, _OldDLPack])
def test_other_libraries_share_their_memory(wrap):
    x, y = f32(1, 2), f32(1, 1)
    for _ in range(2):
        saxpy[1, 256](1.0, wrap(x), wrap(y))
    assert y.tolist() == [3, 5]
    y.flags.writeable = False
    if wrap is not _OldDLPack:  # which cannot say so
        with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1005"):
            saxpy[1, 256](1.0, wrap(x), wrap(y))
    assert y.tolist() == [3, 5]


@pytest.mark.parametrize("how", ["interface", "dlpack"])
def test_device_memory_is_refused_on_the_host(how):
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1008"):
        saxpy[1, 256](1.0, _OnCuda(how), f32(1, 2))


def test_bfloat16_arrays():
    x = np.array([1, 2.5], ml_dtypes.bfloat16)
    y = np.zeros(2, ml_dtypes.bfloat16)
    open_copy[1, 16](x, y)
    assert y.tolist() == [1, 2.5]


def test_subclass_and_scalar_array():
    class Sub(np.ndarray):
        pass

    matrix = np.array([[1.0, 2.0]], np.float32).view(Sub)
    out = np.zeros((1, 2), np.float32)
    copy2[1, (2, 1)](matrix, out)
    assert out.tolist() == [[1, 2]]


class _TorchTensor:
    """What a launch asks of a torch tensor."""

    def __init__(self, array, dtype="torch.float32", device="cpu", requires_grad=False):
        self.array = array
        self.dtype = dtype
        self.device = types.SimpleNamespace(type=device.partition(":")[0], __str__=lambda: device)
        self.requires_grad = requires_grad
        self.shape = array.shape

    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def view(self, dtype):
        assert dtype == "int16"
        return _TorchTensor(self.array.view(np.int16), "torch.int16")

    def __dlpack__(self, **options):
        raise AssertionError("numpy() keeps what DLPack loses")

    def __dlpack_device__(self):
        return (1, 0)


_TorchTensor.__module__ = "torch"


def test_torch_tensors(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16="int16"))
    x, y = f32(1, 2), f32(1, 1)
    saxpy[1, 256](1.0, _TorchTensor(x), _TorchTensor(y))
    assert y.tolist() == [2, 3]
    with pytest.raises(mp.LaunchTypeError, match="detach"):
        saxpy[1, 256](1.0, _TorchTensor(x, requires_grad=True), y)
    with pytest.raises(mp.LaunchValueError, match="MPG_LAUNCH_1008"):
        saxpy[1, 256](1.0, _TorchTensor(x, device="cuda:0"), y)
    source = np.array([1, 2.5], ml_dtypes.bfloat16)
    target = np.zeros(2, np.float32)
    open_copy[1, 16](_TorchTensor(source, "torch.bfloat16"), target)
    assert target.tolist() == [1, 2.5]


def test_empty_arrays_of_huge_extent():
    @mp.kernel
    def extent(x, out):
        out[0] = x.shape[1]

    out = np.zeros(1, np.int64)
    for n in (3, 1 << 40, 5, (1 << 32) + 7):
        extent[1, 1](np.zeros((0, n), np.float32), out)
        assert out[0] == n
    x = np.broadcast_to(np.float32(1), (2, 1 << 36))
    extent[1, 1](x, out)
    assert out[0] == 1 << 36
