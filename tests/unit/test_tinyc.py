"""`tinyc`: stages of a graph, runs, and what is said of wrong command lines."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from graph_tools import parsed

from magpie.backends.tgpu.launch import parse_launch
from magpie.cli.tinyc import main
from magpie.frontend.graph.reference import evaluate

TEXT = """graph net(%X: i8[4, 8]) -> i32[4, 6] {
  %W: i8[8, 6] = const 3
  %b: i32[6] = const [1, -2, 3, 4, 5, 6]
  %s = matmul %X, %W
  %t = bias %s, %b
  %y = relu %t
  return %y
}
"""
X = np.arange(32, dtype=np.int8).reshape(4, 8) - 16
Y = np.maximum(X.astype(np.int32).sum(axis=1, keepdims=True) * 3 + [1, -2, 3, 4, 5, 6], 0)


@pytest.fixture
def tinyc(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tg").write_text(TEXT)
    np.save("x.npy", X)
    np.savez("several.npz", x=X)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tinyc", *words])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_the_graph_after_the_passes(tinyc, tmp_path):
    status, out, _ = tinyc("net.tg", "--emit", "graph", "-O1")
    assert status == 0 and "matmul{epilogue=[add(_, %b), relu(_)]} %X, %W" in out
    assert [op.name for op in parsed(out).ops] == ["const", "const", "matmul"]
    assert tinyc("net.tg", "--emit", "graph", "-O0", "-o", "again.tg")[0] == 0
    assert "relu %" in (tmp_path / "again.tg").read_text()


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_the_graph_can_be_read_again(tinyc, tmp_path, level):
    (tmp_path / "net.tg").write_text(
        "graph g(%x: f32[3, 4]) {\n%half: f32[] = const 0.5\n%c: f32[3, 4] = const 2\n%a = mul %x, %half\n"
        "%b = add %a, %c\n%y = reduce_sum{axes=[1]} %b\nreturn %y\n}"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for options in ((), ("-o", "again.tg")):
        status, out, _ = tinyc("net.tg", "--emit", "graph", level, *options)
        text = out or (tmp_path / "again.tg").read_text()
        assert status == 0 and np.array_equal(evaluate(parsed(text), {"x": x})["y"], (x / 2 + 2).sum(axis=1))


def test_kernels_and_stages_of_targets(tinyc):
    assert tinyc("net.tg")[1].startswith("kernel k0_matmul(")
    assert ".entry magpie_k0_matmul" in tinyc("net.tg", "--target", "cuda", "--emit", "ptx")[1]
    assert "OpEntryPoint" in tinyc("net.tg", "-t", "vulkan", "--emit", "spv")[1]


def test_tiny_gpu(tinyc):
    status, out, _ = tinyc("net.tg", "--target", "gpu")
    assert status == 0 and out.startswith("; k0_matmul: %y, 4 blocks of 6 threads, 8 words of shared memory\n") and "SYNCB" in out
    status, out, _ = tinyc("net.tg", "--target", "gpu", "--emit", "launch", "-O1")
    launch = parse_launch(out)
    assert status == 0 and launch.kernels[0].grid == (4, 6) and json.loads(out)["estimate"]["total"]["stores"] == 24
    assert "results take 24, and no plan takes less than 24" in tinyc("net.tg", "-t", "gpu", "--emit", "memory")[1]


@pytest.mark.parametrize("target", ["gpu", "cpu", "interp"])
def test_runs(tinyc, tmp_path, target):
    status, out, err = tinyc("run", "net.tg", "--input", "X=x.npy", "--target", target, "--output", "y=y.npy")
    assert status == 0 and out == "" and np.array_equal(np.load(tmp_path / "y.npy"), Y)
    assert ("cycles" in err) is (target == "gpu")
    assert str(Y[3, 5]) in tinyc("run", "net.tg", "-i", "X=x.npy", "-t", target)[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("run", "net.tg"), "'X', i8[4, 8], is missing"),
        (("run", "net.tg", "-i", "X=net.tg"), "no .npy file"),
        (("run", "net.tg", "-i", "X=none.npy"), "No such file"),
        (("run", "net.tg", "-i", "X=several.npz"), "no .npy file"),
        (("net.tg", "--size", "batch=8"), "sizes are for ONNX models"),
        (("run", "net.tg", "-i", "X=x.npy", "--output", "z=z.npy"), "no output 'z'"),
        (("run", "net.tg", "-i", "X"), "NAME=FILE"),
        (("none.tg",), "does not exist"),
        (("net.tg", "-t", "nowhere"), "no target 'nowhere'"),
        (("net.tg", "--emit", "nothing"), "there are graph, kernel, memory, prepared"),
        (("net.tg", "--emit", "ptx", "-t", "gpu"), "there are graph, kernel, memory, launch, tgpu, mp"),
        (("net.tg", "--emit", "wgsl", "-t", "webgpu"), "MPG_CORE_1300"),
        (("net.tg", "--emit", "launch"), "--target gpu"),
        (("net.tg", "-O7"), "-O"),
    ],
)
def test_wrong_command_lines(tinyc, words, text):
    status, _, err = tinyc(*words)
    assert status != 0 and text in err and "Traceback" not in err


def test_errors_of_the_graph_have_their_places(tinyc, tmp_path):
    (tmp_path / "net.tg").write_text(TEXT.replace("i8[8, 6]", "i8[7, 6]"))
    status, _, err = tinyc("net.tg")
    assert status == 1 and "MPG_GRAPH_1005" in err and "net.tg:4:8" in err and "^" in err
