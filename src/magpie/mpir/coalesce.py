"""Which phis of a function share a slot, so that values stay where they are when control goes on.

A variable of a program becomes many phis, and each way into a block with one would set it, even where it is what the
variable holds anyway. Where some work-items go on early (`continue`), such a set stands where others do not come to,
and looks as if the variable differed between them from then on. So phis that give each other their values share one
slot, and a way that finds the value in it sets nothing. What a slot holds at the end of a block follows from what it
holds at the end of those before it, and from the ways between. A value that is computed for a phi is put into the slot
at once.

Sharing is always right: a phi is read at the start of its block, and every way there sets the slot, or is known to find
the value. Only two phis of one block need two slots.
"""

from __future__ import annotations

from collections.abc import Mapping

from magpie.mpir.cfg import reverse_postorder
from magpie.mpir.nodes import Block, Function, Operand, Var, targets

__all__ = ["Shared", "share"]

_Held = dict[str, str]  # of each slot the value that it holds


class Shared:
    """``slots`` has the name of the slot of each phi, ``early`` the slot that a computed value is put into at once, and
    ``there`` the ways, from block to phi, on which the value is in the slot already."""

    def __init__(self, slots: dict[str, str]) -> None:
        self.slots = slots
        self.early: dict[str, str] = {}
        self.there: set[tuple[str, str]] = set()


def share(function: Function) -> Shared:
    """Slots for the phis of a function; one for each where no barrier stands in it, and nothing is gained."""
    phis = [(b, p) for b in function.blocks for p in b.phis]
    found = Shared({p.result: p.result for _, p in phis})
    if phis and any(i.op in ("gpu.barrier", "gpu.grid_sync") for b in function.blocks for i in b.instrs):
        found.slots = _classes(function)
        found.early = _early(function, found.slots)
        _find_there(function, found)
    return found


def _classes(function: Function) -> dict[str, str]:
    """The phis that give each other their values, by the first of them; no two are of one block."""
    parent = {p.result: p.result for b in function.blocks for p in b.phis}
    blocks = {p.result: {b.label} for b in function.blocks for p in b.phis}
    types = {p.result: p.type for b in function.blocks for p in b.phis}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for block in function.blocks:
        for phi in block.phis:
            for _, value in phi.incoming:
                if isinstance(value, Var) and value.name in parent and types[value.name] == phi.type:
                    a, b = root(phi.result), root(value.name)
                    if a != b and blocks[a].isdisjoint(blocks[b]):
                        parent[b] = a
                        blocks[a] |= blocks.pop(b)
    return {name: root(name) for name in parent}


def _early(function: Function, slots: Mapping[str, str]) -> dict[str, str]:
    """Computed values that one slot alone gets, where the way there is one of several."""
    wanted: dict[str, set[str]] = {}
    apart: set[str] = set()
    ends = {b.label: len(set(targets(b.term))) for b in function.blocks}
    made = {i.result: b.label for b in function.blocks for i in b.instrs if i.result is not None}
    for block in function.blocks:
        for phi in block.phis:
            for label, value in phi.incoming:
                if isinstance(value, Var) and value.name in made:
                    wanted.setdefault(value.name, set()).add(slots[phi.result])
                    if made[value.name] != label or ends[label] > 1:
                        apart.add(value.name)
    return {name: next(iter(wanted[name])) for name in apart if len(wanted[name]) == 1}


def _find_there(function: Function, found: Shared) -> None:
    blocks = {b.label: b for b in function.blocks}
    graph = {b.label: list(dict.fromkeys(targets(b.term))) for b in function.blocks}
    order = reverse_postorder(graph, function.blocks[0].label)
    before: dict[str, list[str]] = {label: [] for label in graph}
    for label in order:
        for to in graph[label]:
            before[to].append(label)
    ends: dict[str, _Held] = {}
    changed = True
    while changed:
        changed = False
        for label in order:
            held = _through(blocks[label], _meet([ends[p] for p in before[label] if p in ends]), found)
            if ends.get(label) != held:
                ends[label] = held
                changed = True
    for label in order:
        for phi in blocks[label].phis:
            for p, value in phi.incoming:
                if p in ends and _name(value) is not None and ends[p].get(found.slots[phi.result]) == _name(value):
                    found.there.add((p, phi.result))


def _meet(several: list[_Held]) -> _Held:
    """What all agree on."""
    if not several:
        return {}
    return {slot: value for slot, value in several[0].items() if all(o.get(slot) == value for o in several[1:])}


def _through(block: Block, held: _Held, found: Shared) -> _Held:
    held |= {found.slots[p.result]: p.result for p in block.phis}
    held |= {found.early[i.result]: i.result for i in block.instrs if i.result in found.early}
    return held


def _name(value: Operand) -> str | None:
    return value.name if isinstance(value, Var) else None
