"""The simulator of tiny-gpu: exact, and over all threads at once with NumPy.

In one step each thread, in the order of ids, runs instructions until one changes its pc or makes it wait; then barriers
are resolved. Within a step a thread only goes forward, so one sweep over the program's addresses runs all of them: at
each address the threads that have come there, as arrays. What one thread stores and another reads or stores in the same
step would depend on the order: such steps are found, undone, and run again thread after thread (`exact`). So are steps
with a fault, so that the first thread in order is the one that is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from magpie.backends.tgpu.exact import NOTHING, WAITS, run_thread
from magpie.backends.tgpu.history import DONE, RUNNING, WAITING, History
from magpie.backends.tgpu.isa import Program, Reg
from magpie.backends.tgpu.lanes import DEST, HANDLERS
from magpie.backends.tgpu.machine import (
    MAX_STEPS,
    Request,
    Result,
    count_opcodes,
    deadlock,
    endless,
    initial_registers,
    too_large,
)

__all__ = ["Simulator", "simulate"]

_Array = np.ndarray[Any, Any]
#: Threads of an operation: their ids, or None for all of the launch.
_Threads = _Array | None


def simulate(
    program: Program,
    grid: tuple[int, int],
    memory: Any,
    *,
    num_registers: int = 0,
    shared_size: int = 0,
    silent_shared: bool = False,
    max_steps: int = MAX_STEPS,
    history: bool = False,
) -> Result:
    """Run a program on ``grid`` = (blocks, threads of a block), with ``memory`` as int32 words, which is not changed.

    ``num_registers`` 0: what the program needs. Raises GpuError with MPG_TGPU_1101 to 1103 for a fault, and ValueError
    for a request that makes no sense.
    """
    registers = num_registers or program.registers
    request = Request(program, grid, registers, shared_size, silent_shared, max_steps, history)
    return Simulator(request, memory).run()


class _Again(Exception):
    """This step must be run thread after thread."""


class _Accesses:
    """What one step did to one memory, and the arrays that tell whether threads met there."""

    def __init__(self, words: _Array) -> None:
        self.words = words
        self.owner = np.zeros(len(words), np.int32)
        self.stamp = np.full(len(words), -1, np.int32)
        self.reads: list[tuple[_Array, _Array]] = []
        self.writes: list[tuple[_Array, _Array, _Array]] = []

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def undo(self) -> None:
        for at, _, old in reversed(self.writes):
            self.words[at] = old

    def met(self, step: int) -> bool:
        """Whether a word that one thread wrote was read or written by another."""
        for at, threads, _ in self.writes:
            seen = self.stamp[at] == step
            if seen.any() and (self.owner[at[seen]] != threads[seen]).any():
                return True
            self.owner[at] = threads
            self.stamp[at] = step
            if (self.owner[at] != threads).any():
                return True
        for at, threads in self.reads:
            seen = self.stamp[at] == step
            if seen.any() and (self.owner[at[seen]] != threads[seen]).any():
                return True
        return False


class Simulator:
    """One launch while it runs. ``flags`` is the sign of the last comparison, ``waiting`` what a thread waits at."""

    def __init__(self, request: Request, memory: Any) -> None:
        self.request = request
        program = request.program
        error = too_large(request, np.size(memory))
        if error is not None:
            raise error
        self.memory = np.array(memory, np.int32).reshape(-1)
        self.shared = np.zeros(request.grid[0] * request.shared_size, np.int32)
        self.registers = initial_registers(request)
        n = request.threads
        self.ids = np.arange(n, dtype=np.int32)
        self.shared_base = self.ids // request.grid[1] * request.shared_size
        self.pc = np.zeros(n, np.int32)
        self.flags = np.full(n, NOTHING, np.int8)
        self.waiting = np.zeros(n, np.int8)
        self.done = np.zeros(n, bool)
        self.cycles = np.zeros(n, np.int64)
        self.instructions = np.zeros(n, np.int64)
        self.step = 0
        self.code = [_decode(program, i) for i in range(len(program))]
        self.executed = [0] * len(program)
        self._handlers = [HANDLERS[op] for op, *_ in self.code]
        self._may_store = _storing(program)
        self._written = sorted({a[1] for op, a, *_ in self.code if op in DEST})
        self.global_accesses, self.shared_accesses = _Accesses(self.memory), _Accesses(self.shared)
        self._tracked = False
        self.history: History | None = None
        if request.history:
            self.history = History(self.registers.copy(), self.memory.copy(), self._blocks().copy())

    def run(self) -> Result:
        """Step until every thread has ended."""
        request = self.request
        initial = self.registers[5:8].copy()
        while not self.done.all():
            if self.step == request.max_steps:
                running = np.flatnonzero(~self.done)
                at = int(min(self.pc[running[0]], max(0, len(self.code) - 1)))
                raise endless(request, len(running), at)
            self.step += 1
            if self.history is None:
                self._advance()
            else:
                self._recorded(self.history)
        return Result(
            self.memory,
            self.step,
            count_opcodes(request.program, self.executed),
            tuple(self.executed),
            self.cycles,
            self.instructions,
            self.registers,
            bool((self.registers[5:8] == initial).all()),
            self.history,
        )

    def _blocks(self) -> _Array:
        """Shared memory as [block, word]."""
        return self.shared.reshape(self.request.grid[0], self.request.shared_size)

    def _recorded(self, history: History) -> None:
        before = self.registers.copy(), self.memory.copy(), self._blocks().copy()
        pc, state = self.pc.copy(), np.where(self.done, DONE, RUNNING).astype(np.int8)
        pc[self.done] = len(self.code)
        counts = self.instructions.copy()
        self._advance()
        executed = self.instructions - counts
        # A thread that was released in this step has executed a barrier too: its last instruction says so.
        last = np.minimum(pc + executed - 1, max(0, len(self.code) - 1))
        barrier = np.array([op in WAITS for op, *_ in self.code] or [False])
        state[(state == RUNNING) & barrier[last] & (executed > 0)] = WAITING
        history.record(pc, executed, state, before, (self.registers, self.memory, self._blocks()))

    # --- one step ----------------------------------------------------------------------------------------------------
    def _advance(self) -> None:
        self._sweep_or_undo()
        if self.waiting.any():
            self._resolve_barriers()

    def _sweep_or_undo(self) -> None:
        saved = self.registers[self._written], self.flags.copy(), self.pc.copy()
        counted = list(self.executed), self.instructions.copy(), self.cycles.copy(), self.done.copy()
        try:
            self._sweep()
            if self._tracked and (self.global_accesses.met(self.step) or self.shared_accesses.met(self.step)):
                raise _Again
        except _Again:
            self.global_accesses.undo()
            self.shared_accesses.undo()
            self.registers[self._written], self.flags[:], self.pc[:] = saved
            self.executed[:], self.instructions[:], self.cycles[:], self.done[:] = counted
            self.waiting[:] = 0
            for thread in np.flatnonzero(~self.done).tolist():
                run_thread(self, thread)
        finally:
            self.global_accesses.clear()
            self.shared_accesses.clear()

    def _sweep(self) -> None:
        end = len(self.code)
        start = self.pc.copy()
        live = None if not self.done.any() else np.flatnonzero(~self.done)
        counts = np.bincount(start if live is None else start[live], minlength=end + 1)
        joins = np.flatnonzero(counts).tolist()
        self._tracked = any(self._may_store[p] for p in joins)
        threads: _Array | None = _NOBODY
        for position, pc in enumerate(joins):
            if len(joins) == 1:
                threads = live
            else:
                come = np.flatnonzero((start == pc) & ~self.done)
                assert threads is not None
                threads = np.concatenate([threads, come]) if len(threads) else come
                if len(threads) == len(start):
                    threads = None
            stop = joins[position + 1] if position + 1 < len(joins) else end
            threads = self._forward(pc, stop, threads, start)
            if threads is not None and not len(threads):
                continue
            if stop == end and position + 1 == len(joins):
                self._ended(threads, start)
            elif threads is None:
                threads = self.ids

    def _ended(self, threads: _Threads, start: _Array) -> None:
        at: Any = slice(None) if threads is None else threads
        self.instructions[at] += len(self.code) - start[at]
        self.pc[at] = len(self.code)
        self.done[at] = True
        self.cycles[at] = self.step

    def _forward(self, pc: int, stop: int, threads: _Threads, start: _Array) -> _Threads:
        """Run ``threads`` from one address up to another; gives those that come there."""
        while pc < stop:
            if threads is not None and not len(threads):
                return threads
            instruction = self.code[pc]
            self.executed[pc] += len(self.ids) if threads is None else len(threads)
            left = self._handlers[pc](self, instruction, threads)
            if left is not None:  # a mask of those whose step may end here, or True for all
                target = instruction[4]
                if target != pc:  # a branch to itself leaves the pc as it was, and the thread goes on behind it
                    threads = self._leave(pc, pc if target < 0 else target, left, threads, start)
            pc += 1
        return threads

    def _leave(self, pc: int, target: int, left: Any, threads: _Threads, start: _Array) -> _Threads:
        """End the step of the threads in the mask; gives the others."""
        if left is True:
            gone: Any = slice(None) if threads is None else threads
            rest = _NOBODY
        else:
            n = np.count_nonzero(left)
            if n == 0:
                return threads
            if n == len(left):
                return self._leave(pc, target, True, threads, start)
            all_ = self.ids if threads is None else threads
            gone, rest = all_[left], all_[~left]
        self.instructions[gone] += pc + 1 - start[gone]
        self.pc[gone] = target
        return rest

    # --- operands and memory -----------------------------------------------------------------------------------------
    def value(self, operand: tuple[bool, int], threads: _Threads) -> Any:
        """The values of an operand: an array over the threads, or one number."""
        is_register, number = operand
        if not is_register:
            return number
        row: _Array = self.registers[number]
        return row if threads is None else row[threads]

    def set(self, dest: tuple[bool, int], threads: _Threads, value: Any) -> None:
        """Write a register of the threads."""
        if threads is None:
            self.registers[dest[1]] = value
        else:
            self.registers[dest[1]][threads] = value

    def addresses(self, operand: tuple[bool, int], threads: _Threads) -> Any:
        """Addresses of memory, one a thread; the step is run again where one is outside."""
        at = self.value(operand, threads)
        size = len(self.memory)
        if not operand[0]:
            if not 0 <= at < size:
                raise _Again
            return np.full(len(self.ids) if threads is None else len(threads), at, np.int32)
        # One comparison finds both: as an unsigned number, what is negative is large.
        if (at.view(np.uint32) >= size).any():
            raise _Again
        return at.copy() if threads is None else at

    def shared_addresses(self, operand: tuple[bool, int], threads: _Threads) -> tuple[_Array, _Array | None]:
        """Addresses in the shared memory of all blocks, and which of them are inside (None: all)."""
        at = self.value(operand, threads)
        base = self.shared_base if threads is None else self.shared_base[threads]
        inside = np.broadcast_to((at >= 0) & (at < self.request.shared_size), base.shape)
        if inside.all():
            return base + at, None
        if not self.request.silent_shared:
            raise _Again
        return np.where(inside, base + at, 0), inside

    def read(self, memory: _Accesses, at: _Array, threads: _Threads) -> _Array:
        """Words of one memory."""
        if self._tracked:
            memory.reads.append((at, self.ids if threads is None else threads))
        words: _Array = memory.words[at]
        return words

    def write(self, memory: _Accesses, at: _Array, threads: _Array, value: Any) -> None:
        """Write words of one memory, and keep what they were."""
        memory.writes.append((at, threads, memory.words[at]))
        memory.words[at] = value

    # --- barriers ----------------------------------------------------------------------------------------------------
    def _resolve_barriers(self) -> None:
        waiting, blocks = self.waiting, self.waiting.reshape(self.request.grid)
        if (waiting == WAITS["SYNC"]).all():
            freed = np.ones(len(waiting), bool)
        else:
            whole = (blocks == WAITS["SYNCB"]).all(axis=1)
            freed = np.repeat(whole, self.request.grid[1])
        if freed.any():
            self.pc[freed] += 1
        elif ((waiting != 0) | self.done).all():
            first = int(np.flatnonzero(waiting)[0])
            raise deadlock(self.request, first, int(self.pc[first]), int(self.done.sum()))
        waiting[:] = 0


_NOBODY: _Array = np.zeros(0, np.int64)


def _decode(program: Program, address: int) -> tuple[str, Any, Any, Any, int]:
    """(mnemonic, three operands as (is it a register, number), target); what is not there is (False, 0) and -1."""
    instruction = program.instructions[address]
    operands: list[tuple[bool, int]] = []
    target = -1
    for operand in instruction.operands:
        if isinstance(operand, str):
            target = program.target(instruction)
        elif isinstance(operand, Reg):
            operands.append((True, operand.number))
        else:
            assert isinstance(operand, int)
            operands.append((False, operand))
    operands += [(False, 0)] * (3 - len(operands))
    return instruction.op, *operands, target  # type: ignore[return-value]


def _storing(program: Program) -> list[bool]:
    """For each address, the end included, whether a step that begins there may write memory."""
    found = [False] * (len(program) + 1)
    for pc in reversed(range(len(program))):
        instruction = program.instructions[pc]
        stops = instruction.op in WAITS or (instruction.op == "JMP" and program.target(instruction) != pc)
        found[pc] = instruction.op in ("ST", "SHST", "CSWAP") or (not stops and found[pc + 1])
    return found
