"""How values of each type are held while the interpreter computes: NumPy scalars, or arrays with one element a lane.

A *register* has the NumPy dtype of its type, except bf16, which is held as float32 values that are already rounded to
bf16. A value that is the same for all lanes stays a NumPy scalar; every function of this package takes and gives both
(never a 0-d array), so that uniform arithmetic costs a scalar operation.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from magpie.dtypes import DType, bf16

__all__ = [
    "Lanes",
    "bf16_bits",
    "bf16_from_bits",
    "memory_dtype",
    "python_value",
    "register_dtype",
    "round_bf16",
    "round_f64_to_bf16",
    "scalar",
    "select",
    "settle",
]

# A NumPy scalar or a 1-d array. NumPy's own types cannot say this and stay readable.
Lanes: TypeAlias = Any

_REGISTER = {
    name: np.dtype(numpy_name)
    for name, numpy_name in (
        ("bool", "bool"),
        ("i8", "int8"),
        ("i16", "int16"),
        ("i32", "int32"),
        ("i64", "int64"),
        ("index", "int64"),
        ("u8", "uint8"),
        ("u16", "uint16"),
        ("u32", "uint32"),
        ("u64", "uint64"),
        ("f16", "float16"),
        ("bf16", "float32"),
        ("f32", "float32"),
        ("f64", "float64"),
    )
}
_MEMORY = _REGISTER | {"bool": np.dtype("uint8"), "bf16": np.dtype("uint16")}

_U16 = np.uint32(16)
_ONE = np.uint32(1)
_HALF = np.uint32(0x7FFF)
_NAN = np.uint16(0x7FC0)


def register_dtype(type_: DType) -> np.dtype[Any]:
    """The NumPy dtype of a register of ``type_``."""
    return _REGISTER[type_.name]


def memory_dtype(type_: DType) -> np.dtype[Any]:
    """The NumPy dtype through which memory of ``type_`` is read and written: bool as bytes, bf16 as its bits."""
    return _MEMORY[type_.name]


def settle(value: Lanes) -> Lanes:
    """``value``, with a 0-d array turned into the scalar it holds."""
    return value if value.ndim else value[()]


def select(cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """``a`` where ``cond``, else ``b``."""
    if isinstance(cond, np.bool_):
        return a if cond else b
    return np.where(cond, a, b)


def bf16_bits(x: Lanes) -> Lanes:
    """The bf16 bits nearest to float32 lanes, ties to even. All NaN give 0x7FC0: NaN is one value."""
    u = x.view(np.uint32)
    rounded = ((u + (_HALF + ((u >> _U16) & _ONE))) >> _U16).astype(np.uint16)
    return select(x != x, _NAN, rounded)


def bf16_from_bits(bits: Lanes) -> Lanes:
    """float32 lanes of uint16 bf16 bits."""
    return (bits.astype(np.uint32) << _U16).view(np.float32)


def round_bf16(x: Lanes) -> Lanes:
    """float32 lanes rounded to bf16, still held as float32."""
    return bf16_from_bits(bf16_bits(x))


def round_f64_to_bf16(x: Lanes) -> Lanes:
    """float64 lanes rounded once to bf16.

    Through float32 with round-to-odd, which cannot fake a tie for the second rounding (Boldo and Melquiond, "Emulation
    of a FMA and correctly rounded sums", section 3): truncate, then set the last bit if anything was lost.
    """
    near = x.astype(np.float32)
    wide = near.astype(np.float64)
    bits = near.view(np.uint32)
    over = (np.abs(wide) > np.abs(x)).astype(np.uint32)  # infinity too: one less is the largest finite number
    sticky = ((wide != x) & (x == x)).astype(np.uint32)
    return round_bf16(((bits - over) | sticky).view(np.float32))


def scalar(type_: DType, value: Any) -> Lanes:
    """The register of ``type_`` that holds a Python or NumPy number; floats round once, integers must be in range."""
    if type_ is bf16:
        return round_f64_to_bf16(np.float64(value))
    if type_.is_int:
        return register_dtype(type_).type(int(value))
    if type_.is_bool:
        return np.bool_(bool(value))
    return register_dtype(type_).type(value)


def python_value(value: Lanes) -> Any:
    """The Python number in a scalar register."""
    return value.item()
