"""What a launch must know of an array to choose the code that runs, as one interned object.

A key is compared and hashed by identity, so that looking up the compiled code of a launch costs a tuple of pointers.
Which facts it carries follows from DESIGN 9 and RULES 27:

* `contiguous`: C order without gaps.
* `small`: sum((extent - 1) * |stride|) + 1 is below 2**31 elements, and so is each extent (an array of shape (0, 2**40)
  is not small).
* `aligned`: the first element lies at a multiple of the device's alignment, and so does each row of an array of two
  dimensions and more. Only arrays in a device's memory ever promise it. NumPy's own
  allocations lie at 16 mod 64 most of the time and by luck at 0: a fact that comes and goes with the allocator would
  compile two variants of one signature and gain nothing that can be relied on. Code is made for it only where the
  target gains from it (`Manifest.alignment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.dtypes import Type
from magpie.frontend.signature import ArrayArg

if TYPE_CHECKING:
    from magpie.runtime.device import Device

__all__ = ["FREED", "MAX_RANK", "SMALL", "ArrayKey", "array_key", "is_small"]

SMALL = 1 << 31
MAX_RANK = 4


def is_small(shape: tuple[int, ...], span: int) -> bool:
    """The fact `small` of an array of this shape and span in elements."""
    return span < SMALL and (not shape or max(shape) < SMALL)


class ArrayKey:
    """Type, rank and facts of an array; `device` is None for host memory that no device gave out."""

    __slots__ = ("aligned", "arg", "contiguous", "device", "small", "writable")

    def __init__(
        self, arg: ArrayArg | None, contiguous: bool, aligned: bool, small: bool, writable: bool, device: Device | None
    ) -> None:
        self.arg = arg
        self.contiguous = contiguous
        self.aligned = aligned
        self.small = small
        self.writable = writable
        self.device = device

    def __repr__(self) -> str:
        facts = [n for n in ("contiguous", "aligned", "small", "writable") if getattr(self, n)]
        return f"<{self.arg} {' '.join(facts)}>"


#: The key of an array whose memory was given back: no compiled code is found under it.
FREED = ArrayKey(None, False, False, False, False, None)

_interned: dict[tuple[Any, ...], ArrayKey] = {}


def array_key(
    type_: Type, rank: int, *, contiguous: bool, aligned: bool, small: bool, writable: bool, device: Device | None
) -> ArrayKey:
    """The one key of these facts. The table only grows with kinds of arrays, of which a program has few."""
    parts = (type_, rank, contiguous, aligned, small, writable, device)
    found = _interned.get(parts)
    if found is None:
        # setdefault: of two threads that meet here both must get the same object
        found = _interned.setdefault(
            parts, ArrayKey(ArrayArg(type_, rank), contiguous, aligned, small, writable, device)
        )
    return found
