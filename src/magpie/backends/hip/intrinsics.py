"""The intrinsics that AMDGPU selects on every architecture that we compile for, and no others.

LLVM ends the process for an intrinsic that a target cannot select (RULES, DESIGN 4), so a name that is not listed here
never reaches it. tests/unit/test_hip.py compiles each of them for every architecture that has it.
"""

from __future__ import annotations

from collections.abc import Iterable

from magpie.backends.llvm.intrinsics import OVERLOADED, types_of

__all__ = ["NEWER", "PLAIN", "unknown"]

#: Those of AMDGPU, without the prefix llvm.amdgcn.
PLAIN = frozenset(
    [
        *(f"{what}.id.{dim}" for what in ("workitem", "workgroup") for dim in "xyz"),
        "implicitarg.ptr",
        "s.barrier",
        "wave.barrier",
        "mbcnt.lo",
        "mbcnt.hi",
        "ballot.i32",
        "ballot.i64",
        "readfirstlane.i32",
        "readlane.i32",
        "ds.bpermute",
        "ds.swizzle",
        "update.dpp.i32",
        "exp2.f32",
        "log.f32",
        "sin.f32",
        "cos.f32",
    ]
)

#: Those that need a newer architecture, with its generation.
NEWER = {"permlanex16.i32": 10, "permlane64.i32": 11}


def unknown(names: Iterable[str], generation: int) -> list[str]:
    """Those of ``names`` that architectures of this generation have no code for."""
    return [name for name in names if not _known(name, generation)]


def _known(name: str, generation: int) -> bool:
    rest = name.removeprefix("llvm.amdgcn.")
    if rest != name:
        return rest in PLAIN or NEWER.get(rest, 1 << 30) <= generation
    kind, types = types_of(name)
    return types in OVERLOADED.get(kind, ())
