"""What a specialisation read from outside of its function: closure cells and module globals.

Captured numbers are compiled in. Before a cached specialisation is reused, `changed` compares each name that was read
with what it is now; a list of a few identity tests, well below a microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType, ModuleType
from typing import Any

__all__ = ["Dependencies"]

_MISSING: Any = object()


class Dependencies:
    """The captured names of one kernel and of every device function that it calls."""

    __slots__ = ("_cells", "_names", "_seen", "_structs")

    def __init__(self) -> None:
        self._structs: list[tuple[Any, tuple[Any, ...]]] = []  # with what they held: they can change in place
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._seen: set[tuple[int, str]] = set()

    def name(self, scope: Mapping[str, Any], name: str, value: Any) -> None:
        """``scope[name]`` (module globals, or a module's or class's attributes) was read."""
        if isinstance(value, ModuleType) and value.__name__ in ("magpie", "math"):
            return  # nearly every kernel reads these two, and nobody gives them another meaning
        if (id(scope), name) not in self._seen:
            self._seen.add((id(scope), name))
            self._names.append((scope, name, value))
            self._freeze(value)

    def cell(self, cell: CellType, name: str, value: Any) -> None:
        """A closure variable was read."""
        if (id(cell), name) not in self._seen:
            self._seen.add((id(cell), name))
            self._cells.append((cell, value))
            self._freeze(value)

    def _freeze(self, value: Any) -> None:
        if hasattr(type(value), "__magpie_struct__"):
            self._structs.append((value, value.astuple()))

    def changed(self) -> bool:
        """True if a captured name now means something else, so that the kernel must be compiled again."""
        for scope, name, value in self._names:
            now = scope.get(name, _MISSING)
            if now is not value and not _equal(now, value):
                return True
        for cell, value in self._cells:
            try:
                now = cell.cell_contents
            except ValueError:
                return True
            if now is not value and not _equal(now, value):
                return True
        return any(value.astuple() != held for value, held in self._structs)

    def captured(self) -> Dependencies:
        """Those that may change in a program that runs: not what the names of modules and Magpie's own names mean."""
        kept = Dependencies()
        kept._structs = self._structs
        kept._cells = [(cell, value) for cell, value in self._cells if not isinstance(value, ModuleType)]
        kept._names = [
            (scope, name, value)
            for scope, name, value in self._names
            if not isinstance(value, ModuleType) and not str(scope.get("__name__", "")).startswith("magpie")
        ]
        return kept

    def values(self) -> tuple[tuple[str, Any], ...]:
        """The captured names with their values, in the order in which they were read."""
        return tuple((name, value) for _, name, value in self._names)

    def __len__(self) -> int:
        return len(self._names) + len(self._cells)


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, int | float | str | tuple) and a == b
