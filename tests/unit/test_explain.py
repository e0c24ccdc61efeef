"""`magpie explain`: cause, cure and example of every code, and examples of `.mp` text that are what they say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from explain_parts import parts
from test_mp_codes import ELSEWHERE, FAMILIES
from typer.testing import CliRunner

from magpie.cli.app import app
from magpie.diagnostics import table

CODES = list(table().values())

# Codes of `.mp` text whose example would be too long, or is no text.
NO_PROGRAM = {
    "MPG_CORE_1409": "more than 120 branches",
    "MPG_CORE_1410": "more than 500,000 operations",
    "MPG_SPV_2004": "an option",
    "MPG_SPV_2006": "more than 16 KB",
    "MPG_PTX_2002": "an option",
    "MPG_HIP_2002": "an option",
    "MPP0001": "more than a million bytes",
    "MPP0002": "bytes that are no text",
    "MPP0003": "a character that cannot be shown",
    "MPP0004": "more than 64 brackets",
}
# Given for every `unsafe gpu fn`, also where one is the cure.
REMINDER = "MPG_CORE_1202"


@pytest.mark.parametrize("row", CODES, ids=lambda row: row.code)
def test_cause_cure_and_example(row):
    said = parts(row.text)
    for part in (said.cause, said.cure):
        assert len(part) >= 8 and part.endswith((".", ")", "...")), part
    assert said.examples and all(example.text for example in said.examples)
    bad, good = (sum(example.good is kind for example in said.examples) for kind in (False, True))
    assert bad <= good, "an example of wrong code without the right one is no help"
    assert all(len(line) <= 120 and line == line.rstrip() for line in row.text.splitlines())
    done = CliRunner().invoke(app, ["explain", row.code])
    assert done.exit_code == 0
    assert done.stdout == f"{row.severity.value}[{row.code}]: {row.title}\n\n{row.text}\n"


def check(example, folder):
    file = folder / "example.mp"
    file.write_text(example.program)
    done = CliRunner().invoke(app, ["check", "--json", *example.options, str(file)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return {d["code"] for d in json.loads(done.stdout)["diagnostics"]}


@pytest.mark.parametrize("row", [row for row in CODES if row.family in FAMILIES], ids=lambda row: row.code)
def test_examples_of_text_are_what_they_say(row, tmp_path):
    programs = [example for example in parts(row.text).examples if example.program is not None]
    for example in programs:
        found = check(example, tmp_path)
        if example.good:
            assert found <= {REMINDER} - {row.code}, example.text
        else:
            assert row.code in found and found <= {row.code, REMINDER}, example.text
    if row.code not in ELSEWHERE.keys() | NO_PROGRAM.keys():
        assert {example.good for example in programs} == {True, False}, "a wrong and a right one that are checked"


def test_the_lists_above_are_of_codes():
    assert NO_PROGRAM.keys() <= table().keys() and not NO_PROGRAM.keys() & ELSEWHERE.keys()


LEGACY = [
    ("MPG1100", "MPG_CORE_1100"),
    ("MPG1101", "MPG_CORE_1101"),
    ("MPG1102", "MPG_CORE_1102"),
    ("MPG1103", "MPG_CORE_1103"),
    ("MPG1104", "MPG_CORE_1104"),
    ("MPG1105", "MPG_CORE_1105"),
    ("MPG1106", "MPG_CORE_1106"),
    ("MPG1107", "MPG_CORE_1107"),
    ("MPG1200", "MPG_CORE_1300"),
    ("MPG1201", "MPG_CORE_1201"),
    ("mpg1202", "MPG_CORE_1202"),
    ("MPG1300", "MPG_CORE_1300"),
    ("MPG1400", "MPG_CORE_1400"),
]


@pytest.mark.parametrize(("old", "new"), LEGACY)
def test_older_names(old, new):
    """Specification, 13.1; the others of the form MPG1NNN are MPG_CORE_1NNN."""
    done = CliRunner().invoke(app, ["explain", old])
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{old.upper()} is now {new}.\n\n") and f"[{new}]: " in done.stdout


@pytest.mark.parametrize("words", [["explain", "MPS0001"], ["explain", "--list"], ["knobs"]])
def test_a_reader_that_goes_away(words):
    with subprocess.Popen(
        [sys.executable, "-m", "magpie", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(60) == 1
