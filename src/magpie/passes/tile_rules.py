"""Whether the subgroups and workgroups of a kernel come to its tile operations as a whole."""

from __future__ import annotations

import math

from magpie.diagnostics import Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.ir.nodes import Kernel, Node, walk
from magpie.ir.tiles import TILE_OPS
from magpie.passes.uniformity import Level, Uniformity, analyse

__all__ = ["SUBGROUP", "check_tiles"]

#: Workgroups of a kernel with tiles are multiples of this, so that subgroups of any target but wave64 are whole.
SUBGROUP = 32

_NAMES = {
    "tile_fill": "mp.mma.zeros",
    "tile_load": "a load of a matrix tile",
    "tile_mma": "mp.mma",
    "tile_store": "mp.mma.store",
    "copy_async": "mp.copy_async",
}


def check_tiles(kernel: Kernel, subgroup: int = SUBGROUP) -> list[Diagnostic]:
    """MPG_CORE_1406 where some work-items of a subgroup (of a copy: of the workgroup) do not come to an operation, or
    come with another place than the others; MPG_CORE_1407 where the kernel does not say that its subgroups are whole.

    The kernel is one without calls. ``subgroup`` is the size of a subgroup that a target takes.
    """
    found = [n for n in walk(kernel.body) if n.op in _NAMES]
    if not found:
        return []
    result: list[Diagnostic] = []
    first = next((n for n in found if n.op in TILE_OPS), None)
    size = kernel.workgroup
    if first is not None and (size is None or math.prod(size) % subgroup):
        text = "does not declare its workgroup size" if size is None else f"has workgroups of {math.prod(size)}"
        result.append(
            Diagnostic(
                "MPG_CORE_1407",
                f"kernel {kernel.name!r} uses matrix tiles and {text}",
                first.loc,
                help=f"write @mp.kernel(workgroup=(n, 1, 1)) with a multiple of {subgroup}",
            )
        )
    uniformity = analyse(kernel, gang=subgroup)
    for node in found:
        most = Level.WORKGROUP if node.op == "copy_async" else Level.SUBGROUP
        if uniformity.control_level(node) > most:
            result.append(_divergent(node, most))
            continue
        bad = next((a for a in node.args if uniformity.level(a) > most), None)
        if bad is not None:
            result.append(_different(uniformity, node, bad, most))
    return [d for k, d in enumerate(result) if d not in result[:k]]


def _whole(most: Level) -> str:
    return "workgroup" if most is Level.WORKGROUP else "subgroup"


def _divergent(node: Node, most: Level) -> Diagnostic:
    return Diagnostic(
        "MPG_CORE_1406",
        f"only some work-items of a {_whole(most)} come to {_NAMES[node.op]}",
        node.loc,
        help="move it out of the branch or loop that depends on the work-item; `clip=True` leaves out what lies "
        "outside of an array",
    )


def _different(uniformity: Uniformity, node: Node, bad: Node, most: Level) -> Diagnostic:
    notes: list[tuple[str, Loc | None]] = [
        (f"it depends on {text}", loc) for text, loc in uniformity.reason(bad) if text != "this expression"
    ]
    return Diagnostic(
        "MPG_CORE_1406",
        f"the work-items of a {_whole(most)} give {_NAMES[node.op]} different operands",
        node.loc,
        tuple(notes),
        "use mp.workgroup_id and mp.subgroup.id() in place of mp.thread_id and mp.global_id"
        if most is Level.SUBGROUP
        else "a workgroup copies one block together: use mp.workgroup_id",
    )
