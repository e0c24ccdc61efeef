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
    """``kernel`` with exact division and square roots; those of the target that are left are ``rough``."""
    ops = {op for op, exact in (("div", target.div), ("sqrt", target.sqrt)) if not exact}
    if not any(n.op in ops and _wanted(kernel, n) for n in walk(kernel.body)):
        return kernel
    functions: dict[Function, None] = {}

    def exact(rw: Rewriter, node: Node) -> Node:
        if not _wanted(kernel, node):
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

    body = Rewriter(dict.fromkeys(ops, exact)).region(kernel.body)
    return inline_calls(replace(kernel, body=body, functions=list(functions)))


def _code(op: str, t: DType) -> Function:
    function = library_code("math.quotient", f"{op}_{t}", (t,) * {"sqrt": 1, "div": 2, "div_by": 3}[op])
    for node in walk(function.body):
        if node.op in ("div", "sqrt"):
            node.attrs["rough"] = True
    return function


def _wanted(kernel: Kernel, node: Node) -> bool:
    fast = kernel.fastmath and "strict" not in node.attrs
    return node.type in (f32, f64) and not fast and "rough" not in node.attrs
