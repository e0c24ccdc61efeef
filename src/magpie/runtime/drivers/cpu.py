"""The cpu driver: compiled code in this process, workgroups spread over threads inside one native call.

A bound launch keeps the memory blocks that it describes its launches in (see `backends.cpu.launch_block`) and fills the
part that changes with one `struct.pack_into`. Blocks are taken from a list and put back: `pop` and `append` are atomic,
so launches from many threads, and one from a finalizer in the middle of another, never share a block.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact
from magpie.backends.cpu import abi, threads
from magpie.backends.cpu.launch_block import ARGUMENTS, LaunchBlock
from magpie.backends.record_format import clear_records, read_records
from magpie.backends.registry import backend
from magpie.errors import GpuError, GpuErrorKind
from magpie.ir.layout import KernelLayout
from magpie.runtime import cache, hostmem
from magpie.runtime.driver import Call, DeviceInfo, LaunchShape
from magpie.runtime.drivers.host import HostDriver
from magpie.runtime.packing import struct_format

if TYPE_CHECKING:
    from magpie.backends.cpu.loader import LoadedImage

__all__ = ["CpuDriver"]

# What changes between two launches of one block, from its byte 64 on: next, cancel, error, tickets, kernel, then the
# arguments. tests/unit/test_runtime_cpu.py compares it with what LaunchBlock.fill writes.
_FROM = 64
_RESET = "q56xi4xQi4xQ96x"

# Work up to which a launch stays on the calling thread, in work-items times operations of one (`effort`). Waking others
# costs 1.5 to 5 us, and a core does some 50 operations a nanosecond in vectors; so this is about 6 us of work. Measured
# by benchmarks/bench_fork_join.py, see docs/PERFORMANCE.md: 20,000 work-items of saxpy, 300 of an unknown loop.
_SMALL = 300_000

# Arenas up to this size (of all threads together) stay with their block: taking one from the pool costs 3 us.
_OWN_ARENA = 1 << 20

# Workgroups that a thread takes at a time, at most: between two takes it looks whether it should come back to Python.
_CHUNK = 64

# The same of workgroups that go abreast (`backends.cpu.abreast`): they have no loops, and long rows are what they want.
_CHUNK_ABREAST = 256

# Larger arenas are compared with the memory that is left.
_CHECKED_FROM = 64 << 20

# Holds some 30,000 lines of print.
_RECORD_BYTES = 1 << 20


class CpuDriver(HostDriver):
    """One device: the processors that this process may use."""

    id = "cpu"

    def __init__(self) -> None:
        super().__init__()
        self._arenas = _Arenas()
        self._lock = threading.Lock()
        self._launcher: threads.Launcher | None = None

    def launcher(self) -> threads.Launcher:
        """The native launch code: one for all kernels, from the disk cache where that has it."""
        if self._launcher is None:
            with self._lock:
                if self._launcher is None:
                    self._launcher = _load_launcher()
        return self._launcher

    def probe(self) -> str | None:
        if struct.calcsize("P") != 8:
            return "it needs a 64-bit process"
        return None

    def devices(self) -> Sequence[DeviceInfo]:
        count = threads.default_threads()
        return (
            DeviceInfo(
                name=_processor_name(),
                index=0,
                manifest=backend("cpu").manifest,
                subgroup_size=0,
                memory_total=hostmem.total_bytes(),
                backends=("cpu", "interp"),
                properties={"threads": count},
            ),
        )

    def load(self, device: int, artifact: Artifact, **options: Any) -> _Loaded:
        from magpie.backends.cpu.externals import addresses
        from magpie.backends.cpu.loader import LoadError, restore

        try:
            symbols = addresses(artifact.info.get("externals", ()))
            return _Loaded(self, artifact, restore(artifact.blob).load(symbols))
        except LoadError as error:
            raise GpuError(GpuErrorKind.InvalidKernel, self.id, f"kernel {artifact.kernel!r}: {error}") from None


def _load_launcher() -> threads.Launcher:
    from magpie.backends.cpu.loader import LoadError
    from magpie.backends.llvm.codegen import host_fingerprint

    store = cache.current()
    key = cache.plain_key("cpu launcher", host_fingerprint())
    found = store.load(key) if store is not None else None
    if found is not None:
        try:
            return threads.Launcher.from_bytes(found.blob)
        except LoadError:
            pass
    made = threads.Launcher.compile()
    if store is not None:
        layout = KernelLayout("launcher", "", (), 0, (), None)
        store.store(key, Artifact("cpu", "launcher", made.to_bytes(), layout, ""))
    return made


class _Arenas:
    """Memory for shared, local and context arrays, reused between launches; the content is arbitrary."""

    def __init__(self) -> None:
        self._free: list[Any] = []

    def take(self, nbytes: int) -> Any:
        while self._free:
            try:
                found = self._free.pop()
            except IndexError:  # another thread took the last one
                break
            if found.nbytes >= nbytes + abi.ARENA_ALIGN:
                return found
        import numpy as np

        error = GpuError(
            GpuErrorKind.OutOfMemory,
            "cpu",
            f"the kernel's own storage needs {nbytes} bytes for all threads together",
            diagnostic="MPG_LAUNCH_1010",
            help="use a smaller workgroup, or smaller shared and local arrays",
        )
        if nbytes > _CHECKED_FROM and nbytes > hostmem.available_bytes():
            raise error
        try:
            return np.empty(max(1 << 12, 1 << (nbytes + abi.ARENA_ALIGN - 1).bit_length()), np.uint8)
        except (MemoryError, ValueError):
            raise error from None

    def give(self, arena: Any) -> None:
        if len(self._free) < 8:
            self._free.append(arena)


class _Loaded:
    """Code that is mapped, and everything about it that does not depend on a launch."""

    __slots__ = ("_address", "_driver", "_image", "_info", "layout")
    reports = False

    def __init__(self, driver: CpuDriver, artifact: Artifact, image: LoadedImage) -> None:
        self.layout: KernelLayout = artifact.layout
        self._driver = driver
        self._info = artifact.info
        self._image = image  # unmapped when this object goes
        self._address = image.address(artifact.info["entry"])

    def bind(self, shape: LaunchShape) -> Call:
        grid, block = shape.grid, shape.block
        total = grid[0] * grid[1] * grid[2]
        items = total * block[0] * block[1] * block[2]
        alone = total < 2 or items * self._info["effort"] <= _SMALL
        count = 1 if alone else min(total, knobs.cpu_threads() or threads.default_threads())
        extents = [n for f, ns in zip(self.layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        stride = abi.arena_bytes(self._info, block, extents)
        fixed = {
            "kernel": self._address,
            "total": total,
            "chunk": self._chunk(grid[0], total, count),
            "threads": count,
            "parallel": threads.openmp_parallel() if count > 1 else 0,
            "stride": stride,
        }
        past = 0
        if self._info["streams"]:
            stream = knobs.cpu_stream()
            past = hostmem.cache_bytes(count) if stream is None else min(stream, sys.maxsize)
        words = struct.pack(f"<{8 + len(extents)}q", *grid, *block, past, min(items, sys.maxsize), *extents)
        size = abi.launch_block_size(self.layout, self._info)
        tail = self.layout.size

        arenas = self._driver._arenas
        nbytes = stride * count
        own = 0 < nbytes <= _OWN_ARENA

        def make() -> _Block:  # a block, its part that changes, its address, its arena
            made = LaunchBlock(size)
            arena = arenas.take(nbytes) if own else None  # never given back: it is the block's
            made.fill(**fixed, arenas=aligned_address(arena) if own else 0)
            made.arguments[tail : tail + len(words)] = words
            rest = (ctypes.c_char * (ARGUMENTS - _FROM + size)).from_address(made.address + _FROM)
            return made, rest, made.address, arena

        free: list[_Block] = []
        launcher = self._driver.launcher()
        pack_into = struct.Struct("<" + _RESET + struct_format(self.layout)).pack_into
        if self._info.get("records") or self._info.get("polls") or (nbytes and not own):
            shared_arena = 0 if own else nbytes
            return self._full_call(shape, fixed, free, make, pack_into, tail + len(words), shared_arena)
        run, entry, address, image = launcher.run, launcher.entry, self._address, self._image

        def call_alone(*arguments: Any, image: LoadedImage = image) -> None:  # the default keeps the code mapped
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            block, rest, at, _ = mine
            pack_into(rest, 0, 0, 0, 0, 0, address, *arguments)
            if entry(at):  # not done: a time slice is over
                run(block)
            free.append(mine)

        def call(*arguments: Any, image: LoadedImage = image) -> None:
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            pack_into(mine[1], 0, 0, 0, 0, 0, address, *arguments)
            run(mine[0])
            free.append(mine)

        return call_alone if count == 1 else call

    def _chunk(self, row: int, total: int, count: int) -> int:
        """Workgroups that a thread takes at a time; whole rows of them if they go row by row."""
        if not self._info["abreast"]:
            return min(_CHUNK, threads.pick_chunk(total, count, self._info["arena"]["batch"]))
        chunk = min(_CHUNK_ABREAST, threads.pick_chunk(total, count, row))
        return chunk - chunk % row if chunk > row else chunk

    def _full_call(
        self,
        shape: LaunchShape,
        fixed: dict[str, int],
        free: list[_Block],
        make: Callable[[], _Block],
        pack_into: Any,
        record_at: int,
        nbytes: int,
    ) -> Call:
        """The call of a kernel that needs `nbytes` of arena from the pool, reports records or polls for Ctrl-C."""
        info, arenas, run, address = self._info, self._driver._arenas, self._driver.launcher().run, self._address
        polls, records = bool(info.get("polls")), bool(info.get("records"))
        image = self._image

        def call(*arguments: Any, image: LoadedImage = image) -> None:
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            made, rest, _, _ = mine
            arena = record = None
            if nbytes:
                arena = arenas.take(nbytes)
                made.fill(**fixed, arenas=aligned_address(arena))
            if records:
                record = ctypes.create_string_buffer(_RECORD_BYTES)
                clear_records(record, _RECORD_BYTES)
                struct.pack_into("<Q", made.arguments, record_at, ctypes.addressof(record))
            pack_into(rest, 0, 0, 0, 0, 0, address, *arguments)
            try:
                run(made, polls=polls)
            finally:
                if arena is not None:
                    arenas.give(arena)
            free.append(mine)
            if record is not None:
                from magpie.runtime.records import report

                found, lost = read_records(record)
                error = report(found, lost, info["sites"], shape.grid, shape.block, "cpu")
                if error is not None:
                    raise error

        return call


_Block = tuple[LaunchBlock, Any, int, Any]


def aligned_address(arena: Any) -> int:
    """The first address in an arena that is aligned as arenas must be."""
    start: int = arena.ctypes.data
    return start + -start % abi.ARENA_ALIGN


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or os.uname().machine
