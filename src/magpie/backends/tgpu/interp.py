"""An interpreter of tiny-gpu programs that has no steps: each thread runs alone from barrier to barrier, and what the
machine would have taken follows from the branches it took.

A thread that has taken b branches is in step b + 1. Where the last thread comes to a barrier in step R, one that came
in step s has executed it R - s + 1 times, and goes on in step R + 1. So values, cycles and counts are those of the
simulator, which counts steps, for every program in which threads do not meet in memory between two barriers. Programs
with such races need the simulator. It shares no code with it but the request, the result and the texts of faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from magpie.backends.tgpu.isa import Operand, Program, Reg
from magpie.backends.tgpu.machine import (
    MAX_STEPS,
    Request,
    Result,
    count_opcodes,
    deadlock,
    endless,
    outside,
    too_large,
)

__all__ = ["interpret"]

#: Threads of a launch that are interpreted: each is an object of a kilobyte or two.
_MOST_THREADS = 1 << 20


def interpret(
    program: Program,
    grid: tuple[int, int],
    memory: Any,
    *,
    num_registers: int = 0,
    shared_size: int = 0,
    silent_shared: bool = False,
    max_steps: int = MAX_STEPS,
) -> Result:
    """Run a program as `simulate` does, with the same result and the same faults, without a history."""
    import numpy as np

    request = Request(program, grid, num_registers or program.registers, shared_size, silent_shared, max_steps)
    error = too_large(request, np.size(memory), _MOST_THREADS)
    if error is not None:
        raise error
    run = _Run(request, np.array(memory, np.int32).reshape(-1).tolist())
    run.all()
    threads = [thread for block in run.blocks for thread in block]
    executed = [int(n) for n in np.sum([t.executed for t in threads], axis=0)]
    return Result(
        np.array(run.memory, np.int32),
        max(t.step for t in threads),
        count_opcodes(program, executed),
        tuple(executed),
        np.array([t.step for t in threads], np.int64),
        np.array([sum(t.executed) for t in threads], np.int64),
        np.array([t.cells[: request.num_registers] for t in threads], np.int64).astype(np.int32).T,
        all(t.cells[5:8] == [t.block, t.local, t.block * grid[1] + t.local] for t in threads),
    )


class _Thread:
    """One thread. ``step`` is the one it is in; ``at`` is the barrier it has come to, "end", or "" while it runs.

    ``cells`` are its registers, and behind them the numbers of the program, so that an operand is one index.
    """

    __slots__ = ("at", "block", "cells", "difference", "executed", "local", "pc", "shared", "step")

    def __init__(self, request: Request, numbers: list[int], block: int, local: int, shared: list[int]) -> None:
        self.cells = [0] * request.num_registers + numbers
        self.cells[5:8] = block, local, block * request.grid[1] + local
        self.block, self.local, self.shared = block, local, shared
        self.pc, self.step, self.at = 0, 1, ""
        self.difference: int | None = None  # of the last comparison
        self.executed = [0] * len(request.program)


class _Run:
    def __init__(self, request: Request, memory: list[int]) -> None:
        self.request, self.memory = request, memory
        program = request.program
        named = {o for i in program.instructions for o in i.operands if isinstance(o, int)}
        numbers = {n: request.num_registers + at for at, n in enumerate(sorted(named))}
        self.code: list[tuple[str, int, int, int, int]] = []
        for instruction in program.instructions:
            cells = [_cell(o, numbers) for o in instruction.operands if not isinstance(o, str)]
            target = program.target(instruction) if instruction.row.kind == "branch" else -1
            a, b, c = [*cells, 0, 0, 0][:3]
            self.code.append((instruction.op, a, b, c, target))
        blocks, threads = request.grid
        self.blocks: list[list[_Thread]] = []
        for block in range(blocks):
            shared = [0] * request.shared_size
            self.blocks.append([_Thread(request, list(numbers), block, n, shared) for n in range(threads)])

    def all(self) -> None:
        """Run every thread to its end."""
        everyone = [thread for block in self.blocks for thread in block]
        while True:
            for block in self.blocks:
                self.to_barrier(block)
                while all(thread.at == "SYNCB" for thread in block):
                    self.release(block)
                    self.to_barrier(block)
            if all(thread.at == "SYNC" for thread in everyone):
                self.release(everyone)
            elif all(thread.at == "end" for thread in everyone):
                return
            else:
                stuck = next(t for t in everyone if t.at != "end")
                number = stuck.block * self.request.grid[1] + stuck.local
                raise deadlock(self.request, number, stuck.pc, sum(t.at == "end" for t in everyone))

    def release(self, threads: Iterable[_Thread]) -> None:
        """All threads of a barrier have come: the formula for how often each has executed it."""
        threads = list(threads)
        last = max(thread.step for thread in threads)
        for thread in threads:
            thread.executed[thread.pc] += last - thread.step + 1
            thread.step = last + 1
            thread.pc += 1
            thread.at = ""

    def to_barrier(self, threads: Iterable[_Thread]) -> None:
        """Run threads that are not held, each to its next barrier or its end."""
        for thread in threads:
            if not thread.at:
                self.run(thread)

    def run(self, thread: _Thread) -> None:
        """Run one thread to its next barrier or its end."""
        code, memory, cells, executed = self.code, self.memory, thread.cells, thread.executed
        pc, end = thread.pc, len(self.code)
        while pc != end:
            op, a, b, c, target = code[pc]
            if op == "SYNC" or op == "SYNCB":
                thread.pc, thread.at = pc, op
                return
            executed[pc] += 1
            if target >= 0:
                if _taken(op, cells[a], cells[b], thread.difference) and target != pc:
                    thread.step += 1
                    if thread.step > self.request.max_steps:
                        running = sum(t.at != "end" for block in self.blocks for t in block)
                        raise endless(self.request, running, min(target, end - 1))
                    pc = target
                    continue
            elif op == "ADD":
                n = cells[b] + cells[c]
                cells[a] = n if -0x80000000 <= n < 0x80000000 else _wrapped(n)
            elif op == "MUL":
                n = cells[b] * cells[c]
                cells[a] = n if -0x80000000 <= n < 0x80000000 else _wrapped(n)
            elif op == "LD":
                at = cells[b]
                cells[a] = memory[at if 0 <= at < len(memory) else self.word(thread, pc, at)]
            elif op == "CMP":
                thread.difference = cells[a] - cells[b]
            elif op == "SET":
                cells[a] = cells[b]
            elif op == "ST":
                memory[self.word(thread, pc, cells[a])] = cells[b]
            elif op == "SHLD":
                cells[a] = thread.shared[cells[b]] if self.inside(thread, pc, cells[b]) else 0
            elif op == "SHST":
                if self.inside(thread, pc, cells[a]):
                    thread.shared[cells[a]] = cells[b]
            else:
                first, second = self.word(thread, pc, cells[a]), self.word(thread, pc, cells[b])
                memory[first], memory[second] = sorted((memory[first], memory[second]))
            pc += 1
        thread.pc, thread.at = pc, "end"

    def word(self, thread: _Thread, pc: int, address: int) -> int:
        """An address of memory."""
        if not 0 <= address < len(self.memory):
            number = thread.block * self.request.grid[1] + thread.local
            raise outside(self.request, address, pc, number, len(self.memory), shared=False)
        return address

    def inside(self, thread: _Thread, pc: int, address: int) -> bool:
        """Whether the block has a word of shared memory; False only where such accesses may pass in silence."""
        size = self.request.shared_size
        if 0 <= address < size:
            return True
        if not self.request.silent_shared:
            number = thread.block * self.request.grid[1] + thread.local
            raise outside(self.request, address, pc, number, size, shared=True)
        return False


def _cell(operand: Operand, numbers: dict[int, int]) -> int:
    """The index of an operand among a thread's cells."""
    if isinstance(operand, Reg):
        return operand.number
    assert isinstance(operand, int)
    return numbers[operand]


def _wrapped(n: int) -> int:
    """A number that has more than 32 bits, cut to them."""
    n &= 0xFFFFFFFF
    return n - 0x100000000 if n & 0x80000000 else n


def _taken(op: str, a: int, b: int, difference: int | None) -> bool:
    """Whether a branch is taken, by its operands or by the difference of the last comparison."""
    if op == "BEQ":
        return a == b
    if op == "BNE":
        return a != b
    if op == "JMP":
        return True
    if difference is None:
        return False
    return difference == 0 if op == "BRZ" else difference < 0 if op == "BRLT" else difference > 0
