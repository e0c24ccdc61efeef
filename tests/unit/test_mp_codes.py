"""Every code that `.mp` text can raise is raised by a file, in the right line, and nothing else is."""

from __future__ import annotations

import importlib
import json
import time
from collections import Counter

import jsonschema
import pytest
from mp_codes import CODES, FILES, code_of, expected, options
from typer.testing import CliRunner

from magpie.backends.registry import backend
from magpie.cli.app import app
from magpie.cli.report import schema
from magpie.diagnostics import lookup, table
from magpie.errors import GpuError
from magpie.frontend.mp.source import Source
from magpie.runtime.modules import check_module

# Codes of the families below that no text raises, with what does.
ELSEWHERE = {
    "MPG_CORE_1301": "the code generator, where it crashes: a test below",
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


@pytest.mark.parametrize(("target", "line"), [("ptx", 5), ("hip", 5)])
def test_a_crash_of_the_code_generator_is_core_1301_at_the_kernel(target, line, tmp_path, monkeypatch):
    """A stand-in gives LLVM what ends its process, in place of the kernel's code."""
    pipeline = importlib.import_module(f"magpie.backends.{target}.pipeline")
    real = pipeline.generate
    bad = "define float @f(float %x) {\n  %y = call float @llvm.exp.f32(float %x)\n  ret float %y\n}\n"
    bad += "declare float @llvm.exp.f32(float)\n"
    monkeypatch.setattr(pipeline, "generate", lambda text, *rest: real(bad, "nvptx64-nvidia-cuda", "sm_70", "+ptx60"))
    file = tmp_path / "t.mp"
    file.write_text(
        "module t\n\n; The kernel is not at fault.\n\n"
        f"gpu fn @k(%out: gpu.TBuffer<f32>) -> unit target({target}) {{\nbb0:\n"
        "    gpu.buffer_store<f32> { buf=%out, idx=const.u32 0, v=const.f32 1.0 }\n    ret\n}\n"
    )
    done = CliRunner().invoke(app, ["build", "--backend", target, "--out", str(tmp_path), str(file)])
    assert done.exit_code == 1
    assert "error[MPG_CORE_1301]" in done.stdout and f"{file}:{line}:1" in done.stdout and "Traceback" not in done.stdout
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["build", "--backend", target, "--out", str(tmp_path), str(file)]).exit_code == 0


def test_a_backend_that_is_not_here_is_core_1300():
    with pytest.raises(GpuError, match=r"BackendUnavailable\[MPG_CORE_1300\].*'directx'.* it has cpu, interp") as caught:
        backend("directx")
    assert caught.value.diagnostic == "MPG_CORE_1300"


def test_what_is_exported_does_not_hide_what_a_target_refuses(tmp_path):
    file = tmp_path / "t.mp"
    head, _, rest = text_of(CODES / "MPG_WGSL_1003.mp").partition("\n")
    file.write_text(f"{head}\nexports {{ @none }}\n{rest}")
    document = json.loads(magpie("check", "--json", file)[1])
    assert [d["code"] for d in document["diagnostics"]] == ["MPT0003"] + 3 * ["MPG_WGSL_1003"]


def test_long_modules_are_checked_in_time():
    """10,000 lines in under 3 seconds of the processor, with the rules of their targets."""
    text = (CODES.parents[3] / "examples" / "mp" / "reduce_sum.mp").read_text()
    one = text[text.index("gpu fn") : text.index("\n}\n") + 3]
    for target in ("spv", "wgsl"):
        kernels = [one.replace("@reduce_sum", f"@k{k}").replace("target(spv)", f"target({target})") for k in range(300)]
        source = Source("module t\n" + "".join(kernels), "t.mp")
        assert source.text.count("\n") > 10_000
        start = time.process_time()
        assert check_module(source) == []
        assert time.process_time() - start < 3


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
