"""Diagnostics as one JSON document, in the form of ``check.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from magpie.diagnostics import Diagnostic, Loc

__all__ = ["json_report", "schema"]


def json_report(file: Path, diagnostics: Iterable[Diagnostic]) -> str:
    """The document for ``magpie check --json``; lines and columns count from 1, ends are exclusive."""
    items = list(diagnostics)
    errors = sum(item.is_error for item in items)
    document = {
        "version": 1,
        "file": str(file),
        "errors": errors,
        "warnings": sum(item.severity.value == "warning" for item in items),
        "diagnostics": [_item(item) for item in items],
    }
    return json.dumps(document, indent=2)


def schema() -> dict[str, Any]:
    """The JSON schema of the document."""
    text = Path(__file__).with_name("check.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _item(item: Diagnostic) -> dict[str, Any]:
    return {
        "code": item.code,
        "severity": item.severity.value,
        "message": item.message,
        "place": _place(item.loc),
        "help": item.help,
        "notes": [{"message": text, "place": _place(loc)} for text, loc in item.notes],
    }


def _place(loc: Loc | None) -> dict[str, Any] | None:
    if loc is None:
        return None
    return {
        "file": loc.file,
        "line": loc.line,
        "column": loc.col + 1,
        "end_line": loc.end_line or loc.line,
        "end_column": (loc.end_col if loc.end_line else loc.col) + 1,
        "function": loc.function or None,
    }
