"""AMD architectures: what differs between them for the code of a kernel."""

from __future__ import annotations

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.records import record

__all__ = ["ARCHS", "DEFAULT", "LDS", "WAVE64", "Arch", "arch"]

#: Bytes of local data share that a workgroup may have, on every architecture.
LDS = 64 * 1024

#: The capability that selects waves of 64 where an architecture has both sizes.
WAVE64 = "hip.wave64"


@record
class Arch:
    """One architecture. ``generation`` is 9 for GCN and CDNA, 10 to 12 for RDNA; ``waves`` its own wave size first."""

    name: str
    generation: int

    @property
    def waves(self) -> tuple[int, ...]:
        return (64,) if self.generation == 9 else (32, 64)


_GENERATIONS = {
    9: ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"),
    10: ("gfx1030", "gfx1031", "gfx1032", "gfx1034", "gfx1035", "gfx1036"),
    11: ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"),
    12: ("gfx1200", "gfx1201"),
}
ARCHS: dict[str, Arch] = {name: Arch(name, n) for n, names in _GENERATIONS.items() for name in names}

#: What is compiled for where neither a device nor `arch=` says more.
DEFAULT = "gfx1030"


def arch(name: str) -> Arch:
    """The architecture called `gfx1100`; empty for the default one. Raises CompileError for one that is not known.

    What a device adds to its name (``gfx90a:sramecc+:xnack-``) changes nothing: code runs with these on or off.
    """
    found = ARCHS.get(name.partition(":")[0] or DEFAULT)
    if found is None:
        raise CompileError(
            [
                Diagnostic(
                    "MPG_HIP_2002",
                    f"there is no code for the architecture {name!r}",
                    help=f"it is one of {', '.join(ARCHS)}",
                )
            ]
        )
    return found
