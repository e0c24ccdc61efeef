"""From Graph IR to Kernel IR: one kernel an op, with its prologue and epilogue."""

from __future__ import annotations

import re

from magpie.frontend.graph.lower.base import Constants, Lowered, Lowering
from magpie.frontend.graph.lower.elementwise import Elementwise, Strided
from magpie.frontend.graph.lower.matmul import MatMul
from magpie.frontend.graph.lower.move import Concat, Gather, Pad
from magpie.frontend.graph.lower.reduce import Reduce
from magpie.frontend.graph.lower.rows import LayerNorm, RowReduce, Softmax, takes_rows
from magpie.frontend.graph.lower.target import Target
from magpie.frontend.graph.lower.windows import Conv, Pool
from magpie.frontend.graph.nodes import Graph, Op
from magpie.frontend.graph.ops import OPS

__all__ = ["Lowered", "Target", "lower_graph", "lower_op"]

_OF_OP: dict[str, type[Lowering]] = {
    "matmul": MatMul,
    "conv2d": Conv,
    "maxpool": Pool,
    "avgpool": Pool,
    "softmax": Softmax,
    "layernorm": LayerNorm,
    "concat": Concat,
    "gather": Gather,
    "pad": Pad,
    "transpose": Strided,
    "slice": Strided,
    "reshape": Strided,
}
_OF_KIND: dict[str, type[Lowering]] = {"elementwise": Elementwise, "reduce": Reduce}


def lower_op(op: Op, name: str, target: Target, constants: Constants) -> Lowered:
    """The kernel of one op that is no constant, bias or gemm (`magpie.frontend.graph.passes.decompose`)."""
    make = _OF_OP.get(op.name) or _OF_KIND[OPS[op.name].kind]
    if make is Reduce and op.name != "argmax":
        rows = RowReduce(op, name, target, constants)
        rows.split_space(op.attrs["axes"])
        if takes_rows(rows):
            make = RowReduce
    lowering = make(op, name, target, constants)
    if isinstance(lowering, RowReduce):
        lowering.split_space(op.attrs["axes"])
    lowering.lower()
    return lowering.done()


def lower_graph(graph: Graph, target: Target) -> list[Lowered]:
    """The kernels in order. Ops whose result shares memory with what they read have none."""
    constants = {op.result: op.attrs["data"] for op in graph.ops if op.name == "const"}
    found: list[Lowered] = []
    for op in graph.ops:
        if op.name == "const" or (OPS[op.name].kind == "view" and op.result not in graph.outputs):
            continue
        name = f"k{len(found)}_{re.sub(r'[^a-z0-9_]', '_', op.name)}"
        found.append(lower_op(op, name, target, constants))
    return found
