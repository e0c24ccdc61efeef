"""Every kernel of the conformance suite becomes SPIR-V that spirv-val takes for Vulkan 1.3, with no device.

For the generic profile, and for two drivers of opposite kinds: one with all types, one with 32 bits only. A sample of
each file by default, all kernels under MAGPIE_TEST_ALL=1 (`make test-all`).
"""

from __future__ import annotations

import pytest
from conformance_kernels import MODULES, chosen, compiled
from spirv_tools import validate

import magpie as mp
from magpie import knobs
from magpie.backends.spirv.profile import GENERIC
from tests.conformance.harness import Run

FULL = (
    "vulkan1.3+i64+i16+i8+f16+f64+s8+s16+subgroups+subgroup_types+atomic_f32+atomic_i64+div+rte16+rte32+rte64"
    "+szinp16+szinp32+szinp64+lockstep+sg8"
)
SMALL = "vulkan1.3+subgroups+lockstep+sg4"
PROFILES = {"generic": GENERIC.text, "full": FULL, "small": SMALL}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("module", MODULES)
def test_spirv_val_accepts(module: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(knobs.spirv_val.name, "0")  # it is asked below
    for run in chosen(module, "spv", list(PROFILES).index(profile)):
        blob = module_of(run, PROFILES[profile])
        if blob is not None:
            validate(blob)


def module_of(run: Run, profile: str) -> bytes | None:
    """The module of a run's kernel; None where the profile lacks what it needs, which a diagnostic says."""
    try:
        return compiled(run, "spv", profile).blob
    except mp.CompileError as error:
        if {d.code for d in error.diagnostics} != {"MPG_CORE_1200"}:
            raise
        return None
