"""The native threads of cpu launches, as code: a launch waits for nobody who has not begun.

libgomp's parallel region ends when every thread of it has come, also one that the system has not found time for: on a
machine with other work to do, a launch of 30 us then takes 10 ms. Here the calling thread publishes a job, wakes who
sleeps, and works; threads that come while the job is open join it, and when the calling thread finds no work left, it
closes the job and waits for those inside alone.

    word      64 bits, atomic: generation (31 bits), open (1), threads inside (32)
    job       function, its argument, how many threads may join; written while no job is open
    busy      a launch is under way: another one of the same moment runs on its own thread

A thread without a job looks at the word for a while, then sleeps on its upper half (a futex), of which it knows the
value that it last saw: so no wake-up is lost. One function has the interface of GOMP_parallel, one is a thread's body.
"""

from __future__ import annotations

from magpie.backends.llvm.codegen import HostTarget

__all__ = ["PARALLEL_SYMBOL", "SERVE_SYMBOL", "crew_text"]

PARALLEL_SYMBOL = "magpie_parallel"  # void (ptr function, ptr argument, i32 threads, i32 flags)
SERVE_SYMBOL = "magpie_serve"  # void (i32 number, i32 looks): the body of thread 0, 1, ...; it never returns

# (futex, sched_yield) and what a spinning thread executes.
_SYSTEMS = {
    "x86_64": (202, 24, "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": (98, 124, "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}


def crew_text(target: HostTarget) -> str | None:
    """The LLVM module, which needs libc's `syscall`; None for processors that it is not written for."""
    system = _SYSTEMS.get(target.architecture)
    if system is None:
        return None
    futex, yields, pause, declaration = system
    text = _TEMPLATE
    for name, value in (
        ("PARALLEL", PARALLEL_SYMBOL),
        ("SERVE", SERVE_SYMBOL),
        ("FUTEX", str(futex)),
        ("YIELD", str(yields)),
        ("PAUSE", pause),
        ("DECLARATION", declaration),
    ):
        text = text.replace(f"${name}$", value)
    return text


# 128 and 129: FUTEX_WAIT and FUTEX_WAKE of this process alone. The upper half of the word lies behind the lower one.
_TEMPLATE = """
@word = internal global i64 0, align 64
@busy = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
@function = internal global ptr null, align 64
@argument = internal global ptr null, align 8
@wanted = internal global i32 0, align 4

define void @$PARALLEL$(ptr noundef %function, ptr noundef %argument, i32 %threads, i32 %flags) nounwind {
entry:
  %got = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %publish, label %alone
alone:
  call void %function(ptr %argument)
  ret void
publish:
  store atomic ptr %function, ptr @function monotonic, align 8
  store atomic ptr %argument, ptr @argument monotonic, align 8
  store atomic i32 %threads, ptr @wanted monotonic, align 4
  %old = load atomic i64, ptr @word monotonic, align 8
  %generation = lshr i64 %old, 33
  %following = add i64 %generation, 1
  %shifted = shl i64 %following, 33
  %opened = or i64 %shifted, 4294967296
  store atomic i64 %opened, ptr @word seq_cst, align 8
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %wake, label %work
wake:
  %others = sub i32 %threads, 1
  %upper = getelementptr i8, ptr @word, i64 4
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %upper, i32 129, i32 %others, ptr null, ptr null, i32 0)
  br label %work
work:
  call void %function(ptr %argument)
  %before = atomicrmw and ptr @word, i64 -4294967297 acq_rel, align 8
  br label %wait
wait:
  %round = phi i32 [ 0, %work ], [ %next, %again ]
  %now = load atomic i64, ptr @word acquire, align 8
  %inside = trunc i64 %now to i32
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %still
still:
  %next = add i32 %round, 1
  %long = icmp ugt i32 %round, 2000
  br i1 %long, label %give, label %pause
give:
  %given = call i64 (i64, ...) @syscall(i64 $YIELD$)
  br label %again
pause:
  $PAUSE$
  br label %again
again:
  br label %wait
done:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

define void @$SERVE$(i32 %number, i32 %looks) nounwind {
entry:
  %upper = getelementptr i8, ptr @word, i64 4
  %limit.least = add i32 %number, 1
  br label %idle
idle:
  %last = phi i32 [ 0, %entry ], [ %last, %sleep ], [ %seen, %missed ], [ %last, %moved ], [ %seen, %run ]
  br label %look
look:
  %round = phi i32 [ 0, %idle ], [ %next, %pause ]
  %seen = load atomic i32, ptr %upper acquire, align 4
  %changed = icmp ne i32 %seen, %last
  br i1 %changed, label %open, label %none
none:
  %next = add i32 %round, 1
  %long = icmp uge i32 %round, %looks
  br i1 %long, label %sleep, label %pause
pause:
  $PAUSE$
  br label %look
sleep:
  %more = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %upper, i32 128, i32 %last, ptr null, ptr null, i32 0)
  %less = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  br label %idle
open:
  %word = load atomic i64, ptr @word acquire, align 8
  %word.upper = lshr i64 %word, 32
  %word.seen = trunc i64 %word.upper to i32
  %same = icmp eq i32 %word.seen, %seen
  %bit = and i32 %seen, 1
  %is.open = icmp ne i32 %bit, 0
  %wanted = load atomic i32, ptr @wanted monotonic, align 4
  %invited = icmp ugt i32 %wanted, %limit.least
  %may = and i1 %is.open, %invited
  %can = and i1 %may, %same
  br i1 %can, label %join, label %closed
closed:
  br i1 %same, label %missed, label %moved
missed:
  br label %idle
moved:
  br label %idle
join:
  %function = load atomic ptr, ptr @function monotonic, align 8
  %argument = load atomic ptr, ptr @argument monotonic, align 8
  %entered = add i64 %word, 1
  %swap = cmpxchg ptr @word, i64 %word, i64 %entered acq_rel monotonic, align 8
  %in = extractvalue { i64, i1 } %swap, 1
  br i1 %in, label %run, label %open
run:
  call void %function(ptr %argument)
  %left = atomicrmw sub ptr @word, i64 1 acq_rel, align 8
  br label %idle
}

declare i64 @syscall(i64, ...)
$DECLARATION$
"""
