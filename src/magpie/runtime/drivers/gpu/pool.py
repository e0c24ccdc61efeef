"""Memory for copies of host arrays, kept from launch to launch: to allocate and free it takes longer than a small
launch."""

from __future__ import annotations

from magpie.runtime.driver import Allocation, Driver

__all__ = ["PooledDriver"]

# Borrowed memory: the smallest piece, and how many bytes of each size are kept.
_SMALLEST = 4096
_KEPT = 64 << 20
_STEP = 2 << 20  # what larger pieces are multiples of


class PooledDriver(Driver):
    """A driver that keeps borrowed memory."""

    def __init__(self) -> None:
        super().__init__()
        self._pool: dict[tuple[int, int], list[Allocation]] = {}  # by device and size

    def borrow(self, device: int, nbytes: int) -> Allocation:
        """Memory from the pool."""
        size = 1 << (max(_SMALLEST, nbytes) - 1).bit_length()
        if size > _KEPT:  # such memory is rarely asked for twice, and twice as much may be more than there is
            size = nbytes + -nbytes % _STEP
        try:
            return self._pool[device, size].pop()
        except (KeyError, IndexError):
            return self.alloc(device, size)

    def give_back(self, device: int, allocation: Allocation) -> None:
        """To the pool. A launch that still reads it is no danger: `copy_in` waits for it, and comes first."""
        kept = self._pool.setdefault((device, allocation.nbytes), [])
        if len(kept) * allocation.nbytes < _KEPT:
            kept.append(allocation)
        else:
            self.free(device, allocation)

    def _empty_pool(self, device: int) -> bool:
        """Release what is kept for copies; whether there was anything."""
        found = False
        for (owner, _), kept in list(self._pool.items()):
            while owner == device and kept:
                try:
                    self.free(device, kept.pop())
                except IndexError:  # another thread took it
                    break
                found = True
        return found
