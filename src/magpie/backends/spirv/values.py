"""What every part of the emitter stands on: types, constants and instructions in terms of Kernel IR's types."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from magpie.backends.spirv.function import Function
from magpie.backends.spirv.module import Operand
from magpie.backends.spirv.unit import Unit
from magpie.dtypes import DType, f32, u32
from magpie.ir.nodes import Kernel, Node

__all__ = ["Values"]


class Values:
    """Emits into the function ``f`` of the module of ``unit``. ``map`` has the id of each value that has been computed.

    Integers have types without sign. A type that the device lacks is held in 32 bits, and floats of 16 bits that it
    lacks by their bits: nothing is done with such values but what `magpie.passes.legalise` leaves.
    """

    def __init__(self, kernel: Kernel, unit: Unit, f: Function, *, fast: bool = False) -> None:
        self.kernel = kernel
        self.unit = unit
        self.module = module = unit.module
        self.f = f
        self.profile = unit.profile
        self.fast = fast
        self.map: dict[Node, int] = {}
        self.conversions: dict[tuple[str, int], int] = {}  # of the block under construction
        self.bool = module.type_bool()
        self.u32 = module.type_int(32)
        self._types: dict[DType, int] = {}
        self._constants: dict[tuple[DType, object], int] = {}
        self._numbers: dict[int, int] = {}
        self._zeros: dict[int, DType] = {}  # ids of constants that are 0.0
        self._cached: dict[object, int] = {}

    # --- types and constants -------------------------------------------------------------------------------------
    def has(self, t: DType) -> bool:
        """Whether the device has values of a type."""
        if t.is_bool or t.bits == 32:
            return True
        if t.is_float:
            return t.name != "bf16" and t.name in self.profile
        return f"i{t.bits}" in self.profile

    def native(self, t: DType) -> bool:
        """Whether a float is held as one."""
        return t.is_float and self.has(t)

    def type(self, t: DType) -> int:
        """The type that values of ``t`` are held in."""
        found = self._types.get(t)
        if found is None:
            found = self._types[t] = self._type(t)
        return found

    def _type(self, t: DType) -> int:
        m = self.module
        if t.is_bool:
            return self.bool
        if t.is_float and self.has(t):
            return m.type_float(t.bits)
        bits = t.bits if f"i{t.bits}" in self.profile else 32
        return m.type_int(bits)

    def constant(self, value: int | float | bool, t: DType) -> int:
        """A constant of type ``t``; integers wrap."""
        key = (t, value if t.is_int else struct.pack("<d", value))
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._constant(value, t)
            if t.is_int:
                self._numbers[found] = int(value)
            elif self.native(t) and value == 0 and math.copysign(1.0, value) > 0:
                self._zeros[found] = t
        return found

    def _constant(self, value: int | float | bool, t: DType) -> int:
        if t.is_float and not self.native(t):
            from magpie.backends.spirv.encode import float_bits

            return self.module.constant_bits(self.type(t), float_bits(float(value), t.bits, bfloat=t.name == "bf16"))
        return self.module.constant(self.type(t), value)

    def zero(self, t: DType) -> int:
        return self.constant(0, t)

    def number(self, value: int) -> int | None:
        """The value of an id that is an integer constant."""
        return self._numbers.get(value)

    def word(self, value: int) -> int:
        """A constant of 32 bits."""
        return self.constant(value & 0xFFFFFFFF, u32)

    def once(self, key: object, make: Callable[[], int]) -> int:
        """A value that ``make`` emits at the start of the function, so that all of it can use it."""
        found = self._cached.get(key)
        if found is None:
            with self.f.at_start():
                found = self._cached[key] = make()
        return found

    # --- instructions --------------------------------------------------------------------------------------------
    def op(self, name: str, type_: int, *operands: Operand) -> int:
        """An instruction with a value."""
        return self.f.op(name, type_, *operands)

    def ext(self, name: str, type_: int, *operands: int) -> int:
        """A function of GLSL.std.450."""
        return self.f.ext(name, type_, *operands)

    def rounding(self, name: str, type_: int, *operands: int) -> int:
        """An instruction that rounds: nothing is contracted with it unless the kernel is a fast-math one."""
        if not self.fast and not self._zeros.keys().isdisjoint(operands):
            operands = tuple(self.opaque_zero(self._zeros[x]) if x in self._zeros else x for x in operands)
        return self.exact(self.f.op(name, type_, *operands))

    def opaque_zero(self, t: DType) -> int:
        """0.0 in a way that no compiler sees through: Mesa's CPU driver takes x * 0 for 0 and x + 0 for x, whatever a
        module says of NaN and of the zero's sign. No launch has 2^31 workgroups along a dimension."""

        def make() -> int:
            count = self.f.load(self.unit.input("NumWorkgroups"))
            groups = self.op("CompositeExtract", self.u32, count, 0)
            word = self.op("ShiftRightLogical", self.u32, groups, self.word(31))
            if t.bits == 64:
                pair = self.op("CompositeConstruct", self.module.type_vector(self.u32, 2), word, word)
                return self.op("Bitcast", self.type(t), pair)
            zero = self.op("Bitcast", self.type(f32), word)
            return zero if t.bits == 32 else self.op("FConvert", self.type(t), zero)

        return self.once(("zero", t), make)

    def rounded_ext(self, name: str, type_: int, *operands: int) -> int:
        return self.exact(self.f.ext(name, type_, *operands))

    def exact(self, value: int) -> int:
        """The value of an instruction that is to be done as it is written."""
        if not self.fast:
            self.module.decorate(value, "NoContraction")
        return value
