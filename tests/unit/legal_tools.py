"""Kernels of one op, run on the interpreter before and after `magpie.passes.legalise`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from kir import Build

from magpie.backends.interp.engine import Program
from magpie.backends.interp.numerics.lanes import memory_dtype, register_dtype
from magpie.dtypes import DType, f32, f64, index
from magpie.ir.nodes import Buffer, Facts, Kernel
from magpie.ir.printer import print_kernel
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.legalise import Target, left_over, legalise

#: Desktop GPUs, and one with everything.
#: Small ones, like SwiftShader's and WGSL's; and desktop GPUs.
WORDS = Target(i64=True, i16=True, i8=True, f64=True, fma=True, div=True, sqrt32=True, sqrt64=True)
FULL = Target(i64=True, i16=True, i8=True, f64=True, f16=True, fma=True, div=True, sqrt32=True, sqrt64=True, u32_to_f32=True, denormals=True)
#: No types of 8 and 16 bits.
NARROW = Target(i64=True, f64=True, fma=True, div=True, sqrt32=True, sqrt64=True)
#: No integers but those of 32 bits.
BARE = Target(f64=True, fma=True, div=True, sqrt32=True, sqrt64=True)
#: As SwiftShader has it, but for f64, which kernels of f64 need: no fma, and nothing of other widths.
LEAST = Target(f64=False)
#: lavapipe.
LAVAPIPE = Target(i64=True, i16=True, i8=True, f64=True, div=True, sqrt32=True, sqrt64=True)
TARGETS = {"bare": BARE, "words": WORDS, "narrow": NARROW, "full": FULL, "least": LEAST, "lavapipe": LAVAPIPE}


def op_kernel(op: str, operands: Sequence[DType], result: DType, constant: Any = None, **fields: Any) -> Kernel:
    """out[i] = op(x[i], y[i], ...); ``constant`` stands for the last operand."""
    arrays = [Buffer(f"x{k}", t, 1, "read") for k, t in enumerate(operands)]
    out = Buffer("out", result, 1, "write")
    kernel = Kernel("k", [*arrays, out], **fields)
    b = Build(kernel.body)
    i = b.gid()

    def body() -> None:
        values = [b.load(a, i) for a in arrays]
        if constant is not None:
            values[-1] = b.const(constant, operands[-1])
        b.store(out, (i,), b.emit(op, *values, type=result))

    b.when(b.emit("lt", i, b.emit("extent", array=out, dim=0)), body)
    return kernel


def legal(kernel: Kernel, target: Target, **options: Any) -> Kernel:
    """The legalised kernel, verified: it has nothing left that the target lacks."""
    found = legalise(prepare(kernel, native_math=frozenset()), target, **options)
    verify(found)
    problems = list(left_over(found, target))
    assert not problems, (problems, print_kernel(found))
    return found


def run(kernel: Kernel, columns: Sequence[np.ndarray], result: DType, like: Kernel | None = None) -> np.ndarray:
    """What the kernel leaves in its last array."""
    out = np.zeros(len(columns[0]), memory_dtype(result))
    Program(kernel, like).run((-(-len(out) // 64),), (64,), [*columns, out])
    return out


def both(
    op: str, operands: Sequence[DType], result: DType, columns: Sequence[np.ndarray], target: Target, constant: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """The result as the op table has it, and as the legalised kernel computes it."""
    kernel = op_kernel(op, operands, result, constant, facts=Facts(small=True))
    return run(prepare(kernel), columns, result), run(legal(kernel, target), columns, result)


def check(
    op: str, operands: Sequence[DType], result: DType, columns: Sequence[np.ndarray], target: Target, constant: Any = None
) -> None:
    """The same bits before and after; all NaN are one value."""
    want, found = both(op, operands, result, columns, target, constant)
    bad = ~same(want, found, result)
    assert not bad.any(), [(op, operands, c[bad][0]) for c in columns] + [want[bad][0], found[bad][0], bad.sum()]


def same(a: np.ndarray, b: np.ndarray, t: DType) -> np.ndarray:
    """Where two arrays hold the same bits, or both NaN."""
    n = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    equal: np.ndarray = a.view(n) == b.view(n)
    if t.is_float:
        equal |= is_nan(a, t) & is_nan(b, t)
    return equal


def is_nan(a: np.ndarray, t: DType) -> np.ndarray:
    if t.name == "bf16":
        a = (a.astype(np.uint32) << np.uint32(16)).view(np.float32)
    found: np.ndarray = np.isnan(a)
    return found


def integers(t: DType, n: int = 4000, seed: int = 0) -> np.ndarray:
    """Edge values and random ones of all magnitudes."""
    rng = np.random.default_rng(seed + t.bits)
    edge = [0, 1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 64, 100, 127, t.max, t.max - 1, t.min, t.min + 1, t.max // 2 + 1]
    edge += [v for v in (-1, -2, -3, -7, -8, -64) if t.min < 0] + [2**k for k in range(t.bits - 1)]
    edge = [v for v in edge if t.min <= v <= t.max]
    raw = rng.integers(t.min, t.max, n, np.int64 if t.min < 0 else np.uint64, endpoint=True)
    some = raw >> rng.integers(0, t.bits, n).astype(raw.dtype)
    return np.concatenate([np.array(edge, register_dtype(t)), some.astype(register_dtype(t))])


def pairs(t: DType, n: int = 4000) -> list[np.ndarray]:
    """Every pair of edge values, and random pairs."""
    edge, some = np.split(integers(t, n), [len(integers(t, 0))])
    a, b = np.meshgrid(edge, edge)
    return [np.concatenate([a.ravel(), some]), np.concatenate([b.ravel(), np.roll(some, 7), ])]


def floats(t: DType, n: int = 4000, seed: int = 0, denormals: bool = True) -> np.ndarray:
    """Edge values and random bit patterns, in the form of memory."""
    rng = np.random.default_rng(seed + t.bits)
    u = {2: np.uint16, 4: np.uint32, 8: np.uint64}[t.itemsize]
    digits, most = {"f16": (10, 0x7C00), "bf16": (7, 0x7F80), "f32": (23, 0x7F800000)}.get(t.name, (52, 0x7FF << 52))
    one = most // 2 >> digits << digits
    edge = [0, 1, 2, 3, (1 << digits) - 1, 1 << digits, (1 << digits) + 1, most - 1, most, most + 1, one, one - 1, one + 1]
    edge += [one + (1 << digits), one - (1 << digits), one + (3 << digits - 1), one + (digits << digits)]
    edge += [one + ((digits + k) << digits) + j for k in (-1, 0, 1, 2) for j in (0, 1, 3)]
    edge += [e | 1 << (t.bits - 1) for e in edge]
    near = one + (rng.integers(-20, 20, n) << digits) + rng.integers(0, 1 << digits, n)
    far = rng.integers(0, 1 << (t.bits - 1), n)
    found = np.where(rng.random(n) < 0.6, near, far).astype(np.uint64) | (
        rng.integers(0, 2, n).astype(np.uint64) << np.uint64(t.bits - 1)
    )
    bits = np.concatenate([np.array(edge, np.uint64), found]).astype(u)
    if not denormals:
        size = bits & u((1 << (t.bits - 1)) - 1)
        bits = np.where((size != 0) & (size < u(1 << digits)), bits & u(1 << (t.bits - 1)), bits)
    return bits.view(memory_dtype(t))


def float_pairs(t: DType, n: int = 4000, denormals: bool = True) -> list[np.ndarray]:
    """Every pair of edge values, and random pairs."""
    edge, some = np.split(floats(t, n, denormals=denormals), [len(floats(t, 0))])
    a, b = np.meshgrid(edge, edge)
    return [np.concatenate([a.ravel(), some]), np.concatenate([b.ravel(), np.roll(some, 7)])]


WIDE = {"f32": f32, "f64": f64, "index": index}
