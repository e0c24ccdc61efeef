"""Exceptions that Magpie raises at run time, and the base class of all of them.

Compile-time errors are ``magpie.CompileError`` (``magpie.diagnostics``); everything that a device, a driver or a
launch can report is a ``GpuError`` of one of the twelve kinds of the Magpie GPU specification, section 4.3.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar


class MagpieError(Exception):
    """Base class of every exception that Magpie raises on purpose."""


class GpuErrorKind(enum.IntEnum):
    """The category of a ``GpuError``; names and numbers are those of ``gpu.ErrorKind`` (specification, 4.3)."""

    DeviceLost = 0
    OutOfMemory = 1
    LaunchFailed = 2
    InvalidKernel = 3
    BackendUnavailable = 4
    BufferError = 5
    TimeoutExpired = 6
    Unsupported = 7
    CompilationFailed = 8
    DriverError = 9
    ResourceExhausted = 10
    ValidationFailed = 11

    @property
    def advice(self) -> str:
        """What a user can do about an error of this kind, in one sentence."""
        return _ADVICE[self]


_ADVICE: dict[GpuErrorKind, str] = {
    GpuErrorKind.DeviceLost: "the device is gone for this process: restart it, and look in the driver's log",
    GpuErrorKind.OutOfMemory: "free arrays that are no longer used, or run the work in smaller pieces",
    GpuErrorKind.LaunchFailed: "run the kernel once with MAGPIE_SANITIZE=1 to find out-of-bounds accesses and races",
    GpuErrorKind.InvalidKernel: "compile the kernel again for this device: a bundle may be damaged or too old",
    GpuErrorKind.BackendUnavailable: "`magpie devices` lists what this machine has and why the rest is missing",
    GpuErrorKind.BufferError: "check that the array is alive, large enough and on the device that the call names",
    GpuErrorKind.TimeoutExpired: "wait longer, or look for a loop in the kernel that never ends",
    GpuErrorKind.Unsupported: "`magpie devices` shows what each device can do; choose another one or another operation",
    GpuErrorKind.CompilationFailed: "the driver refused generated code: please report it with the MAGPIE_DUMP output",
    GpuErrorKind.DriverError: "the code is the driver's own; its manual names it",
    GpuErrorKind.ResourceExhausted: "use a smaller workgroup, less shared memory or fewer arrays",
    GpuErrorKind.ValidationFailed: "correct the argument that the message names",
}


class GpuError(MagpieError):
    """An error of a device, a driver or a launch.

    ``kind`` is one of the twelve kinds, ``backend`` the id of the backend that reports it ("" before one is chosen),
    ``code`` the driver's own number (0 where there is none), ``diagnostic`` a code for ``magpie explain`` or None, and
    ``help`` what to do.  ``str()`` shows all of them.
    """

    def __init__(
        self,
        kind: GpuErrorKind,
        backend: str,
        message: str,
        code: int = 0,
        *,
        diagnostic: str | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(kind, backend, message, code)
        self.kind = GpuErrorKind(kind)
        self.backend = backend
        self.message = message
        self.code = code
        self.diagnostic = diagnostic
        self.help = help

    def __str__(self) -> str:
        where = f" on {self.backend}" if self.backend else ""
        mark = f"[{self.diagnostic}]" if self.diagnostic else ""
        number = f" (driver code {self.code})" if self.code else ""
        return f"{self.kind.name}{mark}{where}: {self.message}{number}\n  help: {self.help or self.kind.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process borders (test workers, the code-generation worker); the default would lose keywords.
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(cls: type[GpuError], state: dict[str, object]) -> GpuError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (state["kind"], state["backend"], state["message"], state["code"])
    return error


class LaunchTypeError(GpuError, TypeError):
    """A launch got a wrong number of arguments, or one of a wrong type, dtype or rank; kind ValidationFailed."""

    def __init__(self, message: str, *, backend: str = "", diagnostic: str | None = None, help: str | None = None):
        super().__init__(GpuErrorKind.ValidationFailed, backend, message, diagnostic=diagnostic, help=help)


class LaunchValueError(GpuError, ValueError):
    """A launch got an argument of the right type with an impossible value; kind ValidationFailed."""

    def __init__(self, message: str, *, backend: str = "", diagnostic: str | None = None, help: str | None = None):
        super().__init__(GpuErrorKind.ValidationFailed, backend, message, diagnostic=diagnostic, help=help)


class KnobError(MagpieError, ValueError):
    """An environment variable of Magpie has a value that it does not allow (``MPG_ENV_1001``)."""


_E = TypeVar("_E", bound=BaseException)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def clean(error: _E) -> _E:
    """``error`` without the frames it came through, for ``raise clean(error) from None`` at a public entry point.

    A user then sees the own call and the message, and no file of the compiler.  ``MAGPIE_DEBUG=1`` keeps the frames.
    """
    from magpie import knobs

    if knobs.debug():
        return error
    error.__cause__ = None
    error.__suppress_context__ = True
    return error.with_traceback(None)


def public(fn: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that users call: Magpie's own errors leave it through `clean`."""

    @functools.wraps(fn)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return fn(*args, **kwargs)
        except MagpieError as error:
            raise clean(error) from None

    return call


__all__ = [
    "GpuError",
    "GpuErrorKind",
    "KnobError",
    "LaunchTypeError",
    "LaunchValueError",
    "MagpieError",
    "clean",
    "public",
]
