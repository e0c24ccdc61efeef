"""Graphs of control flow: order, dominators, loops. A graph maps each node to its successors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from magpie.records import record

__all__ = ["Loops", "dominates", "dominators", "find_loops", "predecessors", "reverse_postorder", "strongly_connected"]

N = TypeVar("N", bound=Hashable)
Graph = Mapping[N, Sequence[N]]


def reverse_postorder(graph: Graph[N], entry: N) -> list[N]:
    """The nodes that ``entry`` reaches, each before its successors where no cycle forbids it."""
    order: list[N] = []
    seen = {entry}
    stack = [(entry, iter(graph[entry]))]
    while stack:
        node, successors = stack[-1]
        for s in successors:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(graph[s])))
                break
        else:
            stack.pop()
            order.append(node)
    return order[::-1]


def predecessors(graph: Graph[N], nodes: Iterable[N]) -> dict[N, list[N]]:
    """Of each of ``nodes`` those of them that lead to it, each once."""
    found: dict[N, dict[N, None]] = {n: {} for n in nodes}
    for n in found:
        for s in graph[n]:
            if s in found:
                found[s][n] = None
    return {n: list(before) for n, before in found.items()}


def dominators(graph: Graph[N], entry: N) -> dict[N, N]:
    """The immediate dominator of every node that ``entry`` reaches, but of ``entry`` itself.

    Lengauer and Tarjan, A Fast Algorithm for Finding Dominators in a Flowgraph, TOPLAS 1 (1979), with path compression.
    """
    vertex: list[N] = []  # by number of the depth-first search
    number: dict[N, int] = {}
    parent: list[int] = []
    stack: list[tuple[N, int]] = [(entry, -1)]
    while stack:
        node, above = stack.pop()
        if node in number:
            continue
        number[node] = len(vertex)
        vertex.append(node)
        parent.append(above)
        stack.extend((s, number[node]) for s in reversed(graph[node]) if s not in number)
    count = len(vertex)
    before: list[list[int]] = [[] for _ in range(count)]
    for v, node in enumerate(vertex):
        for s in graph[node]:
            before[number[s]].append(v)
    semi = list(range(count))
    best = list(range(count))  # of the path to the root of its tree in the forest, the vertex with the least semi
    ancestor = [-1] * count
    bucket: list[list[int]] = [[] for _ in range(count)]
    idom = [0] * count

    def evaluate(v: int) -> int:
        path = []
        while ancestor[v] >= 0 and ancestor[ancestor[v]] >= 0:
            path.append(v)
            v = ancestor[v]
        for u in reversed(path):
            above = ancestor[u]
            if semi[best[above]] < semi[best[u]]:
                best[u] = best[above]
            ancestor[u] = ancestor[above]
        return best[path[0] if path else v]

    for w in range(count - 1, 0, -1):
        semi[w] = min([semi[w], *(semi[evaluate(v)] for v in before[w])])
        bucket[semi[w]].append(w)
        ancestor[w] = parent[w]
        for v in bucket[parent[w]]:
            u = evaluate(v)
            idom[v] = u if semi[u] < semi[v] else parent[w]
        bucket[parent[w]].clear()
    for w in range(1, count):
        if idom[w] != semi[w]:
            idom[w] = idom[idom[w]]
    return {vertex[w]: vertex[idom[w]] for w in range(1, count)}


def intervals(idom: Mapping[N, N], entry: N) -> dict[N, tuple[int, int]]:
    """When a walk of the dominator tree enters and leaves each node: a dominates b where a's interval holds b's."""
    children: dict[N, list[N]] = {entry: []}
    for node in idom:
        children.setdefault(node, [])
    for node, above in idom.items():
        children[above].append(node)
    entered: dict[N, int] = {}
    found: dict[N, tuple[int, int]] = {}
    stack: list[tuple[N, bool]] = [(entry, False)]
    clock = 0
    while stack:
        node, done = stack.pop()
        clock += 1
        if done:
            found[node] = (entered[node], clock)
            continue
        entered[node] = clock
        stack.append((node, True))
        stack.extend((c, False) for c in reversed(children[node]))
    return found


def dominates(times: Mapping[N, tuple[int, int]], a: N, b: N) -> bool:
    """Whether every way from the entry to ``b`` goes through ``a``; ``times`` are those of `intervals`."""
    return times[a][0] <= times[b][0] and times[b][1] <= times[a][1]


@record
class Loops:
    """The natural loops of a graph, each known by its header. ``inner``: the innermost loop that holds a node, for
    nodes that a loop holds. ``outer``: the loop around a loop, for those in another one. ``irreducible``: edges that
    close a cycle without leading to a dominator of where they start."""

    inner: dict[object, object]
    outer: dict[object, object]
    irreducible: tuple[tuple[object, object], ...]

    def around(self) -> dict[object, tuple[object, ...]]:
        """Of each loop it and the loops around it, the outermost first."""
        found: dict[object, tuple[object, ...]] = {}
        for header in self.inner:
            if self.inner[header] == header:
                path = []
                while header is not None and header not in found:
                    path.append(header)
                    header = self.outer.get(header)
                above = found.get(header, ())
                for h in reversed(path):
                    found[h] = above = (*above, h)
        return found

    def deepest(self) -> tuple[int, object]:
        """How many loops stand in each other at most, and the header of the innermost of these; 0 without loops."""
        depths: dict[object, int] = {None: 0}
        for header in (h for h, inner in self.inner.items() if h == inner):
            path = []
            while header not in depths:
                path.append(header)
                header = self.outer.get(header)
            for h in reversed(path):
                depths[h] = depths[self.outer.get(h)] + 1
        return max(((d, h) for h, d in depths.items()), key=lambda pair: pair[0])


def find_loops(graph: Graph[N], entry: N, idom: Mapping[N, N]) -> Loops:
    """The natural loops of a graph: a back edge leads to a dominator of where it starts.

    From the innermost loop outwards; a loop that was found counts as one node, its header, for the loops around it
    (as in Havlak, Nesting of Reducible and Irreducible Loops, TOPLAS 19 (1997)), so each edge is looked at once.
    """
    order = reverse_postorder(graph, entry)
    rank = {n: i for i, n in enumerate(order)}
    times = intervals(idom, entry)
    before = predecessors(graph, order)
    inner: dict[object, object] = {}
    outer: dict[object, object] = {}
    odd: list[tuple[object, object]] = []
    whole = dict(zip(order, order, strict=True))  # the outermost loop found so far that holds a node, or nearer to it

    def outermost(node: N) -> N:
        while whole[node] != node:
            whole[node] = whole[whole[node]]
            node = whole[node]
        return node

    for header in reversed(order):  # an inner header comes before an outer one
        tails = [p for p in before[header] if rank[p] >= rank[header]]
        odd += [(p, header) for p in reversed(tails) if not dominates(times, header, p)]
        todo = [p for p in tails if dominates(times, header, p)]
        if todo:
            inner[header] = header
        while todo:
            node = outermost(todo.pop())
            if node != header:
                if node in inner:
                    outer[node] = header
                else:
                    inner[node] = header
                whole[node] = header
                todo += before[node]
    return Loops(inner, outer, tuple(reversed(odd)))


def strongly_connected(graph: Graph[N], nodes: Iterable[N]) -> list[list[N]]:
    """The strongly connected components among ``nodes`` that hold a cycle (Tarjan 1972), in an order that is fixed."""
    inside = dict.fromkeys(nodes)
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    open_: dict[N, None] = {}
    found: list[list[N]] = []
    for root in inside:
        if root in index:
            continue
        stack = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        open_[root] = None
        while stack:
            node, successors = stack[-1]
            for s in successors:
                if s not in inside:
                    continue
                if s not in index:
                    index[s] = low[s] = len(index)
                    open_[s] = None
                    stack.append((s, iter(graph[s])))
                    break
                if s in open_:
                    low[node] = min(low[node], index[s])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
                if low[node] == index[node]:
                    part: list[N] = []
                    while not part or part[-1] != node:
                        part.append(open_.popitem()[0])
                    if len(part) > 1 or node in graph[node]:
                        found.append(part[::-1])
    return found
