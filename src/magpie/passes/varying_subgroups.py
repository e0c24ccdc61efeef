"""Subgroup operations that only some work-items of a subgroup come to: what a target must promise for them."""

from __future__ import annotations

from magpie.capabilities import targets_with
from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel, Node, walk
from magpie.ir.ops import Effect
from magpie.passes.uniformity import Level, analyse

__all__ = ["CAPABILITY", "check_varying", "varying_subgroups"]

CAPABILITY = "subgroups_varying"


def varying_subgroups(kernel: Kernel, gang: int = 0) -> list[Node]:
    """The subgroup operations of a kernel without calls in varying flow. ``gang``: the size of a subgroup, if known."""
    found = [n for n in walk(kernel.body) if n.op == "subgroup_barrier" or n.info.effect is Effect.CROSS_LANE]
    if not found:
        return []
    uniformity = analyse(kernel, gang)
    return [n for n in found if uniformity.reach(n)[0] > Level.SUBGROUP]


def check_varying(kernel: Kernel, target: str, gang: int = 0) -> list[Diagnostic]:
    """MPG_CORE_1200 for each place with such an operation, for a ``target`` (a name) that says nothing about these.

    Where work-items part ways, such a target may run those of one branch in several goes, or let them run on without
    the others behind it (RULES 9).
    """
    found = [
        Diagnostic(
            "MPG_CORE_1200",
            f"{node.op} needs the capability {CAPABILITY!r} here, where not all work-items of a subgroup come; "
            f"{target} does not have it",
            node.loc,
            help="move it to where all come, and select what they give; a device has the capability if its driver has "
            f"maximal reconvergence ({', '.join(targets_with(CAPABILITY))} have it or may)",
        )
        for node in varying_subgroups(kernel, gang)
    ]
    return [d for k, d in enumerate(found) if d not in found[:k]]
