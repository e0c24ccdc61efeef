"""What host programs have of the system: standard input, files, arguments, the environment, a clock."""

from __future__ import annotations

import os
import sys
import time

from magpie.host.builtins import Call, builtin
from magpie.host.output import flush
from magpie.host.values import ArrayValue, EnumValue, StructValue
from magpie.mpir.types import Ty

__all__: list[str] = []

_STR, _IO_ERROR = Ty("Str"), Ty("TIoError")


@builtin("std.io.@read_line")
def read_line(call: Call) -> EnumValue:
    flush()  # a question stands before its answer
    if sys.stdin is None:
        return call.none()
    data = sys.stdin.buffer.readline()
    if not data:
        return call.none()
    return call.some(data.decode(errors="replace").removesuffix("\n").removesuffix("\r"))


def _failed(call: Call, path: str, message: str) -> EnumValue:
    return call.err(StructValue(_IO_ERROR, {"path": path, "message": f"{path}: {message}"}))


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


@builtin("std.io.@read_file")
def read_file(call: Call, path: str) -> EnumValue:
    try:
        with open(path, "rb") as file:
            return call.ok(file.read().decode())
    except UnicodeDecodeError as error:
        return _failed(call, path, f"byte {error.start} is no UTF-8")
    except (OSError, ValueError) as error:  # a ValueError: NUL in the path
        return _failed(call, path, _reason(error))


@builtin("std.io.@write_file")
def write_file(call: Call, path: str, text: str) -> EnumValue:
    try:
        with open(path, "wb") as file:
            file.write(text.encode())
    except (OSError, ValueError) as error:
        return _failed(call, path, _reason(error))
    return call.ok()


@builtin("std.env.@args")
def args(call: Call) -> ArrayValue:
    return ArrayValue(_STR, list(map(_text, call.program.argv)))


@builtin("std.env.@var")
def var(call: Call, name: str) -> EnumValue:
    found = os.environ.get(name) if name and "\0" not in name else None
    return call.none() if found is None else call.some(_text(found))


def _text(found: str) -> str:
    """A Str of what the system gave: bytes that are not UTF-8 become U+FFFD."""
    return found.encode(errors="surrogateescape").decode(errors="replace")


@builtin("std.time.@now_ns")
def now_ns(call: Call) -> int:
    return time.monotonic_ns()
