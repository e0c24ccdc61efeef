"""Streams and events of a GPU driver: handles of the vendor's that go when nothing refers to them any more."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from magpie.errors import GpuError

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver

__all__ = ["DeviceEvent", "DeviceStream"]


class DeviceStream:
    """A queue; without flags it waits for the legacy default stream, and that for it."""

    def __init__(self, driver: GpuDriver, device: int, flags: int = 0) -> None:
        self.driver, self.device = driver, device
        self.handle = driver.enter(device).number("create_stream", flags, type_=ctypes.c_void_p)

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle:
            try:
                self.driver.enter(self.device).functions["destroy_stream"](handle)
            except (GpuError, TypeError, AttributeError):
                return


class DeviceEvent:
    """A mark in a stream, with a time."""

    def __init__(self, driver: GpuDriver, device: int, stream: int) -> None:
        self.driver, self.device = driver, device
        api = driver.enter(device)
        self.handle = api.number("create_event", 0, type_=ctypes.c_void_p)
        api.call("record_event", self.handle, stream)

    def elapsed_ms(self, earlier: DeviceEvent) -> float:
        """Milliseconds since another event; waits for both."""
        for event in (earlier, self):
            self.driver.checked(self.device, "synchronize_event", event.handle)
        out = ctypes.c_float()
        self.driver.api.call("elapsed_time", ctypes.byref(out), earlier.handle, self.handle)
        return float(out.value)

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle:
            try:
                self.driver.enter(self.device).functions["destroy_event"](handle)
            except (GpuError, TypeError, AttributeError):
                return
