"""Matrix tiles and copies to shared memory.

A tile is a block of a matrix that a subgroup holds together, spread over its work-items as the target's matrix unit
wants it. Its extents are constants, multiples of 16.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

from magpie.language._builtin import Builtin, BuiltinGroup, builtin

__all__ = ["copy_async", "copy_wait", "mma"]


def _mma(acc: Any, a: Any, b: Any) -> None:
    """Add the product of the tiles ``a`` and ``b`` to the accumulator ``acc``."""


def _zeros(shape: Any, dtype: Any) -> Any:
    """A new accumulator of zeros: f32 for products of f16, bf16 and f32, f64 for f64, i32 for i8 and u8."""


def _fill(acc: Any, value: Any) -> None:
    """Set every element of an accumulator."""


def _load(array: Any, at: Any, shape: Any, dtype: Any = None, transposed: Any = False, clip: Any = False) -> Any:
    """A new accumulator with the block of ``array`` that begins at ``at``; ``dtype`` where it is not the array's."""


def _load_a(array: Any, at: Any, shape: Any, transposed: Any = False, clip: Any = False, into: Any = None) -> Any:
    """A left operand: the block of ``array`` of ``shape`` that begins at ``at``, a tuple with an index a dimension.

    ``transposed``: rows of the tile go along the array's last dimension; ``at`` counts as without it. ``clip``: what
    lies outside of the array is zero. ``into``: the operand of an earlier load, which then holds this block; so a loop
    can load the operands of its next trip before it multiplies those of this one. f32 elements are rounded to tf32.
    """


def _load_b(array: Any, at: Any, shape: Any, transposed: Any = False, clip: Any = False, into: Any = None) -> Any:
    """A right operand; as `load_a`."""


def _store(acc: Any, array: Any, at: Any, transposed: Any = False, clip: Any = False) -> None:
    """Write an accumulator to ``array`` from ``at`` on, rounded to its element type; ``clip`` leaves out what lies
    outside."""


class _Mma(BuiltinGroup):
    """`mp.mma` and what belongs to it."""

    def __init__(self) -> None:
        super().__init__(cast(FunctionType, _mma))
        self.name = self.__name__ = "mma"
        self.zeros = _member(_zeros)
        self.fill = _member(_fill)
        self.load = _member(_load)
        self.load_a = _member(_load_a)
        self.load_b = _member(_load_b)
        self.store = _member(_store)


def _member(fn: Any) -> Any:
    made = Builtin(fn, "mma.")
    made.__name__ = fn.__name__.removeprefix("_")
    made.name = f"mma.{made.__name__}"
    return made


mma = _Mma()


@builtin
def copy_async(target: Any, source: Any, at: Any) -> None:
    """All work-items of the workgroup begin to copy a block from ``source``, from ``at`` on, to ``target``, a part of a
    shared array whose two extents are constants. What lies outside of ``source`` is zero.

    The block may be read after `copy_wait` and a barrier; until then neither side may be written.
    """


@builtin
def copy_wait(pending: Any = 0) -> None:
    """Wait until at most the last ``pending`` copies that the workgroup began are still under way."""
