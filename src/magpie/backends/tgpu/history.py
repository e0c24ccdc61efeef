"""What a run is shown by: where each thread stood in each cycle, and what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DONE", "RUNNING", "WAITING", "Cycle", "History"]

RUNNING, WAITING, DONE = 0, 1, 2


@dataclass(slots=True)
class Cycle:
    """One step of a launch. Arrays of int32 or int8.

    ``pc``: the address at which each thread began the step, the length of the program for those that had ended.
    ``executed``: how many instructions, one after the other, it executed from there on.
    ``state``: RUNNING, WAITING (it ended the step at a barrier) or DONE (it had ended before).
    ``registers``: changes as rows (register, thread, new value).  ``memory``: as rows (address, new value).
    ``shared``: as rows (block, address, new value).
    """

    pc: Any
    executed: Any
    state: Any
    registers: Any
    memory: Any
    shared: Any


@dataclass(slots=True)
class History:
    """The cycles of a launch in order, with registers, memory and shared memory as they were before the first."""

    registers: Any
    memory: Any
    shared: Any
    cycles: list[Cycle] = field(default_factory=list)

    def record(
        self, pc: Any, executed: Any, state: Any, before: tuple[Any, Any, Any], after: tuple[Any, Any, Any]
    ) -> None:
        """Append a step; ``before`` and ``after`` are registers, memory and shared memory [block, word]."""
        self.cycles.append(
            Cycle(pc, executed, state, *(_changes(old, new) for old, new in zip(before, after, strict=True)))
        )


def _changes(old: Any, new: Any) -> Any:
    """Rows (index..., new value) of the elements that differ."""
    import numpy as np

    at = np.nonzero(old != new)
    return np.stack([*at, new[at]], axis=1).astype(np.int32)
