"""Operations on Str and TStrBuilder. Lengths and places count the bytes of UTF-8."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from magpie.host.builtins import Call, builtin
from magpie.host.text import scalar_text
from magpie.host.values import ArrayValue, BuilderValue, EnumValue, StructValue
from magpie.mpir.types import UNIT, Ty

__all__ = ["size"]

_MOST = 1 << 30  # bytes of a Str that is made at once; as for an Array
_STR, _U8, _PARSE_ERROR = Ty("Str"), Ty("u8"), Ty("TParseError")


def size(s: str) -> int:
    """How many bytes a text has."""
    return len(s) if s.isascii() else len(s.encode())


@builtin("str.len")
def len_(call: Call, s: str) -> int:
    return size(s)


@builtin("str.concat")
def concat(call: Call, a: str, b: str) -> str:
    return a + b


@builtin("str.slice")
def slice_(call: Call, s: str, start: int, end: int) -> str:
    length = size(s)
    if not 0 <= start <= end <= length:
        raise call.panic(f"no bytes {start} to {end} in a Str of {length}")
    if length == len(s):
        return s[start:end]
    data = s.encode()
    for at in (start, end):
        if at < length and data[at] & 0xC0 == 0x80:
            raise call.panic(f"byte {at} is inside a character")
    return data[start:end].decode()


@builtin("str.eq")
def eq(call: Call, a: str, b: str) -> bool:
    return a == b


@builtin("str.cmp")
def cmp(call: Call, a: str, b: str) -> int:
    return (a > b) - (a < b)  # code points have the order of their UTF-8


@builtin("str.find")
def find(call: Call, s: str, sub: str) -> EnumValue:
    at = s.find(sub)
    return call.some(size(s[:at])) if at >= 0 else call.none()


@builtin("str.contains")
def contains(call: Call, s: str, sub: str) -> bool:
    return sub in s


@builtin("str.starts_with")
def starts_with(call: Call, s: str, sub: str) -> bool:
    return s.startswith(sub)


@builtin("str.ends_with")
def ends_with(call: Call, s: str, sub: str) -> bool:
    return s.endswith(sub)


@builtin("str.split")
def split(call: Call, s: str, sep: str) -> ArrayValue:
    if not sep:
        raise call.panic("split by an empty text")
    return ArrayValue(_STR, s.split(sep))


@builtin("str.join")
def join(call: Call, parts: ArrayValue, sep: str) -> str:
    return sep.join(parts.items)


@builtin("str.replace")
def replace(call: Call, s: str, sub: str, with_: str) -> str:
    if not sub:
        raise call.panic("an empty text to be replaced")
    return s.replace(sub, with_)


@builtin("str.repeat")
def repeat(call: Call, s: str, count: int) -> str:
    if count < 0:
        raise call.panic(f"{count} times a text")
    if count * size(s) > _MOST:
        raise call.panic(f"out of memory: a Str of {count * size(s)} bytes")
    return s * count


@builtin("str.trim")
def trim(call: Call, s: str) -> str:
    return s.strip()


@builtin("str.upper")
def upper(call: Call, s: str) -> str:
    return s.upper()


@builtin("str.lower")
def lower(call: Call, s: str) -> str:
    return s.lower()


@builtin("str.bytes")
def bytes_(call: Call, s: str) -> ArrayValue:
    return ArrayValue(_U8, list(s.encode()))


# --- text and numbers ------------------------------------------------------------------------------------------------
@builtin("str.from")
def from_(call: Call, v: Any) -> str:
    return scalar_text(v, call.types["v"] or UNIT)


def _error(call: Call, text: str, message: str) -> EnumValue:
    return call.err(StructValue(_PARSE_ERROR, {"text": text, "message": message}))


@builtin("str.from_bytes")
def from_bytes(call: Call, bytes: ArrayValue) -> EnumValue:
    try:
        return call.ok(bytearray(bytes.items).decode())
    except UnicodeDecodeError as error:
        shown = bytearray(bytes.items).decode(errors="replace")
        return _error(call, shown, f"byte {error.start} is no UTF-8: {error.reason}")


_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)")


def _integer(type_name: str, low: int, high: int) -> Callable[[Call, str], EnumValue]:
    def parse(call: Call, s: str) -> EnumValue:
        if not _INTEGER.fullmatch(s):
            return _error(call, s, f"{_quoted(s)} is no number")
        digits = s.lstrip("+-").lstrip("0")
        # Python refuses to read a number of thousands of digits
        value = int(digits or "0") if len(digits) <= 20 else high + 1
        value = -value if s[0] == "-" else value
        if low <= value <= high:
            return call.ok(value)
        return _error(call, s, f"{_quoted(s)} is out of range of {type_name}")

    return parse


builtin("str.parse_i64")(_integer("i64", -(1 << 63), (1 << 63) - 1))
builtin("str.parse_u64")(_integer("u64", 0, (1 << 64) - 1))


@builtin("str.parse_f64")
def parse_f64(call: Call, s: str) -> EnumValue:
    return call.ok(float(s)) if _FLOAT.fullmatch(s) else _error(call, s, f"{_quoted(s)} is no number")


@builtin("str.parse_bool")
def parse_bool(call: Call, s: str) -> EnumValue:
    if s in ("true", "false"):
        return call.ok(s == "true")
    return _error(call, s, f"{_quoted(s)} is neither true nor false")


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'


# --- building --------------------------------------------------------------------------------------------------------
@builtin("str.builder.new")
def builder_new(call: Call) -> BuilderValue:
    return BuilderValue([])


@builtin("str.builder.append")
def append(call: Call, b: BuilderValue, v: Any) -> None:
    b.parts.append(v if isinstance(v, str) else scalar_text(v, call.types["v"] or UNIT))


@builtin("str.builder.len")
def builder_len(call: Call, b: BuilderValue) -> int:
    return size(b.joined())


@builtin("str.builder.build")
def build(call: Call, b: BuilderValue) -> str:
    return b.joined()
