"""Tensor graphs on a real device: random ones, products through shared memory, and the example of the digits."""

from __future__ import annotations

import numpy as np
import pytest

from magpie.frontend.graph.reference import evaluate
from magpie.runtime.tensor_graph import TensorGraph
from tests.gpu.test_gpu import DEVICE
from tests.unit.graph_tools import Random, assert_close, parsed, random_array

pytestmark = pytest.mark.skipif(DEVICE is None, reason="no CUDA device")


def check(graph, inputs):
    with np.errstate(all="ignore"):
        want = evaluate(graph, inputs)
    compiled = TensorGraph(graph).compile("cuda")
    for _ in range(2):  # recorded, and again
        got = compiled.run(inputs)
        for value in graph.outputs:
            assert_close(got[value.name], want[value.name], value.dtype, f"{value!r}")


@pytest.mark.parametrize("seed", range(40))
def test_gpu_random_graphs(seed):
    made = Random(8000 + seed)
    if made.graph.outputs:
        check(made.graph, made.inputs)


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 33, 100), (256, 512, 192)])
@pytest.mark.parametrize("types", [("f32", "f32"), ("i8", "i32"), ("f16", "f16"), ("bf16", "bf16")])
def test_gpu_products(shape, types):
    (m, k, n), (t, out) = shape, types
    graph = parsed(
        f"graph g(%a: {t}[2, {m}, {k}], %b: {t}[2, {k}, {n}], %s: {out}[{n}]) {{\n%c = matmul %a, %b\n%y = bias %c, %s\n"
        "return %y\n}"
    )
    rng = np.random.default_rng(3)
    check(graph, {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs})


def test_gpu_digits(capsys):
    pytest.importorskip("onnx")
    pytest.importorskip("sklearn")
    from examples import digits_mlp

    assert digits_mlp.main() == 0
    assert "cuda       9" in capsys.readouterr().out
