"""Arithmetic on 64-bit integers that are two u32, (low, high): what `magpie.passes.legalise.wide` lowers to."""

from __future__ import annotations

from collections.abc import Callable

from magpie.dtypes import DType, f32, f64, i32, u32
from magpie.ir.nodes import Node
from magpie.passes.legalise.calc import Calc, constant
from magpie.passes.legalise.integers import bits_of_words

__all__ = ["Pair", "Pairs"]

Pair = tuple[Node, Node]

#: Appends a call of a function of `magpie.lib.words` on u32 and gives its results.
Call = Callable[..., list[Node]]


class Pairs:
    """The ops. ``t`` is the type that the pairs stand for: its sign decides."""

    def __init__(self, c: Calc, call: Call) -> None:
        self.c = c
        self.call = call

    def const(self, value: int) -> Pair:
        return self.c.const(value, u32), self.c.const(value >> 32, u32)

    def extended(self, value: Node, *, negative: bool = True) -> Pair:
        """A 32-bit integer as a pair, by its sign; ``negative``: it may be."""
        low = self.c.bits(value, u32)
        if value.dtype.kind == "uint" or not negative:
            return low, self.c.const(0, u32)
        return low, self.c.bits(self.c("shr", value, 31), u32)

    def select(self, cond: Node, a: Pair, b: Pair) -> Pair:
        return self.c.select(cond, a[0], b[0]), self.c.select(cond, a[1], b[1])

    # --- ring ----------------------------------------------------------------------------------------------------
    def binary(self, op: str, t: DType, a: Pair, b: Pair) -> Pair:
        """An op on two pairs that gives one."""
        if op in ("and", "or", "xor"):
            return self.c(op, a[0], b[0]), self.c(op, a[1], b[1])
        if op in ("floordiv", "mod", "tdiv", "trem"):
            return self.divide(op, t, a, b)
        if op in ("min", "max"):
            return self.select(self.less(t, a, b), *((a, b) if op == "min" else (b, a)))
        if op == "pow":
            return self.power(t, a, b)
        found: Pair = getattr(self, op)(a, b)
        return found

    def add(self, a: Pair, b: Pair) -> Pair:
        low = self.c("add", a[0], b[0])
        carry = self.c.flag(self.c("lt", low, a[0]), u32)
        return low, self.c("add", self.c("add", a[1], b[1]), carry)

    def sub(self, a: Pair, b: Pair) -> Pair:
        borrow = self.c.flag(self.c("lt", a[0], b[0]), u32)
        return self.c("sub", a[0], b[0]), self.c("sub", self.c("sub", a[1], b[1]), borrow)

    def mul(self, a: Pair, b: Pair) -> Pair:
        low, high = self.call("mul_u64", *a, *b)
        return low, high

    def neg(self, a: Pair) -> Pair:
        return self.sub(self.const(0), a)

    def invert(self, a: Pair) -> Pair:
        return self.c("not", a[0]), self.c("not", a[1])

    def negative(self, t: DType, a: Pair) -> Node:
        """Whether it is below zero."""
        assert t.kind == "int"
        return self.c("lt", self.c.bits(a[1], i32), 0)

    def magnitude(self, t: DType, a: Pair) -> Pair:
        return a if t.kind == "uint" else self.select(self.negative(t, a), self.neg(a), a)

    # --- shifts --------------------------------------------------------------------------------------------------
    def shift(self, op: str, t: DType, a: Pair, count: Node) -> Pair:
        """By the low 6 bits of ``count``, a u32."""
        c = self.c
        right, signed = op == "shr", t.kind == "int"
        fill = c.bits(c("shr", c.bits(a[1], i32), 31), u32) if right and signed else c.const(0, u32)
        known = constant(count)
        if known is not None:
            return self._shifted(op, t, a, int(known) % 64, fill)
        n = c("and", count, 31)
        back = c("xor", n, 31)
        if right:
            high = c.bits(c("shr", c.bits(a[1], i32), c.bits(n, i32)), u32) if signed else c("shr", a[1], n)
            low = c("or", c("shr", a[0], n), c("shl", c("shl", a[1], 1), back))
            near, far = (low, high), (high, fill)
        else:
            low = c("shl", a[0], n)
            high = c("or", c("shl", a[1], n), c("shr", c("shr", a[0], 1), back))
            near, far = (low, high), (fill, low)
        return self.select(c("ne", c("and", count, 32), 0), far, near)

    def _shifted(self, op: str, t: DType, a: Pair, n: int, fill: Node) -> Pair:
        c = self.c
        if n == 0:
            return a
        if op == "shl":
            if n >= 32:
                return fill, c("shl", a[0], n - 32) if n > 32 else a[0]
            return c("shl", a[0], n), c("or", c("shl", a[1], n), c("shr", a[0], 32 - n))
        word = c.bits(a[1], i32) if t.kind == "int" else a[1]
        if n >= 32:
            return c.bits(c("shr", word, n - 32), u32) if n > 32 else a[1], fill
        return c("or", c("shr", a[0], n), c("shl", a[1], 32 - n)), c.bits(c("shr", word, n), u32)

    # --- comparison ----------------------------------------------------------------------------------------------
    def less(self, t: DType, a: Pair, b: Pair) -> Node:
        c = self.c
        high = [c.bits(x, i32) for x in (a[1], b[1])] if t.kind == "int" else [a[1], b[1]]
        return c.either(c("lt", *high), c.both(c("eq", a[1], b[1]), c("lt", a[0], b[0])))

    def compare(self, op: str, t: DType, a: Pair, b: Pair) -> Node:
        c = self.c
        if op in ("eq", "ne"):
            differ = c("or", c("xor", a[0], b[0]), c("xor", a[1], b[1]))
            return c(op, differ, 0)
        found = self.less(t, a, b) if op in ("lt", "ge") else self.less(t, b, a)
        return found if op in ("lt", "gt") else c("not", found)

    # --- division, powers, bits ----------------------------------------------------------------------------------
    def divide(self, op: str, t: DType, a: Pair, b: Pair) -> Pair:
        """By the magnitudes. By 0, quotient and remainder are 0; MIN / -1 wraps to MIN by itself."""
        c = self.c
        q0, q1, r0, r1 = self.call("divide_u64", *self.magnitude(t, a), *self.magnitude(t, b))
        q, r = (q0, q1), (r0, r1)
        rest = op in ("mod", "trem")
        if t.kind == "int":
            minus, by = self.negative(t, a), self.negative(t, b)
            differ = c("xor", minus, by)
            r = self.select(minus, self.neg(r), r)
            if not rest or op == "mod":
                off = c.both(differ, c("ne", c("or", r0, r1), 0))
                if op == "mod":
                    r = self.select(off, self.add(r, b), r)
                else:
                    q = self.select(differ, self.neg(q), q)
                    if op == "floordiv":
                        q = self.select(off, self.sub(q, self.const(1)), q)
        zero = c("eq", c("or", b[0], b[1]), 0)
        return self.select(zero, self.const(0), r if rest else q)

    def power(self, t: DType, x: Pair, n: Pair) -> Pair:
        c = self.c
        low, high = self.call("power_u64", *x, *n)
        if t.kind == "uint":
            return low, high
        # a negative exponent gives 0 but for bases 1 and -1, whose powers have a period of 2
        size = self.magnitude(t, x)
        unit = c.both(c("eq", size[0], 1), c("eq", size[1], 0))
        gone = c.both(self.negative(t, n), c("not", unit))
        return self.select(gone, self.const(0), (low, high))

    def count(self, op: str, a: Pair) -> Node:
        """popcount, clz or ctz, as a u32."""
        return bits_of_words(self.c, op, *a)

    # --- floats --------------------------------------------------------------------------------------------------
    def to_float(self, t: DType, a: Pair, to: DType) -> Node:
        """Rounded once. To f64 by an addition that rounds; to f32 from the upper 31 significant bits, the last of which
        is set where lower ones are: a positive i32."""
        c = self.c
        if to is f64:
            high = c.cast(c.bits(a[1], i32) if t.kind == "int" else a[1], f64)
            return c("add", c("mul", high, 2.0**32), c.cast(a[0], f64))
        size = self.magnitude(t, a)
        zeros = c("clz", size[1])
        low, high = self.shift("shl", t, size, c("and", zeros, 31))
        lost = c.flag(c("ne", c("or", low, c("and", high, 1)), 0), u32)
        word = c.bits(c("or", c("shr", high, 1), lost), i32)
        # 2**(33 - zeros) by its bits; where there are 32 zeros, one word is all
        scale = c.bits(c("shl", c("sub", c.const(160, u32), zeros), 23), f32)
        large = c("mul", c.cast(word, f32), scale)
        found = c.select(c("eq", size[1], 0), c.cast(size[0], f32), large)
        return c.select(self.negative(t, a), c("neg", found), found) if t.kind == "int" else found

    def from_float(self, t: DType, x: Node) -> Pair:
        """Toward zero, of a number in range; what it gives for others is of no account."""
        c = self.c
        size = c("abs", x)
        high = c.cast(c("mul", size, 2.0**-32), u32)
        low = c.cast(c("sub", c("trunc", size), c("mul", c.cast(high, x.dtype), 2.0**32)), u32)
        if t.kind == "uint":
            return low, high
        return self.select(c("lt", x, 0.0), self.neg((low, high)), (low, high))
