"""The interpreter as a backend: its artifact holds the program itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from magpie.backends.base import Artifact, Backend, Manifest, Options
from magpie.backends.interp.engine import Program
from magpie.capabilities import limits, supported
from magpie.diagnostics import Diagnostic
from magpie.ir.layout import WORD8, KernelLayout, compute_layout
from magpie.ir.nodes import Kernel

__all__ = ["BACKEND", "SUBGROUP", "InterpBackend"]

SUBGROUP = 32  # of a launch that does not choose its own


def _prepare(kernel: Kernel, subgroup_size: int = SUBGROUP) -> Kernel:
    """As `magpie.passes.prepare`, without expansions but of matrix tiles: the sanitizer judges what the user wrote."""
    from magpie.passes.dce import drop_dead
    from magpie.passes.inline import inline_calls
    from magpie.passes.lower_tiles import lower_tiles
    from magpie.passes.structs import split_structs

    return drop_dead(split_structs(inline_calls(lower_tiles(kernel, subgroup_size))))


class InterpBackend(Backend):
    """Runs Kernel IR on NumPy. Has every capability that one process can give."""

    id = "interp"
    extension = ".kir"
    manifest = Manifest(
        "interp",
        supported("interp"),
        **limits("interp"),
        alignment=1,
        subgroup_sizes=(4, 8, 16, 32, 64),
    )

    def validate(self, kernel: Kernel) -> list[Diagnostic]:
        """What no target can run or what is missing here; the interpreter itself runs all shapes of control flow."""
        from magpie.passes import prepare
        from magpie.passes.check import check

        return check(prepare(kernel), self.manifest)

    def layout(self, kernel: Kernel) -> KernelLayout:
        """Arguments in words of 8 bytes, as on the cpu."""
        return compute_layout(kernel, WORD8)

    def emit(self, kernel: Kernel, layout: KernelLayout, options: Options) -> Artifact:
        """An artifact whose payload is a `Program`; the blob is the printed kernel."""
        from magpie.ir.printer import print_kernel

        text = print_kernel(kernel)
        size = options.subgroup_size or SUBGROUP
        program = Program(_prepare(kernel, size), kernel)
        info = {"subgroup_size": size}
        return Artifact(self.id, kernel.name, text.encode(), layout, self.extension, text, info, program)

    @property
    def stages(self) -> Mapping[str, Callable[[Kernel, Options], str]]:
        """``kir``: the kernel as it is executed."""
        from magpie.ir.printer import print_kernel

        return {"kir": lambda kernel, options: print_kernel(_prepare(kernel, options.subgroup_size or SUBGROUP))}


BACKEND = InterpBackend()
