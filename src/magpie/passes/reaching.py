"""Reaching definitions of slots over structured control flow.

For each `slot_get`: which `slot_set`s its value can come from, and through which loop's back edge. None as a definition
is the zero that every slot starts with. The loop, if any, is the outermost one whose back edge the definition crossed,
which says whether the definition and the use belong to one trip (see `magpie.passes.uniformity`).
"""

from __future__ import annotations

from magpie.ir.nodes import Kernel, Node, Region, Slot

__all__ = ["Definition", "Reaching", "reaching_definitions"]

# (the slot_set or None, the loop whose back edge was crossed or None)
Definition = tuple[Node | None, Node | None]
Reaching = dict[Node, set[Definition]]

_State = dict[Slot, frozenset[Definition]]
_INITIAL: frozenset[Definition] = frozenset({(None, None)})


def _join(states: list[_State]) -> _State | None:
    """The union; None where no path arrives."""
    if not states:
        return None
    if len(states) == 1:
        return states[0]
    result: _State = {}
    for slot in {s for state in states for s in state}:
        first = states[0].get(slot, _INITIAL)
        joined = first
        for state in states[1:]:
            other = state.get(slot, _INITIAL)
            if other is not joined:
                joined = joined | other
        result[slot] = joined
    return result


class _Walk:
    def __init__(self) -> None:
        self.found: Reaching = {}
        self.breaks: list[list[_State]] = []
        self.continues: list[list[_State]] = []
        # loop -> how deep it is nested, and the slot_sets inside it
        self.depth: dict[Node, int] = {}
        self.inside: dict[Node, set[Node]] = {}

    def region(self, region: Region, state: _State | None) -> _State | None:
        for node in region:
            if state is None:
                return None
            op = node.op
            if op == "slot_get":
                self.found.setdefault(node, set()).update(state.get(node.attrs["slot"], _INITIAL))
            elif op == "slot_set":
                state = {**state, node.attrs["slot"]: frozenset({(node, None)})}
            elif op == "if":
                ends = [self.region(r, state) for r in node.regions]
                state = _join([e for e in ends if e is not None])
            elif op == "loop":
                state = self.loop(node, state)
            elif op == "break_if":
                self.breaks[-1].append(state)
            elif op == "break":
                self.breaks[-1].append(state)
                return None
            elif op == "continue":
                self.continues[-1].append(state)
                return None
            elif op == "return":
                return None
        return state

    def loop(self, node: Node, entry: _State) -> _State | None:
        if node not in self.inside:
            self.inside[node] = {n for r in node.regions for n in _sets(r)}
            self.depth[node] = len(self.breaks)
        state = entry
        while True:
            self.breaks.append([])
            self.continues.append([])
            end = self.region(node.regions[0], state)
            tails = self.continues[-1] + ([end] if end is not None else [])
            back = self.region(node.regions[1], _join(tails))
            exits = self.breaks.pop()
            self.continues.pop()
            merged = _join([entry, self.crossed(node, back)]) if back is not None else entry
            assert merged is not None
            if all(merged.get(s, _INITIAL) <= state.get(s, _INITIAL) for s in merged):
                return _join(exits)
            state = _join([state, merged]) or merged

    def crossed(self, loop: Node, state: _State) -> _State:
        """``state`` with this loop's back edge noted on what was defined inside the loop."""
        inside, depth = self.inside[loop], self.depth[loop]

        def mark(definition: Definition) -> Definition:
            node, over = definition
            if node not in inside or (over is not None and self.depth[over] <= depth):
                return definition
            return (node, loop)

        return {s: frozenset(mark(d) for d in defs) for s, defs in state.items()}


def _sets(region: Region) -> list[Node]:
    result: list[Node] = []
    stack = [region]
    while stack:
        for node in stack.pop():
            if node.op == "slot_set":
                result.append(node)
            stack.extend(node.regions)
    return result


def reaching_definitions(kernel: Kernel) -> Reaching:
    """For each `slot_get` of the kernel's body (calls inlined), the definitions that reach it."""
    walk = _Walk()
    walk.region(kernel.body, {})
    return walk.found
