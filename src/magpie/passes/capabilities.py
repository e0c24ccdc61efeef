"""What a kernel needs that a target does not have."""

from __future__ import annotations

from magpie.backends.base import Manifest
from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Kernel, walk

__all__ = ["missing_capabilities"]


def missing_capabilities(kernel: Kernel, manifest: Manifest) -> list[Diagnostic]:
    """MPG_CORE_1200 for each op, and for each capability that the kernel requires, that the manifest lacks."""
    have = manifest.capabilities
    shown = ", ".join(sorted(have)) or "none"
    found: list[Diagnostic] = []
    seen: set[str] = set()
    for region in kernel.bodies():
        for node in walk(region):
            needs = node.info.capability
            if needs is not None and needs not in have and needs not in seen:
                seen.add(needs)
                text = f"{node.op} needs the capability {needs!r}, which {manifest.id} does not have"
                found.append(Diagnostic("MPG_CORE_1200", text, node.loc, help=f"{manifest.id} has: {shown}"))
    for needs in sorted(kernel.requires - have - seen):
        text = f"kernel {kernel.name!r} requires the capability {needs!r}, which {manifest.id} does not have"
        found.append(Diagnostic("MPG_CORE_1200", text, kernel.loc, help=f"{manifest.id} has: {shown}"))
    return found
