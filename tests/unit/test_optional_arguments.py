"""Arguments that may be left out, and structs that a kernel captured and the program changes in place."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

BACKENDS = ("cpu", "interp")


@mp.kernel
def declared(x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1], mask: mp.Array[mp.f32, 1] = None, by: mp.f32 = None):
    i = mp.global_id(0)
    v = x[i]
    if mask is not None:
        v *= mask[i]
    if by is not None:
        v += by
    y[i] = v


@mp.kernel
def bare(x, y, mask=None, by=None):
    i = mp.global_id(0)
    v = x[i]
    if mask is not None:
        v *= mask[i]
    if by is not None:
        v += by
    y[i] = v


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kernel", [declared, bare], ids=["declared", "bare"])
@pytest.mark.parametrize("make", [lambda a: a, mp.asarray], ids=["numpy", "mp"])
def test_each_combination_in_any_order_and_again(kernel, make, backend):
    x = np.arange(8, dtype=np.float32)
    m = np.full(8, 3, np.float32)
    given = make(x), make(m)
    for _ in range(3):  # later rounds are launches that were seen before
        for mask, by in ((None, None), (given[1], None), (None, 2.0), (given[1], 2.0)):
            y = make(np.zeros(8, np.float32))
            kernel.launch(grid=1, block=8, args=(given[0], y, mask, by), backend=backend)
            want = x * (1 if mask is None else 3) + (0 if by is None else 2)
            assert np.array_equal(np.asarray(y), want), (mask is not None, by)
    y = make(np.zeros(8, np.float32))
    kernel.launch(grid=1, block=8, args=(given[0], y), backend=backend)
    assert np.array_equal(np.asarray(y), x)
    kernel.launch(grid=1, block=8, args=(given[0], y), kwargs={"by": 1.0}, backend=backend)
    assert np.array_equal(np.asarray(y), x + 1)


def test_without_the_default_none_is_refused_with_what_to_write():
    @mp.kernel
    def k(x: mp.Array[mp.f32, 1]):
        x[0] = 1.0

    with pytest.raises(mp.LaunchTypeError, match="argument 'x' must be an array; got None") as caught:
        k[1, 1](None)
    assert caught.value.help == "give 'x' the default None in the kernel's signature if it may be left out"


@mp.struct
class Inner:
    a: mp.f32


@mp.struct
class Outer:
    inner: Inner
    n: mp.i32


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_captured_struct_that_changes_in_place_is_seen(backend):
    held = Outer(Inner(1.5), 2)

    @mp.func
    def factor():
        return held.inner.a

    @mp.kernel
    def k(y: mp.Array[mp.f32, 1]):
        y[mp.global_id(0)] = factor() * held.n

    y = np.zeros(4, np.float32)

    def value():
        k.launch(grid=1, block=4, args=(y,), backend=backend)
        return y[0]

    assert value() == 3 and value() == 3
    held.n = 4
    assert value() == 6
    held.inner.a = 0.25
    assert value() == 1 and value() == 1
    held.inner = Inner(8.0)
    assert value() == 32
    assert len(k.variants()) == 4
