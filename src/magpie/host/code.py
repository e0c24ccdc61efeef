"""What a prepared function is: stretches of steps, each with the way on from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.mpir.nodes import Instr, Module, Phi, Term
from magpie.mpir.types import Ty

__all__ = ["CALL", "CHOOSE", "GO", "INDIRECT", "RETURN", "YIELD", "Code", "Stretch"]

#: The ways on from a stretch: to ``next``; to what ``choose`` gives; into ``function``, and then on; into what the
#: callable in ``callee`` names; back to the caller with ``value``; into what the generator ``start`` asks for.
GO, CHOOSE, CALL, INDIRECT, RETURN, YIELD = range(6)


class Stretch:
    """Steps that run one behind the other: (slot of the result, step). ``items`` are what they were made from, ``at``
    the instruction or terminator at the end. After a call ``slot`` takes its value, and ``next`` goes on."""

    __slots__ = (
        "at",
        "callee",
        "choose",
        "code",
        "function",
        "inputs",
        "items",
        "next",
        "slot",
        "start",
        "steps",
        "way",
    )

    def __init__(self, code: Code) -> None:
        self.code = code
        self.steps: list[tuple[int, Callable[[list[Any]], Any]]] = []
        self.items: list[Instr | Phi | Term] = []
        self.way = GO
        self.at: Instr | Term | None = None
        self.next: Stretch = self
        self.choose: Callable[[list[Any]], Stretch] = lambda frame: self.next
        self.function: Code = code
        self.inputs: tuple[int, ...] = ()
        self.callee = 0
        self.slot = 0
        self.start: Callable[[list[Any]], Any] = lambda frame: None

    def add(self, slot: int, step: Callable[[list[Any]], Any], item: Instr | Phi | Term) -> None:
        self.steps.append((slot, step))
        self.items.append(item)


class Code:
    """A function by its name. ``prepare`` fills ``entry`` and ``template``, the frame that a call begins with: the
    parameters stand in its first slots, constants in the last. ``slots`` and ``types`` are the places and the types of
    its values by name."""

    __slots__ = ("count", "entry", "module", "name", "prepare", "slots", "template", "types")

    def __init__(self, module: Module, name: str, count: int, prepare: Callable[[Code], None]) -> None:
        self.module = module
        self.name = name
        self.count = count  # of parameters
        self.prepare = prepare
        self.entry: Stretch | None = None
        self.template: list[Any] = []
        self.slots: dict[str, int] = {}
        self.types: dict[str, Ty] = {}
