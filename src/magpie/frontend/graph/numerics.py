"""What each op of Graph IR computes, on NumPy arrays: the definition that every backend is tested against.

A function takes integers as int64, bools as bool, and floats of all widths as f32, and gives such an array; `settle`
then brings it into the dtype of the result. Integers wrap at the width of that dtype; a float result is rounded once.
Sums of floats are those of float64, rounded at the end: in which order a backend adds is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.dtypes import DType, bf16, f32

__all__ = ["REFERENCE", "lift", "settle"]

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def lift(array: Array) -> Array:
    """An array of a dtype of Graph IR as the functions here take it."""
    if array.dtype.kind == "b":
        return array
    return array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(np.float32)


def settle(array: Array, dtype: DType) -> Array:
    """A result in its dtype: integers wrap, floats are rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _settled(array, dtype)


def _settled(array: Array, dtype: DType) -> Array:
    if dtype.is_float and dtype is not f32:
        if array.dtype != np.float32:
            array = _once(array)
        return array.astype(_bf16() if dtype is bf16 else np.float16)
    if dtype.is_bool:
        return np.asarray(array, dtype=bool)
    return np.asarray(array).astype(dtype.numpy)


def _bf16() -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16


def _once(array: Array) -> Array:
    """float64 to float32 by round-to-odd, so that rounding to 16 bits afterwards is one rounding in all."""
    near = array.astype(np.float32)
    back = near.astype(np.float64)
    inexact = np.isfinite(array) & (back != array)
    bits = near.view(np.int32) if near.ndim else near.reshape(1).view(np.int32)[0]
    even = (bits & 1) == 0
    toward = np.nextafter(near, np.where(array > back, np.inf, -np.inf).astype(np.float32))
    return np.where(inexact & even, toward, near).astype(np.float32)


def _normal(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _softmax(attrs: Attrs, x: Array) -> Array:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=attrs["axis"], keepdims=True))
    return np.asarray(e / e.sum(axis=attrs["axis"], keepdims=True))


def _layernorm(attrs: Attrs, x: Array, scale: Array, bias: Array) -> Array:
    x = x.astype(np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + attrs["epsilon"]) * scale + bias)


def _matmul(attrs: Attrs, a: Array, b: Array) -> Array:
    if a.dtype == np.float32:
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))
    return np.asarray(np.matmul(a, b))  # int64 wraps, and so keeps the low 32 bits


def _gemm(attrs: Attrs, a: Array, b: Array, *c: Array) -> Array:
    a = a.T if attrs["trans_a"] else a
    b = b.T if attrs["trans_b"] else b
    product = _matmul(attrs, a, b)
    if product.dtype == np.int64:
        return np.asarray(product + c[0] if c else product)
    product = product * attrs["alpha"]
    return np.asarray(product + attrs["beta"] * c[0].astype(np.float64) if c else product)


def windows(attrs: Attrs, x: Array, kernel: tuple[int, int], fill: Any) -> Array:
    """Windows of the last two dimensions, [..., OH, OW, KH, KW], with padding of ``fill``."""
    top, left, bottom, right = attrs["pads"]
    dilations = attrs.get("dilations", (1, 1))
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)], constant_values=fill)
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=(-2, -1))
    sy, sx = attrs["strides"]
    return np.asarray(view[..., ::sy, ::sx, :: dilations[0], :: dilations[1]])


def _conv2d(attrs: Attrs, x: Array, w: Array) -> Array:
    if x.dtype == np.float32:
        x, w = x.astype(np.float64), w.astype(np.float64)
    groups = attrs["groups"]
    view = windows(attrs, x, w.shape[2:], 0)
    parts = [
        np.einsum("nchwij,ocij->nohw", v, part, optimize=x.dtype != np.int64)
        for v, part in zip(np.split(view, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, axis=1)


def _maxpool(attrs: Attrs, x: Array) -> Array:
    least = -np.inf if x.dtype == np.float32 else np.iinfo(np.int64).min
    return np.asarray(windows(attrs, _without_nan(x, least), attrs["kernel"], least).max(axis=(-2, -1)))


def _without_nan(x: Array, instead: float) -> Array:
    return np.where(np.isnan(x), np.float32(instead), x) if x.dtype == np.float32 else x


def _avgpool(attrs: Attrs, x: Array) -> Array:
    total = windows(attrs, x.astype(np.float64), attrs["kernel"], 0.0).sum(axis=(-2, -1))
    ones = np.ones(x.shape[-2:])
    if attrs["include_pad"]:
        return np.asarray(total / math.prod(attrs["kernel"]))
    return np.asarray(total / windows(attrs, ones, attrs["kernel"], 0.0).sum(axis=(-2, -1)))


def _quantize(attrs: Attrs, x: Array, scale: Array, zero: Array) -> Array:
    to = attrs["to"]
    with np.errstate(all="ignore"):
        level = np.rint(x / scale)  # ties to even
    level = np.where(np.isnan(level), 0.0, level).astype(np.float64) + zero
    return np.clip(level, to.min, to.max).astype(np.int64)


def _cast(attrs: Attrs, x: Array) -> Array:
    to: DType = attrs["to"]
    if to.is_int and x.dtype == np.float32:
        whole = np.trunc(np.where(np.isnan(x), 0.0, x).astype(np.float64))
        return np.clip(whole, to.min, to.max).astype(np.int64)
    if to.is_bool:
        return np.asarray(x != 0)
    return x.astype(np.float64) if to.is_float else x.astype(np.int64)


def _tdiv(a: Array, b: Array) -> Array:
    """Integers: C's quotient, x / 0 = 0; floats: IEEE."""
    if a.dtype != np.int64:
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


def _gather(attrs: Attrs, x: Array, at: Array) -> Array:
    axis = _normal(attrs["axis"], x.ndim)
    n = x.shape[axis]
    at = np.clip(np.where(at < 0, at + n, at), 0, n - 1)
    return np.asarray(np.take(x, at, axis=axis))


def _reduce(fn: Callable[..., Any]) -> Callable[..., Array]:
    def run(attrs: Attrs, x: Array) -> Array:
        axes = tuple(_normal(a, x.ndim) for a in attrs["axes"])
        wide = x.astype(np.float64) if x.dtype == np.float32 else x
        return np.asarray(fn(wide, axis=axes, keepdims=attrs["keepdims"]))

    return run


def _largest(x: Array, **where: Any) -> Any:
    return np.max(np.where(np.isnan(x), -np.inf, x) if x.dtype == np.float64 else x, **where)


def _least(x: Array, **where: Any) -> Any:
    return np.min(np.where(np.isnan(x), np.inf, x) if x.dtype == np.float64 else x, **where)


def _argmax(attrs: Attrs, x: Array) -> Array:
    top = np.max(_without_nan(x, -np.inf), axis=attrs["axis"], keepdims=True)
    found = np.argmax(x == top, axis=attrs["axis"])  # a NaN equals nothing: not the first place, if there are numbers
    return np.asarray(np.expand_dims(found, attrs["axis"]) if attrs["keepdims"] else found)


def _slice(attrs: Attrs, x: Array) -> Array:
    parts = zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True)
    return np.asarray(x[tuple(slice(a, b, s) for a, b, s in parts)])


def _bias(attrs: Attrs, x: Array, b: Array) -> Array:
    shape = [1] * x.ndim
    shape[_normal(attrs["axis"], x.ndim)] = b.size
    return np.asarray(x + b.reshape(shape))


def _pad(attrs: Attrs, x: Array) -> Array:
    pads, rank = attrs["pads"], x.ndim
    if not rank:
        return x  # np.pad takes no empty list
    return np.asarray(np.pad(x, [(pads[k], pads[k + rank]) for k in range(rank)], constant_values=attrs["value"]))


def _unary(fn: Callable[[Array], Any]) -> Callable[..., Array]:
    def run(attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(fn(x))

    return run


def _binary(fn: Callable[[Array, Array], Any]) -> Callable[..., Array]:
    def run(attrs: Attrs, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(fn(a, b))

    return run


def _wide(fn: Callable[[Array], Any]) -> Callable[..., Array]:
    """A function whose result is that of float64, rounded once."""
    return _unary(lambda x: fn(x.astype(np.float64)))


REFERENCE: dict[str, Callable[..., Array]] = {
    "add": _binary(lambda a, b: a + b),
    "sub": _binary(lambda a, b: a - b),
    "mul": _binary(lambda a, b: a * b),
    "div": _binary(_tdiv),
    "minimum": _binary(np.minimum),
    "maximum": _binary(np.maximum),
    "pow": _binary(lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64))),
    "neg": _unary(lambda x: -x),
    "abs": _unary(np.abs),
    "relu": _unary(lambda x: np.where(x > 0, x, 0).astype(x.dtype)),
    "sqrt": _unary(np.sqrt),
    "exp": _wide(np.exp),
    "log": _wide(np.log),
    "tanh": _wide(np.tanh),
    "erf": _wide(_erf),
    "sigmoid": _wide(lambda x: 1.0 / (1.0 + np.exp(-x))),
    "floor": _unary(np.floor),
    "round": _unary(np.rint),
    "clip": lambda attrs, x: np.minimum(np.maximum(x, attrs["min"]), attrs["max"]).astype(x.dtype),
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": lambda attrs, x, scale, zero: np.asarray((x - zero).astype(np.float32) * scale),
    "equal": _binary(lambda a, b: a == b),
    "less": _binary(lambda a, b: a < b),
    "greater": _binary(lambda a, b: a > b),
    "not": lambda attrs, x: ~x,
    "and": _binary(lambda a, b: a & b),
    "or": _binary(lambda a, b: a | b),
    "where": lambda attrs, c, a, b: np.asarray(np.where(c, a, b)),
    "bias": _bias,
    "broadcast": lambda attrs, x: np.broadcast_to(x, attrs["shape"]),
    "matmul": _matmul,
    "gemm": _gemm,
    "conv2d": _conv2d,
    "maxpool": _maxpool,
    "avgpool": _avgpool,
    "reduce_sum": _reduce(np.sum),
    "reduce_max": _reduce(_largest),
    "reduce_min": _reduce(_least),
    "reduce_mean": _reduce(np.mean),
    "argmax": _argmax,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "reshape": lambda attrs, x: x.reshape(attrs["shape"]),
    "transpose": lambda attrs, x: x.transpose(attrs["perm"]),
    "slice": _slice,
    "concat": lambda attrs, *xs: np.concatenate(xs, axis=attrs["axis"]),
    "gather": _gather,
    "pad": _pad,
}
