"""Streams and events of the Vulkan driver."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import make
from magpie.runtime.drivers.vk.results import BACKEND

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.lane import Batch, Lane, Recorder

__all__ = ["Marks", "VulkanEvent", "VulkanStream"]

_MARKS = 256  # of a query pool


class VulkanStream:
    """A stream; its lane goes to another one when nothing refers to it any more."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lane: Lane = context.new_lane()

    def open(self) -> Recorder:
        """What commands are recorded into now. Needs the lock."""
        return self.lane.open()

    def __del__(self) -> None:
        lane = getattr(self, "lane", None)
        if lane is not None:
            self.context.end_lane(lane)


class Marks:
    """Places for timestamps: pools of queries, whose entries are used again."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._pools: list[int] = []
        self._free: list[tuple[int, int]] = []

    def take(self) -> tuple[int, int]:
        """A pool and a number in it. Needs the lock."""
        if not self._free:
            info = make("VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=_MARKS)
            pool = self.context.created("vkCreateQueryPool", info)
            self._pools.append(pool)
            self._free += [(pool, n) for n in range(_MARKS)]
        return self._free.pop()

    def give(self, mark: tuple[int, int]) -> None:
        """Use a place again. Needs the lock."""
        self._free.append(mark)

    def close(self) -> None:
        """Destroy the pools."""
        for pool in self._pools:
            self.context.call["vkDestroyQueryPool"](self.context.handle, pool, None)


class VulkanEvent:
    """A mark in a lane, with the device's time. What was recorded before it is submitted."""

    def __init__(self, context: Context, lane: Lane) -> None:
        self.context = context
        self._mark: tuple[int, int] | None = None
        with context.lock:
            batch = lane.open()
            self.batch: Batch = batch
            if context.family.timestampValidBits:
                self._mark = context.marks.take()
                call = context.call
                call["vkCmdResetQueryPool"](batch.commands, *self._mark, 1)
                call["vkCmdWriteTimestamp"](batch.commands, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, *self._mark)
            full = lane.now()
        if full:
            lane.throttle()

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the work before the mark is done. Raises GpuError TimeoutExpired where that takes too long."""
        self.context.wait_for([self.batch], timeout)

    def ticks(self) -> int:
        """The device's counter at the mark, which was waited for."""
        context = self.context
        if self._mark is None:
            raise GpuError(
                GpuErrorKind.Unsupported,
                BACKEND,
                f"{context.name} does not tell the time on the queues that kernels run on",
                help="measure on the host, around a launch and mp.synchronize()",
            )
        out = ctypes.c_uint64()
        flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
        pool, number = self._mark
        get = context.call["vkGetQueryPoolResults"]
        code = get(context.handle, pool, number, 1, 8, ctypes.byref(out), 8, flags)
        if code:
            raise context.failed(code, "vkGetQueryPoolResults")
        return out.value

    def elapsed_ms(self, earlier: VulkanEvent) -> float:
        """Milliseconds since another event; waits for both."""
        for event in (earlier, self):
            event.synchronize()
        bits = self.context.family.timestampValidBits
        ticks = (self.ticks() - earlier.ticks()) & ((1 << bits) - 1)
        if ticks >> (bits - 1):  # the other event is the later one
            ticks -= 1 << bits
        return float(ticks * self.context.physical.limits.timestampPeriod * 1e-6)

    def __del__(self) -> None:
        mark = getattr(self, "_mark", None)
        if mark is None:
            return
        context, batch = self.context, self.batch

        def give() -> None:
            if batch.done or not batch.value:
                context.marks.give(mark)
            else:
                batch.releases.append(lambda: context.marks.give(mark))

        context.bury(give)
