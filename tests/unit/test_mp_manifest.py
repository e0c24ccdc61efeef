"""`Magpie.toml`: what it sets for host programs, its profiles, and what is wrong with it at which place."""

from __future__ import annotations

import pytest
from host_tools import program
from test_mp_host_gpu import HEAD, HOST, KERNELS, buffers, good, kind, sums

from magpie.diagnostics import CompileError
from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.host.gpu import gpu_of
from magpie.host.program import Program
from magpie.runtime.manifest import GpuSettings, find_manifest, gpu_settings


def settings(folder, text, profile=None):
    (folder / "Magpie.toml").write_text(text, encoding="utf-8")
    return gpu_settings(folder, profile)


def test_no_manifest_is_the_defaults(tmp_path):
    assert gpu_settings(tmp_path, None) == GpuSettings(None, False, -1)


def test_the_nearest_manifest_above_the_program_counts(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "Magpie.toml").write_text('[gpu]\nfallback = "cpu"\n', encoding="utf-8")
    assert find_manifest(inner) == tmp_path.resolve() / "Magpie.toml" and gpu_settings(inner, None).fallback
    (tmp_path / "a" / "Magpie.toml").write_text("[gpu]\n", encoding="utf-8")
    assert not gpu_settings(inner, None).fallback


# Sections 12.1 to 12.4 of the specification, as they stand there.
SPECIFICATION = """
[package]
name = "example"

[gpu]
backend = "msl"           # Default backend
fallback = "none"          # "none" (default) or "cpu"
device_index = -1          # -1 = auto-select, 0+ = specific device
mock_in_tests = false

[gpu.profiles.dev]
fallback = "cpu"
mock_in_tests = true

[gpu.profiles.release]
fallback = "none"
mock_in_tests = false

[gpu.profiles.test]
fallback = "cpu"
mock_in_tests = false

[gpu.tools]
llc = "/usr/local/opt/llvm/bin/llc"

[mlx]
enabled = true
"""


@pytest.mark.parametrize(("profile", "fallback"), [(None, False), ("dev", True), ("release", False), ("test", True)])
def test_profiles_stand_in_place_of_the_base(tmp_path, profile, fallback):
    assert settings(tmp_path, SPECIFICATION, profile) == GpuSettings("msl", fallback, -1)


def test_aliases_of_backends(tmp_path):
    assert settings(tmp_path, '[gpu]\nbackend = "Vulkan"\ndevice_index = 2\n') == GpuSettings("spv", False, 2)


WRONG = [
    ("[gpu]\nfallback = true\n", 2, 1, 'gpu.fallback is true; it takes "none" or "cpu"'),
    ('[gpu]\nbackend = "opencl"\n', 2, 1, 'gpu.backend is "opencl"; it takes one of spv,'),
    ("[gpu]\n\n  device_index = -2\n", 3, 3, "gpu.device_index is -2"),
    ("[gpu]\ndevice_index = true\n", 2, 1, "gpu.device_index is true"),
    ("[gpu]\nmock_in_tests = 1\n", 2, 1, "gpu.mock_in_tests is 1"),
    ('[gpu]\nfallbck = "cpu"\n', 2, 1, "there is no key gpu.fallbck"),
    ('x = 1\n[gpu.profiles.dev]\nfallback = "gpu"\n', 3, 1, 'gpu.profiles.dev.fallback is "gpu"'),
    ("[gpu]\nprofiles = 3\n", 2, 1, "gpu.profiles is a table"),
    ("[gpu.profiles]\ndev = 3\n", 2, 1, "gpu.profiles.dev is a table"),
    ("gpu.backend = 5\n", 1, 1, "gpu.backend is 5"),
    ("gpu = { backend = 5 }\n", 1, 1, "gpu.backend is 5"),
    ("a = 1\n\n[gpu]\nbackend =\n", 4, 10, "Invalid value"),
    ("[gpu\n", 1, 5, "Expected"),
    ('[gpu]\nbackend = "spv', 2, None, "Unterminated string"),
    ("gpu = 3\n", 1, 1, "gpu is a table"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), WRONG, ids=[w[3] for w in WRONG])
def test_what_is_wrong_is_shown_at_its_place(tmp_path, text, line, column, message):
    with pytest.raises(CompileError) as caught:
        settings(tmp_path, text)
    (found,) = caught.value.diagnostics
    assert found.code == "MPG_ENV_1007" and message in found.message
    assert found.loc.file.endswith("Magpie.toml") and found.loc.line == line
    assert column is None or found.loc.col + 1 == column


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "Magpie.toml").write_bytes(b'[gpu]\nbackend = "\xff"\n')
    with pytest.raises(CompileError, match="not UTF-8") as caught:
        gpu_settings(tmp_path, None)
    assert caught.value.diagnostics[0].loc.line == 2


def test_a_profile_that_there_is_not(tmp_path):
    with pytest.raises(CompileError, match="MPG_ENV_1008.*no Magpie.toml"):
        gpu_settings(tmp_path, "dev")
    with pytest.raises(CompileError, match="MPG_ENV_1008.*'debug'.*it has dev, release, test"):
        settings(tmp_path, SPECIFICATION, "debug")
    with pytest.raises(CompileError, match="MPG_ENV_1008.*it has none"):
        settings(tmp_path, "[gpu]\n", "dev")


# --- programs --------------------------------------------------------------------------------------------------------
def loaded(folder, target="hip"):
    text = HEAD + KERNELS.replace("TARGET", target) + HOST + buffers("f32")
    return Program(check_source(Source(text, str(folder / "t.mp"))).checked)


def test_the_cpu_stands_in_where_the_manifest_says_so(tmp_path, monkeypatch):
    (tmp_path / "Magpie.toml").write_text('[gpu]\n[gpu.profiles.dev]\nfallback = "cpu"\n', encoding="utf-8")
    made = loaded(tmp_path)
    ran, _ = sums(made, good(made.call("default")), 10, 1)
    assert kind(ran) == "BackendUnavailable"
    monkeypatch.setenv("MAGPIE_PROFILE", "dev")
    made = loaded(tmp_path)
    ran, found = sums(made, good(made.call("default")), 10, 1)
    assert good(ran) is None and found == [i + 0.5 for i in range(10)]


def test_the_manifests_backend_has_the_default_device(tmp_path, monkeypatch):
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "interp"\n', encoding="utf-8")
    made = loaded(tmp_path)
    assert good(made.call("default")).backend == "interp" and good(made.call("at", [0])).backend == "interp"
    ran, found = sums(made, good(made.call("default")), 10, 1)
    assert good(ran) is None and found == [i + 0.5 for i in range(10)], "kernels of all targets"
    monkeypatch.setenv("MAGPIE_BACKEND", "cpu")  # the environment is stronger
    assert good(made.call("default")).backend == "cpu"
    monkeypatch.delenv("MAGPIE_BACKEND")
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "hip"\n', encoding="utf-8")
    assert kind(loaded(tmp_path).call("default")) == "BackendUnavailable"
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "hip"\nfallback = "cpu"\n', encoding="utf-8")
    assert good(loaded(tmp_path).call("default")).backend == "cpu"


def test_a_device_of_the_manifest_by_its_number(tmp_path):
    (tmp_path / "Magpie.toml").write_text("[gpu]\ndevice_index = 99\n", encoding="utf-8")
    assert kind(loaded(tmp_path).call("default")) == "ValidationFailed"
    (tmp_path / "Magpie.toml").write_text('[gpu]\nbackend = "cpu"\ndevice_index = 1\n', encoding="utf-8")
    assert kind(loaded(tmp_path).call("default")) == "BackendUnavailable"
    (tmp_path / "Magpie.toml").write_text("[gpu]\ndevice_index = 0\n", encoding="utf-8")
    made = loaded(tmp_path)
    assert good(made.call("default")) is good(made.call("at", [0]))


def test_a_manifest_that_is_wrong_is_found_before_the_program_runs(tmp_path):
    (tmp_path / "Magpie.toml").write_text("[gpu]\nbackend = 1\n", encoding="utf-8")
    with pytest.raises(CompileError, match="MPG_ENV_1007"):
        gpu_of(loaded(tmp_path))
    assert gpu_of(program(KERNELS.replace("TARGET", "spv"))).settings == GpuSettings()
