"""Value conversions: floats to integers saturate (NaN is 0), integers wrap, every narrowing to a float rounds once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from magpie.backends.interp.numerics.lanes import (
    Lanes,
    bf16_bits,
    bf16_from_bits,
    register_dtype,
    round_bf16,
    round_f64_to_bf16,
    select,
)
from magpie.dtypes import DType, bf16, f16, f32

__all__ = ["bitcast", "cast"]

Unary = Callable[[Lanes], Lanes]

_U11 = np.uint64(11)
_LOW11 = np.uint64(0x7FF)


def cast(source: DType, target: DType) -> Unary:
    """The conversion from ``source`` to ``target``."""
    to = register_dtype(target)
    if source is target or (source.kind == target.kind and source.bits == target.bits and not source.is_float):
        return lambda x: x
    if target.is_bool:
        zero = register_dtype(source).type(0)
        return lambda x: x != zero
    if target.is_float:
        return _to_float(source, target)
    if source.is_float:
        return _saturate(target)
    return lambda x: x.astype(to)


def _saturate(target: DType) -> Unary:
    to = register_dtype(target)
    low, high = to.type(target.min), to.type(target.max)
    # Both bounds are powers of two in float64: the first value above the range, and the lowest inside.
    above, below = np.float64(float(target.max + 1)), np.float64(float(target.min))

    def convert(x: Lanes) -> Lanes:
        wide = np.trunc(x.astype(np.float64))
        inside = (wide >= below) & (wide < above)
        whole = select(inside, wide, np.float64(0)).astype(to)
        return select(inside, whole, select(wide >= above, high, select(wide < below, low, to.type(0))))

    return convert


def _wide(source: DType) -> Unary:
    """``source`` as float64, exactly, or with its lost bits kept as one sticky bit below any narrower format."""
    if source.bits < 64:
        return lambda x: x.astype(np.float64)

    def convert(x: Lanes) -> Lanes:
        negative = x < 0
        size = select(negative, -x, x).astype(np.uint64)
        sticky = (((size >> _U11) | ((size & _LOW11) != 0).astype(np.uint64)) << _U11).astype(np.float64)
        exact = size.astype(np.float64)
        value = select(size >> np.uint64(53) != 0, sticky, exact)
        return select(negative, -value, value)

    return convert


def _to_float(source: DType, target: DType) -> Unary:
    to = register_dtype(target)
    if source.is_bool or source.bits <= 8:
        return lambda x: x.astype(to) if x.dtype != np.bool_ else x.astype(np.uint8).astype(to)
    if not source.is_float:
        if target not in (f16, bf16):
            return lambda x: x.astype(to)  # one rounding in hardware
        wide = _wide(source)
        if target is bf16:
            return lambda x: round_f64_to_bf16(wide(x))
        return lambda x: wide(x).astype(np.float16)
    if target is bf16:
        if source.bits == 64:
            return round_f64_to_bf16
        if source is f32:
            return round_bf16
        return lambda x: round_bf16(x.astype(np.float32))
    if source is bf16 and target is f32:
        return lambda x: x
    return lambda x: x.astype(to)


def bitcast(source: DType, target: DType) -> Unary:
    """The same bits as another type of the same width."""
    to = register_dtype(target)
    if source is target:
        return lambda x: x
    if source is bf16:
        return lambda x: bf16_bits(x).view(to)
    if target is bf16:
        return lambda x: bf16_from_bits(x.view(np.uint16))
    return lambda x: x.view(to)
