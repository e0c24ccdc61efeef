"""The interpreter: the definition of Kernel IR on NumPy lanes, and the sanitizer on top of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magpie.backends.interp.backend import BACKEND

__all__ = ["BACKEND"]


def __getattr__(name: str) -> Any:  # NumPy is loaded when the backend is first asked for, not when it is listed
    if name == "BACKEND":
        from magpie.backends.interp.backend import BACKEND

        return BACKEND
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
