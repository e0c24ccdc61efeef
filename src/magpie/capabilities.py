"""The one table of capabilities: what a kernel may need, and which target has it.

The names are those of the Magpie GPU specification (section 6.1 and appendix C) and a few more. Backends take their
manifests from here, the op table names what an op needs, `@mp.kernel(requires=...)` takes these names, and
docs/CAPABILITIES.md shows the table. Limits stand here as every device of a target has them; a device that is there
tells its own (`Device.max_shared_bytes` and so on).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from magpie.records import record

__all__ = [
    "CAPABILITIES",
    "LIMITS",
    "TARGETS",
    "Capability",
    "Limit",
    "cell",
    "close_names",
    "closure",
    "limits",
    "supported",
    "targets_with",
]

#: The columns. The specification has the first five.
TARGETS = ("spv", "msl", "ptx", "hip", "wgsl", "cpu", "interp", "tgpu")

#: What a cell says.
CELLS = {
    "yes": "every device has it",
    "ext": "a device has it if its driver has the extension",
    "soft": "Magpie computes it without hardware for it",
    "later": "the target has it, and Magpie has no code for it yet",
    "no": "the target does not have it",
}


@record
class Capability:
    """One row. ``cells`` has one of `CELLS` a target; ``declare``: a kernel that uses it must name it in `requires=`.

    ``implies`` are capabilities that a target with this one has too.
    """

    name: str
    doc: str
    cells: tuple[str, ...]
    declare: bool = False
    implies: tuple[str, ...] = ()


@record
class Limit:
    """One limit. ``query`` is the attribute of `mp.Device` that a device answers with.

    ``least`` is what every device of a target has, ``most`` what some have; None where the target has no such limit.
    """

    name: str
    doc: str
    query: str
    least: tuple[int | None, ...]
    most: tuple[int | None, ...]


CAPABILITIES: dict[str, Capability] = {}
LIMITS: dict[str, Limit] = {}


def _row(name: str, cells: str, doc: str, *, declare: bool = False, implies: str = "") -> None:
    row = Capability(name, doc, tuple(cells.split()), declare, tuple(implies.split()))
    assert len(row.cells) == len(TARGETS) and CELLS.keys() >= set(row.cells), name
    CAPABILITIES[name] = row


def _limit(name: str, query: str, least: list[int | None], doc: str, most: dict[str, int] | None = None) -> None:
    assert len(least) == len(TARGETS), name
    more = [(most or {}).get(t, n) for t, n in zip(TARGETS, least, strict=True)]
    LIMITS[name] = Limit(name, doc, query, tuple(least), tuple(more))


# fmt: off
# ruff: noqa: E501 - a row is a line
#                          spv   msl   ptx   hip   wgsl  cpu   interp tgpu
_row("buffers",           "yes   yes   yes   yes   yes   yes   yes    yes",   "Buffer load and store.")
_row("shared_memory",     "yes   yes   yes   yes   yes   yes   yes    yes",   "Memory of a workgroup.")
_row("barrier",           "yes   yes   yes   yes   yes   yes   yes    yes",   "Barriers of a workgroup.")
_row("atomics_int",       "yes   yes   yes   yes   yes   yes   yes    no",    "Atomics on integers.")
_row("atomics_int64",     "ext   no    yes   yes   no    yes   yes    no",    "Atomics on 64-bit integers.")
_row("atomics_f32",       "soft  yes   yes   yes   no    yes   yes    no",    "Atomics on f32.")
_row("atomics_f64",       "ext   no    yes   yes   no    yes   yes    no",    "Atomics on f64.")
_row("small_ints",        "yes   yes   yes   yes   soft  yes   yes    yes",    "8- and 16-bit integers, and arrays of them.")
_row("int64",             "yes   yes   yes   yes   no    yes   yes    no",    "64-bit integers.")
_row("f32",               "yes   yes   yes   yes   yes   yes   yes    no",    "The type f32, which only tiny-gpu lacks: it has integers of up to 32 bits.")
_row("f16_arithmetic",    "yes   yes   yes   yes   yes   yes   yes    no",    "The type f16.")
_row("bf16",              "soft  yes   yes   yes   no    yes   yes    no",    "The type bf16.")
_row("f64",               "ext   no    yes   yes   no    yes   yes    no",    "The type f64.")
_row("denormals",         "ext   no    yes   yes   no    yes   yes    no",    "Subnormal f32 are kept, where others may flush them to zero.")
_row("nonfinite",         "ext   yes   yes   yes   no    yes   yes    no",    "Infinities, NaN and the sign of zero are kept, where others may take numbers to be finite.")
_row("value_structs",     "yes   yes   yes   yes   no    yes   yes    no",    "Value structs in buffers.")
_row("subgroups",         "ext   yes   yes   yes   no    yes   yes    no",    "Operations across the work-items of a subgroup (warp, wave, SIMD group).")
_row("subgroups_varying", "ext   yes   yes   yes   no    yes   yes    no",    "Those operations where only some work-items of a subgroup come to them: a driver must promise that the others wait.")
_row("workgroup_order",   "ext   no    yes   yes   no    yes   yes    no",    "Workgroups start in the order of their numbers, so that one may wait for what those below it write.")
_row("checked",           "yes   yes   yes   yes   yes   yes   yes    no",    "Checks of bounds, assertions and divisions in the kernel, with the source line.")
_row("gangs",             "no    no    no    no    no    yes   no     no",    "A subgroup is a gang of lanes whose number a launch can choose.")
_row("device_malloc",     "no    no    yes   later no    yes   yes    no",    "`mp.malloc` and `mp.free`: memory from the device's heap.", declare=True)
_row("recursion",         "no    no    later later no    no    no     no",    "Device functions that call themselves.", declare=True)
_row("dynamic_parallelism", "no  no    later later no    no    no     no",    "Kernels that launch kernels.", declare=True)
_row("cooperative_groups", "no   no    yes   later no    no    yes    no",    "`mp.grid_sync`: a barrier of all work-items of a launch.", declare=True)
_row("cuda.tensor_cores", "no    no    yes   no    no    no    no     no",    "`mp.mma` on tensor cores, from sm_80 on; without this name it runs wherever there are subgroups.", declare=True)
_row("cuda.cooperative_launch", "no no yes   no    no    no    yes    no",    "Launches whose workgroups all run at once, as `mp.grid_sync` needs.", declare=True, implies="cooperative_groups")
_row("vulkan.cooperative_matrix", "ext no no no     no    no    no     no",    "`mp.mma` on cooperative matrices; without this name it runs wherever there are subgroups.", declare=True, implies="subgroups")
_row("hip.wave64",        "no    no    no    yes   no    no    no     no",    "Subgroups of 64 work-items on devices that run 32 otherwise.", declare=True, implies="subgroups")
_row("metal.simd_shuffle", "no   later no    no    no    soft  soft   no",    "Metal's shuffles.", declare=True, implies="subgroups")
_row("metal.simd_reduce", "no    later no    no    no    soft  soft   no",    "Metal's reductions across a SIMD group.", declare=True, implies="subgroups")
_row("metal.simd_prefix", "no    later no    no    no    soft  soft   no",    "Metal's prefix scans across a SIMD group.", declare=True, implies="subgroups")
_row("metal.imageblock",  "no    later no    no    no    no    no     no",    "Metal's imageblocks.", declare=True)
_row("metal.tile_memory", "no    later no    no    no    no    no     no",    "Metal's tile shader memory.", declare=True)

_K = 1024
#                                                  spv      msl      ptx      hip      wgsl     cpu           interp   tgpu
_limit("max_workgroup_size", "max_workgroup_size", [128,    1024,    1024,    1024,    256,     1024,         1024,    65536], "Most work-items of a workgroup.", most={"spv": 1024})
_limit("max_shared_bytes", "max_shared_bytes",     [16*_K,  32*_K,   48*_K,   64*_K,   16*_K,   64*_K*_K,     _K*_K,   _K*_K], "Most bytes of shared memory of a workgroup.", most={"spv": 64 * _K, "ptx": 227 * _K})
_limit("max_buffers", "max_buffers",               [None,   31,      None,    None,    8,       None,         None,    None], "Most arrays of a kernel.")
_limit("warp_size", "subgroup_size",               [None,   32,      32,      32,      None,    None,         None,    None], "Work-items of a subgroup; none: chosen by the device, the kernel or the launch.", most={"hip": 64})
# fmt: on


def cell(name: str, target: str) -> str:
    """What the table says of a capability on a target. Raises KeyError for a name that it does not have."""
    return CAPABILITIES[name].cells[TARGETS.index(target)]


def supported(target: str) -> frozenset[str]:
    """What Magpie can make code for on a target. A device may lack what is ``ext``: see `Device.capabilities`."""
    column = TARGETS.index(target)
    return frozenset(row.name for row in CAPABILITIES.values() if row.cells[column] not in ("no", "later"))


def limits(target: str) -> dict[str, Any]:
    """The limits that a manifest holds, as the largest device has them; those that the target lacks are left out."""
    column = TARGETS.index(target)
    found = {name: LIMITS[name].most[column] for name in ("max_workgroup_size", "max_shared_bytes", "max_buffers")}
    return {name: n for name, n in found.items() if n is not None}


def targets_with(name: str) -> tuple[str, ...]:
    """The targets that have a capability."""
    return tuple(t for t in TARGETS if cell(name, t) not in ("no", "later"))


def closure(names: Iterable[str]) -> frozenset[str]:
    """The capabilities and what they imply."""
    found = set(names)
    for name in tuple(found):
        found.update(CAPABILITIES[name].implies)
    return frozenset(found)


def close_names(name: str) -> list[str]:
    """The names of the table that look like this one, the closest first."""
    import difflib

    # By the last part too: who writes tensor_cores means cuda.tensor_cores.
    parts = {known.rpartition(".")[2]: known for known in CAPABILITIES}
    near = difflib.get_close_matches(name.rpartition(".")[2].lower(), parts, n=3, cutoff=0.6)
    return [parts[n] for n in near]
