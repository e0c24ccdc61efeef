"""Neighbours as one access: which are, in what order, and that devices then read and write what NumPy does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import magpie as mp
from magpie.backends.registry import backend
from magpie.backends.simt.ready import ready_kernel
from magpie.backends.simt.unrolling import straighten
from magpie.passes.wide_accesses import wide_accesses
from magpie.runtime.compiling import with_facts
from magpie.runtime.inspection import Options, _lowered
from magpie.runtime.specialise import Variant
from tests.unit.spirv_tools import disassembled, validate

N = 64
DEVICES = [d for d in mp.devices() if d.backend == "spv"]
NUMBERS = (mp.i8, mp.u8, mp.i16, mp.u16, mp.f16, mp.bf16, mp.i32, mp.u32, mp.f32, mp.f64, mp.i64)


def runs(kernel, *args, aligned=True):
    """(array, op, elements) of each run."""
    facts = with_facts(_lowered(kernel, args, {}).kernel, Variant(True, aligned, (8, 1, 1)))
    found = dict.fromkeys(wide_accesses(straighten(ready_kernel(facts, Options()))).values())
    return sorted((r.at.attrs["array"].name, r.at.op, len(r.elements)) for r in found)


@mp.kernel
def k_rows(x, y, width: mp.constexpr):
    i = mp.global_id(0)
    if i < x.shape[0] // width:
        for k in range(width):
            y[width * i + k] = x[width * i + width - 1 - k] + 1


@pytest.mark.parametrize(("width", "wide"), [(1, []), (2, [2]), (3, []), (4, [4]), (6, [2, 2, 2]), (8, [4, 4])])
def test_neighbours_from_a_multiple_of_their_size_on(width, wide):
    x = np.zeros(24 * 8, np.float32)
    assert runs(k_rows, x, x, width) == [(a, op, n) for a, op in (("x", "load"), ("y", "store")) for n in wide]
    assert runs(k_rows, x, x, width, aligned=False) == []


@mp.kernel
def k_odd(x, y):
    i = 4 * mp.global_id(0)
    for k in range(6):
        y[i + k] = x[i + k + 1]


def test_what_begins_elsewhere_is_narrower():
    """Of x[1:7] the pairs 2, 3 and 4, 5, which are 8 bytes from a multiple of 8 on; of y[0:6] the first four."""
    x = np.zeros(N, np.float32)
    assert runs(k_odd, x, x) == [("x", "load", 2), ("x", "load", 2), ("y", "store", 2), ("y", "store", 4)]
    d = np.zeros(N)
    assert runs(k_odd, d, d) == [("x", "load", 2)] * 2 + [("y", "store", 2)] * 3
    h = np.zeros(N, np.int16)
    assert runs(k_odd, h, h) == runs(k_odd, x, x)
    b = np.zeros(N, np.int8)
    assert runs(k_odd, b, b) == [("y", "store", 4)]


@mp.kernel
def k_between(x, y, z):
    i = 4 * mp.global_id(0)
    a = x[i]
    x[i + 1] = a
    y[i] = a + x[i + 1]
    y[i + 1] = a
    z[i] = y[i + 1]
    mp.barrier()
    z[i + 1] = a


def test_an_access_between_that_could_tell_keeps_them_apart():
    x = np.zeros(N, np.float32)
    assert runs(k_between, x, x, x) == [("y", "store", 2)]


@mp.kernel
def k_matrix(x, y):
    i, j = mp.global_id(1), 4 * mp.global_id(0)
    for k in range(4):
        y[i, j + k] = x[i + k, j]


def test_only_the_last_dimension_has_neighbours():
    x = np.zeros((8, 8), np.float32)
    assert runs(k_matrix, x, x) == [("y", "store", 4)]


@mp.kernel
def k_added(x, y):
    i = 4 * mp.global_id(0)
    for k in range(4):
        mp.atomic_add(y, i + k, x[i + k])


def test_arrays_with_atomics_stay_as_they_are():
    x = np.zeros(N, np.int32)
    assert runs(k_added, x, x) == [("x", "load", 4)]


@mp.kernel(workgroup=32)
def k_shared(x, y):
    tile = mp.shared(128, mp.f32)
    i, t = mp.workgroup_id(0) * 128, mp.thread_id(0)
    for k in range(4):
        tile[32 * k + t] = x[i + 32 * k + t]
    mp.barrier()
    s = tile[(5 * t) % 128]
    for k in range(32):
        s = s * 0.5 + tile[k]
    y[i // 4 + t] = s


def shared_result(x):
    rows = x.reshape(-1, 128)
    out = np.zeros((len(rows), 32), np.float32)
    for t in range(32):
        s = rows[:, (5 * t) % 128]
        for k in range(32):
            s = s * np.float32(0.5) + rows[:, k]
        out[:, t] = s
    return out.ravel()


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_modules_have_vectors(t):
    x = np.zeros(N, t.numpy)
    made = k_rows.compile(x, x, 4, backend="spv", variant="aligned", workgroup=8)
    validate(made.blob)
    text = disassembled(made.blob)
    count = min(4, 16 // max(4, t.itemsize)) if t.itemsize > 2 else t.itemsize
    kind = {"f32": "float", "f64": "double", "i64": "ulong"}.get(t.name, "uint")
    name = f"v{count}{kind}" if count > 1 else kind
    array = re.search(r"(%\w+) = OpTypeRuntimeArray %" + name + "\n", text)
    assert array and f"OpDecorate {array[1]} ArrayStride {min(16, 4 * t.itemsize)}" in text
    loads = re.findall(rf"(%\w+) = OpAccessChain %_ptr_StorageBuffer_{name} %x", text)
    assert len(loads) % max(1, t.itemsize // 4) == 0 < len(loads)
    assert len(loads) == len(re.findall(r"OpAccessChain %_ptr_StorageBuffer_\w+ %x", text))
    general = k_rows.compile(x, x, 4, backend="spv", variant="general")
    assert "ArrayStride 16" not in disassembled(general.blob)


def test_shared_arrays_of_vectors():
    x = np.zeros(256, np.float32)
    made = k_shared.compile(x, x, backend="spv", variant="aligned")
    validate(made.blob)
    assert "OpTypePointer Workgroup %v4float" in disassembled(made.blob)
    assert backend("spv").manifest.alignment == 16


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_on_devices(device, t):
    if {"f64": "f64", "i64": "int64"}.get(t.name, "buffers") not in device.capabilities:
        pytest.skip(f"no {t}")
    most = 100 if t.itemsize == 1 else 200
    data = np.random.default_rng(3).integers(0, most, 24 * 8).astype(t.numpy)
    for start in (0, 1, 2, 4):  # what is not aligned is another variant
        for width in (2, 3, 4, 6, 8):
            whole = mp.asarray(data, device=device)
            out = mp.zeros(len(data), t, device=device)
            x, y = whole[start:], out[start:]
            k_rows[4, 32](x, y, width)
            n = (len(data) - start) // width * width
            want = np.zeros_like(data)
            want[start : start + n] = data[start : start + n].reshape(-1, width)[:, ::-1].ravel() + 1
            assert np.array_equal(out.to_numpy(), want), (start, width)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_shared_arrays_on_devices(device):
    data = np.random.default_rng(4).integers(0, 64, 512).astype(np.float32)
    x, y = mp.asarray(data, device=device), mp.zeros(128, mp.f32, device=device)
    k_shared[4, 32](x, y)
    assert np.array_equal(y.to_numpy(), shared_result(data))
    odd = mp.zeros(129, mp.f32, device=device)
    k_shared[4, 32](x, odd[1:])
    assert np.array_equal(odd.to_numpy()[1:], shared_result(data))
