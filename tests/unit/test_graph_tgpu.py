"""Integer graphs on tiny-gpu: the launch document computes what NumPy does, at the cost that it states."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from graph_tools import Random, parsed

import magpie as mp
from magpie.backends.tgpu.launch import launch_schema, parse_launch
from magpie.backends.tgpu.runner import run_launch
from magpie.dtypes import i8, i32, u8
from magpie.frontend.graph.reference import evaluate
from magpie.runtime.tensor_graph import TensorGraph
from magpie.runtime.tensor_launch import launch_document

#: 500 graphs, in parts of the suite that run beside each other.
PARTS = 10


def within(bounds, value):
    if isinstance(bounds, int):
        return value == bounds
    return bounds["min"] <= value and (bounds["max"] is None or value <= bounds["max"])


def check(graph, inputs, opt):
    document = launch_document(graph, opt)
    launch = parse_launch(document.dumps())
    assert launch == document
    simulated, interpreted = run_launch(launch, inputs), run_launch(launch, inputs, engine="interp")
    with np.errstate(all="ignore"):
        want = evaluate(graph, inputs)
    for name, array in want.items():
        for run in (simulated, interpreted):
            assert run.outputs[name].dtype == array.dtype and np.array_equal(run.outputs[name], array), name
    for cost, a, b in zip(document.estimate["kernels"], simulated.kernels, interpreted.kernels, strict=True):
        assert a.cycles == b.cycles and a.instructions == b.instructions and a.opcodes == b.opcodes
        assert within(cost["cycles"], a.cycles) and within(cost["instructions"], a.instructions)
        for name, opcode in (("loads", "LD"), ("stores", "ST"), ("shared_loads", "SHLD"), ("shared_stores", "SHST")):
            assert within(cost[name], a.opcodes.get(opcode, 0)), name
    return launch


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part):
    checked, seed = 0, 5000 + part * 1000
    while checked < 50:
        made = Random(seed, ops=5, dtypes=(i8, i32, u8), extents=(1, 2, 3, 4, 5))
        if made.graph.outputs:  # some graphs have none
            check(made.graph, made.inputs, seed % 3)
            checked += 1
        seed += 1


LAYER = """graph layer(%X: i8[4, 8]) -> i32[4, 6] {
  %W: i8[8, 6] = const [[1, 2, 3, 4, 5, 6], [1, -2, 3, 4, -5, 6], [1, 2, 3, -4, 5, 6], [1, 2, 3, 4, -5, -6],
                        [1, 2, 3, 4, 5, 6], [1, -2, 3, 4, -5, 6], [1, 2, 3, -4, 5, 6], [1, 2, 3, 4, -5, -6]]
  %b: i32[6] = const [1, -2, 3, 4, 5, 6]
  %s = matmul %X, %W
  %t = bias %s, %b
  %y = relu %t
  return %y
}
"""
X = np.random.default_rng(1).integers(-128, 128, (4, 8)).astype(np.int8)


def test_a_layer_is_one_kernel_whose_instructions_have_their_places():
    launch = check(parsed(LAYER), {"X": X}, 1)
    (kernel,) = launch.kernels
    assert (kernel.name, kernel.op, kernel.value, kernel.grid, kernel.shared_size) == (
        "k0_matmul",
        "matmul",
        "y",
        (4, 6),
        0,
    )
    lines = [line for line in kernel.asm.splitlines() if not line.endswith(":")]
    assert all(";" in line for line in lines)
    assert {line.split(";")[1].strip() for line in lines} == {"5:8", "6:8", "7:8"}
    assert launch.mem_size == 32 + 48 + 6 + 24
    relu = [line.split(";")[0].strip() for line in lines if line.endswith("7:8")]
    (test, skip, zero) = relu  # CMP x, 0 / BRGT skip / SET x, 0
    assert test.startswith("CMP ") and test.endswith(", 0") and skip.startswith("BRGT L")
    assert zero == f"SET {test.split()[1]} 0"
    # K = 8 trips, and a branch over the SET of a relu
    cost = launch.estimate["total"]
    assert cost["cycles"] == {"min": 8, "max": 9} and cost["loads"] == 24 * 17 and cost["stores"] == 24


def test_tiles_read_rows_from_shared_memory():
    launch = check(parsed(LAYER), {"X": X}, 2)
    (kernel,) = launch.kernels
    assert kernel.shared_size == 8 and "SYNCB" in kernel.asm
    cost = launch.estimate["total"]
    assert cost["shared_stores"] == 4 * 8 and cost["shared_loads"] == 24 * 8
    assert cost["loads"] == 4 * 8 + 24 * 9  # a row once a block, and a column and a bias a thread


def test_without_fusion_every_op_is_a_kernel():
    launch = check(parsed(LAYER), {"X": X}, 0)
    assert [k.op for k in launch.kernels] == ["matmul", "add", "relu"]


def test_the_document_follows_its_schema():
    jsonschema.validate(json.loads(launch_document(parsed(LAYER)).dumps()), launch_schema())


def test_memory_is_reused():
    steps = "".join(f"%{k + 1} = transpose %{k}\n" for k in range(6))
    launch = check(
        parsed(f"graph g(%0: i32[3, 4]) {{\n{steps}return %6\n}}"),
        {"0": np.arange(12, dtype=np.int32).reshape(3, 4)},
        0,
    )
    assert launch.mem_size == 12 * 3


def test_floats_are_refused_at_their_places():
    with pytest.raises(mp.CompileError) as caught:
        launch_document(parsed("graph g(%x: i32[2], %f: f32[2]) {\n%y = relu %x\n%z = relu %f\nreturn %y, %z\n}"))
    found = caught.value.diagnostics
    assert [d.code for d in found] == ["MPG_GRAPH_1020"] * 2 and [d.loc.line for d in found] == [1, 3]


def test_divisions_are_named():
    with pytest.raises(mp.CompileError) as caught:
        launch_document(parsed("graph g(%x: i32[2]) {\n%y = div %x, %x\nreturn %y\n}"))
    assert caught.value.diagnostics[0].code == "MPG_TGPU_2001" and caught.value.diagnostics[0].loc.line == 2


def test_the_device_gives_the_same():
    graph = parsed(LAYER)
    assert np.array_equal(TensorGraph(graph).run({"X": X}, "tgpu")["y"], evaluate(graph, {"X": X})["y"])
