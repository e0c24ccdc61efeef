"""The pure ops of the table as SPIR-V instructions, on scalars.

What a device does not do as the table says was made of other ops before (`magpie.passes.legalise`): here a division has
a divisor that is neither 0 nor overflows, a float that becomes an integer is in its range, a half is computed as one
where the device can. Integers have no sign in their type; the instruction has it.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.spirv.values import Values
from magpie.dtypes import DType, f32, u32, u64
from magpie.ir.nodes import Node

__all__ = ["Elementwise", "knows"]

_INT = {"add": "IAdd", "sub": "ISub", "mul": "IMul"}
_FLOAT = {"add": "FAdd", "sub": "FSub", "mul": "FMul", "div": "FDiv"}
_BITS = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}
_LOGICAL = {"and": "LogicalAnd", "or": "LogicalOr", "xor": "LogicalNotEqual"}
_FLOAT_COMPARE = {
    "eq": "FOrdEqual",
    "ne": "FUnordNotEqual",
    "lt": "FOrdLessThan",
    "le": "FOrdLessThanEqual",
    "gt": "FOrdGreaterThan",
    "ge": "FOrdGreaterThanEqual",
}
_INT_COMPARE = {"lt": "LessThan", "le": "LessThanEqual", "gt": "GreaterThan", "ge": "GreaterThanEqual"}
# Exact on every device, but for sqrt, which is where the profile says so.
_ROUNDING = {"sqrt": "Sqrt", "floor": "Floor", "ceil": "Ceil", "trunc": "Trunc", "round": "RoundEven"}


class Elementwise(Values):
    """Emits pure ops; ``t`` is the type of the first operand."""

    def emit(self, node: Node, args: list[int], t: DType) -> int:
        """The value of a pure op on values of type ``t``."""
        method = _METHODS.get(node.op)
        if method is None:
            raise NotImplementedError(node.op)
        if self.fast and "strict" in node.attrs:  # of the math library, which rounding errors are part of
            self.fast = False
            try:
                return method(self, node.op, t, args)
            finally:
                self.fast = True
        return method(self, node.op, t, args)

    # --- arithmetic ----------------------------------------------------------------------------------------------
    def arithmetic(self, op: str, t: DType, args: list[int]) -> int:
        if t.is_float:
            return self.rounding(_FLOAT[op], self.type(t), *args)
        a, b = args
        unit = 1 if op == "mul" else 0
        if self.number(b) == unit:
            return a
        if op != "sub" and self.number(a) == unit:
            return b
        return self.op(_INT[op], self.type(t), a, b)

    def neg(self, op: str, t: DType, args: list[int]) -> int:
        if t.is_float:
            return self.rounding("FNegate", self.type(t), *args)
        return self.op("SNegate", self.type(t), *args)

    def abs(self, op: str, t: DType, args: list[int]) -> int:
        if t.is_float:
            return self.ext("FAbs", self.type(t), *args)
        return self.ext("SAbs", self.type(t), *args) if t.kind == "int" else args[0]

    def minmax(self, op: str, t: DType, args: list[int]) -> int:
        """By comparison: of floats under fastmath alone, with NaN and zeros as it comes; of integers because
        SwiftShader's optimiser takes SMax(v + 7, 31) for the constant that v had before the loop."""
        first = self.compare("lt" if op == "min" else "gt", t, args)
        return self.op("Select", self.type(t), first, *args)

    def fma(self, op: str, t: DType, args: list[int]) -> int:
        return self.rounded_ext("Fma", self.type(t), *args)

    def divide(self, op: str, t: DType, args: list[int]) -> int:
        """Truncating division, and the remainder of unsigned integers: of others Vulkan defines none."""
        name = "UMod" if op == "trem" else "SDiv" if t.kind == "int" else "UDiv"
        return self.op(name, self.type(t), *args)

    # --- bits ----------------------------------------------------------------------------------------------------
    def bits(self, op: str, t: DType, args: list[int]) -> int:
        return self.op((_LOGICAL if t.is_bool else _BITS)[op], self.type(t), *args)

    def invert(self, op: str, t: DType, args: list[int]) -> int:
        return self.op("LogicalNot" if t.is_bool else "Not", self.type(t), *args)

    def shift(self, op: str, t: DType, args: list[int]) -> int:
        name = "ShiftLeftLogical" if op == "shl" else f"ShiftRight{'Arithmetic' if t.kind == 'int' else 'Logical'}"
        return self.op(name, self.type(t), *args)

    def halves(self, value: int) -> tuple[int, int]:
        """The low and the high 32 bits of a number of 64."""
        high = self.op("ShiftRightLogical", self.type(u64), value, self.constant(32, u64))
        return self.op("UConvert", self.type(u32), value), self.op("UConvert", self.type(u32), high)

    def from_words(self, t: DType, value: int) -> int:
        """The low bits of a number of 32, as a number of ``t``."""
        return value if t.bits == 32 else self.op("UConvert", self.type(t), value)

    def count_bits(self, op: str, t: DType, args: list[int]) -> int:
        if op == "popcount":
            return self.op("BitCount", self.u32, *args)
        if op == "clz":  # the number of the top bit is -1 for 0, and so is that of the lowest
            return self.op("ISub", self.u32, self.word(31), self.ext("FindUMsb", self.u32, *args))
        return self.ext("UMin", self.u32, self.ext("FindILsb", self.u32, *args), self.word(32))

    # --- comparison ----------------------------------------------------------------------------------------------
    def compare(self, op: str, t: DType, args: list[int]) -> int:
        if t.is_float:
            name = _FLOAT_COMPARE[op]
        elif op in ("eq", "ne"):
            name = ("Logical" if t.is_bool else "I") + ("Equal" if op == "eq" else "NotEqual")
        else:
            name = ("S" if t.kind == "int" else "U") + _INT_COMPARE[op]
        return self.op(name, self.bool, *args)

    # --- math ----------------------------------------------------------------------------------------------------
    def rounding_math(self, op: str, t: DType, args: list[int]) -> int:
        return self.rounded_ext(_ROUNDING[op], self.type(t), *args)

    def approximate(self, op: str, t: DType, args: list[int]) -> int:
        """Under fastmath: what the device has for f32 (GLSL.std.450), with the errors that Vulkan allows."""
        type_, x = self.type(t), args[0]
        if op == "log10":
            return self.op("FMul", type_, self.ext("Log2", type_, x), self.constant(0.30102999566398120, t))
        if op in ("sin", "cos", "tan"):  # good near zero only
            near = self._near_zero(t, x)
            if op != "tan":
                return self.ext(op.capitalize(), type_, near)
            return self.op("FDiv", type_, self.ext("Sin", type_, near), self.ext("Cos", type_, near))
        return self.ext(_APPROXIMATE[op], type_, x)

    def _near_zero(self, t: DType, x: int) -> int:
        """x less a whole number of turns of a circle, 2 pi in two parts, the first of which times a small integer is
        exact."""
        type_ = self.type(t)
        scaled = self.rounding("FMul", type_, x, self.constant(0.15915494309189535, t))
        turns = self.ext("RoundEven", type_, scaled)
        for part in (6.28125, 0.0019353071795864769):
            x = self.rounding("FSub", type_, x, self.rounding("FMul", type_, turns, self.constant(part, t)))
        return x

    # --- casts ---------------------------------------------------------------------------------------------------
    def cast(self, value: int, source: DType, target: DType) -> int:
        """The value conversion of the op table, where one instruction does it."""
        type_ = self.type(target)
        if target.is_bool:
            if source.is_bool:
                return value
            return self.op("FUnordNotEqual" if source.is_float else "INotEqual", self.bool, value, self.zero(source))
        if source.is_bool:
            return self.op("Select", type_, value, self.constant(1, target), self.zero(target))
        if source.is_float:
            if target.is_float:
                return value if source is target else self.op("FConvert", type_, value)
            return self.op("ConvertFToS" if target.kind == "int" else "ConvertFToU", type_, value)
        if target.is_float:
            return self.op("ConvertSToF" if source.kind == "int" else "ConvertUToF", type_, value)
        known = self.number(value)
        if known is not None:
            low = known & ((1 << source.bits) - 1)
            return self.constant(low - (1 << source.bits) if source.min and low > source.max else low, target)
        if type_ == self.type(source):  # also of narrow ones that are held in 32 bits, the upper of which nobody reads
            return value
        widens = target.bits > source.bits and source.kind == "int"
        if widens and target.bits == 64:
            return self.extended(value)
        return self.op("SConvert" if widens else "UConvert", type_, value)

    def extended(self, value: int) -> int:
        """A signed integer in 64 bits.

        Mesa 22.3, whose lavapipe is a driver of this kind, takes any comparison `i2i64(x) < constant` for false; of two
        words put together it knows nothing.
        """
        type_ = self.type(u64)
        if "lockstep" not in self.profile:
            return self.op("SConvert", type_, value)
        if self.module.type_of(value) != self.u32:
            value = self.op("SConvert", self.u32, value)
        high = self.op("ShiftRightArithmetic", self.u32, value, self.word(31))
        pair = self.op("CompositeConstruct", self.module.type_vector(self.u32, 2), value, high)
        return self.op("Bitcast", type_, pair)

    def bitcast(self, value: int, source: DType, target: DType) -> int:
        """Same bits, other type."""
        have, want = self.type(source), self.type(target)
        return value if have == want else self.op("Bitcast", want, value)


_APPROXIMATE = {"exp": "Exp", "exp2": "Exp2", "log": "Log", "log2": "Log2", "rsqrt": "InverseSqrt", "tanh": "Tanh"}
#: Functions that the device itself has for f32, of fastmath's precision.
FAST_MATH = frozenset((op, f32.name) for op in (*_APPROXIMATE, "log10", "sin", "cos", "tan"))

_Method = Callable[[Elementwise, str, DType, list[int]], int]
_METHODS: dict[str, _Method] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), Elementwise.arithmetic),
    **dict.fromkeys(("min", "max"), Elementwise.minmax),
    **dict.fromkeys(("tdiv", "trem"), Elementwise.divide),
    **dict.fromkeys(("and", "or", "xor"), Elementwise.bits),
    **dict.fromkeys(("shl", "shr"), Elementwise.shift),
    **dict.fromkeys(("popcount", "clz", "ctz"), Elementwise.count_bits),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), Elementwise.compare),
    **dict.fromkeys(_ROUNDING, Elementwise.rounding_math),
    **dict.fromkeys((op for op, _ in FAST_MATH), Elementwise.approximate),
    "neg": Elementwise.neg,
    "abs": Elementwise.abs,
    "fma": Elementwise.fma,
    "not": Elementwise.invert,
}


def knows(op: str) -> bool:
    """Whether `Elementwise.emit` can do ``op``."""
    return op in _METHODS
