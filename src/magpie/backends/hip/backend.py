"""The hip backend: code objects for AMD's driver, made without a GPU and without ROCm."""

from __future__ import annotations

from magpie.backends.base import Manifest
from magpie.backends.llvm.simt_backend import SimtBackend
from magpie.capabilities import limits, supported
from magpie.ir.layout import Rule

__all__ = ["HIP", "HipBackend"]

#: The kernel argument segment: each parameter at a multiple of its own size (AMDGPU usage, "Kernel Argument Segment").
HIP = Rule("hip")


class HipBackend(SimtBackend):
    """One work-item a lane. Artifacts hold a code object for one architecture."""

    id = "hip"
    extension = ".hsaco"
    manifest = Manifest("hip", supported("hip"), **limits("hip"), alignment=16, static_workgroup=True)
    pipeline, rule, last_stage = "magpie.backends.hip.pipeline", HIP, "asm"
