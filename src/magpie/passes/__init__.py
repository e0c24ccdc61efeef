"""Passes over Kernel IR, one file each. A pass returns a new kernel or an analysis; it never changes its input."""

from __future__ import annotations

from magpie.ir.nodes import Kernel

__all__ = ["prepare"]


def prepare(kernel: Kernel) -> Kernel:
    """What every backend starts from: no calls, no structs, no `trip_count`, no dead values, slots split into webs."""
    from magpie.passes.dce import drop_dead
    from magpie.passes.expand import expand
    from magpie.passes.inline import inline_calls
    from magpie.passes.structs import split_structs
    from magpie.passes.webs import split_webs

    kernel = inline_calls(kernel)
    kernel = split_structs(kernel)
    kernel = expand(kernel)
    kernel = drop_dead(kernel)
    return split_webs(kernel)
