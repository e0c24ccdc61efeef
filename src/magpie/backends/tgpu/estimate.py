"""What a program will cost, before it runs: an abstract interpretation over the ids of threads.

A register holds a known number or nothing is known of it. Ids and numbers are known, and so is what follows from
them; what is loaded is not. Where a branch depends on known numbers a thread goes one way, and its cost is exact. Where
it does not, both ways are taken up to where they meet, and the cost is between the two. A loop that ends by loaded data
has no upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from magpie.backends.tgpu.exact import CONDITIONS, NOTHING
from magpie.backends.tgpu.flow import Flow
from magpie.backends.tgpu.isa import BLOCK, THREAD, Program, Reg
from magpie.backends.tgpu.machine import Request, deadlock, initial_registers, too_large

__all__ = ["METRICS", "Bounds", "Estimate", "estimate", "total"]

_Array = np.ndarray[Any, Any]
#: More than anything costs: no upper bound.
_ENDLESS = 1 << 60
#: Rounds of the interpretation, after which a launch is taken for one that may not end.
_ROUNDS = 1_000_000
#: Threads that are looked at together: enough for NumPy, and few enough to fit anywhere.
_TOGETHER = 1 << 16

#: What is counted beside instructions and steps, and the instruction that counts.
METRICS = {"loads": "LD", "stores": "ST", "shared_loads": "SHLD", "shared_stores": "SHST", "swaps": "CSWAP"}


@dataclass(slots=True, frozen=True)
class Bounds:
    """A number that is between two, both included; ``max`` is None where there is no upper bound."""

    min: int
    max: int | None

    @property
    def exact(self) -> bool:
        """Whether it is one number."""
        return self.min == self.max

    def __contains__(self, value: int) -> bool:
        return self.min <= value and (self.max is None or value <= self.max)

    def to_json(self) -> dict[str, int | None]:
        """``{"min": ..., "max": ...}``."""
        return {"min": self.min, "max": self.max}


@dataclass(slots=True, frozen=True)
class Estimate:
    """The cost of one launch: executed instructions of all threads, cycles, and accesses by kind (`METRICS`)."""

    instructions: Bounds
    cycles: Bounds
    accesses: dict[str, Bounds]

    def to_json(self) -> dict[str, Any]:
        """As in launch documents: accesses are numbers where they are exact. `swaps` stands there if there are any."""
        found: dict[str, Any] = {"instructions": self.instructions.to_json(), "cycles": self.cycles.to_json()}
        for name, bounds in self.accesses.items():
            if name != "swaps" or bounds.max != 0:
                found[name] = bounds.min if bounds.exact else bounds.to_json()
        return found


def total(parts: Iterable[Estimate]) -> Estimate:
    """The cost of launches one after the other."""
    found = list(parts)

    def add(bounds: list[Bounds]) -> Bounds:
        most = [b.max for b in bounds if b.max is not None]
        return Bounds(sum(b.min for b in bounds), sum(most) if len(most) == len(bounds) else None)

    return Estimate(
        add([e.instructions for e in found]),
        add([e.cycles for e in found]),
        {name: add([e.accesses[name] for e in found]) for name in METRICS},
    )


class _NoBound(Exception):
    """Nothing but a lower bound can be said: a barrier depends on data, or the launch may not end."""


def estimate(program: Program, grid: tuple[int, int], *, num_registers: int = 0, shared_size: int = 0) -> Estimate:
    """The cost of a launch of ``program`` with ``grid`` = (blocks, threads of a block).

    Exact where no branch depends on loaded data. Raises GpuError: MPG_TGPU_1103 where threads wait for ever, 1105 where
    one block has more of them than there is room for.
    """
    request = Request(program, grid, num_registers or program.registers, shared_size)
    threads = grid[1]
    # Blocks have nothing to do with one another but at SYNC, so they need not all be looked at together.
    together = grid[0] if any(i.op == "SYNC" for i in program.instructions) else max(1, _TOGETHER // threads)
    found: list[Estimate] = []
    for first in range(0, grid[0], together):
        part = Request(program, (min(together, grid[0] - first), threads), request.num_registers, shared_size)
        error = too_large(part, 0)
        if error is not None:
            raise error
        walk = _Walk(part, first)
        try:
            walk.all()
        except _NoBound:
            return _Walk(Request(program, (1, 1), request.num_registers, shared_size), 0).lower_bounds(request.threads)
        found.append(walk.result())
    whole = total(found)
    most = [e.cycles.max for e in found if e.cycles.max is not None]
    cycles = Bounds(max(e.cycles.min for e in found), max(most) if len(most) == len(found) else None)
    return Estimate(whole.instructions, cycles, whole.accesses)


class _Walk:
    """The abstract state of all threads. ``cost`` is [metric, least or most, thread]: instructions, steps, accesses."""

    def __init__(self, request: Request, first_block: int) -> None:
        self.request = request
        self.first_block = first_block
        self.flow = Flow(request.program)
        n, size = request.threads, len(request.program)
        self.values = initial_registers(request)
        self.values[BLOCK] += first_block
        self.values[THREAD] += first_block * request.grid[1]
        self.known = np.ones(self.values.shape, bool)
        self.flags = np.full(n, NOTHING, np.int8)
        self.flags_known = np.ones(n, bool)
        self.pc = np.zeros(n, np.int64)
        self.cost = np.zeros((2 + len(METRICS), 2, n), np.int64)
        self.cost[1] = 1
        self.ops = [i.op for i in request.program.instructions]
        self.operands = [i.operands for i in request.program.instructions]
        self.targets = [
            request.program.target(i) if i.row.kind == "branch" else -1 for i in request.program.instructions
        ]
        # What instructions before each address count, so that a stretch of them is one subtraction.
        self.before = np.zeros((2 + len(METRICS), size + 1), np.int64)
        for at, op in enumerate(self.ops):
            self.before[:, at + 1] = self.before[:, at]
            if op not in ("SYNC", "SYNCB"):  # their count depends on the other threads
                self.before[0, at + 1] += 1
            for row, counted in enumerate(METRICS.values(), 2):
                self.before[row, at + 1] += op == counted
        self.rounds = 0

    # --- results -----------------------------------------------------------------------------------------------------
    def result(self) -> Estimate:
        """The bounds of the launch from those of its threads."""

        def of(row: int) -> Bounds:
            join = np.max if row == 1 else np.sum
            least, most = self.cost[row]
            return Bounds(int(join(least)), None if (most >= _ENDLESS).any() else int(join(most)))

        return Estimate(of(0), of(1), {name: of(row) for row, name in enumerate(METRICS, 2)})

    def lower_bounds(self, n: int) -> Estimate:
        """What each of ``n`` threads does on the cheapest way through the program."""

        def least(row: int) -> int:
            def cost(pc: int) -> int:
                return int(self.before[row, pc + 1] - self.before[row, pc]) + (row == 0 and self.ops[pc][:4] == "SYNC")

            return self.flow.cheapest(-1, self.flow.end, cost, int(row == 1))

        accesses = {}
        for row, (name, op) in enumerate(METRICS.items(), 2):
            accesses[name] = Bounds(n * least(row), None) if op in self.ops else Bounds(0, 0)
        return Estimate(Bounds(n * least(0), None), Bounds(1 + least(1), None), accesses)

    # --- the launch --------------------------------------------------------------------------------------------------
    def all(self) -> None:
        """Every thread to its end, from barrier to barrier."""
        threads = np.arange(self.request.threads)
        while True:
            self.run(threads, self.flow.end, frozenset(), inner=False)
            waiting = self.pc < self.flow.end
            if not waiting.any():
                return
            if not self.release(waiting):
                first = int(np.flatnonzero(waiting)[0])
                raise deadlock(
                    self.request,
                    first + self.first_block * self.request.grid[1],
                    int(self.pc[first]),
                    int((~waiting).sum()),
                )

    def release(self, waiting: _Array) -> bool:
        """Let those go on whose barrier all have come to; whether there are any."""
        ops = np.array([*self.ops, ""])[self.pc]
        groups = np.repeat(np.arange(self.request.grid[0]), self.request.grid[1])
        if (ops == "SYNC").all():
            free, groups = np.ones(len(ops), bool), np.zeros(len(ops), np.int64)
        else:
            whole = (ops == "SYNCB").reshape(self.request.grid).all(axis=1)
            free = whole[groups]
        for group in np.unique(groups[free]):
            members = np.flatnonzero(groups == group)
            least, most = self.cost[1, 0, members], self.cost[1, 1, members]
            last = int(least.max()), int(most.max())
            # A thread that comes in step s executes the barrier once in each step up to the last one's.
            self.cost[0, 0, members] += np.maximum(1, last[0] - most + 1)
            self.cost[0, 1, members] += last[1] - least + 1
            self.cost[1, 0, members] = last[0] + 1
            self.cost[1, 1, members] = last[1] + 1
            self.pc[members] += 1
        return bool(free.any())

    def run(self, threads: _Array, stop: int, forbidden: frozenset[int], *, inner: bool) -> _Array:
        """Run threads until each is at ``stop``, at the end or at a barrier; a mask of those that came to a forbidden
        address instead, and stand there."""
        back = np.zeros(len(threads), bool)
        left = np.arange(len(threads))
        while True:
            at = self.pc[threads[left]]
            left = left[(at != stop) & (at != self.flow.end)]
            if not len(left):
                return back
            at = self.pc[threads[left]]
            pc = int(at.min())
            here = left[at == pc]
            if pc in forbidden:
                back[here] = True
                left = left[at != pc]
                continue
            if self.ops[pc][:4] == "SYNC":
                if inner:
                    raise _NoBound
                left = left[at != pc]
                continue
            self.rounds += 1
            if self.rounds > _ROUNDS:
                raise _NoBound
            others = at[at != pc]
            limit = min(stop if stop > pc else self.flow.end, int(others.min()) if len(others) else self.flow.end)
            self.forward(threads[here], pc, limit, forbidden)

    def forward(self, threads: _Array, pc: int, limit: int, forbidden: frozenset[int]) -> None:
        """Run threads that stand at one address up to a branch that some of them take, a barrier or ``limit``."""
        where: Any = slice(None) if len(threads) == self.request.threads else threads
        first = pc
        while True:
            if pc == limit or pc == self.flow.end or self.ops[pc][:4] == "SYNC" or (pc != first and pc in forbidden):
                self.count(where, first, pc)
                self.pc[where] = pc
                return
            target = self.targets[pc]
            if target < 0:
                self.plain(pc, where)
            elif target != pc:
                self.count(where, first, pc + 1)
                self.branch(threads, where, pc, target, forbidden)
                return
            pc += 1

    def count(self, where: Any, first: int, behind: int) -> None:
        """Add the cost of the instructions from one address to before another."""
        self.cost[:, :, where] += (self.before[:, behind] - self.before[:, first])[:, None, None]

    # --- instructions ------------------------------------------------------------------------------------------------
    def value(self, operand: Any, where: Any) -> tuple[Any, Any]:
        """Values, and whether they are known."""
        if isinstance(operand, Reg):
            return self.values[operand.number, where], self.known[operand.number, where]
        return np.int32(operand), np.bool_(True)

    def plain(self, pc: int, where: Any) -> None:
        """An instruction that does not branch."""
        op, operands = self.ops[pc], self.operands[pc]
        if op in ("ST", "SHST", "CSWAP"):
            return
        if op == "CMP":
            (a, ka), (b, kb) = (self.value(o, where) for o in operands)
            self.flags[where] = np.greater(a, b).astype(np.int8) - np.less(a, b).astype(np.int8)
            self.flags_known[where] = ka & kb
            return
        target = operands[0]
        assert isinstance(target, Reg)
        dest = target.number
        if op in ("LD", "SHLD"):
            self.known[dest, where] = False
            return
        a, ka = self.value(operands[1], where)
        if op == "SET":
            self.values[dest, where], self.known[dest, where] = a, ka
            return
        b, kb = self.value(operands[2], where)
        with np.errstate(over="ignore"):
            result = a + b if op == "ADD" else a * b
        known = ka & kb
        if op == "MUL":  # nothing times zero is known
            known = known | (ka & (a == 0)) | (kb & (b == 0))
            result = np.where(known, np.where((ka & (a == 0)) | (kb & (b == 0)), 0, result), 0)
        self.values[dest, where], self.known[dest, where] = result, known

    def branch(self, threads: _Array, where: Any, pc: int, target: int, forbidden: frozenset[int]) -> None:
        """Each thread goes where its numbers say, or both ways."""
        op, n = self.ops[pc], len(threads)
        if op == "JMP":
            taken, known = np.ones(n, bool), np.ones(n, bool)
        elif op in CONDITIONS:
            taken, known = self.flags[where] == CONDITIONS[op], self.flags_known[where].copy()
        else:
            (a, ka), (b, kb) = (self.value(o, where) for o in self.operands[pc][:2])
            taken = np.broadcast_to((a == b) == (op == "BEQ"), (n,))
            known = np.broadcast_to(ka & kb, (n,))
        go = threads[known & taken]
        self.cost[1][:, go] += 1
        self.pc[go] = target
        self.pc[threads[known & ~taken]] = pc + 1
        unknown = threads[~known]
        if len(unknown):
            self.both(unknown, pc, target, forbidden)

    # --- both ways ---------------------------------------------------------------------------------------------------
    def both(self, threads: _Array, pc: int, target: int, forbidden: frozenset[int]) -> None:
        """Take both ways of a branch up to where they meet, and join what they give."""
        meeting = self.flow.meeting(pc)
        before = self.state(threads)
        inner = forbidden | {pc}
        self.pc[threads] = target
        self.cost[1][:, threads] += 1
        back = self.run(threads, meeting, inner, inner=True)
        first = self.state(threads)
        self.restore(threads, before)
        self.pc[threads] = pc + 1
        back = back | self.run(threads, meeting, inner, inner=True)
        self.join(threads, first)
        if back.any():
            self.restore(threads[back], tuple(part[..., back] for part in before))
            self.repeat(threads[back], pc, meeting)
        self.pc[threads] = meeting

    def state(self, threads: _Array) -> tuple[_Array, ...]:
        """What is known of some threads."""
        parts = self.values, self.known, self.flags, self.flags_known, self.cost
        return tuple(part[..., threads] for part in parts)

    def restore(self, threads: _Array, saved: tuple[_Array, ...]) -> None:
        """Put that back."""
        for part, old in zip((self.values, self.known, self.flags, self.flags_known, self.cost), saved, strict=True):
            part[..., threads] = old

    def join(self, threads: _Array, other: tuple[_Array, ...]) -> None:
        """What holds on both ways."""
        values, known, flags, flags_known, cost = other
        self.known[:, threads] &= known & (self.values[:, threads] == values)
        self.flags_known[threads] &= flags_known & (self.flags[threads] == flags)
        mine = self.cost[..., threads]
        least, most = np.minimum(mine[:, 0], cost[:, 0]), np.maximum(mine[:, 1], cost[:, 1])
        self.cost[..., threads] = np.stack([least, most], axis=1)

    def repeat(self, threads: _Array, pc: int, meeting: int) -> None:
        """A way leads back to the branch: it may be gone any number of times."""
        region = self.flow.region(pc, meeting)
        ops = {self.ops[at] for at in region}
        if ops & {"SYNC", "SYNCB"}:
            raise _NoBound
        for at in region:
            if self.request.program.instructions[at].row.dest:
                dest: Any = self.operands[at][0]
                self.known[dest.number, threads] = False
        self.flags_known[threads] = False
        for row in range(len(self.cost)):
            counts = row < 2 or list(METRICS.values())[row - 2] in ops
            if counts:
                step = self.before[row]
                least = self.flow.cheapest(pc, meeting, lambda at, s=step: int(s[at + 1] - s[at]), int(row == 1))  # type: ignore[misc]
                self.cost[row, 0, threads] += least
                self.cost[row, 1, threads] = _ENDLESS
