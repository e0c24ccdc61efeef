"""Conversions as LLVM IR, for one value or a vector: total, saturating, and with one rounding each (RULES 19, 21)."""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.llvm.emitter import Code, constant, element, memory_element, splat, vector
from magpie.dtypes import DType, bf16, f16, f32, f64

__all__ = ["Casts"]


class Casts:
    """Conversions at one width. ``native_half``: the target converts f16 itself (x86 with F16C, every GPU)."""

    def __init__(self, code: Code, width: int, *, fast: str = "", native_half: bool = False) -> None:
        self.code = code
        self.width = width
        self.fast = fast
        self.native_half = native_half
        # calls a function of Magpie's own math library: (op, type, operands, lanes) -> value; None: the system's
        self.library: Callable[[str, DType, list[str], int], str] | None = None
        self.i1 = vector("i1", width)

    # --- small helpers -------------------------------------------------------------------------------------------
    def v(self, elem: str) -> str:
        return vector(elem, self.width)

    def lit(self, literal: str | int, elem: str) -> str:
        return splat(str(literal), elem, self.width)

    def number(self, operand: str) -> int | None:
        """The value of an integer literal, in every lane."""
        if operand == "zeroinitializer":
            return 0
        text = operand[operand.index(" ") + 1 : -1].rpartition(" ")[2] if operand.startswith("splat (") else operand
        return int(text) if text.lstrip("-").isdigit() else None

    def is_literal(self, operand: str) -> bool:
        return not operand.startswith("%")

    def select(self, cond: str, elem: str, a: str, b: str) -> str:
        vt = self.v(elem)
        return self.code.op(f"select {self.i1} {cond}, {vt} {a}, {vt} {b}")

    def intrinsic(
        self, name: str, elem: str, args: list[str], extra: str = "", extra_type: str = "", *, flags: bool = False
    ) -> str:
        """``llvm.<name>`` overloaded on one type."""
        vt = self.v(elem)
        code = {"float": "f32", "double": "f64"}.get(elem, elem)
        full = f"llvm.{name}.{code if self.width == 1 else f'v{self.width}{code}'}"
        types = ", ".join([vt] * len(args) + ([extra_type] if extra_type else []))
        self.code.module.declare(full, vt, types)
        operands = ", ".join(f"{vt} {a}" for a in args)
        return self.code.op(f"call {self.fast if flags else ''}{vt} @{full}({operands}{extra})")

    # --- halves --------------------------------------------------------------------------------------------------
    def rounded(self, value: str, t: DType) -> str:
        """A float result of an op on ``t``, rounded to what ``t`` can hold."""
        if t is f16:
            return self.half_to_float(self.float_to_half(value))
        if t is bf16:
            v32 = self.v("i32")
            return self.code.op(f"bitcast {v32} {self._bf16_bits(value)} to {self.v('float')}")
        return value

    def float_to_half(self, value: str) -> str:
        """f32 lanes to f16 bits (i16), one rounding."""
        c = self.code
        if self.native_half:
            half = c.op(f"fptrunc {self.v('float')} {value} to {self.v('half')}")
            return c.op(f"bitcast {self.v('half')} {half} to {self.v('i16')}")
        # After Giesen's float_to_half_fast3_rtne: normal results by integer rounding, subnormal ones by an addition
        # whose rounding puts the bits in place.
        i, f = "i32", "float"
        vi = self.v(i)
        bits = c.op(f"bitcast {self.v(f)} {value} to {vi}")
        sign = c.op(f"and {vi} {bits}, {self.lit(0x80000000 - (1 << 32), i)}")
        x = c.op(f"xor {vi} {bits}, {sign}")
        tiny = c.op(f"icmp ult {vi} {x}, {self.lit(113 << 23, i)}")
        huge = c.op(f"icmp uge {vi} {x}, {self.lit((127 + 16) << 23, i)}")
        nan = c.op(f"icmp ugt {vi} {x}, {self.lit(255 << 23, i)}")
        magic = ((127 - 15) + (23 - 10) + 1) << 23
        xf = c.op(f"bitcast {vi} {x} to {self.v(f)}")
        magic_f = constant(2.0 ** ((magic >> 23) - 127), f)
        summed = c.op(f"fadd {self.v(f)} {xf}, {self.lit(magic_f, f)}")
        sub = c.op(f"sub {vi} {c.op(f'bitcast {self.v(f)} {summed} to {vi}')}, {self.lit(magic, i)}")
        odd = c.op(f"and {vi} {c.op(f'lshr {vi} {x}, {self.lit(13, i)}')}, {self.lit(1, i)}")
        norm = c.op(f"add {vi} {c.op(f'add {vi} {x}, {self.lit(((15 - 127) << 23) + 0xFFF, i)}')}, {odd}")
        norm = c.op(f"lshr {vi} {norm}, {self.lit(13, i)}")
        big = self.select(nan, i, self.lit(0x7E00, i), self.lit(0x7C00, i))
        out = self.select(huge, i, big, self.select(tiny, i, sub, norm))
        out = c.op(f"or {vi} {out}, {c.op(f'lshr {vi} {sign}, {self.lit(16, i)}')}")
        return c.op(f"trunc {vi} {out} to {self.v('i16')}")

    def half_to_float(self, bits: str) -> str:
        """f16 bits (i16) to f32 lanes, exact."""
        c = self.code
        if self.native_half:
            half = c.op(f"bitcast {self.v('i16')} {bits} to {self.v('half')}")
            return c.op(f"fpext {self.v('half')} {half} to {self.v('float')}")
        i, f = "i32", "float"
        vi, vf = self.v(i), self.v(f)
        wide = c.op(f"zext {self.v('i16')} {bits} to {vi}")
        x = c.op(f"shl {vi} {c.op(f'and {vi} {wide}, {self.lit(32767, i)}')}, {self.lit(13, i)}")
        # the exponent is rebased by a multiplication, which also normalises subnormals
        scaled = c.op(f"fmul {vf} {c.op(f'bitcast {vi} {x} to {vf}')}, {self.lit(constant(2.0**112, f), f)}")
        special = c.op(f"icmp uge {vi} {x}, {self.lit(0x7C00 << 13, i)}")
        infinite = c.op(f"or {vi} {x}, {self.lit(255 << 23, i)}")
        out = self.select(special, i, infinite, c.op(f"bitcast {vf} {scaled} to {vi}"))
        sign = c.op(f"shl {vi} {c.op(f'and {vi} {wide}, {self.lit(32768, i)}')}, {self.lit(16, i)}")
        return c.op(f"bitcast {vi} {c.op(f'or {vi} {out}, {sign}')} to {vf}")

    def _bf16_bits(self, value: str) -> str:
        """f32 lanes rounded to bfloat16, as the i32 bits of the float."""
        c, i = self.code, "i32"
        vi = self.v(i)
        bits = c.op(f"bitcast {self.v('float')} {value} to {vi}")
        odd = c.op(f"and {vi} {c.op(f'lshr {vi} {bits}, {self.lit(16, i)}')}, {self.lit(1, i)}")
        near = c.op(f"add {vi} {c.op(f'add {vi} {bits}, {self.lit(32767, i)}')}, {odd}")
        nan = c.op(f"fcmp uno {self.v('float')} {value}, {value}")
        quiet = c.op(f"or {vi} {bits}, {self.lit(0x00400000, i)}")
        return c.op(f"and {vi} {self.select(nan, i, quiet, near)}, {self.lit(-65536, i)}")

    # --- memory form ---------------------------------------------------------------------------------------------
    def from_memory(self, value: str, t: DType) -> str:
        """A loaded value as it is held in registers."""
        c = self.code
        if t.is_bool:
            return c.op(f"icmp ne {self.v('i8')} {value}, {self.lit(0, 'i8')}")
        if t is f16:
            return self.half_to_float(value)
        if t is bf16:
            wide = c.op(f"zext {self.v('i16')} {value} to {self.v('i32')}")
            high = c.op(f"shl {self.v('i32')} {wide}, {self.lit(16, 'i32')}")
            return c.op(f"bitcast {self.v('i32')} {high} to {self.v('float')}")
        return value

    def to_memory(self, value: str, t: DType) -> str:
        """A register value as it is stored."""
        c = self.code
        if t.is_bool:
            return c.op(f"zext {self.i1} {value} to {self.v('i8')}")
        if t is f16:
            return self.float_to_half(value)
        if t is bf16:  # held exactly: the low half is zero
            bits = c.op(f"bitcast {self.v('float')} {value} to {self.v('i32')}")
            high = c.op(f"lshr {self.v('i32')} {bits}, {self.lit(16, 'i32')}")
            return c.op(f"trunc {self.v('i32')} {high} to {self.v('i16')}")
        return value

    # --- casts ---------------------------------------------------------------------------------------------------
    def cast(self, value: str, source: DType, target: DType, source_elem: str, target_elem: str) -> str:
        """The value conversion of the op table. The elements say how the two are held (an index may be narrowed)."""
        c = self.code
        s, t = self.v(source_elem), self.v(target_elem)
        if target.is_bool:
            if source.is_bool:
                return value
            if source.is_float:
                return c.op(f"fcmp une {s} {value}, {self.lit(constant(0.0, source_elem), source_elem)}")
            return c.op(f"icmp ne {s} {value}, {self.lit(0, source_elem)}")
        if source.is_bool:
            if target.is_float:
                one, zero = (self.lit(constant(x, target_elem), target_elem) for x in (1.0, 0.0))
                return self.select(value, target_elem, one, zero)
            return c.op(f"zext {s} {value} to {t}")
        if source.is_float:
            if target.is_float:
                return self.float_to_float(value, source, target)
            return self._saturated(value, source_elem, target, target_elem)
        signed = source.kind == "int"
        if target.is_float:
            return self._int_to_float(value, signed, s, source_elem, target)
        have, want = int(source_elem[1:]), int(target_elem[1:])
        if have == want:
            return value
        if have > want:
            return c.op(f"trunc {s} {value} to {t}")
        return c.op(f"{'sext' if signed else 'zext'} {s} {value} to {t}")

    def _saturated(self, value: str, source_elem: str, target: DType, elem: str) -> str:
        sign = "s" if target.kind == "int" else "u"
        code = {"float": "f32", "double": "f64"}[source_elem]
        prefix = "" if self.width == 1 else f"v{self.width}"
        name = f"llvm.fpto{sign}i.sat.{prefix}{elem}.{prefix}{code}"
        return self.code.call(name, self.v(elem), (self.v(source_elem), value))

    def _int_to_float(self, value: str, signed: bool, s: str, source_elem: str, target: DType) -> str:
        c = self.code
        op = "sitofp" if signed else "uitofp"
        if target.bits == 16 and int(source_elem[1:]) > 16:
            # through f64, which holds what still matters to a half, and one rounding from there
            if source_elem == "i64" and target is bf16:
                value = self._sticky(value)
            return self.float_to_float(c.op(f"{op} {s} {value} to {self.v('double')}"), f64, target)
        out = c.op(f"{op} {s} {value} to {self.v(element(target))}")
        return self.rounded(out, target) if target.bits == 16 else out

    def _sticky(self, value: str) -> str:
        """64-bit integers beyond 2**40 with the low 12 bits folded into one, so that f64 holds them exactly."""
        c, i, vi = self.code, "i64", self.v("i64")
        far = c.op(f"icmp ugt {vi} {c.op(f'add {vi} {value}, {self.lit(1 << 40, i)}')}, {self.lit(1 << 41, i)}")
        some = c.op(f"icmp ne {vi} {c.op(f'and {vi} {value}, {self.lit(4095, i)}')}, {self.lit(0, i)}")
        bit = self.select(some, i, self.lit(2048, i), self.lit(0, i))
        folded = c.op(f"or {vi} {c.op(f'and {vi} {value}, {self.lit(-4096, i)}')}, {bit}")
        return self.select(far, i, folded, value)

    def float_to_float(self, value: str, source: DType, target: DType) -> str:
        """f16, bf16, f32 and f64 among each other; halves are held as floats."""
        c = self.code
        if source is target:
            return value
        if source is f64:
            if target is f32:
                return c.op(f"fptrunc {self.v('double')} {value} to {self.v('float')}")
            return self.rounded(self._round_to_odd(value), target)
        if target is f64:
            return c.op(f"fpext {self.v('float')} {value} to {self.v('double')}")
        return value if target is f32 else self.rounded(value, target)

    def _round_to_odd(self, value: str) -> str:
        """f64 to f32 so that a second rounding to 16 bits is the only one that counts (Boldo and Melquiond, 2008)."""
        c, i = self.code, "i32"
        vf, vd, vi = self.v("float"), self.v("double"), self.v(i)
        near = c.op(f"fptrunc {vd} {value} to {vf}")
        back = c.op(f"fpext {vf} {near} to {vd}")
        inexact = c.op(f"fcmp one {vd} {back}, {value}")
        over = c.op(
            f"fcmp ogt {vd} {self.intrinsic('fabs', 'double', [back])}, {self.intrinsic('fabs', 'double', [value])}"
        )
        bits = c.op(f"bitcast {vf} {near} to {vi}")
        down = c.op(f"add {vi} {bits}, {c.op(f'sext {self.i1} {over} to {vi}')}")
        odd = c.op(f"or {vi} {down}, {self.lit(1, i)}")
        return c.op(f"bitcast {vi} {self.select(inexact, i, odd, bits)} to {vf}")

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Same bits, other type. Halves go through their memory form."""
        c = self.code
        raw = self.to_memory(value, source) if source.bits == 16 and source.is_float else value
        if target.bits == 16 and target.is_float:
            return self.from_memory(raw, target)
        s = memory_element(source) if source.bits == 16 else element(source)
        t = element(target)
        return raw if s == t else c.op(f"bitcast {self.v(s)} {raw} to {self.v(t)}")
