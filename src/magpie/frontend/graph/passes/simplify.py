"""Constant folding, dead code, common subexpressions."""

from __future__ import annotations

import hashlib
from typing import Any

from magpie.frontend.graph.nodes import Graph, Op, Operand, Prev, Step, Value
from magpie.frontend.graph.reference import evaluate_op

__all__ = ["eliminate_dead", "fold_constants", "merge_common", "renamed"]

#: Elements above which a constant that is larger than what it is made of is left to be computed at run time.
_GROWTH = 1 << 16


def renamed(op: Op, names: dict[Value, Value]) -> Op:
    """The op on other operands; itself where none is replaced."""
    if not any(v in names for v in op.reads):
        return op

    def new(x: Operand) -> Operand:
        return names.get(x, x) if isinstance(x, Value) else x

    def steps(old: tuple[Step, ...]) -> list[Step]:
        return [Step(s.op, tuple(map(new, s.args)), s.attrs, s.dtype, s.loc) for s in old]

    return Op(
        op.name, map(new, op.operands), op.result, op.attrs, op.loc, steps(op.prologue), steps(op.epilogue), op.own
    )


def fold_constants(graph: Graph) -> Graph:
    """Ops on constants alone become constants, computed by the reference."""
    known: dict[Value, Any] = {}
    done = graph.copy()
    done.ops = []
    for op in graph.ops:
        if op.name == "const":
            known[op.result] = op.attrs["data"]
        elif all(v in known for v in op.reads):
            grows = op.result.size > _GROWTH and op.result.size > sum(v.size for v in op.reads)
            if not grows:
                data = known[op.result] = evaluate_op(op, known)
                op = Op("const", (), op.result, {"data": data, "dtype": op.result.dtype}, op.loc)
        done.ops.append(op)
    return done


def eliminate_dead(graph: Graph) -> Graph:
    """Ops that no output needs are dropped; inputs stay."""
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if op.result in needed:
            kept.append(op)
            needed.update(op.reads)
    done = graph.copy()
    done.ops = kept[::-1]
    return done


def merge_common(graph: Graph) -> Graph:
    """Of ops that compute the same, one stays. Outputs keep their names."""
    done = graph.copy()
    done.ops = []
    names: dict[Value, Value] = {}
    seen: dict[Any, Value] = {}
    for op in graph.ops:
        op = renamed(op, names)
        key = _key(op)
        first = seen.setdefault(key, op.result)
        if first is not op.result and op.result not in graph.outputs:
            names[op.result] = first
        else:
            done.ops.append(op)
    return done


def _key(op: Op) -> Any:
    if op.name == "const":
        data = op.attrs["data"]
        return "const", op.result.dtype, data.shape, hashlib.sha256(data.tobytes()).digest()

    def operand(x: Operand) -> Any:
        return ("prev", x.index) if isinstance(x, Prev) else id(x)

    def steps(part: tuple[Step, ...]) -> Any:
        return tuple((s.op, tuple(map(operand, s.args)), repr(s.attrs)) for s in part)

    attrs = repr(sorted(op.attrs.items()))
    return op.name, tuple(map(operand, op.operands)), attrs, steps(op.prologue), steps(op.epilogue)
