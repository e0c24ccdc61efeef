"""What the cpu backend refuses, before anything runs (MPG_CPU_10xx)."""

from __future__ import annotations

from magpie.backends.cpu.spmd import supported
from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel, walk

__all__ = ["validate"]


def validate(kernel: Kernel) -> list[Diagnostic]:
    """Errors of control flow that no target can run, and for ops without code here."""
    from magpie.passes import prepare
    from magpie.passes.check import check

    prepared = prepare(kernel)
    found = check(prepared)
    for node in walk(prepared.body):
        if not supported(node.op):
            found.append(Diagnostic("MPG_CPU_1001", f"the cpu backend has no code for '{node.op}'", node.loc))
    return found
