"""Every kernel of the conformance suite becomes a code object for each family of AMD's architectures, with no GPU.

A sample of each file by default, all kernels under MAGPIE_TEST_ALL=1 (`make test-all`).
"""

from __future__ import annotations

import pytest
from conformance_kernels import MODULES, chosen, compiled
from hip_tools import ARCHS

from magpie.backends.hip.metadata import metadata


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("module", MODULES)
def test_a_code_object_is_made(module: str, arch: str) -> None:
    for run in chosen(module, "hip", ARCHS.index(arch), sample=1):
        made = compiled(run, "hip", arch)
        found = metadata(made.blob)
        assert found["amdhsa.target"] == f"amdgcn-amd-amdhsa--{arch}"
        names = [kernel[".name"] for kernel in found["amdhsa.kernels"]]
        assert names[0] == made.info["entry"]
        for kernel in found["amdhsa.kernels"]:
            assert kernel[".wavefront_size"] == made.info["wave"] == (64 if arch.startswith("gfx9") else 32)
            assert kernel[".group_segment_fixed_size"] <= 64 * 1024
            check_arguments(made, kernel)


def check_arguments(made, kernel):
    """The kernel argument segment is the block that a driver packs from the layout."""
    explicit = [(a[".offset"], a[".size"]) for a in kernel[".args"] if not a[".value_kind"].startswith("hidden_")]
    words = sum(len(s.extents) for s in made.layout.shared if s.dynamic) + made.info["records"]
    words += kernel[".name"] != made.info["entry"]  # the entry that runs several workgroups is told how many there are
    expected = []
    for p in made.layout.params:
        if hasattr(p, "rank"):
            expected += [(p.offset, 8)]
            expected += [(p.extents + 8 * d, 8) for d in range(2 * p.rank)]  # and the strides behind them
        else:
            expected.append((p.offset, p.size))
    expected += [(made.layout.size + 8 * n, 8) for n in range(words)]
    assert explicit == expected
