"""ONNX models: what onnxruntime computes for them, and what is said of models that cannot be read."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import magpie as mp

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from graph_models import transformer_parts  # noqa: E402
from graph_tools import parsed  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from magpie.frontend.graph.onnx import import_model  # noqa: E402
from magpie.frontend.graph.printer import print_graph  # noqa: E402
from magpie.runtime.tensor_graph import TensorGraph  # noqa: E402

N = helper.make_node
rng = np.random.default_rng(1)


def f(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


def u(*shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, 256, shape).astype(np.uint8)


def s8(*shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-128, 128, shape).astype(np.int8)


def ints(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def model(nodes, inputs, outputs, constants, opset=17, name="net"):
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def theirs(made, inputs, outputs):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(made.SerializeToString(), options).run(outputs, inputs)


def check(nodes, inputs, outputs, constants, opset=17, tolerance=1e-5, backends=("cpu",)):
    made = model(nodes, inputs, outputs, constants, opset)
    want = theirs(made, inputs, outputs)
    net = TensorGraph(import_model(made))
    assert [v[0] for v in net.outputs] == list(outputs)
    text = print_graph(net.ir)
    assert print_graph(parsed(text)) == text
    runs = {"reference": net.reference(inputs)}
    runs |= {f"{b} -O{o}": net.compile(b, opt=o).run(inputs) for b in backends for o in (0, 2)}
    for what, got in runs.items():
        for name, w in zip(outputs, want, strict=True):
            x = got[name]
            assert x.shape == w.shape, (what, name)
            if w.dtype.kind in "iub":
                assert np.array_equal(x.astype(np.int64), w.astype(np.int64)), (what, name)
            else:
                assert np.abs(x - w).max() <= tolerance * max(1.0, np.abs(w).max()), (what, name)
    return net


def test_an_mlp():
    nodes = [N("Gemm", ["x", "w", "b"], ["h"], transB=1, name="fc1"), N("Relu", ["h"], ["r"]), N("Gemm", ["r", "v", "c"], ["y"], alpha=0.5)]
    net = check(nodes, {"x": f(5, 20)}, ["y"], {"w": f(33, 20), "b": f(33), "v": f(33, 10), "c": f(10)}, backends=("cpu", "interp"))
    assert [k.op.name for k in net.compile("cpu").kernels] == ["matmul", "matmul"]
    assert net.ir.producers[next(v for v in net.ir.values() if v.name == "h")].loc.function == "fc1"


def test_a_cnn():
    nodes = [
        N("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        N("BatchNormalization", ["c", "s", "t", "m", "v"], ["bn"]),
        N("Relu", ["bn"], ["r"]),
        N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Conv", ["p", "w2"], ["c2"], strides=[2, 2], group=2, auto_pad="SAME_UPPER"),
        N("GlobalAveragePool", ["c2"], ["gp"]),
        N("Flatten", ["gp"], ["fl"]),
        N("Gemm", ["fl", "fw"], ["g"]),
        N("Softmax", ["g"], ["y"]),
        N("AveragePool", ["c"], ["a"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        N("AveragePool", ["c"], ["a2"], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 1, 0, 0], count_include_pad=1),
        N("MaxPool", ["c"], ["mc"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    ]
    constants = {
        "w": f(8, 3, 3, 3), "b": f(8), "s": f(8), "t": f(8), "m": f(8), "v": abs(f(8)) + 0.5, "w2": f(6, 4, 3, 3), "fw": f(6, 10),
    }  # fmt: skip
    check(nodes, {"x": f(2, 3, 17, 19)}, ["y", "a", "a2", "mc"], constants, backends=("cpu", "interp"))


def transformer(layers=2, batch=2, length=12, width=32, heads=4):
    """The benchmark's model, small: pre-norm blocks as exporters write them."""
    nodes, inputs, output, constants = transformer_parts(layers, batch, length, width, heads)
    return nodes, inputs, [output], constants


def test_a_transformer():
    check(*transformer(), backends=("cpu", "interp"))


def test_a_layernorm_taken_apart():
    nodes = [
        N("ReduceMean", ["x"], ["mu"], axes=[-1]),
        N("Sub", ["x", "mu"], ["d"]),
        N("Pow", ["d", "two"], ["sq"]),
        N("ReduceMean", ["sq"], ["var"], axes=[-1]),
        N("Add", ["var", "eps"], ["ve"]),
        N("Sqrt", ["ve"], ["sd"]),
        N("Div", ["d", "sd"], ["y"]),
    ]
    nodes += [N("Mul", ["y", "g"], ["s"]), N("Add", ["s", "b"], ["z"])]
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "g": f(50), "b": f(50)}
    net = check(nodes, {"x": f(6, 50)}, ["z"], constants, backends=("cpu", "interp"))
    assert [k.op.name for k in net.compile("cpu").kernels] == ["layernorm"]
    # another epsilon's place, or a mean over another dimension, is no layernorm
    nodes[0] = N("ReduceMean", ["x"], ["mu"], axes=[0])
    net = check(nodes, {"x": f(6, 50)}, ["z"], constants)
    assert "layernorm" not in [k.op.name for k in net.compile("cpu").kernels]


QUANTISED = {
    "MatMulInteger": (
        [N("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
        {"a": u(5, 33)}, {"b": s8(33, 17), "za": np.uint8(120), "zb": np.int8(3)},
    ),
    "MatMulInteger, columns": (
        [N("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
        {"a": u(5, 33)}, {"b": s8(33, 17), "za": np.uint8(120), "zb": s8(17)},
    ),
    "QLinearMatMul": (
        [N("QLinearMatMul", ["a", "as", "za", "b", "bs", "zb", "ys", "zy"], ["y"])],
        {"a": u(5, 33)},
        {"as": np.float32(0.02), "za": np.uint8(120), "b": s8(33, 17), "bs": np.float32(0.03), "zb": np.int8(0), "ys": np.float32(2.5), "zy": np.uint8(7)},
    ),
    "ConvInteger": (
        [N("ConvInteger", ["a", "b", "za"], ["y"], pads=[1, 1, 1, 1])],
        {"a": u(1, 3, 9, 9)}, {"b": s8(4, 3, 3, 3), "za": np.uint8(120)},
    ),
    "QLinearConv": (
        [N("QLinearConv", ["a", "as", "za", "b", "bs", "zb", "ys", "zy", "c"], ["y"], pads=[1, 1, 1, 1])],
        {"a": u(1, 3, 9, 9)},
        {"as": np.float32(0.02), "za": np.uint8(120), "b": s8(4, 3, 3, 3), "bs": abs(f(4)) + 0.01, "zb": np.zeros(4, np.int8), "ys": np.float32(2.5), "zy": np.uint8(7), "c": np.array([1, 2, 3, -4], np.int32)},
    ),
    "QuantizeLinear": (
        [N("QuantizeLinear", ["a", "s", "z"], ["q"], axis=1), N("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1)],
        {"a": f(5, 7)}, {"s": abs(f(7)) / 50 + 0.001, "z": s8(7)},
    ),
    "DynamicQuantizeLinear": (
        [N("DynamicQuantizeLinear", ["a"], ["q", "s", "z"]), N("MatMulInteger", ["q", "b", "z"], ["i"]),
         N("Cast", ["i"], ["c"], to=TensorProto.FLOAT), N("Mul", ["c", "s"], ["y"])],
        {"a": f(5, 7)}, {"b": s8(7, 6)},
    ),
    "an i32 layer": (
        [N("MatMulInteger", ["a", "b"], ["h"]), N("Add", ["h", "c"], ["i"]), N("Relu", ["i"], ["r"]), N("MatMul", ["r", "d"], ["y"])],
        {"a": s8(5, 33)}, {"b": s8(33, 8), "c": np.arange(8, dtype=np.int32), "d": np.arange(24, dtype=np.int32).reshape(8, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised(name):
    nodes, inputs, constants = QUANTISED[name]
    check(nodes, inputs, ["y"], constants, backends=("cpu", "interp"))


X, ROW = f(6, 10), f(10)
OPERATORS = {
    "Slice": ([N("Slice", ["x", "a", "b", "c", "d"], ["y"])], {"a": ints(1), "b": ints(1000), "c": ints(1), "d": ints(2)}),
    "Concat": ([N("Concat", ["x", "z"], ["y"], axis=1)], {"z": f(6, 3)}),
    "Unsqueeze": ([N("Unsqueeze", ["x", "a"], ["u"]), N("Squeeze", ["u", "b"], ["y"])], {"a": ints(0, 2), "b": ints(2)}),
    "Gather": ([N("Gather", ["x", "i"], ["y"], axis=1)], {"i": ints([0, -1], [3, 2])}),
    "Where": ([N("Greater", ["x", "z"], ["g"]), N("Where", ["g", "x", "z"], ["y"])], {"z": X * -1}),
    "LessOrEqual": ([N("LessOrEqual", ["x", "z"], ["y"])], {"z": X * -1}),
    "Pad": ([N("Pad", ["x", "p"], ["y"])], {"p": ints(1, 2, 0, 1)}),
    "ReduceMax": ([N("ReduceMax", ["x"], ["y"], axes=[0])], {}),
    "ReduceSum": ([N("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"a": ints(-1)}),
    "ArgMax": ([N("ArgMax", ["x"], ["y"], axis=1)], {}),
    "HardSwish": ([N("HardSwish", ["x"], ["y"])], {}),
    "HardSigmoid": ([N("HardSigmoid", ["x"], ["y"])], {}),
    "Elu": ([N("Elu", ["x"], ["y"])], {}),
    "LeakyRelu": ([N("LeakyRelu", ["x"], ["y"], alpha=0.2)], {}),
    "Softplus": ([N("Softplus", ["x"], ["y"])], {}),
    "LogSoftmax": ([N("LogSoftmax", ["x"], ["y"])], {}),
    "Clip": ([N("Clip", ["x", "a", "b"], ["y"])], {"a": np.float32(-0.5), "b": np.float32(0.7)}),
    "Cast": ([N("Cast", ["x"], ["y"], to=TensorProto.INT32)], {}),
    "Max": ([N("Max", ["x", "a", "b"], ["y"])], {"a": ROW, "b": np.float32(0)}),
    "Mean": ([N("Mean", ["x", "a"], ["y"])], {"a": X * 3}),
    "Reciprocal": ([N("Reciprocal", ["x"], ["y"])], {}),
    "Pow": ([N("Abs", ["x"], ["a"]), N("Pow", ["a", "e"], ["y"])], {"e": np.float32(1.7)}),
    "Split": ([N("Split", ["x", "s"], ["a", "y"], axis=1)], {"s": ints(3, 7)}),
    "MatMul of a vector": ([N("MatMul", ["x", "v"], ["y"])], {"v": ROW}),
    "shapes": (
        [N("Shape", ["x"], ["s"]), N("Gather", ["s", "i"], ["n"]), N("Unsqueeze", ["n", "a"], ["u"]), N("Concat", ["u", "m"], ["t"], axis=0),
         N("Reshape", ["x", "t"], ["y"])],
        {"i": np.array(0, np.int64), "a": ints(0), "m": ints(-1)},
    ),
    "Expand": ([N("Shape", ["x"], ["s"]), N("Expand", ["c", "s"], ["e"]), N("Add", ["e", "x"], ["y"])], {"c": f(1)}),
    "ConstantOfShape": ([N("Shape", ["x"], ["s"]), N("ConstantOfShape", ["s"], ["e"]), N("Add", ["e", "x"], ["y"])], {}),
    "Constant": ([N("Constant", [], ["c"], value_float=2.5), N("Mul", ["x", "c"], ["y"])], {}),
    "Conv of one dimension": (
        [N("Unsqueeze", ["x", "a"], ["u"]), N("Conv", ["u", "w"], ["y"], pads=[1, 1], strides=[2])], {"a": ints(0), "w": f(4, 6, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    nodes, constants = OPERATORS[name]
    check(nodes, {"x": X}, ["y"], constants)


def errors(made, **options):
    with pytest.raises(mp.CompileError) as caught:
        import_model(made, **options)
    return caught.value.diagnostics


def test_all_unsupported_operators_are_listed_with_their_nodes():
    nodes = [
        N("NonZero", ["x"], ["a"], name="first"),
        N("Relu", ["x"], ["r"]),
        N("Det", ["r"], ["b"], name="second"),
        N("Relu", ["b"], ["c"], name="follows"),
        N("Pad", ["x", "p"], ["y"], mode="reflect", name="third"),
    ]
    found = errors(model(nodes, {"x": f(4, 4)}, ["y", "c"], {"p": ints(1, 1, 1, 1)}))
    assert [d.code for d in found] == ["MPG_GRAPH_1012"] * 3
    assert [d.loc.function for d in found] == ["first", "second", "third"]
    assert "Det" in found[1].message and "'second'" in found[1].message and "reflect" in found[2].message


def test_symbolic_extents():
    made = model([N("Relu", ["x"], ["y"])], {"x": f(2, 3)}, ["y"], {})
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    (found,) = errors(made)
    assert found.code == "MPG_GRAPH_1013" and "'batch'" in found.message and "sizes={'batch'" in found.help
    assert import_model(made, sizes={"batch": 7}).inputs[0].shape == (7, 3)
    assert import_model(made, sizes={"batch": np.int64(7)}).inputs[0].shape == (7, 3)


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, "8", None])
def test_extents_are_whole_numbers(wrong):
    made = model([N("Relu", ["x"], ["y"])], {"x": f(2, 3)}, ["y"], {})
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    (found,) = errors(made, sizes={"batch": wrong})
    assert found.code == "MPG_GRAPH_1013" and "whole numbers from 1 on" in found.message and repr(wrong) in found.message


def test_extents_that_the_model_has_not():
    made = model([N("Relu", ["x"], ["y"])], {"x": f(2, 3)}, ["y"], {})
    (found,) = errors(made, sizes={"batch": 2})
    assert found.code == "MPG_GRAPH_1013" and "no input has an extent 'batch'" in found.message
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    (found,) = errors(made, sizes={"batch": 2, "N": 2})
    assert "there are N" in found.message
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    (found,) = errors(made)
    assert found.code == "MPG_GRAPH_1013" and "an extent of 0" in found.message


def test_values_that_two_nodes_make():
    nodes = [N("Relu", ["x"], ["y"]), N("Neg", ["x"], ["y"], name="again")]
    (found,) = errors(model(nodes, {"x": f(2, 3)}, ["y"], {}))
    assert found.code == "MPG_GRAPH_1011" and "'again'" in found.message and "'y'" in found.message


def test_no_source_is_shown_of_a_binary_file(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(model([N("Relu", ["z"], ["y"])], {"x": f(2, 3)}, ["y"], {}).SerializeToString())
    with pytest.raises(mp.CompileError) as caught:
        mp.graph.load(path)
    assert str(caught.value).endswith("net.onnx:1:1")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (N("Gemm", ["x", "x"], ["y"], name="n"), "[4, 6] and [4, 6]"),
        (N("Softmax", ["x"], ["y"], axis=9, name="n"), "axis 9"),
        (N("Relu", ["nowhere"], ["y"], name="n"), "'nowhere'"),
        (N("Transpose", ["x"], ["y"], perm=[0, 0], name="n"), "perm=[0, 0]"),
        (N("Relu", [], ["y"], name="n"), "input 0 is missing"),
        (N("Slice", ["x"], ["y"], name="n"), "starts is missing"),
        (N("Tile", ["x", ""], ["y"], name="n"), "repeats is missing"),
        (N("Split", ["x"], [], name="n"), "ZeroDivisionError"),
        (N("Concat", ["x"], ["y"], name="n"), "int()"),
    ],
)
def test_damaged_nodes_are_named(node, text):
    made = helper.make_model(
        helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])], [helper.make_empty_tensor_value_info("y")]
        )
    )
    (found,) = errors(made)
    assert found.code == "MPG_GRAPH_1011" and found.message.startswith("node 'n'") and text in found.message


def test_files(tmp_path):
    nodes, inputs, outputs, constants = transformer(1)
    path = tmp_path / "net.onnx"
    made = model(nodes, inputs, outputs, constants)
    onnx.save(made, path)
    net = mp.graph.load(path)
    want = theirs(made, inputs, outputs)[0]
    assert np.abs(net.run(inputs, "cpu")[outputs[0]] - want).max() < 1e-4
    with pytest.raises(FileNotFoundError):
        mp.graph.load(tmp_path / "other.onnx")
    for data in (b"", b"no model", path.read_bytes()[:1000]):
        path.write_bytes(data)
        with pytest.raises(mp.CompileError) as caught:
            mp.graph.load(path)
        assert caught.value.diagnostics[0].code.startswith("MPG_GRAPH_101")


def test_fuzzed_files_give_diagnostics_only(tmp_path):
    r = random.Random(5)
    texts = [model(*transformer(1, 1, 3, 4, 2)).SerializeToString()]
    texts += [model(n, i, ["y"], c).SerializeToString() for n, i, c in QUANTISED.values()]
    texts += [model(n, {"x": X}, ["y"], c).SerializeToString() for n, c in OPERATORS.values()]
    path = tmp_path / "net.onnx"
    read = 0
    for _ in range(2000):
        data = bytearray(r.choice(texts))
        for _ in range(r.choice((1, 1, 2, 5))):
            at = r.randrange(len(data))
            if r.random() < 0.2:
                del data[at : at + r.randint(1, 30)]
            else:
                data[at] = r.choice((data[at] ^ (1 << r.randrange(8)), r.randrange(256)))
        path.write_bytes(bytes(data))
        read += readable(path)
    assert read > 20  # some mutations change a weight or a name alone


def readable(path):
    try:
        mp.graph.load(path)
    except mp.CompileError as error:
        assert all(d.code.startswith("MPG_GRAPH_10") for d in error.diagnostics)  # noqa: PT017
        return 0
    return 1


def test_without_the_package_the_error_says_what_to_install(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(mp.CompileError) as caught:
        mp.graph.load(tmp_path / "net.onnx")
    assert caught.value.code == "MPG_GRAPH_1010" and "magpie-gpu[onnx]" in str(caught.value)
