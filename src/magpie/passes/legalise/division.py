"""Division and square root, correctly rounded where the target's are a few units off (`magpie.lib.math.quotient`)."""

from __future__ import annotations

import math
from dataclasses import replace

from magpie.dtypes import DType, f32, f64
from magpie.ir.nodes import Function, Kernel, Node, walk
from magpie.passes.inline import inline_calls
from magpie.passes.legalise.calc import Calc, constant
from magpie.passes.legalise.target import Target
from magpie.passes.math_library import library_code
from magpie.passes.rewrite import Rewriter

__all__ = ["lower_division"]


def lower_division(kernel: Kernel, target: Target) -> Kernel:
    """``kernel`` with exact division and square roots; what is left of the target's own is ``rough``."""
    if not any(_wanted(kernel, n, target) for n in walk(kernel.body)):
        return kernel
    functions: dict[Function, None] = {}

    def exact(rw: Rewriter, node: Node) -> Node:
        if not _wanted(kernel, node, target):
            return rw.keep(node)
        args, op, t = [rw.value(a) for a in node.args], node.op, node.dtype
        by = constant(args[-1]) if op == "div" else None
        if by is not None and 2.0**-60 < abs(by) < 2.0**60:
            reciprocal = rw.out.const(1.0 / by, t)
            if abs(math.frexp(by)[0]) == 0.5:  # a power of two, and so is that
                return Calc(rw.out, node)("mul", args[0], reciprocal)
            op, args = "div_by", [*args, reciprocal]
        function = _code(op, t)
        functions[function] = None
        call = rw.out.emit("call", *args, function=function)
        return rw.out.emit("call_result", type=node.type, call=call, index=0)

    body = Rewriter(dict.fromkeys(("div", "sqrt"), exact)).region(kernel.body)
    return inline_calls(replace(kernel, body=body, functions=list(functions)))


def _code(op: str, t: DType) -> Function:
    function = library_code("math.quotient", f"{op}_{t}", (t,) * {"sqrt": 1, "div": 2, "div_by": 3}[op])
    for node in walk(function.body):
        if node.op in ("div", "rsqrt"):
            node.attrs["rough"] = True
    return function


def _wanted(kernel: Kernel, node: Node, target: Target) -> bool:
    if node.op not in ("div", "sqrt") or node.type not in (f32, f64) or "rough" in node.attrs:
        return False
    fast = kernel.fastmath and "strict" not in node.attrs
    return not fast and not target.exact(node.op, node.dtype)
