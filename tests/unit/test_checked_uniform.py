"""Uniform values in checked mode, as GPU targets compare them: work-item 0's value counts, who differs reports."""

from __future__ import annotations

import numpy as np
import pytest
from kir import arrays, kernel

from magpie.backends.interp.engine import Program
from magpie.dtypes import ALL_DTYPES, bool_, f32, i32
from magpie.ir.nodes import SharedArray, walk
from magpie.ir.verify import verify
from magpie.passes import prepare
from magpie.passes.checked_uniform import check_uniform


def checked(params, body, **fields):
    """The kernel as checked mode has it, and the asserts that were put in."""
    k = check_uniform(prepare(kernel(params, body, **fields)))
    verify(k)
    return k, [n for n in walk(k.body) if n.op == "assert" and n.attrs.get("kind") == "uniform"]


@pytest.mark.parametrize("t", ALL_DTYPES, ids=lambda t: t.name)
def test_all_go_on_with_the_value_of_item_0(t):
    x, y = arrays((t, t))
    k, asserts = checked([x, y], lambda b: b.store(y, (b.gid(),), b.emit("uniform", b.load(x, b.gid()))))
    assert len(asserts) == 1
    values = np.arange(66).astype(t.numpy)
    out = np.zeros(66, t.numpy)
    Program(k).run((2,), (33,), [values, out])
    assert (out[:33] == values[0]).all()
    assert (out[33:] == values[33]).all()


def test_a_nan_is_the_same_as_itself():
    x, y = arrays((f32, f32))
    k, _ = checked([x, y], lambda b: b.store(y, (b.gid(),), b.emit("uniform", b.load(x, b.gid()))))
    out = np.zeros(8, np.float32)
    assert not Program(k).run((1,), (8,), [np.full(8, np.nan, np.float32), out]).reports
    assert np.isnan(out).all()


def test_nothing_is_compared_where_not_all_come_by():
    x, y = arrays((bool_, i32))

    def body(b):
        value = b.load(x, b.gid())
        b.when(b.emit("lt", b.tid(), b.i(3)), lambda: b.when(b.emit("uniform", value), lambda: None))
        b.when(value, lambda: b.emit("return"))
        b.store(y, (b.gid(),), b.cast(b.emit("uniform", value), i32))

    assert checked([x, y], body)[1] == []


def test_a_branch_in_doubt_before_a_barrier_is_compared():
    """Every work-item reads the word that all of them write: uniform if nobody races, which a barrier must not trust."""
    x, y = arrays((i32, i32))
    s = SharedArray("s", i32, (1,))

    def body(b):
        b.store(s, (b.i(0),), b.load(x, b.gid()))
        doubt = b.emit("gt", b.load(s, b.i(0)), b.const(0, i32))
        b.when(doubt, lambda: b.emit("barrier"))
        b.store(y, (b.gid(),), b.const(1, i32))

    k, asserts = checked([x, y], body, shared=[s])
    assert len(asserts) == 1
    out = np.zeros(4, np.int32)
    Program(k).run((1,), (4,), [np.ones(4, np.int32), out])
    assert out.tolist() == [1, 1, 1, 1]
