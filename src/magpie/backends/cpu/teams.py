"""Several gangs at once through the same loops, so that they share loads and keep their sums in registers.

A loop that all work-items of a workgroup run alike is emitted once, and its body for each gang of the team in turn;
what is the same for the workgroup is computed once. A product of tiles loads each row of B once for the whole team,
and has as many independent sums in flight as the team has gangs. Order between work-items is free between barriers.
"""

from __future__ import annotations

from magpie.backends.cpu.control import LoopFrame
from magpie.backends.cpu.gang import Env
from magpie.backends.cpu.guards import find_guard
from magpie.backends.cpu.lane_shapes import Shapes
from magpie.backends.cpu.polling import close_strip
from magpie.backends.cpu.spmd import Gang
from magpie.ir.nodes import Buffer, ConstArray, Kernel, Node, Region, Slot, walk
from magpie.ir.ops import OPS
from magpie.passes.exits import has_return

__all__ = ["Common", "Team", "find_common", "team_size"]

_LEAVES = frozenset(
    ("const", "param", "workgroup_id", "workgroup_size", "num_workgroups", "extent", "stride", "subgroup_size")
)
# Vectors of sums that a team should have in flight, of the 16 registers of AVX2.
_SUMS = 8


class Common:
    """What is the same for the whole workgroup: nodes, slots, and loops and branches that all take alike."""

    def __init__(self) -> None:
        self.nodes: set[Node] = set()
        self.slots: set[Slot] = set()
        self.even: set[Node] = set()


class _Finder:
    """A greatest fixpoint: everything uniform is common until something says otherwise."""

    def __init__(self, kernel: Kernel, shapes: Shapes) -> None:
        self.kernel = kernel
        self.found = Common()
        self.slots = {s for s, shape in shapes.slots.items() if shape.kind == 0 and s in shapes.covered}
        self.ragged = shapes.ragged
        self.uneven: set[Node] = set()
        self.wrong: set[Slot] = set()

    def run(self) -> Common:
        while True:
            before = (len(self.slots), len(self.uneven))
            self.found = Common()
            self.wrong = set()
            self.region(self.kernel.body, True, [])
            self.slots -= self.wrong
            if before == (len(self.slots), len(self.uneven)):
                break
        self.found.slots = self.slots
        return self.found

    def region(self, region: Region, even: bool, loops: list[tuple[Node, bool]]) -> None:
        nodes = self.found.nodes
        for node in region:
            op = node.op
            if op == "if":
                same = even and node.args[0] in nodes
                if same:
                    self.found.even.add(node)
                for inner in node.regions:
                    self.region(inner, same, loops)
            elif op == "loop":
                same = even and node not in self.uneven and node not in self.ragged
                if same:
                    self.found.even.add(node)
                for inner in node.regions:
                    self.region(inner, same, [*loops, (node, same)])
            elif op in ("break", "break_if", "continue"):
                loop, same = loops[-1]
                if same and (not even or (op == "break_if" and node.args[0] not in nodes)):
                    self.uneven.add(loop)
            elif op == "return":
                self.uneven.update(loop for loop, _ in loops)
            elif op == "slot_set":
                if not even or node.args[0] not in nodes:
                    self.wrong.add(node.attrs["slot"])
            elif op in _LEAVES or (op == "slot_get" and node.attrs["slot"] in self.slots):
                nodes.add(node)
            elif op == "load":
                array = node.attrs["array"]
                fixed = isinstance(array, ConstArray) or (isinstance(array, Buffer) and array.access == "read")
                if fixed and all(a in nodes for a in node.args):
                    nodes.add(node)
            elif op == "uniform" or (OPS[op].pure and node.args and all(a in nodes for a in node.args)):
                if all(a in nodes for a in node.args):
                    nodes.add(node)


def find_common(kernel: Kernel, shapes: Shapes) -> Common:
    """What all work-items of a workgroup share in a prepared kernel."""
    return _Finder(kernel, shapes).run()


def team_size(nodes: Region, env: Env, common: Common) -> int:
    """How many gangs to take at once through a run: 1 unless it has an even loop with sums of its own to keep."""
    if env.checked or env.large or not env.layout.rows or env.kernel.locals:
        return 1  # a local array has room for one gang
    if not any(n.op in ("thread_id", "global_id") and n.attrs["dim"] > 0 for n in walk(env.kernel.body)):
        return 1  # a one-dimensional kernel: a workgroup is one row
    guard = find_guard(nodes, env)
    if any(has_return([n]) for n in nodes if guard is None or n is not guard[0]):
        return 1  # a gang that returns would take the team with it
    for node in nodes:
        if node.op in ("if", "loop") and _has_sums(node, env, common, node.op == "if"):
            vectors = max(1, env.layout.width * 32 // env.target.vector_bits)
            return _divided(_SUMS // vectors, env.kernel.known_workgroup)
    return 1


def _divided(size: int, workgroup: tuple[int, int, int] | None) -> int:
    """A team of about ``size`` gangs that leaves no rows over, where the workgroup is known to have such rows."""
    if workgroup is not None:
        rows = workgroup[1] * workgroup[2]
        size = min(size, rows)
        size = next((n for n in range(size, size // 2, -1) if rows % n == 0), size)
    return max(1, size)


def _has_sums(node: Node, env: Env, common: Common, guard: bool) -> bool:
    """An even loop that sets varying slots and holds no other control flow; one guard may stand around it."""
    if node.op == "loop":
        inner = [n for r in node.regions for n in walk(r)]
        sums = any(n.op == "slot_set" and env.shapes.slots[n.attrs["slot"]].kind == 2 for n in inner)
        plain = not any(n.op in ("if", "loop") or n.op.startswith(("atomic", "subgroup")) for n in inner)
        return node in common.even and sums and plain
    return guard and any(_has_sums(n, env, common, False) for n in node.regions[0] if n.op == "loop")


class Team:
    """Emits nodes for several full gangs together."""

    def __init__(self, env: Env, gangs: list[Gang], common: Common) -> None:
        self.env = env
        self.c = env.code
        self.gangs = gangs
        self.common = common
        first = gangs[0]
        for slot in common.slots:
            if slot not in first.storage:
                continue
            for gang in gangs[1:]:
                gang.storage[slot] = first.storage[slot]

    def region(self, nodes: Region) -> None:
        c = self.c
        for node in nodes:
            self.visit(node)
            if not c.open or self.gangs[0].stopped:
                return

    def visit(self, node: Node) -> None:
        first, rest = self.gangs[0], self.gangs[1:]
        op = node.op
        if op == "if" and (node in self.common.even or first.map[node.args[0]].literal):
            self.branch(node)
        elif op == "loop" and node in self.common.even:
            self.loop(node)
        elif op in ("break", "continue", "break_if"):
            first.visit(node)
        elif node in self.common.nodes:
            if node not in first.map:
                first.visit(node)
            for gang in rest:
                gang.map[node] = first.map[node]
                if node in gang.kept:
                    gang.kept[node](gang.map[node])
        elif op == "slot_set" and node.attrs["slot"] in self.common.slots:
            first.visit(node)
            for gang in rest:
                gang.storage[node.attrs["slot"]] = first.storage[node.attrs["slot"]]
        else:
            for gang in self.gangs:
                gang.visit(node)
                gang.stopped = False

    def branch(self, node: Node) -> None:
        c, first = self.c, self.gangs[0]
        cond = first.map[node.args[0]]
        then, else_ = node.regions
        if cond.literal:
            self.region(then if cond.text == "true" else else_)
            return
        join = c.block("join")
        yes, no = (c.block(h) if r else join for h, r in (("then", then), ("else", else_)))
        c.cbr(cond.text, yes, no)
        reached = not then or not else_
        for block, nodes in ((yes, then), (no, else_)):
            if nodes:
                c.place(block)
                self.region(nodes)
                reached |= c.open
                c.br(join)
                first.stopped = False
        if reached:
            c.place(join)
        first.stopped = not reached

    def loop(self, node: Node) -> None:
        c, first = self.c, self.gangs[0]
        body, step = node.regions
        header, tail, exit_ = c.block("loop"), c.block("step"), c.block("exit")
        for gang in self.gangs:
            gang.frames.append(LoopFrame(node, tail, exit_, gang.depth))
        strip = first.frames[-1].strip = first.strip(node)
        c.br(header)
        c.place(header)
        self.region(body)
        c.br(tail)
        c.place(tail)
        first.stopped = False
        self.region(step)
        first.poll(node)
        c.br(header)
        for gang in self.gangs:
            gang.frames.pop()
        if strip is not None:
            close_strip(self.env, strip, exit_)
        c.place(exit_)
        first.stopped = False
