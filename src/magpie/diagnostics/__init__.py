"""Diagnostics: one table of codes, ``Diagnostic``, the renderer and ``explain``."""

from __future__ import annotations

from magpie.diagnostics.diagnostic import CompileError, CompileWarning, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.diagnostics.render import render
from magpie.diagnostics.table import ERROR, NOTE, WARNING, Code, Severity, define, lookup, resolve, table

__all__ = [
    "ERROR",
    "NOTE",
    "WARNING",
    "Code",
    "CompileError",
    "CompileWarning",
    "Diagnostic",
    "Loc",
    "Severity",
    "define",
    "lookup",
    "render",
    "resolve",
    "table",
]
