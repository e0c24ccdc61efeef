"""The ptx backend: PTX text for NVIDIA's driver, made without a GPU."""

from __future__ import annotations

from magpie.backends.base import Manifest
from magpie.backends.llvm.simt_backend import SimtBackend
from magpie.capabilities import limits, supported
from magpie.ir.layout import Rule

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
    pipeline, rule, last_stage = "magpie.backends.ptx.pipeline", CUDA, "ptx"
