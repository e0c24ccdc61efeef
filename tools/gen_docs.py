"""Writes the pages of docs/ that are made from the code; ``--check`` fails where one is not up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from magpie import knobs

DOCS = Path(__file__).resolve().parent.parent / "docs"


def knobs_page() -> str:
    """docs/KNOBS.md."""
    lines = [
        "# Environment variables",
        "",
        "Made from `src/magpie/knobs.py` by `make docs`; `magpie knobs` shows the same with the values in force.",
        "A variable is read when it is needed, not when Magpie is imported. A value that is not allowed is an error.",
        "",
        "| variable | values | default | what it does |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{knob.name}` | {knob.allowed} | {knob.default} | {knob.doc} |" for knob in knobs.describe()]
    return "\n".join(lines) + "\n"


PAGES = {"KNOBS.md": knobs_page}


def main() -> int:
    """Write all pages, or compare them."""
    stale = 0
    for name, make in PAGES.items():
        path = DOCS / name
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print(f"docs/{name} is not up to date: run `make docs`")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
