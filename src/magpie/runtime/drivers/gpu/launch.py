"""Code on a device: a module that is loaded, and launches whose arguments are packed before the call.

A bound launch keeps blocks of memory, each with the arguments as the layout lays them out and the array of their
addresses that the library's launch function takes. A launch fills one with a single `struct.pack_into`; the library
copies the arguments before it returns, so that the block is free again. Blocks are taken from a list and put back:
`pop` and `append` are atomic, so launches from several threads never share one.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.driver import Call, Dims, LaunchShape
from magpie.runtime.packing import struct_format

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver

__all__ = ["GpuKernel", "dynamic_bytes", "parameter_offsets"]

_ALIGN = 16  # of each array in the block of shared memory, as `magpie.backends.llvm.simt_kernel` lays them out


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


class GpuKernel:
    """A module on one device, with what does not depend on a launch."""

    def __init__(self, driver: GpuDriver, device: int, artifact: Artifact) -> None:
        self.layout: KernelLayout = artifact.layout
        self.info = artifact.info
        self.driver = driver
        self.device = device
        self._module = 0
        self._lock = threading.Lock()
        self._opted = 0
        api = driver.enter(device)
        code, module, said = driver.load_module(artifact.blob)
        if code:
            raise api.error(code, f"loading kernel {artifact.kernel!r}" + (f" ({said})" if said else ""))
        self._module = module
        entry = str(artifact.info.get("entry", "")).encode()
        function = ctypes.c_void_p()
        code = api.functions["module_function"](ctypes.byref(function), module, entry)
        if code:
            raise api.error(code, f"kernel {artifact.kernel!r} has no entry {entry.decode()!r}")
        self.function = function.value or 0
        most = api.table.attributes["function_max_threads"]
        self.most_threads = api.number("function_attribute", most, self.function)

    def __del__(self) -> None:
        if self._module and self.device not in self.driver.stuck:
            try:
                self.driver.enter(self.device).functions["unload_module"](self._module)
            except (GpuError, TypeError, AttributeError):
                return

    # --- checks --------------------------------------------------------------------------------------------------
    def _check(self, grid: Dims, block: Dims) -> None:
        self.driver.check_grid(grid, block)
        items = block[0] * block[1] * block[2]
        if items > self.most_threads:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                self.driver.id,
                f"kernel {self.layout.kernel!r} needs so many registers that a workgroup has at most "
                f"{self.most_threads} work-items, and {items} were asked for",
            )

    def _opt_in(self, dynamic: int) -> None:
        """Ask for more shared memory than every kernel may have."""
        free = self.driver.free_shared
        if free is None or (dynamic + int(self.info["static_shared"]) <= free and dynamic <= free):
            return
        with self._lock:
            if dynamic > self._opted:
                api = self.driver.enter(self.device)
                api.call(
                    "set_function_attribute",
                    self.function,
                    api.table.attributes["function_max_dynamic_shared"],
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
        from magpie.runtime.drivers.gpu.reporting import reporting

        return reporting(self, call, tuple(extents), shape, stream)

    def _launcher(
        self, grid: Dims, block: Dims, dynamic: int, stream: int
    ) -> tuple[Callable[..., int], tuple[Any, ...], Callable[[int], Any], Any]:
        """The launch function, its first nine arguments, what makes the tenth from an address, and the last one."""
        quick = self.driver.quick_launch()
        if quick is not None:

            def bound(*args: Any) -> int:
                (code,) = quick(*args)
                return int(code)

            return bound, (self.function, *grid, *block, dynamic, stream), int, 0
        api = self.driver.api
        # By item it is an object of its own, without argtypes: the arguments are made once.
        raw: Callable[..., int] = api.library[api.table.functions["launch"].name]
        numbers = (ctypes.c_uint(n) for n in (*grid, *block, dynamic))
        fixed = (ctypes.c_void_p(self.function), *numbers, ctypes.c_void_p(stream))
        return raw, fixed, ctypes.c_void_p, ctypes.c_void_p(0)
