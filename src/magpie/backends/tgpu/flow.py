"""The control flow of a program: where each instruction leads, what every way passes, and what the cheapest costs."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from magpie.backends.tgpu.isa import Program

__all__ = ["Flow"]


class Flow:
    """Successors of each address as (address, is it a taken branch); the end is the address behind the last."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.end = len(program)
        self.next: list[list[tuple[int, bool]]] = []
        for pc, instruction in enumerate(program.instructions):
            ways = [] if instruction.op == "JMP" else [(pc + 1, False)]
            if instruction.row.kind == "branch":
                target = program.target(instruction)
                # A branch to itself falls through.
                ways.append((pc + 1, False) if target == pc else (target, True))
            self.next.append(sorted(set(ways)))
        self._meetings: dict[int, int] | None = None

    def meeting(self, pc: int) -> int:
        """The first address that all ways from an instruction to the end pass: its immediate postdominator."""
        if self._meetings is None:
            self._meetings = self._postdominators()
        return self._meetings[pc]

    def _postdominators(self) -> dict[int, int]:
        """Dominators of the reversed graph; where no way leads to the end, the end."""
        from magpie.mpir.cfg import dominators

        reversed_: dict[int, list[int]] = {pc: [] for pc in range(self.end + 1)}
        for pc, ways in enumerate(self.next):
            for way, _ in ways:
                reversed_[way].append(pc)
        return dict.fromkeys(range(self.end), self.end) | dominators(reversed_, self.end)

    def region(self, pc: int, stop: int) -> set[int]:
        """The addresses that a thread may come to behind ``pc`` and before ``stop``."""
        found: set[int] = set()
        todo = [way for way, _ in self.next[pc]]
        while todo:
            at = todo.pop()
            if at not in found and at not in (stop, self.end):
                found.add(at)
                todo += [way for way, _ in self.next[at]]
        return found

    def cheapest(self, pc: int, stop: int, cost: Callable[[int], int], taken: int) -> int:
        """The least cost of the ways from behind ``pc`` to ``stop``: that of instructions, and of each taken branch."""
        best: dict[int, int] = {}
        heap = [(taken * is_taken, way) for way, is_taken in (self.next[pc] if pc >= 0 else [(0, False)])]
        heapq.heapify(heap)
        while heap:
            spent, at = heapq.heappop(heap)
            if at in best:
                continue
            best[at] = spent
            if at in (stop, self.end):
                return spent
            for way, is_taken in self.next[at]:
                heapq.heappush(heap, (spent + cost(at) + taken * is_taken, way))
        return 0
