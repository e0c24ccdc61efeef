"""What every backend asks of a prepared kernel before it emits code."""

from __future__ import annotations

from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel
from magpie.passes.uniformity import check_barriers
from magpie.passes.waiting import check_waiting

__all__ = ["check"]


def check(kernel: Kernel) -> list[Diagnostic]:
    """Barriers that may not be reached by all (MPG_CORE_1400, 1401) and loops that wait on plain loads (1402)."""
    return check_barriers(kernel) + check_waiting(kernel)
