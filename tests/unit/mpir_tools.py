"""For tests of MPIR: random functions in SSA form, and an interpreter that walks their blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from magpie.mpir.nodes import Block, Br, Cbr, Const, Function, GpuMeta, Instr, Module, Operand, Phi, Ret, Switch, Var
from magpie.mpir.types import BOOL, UNIT, Ty

U32, I32 = Ty("u32"), Ty("i32")
BUFFER = Ty("gpu.TBuffer", (U32,))
MASK = 0xFFFFFFFF

BINARY: dict[str, Callable[[int, int], int]] = {
    "i.add": lambda a, b: a + b,
    "i.sub": lambda a, b: a - b,
    "i.mul": lambda a, b: a * b,
    "i.xor": lambda a, b: a ^ b,
    "i.and": lambda a, b: a & b,
    "i.lshr": lambda a, b: a >> (b % 32),
    "i.urem": lambda a, b: a % b if b else 0,
    "icmp.eq": lambda a, b: a == b,
    "icmp.ult": lambda a, b: a < b,
}


class TooLong(Exception):
    """A function took more steps than it was given."""


def execute(function: Function, arguments: dict[str, Any], ids: dict[str, int], fuel: int = 100_000) -> None:
    """Run one work-item: block by block, with all values in one dictionary. Buffers are lists, all numbers u32."""
    blocks = {b.label: b for b in function.blocks}
    values: dict[str, Any] = dict(arguments)

    def read(operand: Operand) -> Any:
        return operand.value if isinstance(operand, Const) else values[operand.name]  # type: ignore[union-attr]

    came, label = "", function.blocks[0].label
    while fuel:
        fuel -= 1
        block = blocks[label]
        values.update({p.result: read(dict(p.incoming)[came]) for p in block.phis})
        for instr in block.instrs:
            args = {k: read(v) for k, v in instr.args.items()}
            if instr.op in BINARY:
                found = BINARY[instr.op](args["lhs"], args["rhs"])
                values[instr.result] = found if instr.op.startswith("icmp") else found & MASK
            elif instr.op == "cast":
                values[instr.result] = int(args["v"])
            elif instr.op == "gpu.buffer_store":
                args["buf"][args["idx"]] = args["v"]
            elif instr.op == "gpu.global_id":
                values[instr.result] = ids["global_id"]
            elif instr.op != "gpu.barrier":
                raise NotImplementedError(instr.op)
        came, term = label, block.term
        if isinstance(term, Br):
            label = term.target
        elif isinstance(term, Cbr):
            label = term.then if read(term.cond) else term.other
        elif isinstance(term, Switch):
            label = dict(term.cases).get(read(term.value), term.default)
        else:
            return
    raise TooLong


def shape(rng: random.Random, count: int, *, irreducible: bool) -> list[list[int]]:
    """Successors of blocks 0 to count - 1. Every block goes on to a later one or ends; others lead back, which closes no
    cycle of several entries unless ``irreducible``: then a block that dominates it is chosen."""
    graph: list[list[int]] = []
    for k in range(count):
        later = list(range(k + 1, min(count, k + 1 + rng.choice((1, 2, 3, count)))))
        many = rng.choice((1, 1, 2, 2, 2, 3, 4))
        graph.append([rng.choice(later) for _ in range(many)] if later and (k == 0 or rng.random() < 0.93) else [])
    for k in range(1, count):
        # every block can be come to from the one before it or from an earlier one
        if not any(k in graph[p] for p in range(k)):
            graph[rng.randrange(max(0, k - 3), k)].append(k)
    above = dominators(graph)
    for k in range(1, count):
        if graph[k] and rng.random() < 0.4:
            back = [n for n in range(1, k + 1) if irreducible or n in above[k]]
            if back:
                graph[k].append(rng.choice(back))
    latches: dict[int, int] = {}
    for k in range(count):
        for at, s in enumerate(graph[k]):
            if s <= k and rng.random() < 0.5:  # by a block that only leads back, which several ways may share
                if s not in latches:
                    latches[s] = len(graph)
                    graph.append([s])
                graph[k][at] = latches[s]
    return graph


def leads_back(graph: Sequence[Sequence[int]], k: int, s: int) -> bool:
    """Whether the way from block ``k`` to ``s`` closes a cycle."""
    return s <= k or (len(graph[s]) == 1 and graph[s][0] < s)


def dominators(graph: Sequence[Sequence[int]], entry: int = 0) -> list[set[int]]:
    """Of each node all that dominate it, by the definition: without them it is not reached."""
    found: list[set[int]] = [set() for _ in graph]
    for without in range(len(graph)):
        seen = {entry} - {without}
        todo = list(seen)
        while todo:
            for s in graph[todo.pop()]:
                if s not in seen and s != without:
                    seen.add(s)
                    todo.append(s)
        for node in range(len(graph)):
            if node not in seen:
                found[node].add(without)
    return found


class Maker:
    """A random function over a shape. It hashes the way that control takes into %h, chooses by the bits of %s, which it
    steps like a random generator, and counts blocks in %c: beyond ``most`` it takes no branch that leads back. %u and %w
    change places now and then, and take up values of blocks further up."""

    names = ("s", "c", "h", "u", "w")

    def __init__(self, rng: random.Random, graph: list[list[int]], most: int = 24) -> None:
        self.rng = rng
        self.graph = graph
        self.most = most
        self.above = dominators(graph)
        self.count = 0
        self.blocks = [Block(f"bb{k}") for k in range(len(graph))]
        self.ends: list[dict[str, str]] = []  # what each name is at the end of each block
        self.made: list[list[str]] = [[] for _ in graph]  # the numbers that each block defines

    def emit(self, k: int, op: str, *args: Operand, type: Ty = U32, targs: tuple[Ty, ...] = ()) -> Var:
        """Append to block ``k``."""
        self.count += 1
        name = f"t{self.count}"
        keys = ("v",) if len(args) == 1 else ("lhs", "rhs")
        self.blocks[k].instrs.append(Instr(op, dict(zip(keys, args, strict=True)), name, type, targs))
        if type == U32:
            self.made[k].append(name)
        return Var(name)

    def function(self) -> Function:
        """The function, with one buffer %out: five numbers for each work-item."""
        before = [[p for p, successors in enumerate(self.graph) if k in successors] for k in range(len(self.graph))]
        with_phis = [k > 0 and (len(b) > 1 or self.rng.random() < 0.3) for k, b in enumerate(before)]
        for k in range(len(self.graph)):
            if k == 0:
                self.blocks[0].instrs.append(Instr("gpu.global_id", {"dim": Const(U32, 0)}, "gid", U32))
                seed = self.emit(0, "i.mul", Var("gid"), Const(U32, 2654435761)).name
                now = dict.fromkeys(self.names, seed) | {"c": self.emit(0, "i.and", Var("gid"), Const(U32, 0)).name}
            elif with_phis[k]:
                now = {n: f"p{k}{n}" for n in self.names}
                self.made[k] += now.values()
            else:
                now = dict(self.ends[before[k][0]])
            self.fill(k, now)
        for k, block in enumerate(self.blocks):
            if with_phis[k]:
                for n in self.names:
                    incoming: list[tuple[str, Operand]] = [(f"bb{p}", Var(self.ends[p][n])) for p in before[k]]
                    block.phis.append(Phi(f"p{k}{n}", U32, incoming))
        return Function("k", [("out", BUFFER)], UNIT, self.blocks, GpuMeta("interp", (32, 1, 1)))

    def fill(self, k: int, now: dict[str, str]) -> None:
        now["s"] = self.emit(k, "i.mul", Var(now["s"]), Const(U32, 1664525)).name
        now["s"] = self.emit(k, "i.add", Var(now["s"]), Const(U32, 1013904223)).name
        now["c"] = self.emit(k, "i.add", Var(now["c"]), Const(U32, 1)).name
        hashed = self.emit(k, "i.mul", Var(now["h"]), Const(U32, 31))
        now["h"] = self.emit(k, "i.add", hashed, Const(U32, k + 7)).name
        if self.rng.random() < 0.5:
            far = self.made[self.rng.choice(sorted(self.above[k]))]
            now["u"] = self.emit(k, "i.xor", Var(now["u"]), Var(self.rng.choice(far))).name
        if self.rng.random() < 0.3:
            now["u"], now["w"] = now["w"], now["u"]
        self.ends.append(now)
        if self.graph[k]:
            self.blocks[k].term = self.jump(k, now)
            return
        for column, name in enumerate(self.names):
            row = self.emit(k, "i.mul", Var("gid"), Const(U32, len(self.names)))
            at = self.emit(k, "i.add", row, Const(U32, column))
            store: dict[str, Operand] = {"buf": Var("out"), "idx": at, "v": Var(now[name])}
            self.blocks[k].instrs.append(Instr("gpu.buffer_store", store, targs=(U32,)))
        self.blocks[k].term = Ret()

    def jump(self, k: int, now: dict[str, str]) -> Br | Cbr | Switch:
        successors = sorted(self.graph[k], key=lambda s: leads_back(self.graph, k, s))  # the first leads on
        labels = [f"bb{s}" for s in successors]
        if len(labels) == 1:
            return Br(labels[0])
        number = self.emit(k, "i.lshr", Var(now["s"]), Const(U32, self.rng.randrange(8, 28)))
        number = self.emit(k, "i.urem", number, Const(U32, len(labels)))
        if leads_back(self.graph, k, successors[-1]):
            few = self.emit(k, "icmp.ult", Var(now["c"]), Const(U32, self.most), type=BOOL)
            number = self.emit(k, "i.mul", number, self.emit(k, "cast", few, targs=(BOOL, U32)))
        if len(labels) == 2:
            first = self.emit(k, "icmp.eq", number, Const(U32, 0), type=BOOL)
            return Cbr(first, *labels)
        cases = list(enumerate(labels))[:-1]
        self.rng.shuffle(cases)
        return Switch(number, tuple(cases), labels[-1])


def make(seed: int, *, irreducible: bool = False, most: int = 14) -> Module:
    """A random module of one kernel, @k, of up to ``most`` blocks."""
    rng = random.Random(seed)
    graph = shape(rng, rng.randrange(2, most + 1), irreducible=irreducible)
    return Module("random", functions=[Maker(rng, graph).function()])
