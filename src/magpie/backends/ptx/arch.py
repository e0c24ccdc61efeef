"""CUDA architectures: which PTX version each needs, and what it gives a kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.records import record

if TYPE_CHECKING:
    from magpie.ir.nodes import Kernel

__all__ = ["ARCHS", "DEFAULT", "STATIC_SHARED", "TENSOR_CORES", "Arch", "arch", "missing_features"]

#: Bytes of shared memory that any kernel may have; more is asked for at launch.
STATIC_SHARED = 48 * 1024

#: Capability -> the first architecture that has instructions for it (PTX ISA, "fma" of half precision). On older ones
#: it is computed through other types.
FIRST = {"bf16": 80}

#: The first architecture whose tensor cores `mp.mma` uses, and that has `cp.async`.
TENSOR_CORES = 80


@record
class Arch:
    """One architecture. `ptx` is the oldest PTX version that knows it, as 10 * major + minor.

    `shared` is the most bytes of shared memory that a launch can ask for (CUDA programming guide, table of technical
    specifications, 1 KB less than a multiprocessor has from sm_80 on).
    """

    name: str
    ptx: int
    shared: int

    @property
    def number(self) -> int:
        """70 for sm_70."""
        return int(re.sub(r"\D", "", self.name))


ARCHS: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm_70", 60, 96 * 1024),
        Arch("sm_72", 61, 96 * 1024),
        Arch("sm_75", 63, 64 * 1024),
        Arch("sm_80", 70, 163 * 1024),
        Arch("sm_86", 71, 99 * 1024),
        Arch("sm_87", 74, 163 * 1024),
        Arch("sm_89", 78, 99 * 1024),
        Arch("sm_90", 78, 227 * 1024),
        Arch("sm_100", 86, 227 * 1024),
        Arch("sm_120", 87, 99 * 1024),
    )
}

#: What is compiled for where neither a device nor `arch=` says more: PTX for it runs on everything after it.
DEFAULT = "sm_70"


def arch(name: str) -> Arch:
    """The architecture called `sm_90`; empty for the default one. Raises CompileError for one that is not known."""
    found = ARCHS.get(name or DEFAULT)
    if found is None:
        raise CompileError(
            [
                Diagnostic(
                    "MPG_PTX_2002",
                    f"there is no code for the architecture {name!r}",
                    help=f"it is one of {', '.join(ARCHS)}",
                )
            ]
        )
    return found


def nearest(major: int, minor: int) -> Arch:
    """The newest known architecture whose code runs on a device of this compute capability."""
    wanted = 10 * major + minor
    return max((a for a in ARCHS.values() if a.number <= wanted), key=lambda a: a.number, default=ARCHS[DEFAULT])


def missing_features(kernel: Kernel, target: Arch) -> list[Diagnostic]:
    """MPG_PTX_2003 for each feature of a kernel that an architecture is too old for, at the first place that has it."""
    from magpie.passes.capabilities import needs

    return [
        Diagnostic(
            "MPG_PTX_2003",
            f"{what} has instructions from sm_{FIRST[name]} on; on {target.name} it is computed through f32",
            node.loc or kernel.loc,
            help=f"compile for sm_{FIRST[name]} or newer, or use f16 or f32",
        )
        for node, name, what in needs(kernel)
        if target.number < FIRST.get(name, 0)
    ]
