"""The hip backend: code objects for AMD's driver, made without a GPU and without ROCm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magpie.backends.base import Manifest
from magpie.backends.llvm.simt_backend import SimtBackend
from magpie.capabilities import limits, supported
from magpie.ir.layout import Rule

if TYPE_CHECKING:
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["HIP", "HipBackend"]

#: The kernel argument segment: each parameter at a multiple of its own size (AMDGPU usage, "Kernel Argument Segment").
HIP = Rule("hip")


class HipBackend(SimtBackend):
    """One work-item a lane. Artifacts hold a code object for one architecture."""

    id = "hip"
    extension = ".hsaco"
    manifest = Manifest("hip", supported("hip"), **limits("hip"), alignment=16, static_workgroup=True)
    arch_prefix = "gfx"
    pipeline, rule, last_stage = "magpie.backends.hip.pipeline", HIP, "asm"

    def check_arch(self, kernel: Kernel, arch: str) -> list[Diagnostic]:
        """That the architecture is known, and has the waves that the kernel requires."""
        from magpie.backends.base import Options
        from magpie.backends.hip.arch import arch as find_arch
        from magpie.backends.hip.pipeline import wave_size
        from magpie.diagnostics.diagnostic import CompileError

        if arch:
            try:
                wave_size(kernel, find_arch(arch), Options(arch))
            except CompileError as error:
                return list(error.diagnostics)
        return []
