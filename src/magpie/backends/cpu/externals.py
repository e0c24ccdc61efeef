"""Functions of the system's math library that compiled kernels may call, and their addresses."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import sys
from collections.abc import Iterable

__all__ = ["addresses"]


@functools.cache
def _library() -> ctypes.CDLL:
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    return ctypes.CDLL(ctypes.util.find_library("m") if sys.platform != "linux" else "libm.so.6")


def addresses(names: Iterable[str]) -> dict[str, int]:
    """Where the functions of ``info["externals"]`` are, for `LoadedImage`."""
    found: dict[str, int] = {}
    for name in names:
        function = getattr(_library(), name, None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found
