"""A module that runs: its functions, prepared once each, and what they share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from magpie.host import (  # noqa: F401  # each registers what it implements
    arrays,
    casts,
    floats,
    gpu,
    gpu_buffers,
    integers,
    launch,
    maps,
    mathematics,
    mlx,
    objects,
    output,
    pointers,
    profile,
    strings,
    system,
)
from magpie.host.code import Code
from magpie.host.constants import global_value
from magpie.host.machine import resolve, run
from magpie.host.output import OutputError, error, flush
from magpie.host.panics import INTERRUPTED, PANICKED, PIPE_CLOSED, Panic
from magpie.host.prepare import prepare
from magpie.host.text import display
from magpie.host.values import EnumValue, StructValue
from magpie.mpir.nodes import Module

__all__ = ["Program"]


class Program:
    """The host program of a checked module. ``argv`` is what `std.env.@args` gives."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions = {f.name: f for f in module.functions}
        self.constants = {g.name: g for g in module.globals}
        self.argv: list[str] = []
        self.globals: dict[str, Any] = {}
        self.codes = {
            f.name: Code(module, f.name, len(f.params), self.prepare) for f in module.functions if f.gpu_meta is None
        }

    def prepare(self, code: Code) -> None:
        """Make a function ready to run; done when it is first called."""
        prepare(self, self.functions[code.name], code)

    def glob(self, name: str) -> Any:
        """The value of a global; what is on the heap is one object."""
        if name not in self.globals:
            found = self.constants[name]
            self.globals[name] = global_value(found.value, found.type)
        return self.globals[name]

    def call(self, name: str, arguments: Sequence[Any] = ()) -> Any:
        """What a function gives for values as `magpie.host.values` describes them.

        Raises Panic, and TypeError for another number of arguments than it has parameters.
        """
        wanted = self.codes[name].count
        if len(arguments) != wanted:
            raise TypeError(f"@{name} takes {wanted} arguments, and {len(arguments)} were given")
        return run(self.codes, self.codes[name], arguments)

    def invoke(self, callee: Any, arguments: Sequence[Any]) -> Any:
        """What a callable gives. Raises Panic."""
        return run(self.codes, *resolve(self.codes, callee, arguments))

    def main(self, argv: Sequence[str] = ()) -> int:
        """Run `@main`; gives the exit status of the process.

        That is the value of `@main` (unit: 0), or the Ok of its TResult; an Err is shown and gives 1. A panic is shown
        and gives 101, Ctrl-C 130, and 141 means that nobody reads the output any more. One that cannot be written is
        an error as well.
        """
        self.argv = list(argv)
        try:
            try:
                status = self.status(self.call("main"))
            except Panic as panic:
                error(f"{panic}\n")
                status = PANICKED
            except KeyboardInterrupt:
                error("interrupted\n")
                status = INTERRUPTED
            flush()
        except BrokenPipeError:
            _close_output()
            return PIPE_CLOSED
        except OutputError as lost:
            _close_output()
            with suppress(OutputError, BrokenPipeError):  # standard error may be what is lost
                error(f"error: {lost}\n")
            return 1
        return status

    def status(self, value: Any) -> int:
        """The exit status for a value of `@main`."""
        if isinstance(value, EnumValue) and value.type.name == "TResult":
            if value.tag:
                error(f"error: {self.message(value.fields[0])}\n")
                return 1
            value = value.fields[0] if value.fields else None
        return value if isinstance(value, int) else 0

    def message(self, value: Any) -> str:
        """What an error says: its field ``message`` where it has one, and a Str as it is."""
        found = value.fields.get("message") if isinstance(value, StructValue) else value
        return found if isinstance(found, str) else display(value, None, self.module)


def _close_output() -> None:
    """Let Python's own flush at exit write nowhere."""
    import os

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
