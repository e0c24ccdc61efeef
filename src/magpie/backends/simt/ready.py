"""The passes over Kernel IR that every target of GPUs runs, and how many workgroups a block runs."""

from __future__ import annotations

from magpie.backends.base import Options
from magpie.backends.simt.coarsening import NONE, Coarsening, coarsening
from magpie.ir.nodes import Kernel

__all__ = ["chosen_coarsening", "ready_kernel"]


def ready_kernel(kernel: Kernel, options: Options) -> Kernel:
    """The kernel as GPU targets emit it."""
    from magpie.passes import prepare

    if options.checked:
        from magpie.passes.checked_uniform import check_uniform

        return check_uniform(prepare(kernel))
    if options.opt_level == 0:
        return prepare(kernel)
    from magpie.backends.simt.batching import batch_loads
    from magpie.passes.expand import expand

    return expand(batch_loads(prepare(kernel, trips=False)))


def chosen_coarsening(ready: Kernel, options: Options, shared: int) -> Coarsening:
    """For a kernel that `ready_kernel` made; ``shared``: bytes of shared memory that a workgroup may have."""
    return NONE if options.checked else coarsening(ready, options.coarsen, shared)
