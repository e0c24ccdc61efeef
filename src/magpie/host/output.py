"""Standard output and standard error of host programs: UTF-8, in the order in which they were written."""

from __future__ import annotations

import sys
from typing import TextIO

from magpie.host.builtins import Call, builtin

__all__ = ["error", "flush", "write"]


def write(text: str) -> None:
    """Write to standard output."""
    _put(sys.stdout, text)


def error(text: str) -> None:
    """Write to standard error, behind everything that was written to standard output."""
    flush()
    _put(sys.stderr, text)
    if sys.stderr is not None:
        sys.stderr.flush()


def flush() -> None:
    """Let go out what was written to standard output."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _put(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed when the process began
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a locale that lacks a character: text is UTF-8 all the same
        stream.flush()
        stream.buffer.write(text.encode())


@builtin("std.io.@print")
def print_(call: Call, text: str) -> None:
    write(text)


@builtin("std.io.@println")
def println(call: Call, text: str) -> None:
    write(text + "\n")


@builtin("std.io.@eprint")
def eprint(call: Call, text: str) -> None:
    error(text)


@builtin("std.io.@eprintln")
def eprintln(call: Call, text: str) -> None:
    error(text + "\n")
