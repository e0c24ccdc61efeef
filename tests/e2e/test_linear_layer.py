"""The example of a layer on matrix tiles, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp
from examples.linear_layer import linear_relu


@pytest.mark.parametrize("backend", ["cpu", "interp"])
@pytest.mark.parametrize("t", [mp.f16, mp.bf16], ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 32), (37, 100, 50)])
def test_a_layer(backend, t, m, n, k):
    rng = np.random.default_rng([m, n, k])
    x, w, bias = (rng.standard_normal(shape).astype(np.float32).astype(t.numpy) for shape in ((m, k), (k, n), (n,)))
    out = np.full((m, n), 77, t.numpy)
    linear_relu(x, w, bias, out, backend=backend)
    want = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + bias.astype(np.float64), 0)
    # one rounding to the result's type, beside sums in f32
    unit = 2.0**-8 if t is mp.bf16 else 2.0**-11
    assert (np.abs(out.astype(np.float64) - want) <= unit * want + 1e-4).all()
    assert (out.astype(np.float64) > 0).any() and (out == 0).any()
