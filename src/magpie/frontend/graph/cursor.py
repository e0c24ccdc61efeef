"""Walking over the tokens of `.tg` text, and reporting what does not fit."""

from __future__ import annotations

from typing import NoReturn

from magpie.diagnostics import Diagnostic
from magpie.frontend.graph.rules import Mismatch
from magpie.frontend.graph.text import Token, scan
from magpie.frontend.mp.source import Source

__all__ = ["Cursor", "Stop"]

_KINDS = {"value": "a value (%x)", "name": "a name", "number": "a number", "string": "a string", "mark": "a mark"}


class Stop(Exception):
    """A statement cannot be read further; what is wrong is reported."""


class Cursor:
    """The tokens of a source, the place in them, and the diagnostics so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = scan(source.text)
        self.at = 0
        self.found: list[Diagnostic] = []

    def peek(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def accept(self, mark: str) -> bool:
        """Take this mark, if it is next."""
        token = self.tokens[self.at]
        if token.kind == "mark" and token.text == mark:
            self.at += 1
            return True
        return False

    def take(self, kind: str, text: str | None = None, help: str | None = None) -> Token:
        """The next token, which must be of this kind and text; else an error, and Stop."""
        token = self.tokens[self.at]
        if token.kind != kind or (text is not None and token.text != text):
            self.unexpected(f"`{text}`" if text is not None else _KINDS[kind], token, help)
        return self.next()

    def recover(self) -> None:
        """Skip to what begins a statement: the first token of a line that is a value, `return` or `}`."""
        line = self.source.line_of(self.tokens[max(self.at - 1, 0)].at)
        while self.peek().kind != "end":
            token = self.peek()
            here = self.source.line_of(token.at)
            begins = token.kind == "value" or token.text in ("return", "}")
            if here != line and begins and self._first(token):
                return
            self.next()

    def _first(self, token: Token) -> bool:
        start = self.source.text.rfind("\n", 0, token.at) + 1
        return not self.source.text[start : token.at].strip()

    # --- errors ------------------------------------------------------------------------------------------------------
    def error(self, code: str, message: str, token: Token | None = None, help: str | None = None) -> None:
        """Report at a token, or at the next one."""
        token = self.peek() if token is None else token
        self.found.append(Diagnostic(code, message, self.source.loc(token.at, token.end), help=help))

    def stop(self, code: str, message: str, token: Token, help: str | None = None) -> NoReturn:
        """Report, and end the statement."""
        self.error(code, message, token, help)
        raise Stop

    def mismatch(self, error: Mismatch, token: Token) -> None:
        self.error(error.code, error.message, token, error.help)

    def unexpected(self, wanted: str, token: Token | None = None, help: str | None = None) -> NoReturn:
        token = self.peek() if token is None else token
        if token.kind == "bad" and token.text[0] == '"':
            self.stop("MPG_GRAPH_1002", "a string ends where its line does", token, 'close it with "')
        self.stop("MPG_GRAPH_1002", f"expected {wanted}, found {self.shown(token)}", token, help)

    @staticmethod
    def shown(token: Token) -> str:
        """A token as a message names it."""
        if token.kind == "end":
            return "the end of the file"
        text = f"%{token.text}" if token.kind == "value" else token.text
        text = text if len(text) <= 40 else text[:37] + "..."
        return f"`{text}`" if text.isprintable() else f"U+{ord(text[0]):04X}"
