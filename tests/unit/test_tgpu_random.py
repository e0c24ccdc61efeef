"""Random integer kernels: on tiny-gpu they give the interpreter's values, at the costs that were estimated."""

from __future__ import annotations

import random

import numpy as np
import pytest

from magpie.backends.tgpu.estimate import METRICS, estimate
from magpie.backends.tgpu.interp import interpret
from magpie.backends.tgpu.kernel import compile_for
from magpie.backends.tgpu.simulator import simulate
from tests.conformance.harness import full_size
from tests.unit.test_tgpu_backend import bind, ir_of
from tests.unit.tgpu_random import random_kernel

PARTS, EACH = 8, 250 if full_size() else 8


@pytest.mark.filterwarnings("ignore::magpie.CompileWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_kernels(part, tmp_path):
    compared = 0
    for seed in range(part * EACH, part * EACH + EACH):
        compared += one(seed, tmp_path)
    assert compared >= EACH // 3


def one(seed, folder):
    """Whether the values of a kernel were compared: one that compares integers of unknown width may differ (2005)."""
    kernel = random_kernel(seed, folder)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    grid, block = rng.choice([(1, 1), (2, 5), (3, 4), (1, 8)])
    shape, n = (grid * block, 4), rng.choice([0, 1, 3, 6, -2])
    arrays = {
        "x": numbers.integers(-9, 9, shape).astype(np.int32),
        "b": numbers.integers(-128, 128, shape).astype(np.int8),
        "y": numbers.integers(-3, 3, shape).astype(np.int32),
        "c": np.zeros(shape, np.int8),
    }
    binding, memory = bind(grid, block, arrays, n=n)
    code = compile_for(ir_of(kernel), binding)
    again = compile_for(ir_of(random_kernel(seed, folder)), binding)
    assert again.text == code.text, "the same kernel has the same code"
    options = {"num_registers": code.num_registers, "shared_size": code.shared_size}
    run = simulate(code.program, (grid, block), memory, **options)
    other = interpret(code.program, (grid, block), memory, **options)
    assert (run.memory == other.memory).all() and run.opcodes == other.opcodes and run.cycles == other.cycles, seed
    costs = estimate(code.program, (grid, block), **options)
    assert run.instructions in costs.instructions and run.cycles in costs.cycles, seed
    assert all(run.opcodes.get(op, 0) in costs.accesses[name] for name, op in METRICS.items()), seed
    if code.warnings:
        return False
    kernel.launch(grid=grid, block=block, args=(*arrays.values(), n), backend="interp")
    expected = np.concatenate([a.astype(np.int32).reshape(-1) for a in arrays.values()])
    assert (run.memory == expected).all(), seed
    return True
