"""Arguments passed by value: from what a user passes to what is packed, with every check.

`convert` accepts what keeps its value: a Python or NumPy number of the right kind and range. A float for an integer
parameter, a number for a bool, an int out of range are errors. A float too large for a narrower float type becomes an
infinity, as a conversion in a kernel would.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, StructType, Type, bf16, bool_
from magpie.errors import LaunchTypeError, LaunchValueError
from magpie.runtime.types import struct_type

if TYPE_CHECKING:
    from magpie.ir.layout import ScalarField

__all__ = ["FORMATS", "bf16_bits", "convert"]

#: struct format characters by type name. bf16 goes as its bits.
FORMATS = {
    "bool": "?",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "index": "q",
    "f16": "e",
    "bf16": "H",
    "f32": "f",
    "f64": "d",
}


def convert(value: Any, type_: Type, name: str) -> Any:
    """What `struct` packs for `value` as a parameter of `type_`. Raises LaunchTypeError or LaunchValueError."""
    if isinstance(type_, StructType):
        return _struct_bytes(value, type_, name)
    value = _plain(value, type_, name)
    if type_.is_bool:
        if not isinstance(value, bool):
            raise _wrong(value, type_, name, "write bool(x)")
        return value
    if type_.is_int:
        if not isinstance(value, int):
            raise _wrong(
                value, type_, name, f"write int(x), or declare the parameter as a float type instead of mp.{type_}"
            )
        if not type_.min <= value <= type_.max:
            raise LaunchValueError(
                f"argument {name!r} is {value}, which does not fit {type_} ({type_.min} to {type_.max})",
                diagnostic="MPG_LAUNCH_1014",
                help="pass a value in range, or declare a wider type",
            )
        return int(value)
    try:
        number = float(value)
    except OverflowError:  # an int beyond the range of a double
        number = math.inf if value > 0 else -math.inf
    if type_ is bf16:
        return bf16_bits(number)
    if type_.bits < 64 and math.isfinite(number):
        try:
            struct.pack("<" + FORMATS[type_.name], number)  # native order would not check
        except OverflowError:
            return math.inf if number > 0 else -math.inf
    return number


def _plain(value: Any, type_: DType, name: str) -> Any:
    """A Python number for a Python number, a NumPy scalar or an array of rank 0."""
    if isinstance(value, bool | int | float):
        return value
    shape = getattr(value, "shape", None)
    if shape == () and hasattr(value, "item"):
        item = value.item()
        # ml_dtypes' scalars give Python floats; NumPy's complex, str and datetime give no number.
        if isinstance(item, bool | int | float):
            return item
    elif hasattr(value, "__index__") and shape is None:
        return value.__index__()
    raise _wrong(value, type_, name, None)


def _wrong(value: Any, type_: DType, name: str, hint: str | None) -> LaunchTypeError:
    kind = "a bool" if type_ is bool_ else f"a number of type {type_}"
    shape = getattr(value, "shape", None)
    got = f"an array of shape {tuple(shape)}" if shape else f"{value!r} of type {type(value).__name__}"
    if value is None:
        got = "None"
    return LaunchTypeError(f"argument {name!r} must be {kind}; got {got}", diagnostic="MPG_LAUNCH_1002", help=hint)


def bf16_bits(value: float) -> int:
    """The bits of `value` rounded once to bf16, to nearest, ties to even (from a double: no step through f32)."""
    if math.isnan(value):
        return 0x7FC0
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    magnitude = abs(value)
    if math.isinf(magnitude):
        return sign | 0x7F80
    if magnitude == 0:
        return sign
    exponent = max(math.frexp(magnitude)[1] - 1, -126)
    # An integer count of units in the last place; Python's round is to nearest even, and the scaling is exact.
    units = round(math.ldexp(magnitude, 7 - exponent))
    # A subnormal has no hidden bit; carries run into the exponent by themselves, up to infinity.
    bits = units + ((exponent + 126) << 7)
    return sign | min(bits, 0x7F80)


def _struct_bytes(value: Any, type_: StructType, name: str) -> bytes:
    import numpy as np

    if struct_type(type(value)) == type_:
        return struct_bytes(lambda field: getattr(value, field), type_, name)
    if isinstance(value, np.void | np.ndarray) and value.shape == () and value.dtype.names is not None:
        if value.dtype != type_.numpy:
            raise LaunchTypeError(
                f"argument {name!r} has the structured dtype {value.dtype}; the kernel declares {type_}: {type_.numpy}",
                diagnostic="MPG_LAUNCH_1002",
            )
        return value.tobytes()
    if isinstance(value, tuple) and len(value) == len(type_.fields):
        return struct_bytes(dict(zip((f.name for f in type_.fields), value, strict=True)).__getitem__, type_, name)
    raise LaunchTypeError(
        f"argument {name!r} must be a struct {type_}; got {value!r} of type {type(value).__name__}",
        diagnostic="MPG_LAUNCH_1002",
    )


def struct_bytes(get: Any, type_: StructType, name: str) -> bytes:
    """The memory of a struct whose field values `get(field name)` gives."""
    memory = bytearray(type_.itemsize)
    for f in type_.fields:
        value = get(f.name)
        if isinstance(f.type, StructType):
            memory[f.offset : f.offset + f.type.itemsize] = _struct_bytes(value, f.type, f"{name}.{f.name}")
        else:
            struct.pack_into("<" + FORMATS[f.type.name], memory, f.offset, convert(value, f.type, f"{name}.{f.name}"))
    return bytes(memory)


def scalar_format(field: ScalarField) -> str:
    """The struct format of one by-value parameter, without padding."""
    return f"{field.size}s" if field.type == "struct" else FORMATS[field.type]
