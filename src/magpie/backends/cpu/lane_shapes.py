"""What each value looks like across the lanes of a gang: uniform, linear with a stride, or varying (RULES 5).

A uniform value is one scalar; a linear one a scalar and a stride, so that a load at it is one vector load; only varying
values cost a vector register. The analysis runs through slots. It rests on *contexts*: the divergent constructs around
a node (an arm of a varying `if`, a loop that lanes leave one by one, what follows a `continue` of some lanes). A slot
is *covered* when every set of it happens for all the lanes that may read it later, so that a set needs no mask and a
uniform value stays uniform.
"""

from __future__ import annotations

from typing import NamedTuple

from magpie.backends.cpu.plain import made_by, plain
from magpie.backends.cpu.shape_rules import UNIFORM, VARYING, Layout, Shape, transfer
from magpie.ir.nodes import Kernel, Node, Region, Slot
from magpie.passes.narrow_index import Ranges
from magpie.passes.rewrite import Rewriter

__all__ = ["Shapes", "analyse_shapes", "forward_slots"]

# A divergent construct: ("arm", if, number), ("loop", loop) or ("rest", node behind which some lanes are missing).
Context = tuple[tuple[str, Node] | tuple[str, Node, int], ...]


@plain
class Shapes:
    """The result: shapes by node and slot, and what control flow does to masks."""

    nodes: dict[Node, Shape] = made_by(default_factory=dict)
    slots: dict[Slot, Shape] = made_by(default_factory=dict)
    # slots whose sets need no mask
    covered: set[Slot] = made_by(default_factory=set)
    # slots that are set before any read wherever they live: their initial zero is never seen
    fresh: set[Slot] = made_by(default_factory=set)
    # loops that some lanes may leave before others
    ragged: set[Node] = made_by(default_factory=set)
    # `if`s and loops inside which some lanes leave for beyond the end of them
    leaks: set[Node] = made_by(default_factory=set)
    # loops whose `step` some lanes reach before others
    skips: set[Node] = made_by(default_factory=set)
    returns: bool = False  # some lanes may return before others

    def of(self, node: Node) -> Shape:
        return self.nodes.get(node, UNIFORM)


class _Place(NamedTuple):
    region: Region
    position: int
    context: Context  # at the start of the region
    loops: int  # loops around the region


class _Access(NamedTuple):
    node: Node
    context: Context
    path: tuple[_Place, ...]  # from the outside in


@plain
class _Uses:
    sets: dict[Slot, list[_Access]] = made_by(default_factory=dict)
    gets: dict[Slot, list[_Access]] = made_by(default_factory=dict)

    def note(self, node: Node, context: Context, path: list[_Place]) -> None:
        where = self.sets if node.op == "slot_set" else self.gets if node.op == "slot_get" else None
        if where is not None:
            where.setdefault(node.attrs["slot"], []).append(_Access(node, context, tuple(path)))


class _Analysis:
    def __init__(self, kernel: Kernel, layout: Layout, ranges: Ranges) -> None:
        self.kernel = kernel
        self.layout = layout
        self.ranges = ranges
        self.result = Shapes()
        self.uses = _Uses()
        self.path: list[_Place] = []
        self.loops: list[tuple[Node, Context, int]] = []  # with the depth of the path at the loop
        self.split: set[Node] = set()  # `if`s on a varying condition
        self.slot_shape: dict[Slot, Shape | None] = {}

    def run(self) -> Shapes:
        r = self.result
        r.fresh = _fresh(self.kernel)
        state: object = None
        while True:
            self.uses = _Uses()
            self.region(self.kernel.body, ())
            self.settle_slots()
            sizes = (len(r.ragged), len(r.leaks), len(r.skips), r.returns, len(self.split))
            now = (sizes, tuple(self.slot_shape.items()))
            if now == state:
                break
            state = now
        r.slots = {s: shape or UNIFORM for s, shape in self.slot_shape.items()}
        return r

    # --- slots ---------------------------------------------------------------------------------------------------
    def settle_slots(self) -> None:
        """Decide which slots are covered; the others are varying."""
        r = self.result
        r.covered.clear()
        for slot, sets in self.uses.sets.items():
            if self.is_covered(slot, sets, self.uses.gets.get(slot, [])):
                r.covered.add(slot)
                if slot not in r.fresh:
                    self.slot_shape[slot] = _join(self.slot_shape.get(slot), UNIFORM)
            else:
                self.slot_shape[slot] = VARYING

    def is_covered(self, slot: Slot, sets: list[_Access], gets: list[_Access]) -> bool:
        base: Context = ()
        loops = 0
        if slot in self.result.fresh:
            home = sets[0].path[_common(sets + gets)]
            base, loops = home.context, home.loops
        for s in sets:
            if any(g.context[: len(s.context)] != s.context for g in gets):
                return False
            extra = s.context[len(base) :]
            # a construct entered again within the life of the slot may find lanes that were not there before
            if extra and (extra[0][0] == "rest" or self.loops_around(s, extra[0][1]) != loops):
                return False
        return True

    @staticmethod
    def loops_around(access: _Access, node: Node) -> int:
        return next(p.loops for p in access.path if p.region[p.position] is node)

    # --- the walk ------------------------------------------------------------------------------------------------
    def region(self, region: Region, context: Context) -> bool:
        """Shapes of a region. True if lanes may have left it by `continue`, so that what follows it lacks them."""
        left = False
        here = context
        for position, node in enumerate(region):
            self.path.append(_Place(region, position, context, len(self.loops)))
            self.uses.note(node, here, self.path)
            if self.visit(node, here):
                left = True
                here = (*here, ("rest", node))
            self.path.pop()
        return left

    def visit(self, node: Node, context: Context) -> bool:
        op, r = node.op, self.result
        if op == "if":
            if self.shape(node.args[0]).kind != 0:
                self.split.add(node)
            left = False
            for arm, inner in enumerate(node.regions):
                left |= self.region(inner, (*context, ("arm", node, arm)) if node in self.split else context)
            return left
        if op == "loop":
            inside = (*context, ("loop", node)) if node in r.ragged else context
            self.loops.append((node, inside, len(self.path)))
            for inner in node.regions:
                self.region(inner, inside)
            self.loops.pop()
        elif op in ("break", "break_if", "continue"):
            loop, inside, depth = self.loops[-1]
            masked = context != inside or (op == "break_if" and self.shape(node.args[0]).kind != 0)
            if masked:
                (r.skips if op == "continue" else r.ragged).add(loop)
                r.leaks.update(p.region[p.position] for p in self.path[depth:-1])
                return op == "continue"
        elif op == "return":
            if context:
                r.returns = True
                r.ragged.update(loop for loop, _, _ in self.loops)
                r.leaks.update(p.region[p.position] for p in self.path[:-1])
        elif op == "slot_set":
            slot = node.attrs["slot"]
            self.slot_shape[slot] = _join(self.slot_shape.get(slot), self.shape(node.args[0]))
        elif op == "slot_get":
            r.nodes[node] = self.slot_shape.get(node.attrs["slot"]) or UNIFORM
        elif node.type is not None:
            r.nodes[node] = transfer(node, [self.shape(a) for a in node.args], self.layout, self.ranges)
        return False

    def shape(self, node: Node) -> Shape:
        return self.result.nodes.get(node, UNIFORM)


def _join(a: Shape | None, b: Shape) -> Shape:
    if a is None:
        return b
    if a.kind == b.kind and (a.kind != 1 or (a.stride == b.stride and a.stride is not None)):
        return Shape(a.kind, a.stride, min(a.multiple, b.multiple))
    return VARYING


def _common(accesses: list[_Access]) -> int:
    """The depth of the innermost region that holds all accesses."""
    first = accesses[0].path
    depth = min(len(a.path) for a in accesses) - 1
    while any(a.path[depth].region is not first[depth].region for a in accesses):
        depth -= 1
    return depth


def _lifetime(accesses: list[_Access]) -> Region | None:
    """The innermost region around all accesses, if the first of them there is a set: no older value is ever read."""
    depth = _common(accesses)
    # walked in program order, so the first access comes first; a loop's step comes after its body
    first = min(accesses, key=lambda a: a.path[depth].position)
    if first.node.op == "slot_set" and len(first.path) == depth + 1:
        return first.path[depth].region
    return None


def _all_uses(kernel: Kernel) -> _Uses:
    """Accesses by position alone, without contexts."""
    uses = _Uses()
    path: list[_Place] = []

    def visit(region: Region) -> None:
        for position, node in enumerate(region):
            path.append(_Place(region, position, (), 0))
            uses.note(node, (), path)
            for inner in node.regions:
                visit(inner)
            path.pop()

    visit(kernel.body)
    return uses


def _fresh(kernel: Kernel) -> set[Slot]:
    uses = _all_uses(kernel)
    return {s for s, sets in uses.sets.items() if _lifetime(sets + uses.gets.get(s, [])) is not None}


def analyse_shapes(kernel: Kernel, layout: Layout, ranges: Ranges) -> Shapes:
    """Shapes of a prepared kernel for gangs of ``layout``."""
    return _Analysis(kernel, layout, ranges).run()


def forward_slots(kernel: Kernel) -> Kernel:
    """``kernel`` without the slots that are set once before all of their gets: what a frontend makes of most names."""
    uses = _all_uses(kernel)
    value: dict[Slot, Node] = {}
    for slot, sets in uses.sets.items():
        home = _lifetime(sets + uses.gets.get(slot, [])) if len(sets) == 1 else None
        if home is not None and sets[0].path[-1].region is home:
            value[slot] = sets[0].node.args[0]
    if not value:
        return kernel

    def get(rewriter: Rewriter, node: Node) -> Node | None:
        found = value.get(node.attrs["slot"])
        return rewriter.value(found) if found is not None else rewriter.keep(node)

    def set_(rewriter: Rewriter, node: Node) -> Node | None:
        return None if node.attrs["slot"] in value else rewriter.keep(node)

    from dataclasses import replace

    rewriter = Rewriter({"slot_get": get, "slot_set": set_})
    return replace(kernel, body=rewriter.region(kernel.body))
