"""Numbers that are known when a kernel is launched: plain ones, or expressions over what the launch decides.

A kernel that is compiled for one launch has plain numbers only. Without a launch (`magpie build`) they stay expressions
(`magpie.ir.nodes.HostExpr`), which the assembly shows as ``${n * 2}``.
"""

from __future__ import annotations

from typing import Any

from magpie.ir.layout import HOST_OPS
from magpie.ir.nodes import HostExpr

__all__ = ["Known", "add", "compute", "expression", "mul", "text", "trip_count"]

#: A number, or an expression for one.
Known = int | HostExpr


def add(a: Known, b: Known) -> Known:
    """a + b."""
    return compute("add", a, b)


def mul(a: Known, b: Known) -> Known:
    """a * b."""
    return compute("mul", a, b)


def compute(op: str, *operands: Known) -> Known:
    """The sum, product, ... of numbers; an expression where one of them is."""
    if all(isinstance(o, int) for o in operands):
        numbers: list[Any] = list(operands)
        return int(numbers[0] + numbers[1] if op == "add" else numbers[0] * numbers[1])
    assert op in HOST_OPS
    neutral = {"add": 0, "mul": 1}[op]
    a, b = operands
    if op == "mul" and 0 in (a, b):
        return 0
    if neutral in (a, b):
        return b if a == neutral else a
    return (op, expression(a), expression(b))


def expression(known: Known) -> HostExpr:
    """A number as an expression too."""
    return ("const", known) if isinstance(known, int) else known


def trip_count(start: Known, stop: Known, step: Known) -> Known:
    """The length of range(start, stop, step); 0 where the step is."""
    zero: HostExpr = ("const", 0)
    up, down = ("sub", *map(expression, (stop, start))), ("sub", *map(expression, (start, stop)))
    if step == 1:
        return ("max", zero, expression(stop) if start == 0 else up)
    by = expression(step)

    def trips(distance: HostExpr, size: HostExpr) -> HostExpr:
        # Rounded up: (distance + size - 1) // size. What is divided by 0 is 0.
        return ("max", zero, ("floordiv", ("add", distance, ("sub", size, ("const", 1))), size))

    return ("select", ("gt", by, zero), trips(up, by), trips(down, ("neg", by)))


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "shl": "<<", "shr": ">>"}


def text(expr: Known) -> str:
    """An expression as people write it."""
    if isinstance(expr, int):
        return str(expr)
    head = expr[0]
    if head == "const":
        return str(expr[1])
    if head in ("param", "addr"):
        return str(expr[1]) if head == "param" else f"{expr[1]}.addr"
    if head in ("extent", "stride"):
        return f"{expr[1]}.{'shape' if head == 'extent' else 'strides'}[{expr[2]}]"
    if head in ("workgroup_size", "num_workgroups"):
        return f"{head}[{expr[1]}]"
    if head == "cast":
        return f"{expr[1]}({text(expr[2])})"
    if head in _SIGNS:
        return f"({text(expr[1])} {_SIGNS[head]} {text(expr[2])})"
    return f"{head}({', '.join(text(e) for e in expr[1:])})"
