"""Source positions, shared by every stage from a frontend to the profiler."""

from __future__ import annotations

from magpie.records import record


@record
class Loc:
    """A span of source text.

    ``line`` is 1-based and ``col`` is 0-based, both as Python's ``ast`` counts them, except that ``col`` counts
    characters, not UTF-8 bytes.  ``end_line`` 0 means that only the start is known.  ``inlined_at`` is the position of
    the call through which this code was inlined, innermost first.
    """

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0
    function: str = ""
    inlined_at: Loc | None = None

    def __str__(self) -> str:
        """``file:line:col`` with a 1-based column, the form that editors and terminals turn into a link."""
        return f"{self.file}:{self.line}:{self.col + 1}"

    @property
    def short(self) -> str:
        """``name.py:14``: the file's last component and the line, as printed IR shows it."""
        name = self.file.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{name}:{self.line}"


__all__ = ["Loc"]
