"""What the cpu backend refuses, before anything runs (MPG_CPU_10xx). docs/CPU.md lists it."""

from __future__ import annotations

from magpie.backends.base import Manifest
from magpie.backends.cpu.regions import Plan
from magpie.backends.cpu.spmd import supported
from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel, walk
from magpie.passes.lower_tiles import LOWERED
from magpie.passes.uniformity import Level, analyse

__all__ = ["validate", "validate_plan"]

# Local arrays of one gang lie in the arena; more than this is a mistake.
_MOST_LOCAL = 1 << 28


def validate(kernel: Kernel, manifest: Manifest) -> list[Diagnostic]:
    """What no target or not this one can run, ops without code, local arrays beyond all bounds."""
    from magpie.passes import prepare
    from magpie.passes.check import check

    ready = prepare(kernel)
    found = check(ready, manifest)
    for node in walk(ready.body):
        if (
            not supported(node.op)
            and node.op not in LOWERED
            and (node.info.capability or "") in ("", *manifest.capabilities)
        ):
            found.append(Diagnostic("MPG_CPU_1001", f"the cpu backend has no code for '{node.op}'", node.loc))
    size = sum(array.nbytes for array in ready.locals)
    if size * 64 > _MOST_LOCAL:
        found.append(
            Diagnostic(
                "MPG_CPU_1004",
                f"local arrays of {size} bytes a work-item are too large",
                ready.locals[0].loc or ready.loc,
            )
        )
    return found


def validate_plan(kernel: Kernel, plan: Plan) -> list[Diagnostic]:
    """Branches around barriers that are decided by work-item 0 for all, and do not depend on the workgroup alone.

    What `regions` cannot cut must be an error and never wrong code; this looks at the result, whatever led there.
    """
    if not plan.broadcast:
        return []
    uniformity = analyse(kernel)
    return [
        Diagnostic(
            "MPG_CPU_1002",
            "this condition differs between the work-items of a workgroup and decides what happens around a barrier",
            node.loc,
            help="write the branch so that it ends before the next barrier and holds no continue, break or return",
        )
        for node in plan.broadcast
        if uniformity.level(node) >= Level.SUBGROUP
    ]
