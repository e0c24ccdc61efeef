"""Which values and branches are the same for all work-items of a workgroup or a subgroup, and why the others are not.

A lattice (RULES 5): const < workgroup-uniform < subgroup-uniform < varying. Beside it stands *unknown*: a value read at
a uniform address of memory that the kernel writes, which is uniform only if nobody races.

Control counts as well as data. A slot read after an `if` on a varying condition varies if only one arm set it; a slot
set in a loop that work-items leave at different trips varies outside of it (temporal divergence). For each definition
that reaches a use, exactly those branches count that enclose the definition but not the use in the same trip. So what
is set and read inside one divergent branch stays uniform among the work-items that are there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from magpie.diagnostics import Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.ir.nodes import Array, Buffer, ConstArray, Kernel, Node, Region, SharedArray, Slot, walk
from magpie.ir.ops import Effect, Uniform
from magpie.passes.exits import jumps_out, runs_once
from magpie.passes.reaching import Definition, reaching_definitions

__all__ = ["Level", "Uniformity", "analyse", "check_barriers"]


class Level(enum.IntEnum):
    """How far a value is shared; larger is less uniform."""

    CONST = 0
    WORKGROUP = 1
    SUBGROUP = 2
    VARYING = 3


_BY_RULE = {
    Uniform.CONST: Level.CONST,
    Uniform.WORKGROUP: Level.WORKGROUP,
    Uniform.SUBGROUP: Level.SUBGROUP,
    Uniform.VARYING: Level.VARYING,
}
# A subgroup op of these kinds gives its operand back where that is uniform.
_IDEMPOTENT = ("min", "max", "and", "or")


@dataclass(slots=True, eq=False)
class _Context:
    """One step of the control that encloses a node: a branch (`if`, `loop`), or the part of a region behind a node that
    some work-items left by `continue`, `return` or, in a loop of one trip, `break`."""

    parent: _Context | None
    kind: str  # "if", "loop", "continue", "break", "return"
    node: Node


class Uniformity:
    """The result. Levels are those among the work-items that are active where the node stands."""

    def __init__(self, kernel: Kernel, gang: int) -> None:
        self.kernel = kernel
        self.gang = gang
        self._level: dict[Node, Level] = {}
        self._unknown: set[Node] = set()
        self._because: dict[Node, Node] = {}
        self._slot_unknown: dict[Slot, bool] = {}
        self._context: dict[Node, _Context | None] = {}
        # of a loop: the contexts at which some work-items leave it; of a node behind which some are gone: likewise
        self._exits: dict[Node, list[tuple[Node, _Context | None]]] = {}
        self._gone: dict[tuple[Node, str], list[tuple[Node, _Context | None]]] = {}
        self._once = {n for n in walk(kernel.body) if n.op == "loop" and runs_once(n)}
        self._order: list[Node] = []
        self._stores: dict[Array, list[int]] = {}
        self._interval: dict[Node, int] = {}
        self._reach = reaching_definitions(kernel)
        self._gets: dict[Slot, list[Node]] = {}
        self._find_intervals()
        self._find_contexts(kernel.body, None, [])
        self._solve()

    # --- questions ---------------------------------------------------------------------------------------------------
    def level(self, node: Node) -> Level:
        """The level of a value."""
        return self._level.get(node, Level.CONST)

    def unknown(self, node: Node) -> bool:
        """Whether the level holds only if no work-item races with the reads behind it."""
        return node in self._unknown

    def slot_level(self, slot: Slot) -> Level:
        """The join over all uses of the slot and over the values it is set to."""
        return max((self.level(g) for g in self._gets.get(slot, [])), default=Level.CONST)

    def branch_level(self, node: Node) -> Level:
        """Of an `if`: the level of its condition. Of a `loop`: whether work-items leave it at different trips."""
        if node.op == "if":
            return self.level(node.args[0])
        if node.op == "loop":
            return self._join_exits(self._exits.get(node, []), self._context.get(node), node)[0]
        return self.level(node.args[0]) if node.args else Level.CONST

    def control_level(self, node: Node) -> Level:
        """How far the work-items of a workgroup agree on reaching ``node``."""
        return max((self._context_level(c)[0] for c in self._chain(node)), default=Level.CONST)

    def reach(self, node: Node) -> tuple[Level, bool]:
        """The `control_level` of ``node``, those counted who return on an earlier trip of a loop around it, and whether
        it holds only if no work-item races with the reads behind it."""
        found = [self._context_level(c) for c in _around(self, node)]
        return max((level for level, _, _ in found), default=Level.CONST), any(unknown for _, unknown, _ in found)

    def leaving(self, loop: Node) -> Node | None:
        """The branch by which work-items leave a loop at different trips; None where none is known."""
        outer = self._context.get(loop)
        for jump, start in self._exits.get(loop, []):
            if jump.op == "break_if" and self.level(jump.args[0]) >= Level.SUBGROUP:
                return jump
            context = start
            while context is not None and context is not outer and context.node is not loop:
                if self._context_level(context)[0] >= Level.SUBGROUP:
                    return context.node if context.kind == "if" else self.leaving(context.node)
                context = context.parent
        return None

    def reason(self, node: Node) -> list[tuple[str, Loc | None]]:
        """Why ``node`` is not uniform: from its value back to what makes work-items differ."""
        chain: list[tuple[str, Loc | None]] = []
        seen: set[Node] = set()
        while node not in seen:
            seen.add(node)
            chain.append((_describe(node), node.loc))
            following = self._because.get(node)
            if following is None:
                break
            node = following
        return chain

    # --- construction ------------------------------------------------------------------------------------------------
    def _chain(self, node: Node) -> list[_Context]:
        result = []
        context = self._context.get(node)
        while context is not None:
            result.append(context)
            context = context.parent
        return result

    def _find_intervals(self) -> None:
        """Number barrier intervals: two accesses with different numbers always have a barrier between them.

        Structured union-find: an `if` joins the ends of its arms, a loop joins its entry with its back edge.
        """
        parent: list[int] = [0]

        def find(i: int) -> int:
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = parent[i]
            return i

        def join(a: int, b: int) -> int:
            a, b = find(a), find(b)
            parent[max(a, b)] = min(a, b)
            return min(a, b)

        def visit(region: Region, current: int, loops: list[tuple[list[int], list[int]]]) -> int:
            for node in region:
                if node.op in ("barrier", "grid_sync"):
                    parent.append(len(parent))
                    current = len(parent) - 1
                elif node.op == "if":
                    ends = [visit(r, current, loops) for r in node.regions]
                    current = join(ends[0], ends[1])
                elif node.op == "loop":
                    exits: list[int] = []
                    tails: list[int] = []
                    end = visit(node.regions[0], current, [*loops, (exits, tails)])
                    for t in tails:
                        end = join(end, t)
                    end = visit(node.regions[1], end, [*loops, (exits, tails)])
                    join(current, end)
                    current = exits[0] if exits else end
                    for e in exits[1:]:
                        current = join(current, e)
                elif node.op in ("break", "break_if"):
                    loops[-1][0].append(current)
                elif node.op == "continue":
                    loops[-1][1].append(current)
                else:
                    self._interval[node] = current
                    array = node.attrs.get("target" if node.op == "copy_async" else "array")
                    writes = node.info.effect in (Effect.WRITE, Effect.ATOMIC)
                    if array is not None and (writes or node.op in ("tile_store", "copy_async")):
                        self._stores.setdefault(array, []).append(current)
            return current

        visit(self.kernel.body, 0, [])
        for node, i in self._interval.items():
            self._interval[node] = find(i)
        for array, intervals in self._stores.items():
            self._stores[array] = [find(i) for i in intervals]

    def _find_contexts(self, region: Region, context: _Context | None, loops: list[Node]) -> None:
        for node in region:
            self._context[node] = context
            self._order.append(node)
            if node.op == "slot_get":
                self._gets.setdefault(node.attrs["slot"], []).append(node)
            elif node.op in ("break", "break_if") and loops:
                self._exits.setdefault(loops[-1], []).append((node, context))
                if node.op == "break_if" and loops[-1] in self._once:
                    self._gone[node, "break"] = [(node, context)]
                    context = _Context(context, "break", node)
            elif node.op in ("if", "loop"):
                inner = _Context(context, node.op, node)
                nested = [*loops, node] if node.op == "loop" else loops
                for r in node.regions:
                    self._find_contexts(r, inner, nested)
                # behind a node that some work-items left for good, fewer are active
                for kind in ("continue", "break", "return"):
                    if kind == "break" and not (loops and loops[-1] in self._once):
                        continue  # a break out of a loop of many trips counts in all of it: see `_context_level`
                    jumps = jumps_out(node, kind)
                    if jumps:
                        self._gone[node, kind] = [(j, self._context[j]) for j in jumps]
                        context = _Context(context, kind, node)

    # --- levels ------------------------------------------------------------------------------------------------------
    def _join_exits(
        self, exits: list[tuple[Node, _Context | None]], outer: _Context | None, until: Node
    ) -> tuple[Level, bool, Node | None]:
        """The join over the conditions under which work-items take ``exits``, up to the node ``until`` exclusive."""
        level, unknown, because = Level.CONST, False, None
        for jump, start in exits:
            conditions: list[tuple[Level, bool, Node]] = []
            if jump.op == "break_if":
                conditions.append((self.level(jump.args[0]), jump.args[0] in self._unknown, jump.args[0]))
            context = start
            while context is not None and context is not outer and context.node is not until:
                conditions.append(self._context_level(context))
                context = context.parent
            # of a node behind which work-items are gone, its own control is the outermost condition
            if until.op == "if":
                condition = until.args[0]
                conditions.append((self.level(condition), condition in self._unknown, condition))
            elif jump.op == "return":
                conditions.append(self._context_level(_Context(None, "loop", until)))
            for found, doubt, node in conditions:
                unknown = unknown or doubt
                if found > level:
                    level, because = found, node
                elif because is None:
                    because = node
        return level, unknown, because

    def _context_level(self, context: _Context) -> tuple[Level, bool, Node]:
        """Level of one enclosing step, whether it is unknown, and the node to name."""
        node = context.node
        if context.kind == "if":
            condition = node.args[0]
            return self.level(condition), condition in self._unknown, condition
        if context.kind == "loop":
            # the one trip of a loop is made by all who come to it
            exits = [] if node in self._once else self._exits.get(node, [])
        else:
            exits = self._gone[node, context.kind]
        level, unknown, because = self._join_exits(exits, self._context.get(node), node)
        return level, unknown, because or node

    def _solve(self) -> None:
        """Sweeps in program order, until one changes nothing. What a change means for values that are made of it is
        followed at once: values that go round in a loop would take a sweep for each step."""
        valued = [n for n in self._order if n.type is not None]
        users: dict[Node, list[Node]] = {}
        for node in valued:
            for a in node.args:
                users.setdefault(a, []).append(node)
        for get, definitions in self._reach.items():
            for made, _ in definitions:
                if made is not None:
                    users.setdefault(made.args[0], []).append(get)
        changed = [n for n in valued if self._update(n)]
        while changed:
            while changed:
                changed += [n for n in users.get(changed.pop(), ()) if self._update(n)]
            changed = [n for n in valued if self._update(n)]

    def _update(self, node: Node) -> bool:
        """Compute the level of a value anew; whether it has changed."""
        level, unknown, because = self._value(node)
        if level <= self.level(node) and (not unknown or node in self._unknown):
            return False
        self._level[node] = max(level, self.level(node))
        if unknown:
            self._unknown.add(node)
        if because is not None:
            self._because[node] = because
        return True

    def _value(self, node: Node) -> tuple[Level, bool, Node | None]:
        op = node.op
        if op == "uniform":
            return Level.WORKGROUP, False, None
        if op == "slot_get":
            return self._slot(node)
        if op == "load":
            return self._load(node)
        level, unknown, because = self._join(node.args)
        if op in ("floordiv", "tdiv", "shr") and level is Level.VARYING and self._gang_quotient(node):
            return Level.SUBGROUP, unknown, because
        if op in ("subgroup_any", "subgroup_all", "subgroup_broadcast") or (
            op in ("subgroup_reduce",) and node.attrs["kind"] in _IDEMPOTENT
        ):
            own = self.level(node.args[0])
            return min(own, Level.SUBGROUP), unknown, because if own >= Level.SUBGROUP else None
        rule = node.info.uniform
        if rule in (Uniform.JOIN, Uniform.SPECIAL):
            return level, unknown, because
        return _BY_RULE[rule], unknown and rule is not Uniform.VARYING, None

    def _join(self, nodes: tuple[Node, ...]) -> tuple[Level, bool, Node | None]:
        level, unknown, because = Level.CONST, False, None
        for a in nodes:
            unknown = unknown or a in self._unknown
            if self.level(a) > level:
                level, because = self.level(a), a
            elif because is None and a in self._unknown:
                because = a
        return level, unknown, because

    def _gang_quotient(self, node: Node) -> bool:
        """linear_local_id // c is the same for a gang of consecutive work-items if the gang's size divides c."""
        by = node.args[1]
        if self.gang <= 0 or by.op != "const" or not _is_linear_id(node.args[0], self.kernel):
            return False
        value: int = by.attrs["value"]
        divisor = 1 << (value & 63) if node.op == "shr" else value
        return divisor > 0 and divisor % self.gang == 0

    def _load(self, node: Node) -> tuple[Level, bool, Node | None]:
        array: Array = node.attrs["array"]
        level, unknown, because = self._join(node.args)
        if isinstance(array, ConstArray):
            return level, unknown, because
        if not isinstance(array, Buffer | SharedArray):  # a local array holds what its own work-item stored
            return Level.VARYING, unknown, because
        stored = self._stores.get(array)
        if stored:
            level = max(level, Level.WORKGROUP)
            if isinstance(array, Buffer) or self._interval[node] in stored:
                unknown = True
        return level, unknown, because

    def _slot(self, get: Node) -> tuple[Level, bool, Node | None]:
        level, unknown, because = Level.CONST, False, None
        chain = self._chain(get)
        enclosing = {id(c) for c in chain}
        loops = {c.node for c in chain if c.kind == "loop"}
        for definition in self._reach.get(get, ()):
            for found, doubt, node in self._definition(definition, enclosing, loops):
                unknown = unknown or doubt
                if found > level:
                    level, because = found, node
                elif because is None and doubt:
                    because = node
        return level, unknown, because

    def _definition(
        self, definition: Definition, enclosing: set[int], loops: set[Node]
    ) -> list[tuple[Level, bool, Node]]:
        """What one reaching definition adds: its value, and the control that encloses it but not the use.

        A definition of an earlier trip of a loop around the use may have been made by other work-items than those of
        this trip, so all control inside that loop counts.
        """
        node, crossed = definition
        if node is None:
            return []
        value = node.args[0]
        result = [(self.level(value), value in self._unknown, value)]
        for context in self._chain(node):
            if crossed in loops:
                if context.kind == "loop" and context.node is crossed:
                    break
            elif id(context) in enclosing:
                break
            if context.kind != "return":  # who returned never comes back
                result.append(self._context_level(context))
        return result


def _is_linear_id(node: Node, kernel: Kernel) -> bool:
    while node.op == "cast":
        node = node.args[0]
    if node.op == "linear_local_id":
        return True
    size = kernel.workgroup
    return node.op == "thread_id" and node.attrs["dim"] == 0 and size is not None and size[1] == size[2] == 1


def _describe(node: Node) -> str:
    op = node.op
    if op == "slot_get":
        return f"`{node.attrs['slot'].name}`"
    if op in ("thread_id", "global_id"):
        return f"{op}({node.attrs['dim']}), which differs between the work-items of a workgroup"
    if op == "workgroup_id":
        return f"workgroup_id({node.attrs['dim']}), which differs between the workgroups of a launch"
    if op in ("linear_local_id", "subgroup_lane", "subgroup_id", "subgroup_elect"):
        return f"{op}, which differs between the work-items of a workgroup"
    if op in ("load", "atomic_load"):
        return f"a value read from `{node.attrs['array'].name}`"
    if op in ("atomic_rmw", "atomic_cas"):
        return f"the result of an atomic on `{node.attrs['array'].name}`"
    if node.info.effect is Effect.CROSS_LANE:
        return f"the result of {op}"
    if op in ("if", "loop"):
        return f"this {op}"
    return "this expression"


def analyse(kernel: Kernel, gang: int = 0) -> Uniformity:
    """Analyse a kernel without calls. ``gang``: with it, quotients of the work-item number by a multiple of the gang
    size count as subgroup-uniform (a gang is a run of consecutive work-items)."""
    return Uniformity(kernel, gang)


def check_barriers(kernel: Kernel, uniformity: Uniformity | None = None) -> list[Diagnostic]:
    """What stands in the way of all work-items of a workgroup reaching each barrier, at the branch; for a grid_sync, of
    all work-items of the launch.

    MPG_CORE_1400, an error, where control depends on a work-item's id; MPG_CORE_1401, a warning, where it depends on
    memory that the kernel writes (checked mode and the sanitizer then look at run time).
    """
    barriers = [n for n in walk(kernel.body) if n.op in ("barrier", "grid_sync")]
    if not barriers:
        return []
    found = uniformity or analyse(kernel)
    result: list[Diagnostic] = []
    for barrier in barriers:
        doubtful: Diagnostic | None = None
        for context in _around(found, barrier):
            level, unknown, node = found._context_level(context)
            # What a buffer holds that the kernel writes is the same for all workgroups, unless they race.
            apart = barrier.op == "grid_sync" and level is Level.WORKGROUP and not unknown
            if level >= Level.SUBGROUP or apart:
                result.append(_barrier_error(found, barrier, context.node, context.kind, node))
                doubtful = None
                break
            if unknown and doubtful is None:
                doubtful = _barrier_warning(found, barrier, context.node, node)
        if doubtful is not None:
            result.append(doubtful)
    # what was inlined may hold several barriers, all at the place of the call
    return list(dict.fromkeys(result))


def _around(found: Uniformity, barrier: Node) -> list[_Context]:
    """What decides who reaches ``barrier``, or another node: its control, and for each loop around it who returns on an
    earlier trip."""
    result = []
    for context in found._chain(barrier):
        result.append(context)
        if context.kind == "loop" and context.node not in found._once and (context.node, "return") in found._gone:
            result.append(_Context(context.parent, "return", context.node))
    return result


_KINDS = {
    "if": "this branch is taken by some work-items only",
    "loop": "different work-items leave this loop at different trips",
    "continue": "some work-items skip the rest of the trip here",
    "break": "some work-items leave here",
    "return": "some work-items return here",
}


def _barrier_error(found: Uniformity, barrier: Node, branch: Node, kind: str, value: Node) -> Diagnostic:
    chain = found.reason(value)
    who, whole, what = "work-items", "workgroup", "a barrier"
    if barrier.op == "grid_sync":
        whole, what = "launch", "a grid_sync"
        if found.level(value) is Level.WORKGROUP:
            who = "workgroups"
    notes: list[tuple[str, Loc | None]] = [
        (f"because it depends on {text}", loc) for text, loc in chain if text != "this expression"
    ]
    notes.append((f"the {barrier.op.replace('_', ' ')} that not all {who} reach", barrier.loc))
    place, text = branch.loc, _KINDS[kind]
    leaving = found.leaving(branch) if kind == "loop" else None
    if leaving is not None and leaving.loc is not None and place is not None and leaving.loc.line != place.line:
        notes.append(("the loop", place))
        place, text = leaving.loc, "work-items leave the loop here at different trips"
    return Diagnostic(
        "MPG_CORE_1400",
        f"{text.replace('work-items', who)}, and {what} depends on it",
        place,
        tuple(notes),
        "move it out of the branch so that every work-item reaches it, or branch on a value that is the same for the "
        f"whole {whole}" + ("; `mp.uniform(cond)` asserts that a condition is" if whole == "workgroup" else ""),
    )


def _barrier_warning(found: Uniformity, barrier: Node, branch: Node, value: Node) -> Diagnostic:
    notes: list[tuple[str, Loc | None]] = [
        (f"it depends on {text}, which this kernel writes", loc) for text, loc in found.reason(value)[-1:]
    ]
    notes.append(("the barrier", barrier.loc))
    return Diagnostic(
        "MPG_CORE_1401",
        "a barrier depends on this condition, which is uniform only if nobody writes what it reads at the same time",
        branch.loc,
        tuple(notes),
        "wrap the condition in `mp.uniform(...)` if all work-items see the same value",
    )
