"""``Diagnostic``, the one form in which every part of Magpie reports a problem in a user's code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from magpie.diagnostics.loc import Loc
from magpie.diagnostics.table import Severity, lookup
from magpie.errors import MagpieError
from magpie.records import record

Note: TypeAlias = tuple[str, "Loc | None"]


@record
class Diagnostic:
    """A problem at a place in a user's source.

    ``code`` is a row of the table (a KeyError names one that is not), ``notes`` are (text, place or None) pairs,
    ``help`` says what to write instead, and ``severity`` is the table's unless given.
    """

    code: str
    message: str
    loc: Loc | None = None
    notes: tuple[Note, ...] = ()
    help: str | None = None
    severity: Severity = None  # type: ignore[assignment]  # filled from the table below

    def __post_init__(self) -> None:
        row = lookup(self.code)
        if self.severity is None:
            object.__setattr__(self, "severity", row.severity)

    @property
    def is_error(self) -> bool:
        """True when this diagnostic stops a compilation."""
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        """The rendered text: message, place, source line with carets, notes, help."""
        from magpie.diagnostics.render import render

        return render(self)


class CompileError(MagpieError):
    """A kernel could not be compiled; ``diagnostics`` says why and ``str()`` shows it with the source lines."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        items = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not items:
            raise ValueError("a CompileError needs at least one diagnostic")
        super().__init__(items)
        self.diagnostics = items

    @property
    def code(self) -> str:
        """The code of the first error."""
        return next((d for d in self.diagnostics if d.is_error), self.diagnostics[0]).code

    def __str__(self) -> str:
        from magpie.diagnostics.render import render

        # A traceback prints "CompileError: " before this text; the caret block needs a line of its own.
        return "\n" + render(self.diagnostics)


class CompileWarning(UserWarning):
    """The category under which ``warnings.warn`` shows a diagnostic that does not stop a compilation."""

    diagnostic: Diagnostic | None

    def __init__(self, diagnostic: Diagnostic | str) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic if isinstance(diagnostic, Diagnostic) else None

    def __str__(self) -> str:
        return str(self.args[0])


__all__ = ["CompileError", "CompileWarning", "Diagnostic", "Note"]
