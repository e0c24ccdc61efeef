"""What the simulator and the interpreter share: the request of a run, its result, and its faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magpie.backends.tgpu.isa import BLOCK, DEFAULT_REGISTERS, LEAST_REGISTERS, THREAD, THREAD_IN_BLOCK, Program, Symbol
from magpie.errors import GpuError, GpuErrorKind

if TYPE_CHECKING:
    import numpy as np

    from magpie.backends.tgpu.history import History

__all__ = [
    "MAX_STEPS",
    "MOST_THREADS",
    "MOST_WORDS",
    "Request",
    "Result",
    "deadlock",
    "endless",
    "initial_registers",
    "outside",
    "too_large",
]

#: Steps after which a launch is taken for one that does not end.
MAX_STEPS = 1_000_000
#: Threads of a launch, and words of memory or of shared memory of all blocks, that are simulated: 2 GiB of registers.
MOST_THREADS, MOST_WORDS = 1 << 24, 1 << 28


@dataclass(slots=True)
class Request:
    """One launch: ``grid`` is (blocks, threads of a block); memory and shared memory are counted in words.

    ``silent_shared``: as in tiny-gpu, a shared load outside of the block's memory gives 0 and a store is dropped.
    ``history``: keep what is needed to show the run step by step.
    """

    program: Program
    grid: tuple[int, int]
    num_registers: int = DEFAULT_REGISTERS
    shared_size: int = 0
    silent_shared: bool = False
    max_steps: int = MAX_STEPS
    history: bool = False

    def __post_init__(self) -> None:
        if min(self.grid) < 1 or self.grid[0] * self.grid[1] >= 1 << 31:
            raise ValueError(f"a launch has at least one block of one thread, and below 2**31 threads: {self.grid}")
        if self.num_registers < max(LEAST_REGISTERS, self.program.registers):
            raise ValueError(f"the program needs {self.program.registers} registers, and has {self.num_registers}")
        if self.shared_size < 0 or self.max_steps < 1:
            raise ValueError("shared_size counts words, and max_steps is at least 1")
        for instruction in self.program.instructions:
            if any(isinstance(o, Symbol) for o in instruction.operands):
                raise ValueError(f"{instruction} has a number that is not known yet: assemble with symbols=")

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return self.grid[0] * self.grid[1]


@dataclass(slots=True)
class Result:
    """What a run gave. ``memory``: int32 words; ``thread_cycles`` and ``thread_instructions`` have one number a thread.

    ``cycles`` is the number of steps of the launch. ``opcodes`` counts executed instructions, all threads together, and
    ``executed`` does so for each address. ``reserved_intact``: R5 to R7 hold at the end what they held at the start.
    """

    memory: np.ndarray[Any, Any]
    cycles: int
    opcodes: dict[str, int]
    executed: tuple[int, ...]
    thread_cycles: np.ndarray[Any, Any]
    thread_instructions: np.ndarray[Any, Any]
    registers: np.ndarray[Any, Any]
    reserved_intact: bool
    history: History | None = field(default=None, repr=False)

    @property
    def instructions(self) -> int:
        """Executed instructions of all threads."""
        return sum(self.executed)


def initial_registers(request: Request) -> np.ndarray[Any, Any]:
    """Registers before the first step, [register, thread]: zero, but for R5 to R7."""
    import numpy as np

    blocks, threads = request.grid
    registers = np.zeros((request.num_registers, request.threads), np.int32)
    registers[BLOCK] = np.repeat(np.arange(blocks, dtype=np.int32), threads)
    registers[THREAD_IN_BLOCK] = np.tile(np.arange(threads, dtype=np.int32), blocks)
    registers[THREAD] = np.arange(blocks * threads, dtype=np.int32)
    return registers


def count_opcodes(program: Program, executed: list[int]) -> dict[str, int]:
    """Executed instructions by mnemonic, in the order of the table, those that were executed."""
    from magpie.backends.tgpu.isa import OPCODES

    counts = dict.fromkeys(OPCODES, 0)
    for instruction, n in zip(program.instructions, executed, strict=True):
        counts[instruction.op] += n
    return {name: n for name, n in counts.items() if n}


def too_large(request: Request, words: int, most_threads: int = MOST_THREADS) -> GpuError | None:
    """The error for a launch that there is no room for, with ``words`` of memory; None where there is."""
    shared = request.grid[0] * request.shared_size
    for what, n, most in (
        ("threads", request.threads, most_threads),
        ("words of memory", words, MOST_WORDS),
        ("words of shared memory", shared, MOST_WORDS),
    ):
        if n > most:
            return GpuError(
                GpuErrorKind.ResourceExhausted,
                "tgpu",
                f"the launch has {n:,} {what}, and there is room for {most:,}",
                diagnostic="MPG_TGPU_1105",
                help="run a smaller problem, or in parts",
            )
    return None


def outside(request: Request, address: int, pc: int, thread: int, words: int, *, shared: bool) -> GpuError:
    """The fault of an access outside of memory."""
    block, local = divmod(thread, request.grid[1])
    kind = "shared memory" if shared else "memory"
    return GpuError(
        GpuErrorKind.LaunchFailed,
        "tgpu",
        f"{_shown(request, pc)}: thread {local} of block {block} addresses word {address} of {kind}, "
        f"which has {words} words",
        diagnostic="MPG_TGPU_1101",
        help="words are counted from 0; `magpie explain MPG_TGPU_1101` has an example",
    )


def endless(request: Request, running: int, pc: int) -> GpuError:
    """The fault of a launch that takes too many steps."""
    return GpuError(
        GpuErrorKind.TimeoutExpired,
        "tgpu",
        f"after {request.max_steps} steps {running} of {request.threads} threads still run, one of them at "
        f"{_shown(request, pc)}",
        diagnostic="MPG_TGPU_1102",
        help="look for a loop that never ends, or allow more steps with max_steps=",
    )


def deadlock(request: Request, thread: int, pc: int, ended: int) -> GpuError:
    """The fault of a launch in which every thread that has not ended waits for ever."""
    block, local = divmod(thread, request.grid[1])
    why = f"; {ended} threads have ended" if ended else ""
    return GpuError(
        GpuErrorKind.LaunchFailed,
        "tgpu",
        f"{_shown(request, pc)}: thread {local} of block {block} waits for threads that do not come{why}",
        diagnostic="MPG_TGPU_1103",
        help="let every thread of the block (SYNC: of the launch) reach the same barriers",
    )


def _shown(request: Request, pc: int) -> str:
    """An instruction with its line, or its address where it came from no text."""
    instruction = request.program.instructions[pc]
    where = f"line {instruction.line}" if instruction.line else f"instruction {pc}"
    source = f" (from {instruction.comment})" if instruction.comment else ""
    return f"{where}, {instruction}{source}"
