"""The CUDA driver: devices, memory, streams and launches over NVIDIA's driver library.

Each device's primary context is used, which is that of torch, CuPy and JAX too: their memory can be passed as it is.
Work goes to the legacy default stream unless a launch names one, and streams made here wait for it and it for them, so
that copies and launches of one program run in the order in which they were written.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind
from magpie.records import replaced
from magpie.runtime.driver import Allocation, DeviceInfo, Driver, MemoryHint
from magpie.runtime.drivers.cuda_api import Api, Attribute, open_library

__all__ = ["CudaDriver"]

_MANAGED_GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL
# Borrowed memory: the smallest piece, and how many bytes of each size are kept.
_SMALLEST = 4096
_KEPT = 64 << 20

_HOST_PORTABLE_MAPPED = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP


class _Thread(threading.local):
    """What the driver knows of one thread."""

    device = -1
    streams: frozenset[int] = frozenset()


class CudaDriver(Driver):
    """NVIDIA devices. ``library`` is a path for tests; None: what the system has."""

    id = "ptx"

    def __init__(self, library: str | None = None) -> None:
        super().__init__()
        self._path = library
        self._api: Api | None = None
        self._lock = threading.Lock()
        self._contexts: dict[int, int] = {}
        #: What this thread has made current, and which streams of others its next launch follows.
        self.thread = _Thread()
        self._count = 0
        self._pool: dict[tuple[int, int], list[Allocation]] = {}  # by device and size, a power of two
        #: This process is a fork of one that used CUDA, whose state the library does not let a child have.
        self.forked = False
        #: The kernel launched last: an error that comes later is most often its own.
        self.last = ""

    # --- devices -------------------------------------------------------------------------------------------------
    def probe(self) -> str | None:
        try:
            api = Api(open_library(self._path))
        except OSError:
            return "NVIDIA's driver library (libcuda.so.1) is not installed"
        except AttributeError as error:
            return f"NVIDIA's driver is too old: {error}"
        code = api.functions["cuInit"](0)
        if code:
            return f"cuInit: {api.name(code)}" + (f", {api.describe(code)}" if api.describe(code) else "")
        self._count = api.number("cuDeviceGetCount")
        if self._count == 0:
            return "there is no NVIDIA device"
        self._api = api
        if hasattr(os, "register_at_fork"):
            mine = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forked(mine))
        return None

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

    def devices(self) -> Sequence[DeviceInfo]:
        return tuple(self._info(n) for n in range(self._count))

    def _info(self, index: int) -> DeviceInfo:
        from magpie.backends.ptx.arch import nearest
        from magpie.backends.registry import backend

        api = self.api
        ordinal = api.number("cuDeviceGet", index)

        def attribute(number: int) -> int:
            return api.number("cuDeviceGetAttribute", number, ordinal)

        name, uuid = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
        api.call("cuDeviceGetName", name, len(name), ordinal)
        api.call("cuDeviceGetUuid", uuid, ordinal)
        major = attribute(Attribute.COMPUTE_CAPABILITY_MAJOR)
        minor = attribute(Attribute.COMPUTE_CAPABILITY_MINOR)
        version = api.number("cuDriverGetVersion")
        manifest = replaced(
            backend("ptx").manifest,
            max_workgroup_size=attribute(Attribute.MAX_THREADS_PER_BLOCK),
            max_shared_bytes=attribute(Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        )
        return DeviceInfo(
            name=name.value.decode("utf-8", "replace"),
            index=index,
            manifest=manifest,
            subgroup_size=32,
            memory_total=api.number("cuDeviceTotalMem_v2", ordinal, type_=ctypes.c_size_t),
            backends=("ptx",),
            properties={
                "arch": nearest(major, minor).name,
                "compute_capability": f"{major}.{minor}",
                "multiprocessors": attribute(Attribute.MULTIPROCESSOR_COUNT),
                "cuda": f"{version // 1000}.{version % 1000 // 10}",
                "uuid": uuid.raw.hex(),
            },
        )

    def enter(self, device: int) -> Api:
        """Make the device's context current on this thread."""
        if self.many or self.thread.device != device:
            if self.forked:
                raise GpuError(
                    GpuErrorKind.BackendUnavailable,
                    self.id,
                    "CUDA cannot be used in a child made by fork of a process that used it",
                    help="start the child before the first launch, or with multiprocessing's method 'spawn'",
                )
            context = self._contexts.get(device)
            if context is None:
                with self._lock:
                    context = self._contexts.get(device)
                    if context is None:
                        ordinal = self.api.number("cuDeviceGet", device)
                        context = self.api.number("cuDevicePrimaryCtxRetain", ordinal, type_=ctypes.c_void_p)
                        self._contexts[device] = context
            self.api.call("cuCtxSetCurrent", context)
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
        name, free = "cuMemAlloc_v2", "cuMemFree_v2"
        if hint is MemoryHint.Unified:
            name, flags = "cuMemAllocManaged", (_MANAGED_GLOBAL,)
        elif hint in (MemoryHint.Staging, MemoryHint.Cached):
            name, flags, free = "cuMemHostAlloc", (_HOST_PORTABLE_MAPPED,), "cuMemFreeHost"
        code = api.functions[name](ctypes.byref(out), size, *flags)
        if code and self._empty_pool(device):
            code = api.functions[name](ctypes.byref(out), size, *flags)
        if code:
            raise self.failed(code, what)
        allocation = Allocation(out.value, nbytes, free)
        self.stats.live[id(allocation)] = nbytes
        if zero:
            api.call("cuMemsetD8Async", out.value, 0, size, None)
        return allocation

    def free(self, device: int, allocation: Allocation) -> None:
        """Give memory back; the library waits for the work that uses it."""
        self.stats.live.pop(id(allocation), None)
        try:
            self.enter(device).functions[allocation.owner](allocation.address)
        except (GpuError, TypeError, AttributeError):  # a finalizer: the context is lost, or the interpreter ends
            return

    def borrow(self, device: int, nbytes: int) -> Allocation:
        """Memory from the pool: the library's own allocation and release take longer than a small launch."""
        size = 1 << (max(_SMALLEST, nbytes) - 1).bit_length()
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

    def copy_in(self, device: int, address: int, host: int, nbytes: int) -> None:
        if nbytes:
            self._checked(device, "cuMemcpyHtoD_v2", address, host, nbytes)

    def copy_out(self, device: int, host: int, address: int, nbytes: int) -> None:
        if nbytes:
            self._checked(device, "cuMemcpyDtoH_v2", host, address, nbytes)

    def copy(self, device: int, to: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._checked(device, "cuMemcpyDtoDAsync_v2", to, source, nbytes, None)

    def memory_available(self, device: int) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.enter(device).call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    # --- streams -------------------------------------------------------------------------------------------------
    def create_stream(self, device: int) -> Any:
        return _Stream(self, device)

    def synchronize(self, device: int, stream: Any = None) -> None:
        if stream is None:
            self._checked(device, "cuCtxSynchronize")
        else:
            self._checked(device, "cuStreamSynchronize", stream.handle)

    def record_event(self, device: int, stream: Any) -> Any:
        return _Event(self, device, 0 if stream is None else stream.handle)

    # --- other libraries' arrays and streams -------------------------------------------------------------------------
    def owner_of(self, address: int) -> int | None:
        """The device whose memory an address is; None for memory that the library does not know."""
        out = ctypes.c_int()
        self.enter(0)
        code = self.api.functions["cuPointerGetAttribute"](ctypes.byref(out), Attribute.POINTER_DEVICE_ORDINAL, address)
        return None if code else out.value

    def follow(self, stream: int) -> None:
        """The next launch of this thread runs after what this stream of another library has queued, and before what
        it queues then."""
        self.thread.streams |= {stream}

    def followed(self) -> frozenset[int]:
        """The streams to follow, which are then forgotten."""
        found, self.thread.streams = self.thread.streams, frozenset()
        return found

    def wait(self, device: int, waiting: int, other: int) -> None:
        """Work that is queued from now on in one stream waits for what another has queued."""
        event = _Event(self, device, other)
        self.api.call("cuStreamWaitEvent", waiting, event.handle, 0)

    def _checked(self, device: int, name: str, *args: Any) -> None:
        """A call that also reports what earlier launches did wrong."""
        code = self.enter(device).functions[name](*args)
        if code:
            raise self.failed(code, name)

    def failed(self, code: int, what: str) -> GpuError:
        """The error for a CUresult, with the kernel that it most likely belongs to."""
        kind = self.api.error(code, what).kind
        if self.last and kind in (GpuErrorKind.LaunchFailed, GpuErrorKind.TimeoutExpired):
            what = f"{what}, after a launch of kernel {self.last!r}"
        return self.api.error(code, what)

    # --- code ----------------------------------------------------------------------------------------------------
    def load(self, device: int, artifact: Artifact, **options: Any) -> Any:
        from magpie.runtime.drivers.cuda_launch import CudaKernel

        return CudaKernel(self, device, artifact)


def _forked(driver: weakref.ref[CudaDriver]) -> None:
    """In a new child: what its threads enter now is not what the parent's had entered."""
    found = driver()
    if found is not None:
        found.forked = True
        found.thread.device = -1


class _Stream:
    """A queue; it waits for the legacy default stream, and that for it."""

    def __init__(self, driver: CudaDriver, device: int) -> None:
        self.driver, self.device = driver, device
        self.handle = driver.enter(device).number("cuStreamCreate", 0, type_=ctypes.c_void_p)

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle:
            try:
                self.driver.enter(self.device).functions["cuStreamDestroy_v2"](handle)
            except (GpuError, TypeError, AttributeError):
                return


class _Event:
    """A mark in a stream, with a time."""

    def __init__(self, driver: CudaDriver, device: int, stream: int) -> None:
        self.driver, self.device = driver, device
        api = driver.enter(device)
        self.handle = api.number("cuEventCreate", 0, type_=ctypes.c_void_p)
        api.call("cuEventRecord", self.handle, stream)

    def elapsed_ms(self, earlier: _Event) -> float:
        """Milliseconds since another event; waits for both."""
        for event in (earlier, self):
            self.driver._checked(self.device, "cuEventSynchronize", event.handle)
        out = ctypes.c_float()
        self.driver.api.call("cuEventElapsedTime", ctypes.byref(out), earlier.handle, self.handle)
        return float(out.value)

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle:
            try:
                self.driver.enter(self.device).functions["cuEventDestroy_v2"](handle)
            except (GpuError, TypeError, AttributeError):
                return
