"""Memory planning: where every value lies, so that values that are never needed at once share memory."""

from __future__ import annotations

from collections.abc import Callable

from magpie.frontend.graph.nodes import Graph, Op, Value
from magpie.frontend.graph.ops import OPS
from magpie.records import record

__all__ = ["Plan", "plan_memory", "storage"]


@record
class Plan:
    """``offsets`` of values in units of the plan, from the start of one memory of ``size`` units.

    Inputs and constants come first, and nothing is ever put over them. ``peak`` is what the values that ops make take,
    ``bound`` the most that are needed at once: no plan takes less.
    """

    offsets: dict[Value, int]
    size: int
    peak: int
    bound: int


def storage(graph: Graph) -> dict[Value, Value]:
    """The value in whose memory each value lies: another one for the result of a reshape that is no output."""
    found = {v: v for v in graph.values()}
    for op in graph.ops:
        if shares(op, graph):
            (source,) = op.reads
            found[op.result] = found[source]
    return found


def shares(op: Op, graph: Graph) -> bool:
    """Whether an op's result is what it reads, under another shape."""
    return OPS[op.name].kind == "view" and op.result not in graph.outputs


def plan_memory(graph: Graph, size: Callable[[Value], int], align: int = 1) -> Plan:
    """Place every value of a graph. ``size`` gives a value's units; every one begins at a multiple of ``align``.

    A value lives from its op to the last op that reads it, both included, so that a result never lies over what its op
    reads; outputs live to the end. Values are placed from the largest to the smallest, each at the lowest place that is
    free while it lives.
    """
    home = storage(graph)
    constants = {op.result for op in graph.ops if op.name == "const"}
    offsets: dict[Value, int] = {}
    end = 0
    for value in (*graph.inputs, *(op.result for op in graph.ops if op.name == "const")):
        offsets[value] = end
        end = _up(end + size(value), align)
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for k, op in enumerate(graph.ops):
        for value in (op.result, *op.reads):
            owner = home.get(value)  # constants that are written into the code have none
            if owner is not None and owner not in offsets and owner not in constants:
                first.setdefault(owner, k)
                last[owner] = k
    for value in graph.outputs:
        if home[value] in first:
            last[home[value]] = len(graph.ops)
    placed: list[Value] = []
    for value in sorted(first, key=lambda v: (-size(v), first[v])):
        at = end
        units = size(value)
        overlapping = [v for v in placed if first[v] <= last[value] and first[value] <= last[v]]
        for other in sorted(overlapping, key=offsets.__getitem__):
            if at + units <= offsets[other]:
                break
            at = max(at, _up(offsets[other] + size(other), align))
        offsets[value] = at
        placed.append(value)
    top = max((offsets[v] + size(v) for v in placed), default=end)
    bound = max(
        (sum(size(v) for v in placed if first[v] <= k <= last[v]) for k in range(len(graph.ops) + 1)),
        default=0,
    )
    for value, owner in home.items():
        offsets[value] = offsets[owner]
    return Plan(offsets, top, top - end, bound)


def _up(n: int, align: int) -> int:
    return -(-n // align) * align
