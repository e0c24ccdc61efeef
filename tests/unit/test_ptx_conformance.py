"""Every kernel of the conformance suite becomes PTX that ptxas accepts, with no GPU.

A sample of each file by default, all kernels under MAGPIE_TEST_ALL=1 (`make test-all`).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ptx_tools import assemble, ptxas

import tests.conformance
from magpie import knobs
from tests.conformance.harness import Run

ARCHS = ("sm_70", "sm_80", "sm_90", "sm_100")
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
_SAMPLE = 2


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


@pytest.mark.skipif(ptxas() is None, reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("module", MODULES)
def test_ptxas_accepts(module: str, arch: str, tmp_path: Path) -> None:
    runs = distinct(module)
    if not knobs.test_all():
        first = ARCHS.index(arch)  # other kernels for each architecture
        runs = runs[first % len(runs) :: max(1, len(runs) // _SAMPLE)][:_SAMPLE]
    assert runs
    texts = []
    for run in runs:
        size = run.block if run.kernel.workgroup is None else None
        checked = run.launch.get("checked")
        texts.append(run.kernel.compile(*run.args, backend="ptx", arch=arch, workgroup=size, checked=checked).text)
    said = assemble(texts, arch, tmp_path)
    assert said == "", said[:2000]
