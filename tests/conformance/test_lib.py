"""`mp.lib`: reductions of whole arrays and of rows, every type, bit for bit in the documented order on every backend.

The order is written down again here, with NumPy: a running result for each place in a tile, then trees of neighbours.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import magpie as mp

from . import oracle as o
from .harness import TYPE_CAPABILITY, compare, in_turn, targets
from .oracle import ALL, FLOATS, INTS

OPS = {"sum": mp.lib.sum, "prod": mp.lib.prod, "min": mp.lib.min, "max": mp.lib.max}
ITEMS = 256


def cases(names, dtypes):
    """(target, dtype, operation), without what a target lacks."""
    return list(_cases(names, dtypes))


def _cases(names, dtypes):
    for target, t, name in itertools.product(targets(), dtypes, names):
        needs = {TYPE_CAPABILITY.get(u.name, "subgroups") for u in (t, result_type(name, t))}
        if target.has(["subgroups", *needs]) and not in_turn(f"{target.name} {t.name} {name}", 3 if target.software else 1):
            yield pytest.param(target, t, name, id=f"{target.name}-{t.name}-{name}")


def result_type(name, t):
    if name in ("min", "max") or t.is_float:
        return t
    return mp.u64 if t.kind == "uint" else mp.i64


def held_type(t):
    """What running results are held in."""
    return mp.f32 if t in (mp.f16, mp.bf16) else t


def combiner(name, t):
    if name in ("min", "max"):
        if t is mp.bool_:
            return np.logical_and if name == "min" else np.logical_or
        return np.fmin if name == "min" else np.fmax
    return np.add if name == "sum" else np.multiply


def neutral(name, t):
    if name in ("min", "max"):
        if t.is_float:
            return np.nan
        return {"min": t.max, "max": t.min}[name]
    return (-0.0 if t.is_float else 0) if name == "sum" else 1


def wide(t):
    return 16 // max(2, t.itemsize)


def in_order(x, name, t, rows, stored):
    """One row: ``x`` held as ``t``, of an array whose elements are ``stored``, among ``rows`` rows."""
    one_pass = max(1, min(x.size // (2048 * wide(stored)), 4224 // rows))
    parts = _pass(x, name, t, one_pass, wide(stored))
    return parts[0] if one_pass == 1 else _pass(parts, name, t, 1, wide(t))[0]


def _pass(x, name, t, parts, width):
    combine, tile = combiner(name, t), ITEMS * width
    held = np.full((parts, tile), neutral(name, t), t.numpy)
    for k in range(-(-x.size // tile)):
        piece = x[k * tile : (k + 1) * tile]
        held[k % parts, : piece.size] = combine(held[k % parts, : piece.size], piece)
    while held.shape[1] > 1:
        held = combine(held[:, 0::2], held[:, 1::2])
    return held[:, 0]


def expected(data, name, t):
    """What a row of each of the 2-D ``data`` gives."""
    result = result_type(name, t)
    held = held_type(result)
    with np.errstate(all="ignore"):
        rows = [in_order(row.astype(held.numpy), name, held, len(data), t) for row in data]
    return np.array(rows, held.numpy).astype(result.numpy)


def check(target, t, name, data, want, **options):
    got = OPS[name](mp.asarray(data, device=target.device), **options)
    assert got.device is mp.device(target.device)
    assert got.dtype is result_type(name, t)
    compare(got.to_numpy(), np.asarray(want), what=f"{target.name}: {name} of {data.shape}")


@pytest.mark.parametrize(("target", "t", "name"), cases(OPS, ALL))
def test_whole_arrays(target, t, name):
    for n in (1, 37003):  # one element; several workgroups, and a tile that is not full
        x = o.plain(t, n, seed=n)
        if name == "prod" and t.is_float:
            x = (1 + (x.astype(np.float64) % 1 - 0.5) / 64).astype(t.numpy)  # what stays finite
        check(target, t, name, x, expected(x[None], name, t)[0])


@pytest.mark.parametrize(("target", "t", "name"), cases(("sum", "max"), (mp.f16, mp.f32, mp.u8)))
def test_rows(target, t, name):
    x = o.plain(t, 3 * 4 * 5001).reshape(3, 4, 5001)
    check(target, t, name, x, expected(x.reshape(12, 5001), name, t).reshape(3, 4), axis=-1)
    one = o.plain(t, 700)
    check(target, t, name, one, expected(one[None], name, t)[0], axis=0)


@pytest.mark.parametrize(("target", "t", "name"), cases(("min", "max"), FLOATS))
def test_nan_counts_as_absent(target, t, name):
    x = np.concatenate([o.specials(t), np.full(3, np.nan, t.numpy), o.plain(t, 9000)])
    finite = x[~np.isnan(x.astype(np.float64))].astype(np.float64)
    check(target, t, name, x, (finite.min() if name == "min" else finite.max()).astype(t.numpy))
    check(target, t, name, np.full(5, np.nan, t.numpy), np.array(np.nan, t.numpy))


@pytest.mark.parametrize(("target", "t", "name"), cases(("sum",), (mp.f32, mp.f64)))
def test_the_sum_of_negative_zeros_keeps_its_sign(target, t, name):
    check(target, t, name, np.full(5000, -0.0, t.numpy), np.array(-0.0, t.numpy))


@pytest.mark.parametrize(("target", "t", "name"), cases(("sum", "prod"), (mp.i32, mp.f32)))
def test_nothing_to_reduce(target, t, name):
    one = 0 if name == "sum" else 1
    kind = result_type(name, t).numpy
    check(target, t, name, np.zeros(0, t.numpy), np.array(one, kind))
    check(target, t, name, np.zeros((3, 0), t.numpy), np.full(3, one, kind), axis=-1)
    check(target, t, name, np.zeros((0, 3), t.numpy), np.zeros(0, kind), axis=-1)


@pytest.mark.parametrize(("target", "t", "name"), cases(("sum",), INTS))
def test_a_wider_or_narrower_result(target, t, name):
    x = o.plain(t, 3000)
    got = mp.lib.sum(mp.asarray(x, device=target.device), dtype=mp.f64)
    assert got.dtype is mp.f64 and got.item() == float(sum(int(v) for v in x))
    narrow = mp.lib.sum(mp.asarray(x, device=target.device), dtype=mp.i32)
    assert narrow.item() == o.wrap(sum(int(v) for v in x), mp.i32)


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.name)
def test_out_strided_rows_and_streams(target):
    if not target.has(["subgroups"]):
        pytest.skip(f"{target.name} lacks subgroups")
    data = o.plain(mp.f32, 4 * 6000).reshape(4, 6000)
    x = mp.asarray(data, device=target.device)
    out = mp.empty((2,), mp.f32, device=target.device)
    stream = mp.Stream(target.device)
    assert mp.lib.sum(x[::2], axis=1, out=out, stream=stream) is out
    stream.synchronize()
    compare(out.to_numpy(), expected(data[::2], "sum", mp.f32), what=target.name)


def test_what_is_refused():
    x = mp.zeros((4, 6), mp.f32)
    with pytest.raises(mp.LaunchValueError, match="last axis"):
        mp.lib.sum(x, axis=0)
    with pytest.raises(mp.LaunchValueError, match="without gaps"):
        mp.lib.sum(x[:, ::2])
    with pytest.raises(mp.LaunchValueError, match="no elements"):
        mp.lib.max(mp.zeros(0, mp.f32))
    with pytest.raises(mp.LaunchValueError, match="out= must be"):
        mp.lib.sum(x, out=mp.zeros((), mp.f64))

    @mp.struct
    class Point:
        x: mp.f32
        y: mp.f32

    with pytest.raises(mp.LaunchTypeError, match="reduces numbers"):
        mp.lib.sum(mp.zeros(3, Point))
