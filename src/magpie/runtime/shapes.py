"""Shapes and strides of mp arrays: what may be one, what lies without gaps, and what an index makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchTypeError, LaunchValueError
from magpie.runtime.keys import MAX_RANK

if TYPE_CHECKING:
    from magpie.runtime.buffer import Buffer

__all__ = ["check_shape", "is_contiguous", "row_major", "sliced"]


def check_shape(shape: Any, *, allow_unknown: bool = False) -> tuple[int, ...]:
    """`shape` as a tuple of at most `MAX_RANK` ints, none negative (one may be -1 with `allow_unknown`)."""
    extents: list[int] = []
    items = shape if isinstance(shape, tuple | list) else (shape,)
    for n in items:
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise LaunchTypeError(f"a shape is an int or a tuple of ints; it has {n!r}")
        extents.append(n.__index__())
    if any(n < 0 for n in extents) and not (allow_unknown and extents.count(-1) == 1 and min(extents) == -1):
        raise LaunchValueError(f"a shape has no negative extents; got {tuple(extents)}")
    if len(extents) > MAX_RANK:
        raise LaunchValueError(
            f"arrays have at most {MAX_RANK} dimensions; got {len(extents)}", diagnostic="MPG_LAUNCH_1018"
        )
    return tuple(extents)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(1, shape[d + 1])
    return tuple(strides)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """C order; the stride of an extent of 1 does not matter, nor do those of an empty array (as in NumPy)."""
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


def sliced(array: Buffer, index: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and element offset of a view by integers, slices and one ellipsis."""
    items = list(index) if isinstance(index, tuple) else [index]
    if items.count(Ellipsis) > 1:
        raise IndexError("an index has at most one ellipsis")
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (array.ndim - len(items) + 1)
    if len(items) > array.ndim:
        raise IndexError(f"{len(items)} indices for an array of rank {array.ndim}")
    items += [slice(None)] * (array.ndim - len(items))
    shape: list[int] = []
    strides: list[int] = []
    offset = 0
    for d, item in enumerate(items):
        n, stride = array.shape[d], array.strides[d]
        if isinstance(item, slice):
            span = range(*item.indices(n))
            shape.append(len(span))
            strides.append(stride * span.step)
            offset += span.start * stride if len(span) else 0
        elif hasattr(item, "__index__") and not isinstance(item, bool):
            i = item.__index__()
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for dimension {d} of extent {n}")
            offset += (i + n if i < 0 else i) * stride
        else:
            raise TypeError(f"an mp array is indexed by ints, slices and ...; got {type(item).__name__}")
    return tuple(shape), tuple(strides), offset
