"""How the threads of cpu launches live in a process: who is woken, who sleeps, fork, exit, signals, limits."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from magpie.backends.cpu import loader, threads
from magpie.backends.cpu.launch_block import LaunchBlock
from magpie.backends.llvm import codegen

pytestmark = pytest.mark.skipif(
    not codegen.llvm_version() or sys.platform != "linux", reason="there is no crew for this system, or no llvmlite"
)

# meet: a workgroup waits until another one has begun, for some tenths of a second at most; then the workgroup of the
# fourth number counts on to the third. A pair that met has added 2 to the second number.
KERNELS = """
define void @meet(ptr %a, i64 %b, i64 %e, ptr %arena) nounwind {
entry:
  %met = getelementptr i8, ptr %a, i64 8
  %long.at = getelementptr i8, ptr %a, i64 16
  %mine = atomicrmw add ptr %a, i64 1 seq_cst
  br label %wait
wait:
  %k = phi i64 [ 0, %entry ], [ %k1, %again ]
  %here = load atomic i64, ptr %a seq_cst, align 8
  %both = icmp sge i64 %here, 2
  br i1 %both, label %together, label %again
again:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, 300000000
  br i1 %more, label %wait, label %done
together:
  %old = atomicrmw add ptr %met, i64 1 seq_cst
  %which.at = getelementptr i8, ptr %a, i64 24
  %which = load i64, ptr %which.at
  %second = icmp eq i64 %b, %which
  %long = load i64, ptr %long.at
  %limit = select i1 %second, i64 %long, i64 1
  br label %count
count:
  %n = phi i64 [ 0, %together ], [ %n1, %count ]
  %x = load volatile i64, ptr %long.at
  %n1 = add i64 %n, 1
  %on = icmp ult i64 %n1, %limit
  br i1 %on, label %count, label %done
done:
  ret void
}
"""


@functools.cache
def parts() -> tuple[threads.Launcher, loader.LoadedImage]:
    return threads.Launcher.compile(), loader.load_object(codegen.compile_object(KERNELS))


class Meeting:
    """Launches of two workgroups that meet, on a crew of its own."""

    def __init__(self, count: int, idle_us: int = 0) -> None:
        made = threads.Crew.compile()
        if made is None:
            pytest.skip("there is no crew for this processor")
        self.crew = made
        self.crew.grow(count, idle_us)
        self.block = LaunchBlock(32)

    def launch(self, long: int = 1, wanted: int = 2, which: int = 1) -> bool:
        """Whether the two met."""
        launcher, image = parts()
        struct.pack_into("<qqqq", self.block.arguments, 0, 0, 0, long, which)
        self.block.fill(image.address("meet"), 2, threads=wanted, parallel=self.crew.address, slice_ticks=0)
        launcher.run(self.block)
        begun, met, _ = struct.unpack_from("<qqq", self.block.arguments, 0)
        assert begun == 2
        return bool(met == 2)


def run(source: str, timeout: float = 60.0, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, with the tests' folder in its path."""
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, str(Path(threads.__file__).parents[3])])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def crew_threads() -> list[Path]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            if (task / "comm").read_text() == "magpie-crew\n":
                found.append(task)
    return found


def test_a_launch_of_two_wakes_one_who_can_help() -> None:
    """More threads sleep than it has use for; each that is woken may join."""
    meeting = Meeting(5)
    time.sleep(0.05)
    # some may come too late on a busy machine; of sleepers that were woken at random few came
    assert sum(meeting.launch() for _ in range(20)) >= 14


def test_a_caller_that_waits_for_long_sleeps() -> None:
    meeting = Meeting(1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for number in range(8):  # the long workgroup is the caller's own in some
        meeting.launch(50_000_000, which=number % 2)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw > before


def test_two_callers_have_help_at_once() -> None:
    """Four workgroups of two launches at once, which all have to have begun before one ends."""
    meeting = Meeting(2, 1000)
    other = Meeting.__new__(Meeting)
    other.crew, other.block = meeting.crew, LaunchBlock(32)
    both = threading.Barrier(2)
    met: list[bool] = []

    def work(mine: Meeting) -> None:
        for _ in range(8):
            both.wait()
            met.append(mine.launch())

    workers = [threading.Thread(target=work, args=(m,)) for m in (meeting, other)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(met) >= 13, met


def test_its_threads_are_not_pythons() -> None:
    before = threading.enumerate()
    native = len(crew_threads())
    meeting = Meeting(3)
    assert meeting.launch() in (True, False)
    assert threading.enumerate() == before
    assert len(crew_threads()) == native + 3


def test_signals_are_left_to_others_and_identities_can_change() -> None:
    """But for faults, and for the signals by which libc changes the user of all threads."""
    meeting = Meeting(2)
    meeting.launch()
    for task in crew_threads():
        end, blocked = time.monotonic() + 10, -1
        while blocked >> (signal.SIGSEGV - 1) & 1 and time.monotonic() < end:  # libc blocks all while a thread starts
            (row,) = [line for line in (task / "status").read_text().splitlines() if line.startswith("SigBlk")]
            blocked = int(row.split()[1], 16)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGALRM, signal.SIGPROF):
            assert blocked >> (number - 1) & 1
        for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, 32, 33):
            assert not blocked >> (number - 1) & 1
    os.setuid(os.getuid())  # it waits for every thread


def test_the_code_outlives_whoever_loaded_it() -> None:
    done = run(
        """
        import gc, time
        from test_cpu_crew_life import Meeting
        meeting = Meeting(3, 1_000_000)
        meeting.launch()
        del meeting  # at least one of its threads looks for work
        gc.collect()
        time.sleep(0.1)
        Meeting(1).launch()
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("state", ["asleep", "looking", "working"])
def test_a_program_ends_whatever_the_threads_do(state: str) -> None:
    done = run(
        f"""
        import threading, time
        from test_cpu_crew_life import Meeting
        meeting = Meeting(2, 0 if {state!r} == "asleep" else 1_000_000)
        meeting.launch()
        if {state!r} == "working":
            threading.Thread(target=meeting.launch, args=(1 << 50,), daemon=True).start()
        time.sleep(0.1)
        print("end")
        """
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_where_the_system_refuses_threads_there_are_fewer() -> None:
    done = run(
        """
        import resource
        from test_cpu_crew_life import Meeting, crew_threads, parts
        parts()
        meeting = Meeting(0)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.RLIM_INFINITY))
        meeting.crew.grow(4000)
        meeting.launch()
        print(0 < len(crew_threads()) < 4000)
        """
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.skipif(not codegen.host_target().is_x86, reason="a fork under the GIL")
def test_a_fork_that_python_does_not_know_of() -> None:
    """In the child there is nobody to help, though the memory says otherwise: the launch is done alone."""
    done = run(
        """
        import ctypes, os, struct, time
        from test_cpu_crew_life import Meeting
        meeting = Meeting(2, 1000)
        meeting.launch()
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            meeting.launch()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), meeting.launch())
        """
    )
    assert done.stdout == "7 True\n", done.stderr


def test_threads_that_no_processor_is_left_for_do_not_look_for_work() -> None:
    """Sixty-three that look for a millisecond each would take 0.6 s for ten launches."""
    if threads.default_threads() > 16:
        pytest.skip("too many processors")
    meeting = Meeting(63, 1000)
    meeting.launch(wanted=64)
    time.sleep(0.2)
    start = time.process_time()
    for _ in range(10):
        meeting.launch(wanted=64)
        time.sleep(0.02)
    assert time.process_time() - start < 0.3


@pytest.mark.skipif(threads.default_threads() < 2, reason="no thread looks for work where there is one processor")
def test_a_thread_that_looks_for_work_leaves_its_callers_processor() -> None:
    """And may go back there: which processors it is allowed has not changed."""
    done = run(
        """
        import os, time
        from test_cpu_crew_life import Meeting, crew_threads
        meeting = Meeting(1, 1_000_000)
        meeting.launch()
        (helper,) = (int(task.name) for task in crew_threads())
        allowed = os.sched_getaffinity(0)
        processor = lambda task: int(open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split()[36])
        apart = []
        for _ in range(20):
            os.sched_setaffinity(0, {processor(helper)})
            meeting.launch()
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                pass
            apart.append(processor(helper) != processor(os.getpid()))
            os.sched_setaffinity(0, allowed)
        end = time.monotonic() + 5  # it may be about to move
        while os.sched_getaffinity(helper) != allowed and time.monotonic() < end:
            time.sleep(0.01)
        print(sum(apart), os.sched_getaffinity(helper) == allowed)
        """
    )
    count, same = done.stdout.split()
    assert (int(count) >= 8, same) == (True, "True"), done.stdout


@pytest.mark.skipif(threads.default_threads() < 2, reason="no thread looks for work where there is one processor")
def test_a_thread_that_looks_for_work_gives_way() -> None:
    """To the calling thread on the same processor: else each has half of it."""
    done = run(
        """
        import os, time
        from test_cpu_crew_life import Meeting
        meeting = Meeting(1, 1_000_000)
        meeting.launch()
        one = {min(os.sched_getaffinity(0))}
        for _ in range(3):  # a thread that is about to move may set its own once more
            for task in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(task), one)
            time.sleep(0.02)
        meeting.launch()
        whole, own = time.process_time(), time.thread_time()
        while time.thread_time() - own < 0.3:
            pass
        print(time.process_time() - whole - 0.3)
        """
    )
    assert float(done.stdout) < 0.1, done.stderr


def test_threads_stay_few_and_memory_too() -> None:
    meeting = Meeting(1, 1000)
    meeting.launch()
    native = len(list(Path("/proc/self/task").iterdir()))
    resident = Path("/proc/self/statm").read_text().split()[1]
    launcher, image = parts()
    for _ in range(20_000):
        struct.pack_into("<qqqq", meeting.block.arguments, 0, 2, 0, 1, 0)  # nobody waits
        meeting.block.fill(image.address("meet"), 2, threads=2, parallel=meeting.crew.address)
        launcher.run(meeting.block)
    assert len(list(Path("/proc/self/task").iterdir())) == native
    grown = (int(Path("/proc/self/statm").read_text().split()[1]) - int(resident)) * resource.getpagesize()
    assert grown < 4 << 20
