"""Tokens of `.tg` text, and reading a file."""

from __future__ import annotations

import re
from pathlib import Path

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.frontend.mp.source import Source
from magpie.records import record

__all__ = ["MAX_BYTES", "MAX_ERRORS", "Token", "decode", "plain_name", "read", "scan"]

#: Bytes above which a text is refused; large constants belong into .npy files.
MAX_BYTES = 64_000_000

#: How many errors one run reports.
MAX_ERRORS = 20


@record
class Token:
    """``kind`` is value, name, number, string, mark, bad or end; ``text`` of a value is its name."""

    kind: str
    text: str
    at: int
    end: int


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n]+|;[^\n]*)
    | (?P<value>%(?:[A-Za-z0-9_.$]+|"(?:[^"\\\n]|\\.)*"))
    | (?P<number>-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf\b|nan\b)(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<mark>->|[{}()\[\],:=])
    | (?P<bad>"[^\n]*|-?[0-9][A-Za-z0-9_.]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def scan(text: str) -> list[Token]:
    """All tokens; what is none comes as ``bad``, and the last one is ``end``."""
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        if kind == "space":
            continue
        word = match[kind]
        if kind == "value":
            word = _unquoted(word[1:]) if word[1] == '"' else word[1:]
        elif kind == "string":
            word = _unquoted(word)
        elif kind == "name" and word in ("inf", "nan"):
            kind = "number"
        tokens.append(Token(kind, word, match.start(), match.end()))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])


_PLAIN = re.compile(r"[A-Za-z0-9_.$]+")


def plain_name(name: str) -> str:
    """``%x``, or ``%"a/b"`` for a name with other characters."""
    if _PLAIN.fullmatch(name):
        return f"%{name}"
    return '%"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def read(path: Path) -> Source:
    """The text of a file. Raises CompileError (MPG_GRAPH_1001), and OSError for one that cannot be read."""
    with path.open("rb") as file:
        return decode(file.read(MAX_BYTES + 1), str(path))


def decode(data: bytes, file: str) -> Source:
    """Bytes as a source. Raises CompileError (MPG_GRAPH_1001)."""
    start = Loc(file, 1, 0)
    if len(data) > MAX_BYTES:
        help = "put large constants into .npy files beside it"
        raise CompileError(
            Diagnostic("MPG_GRAPH_1001", f"the file has more than {MAX_BYTES:,} bytes", start, help=help)
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CompileError(
            Diagnostic("MPG_GRAPH_1001", f"byte {error.start} is not UTF-8: {error.reason}", Loc(file, line, 0))
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = text.find("\0")
    if found >= 0:
        line = text.count("\n", 0, found) + 1
        raise CompileError(Diagnostic("MPG_GRAPH_1001", "there is a NUL character in the file", Loc(file, line, 0)))
    return Source(text, file)
