"""Corners of ONNX operators in which types and NaN decide: values by ONNX's specification, through NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import magpie as mp

onnx = pytest.importorskip("onnx")

from magpie.frontend.graph.onnx import import_model  # noqa: E402
from magpie.runtime.tensor_graph import TensorGraph  # noqa: E402


def imported(operator, inputs, constants=None, **attributes):
    h = onnx.helper
    names = [*inputs, *(constants or {})]
    graph = h.make_graph(
        [h.make_node(operator, names, ["y"], **attributes)],
        "net",
        [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
        [h.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    return TensorGraph(import_model(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])))


def check(operator, inputs, wanted, constants=None, **attributes):
    net = imported(operator, inputs, constants, **attributes)
    for got in (net.reference(inputs), net.compile("cpu").run(inputs), net.compile("interp", opt=0).run(inputs)):
        np.testing.assert_array_equal(got["y"], wanted, strict=True)


@pytest.mark.parametrize("operator", ["LessOrEqual", "GreaterOrEqual"])
def test_no_order_holds_for_nan(operator):
    x = np.array([np.nan, 1, np.nan, 2, -0.0, np.inf], np.float32)
    y = np.array([np.nan, np.nan, 1, 2, 0.0, -np.inf], np.float32)
    check(operator, {"a": x, "b": y}, x <= y if operator == "LessOrEqual" else x >= y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_arithmetic_on_eight_bits_has_eight_bits(dtype):
    x = np.array([100, 127, 3, 90], dtype)
    y = np.array([100, 2, 5, 3], dtype)
    check("Add", {"a": x, "b": y}, x + y)
    check("Sub", {"a": y, "b": x}, y - x)
    check("Mul", {"a": x, "b": y}, x * y)
    check("Div", {"a": x, "b": y}, x // y)
    check("Abs", {"a": x}, np.abs(x))


def test_powers_of_integers_are_integers():
    x = np.array([3, -7, 2, 12345, -100000], np.int32)
    for exponent in (1, 2, 3, 5):
        with np.errstate(over="ignore"):
            check("Pow", {"a": x}, np.power(x, np.int32(exponent)), {"b": np.array(exponent, np.int64)})
    for b in (-1.0, 0.5, np.inf):
        with pytest.raises(mp.CompileError, match="a power of integers"):
            imported("Pow", {"a": x}, {"b": np.array(b, np.float32)})


def test_many_parts_are_joined():
    parts = {f"x{k}": np.full((2, 3), k, np.float32) for k in range(150)}
    check("Concat", parts, np.concatenate(list(parts.values()), axis=1), axis=1)


def test_what_a_pad_takes_away():
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    check("Pad", {"x": x}, np.pad(x[1:, :-2], ((0, 2), (3, 0))), {"p": np.array([-1, 3, 2, -2], np.int64)})
