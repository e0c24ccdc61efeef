"""The ptx backend: PTX text for NVIDIA's driver, made without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from magpie.backends.base import Artifact, Backend, Manifest, Options
from magpie.capabilities import limits, supported
from magpie.ir.layout import KernelLayout, Rule, compute_layout

if TYPE_CHECKING:  # a kernel that comes from the disk cache needs neither the IR nor diagnostics
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["CUDA", "PtxBackend"]

#: Parameters as CUDA packs them: each at a multiple of its own size.
CUDA = Rule("cuda")


class PtxBackend(Backend):
    """One work-item a thread. Artifacts hold PTX, which the driver compiles for its device."""

    id = "ptx"
    extension = ".ptx"
    manifest = Manifest(
        "ptx",
        supported("ptx"),
        **limits("ptx"),
        alignment=16,
        static_workgroup=True,
        subgroup_sizes=(32,),
    )

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        from magpie.passes import prepare
        from magpie.passes.check import check

        return check(prepare(kernel), self.manifest)

    def layout(self, kernel: Kernel) -> KernelLayout:
        return compute_layout(kernel, CUDA)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        from magpie.backends.ptx.pipeline import compile_kernel

        return compile_kernel(kernel, layout, options)

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        return {name: self._stage(name) for name in ("kir", "prepared", "coarse", "llvm", "llvm-opt", "ptx")}

    def _stage(self, name: str) -> Callable[[Kernel, Options], str]:
        def show(kernel: Kernel, options: Options) -> str:
            from magpie.backends.ptx import pipeline

            return pipeline.show(kernel, self.layout(kernel), options, name)

        return show

    def warm_up(self) -> None:
        """Start the code-generation worker while the frontend lowers."""
        from magpie.backends.llvm.worker import start

        start()

    def cache_key(self, options: Options) -> str:
        """LLVM's version; the architecture is one of the options."""
        from magpie.backends.llvm.codegen import llvm_version

        return f"llvmlite {llvm_version()}"
