"""The text of one file: decoding, limits, and places."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from magpie.diagnostics import CompileError, Diagnostic, Loc

#: Bytes above which a source is refused before it is looked at.
MAX_BYTES = 1_000_000


class Source:
    """A text and the file that it came from.  Newlines are ``\\n``; offsets count characters."""

    __slots__ = ("file", "starts", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.starts: list[int] = []

    def line_of(self, at: int) -> int:
        """The line, from 1, of offset ``at``."""
        if not self.starts:
            starts, found = [0], self.text.find("\n")
            while found >= 0:
                starts.append(found + 1)
                found = self.text.find("\n", found + 1)
            self.starts = starts
        return bisect_right(self.starts, at)

    def loc(self, at: int, end: int = 0, function: str = "") -> Loc:
        """The place from ``at`` to ``end``; one character where ``end`` is not behind ``at``."""
        line = self.line_of(at)
        col = at - self.starts[line - 1]
        last = max(end, at + 1)
        end_line = self.line_of(last - 1)
        return Loc(self.file, line, col, end_line, last - self.starts[end_line - 1], function)


def read(path: Path, *, max_bytes: int = MAX_BYTES) -> Source:
    """The text of a file.  Raises CompileError (MPP0001 to MPP0003) for one that is too large, not UTF-8 or has NULs.

    An OSError of the file system goes to the caller.
    """
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    return decode(data, str(path), max_bytes=max_bytes)


def decode(data: bytes, file: str, *, max_bytes: int = MAX_BYTES) -> Source:
    """Bytes as a source; raises as ``read`` does."""
    start = Loc(file, 1, 0)
    if len(data) > max_bytes:
        text = f"the source is larger than {max_bytes:,} bytes"
        raise CompileError(Diagnostic("MPP0001", text, start, help="split the module, or raise --max-bytes"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        where = _place(before, file)
        text = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8: {error.reason}"
        raise CompileError(Diagnostic("MPP0002", text, where)) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = text.find("\0")
    if found >= 0:
        where = _place(text[:found], file)
        raise CompileError(Diagnostic("MPP0003", "there is a NUL character in the source", where))
    return Source(text, file)


def _place(before: str, file: str) -> Loc:
    before = before.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Loc(file, before.count("\n") + 1, len(before) - before.rfind("\n") - 1)


__all__ = ["MAX_BYTES", "Source", "decode", "read"]
