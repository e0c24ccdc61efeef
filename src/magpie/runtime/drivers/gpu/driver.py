"""The driver of a stream-based GPU API: memory, streams and launches, as CUDA and HIP have them.

A vendor's driver says how its library is opened, what a device is like and how one is made current; everything else is
the same. Work goes to the legacy default stream unless a launch names one, and streams made here wait for it and it for
them, so that copies and launches of one program run in the order in which they were written.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import Allocation, DeviceInfo, Dims, MemoryHint, Recorded
from magpie.runtime.drivers.gpu.api import Api, open_library
from magpie.runtime.drivers.gpu.pool import PooledDriver
from magpie.runtime.drivers.gpu.streams import DeviceEvent, DeviceStream

__all__ = ["GpuDriver"]

_MANAGED_GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL, hipMemAttachGlobal
_HOST_PORTABLE_MAPPED = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP, and hipHostMalloc's
# A stream that does not wait for the default one, nor that for it: CU_STREAM_NON_BLOCKING, hipStreamNonBlocking
_NON_BLOCKING = 1
_CAPTURING = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE, hipStreamCaptureStatusActive
_PEER_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, hipErrorPeerAccessAlreadyEnabled
# CUDA_ERROR_NO_DEVICE, and what HIP's initialisation says where there is none
_NO_DEVICE = frozenset({100, 101})


class _Thread(threading.local):
    """What the driver knows of one thread."""

    device = -1
    streams: frozenset[int] = frozenset()


class GpuDriver(PooledDriver):
    """The devices of one vendor. ``library`` is a path for tests; None: what the system has."""

    api_type: ClassVar[type[Api]]
    #: How users call the API, and the vendor.
    title: ClassVar[str]
    vendor: ClassVar[str]

    def __init__(self, library: str | None = None) -> None:
        super().__init__()
        self._path = library
        self._api: Api | None = None
        self._lock = threading.Lock()
        #: What this thread has made current, and which streams of others its next launch follows.
        self.thread = _Thread()
        self._count = 0
        self._threads: dict[int, int] = {}
        #: This process is a fork of one that used the library, whose state the library does not let a child have.
        self.forked = False
        self._reached: set[tuple[int, int]] = set()
        #: Devices whose work did not end in the time that it was given: what would wait for it (freeing memory,
        #: unloading code) is left, or the program could not even end.
        self.stuck: set[int] = set()
        self._late: list[tuple[int, Allocation]] = []
        #: The kernel launched last: an error that comes later is most often its own. A list: native code fills it.
        self.launched = [""]
        #: Not 0 while launches must go through Python: threads that follow streams, or a forked child.
        self.closed = ctypes.c_int64(0)

    # --- devices -------------------------------------------------------------------------------------------------
    def probe(self) -> str | None:
        table = self.api_type.table
        names = self.library_names() if self._path is None else (self._path,)
        try:
            api = self.api_type(open_library(names))
        except OSError as error:
            if "No such file" in str(error) and _names_one_of(error, names):
                return f"{self.vendor}'s driver library ({table.libraries[0]}) is not installed"
            return f"{self.vendor}'s driver library cannot be loaded: {error}"
        except AttributeError as error:
            return f"{self.vendor}'s driver is too old: {error}"
        code = api.functions["init"](0)
        if code:
            said, name = api.describe(code), api.name(code)
            what = f"{table.functions['init'].name}: {name}" + (f", {said}" if said and said != name else "")
            return f"there is no {self.vendor} device ({what})" if code in _NO_DEVICE else what
        out = ctypes.c_int()
        code = api.functions["device_count"](ctypes.byref(out))
        if code and code not in _NO_DEVICE:
            return f"{table.functions['device_count'].name}: {api.name(code)}"
        self._count = out.value
        if code or self._count == 0:
            return f"there is no {self.vendor} device"
        self._api = api
        if hasattr(os, "register_at_fork"):
            mine = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forked(mine))
        return None

    @property
    def last(self) -> str:
        """The kernel launched last."""
        return self.launched[0]

    @property
    def system_library(self) -> bool:
        """Whether the library is the one that other packages in this process use."""
        return self._path is None

    @property
    def many(self) -> bool:
        """Whether there are several devices: then others may change a thread's current one behind our back."""
        return self._count > 1

    @property
    def api(self) -> Api:
        """The library, once probed."""
        assert self._api is not None
        return self._api

    def library_names(self) -> Sequence[str]:
        """Where the library may be, best first."""
        return self.api_type.table.libraries

    def devices(self) -> Sequence[DeviceInfo]:
        return tuple(self._info(n) for n in range(self._count))

    @abstractmethod
    def _info(self, index: int) -> DeviceInfo:
        """What the library tells of a device."""

    @abstractmethod
    def _make_current(self, device: int) -> None:
        """Make the device current on this thread."""

    @abstractmethod
    def current_mark(self, device: int) -> int:
        """What the library's `current` writes on a thread where this device is current."""

    def _attribute(self, name: str, ordinal: int) -> int:
        """A device's attribute, by our name."""
        return self.api.number("device_attribute", self.api.table.attributes[name], ordinal)

    def _named(self, ordinal: int) -> tuple[str, dict[str, str]]:
        """A device's name, and its UUID as a property; none where the library does not tell."""
        name, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        self.api.call("device_name", name, len(name), ordinal)
        read = self.api.functions.get("device_uuid")
        known = read is not None and read(uuid, ordinal) == 0 and any(uuid.raw)
        return name.value.decode("utf-8", "replace"), {"uuid": uuid.raw.hex()} if known else {}

    def threads(self, device: int) -> int:
        """How many threads a device holds at once."""
        found = self._threads.get(device)
        if found is None:
            ordinal = self.api.number("device", device)
            found = self.multiprocessors(device) * self._attribute("threads_of_multiprocessor", ordinal)
            self._threads[device] = found
        return found

    def multiprocessors(self, device: int) -> int:
        """How many multiprocessors (compute units) a device has."""
        return self._attribute("multiprocessors", self.api.number("device", device))

    def enter(self, device: int) -> Api:
        """Make the device current on this thread."""
        if self.many or self.thread.device != device:
            if self.forked:
                raise GpuError(
                    GpuErrorKind.BackendUnavailable,
                    self.id,
                    f"{self.title} cannot be used in a child made by fork of a process that used it",
                    help="start the child before the first launch, or with multiprocessing's method 'spawn'",
                )
            self._make_current(device)
            self.thread.device = device
        return self.api

    # --- memory --------------------------------------------------------------------------------------------------
    def alloc(self, device: int, nbytes: int, hint: MemoryHint = MemoryHint.Auto, *, zero: bool = False) -> Allocation:
        """Memory at a multiple of 256 bytes. Unified memory is managed; Staging and Cached are pinned on the host."""
        api = self.enter(device)
        size = max(1, nbytes)
        what = f"an array of {nbytes:,} bytes"
        out = ctypes.c_uint64()
        flags: tuple[int, ...] = ()
        name, free = "alloc", "free"
        if hint is MemoryHint.Unified:
            name, flags = "alloc_managed", (_MANAGED_GLOBAL,)
        elif hint in (MemoryHint.Staging, MemoryHint.Cached):
            name, flags, free = "alloc_host", (_HOST_PORTABLE_MAPPED,), "free_host"
        code = api.functions[name](ctypes.byref(out), size, *flags)
        if code and self._empty_pool(device):
            code = api.functions[name](ctypes.byref(out), size, *flags)
        if code:
            raise self.failed(code, what)
        allocation = Allocation(out.value, nbytes, free)
        self.stats.live[id(allocation)] = nbytes
        if zero:
            api.call("set_bytes", out.value, 0, size, None)
        return allocation

    def free(self, device: int, allocation: Allocation) -> None:
        """Give memory back; the library waits for the work that uses it."""
        self.stats.live.pop(id(allocation), None)
        if device in self.stuck:
            self._late.append((device, allocation))
            return
        try:
            self.enter(device).functions[allocation.owner](allocation.address)
        except (GpuError, TypeError, AttributeError):  # a finalizer: the context is lost, or the interpreter ends
            return

    def copy_in(self, device: int, address: int, host: int, nbytes: int) -> None:
        if nbytes:
            self.checked(device, "copy_in", address, host, nbytes)

    def copy_out(self, device: int, host: int, address: int, nbytes: int) -> None:
        if nbytes:
            self.checked(device, "copy_out", host, address, nbytes)

    def copy(self, device: int, to: int, source: int, nbytes: int, stream: Any = None) -> None:
        if nbytes:
            self.checked(device, "copy_async", to, source, nbytes, *self.any_direction, _handle(stream))

    def copy_between(self, to_device: int, to: int, device: int, source: int, nbytes: int, stream: Any = None) -> None:
        if not nbytes:
            return
        self._reach(to_device, device)
        queue = _handle(stream)
        self.wait(to_device, queue, device, 0)
        ends = (to, self.peer(to_device), source, self.peer(device))
        self.checked(to_device, "copy_peer_async", *ends, nbytes, queue)
        self.wait(device, 0, to_device, queue)

    def fill(self, device: int, address: int, pattern: bytes, count: int, stream: Any = None) -> None:
        name = {1: "set_bytes", 2: "set_halves", 4: "set_words"}[len(pattern)]
        if count:
            self.checked(device, name, address, int.from_bytes(pattern, "little"), count, _handle(stream))

    def host_visible(self, hint: MemoryHint) -> bool:
        return hint in (MemoryHint.Unified, MemoryHint.Staging, MemoryHint.Cached)

    #: What a copy's function takes besides to find out itself where both ends are.
    any_direction: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def peer(self, device: int) -> int:
        """How the library's functions for several devices name one."""

    def _reach(self, device: int, other: int) -> None:
        """Let two devices read each other's memory where they can: then copies do not go through the host."""
        for here, there in ((device, other), (other, device)):
            if (here, there) in self._reached:
                continue
            self._reached.add((here, there))
            api = self.enter(here)
            ordinals = (api.number("device", here), api.number("device", there))
            if api.number("can_access_peer", *ordinals):
                code = api.functions["enable_peer"](self.peer(there), 0)
                if code not in (0, _PEER_ENABLED):
                    raise self.failed(code, api.table.functions["enable_peer"].name)

    def memory_available(self, device: int) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.enter(device).call("memory_info", ctypes.byref(free), ctypes.byref(total))
        return free.value

    # --- streams -------------------------------------------------------------------------------------------------
    def create_stream(self, device: int) -> Any:
        return DeviceStream(self, device)

    def create_recording_stream(self, device: int) -> Any:
        return DeviceStream(self, device, _NON_BLOCKING)

    def record(self, device: int, stream: Any, steps: Sequence[Callable[[], None]]) -> Recorded:
        from magpie.runtime.drivers.gpu.graphs import DeviceGraph

        return DeviceGraph(self, device, stream, steps)

    def synchronize(self, device: int, stream: Any = None, timeout: float | None = None) -> None:
        if timeout is not None:
            DeviceEvent(self, device, _handle(stream)).synchronize(timeout)
        if stream is None:
            self.checked(device, "synchronize")
            self._recovered(device)
        else:
            self.checked(device, "synchronize_stream", stream.handle)

    def _recovered(self, device: int) -> None:
        """The device has ended its work: free what was kept while it had not."""
        self.stuck.discard(device)
        for kept in [each for each in self._late if each[0] == device]:
            self._late.remove(kept)
            self.free(*kept)

    def record_event(self, device: int, stream: Any) -> Any:
        return DeviceEvent(self, device, _handle(stream))

    # --- other libraries' arrays and streams -------------------------------------------------------------------------
    def owner_of(self, address: int) -> int | None:
        out = ctypes.c_int()
        self.enter(0)
        ask = self.api.functions.get("pointer_attribute")
        if ask is None or ask(ctypes.byref(out), self.api.table.attributes["pointer_device"], address):
            return None
        return out.value

    def follow(self, stream: int) -> None:
        if not self.thread.streams:
            self._close(1)
        self.thread.streams |= {stream}

    def lead(self, device: int, stream: int | None) -> None:
        if stream not in (None, -1, 0, 1):  # -1: the caller waits itself; the others are the legacy default stream
            self.wait(device, stream, device, 0)

    def followed(self) -> frozenset[int]:
        found, self.thread.streams = self.thread.streams, frozenset()
        if found:
            self._close(-1)
        return found

    def _close(self, by: int) -> None:
        with self._lock:
            self.closed.value += by

    def captures(self, stream: int) -> bool:
        """Whether another library records a graph from what is queued in this stream of its own."""
        ask, status = self.api.functions.get("is_capturing"), ctypes.c_int()
        return ask is not None and ask(stream, ctypes.byref(status)) == 0 and status.value == _CAPTURING

    def wait(self, device: int, waiting: int, other_device: int, other: int) -> None:
        """Work that is queued from now on in a stream waits for what another stream, perhaps elsewhere, has queued."""
        event = DeviceEvent(self, other_device, other)
        self.enter(device).call("wait_event", waiting, event.handle, 0)

    def checked(self, device: int, name: str, *args: Any) -> None:
        """A call that also reports what earlier launches did wrong."""
        code = self.enter(device).functions[name](*args)
        if code:
            raise self.failed(code, self.api.table.functions[name].name)

    def failed(self, code: int, what: str) -> GpuError:
        """The error for an error code, with the kernel that it most likely belongs to."""
        kind = self.api.error(code, what).kind
        if self.last and kind in (GpuErrorKind.LaunchFailed, GpuErrorKind.TimeoutExpired):
            what = f"{what}, after a launch of kernel {self.last!r}"
        return self.api.error(code, what)

    # --- code ----------------------------------------------------------------------------------------------------
    #: Bytes of shared memory that a kernel may have without opting in; None: there is no opting in.
    free_shared: ClassVar[int | None] = None

    @abstractmethod
    def load_module(self, code: bytes) -> tuple[int, int, str]:
        """Load code on the current device: the error code, the module, and what the library's log says."""

    @abstractmethod
    def check_grid(self, grid: Dims, block: Dims) -> None:
        """Raises LaunchValueError for a grid or workgroup that no device of this vendor takes."""

    def quick_launch(self) -> Callable[..., Any] | None:
        """A launch function that is faster than one by ctypes; None where there is none."""
        return None

    def load(self, device: int, artifact: Artifact, **options: Any) -> Any:
        from magpie.runtime.drivers.gpu.launch import GpuKernel

        return GpuKernel(self, device, artifact)


def _handle(stream: Any) -> int:
    return 0 if stream is None else int(stream.handle)


def _forked(driver: weakref.ref[GpuDriver]) -> None:
    """In a new child: what its threads enter now is not what the parent's had entered."""
    found = driver()
    if found is not None:
        found.forked = True
        found.closed.value = 1 << 62
        found.thread.device = -1


def _names_one_of(error: OSError, names: Sequence[str]) -> bool:
    """Whether the file that a loader could not open is one of these, and not one that it needs in turn."""
    return str(error).partition(":")[0] in names
