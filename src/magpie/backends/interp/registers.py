"""Which register of a frame holds which value: constants, slots and arrays for good, other values while they live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.ir.nodes import Array, Kernel, Node, Region, Slot

__all__ = ["Registers"]

_Place = tuple[int, int]  # (number of a region, position in it)


class Registers:
    """Hands out registers. A temporary one is reused after the last use of its value, so that memory stays in cache."""

    def __init__(self, kernel: Kernel) -> None:
        self.initial: list[Any] = []
        self._of: dict[Node, int] = {}
        self._slots: dict[Slot, int] = {}
        self._arrays: dict[tuple[Array, tuple[int, ...] | None], int] = {}
        self._free: list[int] = []
        self.numbers, self._last, self._temporary = _last_uses(kernel.body)

    def permanent(self, value: Any = None) -> int:
        """A register of its own that starts as ``value``."""
        self.initial.append(value)
        return len(self.initial) - 1

    def hold(self, node: Node, register: int) -> None:
        """``node`` lives in a permanent register."""
        self._of[node] = register

    def of(self, node: Node) -> int:
        """Where the value of ``node`` is."""
        return self._of[node]

    def slot(self, slot: Slot, initial: Callable[[Slot], Any]) -> int:
        """The register of a slot."""
        if slot not in self._slots:
            self._slots[slot] = self.permanent(initial(slot))
        return self._slots[slot]

    @property
    def slots(self) -> dict[Slot, int]:
        """Every slot that the kernel uses."""
        return self._slots

    def array(self, array: Array, field: tuple[int, ...] | None) -> int:
        """The register of the window of an array, or of one leaf of its elements."""
        key = (array, tuple(field) if field else None)
        if key not in self._arrays:
            self._arrays[key] = self.permanent()
        return self._arrays[key]

    @property
    def arrays(self) -> dict[tuple[Array, tuple[int, ...] | None], int]:
        """Every window that the kernel uses."""
        return self._arrays

    def release(self, place: _Place) -> None:
        """Values whose last use is at ``place`` die."""
        for node in self._last.get(place, ()):
            register = self._of.get(node)
            if register is not None:
                self._free.append(register)

    def make(self, node: Node) -> int:
        """A register for the result of ``node``."""
        if node not in self._temporary:
            register = self.permanent()
        elif self._free:
            register = self._free.pop()
        else:
            register = self.permanent()
        self._of[node] = register
        return register


_LEAVES = frozenset(
    """const param thread_id workgroup_id workgroup_size num_workgroups global_id linear_local_id subgroup_size
    subgroup_lane subgroup_id subgroup_count extent stride""".split()  # noqa: SIM905 - a list of words reads best as words
)


def _last_uses(body: Region) -> tuple[dict[int, int], dict[_Place, list[Node]], set[Node]]:
    """A number for each region, by identity; the values last used at each place; those that may share registers."""
    home: dict[Node, _Place] = {}
    parent: dict[int, _Place] = {}
    last: dict[Node, int] = {}
    pending: list[tuple[int, Region]] = [(0, body)]
    order: list[tuple[int, Region]] = []
    numbers = {id(body): 0}
    counter = 0
    while pending:
        number, region = pending.pop()
        order.append((number, region))
        for position, node in enumerate(region):
            home[node] = (number, position)
            if node.type is not None and node.op not in _LEAVES:
                last[node] = position
            for inner in node.regions:
                counter += 1
                parent[counter] = (number, position)
                numbers[id(inner)] = counter
                pending.append((counter, inner))
    for number, region in order:
        for position, node in enumerate(region):
            for arg in node.args:
                if arg not in last:
                    continue
                at, where = number, position
                target = home[arg][0]
                while at != target:
                    at, where = parent[at]
                last[arg] = max(last[arg], where)
    places: dict[_Place, list[Node]] = {}
    for node, position in last.items():
        places.setdefault((home[node][0], position), []).append(node)
    return numbers, places, set(last)
