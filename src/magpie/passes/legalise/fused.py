"""`fma` with one rounding on targets whose own has two: through f64 for f32, else out of integers."""

from __future__ import annotations

from dataclasses import replace

from magpie.dtypes import f32, f64
from magpie.ir.nodes import Function, Kernel, Node, walk
from magpie.passes.inline import inline_calls
from magpie.passes.legalise.calc import Calc
from magpie.passes.legalise.halves import sum_to_odd
from magpie.passes.legalise.target import Target
from magpie.passes.math_library import library_code
from magpie.passes.rewrite import Rewriter

__all__ = ["lower_fma"]


def lower_fma(kernel: Kernel, target: Target) -> Kernel:
    """``kernel`` without `fma`, where the target lacks it; in fast-math code only what is ``strict`` cares."""
    if target.fma or not any(_wanted(kernel, n) for n in walk(kernel.body)):
        return kernel
    functions: dict[Function, None] = {}

    def fma(rw: Rewriter, node: Node) -> Node:
        if not _wanted(kernel, node):
            return rw.keep(node)
        args = [rw.value(a) for a in node.args]
        c = Calc(rw.out, node)
        c.strict = c.strict or kernel.fastmath
        if node.type is f32 and target.f64:
            # The product is exact in f64. The sum is rounded to odd there, so that rounding it again is rounding once.
            x, y, z = (c.cast(a, f64) for a in args)
            return c.cast(sum_to_odd(c, c("mul", x, y), z), f32)
        name = f"fma_{node.dtype}" if target.denormals or node.type is f64 else "fma_normal_f32"
        function = library_code("math.fused", name, (node.dtype,) * 3)
        functions[function] = None
        call = rw.out.emit("call", *args, function=function)
        return rw.out.emit("call_result", type=node.type, call=call, index=0)

    body = Rewriter({"fma": fma}).region(kernel.body)
    return inline_calls(replace(kernel, body=body, functions=list(functions)))


def _wanted(kernel: Kernel, node: Node) -> bool:
    return node.op == "fma" and node.type in (f32, f64) and not (kernel.fastmath and "strict" not in node.attrs)
