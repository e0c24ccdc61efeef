"""Math on GPU targets: the project's own library in strict mode, what the hardware approximates under fastmath.

The functions of `magpie.lib.math` become functions of the module, each made when a kernel first calls it; LLVM decides
which to take in. Nothing of a vendor's library is used, so that the bits are those of every other target (RULES 22).
"""

from __future__ import annotations

import functools
import math

from magpie.backends.llvm.elementwise import Ops
from magpie.backends.llvm.emitter import Code, Module, constant, element
from magpie.backends.llvm.simt import Simt
from magpie.dtypes import DType, by_name, f32, f64
from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Buffer, Kernel, Node, Scalar

__all__ = ["LibraryOps"]

# 2 pi in two parts, of which the first times a small integer is exact.
_TURN_HIGH = constant(6.28125, "float")
_TURN_LOW = constant(2.0 * math.pi - 6.28125, "float")


class LibraryOps(Ops):
    """The pure ops, with the functions of the library and, where ``fast`` is set, the hardware's approximations.

    ``stack`` is the address space of stack memory, as LLVM writes it behind a pointer type.
    """

    #: 1 / (2 pi).
    TURN = constant(1.0 / (2.0 * math.pi), "float")

    def __init__(self, code: Code, *, fast: str = "", stack: str = "") -> None:
        super().__init__(code, 1, fast=fast, native_half=True)
        self.stack = stack
        self.library = self.function

    def approximate(self, op: str, args: list[str]) -> str:
        """An f32 function by the hardware; empty where that has nothing faster than the library."""
        return ""

    def times(self, x: str, y: str) -> str:
        return self.code.op(f"fmul {self.fast}float {x}, {y}")

    def near_zero(self, x: str) -> str:
        """x less a whole number of turns of a circle."""
        turns = self.intrinsic("roundeven", "float", [self.code.op(f"fmul float {x}, {self.TURN}")])
        back = self.code.op(f"fneg float {turns}")
        near = self.intrinsic("fma", "float", [back, _TURN_HIGH, x])
        return self.intrinsic("fma", "float", [back, _TURN_LOW, near])

    def function(self, op: str, t: DType, args: list[str], lanes: int = 1) -> str:
        """A call of the library on scalars."""
        if self.fast and t is f32:
            found = self.approximate(op, args)
            if found:
                return found
        module = self.code.module
        name = f"math.{op}.{t.name}"
        kernel = _as_kernel(op, t.name)
        module.helper(name, lambda: _emit(name, kernel, module, self.stack))
        elem = element(t)
        operands = ", ".join(f"{element(p.type)} {a}" for p, a in zip(kernel.scalars, args, strict=True))  # type: ignore[arg-type]
        return self.code.op(f"call {elem} @{name}({operands})")

    def each_lane(self, function: str, elem: str, args: list[str]) -> str:
        """What other targets call the system's libm for."""
        return self.function(function.removesuffix("f"), f64 if elem == "double" else f32, args)

    def remainder_of(self, elem: str, x: str, y: str) -> str:
        # LLVM expands frem here into x - trunc(x / y) * y, which is not exact.
        return self.each_lane("fmod", elem, [x, y])


@functools.cache
def _as_kernel(op: str, type_name: str) -> Kernel:
    """A kernel with the function's parameters that calls it and stores its result last."""
    from magpie.passes import prepare
    from magpie.passes.math_library import math_function

    function = math_function(op, by_name(type_name))
    out = Buffer("out", function.results[0], 1, "write")
    inputs = [Scalar(f"a{k}", p.type) for k, p in enumerate(function.params)]
    kernel = Kernel(f"math.{op}.{type_name}", [*inputs, out], functions=[function])
    b = Builder(kernel.body)
    values = [b.emit("param", type=p.type, name=p.name) for p in inputs]
    call = b.emit("call", *values, function=function)
    result = b.emit("call_result", type=function.results[0], call=call, index=0)
    b.store(out, (b.const(0, by_name("index")),), result)
    return prepare(kernel)


class _Function(Simt):
    """The body of a library function: scalars in, one scalar out."""

    def __init__(self, kernel: Kernel, module: Module, stack: str) -> None:
        self.stack = stack
        super().__init__(kernel, module)

    def operations(self, fast: str, native_half: bool) -> Ops:
        return LibraryOps(self.c, stack=self.stack)

    def parameter(self, name: str, t: DType) -> str:
        return f"%{name}"

    def store(self, node: Node) -> None:
        value = node.args[-1]
        self.c.ret(f"{element(value.dtype)} {self.map[value]}")

    def pointer(self, array: Array) -> tuple[str, str]:
        raise NotImplementedError

    def coordinate(self, op: str, dim: int) -> str:
        raise NotImplementedError

    def extent(self, array: Array, dim: int) -> str:
        raise NotImplementedError

    def stride(self, array: Array, dim: int) -> str:
        raise NotImplementedError

    def barrier(self, node: Node) -> None:
        raise NotImplementedError

    def subgroup(self, node: Node, args: list[str]) -> str:
        raise NotImplementedError


def _emit(name: str, kernel: Kernel, module: Module, stack: str) -> str:
    f = _Function(kernel, module, stack)
    start = f.c.block("start")
    f.c.place(start)
    f.region(kernel.body)
    f.c.entry.end = f"  br label %{start.label}"
    result = element(kernel.body[-1].args[-1].dtype)
    params = ", ".join(f"{element(p.type)} %{p.name}" for p in kernel.scalars)  # type: ignore[arg-type]
    return f.c.function(f"define internal {result} @{name}({params}) nounwind")
