"""`magpie run FILE.mp`: what it checks, what it shows where, and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from magpie.cli.app import app

MAIN = "module t\nimports { std.io::{@println} }\nfn @main() -> i64 {\nbb0:\nBODY\n}\n"


def magpie(folder, text, *options, args=(), command="run", **environment):
    """(exit status, standard output, standard error) of `magpie run` on a text."""
    file = folder / "t.mp"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "magpie", command, *options, str(file), *args]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    return done.returncode, done.stdout, done.stderr


def main(body):
    return MAIN.replace("BODY", body)


@pytest.mark.parametrize(("value", "status"), [(7, 7), (-1, 255), (1 << 40, 0)])
def test_the_exit_status_is_the_value_as_the_system_has_it(tmp_path, value, status):
    said = '    call_void @println { text=const.Str "hello" }\n'
    assert magpie(tmp_path, main(f"{said}    ret const.i64 {value}")) == (status, "hello\n", "")


def test_nothing_runs_where_there_are_errors(tmp_path):
    body = '    call_void @println { text=const.Str "hello" }\n    %x: i32 = i.add { a=%y, b=const.i32 1 }\n    ret const.i64 0'
    status, out, err = magpie(tmp_path, main(body))
    assert (status, out) == (1, "") and "t.mp:6:" in err and "%y" in err


def test_the_rules_of_the_declared_target_hold_whatever_is_forced(tmp_path):
    kernel = "gpu fn @k(%x: gpu.TBuffer<bf16>) -> unit target(wgsl) {\nbb0:\n    ret\n}\n"
    status, out, err = magpie(tmp_path, main("    ret const.i64 0") + kernel, "--backend", "cpu")
    assert (status, out) == (1, "") and "MPG_WGSL_1003" in err


def test_warnings_go_to_standard_error_and_the_program_runs(tmp_path):
    head = "module t\ndigest \"" + "1" * 64 + '"\n'
    status, out, err = magpie(tmp_path, head + main("    ret const.i64 3").partition("\n")[2].partition("\n")[2])
    assert (status, out) == (3, "") and "MPL0001" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("module t\nfn @start() -> i64 {\nbb0:\n    ret const.i64 0\n}\n", "no function @main"),
        ("module t\nfn @main(%n: i64) -> i64 {\nbb0:\n    ret %n\n}\n", "@main takes nothing"),
        ("module t\nfn @main() -> f32 {\nbb0:\n    ret const.f32 0.0\n}\n", "gives an integer"),
        ("module t\ngpu fn @main() -> unit target(spv) {\nbb0:\n    ret\n}\n", "no function @main"),
    ],
)
def test_a_module_that_is_no_program(tmp_path, text, said):
    status, out, err = in_process(tmp_path, text)
    assert (status, out) == (1, "") and "MPT0020" in err and said in err


def test_a_panic_has_a_status_of_its_own(tmp_path):
    body = '    call_void @println { text=const.Str "before" }\n    %z: i64 = const.i64 0\n'
    status, out, err = magpie(tmp_path, main(body + "    %x: i64 = i.sdiv { a=const.i64 1, b=%z }\n    ret %x"))
    assert (status, out) == (101, "before\n") and "t.mp:7: panic:" in err and "i.sdiv" in err


DEVICE = """module t
imports { std.io::{@println} }
fn @main() -> TResult<unit, gpu.TError> {
bb0:
    %dev: gpu.TDevice = try gpu.host.@device_default {}
    %name: Array<Str> = gpu.host.@device_backends { dev=%dev }
    %first: Str = gpu.host.@device_name { dev=%dev }
    call_void @println { text=%first }
    %ok: TResult<unit, gpu.TError> = enum.new<Ok> { v=const.unit }
    ret %ok
}
"""


def test_options_choose_the_backend_the_device_and_the_profile(tmp_path):
    status, cpu, _ = magpie(tmp_path, DEVICE, "--backend", "cpu")
    assert status == 0
    status, interp, _ = magpie(tmp_path, DEVICE, "--device", "interp:0")
    assert status == 0 and interp != cpu
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "cpu"\n[gpu.profiles.slow]\nbackend = "interp"\n')
    assert magpie(tmp_path, DEVICE) == (0, cpu, "")
    assert magpie(tmp_path, DEVICE, "--profile", "slow") == (0, interp, "")


def in_process(folder, text, *options):
    file = folder / "t.mp"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["run", *options, str(file)])
    return done.exit_code, done.stdout, done.stderr


def test_manifests_and_profiles_that_are_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGPIE_PROFILE", "")  # the option sets it
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "cpu"\n[gpu.profiles.slow]\nbackend = "interp"\n')
    status, out, err = in_process(tmp_path, DEVICE, "--profile", "fast")
    assert (status, out) == (1, "") and "MPG_ENV_1008" in err and "slow" in err
    (tmp_path / "Magpie.toml").write_text("[gpu]\nbackend = cpu\n")
    status, out, err = in_process(tmp_path, DEVICE)
    assert (status, out) == (1, "") and "MPG_ENV_1007" in err and "Magpie.toml:2:11" in err


def test_an_error_of_the_gpu_that_nothing_catches(tmp_path, monkeypatch):
    status, out, err = magpie(tmp_path, DEVICE, "--backend", "metal")
    assert (status, out) == (1, "") and err.startswith("error: metal cannot be used")
    monkeypatch.setenv("MAGPIE_BACKEND", "nonsense!")
    status, out, err = in_process(tmp_path, DEVICE)
    assert (status, out) == (2, "") and "MPG_ENV_1001" in err


def test_a_file_that_is_too_large_or_not_there(tmp_path):
    assert magpie(tmp_path, main("    ret const.i64 0"), "--max-bytes", "20")[0] == 1
    command = [sys.executable, "-m", "magpie", "run", str(tmp_path / "none.mp")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


PAST_THE_END = """module t
imports { std.io::{@println}, std.env::{@args} }
gpu fn @k(%out: gpu.TBuffer<f32>, %x: f16, %n: u64) -> unit target(spv) workgroup(4, 1, 1) {
bb0:
    %gid: u32 = gpu.global_id { dim=const.u32 0 }
    gpu.print { text="item {} of {} has {}", args=[%gid, %n, %x] }
    %at: u32 = i.add { a=%gid, b=const.u32 1 }
    gpu.buffer_store<f32> { buf=%out, idx=%at, v=const.f32 1.0 }
    ret
}
fn @go(%n: u32) -> TResult<unit, gpu.TError> {
bb0:
    %dev: gpu.TDevice = try gpu.host.@device_default {}
    %out: gpu.TBuffer<f32> = try gpu.host.@buffer_new<f32> { dev=%dev, len=const.u64 4, usage_flags=const.u32 1 }
    call_void @println { text=const.Str "before" }
    %r: TResult<unit, gpu.TError> = gpu.launch {
        device=%dev,
        kernel=@k,
        grid=[const.u32 1, const.u32 1, const.u32 1],
        block=[%n, const.u32 1, const.u32 1],
        args=[%out, const.f16 1.5, const.u64 18446744073709551615]
    }
    %done: unit = try %r
    call_void @println { text=const.Str "after" }
    ret %r
}
fn @main() -> TResult<unit, gpu.TError> {
bb0:
    %args: Array<Str> = std.env.@args {}
    %n: i64 = arr.len { arr=%args }
    %block: u32 = cast<i64, u32> { v=%n }
    %r: TResult<unit, gpu.TError> = call @go { n=%block }
    ret %r
}
"""
PRINTED = ["before", *(f"item {k} of {2**64 - 1} has 1.5" for k in range(4))]


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_output_of_kernels_stands_where_they_run(tmp_path, backend):
    status, out, err = magpie(tmp_path, PAST_THE_END, "--backend", backend, args=("a", "b", "c"))
    assert (status, out.splitlines(), err) == (0, [*PRINTED[:4], "after"], "")


def test_checked_mode_is_an_error_of_the_launch(tmp_path):
    status, out, err = magpie(tmp_path, PAST_THE_END, "--backend", "cpu", args="abcd", MAGPIE_CHECKED="1")
    assert status == 1 and out.splitlines() == PRINTED and "MPG_SAN_1003" in err and "t.mp:8:5" in err


def test_the_sanitizer_runs_programs(tmp_path):
    status, out, err = magpie(tmp_path, PAST_THE_END, args="abcd", command="check")
    assert status == 2  # arguments are for programs that run
    status, out, err = magpie(tmp_path, PAST_THE_END, "--sanitize", args="abcd", command="check")
    assert status == 1 and out.splitlines()[:6] == [*PRINTED, "after"] and "1 report" in out.splitlines()[-1]
    assert "MPG_SAN_1004" in out and "t.mp:8:5" in out and "Traceback" not in err
    status, out, _ = magpie(tmp_path, PAST_THE_END, "--sanitize", args="abc", command="check")
    assert status == 0 and out.splitlines()[-1].endswith("0 reports")
