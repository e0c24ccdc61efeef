"""`mp.lib.matmul`: every type, on every backend, with edges that no block fits, strides and other result types.

Small integers have exact products and sums, so that a result is one number whatever the order of the sums.
"""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from magpie.ir.tiles import ACCUMULATORS
from magpie.lib.matrix import Plan, staged

from .harness import TYPE_CAPABILITY, compare, in_turn, targets

TYPES = tuple(ACCUMULATORS)
SHAPES = ((1, 1, 1), (70, 90, 33), (257, 65, 16), (64, 128, 200), (5, 300, 0))


def cases(types=TYPES):
    """(target, dtype) where the target has it."""
    return [
        pytest.param(target, t, id=f"{target.name}-{t.name}")
        for target in targets()
        for t in types
        if target.has(["subgroups", TYPE_CAPABILITY.get(t.name, "subgroups")])
        and not in_turn(f"{target.name} {t.name}", 3 if target.software else 1)
    ]


def matrix(t, rows, cols, seed):
    low, high = (0, 8) if t is mp.u8 else (-4, 4)
    return np.random.default_rng([seed, rows, cols]).integers(low, high, (rows, cols)).astype(t.numpy)


def product(x, y):
    return x.astype(np.float64) @ y.astype(np.float64)


@pytest.mark.parametrize(("target", "t"), cases())
def test_products(target, t):
    for m, n, k in SHAPES:
        x, y = matrix(t, m, k, 1), matrix(t, k, n, 2)
        out = mp.lib.matmul(mp.asarray(x, device=target.device), mp.asarray(y, device=target.device), tf32=True)
        assert out.dtype is (t if t.is_float else mp.i32) and out.device is mp.device(target.device)
        compare(out.to_numpy(), product(x, y).astype(out.dtype.numpy), what=f"{target.name} {m}x{n}x{k}")


@pytest.mark.parametrize(("target", "t"), cases((mp.f16, mp.i8)))
def test_strides_result_types_and_streams(target, t):
    """What has gaps is read where it is; f16 sums go to f32 without a second rounding."""
    held = ACCUMULATORS[t]
    x, y = matrix(t, 40, 66, 3), matrix(t, 33, 100, 4)
    left, right = (mp.asarray(a, device=target.device) for a in (x, y))
    out = mp.empty((20, 50), held, device=target.device)
    stream = mp.Stream(target.device)
    assert mp.lib.matmul(left[::2, ::2], right[:, ::2], dtype=held, out=out, stream=stream) is out
    stream.synchronize()
    compare(out.to_numpy(), product(x[::2, ::2], y[:, ::2]).astype(held.numpy), what=target.name)


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_unsigned_by_signed(target):
    x, y = matrix(mp.u8, 33, 65, 5), matrix(mp.i8, 65, 17, 6)
    out = mp.lib.matmul(mp.asarray(x, device=target.device), mp.asarray(y, device=target.device))
    compare(out.to_numpy(), product(x, y).astype(np.int32), what=target.name)


@pytest.mark.parametrize(("target", "t"), cases((mp.bf16, mp.f32)))
def test_the_staged_kernel_runs_everywhere(target, t):
    """Its copies, stages and order of blocks, with fewer and more steps of k than it has stages."""
    plan = Plan((32, 64), (16, 32), 32, 16, 3)
    for m, n, k in ((40, 70, 33), (300, 50, 16), (64, 64, 160)):
        x, y, out = matrix(t, m, k, 7), matrix(t, k, n, 8), np.full((m, n), 77, np.float32)
        blocks = mp.cdiv(m, 32) * mp.cdiv(n, 64)
        staged(plan, 32).launch(
            grid=blocks,
            block=128,
            args=(x, y, out, t, t, mp.f32, 16 // t.itemsize),
            device=target.device,
            subgroup_size=32,
        )
        compare(out, product(x, y).astype(np.float32), what=f"{target.name} {m}x{n}x{k}")


def test_what_is_refused():
    def zeros(*shape, dtype=mp.f16):
        return mp.zeros(shape, dtype)

    with pytest.raises(mp.LaunchValueError, match=r"shapes \(4, 6\) and \(4, 6\)"):
        mp.lib.matmul(zeros(4, 6), zeros(4, 6))
    with pytest.raises(mp.LaunchValueError, match="shapes"):
        mp.lib.matmul(zeros(4), zeros(4, 6))
    with pytest.raises(mp.LaunchTypeError, match="f16 and bf16"):
        mp.lib.matmul(zeros(4, 6), zeros(6, 4, dtype=mp.bf16))
    with pytest.raises(mp.LaunchTypeError, match="multiplies f16, bf16, f32, f64, i8, u8, not i32"):
        mp.lib.matmul(zeros(4, 6, dtype=mp.i32), zeros(6, 4, dtype=mp.i32))
    with pytest.raises(mp.LaunchTypeError, match="no products of f32") as caught:
        mp.lib.matmul(zeros(4, 6, dtype=mp.f32), zeros(6, 4, dtype=mp.f32))
    assert "tf32=True" in str(caught.value)
    with pytest.raises(mp.LaunchTypeError, match="a result of i32 from sums in f32"):
        mp.lib.matmul(zeros(4, 6), zeros(6, 4), dtype=mp.i32)
    with pytest.raises(mp.LaunchValueError, match="out= must be"):
        mp.lib.matmul(zeros(4, 6), zeros(6, 4), out=zeros(4, 5))
