"""Artifacts for Vulkan, made without a device: judged by spirv-val, shown by spirv-dis, the same in every process."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

import magpie as mp
from magpie.backends.base import Artifact
from magpie.backends.registry import backend
from magpie.backends.spirv import pipeline, validate
from magpie.backends.spirv.disassemble import disassemble
from magpie.backends.spirv.profile import GENERIC
from magpie.cli.app import app
from magpie.diagnostics import CompileError
from tests.unit.spirv_tools import disassembled
from tests.unit.spirv_tools import validate as judged

ROOT = Path(__file__).resolve().parents[2]


@mp.kernel
def saxpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def powers(x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1], n: mp.i32):
    total = 0.0
    for k in range(n):
        if x[k] > 0.0:
            total += x[k] ** 0.5
    y[mp.global_id(0)] = total


@mp.kernel(workgroup=64)
def reversed_tile(x: mp.Array[mp.f32, 1]):
    tile = mp.shared(64, mp.f32)
    t = mp.thread_id(0)
    tile[t] = x[mp.global_id(0)]
    mp.barrier()
    x[mp.global_id(0)] = tile[63 - t]


@mp.kernel
def large_tile(x: mp.Array[mp.f32, 1], n: mp.constexpr):
    tile = mp.shared(n, mp.f32)
    t = mp.thread_id(0)
    tile[t] = x[t]
    mp.barrier()
    x[t] = tile[63 - t]


@mp.kernel
def gathered(x: mp.Array[mp.f32, 1], count: mp.Array[mp.i32, 1], total: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    part = mp.subgroup.sum(mp.sin(x[i]))
    if mp.subgroup.elect():
        mp.atomic_add(total, 0, part)
        mp.atomic_add(count, int(part) % 16, 1)


KERNELS = (saxpy, powers, reversed_tile)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("variant", ["fast", "general"])
@pytest.mark.parametrize("arch", ["", "vulkan1.3", "vulkan1.3+i64+f16+s16+fma+div+denorm32+rte32+szinp32+sg8"])
def test_modules_are_valid_on_every_profile(kernel, variant, arch) -> None:
    made = kernel.compile(backend="vulkan", arch=arch, variant=variant)
    judged(made.blob)
    assert made.extension == ".spv" and made.text == disassemble(made.blob) == disassembled(made.blob)
    assert made.info["arch"] == (arch or GENERIC.text)
    assert set(made.info["needs"]) <= set((arch or GENERIC.text).split("+"))


def test_names_and_lines_of_the_source() -> None:
    """What spirv-dis shows: the kernel, its parameters, what is mutable in it, and the line of each instruction."""
    text = disassembled(powers.compile(backend="spv").blob)
    names = set(re.findall(r'OpName %\S+ "(.+)"', text)) | set(re.findall(r'OpMemberName %\S+ \d+ "(.+)"', text))
    assert {"x", "y"} <= names and any("total" in n for n in names) and any(re.search(r"\bn\b", n) for n in names)
    assert re.search(r'OpEntryPoint GLCompute %\S*powers "\S*powers"', text)
    (file,) = re.findall(r'(%\d+) = OpString "test_spirv_artifacts\.py"', text)
    lines = {int(n) for n in re.findall(rf"OpLine {file} (\d+) \d+", text)}
    first = powers.__wrapped__.__code__.co_firstlineno if hasattr(powers, "__wrapped__") else min(lines) - 2
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert any("total += x[k] ** 0.5" in source[n - 1] for n in lines)
    assert any("if x[k] > 0.0" in source[n - 1] for n in lines)
    assert first < min(lines)


def test_build_writes_what_spirv_dis_shows(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        textwrap.dedent("""
            import magpie as mp

            @mp.kernel
            def shift(a: mp.f32, values: mp.Array[mp.f32, 1]):
                i = mp.global_id(0)
                best = values[i]
                while best < a:
                    best += 1.0
                values[i] = best
        """)
    )
    done = CliRunner().invoke(app, ["build", str(file), "--emit", "spv", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"shift.spv"}
    binary = (tmp_path / "out" / "shift.spv").read_bytes()
    judged(binary)
    text = disassembled(binary)
    for name in ("shift", "values", "best"):
        assert re.search(rf'OpName %\S+ ".*\b_?{name}\b.*"|OpName %\S+ "magpie_{name}"', text), name
    assert re.search(r'OpString ".*kernels\.py"', text) and re.search(r"OpLine %\S+ 9 ", text)


def test_build_for_profiles(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("import magpie as mp\n\n@mp.kernel\ndef add(x: mp.Array[mp.f64, 1]):\n    x[mp.global_id(0)] += 1.0\n")
    words = ["build", str(file), "--backend", "vulkan", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--arch", "vulkan1.3+f64"])
    assert done.exit_code == 0 and (tmp_path / "add.spv.vulkan1.3+f64.spv").exists(), done.output
    done = CliRunner().invoke(app, [*words, "--arch", "vulkan1.3"])
    assert done.exit_code == 1 and "MPG_CORE_1200" in done.output and "kernels.py:5" in done.output
    done = CliRunner().invoke(app, [*words, "--arch", "sm_90"])
    assert done.exit_code == 1 and "MPG_SPV_2004" in done.output


def test_stages(capsys, monkeypatch) -> None:
    assert saxpy.inspect("spv") == saxpy.compile(backend="vulkan").text
    stages = saxpy.stages("vulkan")
    assert stages[0] == "kir" and "spv" in stages and "mp" in stages
    for stage in stages:
        assert "saxpy" in saxpy.inspect(stage, backend="vulkan")
    monkeypatch.setenv("MAGPIE_DUMP", "prepared,spv")
    saxpy.compile(backend="vulkan")
    shown = capsys.readouterr().err
    assert shown.index("--- saxpy: prepared (spv) ---") < shown.index("--- saxpy: spv (spv) ---")
    assert "OpEntryPoint" in shown


# --- shared memory ---------------------------------------------------------------------------------------------------
def shared(kilobytes: int, arch: str = "") -> Artifact:
    return large_tile.compile(mp.Array[mp.f32, 1], kilobytes * 256, backend="vulkan", arch=arch)


@pytest.mark.parametrize(("arch", "limit"), [("", 48), ("vulkan1.3+shared32", 32), ("vulkan1.3+i64+shared64", 64)])
def test_shared_memory_beyond_the_limit(arch, limit) -> None:
    assert shared(limit, arch).info["static_shared"] == limit * 1024
    with pytest.raises(CompileError) as caught:
        shared(limit + 1, arch)
    (d,) = caught.value.diagnostics
    assert d.code == "MPG_SPV_2001" and f"need {(limit + 1) * 1024} bytes, and a workgroup has {limit * 1024}" in d.message
    assert d.loc is not None and d.loc.file == __file__
    assert d.help is not None and f"shared{limit + 1}" in d.help
    assert shared(limit + 1, d.help.split('"')[1]).blob, "the profile that the help names"


def test_sizes_of_subgroups() -> None:
    made = [reversed_tile.compile(backend="vulkan", subgroup_size=n).info["arch"] for n in (8, 64)]
    assert [a.rpartition("+")[2] for a in made] == ["sg8", "sg64"]
    with pytest.raises(mp.LaunchValueError, match="subgroup_size=7"):
        saxpy.compile(backend="vulkan", subgroup_size=7)


# --- spirv-val -------------------------------------------------------------------------------------------------------
def test_spirv_val_judges_where_it_is_asked_for(monkeypatch) -> None:
    def broken(*args) -> Artifact:
        made = compiled(*args)
        # The memory model's number is in words 2 and 3 of its instruction; there is no model 9.
        at = made.blob.index(bytes([0x0E, 0, 3, 0]))
        made.blob = made.blob[: at + 8] + b"\x09\0\0\0" + made.blob[at + 12 :]
        return made

    compiled = pipeline.compile_kernel
    monkeypatch.setattr(pipeline, "compile_kernel", broken)
    monkeypatch.setenv("MAGPIE_SPIRV_VAL", "1")
    with pytest.raises(CompileError) as caught:
        saxpy.compile(backend="vulkan")
    (d,) = caught.value.diagnostics
    assert d.code == "MPG_SPV_2002" and d.loc is not None
    assert "saxpy" in d.message and "memory model operand: 9" in d.message  # the words of spirv-val
    monkeypatch.setenv("MAGPIE_SPIRV_VAL", "0")
    assert saxpy.compile(backend="vulkan").blob
    monkeypatch.setattr(pipeline, "compile_kernel", compiled)
    monkeypatch.setenv("MAGPIE_SPIRV_VAL", "1")
    assert saxpy.compile(backend="vulkan").blob


def test_spirv_val_that_is_not_there(monkeypatch) -> None:
    monkeypatch.setattr(validate, "find_tool", lambda name: None)
    monkeypatch.setenv("MAGPIE_SPIRV_VAL", "1")
    with pytest.raises(CompileError) as caught:
        saxpy.compile(backend="vulkan")
    assert [d.code for d in caught.value.diagnostics] == ["MPG_SPV_2005"]


def test_every_module_of_a_test_run_is_judged() -> None:
    if validate.find_tool("spirv-val") is None:
        pytest.skip("spirv-val is not installed")
    assert os.environ.get("MAGPIE_SPIRV_VAL") == "1"


# --- determinism -----------------------------------------------------------------------------------------------------
def test_bytes_are_the_same_in_every_process() -> None:
    script = (
        "import sys, hashlib; sys.path.insert(0, '.'); import tests.unit.test_spirv_artifacts as t;"
        "print([hashlib.sha256(k.compile(backend='vulkan', variant=v, checked=c).blob).hexdigest()"
        " for k in (*t.KERNELS, t.gathered) for v in ('fast', 'general') for c in (False, True)])"
    )
    seen = set()
    for seed in ("0", "5"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1 and len(set(seen.pop().split(","))) == 16


def test_no_llvm_takes_part() -> None:
    script = (
        "import sys; sys.path.insert(0, '.'); import tests.unit.test_spirv_artifacts as t;"
        "t.saxpy.compile(backend='vulkan'); print([m for m in sys.modules if m.startswith('llvmlite')])"
    )
    environment = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_cache_tells_profiles_apart() -> None:
    from magpie.backends.base import Options
    from magpie.runtime.compiling import ir_key
    from magpie.runtime.inspection import _lowered

    ir = _lowered(saxpy, (), {}).kernel
    keys = {
        ir_key(ir, "spv", Options(arch=arch), backend("spv").cache_key(Options(arch=arch)))
        for arch in ("", "vulkan1.3", "vulkan1.3+i64")
    }
    assert len(keys) == 3


def test_a_module_says_nothing_of_where_its_source_lies(tmp_path) -> None:
    blobs = []
    for folder in (tmp_path / "here", tmp_path / "there" / "deeper"):
        folder.mkdir(parents=True)
        file = folder / "twice.py"
        file.write_text(
            "import magpie as mp\n\n\n@mp.kernel\ndef twice(x: mp.Array[mp.f32, 1]):\n"
            "    i = mp.global_id(0)\n    if i < x.shape[0]:\n        x[i] = 2.0 * x[i]\n"
        )
        namespace = runpy.run_path(str(file))
        blobs.append(namespace["twice"].compile(backend="vulkan").blob)
    assert blobs[0] == blobs[1] and b"twice.py" in blobs[0] and str(tmp_path).encode() not in blobs[0]


@mp.kernel
def much_shared(x: mp.Array[mp.f32, 1], out: mp.Array[mp.f32, 1]):
    i, t = mp.global_id(0), mp.thread_id(0)
    s = mp.shared(5120, mp.f32)
    s[t] = x[i]
    mp.barrier()
    out[i] = s[63 - t]


@pytest.mark.parametrize(("arch", "most"), [("vulkan1.3+i64+shared32", 32), ("vulkan1.3+i64", 48)])
def test_blocks_of_several_workgroups_have_the_shared_memory_of_the_profile(monkeypatch, arch, most) -> None:
    """Two workgroups of 20,480 bytes fit into 48 KB, and not into 32, though code for two is asked for."""
    monkeypatch.setenv("MAGPIE_COARSEN", "2")
    made = much_shared.compile(backend="vulkan", arch=arch)
    assert made.info["static_shared"] == 20_480
    assert ("coarse" in made.info) is (2 * 20_480 <= 1024 * most)
