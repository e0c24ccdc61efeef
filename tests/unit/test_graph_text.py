"""`.tg` text: what reads back, what is wrong and where, and that no input leads to a traceback."""

from __future__ import annotations

import random

import numpy as np
import pytest
from graph_tools import Random, parsed

import magpie as mp
from magpie.frontend.graph.ops import DTYPES, OPS
from magpie.frontend.graph.printer import print_graph, save_graph
from magpie.frontend.graph.reference import evaluate
from magpie.frontend.graph.text import decode

MLP = """
; two layers
graph mlp(%X: i8[4, 8]) -> (i32[4, 6], f32[4]) {
  %W: i8[8, 6] = const 3
  %b = bias %y, %c
}
"""

GOOD = """; an MLP, and what else the text has
graph mlp(%X: i8[4, 8], %"odd/name 1": f32[2, 2]) -> (i32[4, 6], f32[2, 2]) {
  %W: i8[8, 6] = const 3
  %c: i32[6] = const [1, -2, 3, 0x10, 5, 6]
  %y = matmul{epilogue=[add(_, %c), relu(_)]} %X, %W
  %s = softmax{axis=0} %"odd/name 1"
  %f: f32[2, 2] = const [[1.5, inf], [-0.0, nan]]
  %m: i32[4, 6] = mul %y, %y
  return %m, %s
}
"""


def test_text_reads_back():
    graph = parsed(GOOD)
    text = print_graph(graph)
    assert print_graph(parsed(text)) == text
    assert [v.type for v in graph.outputs] == ["i32[4, 6]", "f32[2, 2]"]
    assert graph.ops[2].loc.line == 5 and graph.ops[2].loc.col == 7


def test_what_a_text_computes():
    graph = parsed(GOOD)
    x = np.random.default_rng(0).integers(-128, 128, (4, 8)).astype(np.int8)
    f = np.array([[1, 2], [3, 5]], np.float32)
    got = evaluate(graph, {"X": x, "odd/name 1": f})
    y = np.maximum(x.astype(np.int32).sum(axis=1, keepdims=True) * 3 + [1, -2, 3, 16, 5, 6], 0)
    e = np.exp(f.astype(np.float64))
    assert np.array_equal(got["m"], y * y) and np.allclose(got["s"], e / e.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_read_back(seed):
    made = Random(seed)
    if made.graph.outputs:
        text = print_graph(made.graph)
        assert print_graph(parsed(text)) == text


def test_constants_in_files(tmp_path):
    data = np.arange(600, dtype=np.float32).reshape(20, 30)
    np.save(tmp_path / "w.npy", data)
    (tmp_path / "g.tg").write_text('graph g(%x: f32[2, 20]) {\n %w: f32[20, 30] = const "w.npy"\n %y = matmul %x, %w\n return %y\n}')
    net = mp.graph.load(tmp_path / "g.tg")
    x = np.ones((2, 20), np.float32)
    assert np.array_equal(net.reference({"x": x})["y"], x @ data)
    save_graph(net.ir, tmp_path / "again.tg")
    assert (tmp_path / "again.0.npy").exists()
    assert np.array_equal(mp.graph.load(tmp_path / "again.tg").reference({"x": x})["y"], x @ data)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_files_of_every_dtype_and_shape(tmp_path, dtype, shape):
    data = np.ones(shape, np.float32).astype(dtype.numpy)
    np.save(tmp_path / "c.npy", data)
    kind = "and" if dtype.is_bool else "maximum"
    extents = ", ".join(map(str, shape))
    text = f'graph g(%x: {dtype}[{extents}]) {{\n%c: {dtype}[{extents}] = const "c.npy"\n%y = {kind} %x, %c\nreturn %y\n}}'
    (tmp_path / "g.tg").write_text(text)
    got = mp.graph.load(tmp_path / "g.tg").run({"x": np.zeros(shape, dtype.numpy)}, "interp")["y"]
    assert got.shape == shape and got.dtype == dtype.numpy and (got.astype(bool) != dtype.is_bool).all()


def test_every_dtype_is_written_exactly():
    rng = np.random.default_rng(1)
    for dtype in DTYPES.values():
        if dtype.is_float:
            data = rng.standard_normal(200).astype(np.float32).astype(dtype.numpy)
        else:
            data = rng.integers(0, 2 if dtype.is_bool else 100, 200).astype(dtype.numpy)
        graph = parsed(f"graph g(%x: {dtype}[200]) {{\n%c: {dtype}[200] = const 0\n%y = {'and' if dtype.is_bool else 'maximum'} %x, %c\nreturn %y\n}}".replace("const 0", "const false" if dtype.is_bool else "const 0"))
        graph.ops[0].attrs["data"] = data
        again = parsed(print_graph(graph)).ops[0].attrs["data"]
        assert again.dtype == dtype.numpy and again.tobytes() == data.tobytes()


BODY = "graph g(%x: f32[4, 8], %i: i8[4, 8]) {{\n  {}\n  return %y\n}}"
WRONG = [
    ("%y = matmul %x, %x", "MPG_GRAPH_1005", 2, "[4, 8] and [4, 8]"),
    ("%y = add %x, %i", "MPG_GRAPH_1006", 2, "f32[4, 8] and i8[4, 8]"),
    ("%y = add %x", "MPG_GRAPH_1004", 2, "takes 2 operands"),
    ("%y = softmax{dim=1} %x", "MPG_GRAPH_1004", 2, "no attribute dim"),
    ("%y = softmax{axis=5} %x", "MPG_GRAPH_1004", 2, "axis 5"),
    ("%y = rellu %x", "MPG_GRAPH_1004", 2, "no op rellu"),
    ("%y = relu %z", "MPG_GRAPH_1003", 2, "no value %z"),
    ("%x = relu %x\n  %y = relu %x", "MPG_GRAPH_1003", 2, "defined twice"),
    ("%y: f32[8, 4] = relu %x", "MPG_GRAPH_1005", 2, "declared f32[8, 4]"),
    ("%y: i8[4, 8] = relu %x", "MPG_GRAPH_1006", 2, "declared i8[4, 8]"),
    ("%y: i8[2] = const [1, 300]", "MPG_GRAPH_1007", 2, "300 is no i8"),
    ("%y: i8[2] = const [1, 2, 3]", "MPG_GRAPH_1005", 2, "a list of 3"),
    ("%y: i8[2] = const [[1, 2]]", "MPG_GRAPH_1005", 2, "deeper"),
    ("%y: f32[2] = const \"../w.npy\"", "MPG_GRAPH_1007", 2, "no .npy file"),
    ("%y = const 1", "MPG_GRAPH_1007", 2, "has a type"),
    ("%y: f64[2] = const 1", "MPG_GRAPH_1006", 2, "no dtype f64"),
    ("%y = relu(%x)", "MPG_GRAPH_1002", 2, "found `(`"),
    ("%y = relu %x, ", "MPG_GRAPH_1002", 3, "found `return`"),
    ("%y: f32[2] = const \"w.npy", "MPG_GRAPH_1002", 2, "string ends"),
    ("%y = reshape{shape=[3, 5]} %x", "MPG_GRAPH_1005", 2, "32 elements"),
    ("%y = conv2d %x, %x", "MPG_GRAPH_1005", 2, "[N, C, H, W]"),
    ("%y = matmul{epilogue=[softmax(_)]} %x, %x", "MPG_GRAPH_1004", 2, "not elementwise"),
    ("%y = relu{epilogue=[add(_, _7)]} %x", "MPG_GRAPH_1003", 2, "no result _7"),
    ("%y = relu{prologue=[neg(%x)]} _", "MPG_GRAPH_1004", 2, "takes no prologue"),
    ("%y = clip{min=nan} %x", "MPG_GRAPH_1004", 2, "clip from"),
    ("%y = slice{starts=[0, 0], stops=[9, 8]} %x", "MPG_GRAPH_1004", 2, "slice 0:9"),
    ("%y: f32[0, 2] = const 1", "MPG_GRAPH_1005", 2, "no elements"),
    ("%y: f32[2000000000] = const 1", "MPG_GRAPH_1007", 2, "elements"),
    ("%y: f32[90000, 90000] = const 1", "MPG_GRAPH_1005", 2, "more than"),
    ("%y: f32[2, = const 1", "MPG_GRAPH_1002", 2, "found `=`"),
]


@pytest.mark.parametrize(("line", "code", "at", "text"), WRONG, ids=[w[0][:30] for w in WRONG])
def test_what_is_wrong_and_where(line, code, at, text):
    with pytest.raises(mp.CompileError) as caught:
        parsed(BODY.format(line))
    first = caught.value.diagnostics[0]
    assert (first.code, first.loc.line) == (code, at) and text in first.message, first


def test_several_errors_in_one_run():
    text = "graph g(%x: f32[4, 8]) {\n  %a = rellu %x\n  %b = relu %a\n  %c = matmul %x, %x\n  %d = add %x\n  return %z\n}"
    with pytest.raises(mp.CompileError) as caught:
        parsed(text)
    assert [d.loc.line for d in caught.value.diagnostics] == [2, 4, 5, 6]


def test_the_shapes_of_results_are_checked():
    with pytest.raises(mp.CompileError, match=r"declared to give f32\[2\], and returns f32\[3\]"):
        parsed("graph g(%x: f32[3]) -> f32[2] {\n%y = relu %x\nreturn %y\n}")


@pytest.mark.parametrize("data", [b"graph g(\xff)", b"graph\0", b"\xfe\xff\0g", b""], ids=["latin-1", "NUL", "UTF-16", "empty"])
def test_files_that_are_no_text(data):
    with pytest.raises(mp.CompileError) as caught:
        parsed(decode(data, "g.tg").text)
    assert caught.value.diagnostics[0].code.startswith("MPG_GRAPH_100")


WORDS = [
    *"(){}[],:=", "->", "%x", "%y", "%", '"', "graph", "return", "const", "1", "-1", "1e999", "0x", "99999999999999999", "f32",
    "_", "_0", "epilogue", "prologue", "axis", "inf", "nan", "true", ";", "\n", "é", *OPS,
]  # fmt: skip


def diagnostics(text):
    try:
        parsed(text)
    except mp.CompileError as error:
        return error.diagnostics
    return ()


def test_mutated_texts_give_diagnostics_only():
    r = random.Random(7)
    seeds = [GOOD, MLP, *(print_graph(Random(k).graph) for k in range(6) if Random(k).graph.outputs)]
    for _ in range(2000):
        text = r.choice(seeds)
        for _ in range(r.randint(1, 4)):
            a = r.randrange(len(text))
            b = min(len(text), a + r.choice((0, 1, 3, 10, 80)))
            text = text[:a] + r.choice(["", r.choice(WORDS), r.choice(WORDS) * 3, text[b : b + 20]]) + text[b:]
        found = diagnostics(text)
        assert all(d.loc is not None and d.loc.line >= 1 and d.code.startswith("MPG_GRAPH_") for d in found)


def test_nesting_has_an_end():
    with pytest.raises(mp.CompileError):
        parsed("graph g(%x: f32[2]) {\n%y: f32[2] = const " + "[" * 100_000 + "\nreturn %y\n}")


def test_half_types_are_rounded_once():
    # 1 + 2^-8 + 2^-30 is above the middle of two bfloat16 numbers; through f32 it would be the middle, and go down
    graph = parsed("graph g(%x: bf16[1]) {\n%c: bf16[1] = const 1.003906250931322574615478515625\n%y = add %x, %c\nreturn %y\n}")
    assert float(graph.ops[0].attrs["data"][0]) == 1.0078125


