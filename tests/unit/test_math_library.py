"""The pass that puts the math library in place of math ops, and the bits it promises."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import magpie as mp
from magpie.dtypes import bf16, f16, f32, f64, i32
from magpie.frontend.python import lower
from magpie.frontend.signature import ArrayArg
from magpie.ir.nodes import Kernel, walk
from magpie.ir.verify import verify
from magpie.lib.math import FUNCTIONS
from magpie.passes import prepare
from magpie.passes.math_library import lower_math, math_function

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from math_reference import device_kernel

TWO = ("pow", "hypot", "atan2", "fmod", "remainder", "ldexp")


@mp.func
def twice_exp(v):
    return 2.0 * mp.exp(v)


def exp_of_sin(x, out):
    i = mp.global_id(0)
    out[i] = mp.exp(mp.sin(x[i])) + twice_exp(x[i])


def no_math(x, out):
    i = mp.global_id(0)
    out[i] = mp.sqrt(x[i]) + mp.floor(x[i])


def whole_power(x, out):
    i = mp.global_id(0)
    out[i] = x[i] ** x[i]


def kernel_of(fn, dtype: mp.DType, fastmath: bool = False) -> Kernel:
    return lower(fn, (ArrayArg(dtype, 1), ArrayArg(dtype, 1)), fastmath=fastmath).kernel


def ops(kernel: Kernel) -> set[str]:
    return {n.op for body in kernel.bodies() for n in walk(body)}


def test_a_kernel_without_math_is_left_alone() -> None:
    kernel = kernel_of(no_math, f32)
    assert lower_math(kernel) is kernel


def test_integer_powers_are_left_alone() -> None:
    kernel = kernel_of(whole_power, i32)
    assert lower_math(kernel) is kernel


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_no_math_op_and_no_call_is_left(dtype: mp.DType) -> None:
    kernel = kernel_of(exp_of_sin, dtype)
    before = ops(kernel)
    lowered = lower_math(kernel)
    verify(lowered)
    assert not ops(lowered) & (set(FUNCTIONS) | {"call", "call_result"})
    assert ops(kernel) == before  # the input is as it was
    verify(prepare(kernel, native_math=frozenset()))
    assert "exp" in ops(prepare(kernel))


def test_what_is_native_stays() -> None:
    lowered = lower_math(kernel_of(exp_of_sin, f32), frozenset({("exp", "f32")}))
    assert "exp" in ops(lowered) and "sin" not in ops(lowered)
    assert "exp" not in ops(lower_math(kernel_of(exp_of_sin, f64), frozenset({("exp", "f32")})))


def test_nodes_stand_at_the_users_line_and_are_strict() -> None:
    lowered = lower_math(kernel_of(exp_of_sin, f32, fastmath=True))
    strict = [n for n in walk(lowered.body) if "strict" in n.attrs]
    assert len(strict) > 100
    for node in strict:
        assert node.loc is not None and node.loc.file == __file__


def test_a_function_is_lowered_once() -> None:
    assert math_function("exp", f32) is math_function("exp", f32)
    assert math_function("exp", f32) is not math_function("exp", f64)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_use_exact_operations_only(op: str, dtype: mp.DType) -> None:
    allowed = set(
        "const param add sub mul div fma neg abs and or xor not shl shr eq ne lt le gt ge select cast bitcast sqrt trunc "
        "copysign slot_get slot_set if loop break_if break return".split()
    )
    function = math_function(op, dtype)
    assert {n.op for n in walk(function.body)} <= allowed
    if dtype is f32:  # what is wider is slow on most GPUs and missing on some
        types = {n.type for n in walk(function.body)} | {a.type for n in walk(function.body) for a in n.args}
        assert all(t is None or t.bits <= 32 for t in types)


def test_bits_are_the_same_on_interp_and_on_cpu_at_every_width() -> None:
    """Through device functions, so that it holds whatever a backend does with math ops."""
    from magpie.lib.math.exponential import exp_f32
    from magpie.lib.math.logarithm import log_f64
    from magpie.lib.math.power import pow_f64
    from magpie.lib.math.trigonometric import sin_f32

    @mp.kernel
    def k(x: mp.Array[mp.f32], y: mp.Array[mp.f64], a: mp.Array[mp.f32], b: mp.Array[mp.f64]):
        i = mp.global_id(0)
        if i < x.shape[0]:
            a[i] = exp_f32(sin_f32(x[i]) * 20.0)
            b[i] = pow_f64(y[i], 3.0) + log_f64(y[i])

    rng = np.random.default_rng(2)
    n = 1000
    x = np.concatenate([rng.normal(size=n // 2) * 30, 10.0 ** rng.uniform(-38, 38, n // 2)]).astype(np.float32)
    y = np.concatenate([rng.normal(size=n // 2) * 30, 10.0 ** rng.uniform(-300, 300, n // 2)])
    found = []
    for options in ({"backend": "interp"}, *({"backend": "cpu", "gang": w} for w in (4, 32))):
        a, b = np.empty_like(x), np.empty_like(y)
        k.launch(grid=8, block=128, args=(x, y, a, b), **options)
        a[np.isnan(a)] = np.nan
        b[np.isnan(b)] = np.nan
        found.append((a.tobytes(), b.tobytes()))
    assert all(f == found[0] for f in found)


@pytest.mark.parametrize(("op", "dtype"), [*((op, f32) for op in FUNCTIONS), ("log", f64), ("sin", f64), ("erf", f64)])
def test_cpu_gives_the_interpreters_bits(op: str, dtype: mp.DType) -> None:
    """Over any bit patterns, denormals and NaN included."""
    rng = np.random.default_rng(4)
    word = np.uint32 if dtype is f32 else np.uint64
    x, y = rng.integers(0, np.iinfo(word).max, (2, 700), dtype=word).view(dtype.numpy)
    x[:300], y[:300] = rng.normal(size=(2, 300)) * 3
    args = (x, rng.integers(-200, 200, 700, dtype=np.int32)) if op == "ldexp" else (x, y)
    kernel = device_kernel(op, dtype)
    found = []
    for backend in ("interp", "cpu"):
        out = np.empty_like(x)
        kernel.launch(grid=6, block=128, args=(*args[: 2 if op in TWO else 1], out), backend=backend)
        out[np.isnan(out)] = np.nan
        found.append(out.tobytes())
    assert found[0] == found[1]
