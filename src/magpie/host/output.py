"""Standard output and standard error of host programs: UTF-8, in the order in which they were written."""

from __future__ import annotations

import sys
from typing import TextIO

from magpie.host.builtins import Call, builtin

__all__ = ["OutputError", "error", "flush", "write"]


class OutputError(Exception):
    """Standard output or standard error takes no more, as where a disk is full."""


def write(text: str) -> None:
    """Write to standard output."""
    _put(sys.stdout, text)


def error(text: str) -> None:
    """Write to standard error, behind everything that was written to standard output."""
    flush()
    _put(sys.stderr, text)
    _flush(sys.stderr)


def flush() -> None:
    """Let go out what was written to standard output. Raises OutputError; BrokenPipeError where nobody reads it."""
    _flush(sys.stdout)


def _flush(stream: TextIO | None) -> None:
    if stream is None:  # closed when the process began
        return
    try:
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as lost:
        raise OutputError(f"{stream.name}: {lost.strerror or lost}") from None


def _put(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed when the process began
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a locale that lacks a character: text is UTF-8 all the same
        _flush(stream)
        stream.buffer.write(text.encode(errors="surrogateescape"))  # a file's name may have bytes that are no UTF-8
    except BrokenPipeError:
        raise
    except OSError as lost:
        raise OutputError(f"{stream.name}: {lost.strerror or lost}") from None


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
