"""What the special function unit approximates, for f32 under fastmath; all else is the project's own library."""

from __future__ import annotations

import math

from magpie.backends.llvm.emitter import Code, constant
from magpie.backends.llvm.simt_math import LibraryOps
from magpie.dtypes import DType, f32
from magpie.ir.nodes import Node

__all__ = ["PtxOps"]

_LOG2_E = constant(math.log2(math.e), "float")
_LN_2 = constant(math.log(2.0), "float")
_LOG10_2 = constant(math.log10(2.0), "float")


class PtxOps(LibraryOps):
    """The pure ops on NVPTX; ``number`` is that of the architecture."""

    def __init__(self, code: Code, *, fast: str = "", number: int = 70) -> None:
        super().__init__(code, fast=fast)
        self.arch_number = number

    # The unit has no denormals: with them each of its instructions would stand among three more, which scale its
    # operand and its result.
    def emit(self, node: Node, args: list[str], t: DType, elem: str) -> str:
        if self.fast and t is f32 and node.op in ("sqrt", "rsqrt") and "strict" not in node.attrs:
            return self.unit(f"{node.op}.approx.ftz.f", args[0])
        return super().emit(node, args, t, elem)

    def approximate(self, op: str, args: list[str]) -> str:
        x = args[0]
        if op == "exp2":
            return self.unit("ex2.approx.ftz.f", x)
        if op == "exp":
            return self.unit("ex2.approx.ftz.f", self.times(x, _LOG2_E))
        if op == "log2":
            return self.unit("lg2.approx.ftz.f", x)
        if op == "log":
            return self.times(self.unit("lg2.approx.ftz.f", x), _LN_2)
        if op == "log10":
            return self.times(self.unit("lg2.approx.ftz.f", x), _LOG10_2)
        # The unit's sine and cosine are good near zero only: their error is absolute, 2**-20.5 within pi.
        if op in ("sin", "cos"):
            return self.unit(f"{op}.approx.ftz.f", self.near_zero(x))
        if op == "tan":
            near = self.near_zero(x)
            sine, cosine = (self.unit(f"{f}.approx.ftz.f", near) for f in ("sin", "cos"))
            return self.code.op(f"fdiv {self.fast}float {sine}, {cosine}")
        if op == "tanh" and self.arch_number >= 75:
            return self.unit("tanh.approx.f32", x)
        return ""

    def unit(self, name: str, x: str) -> str:
        """One instruction of the special function unit."""
        return self.code.call(f"llvm.nvvm.{name}", "float", ("float", x))
