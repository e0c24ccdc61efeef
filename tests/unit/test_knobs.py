"""Environment variables: values, defaults, errors, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magpie import knobs
from magpie.errors import KnobError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for info in knobs.describe():
        monkeypatch.delenv(info.name, raising=False)


@pytest.mark.parametrize(
    ("name", "raw", "knob", "value"),
    [
        ("MAGPIE_BACKEND", "cpu", knobs.backend, "cpu"),
        ("MAGPIE_BACKEND", " CUDA ", knobs.backend, "ptx"),
        ("MAGPIE_BACKEND", "vulkan", knobs.backend, "spv"),
        ("MAGPIE_BACKEND", "metal", knobs.backend, "msl"),
        ("MAGPIE_BACKEND", "webgpu", knobs.backend, "wgsl"),
        ("MAGPIE_BACKEND", "", knobs.backend, None),
        ("MAGPIE_DEVICE", "cuda:1", knobs.device, "ptx:1"),
        ("MAGPIE_DEVICE", "cpu", knobs.device, "cpu:0"),
        ("MAGPIE_CACHE", "0", knobs.cache, False),
        ("MAGPIE_CACHE", "on", knobs.cache, True),
        ("MAGPIE_CPU_THREADS", "3", knobs.cpu_threads, 3),
        ("MAGPIE_CPU_GANG", "16", knobs.cpu_gang, 16),
        ("MAGPIE_CPU_IDLE", "0", knobs.cpu_idle, 0),
        ("MAGPIE_DUMP", "kir, llvm", knobs.dump, ("kir", "llvm")),
        ("MAGPIE_SANITIZE", "1", knobs.sanitize, ("race", "bounds", "uninit", "leak", "barrier", "divide")),
        ("MAGPIE_SANITIZE", "0", knobs.sanitize, ()),
        ("MAGPIE_SANITIZE", "overflow,race", knobs.sanitize, ("race", "overflow")),
        ("MAGPIE_SANITIZE", "all", knobs.sanitize, knobs.SANITIZE_CHECKS),
        ("MAGPIE_CHECKED", "yes", knobs.checked, True),
        ("MAGPIE_DEBUG", "true", knobs.debug, True),
        ("MAGPIE_TEST_SEED", "12345", knobs.test_seed, 12345),
    ],
)
def test_values(monkeypatch, name, raw, knob, value):
    monkeypatch.setenv(name, raw)
    assert knob() == value
    assert knob() == value, "the second read gives the same"


@pytest.mark.parametrize(
    ("name", "raw", "knob", "part"),
    [
        ("MAGPIE_BACKEND", "c p u", knobs.backend, "a backend id or alias"),
        ("MAGPIE_DEVICE", "cuda:x", knobs.device, "backend:index"),
        ("MAGPIE_CACHE", "maybe", knobs.cache, "0 or 1"),
        ("MAGPIE_CPU_THREADS", "0", knobs.cpu_threads, "from 1 to 4096"),
        ("MAGPIE_CPU_THREADS", "-2", knobs.cpu_threads, "from 1 to 4096"),
        ("MAGPIE_CPU_THREADS", "two", knobs.cpu_threads, "from 1 to 4096"),
        ("MAGPIE_CPU_GANG", "12", knobs.cpu_gang, "4, 8, 16, 32 or 64"),
        ("MAGPIE_SANITIZE", "rase", knobs.sanitize, "no check 'rase'"),
        ("MAGPIE_DUMP", "kir,../x", knobs.dump, "'../x' is not a stage name"),
        ("MAGPIE_TEST_SEED", "1e5", knobs.test_seed, "below 10^18"),
        ("MAGPIE_TEST_SEED", "٣", knobs.test_seed, "below 10^18"),
    ],
)
def test_bad_values_name_the_variable_the_value_and_what_is_allowed(monkeypatch, name, raw, knob, part):
    monkeypatch.setenv(name, raw)
    with pytest.raises(KnobError) as caught:
        knob()
    text = str(caught.value)
    assert name in text and repr(raw) in text and part in text and "MPG_ENV_1001" in text
    assert isinstance(caught.value, ValueError)


def test_a_knob_is_read_at_each_call(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "2")
    assert knobs.cpu_threads() == 2
    monkeypatch.setenv("MAGPIE_CPU_THREADS", "5")
    assert knobs.cpu_threads() == 5
    monkeypatch.delenv("MAGPIE_CPU_THREADS")
    assert knobs.cpu_threads() is None


def test_cache_dir(monkeypatch, tmp_path):
    assert knobs.cache_dir().name == "magpie"
    monkeypatch.setenv("MAGPIE_CACHE_DIR", str(tmp_path / "c"))
    assert knobs.cache_dir() == tmp_path / "c"
    monkeypatch.setenv("MAGPIE_CACHE_DIR", "~/c")
    assert "~" not in str(knobs.cache_dir())


def test_misspelt_variables_are_found(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_THREAD", "4")
    assert ("MAGPIE_CPU_THREAD", "MAGPIE_CPU_THREADS") in knobs.unknown_variables()


def test_describe_tells_the_value_in_force(monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_GANG", "8")
    info = {item.name: item for item in knobs.describe()}
    assert info["MAGPIE_CPU_GANG"].value == "8" and info["MAGPIE_CHECKED"].value is None
    assert all(item.doc.endswith(".") and item.allowed and item.default for item in info.values())


def test_the_page_lists_exactly_the_knobs():
    page = (ROOT / "docs" / "KNOBS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(MAGPIE_\w+)` \| (.*) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    known = [(item.name, item.allowed, item.default, item.doc) for item in knobs.describe()]
    assert rows == known, "run `make docs`"


def test_no_other_file_reads_the_environment():
    """One file knows all variables, so `magpie knobs` and the page are complete."""
    # program.py sets MAGPIE_BACKEND for the program that it runs, and honours NO_COLOR; sanitize.py sets MAGPIE_SANITIZE
    # for what runs inside `collecting`; the variables that a program of a .mp file asks for are its own.
    allowed = {"knobs.py", "cli/program.py", "runtime/sanitize.py", "host/system.py"}
    source = ROOT / "src" / "magpie"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"os\.environ|os\.getenv|\bgetenv\(", path.read_text(encoding="utf-8"))
    }
    assert found <= allowed
