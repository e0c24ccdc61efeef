"""Launch documents: kernels in tiny-gpu assembly with the memory they run on, as JSON (launch.schema.json).

Reading judges everything that can be judged without running: the form, where buffers lie, and the assembly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from magpie.backends.tgpu import schema
from magpie.backends.tgpu.assembler import assemble
from magpie.backends.tgpu.isa import Program
from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import by_name

__all__ = ["Buffer", "Kernel", "Launch", "launch_schema", "parse_launch", "read_launch"]

#: Errors of one document that are reported.
_MOST_ERRORS = 20


@dataclass(slots=True, frozen=True)
class Buffer:
    """What lies at ``addr``: ``kind`` is input, const, temp or output; ``data`` has the elements of a constant."""

    addr: int
    dtype: str
    shape: tuple[int, ...]
    kind: str
    data: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Its words, one for each element."""
        return prod(self.shape)


@dataclass(frozen=True)
class Kernel:
    """One kernel: ``value`` is the buffer that it computes, ``grid`` (blocks, threads of a block)."""

    name: str
    value: str
    op: str
    grid: tuple[int, int]
    shared_size: int
    asm: str
    num_registers: int = 16

    @cached_property
    def program(self) -> Program:
        """The assembled kernel. Raises CompileError."""
        return assemble(self.asm, num_registers=self.num_registers, file=f"<{self.name}>")


@dataclass(slots=True, frozen=True)
class Launch:
    """A launch document. ``estimate`` is its JSON, or None."""

    name: str
    num_registers: int
    mem_size: int
    buffers: dict[str, Buffer]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    estimate: dict[str, Any] | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Plain data, which `parse_launch` reads back."""
        document: dict[str, Any] = {
            "format": "tgpu-launch",
            "version": 1,
            "name": self.name,
            "num_registers": self.num_registers,
            "mem_size": self.mem_size,
            "buffers": {name: _buffer_json(buffer) for name, buffer in self.buffers.items()},
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "kernels": [_kernel_json(kernel) for kernel in self.kernels],
        }
        if self.estimate is not None:
            document["estimate"] = self.estimate
        return document

    def dumps(self) -> str:
        """The document as text."""
        return _lines(self.to_json(), "") + "\n"

    def with_estimate(self) -> Launch:
        """The document with what it will cost: one estimate a kernel, and their sum."""
        from magpie.backends.tgpu.estimate import Estimate, estimate, total

        found: list[Estimate] = [
            estimate(k.program, k.grid, num_registers=self.num_registers, shared_size=k.shared_size)
            for k in self.kernels
        ]
        costs = [{"name": k.name} | e.to_json() for k, e in zip(self.kernels, found, strict=True)]
        return replace(self, estimate={"kernels": costs, "total": total(found).to_json()})


def _lines(value: Any, indent: str) -> str:
    """JSON with a line for each entry; what holds numbers and strings only stands on one line."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(v, dict | list) for v in inner):
        return json.dumps(value)
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [f"{deeper}{json.dumps(key)}: {_lines(v, deeper)}" for key, v in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + _lines(v, deeper) for v in value) + f"\n{indent}]"


def _buffer_json(buffer: Buffer) -> dict[str, Any]:
    found = {"addr": buffer.addr, "dtype": buffer.dtype, "shape": list(buffer.shape), "kind": buffer.kind}
    return found if buffer.data is None else found | {"data": list(buffer.data)}


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    names = ("name", "value", "op", "grid", "shared_size", "asm")
    return {name: getattr(kernel, name) for name in names} | {"grid": list(kernel.grid)}


def launch_schema() -> dict[str, Any]:
    """The JSON Schema of launch documents."""
    text = Path(__file__).with_name("launch.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def read_launch(path: str | Path) -> Launch:
    """The launch document in a file. Raises CompileError, and OSError."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the document is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}"
        raise CompileError(Diagnostic("MPG_TGPU_1201", message, Loc(str(path), 1))) from None
    return parse_launch(text, file=str(path))


def parse_launch(text: str, *, file: str = "<launch document>") -> Launch:
    """The launch document of ``text``.

    Raises CompileError with MPG_TGPU_1201 for what is wrong in the document, each with its path, such as
    ``kernels[2].asm line 3``, and its line and column in ``file``.
    """
    document = _loaded(text, file)
    found = list(schema.errors(document, launch_schema())) or list(_meaning(document))
    if found:
        raise CompileError([_diagnostic(text, file, path, message) for path, message in found[:_MOST_ERRORS]])
    return _launch(document)


def _diagnostic(text: str, file: str, path: tuple[str | int, ...], message: str) -> Diagnostic:
    line, col = schema.locate(text, path)
    return Diagnostic("MPG_TGPU_1201", f"{schema.path_text(path)}: {message}", Loc(file, line, col))


def _loaded(text: str, file: str) -> Any:
    """The JSON value of a text in which no key stands twice."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in items:
            if key in found:
                raise _Refused(f"the key {key!r} stands twice in one object")
            found[key] = value
        return found

    def constant(name: str) -> Any:
        raise _Refused(f"{name} is no number of JSON")

    def whole(digits: str) -> int:
        if len(digits) > 30:
            raise _Refused(f"the number {digits[:20]}... is too long")
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=whole)
    except json.JSONDecodeError as error:
        loc = Loc(file, error.lineno, error.colno - 1)
        raise CompileError(Diagnostic("MPG_TGPU_1201", f"the document is not JSON: {error.msg}", loc)) from None
    except _Refused as refused:
        raise CompileError(Diagnostic("MPG_TGPU_1201", str(refused), Loc(file, 1))) from None
    except RecursionError:
        message = "the document nests too deep"
        raise CompileError(Diagnostic("MPG_TGPU_1201", message, Loc(file, 1))) from None


class _Refused(Exception):
    """Valid JSON for Python, and not for us."""


def _launch(document: dict[str, Any]) -> Launch:
    buffers = {
        name: Buffer(b["addr"], b["dtype"], tuple(b["shape"]), b["kind"], tuple(b["data"]) if "data" in b else None)
        for name, b in document["buffers"].items()
    }
    kernels = tuple(
        Kernel(**(k | {"grid": (k["grid"][0], k["grid"][1])}), num_registers=document["num_registers"])
        for k in document["kernels"]
    )
    return Launch(
        document["name"],
        document["num_registers"],
        document["mem_size"],
        buffers,
        tuple(document["inputs"]),
        tuple(document["outputs"]),
        kernels,
        document.get("estimate"),
    )


# --- what a schema cannot say ----------------------------------------------------------------------------------------
def _meaning(document: dict[str, Any]) -> list[schema.Problem]:
    """What is wrong in a document of the right form."""
    return [*_buffers(document), *_names(document), *_kernels(document), *_estimate(document)]


def _buffers(document: dict[str, Any]) -> list[schema.Problem]:
    found: list[schema.Problem] = []
    fixed: list[tuple[int, int, str]] = []
    for name, buffer in document["buffers"].items():
        size, at = prod(buffer["shape"]), ("buffers", name)
        end = buffer["addr"] + size
        if end > document["mem_size"]:
            text = f"words {buffer['addr']} to {end - 1} of a memory of {document['mem_size']}"
            found.append(((*at, "addr"), f"the buffer does not lie in memory: {text}"))
        data = buffer.get("data")
        if (data is None) is (buffer["kind"] == "const"):
            found.append((at, "a constant has data" if data is None else "only a constant has data"))
        elif data is not None:
            found += _data(data, buffer["dtype"], size, (*at, "data"))
        if buffer["kind"] in ("input", "const") and size:
            other = next((n for low, high, n in fixed if low < end and buffer["addr"] < high), None)
            if other is not None:
                found.append(((*at, "addr"), f"the buffer overlaps {other!r}, and both are there at the start"))
            fixed.append((buffer["addr"], end, name))
    return found


def _data(data: list[int], dtype: str, size: int, at: tuple[str, ...]) -> list[schema.Problem]:
    if len(data) != size:
        return [(at, f"{len(data)} elements for a shape of {size}")]
    t = by_name(dtype)
    wrong = next((i for i, n in enumerate(data) if not t.min <= n <= t.max), None)
    return [] if wrong is None else [((*at, wrong), f"{data[wrong]} is no {dtype}")]


def _names(document: dict[str, Any]) -> list[schema.Problem]:
    found: list[schema.Problem] = []
    buffers = document["buffers"]
    for group in ("inputs", "outputs"):
        for i, name in enumerate(document[group]):
            if name not in buffers:
                found.append(((group, i), f"there is no buffer {name!r}"))
            elif group == "inputs" and buffers[name]["kind"] != "input":
                found.append(((group, i), f"the buffer {name!r} is of the kind {buffers[name]['kind']}"))
    for name, buffer in buffers.items():
        if buffer["kind"] == "input" and name not in document["inputs"]:
            found.append((("buffers", name, "kind"), "an input that does not stand in `inputs`"))
    return found


def _kernels(document: dict[str, Any]) -> list[schema.Problem]:
    found: list[schema.Problem] = []
    for i, kernel in enumerate(document["kernels"]):
        at = ("kernels", i)
        if kernel["value"] not in document["buffers"]:
            found.append(((*at, "value"), f"there is no buffer {kernel['value']!r}"))
        if prod(kernel["grid"]) >= 1 << 31:
            found.append(((*at, "grid"), "a launch has fewer than 2**31 threads"))
        try:
            assemble(kernel["asm"], num_registers=document["num_registers"])
        except CompileError as error:
            for d in error.diagnostics:
                line, col = (d.loc.line, d.loc.col) if d.loc is not None else (1, 0)
                found.append(((*at, "asm"), f"line {line}, column {col + 1}: {d.message} [{d.code}]"))
    return found


def _estimate(document: dict[str, Any]) -> list[schema.Problem]:
    estimate = document.get("estimate")
    if estimate is None:
        return []
    found: list[schema.Problem] = []
    costs, kernels = estimate["kernels"], document["kernels"]
    if len(costs) != len(kernels):
        found.append((("estimate", "kernels"), f"{len(costs)} estimates for {len(kernels)} kernels"))
    for i, (cost, kernel) in enumerate(zip(costs, kernels, strict=False)):
        if cost.get("name", kernel["name"]) != kernel["name"]:
            found.append((("estimate", "kernels", i, "name"), f"the kernel here is called {kernel['name']!r}"))
    for path, cost in [*((("kernels", i), c) for i, c in enumerate(costs)), (("total",), estimate["total"])]:
        for name, bounds in cost.items():
            if isinstance(bounds, dict) and bounds["max"] is not None and bounds["max"] < bounds["min"]:
                found.append((("estimate", *path, name), "the upper bound is below the lower one"))
    return found
