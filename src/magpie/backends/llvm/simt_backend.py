"""What the backends of GPU targets have in common: they check, lay out and show a kernel in the same way."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from magpie.backends.base import Artifact, Backend, Options
from magpie.ir.layout import KernelLayout, Rule, compute_layout

if TYPE_CHECKING:  # a kernel that comes from the disk cache needs neither the IR nor diagnostics
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["SimtBackend"]


class SimtBackend(Backend):
    """A target whose code LLVM makes in the worker process. ``pipeline`` is the module that has `compile_kernel` and
    `show`, loaded when it is needed; ``rule`` lays out parameters, and ``last_stage`` is what the code is called."""

    pipeline: ClassVar[str]
    rule: ClassVar[Rule]
    last_stage: ClassVar[str]

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        from magpie.passes import prepare
        from magpie.passes.check import check

        return check(prepare(kernel), self.manifest)

    def layout(self, kernel: Kernel) -> KernelLayout:
        return compute_layout(kernel, self.rule)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        made: Artifact = self._module().compile_kernel(kernel, layout, options)
        return made

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        return {name: self._stage(name) for name in ("kir", "prepared", "coarse", "llvm", "llvm-opt", self.last_stage)}

    def _stage(self, name: str) -> Callable[[Kernel, Options], str]:
        def show(kernel: Kernel, options: Options) -> str:
            text: str = self._module().show(kernel, self.layout(kernel), options, name)
            return text

        return show

    def _module(self) -> Any:
        return importlib.import_module(self.pipeline)

    def warm_up(self) -> None:
        """Start the code-generation worker while the frontend lowers."""
        from magpie.backends.llvm.worker import start

        start()

    def cache_key(self, options: Options) -> str:
        """LLVM's version; the architecture is one of the options."""
        from magpie.backends.llvm.codegen import llvm_version

        return f"llvmlite {llvm_version()}"
