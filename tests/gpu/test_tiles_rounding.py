"""How far products on this GPU's matrix units are from exact ones, beside the bound of docs/LANGUAGE.md."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

pytestmark = pytest.mark.skipif(
    not any("cuda.tensor_cores" in d.capabilities for d in mp.devices()), reason="no device with tensor cores"
)

# unit of the bound, and of the elements that take part: tf32 has 10 bits of fraction
BOUND = {mp.f16: 2.0**-22, mp.bf16: 2.0**-22, mp.f32: 2.0**-22, mp.f64: 2.0**-52}


def taken(a, t):
    """The numbers that a product takes: f32 rounded to tf32, ties away from zero."""
    if t is not mp.f32:
        return a.astype(np.float64)
    bits = a.view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("t", BOUND, ids=lambda t: t.name)
@pytest.mark.parametrize("spread", [0, 8])
def test_every_element_is_within_the_bound(t, spread):
    rng = np.random.default_rng([t.bits, spread])
    m, n, k = 200, 150, 500

    def draw(*shape):
        wide = rng.standard_normal(shape) * np.exp2(rng.integers(-spread, spread + 1, shape))
        return wide.astype(np.float32).astype(t.numpy)

    x, y = draw(m, k), draw(k, n)
    device = next(d for d in mp.devices() if "cuda.tensor_cores" in d.capabilities)
    held = mp.f64 if t is mp.f64 else mp.f32
    got = mp.lib.matmul(mp.asarray(x, device=device.id), mp.asarray(y, device=device.id), dtype=held, tf32=True)
    left, right = (taken(a, t).astype(np.longdouble) for a in (x, y))
    error = np.abs(got.to_numpy().astype(np.longdouble) - left @ right)
    allowed = (k + 1) * BOUND[t] * (np.abs(left) @ np.abs(right))
    print(f"{t.name}: at most {float((error / allowed).max()):.2e} of the bound")
    assert (error <= allowed).all()
