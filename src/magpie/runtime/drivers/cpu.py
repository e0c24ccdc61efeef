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
from collections.abc import Sequence
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
    from magpie.runtime.native.target import Target

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
        self._crew: threads.Crew | None = None
        self._has_crew = True

    def launcher(self) -> threads.Launcher:
        """The native launch code: one for all kernels, from the disk cache where that has it."""
        if self._launcher is None:
            with self._lock:
                if self._launcher is None:
                    self._launcher = _load_launcher()
        return self._launcher

    def parallel(self, count: int) -> int:
        """The address of what runs a function on ``count`` native threads, for launch blocks; 0: Python's pool does."""
        if threads.forked():
            return 0
        if self._crew is None and self._has_crew:
            with self._lock:
                if self._crew is None and self._has_crew:
                    self._crew = _load_crew()
                    self._has_crew = self._crew is not None
        if self._crew is None:
            return threads.openmp_parallel()
        self._crew.grow(count - 1, knobs.cpu_idle())
        return self._crew.address

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


def _load_crew() -> threads.Crew | None:
    from magpie.backends.cpu.loader import LoadError
    from magpie.backends.llvm.codegen import host_fingerprint

    store = cache.current()
    key = cache.plain_key("cpu crew", host_fingerprint())
    found = store.load(key) if store is not None else None
    try:
        if found is not None:
            return threads.Crew.from_bytes(found.blob)
    except LoadError:
        pass
    try:
        made = threads.Crew.compile()
    except LoadError:
        return None
    if store is not None and made is not None:
        layout = KernelLayout("crew", "", (), 0, (), None)
        store.store(key, Artifact("cpu", "crew", made.to_bytes(), layout, ""))
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
        blocks = _Blocks(self, shape)
        free: list[_Block] = []
        launcher, make = self._driver.launcher(), blocks.make
        pack_into = struct.Struct("<" + _RESET + struct_format(self.layout)).pack_into
        if self._info.get("records") or self._info.get("polls") or blocks.pooled_arena:
            return self._full_call(shape, blocks, free, pack_into)
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

        return call_alone if blocks.threads == 1 else call

    def native(self, shape: LaunchShape) -> Target | None:
        """Launches without Python: not those that take memory from the pool or report records."""
        from magpie.runtime.native.target import Host, Kind, Target

        blocks = _Blocks(self, shape)
        if self._info.get("records") or blocks.pooled_arena or (blocks.threads > 1 and not blocks.parallel):
            return None
        polls = bool(self._info.get("polls"))
        launcher = self._driver.launcher()
        # One block: while it is in use, other threads' launches in this shape go through Python, and do the same.
        made = blocks.make()
        pool = (ctypes.c_int64 * 3)(1, made[2], id(made[0]))
        takes_time = polls or not blocks.small
        watching, armed, closed = threads.for_native()
        words = {
            Host.ENTRY: launcher.entry_address,
            Host.POOL: ctypes.addressof(pool),
            Host.RELEASES: int(takes_time),
            Host.WATCHING: id(watching) if polls else 0,
            Host.MAIN_THREAD: threading.main_thread().ident or 0,
            Host.ARMED: ctypes.addressof(armed),
        }
        # After a fork there are no native threads, and nobody listens for Ctrl-C.
        gate = ctypes.addressof(closed) if polls or blocks.threads > 1 else 0
        keep = (self._image, made, pool, watching, armed, closed)
        return Target(Kind.HOST, tuple(words[w] for w in Host), keep, takes_time, gate)

    def _chunk(self, row: int, total: int, count: int) -> int:
        """Workgroups that a thread takes at a time; whole rows of them if they go row by row."""
        if not self._info["abreast"]:
            return min(_CHUNK, threads.pick_chunk(total, count, self._info["arena"]["batch"]))
        chunk = min(_CHUNK_ABREAST, threads.pick_chunk(total, count, row))
        return chunk - chunk % row if chunk > row else chunk

    def _full_call(
        self,
        shape: LaunchShape,
        blocks: _Blocks,
        free: list[_Block],
        pack_into: Any,
    ) -> Call:
        """The call of a kernel that takes its arena from the pool, reports records or polls for Ctrl-C."""
        info, arenas, run, address = self._info, self._driver._arenas, self._driver.launcher().run, self._address
        polls, records = bool(info.get("polls")), bool(info.get("records"))
        image, make, nbytes = self._image, blocks.make, blocks.pooled_arena
        record_at = self.layout.size + len(blocks.words)

        def call(*arguments: Any, image: LoadedImage = image) -> None:
            try:
                mine = free.pop()
            except IndexError:
                mine = make()
            made, rest, _, _ = mine
            arena = record = None
            if nbytes:
                arena = arenas.take(nbytes)
                made.fill(**blocks.fixed, arenas=aligned_address(arena))
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


# A block, its part that changes, its address, and its own arena.
_Block = tuple[LaunchBlock, Any, int, Any]


class _Blocks:
    """What the launch blocks of one kernel in one shape have in common."""

    def __init__(self, loaded: _Loaded, shape: LaunchShape) -> None:
        info, layout, grid, block = loaded._info, loaded.layout, shape.grid, shape.block
        total = grid[0] * grid[1] * grid[2]
        items = total * block[0] * block[1] * block[2]
        #: So little work that neither other threads nor those that wait for the GIL should be woken for it.
        self.small = items * info["effort"] <= _SMALL
        alone = total < 2 or self.small
        count = self.threads = 1 if alone else min(total, knobs.cpu_threads() or threads.default_threads())
        self.parallel = loaded._driver.parallel(count) if count > 1 else 0
        extents = [n for f, ns in zip(layout.shared, shape.shared, strict=True) if f.dynamic for n in ns]
        stride = abi.arena_bytes(info, block, extents)
        self.fixed = {
            "kernel": loaded._address,
            "total": total,
            "chunk": loaded._chunk(grid[0], total, count),
            "threads": count,
            "parallel": self.parallel,
            "stride": stride,
        }
        past = 0
        if info["streams"]:
            stream = knobs.cpu_stream()
            past = hostmem.cache_bytes(count) if stream is None else min(stream, sys.maxsize)
        #: What follows the arguments.
        self.words = struct.pack(f"<{8 + len(extents)}q", *grid, *block, past, min(items, sys.maxsize), *extents)
        self._size = abi.launch_block_size(layout, info)
        self._tail = layout.size
        self._arenas = loaded._driver._arenas
        nbytes = stride * count
        self._own = nbytes if nbytes <= _OWN_ARENA else 0
        #: Bytes that each launch takes from the pool of arenas.
        self.pooled_arena = nbytes - self._own

    def make(self) -> _Block:
        """A new block, filled but for its arguments."""
        made = LaunchBlock(self._size)
        arena = self._arenas.take(self._own) if self._own else None  # never given back: it is the block's
        made.fill(**self.fixed, arenas=aligned_address(arena) if self._own else 0)
        made.arguments[self._tail : self._tail + len(self.words)] = self.words
        rest = (ctypes.c_char * (ARGUMENTS - _FROM + self._size)).from_address(made.address + _FROM)
        return made, rest, made.address, arena


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
