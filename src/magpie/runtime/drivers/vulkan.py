"""The Vulkan driver: devices of any vendor that have a Vulkan 1.3 driver, and processors through lavapipe."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from magpie import knobs
from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import Allocation, DeviceInfo, MemoryHint, Recorded
from magpie.runtime.drivers.gpu.pool import PooledDriver
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.context import Context
from magpie.runtime.drivers.vk.describe import device_info, profile_of
from magpie.runtime.drivers.vk.graphs import GraphStream, VulkanGraph
from magpie.runtime.drivers.vk.lane import Lane
from magpie.runtime.drivers.vk.launch import VulkanKernel
from magpie.runtime.drivers.vk.library import Instance, Library, Unavailable
from magpie.runtime.drivers.vk.physical import PhysicalDevice
from magpie.runtime.drivers.vk.streams import VulkanEvent, VulkanStream

__all__ = ["VulkanDriver"]

# Kinds of devices in this order, and among equals in the loader's.
_BEST_FIRST = (
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU,
    vk.VK_PHYSICAL_DEVICE_TYPE_OTHER,
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU,
)
_VISIBLE = frozenset({MemoryHint.Unified, MemoryHint.Staging, MemoryHint.Cached})


def _rank(device: PhysicalDevice) -> tuple[int, int]:
    """Devices in order; of those on the processor that first which takes larger workgroups (lavapipe)."""
    size = int(device.limits.maxComputeWorkGroupInvocations) if device.is_cpu else 0
    return _BEST_FIRST.index(device.properties.deviceType), -size


class VulkanDriver(PooledDriver):
    """All devices of Vulkan. ``library`` is a path for tests; None: what MAGPIE_VULKAN_LIBRARY or the system has."""

    id = "spv"

    def __init__(self, library: str | None = None) -> None:
        super().__init__()
        self._path = library
        self._instance: Instance | None = None
        self._physical: list[PhysicalDevice] = []
        self._contexts: dict[int, Context] = {}
        self._profiles: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._forked = False

    # --- devices -----------------------------------------------------------------------------------------------------
    def probe(self) -> str | None:
        try:
            library = Library(self._path or knobs.vulkan_library())
            self._instance = Instance(library, knobs.vulkan_validation())
            handles = self._instance.physical_devices()
        except Unavailable as reason:
            return str(reason)
        except GpuError as error:
            return error.message
        found = [PhysicalDevice(self._instance, handle) for handle in handles]
        found.sort(key=_rank)
        self._physical = found
        mine = weakref.ref(self)
        atexit.register(_ended, mine)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=lambda: _forking(mine),
                after_in_parent=lambda: _forked(mine, child=False),
                after_in_child=lambda: _forked(mine, child=True),
            )
        return None if found else "Vulkan has no device here: no driver that is installed found one"

    def devices(self) -> Sequence[DeviceInfo]:
        return tuple(device_info(device, n) for n, device in enumerate(self._physical))

    @property
    def validated(self) -> bool:
        """Whether the validation layer listens."""
        return self._instance is not None and self._instance.validated

    @property
    def messages(self) -> list[str]:
        """What the validation layer has said so far (MAGPIE_VULKAN_VALIDATION)."""
        return [] if self._instance is None else self._instance.messages

    def context(self, device: int) -> Context:
        """The logical device, made when it is first used."""
        found = self._contexts.get(device)
        if found is None:
            with self._lock:
                found = self._contexts.get(device)
                if found is None:
                    found = Context(self._physical[device], device)
                    found.forked = self._forked
                    self._contexts[device] = found
        return found

    def profile(self, device: int) -> Any:
        """The device's profile."""
        found = self._profiles.get(device)
        if found is None:
            found = self._profiles[device] = profile_of(self._physical[device])
        return found

    def _lane(self, device: int, stream: Any) -> Any:
        """What work of a stream is recorded into: a lane, or a graph."""
        if stream is None:
            return self.context(device).default
        return stream.lane if isinstance(stream, VulkanStream) else stream

    def close(self) -> None:
        """Wait for all work and destroy everything; nothing of this driver may be used any more."""
        with self._lock:
            contexts = list(self._contexts.values())
        self._pool.clear()
        for context in contexts:
            context.close()
        if self._instance is not None and not self._forked:
            self._instance.close()

    # --- memory ------------------------------------------------------------------------------------------------------
    def alloc(self, device: int, nbytes: int, hint: MemoryHint = MemoryHint.Auto, *, zero: bool = False) -> Allocation:
        """Memory at a multiple of 256 bytes, of the type that the hint wishes for."""
        context = self.context(device)
        try:
            with context.lock:
                context.check()
                context.drain()
                piece = context.memory.take(nbytes, hint)
        except GpuError as error:
            if error.kind is not GpuErrorKind.OutOfMemory:
                raise
            self._empty_pool(device)
            context.synchronize()
            with context.lock:
                context.drain()
                context.memory.trim()
                piece = context.memory.take(nbytes, hint)
        allocation = Allocation(piece.address, nbytes, piece)
        self.stats.live[id(allocation)] = nbytes
        if zero:
            context.transfers.zero(piece)
        return allocation

    def free(self, device: int, allocation: Allocation) -> None:
        """Give memory back; it is used again when no command uses it any more."""
        self.stats.live.pop(id(allocation), None)
        context = self._contexts.get(device)
        if context is not None:
            context.bury(allocation.owner)

    def copy_in(self, device: int, address: int, host: int, nbytes: int) -> None:
        self.context(device).transfers.copy_in(address, host, nbytes)

    def copy_out(self, device: int, host: int, address: int, nbytes: int) -> None:
        self.context(device).transfers.copy_out(host, address, nbytes)

    def copy(self, device: int, to: int, source: int, nbytes: int, stream: Any = None) -> None:
        self.context(device).transfers.copy(self._lane(device, stream), to, source, nbytes)

    def copy_between(self, to_device: int, to: int, device: int, source: int, nbytes: int, stream: Any = None) -> None:
        """Through the host: straight from or into memory that it sees."""
        if not nbytes:
            return
        here, there = self.context(device), self.context(to_device)
        seen = here.transfers.visible(source)
        if seen:
            there.transfers.copy_in(to, seen, nbytes)
            return
        seen = there.transfers.visible(to)
        if seen:
            here.transfers.copy_out(seen, source, nbytes)
            return
        super().copy_between(to_device, to, device, source, nbytes, stream)

    def fill(self, device: int, address: int, pattern: bytes, count: int, stream: Any = None) -> None:
        self.context(device).transfers.fill(self._lane(device, stream), address, pattern, count)

    def host_visible(self, hint: MemoryHint) -> bool:
        return hint in _VISIBLE

    def memory_available(self, device: int) -> int:
        context = self.context(device)
        with context.lock:
            context.drain()
            return context.memory.available()

    # --- code --------------------------------------------------------------------------------------------------------
    def load(self, device: int, artifact: Artifact, **options: Any) -> VulkanKernel:
        return VulkanKernel(self.context(device), artifact, self.profile(device))

    # --- streams -----------------------------------------------------------------------------------------------------
    def create_stream(self, device: int) -> VulkanStream:
        return VulkanStream(self.context(device))

    def synchronize(self, device: int, stream: Any = None, timeout: float | None = None) -> None:
        context = self._contexts.get(device)
        if context is not None:  # else there is nothing to wait for
            context.synchronize(None if stream is None else self._lane(device, stream), timeout)

    def create_recording_stream(self, device: int) -> GraphStream:
        return GraphStream(self.context(device))

    def record(self, device: int, stream: Any, steps: Sequence[Callable[[], None]]) -> Recorded:
        return _Graph(VulkanGraph(self.context(device), stream, steps), self, device)

    def record_event(self, device: int, stream: Any) -> VulkanEvent:
        return VulkanEvent(self.context(device), self._lane(device, stream))


class _Graph:
    """A graph as the runtime launches it: in a stream of its own kind."""

    def __init__(self, graph: VulkanGraph, driver: VulkanDriver, device: int) -> None:
        self._graph, self._driver, self._device = graph, driver, device

    def launch(self, stream: Any) -> None:
        """Queue a replay."""
        lane = self._driver._lane(self._device, stream)
        assert isinstance(lane, Lane)
        self._graph.launch(lane)

    def update(self, index: int, step: Callable[[], None]) -> None:
        """Another step in the place of one."""
        self._graph.update(index, step)


def _ended(driver: weakref.ref[VulkanDriver]) -> None:
    """The process ends: what is recorded still runs, as it would on its own, and drivers end in order."""
    found = driver()
    if found is not None:
        with contextlib.suppress(GpuError):
            found.close()


def _forking(driver: weakref.ref[VulkanDriver]) -> None:
    """Before a fork."""
    found = driver()
    for context in () if found is None else tuple(found._contexts.values()):
        context.before_fork()


def _forked(driver: weakref.ref[VulkanDriver], *, child: bool) -> None:
    """After a fork; a new child must not use what its parent opened."""
    found = driver()
    if found is not None:
        found._forked = child
        for context in tuple(found._contexts.values()):
            context.after_fork(child=child)
