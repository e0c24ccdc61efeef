"""Every kernel of the conformance suite becomes PTX that ptxas accepts, with no GPU.

A sample of each file by default, all kernels under MAGPIE_TEST_ALL=1 (`make test-all`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance_kernels import MODULES, chosen, compiled
from ptx_tools import assemble, ptxas

ARCHS = ("sm_70", "sm_80", "sm_90", "sm_100")


@pytest.mark.skipif(ptxas() is None, reason="no ptxas: pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("module", MODULES)
def test_ptxas_accepts(module: str, arch: str, tmp_path: Path) -> None:
    texts = [compiled(run, "ptx", arch).text for run in chosen(module, "ptx", ARCHS.index(arch))]
    said = assemble(texts, arch, tmp_path)
    assert said == "", said[:2000]
