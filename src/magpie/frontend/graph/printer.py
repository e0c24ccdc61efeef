"""A graph as `.tg` text, which reads back as the same graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from magpie.dtypes import DType, bf16
from magpie.frontend.graph.constants import numbers_text
from magpie.frontend.graph.nodes import Graph, Op, Operand, Prev, Step
from magpie.frontend.graph.ops import OPS
from magpie.frontend.graph.text import plain_name

__all__ = ["print_graph", "save_graph"]

#: Elements above which `save_graph` writes a constant to a file of its own.
INLINE = 256


def print_graph(graph: Graph, files: dict[str, str] | None = None) -> str:
    """The text. ``files`` names .npy files for some constants, by the names of their values."""
    inputs = ", ".join(f"{plain_name(v.name)}: {v.type}" for v in graph.inputs)
    types = ", ".join(v.type for v in graph.outputs)
    result = types if len(graph.outputs) == 1 else f"({types})"
    lines = [f"graph {graph.name}({inputs}) -> {result} {{"]
    for op in graph.ops:
        lines.append(f"  {plain_name(op.result.name)}: {op.result.type} = {_op(op, files or {})}")
    lines += [f"  return {', '.join(plain_name(v.name) for v in graph.outputs)}", "}", ""]
    return "\n".join(lines)


def save_graph(graph: Graph, path: Path) -> None:
    """Write the text, and constants of more than INLINE elements as STEM.NUMBER.npy beside it. Raises OSError."""
    files: dict[str, str] = {}
    for op in graph.ops:
        if op.name == "const" and op.result.size > INLINE:
            name = files[op.result.name] = f"{path.stem}.{len(files)}.npy"
            data = op.attrs["data"]
            np.save(path.parent / name, data.view(np.uint16) if op.result.dtype is bf16 else data)
    path.write_text(print_graph(graph, files), encoding="utf-8")


def _op(op: Op, files: dict[str, str]) -> str:
    if op.name == "const":
        name = files.get(op.result.name)
        return f'const "{name}"' if name else f"const {numbers_text(op.attrs['data'], op.result.dtype)}"
    parts = _attrs(op.name, op.attrs)
    for key, steps, count in (("prologue", op.prologue, 0), ("epilogue", op.epilogue, 1)):
        if steps:
            parts.append(f"{key}=[{', '.join(_step(step, count + k) for k, step in enumerate(steps))}]")
    braces = f"{{{', '.join(parts)}}}" if parts else ""
    return f"{op.name}{braces} {', '.join(_operand(x) for x in op.operands)}"


def _operand(x: Operand) -> str:
    return "_" if isinstance(x, Prev) else plain_name(x.name)


def _step(step: Step, count: int) -> str:
    parts = _attrs(step.op, dict(step.attrs))
    args = [
        ("_" if a.index == count - 1 else f"_{a.index}") if isinstance(a, Prev) else plain_name(a.name)
        for a in step.args
    ]
    return f"{step.op}{'{' + ', '.join(parts) + '}' if parts else ''}({', '.join(args)})"


def _attrs(name: str, attrs: dict[str, Any]) -> list[str]:
    """Attributes that are not their defaults, in the order of the table."""
    return [
        f"{a.name}={_value(attrs[a.name])}"
        for a in OPS[name].attrs.values()
        if a.name in attrs and (a.required or attrs[a.name] != a.default)
    ]


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return value.name if isinstance(value, DType) else repr(value)
