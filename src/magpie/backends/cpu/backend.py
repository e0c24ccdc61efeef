"""The cpu backend: validates a kernel, emits LLVM text, and has LLVM make an object of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from magpie.backends.base import Artifact, Backend, Manifest, Options
from magpie.capabilities import limits, supported
from magpie.ir.layout import KernelLayout, compute_layout

if TYPE_CHECKING:  # a kernel that comes from the disk cache needs neither the IR nor diagnostics
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["CpuBackend"]


class CpuBackend(Backend):
    """SPMD on SIMD. Artifacts hold a linked image where Magpie has its own loader, else a relocatable object."""

    id = "cpu"
    extension = ".o"
    # Vector instructions take any address, and which stores need an aligned one is tested where they are (`streaming`).
    manifest = Manifest(
        "cpu",
        supported("cpu"),
        **limits("cpu"),
        alignment=1,
        static_workgroup=True,
        subgroup_sizes=(4, 8, 16, 32, 64),
    )

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        """Numbered errors for what has no code here; nothing runs then."""
        from magpie.backends.cpu.validate import validate

        return validate(kernel, self.manifest)

    def layout(self, kernel: Kernel) -> KernelLayout:
        return compute_layout(kernel)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        from magpie.backends.cpu.pipeline import compile_kernel

        return compile_kernel(kernel, layout, options)

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        names = ("kir", "prepared", "regions", "llvm", "llvm-opt", "asm")
        return {name: _stage(name) for name in names}

    def warm_up(self) -> None:
        """Map LLVM's library while the frontend lowers: 8 % of a cold first call (benchmarks/bench_startup.py)."""
        from magpie.backends.llvm.codegen import start_preload

        start_preload()

    def cache_key(self, options: Options) -> str:
        from magpie.backends.llvm.codegen import host_fingerprint

        return host_fingerprint()


def _stage(name: str) -> Callable[[Kernel, Options], str]:
    def show(kernel: Kernel, options: Options) -> str:
        pipeline = importlib.import_module("magpie.backends.cpu.pipeline")
        text: str = pipeline.show(kernel, options, name)
        return text

    return show
