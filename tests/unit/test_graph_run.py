"""Graphs compiled for devices give what NumPy says: random graphs, fused and not, and what a run checks."""

from __future__ import annotations

import numpy as np
import pytest
from graph_tools import Random, assert_close, parsed, random_array
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import magpie as mp
from magpie.dtypes import f32, i8, i32
from magpie.frontend.graph.lower import Target, lower_graph
from magpie.frontend.graph.passes import eliminate_dead, fold_constants, merge_common, optimise
from magpie.frontend.graph.passes.memory import plan_memory, storage
from magpie.frontend.graph.reference import evaluate, evaluate_op
from magpie.ir.verify import verify
from magpie.runtime import tensor_targets
from magpie.runtime.tensor_graph import GraphKernel, TensorGraph
from magpie.runtime.tensor_targets import target_of

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 10**6)


def check(graph, inputs, got, what):
    with np.errstate(all="ignore"):
        want = evaluate(graph, inputs)
    assert got.keys() == want.keys()
    for value in graph.outputs:
        assert_close(got[value.name], want[value.name], value.dtype, f"{what} {value!r}")


@given(SEEDS)
@QUIET
def test_passes_change_no_result(seed):
    made = Random(seed)
    if not made.graph.outputs:
        return
    for one in (fold_constants, eliminate_dead, merge_common):
        check(made.graph, made.inputs, evaluate(one(made.graph), made.inputs), one.__name__)
    for target in (Target(), target_of("cpu", 2)):
        check(made.graph, made.inputs, evaluate(optimise(made.graph, 2, target), made.inputs), "fused")


@given(SEEDS)
@QUIET
def test_kernels_are_verified_and_memory_is_not_shared_by_what_lives(seed):
    made = Random(seed)
    if not made.graph.outputs:
        return
    for backend in ("cpu", "interp", "cuda", "vulkan"):
        graph = optimise(made.graph, 2, target_of(backend, 2))
        for item in lower_graph(graph, target_of(backend, 2)):
            verify(item.kernel)
    assert_plan(graph)


def assert_plan(graph):
    """By simulation: writing every value over all of its units, each read finds what was written."""
    plan = plan_memory(graph, lambda v: v.nbytes, 16)
    home = storage(graph)
    memory = np.full(plan.size, -1)
    names = {v: k for k, v in enumerate(graph.values())}

    def put(value):
        at = plan.offsets[value]
        memory[at : at + value.nbytes] = names[home[value]]

    def holds(value):
        at = plan.offsets[value]
        return (memory[at : at + value.nbytes] == names[home[value]]).all()

    for value in (*graph.inputs, *(op.result for op in graph.ops if op.name == "const")):
        put(value)
    for op in graph.ops:
        assert all(holds(v) for v in op.reads), op
        if op.name != "const" and home[op.result] is op.result:
            put(op.result)
            assert all(holds(v) for v in op.reads), f"{op}: the result lies over what is read"
    assert all(holds(v) for v in (*graph.outputs, *graph.inputs))
    assert plan.bound <= plan.peak


@pytest.mark.parametrize("opt", [0, 1, 2])
@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(backend, opt, seed):
    made = Random(1000 + seed)
    if made.graph.outputs:
        check(made.graph, made.inputs, TensorGraph(made.graph).compile(backend, opt=opt).run(made.inputs), backend)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 33, 17), (8, 16, 32), (13, 1, 50), (1, 64, 70), (37, 70, 100), (3, 7, 9)])
@pytest.mark.parametrize("types", [("f32", "f32"), ("i8", "i8"), ("u8", "i8"), ("i32", "i8"), ("f16", "f16"), ("bf16", "bf16")])
def test_products_of_every_tile(shape, types):
    m, k, n = shape
    a, b = types
    out = a if a in ("f32", "f16", "bf16") else "i32"
    graph = parsed(
        f"graph g(%a: {a}[{m}, {k}], %b: {b}[{k}, {n}], %s: {out}[{n}]) {{\n%c = matmul %a, %b\n%d = bias %c, %s\n"
        "%y = relu %d\nreturn %y\n}"
    )
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    for backend in ("cpu", "interp"):
        compiled = TensorGraph(graph).compile(backend)
        assert [len(item.op.epilogue) for item in compiled.kernels] == [2]
        check(graph, inputs, compiled.run(inputs), backend)


SHARED = Target(block=16, fused=True, subgroup=16)


@pytest.mark.parametrize("shape", [(64, 64, 64), (16, 16, 16), (70, 33, 100), (17, 50, 16), (128, 16, 65)])
@pytest.mark.parametrize("types", [("f32", "f32"), ("i8", "i32"), ("f16", "f16")])
def test_products_through_shared_memory(shape, types, monkeypatch):
    monkeypatch.setitem(tensor_targets._TARGETS, "interp", SHARED)
    (m, k, n), (t, out) = shape, types
    graph = parsed(
        f"graph g(%a: {t}[3, {m}, {k}], %b: {t}[3, {k}, {n}], %s: {out}[{n}]) {{\n%c = matmul %a, %b\n%d = bias %c, %s\n"
        "%y = relu %d\nreturn %y\n}"
    )
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    compiled = TensorGraph(graph).compile("interp")
    assert len(compiled.kernels[0].kernel.shared) == 2
    check(graph, inputs, compiled.run(inputs), "shared")


@pytest.mark.parametrize("target", [target_of("cpu", 2), SHARED, Target(), target_of("tgpu", 2)], ids=["cpu", "shared", "plain", "flat"])
@pytest.mark.parametrize("seed", range(6))
def test_kernels_have_no_races_and_stay_in_bounds(target, seed):
    made = Random(4000 + seed, extents=(1, 3, 17), dtypes=(i8, i32) if target.flat else (f32, f32, i8))
    if not made.graph.outputs:
        return
    graph = optimise(made.graph, 2, target)
    known = {v: made.inputs[v.name] for v in graph.inputs}
    with np.errstate(all="ignore"):
        for op in graph.ops:
            known[op.result] = evaluate_op(op, known)
    for item in lower_graph(graph, target):
        known.update(item.packed)
        arrays = [np.zeros(v.size, v.dtype.numpy) if v is item.op.result else known[v].reshape(-1).copy() for v in item.args]
        reports = GraphKernel("g", item.kernel).sanitize(grid=item.grid, args=tuple(arrays))
        assert not reports, (item.op, reports)


@pytest.mark.parametrize("left", [(3, 5, 6), (1, 5, 6), (2, 3, 5, 6), (5, 6)])
@pytest.mark.parametrize("right", [(3, 6, 7), (1, 6, 7), (2, 1, 6, 7), (6, 7)])
def test_batches_broadcast(left, right):
    try:
        np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        return
    text = f"graph g(%a: f32{list(left)}, %b: f32{list(right)}, %c: f32[5, 1]) {{\n%d = matmul %a, %b\n%y = add %d, %c\nreturn %y\n}}"
    graph = parsed(text)
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    want = inputs["a"].astype(np.float64) @ inputs["b"] + inputs["c"]
    got = TensorGraph(graph).compile("cpu").run(inputs)["y"]
    assert np.abs(got - want).max() < 1e-5


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(groups, dilation, stride):
    graph = parsed(
        f"graph g(%x: f32[2, 6, 21, 34], %w: f32[12, {6 // groups}, 3, 5]) {{\n"
        f"%c = conv2d{{strides=[{stride}, 1], pads=[1, 2, 3, 0], dilations=[{dilation}, 1], groups={groups}}} %x, %w\n"
        "%y = relu %c\nreturn %y\n}"
    )
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    x = np.pad(inputs["x"], ((0, 0), (0, 0), (1, 3), (2, 0)))
    shape = graph.outputs[0].shape
    want = np.zeros(shape)
    for o in range(12):
        for c in range(6 // groups):
            for r in range(3):
                for s in range(5):
                    plane = x[:, o // (12 // groups) * (6 // groups) + c, r * dilation :, s:]
                    want[:, o] += inputs["w"][o, c, r, s] * plane[:, ::stride][:, : shape[2], : shape[3]]
    for backend in ("cpu", "interp"):
        got = TensorGraph(graph).compile(backend).run(inputs)["y"]
        assert np.abs(got - np.maximum(want, 0)).max() < 1e-4


@pytest.mark.parametrize("width", [2, 7, 14, 16, 28, 33, 70])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (2, 1, 0), (3, 3, 0)])
def test_pools_of_every_width(width, kernel, stride, pad):
    if width < kernel:
        return
    graph = parsed(
        f"graph g(%x: f32[2, 3, 9, {width}], %i: i8[1, 2, 9, {width}]) {{\n"
        f"%m = maxpool{{kernel=[{kernel}, {kernel}], strides=[{stride}, {stride}], pads=[{pad}, {pad}, {pad}, {pad}]}} %x\n"
        f"%a = avgpool{{kernel=[{kernel}, {kernel}], strides=[{stride}, 1], dilations=[1, 1], pads=[{pad}, 0, 0, {pad}]}} %x\n"
        f"%n = maxpool{{kernel=[{kernel}, {kernel}], strides=[1, {stride}]}} %i\nreturn %m, %a, %n\n}}"
    )
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    check(graph, inputs, TensorGraph(graph).compile("cpu").run(inputs), "cpu")
    target = target_of("cpu", 2)
    for item in lower_graph(graph, target):  # lanes behind the end of a row read on, and never behind the image
        arrays = [inputs[v.name].reshape(-1).copy() if v.name in inputs else np.zeros(v.size, v.dtype.numpy) for v in item.args]
        assert not GraphKernel("g", item.kernel).sanitize(grid=item.grid, args=tuple(arrays))


@pytest.mark.parametrize("length", [1, 7, 32, 64, 100, 700])
def test_rows_of_every_length(length):
    graph = parsed(
        f"graph g(%x: f32[5, {length}], %w: f32[{length}], %b: f32[{length}]) {{\n%s = softmax %x\n%l = layernorm %x, %w, %b\n"
        "%m = reduce_mean{axes=[1]} %x\n%t = reduce_sum{axes=[1]} %x\n%h = reduce_max{axes=[1], keepdims=true} %x\n"
        "%c = softmax{axis=0} %x\nreturn %s, %l, %m, %t, %h, %c\n}"
    )
    rng = np.random.default_rng(3)
    inputs = {v.name: random_array(rng, v.dtype, v.shape) for v in graph.inputs}
    for backend in ("cpu", "interp"):
        check(graph, inputs, TensorGraph(graph).compile(backend).run(inputs), backend)


def test_fusion_makes_one_kernel_of_a_gelu():
    graph = parsed(
        "graph g(%x: f32[8, 16], %w: f32[16, 20], %b: f32[20]) {\n%half: f32[] = const 0.5\n%one: f32[] = const 1\n"
        "%r: f32[] = const 0.70710678\n%0 = matmul %x, %w\n%1 = add %0, %b\n%2 = mul %1, %r\n%3 = erf %2\n%4 = add %3, %one\n"
        "%5 = mul %1, %4\n%6 = mul %5, %half\n%s = mul %6, %6\n%y = reduce_sum{axes=[1]} %s\nreturn %6, %y\n}"
    )
    kernels = lower_graph(optimise(graph, 1, Target()), Target())
    assert [k.op.name for k in kernels] == ["matmul", "reduce_sum"]
    assert [s.op for s in kernels[0].op.epilogue] == ["add", "mul", "erf", "add", "mul", "mul"]
    assert [s.op for s in kernels[1].op.prologue] == ["mul"]
    assert len(lower_graph(optimise(graph, 0, Target()), Target())) == 9


def test_memory_is_reused_and_the_peak_stands_beside_the_bound():
    steps = "".join(f"%{k + 1} = softmax %{k}\n" for k in range(10))
    graph = parsed(f"graph g(%0: f32[4, 64]) {{\n{steps}return %10\n}}")
    plan = plan_memory(graph, lambda v: v.nbytes)
    assert plan.peak == plan.bound == 2 * 1024
    assert_plan(graph)


class TestRun:
    net = TensorGraph(parsed("graph g(%x: i8[2, 3], %f: f16[2]) {\n%y = relu %x\n%z = relu %f\nreturn %y, %z, %x\n}"))
    good = {"x": np.array([[1, -2, 3], [4, 5, -6]]), "f": np.array([0.1, -1.0])}

    def test_arrays_of_other_types_are_converted(self):
        got = self.net.compile("cpu").run(self.good)
        assert got["y"].dtype == np.int8 and np.array_equal(got["y"], [[1, 0, 3], [4, 5, 0]])
        assert got["z"].dtype == np.float16 and got["z"][0] == np.float16(0.1)
        assert np.array_equal(got["x"], self.good["x"])

    @pytest.mark.parametrize(
        ("inputs", "text"),
        [
            ({"x": good["x"]}, "'f', f16[2], is missing"),
            ({**good, "q": 1}, "no input 'q'"),
            ([good["x"], good["f"]], "arrays by name, {name: array}; got list"),
            ({**good, "x": good["x"][:, :2]}, "shape [2, 2]"),
            ({**good, "x": good["x"] * 100}, "-600 to 500"),
            ({**good, "x": good["x"] * 1.0}, "float64"),
        ],
    )
    def test_what_does_not_fit(self, inputs, text):
        with pytest.raises(mp.LaunchValueError) as caught:
            self.net.compile("cpu").run(inputs)
        assert text in str(caught.value) and caught.value.diagnostic == "MPG_GRAPH_1021"

    def test_gpu_is_tiny_gpu(self):
        net = TensorGraph(parsed("graph g(%x: i8[3]) {\n%y = relu %x\nreturn %y\n}"))
        compiled = net.compile("gpu")
        assert compiled.device.backend == "tgpu"
        assert np.array_equal(compiled.run({"x": np.array([1, -2, 3])})["y"], [1, 0, 3])

    def test_inputs_and_outputs_as_buffers(self):
        compiled = self.net.compile("cpu")
        compiled.run(self.good)
        compiled.buffer("x")[...] = np.array([9, -9, 9, -9, 9, -9], np.int8)
        compiled.launch()
        assert np.array_equal(compiled.buffer("y").to_numpy(), [9, 0, 9, 0, 9, 0])
        with pytest.raises(mp.LaunchValueError, match="no input or output 'w'"):
            compiled.buffer("w")
