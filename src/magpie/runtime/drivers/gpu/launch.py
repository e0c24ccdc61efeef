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
from functools import partial
from typing import TYPE_CHECKING, Any

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind, clean
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.driver import Call, Dims, LaunchShape
from magpie.runtime.drivers.gpu.cooperative import MeetingPlace, check_resident, cooperative_launcher
from magpie.runtime.packing import struct_format

if TYPE_CHECKING:
    from magpie.runtime.drivers.gpu.driver import GpuDriver
    from magpie.runtime.native.target import Target

__all__ = ["GpuKernel", "choose_entry", "dynamic_bytes", "parameter_offsets"]

# What arrays of unknown size may take for all workgroups of a block.
_ROOM = 48 << 10
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


def choose_entry(
    info: dict[str, Any],
    grid: Dims,
    block: Dims,
    extents: Sequence[int],
    threads: Callable[[], int],
    room: int = _ROOM,
) -> tuple[dict[str, Any], Dims]:
    """What the entry for a launch is like, and its grid: that whose blocks run several workgroups, where there is one
    and its blocks still fill the device, which holds `threads()` work-items at once. ``room``: bytes of shared memory
    that a block may have where arrays are of unknown size."""
    what = info.get("coarse")
    if what is None:
        return info, grid
    x, y, z = (-(-n // what["factor"]) if d == what["dim"] else n for d, n in enumerate(grid))
    items = block[0] * block[1] * block[2]
    if not what["always"] and x * y * z * items < threads():
        return info, grid
    coarse = info | what
    if extents and coarse["static_shared"] + dynamic_bytes(coarse, extents) > room:
        return info, grid
    return coarse, (x, y, z)


class _Entry:
    """An entry of a module; ``opted``: the dynamic shared memory that it may have by now."""

    __slots__ = ("function", "info", "most_threads", "opted")

    def __init__(self, function: int, most_threads: int, info: dict[str, Any]) -> None:
        self.function = function
        self.most_threads = most_threads
        self.info = info
        self.opted = 0


class GpuKernel:
    """A module on one device, with what does not depend on a launch."""

    def __init__(self, driver: GpuDriver, device: int, artifact: Artifact) -> None:
        self.layout: KernelLayout = artifact.layout
        self.info = artifact.info
        self.reports = bool(artifact.info.get("records"))
        self.driver = driver
        self.device = device
        self._module = 0
        self._lock = threading.Lock()
        api = driver.enter(device)
        code, module, said = driver.load_module(artifact.blob)
        if code:
            raise api.error(code, f"loading kernel {artifact.kernel!r}" + (f" ({said})" if said else ""))
        self._module = module
        self.plain = self._entry(artifact.info)
        self._coarse: _Entry | None = None

    def _entry(self, info: dict[str, Any]) -> _Entry:
        api, function = self.driver.api, ctypes.c_void_p()
        name = str(info.get("entry", ""))
        code = api.functions["module_function"](ctypes.byref(function), self._module, name.encode())
        if code:
            raise api.error(code, f"kernel {self.layout.kernel!r} has no entry {name!r}")
        handle = function.value or 0
        most = api.number("function_attribute", api.table.attributes["function_max_threads"], handle)
        return _Entry(handle, most, info)

    def __del__(self) -> None:
        if self._module and self.device not in self.driver.stuck:
            try:
                self.driver.enter(self.device).functions["unload_module"](self._module)
            except (GpuError, TypeError, AttributeError):
                return

    # --- checks --------------------------------------------------------------------------------------------------
    def _check(self, entry: _Entry, grid: Dims, block: Dims) -> None:
        self.driver.check_grid(grid, block)
        items = block[0] * block[1] * block[2]
        if items > entry.most_threads:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                self.driver.id,
                f"kernel {self.layout.kernel!r} needs so many registers that a workgroup has at most "
                f"{entry.most_threads} work-items, and {items} were asked for",
            )

    def _choose(self, grid: Dims, block: Dims, extents: Sequence[int]) -> tuple[_Entry, Dims]:
        """The entry for a launch, and its grid: blocks of several workgroups where they still fill the device."""
        info, blocks = choose_entry(self.info, grid, block, extents, partial(self.driver.threads, self.device))
        if info is self.info:
            return self.plain, grid
        if self._coarse is None:
            self._coarse = self._entry(info)
        items = block[0] * block[1] * block[2]
        return (self._coarse, blocks) if items <= self._coarse.most_threads else (self.plain, grid)

    def _opt_in(self, entry: _Entry, dynamic: int) -> None:
        """Ask for more shared memory than every kernel may have."""
        free = self.driver.free_shared
        if free is None or (dynamic + int(entry.info["static_shared"]) <= free and dynamic <= free):
            return
        with self._lock:
            if dynamic > entry.opted:
                api = self.driver.enter(self.device)
                api.call(
                    "set_function_attribute",
                    entry.function,
                    api.table.attributes["function_max_dynamic_shared"],
                    dynamic,
                    what=f"{dynamic} bytes of shared memory for kernel {self.layout.kernel!r}",
                )
                entry.opted = dynamic

    # --- launches ------------------------------------------------------------------------------------------------
    def bind(self, shape: LaunchShape) -> Call:
        block = shape.block
        extents = [n for f, ns in zip(self.layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        entry, grid = self._choose(shape.grid, block, extents)
        self._check(entry, shape.grid, block)
        dynamic = dynamic_bytes(entry.info, extents)
        self._opt_in(entry, dynamic)
        records = bool(self.info.get("records"))
        cooperative = bool(self.info.get("cooperative"))
        if cooperative:
            check_resident(self, entry.function, grid, block, dynamic)
            word = MeetingPlace(self.driver, self.device)
            extents.append(word.address)
        groups = () if entry is self.plain else (shape.grid[entry.info["dim"]],)
        hidden = len(extents) + records + len(groups)
        form = struct.Struct(f"<{struct_format(self.layout)}{hidden}q")
        offsets = parameter_offsets(self.layout, hidden)
        stream = 0 if shape.stream is None else shape.stream.handle
        driver, device, kernel = self.driver, self.device, self.layout.kernel
        thread, enter, many, pack_into, last = driver.thread, driver.enter, driver.many, form.pack_into, driver.launched
        launcher = cooperative_launcher if cooperative else type(self)._launcher
        launch, fixed, argument, none = launcher(self, entry.function, grid, block, dynamic, stream)
        free: list[tuple[Any, Any, Any]] = []

        def make() -> tuple[Any, Any, Any]:  # the arguments, the address of the array of their addresses, that array
            data = ctypes.create_string_buffer(max(1, form.size))
            start = ctypes.addressof(data)
            pointers = (ctypes.c_void_p * max(1, len(offsets)))(*(start + at for at in offsets))
            return data, argument(ctypes.addressof(pointers)), pointers

        def ordered(pointers: Any, address: int) -> int:
            """A launch that is ordered with streams of other libraries."""
            others = driver.followed()
            capturing = next(filter(driver.captures, others), None) if not stream else None
            if capturing is not None:  # what the library records now is to have this launch, in that very stream
                start, head, made, end = launcher(self, entry.function, grid, block, dynamic, capturing)
                return start(*head, made(address), end)
            for other in others:
                driver.wait(device, stream, device, other)
            code: int = launch(*fixed, pointers, none)
            if not code:
                for other in others:
                    driver.wait(device, other, device, stream)
            return code

        tail = (*extents, *groups)

        kept = (self, word) if cooperative else self

        def call(*words: Any, keep: Any = kept) -> None:  # the default keeps the module loaded
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            pack_into(mine[0], 0, *words, *tail)
            if many or thread.device != device:
                enter(device)
            last[0] = kernel
            code = ordered(mine[1], ctypes.addressof(mine[2])) if thread.streams else launch(*fixed, mine[1], none)
            free.append(mine)
            if code:
                raise driver.failed(code, f"launching kernel {kernel!r}")

        if not records:
            return call
        tail = ()  # the record buffer comes behind the extents
        from magpie.runtime.drivers.gpu.reporting import reporting

        return reporting(self, call, tuple(extents), shape, stream)

    def native(self, shape: LaunchShape) -> Target | None:
        """Launches without Python: not those that report records or run all workgroups at once. The shape was bound
        before."""
        from magpie.runtime.native.target import Gpu, Kind, Target

        if self.info.get("records") or self.info.get("cooperative"):
            return None
        driver, api, kernel = self.driver, self.driver.api, self.layout.kernel
        entry, grid = self._choose(shape.grid, shape.block, ())
        groups = () if entry is self.plain else (shape.grid[entry.info["dim"]],)
        offsets = parameter_offsets(self.layout, 0)

        def failed(code: int) -> None:
            raise clean(driver.failed(code, f"launching kernel {kernel!r}")) from None

        words: dict[int, int] = {
            Gpu.LAUNCH: api.address("launch"),
            Gpu.FUNCTION: entry.function,
            Gpu.STREAM: 0 if shape.stream is None else shape.stream.handle,
            Gpu.GET_CURRENT: api.address("current"),
            Gpu.CURRENT: driver.current_mark(self.device),
            Gpu.LAST: id(driver.launched),
            Gpu.FAILED: id(failed),
            Gpu.PARAMETER_COUNT: len(offsets),
            Gpu.HIDDEN_COUNT: len(groups),
        }
        table = [words.get(word, 0) for word in range(Gpu.OFFSETS)]
        table[Gpu.DIMS : Gpu.STREAM] = [*grid, *shape.block, dynamic_bytes(entry.info, ())]
        keep = (self, driver, failed, shape.stream)
        return Target(Kind.GPU, (*table, *offsets, *groups), keep, True, ctypes.addressof(driver.closed))

    def _launcher(
        self, function: int, grid: Dims, block: Dims, dynamic: int, stream: int
    ) -> tuple[Callable[..., int], tuple[Any, ...], Callable[[int], Any], Any]:
        """The launch function, its first nine arguments, what makes the tenth from an address, and the last one."""
        quick = self.driver.quick_launch()
        if quick is not None:

            def bound(*args: Any) -> int:
                (code,) = quick(*args)
                return int(code)

            return bound, (function, *grid, *block, dynamic, stream), int, 0
        api = self.driver.api
        # By item it is an object of its own, without argtypes: the arguments are made once.
        raw: Callable[..., int] = api.library[api.table.functions["launch"].name]
        numbers = (ctypes.c_uint(n) for n in (*grid, *block, dynamic))
        fixed = (ctypes.c_void_p(function), *numbers, ctypes.c_void_p(stream))
        return raw, fixed, ctypes.c_void_p, ctypes.c_void_p(0)
