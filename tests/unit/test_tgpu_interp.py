"""The interpreter that counts branches equals the simulator that counts steps."""

from __future__ import annotations

import random

import numpy as np
import pytest

from magpie.backends.tgpu.interp import interpret
from magpie.backends.tgpu.simulator import simulate
from magpie.errors import GpuError
from tests.unit.tgpu_tools import program, random_program


def equal(code, grid, memory, **options):
    a, b = (run(code, grid, memory, **options) for run in (simulate, interpret))
    assert a.memory.tolist() == b.memory.tolist()
    assert (a.cycles, a.opcodes, a.executed, a.instructions) == (b.cycles, b.opcodes, b.executed, b.instructions)
    assert a.thread_cycles.tolist() == b.thread_cycles.tolist()
    assert a.thread_instructions.tolist() == b.thread_instructions.tolist()
    assert a.registers.tolist() == b.registers.tolist() and a.reserved_intact == b.reserved_intact
    return b


@pytest.mark.parametrize("seed", range(1000, 1150))
def test_random_programs(seed):
    grid = random.Random(seed).choice([(1, 1), (1, 8), (3, 5), (4, 8), (7, 1)])
    memory = np.random.default_rng(seed).integers(-100, 100, max(8, 4 * grid[0] * grid[1]))
    equal(program(random_program(seed, racy=False)), grid, memory, num_registers=16, shared_size=8)


ARRIVALS = {
    "each thread takes another number of branches before": """
        SET R0, 0
        L: BEQ R0, R6, out
        ADD R0, R0, 1
        JMP L
        out: SHST R6, R7
        SYNCB
        MUL R1, R6, -1
        ADD R1, R1, 4
        SHLD R2, R1
        ST R7, R2""",
    "two barriers, and branches between and behind them": """
        BEQ R6, 0, a
        JMP a
        a: SHST R6, R6
        SYNCB
        SHLD R1, 0
        CMP R6, 2
        BRLT b
        JMP c
        b: ADD R1, R1, 1
        c: SYNCB
        SET R0, 0
        d: ADD R0, R0, 1
        CMP R0, R6
        BRLT d
        ST R7, R0""",
    "blocks that come at different times wait for themselves only": """
        SET R0, 0
        L: ADD R0, R0, 1
        CMP R0, R7
        BRLT L
        SYNCB
        ST R7, R0""",
    "all blocks wait for the slowest": """
        SET R0, 0
        L: ADD R0, R0, 1
        CMP R0, R5
        BRLT L
        ST R7, R5
        SYNC
        MUL R1, R7, -1
        ADD R1, R1, 14
        LD R2, R1
        SYNCB
        SYNC
        ST R7, R2""",
    "a barrier at the start, and one at the end": "SYNCB\nST R7, R6\nSYNCB",
    "the time depends on data": """
        LD R0, R7
        L: CMP R0, 0
        BRLT out
        BRZ out
        ADD R0, R0, -1
        JMP L
        out: SYNCB
        ADD R0, R0, 7
        ST R7, R0""",
    "a loop with a barrier in it": """
        SET R0, 0
        L: BEQ R6, 1, skip
        BNE R0, R6, skip
        SHST 0, R0
        skip: SYNCB
        SHLD R1, 0
        ADD R0, R0, 1
        CMP R0, 4
        SYNCB
        BRLT L
        ST R7, R1""",
}


@pytest.mark.parametrize("text", ARRIVALS.values(), ids=ARRIVALS.keys())
@pytest.mark.parametrize("grid", [(3, 5), (5, 3), (15, 1)])
def test_threads_that_come_to_barriers_at_different_times(text, grid):
    if "14" in text or "R1, R1, 4" in text:
        text = text.replace("ADD R1, R1, 4", f"ADD R1, R1, {grid[1] - 1}")
    memory = np.random.default_rng(3).integers(0, 9, 15)
    equal(program(text), grid, memory, shared_size=8)


def test_the_formula_on_a_case_counted_by_hand():
    # Thread 0 comes straight, in step 1; thread 1 takes a branch, and comes in step 2; thread 2 takes two: step 3.
    text = "BEQ R6, 0, b\nBEQ R6, 1, c\nJMP a\na: JMP c\nb: SYNCB\nJMP d\nc: SYNCB\nd: SET R0, 1"
    found = equal(program(text), (1, 3), [0])
    # b is reached by a branch too: thread 0 comes in step 2, thread 1 in 2, thread 2 in 3; all go on in step 4.
    assert found.executed[4] == 2 and found.executed[6] == 2 + 1
    assert found.thread_cycles.tolist() == [5, 4, 4] and found.cycles == 5


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("LD R0, 9", 1101),
        ("ST -1, 9", 1101),
        ("SHLD R0, R6", 1101),
        ("SHST 2, R6", 1101),
        ("CSWAP 0, 9", 1101),
        ("L: ADD R0, R0, 1\nJMP L", 1102),
        ("BEQ R6, 0, e\nSYNCB\ne: SET R0, 1", 1103),
        ("BEQ R6, 0, e\nSYNC\ne: SYNCB", 1103),
    ],
)
def test_faults_are_those_of_the_simulator(text, code):
    messages = []
    for run in (simulate, interpret):
        with pytest.raises(GpuError) as caught:
            run(program(text), (1, 3), [0] * 4, shared_size=2, max_steps=100)
        assert caught.value.diagnostic == f"MPG_TGPU_{code}"
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


def test_silent_shared_accesses_and_reserved_registers():
    code = program("SHLD R0, R6\nSHST 5, 1\nADD R7, R7, R0")
    assert equal(code, (1, 3), [0], shared_size=2, silent_shared=True).reserved_intact
    assert not equal(program("ADD R5, R5, 1"), (1, 3), [0]).reserved_intact
