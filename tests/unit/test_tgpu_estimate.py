"""Costs that are known before a program runs, against what it costs when it does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from magpie.backends.tgpu.estimate import METRICS, Bounds, estimate
from magpie.backends.tgpu.flow import Flow
from magpie.backends.tgpu.simulator import simulate
from magpie.errors import GpuError
from tests.unit.tgpu_tools import program, random_program


def holds(code, grid, memory, **options):
    """The estimate, which holds what the run costs."""
    found = estimate(code, grid, **options)
    run = simulate(code, grid, memory, **options)
    assert run.instructions in found.instructions and run.cycles in found.cycles
    for name, op in METRICS.items():
        assert run.opcodes.get(op, 0) in found.accesses[name], name
    return found, run


def depends_on_data(code):
    """Whether a branch may depend on a load, told by a search of its own: registers that loads may reach."""
    tainted, flags, changed = set(), False, True
    while changed:
        before = (set(tainted), flags)
        for i in code.instructions:
            reads = [o for o in (i.operands[1:] if i.row.dest else i.operands) if o in tainted]
            if i.row.dest and (reads or i.op in ("LD", "SHLD")):
                tainted.add(i.operands[0])
            flags |= i.op == "CMP" and bool(reads)
        changed = before != (tainted, flags)
    return flags or any(i.op in ("BEQ", "BNE") and set(i.operands[:2]) & tainted for i in code.instructions)


@pytest.mark.parametrize("seed", range(300))
def test_random_programs(seed):
    grid = random.Random(seed).choice([(1, 1), (1, 8), (3, 5), (4, 8)])
    memory = np.random.default_rng(seed).integers(-3, 4, max(8, 4 * grid[0] * grid[1]))
    code = program(random_program(seed, racy=seed % 3 == 0))
    found, _ = holds(code, grid, memory, num_registers=16, shared_size=8)
    if not depends_on_data(code):
        assert found.instructions.exact and found.cycles.exact
        assert all(b.exact for b in found.accesses.values())


def test_those_of_the_random_programs_are_of_both_kinds():
    kinds = [depends_on_data(program(random_program(seed, racy=seed % 3 == 0))) for seed in range(300)]
    assert 40 < sum(kinds) < 260


def test_what_depends_on_ids_is_exact():
    code = program(
        "SET R0, 0\nL: ADD R0, R0, 1\nMUL R2, R6, R5\nCMP R0, R2\nBRLT L\nBNE R6, 2, e\nLD R1, R5\nST R5, R1\ne: SHST R6, R5"
    )
    found, run = holds(code, (3, 4), np.zeros(12), shared_size=4)
    assert found.cycles == Bounds(run.cycles, run.cycles) and found.instructions.exact
    assert found.to_json() == {
        "instructions": {"min": run.instructions, "max": run.instructions},
        "cycles": {"min": run.cycles, "max": run.cycles},
        "loads": 3, "stores": 3, "shared_loads": 0, "shared_stores": 12,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\nSYNCB", "\nLD R3, R7\nBEQ R3, 0, x\nADD R4, R4, 1\nx: SET R3, 0"])
def test_blocks_are_looked_at_in_parts(monkeypatch, text):
    code = program("SET R0, 0\nL: ADD R0, R0, 1\nCMP R0, R5\nBRLT L\nBNE R7, 7, e\nST 0, 1\ne: SET R1, 1" + text)
    whole = estimate(code, (9, 2))
    monkeypatch.setattr("magpie.backends.tgpu.estimate._TOGETHER", 4)
    assert estimate(code, (9, 2)) == whole
    holds(code, (9, 2), np.arange(18) % 3)


def test_a_relu_has_bounds_that_are_reached():
    code = program("LD R0, R7\nCMP R0, 0\nBRGT skip\nSET R0, 0\nskip: ST R7, R0")
    found = estimate(code, (2, 3))
    assert found.instructions == Bounds(6 * 4, 6 * 5) and found.cycles == Bounds(1, 2)
    assert found.accesses["loads"] == found.accesses["stores"] == Bounds(6, 6)
    assert simulate(code, (2, 3), [1] * 6).instructions == 24 and simulate(code, (2, 3), [-1] * 6).instructions == 30
    assert simulate(code, (2, 3), [1] * 6).cycles == 2 and simulate(code, (2, 3), [-1] * 6).cycles == 1


def test_accesses_that_depend_on_data_have_bounds():
    found = estimate(program("LD R0, R7\nBEQ R0, 0, e\nST R7, 5\nLD R1, R7\ne: SET R2, 1"), (1, 4))
    assert found.accesses["stores"] == Bounds(0, 4) and found.accesses["loads"] == Bounds(4, 8)
    assert found.to_json()["stores"] == {"min": 0, "max": 4}


def test_a_loop_that_ends_by_data_has_no_upper_bound():
    text = "LD R0, R7\nL: ADD R0, R0, -1\nLD R1, R7\nCMP R0, 0\nBRGT L\nST R7, R1\nSET R3, 2\nM: ADD R3, R3, -1\nBNE R3, 0, M"
    found, _ = holds(program(text), (1, 3), [4, 0, 9])
    assert found.instructions.max is None and found.cycles.max is None
    assert found.accesses["loads"] == Bounds(6, None) and found.accesses["stores"] == Bounds(3, 3)
    assert found.instructions.min == 3 * (1 + 4 + 2 + 4) and found.cycles.min == 2


@pytest.mark.parametrize(
    "text",
    [
        "LD R0, R7\nL: CMP R0, 9\nBRGT out\nADD R0, R0, 4\nCMP R0, 3\nBRZ L\nADD R0, R0, 1\nJMP L\nout: ST R7, R0",
        "LD R0, R7\nL: CMP R0, 9\nBRGT out\nADD R0, R0, 4\nLD R1, R7\nBEQ R1, 2, out\nADD R0, R0, 1\nJMP L\nout: ST R7, R0",
        "LD R0, R7\nSET R1, 0\nL: BEQ R0, 0, a\nSET R2, 1\nJMP b\na: SET R2, 0\nb: ADD R1, R1, 1\nCMP R1, 3\nBRLT L\nST R7, R2",
        "LD R0, R7\nBEQ R0, 0, a\nL: ADD R1, R1, 1\nCMP R1, R6\nBRLT L\na: BEQ R0, 1, b\nST R7, R1\nb: SET R0, 1",
        "LD R0, R7\nCMP R0, 1\nBRLT a\nBRZ b\nJMP c\na: ST R7, 1\nJMP d\nb: ST R7, 2\nc: ADD R1, R1, 1\nd: CMP R1, 1\nBRZ e\nST R7, 3\ne: SET R0, 1",
    ],
)
@pytest.mark.parametrize("data", [[0, 1, 2, 0], [5, 6, 7, 8], [1, 1, 1, 1], [-9, 2, 20, 3]])
def test_branches_inside_one_another(text, data):
    holds(program(text), (2, 2), data)


def test_a_product_with_zero_is_known():
    found = estimate(program("LD R0, R7\nMUL R0, R0, 0\nBNE R0, 0, e\nADD R1, R1, 1\ne: SET R2, 1"), (1, 2))
    assert found.instructions == Bounds(10, 10)


def test_barriers():
    late = "SET R0, 0\nL: BEQ R0, R6, out\nADD R0, R0, 1\nJMP L\nout: SYNCB\nLD R1, R7\nBEQ R1, 0, e\nSET R1, 5\ne: SYNC\nST R7, R1"
    found, _ = holds(program(late), (2, 4), [0, 1] * 4)
    assert not found.instructions.exact and found.accesses["loads"].exact
    exact, _ = holds(program(late.replace("BEQ R1, 0, e", "BEQ R6, 0, e")), (2, 4), [0, 1] * 4)
    assert exact.instructions.exact and exact.cycles.exact
    inside = program("LD R0, R7\nBEQ R0, 0, a\nSYNCB\nJMP b\na: SYNCB\nb: ST R7, 1")
    found, _ = holds(inside, (1, 2), [0, 1])
    assert found.instructions.max is None and found.accesses["loads"] == Bounds(2, None)
    with pytest.raises(GpuError, match="MPG_TGPU_1103"):
        estimate(program("BEQ R6, 0, e\nSYNCB\ne: SET R0, 1"), (1, 2))


def test_a_launch_that_does_not_end_has_no_upper_bound(monkeypatch):
    monkeypatch.setattr("magpie.backends.tgpu.estimate._ROUNDS", 1000)
    assert estimate(program("L: ADD R0, R0, 1\nJMP L"), (1, 2)).cycles.max is None


@pytest.mark.parametrize("seed", range(6))
def test_meetings_are_on_every_way(seed):
    """Against walks at random: each passes the meeting of every branch it takes, and it is the first such place."""
    rng = random.Random(seed)
    flow = Flow(program(random_program(seed, barriers=False)))
    for pc in range(flow.end):
        seen = []
        for _ in range(40):
            at, way = pc, []
            while at != flow.end and len(way) < 1000:
                at = rng.choice(flow.next[at])[0]
                way.append(at)
            if at == flow.end:
                seen.append(way)
        meeting = flow.meeting(pc)
        assert all(meeting in way for way in seen)
        if len(seen) > 20:
            common = set.intersection(*map(set, seen))
            firsts = [next(a for a in way if a in common) for way in seen]
            assert meeting in firsts or len(set(firsts)) > 1


@pytest.mark.parametrize(("text", "grid"), [("ST R7, 1", (1, 2_000_000_000)), ("SYNC", (40_000, 50_000))])
def test_blocks_that_are_too_large_are_refused(text, grid):
    with pytest.raises(GpuError, match="room for 16,777,216") as caught:
        estimate(program(text), grid)
    assert caught.value.diagnostic == "MPG_TGPU_1105"
    assert estimate(program("ST R7, 1"), (5_000, 5_000)).instructions.max == 25_000_000
