"""How a driver tells the native path what a launch does in the end.

A target is a table of 64-bit words that `text` reads; the enumerations are its layout.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from magpie.records import record

__all__ = ["Gpu", "Host", "Kind", "Target"]


class Kind(IntEnum):
    """What a launch does in the end."""

    HOST = 0
    GPU = 1


class Host(IntEnum):
    """A native entry that takes a launch block (`backends.cpu.launch_block`), filled but for the arguments."""

    ENTRY = 0
    POOL = 1  # address of: how many blocks are free; of each its address and its LaunchBlock
    RELEASES = 2  # whether the GIL is released
    WATCHING = 3  # the dict of blocks that Ctrl-C cancels, or null
    MAIN_THREAD = 4
    ARMED = 5  # address of a word that is not 0 once somebody listens for Ctrl-C


class Gpu(IntEnum):
    """The arguments of cuLaunchKernel, or of another library's function of that form, and what surrounds the call."""

    LAUNCH = 0
    FUNCTION = 1
    DIMS = 2  # grid, block and bytes of shared memory: seven words
    STREAM = 9
    GET_CURRENT = 10  # int (void *out): what is current on this thread, a context or a device's number
    CURRENT = 11  # what that has to be
    LAST = 12  # a list whose only item becomes the kernel's name
    FAILED = 13  # a callable that raises the error of the library's error code
    PARAMETER_COUNT = 14
    HIDDEN_COUNT = 15  # of constant words that are parameters behind those of the layout
    OFFSETS = 16  # of each parameter in the argument words; then the hidden words


@record
class Target:
    """How a driver launches one kernel in one shape: its table, and the objects that must outlive it.

    `takes_time` says that the GIL is released meanwhile, so that others may free an array: such launches are counted.
    """

    kind: Kind
    words: tuple[int, ...]
    keep: tuple[Any, ...]
    takes_time: bool
    gate: int = 0
