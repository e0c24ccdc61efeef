"""Streams and events of a GPU driver: handles of the vendor's that go when nothing refers to them any more."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from magpie.errors import GpuError, GpuErrorKind

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver

__all__ = ["DeviceEvent", "DeviceStream"]

_NOT_READY = 600  # CUDA_ERROR_NOT_READY, hipErrorNotReady


class _Handle:
    """Something of the vendor's that ``destroy`` ends."""

    destroy: str
    driver: GpuDriver
    device: int
    handle: int

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle:
            try:
                self.driver.enter(self.device).functions[self.destroy](handle)
            except (GpuError, TypeError, AttributeError):
                return


class DeviceStream(_Handle):
    """A queue; without flags it waits for the legacy default stream, and that for it."""

    destroy = "destroy_stream"

    def __init__(self, driver: GpuDriver, device: int, flags: int = 0) -> None:
        self.driver, self.device = driver, device
        self.handle = driver.enter(device).number("create_stream", flags, type_=ctypes.c_void_p)


class DeviceEvent(_Handle):
    """A mark in a stream, with a time."""

    destroy = "destroy_event"

    def __init__(self, driver: GpuDriver, device: int, stream: int) -> None:
        self.driver, self.device = driver, device
        api = driver.enter(device)
        self.handle = api.number("create_event", 0, type_=ctypes.c_void_p)
        api.call("record_event", self.handle, stream)

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until the work before the mark is done. Raises GpuError TimeoutExpired where that takes too long."""
        driver = self.driver
        if timeout is not None:
            self._wait(driver.enter(self.device).functions["query_event"], timeout)
        driver.checked(self.device, "synchronize_event", self.handle)

    def _wait(self, query: Callable[..., int], timeout: float) -> None:
        driver = self.driver
        end = time.monotonic() + timeout
        pause = 20e-6
        while query(self.handle) == _NOT_READY:
            if time.monotonic() >= end:
                driver.stuck.add(self.device)
                kernel = f"; the kernel launched last is {driver.last!r}" if driver.last else ""
                raise GpuError(
                    GpuErrorKind.TimeoutExpired,
                    driver.id,
                    f"the work on {driver.id}:{self.device} has not ended after {timeout:g} s{kernel}",
                    help="wait longer, or look for a loop that never ends: nothing but the end of this process can "
                    "stop a kernel. MAGPIE_SANITIZE=1 runs the kernel on the interpreter, which finds such loops",
                )
            time.sleep(pause)
            pause = min(2 * pause, 2e-3)

    def elapsed_ms(self, earlier: DeviceEvent) -> float:
        """Milliseconds since another event; waits for both."""
        for event in (earlier, self):
            event.synchronize()
        out = ctypes.c_float()
        self.driver.api.call("elapsed_time", ctypes.byref(out), earlier.handle, self.handle)
        return float(out.value)
