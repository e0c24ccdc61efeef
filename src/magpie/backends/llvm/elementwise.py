"""The pure ops of the table as LLVM IR, for one value or a vector of them: what every LLVM target shares.

An op is written once for both widths: `Ops(code, width)` emits scalars at width 1, as a GPU wants them, and vectors for
the cpu target. Each is total as the op table says: no poison for any input. Halves are held as floats and rounded once
after each op (RULES 21); a target with native halves overrides `Ops.rounded`.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.llvm.casts import Casts
from magpie.backends.llvm.emitter import constant, element
from magpie.dtypes import DType, f32, f64
from magpie.ir.nodes import Node
from magpie.ir.ops import ELEMENTARY

__all__ = ["INTRINSIC_MATH", "Ops", "knows"]

# Math ops with an exact LLVM intrinsic that every target of ours selects natively or expands in line.
INTRINSIC_MATH = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}

_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_PLAIN_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_PLAIN_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


class Ops(Casts):
    """Emits pure ops at one width. ``fast`` is the text of fast-math flags with a trailing space, or empty."""

    def libm(self, name: str, t: DType, args: list[str]) -> str:
        """A call of the math library for each lane. `t` is f32 or f64."""
        suffix = "f" if t is f32 else ""
        return self.each_lane(name + suffix, element(t), args)

    def each_lane(self, function: str, elem: str, args: list[str]) -> str:
        """The scalar external ``function`` over every lane, out of line: code stays small (RULES 28)."""
        c, w = self.code, self.width
        if w == 1:
            return c.call(function, elem, *((elem, a) for a in args))
        c.module.declare(function, elem, ", ".join(elem for _ in args))
        name = f"lanes.{function}.{w}"
        c.module.helper(name, lambda: _lane_loop(name, function, elem, w, len(args)))
        operands = ", ".join(f"<{w} x {elem}> {a}" for a in args)
        return c.op(f"call <{w} x {elem}> @{name}({operands})")

    # --- dispatch ------------------------------------------------------------------------------------------------
    def emit(self, node: Node, args: list[str], t: DType, elem: str) -> str:
        """The value of a pure node. ``t`` is the type of its first operand, ``elem`` how that is held."""
        op = node.op
        if self.fast and "strict" in node.attrs:  # of the math library, which rounding errors are part of
            fast, self.fast = self.fast, ""
            try:
                return self.emit(node, args, t, elem)
            finally:
                self.fast = fast
        method = _METHODS.get(op)
        if method is not None:
            return method(self, op, t, elem, args)
        if op in ELEMENTARY:
            return self.through_float(op, t, args)
        raise NotImplementedError(op)

    # --- arithmetic ----------------------------------------------------------------------------------------------
    def arithmetic(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        c = self.code
        if t.is_float:
            return self.rounded(c.op(f"{_PLAIN_FLOAT[op]} {self.fast}{self.v(elem)} {args[0]}, {args[1]}"), t)
        return c.op(f"{_PLAIN_INT[op]} {self.v(elem)} {args[0]}, {args[1]}")

    def neg(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        c, vt = self.code, self.v(elem)
        if t.is_float:
            return c.op(f"fneg {vt} {args[0]}")
        return c.op(f"sub {vt} {self.lit(0, elem)}, {args[0]}")

    def abs(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        if t.is_float:
            return self.intrinsic("fabs", elem, args)
        return self.intrinsic("abs", elem, args, ", i1 false", "i1")

    def minmax(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        if t.is_float:
            if self.fast and op in ("min", "max"):
                c, vt = self.code, self.v(elem)
                less = c.op(f"fcmp o{'lt' if op == 'min' else 'gt'} {vt} {args[0]}, {args[1]}")
                return self.select(less, elem, args[0], args[1])
            name = {"min": "minimumnum", "max": "maximumnum", "minimum": "minimum", "maximum": "maximum"}[op]
            return self.intrinsic(name, elem, args)
        return self.intrinsic(("s" if t.kind == "int" else "u") + op, elem, args)

    def fma(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        if t.bits == 16:  # the product of two halves is exact in f64, and so is nearly every sum
            wide = [self.float_to_float(a, f32, f64) for a in args]
            return self.float_to_float(self.intrinsic("fma", "double", wide), f64, t)
        return self.intrinsic("fma", elem, args)

    # --- integer division ----------------------------------------------------------------------------------------
    def _divisor(self, t: DType, elem: str, b: str) -> tuple[str, str, str]:
        """(b made safe to divide by, lanes where it is 0, lanes where it is -1 or empty)."""
        c, vt = self.code, self.v(elem)
        zero = c.op(f"icmp eq {vt} {b}, {self.lit(0, elem)}")
        special, minus = zero, ""
        if t.kind == "int":
            minus = c.op(f"icmp eq {vt} {b}, {self.lit(-1, elem)}")
            special = c.op(f"or {self.i1} {zero}, {minus}")
        return self.select(special, elem, self.lit(1, elem), b), zero, minus

    def quotient(self, t: DType, elem: str, a: str, b: str) -> str:
        """Truncating division by a divisor that is neither 0 nor -1."""
        c, vt, signed = self.code, self.v(elem), t.kind == "int"
        if self.width == 1 or int(elem[1:]) > 32 or self.is_literal(b):
            return c.op(f"{'sdiv' if signed else 'udiv'} {vt} {a}, {b}")
        # exact: both operands and the distance of the quotient to the next integer fit in 53 bits
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        wide = self.v("double")
        x, y = (c.op(f"{to} {vt} {v} to {wide}") for v in (a, b))
        return c.op(f"{back} {wide} {c.op(f'fdiv {wide} {x}, {y}')} to {vt}")

    def divide(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        """floordiv, mod, tdiv and trem of integers."""
        if t.is_float:
            return self.float_floor(op, t, elem, args)
        c, vt, (a, b) = self.code, self.v(elem), args
        signed = t.kind == "int"
        number = self.number(b)
        if number is not None and number not in (0, -1):
            safe, zero, minus = b, "", ""
            shift = number.bit_length() - 1
            if number == 1 << shift and (not signed or op in ("floordiv", "mod")):
                if op in ("floordiv", "tdiv"):
                    return c.op(f"{'ashr' if signed else 'lshr'} {vt} {a}, {self.lit(shift, elem)}")
                return c.op(f"and {vt} {a}, {self.lit(number - 1, elem)}")
        else:
            safe, zero, minus = self._divisor(t, elem, b)
        q = self.quotient(t, elem, a, safe)
        r = ""
        if op in ("mod", "trem", "floordiv") and (signed or op in ("mod", "trem")):
            r = c.op(f"sub {vt} {a}, {c.op(f'mul {vt} {q}, {safe}')}")
        if op in ("mod", "trem"):
            if op == "trem" or not signed:
                return r
            # for a divisor of 0 or -1 the remainder by 1 is 0 already
            return self.select(self._straddles(elem, r, safe), elem, c.op(f"add {vt} {r}, {safe}"), r)
        if op == "floordiv" and signed:
            off = self._straddles(elem, r, safe)
            q = c.op(f"add {vt} {q}, {c.op(f'sext {self.i1} {off} to {vt}')}")
        if minus:
            q = self.select(minus, elem, c.op(f"sub {vt} {self.lit(0, elem)}, {a}"), q)
        return self.select(zero, elem, self.lit(0, elem), q) if zero else q

    def _straddles(self, elem: str, r: str, b: str) -> str:
        """Where a remainder is not zero and has another sign than the divisor."""
        c, vt, zero = self.code, self.v(elem), self.lit(0, elem)
        some = c.op(f"icmp ne {vt} {r}, {zero}")
        differ = c.op(f"icmp slt {vt} {c.op(f'xor {vt} {r}, {b}')}, {zero}")
        return c.op(f"and {self.i1} {some}, {differ}")

    def remainder_of(self, elem: str, x: str, y: str) -> str:
        """C's fmod, exact."""
        return self.code.op(f"frem {self.v(elem)} {x}, {y}")

    def float_floor(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        """Python's float // and %, after CPython's float_floor_div and float_rem (Objects/floatobject.c)."""
        c, vt, (x, y) = self.code, self.v(elem), args
        zero, one = self.lit(constant(0.0, elem), elem), self.lit(constant(1.0, elem), elem)
        m = self.remainder_of(elem, x, y)
        nonzero = c.op(f"fcmp une {vt} {m}, {zero}")
        signs = self.i1
        y_negative = c.op(f"fcmp olt {vt} {y}, {zero}")
        differ = c.op(f"xor {signs} {y_negative}, {c.op(f'fcmp olt {vt} {m}, {zero}')}")
        adjust = c.op(f"and {signs} {nonzero}, {differ}")
        if op == "mod":
            fixed = self.select(adjust, elem, c.op(f"fadd {vt} {m}, {y}"), m)
            return self.rounded(self.select(nonzero, elem, fixed, self.intrinsic("copysign", elem, [zero, y])), t)
        d = c.op(f"fdiv {vt} {c.op(f'fsub {vt} {x}, {m}')}, {y}")
        d = self.select(adjust, elem, c.op(f"fsub {vt} {d}, {one}"), d)
        fl = self.intrinsic("floor", elem, [d])
        high = c.op(f"fcmp ogt {vt} {c.op(f'fsub {vt} {d}, {fl}')}, {self.lit(constant(0.5, elem), elem)}")
        fl = self.select(high, elem, c.op(f"fadd {vt} {fl}, {one}"), fl)
        ratio = c.op(f"fdiv {vt} {x}, {y}")
        fl = self.select(c.op(f"fcmp une {vt} {d}, {zero}"), elem, fl, self.intrinsic("copysign", elem, [zero, ratio]))
        return self.rounded(self.select(c.op(f"fcmp oeq {vt} {y}, {zero}"), elem, ratio, fl), t)

    # --- bits ----------------------------------------------------------------------------------------------------
    def bits(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        return self.code.op(f"{op} {self.v(elem)} {args[0]}, {args[1]}")

    def invert(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        ones = "true" if elem == "i1" else "-1"
        return self.code.op(f"xor {self.v(elem)} {args[0]}, {self.lit(ones, elem)}")

    def shift(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        c, vt, count = self.code, self.v(elem), args[1]
        width = int(elem[1:])
        known = self.number(count)
        if known is not None and 0 <= known < width:
            amount = count
        else:
            amount = c.op(f"and {vt} {count}, {self.lit(t.bits - 1, elem)}")
        name = "shl" if op == "shl" else "ashr" if t.kind == "int" else "lshr"
        return c.op(f"{name} {vt} {args[0]}, {amount}")

    def count_bits(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        if op == "popcount":
            return self.intrinsic("ctpop", elem, args)
        return self.intrinsic("ctlz" if op == "clz" else "cttz", elem, args, ", i1 false", "i1")

    # --- comparison ----------------------------------------------------------------------------------------------
    def compare(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        vt = self.v(elem)
        if t.is_float:
            return self.code.op(f"fcmp {'une' if op == 'ne' else 'o' + op} {vt} {args[0]}, {args[1]}")
        sign = "" if op in ("eq", "ne") else "s" if t.kind == "int" else "u"
        return self.code.op(f"icmp {sign}{_PREDICATES[op]} {vt} {args[0]}, {args[1]}")

    def classify(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        c, vt = self.code, self.v(elem)
        if op == "isnan":
            return c.op(f"fcmp uno {vt} {args[0]}, {args[0]}")
        inf = self.lit(constant(float("inf"), elem), elem)
        size = self.intrinsic("fabs", elem, args)
        return c.op(f"fcmp {'oeq' if op == 'isinf' else 'olt'} {vt} {size}, {inf}")

    # --- math ----------------------------------------------------------------------------------------------------
    def through_float(self, op: str, t: DType, args: list[str]) -> str:
        """A library function; halves compute in f32 and round once."""
        if op == "pow" and t.is_int:
            return self.integer_power(t, args)
        wide = f64 if t is f64 else f32
        if self.library is not None:
            return self.rounded(self.library(op, wide, args, self.width), t)
        return self.rounded(self.libm(op, wide, args), t)

    def math(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        return self.rounded(self.intrinsic(INTRINSIC_MATH[op], elem, args, flags=op == "sqrt"), t)

    def rsqrt(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        if self.library is not None and not self.fast:
            return self.through_float(op, t, args)
        root = self.intrinsic("sqrt", elem, args, flags=True)
        one = self.lit(constant(1.0, elem), elem)
        return self.rounded(self.code.op(f"fdiv {self.fast}{self.v(elem)} {one}, {root}"), t)

    def fmod(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        return self.each_lane("fmod" if elem == "double" else "fmodf", elem, args)

    def copysign(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        return self.intrinsic("copysign", elem, args)

    def ldexp(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        """x * 2**n with one rounding; n is clamped to where the result no longer changes."""
        c, vi = self.code, self.v("i32")
        wide = self.float_to_float(args[0], t, f64) if t is not f64 else args[0]
        limit = 2200 if t is f64 else 700
        n = self.intrinsic("smax", "i32", [args[1], self.lit(-limit, "i32")])
        n = self.intrinsic("smin", "i32", [n, self.lit(limit, "i32")])
        if t is not f64:  # f32 times a power of two is exact in f64, subnormals included
            return self.float_to_float(self._scale(wide, n), f64, t)
        # With x = m * 2**e, the result is m * 2**(e + n): m times half of that power is exact, the rest rounds once.
        m, e = (self.frexp(part, f64, "double", [wide]) for part in ("frexp_mantissa", "frexp_exponent"))
        total = c.op(f"add {vi} {e}, {n}")
        total = self.intrinsic("smax", "i32", [total, self.lit(-1200, "i32")])
        total = self.intrinsic("smin", "i32", [total, self.lit(1200, "i32")])
        high = c.op(f"ashr {vi} {total}, {self.lit(1, 'i32')}")
        low = c.op(f"sub {vi} {total}, {high}")
        return self._scale(self._scale(m, high), low)

    def _scale(self, x: str, n: str) -> str:
        """x * 2**n for |n| <= 1000, x a double."""
        c = self.code
        biased = c.op(f"add {self.v('i32')} {n}, {self.lit(1023, 'i32')}")
        wide = c.op(f"zext {self.v('i32')} {biased} to {self.v('i64')}")
        power = c.op(f"shl {self.v('i64')} {wide}, {self.lit(52, 'i64')}")
        factor = c.op(f"bitcast {self.v('i64')} {power} to {self.v('double')}")
        return c.op(f"fmul {self.v('double')} {x}, {factor}")

    def frexp(self, op: str, t: DType, elem: str, args: list[str]) -> str:
        code, double = self.code, elem == "double"
        it, bits, bias = ("i64", 52, 1022) if double else ("i32", 23, 126)
        vt, vi = self.v(elem), self.v(it)
        least = 2.0 ** (-1022 if double else -126)
        small = code.op(f"fcmp olt {vt} {self.intrinsic('fabs', elem, args)}, {self.lit(constant(least, elem), elem)}")
        scaled = code.op(f"fmul {vt} {args[0]}, {self.lit(constant(2.0 ** (bits + 2), elem), elem)}")
        x = self.select(small, elem, scaled, args[0])
        raw = code.op(f"bitcast {vt} {x} to {vi}")
        mask = (1 << (11 if double else 8)) - 1
        e = code.op(f"and {vi} {code.op(f'lshr {vi} {raw}, {self.lit(bits, it)}')}, {self.lit(mask, it)}")
        zero = code.op(f"fcmp oeq {vt} {args[0]}, {self.lit(constant(0.0, elem), elem)}")
        odd = code.op(f"icmp eq {vi} {e}, {self.lit(mask, it)}")
        plain = code.op(f"or {self.i1} {zero}, {odd}")
        if op == "frexp_mantissa":
            cleared = code.op(f"and {vi} {raw}, {self.lit(~(mask << bits), it)}")
            half = code.op(f"or {vi} {cleared}, {self.lit(bias << bits, it)}")
            return self.select(plain, elem, args[0], code.op(f"bitcast {vi} {half} to {vt}"))
        shift = self.select(small, it, self.lit(bias + bits + 2, it), self.lit(bias, it))
        value = self.select(plain, it, self.lit(0, it), code.op(f"sub {vi} {e}, {shift}"))
        return value if it == "i32" else code.op(f"trunc {vi} {value} to {self.v('i32')}")

    def integer_power(self, t: DType, args: list[str]) -> str:
        elem = element(t)
        name = f"ipow.{t.name}"
        self.code.module.helper(name, lambda: _power_function(name, elem, t.kind == "int"))
        if self.width == 1:
            return self.code.op(f"call {elem} @{name}({elem} {args[0]}, {elem} {args[1]})")
        lanes = f"lanes.{name}.{self.width}"
        self.code.module.helper(lanes, lambda: _lane_loop(lanes, name, elem, self.width, 2))
        vt = self.v(elem)
        return self.code.op(f"call {vt} @{lanes}({vt} {args[0]}, {vt} {args[1]})")


_Method = Callable[[Ops, str, DType, str, list[str]], str]
_METHODS: dict[str, _Method] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), Ops.arithmetic),
    **dict.fromkeys(("floordiv", "mod", "tdiv", "trem"), Ops.divide),
    **dict.fromkeys(("min", "max", "minimum", "maximum"), Ops.minmax),
    **dict.fromkeys(("and", "or", "xor"), Ops.bits),
    **dict.fromkeys(("shl", "shr"), Ops.shift),
    **dict.fromkeys(("popcount", "clz", "ctz"), Ops.count_bits),
    **dict.fromkeys(_PREDICATES, Ops.compare),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), Ops.classify),
    **dict.fromkeys(INTRINSIC_MATH, Ops.math),
    **dict.fromkeys(("frexp_mantissa", "frexp_exponent"), Ops.frexp),
    "neg": Ops.neg,
    "abs": Ops.abs,
    "fma": Ops.fma,
    "not": Ops.invert,
    "rsqrt": Ops.rsqrt,
    "fmod": Ops.fmod,
    "copysign": Ops.copysign,
    "ldexp": Ops.ldexp,
}


def knows(op: str) -> bool:
    """Whether `Ops.emit` can do ``op``."""
    return op in _METHODS or op in ELEMENTARY


def _lane_loop(name: str, function: str, elem: str, width: int, operands: int) -> str:
    """A function that applies ``function`` to each lane."""
    vt = f"<{width} x {elem}>"
    args = ", ".join(f"{vt} %a{k}" for k in range(operands))
    lines = [f"define internal {vt} @{name}({args}) nounwind noinline {{", "entry:"]
    for k in range(operands):
        lines += [f"  %p{k} = alloca {vt}", f"  store {vt} %a{k}, ptr %p{k}"]
    lines += ["  br label %loop", "loop:", "  %i = phi i32 [ 0, %entry ], [ %j, %loop ]"]
    for k in range(operands):
        lines += [f"  %q{k} = getelementptr {elem}, ptr %p{k}, i32 %i", f"  %x{k} = load {elem}, ptr %q{k}"]
    call = ", ".join(f"{elem} %x{k}" for k in range(operands))
    lines += [
        f"  %y = call {elem} @{function}({call})",
        f"  store {elem} %y, ptr %q0",
        "  %j = add i32 %i, 1",
        f"  %more = icmp ult i32 %j, {width}",
        "  br i1 %more, label %loop, label %done",
        "done:",
        f"  %r = load {vt}, ptr %p0",
        f"  ret {vt} %r",
        "}",
    ]
    return "\n".join(lines)


def _power_function(name: str, elem: str, signed: bool) -> str:
    """Exponentiation by squaring, wrapping; a negative exponent gives 0 but for bases 1 and -1."""
    negative = (
        f"  %neg = icmp slt {elem} %n, 0\n  br i1 %neg, label %minus, label %loop" if signed else "  br label %loop"
    )
    minus = (
        f"""minus:
  %one = icmp eq {elem} %x, 1
  %mone = icmp eq {elem} %x, -1
  %low = and {elem} %n, 1
  %odd = icmp ne {elem} %low, 0
  %sign = select i1 %odd, {elem} -1, {elem} 1
  %m = select i1 %mone, {elem} %sign, {elem} 0
  %r = select i1 %one, {elem} 1, {elem} %m
  ret {elem} %r
"""
        if signed
        else ""
    )
    return f"""define internal {elem} @{name}({elem} %x, {elem} %n) nounwind noinline {{
entry:
{negative}
{minus}loop:
  %b = phi {elem} [ %x, %entry ], [ %b2, %loop ]
  %e = phi {elem} [ %n, %entry ], [ %e2, %loop ]
  %acc = phi {elem} [ 1, %entry ], [ %acc2, %loop ]
  %bit = and {elem} %e, 1
  %set = icmp ne {elem} %bit, 0
  %prod = mul {elem} %acc, %b
  %acc2 = select i1 %set, {elem} %prod, {elem} %acc
  %b2 = mul {elem} %b, %b
  %e2 = lshr {elem} %e, 1
  %end = icmp eq {elem} %e2, 0
  br i1 %end, label %done, label %loop
done:
  ret {elem} %acc2
}}"""
