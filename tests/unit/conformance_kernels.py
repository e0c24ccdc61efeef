"""The kernels of the conformance suite, for tests that compile them and run none."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tests.conformance
from magpie import knobs
from magpie.backends.base import Artifact
from magpie.backends.registry import backend
from tests.conformance.harness import Run

MODULES = [
    m.name
    for m in pkgutil.iter_modules(tests.conformance.__path__)
    if m.name.startswith("test_")
    and re.search(
        "^@(case|shape)",
        (Path(tests.conformance.__path__[0]) / f"{m.name}.py").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]


@functools.cache
def distinct(module: str) -> list[Run]:
    """One run for each kernel and types of its arguments."""
    return list(_distinct(module))


def _distinct(module: str) -> Iterator[Run]:
    seen = set()
    for test in vars(importlib.import_module(f"tests.conformance.{module}")).values():
        for run in getattr(test, "runs", lambda: ())():
            kinds = tuple(
                (a.dtype.str, str(a.dtype), a.ndim) if isinstance(a, np.ndarray) else repr(a) for a in run.args
            )
            key = (run.kernel, kinds)
            if key not in seen:
                seen.add(key)
                yield run


def chosen(module: str, target: str, turn: int, sample: int = 2) -> list[Run]:
    """A sample of a file's kernels, others for each turn; all of them under MAGPIE_TEST_ALL=1.

    Of those that the target has the capabilities for; the test is skipped where that is none.
    """
    have = backend(target).manifest.capabilities
    runs = [run for run in distinct(module) if have.issuperset(run.kernel.requires)]
    if not runs:
        pytest.skip(f"{target} lacks what the kernels require")
    if knobs.test_all():
        return runs
    return runs[turn % len(runs) :: max(1, len(runs) // sample)][:sample]


def compiled(run: Run, target: str, arch: str) -> Artifact:
    """The artifact of a run's kernel, for the workgroup size of the run."""
    size = run.block if run.kernel.workgroup is None else None
    checked = run.launch.get("checked")
    return run.kernel.compile(*run.args, backend=target, arch=arch, workgroup=size, checked=checked)
