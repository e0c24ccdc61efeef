"""The text of ``magpie explain CODE``."""

from __future__ import annotations

import difflib
import re

from magpie.diagnostics.table import Code, resolve, table
from magpie.errors import MagpieError


class UnknownCode(MagpieError, LookupError):
    """There is no code of this name; ``suggestions`` are the nearest ones, best first."""

    def __init__(self, name: str, suggestions: tuple[str, ...]) -> None:
        super().__init__(name, suggestions)
        self.name = name
        self.suggestions = suggestions

    def __str__(self) -> str:
        text = f"there is no diagnostic {self.name!r}"
        if self.suggestions:
            rows = [f"\n  {code}  {table()[code].title}" for code in self.suggestions]
            text += "; the nearest are:" + "".join(rows)
        return text + "\n  `magpie explain --list` shows all codes"


def explain(name: str) -> str:
    """What the code means, with an example of wrong and right code.

    ``name`` is a code in any case or a legacy name (``MPG1200``, ``XPU-N01``).  Raises ``UnknownCode``.
    """
    row = resolve(name)
    if row is None:
        raise UnknownCode(name, nearest(name))
    asked = name.strip().upper()
    note = f"{asked} is now {row.code}.\n\n" if re.sub(r"\W", "_", asked) != row.code else ""
    return f"{note}{row.severity.value}[{row.code}]: {row.title}\n\n{row.text}"


def nearest(name: str, limit: int = 5) -> tuple[str, ...]:
    """Codes that look like ``name``: the same number in another family first, then similar spelling, then titles."""
    key = name.strip().upper().replace("-", "_")
    found: dict[str, None] = {}
    if number := re.search(r"[0-9]{4}", key):
        found.update(dict.fromkeys(code for code in table() if code.endswith(f"_{number[0]}")))
        close = difflib.get_close_matches(key, found, n=limit, cutoff=0.0)
        found = dict.fromkeys(close)
    found.update(dict.fromkeys(difflib.get_close_matches(key, table(), n=limit, cutoff=0.75)))
    if len(found) < limit and not number:
        found.update(dict.fromkeys(_by_title(key)))
    return tuple(found)[:limit]


def _by_title(key: str) -> list[str]:
    words = set(re.findall(r"[A-Z]{3,}", key)) - {"MPG"}
    ranked = [(len(words & set(re.findall(r"[A-Z]{3,}", row.title.upper()))), code) for code, row in table().items()]
    return [code for count, code in sorted(ranked, key=lambda item: -item[0]) if count]


def listing(family: str | None = None) -> list[Code]:
    """All rows of the table, or those of one family (``PY``, ``CORE``, ...)."""
    return [row for row in table().values() if family is None or row.family == family.upper()]


__all__ = ["UnknownCode", "explain", "listing", "nearest"]
