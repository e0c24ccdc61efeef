"""Composite ops that exporters wrote out: a norm over the last dimension from means, differences and a square root."""

from __future__ import annotations

import math

import numpy as np

from magpie.dtypes import f32
from magpie.frontend.graph.nodes import Graph, Op, Value

__all__ = ["recognise_norms"]


def recognise_norms(graph: Graph) -> Graph:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) as one layernorm; a scale and a bias behind it stay steps.

    What nothing else needs of the old ops is dead then. Floats of 16 bits stay as they are: each step was rounded.
    """
    finder = _Finder(graph)
    done = graph.copy()
    done.ops = []
    for op in graph.ops:
        made = finder.norm(op)
        done.ops += [op] if made is None else made
    return done


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.producers = graph.producers
        self.names = {v.name for v in graph.values()}

    def made_by(self, value: Value, name: str) -> tuple[Value, ...] | None:
        """The operands of the op that makes a value, if it is of this name and not fused."""
        op = self.producers.get(value)
        if op is None or op.name != name or op.fused:
            return None
        return tuple(x for x in op.operands if isinstance(x, Value))

    def number(self, value: Value) -> float | None:
        op = self.producers.get(value)
        if op is None or op.name != "const" or value.size != 1:
            return None
        return float(op.attrs["data"].reshape(-1)[0])

    def mean_of(self, value: Value) -> Value | None:
        """What a value is the mean of, over the last dimension, which stays as 1."""
        op = self.producers.get(value)
        if op is None or op.name != "reduce_mean" or op.fused or not op.attrs["keepdims"]:
            return None
        (x,) = op.reads
        return x if op.attrs["axes"] == (len(x.shape) - 1,) else None

    def norm(self, op: Op) -> list[Op] | None:
        """A division that ends a norm, as the ops that stand for it."""
        if op.name != "div" or op.fused or op.result.dtype is not f32:
            return None
        parts = self.made_by(op.result, "div")
        assert parts is not None
        centred, root = parts
        difference, squared = self.made_by(centred, "sub"), self.made_by(root, "sqrt")
        if difference is None or squared is None:
            return None
        x, mean = difference
        total = self.made_by(squared[0], "add")
        if total is None or self.mean_of(mean) is not x:
            return None
        epsilon = next((e for e in map(self.number, total) if e is not None), None)
        variance = next((v for v in total if self.number(v) is None), None)
        if epsilon is None or variance is None or not 0 <= epsilon < math.inf:
            return None
        square = self.mean_of(variance)
        factors = None if square is None else self.made_by(square, "mul")
        if factors is None or any(f is not centred for f in factors) or op.result.shape != x.shape:
            return None
        return self._layernorm(op, x, epsilon)

    def _layernorm(self, op: Op, x: Value, epsilon: float) -> list[Op]:
        length = x.shape[-1:]
        found = []
        for name, number in (("scale", 1.0), ("bias", 0.0)):
            value = Value(self._fresh(f"{op.result.name}.{name}"), x.dtype, length, op.loc)
            data = np.full(length, number).astype(x.dtype.numpy)
            found.append(Op("const", (), value, {"data": data, "dtype": x.dtype}, op.loc))
        operands = (x, *(c.result for c in found))
        return [*found, Op("layernorm", operands, op.result, {"epsilon": epsilon}, op.loc)]

    def _fresh(self, base: str) -> str:
        name, n = base, 0
        while name in self.names:
            n += 1
            name = f"{base}.{n}"
        self.names.add(name)
        return name
