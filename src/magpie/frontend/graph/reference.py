"""Runs a graph op by op on NumPy: the definition of what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from magpie.dtypes import DType
from magpie.frontend.graph.nodes import Graph, Op, Operand, Prev, Step, Value
from magpie.frontend.graph.numerics import REFERENCE, lift, settle

__all__ = ["evaluate", "evaluate_op"]

Array = np.ndarray[Any, Any]


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name. ``inputs`` has an array of the declared dtype and shape for every input."""
    known = {v: np.asarray(inputs[v.name]) for v in graph.inputs}
    for op in graph.ops:
        known[op.result] = evaluate_op(op, known)
    return {v.name: known[v] for v in graph.outputs}


def evaluate_op(op: Op, known: Mapping[Value, Array]) -> Array:
    """One op, its prologue and epilogue included, on the values that it reads. Each step is rounded by itself."""
    if op.name == "const":
        data: Array = op.attrs["data"]
        return data
    before: list[Array] = []
    for step in op.prologue:
        before.append(_step(step, before, known))

    def operand(x: Operand) -> Array:
        return before[x.index] if isinstance(x, Prev) else known[x]

    results = [_apply(op.name, op.attrs, [operand(x) for x in op.operands], op.own)]
    for step in op.epilogue:
        results.append(_step(step, results, known))
    return np.ascontiguousarray(results[-1]).reshape(op.result.shape)


def _step(step: Step, before: list[Array], known: Mapping[Value, Array]) -> Array:
    arrays = [before[a.index] if isinstance(a, Prev) else known[a] for a in step.args]
    return _apply(step.op, dict(step.attrs), arrays, step.dtype)


def _apply(name: str, attrs: dict[str, Any], arrays: list[Array], dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return settle(REFERENCE[name](attrs, *map(lift, arrays)), dtype)
