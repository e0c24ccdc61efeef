"""The ptx backend: PTX text for NVIDIA's driver, made without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magpie.backends.base import Manifest
from magpie.backends.llvm.simt_backend import SimtBackend
from magpie.capabilities import limits, supported
from magpie.ir.layout import Rule

if TYPE_CHECKING:
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["CUDA", "PtxBackend"]

#: Parameters as CUDA packs them: each at a multiple of its own size.
CUDA = Rule("cuda")


class PtxBackend(SimtBackend):
    """One work-item a thread. Artifacts hold PTX, which the driver compiles for its device."""

    id = "ptx"
    extension = ".ptx"
    manifest = Manifest(
        "ptx", supported("ptx"), **limits("ptx"), alignment=16, static_workgroup=True, subgroup_sizes=(32,)
    )
    arch_prefix = "sm_"
    pipeline, rule, last_stage = "magpie.backends.ptx.pipeline", CUDA, "ptx"

    def check_arch(self, kernel: Kernel, arch: str) -> list[Diagnostic]:
        """MPG_PTX_2003 for each feature that the architecture has no instructions for."""
        from magpie.backends.ptx.arch import arch as find_arch
        from magpie.backends.ptx.arch import missing_features

        return missing_features(kernel, find_arch(arch)) if arch else []

    def shared_bytes(self, arch: str) -> int:
        from magpie.backends.ptx.arch import arch as find_arch

        return find_arch(arch).shared
