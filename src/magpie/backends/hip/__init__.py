"""The hip target: one work-item a lane, code objects made by LLVM's AMDGPU generator and a linker of our own."""

from __future__ import annotations

from magpie.backends.hip.backend import HipBackend

__all__ = ["BACKEND"]

BACKEND = HipBackend()
