"""Cuts a kernel at its barriers: scalar scaffold around runs of nodes that a gang loop executes (RULES 13).

An `if` or a loop that holds a barrier is the same for the whole workgroup, so it stays scalar control flow, the
scaffold; a maximal barrier-free run of nodes is executed gang by gang. What lives across runs is kept per gang in
context memory, computed again where that is cheaper, or, if it is the same for the workgroup, computed once in the
scaffold.
"""

from __future__ import annotations

from collections.abc import Iterator

from magpie.backends.cpu.lane_shapes import Shapes
from magpie.backends.cpu.plain import made_by, plain
from magpie.ir.nodes import Kernel, LocalArray, Node, Region, Slot, walk
from magpie.ir.ops import OPS, Effect
from magpie.passes.exits import jumps_out, runs_once

__all__ = ["Barrier", "Branch", "Exit", "Item", "Plan", "Repeat", "Run", "Scalar", "make_plan"]

# A value of at most this many pure nodes above uniform values and coordinates is computed again in another run.
_AGAIN = 12

# Values that are the same for the workgroup without looking at their operands.
_GROUP_LEAVES = frozenset(
    [
        "const",
        "param",
        "workgroup_id",
        "workgroup_size",
        "num_workgroups",
        "extent",
        "stride",
        "subgroup_size",
        "subgroup_count",
    ]
)
_LANE_LEAVES = frozenset(["thread_id", "global_id", "linear_local_id", "subgroup_lane", "subgroup_id"])


@plain
class Run:
    """Nodes that a gang loop executes. ``looped``: a scaffold loop may execute it again."""

    nodes: Region
    looped: bool
    # nodes of other runs to compute again before, in order; and those to read from context memory
    again: list[Node] = made_by(default_factory=list)
    reads: list[Node] = made_by(default_factory=list)
    # in program order: the text must not depend on where objects lie in memory
    slots: dict[Slot, None] = made_by(default_factory=dict)
    sets: dict[Slot, None] = made_by(default_factory=dict)


@plain
class Scalar:
    """A node that the scaffold executes once for the workgroup."""

    node: Node


@plain
class Barrier:
    node: Node


@plain
class Exit:
    """break, break_if, continue or return of the scaffold."""

    node: Node


@plain
class Branch:
    node: Node
    then: list[Item]
    else_: list[Item]


@plain
class Repeat:
    node: Node
    body: list[Item]
    step: list[Item]

    @property
    def walks(self) -> bool:
        """Whether it is a walk (see `magpie.backends.cpu.walks`), whose runs need no barrier between them."""
        return bool(self.node.attrs.get("walk"))


Item = Run | Scalar | Barrier | Exit | Branch | Repeat


@plain
class Plan:
    """The scaffold, and what it keeps where."""

    items: list[Item]
    runs: list[Run]
    scaffold_slots: list[Slot]
    context_nodes: list[Node]  # values kept per gang
    context_slots: list[Slot]
    context_arrays: list[LocalArray]  # local arrays that live across runs
    broadcast: set[Node]  # values that the scaffold takes from item 0
    several: bool  # more than one run, or a run that is executed more than once


def holds_barrier(node: Node) -> bool:
    """Whether a barrier stands inside ``node``, or it is a walk, which is executed as if one did."""
    if node.op == "barrier" or node.attrs.get("walk"):
        return True
    return any(n.op == "barrier" or n.attrs.get("walk") for r in node.regions for n in walk(r))


def _leaves(node: Node, returns: bool) -> bool:
    """Whether ``node`` holds a jump of the innermost loop around it or, with ``returns``, out of the kernel."""
    kinds = ("break", "continue", "return") if returns else ("break", "continue")
    return any(jumps_out(node, kind) for kind in kinds)


class _Planner:
    def __init__(self, kernel: Kernel, shapes: Shapes) -> None:
        self.kernel = kernel
        self.shapes = shapes
        self.barriers: set[Node] = set()
        self.scaffold: list[Region] = []
        self.runs: list[Run] = []
        self.slots: set[Slot] = set()
        self.ok: dict[Node, bool] = {}
        self.needed: set[Node] = set()
        self.broadcast: set[Node] = set()
        self.home: dict[Node, Region] = {}
        self.loose: set[Node] = set()  # pure nodes that no run holds
        self.loaded: set[Node] = set()  # values that rest on a load in a run

    def plan(self) -> Plan:
        self.mark(self.kernel.body)
        if not self.barriers:
            run = Run(self.kernel.body, False)
            self.note_slots(run)
            return Plan([run], [run], [], [], [], [], set(), False)
        self.find_scaffold_slots()
        self.find_needed()
        items = self.items(self.kernel.body, False)
        several = len(self.runs) > 1 or any(r.looped for r in self.runs)
        nodes = self.cross_values()
        kept = dict.fromkeys(n.attrs["slot"] for n in walk(self.kernel.body) if n.op == "slot_set")
        slots = [s for s in kept if s in self.slots]
        return Plan(items, self.runs, slots, nodes, self.cross_slots(), self.cross_arrays(), self.broadcast, several)

    # --- which regions are scaffold ------------------------------------------------------------------------------
    def mark(self, region: Region, inside: bool = False, looped: bool = False) -> None:
        """Note which nodes are scaffold: those that hold a barrier, and inside scaffold loops those that leave them.

        A return out of a loop that comes to its barrier again is the same for the workgroup; elsewhere some work-items
        may return on their own, which runs keep track of.
        """
        held = [n for n in region if holds_barrier(n) or (inside and _leaves(n, looped))]
        if not held and region is self.kernel.body:
            return
        self.barriers.update(held)
        self.scaffold.append(region)
        for node in region:
            self.home[node] = region
        for node in held:
            for inner in node.regions:
                loop = node.op == "loop"
                self.mark(inner, inside or loop, looped or (loop and not runs_once(node)))

    # --- what the scaffold computes ------------------------------------------------------------------------------
    def find_scaffold_slots(self) -> None:
        """Slots set only in the scaffold itself, to values that it can compute: one scalar for the workgroup."""
        sets: dict[Slot, list[Node]] = {}
        inside: set[Slot] = set()
        for node in walk(self.kernel.body):
            if node.op == "slot_set":
                sets.setdefault(node.attrs["slot"], []).append(node)
                if node not in self.home:
                    inside.add(node.attrs["slot"])
        uniform = {s for s in sets if s not in inside}
        self.slots = {s for s in uniform if (self.shapes.slots.get(s) or _NONE)[0] == 0}
        changed = True
        while changed:
            self.solve()
            wrong = {s for s in self.slots if not all(self.ok[n.args[0]] for n in sets[s])}
            self.slots -= wrong
            changed = bool(wrong)

    def solve(self) -> None:
        """`ok`: what the scaffold can compute from what is the same for the workgroup. In program order, so that
        operands come first."""
        ok = self.ok = {}
        for node in walk(self.kernel.body):
            op = node.op
            if op in _GROUP_LEAVES:
                ok[node] = True
            elif node not in self.home or op in _LANE_LEAVES:
                ok[node] = False
            elif op == "slot_get":
                ok[node] = node.attrs["slot"] in self.slots
            elif op == "load":
                ok[node] = node.attrs["array"].space != "local" and all(ok[a] for a in node.args)
            else:
                pure = op == "uniform" or OPS[op].effect is Effect.PURE
                ok[node] = pure and all(ok[a] for a in node.args)

    def find_needed(self) -> None:
        """The nodes that scaffold conditions and scaffold slots are made of."""
        todo: list[Node] = []
        for region in self.scaffold:
            for node in region:
                if (
                    node.op == "break_if"
                    or (node.op == "if" and node in self.barriers)
                    or (node.op == "slot_set" and node.attrs["slot"] in self.slots)
                ):
                    todo.append(node.args[0])
        while todo:
            node = todo.pop()
            if node in self.needed:
                continue
            self.needed.add(node)
            if self.ok[node]:
                todo.extend(node.args)
            else:
                self.broadcast.add(node)

    # --- items ---------------------------------------------------------------------------------------------------
    def items(self, region: Region, looped: bool) -> list[Item]:
        out: list[Item] = []
        pending: Region = []

        def flush() -> None:
            nonlocal pending
            if (
                any(not OPS[n.op].pure for n in pending)
                or len(self.loose) + len(pending) > _AGAIN
                or self.broadcast & set(pending)
            ):
                run = Run(pending, looped)
                self.note_slots(run)
                self.runs.append(run)
                out.append(run)
            else:
                self.loose.update(pending)
            pending = []

        for node in region:
            op = node.op
            if op == "barrier":
                flush()
                out.append(Barrier(node))
            elif node in self.barriers and op == "if":
                flush()
                then, else_ = (self.items(r, looped) for r in node.regions)
                out.append(Branch(node, then, else_))
            elif node in self.barriers:
                flush()
                body, step = (self.items(r, looped or not runs_once(node)) for r in node.regions)
                out.append(Repeat(node, body, step))
            elif op in ("break", "break_if", "continue", "return"):
                flush()
                out.append(Exit(node))
            elif op == "slot_set" and node.attrs["slot"] in self.slots:
                slot = node.attrs["slot"]
                if any(
                    n.op == "slot_get" and n.attrs["slot"] is slot for p in pending for r in p.regions for n in walk(r)
                ):
                    flush()
                out.append(Scalar(node))
            elif op == "load" and node in self.needed and self.ok[node]:
                flush()
                out.append(Scalar(node))
            elif self.once(node):
                out.append(Scalar(node))
            else:
                pending.append(node)
        flush()
        return out

    def once(self, node: Node) -> bool:
        """Whether the scaffold computes a pure node or reads one of its slots. Not if it rests on a load in a run."""
        pure = OPS[node.op].pure or node.op in ("slot_get", "uniform")
        if pure and self.ok[node] and not any(a in self.loaded for a in node.args):
            return True
        if node.op == "load" or any(a in self.loaded for a in node.args):
            self.loaded.add(node)
        return False

    def note_slots(self, run: Run) -> None:
        for node in walk(run.nodes):
            if node.op in ("slot_get", "slot_set"):
                run.slots[node.attrs["slot"]] = None
                if node.op == "slot_set":
                    run.sets[node.attrs["slot"]] = None

    # --- what crosses runs ---------------------------------------------------------------------------------------
    def cross_values(self) -> list[Node]:
        where: dict[Node, Run] = {}
        for run in self.runs:
            for node in walk(run.nodes):
                where[node] = run
        kept: dict[Node, None] = dict.fromkeys(n for n in where if n in self.broadcast)
        scalar = {n for region in self.scaffold for n in region if n not in where and n not in self.loose}
        for run in self.runs:
            seen: set[Node] = set()
            for node in walk(run.nodes):
                for arg in node.args:
                    self.resolve(arg, run, scalar, where, seen, kept)
        return list(kept)

    def resolve(
        self, arg: Node, run: Run, scalar: set[Node], where: dict[Node, Run], seen: set[Node], kept: dict[Node, None]
    ) -> None:
        """Make ``arg`` available in ``run``: computed again, or read from context memory."""
        if arg in seen or arg in scalar or where.get(arg) is run:
            return
        seen.add(arg)
        order: list[Node] = []
        if arg in self.loose:
            for operand in arg.args:
                self.resolve(operand, run, scalar, where, seen, kept)
            run.again.append(arg)
        elif self.again(arg, scalar, where, run, order, set()):
            run.again.extend(n for n in order if n not in run.again)
        else:
            run.reads.append(arg)
            kept[arg] = None

    def again(
        self, node: Node, scalar: set[Node], where: dict[Node, Run], run: Run, order: list[Node], seen: set[Node]
    ) -> bool:
        """Whether ``node`` can be computed again cheaply; ``order`` gets the nodes to compute, operands first."""
        if node in scalar or node in seen or where.get(node) is run:
            return True
        if not OPS[node.op].pure or len(seen) >= _AGAIN:
            return False
        seen.add(node)
        if not all(self.again(a, scalar, where, run, order, seen) for a in node.args):
            return False
        order.append(node)
        return True

    def cross_slots(self) -> list[Slot]:
        out: dict[Slot, None] = {}
        for slot in dict.fromkeys(s for r in self.runs for s in r.slots):
            if slot in self.slots:
                continue
            users = [r for r in self.runs if slot in r.slots]
            if len(users) > 1 or (users[0].looped and not self.lives_inside(slot, users[0])):
                out[slot] = None
        for node in (n for r in self.runs for n in r.nodes if n in self.broadcast):
            if node.op == "slot_get" and node.attrs["slot"] not in self.slots:
                out[node.attrs["slot"]] = None
        return list(out)

    @staticmethod
    def lives_inside(slot: Slot, run: Run) -> bool:
        """Whether every read of ``slot`` in a run comes after a set in the same execution of it."""
        return _first_use(run.nodes, slot) != "slot_get"

    def cross_arrays(self) -> list[LocalArray]:
        out: dict[LocalArray, None] = {}
        for local in self.kernel.locals:
            users = [r for r in self.runs if any(n.attrs.get("array") is local for n in walk(r.nodes))]
            if len(users) > 1 or any(r.looped for r in users):
                out[local] = None
        return list(out)


_NONE = (0,)


def _with_regions(node: Node) -> Iterator[Node]:
    yield node
    for r in node.regions:
        yield from walk(r)


def _first_use(region: Region, slot: Slot) -> str:
    """What a work-item does first with ``slot`` in ``region``: ``slot_set``, ``slot_get`` (perhaps), or nothing."""
    for node in region:
        if node.op in ("slot_get", "slot_set") and node.attrs["slot"] is slot:
            return node.op
        if node.op == "if":  # an arm that says nothing goes on behind it
            uses = [_first_use(r, slot) for r in node.regions]
            if "slot_get" in uses or all(uses):
                return "slot_get" if "slot_get" in uses else "slot_set"
        elif any(n.attrs.get("slot") is slot for n in _with_regions(node)):
            return "slot_get"
    return ""


def make_plan(kernel: Kernel, shapes: Shapes) -> Plan:
    """Cut a prepared kernel."""
    return _Planner(kernel, shapes).plan()
