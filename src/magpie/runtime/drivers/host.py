"""What drivers share whose device memory is host memory: aligned allocation, copies, and no queues."""

from __future__ import annotations

import ctypes
from typing import Any

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime import hostmem
from magpie.runtime.buffer import ALIGNMENT
from magpie.runtime.driver import Allocation, Driver, MemoryHint

__all__ = ["HostDriver"]

# Below this an allocation is not compared with what the machine has left: reading that would take longer.
_CHECKED_FROM = 64 << 20


class HostDriver(Driver):
    """Memory of this process. Every launch is complete on return, so streams have nothing to wait for."""

    host_memory = True

    def alloc(self, device: int, nbytes: int, hint: MemoryHint = MemoryHint.Auto, *, zero: bool = False) -> Allocation:
        """Memory at a multiple of 64 bytes. The hint makes no difference here: there is one memory.

        It comes from NumPy's allocator, which asks for large pages from 4 MiB on (a first touch of 256 MiB took 0.12 s
        instead of 0.94 s) and takes zeroed memory as untouched pages from the system.
        """
        if nbytes >= _CHECKED_FROM and nbytes > hostmem.available_bytes():
            raise self._out_of_memory(nbytes)
        import numpy as np

        try:
            memory = (np.zeros if zero else np.empty)(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):  # ValueError: more bytes than an address has
            raise self._out_of_memory(nbytes) from None
        start: int = memory.ctypes.data
        allocation = Allocation(start + -start % ALIGNMENT, nbytes, memory)
        self.stats.live[id(allocation)] = nbytes
        return allocation

    def _out_of_memory(self, nbytes: int) -> GpuError:
        free = hostmem.available_bytes()
        return GpuError(
            GpuErrorKind.OutOfMemory,
            self.id,
            f"an array of {_size(nbytes)} was asked for, and {_size(free)} are free",
            diagnostic="MPG_LAUNCH_1010",
        )

    def free(self, device: int, allocation: Allocation) -> None:
        """The memory goes with the NumPy array that holds it; this drops the accounting."""
        self.stats.live.pop(id(allocation), None)

    def copy_in(self, device: int, address: int, host: int, nbytes: int) -> None:
        ctypes.memmove(address, host, nbytes)

    def copy_out(self, device: int, host: int, address: int, nbytes: int) -> None:
        ctypes.memmove(host, address, nbytes)

    def copy(self, device: int, to: int, source: int, nbytes: int, stream: Any = None) -> None:
        ctypes.memmove(to, source, nbytes)

    def memory_available(self, device: int) -> int:
        return hostmem.available_bytes()


def _size(nbytes: int) -> str:
    if nbytes < 1024:
        return f"{nbytes} bytes"
    power = min(4, (nbytes.bit_length() - 1) // 10)
    return f"{nbytes / 1024**power:.1f} {('', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def host_view(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, *, writable: bool = True
) -> Any:
    """A NumPy array on memory that somebody else keeps; strides in elements, negative ones allowed."""
    import numpy as np

    class _Memory:
        __array_interface__ = {  # noqa: RUF012  # the protocol's form
            "version": 3,
            "data": (address, not writable),
            "shape": shape,
            "strides": tuple(s * dtype.itemsize for s in strides),
            "typestr": f"|V{dtype.itemsize}",
        }

    return np.asarray(_Memory()).view(dtype)
