"""How the kernels of tensor graphs are laid out for each target."""

from __future__ import annotations

from magpie.backends.registry import canonical
from magpie.frontend.graph.lower.target import Target
from magpie.records import replaced

__all__ = ["named", "target_of"]

# Tiles of the cpu: 16 accumulators of a vector leave half of AVX-512's registers, and with 16 lanes AVX2 splits each.
_TARGETS: dict[str, Target] = {
    "cpu": Target(rows=8, columns=2, lanes=16, fused=True, subgroup=16, group=256),
    "interp": Target(subgroup=16, group=256),
    "ptx": Target(block=16, fused=True, subgroup=32),
    "hip": Target(block=16, fused=True, subgroup=32),
    "tgpu": Target(flat=True, staged=True),
}


def named(target: str) -> str:
    """The backend of a target by any of its names; ``gpu`` is tiny-gpu, as the specification of tinyc has it."""
    return "tgpu" if target == "gpu" else canonical(target)


def target_of(backend: str, opt: int) -> Target:
    """The layout for a backend at a level; below 2 there are no tiles."""
    found = _TARGETS.get(canonical(backend), Target(block=16))
    return found if opt >= 2 else replaced(found, lanes=0, block=0, staged=False)
