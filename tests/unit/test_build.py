"""`magpie build`, and optimisation levels: right and vectorised at every one."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

import magpie as mp
from magpie.backends.llvm import codegen
from magpie.cli.app import app
from magpie.runtime.driver import LaunchShape

LEVELS = ("O0", "O1", "O2", "O3")


@mp.kernel
def axpy(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    i = mp.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@mp.kernel
def collatz(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    # work-items leave the loop at different trips
    i = mp.global_id(0)
    if i < x.shape[0]:
        n = int(x[i])
        trips = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            trips += 1
        y[i] = a * trips


@mp.kernel
def group_sum(a: mp.f32, x: mp.Array[mp.f32, 1], y: mp.Array[mp.f32, 1]):
    s = mp.shared(64, mp.f32)
    t = mp.thread_id(0)
    s[t] = x[mp.global_id(0)]
    mp.barrier()
    mirrored = s[63 - t]
    y[mp.global_id(0)] = mp.workgroup.sum(mirrored) + a * mirrored


def steps(n):
    k = 0
    while n > 1:
        n, k = (n // 2 if n % 2 == 0 else 3 * n + 1), k + 1
    return k


def run(artifact, a, x, y, grid, block):
    device = mp.device("cpu")
    shared = tuple(s.extents for s in artifact.layout.shared)  # constants here
    call = device.driver.load(device.index, artifact).bind(LaunchShape((grid, 1, 1), (block, 1, 1), shared))
    call(a, *(word for array in (x, y) for word in (array.ctypes.data, array.size, 1)))


@pytest.mark.parametrize("opt", LEVELS)
def test_right_values_at_every_level(opt):
    n = 150
    x = np.arange(1, n + 1, dtype=np.float32)
    y = np.full(n, 0.5, np.float32)
    run(axpy.compile(opt=opt), 2.0, x, y, 3, 64)
    assert np.array_equal(y, 2 * x + np.float32(0.5))
    run(collatz.compile(opt=opt), 2.0, x, y, 3, 64)
    assert np.array_equal(y, [2 * steps(int(k)) for k in x])
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(group_sum.compile(opt=opt), 2.0, x, y, 2, 64)
    groups = x.reshape(2, 64)
    assert np.array_equal(y.reshape(2, 64), groups.sum(1, keepdims=True) + 2 * groups[:, ::-1])


@pytest.mark.parametrize("kernel", [axpy, collatz, group_sum], ids=lambda k: k.__name__)
def test_vectorised_at_every_level(kernel):
    listings = {opt: kernel.inspect("asm", backend="cpu", opt=opt) for opt in LEVELS}
    width = kernel.compile().info["gang"]
    for opt, text in listings.items():
        if codegen.host_target().is_x86:
            packed = re.findall(
                r"^\s+v?(?:mul|add|fmadd\w*|padd|psub|psra|psrl|psll)(?:ps|[dq])\s.*[xyz]mm", text, re.M
            )
        else:
            packed = re.findall(r"^\s+f?(?:mul|add|mla|sub)\s+v\d+\.", text, re.M)
        assert packed, f"{opt}: no instruction works on several lanes"
        optimised = kernel.inspect("llvm-opt", backend="cpu", opt=opt)
        assert re.search(rf"(?:fmul|fadd|add|sub|mul|[al]shr)[a-z ]* <{width} x (?:float|i32|i64)>", optimised), opt
    assert len(listings["O0"]) != len(listings["O3"]), "the level must make a difference"


def test_a_level_that_there_is_not():
    with pytest.raises(mp.LaunchValueError, match="'O0', 'O1', 'O2' or 'O3'"):
        axpy.compile(opt="O9")


# --- the command ------------------------------------------------------------------------------------------------------
FILE = """
    import magpie as mp

    print("imported")

    @mp.kernel
    def scale(x: mp.Array[mp.f32, 1], a: mp.f32):
        i = mp.global_id(0)
        if i < x.shape[0]:
            x[i] *= a

    @mp.kernel
    def any_type(x):
        x[0] = 1

    if __name__ == "__main__":
        raise SystemExit("was run")
"""


@pytest.fixture
def build(tmp_path):
    def invoke(text, *args):
        path = tmp_path / "prog.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path / "out"), *args])

    return invoke


@pytest.mark.parametrize("opt", LEVELS)
def test_build_writes_code_and_stages(build, tmp_path, opt):
    done = build(FILE, "--opt", opt, "--emit", "asm", "--emit", "llvm-opt")
    assert done.exit_code == 0, done.output
    assert "1 kernel built, 0 errors" in done.output and "was run" not in done.output
    assert "not built, since a parameter has no annotation: any_type" in done.output
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} == {"scale.cpu.o", "scale.cpu.asm", "scale.cpu.llvm-opt"}
    assert (out / "scale.cpu.o").stat().st_size > 100
    assert re.search(r"fmul <\d+ x float>", (out / "scale.cpu.llvm-opt").read_text())


def test_build_for_another_backend(build, tmp_path):
    assert build(FILE, "--backend", "interp").exit_code == 0
    assert "kernel scale" in (tmp_path / "out" / "scale.interp.kir").read_text()


def test_build_of_a_kernel_with_an_error(build, tmp_path):
    done = build(FILE.replace("x[i] *= a", "x[i] *= b"))
    assert done.exit_code == 1
    assert "error[MPG_PY_1002]" in done.output and "0 kernels built, 1 error" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "text"),
    [(("--opt", "fast"), "'O0', 'O1', 'O2' or 'O3'"), (("--emit", "wasm"), "no stage 'wasm'"), (("-b", "gpu"), "gpu")],
)
def test_wrong_options(build, args, text):
    done = build(FILE, *args)
    assert done.exit_code != 0
    assert text in done.output or text in str(done.exception)


def test_checked_code_is_another(build, tmp_path):
    build(FILE, "--emit", "llvm")
    plain = (tmp_path / "out" / "scale.cpu.o").read_bytes()
    build(FILE.replace("if i < x.shape[0]:", "if i < 9:"), "--checked")
    checked = (tmp_path / "out" / "scale.cpu.o").read_bytes()
    build(FILE.replace("if i < x.shape[0]:", "if i < 9:"))
    assert checked != (tmp_path / "out" / "scale.cpu.o").read_bytes() and plain != checked


def twice(x):
    x[mp.global_id(0)] *= 2.0


def test_build_for_several_architectures(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(
        textwrap.dedent("""
        import magpie as mp

        @mp.kernel
        def twice(x: mp.Array[mp.f32, 1]):
            x[mp.global_id(0)] *= 2.0
        """)
    )
    words = ["build", str(file), "--backend", "cuda", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--arch", "sm_80,ptx=sm_90,hip=gfx1100", "--emit", "llvm"])
    assert done.exit_code == 0, done.output
    for arch in ("sm_80", "sm_90"):
        assert f".target {arch}" in (tmp_path / f"twice.ptx.{arch}.ptx").read_text()
        assert "ptx_kernel" in (tmp_path / f"twice.ptx.{arch}.llvm").read_text()
    assert not list(tmp_path.glob("*gfx*"))
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and ".target sm_70" in (tmp_path / "twice.ptx").read_text()
    both = ["build", str(file), "--backend", "cuda,hip", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*both, "--arch", "ptx=sm_100,hip=gfx1100"])
    assert done.exit_code == 0 and (tmp_path / "twice.hip.gfx1100.hsaco").read_bytes()[:4] == b"\x7fELF"
    assert ".target sm_100" in (tmp_path / "twice.ptx.sm_100.ptx").read_text()
    done = CliRunner().invoke(app, both)
    assert done.exit_code == 0 and (tmp_path / "twice.hip.hsaco").exists()
    default = mp.kernel(twice).compile(mp.Array[mp.f32, 1], backend="hip")
    assert (
        default.info["arch"] == "gfx1030"
        and mp.kernel(twice).compile(mp.Array[mp.f32, 1], backend="ptx").info["arch"] == "sm_70"
    )
    done = CliRunner().invoke(app, [*words, "--arch", "sm_12"])
    assert done.exit_code == 1 and "MPG_PTX_2002" in done.output
    done = CliRunner().invoke(app, [*words, "--arch", "=sm_90"])
    assert done.exit_code != 0
