"""``Builtin``: a name that has a meaning only inside a kernel."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn, TypeVar, cast

from magpie.diagnostics.diagnostic import CompileError, Diagnostic

__all__ = ["Builtin", "BuiltinGroup", "builtin", "host_error"]

_F = TypeVar("_F", bound=Callable[..., Any])

_TAKEN = {"and_": "and", "or_": "or"}


def host_error(what: str, help: str) -> CompileError:
    """The error of using something of a kernel in host code (``MPG_PY_1027``)."""
    return CompileError(Diagnostic("MPG_PY_1027", f"{what} can only be used inside a kernel", help=help))


class Builtin:
    """A function of kernel code. The frontend knows it by ``name`` and binds arguments by the signature of ``fn``."""

    def __init__(self, fn: FunctionType, prefix: str = "") -> None:
        self.name = prefix + fn.__name__
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn  # help() and editors show the signature
        self._parameters: tuple[tuple[str, bool, Any], ...] | None = None

    @property
    def parameters(self) -> tuple[tuple[str, bool, Any], ...]:
        """(name, has a default, default) of each parameter in order, read when it is first needed."""
        if self._parameters is None:
            fn = self.__wrapped__
            code = fn.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            positional = fn.__defaults__ or ()
            defaults = dict(zip(names[code.co_argcount - len(positional) : code.co_argcount], positional, strict=True))
            defaults |= fn.__kwdefaults__ or {}
            self._parameters = tuple((n, n in defaults, defaults.get(n)) for n in names)
        return self._parameters

    @property
    def variadic(self) -> bool:
        """True where a ``*args`` follows the parameters."""
        return bool(self.__wrapped__.__code__.co_flags & 4)

    @property
    def shown(self) -> str:
        """The signature, for messages."""
        parts = [f"{n}={d!r}" if has else n for n, has, d in self.parameters]
        return f"mp.{self.name}({', '.join([*parts, '...'] if self.variadic else parts)})"

    def __repr__(self) -> str:
        return f"<kernel builtin {self.shown}>"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise host_error(
            f"mp.{self.name}",
            "call it in a function marked @mp.kernel or @mp.func, and start that with kernel[grid, block](...)",
        ) from None


class BuiltinGroup(Builtin):
    """A builtin that has others as attributes: `mp.mma` and `mp.mma.zeros`."""


def builtin(fn: _F) -> _F:
    """Make a stub into a kernel builtin of the same name; to a type checker it stays the function."""
    return cast(_F, Builtin(cast(FunctionType, fn)))
