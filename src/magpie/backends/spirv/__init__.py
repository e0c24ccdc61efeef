"""The Vulkan target: SPIR-V, written natively from Kernel IR."""

from __future__ import annotations

from magpie.backends.spirv.backend import SpirvBackend

__all__ = ["BACKEND"]

BACKEND = SpirvBackend()
