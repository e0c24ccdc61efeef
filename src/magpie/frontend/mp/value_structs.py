"""How large value structs are: they are taken apart field by field, so they have an end."""

from __future__ import annotations

from collections.abc import Mapping

from magpie.mpir.prelude import replace
from magpie.mpir.types import Ty

__all__ = ["Sizes", "shortened"]

_MOST_FIELDS = 4096
_DEEPEST = 64
_LONGEST = 200  # names in one type
_LONGEST_SHOWN = 80
_MOST_TYPES = 10_000  # inside of one


class Sizes:
    """``declared`` are the fields of value structs by name, behind the names of their type parameters. ``found`` holds
    how many fields that are no structs a type has, and how deep they stand."""

    def __init__(self, declared: Mapping[str, tuple[tuple[str, ...], list[Ty]]]) -> None:
        self.declared = declared
        self.found: dict[Ty, tuple[int, int]] = {}
        self.faulty: set[Ty] = set()

    def fault(self, type_: Ty) -> tuple[str, str | None] | None:
        """What is wrong with the size of a type, and the cure; of a struct in another one it is said once, there."""
        if type_.owned in self.found or not self._is_struct(type_):
            return None
        fault: tuple[str, str | None] | None = None
        todo, active = [type_.owned], set[Ty]()
        while todo:
            at = todo[-1]
            if at in self.found:
                todo.pop()
                continue
            inner = self._inner(at)
            wanted = [t for t in inner if t not in self.found]
            if wanted and at not in active and len(active) < _MOST_TYPES and _length(at) <= _LONGEST:
                active.add(at)
                todo += wanted
                continue
            todo.pop()
            count, depth = self.found[at] = self._size(at, inner)
            if not wanted and count <= _MOST_FIELDS and depth <= _DEEPEST and self.faulty.isdisjoint(inner):
                continue
            if wanted:
                fault = fault or (f"{shortened(at)} holds itself, and would have no end", None)
            elif self.faulty.isdisjoint(inner):
                help = f"a value struct has at most {_MOST_FIELDS:,}, {_DEEPEST} deep, those of its fields counted in"
                fault = fault or (f"{shortened(at)} has {count} fields, {depth} structs deep", help)
            self.found[at] = (1, 1)
            self.faulty.add(at)
        return fault

    def _is_struct(self, type_: Ty) -> bool:
        found = self.declared.get(type_.name)
        return found is not None and len(found[0]) == len(type_.args)

    def _inner(self, type_: Ty) -> list[Ty]:
        """The types of a struct's fields that are value structs too."""
        params, types = self.declared[type_.name]
        names = dict(zip(params, type_.args, strict=True))
        return [t for t in (replace(t, names).owned for t in types) if self._is_struct(t)]

    def _size(self, type_: Ty, inner: list[Ty]) -> tuple[int, int]:
        sizes = [self.found.get(t, (1, 0)) for t in inner]
        plain = len(self.declared[type_.name][1]) - len(inner)
        return plain + sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


def shortened(type_: Ty) -> str:
    """A type as a message names it."""
    shown = str(type_)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


def _length(type_: Ty) -> int:
    return 1 + sum(map(_length, type_.args))
