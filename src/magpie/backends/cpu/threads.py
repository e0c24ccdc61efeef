"""Running a CPU launch: on how many threads, from which pool, and how Ctrl-C gets through.

Threads come from a native crew (`crew`) on Linux: the whole launch is one native call, which costs a microsecond more
than the work, and waits for nobody who has not begun. libgomp stands in on processors that the crew is not written for.
Elsewhere, and in a forked child (threads do not survive a fork; waiting for them would hang), they come from a small
pool of Python threads, whose native calls run without the GIL.

A native call cannot be interrupted, so the entry returns after a time slice (tens of milliseconds) and is called again;
Python handles signals in between. A single workgroup that runs longer polls the block's cancel flag in its loops, and a
watchdog thread, woken by the signal itself, sets that flag.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from magpie.backends.cpu import loader
from magpie.backends.cpu.crew import PARALLEL_SYMBOL, SERVE_SYMBOL, crew_text
from magpie.backends.cpu.launch_block import ENTRY_SYMBOL, WORKER_SYMBOL, LaunchBlock, Status, launcher_text

if TYPE_CHECKING:  # `queue` and `signal` are imported where they are used: a warm start needs neither
    from queue import SimpleQueue

__all__ = [
    "Cancelled",
    "Crew",
    "Entry",
    "Launcher",
    "default_threads",
    "for_native",
    "forked",
    "openmp_parallel",
    "pick_chunk",
]

Entry = Callable[[int], int]
"""A native function from a block's address to a `Status`."""

_prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


_INTERRUPT = 2  # the reason that the watchdog gives


class Cancelled(Exception):
    """A launch was stopped by `LaunchBlock.cancel` before all of its workgroups had run."""


@functools.cache
def default_threads() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def pick_chunk(total: int, threads: int, batch: int = 1) -> int:
    """Workgroups to take at a time: about 16 takes a thread, or 4 where the code takes workgroups in batches.

    Enough for balance when workgroups differ, and few enough that the shared counter does not matter (measured: one
    workgroup at a time costs small ones twice their time).
    """
    return max(1, total // (threads * 16), min(batch, total // (threads * 4 if threads > 1 else 1)))


@functools.cache
def _openmp() -> int:
    # libgomp only: libomp and the others offer GOMP_parallel too, but some abort when two OpenMP runtimes meet.
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            function = ctypes.CDLL("libgomp.so.1").GOMP_parallel
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


_forked = False
# The same for native launches: they leave what needs threads or Ctrl-C to Python in a forked child.
_closed = ctypes.c_int64(0)


# Looks of a waiting thread in a microsecond, about: each is a pause of 10 to 40 ns.
_LOOKS = 50


class Crew:
    """The native threads of a process, with their code. Threads start when they are first asked for, and stay.

    They are not Python's threads: `threading` does not list them, nor do they take the GIL or handle signals.
    """

    __slots__ = ("_count", "_image", "_libc", "_lock", "_prepared", "address")

    def __init__(self, prepared: loader.Image) -> None:
        self._prepared = prepared
        self._libc = ctypes.CDLL(None)
        functions = {name: getattr(self._libc, name, None) for name in ("syscall", "sched_getcpu")}
        found = {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in functions.items() if f is not None}
        self._image = prepared.load(found)
        #: Of the function with GOMP_parallel's interface, for `LaunchBlock.fill`.
        self.address = self._image.address(PARALLEL_SYMBOL)
        self._lock = threading.Lock()
        self._count = 0

    @classmethod
    def compile(cls) -> Crew | None:
        """Compile it for this machine; None where there is no such code."""
        from magpie.backends.llvm import codegen

        target = codegen.host_target()
        text = crew_text(target) if sys.platform == "linux" else None
        return None if text is None else cls(loader.prepare(codegen.compile_object(text, target, opt_level=1)))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Crew:
        """Load what `to_bytes` stored. Raises `LoadError` if it is damaged."""
        return cls(loader.restore(raw))

    def to_bytes(self) -> bytes:
        """For the disk cache, so that a warm start needs no LLVM."""
        return self._prepared.to_bytes()

    def grow(self, threads: int, idle_us: int = 0) -> None:
        """See to it that so many threads wait for work beside the calling one. Where the system refuses, fewer do.

        New ones look for work for about ``idle_us`` microseconds before they sleep, but for those that no processor is
        left for.
        """
        if self._count >= threads:
            return
        with self._lock:
            if not self._count:
                # The code must outlive the threads, and these last as long as the process.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._image))
            serve = ctypes.c_void_p(self._image.address(SERVE_SYMBOL))
            handle = ctypes.c_void_p()
            while self._count < threads:
                looks = _LOOKS * idle_us if self._count + 1 < default_threads() else 0
                share = ctypes.c_void_p(looks << 32 | self._count)
                if self._libc.pthread_create(ctypes.byref(handle), None, serve, share):
                    return
                with contextlib.suppress(AttributeError):  # no such function in some libraries
                    self._libc.pthread_setname_np(handle, b"magpie-crew")
                self._libc.pthread_detach(handle)
                self._count += 1


def forked() -> bool:
    """Whether this process is a forked child, in which no native threads are."""
    return _forked


def openmp_parallel() -> int:
    """The address of GOMP_parallel for `LaunchBlock.fill`, or 0 where Python's pool has to do."""
    return 0 if _forked else _openmp()


class _Slice:
    """One time slice of a launch on Python's pool.

    Nobody waits for a thread that has not begun: the one that finds no work left closes the slice, and late threads
    turn round at the door. So only threads that are inside count, whatever a KeyboardInterrupt did to the submission.
    """

    def __init__(self, worker: Entry, block: LaunchBlock) -> None:
        self._worker = worker
        self._block = block
        self._lock = threading.Lock()
        self._empty = threading.Event()
        self._inside = 0
        self._closed = False
        self.statuses: list[int] = []

    def share(self) -> None:
        """What each thread of the pool runs. Signals are the main thread's, so nothing interrupts it half way."""
        with self._lock:
            if self._closed:
                return
            self._inside += 1
        status = self._worker(self._block.address)
        with self._lock:
            self.statuses.append(status)
            self._inside -= 1
            if self._closed and not self._inside:
                self._empty.set()

    def close(self) -> None:
        """Let nobody in any more, and wait for those inside."""
        with self._lock:
            self._closed = True
            if not self._inside:
                return
        self._empty.wait()


class _Pool:
    """Threads that each run one native call at a time. A thread starts when it is first needed, and stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] | None = None
        self._threads = 0

    def run(self, worker: Entry, block: LaunchBlock, threads: int) -> int:
        """One slice on `threads` threads, the calling one among them; the highest `Status` of them all."""
        block.reset_tickets()
        shares = _Slice(worker, block)
        interrupt: KeyboardInterrupt | None = None
        own: int = Status.DONE
        try:
            jobs = self._grow(threads - 1)
            for _ in range(threads - 1):
                jobs.put(shares.share)
            own = worker(block.address)
        except KeyboardInterrupt as error:
            interrupt = error
        while True:
            # The block must outlive every thread that works on it, so a second Ctrl-C has to wait as well.
            if interrupt is not None:
                block.cancel()
            try:
                shares.close()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return max(own, *shares.statuses, 0)

    def _grow(self, threads: int) -> SimpleQueue[Callable[[], None]]:
        with self._lock:
            if self._jobs is None:
                from queue import SimpleQueue

                self._jobs = SimpleQueue()
            for number in range(self._threads, threads):
                name = f"magpie-cpu-{number}"
                threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True).start()
            self._threads = max(self._threads, threads)
            return self._jobs


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


_pool = _Pool()


class _Watchdog:
    """Sets the cancel flags of launches when Ctrl-C arrives while the main thread is inside a native call.

    Python's C-level signal handler writes the signal's number to a pipe at once, whatever the main thread is doing; a
    thread that sleeps on the other end costs nothing until then. It stays out of the way where somebody else (asyncio)
    uses Python's only wakeup pipe, or where SIGINT does not mean KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.running: dict[LaunchBlock, None] = {}  # a dict's own operations are atomic
        self.armed = ctypes.c_int64(0)  # whether `arm` was called: native launches read it
        self._write_end = -1

    def arm(self) -> None:
        """Start to listen, once. Only the main thread may call it."""
        if self._write_end >= 0:
            return
        import signal

        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        previous = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self._write_end = write_end
        self.armed.value = 1
        if previous != -1:
            signal.set_wakeup_fd(previous)
            os.close(read_end)
            return
        threading.Thread(target=self._listen, args=(read_end,), name="magpie-interrupt", daemon=True).start()

    def _listen(self, read_end: int) -> None:
        import signal

        while data := os.read(read_end, 64):
            if signal.SIGINT in data and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                for block in list(self.running):
                    block.cancel(_INTERRUPT)

    def forget(self) -> None:
        """In a forked child: the pipe is the parent's, and a signal here must not stop a launch there."""
        if self._write_end >= 0:
            import signal

            with contextlib.suppress(ValueError, OSError):
                previous = signal.set_wakeup_fd(-1)
                if previous not in (-1, self._write_end):
                    signal.set_wakeup_fd(previous)
            os.close(self._write_end)
        self.running.clear()
        self.armed.value = 0
        self._write_end = -1


_watchdog = _Watchdog()


def _after_fork() -> None:
    global _forked, _pool
    _forked = True
    _closed.value = 1
    _pool = _Pool()
    _watchdog.forget()
    default_threads.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def for_native() -> tuple[dict[LaunchBlock, None], ctypes.c_int64, ctypes.c_int64]:
    """Of use to launches that bypass `Launcher.run`: the blocks that Ctrl-C cancels, whether somebody listens for it,
    and whether this process is a forked child."""
    return _watchdog.running, _watchdog.armed, _closed


class Launcher:
    """The native launch code, loaded. One serves all kernels and all threads of a process."""

    __slots__ = ("_entry", "_image", "_prepared", "_worker")

    def __init__(self, prepared: loader.Image) -> None:
        self._prepared = prepared
        self._image = prepared.load()
        self._entry: Entry = _prototype(self._image.address(ENTRY_SYMBOL))
        self._worker: Entry = _prototype(self._image.address(WORKER_SYMBOL))

    @classmethod
    def compile(cls) -> Launcher:
        """Compile it for this machine. Takes 3 ms once LLVM is there."""
        from magpie.backends.llvm import codegen

        target = codegen.host_target()
        return cls(loader.prepare(codegen.compile_object(launcher_text(target), target, opt_level=0)))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Launcher:
        """Load what `to_bytes` stored. Raises `LoadError` if it is damaged."""
        return cls(loader.restore(raw))

    def to_bytes(self) -> bytes:
        """For the disk cache, so that a warm start needs no LLVM. Its key is `codegen.host_fingerprint`."""
        return self._prepared.to_bytes()

    @property
    def entry(self) -> Entry:
        """The native entry. For a block of one thread it may be called as it is; `run` goes on after another status."""
        return self._entry

    @property
    def entry_address(self) -> int:
        """Where the entry lies, for native callers."""
        return self._image.address(ENTRY_SYMBOL)

    def run(self, block: LaunchBlock, *, polls: bool = False) -> None:
        """Run a filled block to its end.

        `polls` says that the kernel reads the cancel flag in its loops: only then can Ctrl-C end a single long
        workgroup, and only then is anything paid for it (0.5 us). Raises `KeyboardInterrupt` on Ctrl-C and `Cancelled`
        if `block.cancel` was called. When this returns or raises, no thread is working on the block any more.
        """
        if polls and threading.current_thread() is threading.main_thread():
            _watchdog.arm()
            _watchdog.running[block] = None
            try:
                status = self._slices(block)
            finally:
                del _watchdog.running[block]
        else:
            status = self._slices(block)
        if status == Status.CANCELLED:
            # Python's own handler has raised by now, unless the watchdog was late and hit the launch after that.
            raise KeyboardInterrupt if block.cancelled == _INTERRUPT else Cancelled

    def _slices(self, block: LaunchBlock) -> int:
        # a block that was filled before a fork still names threads that the child does not have
        pooled = block.threads > 1 and (_forked or not block.parallel)
        while True:
            status = _pool.run(self._worker, block, block.threads) if pooled else self._entry(block.address)
            if status != Status.UNFINISHED:
                return status
