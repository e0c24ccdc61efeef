"""Tensor graphs on Vulkan devices give what NumPy says, in one submission a run."""

from __future__ import annotations

import numpy as np
import pytest
from graph_tools import Random, assert_close, parsed, random_array

import magpie as mp
from magpie.dtypes import f32, i8, i32
from magpie.frontend.graph.reference import evaluate
from magpie.runtime.tensor_graph import TensorGraph


@pytest.fixture(params=["llvmpipe", "SwiftShader", "a GPU"])
def device(request):
    software = ("llvmpipe", "SwiftShader")
    for found in mp.devices():
        fits = found.name.startswith(request.param) if request.param in software else not found.name.startswith(software)
        if found.backend == "spv" and fits:
            return found
    pytest.skip(f"there is no {request.param.removeprefix('a ')} here")


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(device, seed):
    made = Random(7000 + seed, ops=6, dtypes=(f32, i32, i8), extents=(1, 3, 17))
    if not made.graph.outputs:
        return
    with np.errstate(all="ignore"):
        want = evaluate(made.graph, made.inputs)
    compiled = TensorGraph(made.graph).compile(device=device)
    for _ in range(2):  # recorded, and again
        got = compiled.run(made.inputs)
        for value in made.graph.outputs:
            assert_close(got[value.name], want[value.name], value.dtype, f"{value!r}")


def test_a_product_through_shared_memory(device):
    text = "graph g(%a: f32[70, 33], %b: f32[33, 100]) {\n%c = matmul %a, %b\n%s = softmax %c\nreturn %c, %s\n}"
    graph = parsed(text)
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    want = evaluate(graph, inputs)
    compiled = TensorGraph(graph).compile(device=device)
    assert compiled.kernels[0].kernel.shared
    got = compiled.run(inputs)
    for value in graph.outputs:
        assert_close(got[value.name], want[value.name], value.dtype, value.name)
