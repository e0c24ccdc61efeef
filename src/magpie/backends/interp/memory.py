"""Arrays as flat windows of memory: gather, scatter, and addresses with their bounds check.

Every array of a kernel becomes a `Window`: a 1-d NumPy view of its memory, with an offset and one stride per dimension
in steps of that view. Windows of two arguments may overlap; writes through one are then seen through the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from magpie.backends.interp.numerics.lanes import Lanes, bf16_bits, bf16_from_bits, memory_dtype, register_dtype, select
from magpie.dtypes import DType, StructType, Type, bf16

__all__ = ["Window", "buffer_window", "field_name", "field_offset", "locate", "owned_window", "window_over"]

I64 = np.dtype(np.int64)
_U64 = np.uint64
_largest = np.maximum.reduce


class Window:
    """Memory of elements of one scalar type. `lane_base` is added to each lane's address (shared and local memory)."""

    __slots__ = (
        "base",
        "extents",
        "flat",
        "lane_base",
        "limits",
        "name",
        "origin",
        "packed",
        "region",
        "step",
        "strides",
        "type",
    )

    def __init__(
        self, name: str, type_: DType, flat: Any, extents: tuple[int, ...], strides: tuple[int, ...], base: int = 0
    ) -> None:
        self.name = name
        self.type = type_
        self.flat = flat
        self.extents = extents
        self.limits = tuple(_U64(n) for n in extents)
        self.strides = strides
        self.base = base
        self.lane_base: Any = None
        # Address of the first element and bytes from one to the next: what the sanitizer's shadow goes by.
        self.origin = int(flat.__array_interface__["data"][0])
        self.step = int(flat.strides[0])
        self.packed = bool(flat.flags.c_contiguous)
        # The sanitizer's shadow of this memory, where it keeps one.
        self.region: Any = None

    def get(self, address: Lanes) -> Lanes:
        """The registers at valid addresses (an int or an int64 array)."""
        if self.packed and address.__class__ is np.ndarray:
            return self.flat.take(address)
        return self.flat[address]

    def put(self, address: Lanes, value: Lanes) -> None:
        """Write registers to valid addresses; of several lanes with one address the last one wins."""
        self.flat[address] = value

    def zero(self) -> Lanes:
        """What a faulting load gives."""
        return register_dtype(self.type).type(0)


class _BoolWindow(Window):
    __slots__ = ()

    def get(self, address: Lanes) -> Lanes:
        return Window.get(self, address) != 0

    def put(self, address: Lanes, value: Lanes) -> None:
        self.flat[address] = value


class _Bf16Window(Window):
    __slots__ = ()

    def get(self, address: Lanes) -> Lanes:
        return bf16_from_bits(Window.get(self, address))

    def put(self, address: Lanes, value: Lanes) -> None:
        self.flat[address] = bf16_bits(value)


def _window_class(type_: DType) -> type[Window]:
    if type_.is_bool:
        return _BoolWindow
    return _Bf16Window if type_ is bf16 else Window


def field_name(type_: Type, path: Sequence[int] | None) -> str:
    """``.pos.x`` for the path of a struct leaf, ``""`` for none."""
    text = ""
    for position in path or ():
        assert isinstance(type_, StructType)
        text += f".{type_.fields[position].name}"
        type_ = type_.fields[position].type
    return text


def field_offset(type_: Type, path: Sequence[int]) -> tuple[DType, int]:
    """Scalar type and byte offset of a struct leaf."""
    offset = 0
    for position in path:
        assert isinstance(type_, StructType)
        offset += type_.fields[position].offset
        type_ = type_.fields[position].type
    assert isinstance(type_, DType)
    return type_, offset


def buffer_window(name: str, type_: Type, path: Sequence[int] | None, array: np.ndarray[Any, Any]) -> Window:
    """A window over the memory of a NumPy array of any strides, or over one leaf of its struct elements."""
    leaf, offset = field_offset(type_, path or ())
    memory = memory_dtype(leaf)
    size = memory.itemsize
    shape, byte_strides = array.shape, array.strides
    shown = name + field_name(type_, path)
    if array.size == 0:
        flat = np.empty(0, memory)
        return _window_class(leaf)(shown, leaf, flat, shape, (0,) * array.ndim)
    # From the lowest address on, in steps of the common divisor of all strides: every element is then a whole step.
    step = 0
    low = high = 0
    for n, s in zip(shape, byte_strides, strict=True):
        if n > 1:
            step = gcd(step, abs(s))
            low += min(0, (n - 1) * s)
            high += max(0, (n - 1) * s)
    if step == 0 or step % size == 0:
        step = size
    count = (high - low) // step + 1
    address = array.__array_interface__["data"][0] + low + offset
    origin = np.asarray(_Holder(array, address, memory))
    flat = np.lib.stride_tricks.as_strided(origin, (count,), (step,), writeable=array.flags.writeable)
    strides = tuple(s // step if n > 1 else 0 for n, s in zip(shape, byte_strides, strict=True))
    base = -low // step
    return _window_class(leaf)(shown, leaf, flat, shape, strides, base)


class _Holder:
    """Keeps an array alive for a view at another address of its memory."""

    def __init__(self, owner: np.ndarray[Any, Any], address: int, dtype: np.dtype[Any]) -> None:
        self.owner = owner
        place = (address, not owner.flags.writeable)
        self.__array_interface__ = {"shape": (1,), "typestr": dtype.str, "data": place, "version": 3}


def window_over(name: str, type_: DType, memory: np.ndarray[Any, Any]) -> Window:
    """All of a block of bytes as elements of one type."""
    flat = memory.view(memory_dtype(type_))
    return _window_class(type_)(name, type_, flat, flat.shape, (1,))


def owned_window(name: str, type_: DType, shape: tuple[int, ...], copies: int = 1) -> Window:
    """Fresh zeroed row-major memory, ``copies`` times over (one a workgroup or work-item)."""
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.zeros(count * copies, memory_dtype(type_))
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return _window_class(type_)(name, type_, flat, shape, tuple(strides))


def locate(window: Window, indices: Sequence[Lanes]) -> tuple[Lanes, Any]:
    """Address and bounds check of an access: (address, ok).

    The address is a Python int or an int64 array, 0 where out of bounds. ``ok`` is True when every lane (active or not)
    is inside, else a bool or a bool array.
    """
    ok: Any = True
    address: Any = window.base
    for i, n, limit, stride in zip(indices, window.extents, window.limits, window.strides, strict=True):
        if i.ndim:
            if i.dtype is not I64:
                i = i.astype(I64)
            u = i.view(_U64)
            if _largest(u) >= limit:
                inside = u < limit
                ok = inside if ok is True else ok & inside
            address = address + (i if stride == 1 else i * stride)
        else:
            k = int(i)
            if not 0 <= k < n:
                ok = False if ok is True else ok & False
            address = address + k * stride
    if ok is not True:
        if address.__class__ is np.ndarray or ok.__class__ is np.ndarray:
            address = np.where(ok, address, 0)
        else:
            address = 0
    if window.lane_base is not None:
        address = address + window.lane_base
    return address, ok


def guarded(value: Lanes, ok: Any, zero: Lanes) -> Lanes:
    """``value`` where ``ok``, else ``zero``."""
    return select(np.bool_(ok), value, zero) if ok.__class__ is bool else select(ok, value, zero)
