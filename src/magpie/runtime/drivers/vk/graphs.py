"""Graphs: steps recorded into one command buffer, which is submitted again and again.

Other arguments for a step mean another recording: it is made when the graph is launched next, and the old one goes when
no launch of it is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from magpie.runtime.drivers.vk.lane import Recorder, Uniforms

if TYPE_CHECKING:
    from magpie.runtime.drivers.vk.context import Context
    from magpie.runtime.drivers.vk.lane import Batch, Lane
    from magpie.runtime.drivers.vk.memory import Piece

__all__ = ["GraphStream", "VulkanGraph"]

Step = Callable[[], None]


class GraphStream:
    """What the steps of a graph are launched in: they are recorded, and run with the graph."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.recording: Recording | None = None

    def open(self) -> Recorder:
        """Where steps are recorded. Needs the lock."""
        assert self.recording is not None
        return self.recording

    def recorded(self, recorder: Recorder) -> bool:
        """Nothing to do: the steps wait for a launch of the graph."""
        return False

    def throttle(self) -> None:
        """Nothing to wait for."""


class Recording(Recorder):
    """One command buffer with the steps of a graph, and the memory that it uses."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.new_commands())
        self.pieces: set[Piece] = set()
        self._owned: list[Piece] = []
        self._uniforms = Uniforms(context)

    def touch(self, piece: Piece) -> None:
        self.pieces.add(piece)

    def until_done(self, piece: Piece) -> None:
        self._owned.append(piece)

    def room(self) -> Uniforms:
        return self._uniforms

    def end(self) -> None:
        """Give everything back; no launch is under way. Needs the lock."""
        context = self.context
        context.free_commands(self.commands)
        chunk = self._uniforms.chunk
        for piece in (*self._owned, *([chunk] if chunk is not None else [])):
            context.give(piece)
        self.keep.clear()


class VulkanGraph:
    """Recorded steps, ready to run."""

    def __init__(self, context: Context, stream: GraphStream, steps: Sequence[Step]) -> None:
        self.context = context
        self._stream = stream
        self._steps = list(steps)
        self._lock = threading.Lock()
        self._recording = self._record()
        self._stale = False
        #: The batch that ran it last.
        self._last: Batch | None = None

    def _record(self) -> Recording:
        context, stream = self.context, self._stream
        with context.lock:
            context.check()
            recording = Recording(context)
            context.begin(recording.commands, again=True)
            # Earlier commands of the queue, an earlier launch of this very graph among them.
            recording.barrier()
        stream.recording = recording
        try:
            for step in self._steps:
                step()
        except BaseException:
            with context.lock:
                context.end(recording.commands)
                recording.end()
            raise
        finally:
            stream.recording = None
        with context.lock:
            context.barrier(recording.commands, *context.barriers.host)
            code = context.end(recording.commands)
            if code:
                raise context.failed(code, "vkEndCommandBuffer")
        return recording

    def launch(self, lane: Lane) -> None:
        """Queue a replay: it is submitted with what the lane has recorded before."""
        context = self.context
        with self._lock:
            if self._stale:
                made = self._record()
                self._retire(self._recording)
                self._recording, self._stale = made, False
            recording = self._recording
        with context.lock:
            batch = lane.open()
            batch.behind.append(recording.commands)
            for piece in recording.pieces:
                batch.touch(piece)
            batch.keep.add(self)
            self._last = batch
            full = lane.now()
        if full:
            lane.throttle()

    def update(self, index: int, step: Step) -> None:
        """Another step in the place of one; launches that are under way keep the old one."""
        self._steps[index] = step
        self._stale = True

    def _retire(self, recording: Recording) -> None:
        last = self._last

        def end() -> None:
            if last is None or last.done:
                recording.end()
            else:
                last.releases.append(recording.end)

        self.context.bury(end)

    def __del__(self) -> None:
        recording = getattr(self, "_recording", None)
        if recording is not None:
            self._retire(recording)
