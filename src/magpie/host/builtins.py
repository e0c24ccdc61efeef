"""The table of what host programs call and this package implements: operations, and functions of other modules.

A builtin is a function with the operands by their names, behind the `Call`:

    @builtin("arr.get")
    def get(call: Call, arr: ArrayValue, idx: int) -> Any: ...

Operands that may be left out have defaults; one that takes any names (``arr.new { v0=, v1= }``) ends in ``**kwargs``;
an operand whose name Python keeps for itself gets an underscore (``with_``). A bare name comes as a str, a list as a
tuple, ``@f`` as a `CallableValue` that captures nothing, other values as `magpie.host.values` says. What it returns is
the value, None for unit. It raises `call.panic(text)` where the program cannot go on; an error that the program may
handle is a TResult: ``call.ok(value)``, ``call.err(error)``; a TOption is ``call.some(value)`` or ``call.none()``.

A builtin that calls back is a generator: it yields ``(callable, arguments)``, is sent what that gives, and returns its
own value. So user functions nest as deep through `arr.map` as by themselves. `call.invoke` calls back at once, for code
that cannot be a generator; it nests less deep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from magpie.host.panics import Panic
from magpie.host.values import EnumValue, err, ok
from magpie.mpir.nodes import Instr
from magpie.mpir.types import UNIT, Ty

if TYPE_CHECKING:
    from magpie.host.program import Program

__all__ = ["BUILTINS", "OPERATIONS", "Builtin", "Call", "Site", "Step", "builtin", "operation"]

Builtin = Callable[..., Any]
BUILTINS: dict[str, Builtin] = {}

#: What an instruction is when its function is prepared: it takes the frame, and gives the value of the result.
Step = Callable[[list[Any]], Any]

_B = TypeVar("_B", bound=Builtin)
_M = TypeVar("_M", bound=Callable[["Site"], Step])


class Call:
    """One place of a program that calls a builtin: made once, when its function is prepared. ``types`` are those of the
    operands by name, ``type`` that of the result, None where nothing takes it."""

    __slots__ = ("instr", "program", "type", "types")

    def __init__(self, program: Program, instr: Instr, types: dict[str, Ty | None]) -> None:
        self.program = program
        self.instr = instr
        self.types = types
        self.type = instr.type

    def panic(self, text: str) -> Panic:
        """What to raise where the program cannot go on; the place and the operands are added to it."""
        return Panic(text)

    def ok(self, value: Any = None) -> EnumValue:
        """``value`` as the Ok of the result's type."""
        return ok(self.type or UNIT, value)

    def err(self, error: Any) -> EnumValue:
        """``error`` as the Err of the result's type."""
        return err(self.type or UNIT, error)

    def some(self, value: Any) -> EnumValue:
        """``value`` as the Some of the result's type, a TOption."""
        return EnumValue(self.type or UNIT, "Some", 0, (value,))

    def none(self) -> EnumValue:
        """The None of the result's type."""
        return EnumValue(self.type or UNIT, "None", 1)

    def invoke(self, function: Any, *arguments: Any) -> Any:
        """What a TCallable gives for these arguments."""
        return self.program.invoke(function, arguments)


class Site:
    """One instruction of a function that is being prepared: ``slots`` are the places of its operands in the frame by
    their names, ``types`` the types. ``type`` is that of the result."""

    __slots__ = ("instr", "program", "slots", "type", "types")

    def __init__(self, program: Program, instr: Instr, slots: dict[str, int], types: dict[str, Ty | None]) -> None:
        self.program = program
        self.instr = instr
        self.slots = slots
        self.types = types
        self.type = instr.type or UNIT

    def of(self, key: str) -> Ty:
        """The type of an operand that a checked program has."""
        found = self.types[key]
        assert found is not None
        return found


#: Operations that are prepared, not called: those that run often. Each makes its step.
OPERATIONS: dict[str, Callable[[Site], Step]] = {}


def builtin(*names: str) -> Callable[[_B], _B]:
    """Register a function under full names: ``arr.len``, ``std.io.@println``."""

    def register(function: _B) -> _B:
        for name in names:
            assert name not in BUILTINS
            BUILTINS[name] = function
        return function

    return register


def operation(*names: str) -> Callable[[_M], _M]:
    """Register what makes the step of an operation, under its names."""

    def register(make: _M) -> _M:
        for name in names:
            assert name not in OPERATIONS
            OPERATIONS[name] = make
        return make

    return register
