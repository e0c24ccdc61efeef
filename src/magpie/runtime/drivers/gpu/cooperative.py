"""Launches whose workgroups all run at once, for kernels with `mp.grid_sync`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchValueError
from magpie.runtime.driver import Dims

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver
    from magpie.runtime.drivers.gpu.launch import GpuKernel

__all__ = ["MeetingPlace", "check_resident", "cooperative_launcher"]

_BYTES = 256


class MeetingPlace:
    """The word in global memory at which the workgroups of one bound launch meet; its launches follow one another."""

    def __init__(self, driver: GpuDriver, device: int) -> None:
        self.driver, self.device = driver, device
        self.allocation = driver.alloc(device, _BYTES, zero=True)
        self.address = self.allocation.address

    def __del__(self) -> None:
        allocation = getattr(self, "allocation", None)
        if allocation is not None:
            self.driver.free(self.device, allocation)


def check_resident(kernel: GpuKernel, function: int, grid: Dims, block: Dims, dynamic: int) -> None:
    """Raises LaunchValueError for a grid with more workgroups than the device runs at once."""
    driver, items = kernel.driver, block[0] * block[1] * block[2]
    api = driver.enter(kernel.device)
    each = api.number("resident_blocks", function, items, dynamic)
    most = each * driver.multiprocessors(kernel.device)
    count = grid[0] * grid[1] * grid[2]
    if count > most:
        raise LaunchValueError(
            f"kernel {kernel.layout.kernel!r} has a grid_sync, for which all its workgroups must run at once: the "
            f"device takes {most} of {items} work-items, and {count} were asked for",
            backend=driver.id,
            diagnostic="MPG_LAUNCH_1023",
            help=f"launch at most {most} workgroups, each in a loop over more elements",
        )


def cooperative_launcher(
    kernel: GpuKernel, function: int, grid: Dims, block: Dims, dynamic: int, stream: int
) -> tuple[Callable[..., int], tuple[Any, ...], Callable[[int], Any], Any]:
    """As `GpuKernel._launcher`, for the function that starts all workgroups or none; it takes one argument less."""
    api = kernel.driver.api
    raw: Callable[..., int] = api.library[api.table.functions["launch_cooperative"].name]
    numbers = (ctypes.c_uint(n) for n in (*grid, *block, dynamic))
    fixed = (ctypes.c_void_p(function), *numbers, ctypes.c_void_p(stream))
    return lambda *args: raw(*args[:-1]), fixed, ctypes.c_void_p, None
