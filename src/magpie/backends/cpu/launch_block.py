"""The block of memory that one CPU launch is described by, and the native entry that reads it.

A launch is one native call: the entry hands chunks of workgroups to threads, and Python is not involved again until
they are done. Entry and worker are one small module for all kernels (the block holds the kernel's address): appended
to each kernel's module they would double the compile time of a small one.

Layout, in bytes from the block's start (64-byte aligned; little endian; one cache line for what never changes during a
launch, one for the work counter, one for the flags):

    0    ptr   arguments               the kernel's packed arguments; here always block + 256
    8    i64   total                   workgroup ids run from `next` to total - 1
    16   i64   chunk                   workgroups taken at a time, at least 1
    24   ptr   parallel                runs a function on threads; null: they come from Python's pool
    32   i32   threads
    40   ptr   arenas                  memory of thread t: arenas + t * stride
    48   i64   stride
    56   i64   slice                   ticks after which the entry returns UNFINISHED; 0: never
    64   i64   next                    the first workgroup that nobody has taken (atomic)
    128  i32   cancel                  nonzero: take no more work, leave loops (polled by kernels; atomic)
    136  ptr   error                   the checked mode's error record, or null
    144  i32   tickets                 gives each thread its number (atomic)
    152  ptr   kernel                  void (ptr arguments, i64 first_workgroup, i64 end_workgroup, ptr arena)
    256  ...   arguments

A kernel finds the block through its arguments: they lie at a fixed distance (`CANCEL_FROM_ARGUMENTS` and so on).
"""

from __future__ import annotations

import ctypes
import platform
import struct
from enum import IntEnum

from magpie.backends.llvm.codegen import HostTarget

__all__ = [
    "ARGUMENTS",
    "CANCEL_FROM_ARGUMENTS",
    "ENTRY_SYMBOL",
    "ERROR_FROM_ARGUMENTS",
    "WORKER_SYMBOL",
    "LaunchBlock",
    "Status",
    "launcher_text",
]

_NEXT, _CANCEL, _ERROR, _TICKETS = 64, 128, 136, 144
ARGUMENTS = 256
CANCEL_FROM_ARGUMENTS = _CANCEL - ARGUMENTS
ERROR_FROM_ARGUMENTS = _ERROR - ARGUMENTS

ENTRY_SYMBOL = "magpie_launch"  # i32 (ptr block): the whole launch, on as many threads as the block says
WORKER_SYMBOL = "magpie_worker"  # i32 (ptr block): one thread's share

# Every field of the head in one go; the pad bytes are written as zeros, which clears the flags too.
_HEAD = struct.Struct("<QqqQi4xQqq q56x i4xQi4xQ96x")
assert _HEAD.size == ARGUMENTS

# How long a launch may stay away from Python's signal handlers: x86's time stamp counter runs at 2 to 5 GHz, that is
# 27 to 67 ms; AArch64's generic timer at 24 MHz to 1 GHz, that is 2 to 87 ms. Coming back costs 2 us.
_SLICE = 1 << (21 if platform.machine().lower() in ("aarch64", "arm64") else 27)


class Status(IntEnum):
    """What the native entry returns."""

    DONE = 0
    UNFINISHED = 1  # the time slice is over: call again, the block holds how far it came
    CANCELLED = 2


class LaunchBlock:
    """Reusable memory for one launch at a time. Filling it takes about a microsecond and allocates nothing.

    `arguments` is a writable view of `arguments_size` bytes for `struct.pack_into`; `address` goes to the entry.
    """

    __slots__ = (
        "_cancel",
        "_memory",
        "_next",
        "_offset",
        "address",
        "arguments",
        "arguments_address",
        "parallel",
        "threads",
    )

    def __init__(self, arguments_size: int = 0) -> None:
        self._memory = ctypes.create_string_buffer(ARGUMENTS + arguments_size + 64)
        start = ctypes.addressof(self._memory)
        self._offset = -start % 64
        self.address = start + self._offset
        self.arguments_address = self.address + ARGUMENTS
        first = self._offset + ARGUMENTS
        self.arguments = memoryview(self._memory).cast("B")[first : first + arguments_size]
        self._cancel = ctypes.c_int32.from_address(self.address + _CANCEL)
        self._next = ctypes.c_int64.from_address(self.address + _NEXT)
        self.parallel = 0
        self.threads = 1

    def fill(
        self,
        kernel: int,
        total: int,
        *,
        chunk: int = 1,
        threads: int = 1,
        parallel: int = 0,
        arenas: int = 0,
        stride: int = 0,
        error: int = 0,
        first: int = 0,
        slice_ticks: int = _SLICE,
    ) -> None:
        """Describe a launch of the range function at address `kernel` over workgroups `first` to `total` - 1.

        The arguments are left as they are.
        """
        self.parallel = parallel
        self.threads = threads
        _HEAD.pack_into(
            self._memory,
            self._offset,
            self.arguments_address,
            total,
            chunk,
            parallel,
            threads,
            arenas,
            stride,
            slice_ticks,
            first,
            0,
            error,
            0,
            kernel,
        )

    def cancel(self, reason: int = 1) -> None:
        """Ask the running launch to stop soon. May be called from any thread. `reason` is any number but 0."""
        self._cancel.value = reason

    @property
    def cancelled(self) -> int:
        """The reason given to `cancel` since the last `fill`, or 0."""
        return self._cancel.value

    @property
    def next_workgroup(self) -> int:
        """The first workgroup that no thread has taken yet; past the end once all are taken."""
        return self._next.value

    def reset_tickets(self) -> None:
        """Before threads of Python's pool enter: the native entry does it by itself."""
        struct.pack_into("<i", self._memory, self._offset + _TICKETS, 0)


def launcher_text(target: HostTarget) -> str:
    """The LLVM module of the entry and the worker. It is written to be compiled without optimisation (3 ms).

    Workgroups are taken in ascending order, so one may wait for a lower one. Every thread computes with IEEE defaults
    (round to nearest, denormals kept, exceptions masked), whatever the process has set, and gets its setting back.
    """
    clock, enter, leave, declarations = _machine(target)
    text = _TEMPLATE
    for name, value in (
        ("ENTRY", ENTRY_SYMBOL),
        ("WORKER", WORKER_SYMBOL),
        ("CLOCK", clock),
        ("ENTER", enter),
        ("LEAVE", leave),
        ("DECLARATIONS", declarations),
    ):
        text = text.replace(f"${name}$", value)
    return text


def _machine(target: HostTarget) -> tuple[str, str, str, str]:
    """The clock intrinsic, text that sets and restores the floating-point state, and the declarations of all that."""
    if target.is_x86:
        return "llvm.readcyclecounter", _X86_ENTER, _X86_LEAVE, _X86_DECLARATIONS
    if target.architecture in ("aarch64", "arm64"):
        # The cycle counter traps in user mode there; the steady counter is the generic timer.
        return "llvm.readsteadycounter", _ARM_ENTER, _ARM_LEAVE, _ARM_DECLARATIONS
    return "llvm.readcyclecounter", "", "", ""


# 0x1F80: all exceptions masked, round to nearest, no flushing. 0xFFC0 leaves out the sticky flags. ldmxcsr drains the
# pipeline, so it is only executed where the process has changed the setting.
_X86_ENTER = """  %saved = alloca i32, align 4
  %wanted = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  %mxcsr = load i32, ptr %saved, align 4
  %control = and i32 %mxcsr, 65472
  %foreign = icmp ne i32 %control, 8064
  br i1 %foreign, label %set, label %entered
set:
  store i32 8064, ptr %wanted, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %wanted)
  br label %entered
entered:"""
_X86_LEAVE = """  br i1 %foreign, label %restore, label %left
restore:
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  br label %left
left:"""
_X86_DECLARATIONS = """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)"""

_ARM_ENTER = """  %saved = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)"""
_ARM_LEAVE = """  call void @llvm.aarch64.set.fpcr(i64 %saved)"""
_ARM_DECLARATIONS = """declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)"""

_TEMPLATE = """
define i32 @$WORKER$(ptr noundef %block) nounwind {
entry:
$ENTER$
  %started = call i64 @$CLOCK$()
  %tickets = getelementptr inbounds i8, ptr %block, i64 144
  %ticket = atomicrmw add ptr %tickets, i32 1 monotonic, align 4
  %thread = zext i32 %ticket to i64
  %arguments = load ptr, ptr %block, align 8
  %total.at = getelementptr inbounds i8, ptr %block, i64 8
  %total = load i64, ptr %total.at, align 8
  %chunk.at = getelementptr inbounds i8, ptr %block, i64 16
  %chunk = load i64, ptr %chunk.at, align 8
  %arenas.at = getelementptr inbounds i8, ptr %block, i64 40
  %arenas = load ptr, ptr %arenas.at, align 8
  %stride.at = getelementptr inbounds i8, ptr %block, i64 48
  %stride = load i64, ptr %stride.at, align 8
  %distance = mul i64 %thread, %stride
  %arena = getelementptr i8, ptr %arenas, i64 %distance
  %slice.at = getelementptr inbounds i8, ptr %block, i64 56
  %slice = load i64, ptr %slice.at, align 8
  %next = getelementptr inbounds i8, ptr %block, i64 64
  %cancel.at = getelementptr inbounds i8, ptr %block, i64 128
  %timed = icmp ne i64 %slice, 0
  %kernel.at = getelementptr inbounds i8, ptr %block, i64 152
  %kernel = load ptr, ptr %kernel.at, align 8
  br label %take
take:
  %cancel = load atomic i32, ptr %cancel.at monotonic, align 4
  %cancelled = icmp ne i32 %cancel, 0
  br i1 %cancelled, label %finish, label %claim
claim:
  %first = atomicrmw add ptr %next, i64 %chunk monotonic, align 8
  %left.over = sub i64 %total, %first
  %some = icmp sgt i64 %left.over, 0
  br i1 %some, label %work, label %finish
work:
  %last = icmp slt i64 %left.over, %chunk
  %count = select i1 %last, i64 %left.over, i64 %chunk
  %end = add i64 %first, %count
  call void %kernel(ptr %arguments, i64 %first, i64 %end, ptr %arena)
  %now = call i64 @$CLOCK$()
  %spent = sub i64 %now, %started
  %late = icmp uge i64 %spent, %slice
  %stop = and i1 %late, %timed
  br i1 %stop, label %finish, label %take
finish:
  %status = phi i32 [ 2, %take ], [ 0, %claim ], [ 1, %work ]
$LEAVE$
  ret i32 %status
}

define internal void @$WORKER$.task(ptr noundef %block) nounwind {
  %status = call i32 @$WORKER$(ptr %block)
  ret void
}

define i32 @$ENTRY$(ptr noundef %block) nounwind {
entry:
  %tickets = getelementptr inbounds i8, ptr %block, i64 144
  store i32 0, ptr %tickets, align 4
  %threads.at = getelementptr inbounds i8, ptr %block, i64 32
  %threads = load i32, ptr %threads.at, align 8
  %parallel.at = getelementptr inbounds i8, ptr %block, i64 24
  %parallel = load ptr, ptr %parallel.at, align 8
  %several = icmp ugt i32 %threads, 1
  %available = icmp ne ptr %parallel, null
  %fan = and i1 %several, %available
  br i1 %fan, label %many, label %one
one:
  %status = tail call i32 @$WORKER$(ptr %block)
  ret i32 %status
many:
  call void %parallel(ptr @$WORKER$.task, ptr %block, i32 %threads, i32 0)
  %cancel.at = getelementptr inbounds i8, ptr %block, i64 128
  %cancel = load atomic i32, ptr %cancel.at monotonic, align 4
  %cancelled = icmp ne i32 %cancel, 0
  %next.at = getelementptr inbounds i8, ptr %block, i64 64
  %next = load atomic i64, ptr %next.at monotonic, align 8
  %total.at = getelementptr inbounds i8, ptr %block, i64 8
  %total = load i64, ptr %total.at, align 8
  %unfinished = icmp slt i64 %next, %total
  %progress = zext i1 %unfinished to i32
  %result = select i1 %cancelled, i32 2, i32 %progress
  ret i32 %result
}

declare i64 @$CLOCK$()
$DECLARATIONS$
"""
