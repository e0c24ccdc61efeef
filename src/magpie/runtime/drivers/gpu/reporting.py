"""Launches of kernels that have something to say: prints, failed asserts, and what checked code left out."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

from magpie.backends.record_format import RECORD_HEADER, clear_records, read_records
from magpie.runtime.driver import Call, LaunchShape

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver
    from magpie.runtime.drivers.gpu.launch import GpuKernel

__all__ = ["RECORD_BYTES", "reporting"]

RECORD_BYTES = 1 << 20


def reporting(kernel: GpuKernel, start: Call, extents: tuple[int, ...], shape: LaunchShape, stream: int) -> Call:
    """A launch of a kernel that prints, asserts or is checked: complete on return, its records reported."""
    driver, device, info = kernel.driver, kernel.device, kernel.info
    lock = threading.Lock()
    memory: list[Any] = []

    def call(*words: Any) -> None:
        from magpie.runtime.records import report

        host = ctypes.create_string_buffer(RECORD_BYTES)
        with lock:
            if not memory:
                memory.append(_RecordMemory(driver, device))
            address = memory[0].allocation.address
            api = driver.enter(device)
            api.call("set_bytes", address, 0, RECORD_BYTES, stream)
            clear_records(host, RECORD_BYTES)
            head = 8 * RECORD_HEADER
            api.call("copy_in_async", address, ctypes.addressof(host), head, stream)
            start(*words, *extents, address)
            driver.checked(device, "synchronize_stream", stream)
            driver.copy_out(device, ctypes.addressof(host), address, head)
            if struct.unpack_from("<Q", host, 8)[0]:
                driver.copy_out(device, ctypes.addressof(host), address, RECORD_BYTES)
        found, lost = read_records(host)
        error = report(found, lost, info["sites"], shape.grid, shape.block, driver.id)
        if error is not None:
            raise error

    return call


class _RecordMemory:
    """The record buffer of one bound launch."""

    def __init__(self, driver: GpuDriver, device: int) -> None:
        self.driver, self.device = driver, device
        self.allocation = driver.alloc(device, RECORD_BYTES)

    def __del__(self) -> None:
        allocation = getattr(self, "allocation", None)
        if allocation is not None:
            self.driver.free(self.device, allocation)
