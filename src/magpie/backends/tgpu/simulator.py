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
from magpie.backends.tgpu.lanes import DEST, FEW, HANDLERS, NOBODY, Again, Mask, Threads, assign
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
        if not self.writes:
            return False
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
                raise Again
        except Again:
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
        """Run every thread of this step, address by address."""
        end = len(self.code)
        start, live = self.pc.copy(), ~self.done
        counts = np.bincount(start if live.all() else start[live], minlength=end + 1)
        joins = np.flatnonzero(counts).tolist()
        self._tracked = any(self._may_store[p] for p in joins)
        threads: Threads = NOBODY
        n = 0
        for pc, stop in zip(joins, [*joins[1:], end], strict=True):
            come = live if len(joins) == 1 else (start == pc) & live
            threads, n = self.form(come | self.among(threads) if n else come, n + int(counts[pc]))
            threads, n = self._forward(pc, stop, threads, n, start)
        if n:
            self._leave(end - 1, end, True, threads, n, start)
            who = self.numbers(threads)
            self.done[who] = True
            self.cycles[who] = self.step

    def _forward(self, pc: int, stop: int, threads: Threads, n: int, start: _Array) -> tuple[Threads, int]:
        """Run ``n`` threads from one address up to another; gives those that come there."""
        while pc < stop and n:
            instruction = self.code[pc]
            self.executed[pc] += n
            left = self._handlers[pc](self, instruction, threads)
            if left is not None:  # a mask of those whose step may end here, or True for all
                target = instruction[4]
                if target != pc:  # a branch to itself leaves the pc as it was, and the thread goes on behind it
                    threads, n = self._leave(pc, pc if target < 0 else target, left, threads, n, start)
            pc += 1
        return threads, n

    def _leave(self, pc: int, target: int, left: Any, threads: Threads, n: int, start: _Array) -> tuple[Threads, int]:
        """End the step of the threads in the mask; gives the others."""
        gone: Threads = threads
        rest: Threads = NOBODY
        more = 0
        if left is not True:
            if isinstance(threads, Mask):
                left = left & threads.on
            count = int(np.count_nonzero(left))
            if count == 0:
                return threads, n
            if count < n:
                more = n - count
                if isinstance(threads, np.ndarray):
                    gone, rest = threads[left], threads[~left]
                else:
                    gone, _ = self.form(left, count)
                    rest, _ = self.form(~left if threads is None else left ^ threads.on, more)
        if isinstance(gone, np.ndarray):
            self.instructions[gone] += pc + 1 - start[gone]
        else:
            executed = pc + 1 - start
            self.instructions += executed if gone is None else executed & gone.words
        assign(self.pc, gone, target)
        return rest, more

    def form(self, on: _Array, n: int) -> tuple[Threads, int]:
        """The ``n`` threads that a mask has, in the form that is quickest."""
        if n == len(on):
            return None, n
        return (Mask(on) if n * FEW >= len(on) else np.flatnonzero(on)), n

    def among(self, threads: Threads) -> _Array:
        """Of each thread whether it is one of them."""
        if isinstance(threads, Mask):
            return threads.on
        found = np.full(len(self.ids), threads is None)
        if threads is not None:
            found[threads] = True
        return found

    def numbers(self, threads: Threads) -> _Array:
        """Their ids."""
        if isinstance(threads, Mask):
            return np.flatnonzero(threads.on)
        return self.ids if threads is None else threads

    # --- operands and memory -----------------------------------------------------------------------------------------
    def value(self, operand: tuple[bool, int], threads: Threads) -> Any:
        """The values of an operand: an array over the threads (of a mask over all), or one number."""
        is_register, number = operand
        if not is_register:
            return number
        row: _Array = self.registers[number]
        return row.take(threads) if isinstance(threads, np.ndarray) else row

    def set(self, dest: tuple[bool, int], threads: Threads, value: Any) -> None:
        """Write a register of the threads."""
        assign(self.registers[dest[1]], threads, value)

    def addresses(self, operand: tuple[bool, int], threads: Threads) -> Any:
        """Addresses of memory, one a thread; the step is run again where one is outside. Of a mask 0 for the others."""
        at = self.value(operand, threads)
        size = len(self.memory)
        if not operand[0]:
            if not 0 <= at < size:
                raise Again
            return np.full(len(threads) if isinstance(threads, np.ndarray) else len(self.ids), at, np.int32)
        if isinstance(threads, Mask):
            at = at & threads.words
        # One comparison finds both: as an unsigned number, what is negative is large.
        if at.view(np.uint32).max() >= size:
            raise Again
        return at.copy() if threads is None else at

    def shared_addresses(self, operand: tuple[bool, int], threads: Threads) -> tuple[_Array, _Array | None]:
        """Addresses in the shared memory of all blocks, and which of them are inside (None: all). Not of a mask where
        accesses outside pass in silence."""
        at = self.value(operand, threads)
        base = self.shared_base[threads] if isinstance(threads, np.ndarray) else self.shared_base
        if isinstance(threads, Mask):
            at, base = at & threads.words, base & threads.words
        inside = np.broadcast_to((at >= 0) & (at < self.request.shared_size), base.shape)
        if inside.all():
            return base + at, None
        if not self.request.silent_shared:
            raise Again
        return np.where(inside, base + at, 0), inside

    def read(self, memory: _Accesses, at: _Array, threads: Threads) -> _Array:
        """Words of one memory."""
        if self._tracked:
            who = self.numbers(threads)
            memory.reads.append((at[who] if isinstance(threads, Mask) else at, who))
        words: _Array = memory.words.take(at, mode="clip")
        return words

    def write(self, memory: _Accesses, at: _Array, threads: Threads, value: Any) -> None:
        """Write words of one memory, and keep what they were."""
        who = self.numbers(threads)
        if isinstance(threads, Mask):
            at, value = at[who], value[who] if isinstance(value, np.ndarray) else value
        memory.writes.append((at, who, memory.words[at]))
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
