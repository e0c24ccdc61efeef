"""`magpie fmt` and `magpie check` on `.mp` files."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import magpie as mp
from magpie.cli.app import app
from magpie.cli.report import schema
from magpie.diagnostics import CompileError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mp" / "reduce_sum.mp"
UGLY = "module a fn @f()->unit{bb7:ret}"


def magpie(*args):
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def file(tmp_path):
    return Path(shutil.copy(EXAMPLE, tmp_path))


def test_fmt_rewrites_what_is_not_canonical(tmp_path, file):
    ugly = tmp_path / "ugly.mp"
    ugly.write_text(UGLY)
    ugly.chmod(0o640)
    assert magpie("fmt", ugly, file) == (0, f"{ugly} formatted\n", "")
    text = ugly.read_text()
    assert text.startswith('module a\nexports { }\nimports { }\ndigest "') and "bb0:\n    ret\n}\n" in text
    assert ugly.stat().st_mode & 0o777 == 0o640
    assert magpie("fmt", ugly, file) == (0, "", ""), "nothing is left to do"
    assert file.read_text() == EXAMPLE.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reduce_sum.mp", "ugly.mp"]


def test_fmt_check_writes_nothing(tmp_path, file):
    ugly = tmp_path / "ugly.mp"
    ugly.write_text(UGLY)
    assert magpie("fmt", "--check", ugly, file) == (1, f"{ugly} is not formatted\n", "")
    assert ugly.read_text() == UGLY
    assert magpie("fmt", "--check", file) == (0, "", "")


def test_fmt_leaves_files_with_errors(tmp_path, file):
    bad = tmp_path / "bad.mp"
    bad.write_text("module a\nfn f")
    status, out, err = magpie("fmt", bad, file)
    assert status == 1 and not out and err.startswith("error[MPP0005]") and f"{bad}:2:4" in err
    assert bad.read_text() == "module a\nfn f"


def test_fmt_replaces_line_ends_and_follows_links(tmp_path, file):
    file.write_bytes(EXAMPLE.read_bytes().replace(b"\n", b"\r\n"))
    link = tmp_path / "link.mp"
    link.symlink_to(file)
    assert magpie("fmt", link)[0] == 0
    assert link.is_symlink() and file.read_bytes() == EXAMPLE.read_bytes()


def test_fmt_goes_on_behind_a_file_that_it_cannot_write(tmp_path, file, monkeypatch):
    ugly = tmp_path / "ugly.mp"
    ugly.write_text(UGLY)
    file.write_text(file.read_text().replace("    ", "  "))
    pipe = tmp_path / "pipe.mp"
    os.mkfifo(pipe)
    replace = Path.replace

    def full(path, target):
        if target.name == "ugly.mp":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    status, out, err = magpie("fmt", pipe, ugly, file)
    assert status == 1 and out == f"{file} formatted\n"
    assert err.splitlines() == [
        f"error: {pipe}: this is no regular file, whose text could be replaced",
        f"error: {ugly}: No space left on device",
    ]
    assert ugly.read_text() == UGLY and sorted(tmp_path.iterdir()) == sorted([pipe, ugly, file])


def test_max_bytes(file):
    status, _, err = magpie("fmt", "--max-bytes", 100, file)
    assert status == 1 and "MPP0001" in err
    assert magpie("check", "--max-bytes", 100, file)[0] == 1
    file.write_text(file.read_text() + ";" * 1_000_000)
    assert magpie("check", file)[0] == 1
    assert magpie("check", "--max-bytes", 2_000_000, file)[0] == 0
    build = "build", "--out", file.parent, file
    assert magpie(*build)[0] == 1
    with pytest.warns(mp.CompileWarning, match="MPL0001"):
        assert magpie(*build, "--max-bytes", 2_000_000)[0] == 0
    with pytest.raises(CompileError, match="MPP0001"):
        mp.load_module(file)
    with pytest.warns(mp.CompileWarning, match="MPL0001"):
        assert len(mp.load_module(file, max_bytes=2_000_000)) == 1


def test_check(file):
    assert magpie("check", file) == (0, f"{file}: 0 errors, 0 warnings\n", "")
    file.write_text(file.read_text().replace("const.u32 128", "const.u32 64"))
    status, out, _ = magpie("check", file)
    assert status == 0 and out.startswith("warning[MPL0001]") and out.endswith("0 errors, 1 warning\n")
    file.write_text(file.read_text().replace("const.u32 64", "const.u8 640"))
    status, out, _ = magpie("check", file)
    assert status == 1 and out.startswith("error[MPP0007]")


def report(*args):
    status, out, _ = magpie("check", "--json", *args)
    document = json.loads(out)
    jsonschema.validate(document, schema())
    return status, document


def test_check_json_follows_the_schema(tmp_path):
    jsonschema.Draft202012Validator.check_schema(schema())
    bad = tmp_path / "bad.mp"
    bad.write_text("module a\nfn @f() -> unit {\nbb0:\n    %x: u8 = const.u8 256\n    %y = foo\n    ret\n}\n")
    status, document = report(bad)
    assert status == 1 and document["errors"] == 2 and document["warnings"] == 0
    first, second = document["diagnostics"]
    assert first["code"] == "MPP0007" and first["severity"] == "error"
    place = {"file": str(bad), "line": 4, "column": 23, "end_line": 4, "end_column": 26, "function": None}
    assert first["place"] == place
    assert second["code"] == "MPP0005" and second["help"] == "a result has a type: %y: i32 = ..."


def test_check_json_of_notes_warnings_and_files_that_are_no_text(tmp_path):
    file = tmp_path / "m.mp"
    file.write_text("module a\nfn @f() -> unit {\nbb0:\nret\nbb0:\nret\n}\n")
    (item,) = report(file)[1]["diagnostics"]
    assert item["notes"][0]["message"] == "the first" and item["notes"][0]["place"]["line"] == 3
    file.write_text(f"module a digest {'1' * 64}")
    status, document = report(file)
    assert status == 0 and document["warnings"] == 1
    file.write_bytes(b"\xff")
    assert report(file)[1]["diagnostics"][0]["code"] == "MPP0002"


def test_check_json_of_a_python_file(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(
        "import magpie as mp\nprint('hello')\n@mp.kernel\ndef k(x: mp.Array[mp.f32]):\n    x[0] = nothing\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "magpie", "check", "--json", str(file)], capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema())
    assert done.returncode == 1 and document["errors"] == 1 and document["diagnostics"][0]["place"]["line"] == 5


def test_python_kernels_need_no_parser():
    script = "import sys, magpie, magpie.cli.app, magpie.runtime.kernel\nprint({'lark', 'blake3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_textmate_grammar_knows_the_keywords():
    """Every keyword of the grammar is one of the editor's, and what it matches is what it says."""
    grammar = json.loads((ROOT / "editors" / "magpie.tmLanguage.json").read_text())
    assert grammar["scopeName"] == "source.magpie" and grammar["fileTypes"] == ["mp"]
    text = (ROOT / "src/magpie/frontend/mp/grammar.lark").read_text()
    keywords = set(re.findall(r'^[A-Z_]+: "([a-z_.]+)"', text, re.MULTILINE))
    assert len(keywords) == 40
    patterns = [rule["match"] for rule in grammar["repository"]["keywords"]["patterns"]]
    for word in keywords:
        assert any(re.fullmatch(pattern, word) for pattern in patterns), word
    assert not any(re.fullmatch(pattern, "banana") for pattern in patterns)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
def test_output_in_a_locale_that_lacks_characters(tmp_path, encoding):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.mp")
    try:
        Path(path).write_text(f"module t\n{'fn @f() -> unit { bb0: %s: Str = const.Str'} \"\u00e9\" ret %q }}\n", "utf-8")
    except OSError:
        pytest.skip("a file system that has names in UTF-8 only")
    env = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    for command in ("check", "run", "fmt"):
        done = subprocess.run([sys.executable, "-m", "magpie", command, path], capture_output=True, env=env, timeout=60)
        assert b"Traceback" not in done.stderr and done.returncode == (command != "fmt"), done.stderr
        assert command == "fmt" or b"MPS0002" in done.stdout + done.stderr
