"""The programs of examples/mp on this machine's GPU, through CUDA and through Vulkan."""

from __future__ import annotations

import pytest

import magpie as mp
from tests.unit.test_mp_examples import ABSENT, LACKS, RIGHT, expect


def _missing(backend):
    try:
        device = mp.device(backend)
    except mp.GpuError as error:
        return error.message
    return "a driver that runs on the processor" if device.software else None


REASONS = {backend: _missing(backend) for backend in ("cuda", "vulkan")}
SIMD = {"simd_sum_msl": LACKS["simd_sum_msl"]}


@pytest.mark.parametrize("name", [*RIGHT, *ABSENT])
@pytest.mark.parametrize("backend", [*REASONS])
def test_gpu_runs_the_programs(backend, name):
    if REASONS[backend] is not None:
        pytest.skip(REASONS[backend])
    expect(name, backend, ABSENT | (SIMD if backend == "cuda" else LACKS))


@pytest.mark.parametrize(("backend", "name"), [("cuda", "vector_add_ptx"), ("cuda", "device_malloc"), ("vulkan", "reduce_sum")])
def test_gpu_is_chosen_by_the_target_of_the_kernels(backend, name):
    if REASONS[backend] is not None:
        pytest.skip(REASONS[backend])
    expect(name, None, {})
