"""The crew of cpu launches under every interleaving of some threads, and with faults put in, which must be found."""

from __future__ import annotations

import os
import sys

import pytest
from interleavings import Explorer, Fault

from magpie.backends.cpu.crew import crew_text
from magpie.backends.llvm import codegen

pytestmark = pytest.mark.skipif(
    not codegen.llvm_version() or sys.platform != "linux" or crew_text(codegen.host_target()) is None,
    reason="there is no crew for this system, or no llvmlite",
)

ALL = bool(os.environ.get("MAGPIE_TEST_ALL"))


def text(slots: int = 1, patience: int = 0) -> str:
    found = crew_text(codegen.host_target(), slots=slots, patience=patience)
    assert found is not None
    return found


# Callers with their jobs, serving threads, threads that a launch asks for, slots, looks before sleep (of both kinds of
# threads), and whether a job needs a second thread.
SCENES = {
    "one launch": ([(1,)], 1, 2, 1, 0, True),
    "launches in a row": ([(1, 2, 3)], 1, 2, 1, 0, True),
    "nobody is needed": ([(1, 2)], 1, 2, 1, 0, False),
    "more room than threads": ([(1, 2)], 1, 4, 1, 0, False),
    "threads that look before they sleep": ([(1, 2)], 1, 2, 1, 1, False),
    "two threads": ([(1,)], 2, 3, 1, 0, True),
    "more threads than room": ([(1,)], 2, 2, 1, 0, True),
    "two callers, one slot": ([(1,), (2,)], 1, 2, 1, 0, False),
}
LARGE = {
    "two callers, two slots": ([(1,), (2,)], 1, 2, 2, 0, True),
    "two threads, two launches": ([(1, 2)], 2, 3, 1, 0, True),
    "two callers, a slot used again": ([(1, 3), (2,)], 1, 2, 1, 0, False),
}


@pytest.mark.parametrize("scene", [*SCENES, *(LARGE if ALL else ())])
def test_no_interleaving_goes_wrong(scene: str) -> None:
    callers, servers, wanted, slots, looks, needs = {**SCENES, **LARGE}[scene]
    Explorer(text(slots, looks), callers, servers, wanted=wanted, looks=looks, needs=needs).explore()


RING = "  %rung = atomicrmw add ptr @bell, i32 1 seq_cst, align 4\n"
COUNT = "  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4\n"
GIVE = "  store ptr %argument, ptr %argument.at, align 8\n"
WEAK = (
    "  %r0 = load atomic i32, ptr @bell monotonic, align 4\n  %r1 = add i32 %r0, 1\n"
    "  store atomic i32 %r1, ptr @bell release, align 4\n"
)  # fmt: skip

# Faults that were put in, one at a time, and a scene that shows each.
FAULTS = {
    "sleepers are counted before the bell is rung": ((RING + COUNT, COUNT + RING), "one launch"),
    "the bell is rung by a store that waits in a queue": ((RING, WEAK), "launches in a row"),
    "a thread sleeps by what it has not searched": (("i32 128, i32 %last,", "i32 128, i32 %heard.now,"), "one launch"),
    "a slot is opened before its job is in it": ((GIVE + "  %less", "  %less"), "one launch"),
    "the last one to leave wakes nobody": (("label %tell, label %left", "label %left, label %left"), "one launch"),
    "the wrong one wakes the caller": (("i32 %before.inside, 1", "i32 %before.inside, 2"), "one launch"),
    "the caller sleeps though nobody is inside": (("%gone, label %done", "%gone, label %sleep"), "one launch"),
    "the caller does not wait": (("%empty, label %done", "true, label %done"), "one launch"),
    "the caller leaves the job open": (
        ("atomicrmw and ptr %slot, i32 -1073709057 acq_rel", "x"),
        "more room than threads",
    ),
    "a thread that found no work comes back": (
        ("i32 -1073709057 monotonic", "i32 -1 monotonic"),
        "more room than threads",
    ),
    "two callers take one slot": (("%mine, label %publish", "true, label %publish"), "two callers, one slot"),
    "all that sleep join": (("%word, -32767", "%word, 1"), "more threads than room"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_explorer_finds_faults(fault: str) -> None:
    (old, new), scene = FAULTS[fault]
    callers, servers, wanted, slots, looks, needs = SCENES[scene]
    source = text(slots, looks)
    assert old in source
    if new == "x":
        old, new = old + ", align 4", "load atomic i32, ptr %slot acquire, align 4"
    changed = source.replace(old, new, 1)
    if "%heard.now" in new:
        changed = changed.replace(
            "  %more = atomicrmw", "  %heard.now = load atomic i32, ptr @bell acquire, align 4\n  %more = atomicrmw"
        )
    if old.startswith(GIVE):
        changed = changed.replace(RING, GIVE + RING)
    changed = changed.replace("br i1 true,", "br i1 1,")
    with pytest.raises(Fault):
        Explorer(changed, callers, servers, wanted=wanted, looks=looks, needs=needs).explore()
