"""The simulator of tiny-gpu against a plain loop over threads, and its faults."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from magpie.backends.tgpu.history import DONE, RUNNING, WAITING
from magpie.backends.tgpu.simulator import simulate
from magpie.errors import GpuError, GpuErrorKind
from tests.unit.tgpu_tools import Fault, Plain, program, random_program


def memory_for(grid, seed):
    return np.random.default_rng(seed).integers(-100, 100, max(8, 4 * grid[0] * grid[1])).astype(np.int32)


def same(text, grid, memory, shared=8):
    code = program(text)
    expected = Plain(code, grid, memory, shared_size=shared).run()
    found = simulate(code, grid, memory, num_registers=16, shared_size=shared)
    assert found.memory.tolist() == expected.memory
    assert found.cycles == expected.cycles
    assert found.opcodes == {k: n for k, n in expected.opcodes.items() if n}
    assert found.thread_instructions.tolist() == expected.counts
    assert found.thread_cycles.tolist() == expected.ends
    assert found.registers.T.tolist() == [t["r"] for t in expected.threads]
    assert found.reserved_intact
    return found


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed):
    rng = random.Random(seed)
    grid = rng.choice([(1, 1), (1, 8), (3, 5), (4, 8), (7, 1)])
    text = random_program(seed, racy=seed % 2 == 0)
    same(text, grid, memory_for(grid, seed))


@pytest.mark.parametrize("seed", range(900, 916))
def test_random_programs_of_many_threads(seed):
    """Sets of threads are held as masks where they are many and as ids where they are few."""
    grid = random.Random(seed).choice([(8, 16), (5, 21), (1, 100), (60, 3)])
    same(random_program(seed, racy=seed % 2 == 0), grid, memory_for(grid, seed), shared=128)


@pytest.mark.parametrize(
    "text",
    [
        "LD R0, 0\nADD R0, R0, 1\nST 0, R0",  # a sum in one step: each thread sees those before it
        "ST 0, R7\nLD R1, 0\nMUL R2, R7, 4\nST R2, R1",
        "ADD R0, R7, 1\nLD R1, R0\nST R7, R1",  # each reads what the next one writes later
        "ADD R0, R7, -1\nBRZ e\nBEQ R7, 0, e\nLD R1, R0\nADD R1, R1, 1\nST R7, R1\ne: SET R3, 1",
        "CSWAP R7, 0",
        "ADD R0, R7, 1\nCSWAP R7, R0",  # a bubble goes through all threads in one step
        "SHST 0, R6\nSHLD R0, 0\nST R7, R0",
        "SHST R6, R6\nSHLD R0, 3\nST R7, R0",
    ],
)
@pytest.mark.parametrize("grid", [(1, 6), (3, 4)])
def test_meetings_in_memory_go_in_the_order_of_threads(text, grid):
    same(text, grid, memory_for(grid, 5))


def test_registers_wrap_and_comparisons_do_not():
    text = """
        SET R0, 2147483647
        ADD R1, R0, 1
        MUL R2, R0, R0
        ST 0, R1
        ST 1, R2
        CMP R1, R0
        BRLT less
        ST 2, 1
    less: ADD R3, -2147483648, -1
        ST 3, R3
    """
    found = same(text, (1, 1), np.zeros(8, np.int32))
    assert found.memory.tolist()[:4] == [-(2**31), 1, 0, 2**31 - 1]


def test_cycles_are_taken_branches_and_one():
    straight = program("SET R0, 1\n" * 50)
    assert simulate(straight, (2, 3), [0]).cycles == 1
    loop = program("SET R0, 0\nL0: ADD R0, R0, 1\nCMP R0, 7\nBRLT L0\nST R7, R0")
    found = simulate(loop, (1, 4), [0] * 4)
    assert found.cycles == 7 and found.memory.tolist() == [7] * 4
    assert found.opcodes == {"SET": 4, "ADD": 28, "ST": 4, "CMP": 28, "BRLT": 28}
    # A branch to the end of the program costs a cycle in which nothing runs.
    assert simulate(program("BEQ R6, 0, e\nSET R0, 1\ne:"), (1, 2), [0]).thread_cycles.tolist() == [2, 1]
    assert simulate(program(""), (1, 2), [0]).cycles == 1


def test_a_thread_executes_a_barrier_until_the_last_one_comes():
    # Thread t arrives in step t + 1; the last one in step 4, so thread t executes SYNCB 4 - (t + 1) + 1 times.
    text = "SET R0, 0\nL: BEQ R0, R6, out\nADD R0, R0, 1\nJMP L\nout: SYNCB\nSHLD R1, 0\nST R7, R1"
    found = same(text, (2, 4), np.zeros(32, np.int32))
    arrival = np.array([1 + t + 1 for t in range(4)])  # the jumps back and the branch out
    assert found.executed[4] == 2 * int((arrival.max() - arrival + 1).sum())
    assert found.thread_cycles.tolist() == [int(arrival.max()) + 1] * 8


def test_the_three_ids():
    found = simulate(
        program("MUL R0, R7, 3\nST R0, R5\nADD R0, R0, 1\nST R0, R6\nADD R0, R0, 1\nST R0, R7"), (2, 3), [9] * 18
    )
    assert found.memory.reshape(6, 3).tolist() == [[t // 3, t % 3, t] for t in range(6)]


@pytest.mark.parametrize(
    ("text", "address", "thread", "shared"),
    [
        ("LD R0, -1", -1, 0, False),
        ("LD R0, 8", 8, 0, False),
        ("ST R7, 1\nADD R0, R7, 3\nST R0, 1", 8, 5, False),
        ("CSWAP 0, 8", 8, 0, False),
        ("CSWAP R7, -5", -5, 0, False),
        ("SHLD R0, R6", 2, 2, True),
        ("SHST -1, R6", -1, 0, True),
        ("SET R0, 1\nBEQ R7, 3, a\nJMP b\na: LD R1, 99\nb: LD R1, -2147483648", -(2**31), 0, False),
    ],
)
def test_accesses_outside_of_memory(text, address, thread, shared):
    code = program(text)
    with pytest.raises(GpuError) as caught:
        simulate(code, (1, 6), [0] * 8, shared_size=2)
    error = caught.value
    assert error.diagnostic == "MPG_TGPU_1101" and error.kind is GpuErrorKind.LaunchFailed
    assert (
        f"thread {thread} of block 0 addresses word {address} of {'shared ' if shared else ''}memory" in error.message
    )
    assert "line " in error.message
    with pytest.raises(Fault):
        Plain(code, (1, 6), [0] * 8, shared_size=2).run()


def test_shared_accesses_may_pass_in_silence():
    text = "SHST R6, 5\nSHLD R0, R6\nST R7, R0\nSHST 77, 1\nSHLD R1, -9\nADD R1, R1, 4\nMUL R2, R7, 1\nADD R2, R2, 6\nST R2, R1"
    found = simulate(program(text), (2, 3), [9] * 12, shared_size=2, silent_shared=True)
    assert found.memory.tolist() == [5, 5, 0, 5, 5, 0] + [4] * 6
    racy = "SHST 5, R6\nSHLD R0, 5\nSHST 0, R6\nSHLD R1, 0\nST R7, R1"  # thread after thread too
    assert simulate(program(racy), (1, 3), [9] * 3, shared_size=2, silent_shared=True).memory.tolist() == [0, 1, 2]


def test_a_launch_that_does_not_end():
    with pytest.raises(GpuError, match="after 50 steps 2 of 3 threads still run, one of them at line 2"):
        simulate(program("BEQ R6, 0, e\nL: ADD R0, R0, 1\nJMP L\ne: SET R1, 0"), (1, 3), [0], max_steps=50)
    # A branch to its own address is no loop.
    assert simulate(program("L: JMP L\nM: BEQ 1, 1, M"), (1, 2), [0]).cycles == 1


@pytest.mark.parametrize(
    "text",
    [
        "BEQ R6, 0, e\nSYNCB\ne: SET R0, 1",
        "BEQ R7, 0, e\nSYNC\ne: SET R0, 1",
        "BEQ R6, 0, a\nSYNCB\nJMP e\na: SYNC\ne: SET R0, 1",
    ],
)
def test_threads_that_wait_for_ever(text):
    with pytest.raises(GpuError, match="MPG_TGPU_1103"):
        simulate(program(text), (2, 3), [0])
    with pytest.raises(Fault):
        Plain(program(text), (2, 3), [0]).run()


def test_a_changed_id_is_told():
    assert not simulate(program("ADD R6, R6, 1"), (1, 2), [0]).reserved_intact
    assert simulate(program("ADD R4, R6, 1"), (1, 2), [0]).reserved_intact


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": (0, 1)}, "at least one block"),
        ({"num_registers": 9}, "needs 11 registers"),
        ({"shared_size": -1}, "counts words"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_requests_that_make_no_sense(change, message):
    options = {"grid": (1, 1), "memory": [0]} | change
    with pytest.raises(ValueError, match=message):
        simulate(program("SET R10, 1"), **options)
    with pytest.raises(ValueError, match="not known yet"):
        simulate(program("SET R0, ${n}"), (1, 1), [0])


@pytest.mark.parametrize("seed", range(20))
def test_history_tells_every_change(seed):
    grid = (2, 4)
    memory = memory_for(grid, seed)
    found = simulate(program(random_program(seed)), grid, memory, num_registers=16, shared_size=8, history=True)
    history = found.history
    assert len(history.cycles) == found.cycles
    registers, words = history.registers.copy(), history.memory.copy()
    for number, cycle in enumerate(history.cycles, 1):
        registers[cycle.registers[:, 0], cycle.registers[:, 1]] = cycle.registers[:, 2]
        words[cycle.memory[:, 0]] = cycle.memory[:, 1]
        assert ((cycle.state == DONE) == (found.thread_cycles < number)).all()
        assert set(np.unique(cycle.state)) <= {RUNNING, WAITING, DONE}
    assert (registers == found.registers).all() and (words == found.memory).all()


def test_history_shows_who_waits():
    code = program("BNE R6, 0, go\nJMP go\ngo: SYNCB\nSET R0, 1")
    found = simulate(code, (1, 2), [0], history=True)
    states = [c.state.tolist() for c in found.history.cycles]
    pcs = [c.pc.tolist() for c in found.history.cycles]
    assert states == [[RUNNING, RUNNING], [WAITING, WAITING], [RUNNING, RUNNING]] and pcs[1] == [2, 2]
    late = program("BEQ R6, 0, go\nSET R0, 0\nL: ADD R0, R0, 1\nCMP R0, 3\nBRLT L\ngo: SYNCB\nSET R0, 1")
    states = [c.state.tolist() for c in simulate(late, (1, 2), [0], history=True).history.cycles]
    assert states == [[0, 0], [1, 0], [1, 1], [0, 0]]


DIVERGENT = """
    MUL R0, R7, 4
    SET R8, 0
L0: LD R1, R0
    CMP R1, 0
    BRGT L1
    MUL R1, R1, -1
L1: ADD R1, R1, R8
    MUL R1, R1, 3
    ADD R2, R1, R7
    ADD R0, R0, 1
    ADD R3, R3, R2
    ADD R8, R8, 1
    CMP R8, 4
    BRLT L0
    ADD R0, R0, -4
    ST R0, R3
"""


def test_fifty_times_faster_than_a_loop_over_threads():
    grid = (64, 64)
    code = program(DIVERGENT)
    memory = memory_for(grid, 1)
    begun = time.perf_counter()
    expected = Plain(code, grid, memory).run()
    plain = time.perf_counter() - begun
    fast = []
    for _ in range(5):
        begun = time.perf_counter()
        found = simulate(code, grid, memory, num_registers=16)
        fast.append(time.perf_counter() - begun)
    assert found.memory.tolist() == expected.memory and found.cycles == expected.cycles
    assert plain / min(fast) >= 50, (plain, min(fast))
