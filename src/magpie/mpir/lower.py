"""MPIR to Kernel IR: the structured tree of a function as regions, SSA values as nodes and slots.

A phi is a slot that every edge into its block sets; all values of an edge are read before the first is set, so that
phis may exchange values. A value that is used where its region has ended goes through a slot of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import DType, StructType, Type, bool_, i32
from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Function, Kernel, Node, Region, Slot
from magpie.mpir import nodes as m
from magpie.mpir.coalesce import share
from magpie.mpir.lower_memory import MEMORY, debug, pointer, wandering
from magpie.mpir.lower_ops import ELEMENTWISE
from magpie.mpir.ops import OPS, is_sync
from magpie.mpir.skeleton import MOST_NESTED, Dispatch, Edge, Skeleton, Test, skeleton, too_deep
from magpie.mpir.structure import Again, Code, Exit, If, Item, Leave, Loop, Move, Scope, structure
from magpie.mpir.types import Ty
from magpie.passes.exits import OpenLoop, OpenLoops

__all__ = ["Body", "Context"]

_NO_SLOT = ("ptr", "rawptr", "unit")  # types of values that stand where they are made
_SMALL = 16  # instructions of a block that may stand inside a loop that it leaves

Step = Item | Callable[[], object]


class Context:
    """What the functions of a kernel share: its arrays, how types and called functions look in Kernel IR."""

    def __init__(
        self, kernel: Kernel, types: Callable[[Ty], Type], called: Callable[[m.Instr, Mapping[str, Array]], Function]
    ) -> None:
        self.kernel = kernel
        self.types = types
        self.called = called


class Body:
    """Lowers one function into ``region``. ``dispatches`` are the labels of irreducible cycles with their loops."""

    def __init__(self, function: m.Function, context: Context, region: Region, arrays: dict[str, Array]) -> None:
        self.function = function
        self.context = context
        self.out = Builder(region, function.loc)
        self.region = region
        self.arrays = arrays
        self.blocks = {b.label: b for b in function.blocks}
        self.loops = OpenLoops(self.out)
        self.open: dict[str, OpenLoop] = {}  # by label, of loops and of scopes that are loops of one trip
        self.lands: list[tuple[str | None, OpenLoop]] = []  # where leaving each open loop comes to
        self.steps: dict[str, str] = {}  # blocks that are the step of a loop, and its label
        self.parents: dict[int, Region] = {}
        self.depths: dict[int, int] = {}
        self.types: dict[str, Type] = {}
        self.values: dict[str, tuple[Node, Region]] = {}
        self.kept: dict[str, Slot] = {}
        self.shared = share(function)
        types = {p.result: p.type for b in function.blocks for p in b.phis}
        slots = {name: Slot(name, self.type(types[name])) for name in dict.fromkeys(self.shared.slots.values())}
        self.phis = {name: slots[own] for name, own in self.shared.slots.items()}
        self.early = {name: slots[own] for name, own in self.shared.early.items()}
        self.incoming = {p.result: dict(p.incoming) for b in function.blocks for p in b.phis}
        self.labels: dict[Dispatch, Slot] = {}
        self.dispatches: dict[Dispatch, Node] = {}
        self.scopes: set[str] = set()
        self.fields: dict[int, tuple[StructType, dict[str, int]]] = {}  # by the type's identity
        self.found: Skeleton = skeleton(function)

    def type(self, type_: Ty) -> Type:
        return self.context.types(type_)

    # --- the whole function -----------------------------------------------------------------------------------------
    def lower(self) -> None:
        """Fill the region."""
        for b in self.function.blocks:
            for item in b.items:
                if item.result is not None and item.type is not None and item.type.name not in _NO_SLOT:
                    self.types[item.result] = self.type(item.type)
        for name, type_ in self.function.params:
            if name not in self.arrays:
                self.define(name, self.out.emit("param", type=self.type(type_), name=name))
        items = structure(self.found, self.carries, self.small)
        self.scopes = _needed_scopes(items)
        self.steps = self.find_steps(items)
        self.run(items)
        if self.region and self.region[-1].op == "return" and not self.region[-1].args:
            self.region.pop()
        self.keep()

    def carries(self, edge: Edge) -> bool:
        return edge.label is not None or bool(self.set_on(edge))

    def set_on(self, edge: Edge) -> list[m.Phi]:
        """The phis that a way sets: those whose slots do not hold the value already."""
        if edge.source is None:
            return []
        there = self.shared.there
        return [p for p in self.blocks[edge.target].phis if (edge.source, p.result) not in there]

    def small(self, label: str) -> bool:
        block = self.blocks.get(label)
        return block is not None and len(block.instrs) <= _SMALL and not any(_meets(i) for i in block.instrs)

    def find_steps(self, items: list[Item]) -> dict[str, str]:
        """Blocks that stand in the step of a loop, with its label: all ways to the next trip lead through them, some by
        a jump (`continue`), and they are plain code whose work-items need not meet."""
        found: dict[str, str] = {}
        stack: list[tuple[list[Item], Loop | None]] = [(items, None)]
        while stack:
            nodes, loop = stack.pop()
            plain = True  # what stands behind an item: code alone
            for item in reversed(nodes):
                if isinstance(item, Loop):
                    stack.append((item.body, item))
                elif isinstance(item, If):
                    stack += [(item.then, loop), (item.other, loop)]
                elif isinstance(item, Scope):
                    stack.append((item.body, loop))
                    if plain and loop is not None and loop.latches == (item.label,) and item.label in self.scopes:
                        block = self.blocks.get(item.label)
                        if block is not None and not any(_meets(i) for i in block.instrs):
                            found[item.label] = loop.label
                plain = plain and isinstance(item, Code | Move)
        return found

    def keep(self) -> None:
        """Set the slots of values that were used outside of their region, behind what computes them."""
        where: dict[int, tuple[Region, dict[Node, Slot]]] = {}
        for name, slot in self.kept.items():
            node, region = self.values[name]
            where.setdefault(id(region), (region, {}))[1][node] = slot
        for region, slots in where.values():
            result: Region = []
            for node in region:
                result.append(node)
                if node in slots:
                    result.append(Node("slot_set", (node,), None, {"slot": slots[node]}, (), node.loc))
            region[:] = result

    # --- values -----------------------------------------------------------------------------------------------------
    def enter(self, region: Region, parent: Region) -> None:
        """Append to ``region``, from where what stands in ``parent`` is seen."""
        self.inside(region, parent)
        self.out.region = region

    def inside(self, region: Region, parent: Region) -> None:
        """Note that ``region`` is one of a node in ``parent``; what nests too deep is refused here, where it begins."""
        self.parents[id(region)] = parent
        self.depths[id(region)] = depth = self.depths.get(id(parent), 0) + 1
        if depth > MOST_NESTED:
            raise too_deep(self.function, self.out.loc)

    def define(self, name: str, node: Node) -> None:
        self.values[name] = (node, self.out.region)

    def visible(self, region: Region) -> bool:
        at: Region | None = self.out.region
        while at is not None:
            if at is region:
                return True
            at = self.parents.get(id(at))
        return False

    def value(self, operand: m.Operand) -> Node:
        """The node of an operand, as seen from here."""
        if isinstance(operand, m.Const):
            type_ = self.type(operand.type)
            assert isinstance(type_, DType) and not isinstance(operand.value, str)
            return self.out.const(operand.value, type_)
        assert isinstance(operand, m.Var)
        name = operand.name
        known = self.values.get(name)
        if known is not None and self.visible(known[1]):
            return known[0]
        if name not in self.types:
            raise CompileError(wandering(name, self.out.loc))
        if name not in self.kept:
            self.kept[name] = Slot(name, self.types[name])
        return self.out.get(self.kept[name])

    # --- the tree ---------------------------------------------------------------------------------------------------
    def run(self, items: list[Item]) -> None:
        stack: list[list[Step]] = [list(reversed(items))]
        while stack:
            if not stack[-1]:
                stack.pop()
                continue
            step = stack[-1].pop()
            if callable(step):
                step()
                continue
            inner = self.visit(step)
            if inner:
                stack.append(list(reversed(inner)))

    def visit(self, item: Item) -> list[Step]:
        """Append what ``item`` is; what is to be done after that."""
        match item:
            case Code():
                self.code(self.blocks[item.label])
            case Move():
                self.move(item.edge)
            case If():
                return self.choice(item)
            case Loop():
                return self.loop(item)
            case Scope():
                return self.scope(item)
            case Exit():
                self.exit(item.label)
            case Again():
                self.loops.again(self.open[item.label])
            case Leave():
                self.leave(self.blocks[item.label].term)
        return []

    def exit(self, label: str) -> None:
        if label in self.steps and not self.breaks(label):
            self.loops.again(self.open[self.steps[label]])
        else:
            self.loops.leave(next(loop for after, loop in reversed(self.lands) if after == label))

    def breaks(self, label: str) -> bool:
        """Whether leaving the innermost loop comes to ``label``."""
        return self.lands[-1][0] == label

    def leave(self, term: m.Term) -> None:
        self.out.loc = term.loc or self.out.loc
        results: list[Node] = []
        if isinstance(term, m.Ret) and term.value is not None:
            results = [self.value(term.value)]
        elif isinstance(term, m.Unreachable) and self.function.ret.name != "unit":
            slot = Slot("nothing", self.type(self.function.ret))  # never set, and never read
            results = [self.out.get(slot)]
        self.out.emit("return", *results)

    def scope(self, item: Scope) -> list[Step]:
        if item.label in self.steps:
            loop = self.open[self.steps[item.label]]
            return [*item.body, lambda: self.enter(loop.step, loop.outside)]
        if item.label not in self.scopes:
            return list(item.body)
        self.begin(item.label)

        def end() -> None:
            if not _ended(self.out.region):
                self.out.emit("break")
            self.end()

        return [*item.body, end]

    def begin(self, after: str | None) -> OpenLoop:
        outer = self.out.region
        loop = self.loops.open()
        self.inside(loop.body, outer)
        self.inside(loop.step, outer)
        self.lands.append((after, loop))
        return loop

    def end(self) -> Node:
        self.lands.pop()
        return self.loops.close()

    def loop(self, item: Loop) -> list[Step]:
        place = self.out.loc = self.place(item.label)
        loop = self.begin(item.after)
        self.open[item.label] = loop

        def end() -> None:
            self.out.loc = place  # the branch at its head, where most loops are left
            node = self.end()
            if item.label in self.found.dispatches:
                self.dispatches[self.found.dispatches[item.label]] = node

        return [*item.body, end]

    def choice(self, item: If) -> list[Step]:
        out = self.out
        cond = self.test(item.test)
        arms = (item.then, item.other)
        for k, arm in enumerate(arms):
            # an arm that leaves has nothing behind it: the other one goes on in this region
            if not arm or not isinstance(arm[-1], Exit | Again | Leave):
                continue
            if k:
                cond = out.emit("not", cond)
            only = arm[0]
            if isinstance(only, Exit) and self.breaks(only.label):
                out.emit("break_if", cond)
                return list(arms[1 - k])
            return [*self.arm(out.if_(cond)[1], arm), *arms[1 - k]]
        if not item.then:
            cond = out.emit("not", cond)
            return self.arm(out.if_(cond)[1], item.other)
        _, then, other = out.if_(cond)
        return [*self.arm(then, item.then), *self.arm(other, item.other)]

    def arm(self, region: Region, items: list[Item]) -> list[Step]:
        """``items`` in ``region``, and back here."""
        here = self.out.region

        def back() -> None:
            self.out.region = here

        return [lambda: self.enter(region, here), *items, back]

    def test(self, test: Test) -> Node:
        out = self.out
        if isinstance(test.value, Dispatch):
            value = self.chosen(test.value)
        else:
            value = self.value(test.value)
        if not test.op:
            return value
        return out.emit(test.op, value, out.const(test.number, value.dtype))

    def chosen(self, dispatch: Dispatch) -> Node:
        """The label on which a dispatch branches, read once before its first test."""
        name = f"{dispatch.name}.label"  # no value of the text has a point in its name
        known = self.values.get(name)
        if known is None or not self.visible(known[1]):
            self.define(name, self.out.get(self.label(dispatch)))
        return self.values[name][0]

    def label(self, dispatch: Dispatch) -> Slot:
        return self.labels.setdefault(dispatch, Slot(dispatch.name, i32))

    def place(self, label: str) -> Loc | None:
        block = self.blocks.get(label)
        return self.out.loc if block is None or block.term.loc is None else block.term.loc

    # --- code -------------------------------------------------------------------------------------------------------
    def move(self, edge: Edge) -> None:
        """Set the phis of the edge's target, and the label of its dispatch."""
        out = self.out
        if edge.source is not None:
            sets = [(p, self.incoming[p.result][edge.source]) for p in self.set_on(edge)]
            values = [self.value(v) for _, v in sets]
            for (phi, _), value in zip(sets, values, strict=True):
                out.set(self.phis[phi.result], value)
        if edge.label is not None:
            dispatch, number = edge.label
            out.set(self.label(dispatch), out.const(number, i32))

    def code(self, block: m.Block) -> None:
        for phi in block.phis:
            self.out.loc = phi.loc or self.out.loc
            self.define(phi.result, self.out.get(self.phis[phi.result]))
        for instr in block.instrs:
            self.out.loc = instr.loc or self.out.loc
            start = len(self.out.region)
            node = self.instruction(instr)
            for made in self.out.region[start:] if instr.unsafe else ():
                if "unchecked" in made.info.attrs:
                    made.attrs["unchecked"] = True
            if instr.result is not None and node is not None:
                self.define(instr.result, node)
                if instr.result in self.early:
                    self.out.set(self.early[instr.result], node)
        self.out.loc = block.term.loc or self.out.loc

    def instruction(self, instr: m.Instr) -> Node | None:
        out, op = self.out, instr.op
        emit = ELEMENTWISE.get(op)
        if emit is not None:
            args = [self.value(instr.args[k]) for k in OPS[op].keys]
            type_ = self.type(instr.type) if instr.type is not None else bool_
            return emit(out, args, type_)
        lower = MEMORY.get(op)
        if lower is not None:
            return lower(self, instr)
        match op:
            case "call":
                called = self.context.called(instr, self.arrays)
                call = out.emit("call", *(self.value(instr.args[p.name]) for p in called.params), function=called)
                return out.emit("call_result", type=called.results[0], call=call, index=0) if called.results else None
            case "new":
                struct = self.types[instr.result or ""]
                assert isinstance(struct, StructType)
                return out.emit("struct_make", *(self.value(instr.args[f.name]) for f in struct.fields), type=struct)
            case "getfield":
                value, name = self.value(instr.args["obj"]), instr.args["field"]
                assert isinstance(value.type, StructType) and isinstance(name, m.Word)
                at = self.position(value.type, name.name)
                return out.emit("struct_get", value, type=value.type.fields[at].type, field=at)
            case "gpu.malloc" | "gpu.free" | "ptr.load" | "ptr.store" | "ptr.add" | "ptr.is_null":
                of = [self.type(t) for t in instr.targs if isinstance(t, Ty)]
                args = [self.value(instr.args[k]) for k in OPS[op].keys]
                return pointer(out, op, args, of[0] if of else None)
            case "gpu.print" | "gpu.assert" | "gpu.trap":
                debug(self, instr)
                return None
        raise CompileError(
            Diagnostic(
                "MPG_CORE_1405", f"`{op}` cannot run in a kernel: it is an operation of host programs", instr.loc
            )
        )

    def position(self, struct: StructType, field: str) -> int:
        """Which field of a struct has a name."""
        if id(struct) not in self.fields:
            self.fields[id(struct)] = (struct, {f.name: k for k, f in enumerate(struct.fields)})
        return self.fields[id(struct)][1][field]


def _meets(instr: m.Instr) -> bool:
    """Whether the work-items of a workgroup or subgroup may have to come to ``instr`` together."""
    return is_sync(instr.op) or instr.op == "call"


def _ended(region: Region) -> bool:
    return bool(region) and region[-1].info.terminator


def _needed_scopes(items: Iterable[Item]) -> set[str]:
    """The scopes that an exit leaves where no loop ends at the same place; the others need no loop of their own."""
    needed: set[str] = set()
    stack: list[tuple[Iterator[Item], str | None]] = [(iter(items), None)]
    ends: Counter[str | None] = Counter()  # where the loops around end
    while stack:
        item = next(stack[-1][0], None)
        match item:
            case None:
                ends[stack.pop()[1]] -= 1
            case If():
                stack += [(iter(item.other), None), (iter(item.then), None)]
            case Loop():
                stack.append((iter(item.body), item.after))
                ends[item.after] += 1
            case Scope():
                stack.append((iter(item.body), None))
            case Exit() if not ends[item.label]:
                needed.add(item.label)
    return needed
