"""ONNX operators on quantised values. Integers are exact; where a result is rescaled, one f32 factor is applied."""

from __future__ import annotations

import numpy as np

from magpie.dtypes import DType, f32, i8, u8
from magpie.frontend.graph.nodes import Value
from magpie.frontend.graph.onnx_composed import IMPORTERS
from magpie.frontend.graph.onnx_node import Node, Unsupported
from magpie.frontend.graph.onnx_ops import convolution, importer, product

#: All importers: each of the three files adds its own.
__all__ = ["IMPORTERS"]


def _shifted(n: Node, at: int, zero: int, columns: bool = False) -> Value:
    """Input ``at`` without its zero point, which is input ``zero``: itself where that is 0, else as i32.

    ``columns``: a zero point a column; else one a row.
    """
    x = n[at]
    if not n.has(zero):
        return x
    known = n.array(zero)
    if known is not None and not known.any():
        return x
    point = n[zero]
    if point.size > 1 and not columns and len(x.shape) > 1:
        point = n.reshape(point, (point.size, 1))
    elif point.size == 1:
        point = n.reshape(point, ())
    return n.op("sub", x, point)


@importer("MatMulInteger")
def _matmul_integer(n: Node) -> list[Value]:
    return [product(n, _shifted(n, 0, 2), _shifted(n, 1, 3, columns=True))]


@importer("ConvInteger")
def _conv_integer(n: Node) -> list[Value]:
    x, w = _shifted(n, 0, 2), n[1]
    if n.has(3):
        known = n.array(3)
        if known is None or known.any():
            point = n[3]
            if point.size > 1:
                point = n.reshape(point, (point.size, *(1,) * (len(w.shape) - 1)))
            else:
                point = n.reshape(point, ())
            w = n.op("sub", w, point)
    return [convolution(n, x, w)]


def _requantized(n: Node, total: Value, scales: tuple[int, int, int], zero: int, axis: int) -> Value:
    """An i32 sum times scale a * scale b / scale y, as the type of the zero point ``zero``."""
    a, b, y = (n.known(k, "a scale").astype(np.float32) for k in scales)
    factor = (a * b / y).astype(np.float32)
    point = n[zero]
    if factor.size > 1:
        shape = [1] * len(total.shape)
        shape[axis] = factor.size
        scale = n.const(factor.reshape(shape), f32)
    else:
        scale = n.const(factor.reshape(()), f32)
    scaled = n.op("mul", n.cast(total, f32), scale)
    return n.op("quantize", scaled, n.const(1.0, f32), n.reshape(point, ()), to=point.dtype)


@importer("QLinearMatMul")
def _qlinear_matmul(n: Node) -> list[Value]:
    # a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
    total = product(n, _shifted(n, 0, 2), _shifted(n, 3, 5, columns=True))
    return [_requantized(n, total, (1, 4, 6), 7, len(total.shape) - 1)]


@importer("QLinearConv")
def _qlinear_conv(n: Node) -> list[Value]:
    # x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias
    w = n[3]
    known = n.known(5, "a zero point of weights")
    if known.any():
        point = n[5]
        w = n.op("sub", w, n.reshape(point, (point.size, *(1,) * (len(w.shape) - 1)) if point.size > 1 else ()))
    total = convolution(n, _shifted(n, 0, 2), w)
    if n.has(8):
        total = n.op("bias", total, n[8], axis=1)
    return [_requantized(n, total, (1, 4, 6), 7, 1)]


def _per_axis(n: Node, x: Value, at: int) -> Value:
    """A scale or zero point, one or one an element of dimension ``axis``, as something that broadcasts to ``x``."""
    value = n[at]
    if value.size == 1:
        return n.reshape(value, ())
    if len(value.shape) != 1 or n.get("block_size", 0):
        raise Unsupported("scales in blocks")
    axis = int(n.get("axis", 1)) % len(x.shape)
    return n.reshape(value, (value.size, *(1,) * (len(x.shape) - 1 - axis)))


def _zero(n: Node, at: int, like: Value, dtype: DType, x: Value) -> Value:
    if n.has(at):
        return _per_axis(n, x, at)
    return n.const(np.zeros(like.shape), dtype)


@importer("QuantizeLinear")
def _quantize(n: Node) -> list[Value]:
    x = n.cast(n[0], f32)
    scale = n.cast(_per_axis(n, x, 1), f32)
    zero = _zero(n, 2, scale, u8, x)
    if zero.dtype not in (i8, u8):
        raise Unsupported(f"quantised values of {zero.dtype}")
    return [n.op("quantize", x, scale, zero, to=zero.dtype)]


@importer("DequantizeLinear")
def _dequantize(n: Node) -> list[Value]:
    x = n[0]
    if not x.dtype.is_int:
        raise Unsupported(f"quantised values of {x.dtype}")
    scale = _per_axis(n, x, 1)
    found = n.op("dequantize", x, n.cast(scale, f32), _zero(n, 2, scale, x.dtype, x))
    return [n.cast(found, scale.dtype)]


@importer("DynamicQuantizeLinear")
def _dynamic(n: Node) -> list[Value]:
    x = n[0]
    nothing = n.const(0.0, f32)
    high = n.op("maximum", n.op("reduce_max", x), nothing)
    low = n.op("minimum", n.op("reduce_min", x), nothing)
    scale = n.op("div", n.op("sub", high, low), n.const(255.0, f32))
    level = n.op("div", n.op("neg", low), scale)
    zero = n.op("quantize", level, n.const(1.0, f32), n.const(0, u8), to=u8)
    return [n.op("quantize", x, scale, zero, to=u8), scale, zero]


@importer("QLinearAdd", "QLinearMul")
def _qlinear_binary(n: Node) -> list[Value]:
    # a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
    parts = [n.op("dequantize", n[k], n.reshape(n[k + 1], ()), n.reshape(n[k + 2], ())) for k in (0, 3)]
    total = n.op("add" if n.proto.op_type == "QLinearAdd" else "mul", *parts)
    zero = n.reshape(n[7], ())
    return [n.op("quantize", total, n.reshape(n[6], ()), zero, to=zero.dtype)]
