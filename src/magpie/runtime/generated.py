"""Functions that a launch generates as text: their code, kept by text.

A launch of a kernel in a new shape generates the functions that the one before had, and compiling their text was half
of its time (0.5 of 1 ms).
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType

__all__ = ["code_of"]


@lru_cache(maxsize=512)
def code_of(text: str, name: str) -> CodeType:
    """The code of ``text``, for `exec`; ``name`` stands in tracebacks."""
    return compile(text, name, "exec")
