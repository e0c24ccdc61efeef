"""One step of the machine, thread after thread: what the simulator falls back to where threads meet in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.backends.tgpu.isa import wrap
from magpie.backends.tgpu.machine import outside

if TYPE_CHECKING:
    from magpie.backends.tgpu.simulator import Simulator

__all__ = ["CONDITIONS", "NOTHING", "WAITS", "run_thread"]

#: What a thread waits at: the numbers that `Simulator.waiting` holds.
WAITS = {"SYNC": 1, "SYNCB": 2}
#: The flags, as the sign of a - b, at which a branch is taken. Before any comparison they are `NOTHING`.
CONDITIONS = {"BRZ": 0, "BRLT": -1, "BRGT": 1}
NOTHING = 2


def run_thread(sim: Simulator, thread: int) -> None:
    """Run one thread until its step ends: it takes a branch, waits, or comes to the end. Raises GpuError on a fault."""
    code, memory, request = sim.code, sim.memory, sim.request
    shared, size = sim.shared, request.shared_size
    base = thread // request.grid[1] * size
    registers: list[int] = sim.registers[:, thread].tolist()
    flags = int(sim.flags[thread])
    pc = int(sim.pc[thread])
    end, count = len(code), 0
    ended = False

    def value(operand: Any) -> int:
        number: int = operand[1]
        return registers[number] if operand[0] else number

    def word(address: int) -> int:
        if not 0 <= address < len(memory):
            raise outside(request, address, pc, thread, len(memory), shared=False)
        return address

    def shared_word(address: int) -> int | None:
        if 0 <= address < size:
            return base + address
        if request.silent_shared:
            return None
        raise outside(request, address, pc, thread, size, shared=True)

    while True:
        if pc == end:
            ended = True
            break
        op, a, b, c, target = code[pc]
        sim.executed[pc] += 1
        count += 1
        taken = False
        match op:
            case "SET":
                registers[a[1]] = value(b)
            case "ADD":
                registers[a[1]] = wrap(value(b) + value(c))
            case "MUL":
                registers[a[1]] = wrap(value(b) * value(c))
            case "LD":
                registers[a[1]] = int(memory[word(value(b))])
            case "ST":
                memory[word(value(a))] = value(b)
            case "CMP":
                x, y = value(a), value(b)
                flags = (x > y) - (x < y)
            case "SHLD":
                at = shared_word(value(b))
                registers[a[1]] = 0 if at is None else int(shared[at])
            case "SHST":
                at = shared_word(value(a))
                if at is not None:
                    shared[at] = value(b)
            case "CSWAP":
                low, high = word(value(a)), word(value(b))
                if memory[low] > memory[high]:
                    memory[low], memory[high] = int(memory[high]), int(memory[low])
            case "SYNC" | "SYNCB":
                sim.waiting[thread] = WAITS[op]
                break
            case "JMP":
                taken = True
            case "BEQ":
                taken = value(a) == value(b)
            case "BNE":
                taken = value(a) != value(b)
            case _:
                taken = flags == CONDITIONS[op]
        if taken and target != pc:  # a branch to itself leaves the pc as it was: it falls through
            pc = target
            break
        pc += 1
    sim.registers[:, thread] = registers
    sim.flags[thread] = flags
    sim.pc[thread] = pc
    sim.instructions[thread] += count
    if ended:
        sim.done[thread] = True
        sim.cycles[thread] = sim.step
