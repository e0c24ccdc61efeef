"""The interface of a driver: what the runtime asks of one vendor API, or of the host.

A driver sees artifacts and memory, never Kernel IR. Every failure is a `GpuError` that carries the vendor's own code. A
vendor library that is missing makes `probe` give a reason, never an import error.
"""

from __future__ import annotations

import ctypes
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from magpie.errors import GpuError, GpuErrorKind
from magpie.records import record

if TYPE_CHECKING:
    from magpie.backends.base import Artifact, Manifest
    from magpie.ir.layout import KernelLayout

__all__ = [
    "Allocation",
    "Call",
    "DeviceInfo",
    "Dims",
    "Driver",
    "LaunchShape",
    "Loaded",
    "MemoryHint",
    "MemoryStats",
    "Recorded",
    "Steps",
]

Dims = tuple[int, int, int]

#: Runs one launch on arguments that are already packed; what `Loaded.bind` gives.
Call = Callable[..., None]


class MemoryHint(enum.IntEnum):
    """Where memory should lie; names and numbers of `gpu.MemoryHint` (specification, 9.3). A wish, never a demand."""

    Auto = 0
    DeviceLocal = 1
    Unified = 2
    Staging = 3
    Cached = 4


@record
class DeviceInfo:
    """What a driver tells about one of its devices. Sizes in bytes; `backends` can all run on this device: none where
    there is no code for its architecture, and then it is never chosen by itself."""

    name: str
    index: int
    manifest: Manifest
    subgroup_size: int
    memory_total: int
    backends: tuple[str, ...]
    properties: Mapping[str, Any] = MappingProxyType({})


@record
class Allocation:
    """Memory that a driver gave out: its address on the device, its size, and whatever keeps it alive."""

    address: int
    nbytes: int
    owner: Any = None


class MemoryStats:
    """What is allocated now: id of the allocation to bytes. A dict's own operations are atomic, even in a finalizer."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}

    @property
    def buffers(self) -> int:
        """Allocations that are not freed."""
        return len(self.live)

    @property
    def nbytes(self) -> int:
        """Their size together."""
        return sum(tuple(self.live.values()))


@record
class LaunchShape:
    """Everything about a launch that is not an argument. `shared`: extents of each shared array of the layout."""

    grid: Dims
    block: Dims
    shared: tuple[tuple[int, ...], ...] = ()
    stream: Any = None


class Loaded(Protocol):
    """An artifact that is ready to run on one device. `reports`: the host has to look at something after a launch."""

    layout: KernelLayout
    reports: bool

    def bind(self, shape: LaunchShape) -> Call:
        """A function that launches in this shape; it takes the layout's words in order (see `arguments.Packer`).

        Raises GpuError where the device cannot run the shape. The function may be called from several threads at once.
        """


class Recorded(Protocol):
    """Steps of a graph, ready to run again and again."""

    def launch(self, stream: Any) -> None:
        """Run all steps, in the order of a stream of the driver's; None: the default one."""

    def update(self, index: int, step: Callable[[], None]) -> None:
        """Put another step in the place of one that launches a kernel."""


class Steps:
    """A graph of a driver that has none of its own: its steps, one after the other."""

    def __init__(self, steps: Sequence[Callable[[], None]]) -> None:
        self.steps = list(steps)

    def launch(self, stream: Any) -> None:
        """Run all steps."""
        for step in self.steps:
            step()

    def update(self, index: int, step: Callable[[], None]) -> None:
        """Put another step in the place of one."""
        self.steps[index] = step


class Driver(ABC):
    """One vendor API, or the host. An object of it is made once and probed; its devices live as long as it does."""

    id: str
    #: Device memory is host memory: host arrays are passed by their address, and nothing is copied.
    host_memory = False
    #: What DLPack calls the devices (dlpack.h, DLDeviceType); None: the host.
    dlpack_device: int | None = None

    def __init__(self) -> None:
        self.stats = MemoryStats()

    @abstractmethod
    def probe(self) -> str | None:
        """Why this driver cannot be used here, or None when it can. Opens the vendor's library on the first call."""

    @abstractmethod
    def devices(self) -> Sequence[DeviceInfo]:
        """The devices, in the vendor's order."""

    @abstractmethod
    def alloc(self, device: int, nbytes: int, hint: MemoryHint = MemoryHint.Auto, *, zero: bool = False) -> Allocation:
        """Memory of `nbytes`, aligned to the target's alignment fact. Raises GpuError OutOfMemory."""

    @abstractmethod
    def free(self, device: int, allocation: Allocation) -> None:
        """Give memory back. Never raises: it runs in finalizers."""

    def borrow(self, device: int, nbytes: int) -> Allocation:
        """Memory for the copy of a host array during one launch: `copy_in` writes it first."""
        return self.alloc(device, nbytes)

    def give_back(self, device: int, allocation: Allocation) -> None:
        """Give borrowed memory back; the launch may still read it."""
        self.free(device, allocation)

    @abstractmethod
    def copy_in(self, device: int, address: int, host: int, nbytes: int) -> None:
        """Host memory to device memory, complete on return."""

    @abstractmethod
    def copy_out(self, device: int, host: int, address: int, nbytes: int) -> None:
        """Device memory to host memory, complete on return."""

    @abstractmethod
    def copy(self, device: int, to: int, source: int, nbytes: int, stream: Any = None) -> None:
        """Device memory to memory of the same device, in the order of the stream."""

    def copy_between(self, to_device: int, to: int, device: int, source: int, nbytes: int, stream: Any = None) -> None:
        """Memory of one device to that of another, after what both have queued, and before what they queue then.

        The stream is one of the device that the copy is made to. This one goes through the host.
        """
        host = ctypes.create_string_buffer(nbytes)
        self.copy_out(device, ctypes.addressof(host), source, nbytes)
        self.copy_in(to_device, to, ctypes.addressof(host), nbytes)

    def fill(self, device: int, address: int, pattern: bytes, count: int, stream: Any = None) -> None:
        """`count` copies of a pattern of 1, 2 or 4 bytes, in the order of the stream. This one comes from the host."""
        host = ctypes.create_string_buffer(pattern * count, len(pattern) * count)
        self.copy_in(device, address, ctypes.addressof(host), len(pattern) * count)

    def host_visible(self, hint: MemoryHint) -> bool:
        """Whether the host may look at memory with this hint where it lies."""
        return self.host_memory

    @abstractmethod
    def load(self, device: int, artifact: Artifact, **options: Any) -> Loaded:
        """Make an artifact ready to run. Raises GpuError InvalidKernel for a blob that is damaged or foreign."""

    def memory_available(self, device: int) -> int:
        """Bytes that an allocation could get now; 0 where the vendor does not tell."""
        return 0

    def create_stream(self, device: int) -> Any:
        """A queue of the vendor's. None where every launch is complete on return."""
        return None

    def synchronize(self, device: int, stream: Any = None, timeout: float | None = None) -> None:
        """Wait until all work of the stream, or of the device, is done.

        Raises GpuError TimeoutExpired where it is not after `timeout` seconds.
        """
        return

    def create_recording_stream(self, device: int) -> Any:
        """The stream that the steps of a graph are launched in when they are recorded; see `create_stream`."""
        return None

    def record(self, device: int, stream: Any, steps: Sequence[Callable[[], None]]) -> Recorded:
        """A graph of these steps, each of which launches a kernel or copies in the stream when it is called."""
        return Steps(steps)

    def record_event(self, device: int, stream: Any) -> Any:
        """A mark in the stream; None where there are no streams."""
        return None

    # --- memory and streams of other libraries -----------------------------------------------------------------------
    def owner_of(self, address: int) -> int | None:
        """The device whose memory an address is; None for memory that the vendor's library does not know."""
        return None

    def follow(self, stream: int) -> None:  # noqa: B027 - nothing to follow where there are no streams
        """The next launch of this thread runs after what this stream of another library has queued, and before what
        it queues then."""

    def lead(self, device: int, stream: int | None) -> None:  # noqa: B027 - nothing to wait for without streams
        """What this stream of another library queues runs after what is queued here; numbers as DLPack's consumers
        give them."""

    def followed(self) -> frozenset[int]:
        """The streams to follow, which are then forgotten."""
        return frozenset()

    def unsupported(self, what: str) -> GpuError:
        """The error for an operation that this driver does not have."""
        return GpuError(GpuErrorKind.Unsupported, self.id, what)
