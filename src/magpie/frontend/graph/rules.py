"""What each op of Graph IR gives for what it takes: dtype and shape. A rule raises `Mismatch` for what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from magpie.dtypes import DType, bool_, f32, i8, i32, u8
from magpie.frontend.graph.nodes import Shape, Value, type_text

__all__ = ["LARGEST", "MOST_DIMS", "Mismatch", "Rule", "RuleType", "broadcast_shapes"]

Attrs: TypeAlias = dict[str, Any]
RuleType: TypeAlias = tuple[DType, Shape]
Rule: TypeAlias = Callable[[Sequence[Value], Attrs], RuleType]

#: Elements of the largest tensor: offsets are 32-bit on every target.
LARGEST = 2**31 - 1

#: Dimensions of the tensor that has most.
MOST_DIMS = 8


class Mismatch(Exception):
    """Operands or attributes that do not fit: the code of the diagnostic, what is wrong, and what helps."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help


def _shape(message: str, help: str | None = None) -> Mismatch:
    return Mismatch("MPG_GRAPH_1005", message, help)


def _dtype(message: str, help: str | None = None) -> Mismatch:
    return Mismatch("MPG_GRAPH_1006", message, help)


def _attr(message: str, help: str | None = None) -> Mismatch:
    return Mismatch("MPG_GRAPH_1004", message, help)


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """NumPy's rule: from the last dimension on, equal extents or one of them 1. Raises Mismatch naming both shapes."""
    rank = max(len(a), len(b))
    long, short = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    result = []
    for m, n in zip(long, short, strict=True):
        if m != n and 1 not in (m, n):
            raise _shape(
                f"shapes {list(a)} and {list(b)} do not broadcast: {m} and {n} differ",
                "from the last dimension on, extents are equal or one of them is 1",
            )
        result.append(n if m == 1 else m)
    return tuple(result)


def axis_of(axis: int, rank: int) -> int:
    """A dimension from 0 on; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise _attr(f"axis {axis} of a value with {rank} dimensions")
    return axis % rank


def _axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    axes = tuple(axis_of(a, rank) for a in attrs["axes"]) or tuple(range(rank))
    if len(set(axes)) != len(axes):
        raise _attr(f"axes {list(attrs['axes'])} name a dimension twice")
    attrs["axes"] = tuple(sorted(axes))
    return tuple(attrs["axes"])


def _want_float(x: Value, what: str) -> None:
    if not x.dtype.is_float:
        raise _dtype(f"{what} takes floats; got {x.type}", "cast{to=f32} makes a float of it")


def _want_number(x: Value, what: str) -> None:
    if x.dtype.is_bool:
        raise _dtype(f"{what} takes numbers; got {x.type}", "cast{to=i32} makes a number of it")


def _same(a: Value, b: Value, what: str) -> None:
    if a.dtype is not b.dtype:
        raise _dtype(
            f"{what} takes values of one dtype; got {a.type} and {b.type}",
            f"cast{{to={a.dtype}}} makes the second one fit",
        )


def arithmetic_type(a: Value, b: Value, what: str) -> DType:
    """The dtype of a sum or product: that of the floats, or i32 for integers of any width."""
    _want_number(a, what)
    _want_number(b, what)
    if a.dtype.is_float or b.dtype.is_float:
        _same(a, b, what)
        return a.dtype
    return i32


def arithmetic(name: str) -> Rule:
    """Two operands that broadcast; integers give i32."""

    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        return arithmetic_type(x[0], x[1], name), broadcast_shapes(x[0].shape, x[1].shape)

    return rule


def choosing(name: str) -> Rule:
    """Two operands of one dtype, which stays."""

    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        _want_number(x[0], name)
        _same(x[0], x[1], name)
        return x[0].dtype, broadcast_shapes(x[0].shape, x[1].shape)

    return rule


def floats(name: str, count: int) -> Rule:
    """One or two floats of one dtype."""

    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        _want_float(x[0], name)
        if count == 1:
            return x[0].dtype, x[0].shape
        _same(x[0], x[1], name)
        return x[0].dtype, broadcast_shapes(x[0].shape, x[1].shape)

    return rule


def compared(name: str) -> Rule:
    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        if name != "equal":
            _want_number(x[0], name)
        _same(x[0], x[1], name)
        return bool_, broadcast_shapes(x[0].shape, x[1].shape)

    return rule


def logical(name: str, count: int) -> Rule:
    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        for v in x:
            if not v.dtype.is_bool:
                raise _dtype(f"{name} takes bools; got {v.type}", "a comparison or cast{to=bool} gives one")
        return bool_, x[0].shape if count == 1 else broadcast_shapes(x[0].shape, x[1].shape)

    return rule


def negated(x: Sequence[Value], attrs: Attrs) -> RuleType:
    _want_number(x[0], "the op")
    return x[0].dtype if x[0].dtype.is_float else i32, x[0].shape


def number(name: str) -> Rule:
    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        _want_number(x[0], name)
        return x[0].dtype, x[0].shape

    return rule


def clip(x: Sequence[Value], attrs: Attrs) -> RuleType:
    _want_number(x[0], "clip")
    low, high = attrs["min"], attrs["max"]
    if x[0].dtype.is_int:
        for end in ("min", "max"):
            value = attrs[end]
            if value == int(max(min(value, 2**40), -(2**40))):
                attrs[end] = max(min(int(value), x[0].dtype.max), x[0].dtype.min)
            elif value in (float("inf"), float("-inf")):
                attrs[end] = x[0].dtype.max if value > 0 else x[0].dtype.min
            else:
                raise _attr(f"clip of {x[0].type} at {value}", "bounds of an integer are integers")
    if low != low or high != high:
        raise _attr(f"clip from {low} to {high}", "bounds are numbers")
    return x[0].dtype, x[0].shape


def cast(x: Sequence[Value], attrs: Attrs) -> RuleType:
    return attrs["to"], x[0].shape


def quantize(x: Sequence[Value], attrs: Attrs) -> RuleType:
    to = attrs["to"]
    if to not in (i8, u8, i32):
        raise _attr(f"quantize to {to}", "quantised values are i8, u8 or i32")
    if x[0].dtype is not f32 or x[1].dtype is not f32 or x[2].dtype is not to:
        raise _dtype(
            f"quantize{{to={to}}} takes f32, a scale of f32 and a zero point of {to}; "
            f"got {x[0].type}, {x[1].type} and {x[2].type}"
        )
    return to, _stays(x[0], x[1:], "quantize")


def dequantize(x: Sequence[Value], attrs: Attrs) -> RuleType:
    if x[0].dtype not in (i8, u8, i32) or x[1].dtype is not f32 or x[2].dtype is not x[0].dtype:
        raise _dtype(
            "dequantize takes an integer, a scale of f32 and a zero point of the integer's dtype; "
            f"got {x[0].type}, {x[1].type} and {x[2].type}"
        )
    return f32, _stays(x[0], x[1:], "dequantize")


def _stays(x: Value, others: Sequence[Value], what: str) -> Shape:
    for other in others:
        if broadcast_shapes(x.shape, other.shape) != x.shape:
            raise _shape(f"{what}: {other.type} is larger than {x.type}")
    return x.shape


def where(x: Sequence[Value], attrs: Attrs) -> RuleType:
    if not x[0].dtype.is_bool:
        raise _dtype(f"where takes a bool first; got {x[0].type}", "a comparison gives one")
    _same(x[1], x[2], "where")
    return x[1].dtype, broadcast_shapes(x[0].shape, broadcast_shapes(x[1].shape, x[2].shape))


def bias(x: Sequence[Value], attrs: Attrs) -> RuleType:
    if not x[0].shape:
        raise _shape("bias takes a value with dimensions")
    axis = axis_of(attrs["axis"], len(x[0].shape))
    if x[1].shape != (x[0].shape[axis],):
        raise _shape(f"bias along dimension {axis} of {x[0].type} takes [{x[0].shape[axis]}]; got {x[1].type}")
    return arithmetic_type(x[0], x[1], "bias"), x[0].shape


def broadcast(x: Sequence[Value], attrs: Attrs) -> RuleType:
    shape = tuple(attrs["shape"])
    if broadcast_shapes(x[0].shape, shape) != shape:
        raise _shape(f"{x[0].type} does not broadcast to {list(shape)}")
    return x[0].dtype, shape


def matmul(x: Sequence[Value], attrs: Attrs) -> RuleType:
    a, b = x
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise _shape(f"matmul takes two or more dimensions; got {a.type} and {b.type}", "reshape a vector to [1, n]")
    if a.shape[-1] != b.shape[-2]:
        raise _shape(
            f"matmul of {list(a.shape)} and {list(b.shape)}: the inner extents {a.shape[-1]} and {b.shape[-2]} differ",
            "the columns of the first are the rows of the second",
        )
    dtype = arithmetic_type(a, b, "matmul")
    return dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def gemm(x: Sequence[Value], attrs: Attrs) -> RuleType:
    if any(len(v.shape) != 2 for v in x[:2]):
        raise _shape(f"gemm takes matrices; got {x[0].type} and {x[1].type}")
    a = Value("", x[0].dtype, x[0].shape[::-1] if attrs["trans_a"] else x[0].shape)
    b = Value("", x[1].dtype, x[1].shape[::-1] if attrs["trans_b"] else x[1].shape)
    dtype, shape = matmul((a, b), attrs)
    if not dtype.is_float and (attrs["alpha"] != 1.0 or attrs["beta"] != 1.0):
        raise _attr("gemm of integers has alpha 1 and beta 1")
    if len(x) == 3:
        if x[2].dtype is not dtype:
            raise _dtype(f"gemm adds {dtype}; got {x[2].type}")
        _stays(Value("", dtype, shape), x[2:], "gemm")
    return dtype, shape


def _window(attrs: Attrs, size: Shape, kernel: Shape, what: str) -> Shape:
    for name, count in (("strides", 2), ("pads", 4), ("dilations", 2)):
        if len(attrs.get(name, (1,) * count)) != count or min(attrs.get(name, (1,))) < (name != "pads"):
            raise _attr(f"{name} of {what} are {count} numbers, not below {int(name != 'pads')}")
    top, left, bottom, right = attrs["pads"]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, attrs.get("dilations", (1, 1)), strict=True)]
    padded = (size[0] + top + bottom, size[1] + left + right)
    if min(kernel) < 1 or padded[0] < spans[0] or padded[1] < spans[1]:
        raise _shape(f"a window of {spans[0]} by {spans[1]} does not fit into {padded[0]} by {padded[1]}")
    return tuple((n - s) // step + 1 for n, s, step in zip(padded, spans, attrs["strides"], strict=True))


def conv2d(x: Sequence[Value], attrs: Attrs) -> RuleType:
    image, w = x
    if len(image.shape) != 4 or len(w.shape) != 4:
        raise _shape(f"conv2d takes [N, C, H, W] and [O, C / groups, KH, KW]; got {image.type} and {w.type}")
    dtype = arithmetic_type(image, w, "conv2d")
    groups = attrs["groups"]
    if groups < 1 or image.shape[1] % groups or w.shape[0] % groups or image.shape[1] // groups != w.shape[1]:
        raise _shape(
            f"conv2d of {image.type} with {w.type} and groups={groups}: "
            f"{image.shape[1]} channels in {groups} groups are not the {w.shape[1]} of the weights"
        )
    size = _window(attrs, image.shape[2:], w.shape[2:], "conv2d")
    return dtype, (image.shape[0], w.shape[0], *size)


def pool(name: str) -> Rule:
    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        (image,) = x
        _want_number(image, name)
        if name == "avgpool":
            _want_float(image, name)
        if len(image.shape) != 4 or len(attrs["kernel"]) != 2:
            raise _shape(f"{name} takes [N, C, H, W] and a kernel of two numbers; got {image.type}")
        size = _window(attrs, image.shape[2:], tuple(attrs["kernel"]), name)
        spans = [(k - 1) * d for k, d in zip(attrs["kernel"], attrs["dilations"], strict=True)]
        if max(attrs["pads"][0], attrs["pads"][2]) > spans[0] or max(attrs["pads"][1], attrs["pads"][3]) > spans[1]:
            raise _attr(f"{name} pads more than its kernel covers", "a window holds at least one element of the image")
        return image.dtype, (*image.shape[:2], *size)

    return rule


def _reduced(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduce(name: str) -> Rule:
    def rule(x: Sequence[Value], attrs: Attrs) -> RuleType:
        _want_number(x[0], name)
        axes = _axes(attrs, len(x[0].shape))
        if name == "reduce_mean":
            _want_float(x[0], name)
        if name != "reduce_sum" and 0 in (x[0].shape[a] for a in axes):
            raise _shape(f"{name} of no elements: {x[0].type}")
        kept = name in ("reduce_max", "reduce_min") or x[0].dtype.is_float
        return x[0].dtype if kept else i32, _reduced(x[0].shape, axes, attrs["keepdims"])

    return rule


def argmax(x: Sequence[Value], attrs: Attrs) -> RuleType:
    _want_number(x[0], "argmax")
    axis = attrs["axis"] = axis_of(attrs["axis"], len(x[0].shape))
    if not x[0].shape[axis]:
        raise _shape(f"argmax of no elements: {x[0].type}")
    return i32, _reduced(x[0].shape, (axis,), attrs["keepdims"])


def softmax(x: Sequence[Value], attrs: Attrs) -> RuleType:
    _want_float(x[0], "softmax")
    attrs["axis"] = axis_of(attrs["axis"], len(x[0].shape))
    return x[0].dtype, x[0].shape


def layernorm(x: Sequence[Value], attrs: Attrs) -> RuleType:
    _want_float(x[0], "layernorm")
    if not x[0].shape or not x[0].shape[-1]:
        raise _shape(f"layernorm takes rows; got {x[0].type}")
    for v in x[1:]:
        _same(x[0], v, "layernorm")
        if v.shape != x[0].shape[-1:]:
            raise _shape(f"layernorm of {x[0].type} takes a scale and a bias of [{x[0].shape[-1]}]; got {v.type}")
    return x[0].dtype, x[0].shape


def reshape(x: Sequence[Value], attrs: Attrs) -> RuleType:
    shape = list(attrs["shape"])
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        raise _attr(f"reshape to {shape}", "extents are not negative; one may be -1, and is computed")
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = x[0].size // rest if rest else 0
    if prod(shape) != x[0].size:
        raise _shape(f"{x[0].type} has {x[0].size} elements, and {attrs['shape']} has {prod(shape)}")
    attrs["shape"] = tuple(shape)
    return x[0].dtype, tuple(shape)


def transpose(x: Sequence[Value], attrs: Attrs) -> RuleType:
    rank = len(x[0].shape)
    perm = tuple(attrs["perm"]) or tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise _attr(f"perm={list(perm)} is no order of the {rank} dimensions of {x[0].type}")
    attrs["perm"] = perm
    return x[0].dtype, tuple(x[0].shape[p] for p in perm)


def slice_(x: Sequence[Value], attrs: Attrs) -> RuleType:
    rank = len(x[0].shape)
    if not attrs["steps"]:
        attrs["steps"] = (1,) * rank
    parts = (attrs["starts"], attrs["stops"], attrs["steps"])
    if any(len(p) != rank for p in parts):
        raise _attr(f"slice of {x[0].type} takes {rank} starts, stops and steps")
    shape = []
    for n, start, stop, step in zip(x[0].shape, *parts, strict=True):
        if not (0 <= start <= stop <= n and step >= 1):
            raise _attr(f"slice {start}:{stop}:{step} of an extent of {n}", "0 <= start <= stop <= extent, step >= 1")
        shape.append((stop - start + step - 1) // step)
    return x[0].dtype, tuple(shape)


def concat(x: Sequence[Value], attrs: Attrs) -> RuleType:
    axis = attrs["axis"] = axis_of(attrs["axis"], len(x[0].shape))
    for v in x[1:]:
        _same(x[0], v, "concat")
        if len(v.shape) != len(x[0].shape) or any(
            m != n for d, (m, n) in enumerate(zip(v.shape, x[0].shape, strict=True)) if d != axis
        ):
            raise _shape(f"concat along {axis} of {x[0].type} and {v.type}: other extents differ")
    shape = list(x[0].shape)
    shape[axis] = sum(v.shape[axis] for v in x)
    return x[0].dtype, tuple(shape)


def gather(x: Sequence[Value], attrs: Attrs) -> RuleType:
    axis = attrs["axis"] = axis_of(attrs["axis"], len(x[0].shape))
    if not x[1].dtype.is_int:
        raise _dtype(f"gather takes integers as indices; got {x[1].type}")
    if not x[0].shape[axis]:
        raise _shape(f"gather from no elements: {x[0].type}")
    return x[0].dtype, (*x[0].shape[:axis], *x[1].shape, *x[0].shape[axis + 1 :])


def pad(x: Sequence[Value], attrs: Attrs) -> RuleType:
    rank, pads = len(x[0].shape), attrs["pads"]
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise _attr(f"pad of {x[0].type} takes {2 * rank} numbers, not below 0: those before, then those behind")
    if x[0].dtype.is_int:
        low, high = x[0].dtype.min, x[0].dtype.max
        if not low <= attrs["value"] <= high or attrs["value"] != int(attrs["value"]):  # no NaN is between bounds
            raise _attr(f"pad of {x[0].type} with {attrs['value']}", f"the value is an integer from {low} to {high}")
        attrs["value"] = int(attrs["value"])
    return x[0].dtype, tuple(n + pads[d] + pads[d + rank] for d, n in enumerate(x[0].shape))


def checked(result: RuleType) -> RuleType:
    """A result whose size is one that a tensor may have: not above LARGEST, and not 0, in MOST_DIMS dimensions."""
    if len(result[1]) > MOST_DIMS:
        raise _shape(f"a value has at most {MOST_DIMS} dimensions; got {len(result[1])}")
    if 0 in result[1]:
        raise _shape(f"a value of {type_text(*result)} has no elements")
    if prod(result[1]) > LARGEST:
        raise _shape(f"a result of {type_text(*result)} has more than {LARGEST:,} elements")
    return result
