"""The jumps of a function as a graph of edges, without irreducible cycles.

A cycle with several entries gets a *dispatch*: a node of its own that every edge into one of the entries goes to,
having set a label to the entry's number; the dispatch branches on the label. Only the smallest cycles get one: the
loops around them are taken off first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from magpie.diagnostics import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.mpir.cfg import dominators, find_loops, reverse_postorder, strongly_connected
from magpie.mpir.nodes import Block, Br, Cbr, Function, Operand, Switch, Term

__all__ = ["MOST_NESTED", "Dispatch", "Edge", "Fork", "Skeleton", "Test", "skeleton", "too_deep"]

MOST_NESTED = 120  # ifs and loops in each other; Dawn allows 127
_MOST_STEPS = 100_000  # blocks that are looked at for cycles of several entries, once for each cycle around them


@dataclass(slots=True, eq=False)
class Dispatch:
    """Goes to ``entries[label]``."""

    name: str
    entries: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Edge:
    """A way from block ``source`` to block ``target``, or of a dispatch to one of its entries (``source`` None).

    It goes to the node ``to``: the target, or a dispatch whose label is set to ``label`` first.
    """

    source: str | None
    target: str
    to: str
    label: tuple[Dispatch, int] | None = None


@dataclass(slots=True, eq=False)
class Test:
    """What a fork asks: whether ``value`` is true, or how it compares (``eq``, ``lt``) with ``number``."""

    value: Operand | Dispatch
    op: str = ""
    number: int = 0


@dataclass(slots=True, eq=False)
class Fork:
    """A choice between two jumps."""

    test: Test
    then: Jump
    other: Jump


Jump = Edge | Fork | None  # None: the function ends here


@dataclass(slots=True, eq=False)
class Skeleton:
    """``jumps``: how each node ends; nodes are labels of blocks and names of dispatches."""

    entry: str
    jumps: dict[str, Jump]
    dispatches: dict[str, Dispatch]
    irreducible: tuple[tuple[str, str], ...]

    def graph(self) -> dict[str, list[str]]:
        """The successors of each node, once for each place that goes there."""
        return {node: [e.to for e in edges(jump)] for node, jump in self.jumps.items()}


def edges(jump: Jump) -> list[Edge]:
    """The edges of a jump, from left to right."""
    found: list[Edge] = []
    stack = [jump]
    while stack:
        at = stack.pop()
        if isinstance(at, Edge):
            found.append(at)
        elif at is not None:
            stack += [at.other, at.then]
    return found


def _balanced(value: Operand | Dispatch, cases: list[tuple[int, str]], source: str | None, default: str | None) -> Jump:
    """A decision tree over sorted cases; without ``default`` the value is known to be one of them."""
    if len(cases) > 1:
        middle = len(cases) // 2
        low = _balanced(value, cases[:middle], source, default)
        high = _balanced(value, cases[middle:], source, default)
        return Fork(Test(value, "lt", cases[middle][0]), low, high)
    if not cases:
        assert default is not None
        return Edge(source, default, default)
    number, target = cases[0]
    if default is None:
        return Edge(source, target, target)
    return Fork(Test(value, "eq", number), Edge(source, target, target), Edge(source, default, default))


def _jump(label: str, term: Term) -> Jump:
    match term:
        case Br():
            return Edge(label, term.target, term.target)
        case Cbr():
            if term.then == term.other:
                return Edge(label, term.then, term.then)
            return Fork(Test(term.cond), Edge(label, term.then, term.then), Edge(label, term.other, term.other))
        case Switch():
            return _balanced(term.value, sorted(c for c in term.cases if c[1] != term.default), label, term.default)
        case _:
            return None


def skeleton(function: Function) -> Skeleton:
    """The skeleton of a function that `magpie.mpir.verify` accepts; blocks that nothing reaches are left out."""
    blocks: dict[str, Block] = {b.label: b for b in function.blocks}
    entry = function.blocks[0].label
    jumps = {label: _jump(label, block.term) for label, block in blocks.items()}
    graph = {node: [e.to for e in edges(jump)] for node, jump in jumps.items()}
    order = reverse_postorder(graph, entry)
    found = Skeleton(entry, {n: jumps[n] for n in order}, {}, ())
    loops = find_loops(graph, entry, dominators(graph, entry))
    depth, header = loops.deepest()
    if depth > MOST_NESTED:
        raise too_deep(function, blocks[str(header)].term.loc)
    if loops.irreducible:
        found.irreducible = tuple((str(a), str(b)) for a, b in loops.irreducible)
        _make_reducible(found, function)
    return found


def too_deep(function: Function, loc: Loc | None) -> CompileError:
    """The refusal of loops and ifs that nest too deep, or of too many blocks in cycles of several entries that nest."""
    text = f"control flow of @{function.name} nests more than {MOST_NESTED} deep"
    help = "join conditions, leave early, or use a switch; what is called counts too"
    return CompileError(Diagnostic("MPG_CORE_1409", text, loc or function.loc, help=help))


def _make_reducible(found: Skeleton, function: Function) -> None:
    """Give each cycle of several entries its dispatch, from the outside in."""
    place = {node: k for k, node in enumerate(found.jumps)}
    ways = {node: edges(jump) for node, jump in found.jumps.items()}
    into: dict[str, list[tuple[str, Edge]]] = {node: [] for node in ways}
    for node, leaving in ways.items():
        for edge in leaving:
            into[edge.to].append((node, edge))
    todo = [list(found.jumps)]
    left = _MOST_STEPS
    while todo:
        nodes = todo.pop()
        left -= len(nodes)
        if left < 0:
            raise too_deep(function, None)
        inside = set(nodes)
        for part in strongly_connected({n: [e.to for e in ways[n] if e.to in inside] for n in nodes}, nodes):
            members = set(part)
            order = sorted(part, key=place.__getitem__)
            entries = [n for n in order if any(source not in members for source, _ in into[n])]
            if len(entries) > 1:
                _dispatch(found, entries, into)
                # all ways into the entries lead out of this part of the graph now, and through the dispatch
                todo.append(order)
            else:
                todo.append([n for n in order if n != entries[0]])


def _dispatch(found: Skeleton, entries: list[str], into: dict[str, list[tuple[str, Edge]]]) -> None:
    name = f"dispatch.{len(found.dispatches)}"
    new = Dispatch(name, entries)
    into[name] = []
    for number, entry in enumerate(entries):
        for source, edge in into[entry]:
            assert edge.label is None
            edge.label = (new, number)
            edge.to = name
            into[name].append((source, edge))
    found.jumps[name] = jump = _balanced(new, list(enumerate(entries)), None, None)
    for edge in edges(jump):
        into[edge.to] = [(name, edge)]
    found.dispatches[name] = new
