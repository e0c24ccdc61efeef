"""Passes over Graph IR: functions from a graph to another one. The graph that goes in is not changed."""

from __future__ import annotations

from magpie.frontend.graph.lower.target import Target
from magpie.frontend.graph.nodes import Graph
from magpie.frontend.graph.passes.decompose import decompose
from magpie.frontend.graph.passes.fuse import fuse
from magpie.frontend.graph.passes.recognise import recognise_norms
from magpie.frontend.graph.passes.simplify import eliminate_dead, fold_constants, merge_common

__all__ = ["decompose", "eliminate_dead", "fold_constants", "fuse", "merge_common", "optimise", "recognise_norms"]


def optimise(graph: Graph, level: int, target: Target) -> Graph:
    """The pipeline of a level: 0 only takes composite ops apart, 1 and above simplify and fuse."""
    graph = decompose(graph, target)
    if level == 0:
        return graph
    graph = eliminate_dead(recognise_norms(merge_common(fold_constants(graph))))
    return fuse(graph)
