"""The table of what host programs call and this package implements: operations, and functions of other modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from magpie.mpir.nodes import Instr
from magpie.mpir.types import Ty

if TYPE_CHECKING:
    from magpie.host.program import Program

__all__ = ["BUILTINS", "Builtin", "Call", "builtin"]

#: Takes the call and the operands by their names, and gives a value. It raises `magpie.host.panics.Panic`.
Builtin = Callable[..., Any]
BUILTINS: dict[str, Builtin] = {}

_B = TypeVar("_B", bound=Builtin)


class Call:
    """One place of a program that calls a builtin: made once, when its function is prepared. ``types`` are those of the
    operands by name, ``type`` that of the result, None where nothing takes it."""

    __slots__ = ("instr", "program", "type", "types")

    def __init__(self, program: Program, instr: Instr, types: dict[str, Ty | None]) -> None:
        self.program = program
        self.instr = instr
        self.types = types
        self.type = instr.type


def builtin(*names: str) -> Callable[[_B], _B]:
    """Register a function under full names: ``arr.len``, ``std.io.@println``."""

    def register(function: _B) -> _B:
        for name in names:
            assert name not in BUILTINS
            BUILTINS[name] = function
        return function

    return register
