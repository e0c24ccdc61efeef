"""A vendor's driver library, opened at run time: its functions by ctypes, and its error codes as `GpuError`.

CUDA and HIP have the same calls under other names, so a library is described by a `Table`: our name of a call, the
vendor's, and the parameters. Importing this needs no library.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from magpie.errors import GpuError, GpuErrorKind
from magpie.records import record

__all__ = ["Api", "Function", "Table", "open_library"]

_NOTHING: Mapping[int, Any] = MappingProxyType({})


@record
class Function:
    """One function of a library. `optional`: it came with a later version. The result is an error code, but for
    functions that tell about one."""

    name: str
    parameters: tuple[Any, ...]
    optional: bool = False
    result: Any = ctypes.c_int


@record
class Table:
    """What there is to know of a vendor's library: functions and attribute numbers by our names, and its errors.

    `kinds` and `help` go by error code; after an error in `sticky` this process cannot use the device any more.
    """

    backend: str
    libraries: tuple[str, ...]
    result: str
    functions: Mapping[str, Function]
    attributes: Mapping[str, int]
    kinds: Mapping[int, GpuErrorKind]
    sticky: frozenset[int]
    help: Mapping[int, str] = _NOTHING


def open_library(names: Sequence[str]) -> ctypes.CDLL:
    """The first of these libraries that there is. Raises OSError where there is none."""
    last: OSError | None = None
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    assert last is not None
    raise last


_GONE = (
    "this process cannot use the device any more: start it again. Run the kernel with checked=True, or once with "
    "MAGPIE_SANITIZE=1, to find the line and the work-item"
)


class Api(ABC):
    """The functions of a library, by our names: `functions[name](...)` gives the code, `call(name, ...)` raises."""

    table: ClassVar[Table]

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.functions: dict[str, Callable[..., int]] = {}
        for ours, wanted in self.table.functions.items():
            try:
                function = getattr(library, wanted.name)
            except AttributeError:
                if wanted.optional:
                    continue
                raise  # a driver that is too old
            function.argtypes = wanted.parameters
            function.restype = wanted.result
            self.functions[ours] = function

    def address(self, name: str) -> int:
        """Where a function lies, for native callers."""
        return ctypes.cast(self.library[self.table.functions[name].name], ctypes.c_void_p).value or 0

    @abstractmethod
    def name(self, code: int) -> str:
        """An error code as the vendor's header calls it."""

    @abstractmethod
    def describe(self, code: int) -> str:
        """The library's own sentence for an error code; empty where it has none."""

    def function(self, name: str) -> Callable[..., int]:
        """A function that a library may lack. Raises GpuError Unsupported where it does."""
        found = self.functions.get(name)
        if found is None:
            vendors = self.table.functions[name].name
            raise GpuError(
                GpuErrorKind.Unsupported,
                self.table.backend,
                f"the installed driver has no {vendors}",
                help="update the driver",
            )
        return found

    def call(self, name: str, *args: Any, what: str = "") -> None:
        """Call a function. Raises GpuError with the library's name for what went wrong."""
        code = self.function(name)(*args)
        if code:
            raise self.error(code, what or self.table.functions[name].name)

    def number(self, name: str, *args: Any, type_: Any = ctypes.c_int) -> int:
        """What a function gives through its first parameter."""
        out = type_()
        self.call(name, ctypes.byref(out), *args)
        return out.value or 0

    def unknown(self, code: int) -> str:
        """How a code is shown that the library has no name for."""
        return f"{self.table.result} {code}"

    def error(self, code: int, what: str, help: str | None = None) -> GpuError:
        """The error for a code that came back from ``what``."""
        kind = self.table.kinds.get(code, GpuErrorKind.DriverError)
        said = self.describe(code)
        name = self.name(code)
        message = f"{what}: {name}" + (f", {said}" if said and said != name else "")
        if help is None:
            help = self.table.help.get(code, _GONE if code in self.table.sticky else None)
        diagnostic = "MPG_LAUNCH_1010" if kind is GpuErrorKind.OutOfMemory else None
        return GpuError(kind, self.table.backend, message, code, diagnostic=diagnostic, help=help)
