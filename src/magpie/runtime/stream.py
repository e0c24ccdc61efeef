"""Streams and events: order between launches, and times.

Where a launch is complete on return (cpu, interp) a stream has nothing to wait for; the interface is the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchValueError, public
from magpie.runtime.recording import refuse

if TYPE_CHECKING:
    from magpie.runtime.device import Device

__all__ = ["Event", "Stream", "synchronize"]

_WAIT = "nothing runs while a graph is recorded; wait after graph.launch()"


class Event:
    """A point in a stream. `Stream.record` makes one; `elapsed_ms(earlier)` is the time between two."""

    __slots__ = ("_handle", "_seconds", "stream")

    def __init__(self, stream: Stream, handle: Any, seconds: float) -> None:
        self.stream = stream
        self._handle = handle
        self._seconds = seconds

    @public
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the work before this point is done; see `Stream.synchronize`."""
        refuse(self.stream.device, "waiting for an event", _WAIT)
        seconds = check_timeout(timeout)
        if self._handle is not None:
            self._handle.synchronize(seconds)

    def elapsed_ms(self, earlier: Event) -> float:
        """Milliseconds from `earlier` to this event. Both must be of one device."""
        if earlier.stream.device is not self.stream.device:
            raise LaunchValueError("the time between events of two devices is not defined")
        if self._handle is None:
            return (self._seconds - earlier._seconds) * 1e3
        elapsed: float = self._handle.elapsed_ms(earlier._handle)
        return elapsed


class Stream:
    """A queue of launches on one device: those of one stream run in order. Use it as `kernel[grid, block, stream]`."""

    __slots__ = ("device", "handle")

    #: Launches in this stream are recorded for a graph.
    records = False

    def __init__(self, device: str | Device | None = None) -> None:
        from magpie.runtime.device import device as find_device

        self.device = find_device(device)
        self.handle = self.device.driver.create_stream(self.device.index)

    @public
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all work of this stream is done.

        Raises GpuError TimeoutExpired where it is not after `timeout` seconds. The work goes on then: what can end a
        kernel that never ends is the end of the process.
        """
        refuse(self.device, "waiting for a stream", _WAIT)
        self.device.driver.synchronize(self.device.index, self.handle, check_timeout(timeout))

    def record(self) -> Event:
        """An event after the work that was queued so far."""
        refuse(self.device, "an event", "record it around launches of the graph")
        handle = self.device.driver.record_event(self.device.index, self.handle)
        return Event(self, handle, time.perf_counter())

    def __repr__(self) -> str:
        return f"<mp.Stream on {self.device.id}>"


@public
def synchronize(device: str | Device | None = None, timeout: float | None = None) -> None:
    """Wait until all work on a device (the default one) is done; `timeout` is as for `Stream.synchronize`."""
    from magpie.runtime.device import device as find_device

    find_device(device).synchronize(timeout)


def check_timeout(timeout: float | None) -> float | None:
    """Seconds to wait for, or None. Raises LaunchValueError for what is no time."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise LaunchValueError(f"timeout= takes seconds, or None to wait for ever; got {timeout!r}")
    return float(timeout)
