"""The sanitizer reports every planted fault at its line, and nothing where a kernel is right."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import magpie as mp

from .faults.corpus import ENTRIES, MARK, Entry

for _module in ("shared_races", "global_races", "bounds", "others"):
    importlib.import_module(f"{__package__}.faults.{_module}")

FAULTS = [e for e in ENTRIES if e.faulty]
LOOKALIKES = [e for e in ENTRIES if not e.faulty]
PROGRAMS = Path(__file__).parent / "faults" / "programs"


def _function(entry):
    return inspect.unwrap(entry.kernel.fn if hasattr(entry.kernel, "fn") else entry.kernel)


def marked(entry: Entry) -> set[tuple[int, str]]:
    """(line, code) of each mark in the kernel and in the functions of its module that it calls."""
    fn = _function(entry)
    lines, first = inspect.getsourcelines(fn)
    found = {(first + k, m[1]) for k, line in enumerate(lines) if (m := MARK.search(line))}
    if not found:
        text = Path(inspect.getsourcefile(fn)).read_text().splitlines()
        names = [n for n in fn.__code__.co_names if n in fn.__globals__]
        for name in names:
            start = next((k for k, line in enumerate(text) if line.startswith(f"def {name}(")), None)
            if start is None:
                continue
            for k in range(start, len(text)):
                if k > start and text[k].startswith(("@", "def ")):
                    break
                if m := MARK.search(text[k]):
                    found.add((k + 1, m[1]))
    return found


def sanitize(entry: Entry):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        return entry.kernel.sanitize(
            grid=entry.grid, block=entry.block, args=entry.args(), checks=entry.checks, **entry.options
        )


def test_the_corpus_is_large_enough():
    assert len(FAULTS) >= 40
    assert len(LOOKALIKES) >= 40
    assert len({e.name for e in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", FAULTS, ids=lambda e: e.name)
def test_fault(entry):
    marks = marked(entry)
    assert marks, "a fault carries a mark"
    try:
        reports = sanitize(entry)
    except mp.CompileError as error:  # found before anything ran
        # the barrier is where it stands, the branch that diverges is in its notes
        places = {(loc.line, d.code) for d in error.diagnostics for loc in (d.loc, *(n for _, n in d.notes)) if loc}
        assert places & marks, f"{error}"  # noqa: PT017
        return
    text = "\n".join(map(str, reports))
    found = {(line, r.code) for r in reports for line in (r.line, r.other_line)}
    assert marks <= found, f"expected {sorted(marks)}, found:\n{text}"
    lines = {line for line, _ in marks}
    stray = [r for r in reports if r.line not in lines and r.other_line not in lines]
    assert not stray, f"reports beside the fault:\n{text}"
    source = Path(inspect.getsourcefile(_function(entry)))
    assert all(Path(r.file) == source for r in reports)
    if any(r.code in ("MPG_SAN_1001", "MPG_SAN_1002") for r in reports):
        race = next(r for r in reports if r.code in ("MPG_SAN_1001", "MPG_SAN_1002"))
        assert len(race.work_items) == 2
        assert race.work_items[0] != race.work_items[1]
        assert race.kind == "race"


@pytest.mark.parametrize("entry", LOOKALIKES, ids=lambda e: e.name)
def test_lookalike(entry):
    reports = sanitize(entry)
    assert not list(reports), "\n".join(map(str, reports))


@pytest.mark.parametrize("entry", LOOKALIKES[::4], ids=lambda e: e.name)
def test_lookalike_with_all_checks(entry):
    if "overflow" in entry.name or "unsigned" in entry.name:
        pytest.skip("its point is the overflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mp.CompileWarning)
        reports = entry.kernel.sanitize(
            grid=entry.grid, block=entry.block, args=entry.args(),
            checks=("race", "bounds", "uninit", "barrier", "divide", "overflow"), **entry.options,
        )  # fmt: skip
    assert not list(reports), "\n".join(map(str, reports))


@pytest.mark.parametrize("entry", FAULTS[::5], ids=lambda e: e.name)
def test_the_order_of_execution_does_not_hide_a_fault(entry):
    marks = {line for line, code in marked(entry) if code.startswith("MPG_SAN")}
    if not marks:
        pytest.skip("found at compile time")
    for seed in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mp.CompileWarning)
            reports = entry.kernel.sanitize(
                grid=entry.grid, block=entry.block, args=entry.args(), checks=entry.checks, order=seed, **entry.options
            )
        assert any(r.line in marks or r.other_line in marks for r in reports)


def check(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "magpie", "check", "--sanitize", str(file)], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", ["missing_barrier", "out_of_bounds", "divide", "uninitialised"])
def test_check_sanitize_reports_a_program(name):
    file = PROGRAMS / f"{name}.py"
    done = check(file)
    assert done.returncode != 0, done.stdout + done.stderr
    text = done.stdout + done.stderr
    (line, code), *_ = [(k, m[1]) for k, row in enumerate(file.read_text().splitlines(), 1) if (m := MARK.search(row))]
    assert code in text
    assert f"{name}.py:{line}" in text
    assert "Traceback" not in text


def test_check_sanitize_passes_a_right_program():
    done = check(PROGRAMS / "right.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MPG_SAN" not in done.stdout + done.stderr
