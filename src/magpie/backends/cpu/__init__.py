"""The CPU target: SPMD on SIMD, compiled in process by LLVM."""

from __future__ import annotations

from magpie.backends.cpu.backend import CpuBackend

__all__ = ["BACKEND"]

BACKEND = CpuBackend()
