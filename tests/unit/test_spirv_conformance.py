"""Every kernel of the conformance suite becomes a valid module for each kind of Vulkan device, or is refused by a code.

A sample of each file by default, all kernels under MAGPIE_TEST_ALL=1 (`make test-all`).
"""

from __future__ import annotations

import struct

import pytest
from conformance_kernels import MODULES, chosen, compiled

from magpie import knobs
from magpie.backends.spirv.disassemble import disassemble
from magpie.backends.spirv.needs import lacking
from magpie.backends.spirv.profile import GENERIC, profile
from magpie.diagnostics import CompileError
from tests.unit.spirv_tools import disassembled, validate

# Features of whole families of devices. Nobody needs a device here.
PROFILES = {
    "generic": GENERIC.text,
    # no types but those of 32 bits: what SwiftShader has
    "small": "vulkan1.3+subgroups+div+sqrt32+sqrt64+lockstep+sg4+shared32",
    # what a GPU of today tells
    "large": "vulkan1.3+i64+i16+i8+f16+f64+s8+s16+subgroups+subgroup_types+atomic_f32+atomic_i64+fma+denorm16+denorm32"
    "+denorm64+rte16+rte32+rte64+szinp16+szinp32+szinp64+reconverge+push256+sg32",
    # values of 8 and 16 bits in memory only, and no f64
    "storage": "vulkan1.3+i64+s8+s16+subgroups+reconverge+denorm32+sg64+shared64",
}


@pytest.mark.filterwarnings("ignore:(?s).*MPG_SPV_2003")
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_made(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(knobs.spirv_val.name, "0")  # it is asked below
    target = profile(PROFILES[name])
    for run in chosen(module, "spv", list(PROFILES).index(name), sample=2):
        try:
            made = compiled(run, "spv", target.text)
        except CompileError as error:
            check_refusal(error, target, name)
            continue
        validate(made.blob)
        assert made.text == disassemble(made.blob) == disassembled(made.blob)
        # (Tiles are spread over subgroups of a size that the code is then for.)
        assert profile(made.info["arch"]).missing(made.info["needs"]) == []
        assert made.info["arch"].removesuffix("+sg32") == target.text.removesuffix("+sg32")
        check_block(made.info, target)


def check_refusal(error: CompileError, target, name: str) -> None:
    """Only what the profile lacks, each with its place and what to do."""
    for d in error.diagnostics:
        assert d.loc is not None and d.help, d
        if d.code == "MPG_SPV_2001":
            continue
        assert d.code == "MPG_CORE_1200", d
        assert any(repr(capability) in d.message for capability in lacking(target)), d.message
        assert name != "large", f"{d.message}: such a device has everything"


def check_block(info, target) -> None:
    """Numbers of the block are aligned, do not overlap, and fit."""
    end = 0
    for _, code, offset in sorted(info["block"], key=lambda entry: entry[2]):
        size = struct.calcsize("<" + code)
        assert offset >= end and offset % min(size, 8) == 0
        end = offset + size
    assert info["block_size"] >= end and info["block_size"] % 16 == 0
    assert info["block_kind"] == ("push" if info["block_size"] <= target.push_bytes else "uniform")
