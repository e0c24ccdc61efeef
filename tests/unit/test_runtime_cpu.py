"""The cpu driver: the part of a launch block that it writes itself, threads, code that stays mapped."""

from __future__ import annotations

import ctypes
import gc
import os
import struct

import numpy as np
import pytest

import magpie as mp
from magpie.backends.cpu.launch_block import LaunchBlock
from magpie.runtime.drivers import cpu


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")


def test_refilling_a_block_is_what_fill_does():
    block = LaunchBlock(16)
    block.fill(0x1234, 7, chunk=2, threads=3, stride=64, arenas=4096)
    size = 256 - cpu._FROM + 16
    rest = (ctypes.c_char * size).from_address(block.address + cpu._FROM)
    filled = bytes(rest)
    rest[:] = b"\xff" * size
    struct.Struct("<" + cpu._RESET + "qq").pack_into(rest, 0, 0, 0, 0, 0, 0x1234, 0, 0)
    assert bytes(rest)[:-16] == filled[:-16]


@mp.kernel
def square(x):
    i = mp.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] * x[i]


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads(monkeypatch, threads):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", threads)
    x = np.arange(10_000, dtype=np.float32)
    expected = x * x
    square[mp.cdiv(x.size, 64), 64](x)
    assert np.array_equal(x, expected)


@pytest.mark.parametrize("gang", [4, 8, 16, 32, 64])
def test_gangs(gang):
    x = np.arange(1000, dtype=np.float32)
    square.launch(grid=4, block=256, args=(x,), gang=gang)
    assert np.array_equal(x, np.arange(1000, dtype=np.float32) ** 2)


def test_code_lives_as_long_as_a_bound_launch():
    @mp.kernel
    def mortal(x):
        x[mp.global_id(0)] += 1

    x = np.zeros(4, np.float32)
    mortal[1, 4](x)
    bound = mortal[1, 4]
    del mortal
    gc.collect()
    bound(x)
    assert x.tolist() == [2] * 4


def test_a_launch_from_a_finalizer_in_a_launch():
    @mp.kernel
    def inner(x):
        x[mp.global_id(0)] += 1

    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    inner[1, 4](x)

    class Bomb:
        def __float__(self):
            inner[1, 4](y)
            return 1.0

    @mp.kernel
    def outer(x: mp.Array[mp.f32], a: mp.f32):
        x[mp.global_id(0)] += a

    outer[1, 4](x, 1.0)
    with pytest.raises(mp.LaunchTypeError):
        outer[1, 4](x, Bomb())
    assert x.tolist() == [2] * 4


def test_lengths_of_shared_arrays_mean_what_evaluate_says():
    from magpie.ir.layout import BufferField, HostEnv, KernelLayout, ScalarField, SharedField, evaluate
    from magpie.runtime.extents import extents_function

    x = BufferField("x", "f32", 4, 2, "read", 0, 8, 24)
    n = ScalarField("n", "i64", 8, 40)
    p, e, s = ("param", "n"), ("extent", "x", 1), ("stride", "x", 0)
    exprs = [
        7, ("const", 3), p, e, s, ("workgroup_size", 1), ("num_workgroups", 0), ("add", p, e), ("sub", p, 9), ("mul", p, p),
        ("floordiv", e, p), ("mod", e, p), ("floordiv", e, 0), ("min", p, e), ("max", p, s), ("neg", p), ("and", p, 12),
        ("xor", e, 5), ("mul", ("mul", p, 1 << 40), 1 << 40), ("shl", e, 2), ("select", ("lt", p, e), p, e),
        ("cast", "u8", p),
    ]  # fmt: skip
    for expr in exprs:
        layout = KernelLayout("k", "word8", (x, n), 48, (SharedField("s", 4, (expr, 2)),), None)
        extents = extents_function(layout, (5, 1, 1), (8, 4, 1))
        for value in (3, -3, 0, 300, (1 << 63) - 1, -(1 << 63)):
            env = HostEnv({"n": value}, {"x": (6, 7)}, {"x": (7, 1)}, (8, 4, 1), (5, 1, 1))
            assert extents((0, 6, 7, 7, 1, value)) == ((evaluate(expr, env), 2),), (expr, value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_launch_in_a_forked_child():
    x = np.arange(100_000, dtype=np.float32)
    small = np.arange(4, dtype=np.float32)
    square[mp.cdiv(x.size, 64), 64](x)
    square[1, 64](small)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            y = np.full(100_000, 3, np.float32)
            square[mp.cdiv(y.size, 64), 64](y)
            square[1, 64](y[:4])
            fresh = np.full(5, 2, np.int32)
            square[1, 64](fresh)  # compiled in the child
            status = 0 if (y[4:] == 9).all() and (y[:4] == 81).all() and (fresh == 4).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    square[1, 64](small)
    assert small.tolist() == [0, 1, 16, 81]
