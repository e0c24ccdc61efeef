"""fma, division and square root on targets whose own are not exact: rational arithmetic is the judge."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from legal_tools import LAVAPIPE, LEAST, Target, float_pairs, floats, legal, op_kernel, run

from magpie.dtypes import bf16, f16, f32, f64, i32, i64
from magpie.ir.nodes import Buffer, Facts, walk
from magpie.passes.inline import inline_calls
from magpie.passes.math_library import library_code
from magpie.passes.rewrite import Rewriter

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.conformance.oracle import items, round_to

#: Neither fma nor f64 beside i64: as Intel's GPUs, if their Fma were not fused.
NO_F64 = Target(i64=True, i16=True, denormals=True)
#: f64 without fma, as words: what is computed of f64 goes through integers.
NO_FMA = Target(f64=True, div=True, sqrt32=True, sqrt64=True)


def triples(t, n=6000):
    """Random ones; products that nearly cancel; sums whose second rounding would be the wrong one."""
    a, b = float_pairs(t, n)
    rng = np.random.default_rng(3)
    c = np.roll(floats(t, n), 11)[: len(a)]
    c = np.resize(c, len(a))
    wide = {f32: np.float32, f64: np.float64}.get(t)
    if wide is None:
        return a, b, c
    with np.errstate(all="ignore"):
        near = -(a * b)
        nudge = near.view(f"i{t.itemsize}") + rng.integers(-3, 4, len(a))
        near = np.where(rng.random(len(a)) < 0.5, near, nudge.astype(f"i{t.itemsize}").view(wide))
        # a tie of the sum that the tail of the product decides
        scale = wide(2.0) ** (1 - {f32: 24, f64: 53}[t])
        tie = (wide(1) + rng.integers(0, 200, len(a)) * scale) * wide(1)
        small = scale / 2 * (wide(1) + rng.integers(-1, 2, len(a)) * scale)
    a2, b2, c2 = small, np.full(len(a), wide(1)) + rng.integers(-1, 2, len(a)) * scale, tie
    parts = [(a, b, c), (a, b, near.astype(wide)), (a2, b2, c2)]
    return tuple(np.concatenate([p[k].astype(wide) for p in parts]) for k in range(3))


def numbers(t, a):
    """The elements as Python floats."""
    if t is bf16:
        with np.errstate(all="ignore"):
            return (a.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float).tolist()
    return items(a)


def fused(t, x, y, z):
    """x * y + z rounded once."""
    if all(np.isfinite(v) for v in (x, y, z)):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact:
            return round_to(exact, t)
        if x and y:
            return 0.0 if z else x * y + z  # two numbers that cancel; or a product that is zero
    if np.isinf(z) and np.isfinite(x) and np.isfinite(y):
        return z
    return x * y + z


def agree(want, got):
    return (want != want and got != got) or (want == got and np.signbit(want) == np.signbit(got))


@pytest.mark.parametrize(
    ("t", "target"),
    [(f32, LAVAPIPE), (f32, NO_F64), (f32, LEAST), (f64, LAVAPIPE), (f64, NO_FMA), (f16, LAVAPIPE), (f16, LEAST), (bf16, LAVAPIPE), (bf16, LEAST)],
    ids=lambda p: p.name if hasattr(p, "name") else "",
)
def test_fma_rounds_once(t, target):
    columns = triples(t, 3000)
    flushes = t is f32 and target is LEAST
    if flushes:
        columns = [np.where(np.abs(c) < 2.0**-126, np.copysign(np.float32(0), c), c) for c in columns]
    kernel = legal(op_kernel("fma", (t, t, t), t, facts=Facts(small=True)), target)
    assert not any(n.op == "fma" for n in walk(kernel.body))
    found = numbers(t, run(kernel, columns, t))
    for x, y, z, got in zip(*(numbers(t, c) for c in columns), found, strict=True):
        want = fused(t, x, y, z)
        assert agree(want, got) or (flushes and got == 0 and abs(want) <= 2.0**-126), (x, y, z, want, got)


def test_the_rounding_to_odd_of_the_integer_method():
    """Exact results stay; of others, the neighbour with an odd last bit: what a second rounding may start from."""
    x, y, z = (c.astype(np.float32) for c in triples(f32, 3000))
    kernel = op_kernel("fma", (f32, f32, f32), f32)
    function = library_code("math.fused", "fma_odd_f32", (f32, f32, f32))

    def call(rw, node):
        made = rw.out.emit("call", *(rw.value(a) for a in node.args), function=function)
        return rw.out.emit("call_result", type=f32, call=made, index=0)

    kernel = replace(Rewriter({"fma": call}).kernel(kernel), functions=[function])
    found = run(inline_calls(kernel), (x, y, z), f32)
    checked = 0
    for a, b, c, got in zip(x.tolist(), y.tolist(), z.tolist(), found, strict=True):
        if all(np.isfinite(v) for v in (a, b, c)) and np.isfinite(got):
            exact, have = Fraction(a) * Fraction(b) + Fraction(c), Fraction(float(got))
            last = Fraction(2) ** max(math.frexp(got)[1] - 24, -149)
            odd = int(got.view(np.uint32)) & 1
            assert have == exact or (odd and (abs(have - exact) < last or abs(exact) > abs(have) > 2**127))
            checked += have != exact
    assert checked > 500


#: Fused, but with quotients that are a few units off: as NVIDIA's and AMD's Vulkan.
ROUGH = Target(i64=True, i16=True, i8=True, f64=True, fma=True, denormals=True)


def roughened(kernel, t):
    """The kernel with its rough quotients and roots off by as many units as a last array says."""
    integer = {f32: i32, f64: i64}[t]
    off = Buffer("off", integer, 1, "read")

    def rough(rw, node):
        exact = rw.keep(node)
        if "rough" not in node.attrs:
            return exact
        b = rw.out
        moved = b.emit("add", b.emit("bitcast", exact, type=integer), b.load(off, b.emit("global_id", dim=0)))
        return b.emit("bitcast", moved, type=t)

    rw = Rewriter({"div": rough, "rsqrt": rough})
    return rw.kernel(kernel, params=[*kernel.params[:-1], off, kernel.params[-1]])


@pytest.mark.parametrize("t", [f32, f64], ids=str)
@pytest.mark.parametrize("op", ["div", "sqrt"])
def test_rough_division_is_corrected(op, t):
    operands = (t, t) if op == "div" else (t,)
    wide = {f32: np.float32, f64: np.float64}[t]
    integer = {f32: np.int32, f64: np.int64}[t]
    x, y = float_pairs(t, 60000)
    rng = np.random.default_rng(5)
    # quotients near a power of two and near the middle of two floats; all bits of the divisor set
    last = wide(2.0) ** (1 - {f32: 24, f64: 53}[t])
    a, b = (wide(1) + rng.integers(-40, 40, 20000) * last for _ in range(2))
    c = wide(2) - rng.integers(1, 4, 20000) * last
    with np.errstate(all="ignore"):
        x, y = np.concatenate([x, a, a, c]).astype(wide), np.concatenate([y, b, c, a]).astype(wide)
    columns = [x, y] if op == "div" else [x]
    kernel = legal(op_kernel(op, operands, t, facts=Facts(small=True)), ROUGH)
    with np.errstate(all="ignore"):
        want = x / y if op == "div" else np.sqrt(x)
    for seed, most in ((0, 3), (1, 3), (2, 0)):
        # f64 from an approximation of single precision, which is all that Vulkan asks for
        scale = 1 if t is f32 else 1 << 28
        off = (np.random.default_rng(seed).integers(-most, most + 1, len(x)) * scale).astype(integer)
        found = run(roughened(kernel, t), [*columns, off], t)
        same = (want.view(integer) == found.view(integer)) | (np.isnan(want) & np.isnan(found))
        assert same.all(), [c[~same][0] for c in columns] + [want[~same][0], found[~same][0], (~same).sum()]


@pytest.mark.parametrize("t", [f32, f64], ids=str)
@pytest.mark.parametrize("by", [3.0, -7.0, 0.1, 1.0 + 2.0**-23, 2.0 - 2.0**-23, 4.0, -0.5, 2.0**70, 0.0, np.inf], ids=str)
def test_division_by_a_constant(t, by):
    """One reciprocal, which is rounded here; a power of two is one product. Numpy divides by the number of the type."""
    wide = {f32: np.float32, f64: np.float64}[t]
    integer = {f32: np.int32, f64: np.int64}[t]
    x = floats(t, 60000)
    kernel = legal(op_kernel("div", (t, t), t, by, facts=Facts(small=True)), ROUGH)
    if by in (4.0, -0.5):
        assert not any(n.op in ("fma", "div", "if") for n in walk(kernel.body[-1].regions[0]))
    with np.errstate(all="ignore"):
        want = x / wide(by)
    off = np.random.default_rng(0).integers(-3, 4, len(x)).astype(integer)
    found = run(roughened(kernel, t), [x, x, off], t)
    same = (want.view(integer) == found.view(integer)) | (np.isnan(want) & np.isnan(found))
    assert same.all(), [x[~same][0], want[~same][0], found[~same][0], (~same).sum()]


def test_what_is_exact_is_left_alone():
    """NVIDIA's: its division and the root of f64 are correctly rounded, the root of f32 is not."""
    target = Target(i64=True, i16=True, f64=True, fma=True, div=True, sqrt64=True)
    for op, t, kept in (("div", f32, True), ("div", f64, True), ("sqrt", f64, True), ("sqrt", f32, False)):
        operands = (t, t) if op == "div" else (t,)
        found = [n.op for n in walk(legal(op_kernel(op, operands, t), target).body)]
        assert (op in found) is kept and ("fma" in found) is not kept
    fast = legal(op_kernel("sqrt", (f32,), f32, fastmath=True), target)
    assert "sqrt" in [n.op for n in walk(fast.body)]
