"""Every code that `.mp` text can raise is raised by a file, in the right line, and nothing else is."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
import pytest
from mp_codes import CODES, FILES, code_of, expected, options
from typer.testing import CliRunner

from magpie.cli.app import app
from magpie.cli.report import schema
from magpie.diagnostics import lookup, table

# Codes of the families below that no text raises, with what does.
ELSEWHERE = {
    "MPG_CORE_1301": "the code generator, where it crashes: tests/unit/test_ptx.py, test_hip.py",
    "MPG_CORE_1403": "the index arithmetic of kernels in Python; .mp has the widths in its text",
    "MPG_CORE_1406": "mp.mma and mp.copy_async, which .mp does not have",
    "MPG_CORE_1407": "mp.mma",
    "MPG_CORE_1411": "a kernel of Python that is printed: tests/unit/test_mp_text.py",
    "MPG_CORE_1900": "a fault of Magpie's own",
    "MPG_SPV_2002": "spirv-val, for a fault of Magpie's own",
    "MPG_SPV_2005": "MAGPIE_SPIRV_VAL=1",
    "MPG_SPV_2007": "a driver",
    "MPG_MSL_2002": "Metal's compiler",
    "MPG_MLX_1001": "a run without MLX",
    "MPG_MLX_1003": "a run with MLX",
    "MPG_MLX_1004": "a run with MLX",
    "MPS0009": "MPIR's own text form: tests/unit/test_mpir.py",
}
FAMILIES = ("CORE", "SPV", "MSL", "PTX", "HIP", "WGSL", "MLX", "MPP", "MPL", "MPT", "MPS")


def magpie(*args):
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def text_of(path):
    return path.read_bytes().decode("latin-1")  # one file is there because it is not UTF-8


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_check_says_of_a_file(path, monkeypatch):
    monkeypatch.setenv("MAGPIE_BACKEND", "interp")  # the declared target decides, and not what is forced
    text = text_of(path)
    status, out = magpie("check", "--json", *options(text), path)
    document = json.loads(out)
    jsonschema.validate(document, schema())
    items = document["diagnostics"]
    found = Counter((d["severity"], d["code"], d["place"]["line"] if d["place"] else 0) for d in items)
    wanted = expected(text)
    assert found == wanted
    assert code_of(path) in {code for _, code, _ in wanted}
    assert all(lookup(code).severity.value == severity for severity, code, _ in wanted)
    assert document["errors"] == sum(n for (severity, _, _), n in wanted.items() if severity == "error")
    assert document["warnings"] == wanted.total() - document["errors"]
    assert status == (1 if document["errors"] else 0), "warnings are no failure"


def test_every_code_that_text_can_raise_has_a_file():
    there = {code_of(path) for path in FILES}
    wanted = {code for code, row in table().items() if row.family in FAMILIES} - ELSEWHERE.keys()
    assert there >= wanted, "a code without a file in tests/unit/mp/codes"
    assert not there & ELSEWHERE.keys()
    assert ELSEWHERE.keys() <= table().keys()
    assert all(path.parent == CODES for path in FILES) and len(FILES) > 90


def test_one_run_says_what_is_wrong_in_several_functions(tmp_path):
    file = tmp_path / "several.mp"
    names = ("MPS0004", "MPG_WGSL_1003", "MPG_CORE_1400", "MPG_HIP_2001")
    parts = [text_of(CODES / f"{name}.mp").partition("\n")[2].replace("@k", f"@k{i}") for i, name in enumerate(names)]
    file.write_text("module several\n" + "".join(parts))
    document = json.loads(magpie("check", "--json", file)[1])
    found = Counter(d["code"] for d in document["diagnostics"])
    assert found == {"MPS0004": 2, "MPG_WGSL_1003": 3, "MPG_CORE_1400": 1, "MPG_HIP_2001": 1}


def test_the_architecture_of_each_target(tmp_path):
    file = tmp_path / "t.mp"
    file.write_text(text_of(CODES / "MPG_PTX_2001.mp"))
    assert magpie("check", file)[0] == 1
    assert magpie("check", "--arch", "sm_90", file)[0] == 0
    assert magpie("check", "--arch", "cuda=sm_90,gfx1100", file)[0] == 0
    assert magpie("check", "--arch", "gfx1100", file)[0] == 1
    for wrong in ("sm_90,sm_80", "x86", "cpu=native", "ptx="):
        done = CliRunner().invoke(app, ["check", "--arch", wrong, str(file)])
        assert done.exit_code != 0 and "--arch" in str(done.exception), wrong
    python = tmp_path / "t.py"
    python.write_text("")
    assert CliRunner().invoke(app, ["check", "--arch", "sm_90", str(python)]).exit_code == 2
