"""Elementary functions have the same bits on every target that keeps denormals: one library for all of them."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import magpie as mp
from magpie.backends.interp.numerics.elementary import ELEMENTARY

from . import oracle as o
from .harness import full_size, targets

TWO = ("pow", "atan2", "hypot")
COUNT = 1 << 12


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """One kernel for each function."""
    text = "import magpie as mp\n"
    for op in sorted(ELEMENTARY):
        call = f"mp.{op}(x[i], y[i])" if op in TWO else f"mp.{op}(x[i])"
        text += f"\n@mp.kernel\ndef k_{op}(x, y, z):\n    i = mp.global_id(0)\n    z[i] = {call}\n"
    file = tmp_path_factory.mktemp("kernels") / "math_bits_kernels.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[file.stem]


def inputs(t, seed):
    rng = np.random.default_rng(seed)
    u = np.dtype(f"u{t.itemsize}")
    raw = rng.integers(0, np.iinfo(u).max, COUNT, dtype=u, endpoint=True).view(t.numpy)
    plain = rng.uniform(-30, 30, COUNT).astype(np.float32).astype(t.numpy)
    return np.where(rng.random(COUNT) < 0.5, raw, plain).astype(t.numpy)


@pytest.mark.parametrize("op", sorted(ELEMENTARY))
@pytest.mark.parametrize("t", [mp.f32, mp.f64, mp.f16], ids=str)
def test_bits(kernels, op, t):
    found = [x for x in targets() if not x.manifest.flushes_denormals and x.has(["f16_arithmetic", "f64"])]
    x, y = inputs(t, 1), inputs(t, 2)
    results = []
    for target in found:
        z = np.zeros(COUNT, t.numpy)
        getattr(kernels, f"k_{op}").launch(grid=COUNT // 64, block=64, args=(x, y, z), device=target.device)
        results.append(np.where(np.isnan(z), np.nan, z).astype(t.numpy).view(f"u{t.itemsize}"))
    for target, other in zip(found[1:], results[1:], strict=True):
        bad = np.flatnonzero(results[0] != other)
        assert not len(bad), f"{found[0].name} and {target.name} differ at {x[bad[0]]!r}, {y[bad[0]]!r}"


@pytest.mark.parametrize("op", sorted(ELEMENTARY) if full_size() else ["exp", "log", "pow", "sin"])
@pytest.mark.parametrize("t", [mp.f32, mp.f64, *([mp.f16, mp.bf16] if full_size() else [])], ids=str)
def test_bits_of_normal_numbers(kernels, op, t):
    """On targets that flush denormals, too: the same bits, or a zero where the interpreter has a denormal."""
    needs = [c for name, c in (("f64", "f64"), ("f16", "f16_arithmetic"), ("bf16", "bf16")) if name == t.name]
    found = [x for x in targets() if x.manifest.flushes_denormals and x.has(needs)]
    if not found:
        pytest.skip("no target here flushes denormals")
    wide = mp.f64 if t is mp.f64 else mp.f32
    with np.errstate(all="ignore"):
        x, y = (inputs(wide, k).astype(t.numpy) for k in (1, 2))
        x, y = (np.where(o.is_denormal(v), np.ones_like(v), v) for v in (x, y))
    results = []
    for device in ["interp", *(x.device for x in found)]:
        z = np.zeros(COUNT, t.numpy)
        getattr(kernels, f"k_{op}").launch(grid=COUNT // 64, block=64, args=(x, y, z), device=device)
        results.append(z)
    want = results[0]
    for target, got in zip(found, results[1:], strict=True):
        with np.errstate(all="ignore"):
            nan = np.isnan(want.astype(np.float64)) & np.isnan(got.astype(np.float64))
        same = (want.view(f"u{t.itemsize}") == got.view(f"u{t.itemsize}")) | nan | (o.is_denormal(want) & (got == 0))
        bad = np.flatnonzero(~same)
        assert not len(bad), f"{target.name} at {x[bad[0]]!r}, {y[bad[0]]!r}: {got[bad[0]]!r}, not {want[bad[0]]!r}"
