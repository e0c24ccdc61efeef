"""Structured control flow of a function: the specification's structurizer (section 7.2), as a tree of nodes.

Phases: dominators (Lengauer and Tarjan), natural loops by back edges, regions, patterns. A region is formed from the
dominator tree, as in Ramsey, Beyond Relooper (ICFP 2022): a block that several edges lead to stands behind the code of
its immediate dominator, one that a single edge leads to stands where that edge is, and what a loop's blocks dominate
without belonging to it stands behind the loop, so that work-items that leave at different trips meet there. An edge to
what comes next anyway is no jump: if, if-else, short circuits, while, do-while, break and continue come out of that.

The tree is made without recursion, and its lists are in program order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from magpie.mpir.cfg import dominators, find_loops, reverse_postorder
from magpie.mpir.skeleton import Edge, Fork, Jump, Skeleton, Test

__all__ = ["Again", "Code", "Exit", "If", "Item", "Leave", "Loop", "Move", "Scope", "structure", "walk_items"]


@dataclass(slots=True, eq=False)
class Code:
    """The instructions of a block, without its phis and its terminator."""

    label: str


@dataclass(slots=True, eq=False)
class Move:
    """What an edge carries: the phis of its target, all at once, and the label of a dispatch."""

    edge: Edge


@dataclass(slots=True, eq=False)
class If:
    test: Test
    then: list[Item] = field(default_factory=list)
    other: list[Item] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Loop:
    """Repeats: the end of ``body`` leads back to its start. What leaves it without a name comes to ``after``.

    ``latches`` are the nodes whose edges lead back."""

    label: str
    after: str | None
    latches: tuple[str, ...]
    body: list[Item] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Scope:
    """Runs once; its end, and every `Exit` with its label, lead to what stands behind it: the block ``label``."""

    label: str
    body: list[Item] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Exit:
    """Go behind the scope called ``label``."""

    label: str


@dataclass(slots=True, eq=False)
class Again:
    """Begin the next trip of the loop called ``label``."""

    label: str


@dataclass(slots=True, eq=False)
class Leave:
    """End the function, as the terminator of block ``label`` says."""

    label: str


Item = Code | Move | If | Loop | Scope | Exit | Again | Leave


def walk_items(items: list[Item]) -> Iterator[Item]:
    """Every item of the tree, in program order."""
    stack = [iter(items)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
            continue
        yield item
        if isinstance(item, If):
            stack += [iter(item.other), iter(item.then)]
        elif isinstance(item, Loop | Scope):
            stack.append(iter(item.body))


class _Places:
    """Where each node of the skeleton stands: behind which node's code or loop, or where its only edge is."""

    def __init__(self, found: Skeleton, small: Callable[[str], bool]) -> None:
        graph = found.graph()
        order = reverse_postorder(graph, found.entry)
        idom = dominators(graph, found.entry)
        loops = find_loops(graph, found.entry, idom)
        assert not loops.irreducible
        of_loop = loops.around()
        self.headers = frozenset(str(h) for h in of_loop)
        around = {n: of_loop[loops.inner[n]] if n in loops.inner else () for n in order}
        rank = {n: i for i, n in enumerate(order)}
        edges = dict.fromkeys(order, 0)  # that lead forward
        self.latches: dict[str, list[str]] = {}
        for node in order:
            for s in graph[node]:
                edges[s] += rank[s] > rank[node]
            for s in dict.fromkeys(s for s in graph[node] if rank[s] <= rank[node]):
                self.latches.setdefault(s, []).append(node)
        parents = set(idom.values())
        self.behind_code: dict[str, list[str]] = {}
        self.behind_loop: dict[str, list[str]] = {}
        for node in order[1:]:
            above = idom[node]
            here, there = around[node], around[above]
            left = next((h for k, h in enumerate(there) if k >= len(here) or here[k] != h), None)
            if left is not None:
                self.behind_loop.setdefault(str(left), []).append(node)
            elif edges[node] > 1:
                self.behind_code.setdefault(above, []).append(node)
        for header, nodes in self.behind_loop.items():
            self.behind_loop[header] = self._apart(
                nodes, idom, header, lambda n: edges[n] == 1 and n not in parents and small(n)
            )

    @staticmethod
    def _apart(nodes: list[str], idom: dict[str, str], header: str, inline: Callable[[str], bool]) -> list[str]:
        """What stands behind a loop: not the short blocks on single ways out (`if found { at = i; break }`), unless
        there is nothing else; then the one that the header goes to, or the last, comes after the loop."""
        apart = [n for n in nodes if not inline(n)]
        return apart or [next((n for n in nodes if idom[n] == header), nodes[-1])]


@dataclass(slots=True, eq=False)
class _Task:
    """Append ``node``, and what stands behind it, to ``out``, whose end leads to ``fall``."""

    node: str
    out: list[Item]
    fall: str | None


def structure(found: Skeleton, carries: Callable[[Edge], bool], small: Callable[[str], bool]) -> list[Item]:
    """The tree of a skeleton. ``carries``: whether an edge moves anything; ``small``: whether a block may run inside a
    loop that it leaves (it is short, and its work-items need not meet)."""
    places = _Places(found, small)
    placed = {n for group in (places.behind_code, places.behind_loop) for nodes in group.values() for n in nodes}
    items: list[Item] = []
    todo = [_Task(found.entry, items, None)]
    opened: set[str] = set()

    def scopes(out: list[Item], fall: str | None, nodes: list[str]) -> tuple[list[Item], str | None]:
        """Put ``nodes`` one after the other at the end of ``out``; where the code before them goes."""
        for node in reversed(nodes):
            scope = Scope(node)
            out.append(scope)
            todo.append(_Task(node, out, fall))
            out, fall = scope.body, node
        return out, fall

    def follow(edge: Edge, out: list[Item], fall: str | None) -> None:
        if carries(edge):
            out.append(Move(edge))
        if edge.to == fall:
            return
        if edge.to in opened:
            out.append(Again(edge.to))
        elif edge.to in placed:
            out.append(Exit(edge.to))
        else:
            todo.append(_Task(edge.to, out, fall))

    while todo:
        task = todo.pop()
        node, out, fall = task.node, task.out, task.fall
        if node in places.headers:
            out, fall = scopes(out, fall, places.behind_loop.get(node, []))
            loop = Loop(node, fall, tuple(places.latches[node]))
            out.append(loop)
            opened.add(node)
            out, fall = loop.body, node
        out, fall = scopes(out, fall, places.behind_code.get(node, []))
        if node not in found.dispatches:
            out.append(Code(node))
        jumps: list[tuple[Jump, list[Item]]] = [(found.jumps[node], out)]
        while jumps:
            jump, into = jumps.pop()
            if jump is None:
                into.append(Leave(node))
            elif isinstance(jump, Fork):
                choice = If(jump.test)
                into.append(choice)
                jumps += [(jump.other, choice.other), (jump.then, choice.then)]
            else:
                follow(jump, into, fall)
    return items
