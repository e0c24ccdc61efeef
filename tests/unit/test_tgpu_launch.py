"""Launch documents: what they say, what is refused where, and what running them gives."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from magpie.backends.tgpu import schema
from magpie.backends.tgpu.launch import launch_schema, parse_launch, read_launch
from magpie.backends.tgpu.runner import run_launch
from magpie.diagnostics import CompileError
from magpie.errors import GpuError, LaunchTypeError, LaunchValueError

ROOT = Path(__file__).resolve().parents[2]
MATMUL = """
SET R0, 0 ; 1:1
SET R1, 0 ; 1:1
L0:
MUL R2, R5, 8
ADD R2, R2, R1
LD R2, R2
MUL R3, R1, 6
ADD R3, R3, R6
ADD R3, R3, 32
LD R3, R3
MUL R2, R2, R3
ADD R0, R0, R2
ADD R1, R1, 1
CMP R1, 8
BRLT L0
ADD R2, R7, 104
ST R2, R0
"""
RELU = """
ADD R1, R7, 104
LD R0, R1
CMP R0, 0
BRGT L0
SET R0, 0
L0:
ADD R1, R7, 80
ST R1, R0
"""


def document():
    """As in the description of the target: X is i8 [4, 8], the weights are constants, the result uses words again."""
    weights = np.random.default_rng(1).integers(-128, 128, (8, 6))
    return {
        "format": "tgpu-launch", "version": 1, "name": "main", "num_registers": 16, "mem_size": 140,
        "buffers": {
            "X": {"addr": 0, "dtype": "i8", "shape": [4, 8], "kind": "input"},
            "W": {"addr": 32, "dtype": "i8", "shape": [8, 6], "kind": "const", "data": weights.reshape(-1).tolist()},
            "2": {"addr": 104, "dtype": "i32", "shape": [4, 6], "kind": "temp"},
            "3": {"addr": 80, "dtype": "i32", "shape": [4, 6], "kind": "output"},
        },
        "inputs": ["X"], "outputs": ["3"],
        "kernels": [
            {"name": "k0_matmul", "value": "2", "op": "matmul", "grid": [4, 6], "shared_size": 0, "asm": MATMUL},
            {"name": "k1_relu", "value": "3", "op": "relu", "grid": [4, 6], "shared_size": 0, "asm": RELU},
        ],
    }  # fmt: skip


def parsed(value=None):
    return parse_launch(json.dumps(document() if value is None else value))


@pytest.mark.parametrize("engine", ["simulator", "interp"])
def test_a_document_runs(engine):
    launch = parsed()
    x = np.random.default_rng(0).integers(-128, 128, (4, 8)).astype(np.int8)
    w = np.array(launch.buffers["W"].data).reshape(8, 6)
    run = run_launch(launch, {"X": x}, engine=engine)
    product = x.astype(np.int64) @ w
    assert run.outputs["3"].dtype == np.int32 and (run.outputs["3"] == np.maximum(product, 0)).all()
    first, second = run.kernels
    assert first.cycles == 8 and first.opcodes["LD"] == 2 * 8 * 24 and first.opcodes["ST"] == 24
    assert second.instructions == 24 * 6 + int((product <= 0).sum())
    assert run.cycles == first.cycles + second.cycles and run.instructions == first.instructions + second.instructions
    launch = launch.with_estimate()
    costs = launch.estimate["kernels"]
    assert costs[0]["instructions"] == {"min": first.instructions, "max": first.instructions}
    assert costs[1]["instructions"] == {"min": 144, "max": 168} and costs[1]["cycles"] == {"min": 1, "max": 2}
    assert launch.estimate["total"]["loads"] == 2 * 8 * 24 + 24 and launch.estimate["total"]["stores"] == 48
    assert launch.estimate["total"]["cycles"] == {"min": 9, "max": 10}


def test_text_and_back():
    launch = parsed().with_estimate()
    again = parse_launch(launch.dumps())
    assert json.loads(launch.dumps()) == launch.to_json() and '"shape": [4, 8]' in launch.dumps()
    assert again == launch and again.estimate == launch.estimate
    jsonschema.validate(json.loads(launch.dumps()), launch_schema())


def test_the_schema_is_a_schema_and_the_page_is_it():
    jsonschema.Draft202012Validator.check_schema(launch_schema())
    text = (ROOT / "docs" / "launch.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == launch_schema(), "run `make docs`"


def set_at(value, path, new):
    for part in path[:-1]:
        value = value[part]
    if new is DELETE:
        del value[path[-1]]
    else:
        value[path[-1]] = new


DELETE = object()
BROKEN = [
    (("format",), "tgpu", "format: this is \"tgpu-launch\"; got \"tgpu\""),
    (("version",), 2, "version: this is 1; got 2"),
    (("version",), True, "version: this is 1; got true"),
    (("name",), "", "name: this is at least 1 characters"),
    (("mem_size",), -1, "mem_size: this is at least 0"),
    (("mem_size",), 100, "buffers.2.addr: the buffer does not lie in memory: words 104 to 127"),
    (("num_registers",), 7, "num_registers: this is at least 8"),
    (("num_registers",), 8.0, "num_registers: this is an integer"),
    (("kernels",), DELETE, "the document: 'kernels' is missing"),
    (("extra",), 1, "extra: there is no 'extra' here"),
    (("buffers",), [], "buffers: this is an object"),
    (("buffers", "X", "dtype"), "f32", "buffers.X.dtype: this is one of i8"),
    (("buffers", "X", "shape"), [4, "8"], "buffers.X.shape[1]: this is an integer"),
    (("buffers", "X", "addr"), True, "buffers.X.addr: this is an integer; got true"),
    (("buffers", "X", "kind"), "temp", "inputs[0]: the buffer 'X' is of the kind temp"),
    (("buffers", "X", "addr"), 40, "buffers.W.addr: the buffer overlaps 'X'"),
    (("buffers", "X", "data"), [1], "buffers.X: only a constant has data"),
    (("buffers", "W", "data"), DELETE, "buffers.W: a constant has data"),
    (("buffers", "W", "data"), [1, 2], "buffers.W.data: 2 elements for a shape of 48"),
    (("buffers", "W", "data", 7), 128, "buffers.W.data[7]: 128 is no i8"),
    (("inputs",), ["X", "X"], "inputs[1]: this stands twice"),
    (("inputs",), [], "buffers.X.kind: an input that does not stand in `inputs`"),
    (("outputs",), ["9"], "outputs[0]: there is no buffer '9'"),
    (("kernels", 1, "value"), "9", "kernels[1].value: there is no buffer '9'"),
    (("kernels", 1, "grid"), [4], "kernels[1].grid: this is at least 2 items"),
    (("kernels", 1, "grid"), [4, 0], "kernels[1].grid[1]: this is at least 1"),
    (("kernels", 1, "grid"), [1 << 20, 1 << 20], "kernels[1].grid: a launch has fewer than 2**31 threads"),
    (("kernels", 1, "asm"), "SET R0, 1\n\n  SUB R1, R2", "kernels[1].asm: line 3, column 3: 'SUB' is not an instruction"),
    (("kernels", 0, "asm"), "SET R16, 1", "kernels[0].asm: line 1, column 5: there is no register R16 [MPG_TGPU_1004]"),
    (("kernels", 0, "asm"), "relu_end:", "kernels[0].asm: line 1, column 1: tiny-gpu's assembler takes the label"),
    (("estimate",), {"kernels": []}, "estimate: 'total' is missing"),
    (("estimate", "kernels"), [], "estimate.kernels: 0 estimates for 2 kernels"),
    (("estimate", "kernels", 1, "name"), "k9", "estimate.kernels[1].name: the kernel here is called 'k1_relu'"),
    (("estimate", "total", "loads"), -1, "estimate.total.loads: this is at least 0"),
    (("estimate", "total", "loads"), {"min": 3}, "estimate.total.loads: 'max' is missing"),
    (("estimate", "total", "cycles"), {"min": 3, "max": 2}, "estimate.total.cycles: the upper bound is below"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "new", "words"), BROKEN, ids=[words.split(";")[0][:60] for *_, words in BROKEN])
def test_what_is_wrong_in_a_document_is_named_by_its_path(path, new, words):
    value = parsed().with_estimate().to_json()
    set_at(value, path, new)
    text = json.dumps(value, indent=2)
    with pytest.raises(CompileError) as caught:
        parse_launch(text, file="main.json")
    (found, *_) = [d for d in caught.value.diagnostics if words in d.message]
    assert found.code == "MPG_TGPU_1201" and found.loc.file == "main.json"
    line = text.split("\n")[found.loc.line - 1]
    where = schema.path_text(path)
    if found.message.startswith(f"{where}:") and isinstance(path[-1], str) and new is not DELETE:
        assert line[found.loc.col - len(path[-1]) - 4 :].startswith(f'"{path[-1]}": ')


@pytest.mark.parametrize(
    ("text", "words", "line", "col"),
    [
        ("", "not JSON", 1, 0),
        ('{\n "a": }', "not JSON", 2, 6),
        ("[1, 2]", "the document: this is an object", 1, 0),
        ('{"name": 1, "name": 2}', "the key 'name' stands twice", 1, 0),
        ('{"mem_size": NaN}', "NaN is no number of JSON", 1, 0),
        ('{"mem_size": ' + "9" * 5000 + "}", "too long", 1, 0),
        ("[" * 100_000, "nests too deep", 1, 0),
    ],
)
def test_text_that_is_no_document(text, words, line, col):
    with pytest.raises(CompileError) as caught:
        parse_launch(text)
    found = caught.value.diagnostics[0]
    assert words in found.message and (found.loc.line, found.loc.col) == (line, col)


def test_files(tmp_path):
    file = tmp_path / "main.json"
    file.write_text(parsed().dumps())
    assert read_launch(file) == parsed()
    file.write_bytes(b'{"name": "\xe9"}')
    with pytest.raises(CompileError, match="not UTF-8: byte 0xe9 at offset 10"):
        read_launch(file)


def test_our_judge_is_the_standard_s():
    """The schema means to us what it means to jsonschema, on documents with one value changed at random."""
    validator = jsonschema.Draft202012Validator(launch_schema())
    rng = random.Random(3)
    base = parsed().with_estimate().to_json()
    values = [
        None,
        True,
        -1,
        0,
        3,
        "",
        "i8",
        "input",
        [],
        [1],
        [4, 6],
        {},
        {"min": 0, "max": None},
        {"min": 1, "max": 2},
    ]
    verdicts = set()
    for _ in range(600):
        value = mutated(copy.deepcopy(base), rng, values)
        ours, theirs = not list(schema.errors(value, launch_schema())), validator.is_valid(value)
        assert ours == theirs, value
        verdicts.add(ours)
    assert verdicts == {True, False}


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key != "data":
            yield from places(item, (*path, key))


def mutated(value, rng, values):
    path = rng.choice([p for p in places(value) if p])
    set_at(value, path, rng.choice([DELETE, *values]))
    return value


def refused(text):
    """The diagnostics of a document that is refused, nothing for one that is not."""
    try:
        parse_launch(text)
    except CompileError as error:
        return error.diagnostics
    return ()


def test_two_thousand_damaged_documents_are_refused_with_a_place():
    rng = random.Random(11)
    base = parsed().with_estimate().to_json()
    text = json.dumps(base, indent=1)
    pieces = ["{", "}", "[", "]", '"', ",", ":", "\\", "\0", "é", "1e999", "-", "null", "SUB R0", "R99", "\n", "9" * 40]
    found = 0
    for n in range(2000):
        if n % 2:
            damaged = text
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(damaged))
                damaged = damaged[:at] + rng.choice([*pieces, ""]) + damaged[at + rng.randrange(4) :]
        else:
            value = copy.deepcopy(base)
            for _ in range(rng.randrange(1, 3)):
                value = mutated(value, rng, [None, True, -1, 2**40, "", "R1:", [], {}, 3.5, ["X"], [2, 3]])
            damaged = json.dumps(value, indent=1)
        lines = damaged.split("\n")
        diagnostics = refused(damaged)
        found += bool(diagnostics)
        for d in diagnostics:
            assert (
                d.code == "MPG_TGPU_1201"
                and 1 <= d.loc.line <= len(lines)
                and 0 <= d.loc.col <= len(lines[d.loc.line - 1])
            )
    assert found > 1000


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({}, LaunchTypeError, "missing: X"),
        ({"X": np.zeros((4, 8), np.int8), "Y": 1}, LaunchTypeError, "unknown: Y"),
        ({"X": np.zeros((4, 8), np.float32)}, LaunchTypeError, "X.astype(np.int8)"),
        ({"X": np.zeros((8, 4), np.int8)}, LaunchValueError, "has the shape (8, 4), and the document takes (4, 8)"),
        ({"X": np.full((4, 8), 128)}, LaunchValueError, "values that i8 does not hold: 128 to 128"),
    ],
)
def test_inputs_that_do_not_fit(inputs, error, words):
    with pytest.raises(error) as caught:
        run_launch(parsed(), inputs)
    assert caught.value.diagnostic == "MPG_TGPU_1202" and words in str(caught.value)


def test_a_fault_names_its_kernel():
    value = document()
    value["kernels"][1]["asm"] = "LD R0, 140"
    with pytest.raises(
        GpuError, match="kernel 'k1_relu': line 1, LD R0, 140: thread 0 of block 0 addresses word 140"
    ) as caught:
        run_launch(parsed(value), {"X": np.zeros((4, 8), np.int8)})
    assert caught.value.diagnostic == "MPG_TGPU_1101"
    value["kernels"][1]["asm"] = "ADD R6, R6, 1"
    with pytest.raises(GpuError, match="MPG_TGPU_1104"):
        run_launch(parsed(value), {"X": np.zeros((4, 8), np.int8)})
    value["kernels"][1]["asm"] = "L: ADD R0, R0, 1\nJMP L"
    with pytest.raises(GpuError, match="MPG_TGPU_1102"):
        run_launch(parsed(value), {"X": np.zeros((4, 8), np.int8)}, max_steps=99)
    with pytest.raises(ValueError, match="engine="):
        run_launch(parsed(), {}, engine="gpu")


def test_what_there_is_no_room_for():
    value = document()
    value["kernels"][0]["grid"] = [30000, 30000]
    x = {"X": np.zeros((4, 8), np.int8)}
    for engine in ("simulator", "interp"):
        with pytest.raises(GpuError, match="MPG_TGPU_1105.*900,000,000 threads"):
            run_launch(parsed(value), x, engine=engine)
    value = document()
    value["kernels"][0] |= {"grid": [1000, 1], "shared_size": 1 << 20}
    with pytest.raises(GpuError, match="words of shared memory"):
        run_launch(parsed(value), x)
    value = document() | {"mem_size": (1 << 31) - 1}
    with pytest.raises(GpuError, match="MPG_TGPU_1105"):
        run_launch(parsed(value), x)


def test_every_type_of_element_comes_and_goes():
    cases = [
        ("i8", -128),
        ("i16", -32768),
        ("i32", -(2**31)),
        ("u8", 255),
        ("u16", 65535),
        ("u32", 2**32 - 1),
        ("bool", 1),
    ]
    value = document()
    value |= {"buffers": {}, "inputs": [], "outputs": [], "kernels": [], "mem_size": 2 * len(cases)}
    inputs = {}
    for n, (dtype, extreme) in enumerate(cases):
        value["buffers"][dtype] = {"addr": n, "dtype": dtype, "shape": [], "kind": "input"}
        value["buffers"][f"{dtype}'"] = {"addr": n, "dtype": dtype, "shape": [1], "kind": "output"}
        value["inputs"].append(dtype)
        value["outputs"].append(f"{dtype}'")
        inputs[dtype] = extreme
    run = run_launch(parsed(value), inputs)
    assert [run.outputs[f"{dtype}'"].tolist() for dtype, _ in cases] == [[extreme] for _, extreme in cases]
    assert run.outputs["bool'"].dtype == bool and run.cycles == 0
