"""`mp.lib.sum`, `prod`, `min`, `max`: reductions of whole arrays and of their rows, on every backend.

The order in which values are combined depends on the shape and the element type alone, so the result has the same bits
on every device (in strict kernels, which these are), and in every run:

- A row of n elements is cut into tiles of 256 * wide, where wide elements are 16 bytes (8 bytes of i8, u8 and bool). Of
  `parts` workgroups each takes every parts-th tile, and keeps a running result for each place in a tile: an element is
  combined with what the same place of the tiles before gave.
- The running results of a workgroup are combined as a binary tree of neighbours: 0 with 1, 2 with 3, then pairs of
  pairs.
- So are the results of the workgroups, in a second launch of the same kernel where there are several.

Under min and max a NaN counts as absent, as in `mp.min`; numbers of 16 bits are summed in f32 and rounded once.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import builtins
import math
import threading
from typing import Any

import magpie as mp
from magpie.dtypes import DType
from magpie.errors import LaunchTypeError, LaunchValueError, public
from magpie.lib.workgroup import combine
from magpie.runtime.buffer import Buffer

__all__ = ["max", "min", "prod", "sum"]

_ITEMS = 256
_BYTES = 16  # the widest load of a work-item
_TILES = 8  # that a workgroup has at least, where there are several
# Workgroups at most: several for each multiprocessor of any device. With a power of two, the tiles of a workgroup lie a
# power of two of bytes apart: 1 % slower on an H200.
_PARTS = 4224


@mp.func
def _place(item, j, wide: mp.constexpr, near: mp.constexpr):
    """The place in a tile of a work-item's element j: among neighbours, or in a row of all work-items."""
    if near:
        return item * wide + j
    else:
        return j * _ITEMS + item


@mp.kernel(workgroup=_ITEMS)
def _reduce(
    x,
    out,
    parts: mp.i32,
    op: mp.constexpr,
    dtype: mp.constexpr,
    neutral: mp.constexpr,
    wide: mp.constexpr,
    near: mp.constexpr,
):
    """out[r * parts + p] = the reduction of part p of row r. `neutral` changes no value of `dtype` under `op`.

    `near` changes nothing but speed: whether a work-item has neighbours, which are one load where a work-item loads by
    itself.
    """
    item = mp.thread_id(0)
    row = mp.workgroup_id(0) // parts
    part = mp.workgroup_id(0) - row * parts
    if x.ndim == 1:
        line = x
    else:
        line = x[row]
    tile = _ITEMS * wide
    full = line.shape[0] // tile
    now = mp.local(wide, dtype)
    for j in mp.static_range(wide):
        now[j] = neutral
    for k in range(part, full, parts):
        for j in mp.static_range(wide):
            now[j] = combine(op, now[j], line[k * tile + _place(item, j, wide, near)].astype(dtype))
    if full % parts == part:
        for j in mp.static_range(wide):
            at = full * tile + _place(item, j, wide, near)
            if at < line.shape[0]:
                now[j] = combine(op, now[j], line[at].astype(dtype))
    if not near and wide > 1:
        places = mp.shared(_ITEMS * wide, dtype)
        for j in mp.static_range(wide):
            places[_place(item, j, wide, near)] = now[j]
        mp.barrier()
        for j in mp.static_range(wide):
            now[j] = places[item * wide + j]
    for level in mp.static_range(3):  # wide is at most 8
        for j in mp.static_range(wide >> (level + 1)):
            now[j] = combine(op, now[2 * j], now[2 * j + 1])
    whole = mp.workgroup.reduce(now[0], op)
    if item == 0:
        out[mp.workgroup_id(0)] = whole


@public
def sum(x: Any, *, axis: int | None = None, dtype: Any = None, out: Buffer | None = None, stream: Any = None) -> Buffer:
    """The sum of all elements, or of each row with ``axis=-1``, as an mp array on the device of ``x``.

    ``x`` is any array that a launch takes. Integers and bools are summed as i64, unsigned ones as u64, if ``dtype``
    says nothing else; ``out`` is an array to write to. The result is ordered behind the launches of ``stream``.
    Raises LaunchTypeError and LaunchValueError.
    """
    return _reduction("add", x, axis, dtype, out, stream)


@public
def prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, out: Buffer | None = None, stream: Any = None
) -> Buffer:
    """The product of all elements, or of each row; see `sum`."""
    return _reduction("mul", x, axis, dtype, out, stream)


@public
def min(x: Any, *, axis: int | None = None, out: Buffer | None = None, stream: Any = None) -> Buffer:
    """The smallest element of all, or of each row; see `sum`. A NaN counts as absent. Raises for an empty row."""
    return _reduction("min", x, axis, None, out, stream)


@public
def max(x: Any, *, axis: int | None = None, out: Buffer | None = None, stream: Any = None) -> Buffer:
    """The largest element of all, or of each row; see `min`."""
    return _reduction("max", x, axis, None, out, stream)


def _reduction(op: str, x: Any, axis: int | None, dtype: Any, out: Buffer | None, stream: Any) -> Buffer:
    array = as_array(x, stream)
    if not isinstance(array.dtype, DType):
        raise LaunchTypeError(f"mp.lib reduces numbers; got an array of {array.dtype!r}")
    if array.dtype.is_bool:
        op = {"min": "and", "max": "or"}.get(op, op)
    rows, n, shape = _rows(array, axis)
    result = _result_type(op, array.dtype, dtype)
    wide = _wide(array.dtype)
    held = mp.f32 if result in (mp.f16, mp.bf16) else result
    target = target_array(out, shape, result, array)
    if not rows:
        return target
    if not n:
        if op not in ("add", "mul"):
            raise LaunchValueError(
                "the smallest or largest of no elements has no value", help="reduce an array with some"
            )
        target[...] = 0 if op == "add" else 1
        return target
    flat = target if target.ndim == 1 else target.reshape(rows)
    if array.ndim == 1 or (array.ndim == 2 and axis is not None):
        data = array
    else:
        data = array.reshape(n) if axis is None else array.reshape(rows, n)
    parts = _parts(rows, n, wide)
    if parts == 1:
        _launch(data, flat, rows, 1, op, held, wide, stream)
        return target
    flat_scratch, scratch, lock = _scratch(array.device, stream, rows, parts, held)
    with lock:
        _launch(data, flat_scratch, rows, parts, op, held, wide, stream)
        _launch(scratch, flat, rows, 1, op, held, _wide(held), stream)
    return target


def _launch(x: Any, out: Buffer, rows: int, parts: int, op: str, held: DType, wide: int, stream: Any) -> None:
    from magpie.ir.ops import identity

    # a NaN, if anything, loses against every number under min and max, and is what is left of NaN alone
    neutral = math.nan if held.is_float and op in ("min", "max") else identity(op, held)
    near = out.device.alignment > 1  # where a work-item's own wide loads are fast
    launch = _reduce[rows * parts, _ITEMS, stream]
    launch(x, out, parts, op, held, neutral, wide, near)


def _wide(dtype: DType) -> int:
    """Neighbours that a work-item loads at once; of bytes half as many, or their running results fill the registers."""
    return _BYTES // builtins.max(2, dtype.itemsize)


def _parts(rows: int, n: int, wide: int) -> int:
    """Workgroups of a row: as many as have work for several batches of loads, and all rows together a few a core."""
    return builtins.max(1, builtins.min(n // (_ITEMS * wide * _TILES), _PARTS // rows))


def _rows(array: Buffer, axis: int | None) -> tuple[int, int, tuple[int, ...]]:
    """(rows, their length, the shape of the result)."""
    if axis is None:
        if not array.contiguous:
            raise LaunchValueError("mp.lib takes an array without gaps", help="pass a contiguous copy")
        return 1, array.size, ()
    if not array.ndim or axis not in (-1, array.ndim - 1):
        raise LaunchValueError(
            f"mp.lib reduces all of an array or its last axis; got axis={axis} of {array.ndim} dimensions",
            help="move the axis to the end, and copy",
        )
    if array.ndim > 2 and not array.contiguous:
        raise LaunchValueError("mp.lib takes an array without gaps", help="pass a contiguous copy")
    shape = array.shape[:-1]
    return math.prod(shape), array.shape[-1], shape


def _result_type(op: str, given: DType, wanted: Any) -> DType:
    if op not in ("add", "mul"):
        return given
    if wanted is not None:
        from magpie.runtime.types import as_type

        return as_type(wanted)  # type: ignore[return-value]
    if given.is_float:
        return given
    return mp.u64 if given.kind == "uint" else mp.i64


def as_array(x: Any, stream: Any) -> Buffer:
    """``x`` where it is, if that is device memory; else a copy on the stream's device, or the default one."""
    from magpie.runtime.creation import asarray, in_place

    found = in_place(x)
    return asarray(x, device=None if stream is None else stream.device) if found is None else found


def target_array(out: Buffer | None, shape: tuple[int, ...], dtype: DType, array: Buffer) -> Buffer:
    if out is None:
        return mp.empty(shape, dtype, device=array.device)
    if out.dtype is not dtype or out.size != math.prod(shape) or not out.contiguous or out.device is not array.device:
        raise LaunchValueError(
            f"out= must be a contiguous array of {math.prod(shape)} {dtype.name} on {array.device.id}; got {out!r}",
        )
    return out


_guard = threading.Lock()
_kept: dict[Any, tuple[Any, Buffer, Buffer, threading.Lock]] = {}
_MOST_KEPT = 16


def _scratch(device: Any, stream: Any, rows: int, parts: int, dtype: DType) -> tuple[Buffer, Buffer, threading.Lock]:
    """Memory for the results of workgroups, flat and as rows, and the lock to hold over the two launches that use it.

    It is kept for the latest streams and shapes: what a stream runs is in order, so the next reduction's first launch
    finds it free. An entry holds its stream, so that no other can come to have its identity.
    """
    key = device.id, id(stream), dtype.name, rows, parts
    with _guard:
        found = _kept.pop(key, None)
        if found is None:
            flat = mp.empty(rows * parts, dtype, device=device)
            found = stream, flat, flat.reshape(rows, parts), threading.Lock()
        _kept[key] = found  # the latest is last
        while len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
    return found[1:]
