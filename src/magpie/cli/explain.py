"""``magpie explain``."""

from __future__ import annotations

import sys

from magpie.diagnostics.explain import UnknownCode, explain, listing


def explain_command(code: str) -> int:
    """Print the text of a code; 1 and the nearest codes when there is none of that name."""
    try:
        print(explain(code))
    except UnknownCode as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def list_command() -> int:
    """Print all codes with their severities and titles."""
    for row in listing():
        print(f"{row.code:<15} {row.severity.value:<8} {row.title}")
    return 0
