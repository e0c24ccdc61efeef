"""A stream's side of the device: commands are recorded into batches, and a batch goes to a queue in one submission.

Each lane counts its batches on a timeline semaphore: batch n is done when the semaphore stands at n. The default lane
runs after what all others have been given, and they after what it has been given, as with CUDA's default stream; so a
lane submits its open batch before another that has to wait for it opens one.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import array, make, struct
from magpie.runtime.drivers.vk.memory import UNIT

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["Batch", "Lane", "Recorder"]

#: Commands of a batch at most. After a wait the first command goes alone, so that an idle device starts at once, and
#: each further batch may have twice as many: submitting costs as much as some ten launches.
MOST_COMMANDS = 32

#: Batches that a lane has under way at most: then the host waits for half of them.
MOST_PENDING = 64

_WORK = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | vk.VK_PIPELINE_STAGE_TRANSFER_BIT
_WRITES = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
_ANY = _WRITES | vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_READ_BIT | vk.VK_ACCESS_UNIFORM_READ_BIT


class Barriers:
    """The two memory barriers that are ever needed, with the arguments of the call made once."""

    def __init__(self) -> None:
        self._between = make("VkMemoryBarrier", srcAccessMask=_WRITES, dstAccessMask=_ANY)
        self._host = make("VkMemoryBarrier", srcAccessMask=_WRITES, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        rest = (0, None, 0, None)
        #: What runs later sees what was written before.
        self.between = (_WORK, _WORK, 0, 1, ctypes.addressof(self._between), *rest)
        #: The host sees what was written, once it has waited.
        self.host = (_WORK, vk.VK_PIPELINE_STAGE_HOST_BIT, 0, 1, ctypes.addressof(self._host), *rest)


#: Bytes of the memory that scalars of launches lie in, a chunk.
CHUNK = 64 << 10


class Uniforms:
    """Memory for the scalars of launches that do not fit elsewhere, and for a few bytes to copy: chunks, filled from
    the start."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.chunk: Piece | None = None
        self._at = 0

    def take(self, nbytes: int) -> tuple[Piece | None, int]:
        """Room for ``nbytes``: the chunk that is full now, and where the room begins in the new one or the old one."""
        full = None
        at = self._at
        if self.chunk is None or at + nbytes > CHUNK:
            full, self.chunk = self.chunk, self.context.take_chunk()
            at = 0
        self._at = at + nbytes + -nbytes % UNIT
        return full, at


class Recorder(ABC):
    """A command buffer that is being recorded: which memory it has used since its last barrier, and what is bound."""

    def __init__(self, context: Context, commands: int) -> None:
        self.context = context
        self.commands = commands
        self.written: set[Piece] = set()
        self.read: set[Piece] = set()
        self.pipeline = 0
        self.bound: Any = None
        #: Kernels that must stay as long as the commands may run.
        self.keep: set[Any] = set()

    @abstractmethod
    def touch(self, piece: Piece) -> None:
        """Commands use this memory."""

    @abstractmethod
    def until_done(self, piece: Piece) -> None:
        """Give this memory back when the commands run no more."""

    @abstractmethod
    def room(self) -> Uniforms:
        """Where scalars of launches lie."""

    def uniforms(self, nbytes: int) -> tuple[Piece, int, int]:
        """Room for ``nbytes`` that the host writes now: a piece, the offset in its buffer, and the host's address."""
        room = self.room()
        full, at = room.take(nbytes)
        if full is not None:
            self.until_done(full)
        chunk = room.chunk
        assert chunk is not None
        self.touch(chunk)
        return chunk, chunk.offset + at, chunk.host + at

    def barrier(self) -> None:
        """What comes sees what was written; nothing of it begins before."""
        self.context.barrier(self.commands, *self.context.barriers.between)
        self.written.clear()
        self.read.clear()

    def uses(self, reads: tuple[Piece, ...], writes: tuple[Piece, ...]) -> None:
        """Announce a command that reads and writes these; a barrier comes first where it has to."""
        written, read = self.written, self.read
        for piece in reads:
            if piece in written:
                self.barrier()
                break
        for piece in writes:
            if piece in written or piece in read:
                self.barrier()
                break
        written.update(writes)
        read.update(reads)


class Batch(Recorder):
    """Commands that go to the queue together. ``value``: where the lane's semaphore stands when they are done."""

    def __init__(self, lane: Lane, value: int, commands: int) -> None:
        super().__init__(lane.context, commands)
        self.lane = lane
        self.value = value
        self.count = 0
        self.opened = time.monotonic()
        #: What to do when it is done.
        self.releases: list[Callable[[], None]] = []
        #: Further command buffers, which run behind.
        self.behind: list[int] = []

    def touch(self, piece: Piece) -> None:
        if piece.last is not self:
            piece.touch(self)

    def until_done(self, piece: Piece) -> None:
        context = self.context
        self.releases.append(lambda: context.give(piece))

    def room(self) -> Uniforms:
        return self.lane.room

    @property
    def done(self) -> bool:
        """The device has done it, as far as the lane was asked."""
        return self.value <= self.lane.completed


class Lane:
    """Batches of one stream in order. Every method needs the device's lock."""

    def __init__(self, context: Context, queue: int) -> None:
        self.context = context
        self.queue = queue
        self.submitted = self.completed = 0
        self.batch: Batch | None = None
        self.pending: deque[Batch] = deque()
        self.limit = 1
        self.room = Uniforms(context)
        self._spare: list[int] = []
        #: Lane -> the value of it that this one has waited for.
        self._seen: dict[Lane, int] = {}
        kind = make("VkSemaphoreTypeCreateInfo", semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
        info = make("VkSemaphoreCreateInfo", pNext=ctypes.addressof(kind))
        self.semaphore = context.created("vkCreateSemaphore", info)
        self._counter = ctypes.c_uint64()
        self._submission()

    def _submission(self) -> None:
        """The structs of a submission, made once; `submit` fills in what changes."""
        self._signal = array(ctypes.c_uint64, [self.semaphore])
        self._value = (ctypes.c_uint64 * 1)()
        self._timeline = make(
            "VkTimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=ctypes.addressof(self._value),
        )
        self._submit = make(
            "VkSubmitInfo",
            pNext=ctypes.addressof(self._timeline),
            signalSemaphoreCount=1,
            pSignalSemaphores=ctypes.addressof(self._signal),
        )

    # --- recording ---------------------------------------------------------------------------------------------------
    def open(self) -> Batch:
        """The batch to record into."""
        batch = self.batch
        if batch is None:
            batch = self._open()
        return batch

    def _open(self) -> Batch:
        context = self.context
        context.check()
        default = context.default
        if self is default:
            for other in context.lanes:
                other.submit()
        else:
            default.submit()
        if len(self.pending) > 2:
            self.poll()
        commands = self._spare.pop() if self._spare else context.new_commands()
        context.begin(commands)
        batch = Batch(self, self.submitted + 1, commands)
        # Batches before this one are ordered on the queue, and no more: what they wrote is made visible here.
        batch.barrier()
        self.batch = batch
        context.opened()
        return batch

    def recorded(self, batch: Recorder) -> bool:
        """One more command was recorded: submit the batch if it has enough. Whether `throttle` has to be called then,
        which needs the lock to be free."""
        assert isinstance(batch, Batch)
        batch.count += 1
        if batch.count >= self.limit:
            self.submit()
            self.limit = min(2 * self.limit, MOST_COMMANDS)
        return len(self.pending) > MOST_PENDING

    def now(self) -> bool:
        """Submit at once; otherwise as `recorded`."""
        self.submit()
        return len(self.pending) > MOST_PENDING

    def throttle(self) -> None:
        """Wait until half of what is under way is done."""
        context = self.context
        with context.lock:
            self.poll()
            pending = self.pending
            if len(pending) <= MOST_PENDING:
                return
            value = pending[len(pending) // 2].value
        context.wait([(self, value)])

    def submit(self) -> None:
        """Give what is recorded to the queue."""
        batch = self.batch
        if batch is None:
            return
        self.batch = None
        context = self.context
        context.barrier(batch.commands, *context.barriers.host)
        context.end(batch.commands)
        handles = array(ctypes.c_void_p, [batch.commands, *batch.behind])
        waits = self._waits()
        semaphores = array(ctypes.c_uint64, [lane.semaphore for lane, _ in waits])
        values = array(ctypes.c_uint64, [value for _, value in waits])
        stages = array(ctypes.c_uint32, [vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT] * len(waits))
        self._value[0] = batch.value
        info, timeline = self._submit, self._timeline
        timeline.waitSemaphoreValueCount = info.waitSemaphoreCount = len(waits)
        timeline.pWaitSemaphoreValues = ctypes.addressof(values)
        info.pWaitSemaphores = ctypes.addressof(semaphores)
        info.pWaitDstStageMask = ctypes.addressof(stages)
        info.commandBufferCount, info.pCommandBuffers = len(handles), ctypes.addressof(handles)
        code = context.call["vkQueueSubmit"](self.queue, 1, ctypes.addressof(info), 0)
        context.submissions += 1
        if code:
            batch.value = 0  # it never runs: whatever waits for it must not
            self.pending.appendleft(batch)
            self.reached(self.completed)
            raise context.failed(code, "vkQueueSubmit")
        self.submitted = batch.value
        self._seen.update(waits)
        self.pending.append(batch)

    def _waits(self) -> list[tuple[Lane, int]]:
        """What the next batch has to wait for."""
        context = self.context
        others = context.lanes if self is context.default else (context.default,)
        found = []
        for lane in others:
            value = lane.submitted
            if lane is not self and value > lane.completed and value > self._seen.get(lane, 0):
                found.append((lane, value))
        return found

    # --- waiting -----------------------------------------------------------------------------------------------------
    def poll(self) -> None:
        """Ask the device how far it is, and let go of what it is done with."""
        if not self.pending:
            return
        context = self.context
        code = context.call["vkGetSemaphoreCounterValue"](context.handle, self.semaphore, ctypes.byref(self._counter))
        if code:
            raise context.failed(code, "vkGetSemaphoreCounterValue")
        self.reached(self._counter.value)

    def reached(self, value: int) -> None:
        """The semaphore stands at ``value``."""
        self.completed = max(self.completed, value)
        pending = self.pending
        while pending and (pending[0].value <= self.completed):
            batch = pending.popleft()
            self._spare.append(batch.commands)
            for release in batch.releases:
                release()
            # (a dead batch is referred to by arrays that it used: it must not keep others alive)
            batch.keep.clear()
            batch.releases.clear()
            batch.written.clear()
            batch.read.clear()

    def waited(self) -> None:
        """The host has waited: if nothing is left, what comes next is to start at once."""
        if self.batch is None and not self.pending:
            self.limit = 1

    def close(self) -> None:
        """Destroy the semaphore; all work is done."""
        self.context.call["vkDestroySemaphore"](self.context.handle, self.semaphore, None)


def wait_info(points: list[tuple[Lane, int]]) -> Any:
    """The struct to wait for lanes to reach values, with the arrays that it names."""
    semaphores = array(ctypes.c_uint64, [lane.semaphore for lane, _ in points])
    values = array(ctypes.c_uint64, [value for _, value in points])
    info = make(
        "VkSemaphoreWaitInfo",
        semaphoreCount=len(points),
        pSemaphores=ctypes.addressof(semaphores),
        pValues=ctypes.addressof(values),
    )
    info.keep = (semaphores, values)
    return info


def begin_info(*, again: bool) -> Any:
    """How a command buffer begins that runs once, or ``again`` and again."""
    once, many = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
    return make("VkCommandBufferBeginInfo", flags=many if again else once)


def copy_region(source: int, to: int, nbytes: int) -> Any:
    """A VkBufferCopy."""
    return struct("VkBufferCopy")(source, to, nbytes)
