"""What the steps of epilogues and prologues are: elementwise ops on an op's result, or on what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magpie.frontend.graph.nodes import Operand, Prev, Value
from magpie.frontend.graph.ops import infer
from magpie.frontend.graph.rules import Mismatch, broadcast_shapes

__all__ = ["epilogue_value"]


def epilogue_value(name: str, args: Sequence[Operand], attrs: dict[str, Any], results: Sequence[Value]) -> Value:
    """The value of an epilogue's step; ``results`` are those before it, the op's own first.

    Raises Mismatch where the step's result has another shape than the op's.
    """
    parts = [results[a.index] if isinstance(a, Prev) else a for a in args]
    dtype, shape = infer(name, parts, attrs)
    own = results[0].shape
    if shape != own or any(broadcast_shapes(p.shape, own) != own for p in parts):
        raise Mismatch(
            "MPG_GRAPH_1005",
            f"a step of the epilogue gives {list(shape)}, and the op {list(own)}",
            "all steps keep the shape",
        )
    return Value("_", dtype, shape)
