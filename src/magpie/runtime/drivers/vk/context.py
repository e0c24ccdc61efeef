"""A logical device and everything that hangs on it: queues, lanes, memory, pipelines, and one lock for all of them."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import MemoryHint
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.descriptors import Descriptors
from magpie.runtime.drivers.vk.lane import CHUNK, Barriers, Batch, Lane, begin_info, wait_info
from magpie.runtime.drivers.vk.layouts import array, make, names, prototype
from magpie.runtime.drivers.vk.memory import Memory, Piece
from magpie.runtime.drivers.vk.physical import PhysicalDevice, version_text
from magpie.runtime.drivers.vk.pipelines import Pipelines
from magpie.runtime.drivers.vk.results import BACKEND, error
from magpie.runtime.drivers.vk.streams import Marks
from magpie.runtime.drivers.vk.structs import DEVICE
from magpie.runtime.drivers.vk.transfer import Transfers

__all__ = ["Context"]

# A wait is cut into pieces of this length, between which Ctrl-C is seen.
_SLICE = 100_000_000
#: Seconds after which commands that wait for more are submitted.
OLD = 0.0005
_QUEUES = 8

# Functions that only write into a command buffer or into memory of the driver's: they keep the GIL.
_QUICK = ("vkCmd", "vkGetSemaphoreCounterValue", "vkUpdateDescriptorSets")


class Doomed:
    """A kernel that nobody has any more; ``destroy`` is for a moment at which the device is done with it."""

    __slots__ = ("destroy",)

    def __init__(self, destroy: Callable[[], None]) -> None:
        self.destroy = destroy


class Context:
    """The logical device of a physical one. Raises GpuError.

    `lock` is held while commands are recorded and submitted and while memory is given out; nothing waits under it. What
    finalizers give back is put into `buried`, since they run at any moment, and is looked at when the lock is free.
    """

    def __init__(self, physical: PhysicalDevice, index: int) -> None:
        self.physical = physical
        self.instance = physical.instance
        self.index = index
        self.name = physical.name
        self.lock = threading.Lock()
        self.handle = 0
        #: The error after which nothing works any more.
        self.lost: GpuError | None = None
        self.forked = False
        #: What went wrong where nobody was told: the next call raises it.
        self.late: list[GpuError] = []
        #: The kernel that was launched last: a lost device is most often its doing.
        self.last = ""
        #: Work did not end in the time that it was given: the end of the process does not wait for it.
        self.stuck = False
        self.submissions = 0
        self.buried: deque[Piece | Doomed | Callable[[], None]] = deque()
        if not physical.new_enough:
            raise GpuError(
                GpuErrorKind.Unsupported,
                BACKEND,
                f"{self.name} has Vulkan {version_text(physical.api_version)}, and 1.3 is needed",
                help="update the device's driver",
            )
        family, self.family = physical.compute_family()
        self._create(family)
        self.queues = self._queues(family)
        self.barriers = Barriers()
        self.barrier: Callable[..., None] = self.call["vkCmdPipelineBarrier"]
        self.end: Callable[[int], int] = self.call["vkEndCommandBuffer"]
        self._once, self._again = begin_info(again=False), begin_info(again=True)
        self._pool = self.created(
            "vkCreateCommandPool",
            make(
                "VkCommandPoolCreateInfo",
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                queueFamilyIndex=family,
            ),
        )
        self.descriptors = Descriptors(self)
        self.pipelines = Pipelines(self)
        self.memory = Memory(self)
        self.marks = Marks(self)
        self.transfers = Transfers(self)
        self.default = Lane(self, self.queues[0])
        self.lanes = [self.default]
        self._idle_lanes: list[Lane] = []
        self._wake = threading.Event()
        self._flusher: threading.Thread | None = None
        #: It ends, and has ended.
        self.finishing = self.finished = False

    def _create(self, family: int) -> None:
        physical = self.physical
        priorities = array(ctypes.c_float, [1.0] * min(_QUEUES, self.family.queueCount))
        queue = make(
            "VkDeviceQueueCreateInfo",
            queueFamilyIndex=family,
            queueCount=len(priorities),
            pQueuePriorities=ctypes.addressof(priorities),
        )
        extensions = names(physical.enabled_extensions())
        features = physical.enabled_features()
        info = make(
            "VkDeviceCreateInfo",
            pNext=ctypes.addressof(features),
            queueCreateInfoCount=1,
            pQueueCreateInfos=ctypes.addressof(queue),
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=ctypes.addressof(extensions),
        )
        out = ctypes.c_void_p()
        of_instance = self.instance.functions
        code = of_instance["vkCreateDevice"](physical.handle, ctypes.byref(info), None, ctypes.byref(out))
        if code:
            raise error(code, f"vkCreateDevice for {self.name}")
        self.handle = out.value or 0
        self.call: dict[str, Callable[..., Any]] = {}
        for name, signature in DEVICE.items():
            address = of_instance["vkGetDeviceProcAddr"](self.handle, name.encode())
            if address:
                self.call[name] = prototype(signature, quick=name.startswith(_QUICK))(address)

    def _queues(self, family: int) -> list[int]:
        found = []
        for n in range(min(_QUEUES, self.family.queueCount)):
            out = ctypes.c_void_p()
            self.call["vkGetDeviceQueue"](self.handle, family, n, ctypes.byref(out))
            found.append(out.value or 0)
        return found

    # --- errors ------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Raise what has gone wrong before."""
        if self.lost is not None:
            raise self.lost.__class__(self.lost.kind, BACKEND, self.lost.message, self.lost.code, help=self.lost.help)
        if self.forked:
            raise GpuError(
                GpuErrorKind.BackendUnavailable,
                BACKEND,
                "Vulkan cannot be used in a child made by fork of a process that used it",
                help="start the child before the first launch, or with multiprocessing's method 'spawn'",
            )
        if self.late:
            raise self.late.pop(0)
        if self.instance.unraised:
            self.instance.raise_messages()

    def failed(self, code: int, what: str) -> GpuError:
        """The error for a result; a lost device stays lost."""
        if code == vk.VK_ERROR_DEVICE_LOST:
            if self.last:
                what += f", after a launch of kernel {self.last!r}"
            self.lost = error(code, what)
            return self.lost
        return error(code, what)

    def created(self, function: str, info: Any) -> int:
        """The handle of something new. Raises GpuError."""
        out = ctypes.c_uint64()
        code = self.call[function](self.handle, ctypes.byref(info), None, ctypes.byref(out))
        if code:
            raise self.failed(code, function)
        return out.value

    def before_fork(self) -> None:
        """No other thread is in the middle of something."""
        self.lock.acquire()

    def after_fork(self, *, child: bool) -> None:
        """Go on; a child cannot use the device."""
        if child:
            self.forked = True
            for lane in self.lanes:
                lane.batch = None
        self.lock.release()

    # --- command buffers ---------------------------------------------------------------------------------------------
    def new_commands(self) -> int:
        """A new command buffer."""
        info = make("VkCommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1)
        out = ctypes.c_void_p()
        code = self.call["vkAllocateCommandBuffers"](self.handle, ctypes.byref(info), ctypes.byref(out))
        if code:
            raise self.failed(code, "vkAllocateCommandBuffers")
        return out.value or 0

    def free_commands(self, commands: int) -> None:
        """Give a command buffer back that runs no more."""
        self.call["vkFreeCommandBuffers"](self.handle, self._pool, 1, ctypes.byref(ctypes.c_void_p(commands)))

    def begin(self, commands: int, *, again: bool = False) -> None:
        """Begin to record."""
        info = self._again if again else self._once
        code = self.call["vkBeginCommandBuffer"](commands, ctypes.addressof(info))
        if code:
            raise self.failed(code, "vkBeginCommandBuffer")

    # --- lanes -------------------------------------------------------------------------------------------------------
    def new_lane(self) -> Lane:
        """A lane for a stream, on a queue of its own where there are enough."""
        with self.lock:
            self.check()
            if self._idle_lanes:
                return self._idle_lanes.pop()
            queues = self.queues
            lane = Lane(self, queues[len(self.lanes) % len(queues)])
            self.lanes.append(lane)
            return lane

    def end_lane(self, lane: Lane) -> None:
        """The stream of a lane is gone; its work goes on. For finalizers."""
        self.bury(lambda: self._idle_lanes.append(lane))

    def opened(self) -> None:
        """A batch was opened: submit it in time though nobody may ask."""
        if not self._wake.is_set():
            self._wake.set()
            if self._flusher is None:
                flusher = threading.Thread(
                    target=_flush_old, args=(weakref.ref(self), self._wake), name="magpie-vulkan", daemon=True
                )
                self._flusher = flusher
                flusher.start()

    def flush_old(self) -> None:
        """Submit what was recorded some time ago."""
        with self.lock:
            before = time.monotonic() - OLD
            waiting = False
            for lane in self.lanes:
                batch = lane.batch
                if batch is not None:
                    if batch.opened <= before:
                        lane.submit()
                    else:
                        waiting = True
            if not waiting:
                self._wake.clear()

    # --- waiting -----------------------------------------------------------------------------------------------------
    def synchronize(self, lane: Lane | None = None, timeout: float | None = None) -> None:
        """Wait for a lane, or for all. Raises GpuError TimeoutExpired."""
        with self.lock:
            self.check()
            lanes = self.lanes if lane is None else [lane]
            for each in lanes:
                each.submit()
            points = [(each, each.submitted) for each in lanes if each.submitted > each.completed]
        if points:
            self.wait(points, timeout)
        with self.lock:
            self.stuck = self.stuck and lane is not None
            for each in lanes:
                each.waited()
            self._drain()
        if self.instance.unraised:
            self.instance.raise_messages()

    def wait_for(self, batches: Sequence[Batch], timeout: float | None = None) -> None:
        """Wait until batches are done, which are submitted if they are open."""
        with self.lock:
            self.check()
            points = self._points(batches)
        if points:
            self.wait(points, timeout)

    def _points(self, batches: Sequence[Batch]) -> list[tuple[Lane, int]]:
        for batch in batches:
            if batch.lane.batch is batch:
                batch.lane.submit()
        return [(batch.lane, batch.value) for batch in batches if not batch.done]

    def wait(self, points: list[tuple[Lane, int]], timeout: float | None = None) -> None:
        """Wait until lanes reach values. Needs the lock to be free."""
        info = wait_info(points)
        end = None if timeout is None else time.monotonic() + timeout
        wait = self.call["vkWaitSemaphores"]
        while True:
            left = _SLICE if end is None else max(0, min(_SLICE, int((end - time.monotonic()) * 1e9)))
            code = wait(self.handle, ctypes.addressof(info), left)
            if code == vk.VK_SUCCESS:
                break
            if code != vk.VK_TIMEOUT:
                raise self.failed(code, "vkWaitSemaphores")
            if end is not None and time.monotonic() >= end:
                raise self._late(timeout)
        with self.lock:
            for lane, value in points:
                lane.reached(value)
                lane.waited()

    def _late(self, timeout: float | None) -> GpuError:
        self.stuck = True
        kernel = f"; the kernel launched last is {self.last!r}" if self.last else ""
        return GpuError(
            GpuErrorKind.TimeoutExpired,
            BACKEND,
            f"the work on {BACKEND}:{self.index} has not ended after {timeout:g} s{kernel}",
            help="wait longer, or look for a loop that never ends: nothing but the end of this process can "
            "stop a kernel. MAGPIE_SANITIZE=1 runs the kernel on the interpreter, which finds such loops",
        )

    # --- memory ------------------------------------------------------------------------------------------------------
    def take_chunk(self) -> Piece:
        """Memory for scalars of launches. Needs the lock."""
        return self.memory.take(CHUNK, MemoryHint.Unified)

    def give(self, piece: Piece) -> None:
        """Memory that commands which are done have used. Needs the lock."""
        self._release(piece)

    # --- what is given back ------------------------------------------------------------------------------------------
    def bury(self, what: Piece | Doomed | Callable[[], None]) -> None:
        """Give memory back, or run something that needs the lock; from a finalizer, at any moment."""
        self.buried.append(what)
        if self.lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self.lock.release()

    def drain(self) -> None:
        """Look at what was given back. Needs the lock."""
        for lane in self.lanes:
            lane.poll()
        self._drain()

    def _drain(self) -> None:
        buried = self.buried
        doomed: list[Doomed] = []
        while buried:
            what = buried.popleft()
            if self.finished or self.forked or self.lost is not None:
                continue
            if isinstance(what, Piece):
                self._release(what)
            elif isinstance(what, Doomed):
                doomed.append(what)
            else:
                what()
        if doomed and self._settled():
            for each in doomed:
                each.destroy()
        else:
            buried.extend(doomed)

    def _settled(self) -> bool:
        """Whether the device's threads have let go of pipelines that no command uses: a GPU's driver looks after that
        itself; lavapipe's queue goes on with a pipeline for a moment after the semaphore has told that all is done."""
        if not self.physical.is_cpu:
            return True
        if any(lane.pending for lane in self.lanes):
            return False
        return not self.call["vkDeviceWaitIdle"](self.handle)

    def _release(self, piece: Piece) -> None:
        busy = piece.busy()
        if busy:
            busy[0].releases.append(lambda: self._release(piece))
        else:
            self.memory.give(piece)

    def close(self) -> None:
        """Wait for all work, and destroy everything."""
        if self.finished or not self._ends():
            return
        self._stop()
        if self.lost is None and not self.forked:
            self.synchronize()
            self.pipelines.save()
        with self.lock:
            self._drain()
            self.finished = True
            if self.forked:
                return
            # A semaphore tells that commands have run; lavapipe's thread lets go of pipelines after that.
            self.call["vkDeviceWaitIdle"](self.handle)
            parts: tuple[Any, ...] = (self.descriptors, self.pipelines, self.marks, self.memory, *self.lanes)
            for part in parts:
                part.close()
            self.call["vkDestroyCommandPool"](self.handle, self._pool, None)
            self.call["vkDestroyDevice"](self.handle, None)

    def _ends(self) -> bool:
        """Whether work that did not end in time has ended by now."""
        if self.stuck:
            with self.lock:
                for lane in self.lanes:
                    lane.poll()
                self.stuck = any(lane.pending for lane in self.lanes)
        return not self.stuck

    def _stop(self) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is not None and not self.forked:
            self.finishing = True
            self._wake.set()
            flusher.join(1)


def _flush_old(context: weakref.ref[Context], wake: threading.Event) -> None:
    """The thread that submits what nobody asks for."""
    while True:
        wake.wait()
        time.sleep(OLD)
        found = context()
        if found is None or found.finishing:
            return
        try:
            found.flush_old()
        except GpuError as error:
            wake.clear()
            if found.lost is None:
                found.late.append(error)
        del found
