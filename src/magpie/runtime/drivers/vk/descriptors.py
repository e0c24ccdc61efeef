"""Which memory a launch's bindings are: pushed into the command buffer, or in sets that are kept.

A set is made for a combination of memory and never changed. It goes when a piece of memory in it does, and that is when
no command uses it any more.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import array, make, struct

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["Bindings", "Descriptors"]

_SETS = 64  # of a pool

#: Of one binding: buffer, offset and bytes.
Info = tuple[int, int, int]


class Bindings:
    """What a kernel binds: storage buffers from 0 on, and behind them perhaps a uniform buffer with the scalars."""

    __slots__ = ("layout", "pushed", "storage", "uniform")

    def __init__(self, context: Context, storage: int, uniform: bool) -> None:
        self.storage = storage
        self.uniform = uniform
        self.pushed = storage + uniform <= context.descriptors.most_pushed
        kinds = [vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER] * storage + [self.uniform_kind] * uniform
        slots = [
            struct("VkDescriptorSetLayoutBinding")(n, kind, 1, vk.VK_SHADER_STAGE_COMPUTE_BIT)
            for n, kind in enumerate(kinds)
        ]
        kept = array(struct("VkDescriptorSetLayoutBinding"), slots)
        info = make(
            "VkDescriptorSetLayoutCreateInfo",
            flags=vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT if self.pushed else 0,
            bindingCount=len(slots),
            pBindings=ctypes.addressof(kept),
        )
        self.layout = context.created("vkCreateDescriptorSetLayout", info)

    @property
    def uniform_kind(self) -> int:
        """Sets are kept, and scalars lie elsewhere at each launch: the place is given when the set is bound."""
        pushed = vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
        return pushed if self.pushed else vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC

    @property
    def count(self) -> int:
        """How many bindings there are."""
        return self.storage + self.uniform


#: What a kept set is for.
Key = tuple[Bindings, tuple[Info, ...]]


class Writes:
    """Room for what `vkUpdateDescriptorSets` and `vkCmdPushDescriptorSetKHR` read, for one kind of bindings."""

    __slots__ = ("_writes", "address", "infos")

    def __init__(self, bindings: Bindings) -> None:
        self.infos = (ctypes.c_uint64 * (3 * max(1, bindings.count)))()
        start = ctypes.addressof(self.infos)
        made = []
        for n in range(bindings.count):
            storage = n < bindings.storage
            made.append(
                make(
                    "VkWriteDescriptorSet",
                    dstBinding=n,
                    descriptorCount=1,
                    descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER if storage else bindings.uniform_kind,
                    pBufferInfo=start + 24 * n,
                )
            )
        self._writes = array(struct("VkWriteDescriptorSet"), made)
        self.address = ctypes.addressof(self._writes)

    def into(self, set_: int) -> None:
        """Name the set that is written."""
        for each in self._writes:
            each.dstSet = set_


class Descriptors:
    """All bindings and sets of a device."""

    def __init__(self, context: Context) -> None:
        self.context = context
        #: How many descriptors can be pushed; 0: sets are kept.
        self.most_pushed = context.physical.push_descriptors() if "vkCmdPushDescriptorSetKHR" in context.call else 0
        self._bindings: dict[tuple[int, bool], Bindings] = {}
        self._pools: list[int] = []
        self._free: dict[Bindings, list[int]] = {}
        self._sets: dict[Key, tuple[int, tuple[Piece, ...]]] = {}
        self._writes: dict[Bindings, Writes] = {}

    @property
    def live(self) -> int:
        """How many sets are in use."""
        return len(self._sets)

    @property
    def pools(self) -> int:
        """How many pools there are."""
        return len(self._pools)

    def bindings(self, storage: int, uniform: bool) -> Bindings:
        """The one object for a number of buffers. Needs the lock."""
        key = storage, uniform
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = Bindings(self.context, storage, uniform)
        return found

    def kept(self, bindings: Bindings, infos: tuple[Info, ...], pieces: tuple[Piece, ...]) -> int:
        """The set that binds this memory. Needs the lock."""
        key = bindings, infos
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = self._made(bindings, infos), pieces
            for piece in pieces:
                piece.sets.add(key)
        return found[0]

    def _made(self, bindings: Bindings, infos: tuple[Info, ...]) -> int:
        free = self._free.setdefault(bindings, [])
        if not free:
            free += self._new_sets(bindings)
        set_ = free.pop()
        writes = self._writes.get(bindings)
        if writes is None:
            writes = self._writes[bindings] = Writes(bindings)
        for n, info in enumerate(infos):
            writes.infos[3 * n : 3 * n + 3] = list(info)
        writes.into(set_)
        self.context.call["vkUpdateDescriptorSets"](self.context.handle, bindings.count, writes.address, 0, None)
        return set_

    def _new_sets(self, bindings: Bindings) -> list[int]:
        context = self.context
        sizes = [(vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings.storage), (bindings.uniform_kind, bindings.uniform)]
        wanted = array(struct("VkDescriptorPoolSize"), [(kind, n * _SETS) for kind, n in sizes if n])
        info = make(
            "VkDescriptorPoolCreateInfo",
            maxSets=_SETS,
            poolSizeCount=len(wanted),
            pPoolSizes=ctypes.addressof(wanted),
        )
        pool = context.created("vkCreateDescriptorPool", info)
        self._pools.append(pool)
        layouts = array(ctypes.c_uint64, [bindings.layout] * _SETS)
        ask = make(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=pool,
            descriptorSetCount=_SETS,
            pSetLayouts=ctypes.addressof(layouts),
        )
        sets = (ctypes.c_uint64 * _SETS)()
        code = context.call["vkAllocateDescriptorSets"](context.handle, ctypes.byref(ask), sets)
        if code:
            raise context.failed(code, "vkAllocateDescriptorSets")
        return list(sets)

    @property
    def most(self) -> int:
        """How many buffers a kernel may have."""
        limits = self.context.physical.limits
        return int(min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers))

    def forget(self, piece: Piece) -> None:
        """A piece of memory goes, and no command uses it: its sets are free."""
        for key in tuple(piece.sets):
            set_, pieces = self._sets.pop(key)
            self._free[key[0]].append(set_)
            for each in pieces:
                each.sets.discard(key)

    def close(self) -> None:
        """Destroy everything."""
        context = self.context
        for pool in self._pools:
            context.call["vkDestroyDescriptorPool"](context.handle, pool, None)
        for bindings in self._bindings.values():
            context.call["vkDestroyDescriptorSetLayout"](context.handle, bindings.layout, None)
