"""Tokens of `.mp` text, by one regular expression that is made from the terminals of the grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from magpie.diagnostics import Diagnostic
from magpie.frontend.mp.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How deep brackets may nest: more than any program has, little enough for every recursive walk of the tree.
MAX_DEPTH = 64

#: How many errors one run reports.
MAX_ERRORS = 20

_DEPTH = {"{": 1, "(": 1, "[": 1, "<": 1, "}": -1, ")": -1, "]": -1, ">": -1}


class Token:
    """A terminal's name, its text, and where it begins and ends."""

    __slots__ = ("at", "end", "text", "type")

    def __init__(self, type: str, text: str, at: int, end: int) -> None:
        self.type = type
        self.text = text
        self.at = at
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.type}, {self.text!r}, {self.at})"


Comment: TypeAlias = tuple[int, str]  # where it begins, and its text with the semicolons


class TooDeep(Exception):
    """Brackets nest deeper than MAX_DEPTH; the diagnostic says where."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


class Scanner:
    """Cuts a source into tokens.

    ``patterns`` are (name, regular expression) in the order in which they are tried, ``words`` the keywords, which are
    texts that the terminal NAME matches, and ``marks`` the punctuation.
    """

    def __init__(self, patterns: Iterable[tuple[str, str]], words: dict[str, str], marks: dict[str, str]) -> None:
        groups = [f"(?P<{name}>{pattern})" for name, pattern in patterns]
        mark = "|".join(re.escape(text) for text in sorted(marks, key=len, reverse=True))
        # What is wrong is taken as a whole: a string to the end of its line, a number to the end of the word.
        bad = '(?P<BAD>"[^\\n]*|-?[0-9][0-9A-Za-z_.]*|[^ \\t\\n])'
        parts = [*groups, f"(?P<MARK>{mark})", "(?P<COMMENT>;[^\\n]*)", bad]
        self._match = re.compile("[ \\t\\n]*(?:" + "|".join(parts) + ")")
        self._words = words
        self._marks = marks

    def scan(self, source: Source) -> tuple[list[Token], list[Comment], list[Diagnostic]]:
        """The tokens, the comments, and what could not be read.  Raises TooDeep."""
        tokens: list[Token] = []
        comments: list[Comment] = []
        bad: list[Diagnostic] = []
        words, marks, add = self._words, self._marks, tokens.append
        depth = 0
        bad_end = -1
        end_of_text = len(source.text.rstrip(" \t\n"))  # blanks that nothing follows would be tried from each one anew
        for match in self._match.finditer(source.text, 0, end_of_text):
            kind = match.lastgroup
            assert kind is not None
            text = match[kind]
            end = match.end()
            at = end - len(text)
            if kind == "NAME":
                add(Token(words.get(text, "NAME"), text, at, end))
            elif kind == "MARK":
                if text in _DEPTH:
                    depth = max(depth + _DEPTH[text], 0)
                    if depth > MAX_DEPTH:
                        message = f"brackets nest more than {MAX_DEPTH} deep"
                        raise TooDeep(Diagnostic("MPP0004", message, source.loc(at, end)))
                add(Token(marks[text], text, at, end))
            elif kind == "COMMENT":
                comments.append((at, text.rstrip()))
            elif kind == "BAD":
                if at != bad_end and len(bad) < MAX_ERRORS:
                    bad.append(_bad(source, at, text))
                bad_end = end
            else:
                add(Token(kind, text, at, end))
        add(Token("$END", "", len(source.text), len(source.text)))
        return tokens, comments, bad


def _bad(source: Source, at: int, text: str) -> Diagnostic:
    where = source.loc(at, at + len(text))
    if text[0] == '"':
        return Diagnostic("MPP0006", "a string ends where its line does", where, help='close it with "')
    if len(text) > 1 or text in "0123456789":
        shown = text if len(text) <= 40 else text[:37] + "..."
        help = "numbers are 12, -12, 0xff, 0b11, 1.5, 1e-3"
        return Diagnostic("MPP0005", f"`{shown}` is not a number", where, help=help)
    shown = f"`{text}`" if text.isprintable() else f"U+{ord(text):04X}"
    return Diagnostic("MPP0005", f"{shown} does not belong here", where, help=_HINTS.get(text))


_HINTS = {
    "#": "comments begin with ;",
    "/": "comments begin with ;",
    "'": 'strings are in double quotes: "text"',
    "%": "a value has a name: %x",
    "@": "a function has a name: @f",
}

__all__ = ["MAX_DEPTH", "MAX_ERRORS", "Comment", "Scanner", "Token", "TooDeep"]
