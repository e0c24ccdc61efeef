"""The native threads of cpu launches, as code: a launch waits for nobody who has not begun.

libgomp's parallel region ends when every thread of it has come, also one that the system has not found time for: on a
machine with other work to do, a launch of 30 us then takes 10 ms. Here the calling thread publishes a job, wakes who
sleeps, and works; threads that come while there is room join it. Whoever finds no work left closes the job, and the
calling thread waits for those inside alone. Jobs of several calling threads stand in slots beside one another; a caller
that finds no free slot works alone.

    word      one a slot, 32 bits, atomic: threads inside (15), room for more of them (15), taken by a caller (1), the
              caller sleeps (1). 0: free.
    job       function and its argument, behind the word: written while the slot is taken and has no room
    bell      counts publications: threads without a job look at it for a while, then sleep on it (a futex)
    sleepers  threads that sleep, or are about to; crew: threads that there are

Why it is right; `tests/unit/test_cpu_crew.py` runs this text under every interleaving of some threads, with the store
buffers of x86.

Right job. Joining is one compare-and-swap that takes a room and adds one inside, so it succeeds only while there is
room: after the store that opens the slot, which releases what the caller wrote before (job, launch block, buffers). All
that follows it in the word's history up to the end of the job are read-modify-writes, which continue its release
sequence, so the swap, an acquire, sees all of it. The job is read after that; while a thread is inside the caller does
not give the slot back, so nobody writes another job there. A word that was seen long ago and has come back means the
same as a new one: room in an open job. So no counter has to tell jobs apart, and none can wrap.

All writes. A leaving thread subtracts one, releasing; the caller's load that finds nobody inside acquires, and reads
the last subtraction or a read-modify-write after it, thus sees the writes of all. Room is cleared before that load, so
nobody comes later. The next caller of the slot acquires what the last one released by its store of 0.

No lost wake-up. A caller adds to the bell, then reads `sleepers`; a thread adds to `sleepers`, then the system compares
the bell with what the thread saw before its last search of the slots. All four are sequentially consistent (the system
has a full barrier before its comparison, and compares and queues in one step): either the caller sees the sleeper, or
the system sees the bell. The bell would have to be rung 2**32 times between a look and the sleep to deceive it, and
then the thread sleeps until the next launch, which waits for nobody. A caller that sleeps has set its bit in the word
that it sleeps on; the last one to leave reads that bit in the same operation by which it leaves, and wakes it.

How many to wake is a matter of speed alone: what the slots ask for, less the threads that are awake. Threads for which
launches have no use (there are more of them than the last one wanted) do not look longer because the bell was rung.

Every 256 looks a thread sees whether it stands on the processor of whoever launched last. There it is of no use: it
runs when that one does not, and nothing tells the system to part the two, for the caller never waits. It forbids itself
that processor, by which the system moves it, and allows it again: on two busy processors, launches that take one thread
55 us took 31 us then, 55 us before. (Moving may take long; if somebody else has set where it may be meanwhile, that
stays.) Where it may not be elsewhere it yields. Without either, a thread that was woken in
its caller's place keeps it for as long as it looks: with 200 us of looking, half of the launches took 330 us instead of
95 us. (To yield always gives the processor to other programs just before the next launch.)
"""

from __future__ import annotations

from magpie.backends.llvm.codegen import HostTarget

__all__ = ["PARALLEL_SYMBOL", "SERVE_SYMBOL", "SLOTS", "crew_text"]

PARALLEL_SYMBOL = "magpie_parallel"  # void (ptr function, ptr argument, i32 threads, i32 flags)
SERVE_SYMBOL = "magpie_serve"  # ptr (i64): a thread's body, which never returns; its number, and its looks << 32

#: Callers of one moment that others can help.
SLOTS = 8

# Looks of a caller at who is still inside, before it sleeps: 10 to 80 us.
_PATIENCE = 2000

# (futex, rt_sigprocmask, sched_yield, sched_getaffinity, sched_setaffinity) and what a spinning thread executes.
_SYSTEMS = {
    "x86_64": ((202, 14, 24, 204, 203), "@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": ((98, 135, 124, 123, 122), "@llvm.aarch64.hint(i32 1)", "@llvm.aarch64.hint(i32)"),
}

# Signals that the threads leave to others: all but those of a fault (4 to 8, 11 and 31), and those by which libc
# reaches every thread (32 to 34; setuid waits for them).
_BLOCKED = sum(1 << (n - 1) for n in range(1, 65) if n not in {4, 5, 6, 7, 8, 11, 31, 32, 33, 34})


def crew_text(target: HostTarget, *, slots: int = SLOTS, patience: int = _PATIENCE) -> str | None:
    """The LLVM module, which needs libc's `syscall` and `sched_getcpu`; None for other processors."""
    system = _SYSTEMS.get(target.architecture)
    if system is None:
        return None
    (futex, mask, yields, get_affinity, set_affinity), pause, declaration = system
    text = _TEMPLATE
    for name, value in (
        ("PARALLEL", PARALLEL_SYMBOL),
        ("SERVE", SERVE_SYMBOL),
        ("SLOTS", str(slots)),
        ("PATIENCE", str(patience)),
        ("FUTEX", str(futex)),
        ("SIGPROCMASK", str(mask)),
        ("BLOCKED", str(_BLOCKED - (1 << 64))),
        ("YIELD", str(yields)),
        ("GETAFFINITY", str(get_affinity)),
        ("SETAFFINITY", str(set_affinity)),
        ("PAUSE", f"call void {pause}"),
        ("DECLARATION", f"declare void {declaration}"),
        ("INSIDE", str(_INSIDE)),
        ("ONE_ROOM", str(_ONE_ROOM)),
        ("ROOM", str(_ROOM)),
        ("NO_ROOM", str(~_ROOM)),
        ("TAKEN", str(_TAKEN)),
        ("ASLEEP", str(_ASLEEP)),
        ("JOIN", str(1 - _ONE_ROOM)),
    ):
        text = text.replace(f"${name}$", value)
    return text


# The parts of a slot's word.
_INSIDE = 0x7FFF
_ONE_ROOM = 0x8000
_ROOM = 0x3FFF8000
_TAKEN = 0x40000000
_ASLEEP = -0x80000000

# 128 and 129: FUTEX_WAIT and FUTEX_WAKE of this process alone. A slot is a cache line: the word, the function at 8
# and the argument at 16.
_TEMPLATE = """
@slots = internal global [$SLOTS$ x [8 x i64]] zeroinitializer, align 64
@bell = internal global i32 0, align 64
@wanted = internal global i32 0, align 4
@sleepers = internal global i32 0, align 64
@crew = internal global i32 0, align 4
@caller = internal global i32 -1, align 64
@blocked = internal global i64 $BLOCKED$, align 8

define void @$PARALLEL$(ptr noundef %function, ptr noundef %argument, i32 %threads, i32 %flags) nounwind {
entry:
  br label %choose
choose:
  %index = phi i64 [ 0, %entry ], [ %following, %taken ]
  %slot = getelementptr [8 x i64], ptr @slots, i64 %index
  %claim = cmpxchg ptr %slot, i32 0, i32 $TAKEN$ acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %claim, 1
  br i1 %mine, label %publish, label %taken
taken:
  %following = add i64 %index, 1
  %any = icmp ult i64 %following, $SLOTS$
  br i1 %any, label %choose, label %alone
alone:
  call void %function(ptr %argument)
  ret void
publish:
  %function.at = getelementptr i8, ptr %slot, i64 8
  %argument.at = getelementptr i8, ptr %slot, i64 16
  store ptr %function, ptr %function.at, align 8
  store ptr %argument, ptr %argument.at, align 8
  %less.one = sub i32 %threads, 1
  %fits = icmp ult i32 %less.one, $INSIDE$
  %others = select i1 %fits, i32 %less.one, i32 $INSIDE$
  %room = mul i32 %others, $ONE_ROOM$
  %opened = or i32 %room, $TAKEN$
  store atomic i32 %opened, ptr %slot release, align 4
  store atomic i32 %others, ptr @wanted monotonic, align 4
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr @caller monotonic, align 4
  %rung = atomicrmw add ptr @bell, i32 1 seq_cst, align 4
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %ask, label %work
ask:
  %there = load atomic i32, ptr @crew monotonic, align 4
  %awake = sub i32 %there, %asleep
  br label %sum
sum:
  %k = phi i64 [ 0, %ask ], [ %k.next, %sum ]
  %asked = phi i32 [ 0, %ask ], [ %asked.next, %sum ]
  %each = getelementptr [8 x i64], ptr @slots, i64 %k
  %state = load atomic i32, ptr %each monotonic, align 4
  %state.inside = and i32 %state, $INSIDE$
  %state.shifted = lshr i32 %state, 15
  %state.room = and i32 %state.shifted, $INSIDE$
  %state.all = add i32 %state.inside, %state.room
  %asked.next = add i32 %asked, %state.all
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, $SLOTS$
  br i1 %k.more, label %sum, label %enough
enough:
  %missing = sub i32 %asked.next, %awake
  %few = icmp sgt i32 %missing, 0
  br i1 %few, label %wake, label %work
wake:
  %less = icmp slt i32 %missing, %others
  %number = select i1 %less, i32 %missing, i32 %others
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @bell, i32 129, i32 %number, ptr null, ptr null, i32 0)
  br label %work
work:
  call void %function(ptr %argument)
  %before = atomicrmw and ptr %slot, i32 $NO_ROOM$ acq_rel, align 4
  br label %wait
wait:
  %round = phi i32 [ 0, %work ], [ %next, %pause ], [ %round, %sleep ]
  %now = load atomic i32, ptr %slot acquire, align 4
  %inside = and i32 %now, $INSIDE$
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %still
still:
  %long = icmp uge i32 %round, $PATIENCE$
  br i1 %long, label %tired, label %pause
pause:
  %next = add i32 %round, 1
  $PAUSE$
  br label %wait
tired:
  %last = atomicrmw or ptr %slot, i32 $ASLEEP$ acq_rel, align 4
  %last.inside = and i32 %last, $INSIDE$
  %gone = icmp eq i32 %last.inside, 0
  br i1 %gone, label %done, label %sleep
sleep:
  %expected = or i32 %last, $ASLEEP$
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %slot, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  br label %wait
done:
  store atomic i32 0, ptr %slot release, align 4
  ret void
}

define ptr @$SERVE$(i64 %share) nounwind {
entry:
  %mask = alloca [128 x i64], align 8
  %masked = call i64 (i64, ...) @syscall(i64 $SIGPROCMASK$, i32 0, ptr @blocked, ptr null, i64 8)
  %number = trunc i64 %share to i32
  %share.upper = lshr i64 %share, 32
  %looks = trunc i64 %share.upper to i32
  %counted = atomicrmw add ptr @crew, i32 1 monotonic, align 4
  %first = load atomic i32, ptr @bell acquire, align 4
  br label %scan
look:
  %round = phi i32 [ 0, %sleep ], [ %next, %yield ], [ %next, %rest ], [ %new.round, %nothing ]
  %last = phi i32 [ %last, %sleep ], [ %last, %yield ], [ %last, %rest ], [ %heard, %nothing ]
  %start = phi i64 [ %start, %sleep ], [ %start, %yield ], [ %start, %rest ], [ %from, %nothing ]
  %seen = load atomic i32, ptr @bell acquire, align 4
  %rung = icmp ne i32 %seen, %last
  br i1 %rung, label %scan, label %none
none:
  %long = icmp uge i32 %round, %looks
  br i1 %long, label %sleep, label %pause
pause:
  %next = add i32 %round, 1
  %turn = and i32 %next, 255
  %polite = icmp eq i32 %turn, 0
  br i1 %polite, label %where, label %rest
where:
  %here = call i32 @sched_getcpu()
  %caller = load atomic i32, ptr @caller monotonic, align 4
  %shared = icmp eq i32 %here, %caller
  br i1 %shared, label %move, label %rest
move:
  %bytes = call i64 (i64, ...) @syscall(i64 $GETAFFINITY$, i32 0, i64 1024, ptr %mask)
  %bit.word = lshr i32 %here, 6
  %bit.word.wide = zext i32 %bit.word to i64
  %word.at = getelementptr i64, ptr %mask, i64 %bit.word.wide
  %bit.in = and i32 %here, 63
  %bit.in.wide = zext i32 %bit.in to i64
  %bit = shl i64 1, %bit.in.wide
  %all = load i64, ptr %word.at, align 8
  %without = xor i64 %all, %bit
  store i64 %without, ptr %word.at, align 8
  %set = call i64 (i64, ...) @syscall(i64 $SETAFFINITY$, i32 0, i64 %bytes, ptr %mask)
  %bytes.now = call i64 (i64, ...) @syscall(i64 $GETAFFINITY$, i32 0, i64 1024, ptr %mask)
  %all.now = load i64, ptr %word.at, align 8
  %ours = icmp eq i64 %all.now, %without
  br i1 %ours, label %allow, label %yield
allow:
  store i64 %all, ptr %word.at, align 8
  %back = call i64 (i64, ...) @syscall(i64 $SETAFFINITY$, i32 0, i64 %bytes.now, ptr %mask)
  br label %yield
yield:
  %yielded = call i64 (i64, ...) @syscall(i64 $YIELD$)
  br label %look
rest:
  $PAUSE$
  br label %look
sleep:
  %more = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @bell, i32 128, i32 %last, ptr null, ptr null, i32 0)
  %less = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  br label %look
scan:
  %heard = phi i32 [ %first, %entry ], [ %seen, %look ], [ %heard, %other ], [ %heard, %left ]
  %from = phi i64 [ 0, %entry ], [ %start, %look ], [ %from, %other ], [ %behind, %left ]
  %done = phi i32 [ 0, %entry ], [ %round, %look ], [ %done, %other ], [ 0, %left ]
  %k = phi i64 [ 0, %entry ], [ 0, %look ], [ %k.next, %other ], [ 0, %left ]
  %sum = add i64 %from, %k
  %index = urem i64 %sum, $SLOTS$
  %slot = getelementptr [8 x i64], ptr @slots, i64 %index
  %loaded = load atomic i32, ptr %slot monotonic, align 4
  br label %try
try:
  %word = phi i32 [ %loaded, %scan ], [ %found, %join ]
  %room = and i32 %word, $ROOM$
  %open = icmp ne i32 %room, 0
  br i1 %open, label %join, label %other
join:
  %entered = add i32 %word, $JOIN$
  %swap = cmpxchg ptr %slot, i32 %word, i32 %entered acq_rel monotonic, align 4
  %found = extractvalue { i32, i1 } %swap, 0
  %in = extractvalue { i32, i1 } %swap, 1
  br i1 %in, label %run, label %try
other:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, $SLOTS$
  br i1 %k.more, label %scan, label %nothing
nothing:
  %others = load atomic i32, ptr @wanted monotonic, align 4
  %of.use = icmp ult i32 %number, %others
  %new.round = select i1 %of.use, i32 0, i32 %done
  br label %look
run:
  %function.at = getelementptr i8, ptr %slot, i64 8
  %argument.at = getelementptr i8, ptr %slot, i64 16
  %function = load ptr, ptr %function.at, align 8
  %argument = load ptr, ptr %argument.at, align 8
  call void %function(ptr %argument)
  %closed = atomicrmw and ptr %slot, i32 $NO_ROOM$ monotonic, align 4
  %before = atomicrmw sub ptr %slot, i32 1 acq_rel, align 4
  %behind = add i64 %index, 1
  %before.inside = and i32 %before, $INSIDE$
  %was.last = icmp eq i32 %before.inside, 1
  %waits = icmp slt i32 %before, 0
  %call = and i1 %was.last, %waits
  br i1 %call, label %tell, label %left
tell:
  %told = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %slot, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %left
left:
  br label %scan
}

declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
$DECLARATION$
"""
