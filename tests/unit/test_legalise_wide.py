"""64-bit integers: i32 where that is proved, two words where a target has none; against Python's own integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kir import Build
from legal_tools import BARE, NARROW, WORDS, legal, op_kernel, run

import magpie as mp
from magpie.backends.interp.engine import Program
from magpie.dtypes import DType, f32, i32, i64, index, u32, u64
from magpie.frontend.python import lower
from magpie.frontend.signature import ArrayArg
from magpie.ir.nodes import Buffer, Facts, Kernel, walk
from magpie.ir.printer import print_kernel
from magpie.passes import prepare

SMALL = Facts(small=True, contiguous=frozenset(["x", "y", "out"]))
TARGETS = {"bare": BARE, "narrow": NARROW, "words": WORDS}


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def wide_nodes(kernel):
    """Nodes of 64 bits that compute something."""
    return [
        n for n in walk(kernel.body)
        if isinstance(n.type, DType) and n.type.is_int and n.type.bits == 64 and n.args and n.op not in ("cast", "load")
    ]


def rows(x, out):
    """The largest element of each row, and where it is."""
    i = mp.global_id(0)
    if i < x.shape[0]:
        at = 0
        best = x[i, 0]
        for k in range(1, x.shape[1]):
            if x[i, k] > best:
                best = x[i, k]
                at = k
        out[i] = at


@pytest.mark.parametrize("facts", [SMALL, Facts()], ids=["small", "general"])
def test_indices_of_a_loop(facts, target):
    kernel = lower(rows, (ArrayArg(f32, 2), ArrayArg(i32, 1))).kernel
    kernel = replace(kernel, facts=facts)
    found = legal(kernel, target)
    if facts.small:
        assert not wide_nodes(found), print_kernel(found)
    x = np.random.default_rng(0).random((50, 33)).astype(np.float32)
    out = np.zeros(50, np.int32)
    Program(found).run((1,), (64,), [x, out])
    assert (out == x.argmax(1)).all()


def triangle(out):
    """A product of indices that leaves 32 bits."""
    i = mp.global_id(0)
    if i < out.shape[0]:
        n = (i + 70000) * (i + 69999) // 2
        out[i] = n % 1000003


def test_an_index_beyond_32_bits_is_exact(target):
    kernel = replace(lower(triangle, (ArrayArg(i32, 1),)).kernel, facts=SMALL)
    out = np.zeros(300, np.int32)
    Program(legal(kernel, target)).run((5,), (64,), [out])
    assert out.tolist() == [(i + 70000) * (i + 69999) // 2 % 1000003 for i in range(300)]


def hashed(x, y, out):
    """Slots, loops and every ring operation on u64."""
    i = mp.global_id(0)
    if i < x.shape[0]:
        h = mp.u64(14695981039346656037)
        v = x[i]
        for _ in range(8):
            h = (h ^ (v & mp.u64(255))) * mp.u64(1099511628211)
            v = v >> mp.u64(8)
        while v < y[i] and (h & mp.u64(7)) != mp.u64(3):
            h = (h << mp.u64(5)) + (h >> mp.u64(2)) - v
            v = v + mp.u64(0x123456789ABCDEF)
        out[i] = h


def test_a_hash_in_two_words(target):
    kernel = lower(hashed, (ArrayArg(u64, 1),) * 3).kernel
    rng = np.random.default_rng(2)
    x, y = (rng.integers(0, 2**63, 500, np.uint64) for _ in range(2))
    out = np.zeros(500, np.uint64)
    Program(legal(kernel, target)).run((8,), (64,), [x, y, out])
    mask = (1 << 64) - 1
    for a, b, got in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        h, v = 14695981039346656037, a
        for _ in range(8):
            h = ((h ^ (v & 255)) * 1099511628211) & mask
            v >>= 8
        while v < b and h & 7 != 3:
            h = ((h << 5) + (h >> 2) - v) & mask
            v = (v + 0x123456789ABCDEF) & mask
        assert got == h


def local_words(x, out):
    """Arrays of 64-bit integers that no host sees."""
    i = mp.global_id(0)
    t = mp.local(4, mp.i64)
    s = mp.shared(64, mp.i64)
    for k in range(4):
        t[k] = x[i] * (k + 1)
    s[mp.thread_id(0)] = t[i % 4]
    mp.barrier()
    out[i] = s[63 - mp.thread_id(0)] + t[3]


def test_local_and_shared_arrays_of_words(target):
    kernel = lower(local_words, (ArrayArg(i64, 1),) * 2).kernel
    x = np.random.default_rng(3).integers(-(2**60), 2**60, 128)
    out = np.zeros(128, np.int64)
    Program(legal(kernel, target)).run((2,), (64,), [x, out])
    item = np.arange(128)
    other = item // 64 * 64 + 63 - item % 64
    assert (out == x[other] * (other % 4 + 1) + x * 4).all()


def test_conversions_round_once():
    """u64 and i64 to f32 through words: the nearest float, ties to even."""
    near = [2**k + d for k in range(24, 64) for d in (-1, 0, 1, 2 ** (k - 24), 2 ** (k - 24) + 1, 3 * 2 ** (k - 24) - 1)]
    x = np.array([v for v in near if v < 2**64], np.uint64)
    found = run(legal(op_kernel("cast", (u64,), f32), BARE), [x], f32)
    assert (found == x.astype(np.float32)).all()
    y = -(x >> np.uint64(1)).astype(np.int64)
    found = run(legal(op_kernel("cast", (i64,), f32), BARE), [y], f32)
    assert (found == y.astype(np.float32)).all()


def test_a_checked_index_out_of_32_bits_is_negative():
    """So that a check of 32 bits finds it: offsets themselves are modulo 2**32."""
    x, where, out = Buffer("x", f32, 1, "read"), Buffer("where", i64, 1, "read"), Buffer("out", f32, 1, "write")
    kernel = Kernel("k", [x, where, out])
    b = Build(kernel.body)
    b.store(out, (b.gid(),), b.load(x, b.cast(b.load(where, b.gid()), index)))
    for checked in (False, True):
        found = legal(kernel, BARE, checked=checked)
        (load,) = [n for n in walk(found.body) if n.op == "load" and n.attrs["array"] is x]
        assert load.args[0].type is (i32 if checked else u32)
        probe = Kernel("probe", [where, Buffer("at", i32, 1, "write")])
        body = [n for n in found.body if n is not load and n.op != "store"]
        probe.body = body
        p = Build(probe.body)
        p.store(probe.buffers[1], (p.gid(),), p.cast(load.args[0], i32))
        at = np.zeros(64, np.int32)
        places = np.resize(np.array([5, -1, 1 << 32, (1 << 32) + 5, -(1 << 33), (1 << 31) - 1, 1 << 31]), 64)
        Program(prepare(probe)).run((1,), (64,), [places, at])
        exact = np.where((places >= -(2**31)) & (places < 2**31), places, -1) if checked else places.astype(np.int32)
        assert (at == exact).all()
