"""Composite ops in terms of others: bias, gemm, and the border of a convolution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from magpie.diagnostics import Loc
from magpie.dtypes import DType
from magpie.frontend.graph.lower.target import Target
from magpie.frontend.graph.nodes import Graph, Op, Shape, Value
from magpie.frontend.graph.numerics import settle
from magpie.frontend.graph.ops import infer

__all__ = ["Maker", "decompose"]


class Maker:
    """Appends ops to a graph. Names of new values are those of the value that they are made for, with a number."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = {v.name for v in graph.values()}
        self.loc: Loc | None = None

    def fresh(self, base: str) -> str:
        """A name that no value has."""
        name, n = base, 0
        while name in self.names:
            n += 1
            name = f"{base}.{n}"
        self.names.add(name)
        return name

    def op(self, name: str, operands: Iterable[Value], base: str, result: Value | None = None, **attrs: Any) -> Value:
        """The result of an op; ``result`` is a value that is there already. Raises Mismatch."""
        parts = list(operands)
        dtype, shape = infer(name, parts, attrs)
        if result is None:
            result = Value(self.fresh(base), dtype, shape, self.loc)
        assert (result.dtype, result.shape) == (dtype, shape), (name, result, dtype, shape)
        self.graph.ops.append(Op(name, parts, result, attrs, self.loc))
        return result

    def const(self, data: Any, dtype: DType, base: str, shape: Shape | None = None) -> Value:
        """A constant; floats are rounded once."""
        array = np.asarray(data)
        if array.dtype != dtype.numpy:
            array = settle(array.astype(np.float64) if dtype.is_float else array, dtype)
        array = np.ascontiguousarray(array).reshape(array.shape if shape is None else shape)
        value = Value(self.fresh(base), dtype, array.shape, self.loc)
        self.graph.ops.append(Op("const", (), value, {"data": array, "dtype": dtype}, self.loc))
        return value

    def reshape(self, value: Value, shape: Shape, base: str) -> Value:
        return value if value.shape == shape else self.op("reshape", (value,), base, shape=shape)


def decompose(graph: Graph, target: Target) -> Graph:
    """bias and gemm as additions and products; for targets with tiles, a convolution's border as a pad."""
    done = Graph(graph.name, list(graph.inputs), [], list(graph.outputs), graph.loc)
    maker = Maker(done)
    maker.names.update(v.name for v in graph.values())
    for op in graph.ops:
        maker.loc = op.loc
        if op.name == "bias":
            _bias(maker, op)
        elif op.name == "gemm":
            _gemm(maker, op)
        elif op.name == "conv2d" and target.lanes and any(op.attrs["pads"]) and not op.fused:
            _border(maker, op)
        else:
            done.ops.append(op)
    return done


def _operands(op: Op) -> list[Value]:
    return [x for x in op.operands if isinstance(x, Value)]


def _bias(maker: Maker, op: Op) -> None:
    x, b = _operands(op)
    axis = op.attrs["axis"] % len(x.shape)
    behind = len(x.shape) - axis - 1
    vector = maker.reshape(b, (*b.shape, *(1,) * behind), op.result.name)
    maker.graph.ops.append(Op("add", (x, vector), op.result, {}, op.loc, op.prologue, op.epilogue, op.own))


def _gemm(maker: Maker, op: Op) -> None:
    a, b, *c = _operands(op)
    name, attrs = op.result.name, op.attrs
    if attrs["trans_a"]:
        a = maker.op("transpose", (a,), name)
    if attrs["trans_b"]:
        b = maker.op("transpose", (b,), name)
    steps: list[tuple[str, Value]] = []
    dtype = op.own
    if attrs["alpha"] != 1.0:
        steps.append(("mul", maker.const(attrs["alpha"], dtype, name)))
    if c:
        extra = c[0]
        if attrs["beta"] != 1.0:
            extra = maker.op("mul", (extra, maker.const(attrs["beta"], dtype, name)), name)
        steps.append(("add", extra))
    value = maker.op("matmul", (a, b), name, op.result if not steps and not op.epilogue else None)
    for k, (step, other) in enumerate(steps):
        last = k == len(steps) - 1 and not op.epilogue
        value = maker.op(step, (value, other), name, op.result if last else None)
    if op.epilogue:
        attrs = {"shape": value.shape}
        maker.graph.ops.append(Op("broadcast", (value,), op.result, attrs, op.loc, (), op.epilogue, op.own))


def _border(maker: Maker, op: Op) -> None:
    image, weights = _operands(op)
    top, left, bottom, right = op.attrs["pads"]
    pads = (0, 0, top, left, 0, 0, bottom, right)
    padded = maker.op("pad", (image,), op.result.name, pads=pads, value=0)
    attrs = {**op.attrs, "pads": (0, 0, 0, 0)}
    maker.op("conv2d", (padded, weights), op.result.name, op.result, **attrs)
