"""The ONNX models of `bench_graph.py`, as exporters write them, with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

__all__ = ["MODELS", "cnn", "mlp", "transformer", "transformer_parts"]

Array = np.ndarray[Any, Any]
N = helper.make_node


def _model(nodes: list[Any], inputs: dict[str, Array], output: str, constants: dict[str, Any]) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(output)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cnn(batch: int = 1) -> tuple[ModelProto, dict[str, Array]]:
    """Images of 28 x 28, two 3 x 3 convolutions of 32 and 64 channels, pooling after each, and two dense layers."""
    rng = np.random.default_rng(1)

    def f(*shape: int) -> Array:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    nodes = [
        N("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        N("Relu", ["c1"], ["r1"]),
        N("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Conv", ["p1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        N("Relu", ["c2"], ["r2"]),
        N("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Flatten", ["p2"], ["f"]),
        N("Gemm", ["f", "w3", "b3"], ["h"], transB=1),
        N("Relu", ["h"], ["r3"]),
        N("Gemm", ["r3", "w4", "b4"], ["y"], transB=1),
    ]
    constants = {
        "w1": f(32, 1, 3, 3), "b1": f(32), "w2": f(64, 32, 3, 3), "b2": f(64),
        "w3": f(128, 64 * 49), "b3": f(128), "w4": f(10, 128), "b4": f(10),
    }  # fmt: skip
    x = rng.standard_normal((batch, 1, 28, 28)).astype(np.float32)
    return _model(nodes, {"x": x}, "y", constants), {"x": x}


def transformer_parts(
    layers: int = 2, batch: int = 1, length: int = 128, width: int = 256, heads: int = 8
) -> tuple[list[Any], dict[str, Array], str, dict[str, Any]]:
    """Nodes, inputs, the output and constants of blocks with a norm before attention and before the two dense layers.

    Attention is made of reshapes and transpositions, and GELU of erf.
    """
    rng = np.random.default_rng(1)
    nodes: list[Any] = []
    constants: dict[str, Any] = {"half": np.float32(0.5), "one": np.float32(1.0), "root": np.float32(2**0.5)}
    constants["split"] = np.array([0, 0, heads, width // heads], np.int64)
    constants["join"] = np.array([0, 0, width], np.int64)
    constants["scale"] = np.float32((width // heads) ** 0.5)

    def linear(x: str, name: str, a: int, b: int) -> str:
        constants[name + "w"] = (rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32)
        constants[name + "b"] = rng.standard_normal(b).astype(np.float32)
        nodes.extend([N("MatMul", [x, name + "w"], [name + "m"]), N("Add", [name + "b", name + "m"], [name])])
        return name

    def norm(x: str, name: str) -> str:
        constants[name + "g"] = rng.standard_normal(width).astype(np.float32)
        constants[name + "c"] = rng.standard_normal(width).astype(np.float32)
        nodes.append(N("LayerNormalization", [x, name + "g", name + "c"], [name]))
        return name

    source = "x"
    for k in range(layers):
        p = f"l{k}."
        qkv = linear(norm(source, p + "n1"), p + "qkv", width, 3 * width)
        nodes.append(N("Split", [qkv], [p + c for c in "qkv"], axis=2))
        for c in "qkv":
            nodes.append(N("Reshape", [p + c, "split"], [p + c + "r"]))
            nodes.append(N("Transpose", [p + c + "r"], [p + c + "t"], perm=[0, 2, 3, 1] if c == "k" else [0, 2, 1, 3]))
        nodes += [
            N("MatMul", [p + "qt", p + "kt"], [p + "s"]),
            N("Div", [p + "s", "scale"], [p + "d"]),
            N("Softmax", [p + "d"], [p + "a"], axis=-1),
            N("MatMul", [p + "a", p + "vt"], [p + "o"]),
            N("Transpose", [p + "o"], [p + "ot"], perm=[0, 2, 1, 3]),
            N("Reshape", [p + "ot", "join"], [p + "or"]),
        ]
        nodes.append(N("Add", [linear(p + "or", p + "proj", width, width), source], [p + "res"]))
        up = linear(norm(p + "res", p + "n2"), p + "up", width, 4 * width)
        nodes += [
            N("Div", [up, "root"], [p + "e1"]),
            N("Erf", [p + "e1"], [p + "e2"]),
            N("Add", [p + "e2", "one"], [p + "e3"]),
            N("Mul", [up, p + "e3"], [p + "e4"]),
            N("Mul", [p + "e4", "half"], [p + "gelu"]),
        ]
        nodes.append(N("Add", [linear(p + "gelu", p + "down", 4 * width, width), p + "res"], [p + "out"]))
        source = p + "out"
    x = rng.standard_normal((batch, length, width)).astype(np.float32)
    return nodes, {"x": x}, source, constants


def transformer(*sizes: int) -> tuple[ModelProto, dict[str, Array]]:
    """The model of `transformer_parts`."""
    nodes, inputs, output, constants = transformer_parts(*sizes)
    return _model(nodes, inputs, output, constants), inputs


def mlp(batch: int = 32) -> tuple[ModelProto, dict[str, Array]]:
    """Three dense layers of 512."""
    rng = np.random.default_rng(1)
    nodes, constants, source = [], {}, "x"
    for k in range(3):
        constants[f"w{k}"] = (rng.standard_normal((512, 512)) / np.sqrt(512)).astype(np.float32)
        constants[f"b{k}"] = rng.standard_normal(512).astype(np.float32)
        nodes += [N("Gemm", [source, f"w{k}", f"b{k}"], [f"h{k}"]), N("Relu", [f"h{k}"], [f"r{k}"])]
        source = f"r{k}"
    x = rng.standard_normal((batch, 512)).astype(np.float32)
    return _model(nodes, {"x": x}, source, constants), {"x": x}


MODELS = {
    "cnn, 1 image": lambda: cnn(1),
    "cnn, 8 images": lambda: cnn(8),
    "transformer, 128 x 256": transformer,
    "transformer, 32 x 64": lambda: transformer(2, 1, 32, 64, 4),
    "mlp, 32 x 512": mlp,
}
