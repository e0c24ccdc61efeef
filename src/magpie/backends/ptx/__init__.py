"""The PTX target: one work-item a CUDA thread, code made by LLVM's NVPTX generator in a worker process."""

from __future__ import annotations

from magpie.backends.ptx.backend import PtxBackend

__all__ = ["BACKEND"]

BACKEND = PtxBackend()
