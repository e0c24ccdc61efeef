"""Loops that become straight code: their trips, local arrays as slots, arithmetic on constants; nothing else changes."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import magpie as mp
from magpie.backends.interp.engine import Program
from magpie.backends.simt.batching import batch_loads
from magpie.backends.simt.unrolling import straighten
from magpie.dtypes import ALL_DTYPES, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Kernel, walk
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.expand import expand
from magpie.passes.fold import fold
from magpie.runtime.compiling import with_facts
from magpie.runtime.inspection import _lowered
from magpie.runtime.specialise import Variant
from tests.conformance.fuzz import arguments, load
from tests.conformance.fuzzgen import Generator


def ready(kernel, args, workgroup=(8, 1, 1)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        lowered = _lowered(kernel, args, {}).kernel
    return expand(batch_loads(prepare(with_facts(lowered, Variant(True, False, workgroup)), trips=False)))


def straight(kernel, args):
    made = straighten(ready(kernel, args))
    verify(made)
    return made


def loops(kernel):
    return [n for n in walk(kernel.body) if n.op == "loop"]


@mp.kernel
def k_sorted(x, y, n: mp.constexpr):
    """n neighbours in order, by exchanges of neighbours."""
    i = mp.global_id(0)
    v = mp.local(n, mp.f32)
    for k in range(n):
        v[k] = x[n * i + k]
    for k in range(n):
        for j in range(n - 1):
            a, b = v[j], v[j + 1]
            v[j] = min(a, b)
            v[j + 1] = max(a, b)
    for k in range(n - 1, -1, -1):
        y[n * i + k] = v[k]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_local_arrays_become_slots(n):
    x = np.random.default_rng(n).permutation(16 * n).astype(np.float32)
    y = np.zeros_like(x)
    made = straight(k_sorted, (x, y, n))
    assert not made.locals and not loops(made)
    Program(made).run((2,), (8,), (x, y))
    assert np.array_equal(y.reshape(16, n), np.sort(x.reshape(16, n), 1))


@mp.kernel
def k_picked(x, y):
    i = mp.global_id(0)
    v = mp.local((2, 4), mp.i32)
    for k in range(4):
        v[1, k] = x[4 * i + k]
    y[i] = v[1, y[i]] + v[0, y[i]]


def test_an_array_at_an_index_that_varies_stays():
    x, y = np.arange(64, dtype=np.int32), np.arange(16, dtype=np.int32) % 4
    made = straight(k_picked, (x, y))
    assert len(made.locals) == 1 and not loops(made)
    want = x.reshape(16, 4)[np.arange(16), y]
    Program(made).run((2,), (8,), (x, y))
    assert np.array_equal(y, want)


@mp.kernel
def k_series(y, n: mp.constexpr):
    s = mp.u32(0)
    for k in range(n):
        s = s * 3 + mp.u32(k)
        s ^= s >> 5
        s += s << 3
    y[mp.global_id(0)] = s


@pytest.mark.parametrize(("n", "left"), [(0, 0), (1, 0), (7, 0), (32, 0), (1000, 1), (1024, 1), (1021, 1)])
def test_long_loops_take_several_trips_at_a_time(n, left):
    y = np.zeros(8, np.uint32)
    made = straight(k_series, (y, n))
    assert len(loops(made)) == left
    if n in (1000, 1024):
        assert loops(made)[0].attrs["rolled"]
    s = 0
    for k in range(n):
        s = (s * 3 + k) & 0xFFFFFFFF
        s ^= s >> 5
        s = (s + (s << 3)) & 0xFFFFFFFF
    Program(made).run((1,), (8,), (y,))
    assert (y == s).all()


def test_what_is_marked_to_stay_stays():
    plain = ready(k_series, (np.zeros(8, np.uint32), 7))
    loops(plain)[0].attrs["rolled"] = True
    assert len(loops(straighten(plain))) == 1


OPS = ("add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr", "lt", "ge", "eq", "ne", "gt", "le")


@pytest.mark.parametrize("t", [*(t for t in ALL_DTYPES if t.is_int), index], ids=str)
def test_constants_are_computed_as_the_type_says(t):
    rng = np.random.default_rng(t.bits)
    ends = [t.min, t.min + 1, t.max, t.max - 1, 0, 1, 2, t.max // 2]
    for op in OPS:
        for a, b in [(a, b) for a in ends for b in ends] + rng.integers(0, 100, (20, 2)).tolist():
            kernel = Kernel("k", [])
            out = Builder(kernel.body)
            out.emit("print", out.emit(op, out.const(a, t), out.const(b, t)), pieces=("", ""))
            (printed,) = (n for n in fold(kernel).body if n.op == "print")
            assert printed.args[0].attrs["value"] == computed(op, a, b, t), (op, a, b)


def computed(op, a, b, t):
    """By NumPy on the type's own numbers."""
    number = np.int64 if t is index else t.numpy.type
    with np.errstate(over="ignore"):
        x, y = number(a), number(b)
        if op in ("shl", "shr"):
            y = number(b & (t.bits - 1))
        functions = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
            "xor": np.bitwise_xor, "min": np.minimum, "max": np.maximum, "shl": np.left_shift, "shr": np.right_shift,
            "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
            "ne": np.not_equal,
        }  # fmt: skip
        return functions[op](x, y)


def test_random_kernels(tmp_path):
    changed = 0
    for seed in range(900, 1100):
        program = Generator(random.Random(seed).randrange).program()
        kernel = load(program, tmp_path).kernel
        groups, size = ((1, 8), (3, 8), (2, 5))[seed % 3]
        want, got = (arguments(program.types, program.atomics, groups * size, seed) for _ in range(2))
        plain = ready(kernel, want, (size, 1, 1))
        made = straighten(plain)
        changed += len(loops(made)) < len(loops(plain)) or len(made.locals) < len(plain.locals)
        verify(made)
        Program(plain).run((groups,), (size,), want)
        Program(made).run((groups,), (size,), got)
        for a, b in zip(got, want, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"seed {seed}\n{program.source}"
    assert changed > 3
