"""What AMD's transcendental unit approximates, for f32 under fastmath; all else is the project's own library."""

from __future__ import annotations

import math

from magpie.backends.llvm.emitter import Code, constant
from magpie.backends.llvm.simt_math import LibraryOps

__all__ = ["STACK", "HipOps"]

#: The address space of stack memory.
STACK = " addrspace(5)"

_LOG2_E = constant(math.log2(math.e), "float")
_LN_2 = constant(math.log(2.0), "float")
_LOG10_2 = constant(math.log10(2.0), "float")


class HipOps(LibraryOps):
    """The pure ops on AMDGPU."""

    def __init__(self, code: Code, *, fast: str = "") -> None:
        super().__init__(code, fast=fast, stack=STACK)

    def approximate(self, op: str, args: list[str]) -> str:
        x = args[0]
        if op == "exp2":
            return self.unit("exp2", x)
        if op == "exp":
            return self.unit("exp2", self.times(x, _LOG2_E))
        if op == "log2":
            return self.unit("log", x)
        if op == "log":
            return self.times(self.unit("log", x), _LN_2)
        if op == "log10":
            return self.times(self.unit("log", x), _LOG10_2)
        if op in ("sin", "cos"):
            return self.unit(op, self.turns(x))
        if op == "tan":
            turns = self.turns(x)
            sine, cosine = (self.unit(f, turns) for f in ("sin", "cos"))
            return self.code.op(f"fdiv {self.fast}float {sine}, {cosine}")
        return ""

    def unit(self, name: str, x: str) -> str:
        """One instruction of the transcendental unit; its sine and cosine take turns of a circle."""
        return self.code.call(f"llvm.amdgcn.{name}.f32", "float", ("float", x))

    def turns(self, x: str) -> str:
        """x in turns, from -0.5 to 0.5."""
        return self.times(self.near_zero(x), self.TURN)
