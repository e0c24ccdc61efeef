"""Passes over Kernel IR, one file each. A pass returns a new kernel or an analysis; it never changes its input."""

from __future__ import annotations

from collections.abc import Set

from magpie.ir.nodes import Kernel

__all__ = ["prepare"]


def prepare(kernel: Kernel, *, native_math: Set[tuple[str, str]] | None = None, trips: bool = True) -> Kernel:
    """What every backend starts from: no calls, no structs, no `trip_count`, no dead values, slots split into webs.

    ``native_math`` is what `magpie.passes.math_library.lower_math` leaves to the backend; None leaves it all math ops.
    ``trips=False`` leaves `trip_count` in place, for a backend that looks at loops first.
    """
    from magpie.passes.dce import drop_dead
    from magpie.passes.expand import expand
    from magpie.passes.inline import inline_calls
    from magpie.passes.structs import split_structs
    from magpie.passes.webs import split_webs

    kernel = inline_calls(kernel)
    if native_math is not None:
        from magpie.passes.math_library import lower_math

        kernel = lower_math(kernel, native_math)
    kernel = split_structs(kernel)
    kernel = expand(kernel, trips=trips)
    kernel = drop_dead(kernel)
    return split_webs(kernel)
