"""Random tensor graphs, and comparing what they give."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from magpie.dtypes import DType, bf16, bool_, f16, f32, i8, i32, u8
from magpie.frontend.graph.nodes import Graph, Value
from magpie.frontend.graph.parser import parse
from magpie.frontend.graph.passes.decompose import Maker
from magpie.frontend.graph.rules import Mismatch
from magpie.frontend.mp.source import Source

UNARY = ("relu", "neg", "abs", "tanh", "sigmoid", "erf", "floor")
OF_INTS = ("relu", "neg", "abs")
BINARY = ("add", "sub", "mul", "minimum", "maximum")


def parsed(text: str) -> Graph:
    """The graph of a text."""
    return parse(Source(text, "g.tg"))


def random_array(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Small numbers, so that sums and products stay small too."""
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        return rng.integers(max(dtype.min, -100), 100, shape).astype(dtype.numpy)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype.numpy)


class Random:
    """A random graph of some ops, all of whose results that nobody reads are outputs."""

    def __init__(
        self,
        seed: int,
        ops: int = 8,
        dtypes: tuple[DType, ...] = (f32, i32, i8, f16, bf16, u8),
        extents: tuple[int, ...] = (1, 2, 3, 4, 7, 17),
    ) -> None:
        self.floats = any(t.is_float for t in dtypes)
        self.r = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("random")
        self.maker = Maker(self.graph)
        for k in range(self.r.randint(1, 3)):
            shape = tuple(self.r.choice(extents) for _ in range(self.r.choice((1, 2, 2, 2, 3, 4))))
            self.graph.inputs.append(Value(self.maker.fresh(f"x{k}"), self.r.choice(dtypes), shape))
        while ops:
            try:
                self.step()
                ops -= 1
            except Mismatch:
                continue
        users = self.graph.users()
        self.graph.outputs = [op.result for op in self.graph.ops if not users[op.result] and op.name != "const"]
        if len(self.graph.ops) > 2 and self.r.random() < 0.3:  # a result that is read and is an output
            extra = self.r.choice([op.result for op in self.graph.ops if op.name != "const"])
            if extra not in self.graph.outputs:
                self.graph.outputs.append(extra)
        self.inputs = {v.name: random_array(self.rng, v.dtype, v.shape) for v in self.graph.inputs}

    def pick(self) -> Value:
        values = [v for v in self.graph.values() if v.dtype is not bool_]
        return self.r.choice(values[-6:])

    def const(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        return self.maker.const(random_array(self.rng, dtype, shape), dtype, "c")

    def step(self) -> None:
        r, m, x = self.r, self.maker, self.pick()
        rank = len(x.shape)
        kind = r.choice(
            ["unary"] * 3 + ["binary"] * 4 + ["const"] * 2 + ["matmul", "reduce", "reduce", "row", "move", "move", "reshape"]
            + ["window", "cast", "choose", "bias"]
        )  # fmt: skip
        if kind == "unary":
            m.op(r.choice(UNARY if x.dtype.is_float else OF_INTS), (x,), "v")
        elif kind == "binary":
            m.op(r.choice(BINARY), r.sample((x, self.pick()), 2), "v")
        elif kind == "const":
            shape = tuple(n if r.random() < 0.6 else 1 for n in x.shape)[r.randint(0, rank) :]
            m.op(r.choice(BINARY), (x, self.const(x.dtype, shape)), "v")
        elif kind == "matmul" and rank >= 2:
            m.op("matmul", (x, self.const(x.dtype, (x.shape[-1], r.choice((1, 3, 16, 20))))), "v")
        elif kind == "reduce":
            axes = tuple(sorted(r.sample(range(rank), r.randint(1, rank)))) if rank else ()
            m.op(r.choice(("reduce_sum", "reduce_max", "reduce_min", "reduce_mean")), (x,), "v", axes=axes, keepdims=r.random() < 0.5)
        elif kind == "row" and rank and x.dtype.is_float:
            if r.random() < 0.5:
                m.op("softmax", (x,), "v", axis=r.randrange(rank))
            else:
                m.op("layernorm", (x, self.const(x.dtype, x.shape[-1:]), self.const(x.dtype, x.shape[-1:])), "v")
        elif kind == "reshape":
            m.op("reshape", (x,), "v", shape=r.choice([(x.size,), (-1, x.shape[-1] if rank else 1), (1, *x.shape)]))
        elif kind == "move" and rank:
            self.move(x)
        elif kind == "window" and rank == 4:
            self.window(x)
        elif kind == "cast":
            m.op("cast", (x,), "v", to=r.choice((f32, i32) if self.floats else (i32,)))
        elif kind == "choose":
            m.op("where", (m.op("greater", (x, self.const(x.dtype, ())), "v"), x, self.const(x.dtype, ())), "v")
        elif kind == "bias" and rank:
            axis = r.randrange(rank)
            m.op("bias", (x, self.const(x.dtype, (x.shape[axis],))), "v", axis=axis)
        else:
            raise Mismatch("", "")

    def move(self, x: Value) -> None:
        r, m, rank = self.r, self.maker, len(x.shape)
        kind, axis = r.choice(("transpose", "slice", "concat", "gather", "pad")), r.randrange(rank)
        if kind == "transpose":
            m.op("transpose", (x,), "v", perm=tuple(r.sample(range(rank), rank)))
        elif kind == "slice":
            starts = tuple(r.randrange(n) for n in x.shape)
            stops = tuple(r.randint(a + 1, n) for a, n in zip(starts, x.shape, strict=True))
            m.op("slice", (x,), "v", starts=starts, stops=stops, steps=tuple(r.randint(1, 2) for _ in x.shape))
        elif kind == "concat":
            m.op("concat", (x, x, self.const(x.dtype, x.shape)), "v", axis=axis)
        elif kind == "gather":
            at = np.array([r.randint(-x.shape[axis], x.shape[axis] - 1) for _ in range(3)], np.int32)
            m.op("gather", (x, m.const(at, i32, "at")), "v", axis=axis)
        else:
            pads = tuple(r.randint(0, 2) for _ in range(2 * rank))
            m.op("pad", (x,), "v", pads=pads, value=1 if x.dtype.is_int else 0.5)

    def window(self, x: Value) -> None:
        r, m = self.r, self.maker
        pads, strides = tuple(r.randint(0, 1) for _ in range(4)), (r.randint(1, 2), r.randint(1, 2))
        kind = r.choice(("conv2d", "maxpool", "avgpool"))
        if kind == "conv2d":
            weights = self.const(x.dtype, (r.choice((1, 2, 9)), x.shape[1], r.randint(1, 3), r.randint(1, 3)))
            m.op("conv2d", (x, weights), "v", pads=pads, strides=strides)
        else:
            m.op(kind, (x,), "v", kernel=(r.randint(2, 3), r.randint(2, 3)), pads=pads, strides=strides)


#: Relative to the largest element: an ulp or a few of each type, with sums of some dozen in another order.
TOLERANCE = {"f32": 2e-5, "f16": 8e-3, "bf16": 6e-2}


def assert_close(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: DType, what: str) -> None:
    """Equal integers; floats within the tolerance of their dtype, infinities and NaN in the same places."""
    assert got.shape == want.shape and got.dtype == want.dtype, (what, got.dtype, got.shape, want.dtype, want.shape)
    if not dtype.is_float:
        assert np.array_equal(got, want), (what, got, want)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    assert np.array_equal(np.where(finite, 0, b), np.where(finite, 0, a), equal_nan=True), (what, a, b)
    scale = np.abs(b[finite]).max(initial=1.0)
    error = np.abs(a[finite] - b[finite]).max(initial=0.0) / scale
    assert error <= TOLERANCE[dtype.name], (what, error, a, b)
