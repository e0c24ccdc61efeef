"""The command line, in process where that is enough, as a program where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from magpie import __version__, knobs
from magpie.cli.app import app
from magpie.diagnostics import table


@pytest.fixture
def invoke(monkeypatch):
    """Runs a command line in this process, with no MAGPIE_ variable set."""
    for info in knobs.describe():
        monkeypatch.delenv(info.name, raising=False)
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def write(tmp_path):
    def put(text, name="prog.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return put


def program(*args, **env):
    import os

    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAGPIE_")}
    return subprocess.run(
        [sys.executable, "-m", "magpie", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**clean, **env},
        encoding="utf-8",
    )


def test_version(invoke):
    done = invoke("version")
    assert done.exit_code == 0
    assert done.output == f"magpie {__version__}\n"


def test_help_lists_the_commands(invoke):
    done = invoke("--help")
    assert done.exit_code == 0
    for name in ("run", "check", "build", "mpir", "devices", "explain", "knobs", "version"):
        assert f"\n  {name} " in done.output
    assert invoke().output == done.output, "no arguments: the same help"


@pytest.mark.parametrize("name", ["run", "check", "build", "devices", "explain", "knobs", "version"])
def test_every_command_has_help(invoke, name):
    done = invoke(name, "-h")
    assert done.exit_code == 0
    assert f"Usage: root {name}" in done.output or f"{name} [OPTIONS]" in done.output


def test_explain(invoke):
    done = invoke("explain", "mpg_core_1400")
    assert done.exit_code == 0
    assert "Barrier in divergent control flow" in done.output
    done = invoke("explain", "MPG_CORE_14000")
    assert done.exit_code == 1
    assert "MPG_CORE_1400 " in done.output
    assert invoke("explain").exit_code == 2


def test_explain_list_shows_all_codes(invoke):
    done = invoke("explain", "--list")
    assert [line.split()[0] for line in done.output.splitlines()] == list(table())


def test_knobs_shows_values_and_misspellings(invoke, monkeypatch):
    monkeypatch.setenv("MAGPIE_CPU_GANG", "8")
    monkeypatch.setenv("MAGPIE_CPU_GANGS", "8")
    done = invoke("knobs")
    assert "MAGPIE_CPU_GANG   (now 8)" in done.output
    assert "nothing reads MAGPIE_CPU_GANGS; did you mean MAGPIE_CPU_GANG?" in done.output


def test_run_is_like_python(write):
    path = write("""
        import sys, helper
        print(__name__, sys.argv[1:], helper.X)
        sys.exit(7)
    """)
    write("X = 3\n", "helper.py")
    done = program("run", path, "--flag", "a b", "-h")
    assert done.stdout == "__main__ ['--flag', 'a b', '-h'] 3\n"
    assert done.returncode == 7


def test_run_passes_backend_and_device_on(write):
    path = write("from magpie import knobs; print(knobs.backend(), knobs.device())")
    assert program("run", "--backend", "cuda", "--device", "cpu", path).stdout == "ptx cpu:0\n"
    done = program("run", "--backend", "c p u", path)
    assert done.returncode == 2
    assert "MAGPIE_BACKEND='c p u' is not allowed" in done.stderr


def test_run_shows_the_users_frames_only(write):
    path = write("""
        def outer():
            return 1 / 0
        outer()
    """)
    done = program("run", path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and "in outer" in done.stderr
    assert "runpy" not in done.stderr and "magpie/cli" not in done.stderr
    assert "magpie" in program("run", path, MAGPIE_DEBUG="1").stderr


def test_run_shows_a_compile_error_as_a_diagnostic(write):
    path = write("""
        from magpie import CompileError, Diagnostic, Loc
        raise CompileError(Diagnostic("MPG_PY_1002", "unknown name `alpha`", Loc(__file__, 1, 5, 1, 11)))
    """)
    done = program("run", path)
    assert done.returncode == 1
    assert done.stderr.startswith("error[MPG_PY_1002]: unknown name `alpha`\n")
    assert "Traceback" not in done.stderr and "^^^^^^" in done.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_missing_file_is_named(invoke, command):
    done = invoke(command, "no_such_file.py")
    assert done.exit_code == 2
    assert "no_such_file.py" in done.output


def test_devices(invoke):
    done = invoke("devices")
    assert done.exit_code == 0
    assert "cpu:0" in done.output and "interp:0" in done.output
    found = json.loads(invoke("devices", "--json").output)
    assert [row["device"] for row in found["devices"] if row["default"]] != []
    assert {"cpu:0", "interp:0"} <= {row["device"] for row in found["devices"]}


GOOD = """
    import magpie as mp

    @mp.kernel
    def fill(x: mp.Array[mp.f32], v: mp.f32):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] = v

    @mp.kernel
    def specialised(x):
        x[0] = 1.0
"""

BAD = """
    import magpie as mp

    @mp.kernel
    def fill(x: mp.Array[mp.f32]):
        i = mp.global_id(0)
        x[i] = alpha

    if __name__ == "__main__":
        print("was run")
"""

RACY = """
    import sys
    import numpy as np
    import magpie as mp

    @mp.kernel
    def total(x: mp.Array[mp.i32], out: mp.Array[mp.i32]):
        i = mp.global_id(0)
        out[0] = x[i]

    if __name__ == "__main__":
        print("started", sys.argv[1:])
        total[2, 32](np.arange(64, dtype=np.int32), np.zeros(1, np.int32))
"""


def test_check_compiles_every_annotated_kernel(invoke, write):
    done = invoke("check", write(GOOD, "good_kernels.py"))
    assert done.exit_code == 0, done.output
    assert "1 kernel checked, 0 errors, 0 warnings" in done.output
    assert "not checked, since a parameter has no annotation: specialised" in done.output


def test_check_reports_errors_and_runs_nothing(invoke, write):
    done = invoke("check", write(BAD, "bad_kernels.py"))
    assert done.exit_code == 1
    assert "error[MPG_PY_1002]" in done.output and "bad_kernels.py:6:12" in done.output
    assert "x[i] = alpha" in done.output and "^^^^^" in done.output
    assert "1 kernel checked, 1 error" in done.output
    assert "was run" not in done.output


def test_check_says_what_all_backends_find_once(invoke, write):
    file = write(
        "import magpie as mp\n\n\n@mp.kernel\ndef k(x: mp.Array[mp.f32]):\n    for i in range(x.shape[0]):\n"
        "        if i > mp.thread_id(0):\n            break\n        mp.barrier()\n"
    )
    done = invoke("check", str(file))
    assert done.output.count("error[MPG_CORE_1400]") == 1 and f"{file}:7:9" in done.output, "at the branch"
    assert "1 error," in done.output


def test_check_of_a_file_that_cannot_be_imported(write):
    done = program("check", write("import no_such_module_here\n"))
    assert done.returncode == 1
    assert "No module named 'no_such_module_here'" in done.stderr
    assert "magpie/cli" not in done.stderr and "importlib" not in done.stderr
    done = program("check", write("def f(:\n"))
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr


def test_check_does_not_replace_an_imported_module(invoke, write):
    done = invoke("check", write("X = 1\n", "json.py"))
    assert done.exit_code == 0
    assert json.loads("[1]") == [1] and sys.modules["json"] is json


def test_sanitize_reports_with_line_and_status(write):
    done = program("check", "--sanitize", write(RACY), "an", "argument")
    assert done.returncode == 1
    assert "started ['an', 'argument']" in done.stdout
    assert "error[MPG_SAN_1001]" in done.stdout and "prog.py:8" in done.stdout
    assert "out[0] = x[i]" in done.stdout and "of workgroup (" in done.stdout
    assert "1 report" in done.stdout


def test_sanitize_with_chosen_checks(write):
    done = program("check", "--sanitize", "--checks", "bounds,divide", write(RACY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sanitizer (bounds, divide): 0 reports" in done.stdout
    done = program("check", "--sanitize", "--checks", "rase", write(RACY))
    assert done.returncode == 2
    assert "no check 'rase'" in done.stderr


def test_checks_need_sanitize(invoke, write):
    assert invoke("check", "--checks", "race", write(RACY)).exit_code == 2


def test_sanitize_passes_the_programs_status_on(write):
    assert program("check", "--sanitize", write("raise SystemExit(5)")).returncode == 5
