"""`record`: small immutable classes that cost nothing to define.

`dataclasses` puts six functions together as text and compiles them for each class: 0.3 ms. Some thirty classes stand
between `import magpie` and a first launch that finds its code in the disk cache, and that launch has 20 ms in all. A
record has the same look (annotations, defaults, keywords, ==, hash, repr, match) and is made of closures.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["record", "replaced"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def record(cls: type[_T]) -> type[_T]:
    """Make a class of annotated fields immutable, with slots. Defaults must be immutable themselves.

    A method `__post_init__` runs after the fields are set, and changes one with `object.__setattr__`.
    """
    names = tuple(cls.__dict__["__annotations__"])  # noqa: RUF063  # a class of its own always has them here
    defaults = {n: cls.__dict__[n] for n in names if n in cls.__dict__}
    count = len(names)
    body = {k: v for k, v in cls.__dict__.items() if k not in names and k not in ("__dict__", "__weakref__")}
    put = object.__setattr__
    after = cls.__dict__.get("__post_init__")
    getter = attrgetter(*names)
    get: Any = getter if count > 1 else lambda self: (getter(self),)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if len(args) > count:
            raise TypeError(f"{cls.__name__} takes {count} arguments, {len(args)} were given")
        for name, value in zip(names, args, strict=False):
            put(self, name, value)
        for name in names[len(args) :]:
            if name in kwargs:
                put(self, name, kwargs.pop(name))
            elif name in defaults:
                put(self, name, defaults[name])
            else:
                raise TypeError(f"{cls.__name__} needs an argument {name!r}")
        if after is not None:
            after(self)
        if kwargs:
            raise TypeError(f"{cls.__name__} got unexpected or repeated arguments: {', '.join(kwargs)}")

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return bool(get(self) == get(other)) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(get(self))

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        raise AttributeError(f"{cls.__name__} cannot be changed")

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        raise AttributeError(f"{cls.__name__} cannot be changed")

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return self.__class__, get(self)

    for method in (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__, __reduce__):
        body.setdefault(method.__name__, method)
    body["__slots__"] = names
    body["__match_args__"] = names
    body["__qualname__"] = cls.__qualname__
    make: Any = type(cls)
    made: type[_T] = make(cls.__name__, cls.__bases__, body)
    return made


def replaced(value: _T, **changes: Any) -> _T:
    """A copy of a record with some fields changed."""
    names: tuple[str, ...] = type(value).__match_args__  # type: ignore[attr-defined]
    make: Any = value.__class__
    values = [changes.pop(n) if n in changes else getattr(value, n) for n in names]
    made: _T = make(*values, **changes)
    return made
