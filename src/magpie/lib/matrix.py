"""Products of matrices on matrix tiles: `mp.lib.matmul`.

Two kernels. `staged` is for targets that copy to shared memory beside the computation: a workgroup makes a block of the
result, its subgroups tiles of it, and the copies of the next steps of k are under way while this one is multiplied.
Rows in shared memory are 16 bytes longer than the block, so that the rows that a matrix load reads together lie in
different banks. `direct` is for the others: a subgroup reads its tiles from the arguments.
"""

# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import functools
from typing import Any

import magpie as mp
from magpie.dtypes import DType
from magpie.errors import LaunchTypeError, LaunchValueError, public
from magpie.ir.tiles import ACCUMULATORS, GRAIN
from magpie.lib.reductions import as_array, target_array
from magpie.records import record
from magpie.runtime.buffer import Buffer

__all__ = ["matmul"]

# Blocks of the result are made in groups of this many rows of blocks, so that workgroups that run together share them.
_GROUP = 8

# Bytes between the rows of a block in shared memory.
_PAD = 16


@record
class Plan:
    """Extents of a workgroup's block and of a subgroup's tile, elements of k in a stage and in an operand, and how many
    stages there are. A stage consists of an even number of operands."""

    block: tuple[int, int]
    tile: tuple[int, int]
    depth: int
    step: int
    stages: int

    @property
    def subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return (self.block[0] // self.tile[0]) * (self.block[1] // self.tile[1])

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory."""
        pad = _PAD // itemsize
        rows = self.block[0] * (self.depth + pad) + self.depth * (self.block[1] + pad)
        return self.stages * rows * itemsize


# For elements of so many bytes, the largest blocks first.
_PLANS: dict[int, tuple[Plan, ...]] = {
    1: (Plan((128, 128), (64, 64), 128, 32, 3), Plan((64, 64), (32, 32), 64, 32, 3)),
    2: (
        Plan((128, 256), (64, 64), 64, 16, 3),
        Plan((128, 128), (64, 64), 32, 16, 4),
        Plan((64, 64), (32, 32), 32, 16, 4),
    ),
    4: (Plan((128, 128), (64, 32), 32, 16, 3), Plan((64, 64), (32, 32), 32, 16, 3)),
    8: (Plan((64, 64), (32, 32), 32, 16, 3), Plan((32, 32), (16, 16), 32, 16, 3)),
}


@mp.func
def block_of(number, rows, cols) -> Any:
    """Row and column of a block by its number: columns first within a group of rows."""
    group = number // (_GROUP * cols)
    first = group * _GROUP
    height = min(rows - first, _GROUP)
    rest = number - first * cols
    return first + rest % height, rest // height


@functools.cache
def staged(plan: Plan, lanes: int) -> Any:
    """The kernel for a plan, on a target whose subgroups have so many work-items."""
    bm, bn = plan.block
    wm, wn = plan.tile
    depth, stages = plan.depth, plan.stages
    across = bn // wn
    step = plan.step
    steps = depth // step
    waits = 2 * (stages - 2)

    @mp.kernel(workgroup=(plan.subgroups * lanes, 1, 1))
    def product(a, b, out, ta: mp.constexpr, tb: mp.constexpr, held: mp.constexpr, pad: mp.constexpr):
        left = mp.shared((stages, bm, depth + pad), ta)
        right = mp.shared((stages, depth, bn + pad), tb)
        rows, cols = mp.cdiv(a.shape[0], bm), mp.cdiv(b.shape[1], bn)
        block_row, block_col = block_of(mp.workgroup_id(0), rows, cols)
        i, j = block_row * bm, block_col * bn
        m, n = mp.subgroup.id() // across * wm, mp.subgroup.id() % across * wn
        acc = mp.mma.zeros((wm, wn), held)
        for s in mp.static_range(stages - 1):
            mp.copy_async(left[s, :, :depth], a, (i, s * depth))
            mp.copy_async(right[s, :, :bn], b, (s * depth, j))
        mp.copy_wait(waits)
        mp.barrier()
        x0 = mp.mma.load_a(left[0], (m, 0), (wm, step))
        y0 = mp.mma.load_b(right[0], (0, n), (step, wn))
        x1 = mp.mma.load_a(left[0], (m, step), (wm, step))
        y1 = mp.mma.load_b(right[0], (step, n), (step, wn))
        now = 0
        free = stages - 1
        for k in range(0, a.shape[1], depth):
            mp.copy_async(left[free, :, :depth], a, (i, k + (stages - 1) * depth))
            mp.copy_async(right[free, :, :bn], b, (k + (stages - 1) * depth, j))
            free = now
            for s in mp.static_range(steps):
                # The operands of the next step are on their way while those of this one are multiplied.
                if s == steps - 1:
                    now = mp.select(now == stages - 1, 0, now + 1)
                    mp.copy_wait(waits)
                    mp.barrier()
                if s % 2 == 0:
                    mp.mma.load_a(left[now], (m, (s + 1) * step), (wm, step), into=x1)
                    mp.mma.load_b(right[now], ((s + 1) * step, n), (step, wn), into=y1)
                    mp.mma(acc, x0, y0)
                else:
                    mp.mma.load_a(left[now], (m, (s + 1) % steps * step), (wm, step), into=x0)
                    mp.mma.load_b(right[now], ((s + 1) % steps * step, n), (step, wn), into=y0)
                    mp.mma(acc, x1, y1)
        mp.copy_wait(0)
        mp.mma.store(acc, out, (i + m, j + n), clip=True)

    return product


# Tiles of a workgroup of `direct`, and their extent.
_PARTS, _TILE = 4, 64


@mp.kernel(workgroup=(64, 1, 1))
def direct(a, b, out, held: mp.constexpr):
    """For targets that compute tiles themselves: a workgroup makes four tiles, however many subgroups it has."""
    i, j = mp.workgroup_id(1) * _PARTS * _TILE, mp.workgroup_id(0) * _TILE
    for part in range(mp.subgroup.id(), _PARTS, mp.subgroup.count()):
        row = i + part * _TILE
        if row < out.shape[0]:
            acc = mp.mma.zeros((_TILE, _TILE), held)
            for k in range(0, a.shape[1], GRAIN):
                x = mp.mma.load_a(a, (row, k), (_TILE, GRAIN), clip=True)
                y = mp.mma.load_b(b, (k, j), (GRAIN, _TILE), clip=True)
                mp.mma(acc, x, y)
            mp.mma.store(acc, out, (row, j), clip=True)


@public
def matmul(
    a: Any, b: Any, *, dtype: Any = None, out: Buffer | None = None, tf32: bool = False, stream: Any = None
) -> Buffer:
    """The product of two matrices, as an mp array on the device of ``a``.

    ``a`` and ``b`` are any arrays of two dimensions that a launch takes, of one of f16, bf16, f64, i8 and u8, or of
    f32 with ``tf32=True``: f32 elements are rounded to 10 bits of fraction first. Sums are f32, f64 or i32, and the
    result is of the type of the arguments (i32 for integers) if ``dtype`` says nothing else. ``out`` is an array to
    write to. The result is ordered behind the launches of ``stream``. Raises LaunchTypeError and LaunchValueError.
    """
    left, right = as_array(a, stream), as_array(b, stream)
    held = _check(left, right, tf32)
    shape = (left.shape[0], right.shape[1])
    result = _result_type(left.dtype, held, dtype)
    target = target_array(out, shape, result, left)
    if not all(shape):
        return target
    device = left.device
    plan = _plan(device, shape, left.dtype) if "cuda.tensor_cores" in device.capabilities else None
    if plan is not None:
        blocks = mp.cdiv(shape[0], plan.block[0]) * mp.cdiv(shape[1], plan.block[1])
        items = plan.subgroups * device.subgroup_size
        kernel = staged(plan, device.subgroup_size)[blocks, items, stream]
        kernel(left, right, target, left.dtype, right.dtype, held, _PAD // left.dtype.itemsize)
    else:
        grid = (mp.cdiv(shape[1], _TILE), mp.cdiv(shape[0], _PARTS * _TILE), 1)
        direct[grid, 64, stream](left, right, target, held)
    return target


def _check(a: Buffer, b: Buffer, tf32: bool) -> DType:
    """The accumulator's type."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise LaunchValueError(
            f"a product of arrays of shapes {a.shape} and {b.shape}", help="pass arrays of (m, k) and (k, n)"
        )
    if a.device is not b.device:
        raise LaunchValueError(f"one array is on {a.device.id} and one on {b.device.id}", help="copy one of them")
    types = {a.dtype, b.dtype}
    if len(types) > 1 and types != {mp.i8, mp.u8}:
        raise LaunchTypeError(f"a product of {a.dtype} and {b.dtype}", help="give both one element type")
    held = ACCUMULATORS.get(a.dtype) if isinstance(a.dtype, DType) else None
    if held is None:
        raise LaunchTypeError(
            f"mp.lib.matmul multiplies {', '.join(t.name for t in ACCUMULATORS)}, not {a.dtype}",
            help="convert the arrays to one of these",
        )
    if a.dtype is mp.f32 and not tf32:
        raise LaunchTypeError(
            "matrix units have no products of f32",
            help="pass tf32=True, which rounds the elements to 10 bits of fraction; or convert to f64",
        )
    return held


def _result_type(given: DType, held: DType, wanted: Any) -> DType:
    from magpie.runtime.types import as_type

    if wanted is None:
        return given if given.is_float else held
    type_ = as_type(wanted)
    if not isinstance(type_, DType) or type_.is_bool or type_.is_float != held.is_float:
        raise LaunchTypeError(f"a result of {type_} from sums in {held}", help="ask for a float type of floats")
    return type_


def _plan(device: Any, shape: tuple[int, int], type_: DType) -> Plan | None:
    """The largest blocks that keep the device busy; None where not even the smallest fit."""
    fitting = [p for p in _PLANS[type_.itemsize] if p.shared(type_.itemsize) <= device.max_shared_bytes]
    units = device.properties.get("multiprocessors", 1)
    for plan in fitting:
        if mp.cdiv(shape[0], plan.block[0]) * mp.cdiv(shape[1], plan.block[1]) >= units:
            return plan
    return fitting[-1] if fitting else None
