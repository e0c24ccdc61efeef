"""The pages: links lead somewhere, and texts hold nothing of one machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4})make ([a-z][\w-]*)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


def test_codes_named_in_pages_and_sources_exist():
    from magpie.diagnostics import table

    files = [*PAGES, *(ROOT / "src").rglob("*.py")]
    named = {code for file in files for code in re.findall(r"\b(?:MPG_[A-Z]+_[0-9]{4}|MP[A-FH-Z][0-9]{4})\b", file.read_text(encoding="utf-8"))}
    assert named <= set(table())


def test_no_machine_paths():
    """A path below a home or a work folder means that something was pasted from one machine."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.split() if done.returncode == 0 else []
    for name in names:
        file = ROOT / name
        if file.suffix in {".py", ".md", ".toml", ".sh", ".txt", ".apt"} and file.exists() and name != "LICENSE":
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.<])/(?:home|root|work|Users)/\w+", text), name
