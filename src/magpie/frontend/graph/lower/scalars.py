"""Elementwise ops on scalars of Kernel IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.dtypes import DType, f32, i32, i64
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node

__all__ = ["SCALARS", "scalar"]

Attrs = dict[str, Any]
_Emit = Callable[[Builder, Attrs, list[Node], DType], Node]


def scalar(b: Builder, name: str, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    """The result of an elementwise op, of ``dtype``, for one element of each operand."""
    return SCALARS[name](b, attrs, args, dtype)


def _arithmetic(op: str) -> _Emit:
    def emit(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
        return b.emit(op, *(b.cast(a, dtype) for a in args))

    return emit


def _plain(op: str, of_ints: str = "") -> _Emit:
    def emit(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
        return b.emit(of_ints if of_ints and args[0].dtype.is_int else op, *args)

    return emit


def _div(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    return b.emit("tdiv" if dtype.is_int else "div", *(b.cast(a, dtype) for a in args))


def _relu(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    (x,) = args
    zero = b.const(0, dtype)
    return b.select(b.emit("gt", x, zero), x, zero)


def _clip(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    (x,) = args
    low, high = attrs["min"], attrs["max"]
    if low > (dtype.min if dtype.is_int else float("-inf")):
        bound = b.const(low, dtype)
        x = b.select(b.emit("lt", x, bound), bound, x)
    if high < (dtype.max if dtype.is_int else float("inf")):
        bound = b.const(high, dtype)
        x = b.select(b.emit("gt", x, bound), bound, x)
    return x


def _sigmoid(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    x = b.cast(args[0], f32)
    one = b.const(1.0, f32)
    return b.cast(b.emit("div", one, b.emit("add", one, b.emit("exp", b.emit("neg", x)))), dtype)


def _cast(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    return b.cast(args[0], dtype)


def _quantize(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    x, scale, zero = args
    level = b.emit("round", b.emit("div", x, scale))
    # Far beyond both ends of the type, and far from those of `held`, so that the zero point can be added there.
    held, far = (i64, 1 << 40) if dtype is i32 else (i32, 1 << 20)
    known = b.emit("eq", level, level)
    level = b.emit("min", b.emit("max", level, b.const(-far, f32)), b.const(far, f32))
    level = b.select(known, level, b.const(0.0, f32))
    total = b.emit("add", b.emit("cast", level, type=held), b.cast(zero, held))
    low, high = b.const(dtype.min, held), b.const(dtype.max, held)
    return b.cast(b.emit("min", b.emit("max", total, low), high), dtype)


def _dequantize(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    x, scale, zero = args
    if not (zero.op == "const" and zero.attrs["value"] == 0):
        held = i64 if x.dtype is i32 else i32  # the difference of two numbers of 32 bits has 33
        x = b.emit("sub", b.cast(x, held), b.cast(zero, held))
    return b.emit("mul", b.cast(x, f32), scale)


def _where(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    return b.select(*args)


def _same(b: Builder, attrs: Attrs, args: list[Node], dtype: DType) -> Node:
    return args[0]


SCALARS: dict[str, _Emit] = {
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _arithmetic("mul"),
    "bias": _arithmetic("add"),
    "neg": _arithmetic("neg"),
    "abs": _arithmetic("abs"),
    "div": _div,
    "minimum": _plain("minimum", "min"),
    "maximum": _plain("maximum", "max"),
    "pow": _plain("pow"),
    "relu": _relu,
    "clip": _clip,
    "sqrt": _plain("sqrt"),
    "exp": _plain("exp"),
    "log": _plain("log"),
    "tanh": _plain("tanh"),
    "erf": _plain("erf"),
    "floor": _plain("floor"),
    "round": _plain("round"),
    "sigmoid": _sigmoid,
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "equal": _plain("eq"),
    "less": _plain("lt"),
    "greater": _plain("gt"),
    "not": _plain("not"),
    "and": _plain("and"),
    "or": _plain("or"),
    "where": _where,
    "broadcast": _same,
}
