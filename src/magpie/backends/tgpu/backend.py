"""tiny-gpu as a backend. Its artifact is assembly in which what a launch decides stands open, and the kernel itself,
from which a launch makes code of its own: tiny-gpu has no kernel arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from magpie.backends.base import Artifact, Backend, Manifest, Options
from magpie.backends.tgpu.kernel import compile_open, prepared
from magpie.capabilities import limits, supported
from magpie.diagnostics import CompileError, Diagnostic
from magpie.ir.layout import WORD8, KernelLayout, compute_layout
from magpie.ir.nodes import Kernel

__all__ = ["BACKEND", "TgpuBackend"]


class TgpuBackend(Backend):
    """Integer kernels that add, multiply, compare, loop and share memory; see docs/TINYGPU.md."""

    id = "tgpu"
    extension = ".tgpu"
    manifest = Manifest("tgpu", supported("tgpu"), **limits("tgpu"), alignment=1, subgroup_sizes=(1,))

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        """Capabilities (MPG_CORE_1200), barriers, and what does not fit the instructions (MPG_TGPU_2001 to 2007)."""
        from magpie.passes.check import check

        found = check(prepared(kernel), self.manifest)
        if not any(d.is_error for d in found):
            try:
                compile_open(kernel)
            except CompileError as error:
                found += error.diagnostics
        return found

    def layout(self, kernel: Kernel) -> KernelLayout:
        """Arguments in words of 8 bytes, as on the cpu: the driver copies them into words of tiny-gpu's memory."""
        return compute_layout(kernel, WORD8)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        """The blob is assembly with ``${...}`` for what a launch decides; the payload is the kernel."""
        if options.checked:
            text = "tiny-gpu code has no checks: an access outside of all memory is a fault of the simulator"
            raise CompileError(Diagnostic("MPG_CORE_1200", text, kernel.loc, help="find faults with `kernel.sanitize`"))
        assembly = compile_open(kernel)
        info = {"registers": assembly.num_registers, "symbols": dict(assembly.symbols)}
        text = assembly.text
        return Artifact(self.id, kernel.name, text.encode(), layout, self.extension, text, info, kernel)

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        """``kir``: the kernel that code is made from.  ``tgpu``: the assembly, open for any launch."""
        from magpie.ir.printer import print_kernel

        return {
            "kir": lambda kernel, options: print_kernel(prepared(kernel)),
            "tgpu": lambda kernel, options: compile_open(kernel).text,
        }


BACKEND = TgpuBackend()
