"""ONNX operators in terms of ops of Graph IR, by name: https://onnx.ai/onnx/operators (opsets 7 to 24)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.frontend.graph.nodes import Shape, Value
from magpie.frontend.graph.onnx_node import Node, Unsupported
from magpie.frontend.graph.ops import OPS

__all__ = ["IMPORTERS"]

_Import = Callable[[Node], list[Value]]
IMPORTERS: dict[str, _Import] = {}


def importer(*names: str) -> Callable[[_Import], _Import]:
    """Register an importer under the names of operators."""

    def add(fn: _Import) -> _Import:
        for name in names:
            IMPORTERS[name] = fn
        return fn

    return add


# --- elementwise ------------------------------------------------------------------------------------------------------
_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow"}
_UNARY = {
    "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Tanh": "tanh", "Erf": "erf", "Sigmoid": "sigmoid", "Floor": "floor",
    "Round": "round", "Relu": "relu", "Neg": "neg", "Abs": "abs", "Not": "not",
}  # fmt: skip


@importer(*_BINARY)
def _binary(n: Node) -> list[Value]:
    name, x, y = _BINARY[n.proto.op_type], n.number(n[0]), n.number(n[1])
    # Arithmetic on 8 bits gives 32 here, and 8 in ONNX.
    return [n.cast(_pow(n, x) if name == "pow" else n.op(name, x, y), n[0].dtype)]


def _pow(n: Node, x: Value) -> Value:
    power = n.array(1)
    exponent = float(power.reshape(-1)[0]) if power is not None and power.size == 1 else None
    if x.dtype.is_int:
        return _whole_power(n, x, exponent)
    if exponent is not None:
        if exponent == 2.0:
            return n.op("mul", x, x)
        if exponent == 3.0:
            return n.op("mul", n.op("mul", x, x), x)
        if exponent == 0.5:
            return n.op("sqrt", x)
    return n.op("pow", x, n.cast(n[1], x.dtype))


def _whole_power(n: Node, x: Value, exponent: float | None) -> Value:
    """A power of integers, exact, by products."""
    if exponent is None or not 1 <= exponent <= 32 or exponent != int(exponent):
        raise Unsupported("a power of integers by another exponent than one whole number from 1 to 32")
    found = x
    for _ in range(int(exponent) - 1):
        found = n.op("mul", found, x)
    return found


@importer(*_UNARY)
def _unary(n: Node) -> list[Value]:
    x = n[0]
    return [n.cast(n.op(_UNARY[n.proto.op_type], x), x.dtype)]


@importer("Min", "Max")
def _extreme(n: Node) -> list[Value]:
    found = n[0]
    for k in range(1, n.count):
        found = n.op("minimum" if n.proto.op_type == "Min" else "maximum", found, n[k])
    return [found]


@importer("Sum", "Mean")
def _sum(n: Node) -> list[Value]:
    found = n[0]
    for k in range(1, n.count):
        found = n.op("add", found, n[k])
    if n.proto.op_type == "Mean":
        found = n.op("div", found, n.like(n.count, found))
    return [found]


@importer("Reciprocal")
def _reciprocal(n: Node) -> list[Value]:
    return [n.op("div", n.like(1.0, n[0]), n[0])]


@importer("Clip")
def _clip(n: Node) -> list[Value]:
    bounds = {}
    for k, name in ((1, "min"), (2, "max")):
        if name in n.attributes:
            bounds[name] = float(n.get(name))
        elif n.has(k):
            bounds[name] = float(n.known(k, f"a bound {name}").reshape(-1)[0])
    return [n.op("clip", n[0], **bounds)]


@importer("LeakyRelu", "PRelu")
def _leaky(n: Node) -> list[Value]:
    x = n[0]
    slope = n[1] if n.proto.op_type == "PRelu" else n.like(n.get("alpha", 0.01), x)
    zero = n.like(0.0, x)
    return [n.op("add", n.op("relu", x), n.op("mul", n.op("minimum", x, zero), slope))]


@importer("Elu")
def _elu(n: Node) -> list[Value]:
    x = n[0]
    low = n.op("minimum", x, n.like(0.0, x))
    bent = n.op("mul", n.op("sub", n.op("exp", low), n.like(1.0, x)), n.like(n.get("alpha", 1.0), x))
    return [n.op("add", n.op("relu", x), bent)]


@importer("HardSigmoid")
def _hard_sigmoid(n: Node) -> list[Value]:
    x = n[0]
    line = n.op("add", n.op("mul", x, n.like(n.get("alpha", 0.2), x)), n.like(n.get("beta", 0.5), x))
    return [n.op("clip", line, min=0.0, max=1.0)]


@importer("HardSwish")
def _hard_swish(n: Node) -> list[Value]:
    x = n[0]
    line = n.op("add", n.op("mul", x, n.like(1.0 / 6.0, x)), n.like(0.5, x))
    return [n.op("mul", x, n.op("clip", line, min=0.0, max=1.0))]


@importer("Gelu", "FastGelu")
def _gelu(n: Node) -> list[Value]:
    x = n[0]
    if n.proto.op_type == "FastGelu" and n.has(1):
        x = n.op("add", x, n[1])
    half, one = n.like(0.5, x), n.like(1.0, x)
    if n.get("approximate", "none") == "tanh" or n.proto.op_type == "FastGelu":
        cube = n.op("mul", n.op("mul", x, x), x)
        inner = n.op("mul", n.op("add", x, n.op("mul", cube, n.like(0.044715, x))), n.like(math.sqrt(2 / math.pi), x))
        bent = n.op("tanh", inner)
    else:
        bent = n.op("erf", n.op("mul", x, n.like(math.sqrt(0.5), x)))
    return [n.op("mul", n.op("mul", x, n.op("add", bent, one)), half)]


@importer("Softplus")
def _softplus(n: Node) -> list[Value]:
    x = n[0]
    small = n.op("exp", n.op("neg", n.op("abs", x)))
    return [n.op("add", n.op("log", n.op("add", small, n.like(1.0, x))), n.op("relu", x))]


@importer("Cast")
def _cast(n: Node) -> list[Value]:
    from magpie.frontend.graph.onnx import graph_dtype

    return [n.cast(n[0], graph_dtype(int(n.get("to"))))]


@importer("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or")
def _compare(n: Node) -> list[Value]:
    names = {"LessOrEqual": "less", "GreaterOrEqual": "greater"}
    kind = n.proto.op_type
    if kind in names:  # not the negation of `greater`, which is true for a NaN
        return [n.op("or", n.op(names[kind], n[0], n[1]), n.op("equal", n[0], n[1]))]
    return [n.op(kind.lower(), n[0], n[1])]


@importer("Where")
def _where(n: Node) -> list[Value]:
    return [n.op("where", n[0], n[1], n[2])]


@importer("Identity", "Dropout")
def _identity(n: Node) -> list[Value]:
    if n.proto.op_type == "Dropout" and n.has(2) and bool(n.known(2, "a training mode").reshape(-1)[0]):
        raise Unsupported("training mode")
    return [n[0]]


# --- products ---------------------------------------------------------------------------------------------------------
def product(n: Node, a: Value, b: Value) -> Value:
    """matmul of values of any rank, as NumPy's."""
    left, right = len(a.shape) == 1, len(b.shape) == 1
    if left:
        a = n.reshape(a, (1, *a.shape))
    if right:
        b = n.reshape(b, (*b.shape, 1))
    found = n.op("matmul", a, b)
    shape = list(found.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-2 + right]
    return n.reshape(found, tuple(shape))


@importer("MatMul")
def _matmul(n: Node) -> list[Value]:
    return [product(n, n[0], n[1])]


@importer("Gemm")
def _gemm(n: Node) -> list[Value]:
    operands = [n[0], n[1], *([n[2]] if n.has(2) else [])]
    alpha, beta = float(n.get("alpha", 1.0)), float(n.get("beta", 1.0))
    flags = {"trans_a": bool(n.get("transA", 0)), "trans_b": bool(n.get("transB", 0))}
    return [n.op("gemm", *operands, alpha=alpha, beta=beta, **flags)]


def windows(n: Node, x: Value, kernel: Shape) -> tuple[dict[str, Any], Value]:
    """strides, pads and dilations of a window of two dimensions; of one, the image gets a row of its own."""
    rank = len(kernel)
    if rank not in (1, 2):
        raise Unsupported(f"windows of {rank} dimensions")
    strides = tuple(n.get("strides", (1,) * rank))
    dilations = tuple(n.get("dilations", (1,) * rank))
    pads = tuple(n.get("pads", (0,) * (2 * rank)))
    auto = n.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, behind = [], []
        for d in range(rank):
            size = x.shape[2 + d]
            span = (kernel[d] - 1) * dilations[d] + 1
            total = max((-(-size // strides[d]) - 1) * strides[d] + span - size, 0)
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            before.append(low)
            behind.append(total - low)
        pads = (*before, *behind)
    elif auto == "VALID":
        pads = (0,) * (2 * rank)
    if n.get("ceil_mode", 0):
        pads = _ceiled(x, kernel, strides, dilations, pads, n)
    if rank == 1:
        x = n.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        strides, dilations, pads = (1, *strides), (1, *dilations), (0, pads[0], 0, pads[1])
    return {"strides": strides, "pads": pads, "dilations": dilations}, x


def _ceiled(x: Value, kernel: Shape, strides: Shape, dilations: Shape, pads: Shape, n: Node) -> Shape:
    """More padding behind, so that the last window that begins in the image or before it counts."""
    rank = len(kernel)
    more = list(pads)
    for d in range(rank):
        span = (kernel[d] - 1) * dilations[d] + 1
        size = x.shape[2 + d] + pads[d] + pads[rank + d]
        count = -(-(size - span) // strides[d]) + 1
        if (count - 1) * strides[d] >= x.shape[2 + d] + pads[d]:
            count -= 1
        more[rank + d] += max(0, (count - 1) * strides[d] + span - size)
    if more != list(pads) and n.proto.op_type == "AveragePool" and n.get("count_include_pad", 0):
        raise Unsupported("ceil_mode with count_include_pad")
    return tuple(more)


def convolution(n: Node, x: Value, w: Value) -> Value:
    """conv2d with the node's attributes, of two or one dimensions."""
    kernel = w.shape[2:]
    attrs, image = windows(n, x, kernel)
    if len(kernel) == 1:
        w = n.reshape(w, (*w.shape[:2], 1, w.shape[2]))
    found = n.op("conv2d", image, w, groups=int(n.get("group", 1)), **attrs)
    return found if len(kernel) == 2 else n.reshape(found, (*found.shape[:2], found.shape[3]))


def along_channels(n: Node, x: Value, vector: Value) -> Value:
    """A vector of dimension 1 of ``x``, as something that broadcasts to it."""
    return n.reshape(vector, (*vector.shape, *(1,) * (len(x.shape) - 2)))


@importer("Conv")
def _conv(n: Node) -> list[Value]:
    found = convolution(n, n[0], n[1])
    return [n.op("bias", found, n[2], axis=1)] if n.has(2) else [found]


@importer("BatchNormalization")
def _batch_norm(n: Node) -> list[Value]:
    if n.get("training_mode", 0):
        raise Unsupported("training mode")
    x = n[0]
    scale, bias, mean, variance = (n.known(k, "statistics").astype(np.float64) for k in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + n.get("epsilon", 1e-5))
    scaled = n.op("mul", x, along_channels(n, x, n.const(factor, x.dtype)))
    return [n.op("add", scaled, along_channels(n, x, n.const(bias - mean * factor, x.dtype)))]


# --- pooling and reductions -------------------------------------------------------------------------------------------
@importer("MaxPool", "AveragePool")
def _pool(n: Node) -> list[Value]:
    kernel = tuple(n.get("kernel_shape"))
    attrs, image = windows(n, n[0], kernel)
    if len(n.proto.output) > 1 and n.proto.output[1]:
        raise Unsupported("the places of the largest elements as a second output")
    flat = kernel if len(kernel) == 2 else (1, *kernel)
    if n.proto.op_type == "AveragePool":
        attrs["include_pad"] = bool(n.get("count_include_pad", 0))
        found = n.op("avgpool", image, kernel=flat, **attrs)
    else:
        found = n.op("maxpool", image, kernel=flat, **attrs)
    return [found if len(kernel) == 2 else n.reshape(found, (*found.shape[:2], found.shape[3]))]


@importer("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(n: Node) -> list[Value]:
    kind = "reduce_mean" if n.proto.op_type == "GlobalAveragePool" else "reduce_max"
    return [n.op(kind, n[0], axes=tuple(range(2, len(n[0].shape))), keepdims=True)]


_REDUCE = {
    "ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
}  # fmt: skip


@importer(*_REDUCE)
def _reduce(n: Node) -> list[Value]:
    axes = n.ints("axes", 1)
    if not axes and n.get("noop_with_empty_axes", 0):
        return [n[0]]
    x = n[0]
    if not x.shape:
        return [x]
    return [n.op(_REDUCE[n.proto.op_type], x, axes=axes or (), keepdims=bool(n.get("keepdims", 1)))]


@importer("ArgMax")
def _argmax(n: Node) -> list[Value]:
    if n.get("select_last_index", 0):
        raise Unsupported("select_last_index")
    return [n.op("argmax", n[0], axis=int(n.get("axis", 0)), keepdims=bool(n.get("keepdims", 1)))]


@importer("Softmax", "LogSoftmax")
def _softmax(n: Node) -> list[Value]:
    x = n[0]
    axis = int(n.get("axis", -1 if n.opset >= 13 else 1))
    if n.opset >= 13 or axis in (-1, len(x.shape) - 1):
        found = n.op("softmax", x, axis=axis)
    else:  # over all dimensions from the axis on
        flat = n.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        found = n.reshape(n.op("softmax", flat, axis=1), x.shape)
    return [n.op("log", found) if n.proto.op_type == "LogSoftmax" else found]


@importer("LayerNormalization", "SkipLayerNormalization")
def _layer_norm(n: Node) -> list[Value]:
    x = n[0]
    skip = n.proto.op_type == "SkipLayerNormalization"
    first = 2 if skip else 1
    if skip:
        x = n.op("add", x, n[1])
        if n.has(4):
            x = n.op("add", x, n[4])
    axis = int(n.get("axis", -1)) % len(x.shape)
    shape, length = x.shape, math.prod(x.shape[axis:])
    flat = n.reshape(x, (*shape[:axis], length))
    scale = n.reshape(n[first], (length,))
    bias = n.reshape(n[first + 1], (length,)) if n.has(first + 1) else n.const(np.zeros(length), x.dtype)
    found = n.op("layernorm", flat, scale, bias, epsilon=float(n.get("epsilon", 1e-12 if skip else 1e-5)))
    return [n.reshape(found, shape)]


# --- shapes -----------------------------------------------------------------------------------------------------------
@importer("Reshape")
def _reshape(n: Node) -> list[Value]:
    x = n[0]
    shape = [int(v) for v in n.known(1, "a shape").reshape(-1)]
    if not n.get("allowzero", 0):
        shape = [x.shape[d] if v == 0 else v for d, v in enumerate(shape)]
    return [n.op("reshape", x, shape=tuple(shape))]


@importer("Flatten")
def _flatten(n: Node) -> list[Value]:
    x = n[0]
    axis = int(n.get("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    return [n.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))]


@importer("Squeeze")
def _squeeze(n: Node) -> list[Value]:
    x, axes = n[0], n.ints("axes", 1)
    rank = len(x.shape)
    gone = {a % rank for a in axes} if axes is not None else {d for d, m in enumerate(x.shape) if m == 1}
    return [n.reshape(x, tuple(m for d, m in enumerate(x.shape) if d not in gone))]


@importer("Unsqueeze")
def _unsqueeze(n: Node) -> list[Value]:
    x, axes = n[0], n.ints("axes", 1) or ()
    rank = len(x.shape) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(x.shape)
    return [n.reshape(x, tuple(1 if d in new else next(rest) for d in range(rank)))]


@importer("Transpose")
def _transpose(n: Node) -> list[Value]:
    return [n.op("transpose", n[0], perm=tuple(n.get("perm", ())))]


@importer("Concat")
def _concat(n: Node) -> list[Value]:
    most = OPS["concat"].operands[1]
    parts = [n[k] for k in range(n.count)]
    while len(parts) > most:
        groups = [parts[k : k + most] for k in range(0, len(parts), most)]
        parts = [n.op("concat", *group, axis=int(n.get("axis"))) for group in groups]
    return [n.op("concat", *parts, axis=int(n.get("axis")))]


@importer("Expand")
def _expand(n: Node) -> list[Value]:
    from magpie.frontend.graph.rules import broadcast_shapes

    x = n[0]
    shape = broadcast_shapes(x.shape, tuple(int(v) for v in n.known(1, "a shape").reshape(-1)))
    return [x if shape == x.shape else n.op("broadcast", x, shape=shape)]


@importer("Slice")
def _slice(n: Node) -> list[Value]:
    x = n[0]
    rank = len(x.shape)
    starts, ends = n.needed_ints("starts", 1), n.needed_ints("ends", 2)
    axes = n.ints("axes", 3) or tuple(range(len(starts)))
    steps = n.ints("steps", 4) or (1,) * len(starts)
    low, high, by = [0] * rank, list(x.shape), [1] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            raise Unsupported("slices that go backwards")
        low[axis % rank], high[axis % rank], by[axis % rank] = *slice(start, end, step).indices(x.shape[axis])[:2], step
    return [
        n.op(
            "slice",
            x,
            starts=tuple(low),
            stops=tuple(max(a, b) for a, b in zip(low, high, strict=True)),
            steps=tuple(by),
        )
    ]


@importer("Split")
def _split(n: Node) -> list[Value]:
    x = n[0]
    rank = len(x.shape)
    axis = int(n.get("axis", 0)) % rank
    count = len(n.proto.output)
    size = -(-x.shape[axis] // count)
    sizes = n.ints("split", 1) or tuple(min(size, x.shape[axis] - k * size) for k in range(count))
    found, start = [], 0
    for length in sizes:
        starts, stops = [0] * rank, list(x.shape)
        starts[axis], stops[axis] = start, start + length
        found.append(n.op("slice", x, starts=tuple(starts), stops=tuple(stops)))
        start += length
    return found


@importer("Gather")
def _gather(n: Node) -> list[Value]:
    return [n.op("gather", n[0], n[1], axis=int(n.get("axis", 0)))]


@importer("Pad")
def _pad(n: Node) -> list[Value]:
    if n.get("mode", "constant") != "constant":
        raise Unsupported(f"mode {n.get('mode')}")
    x, pads = n[0], n.ints("pads", 1) or ()
    axes = n.ints("axes", 3)
    if axes is not None:
        full = [0] * (2 * len(x.shape))
        for k, axis in enumerate(axes):
            full[axis % len(x.shape)] = pads[k]
            full[axis % len(x.shape) + len(x.shape)] = pads[k + len(axes)]
        pads = tuple(full)
    value = float(n.known(2, "a value").reshape(-1)[0]) if n.has(2) else float(n.get("value", 0.0))
    rank = len(x.shape)
    if min(pads, default=0) < 0 and len(pads) == 2 * rank:  # takes elements away
        starts = tuple(max(-p, 0) for p in pads[:rank])
        stops = tuple(size - max(-p, 0) for size, p in zip(x.shape, pads[rank:], strict=True))
        x, pads = n.op("slice", x, starts=starts, stops=stops), tuple(max(p, 0) for p in pads)
    return [n.op("pad", x, pads=pads, value=value)]
