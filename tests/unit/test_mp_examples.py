"""The ten programs of examples/mp, each run by `magpie run` on the cpu and on Vulkan: what it prints, and its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from magpie.runtime import dispatch

EXAMPLES = Path(__file__).parents[2] / "examples" / "mp"

RIGHT = {
    **dict.fromkeys((f"vector_add_{t}" for t in ("spv", "msl", "ptx", "hip", "wgsl")), "vector add: all 1,024 values are right"),
    "reduce_sum": "reduction: the sum is 499500",
    "device_malloc": "device malloc: all 1,000 values are right",
    "simd_sum_msl": "simd sum: every work-item has its group's sum",
}
# What is not there on any backend, or not on that one: the kind of the error, and a word of the message.
ABSENT = {"mlx_training": ("BackendUnavailable", "MLX"), "profiling": ("BackendUnavailable", "profiler")}
LACKS = {"device_malloc": ("Unsupported", "device_malloc"), "simd_sum_msl": ("Unsupported", "metal.simd_reduce")}


def magpie_run(name, **environment):
    """(exit status, standard output, standard error) of an example."""
    command = [sys.executable, "-m", "magpie", "run", str(EXAMPLES / f"{name}.mp")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    return done.returncode, done.stdout, done.stderr


def expect(name, backend, failures):
    status, out, err = magpie_run(name, **({"MAGPIE_BACKEND": backend} if backend else {}))
    assert "error" not in err and "Traceback" not in err, err
    if name in failures:
        kind, word = failures[name]
        assert status == 2 and out.startswith(f"{kind}: ") and word in out and out.count("\n") == 1
    else:
        assert (status, out) == (0, RIGHT[name] + "\n")


def test_all_ten_are_here():
    assert {file.stem for file in EXAMPLES.glob("*.mp")} == RIGHT.keys() | ABSENT.keys() and len(RIGHT | ABSENT) == 10


@pytest.mark.parametrize("name", [*RIGHT, *ABSENT])
def test_on_the_cpu(name):
    expect(name, "cpu", ABSENT)


@pytest.mark.parametrize("name", [*RIGHT, *ABSENT])
def test_on_vulkan(name):
    reason = dispatch.runtime().unavailable("spv")
    if reason is not None:
        pytest.skip(reason)
    expect(name, "vulkan", ABSENT | LACKS)


@pytest.mark.parametrize("name", ["vector_add_hip", "vector_add_msl", "vector_add_wgsl"])
def test_nothing_is_forced_and_the_target_is_not_here(name):
    """The tests hide GPUs, and there is no Metal or WebGPU yet."""
    expect(name, None, {name: ("BackendUnavailable", name.rpartition("_")[2])})


def test_nothing_is_forced_and_vulkan_is_here():
    reason = dispatch.runtime().unavailable("spv")
    if reason is not None:
        pytest.skip(reason)
    expect("vector_add_spv", None, {})
