"""The tiny-gpu target: its assembly, a simulator of it, and kernels compiled to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magpie.backends.tgpu.backend import BACKEND

__all__ = ["BACKEND"]


def __getattr__(name: str) -> Any:
    # The assembler and the simulator need no compiler.
    if name == "BACKEND":
        from magpie.backends.tgpu.backend import BACKEND

        return BACKEND
    raise AttributeError(name)
