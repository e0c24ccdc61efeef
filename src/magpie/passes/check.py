"""What every backend asks of a prepared kernel before it emits code."""

from __future__ import annotations

from magpie.backends.base import Manifest
from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel
from magpie.passes.capabilities import missing_capabilities
from magpie.passes.tile_rules import check_tiles
from magpie.passes.uniformity import check_barriers
from magpie.passes.waiting import check_waiting

__all__ = ["check"]


def check(kernel: Kernel, manifest: Manifest) -> list[Diagnostic]:
    """What stands in the way of running a prepared kernel on a target.

    Capabilities that it lacks (MPG_CORE_1200), barriers that not all work-items may reach (1400, 1401), loops that wait
    on plain loads (1402), and matrix tiles that not all of a subgroup come to (1406, 1407).
    """
    found = missing_capabilities(kernel, manifest) + check_barriers(kernel) + check_waiting(kernel)
    return found + check_tiles(kernel)
