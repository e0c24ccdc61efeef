"""Classes of plain fields without generated code.

`dataclasses` writes and compiles a constructor for each class, 0.6 ms a class; the cpu backend has twenty, and a user's
first launch waits for them. To type checkers `plain` is a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

__all__ = ["copy_with", "made_by", "plain"]

T = TypeVar("T")


class _Made:
    """A default that is made anew for each object."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made_by(*, default_factory: Callable[[], Any]) -> Any:
    """As `dataclasses.field(default_factory=...)`."""
    return _Made(default_factory)


@dataclass_transform(eq_default=False, field_specifiers=(made_by,))
def plain(cls: type[T]) -> type[T]:
    """Give ``cls`` a constructor that takes its annotated fields in order, or by name."""
    names = tuple(cls.__annotations__)
    defaults = {n: cls.__dict__[n] for n in names if n in cls.__dict__}
    made = {n: d.make for n, d in defaults.items() if isinstance(d, _Made)}
    fixed = {n: d for n, d in defaults.items() if n not in made}

    def construct(self: Any, *args: Any, **named: Any) -> None:
        fields = self.__dict__
        fields.update(fixed)
        for name, make in made.items():
            fields[name] = make()
        fields.update(zip(names, args, strict=False))
        fields.update(named)

    cls.__init__ = construct  # type: ignore[method-assign]
    return cls


def copy_with(item: T, **changes: Any) -> T:
    """A copy with some fields changed, as `dataclasses.replace`."""
    new: T = object.__new__(type(item))
    new.__dict__.update(item.__dict__)
    new.__dict__.update(changes)
    return new
