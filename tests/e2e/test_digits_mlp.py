"""The example of a quantised MLP: trained, exported, and the same numbers on every target."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("sklearn")
ort = pytest.importorskip("onnxruntime")

from examples import digits_mlp  # noqa: E402


def test_it_runs(capsys):
    assert digits_mlp.main() == 0
    text = capsys.readouterr().out
    assert "OTHER" not in text and text.count("the same scores") >= 4
    for target in ("tiny-gpu", "interp", "cpu"):
        share = float(text.split(f"{target} ")[1].split("%")[0])
        assert share > 90.0


def test_the_export_is_what_onnxruntime_computes(tmp_path):
    layers, images, expected, accuracy = digits_mlp.trained()
    digits_mlp.exported(layers, len(images), tmp_path / "d.onnx")
    (scores,) = ort.InferenceSession(str(tmp_path / "d.onnx")).run(None, {"pixels": images})
    ours = digits_mlp.mp.graph.load(tmp_path / "d.onnx").run({"pixels": images}, "cpu")["scores"]
    assert np.array_equal(scores, ours)
    assert abs((scores.argmax(axis=1) == expected).mean() - accuracy) < 0.02
