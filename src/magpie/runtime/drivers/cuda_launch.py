"""PTX on a device: a module that is loaded, and launches whose arguments are packed before the call.

A bound launch keeps blocks of memory, each with the arguments as the layout lays them out and the array of their
addresses that `cuLaunchKernel` takes. A launch fills one with a single `struct.pack_into`; the library copies the
arguments before it returns, so that the block is free again. Blocks are taken from a list and put back: `pop`
and `append` are atomic, so launches from several threads never share one.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie.backends.base import Artifact
from magpie.backends.cpu import abi
from magpie.errors import GpuError, GpuErrorKind, LaunchValueError
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.driver import Call, Dims, LaunchShape
from magpie.runtime.drivers.cuda_api import Attribute, fast_launch
from magpie.runtime.packing import struct_format

if TYPE_CHECKING:
    from magpie.runtime.drivers.cuda import CudaDriver

__all__ = ["CudaKernel", "dynamic_bytes", "parameter_offsets"]

_GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
_STATIC = 48 * 1024
_ALIGN = 16  # of each array in the block of shared memory, as `magpie.backends.ptx.kernel` lays them out
_RECORD_BYTES = 1 << 20
_LOG = 8192
_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size


def parameter_offsets(layout: KernelLayout, hidden: int) -> list[int]:
    """Where each of the entry's parameters lies in the argument block; ``hidden`` words stand behind the layout."""
    offsets: list[int] = []
    for p in layout.params:
        offsets.append(p.offset)
        if isinstance(p, BufferField):
            offsets += [p.extents + 8 * d for d in range(p.rank)]
            offsets += [p.strides + 8 * d for d in range(p.rank)]
    return offsets + [layout.size + 8 * n for n in range(hidden)]


def dynamic_bytes(info: dict[str, Any], extents: Sequence[int]) -> int:
    """Bytes of shared memory that a launch asks for; ``extents`` are those of all dynamic arrays in order."""
    total = int(info["fixed_shared"])
    for itemsize, words in info["dynamic_shared"]:
        size = int(itemsize)
        for word in words:
            size *= extents[word]
        total += (size + _ALIGN - 1) // _ALIGN * _ALIGN
    return total


class CudaKernel:
    """A module on one device, with what does not depend on a launch."""

    def __init__(self, driver: CudaDriver, device: int, artifact: Artifact) -> None:
        self.layout: KernelLayout = artifact.layout
        self.info = artifact.info
        self.driver = driver
        self.device = device
        self._module = 0
        self._lock = threading.Lock()
        self._opted = 0
        api = driver.enter(device)
        log = ctypes.create_string_buffer(_LOG)
        kinds = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        code = api.functions["cuModuleLoadDataEx"](ctypes.byref(module), artifact.blob, 2, kinds, values)
        if code:
            said = log.value.decode("utf-8", "replace").strip()
            raise api.error(code, f"loading kernel {artifact.kernel!r}" + (f" ({said})" if said else ""))
        self._module = module.value or 0
        entry = str(artifact.info.get("entry", "")).encode()
        code = api.functions["cuModuleGetFunction"](ctypes.byref(function), module, entry)
        if code:
            raise api.error(code, f"kernel {artifact.kernel!r} has no entry {entry.decode()!r}")
        self.function = function.value or 0
        self.most_threads = api.number("cuFuncGetAttribute", Attribute.FUNC_MAX_THREADS_PER_BLOCK, self.function)

    def __del__(self) -> None:
        if self._module:
            try:
                self.driver.enter(self.device).functions["cuModuleUnload"](self._module)
            except (GpuError, TypeError, AttributeError):
                return

    # --- checks --------------------------------------------------------------------------------------------------
    def _check(self, grid: Dims, block: Dims) -> None:
        for axis, n, most in zip("xyz", grid, _GRID_LIMITS, strict=True):
            if n > most:
                raise LaunchValueError(
                    f"the grid has {n} workgroups along {axis}; CUDA devices take {most}",
                    backend="ptx",
                    diagnostic="MPG_LAUNCH_1006",
                    help="put the longest extent along x, or give a workgroup more to do",
                )
        if block[2] > 64:
            raise LaunchValueError(
                f"the workgroup has {block[2]} work-items along z; CUDA devices take 64",
                backend="ptx",
                diagnostic="MPG_LAUNCH_1007",
            )
        items = block[0] * block[1] * block[2]
        if items > self.most_threads:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                "ptx",
                f"kernel {self.layout.kernel!r} needs so many registers that a workgroup has at most "
                f"{self.most_threads} work-items, and {items} were asked for",
            )

    def _opt_in(self, dynamic: int) -> None:
        """Ask for more shared memory than every kernel may have."""
        if dynamic + int(self.info["static_shared"]) <= _STATIC and dynamic <= _STATIC:
            return
        with self._lock:
            if dynamic > self._opted:
                self.driver.enter(self.device).call(
                    "cuFuncSetAttribute",
                    self.function,
                    Attribute.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    dynamic,
                    what=f"{dynamic} bytes of shared memory for kernel {self.layout.kernel!r}",
                )
                self._opted = dynamic

    # --- launches ------------------------------------------------------------------------------------------------
    def bind(self, shape: LaunchShape) -> Call:
        grid, block = shape.grid, shape.block
        self._check(grid, block)
        extents = [n for f, ns in zip(self.layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        dynamic = dynamic_bytes(self.info, extents)
        self._opt_in(dynamic)
        records = bool(self.info.get("records"))
        hidden = len(extents) + records
        form = struct.Struct(f"<{struct_format(self.layout)}{hidden}q")
        offsets = parameter_offsets(self.layout, hidden)
        stream = 0 if shape.stream is None else shape.stream.handle
        driver, device, kernel = self.driver, self.device, self.layout.kernel
        thread, enter, many, pack_into = driver.thread, driver.enter, driver.many, form.pack_into
        launch, fixed, argument, none = self._launcher(grid, block, dynamic, stream)
        free: list[tuple[Any, Any, Any]] = []

        def make() -> tuple[Any, Any, Any]:  # the arguments, the address of the array of their addresses, that array
            data = ctypes.create_string_buffer(max(1, form.size))
            start = ctypes.addressof(data)
            pointers = (ctypes.c_void_p * max(1, len(offsets)))(*(start + at for at in offsets))
            return data, argument(ctypes.addressof(pointers)), pointers

        def ordered(pointers: Any) -> int:
            """A launch that is ordered with streams of other libraries."""
            others = driver.followed()
            for other in others:
                driver.wait(device, stream, other)
            code: int = launch(*fixed, pointers, none)
            if not code:
                for other in others:
                    driver.wait(device, other, stream)
            return code

        tail = tuple(extents)

        def call(*words: Any, keep: Any = self) -> None:  # the default keeps the module loaded
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            pack_into(mine[0], 0, *words, *tail)
            if many or thread.device != device:
                enter(device)
            driver.last = kernel
            code = ordered(mine[1]) if thread.streams else launch(*fixed, mine[1], none)
            free.append(mine)
            if code:
                raise driver.failed(code, f"launching kernel {kernel!r}")

        if not records:
            return call
        tail = ()  # the record buffer comes behind the extents
        return self._reporting(call, tuple(extents), shape, stream)

    def _launcher(
        self, grid: Dims, block: Dims, dynamic: int, stream: int
    ) -> tuple[Callable[..., int], tuple[Any, ...], Callable[[int], Any], Any]:
        """cuLaunchKernel, its first nine arguments, what makes the tenth from an address, and the last one."""
        quick = fast_launch() if self.driver.system_library else None
        if quick is not None:

            def bound(*args: Any) -> int:
                (code,) = quick(*args)
                return int(code)

            return bound, (self.function, *grid, *block, dynamic, stream), int, 0
        raw = self.driver.api.library["cuLaunchKernel"]  # an object of its own: no argtypes, arguments made once
        numbers = (ctypes.c_uint(n) for n in (*grid, *block, dynamic))
        fixed = (ctypes.c_void_p(self.function), *numbers, ctypes.c_void_p(stream))
        return raw, fixed, ctypes.c_void_p, ctypes.c_void_p(0)

    def _reporting(self, start: Call, extents: tuple[int, ...], shape: LaunchShape, stream: int) -> Call:
        """A launch of a kernel that prints, asserts or is checked: complete on return, its records reported."""
        driver, device, info = self.driver, self.device, self.info
        lock = threading.Lock()
        memory: list[Any] = []

        def call(*words: Any) -> None:
            from magpie.runtime.records import report

            host = ctypes.create_string_buffer(_RECORD_BYTES)
            with lock:
                if not memory:
                    memory.append(_RecordMemory(driver, device))
                address = memory[0].allocation.address
                api = driver.enter(device)
                api.call("cuMemsetD8Async", address, 0, _RECORD_BYTES, stream)
                abi.clear_records(host, _RECORD_BYTES)
                head = 8 * abi.RECORD_HEADER
                api.call("cuMemcpyHtoDAsync_v2", address, ctypes.addressof(host), head, stream)
                start(*words, *extents, address)
                driver._checked(device, "cuStreamSynchronize", stream)
                driver.copy_out(device, ctypes.addressof(host), address, head)
                if struct.unpack_from("<Q", host, 8)[0]:
                    driver.copy_out(device, ctypes.addressof(host), address, _RECORD_BYTES)
            found, lost = abi.read_records(host)
            error = report(found, lost, info["sites"], shape.grid, shape.block, "ptx")
            if error is not None:
                raise error

        return call


class _RecordMemory:
    """The record buffer of one bound launch."""

    def __init__(self, driver: CudaDriver, device: int) -> None:
        self.driver, self.device = driver, device
        self.allocation = driver.alloc(device, _RECORD_BYTES)

    def __del__(self) -> None:
        allocation = getattr(self, "allocation", None)
        if allocation is not None:
            self.driver.free(self.device, allocation)
