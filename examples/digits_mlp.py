"""An int8 MLP that reads handwritten digits, from training to tiny-gpu: `python -m examples.digits_mlp`.

Two dense layers are trained on the digits of scikit-learn (8 x 8 pixels of 0 to 16), quantised to integers, and
exported to ONNX: the pixels and the weights are int8, sums int32. Every target that this machine has then computes
the same numbers from the file; tiny-gpu's simulator says what it costs there.

It takes `pip install onnx scikit-learn`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import magpie as mp
from magpie.backends.tgpu.runner import run_launch
from magpie.runtime.tensor_launch import launch_document

HIDDEN = 24
TARGETS = ("interp", "cpu", "vulkan", "cuda", "hip")


def quantised(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights as int8, and the factor that they were multiplied by."""
    factor = 127.0 / float(np.abs(weights).max())
    return np.rint(weights * factor).astype(np.int8), factor


def trained() -> tuple[list[np.ndarray], np.ndarray, np.ndarray, float]:
    """[int8 weights, int32 biases, int8 weights, int32 biases], the test images as int8, their digits, and the accuracy
    of the float network on them."""
    images, digits = load_digits(return_X_y=True)
    train, test, wanted, expected = train_test_split(images, digits, test_size=0.25, random_state=0, stratify=digits)
    net = MLPClassifier((HIDDEN,), max_iter=400, random_state=0).fit(train, wanted)
    (w1, w2), (b1, b2) = net.coefs_, net.intercepts_
    first, f1 = quantised(w1)
    second, f2 = quantised(w2)
    # the sums of a layer are larger by the factors of all weights before them, and the biases are too
    layers = [first, np.rint(b1 * f1).astype(np.int32), second, np.rint(b2 * f1 * f2).astype(np.int32)]
    return layers, test.astype(np.int8), expected, float(net.score(test, expected))


def exported(layers: list[np.ndarray], count: int, path: Path) -> None:
    """The network for ``count`` images as an ONNX file."""
    names = ("w1", "b1", "w2", "b2")
    nodes = [
        helper.make_node("MatMulInteger", ["pixels", "w1"], ["s1"], name="dense1"),
        helper.make_node("Add", ["s1", "b1"], ["t1"], name="bias1"),
        helper.make_node("Relu", ["t1"], ["h"], name="relu"),
        helper.make_node("Cast", ["w2"], ["w2i"], to=TensorProto.INT32),
        helper.make_node("MatMul", ["h", "w2i"], ["s2"], name="dense2"),
        helper.make_node("Add", ["s2", "b2"], ["scores"], name="bias2"),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.INT8, [count, 64])],
        [helper.make_tensor_value_info("scores", TensorProto.INT32, [count, 10])],
        [numpy_helper.from_array(data, name) for name, data in zip(names, layers, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main() -> int:
    """Train, export, run everywhere; 1 if a target's scores are others than NumPy's."""
    layers, images, expected, accuracy = trained()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        exported(layers, len(images), path)
        net = mp.graph.load(path)
    scores = {"numpy": net.reference({"pixels": images})["scores"]}
    run = run_launch(launch_document(net.ir), {"pixels": images})
    scores["tiny-gpu"] = run.outputs["scores"]
    for target in TARGETS:
        try:
            scores[target] = net.run({"pixels": images}, target)["scores"]
        except mp.GpuError as error:
            print(f"{target:10s} not here: {error.message}")
    print(f"{len(images)} images; the float network reads {accuracy:.1%} of them")
    wrong = 0
    for target, found in scores.items():
        same = np.array_equal(found, scores["numpy"])
        wrong += not same
        right = float((found.argmax(axis=1) == expected).mean())
        print(f"{target:10s} {right:.1%} right, {'the same scores' if same else 'OTHER SCORES than NumPy'}")
    print(f"on tiny-gpu: {len(run.kernels)} kernels, {run.cycles} cycles, {run.instructions} instructions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
