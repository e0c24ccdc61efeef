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

from magpie.backends.tgpu.isa import Program, Reg
from magpie.backends.tgpu.machine import MAX_STEPS, Request, Result, count_opcodes, deadlock, endless, outside

__all__ = ["interpret"]


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
        np.array([t.registers for t in threads], np.int64).astype(np.int32).T,
        all(t.registers[5:8] == [t.block, t.local, t.block * grid[1] + t.local] for t in threads),
    )


class _Thread:
    """One thread. ``step`` is the one it is in; ``at`` is the barrier it has come to, "end", or "" while it runs."""

    __slots__ = ("at", "block", "difference", "executed", "local", "pc", "registers", "shared", "step")

    def __init__(self, request: Request, block: int, local: int, shared: list[int]) -> None:
        self.registers = [0] * request.num_registers
        self.registers[5:8] = block, local, block * request.grid[1] + local
        self.block, self.local, self.shared = block, local, shared
        self.pc, self.step, self.at = 0, 1, ""
        self.difference: int | None = None  # of the last comparison
        self.executed = [0] * len(request.program)

    def value(self, operand: Any) -> int:
        return self.registers[operand.number] if isinstance(operand, Reg) else int(operand)

    def put(self, register: Any, value: int) -> None:
        value &= 0xFFFFFFFF
        self.registers[register.number] = value - 0x100000000 if value & 0x80000000 else value


class _Run:
    def __init__(self, request: Request, memory: list[int]) -> None:
        self.request, self.memory = request, memory
        blocks, threads = request.grid
        self.blocks: list[list[_Thread]] = []
        for block in range(blocks):
            shared = [0] * request.shared_size
            self.blocks.append([_Thread(request, block, local, shared) for local in range(threads)])

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
            while not thread.at:
                self.instruction(thread)

    def instruction(self, thread: _Thread) -> None:
        program = self.request.program
        if thread.pc == len(program):
            thread.at = "end"
            return
        code = program.instructions[thread.pc]
        if code.row.kind == "barrier":
            thread.at = code.op
            return
        thread.executed[thread.pc] += 1
        if code.row.kind == "branch" and _taken(thread, code.op, code.operands):
            target = program.target(code)
            if target != thread.pc:
                thread.step += 1
                thread.pc = target
                if thread.step > self.request.max_steps:
                    running = sum(t.at != "end" for block in self.blocks for t in block)
                    raise endless(self.request, running, min(target, len(program) - 1))
                return
        elif code.row.kind == "plain":
            self.plain(thread, code.op, code.operands)
        thread.pc += 1

    def plain(self, thread: _Thread, op: str, operands: tuple[Any, ...]) -> None:
        """An instruction that neither branches nor waits."""
        values = [thread.value(o) for o in operands]
        match op:
            case "SET":
                thread.put(operands[0], values[1])
            case "ADD":
                thread.put(operands[0], values[1] + values[2])
            case "MUL":
                thread.put(operands[0], values[1] * values[2])
            case "CMP":
                thread.difference = values[0] - values[1]
            case "LD":
                thread.put(operands[0], self.memory[self.word(thread, values[1])])
            case "ST":
                self.memory[self.word(thread, values[0])] = values[1]
            case "CSWAP":
                first, second = self.word(thread, values[0]), self.word(thread, values[1])
                low, high = sorted((self.memory[first], self.memory[second]))
                self.memory[first], self.memory[second] = low, high
            case "SHLD":
                thread.put(operands[0], thread.shared[values[1]] if self.inside(thread, values[1]) else 0)
            case "SHST":
                if self.inside(thread, values[0]):
                    thread.shared[values[0]] = values[1]
            case _:
                raise AssertionError(op)

    def word(self, thread: _Thread, address: int) -> int:
        if not 0 <= address < len(self.memory):
            number = thread.block * self.request.grid[1] + thread.local
            raise outside(self.request, address, thread.pc, number, len(self.memory), shared=False)
        return address

    def inside(self, thread: _Thread, address: int) -> bool:
        size = self.request.shared_size
        if 0 <= address < size:
            return True
        if not self.request.silent_shared:
            number = thread.block * self.request.grid[1] + thread.local
            raise outside(self.request, address, thread.pc, number, size, shared=True)
        return False


def _taken(thread: _Thread, op: str, operands: tuple[Any, ...]) -> bool:
    difference = thread.difference
    match op:
        case "JMP":
            return True
        case "BEQ":
            return thread.value(operands[0]) == thread.value(operands[1])
        case "BNE":
            return thread.value(operands[0]) != thread.value(operands[1])
        case "BRZ":
            return difference == 0
        case "BRLT":
            return difference is not None and difference < 0
    return difference is not None and difference > 0
