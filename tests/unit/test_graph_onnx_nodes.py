"""ONNX's own test cases of single operators: what is imported computes what they say, and the rest is a diagnostic."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import magpie as mp

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

from magpie.frontend.graph.onnx import IMPORTERS, import_model  # noqa: E402
from magpie.runtime.tensor_graph import TensorGraph  # noqa: E402

#: Every so many cases run on the cpu too.
STRIDE = 15


def cases():
    for case in load_model_tests(kind="node"):
        if case.model is None or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        try:
            arrays = [[numpy_helper.to_array(a) if isinstance(a, onnx.TensorProto) else np.asarray(a) for a in part] for part in (inputs, outputs)]
        except (TypeError, ValueError):
            continue  # sequences, strings and the like
        yield case.name, case.model, *arrays


def with_constants(model, feeds):
    """The model where shapes, axes, scales and the like are constants, as exporters write them."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    first = model.graph.input[0].name if model.graph.input else ""
    settled = {"BatchNormalization", "QLinearConv", "QLinearMatMul"} & {n.op_type for n in model.graph.node}
    fixed = [n for n, a in feeds.items() if n != first and (a.dtype == np.int64 or a.size <= 1 or settled)]
    kept = [i for i in model.graph.input if i.name not in fixed]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    for name in fixed:
        try:
            made.graph.initializer.append(numpy_helper.from_array(feeds[name], name))
        except NotImplementedError:
            return model
    return made


def imported(model, feeds):
    try:
        return import_model(model)
    except mp.CompileError:
        pass
    try:
        return import_model(with_constants(model, feeds))
    except mp.CompileError as error:
        codes = {d.code for d in error.diagnostics}
    assert codes <= {"MPG_GRAPH_1011", "MPG_GRAPH_1012", "MPG_GRAPH_1013"}
    return None


def assert_equal(got, want, what):
    assert got.shape == want.shape, what
    tolerance = 1e-2 if want.dtype.itemsize == 2 else 1e-4
    assert np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True), what


@pytest.mark.filterwarnings("ignore")
def test_every_operator_case():
    checked = 0
    for name, model, inputs, outputs in cases():
        feeds = dict(zip((i.name for i in model.graph.input), inputs, strict=False))
        graph = imported(model, feeds)
        if graph is None:
            continue
        net = TensorGraph(graph)
        arrays = {v.name: feeds[v.name] for v in graph.inputs}
        runs = [net.reference(arrays)]
        if checked % STRIDE == 0:
            runs.append(net.compile("cpu").run(arrays))
        for run in runs:
            for value, want in zip(model.graph.output, outputs, strict=False):
                assert_equal(run[value.name], want, (name, value.name))
        checked += 1
    assert checked > 600


def test_the_page_lists_the_operators():
    text = (Path(__file__).resolve().parents[2] / "docs" / "GRAPH.md").read_text(encoding="utf-8")
    listed = re.findall(r"\b[A-Z][A-Za-z0-9]+\b", text.split("Supported: ")[1].split("Images have")[0])
    assert sorted(listed) == sorted(IMPORTERS)
