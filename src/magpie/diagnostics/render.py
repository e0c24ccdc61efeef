"""Diagnostics as text: the message, the place, the source line with carets, notes and help.

Plain text unless colour is asked for.  Source lines come from ``linecache``, so cells of a notebook and lines typed at
a prompt are shown too; where there is no source, the place alone is.
"""

from __future__ import annotations

import linecache
import os
import unicodedata
from collections.abc import Iterable, Iterator

from magpie.diagnostics.diagnostic import Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.diagnostics.table import Severity

_TAB = 4
_MAX_WIDTH = 160
_RESET = "\x1b[0m"
_STYLE = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.NOTE: "\x1b[1;36m",
    "gutter": "\x1b[1;34m",
    "bold": "\x1b[1m",
}


def render(diagnostics: Diagnostic | Iterable[Diagnostic], *, color: bool = False) -> str:
    """The text of one or several diagnostics, without a final newline; ANSI colours only if ``color``."""
    items = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
    return "\n\n".join("\n".join(_lines(item, _Painter(color))) for item in items)


def source_line(file: str, line: int) -> str | None:
    """Line ``line`` (1-based) of ``file`` without its newline, or None when there is no source to show."""
    if line < 1 or not file or file.lower().endswith(".onnx"):  # a line is a node's number, and the file binary
        return None
    try:
        linecache.checkcache(file)  # a file edited since the last error must not show old text
        text = linecache.getline(file, line)
    except (OSError, ValueError, MemoryError):
        return None
    return text.rstrip("\r\n") if text else None


class _Painter:
    """Wraps text in ANSI codes, or leaves it alone."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, style: Severity | str, text: str) -> str:
        return f"{_STYLE[style]}{text}{_RESET}" if self.color and text else text


def _lines(item: Diagnostic, paint: _Painter) -> Iterator[str]:
    head = paint(item.severity, f"{item.severity.value}[{item.code}]")
    yield head + paint("bold", f": {item.message}")
    width = _gutter_width(item)
    if item.loc is not None:
        yield from _snippet(item.loc, width, paint, item.severity)
    pad = " " * width
    for text, loc in item.notes:
        if loc is None:
            yield from _labelled(pad, "note", text, paint)
    if item.help:
        yield from _labelled(pad, "help", item.help, paint)
    for text, loc in item.notes:
        if loc is not None:
            yield paint(Severity.NOTE, "note") + f": {text}"
            yield from _snippet(loc, width, paint, Severity.NOTE)
    for call in _call_chain(item.loc):
        called = f" in `{call.function}`" if call.function else ""
        yield paint(Severity.NOTE, "note") + f": called from here{called}"
        yield from _snippet(call, width, paint, Severity.NOTE)


def _labelled(pad: str, label: str, text: str, paint: _Painter) -> Iterator[str]:
    first, *rest = text.splitlines() or [""]
    yield f"{pad} {paint('gutter', '=')} {paint('bold', label)}: {first}"
    indent = " " * (len(pad) + len(label) + 5)
    for line in rest:
        yield f"{indent}{line}"


def _gutter_width(item: Diagnostic) -> int:
    locs = [item.loc, *(loc for _, loc in item.notes), *_call_chain(item.loc)]
    return max((len(str(loc.line)) for loc in locs if loc is not None), default=1)


def _call_chain(loc: Loc | None) -> list[Loc]:
    chain: list[Loc] = []
    while loc is not None and loc.inlined_at is not None:
        loc = loc.inlined_at
        chain.append(loc)
    return chain


def _snippet(loc: Loc, width: int, paint: _Painter, style: Severity) -> Iterator[str]:
    arrow, bar = paint("gutter", "-->"), paint("gutter", "|")
    pad = " " * width
    yield f"{pad}{arrow} {_shown_path(loc.file)}:{loc.line}:{loc.col + 1}"
    text = source_line(loc.file, loc.line)
    if text is None or not text.strip():
        return
    shown, start, length = _layout(text, loc)
    number = paint("gutter", str(loc.line).rjust(width))
    yield f"{pad} {bar}"
    yield f"{number} {bar} {shown}"
    yield f"{pad} {bar} {' ' * start}{paint(style, '^' * length)}"


def _layout(text: str, loc: Loc) -> tuple[str, int, int]:
    """The line as shown, and where its carets start and how many there are, in terminal columns.

    Tabs become spaces, wide characters count two columns and combining ones none; a very long line is cut around
    the carets.  A span over several lines is underlined to the end of its first one.
    """
    first = min(max(loc.col, 0), len(text))
    last = len(text.rstrip())
    if loc.end_line in (0, loc.line):
        last = min(loc.end_col, len(text)) if loc.end_line and loc.end_col > first else first + 1
    cells: list[str] = []
    columns: list[int] = []
    column = 0
    for char in text:
        columns.append(column)
        cell, size = _cell(char, column)
        cells.append(cell)
        column += size
    columns.append(column)
    start = columns[first]
    end = columns[last] if last < len(columns) else column + 1
    length = max(end - start, 1)
    if column <= _MAX_WIDTH:
        return "".join(cells), start, length
    low = max(first - 40, 0)
    high = low
    while high < len(text) and columns[high + 1] - columns[low] <= _MAX_WIDTH - 8:
        high += 1
    left, right = "... " if low else "", " ..." if high < len(text) else ""
    start = start - columns[low] + len(left)
    length = max(min(length, columns[high] - columns[low] + len(left) - start), 1)
    return left + "".join(cells[low:high]) + right, start, length


def _cell(char: str, column: int) -> tuple[str, int]:
    if char == "\t":
        size = _TAB - column % _TAB
        return " " * size, size
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf"):
        return char, 0
    if category == "Cc":
        return " ", 1
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _shown_path(file: str) -> str:
    """``file`` relative to the working directory when it lies below it, else as it is."""
    try:
        here = os.getcwd()
    except OSError:
        return file
    return file[len(here) + 1 :] if file.startswith(here + os.sep) else file


__all__ = ["render", "source_line"]
