"""What a kernel needs that a profile does not have: found before code is made for it, and before code is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from magpie.backends.spirv.profile import FEATURES, Profile
from magpie.records import replaced

if TYPE_CHECKING:
    from magpie.backends.base import Manifest
    from magpie.diagnostics import Diagnostic
    from magpie.ir.nodes import Kernel

__all__ = ["CAPABILITIES", "check_profile", "lacking", "refusal"]

#: Capability of a kernel -> what a profile must have for it: one feature of each of these groups.
CAPABILITIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "f64": (("f64",),),
    "atomics_int64": (("atomic_i64",),),
    "atomics_f64": (("f64",), ("atomic_i64",)),
    "subgroups": (("subgroups",),),
    "subgroups_varying": (("subgroups",), ("reconverge", "lockstep")),
    "denormals": (("denorm32",),),
    "nonfinite": (("szinp32",),),
    "vulkan.cooperative_matrix": (("coopmat",),),
}


def lacking(profile: Profile) -> frozenset[str]:
    """The capabilities that a device of this profile does not have, of those that some devices have."""
    return frozenset(
        name
        for name, groups in CAPABILITIES.items()
        if not all(any(feature in profile for feature in group) for group in groups)
    )


def check_profile(kernel: Kernel, profile: Profile, manifest: Manifest) -> list[Diagnostic]:
    """MPG_CORE_1200 for each thing in a kernel that devices of a profile cannot do, at its place."""
    from magpie.ir.nodes import walk
    from magpie.ir.ops import Effect
    from magpie.passes.capabilities import missing_capabilities

    lacks = lacking(profile)
    less = replaced(manifest, capabilities=manifest.capabilities - lacks)
    found = missing_capabilities(kernel, less, f"the profile {profile.text}", _advice(lacks))
    if found or "subgroups_varying" not in lacks:
        return found
    nodes = (n for body in kernel.bodies() for n in walk(body))
    if any(n.info.effect is Effect.CROSS_LANE or n.op == "subgroup_barrier" for n in nodes):
        from magpie.passes import prepare
        from magpie.passes.varying_subgroups import check_varying

        return check_varying(prepare(kernel), f"the profile {profile.text}", profile.subgroup_size)
    return found


def _advice(lacks: Iterable[str]) -> dict[str, str]:
    """For each capability that is lacking, which features of a profile give it."""
    return {
        name: "devices with "
        + " and ".join(" or ".join(f"{f} ({FEATURES[f]})" for f in group) for group in CAPABILITIES[name])
        + " have it: name them in arch= if yours does"
        for name in lacks
    }


def refusal(needs: Iterable[str], profile: Profile) -> str:
    """Why code that needs these features cannot run on a device of this profile; empty where it can."""
    missing = profile.missing(needs)
    return ", ".join(
        f"{name} ({FEATURES[name]})" if name in FEATURES else f"subgroups of {name.removeprefix('sg')}"
        for name in missing
    )
