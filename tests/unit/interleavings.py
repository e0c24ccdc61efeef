"""Every interleaving of threads that run functions of a small LLVM module, with the store buffers of x86 (TSO).

The text itself is interpreted, so what is explored is what is compiled. A step is one access to memory, one system call
or one half of a call of a job; what lies between touches registers alone. Stores wait in a queue of their thread, and
reach memory in steps of their own, in order; everything locked waits for the queue to be empty (Owens, Sarkar, Sewell: A better x86 memory model, TPHOLs 2009).

Only what `magpie.backends.cpu.crew` uses of LLVM is understood; the rest raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

WAIT, WAKE = 128, 129  # futex operations

_BITS = {"i1": 1, "i32": 32, "i64": 64}


class Fault(Exception):
    """An interleaving with a wrong outcome."""


@dataclass
class Instruction:
    op: str
    to: str = ""
    uses: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    phi: dict[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass
class Function:
    parameters: tuple[str, ...]
    blocks: dict[str, list[Instruction]]
    live: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)


def parse(text: str) -> tuple[dict[str, Function], dict[str, int], dict[int, int]]:
    """Functions, addresses of globals, and the memory at the start: a cell for each address that is accessed."""
    globals_: dict[str, int] = {}
    memory: dict[int, int] = {}
    at = 4096
    for name, kind, initial in re.findall(r"^@([\w.]+) = internal global (\[.*\]\]|i32|i64) (\S+?),", text, re.M):
        globals_[name] = at
        rows = int(re.findall(r"\d+", kind)[0]) if kind[0] == "[" else 0
        for row in range(rows):
            memory |= {at + 64 * row + offset: 0 for offset in (0, 8, 16)}
        if not rows:
            memory[at] = int(initial)
        at += 64 * max(rows, 1)
    functions = {}
    for name, parameters, body in re.findall(r"^define \S+ @(\w+)\((.*?)\) nounwind \{\n(.*?)^\}", text, re.M | re.S):
        blocks: dict[str, list[Instruction]] = {}
        for line in body.splitlines():
            if line.endswith(":"):
                blocks[line[:-1]] = current = []
            elif not re.search(r"llvm\.(x86\.sse2\.pause|aarch64\.hint)", line):
                current.append(_instruction(line.strip()))
        functions[name] = Function(tuple(re.findall(r"%[\w.]+", parameters)), blocks)
        _liveness(functions[name])
    return functions, globals_, memory


def _instruction(line: str) -> Instruction:
    to, _, rest = line.rpartition(" = ") if re.match(r"%[\w.]+ = ", line) else ("", "", line)
    op = rest.split()[0]
    if op == "phi":
        arms = dict((label, value) for value, label in re.findall(r"\[ (\S+), %([\w.]+) \]", rest))
        return Instruction(op, to, phi=arms, text=line)
    uses = tuple(w for w in re.findall(r"%[\w.]+", re.sub(r"label %[\w.]+", "", rest)))
    return Instruction(op, to, uses, tuple(re.findall(r"[%@]?[-\w.]+", rest)), text=line)


def _targets(instruction: Instruction) -> list[str]:
    return re.findall(r"label %([\w.]+)", instruction.text) if instruction.op == "br" else []


def _liveness(function: Function) -> None:
    """Registers that matter from each place on: others are dropped, so that equal states are found equal."""
    entry: dict[str, frozenset[str]] = dict.fromkeys(function.blocks, frozenset())
    changed = True
    while changed:
        changed = False
        for name, block in function.blocks.items():
            live: set[str] = set()
            for target in _targets(block[-1]):
                phis = [i for i in function.blocks[target] if i.op == "phi"]
                live |= entry[target] - {i.to for i in phis}
                live |= {i.phi[name] for i in phis if i.phi[name][0] == "%"}
            for at in range(len(block) - 1, -1, -1):
                instruction = block[at]
                live.discard(instruction.to)
                live |= set(instruction.uses)
                function.live[name, at] = frozenset(live)
            live |= {i.to for i in block if i.op == "phi"}
            if live != entry[name]:
                entry[name] = frozenset(live)
                changed = True


@dataclass(frozen=True, slots=True)
class Thread:
    """Where it stands (always before a step), its registers, its queue of stores, what it waits for."""

    function: str
    block: str
    at: int
    registers: tuple[tuple[str, int], ...]
    stores: tuple[tuple[int, int], ...] = ()
    sleeps: int = 0
    inside: bool = False  # between the two halves of a call of a job
    launches: tuple[int, ...] = ()  # of a caller: jobs to come; the first is the one under way


@dataclass(frozen=True, slots=True)
class State:
    memory: tuple[int, ...]
    threads: tuple[Thread, ...]
    begun: frozenset[tuple[int, int]]  # (job, thread)
    ended: frozenset[tuple[int, int]]


class Explorer:
    """Callers that launch jobs one after another, and threads that serve, until no step is left anywhere.

    Job J is function J with argument 1000 + J. Before the launch the caller writes J to a cell of its own, which
    whoever runs the job must read; each leaves J in a cell for the job and itself, which the caller must read afterwards.
    With `needs`, a caller's share of a job ends only when another thread has begun it: a wake-up that is lost is a
    deadlock then.
    """

    def __init__(
        self,
        text: str,
        callers: list[tuple[int, ...]],
        servers: int,
        *,
        wanted: int,
        looks: int = 0,
        needs: bool = False,
    ) -> None:
        self.functions, self.globals, memory = parse(text)
        self.wanted, self.needs = wanted, needs
        self.parallel, self.serve = "magpie_parallel", "magpie_serve"
        self.owner = {job: number for number, jobs in enumerate(callers) for job in jobs}
        threads = len(callers) + servers
        memory |= {100 + number: 0 for number in range(len(callers))}
        memory |= {10000 + job * 16 + number: 0 for job in self.owner for number in range(threads)}
        self.cells = {address: n for n, address in enumerate(memory)}
        self.callers = len(callers)
        start = [self._launch(Thread("", "", 0, (), launches=jobs), number) for number, jobs in enumerate(callers)]
        for number in range(servers):
            registers = {"%share": looks << 32 | number}
            start.append(self._to_step(Thread(self.serve, "entry", 0, ()), registers))
        self.start = State(tuple(memory.values()), tuple(start), frozenset(), frozenset())

    def explore(self, limit: int = 2_000_000) -> int:
        """How many states there are. Raises `Fault` with the first wrong one, with the steps that lead there."""
        seen: dict[State, State | None] = {self.start: None}
        pending = [self.start]
        while pending:
            state = pending.pop()
            moved = False
            for after in self._steps(state):
                moved = True
                if after not in seen:
                    seen[after] = state
                    pending.append(after)
                    assert len(seen) < limit, "too many states"
            if not moved and any(t.launches for t in state.threads):
                raise Fault("a deadlock: " + " | ".join(self._where(t) for t in state.threads))
            if not moved and self.globals.get("sleepers"):
                asleep = sum(1 for t in state.threads if t.sleeps)
                counted = state.memory[self.cells[self.globals["sleepers"]]]
                if not counted == asleep == len(state.threads) - self.callers:
                    raise Fault("threads that neither sleep nor work")
        return len(seen)

    def _where(self, thread: Thread) -> str:
        if not thread.function:
            return "finished"
        instruction = self.functions[thread.function].blocks[thread.block][thread.at]
        return ("asleep before " if thread.sleeps else "before ") + instruction.text

    # Threads

    def _launch(self, thread: Thread, number: int) -> Thread:
        """Before the launch of its next job, whose number it has written to its cell."""
        if not thread.launches:
            return replace(thread, function="", block="", at=0, registers=())
        job = thread.launches[0]
        registers = {"%function": job, "%argument": 1000 + job, "%threads": self.wanted, "%flags": 0}
        stores = (*thread.stores, (100 + number, job))
        return self._to_step(replace(thread, function=self.parallel, block="entry", at=0, stores=stores), registers)

    def _to_step(self, thread: Thread, registers: dict[str, int]) -> Thread:
        """Run what touches registers alone, up to the next step."""
        function = self.functions[thread.function]
        block, at = thread.block, thread.at
        while True:
            instruction = function.blocks[block][at]
            if instruction.op == "store":  # nobody sees it before it leaves the queue
                if "seq_cst" in instruction.text:
                    raise NotImplementedError(instruction.text)
                value = self._value(instruction.words[3 if instruction.words[1] == "atomic" else 2], registers)
                thread = replace(thread, stores=(*thread.stores, (self._place(instruction, registers), value)))
                at += 1
                continue
            if "@sched_getcpu" in instruction.text or instruction.op == "alloca":
                registers = {**registers, instruction.to: 0}
                at += 1
                continue
            if instruction.op in {"load", "cmpxchg", "atomicrmw", "call", "ret"}:
                live = function.live[block, at]
                kept = tuple(sorted((r, v) for r, v in registers.items() if r in live))
                return replace(thread, block=block, at=at, registers=kept)
            if instruction.op == "br":
                target = self._branch(instruction, registers)
                phis = {i.to: self._value(i.phi[block], registers) for i in function.blocks[target] if i.op == "phi"}
                registers = {**registers, **phis}
                block, at = target, len(phis)
                continue
            registers = {**registers, instruction.to: self._pure(instruction, registers)}
            at += 1

    def _branch(self, instruction: Instruction, registers: dict[str, int]) -> str:
        targets = _targets(instruction)
        return targets[0] if len(targets) == 1 or self._value(instruction.words[2], registers) else targets[1]

    def _value(self, word: str, registers: dict[str, int]) -> int:
        if word[0] == "%":
            return registers[word]
        return 0 if word == "null" else self.globals[word[1:]] if word[0] == "@" else int(word)

    def _place(self, instruction: Instruction, registers: dict[str, int]) -> int:
        return self._value(re.findall(r"ptr ([%@][\w.]+)", instruction.text)[-1], registers)

    def _pure(self, instruction: Instruction, registers: dict[str, int]) -> int:
        words = instruction.words
        value = [self._value(w, registers) if w[0] in "%@" or re.fullmatch(r"-?\d+", w) else 0 for w in words]
        match instruction.op:
            case "extractvalue":
                return self._value(words[-2], registers)[value[-1]]  # type: ignore[index,no-any-return]
            case "icmp":
                sign = (lambda v: v) if words[1] in {"slt", "sgt"} else (lambda v: v & (1 << _BITS[words[2]]) - 1)
                a, b = sign(value[3]), sign(value[4])
                return {"eq": a == b, "ne": a != b, "ult": a < b, "uge": a >= b, "slt": a < b, "sgt": a > b}[words[1]]
            case "select":
                return value[4] if value[2] else value[6]
            case "trunc":
                return _signed(value[2], 32)
            case "getelementptr":
                return value[-3] + value[-1] * (64 if "x i64" in instruction.text else 1)
            case "add" | "sub" | "mul" | "and" | "or" | "lshr" | "urem" as op:
                bits = _BITS[words[1]]
                a, b = (v & (1 << bits) - 1 for v in (value[2], value[3]))
                return _signed(_arithmetic(op, a, b), bits)
        raise NotImplementedError(instruction.text)

    # Steps

    def _steps(self, state: State) -> Iterator[State]:
        for number, thread in enumerate(state.threads):
            if thread.stores:
                (address, value), *rest = thread.stores
                flushed = replace(thread, stores=tuple(rest))
                yield self._with(state, number, flushed, self._write(state.memory, address, value))
            if thread.function and not thread.sleeps:
                yield from self._step(state, number, thread)

    def _with(self, state: State, number: int, thread: Thread, memory: tuple[int, ...] | None = None) -> State:
        threads = (*state.threads[:number], thread, *state.threads[number + 1 :])
        return replace(state, threads=threads, memory=state.memory if memory is None else memory)

    def _write(self, memory: tuple[int, ...], address: int, value: int) -> tuple[int, ...]:
        cell = self.cells[address]
        return (*memory[:cell], value, *memory[cell + 1 :])

    def _next(self, thread: Thread, registers: dict[str, int]) -> Thread:
        return self._to_step(replace(thread, at=thread.at + 1), registers)

    def _read(self, state: State, thread: Thread, address: int) -> int:
        for to, value in reversed(thread.stores):
            if to == address:
                return value
        return state.memory[self.cells[address]]

    def _step(self, state: State, number: int, thread: Thread) -> Iterator[State]:
        instruction = self.functions[thread.function].blocks[thread.block][thread.at]
        registers = dict(thread.registers)
        locked = instruction.op in {"cmpxchg", "atomicrmw"} or "@syscall" in instruction.text
        if locked and thread.stores:
            return
        at = self._place(instruction, registers) if instruction.op not in {"call", "ret"} else 0
        words = instruction.words
        match instruction.op:
            case "load":
                value = self._read(state, thread, at)
                yield self._with(state, number, self._next(thread, {**registers, instruction.to: value}))
            case "atomicrmw" | "cmpxchg":
                old = state.memory[self.cells[at]]
                if instruction.op == "atomicrmw":
                    operand = self._value(words[5], registers)
                    new = _signed(_arithmetic(words[1], old & 0xFFFFFFFF, operand & 0xFFFFFFFF), 32)
                    result: object = old
                else:
                    expected, wanted = (self._value(words[k], registers) for k in (4, 6))
                    new = wanted if old == expected else old
                    result = (old, old == expected)
                after = self._next(thread, {**registers, instruction.to: result})  # type: ignore[dict-item]
                yield self._with(state, number, after, self._write(state.memory, at, new))
            case "call" if "@syscall" in instruction.text:
                yield from self._syscall(state, number, thread, registers, instruction)
            case "call":
                yield from self._job(state, number, thread, registers)
            case "ret":
                self._returned(state, number, thread)
                ended = replace(thread, launches=thread.launches[1:])
                yield self._with(state, number, self._launch(ended, number))

    def _syscall(
        self, state: State, number: int, thread: Thread, registers: dict[str, int], instruction: Instruction
    ) -> Iterator[State]:
        arguments = re.findall(r"(?:i32|i64|ptr) ([%@]?[-\w.]+)[,)]", instruction.text.partition("@syscall")[2])
        call, at, what, count = (self._value(a, registers) for a in arguments[:4])
        after = self._next(thread, {**registers, instruction.to: 0})
        if call not in {202, 98}:  # the mask of signals
            yield self._with(state, number, after)
        elif what == WAIT:
            equal = state.memory[self.cells[at]] == count
            yield self._with(state, number, replace(after, sleeps=at) if equal else after)
        else:
            asleep = [k for k, t in enumerate(state.threads) if t.sleeps == at]
            for chosen in combinations(asleep, min(count, len(asleep))):
                woken = self._with(state, number, after)
                for k in chosen:
                    woken = self._with(woken, k, replace(woken.threads[k], sleeps=0))
                yield woken

    def _job(self, state: State, number: int, thread: Thread, registers: dict[str, int]) -> Iterator[State]:
        function, argument = registers["%function"], registers["%argument"]
        if argument != 1000 + function:
            raise Fault(f"function {function} with argument {argument}")
        owner = self.owner[function]
        if not thread.inside:
            if state.threads[owner].launches[:1] != (function,):
                raise Fault(f"job {function} is run while its caller is not in its launch")
            if self._read(state, thread, 100 + owner) != function:
                raise Fault("a thread does not see what the caller wrote")
            if (function, number) in state.begun:
                raise Fault("a thread joins a job twice")
            begun = replace(state, begun=state.begun | {(function, number)})
            if sum(job == function for job, _ in begun.begun) > self.wanted:
                raise Fault("more threads than were asked for")
            yield self._with(begun, number, replace(thread, inside=True))
        elif not self.needs or number != owner or any(j == function and k != number for j, k in state.begun):
            stores = (*thread.stores, (10000 + function * 16 + number, function))
            ended = replace(state, ended=state.ended | {(function, number)})
            yield self._with(ended, number, self._next(replace(thread, inside=False, stores=stores), registers))

    def _returned(self, state: State, number: int, thread: Thread) -> None:
        job = thread.launches[0]
        for other in (k for j, k in state.begun if j == job):
            if (job, other) not in state.ended:
                raise Fault("a launch returns while a thread is inside")
            if self._read(state, thread, 10000 + job * 16 + other) != job:
                raise Fault("the caller does not see what a thread wrote")


def _arithmetic(op: str, a: int, b: int) -> int:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "and":
            return a & b
        case "or":
            return a | b
        case "lshr":
            return a >> b
        case "urem":
            return a % b
        case "xchg":
            return b
    raise NotImplementedError(op)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
