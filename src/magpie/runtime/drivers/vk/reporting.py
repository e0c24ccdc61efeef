"""Launches of kernels that have something to say: prints, failed asserts, and what checked code left out."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

from magpie.backends.record_format import RECORD_HEADER, clear_records, read_records
from magpie.runtime.driver import Call, LaunchShape, MemoryHint
from magpie.runtime.drivers.gpu.reporting import RECORD_BYTES
from magpie.runtime.drivers.vk.graphs import GraphStream
from magpie.runtime.drivers.vk.results import BACKEND

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.launch import VulkanKernel
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["reporting"]


def reporting(kernel: VulkanKernel, start: Call, shape: LaunchShape) -> Call:
    """A launch that is complete on return, its records reported."""
    context, info = kernel.context, kernel.info
    if isinstance(shape.stream, GraphStream):
        from magpie.runtime.recording import refused_by

        raise refused_by(
            BACKEND,
            f"kernel {kernel.name!r}, which prints, asserts or is checked,",
            "launch it outside of the graph",
        )
    lock = threading.Lock()
    memory: list[_Records] = []

    def call(*words: Any) -> None:
        from magpie.runtime.records import report

        with lock:
            if not memory:
                memory.append(_Records(context))
            records = memory[0]
            records.clear()
            start(*words, records.piece.address)
            context.wait_for(records.piece.busy())
            found, lost = read_records(records.view)
        error = report(found, lost, info["sites"], shape.grid, shape.block, BACKEND)
        if error is not None:
            raise error

    return call


class _Records:
    """The record buffer of a bound launch: memory that the host reads where it lies."""

    def __init__(self, context: Context) -> None:
        self.context = context
        with context.lock:
            self.piece: Piece = context.memory.take(RECORD_BYTES, MemoryHint.Cached)
        self.view = (ctypes.c_char * RECORD_BYTES).from_address(self.piece.host)
        self._used = RECORD_BYTES  # what may be in it before the first launch

    def clear(self) -> None:
        """An empty header, and zeros where records were."""
        capacity, used = struct.unpack_from("<2Q", self.view, 0)
        used = self._used if self._used else 8 * (RECORD_HEADER + min(capacity, used))
        self._used = 0
        ctypes.memset(self.piece.host, 0, used)
        clear_records(self.view, RECORD_BYTES)

    def __del__(self) -> None:
        piece = getattr(self, "piece", None)
        if piece is not None:
            self.context.bury(piece)
