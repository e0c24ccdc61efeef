"""Keeps denormal numbers on the thread that interprets (RULES 18).

A library built with -Ofast sets flush-to-zero for the thread that loads it, and NumPy then computes something else. The
mode is found by one multiplication; where it is on, the C library's default environment is put in its place for the
launch, and the old one comes back after it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from magpie.errors import GpuError, GpuErrorKind

__all__ = ["keeping_denormals"]

# fenv_t has 28 or 32 bytes on x86-64, 8 on AArch64.
_ENVIRONMENT = ctypes.c_char * 256


def _flushes() -> bool:
    return bool(np.float64(5e-324) * np.float64(1.0) == 0 or np.float32(1e-45) * np.float32(1.0) == 0)


@contextmanager
def keeping_denormals() -> Iterator[None]:
    """Inside, this thread keeps denormal numbers. GpuError where that cannot be had."""
    if not _flushes():
        yield
        return
    saved = _ENVIRONMENT()
    library = _library()
    if library is not None:
        library.fegetenv(saved)
        library.fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV of glibc, musl and the BSDs' x86 and Arm ports
    try:
        if _flushes():
            raise GpuError(
                GpuErrorKind.LaunchFailed,
                "interp",
                "this thread flushes denormal numbers to zero, which the interpreter's results must not",
                help="a library built with -ffast-math set the mode: load it in another process",
            )
        yield
    finally:
        if library is not None:
            library.fesetenv(saved)


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(ctypes.util.find_library("m"))
        library.fegetenv.restype = library.fesetenv.restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library
