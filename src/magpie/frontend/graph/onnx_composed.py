"""ONNX operators that are a few of others: activations, norms, reductions, blocks of pixels."""

from __future__ import annotations

import math

import numpy as np

from magpie.dtypes import bool_, f32, i32
from magpie.frontend.graph.nodes import Value
from magpie.frontend.graph.onnx_node import Node, Unsupported
from magpie.frontend.graph.onnx_ops import IMPORTERS, along_channels, importer

__all__ = ["IMPORTERS"]


# --- activations ------------------------------------------------------------------------------------------------------
@importer("Ceil")
def _ceil(n: Node) -> list[Value]:
    return [n.op("neg", n.op("floor", n.op("neg", n[0])))]


@importer("Sign")
def _sign(n: Node) -> list[Value]:
    x = n[0]
    zero = n.like(0, x)
    above, below = (n.cast(n.op(test, x, zero), i32 if x.dtype.is_int else x.dtype) for test in ("greater", "less"))
    return [n.cast(n.op("sub", above, below), x.dtype)]


@importer("IsNaN")
def _is_nan(n: Node) -> list[Value]:
    return [n.op("not", n.op("equal", n[0], n[0]))]


@importer("Xor")
def _xor(n: Node) -> list[Value]:
    a, b = n[0], n[1]
    return [n.op("or", n.op("and", a, n.op("not", b)), n.op("and", n.op("not", a), b))]


@importer("Softsign")
def _softsign(n: Node) -> list[Value]:
    x = n[0]
    return [n.op("div", x, n.op("add", n.op("abs", x), n.like(1.0, x)))]


@importer("Swish")
def _swish(n: Node) -> list[Value]:
    x = n[0]
    return [n.op("mul", x, n.op("sigmoid", n.op("mul", x, n.like(n.get("alpha", 1.0), x))))]


@importer("Mish")
def _mish(n: Node) -> list[Value]:
    x = n[0]
    small = n.op("exp", n.op("neg", n.op("abs", x)))
    softplus = n.op("add", n.op("log", n.op("add", small, n.like(1.0, x))), n.op("relu", x))
    return [n.op("mul", x, n.op("tanh", softplus))]


@importer("Selu", "Celu")
def _selu(n: Node) -> list[Value]:
    x = n[0]
    if n.proto.op_type == "Selu":
        alpha, gamma = n.get("alpha", 1.6732632423543772), n.get("gamma", 1.0507009873554805)
        below = x
    else:
        alpha, gamma = n.get("alpha", 1.0), 1.0
        below = n.op("div", x, n.like(alpha, x))
    low = n.op("minimum", below, n.like(0.0, x))
    bent = n.op("mul", n.op("sub", n.op("exp", low), n.like(1.0, x)), n.like(alpha, x))
    return [n.op("mul", n.op("add", n.op("relu", x), bent), n.like(gamma, x))]


@importer("ThresholdedRelu")
def _thresholded(n: Node) -> list[Value]:
    x = n[0]
    return [n.op("where", n.op("greater", x, n.like(n.get("alpha", 1.0), x)), x, n.like(0.0, x))]


# --- norms and reductions ---------------------------------------------------------------------------------------------
def _normal(n: Node, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over some dimensions."""
    centred = n.op("sub", x, n.op("reduce_mean", x, axes=axes, keepdims=True))
    variance = n.op("reduce_mean", n.op("mul", centred, centred), axes=axes, keepdims=True)
    return n.op("div", centred, n.op("sqrt", n.op("add", variance, n.like(epsilon, x))))


@importer("InstanceNormalization")
def _instance_norm(n: Node) -> list[Value]:
    x = n[0]
    found = _normal(n, x, tuple(range(2, len(x.shape))), float(n.get("epsilon", 1e-5)))
    return [n.op("add", n.op("mul", found, along_channels(n, x, n[1])), along_channels(n, x, n[2]))]


@importer("GroupNormalization")
def _group_norm(n: Node) -> list[Value]:
    x, groups = n[0], int(n.get("num_groups"))
    split = n.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    found = n.reshape(_normal(n, split, (2,), float(n.get("epsilon", 1e-5))), x.shape)
    scale, bias = n[1], n[2]
    if scale.size != x.shape[1]:  # one a group, before opset 21
        each = x.shape[1] // groups
        scale, bias = (
            n.reshape(n.op("broadcast", n.reshape(v, (groups, 1)), shape=(groups, each)), (x.shape[1],))
            for v in (scale, bias)
        )
    return [n.op("add", n.op("mul", found, along_channels(n, x, scale)), along_channels(n, x, bias))]


@importer("MeanVarianceNormalization")
def _mean_variance(n: Node) -> list[Value]:
    return [_normal(n, n[0], tuple(n.get("axes", (0, 2, 3))), 1e-9)]


@importer("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(n: Node) -> list[Value]:
    x = n[0]
    axes = tuple(range(int(n.get("axis", -1)) % len(x.shape), len(x.shape)))
    wide = n.cast(x, f32)
    mean = n.op("reduce_mean", n.op("mul", wide, wide), axes=axes, keepdims=True)
    root = n.op("sqrt", n.op("add", mean, n.const(n.get("epsilon", 1e-5), f32)))
    return [n.op("mul", n.cast(n.op("div", wide, root), x.dtype), n[1])]


@importer("LpNormalization")
def _lp_norm(n: Node) -> list[Value]:
    x, axis = n[0], int(n.get("axis", -1))
    if n.get("p", 2) == 1:
        length = n.op("reduce_sum", n.op("abs", x), axes=(axis,), keepdims=True)
    else:
        length = n.op("sqrt", n.op("reduce_sum", n.op("mul", x, x), axes=(axis,), keepdims=True))
    found = n.op("div", x, length)
    return [n.op("where", n.op("equal", length, n.like(0.0, x)), n.like(0.0, x), found)]


@importer("ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
def _reduce_composed(n: Node) -> list[Value]:
    axes = n.ints("axes", 1)
    x, kind, keep = n[0], n.proto.op_type, bool(n.get("keepdims", 1))
    if (not axes and n.get("noop_with_empty_axes", 0)) or not x.shape:
        raise Unsupported("no axes")
    options = {"axes": axes or (), "keepdims": keep}
    if kind == "ReduceL1":
        return [n.op("reduce_sum", n.op("abs", x), **options)]
    if kind == "ReduceLogSum":
        return [n.op("log", n.op("reduce_sum", x, **options))]
    if kind == "ReduceLogSumExp":
        top = n.op("reduce_max", x, axes=axes or (), keepdims=True)
        total = n.op("log", n.op("reduce_sum", n.op("exp", n.op("sub", x, top)), **options))
        return [n.op("add", total, n.reshape(top, total.shape))]
    total = n.op("reduce_sum", n.op("mul", x, x), **options)
    return [n.op("sqrt", total) if kind == "ReduceL2" else total]


# --- places -----------------------------------------------------------------------------------------------------------
@importer("Tile")
def _tile(n: Node) -> list[Value]:
    x, repeats = n[0], n.needed_ints("repeats", 1)
    for axis, count in enumerate(repeats):
        if not 1 <= count <= 64:
            raise Unsupported(f"{count} repeats")
        if count > 1:
            x = n.op("concat", *[x] * count, axis=axis)
    return [x]


@importer("Trilu")
def _trilu(n: Node) -> list[Value]:
    x = n[0]
    shift = int(n.known(1, "a diagonal").reshape(-1)[0]) if n.has(1) else 0
    ones = np.ones(x.shape[-2:], bool)
    mask = np.triu(ones, shift) if n.get("upper", 1) else np.tril(ones, shift)
    return [n.op("where", n.const(mask, bool_), x, n.like(0, x))]


@importer("CastLike")
def _cast_like(n: Node) -> list[Value]:
    return [n.cast(n[0], n[1].dtype)]


@importer("DepthToSpace", "SpaceToDepth")
def _depth_to_space(n: Node) -> list[Value]:
    x, size = n[0], int(n.get("blocksize"))
    batch, channels, height, width = x.shape
    if n.proto.op_type == "SpaceToDepth":
        apart = n.reshape(x, (batch, channels, height // size, size, width // size, size))
        order = (0, 3, 5, 1, 2, 4) if n.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
        moved = n.op("transpose", apart, perm=order)
        return [n.reshape(moved, (batch, channels * size * size, height // size, width // size))]
    rest = channels // (size * size)
    if n.get("mode", "DCR") == "DCR":
        moved = n.op("transpose", n.reshape(x, (batch, size, size, rest, height, width)), perm=(0, 3, 4, 1, 5, 2))
    else:
        moved = n.op("transpose", n.reshape(x, (batch, rest, size, size, height, width)), perm=(0, 1, 4, 2, 5, 3))
    return [n.reshape(moved, (batch, rest, height * size, width * size))]
