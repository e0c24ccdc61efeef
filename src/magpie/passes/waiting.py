"""Loops that can only end if another work-item writes memory, and that look at it by plain loads (RULES 11).

A compiler may read such a location once and loop for ever, and a device need not make a plain store visible. Waiting
takes `atomic_load`.
"""

from __future__ import annotations

from magpie.diagnostics import Diagnostic
from magpie.ir.nodes import Array, Kernel, Node, Slot, walk
from magpie.ir.ops import Effect

__all__ = ["check_waiting"]


def check_waiting(kernel: Kernel) -> list[Diagnostic]:
    """MPG_CORE_1402 for each loop of a kernel without calls whose exits depend on nothing but plain loads."""
    found = []
    for node in walk(kernel.body):
        if node.op == "loop":
            load = _Loop(node).waits_on()
            if load is not None:
                found.append(_warning(node, load))
    return found


class _Loop:
    """What changes from trip to trip of one loop."""

    def __init__(self, loop: Node) -> None:
        self.loop = loop
        self.inside: set[Node] = set()
        self.sets: dict[Slot, list[Node]] = {}
        self.stored: set[Array] = set()
        self.synchronises = False
        for region in loop.regions:
            for node in walk(region):
                self.inside.add(node)
                effect = node.info.effect
                if node.op == "slot_set":
                    self.sets.setdefault(node.attrs["slot"], []).append(node)
                elif effect is Effect.WRITE and "array" in node.attrs:  # memory of malloc is nobody else's
                    self.stored.add(node.attrs["array"])
                elif effect in (Effect.ATOMIC, Effect.SYNC, Effect.CROSS_LANE):
                    self.synchronises = True

    def waits_on(self) -> Node | None:
        """A plain load that every way out of the loop rests on, if nothing else decides."""
        if self.synchronises:
            return None
        conditions = self._exit_conditions()
        if conditions is None:
            return None
        loads: list[Node] = []
        return loads[0] if self._only_loads(conditions, loads) and loads else None

    def _exit_conditions(self) -> list[Node] | None:
        """The conditions under which work-items leave; None where one leaves in any case."""
        result: list[Node] = []

        def visit(region: list[Node], around: list[Node], nested: bool) -> bool:
            for node in region:
                leaves = node.op == "return" or (node.op in ("break", "break_if") and not nested)
                if leaves:
                    own = [*around, *node.args] if node.op == "break_if" else around
                    if not own:
                        return False
                    result.extend(own)
                inner = [*around, node.args[0]] if node.op == "if" else around
                if not all(visit(r, inner, nested or node.op == "loop") for r in node.regions):
                    return False
            return True

        return result if all(visit(r, [], False) for r in self.loop.regions) else None

    def _only_loads(self, values: list[Node], loads: list[Node]) -> bool:
        """Whether only plain loads of memory that this loop does not store can change ``values`` between trips; these
        go to ``loads``. Values and slots are looked at once each, what they are made of first."""
        rests: dict[Node | Slot, bool] = {}  # whether what was looked at rests on a load
        open_: set[Node | Slot] = set()
        stack: list[Node | Slot] = list(reversed(values))
        while stack:
            at = stack[-1]
            if at in rests:
                stack.pop()
                continue
            made_of = self._made_of(at)
            if at not in open_:
                if isinstance(at, Node) and at.op == "load" and at in self.inside:
                    array = at.attrs["array"]
                    if array in self.stored or array.space not in ("buffer", "shared"):
                        return False
                if any(x in open_ for x in made_of):
                    return False  # it depends on itself: a counter
                open_.add(at)
                stack += reversed(made_of)
                continue
            stack.pop()
            open_.remove(at)
            rests[at] = any(rests[x] for x in made_of)
            if isinstance(at, Node) and at.op == "load" and at in self.inside:
                if rests[at]:
                    return False  # an address that moves is a search, not a wait
                rests[at] = True
                loads.append(at)
        return True

    def _made_of(self, at: Node | Slot) -> list[Node | Slot]:
        if isinstance(at, Slot):
            return [s.args[0] for s in self.sets.get(at, ())]
        if at not in self.inside:
            return []
        return [at.attrs["slot"]] if at.op == "slot_get" else list(at.args)


def _warning(loop: Node, load: Node) -> Diagnostic:
    name = load.attrs["array"].name
    return Diagnostic(
        "MPG_CORE_1402",
        f"this loop ends only when another work-item writes `{name}`, which it reads by a plain load",
        loop.loc,
        ((f"`{name}` is read here", load.loc),),
        f"read it with `mp.atomic_load({name}, ...)`, and write it with an atomic or behind a fence",
    )
