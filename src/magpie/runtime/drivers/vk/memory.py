"""Memory of one device: blocks by type, pieces of them for arrays, and where an address lies.

A block is one allocation of Vulkan's with one buffer over all of it; small arrays share blocks, large ones have their
own. Memory that the host sees stays mapped, and its address is the host's; other memory gets addresses that no host
has. A piece that is given back is used again once the device is done with it.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import MemoryHint
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import make
from magpie.runtime.drivers.vk.ranges import Ranges
from magpie.runtime.drivers.vk.results import BACKEND

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.descriptors import Key
    from magpie.runtime.drivers.vk.lane import Batch

__all__ = ["Memory", "Piece"]

_LOCAL, _VISIBLE = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
_COHERENT, _CACHED = vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
_HOST = _VISIBLE | _COHERENT

#: Hint -> what a type must have, and what is wished for, in the order of importance (specification, 9.3).
_WISHES: dict[MemoryHint, tuple[int, tuple[int, ...]]] = {
    MemoryHint.Auto: (0, (_LOCAL,)),
    MemoryHint.DeviceLocal: (0, (_LOCAL,)),
    MemoryHint.Unified: (_HOST, (_LOCAL, _CACHED)),
    MemoryHint.Staging: (_HOST, ()),
    MemoryHint.Cached: (_HOST, (_CACHED,)),
}
_BLOCK = 64 << 20
#: Pieces begin at a multiple of this: of every offset that a device asks for, and of a cache line.
UNIT = 256
_USAGE = (
    vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
    | vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
)
# Addresses of memory that the host does not see: above all that a process may have, and apart for each device.
_FIRST_ADDRESS = 1 << 62
_ADDRESSES = 1 << 48


class _Block:
    """One allocation and its buffer."""

    __slots__ = ("address", "buffer", "cached", "host", "memory", "pieces", "size", "type")

    def __init__(self, type_: int, size: int) -> None:
        self.cached = False
        self.type = type_
        self.size = size
        self.memory = self.buffer = self.host = self.address = 0
        self.pieces: Ranges | None = None  # None: one array has it all


class Piece:
    """The memory of one array: where it lies, and the batches of commands that use it."""

    __slots__ = ("address", "block", "buffer", "end", "host", "info", "last", "nbytes", "offset", "others", "sets")

    def __init__(self, block: _Block, offset: int, nbytes: int) -> None:
        self.block = block
        self.offset = offset
        self.nbytes = nbytes
        self.buffer = block.buffer
        self.address = block.address + offset
        self.end = self.address + nbytes
        #: Its address on the host; 0 where the host does not see it.
        self.host = self.address if block.host else 0
        #: What a descriptor says of it: buffer, offset and bytes, a multiple of 4. None where it is too large for one.
        self.info: tuple[int, int, int] | None = (block.buffer, offset, max(4, nbytes + -nbytes % 4))
        #: The batch that used it last, and earlier ones of other streams.
        self.last: Batch | None = None
        self.others: list[Batch] = []
        #: Keys of cached descriptor sets that name it.
        self.sets: set[Key] = set()

    @property
    def readable(self) -> bool:
        """Whether the host reads it where it lies in good time: what it does not cache comes a few bytes at a time."""
        return self.block.cached

    def touch(self, batch: Batch) -> None:
        """Commands of a batch use it."""
        last = self.last
        if last is not None and last.lane is not batch.lane and not last.done:
            self.others = [b for b in self.others if not b.done and b.lane is not batch.lane]
            self.others.append(last)
        self.last = batch

    def busy(self) -> list[Batch]:
        """The batches that may still use it."""
        found = [b for b in self.others if not b.done]
        if self.last is not None and not self.last.done:
            found.append(self.last)
        return found


class Memory:
    """All memory of a device. Every method needs the device's lock, but for `find`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        device = context.physical
        self._types = list(device.memory.memoryTypes[: device.memory.memoryTypeCount])
        self._allowed = self._buffer_types()
        self._blocks: dict[int, list[_Block]] = {}  # by type
        self._next_address = _FIRST_ADDRESS + context.index * _ADDRESSES
        #: Pieces by their address, and the addresses in order.
        self.starts: dict[int, Piece] = {}
        self._order: list[int] = []
        #: Bytes and number of Vulkan's allocations.
        self.allocated = 0
        self.allocations = 0
        #: Bytes of memory that one binding may have. Places in it are counted in 32 bits.
        self.most_bound = min(int(device.limits.maxStorageBufferRange), (1 << 32) - UNIT)
        self._choices: dict[MemoryHint, tuple[int, ...]] = {}

    # --- types -------------------------------------------------------------------------------------------------------
    def _buffer_types(self) -> int:
        """Which types the driver's buffers may lie in: the same for all of one usage."""
        context = self.context
        buffer = self._create_buffer(UNIT)
        needs = make("VkMemoryRequirements")
        context.call["vkGetBufferMemoryRequirements"](context.handle, buffer, ctypes.byref(needs))
        context.call["vkDestroyBuffer"](context.handle, buffer, None)
        return int(needs.memoryTypeBits)

    def types_for(self, hint: MemoryHint) -> tuple[int, ...]:
        """Types for a hint, best first."""
        found = self._choices.get(hint)
        if found is None:
            must, wishes = _WISHES[hint]
            usable = [n for n, t in enumerate(self._types) if self._allowed >> n & 1 and t.propertyFlags & must == must]
            heaps = self.context.physical.heaps

            def rank(n: int) -> tuple[int, ...]:
                flags = self._types[n].propertyFlags
                missing = [0 if flags & wish else 1 for wish in wishes]
                # The host's cached memory is slow to read for a device, and so is any that it did not ask for.
                extra = (flags & ~(must | sum(wishes))).bit_count()
                return (*missing, extra, -heaps[self._types[n].heapIndex].size)

            usable.sort(key=rank)
            # Memory that lacks what the best one has is no substitute: it would be slow, and nobody would know why.
            alike = [n for n in usable if rank(n)[: len(wishes)] == rank(usable[0])[: len(wishes)]]
            found = self._choices[hint] = tuple(alike)
        return found

    def _heap(self, type_: int) -> Any:
        return self.context.physical.heaps[self._types[type_].heapIndex]

    # --- pieces ------------------------------------------------------------------------------------------------------
    def take(self, nbytes: int, hint: MemoryHint) -> Piece:
        """Memory for an array. Raises GpuError OutOfMemory."""
        size = max(1, nbytes)
        self._check_size(size)
        code = 0
        for type_ in self.types_for(hint):
            code = self._fits(type_, size)
            if not code:
                piece, code = self._from_type(type_, size, nbytes)
                if piece is not None:
                    if size > self.most_bound:
                        piece.info = None
                    self.starts[piece.address] = piece
                    insort(self._order, piece.address)
                    return piece
        raise self.context.failed(code or vk.VK_ERROR_OUT_OF_DEVICE_MEMORY, f"an array of {nbytes:,} bytes")

    def _check_size(self, size: int) -> None:
        most = min(self.context.physical.largest_allocation, self.context.physical.largest_buffer)
        if size > most:
            raise GpuError(
                GpuErrorKind.OutOfMemory,
                BACKEND,
                f"an array of {size:,} bytes: {self.context.name} gives {most:,} at once",
                diagnostic="MPG_LAUNCH_1010",
                help="run the work in smaller pieces",
            )

    def _fits(self, type_: int, size: int) -> int:
        """The code for memory that cannot be had. A processor's driver would give it, and the system then end us."""
        heap = self._types[type_].heapIndex
        if size > self.context.physical.heaps[heap].size:
            return vk.VK_ERROR_OUT_OF_DEVICE_MEMORY
        if self.context.physical.is_cpu and size > _BLOCK:
            from magpie.runtime import hostmem

            if size > hostmem.available_bytes():
                return vk.VK_ERROR_OUT_OF_DEVICE_MEMORY
        return 0

    def _from_type(self, type_: int, size: int, nbytes: int) -> tuple[Piece | None, int]:
        block_size = min(_BLOCK, self._heap(type_).size // 8)
        if size > block_size // 2:
            block, code = self._block(type_, size + -size % UNIT)
            return (None if block is None else Piece(block, 0, nbytes)), code
        blocks = self._blocks.setdefault(type_, [])
        for block in blocks:
            assert block.pieces is not None
            offset = block.pieces.take(size)
            if offset is not None:
                return Piece(block, offset, nbytes), 0
        made, code = self._block(type_, block_size)
        if made is None:
            return None, code
        made.pieces = Ranges(block_size, UNIT)
        blocks.append(made)
        offset = made.pieces.take(size)
        assert offset is not None
        return Piece(made, offset, nbytes), 0

    def give(self, piece: Piece) -> None:
        """Give a piece back that no batch uses any more."""
        del self.starts[piece.address]
        del self._order[bisect_right(self._order, piece.address) - 1]
        self.context.descriptors.forget(piece)
        block = piece.block
        if block.pieces is None:
            self._destroy(block)
            return
        block.pieces.give(piece.offset, max(1, piece.nbytes))
        blocks = self._blocks[block.type]
        if block.pieces.empty and sum(b.pieces is not None and b.pieces.empty for b in blocks) > 1:
            blocks.remove(block)
            self._destroy(block)

    def trim(self) -> None:
        """Give blocks back that nothing lies in."""
        for blocks in self._blocks.values():
            for block in [b for b in blocks if b.pieces is not None and b.pieces.empty]:
                blocks.remove(block)
                self._destroy(block)

    def find(self, address: int) -> Piece:
        """The piece that an address lies in. Raises GpuError BufferError."""
        found = self.starts.get(address)
        if found is not None:
            return found
        order = self._order
        at = bisect_right(order, address)
        piece = self.starts.get(order[at - 1]) if at else None
        if piece is None or address > piece.end:
            raise GpuError(
                GpuErrorKind.BufferError,
                BACKEND,
                f"address {address:#x} is no memory of {self.context.name}",
                help="pass an mp array of this device",
            )
        return piece

    # --- blocks ------------------------------------------------------------------------------------------------------
    def _create_buffer(self, size: int) -> int:
        context = self.context
        info = make("VkBufferCreateInfo", size=size, usage=_USAGE)
        return context.created("vkCreateBuffer", info)

    def _block(self, type_: int, size: int) -> tuple[_Block | None, int]:
        context = self.context
        call, device = context.call, context.handle
        block = _Block(type_, size)
        block.buffer = self._create_buffer(size)
        needs = make("VkMemoryRequirements")
        call["vkGetBufferMemoryRequirements"](device, block.buffer, ctypes.byref(needs))
        info = make("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=type_)
        out = ctypes.c_uint64()
        code = call["vkAllocateMemory"](device, ctypes.byref(info), None, ctypes.byref(out))
        block.memory = out.value
        if not code:
            code = call["vkBindBufferMemory"](device, block.buffer, block.memory, 0)
        if not code and self._types[type_].propertyFlags & _HOST == _HOST:
            pointer = ctypes.c_void_p()
            code = call["vkMapMemory"](device, block.memory, 0, (1 << 64) - 1, 0, ctypes.byref(pointer))
            block.host = pointer.value or 0
            block.cached = bool(self._types[type_].propertyFlags & _CACHED)
        if code:
            call["vkDestroyBuffer"](device, block.buffer, None)
            if block.memory:
                call["vkFreeMemory"](device, block.memory, None)
            return None, code
        if block.host:
            block.address = block.host
        else:
            block.address = self._next_address
            self._next_address += size + (1 << 21) - size % (1 << 21)
        block.size = needs.size
        self.allocated += needs.size
        self.allocations += 1
        return block, 0

    def _destroy(self, block: _Block) -> None:
        context = self.context
        context.call["vkDestroyBuffer"](context.handle, block.buffer, None)
        context.call["vkFreeMemory"](context.handle, block.memory, None)
        self.allocated -= block.size
        self.allocations -= 1

    def available(self) -> int:
        """Bytes that arrays could get now: what the driver's budget says, or the heap without what we have of it."""
        physical = self.context.physical
        type_ = self.types_for(MemoryHint.Auto)[0]
        heap = self._types[type_].heapIndex
        unused = sum(b.pieces.free for b in self._blocks.get(type_, ()) if b.pieces is not None)
        if "VK_EXT_memory_budget" not in physical.extensions:
            return max(0, int(physical.heaps[heap].size) - self.allocated) + unused
        budget = make("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        head = make("VkPhysicalDeviceMemoryProperties2", pNext=ctypes.addressof(budget))
        ask = physical.instance.functions["vkGetPhysicalDeviceMemoryProperties2"]
        ask(physical.handle, ctypes.byref(head))
        return max(0, int(budget.heapBudget[heap]) - int(budget.heapUsage[heap])) + unused

    def close(self) -> None:
        """Destroy all blocks."""
        seen = {id(p.block): p.block for p in self.starts.values()}
        seen |= {id(b): b for blocks in self._blocks.values() for b in blocks}
        for block in seen.values():
            self._destroy(block)
        self.starts.clear()
        self._order.clear()
        self._blocks.clear()
