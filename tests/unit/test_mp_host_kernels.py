"""One expression in a host program and in a kernel on interp: the same bits, wherever the host has a value."""

from __future__ import annotations

import math
import random
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from host_tools import binary, function, program

import magpie as mp
from magpie.host.panics import Panic
from magpie.mpir.ops import FLOAT_COMPARES, MATH

INTS = [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)]
FLOATS = ["f16", "bf16", "f32", "f64"]
NUMPY = {
    **{t: np.dtype(("u" if t[0] == "u" else "") + f"int{t[1:]}") for t in INTS},
    "f16": np.dtype("float16"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
}
INT_OPS = [
    *(f"i.{n}{s}" for n in ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem") for s in ("", ".wrap", ".checked")),
    *(f"i.{n}" for n in ("and", "or", "xor", "shl", "lshr", "ashr", "floordiv", "mod")),
    *(f"i.{n}" for n in ("smin", "smax", "umin", "umax", "spow", "upow")),
]
INT_COMPARES = [f"icmp.{n}" for n in ("eq", "ne", "slt", "sgt", "sle", "sge", "ult", "ugt", "ule", "uge")]
INT_ONES = [f"i.{n}" for n in ("not", "neg", "abs", "popcount", "clz", "ctz")]
FLOAT_OPS = [
    *(f"f.{n}{s}" for n in ("add", "sub", "mul", "div", "rem") for s in ("", ".fast")),
    *(f"f.{n}" for n in ("min", "max", "minimum", "maximum", "floordiv", "mod", "copysign")),
]
FLOAT_ONES = [f"f.{n}" for n in ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round")]
CLASSES = [f"f.{n}" for n in ("is_nan", "is_inf", "is_finite")]


def kernel(op, type_, result, ones):
    """out[i] = op(a[i], b[i]); a bool becomes u8."""
    args = "v=%x" if ones else "lhs=%x, rhs=%y"
    stored, last = ("u8", "    %o: u8 = cast<bool, u8> { v=%r }\n") if result == "bool" else (result, "")
    kept = "%o" if result == "bool" else "%r"
    return f"""gpu fn @k(%a: gpu.TBuffer<{type_}>, %b: gpu.TBuffer<{type_}>, %out: gpu.TBuffer<{stored}>) -> unit target(spv) {{
bb0:
    %g: u32 = gpu.global_id {{ dim=const.u32 0 }}
    %n: u32 = gpu.buffer_len<{type_}> {{ buf=%a }}
    %in: bool = icmp.ult {{ lhs=%g, rhs=%n }}
    cbr %in bb1 bb2
bb1:
    %x: {type_} = gpu.buffer_load<{type_}> {{ buf=%a, idx=%g }}
    %y: {type_} = gpu.buffer_load<{type_}> {{ buf=%b, idx=%g }}
    %r: {result} = {op} {{ {args} }}
{last}    gpu.buffer_store<{stored}> {{ buf=%out, idx=%g, v={kept} }}
    br bb2
bb2:
    ret
}}
"""


def bits(values):
    return values.view(f"uint{8 * values.dtype.itemsize}")


def host_value(ready, *arguments):
    try:
        return ready.call("f", arguments)
    except Panic:
        return None


def compare(tmp_path: Path, op, type_, result, a, b, ones=False):
    """Run both, and compare where the host has a value; gives how many it has."""
    path = tmp_path / "k.mp"
    path.write_text("module k\n" + kernel(op, type_, result, ones))
    kind = np.dtype("uint8") if result == "bool" else NUMPY[result]
    out = np.zeros(len(a), kind)
    mp.load_module(path).k.launch(grid=mp.cdiv(len(a), 64), args=(a, b, out), backend="interp")
    if ones:
        ready = program(function(f"%x: {type_}", result, f"    %r: {result} = {op} {{ v=%x }}\n    ret %r"))
    else:
        ready = program(binary(op, type_, result))
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    if type_ == "bf16":
        pairs = zip(map(float, a), map(float, b), strict=True)
    found = [host_value(ready, *((x,) if ones else (x, y))) for x, y in pairs]
    has = np.array([v is not None for v in found])
    with np.errstate(over="ignore"):
        mine = np.array([0 if v is None else v for v in found]).astype(kind) if kind.kind in "fV" else None
    if mine is None:
        mine = np.array([0 if v is None else int(v) for v in found], dtype=kind)
    both_nan = np.zeros(len(a), bool)
    if kind.kind != "u" and kind.kind != "i":
        both_nan = np.isnan(mine.astype(np.float64)) & np.isnan(out.astype(np.float64))
    good = ~has | both_nan | (bits(mine) == bits(out))
    k = int(np.argmin(good))
    assert good.all(), (op, type_, a[k], b[k], found[k], out[k])
    return int(has.sum())


def int_pairs(type_, rng):
    info = np.iinfo(NUMPY[type_])
    edges = [info.min, info.max, 0, 1, 2, 3, 7, info.max // 2, info.min // 2] + ([-1, -2] if type_[0] == "i" else [])
    values = [*edges, *(rng.randint(info.min, info.max) for _ in range(8)), *(rng.randint(0, 20) for _ in range(4))]
    pairs = [(x, y) for x in values for y in values]
    return tuple(np.array(side, NUMPY[type_]) for side in zip(*pairs, strict=True))


@pytest.mark.parametrize("type_", INTS)
def test_integers(tmp_path, type_):
    a, b = int_pairs(type_, random.Random(type_))
    for op in INT_OPS:
        assert compare(tmp_path, op, type_, type_, a, b) > 100, op
    for op in INT_COMPARES:
        assert compare(tmp_path, op, type_, "bool", a, b) == len(a)
    for op in INT_ONES:
        assert compare(tmp_path, op, type_, type_, a, b, ones=True) > 20, op


def float_pairs(type_, rng):
    kind = NUMPY[type_]
    width = 8 * kind.itemsize
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, math.inf, -math.inf, math.nan, 3.0, 1e-3]
    random_bits = np.array([rng.getrandbits(width) for _ in range(12)], f"uint{width}").view(kind)
    least = np.array([1, 3], f"uint{width}").view(kind)
    values = np.concatenate([np.array(special).astype(kind), random_bits, least])
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize("type_", FLOATS)
def test_floats(tmp_path, type_):
    with np.errstate(all="ignore"):
        a, b = float_pairs(type_, random.Random(type_))
        for op in FLOAT_OPS:
            assert compare(tmp_path, op, type_, type_, a, b) == len(a)
        for name in (*FLOAT_COMPARES, "ord", "uno"):
            assert compare(tmp_path, f"fcmp.{name}", type_, "bool", a, b) == len(a)
        for op in FLOAT_ONES:
            assert compare(tmp_path, op, type_, type_, a, b, ones=True) == len(a)
        for op in CLASSES:
            assert compare(tmp_path, op, type_, "bool", a, b, ones=True) == len(a)


@pytest.mark.parametrize("source", [*INTS, *FLOATS])
def test_casts(tmp_path, source):
    rng = random.Random(source)
    a, b = int_pairs(source, rng) if source in INTS else float_pairs(source, rng)
    with np.errstate(all="ignore"):
        for to in [*INTS, *FLOATS, "bool"]:
            if not ({source, to} >= {"bf16", "f16"} or {source, to} >= {"bf16", "f64"}):
                assert compare(tmp_path, f"cast<{source}, {to}>", source, to, a, b, ones=True) == len(a)


@pytest.mark.parametrize(("source", "to"), [("f32", "u32"), ("i32", "f32"), ("f64", "i64"), ("u64", "f64"), ("f16", "u16"), ("u16", "bf16"), ("bf16", "i16"), ("i8", "u8")])  # fmt: skip
def test_bitcasts(tmp_path, source, to):
    rng = random.Random(source)
    a, b = int_pairs(source, rng) if source in INTS else float_pairs(source, rng)
    with np.errstate(all="ignore"):
        if a.dtype.kind not in "iu":
            a = np.where(np.isnan(a), np.array(1, a.dtype), a)  # a NaN is one value
        assert compare(tmp_path, f"bitcast<{source}, {to}>", source, to, a, b, ones=True) == len(a)


def test_the_math_library(tmp_path):
    rng = random.Random(1)
    for type_ in ("f32", "f64", "f16", "bf16"):
        with np.errstate(all="ignore"):
            a, b = (x[:: len(x) // 25] for x in float_pairs(type_, rng))
            for name in MATH if type_ in ("f32", "f64") else ("exp", "sin"):
                assert compare(tmp_path, f"math.{name}", type_, type_, a, b, ones=True) == len(a)
            for name in ("pow", "atan2", "hypot", "remainder"):
                assert compare(tmp_path, f"math.{name}", type_, type_, a, b) == len(a)
