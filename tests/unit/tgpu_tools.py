"""A plain loop over threads that runs tiny-gpu programs by the words of its description, and random programs."""

from __future__ import annotations

import random
from collections import Counter

from magpie.backends.tgpu.assembler import assemble
from magpie.backends.tgpu.isa import Program, Reg


def wrapped(n: int) -> int:
    n &= 0xFFFFFFFF
    return n - (1 << 32) if n >> 31 else n


class Fault(Exception):
    """An access outside of memory, or threads that wait for ever."""


class Plain:
    """One launch, one thread after the other, one instruction after the other."""

    def __init__(self, program: Program, grid, memory, num_registers=16, shared_size=0):
        self.code, self.program = program.instructions, program
        blocks, threads = grid
        self.memory = [int(w) for w in memory]
        self.shared = [[0] * shared_size for _ in range(blocks)]
        self.threads = []
        for b in range(blocks):
            for t in range(threads):
                r = [0] * num_registers
                r[5], r[6], r[7] = b, t, b * threads + t
                self.threads.append(
                    {"r": r, "pc": 0, "b": b, "z": False, "n": False, "g": False, "wait": "", "done": False}
                )
        self.cycles, self.opcodes, self.counts = 0, Counter(), [0] * len(self.threads)
        self.ends = [0] * len(self.threads)

    def run(self, max_steps=10_000):
        while not all(t["done"] for t in self.threads):
            self.cycles += 1
            assert self.cycles <= max_steps, "endless"
            for i, t in enumerate(self.threads):
                if not t["done"]:
                    self.thread(i, t)
            self.barriers()
        return self

    def barriers(self):
        waiting = [t for t in self.threads if t["wait"]]
        if not waiting:
            return
        if all(t["wait"] == "SYNC" for t in self.threads):
            free = waiting
        else:
            free = []
            for b in {t["b"] for t in waiting}:
                block = [t for t in self.threads if t["b"] == b]
                if all(t["wait"] == "SYNCB" for t in block):
                    free += block
        if not free and all(t["wait"] or t["done"] for t in self.threads):
            raise Fault("deadlock")
        for t in free:
            t["pc"] += 1
        for t in waiting:
            t["wait"] = ""

    def thread(self, i, t):
        r = t["r"]

        def v(o):
            return r[o.number] if isinstance(o, Reg) else o

        def cell(where, at):
            if not 0 <= at < len(where):
                raise Fault(f"{i} {at}")
            return at

        while True:
            if t["pc"] == len(self.code):
                t["done"], self.ends[i] = True, self.cycles
                return
            ins = self.code[t["pc"]]
            self.opcodes[ins.op] += 1
            self.counts[i] += 1
            a = ins.operands
            go = False
            if ins.op == "SET":
                r[a[0].number] = v(a[1])
            elif ins.op == "ADD":
                r[a[0].number] = wrapped(v(a[1]) + v(a[2]))
            elif ins.op == "MUL":
                r[a[0].number] = wrapped(v(a[1]) * v(a[2]))
            elif ins.op == "LD":
                r[a[0].number] = self.memory[cell(self.memory, v(a[1]))]
            elif ins.op == "ST":
                self.memory[cell(self.memory, v(a[0]))] = v(a[1])
            elif ins.op == "CMP":
                d = v(a[0]) - v(a[1])
                t["z"], t["n"], t["g"] = d == 0, d < 0, d > 0
            elif ins.op == "SHLD":
                s = self.shared[t["b"]]
                r[a[0].number] = s[cell(s, v(a[1]))]
            elif ins.op == "SHST":
                s = self.shared[t["b"]]
                s[cell(s, v(a[0]))] = v(a[1])
            elif ins.op == "CSWAP":
                x, y = cell(self.memory, v(a[0])), cell(self.memory, v(a[1]))
                if self.memory[x] > self.memory[y]:
                    self.memory[x], self.memory[y] = self.memory[y], self.memory[x]
            elif ins.op in ("SYNC", "SYNCB"):
                t["wait"] = ins.op
                return
            elif ins.op == "JMP":
                go = True
            elif ins.op == "BEQ":
                go = v(a[0]) == v(a[1])
            elif ins.op == "BNE":
                go = v(a[0]) != v(a[1])
            else:
                go = {"BRZ": t["z"], "BRLT": t["n"], "BRGT": t["g"]}[ins.op]
            before = t["pc"]
            if go:
                t["pc"] = self.program.target(ins)
            if t["pc"] != before:
                return
            t["pc"] = before + 1


def random_program(seed: int, *, memory: int = 64, shared: int = 8, racy: bool = True, barriers: bool = True) -> str:
    """A program that ends: counted loops, forward branches on ids and on data, barriers at the top level.

    Every thread has 4 words of its own from 4 * R7 on; with ``racy`` threads also meet in the words below 8. ``memory``
    is at least 8 and 4 words a thread; shared memory has one word a thread at least.
    """
    rng = random.Random(seed)
    lines: list[str] = []
    labels = iter(range(10_000))
    free = [0, 1, 2, 3, 8, 9]

    def reg():
        return f"R{rng.choice(free)}"

    def value():
        return rng.choice(
            [
                reg(),
                reg(),
                "R5",
                "R6",
                "R7",
                str(rng.choice([0, 1, 2, -1, 7, -(2**31), 2**31 - 1, rng.randrange(-99, 99)])),
            ]
        )

    def address():
        lines.append("MUL R4, R7, 4")
        lines.append(f"ADD R4, R4, {rng.randrange(4)}")
        return "R4"

    def simple():
        kind = rng.randrange(9 if racy else 7)
        if kind < 3:
            lines.append(f"{rng.choice(['ADD', 'MUL'])} {reg()}, {value()}, {value()}")
        elif kind == 3:
            lines.append(f"SET {reg()}, {value()}")
        elif kind == 4:
            lines.append(f"LD {reg()}, {address()}")
        elif kind == 5:
            lines.append(f"ST {address()}, {value()}")
        elif kind == 6:
            at = "R6" if not racy else rng.choice(["R6", "R6", str(rng.randrange(shared))])
            lines.append(rng.choice([f"SHST {at}, {value()}", f"SHLD {reg()}, {at}"]))
        elif kind == 7:
            lines.append(rng.choice([f"LD {reg()}, {rng.randrange(8)}", f"ST {rng.randrange(8)}, {value()}"]))
        else:
            lines.append(f"CSWAP {rng.randrange(8)}, {rng.randrange(8)}")

    def body(depth, n):
        for _ in range(n):
            what = rng.randrange(10)
            if what < 6 or depth == 3:
                simple()
            elif what < 8:
                end = f"L{next(labels)}"
                lines.append(f"CMP {value()}, {value()}") if rng.random() < 0.7 else None
                lines.append(
                    rng.choice(
                        [
                            f"BRZ {end}",
                            f"BRLT {end}",
                            f"BRGT {end}",
                            f"BEQ {value()}, {value()}, {end}",
                            f"BNE {value()}, {value()}, {end}",
                            f"JMP {end}",
                        ]
                    )
                )
                body(depth + 1, rng.randrange(1, 4))
                lines.append(f"{end}:")
            else:
                top, k = f"L{next(labels)}", 10 + depth
                trips = rng.choice(["2", "3", "5", "R6", "R5"])
                lines.append(f"SET R{k}, 0")
                lines.append(f"{top}:")
                body(depth + 1, rng.randrange(1, 4))
                lines.append(f"ADD R{k}, R{k}, 1")
                lines.append(f"CMP R{k}, {trips}")
                lines.append(f"BRLT {top}")
        if rng.random() < 0.1:  # a branch to itself falls through
            label = f"L{next(labels)}"
            lines.append(f"{label}: {rng.choice(['JMP', 'BRZ', 'BRGT'])} {label}")

    for _ in range(rng.randrange(1, 4)):
        body(0, rng.randrange(2, 6))
        if barriers and rng.random() < 0.6:
            lines.append(rng.choice(["SYNCB", "SYNCB", "SYNC"]))
    for r in rng.sample(free, 3):
        lines.append(f"ST {address()}, R{r}")
    return "\n".join(lines)


def program(text: str, **options) -> Program:
    return assemble(text, **options)
