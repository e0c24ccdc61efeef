"""Integer ops made total out of those that machines have: what they do for a divisor of 0, MIN / -1 or a count beyond
the width is undefined in SPIR-V and in C, and the bits of other widths than 32 are not counted.

A divisor or count of which the range is known to be harmless costs nothing.
"""

from __future__ import annotations

from magpie.dtypes import DType, f32, i32, u32
from magpie.ir.nodes import Kernel, Node, Slot, walk
from magpie.passes.legalise.calc import Calc, constant
from magpie.passes.legalise.target import Target
from magpie.passes.narrow_index import Ranges, ranges
from magpie.passes.rewrite import Rewriter

__all__ = ["bits_of_word", "bits_of_words", "lower_integers"]

#: Powers with a constant exponent up to this are products.
_UNROLLED = 64


def lower_integers(kernel: Kernel, target: Target) -> Kernel:
    """``kernel`` with integer ops of the core alone, and casts from and to bool as selects and comparisons."""
    if not any(n.op in _HANDLERS for n in walk(kernel.body)):
        return kernel
    return _Integers(ranges(kernel), target).kernel(kernel)


class _Integers(Rewriter):
    def __init__(self, known: Ranges, target: Target) -> None:
        super().__init__(dict.fromkeys(_HANDLERS, _lowered))
        self.known = known
        self.target = target


def _lowered(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Integers)
    t = node.args[0].dtype
    if t.is_float and node.op != "cast":
        return rw.keep(node)
    args = [rw.value(a) for a in node.args]
    found = _HANDLERS[node.op](rw, Calc(rw.out, node), node, args, t)
    return rw.keep(node) if found is None else found


def _least(rw: _Integers, node: Node, t: DType) -> int:
    """The least value that an operand of the original kernel can have."""
    return rw.known.of(node)[0] if t.is_int else 0


# --- division ---------------------------------------------------------------------------------------------------------


class _Division:
    """A quotient toward zero by a divisor that is made harmless, and where it is the wrong one."""

    def __init__(self, rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> None:
        self.c = c
        self.a, b = args
        low, high = rw.known.of(node.args[1])
        self.zero = c("eq", b, 0) if low <= 0 <= high else None
        self.minus = c("eq", b, -1) if t.kind == "int" and low <= -1 <= high else None
        wrong = [w for w in (self.zero, self.minus) if w is not None]
        self.b = c.select(c.either(*wrong), 1, b) if wrong else b
        self.q = c("tdiv", self.a, self.b)

    def quotient(self, q: Node) -> Node:
        """``q``, which went by the harmless divisor, with what it is by 0 and -1."""
        if self.minus is not None:
            q = self.c.select(self.minus, self.c("neg", self.a), q)
        return q if self.zero is None else self.c.select(self.zero, 0, q)

    def rest(self) -> Node:
        """The remainder, which is 0 where the divisor was made 1."""
        return self.c("sub", self.a, self.c("mul", self.q, self.b))

    def straddles(self, r: Node) -> Node:
        """Where a remainder is not 0 and has another sign than the divisor."""
        return self.c.both(self.c("ne", r, 0), self.c("lt", self.c("xor", r, self.b), 0))


def _divide(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    op = node.op
    down = op in ("floordiv", "mod")
    plain = t.kind == "uint" or _least(rw, node.args[0], t) >= 0
    by = constant(args[1])
    if by is not None and by > 0 and int(by) & (int(by) - 1) == 0 and (plain or down):
        if op in ("floordiv", "tdiv"):
            return c("shr", args[0], int(by).bit_length() - 1)
        return c("and", args[0], int(by) - 1)
    if plain and _least(rw, node.args[1], t) >= 1:
        if op in ("floordiv", "tdiv"):
            return None if op == "tdiv" else c("tdiv", *args)
        if t.kind == "uint":
            return None if op == "trem" else c("trem", *args)
    d = _Division(rw, c, node, args, t)
    if op == "tdiv":
        return d.quotient(d.q)
    if t.kind == "uint":
        return d.quotient(d.q) if op == "floordiv" else d.rest()
    r = d.rest()
    if op == "trem" or (plain and _least(rw, node.args[1], t) >= 0):
        return d.quotient(d.q) if op == "floordiv" else r
    off = d.straddles(r)
    if op == "mod":
        return c("add", r, c.select(off, d.b, 0))
    return d.quotient(c("sub", d.q, c.flag(off, t)))


# --- shifts, powers, bits ---------------------------------------------------------------------------------------------


def _shift(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    low, high = rw.known.of(node.args[1])
    if low >= 0 and high < t.bits:
        return None
    return c(node.op, args[0], c("and", args[1], t.bits - 1))


def _abs(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    return args[0] if t.kind == "uint" else c("max", args[0], c("neg", args[0]))  # of MIN, both are MIN


def _minmax(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    return c("and" if node.op == "min" else "or", *args) if t.is_bool else None


def _power(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node:
    """Exponentiation by squaring; a negative exponent gives 0 but for bases 1 and -1."""
    x, n = args
    known = constant(n)
    if known is not None and 0 <= known <= _UNROLLED:
        return _product(c, x, int(known), t)
    if t.bits < 32:  # the low bits of a power in 32; an H200's driver took this loop in i16 for one without trips
        wide = u32 if t.kind == "uint" else i32
        return c.cast(_power(rw, c, node, [c.cast(a, wide) for a in args], wide), t)
    out = rw.out
    power, base, rest = (Slot(name, t) for name in ("power", "base", "rest"))
    out.set(power, c.const(1, t))
    out.set(base, x)
    left = n if t.kind == "uint" else c("max", n, 0)
    out.set(rest, left)
    _, body, _ = out.loop()
    with out.into(body):
        e, b, p = out.get(rest), out.get(base), out.get(power)
        out.emit("break_if", c("eq", e, 0))
        out.set(power, c.select(c("eq", c("and", e, 1), 0), p, c("mul", p, b)))
        out.set(base, c("mul", b, b))
        out.set(rest, c("shr", e, 1))
    found = out.get(power)
    if t.kind == "uint" or _least(rw, node.args[1], t) >= 0:
        return found
    sign = c.select(c("eq", c("and", n, 1), 0), 1, x)
    unit = c.either(c("eq", x, 1), c("eq", x, -1))
    return c.select(c("lt", n, 0), c.select(unit, sign, 0), found)


def _product(c: Calc, x: Node, n: int, t: DType) -> Node:
    found: Node | None = None
    while n:
        if n & 1:
            found = x if found is None else c("mul", found, x)
        n >>= 1
        x = c("mul", x, x) if n else x
    return c.const(1, t) if found is None else found


def _count(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    if t is u32:
        return None
    u = c.bits(args[0])
    if t.bits == 64:
        low, high = c.cast(u, u32), c.cast(c("shr", u, 32), u32)
        return c.cast(bits_of_words(c, node.op, low, high), t)
    found = bits_of_word(c, node.op, c.cast(u, u32), t.bits)
    return c.bits(found, t) if t is i32 else c.cast(found, t)


def bits_of_word(c: Calc, op: str, word: Node, width: int) -> Node:
    """popcount, clz or ctz of an integer of ``width`` bits that stands in a u32, with zeros above; a u32."""
    if width == 32 or op == "popcount":
        return c(op, word)
    if op == "clz":
        return c("sub", c("clz", word), 32 - width)
    return c("ctz", c("or", word, 1 << width))


def bits_of_words(c: Calc, op: str, low: Node, high: Node) -> Node:
    """As `bits_of_word`, of 64 bits in two words."""
    if op == "popcount":
        return c("add", c(op, low), c(op, high))
    first, second = (high, low) if op == "clz" else (low, high)
    return c.select(c("eq", first, 0), c("add", c(op, second), 32), c(op, first))


def _cast(rw: _Integers, c: Calc, node: Node, args: list[Node], t: DType) -> Node | None:
    to = node.dtype
    if t.is_bool:
        if to.is_bool:
            return args[0]
        return c.select(args[0], c.const(1, to), c.const(0, to))
    if to.is_bool:
        return c("ne", args[0], 0)
    if t is u32 and to is f32 and not rw.target.u32_to_f32:
        return word_to_float(c, args[0], large=rw.known.of(node.args[0])[1] > i32.max)
    return None


def word_to_float(c: Calc, word: Node, *, large: bool = True) -> Node:
    """A u32 as f32 by the conversion of signed numbers; where it may be ``large``, of half of it, with a last bit that
    tells of what was shifted out."""
    small = c.cast(c.bits(word, i32), f32)
    if not large:
        return small
    half = c("or", c("shr", word, 1), c("and", word, 1))
    twice = c("mul", c.cast(c.bits(half, i32), f32), 2.0)
    return c.select(c("lt", c.bits(word, i32), 0), twice, small)


_HANDLERS = {
    **dict.fromkeys(("floordiv", "mod", "tdiv", "trem"), _divide),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("min", "max"), _minmax),
    **dict.fromkeys(("popcount", "clz", "ctz"), _count),
    "abs": _abs,
    "pow": _power,
    "cast": _cast,
}
