"""Copies and fills: by the host where it sees the memory, through a ring of staging memory where it does not."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from magpie.runtime.driver import MemoryHint
from magpie.runtime.drivers.vk.lane import Recorder, copy_region

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.lane import Batch, Lane
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["Transfers"]

#: The ring: the host fills or empties one part while the device works on others.
PART = 4 << 20
_PARTS = 4


class Transfers:
    """Copies on one device. Methods take addresses, and the lock themselves."""

    def __init__(self, context: Context) -> None:
        self.context = context
        #: One copy at a time uses the ring.
        self._ring_lock = threading.Lock()
        # The host writes the one, and reads the other, which should be in its caches.
        self._rings: dict[MemoryHint, list[Piece]] = {MemoryHint.Staging: [], MemoryHint.Cached: []}

    # --- the host ----------------------------------------------------------------------------------------------------
    def copy_in(self, address: int, host: int, nbytes: int) -> None:
        """Host memory to the device's, after what uses it."""
        if not nbytes:
            return
        piece = self._found(address, wait=lambda piece: bool(piece.host))
        if piece.host:
            ctypes.memmove(address, host, nbytes)
        else:
            with self._ring_lock:
                self._stage_in(piece, address, host, nbytes)

    def copy_out(self, host: int, address: int, nbytes: int) -> None:
        """Device memory to the host's, after what uses it."""
        if not nbytes:
            return
        piece = self._found(address, wait=lambda piece: piece.readable)
        if piece.readable:
            ctypes.memmove(host, address, nbytes)
        else:
            with self._ring_lock:
                self._stage_out(piece, host, address, nbytes)

    def visible(self, address: int) -> int:
        """The address for the host to read, when nothing uses it any more; 0 where the host does not see it."""
        return address if self._found(address, wait=lambda piece: piece.readable).readable else 0

    def zero(self, piece: Piece) -> None:
        """Zeros in memory that is new."""
        if piece.host:
            ctypes.memset(piece.host, 0, piece.nbytes)
        else:
            self.fill(self.context.default, piece.address, b"\0", piece.nbytes)

    def _found(self, address: int, wait: Callable[[Piece], bool]) -> Piece:
        """The memory; where ``wait`` says so, nothing uses it any more then."""
        context = self.context
        with context.lock:
            context.check()
            piece = context.memory.find(address)
            busy = piece.busy() if wait(piece) else []
        if busy:
            context.wait_for(busy)
        return piece

    def _part(self, hint: MemoryHint) -> Piece:
        """The next part of a ring, once nothing uses it."""
        context = self.context
        ring = self._rings[hint]
        if len(ring) < _PARTS:
            with context.lock:
                ring.append(context.memory.take(PART, hint))
            return ring[-1]
        ring.append(ring.pop(0))
        busy = ring[-1].busy()
        if busy:
            context.wait_for(busy)
        return ring[-1]

    def _stage_in(self, piece: Piece, address: int, host: int, nbytes: int) -> None:
        for at in range(0, nbytes, PART):
            size = min(PART, nbytes - at)
            part = self._part(MemoryHint.Staging)
            ctypes.memmove(part.host, host + at, size)
            self._copied(part, part.address, piece, address + at, size)

    def _stage_out(self, piece: Piece, host: int, address: int, nbytes: int) -> None:
        under_way: list[tuple[Piece, Batch, int, int]] = []

        def take_back() -> None:
            part, batch, at, size = under_way.pop(0)
            self.context.wait_for([batch])
            ctypes.memmove(host + at, part.host, size)

        for at in range(0, nbytes, PART):
            if len(under_way) == _PARTS:
                take_back()
            size = min(PART, nbytes - at)
            part = self._part(MemoryHint.Cached)
            under_way.append((part, self._copied(piece, address + at, part, part.address, size), at, size))
        while under_way:
            take_back()

    def _copied(self, source: Piece, at: int, to: Piece, to_at: int, nbytes: int) -> Batch:
        context = self.context
        with context.lock:
            batch = context.default.open()
            self.record_copy(batch, source, at, to, to_at, nbytes)
            context.default.submit()
        return batch

    # --- the device --------------------------------------------------------------------------------------------------
    def record_copy(self, recorder: Recorder, source: Piece, at: int, to: Piece, to_at: int, nbytes: int) -> None:
        """Record a copy between pieces. Needs the lock."""
        recorder.uses((source,), (to,))
        recorder.touch(source)
        recorder.touch(to)
        region = copy_region(at - source.address + source.offset, to_at - to.address + to.offset, nbytes)
        copy = self.context.call["vkCmdCopyBuffer"]
        copy(recorder.commands, source.buffer, to.buffer, 1, ctypes.addressof(region))

    def copy(self, stream: Lane, to: int, source: int, nbytes: int) -> None:
        """Device memory to device memory in the order of a stream; the ranges may overlap."""
        if not nbytes or to == source:
            return
        context = self.context
        with context.lock:
            recorder = stream.open()
            memory = context.memory
            ends = memory.find(source), memory.find(to)
            if abs(to - source) >= nbytes or ends[0] is not ends[1]:
                self.record_copy(recorder, ends[0], source, ends[1], to, nbytes)
            else:
                between = memory.take(nbytes, MemoryHint.DeviceLocal)
                self.record_copy(recorder, ends[0], source, between, between.address, nbytes)
                self.record_copy(recorder, between, between.address, ends[1], to, nbytes)
                recorder.until_done(between)
            full = stream.recorded(recorder)
        if full:
            stream.throttle()

    def fill(self, stream: Lane, address: int, pattern: bytes, count: int) -> None:
        """`count` copies of a pattern of 1, 2 or 4 bytes in the order of a stream."""
        nbytes = len(pattern) * count
        if not nbytes:
            return
        context = self.context
        with context.lock:
            recorder = stream.open()
            piece = context.memory.find(address)
            # Vulkan fills words at multiples of 4 bytes. An array of narrow elements may begin and end between them:
            # then the bytes at both ends are copied.
            start, end = address + -address % 4, (address + nbytes) // 4 * 4
            word = (pattern * 4)[:4]
            recorder.uses((), (piece,))
            recorder.touch(piece)
            if end > start:
                shift = (start - address) % 4  # of the pattern, at the first whole word
                value = int.from_bytes((word * 2)[shift : shift + 4], "little")
                at = start - piece.address + piece.offset
                context.call["vkCmdFillBuffer"](recorder.commands, piece.buffer, at, end - start, value)
            ends = ((address, start), (end, address + nbytes)) if end > start else ((address, address + nbytes),)
            for low, high in ends:
                if high > low:
                    self._fill_bytes(recorder, piece, low, (word * 3)[(low - address) % 4 :][: high - low])
            full = stream.recorded(recorder)
        if full:
            stream.throttle()

    def _fill_bytes(self, recorder: Recorder, piece: Piece, address: int, data: bytes) -> None:
        uniforms, at, host = recorder.uniforms(len(data))
        ctypes.memmove(host, data, len(data))
        region = copy_region(at, address - piece.address + piece.offset, len(data))
        copy = self.context.call["vkCmdCopyBuffer"]
        copy(recorder.commands, uniforms.buffer, piece.buffer, 1, ctypes.addressof(region))
