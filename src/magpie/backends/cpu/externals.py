"""Functions of the system's math library that compiled kernels may call, and their addresses."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable

__all__ = ["addresses"]


@functools.cache
def _library() -> ctypes.CDLL:
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    if sys.platform == "linux":
        return ctypes.CDLL("libm.so.6")
    from ctypes.util import find_library  # imports half of the standard library

    return ctypes.CDLL(find_library("m"))


def addresses(names: Iterable[str]) -> dict[str, int]:
    """Where the functions of ``info["externals"]`` are, for `LoadedImage`."""
    found: dict[str, int] = {}
    for name in names:
        function = getattr(_library(), name, None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found
