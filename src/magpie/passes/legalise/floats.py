"""Float ops of f32 and f64 out of arithmetic, comparisons and the bits of a number.

A machine's own minimum is free in the sign of zeros and in what becomes of a NaN, its conversion to an integer in what
lies outside of the range, and a compiler may take for granted that there is no NaN: so the class of a number is read
from its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import copysign, isnan

from magpie.dtypes import f32, f64, i32, u32
from magpie.ir.nodes import Function, Kernel, Node, walk
from magpie.passes.inline import inline_calls
from magpie.passes.legalise.calc import Calc, constant, signed
from magpie.passes.math_library import math_function
from magpie.passes.rewrite import Rewriter

__all__ = ["lower_floats"]


def lower_floats(kernel: Kernel) -> Kernel:
    """``kernel``, of which floats are f32 and f64, without minima, Python's division and classes of floats."""
    ops = {n.op for n in walk(kernel.body) if n.args and n.args[0].type in (f32, f64)}
    if ops & _DIVISION.keys():
        division = _Floats(_DIVISION, kernel.fastmath)
        body = division.region(kernel.body)
        kernel = inline_calls(replace(kernel, body=body, functions=list(division.functions)))
    elif not ops & _HANDLERS.keys():
        return kernel
    return _Floats(_HANDLERS, kernel.fastmath).kernel(kernel)


class _Floats(Rewriter):
    def __init__(self, handlers: dict[str, _Handler], fast: bool) -> None:
        super().__init__(dict.fromkeys(handlers, _lowered))
        self.methods = handlers
        self.fast = fast
        self.functions: dict[Function, None] = {}


def _lowered(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Floats)
    t = node.args[0].dtype
    if t not in (f32, f64):
        return rw.keep(node)
    found = rw.methods[node.op](rw, Calc(rw.out, node), node, [rw.value(a) for a in node.args])
    return rw.keep(node) if found is None else found


def _minmax(rw: _Floats, c: Calc, node: Node, args: list[Node]) -> Node | None:
    """The first operand where it is the one: by order, by sign among equals, and by which of them is a NaN."""
    op = node.op
    numbers = op in ("min", "max")
    if rw.fast and numbers and not c.strict:
        return None
    a, b = args
    least = op in ("min", "minimum")
    known = constant(b)
    if known is None and constant(a) is not None:
        a, b, known = b, a, constant(a)
    before = "lt" if least else "gt"
    first = c(before, a, b)
    zeros = known is None or known == 0.0
    if zeros and not (known is not None and (copysign(1.0, known) > 0) != least):
        # equal numbers differ in their sign only; where the second is the zero to take, the comparison did it
        sign = signed(a.dtype.bits)
        negative = c("lt", c.bits(a, sign), 0)
        equal = c("eq", a, b)
        first = c.either(first, c.both(equal, negative if least else c("not", negative)))
    if not numbers:
        first = c.either(first, c("ne", a, a))
    elif known is None or isnan(known):
        first = c.either(first, c("ne", b, b))
    return c.select(first, a, b)


def _copysign(rw: _Floats, c: Calc, node: Node, args: list[Node]) -> Node:
    x, y = (c.bits(a) for a in args)
    top = 1 << (x.dtype.bits - 1)
    return c.bits(c("or", c("and", x, top - 1), c("and", y, top)), args[0].dtype)


def _classify(rw: _Floats, c: Calc, node: Node, args: list[Node]) -> Node:
    x = c.bits(args[0])
    size = c("and", x, (1 << (x.dtype.bits - 1)) - 1)
    infinity = 0x7F800000 if x.dtype is u32 else 0x7FF << 52
    return c({"isnan": "gt", "isinf": "eq", "isfinite": "lt"}[node.op], size, infinity)


def _to_integer(rw: _Floats, c: Calc, node: Node, args: list[Node]) -> Node | None:
    """Saturating: what is out of range is replaced after the conversion."""
    to, x = node.dtype, args[0]
    if not to.is_int:
        return None
    wide = to if to.bits >= 32 else i32
    whole = c.cast(x, wide)
    most, least = c.const(to.max, wide), c.const(to.min, wide)
    above = c("ge", x, float(to.max + 1))
    if to.kind == "uint":
        found = c.select(c("gt", x, 0.0), whole, 0)
    else:
        below = c.select(c("lt", x, 0.0), least, 0)
        found = c.select(c("ge", x, float(to.min)), whole, below)
    return c.cast(c.select(above, most, found), to)


def _python(rw: _Floats, c: Calc, node: Node, args: list[Node]) -> Node:
    """CPython's float_floor_div and float_rem (Objects/floatobject.c), around the library's fmod."""
    x, y = args
    t = x.dtype
    function = math_function("fmod", t)
    rw.functions[function] = None
    call = rw.out.emit("call", x, y, function=function)
    m = rw.out.emit("call_result", type=t, call=call, index=0)
    nonzero = c("ne", m, 0.0)
    off = c.both(nonzero, c("xor", c("lt", y, 0.0), c("lt", m, 0.0)))
    if node.op == "mod":
        zero = c("copysign", c.const(0.0, t), y)
        return c.select(nonzero, c.select(off, c("add", m, y), m), zero)
    d = c("div", c("sub", x, m), y)
    d = c.select(off, c("sub", d, 1.0), d)
    down = c("floor", d)
    down = c.select(c("gt", c("sub", d, down), 0.5), c("add", down, 1.0), down)
    ratio = c("div", x, y)
    down = c.select(c("ne", d, 0.0), down, c("copysign", c.const(0.0, t), ratio))
    return c.select(c("eq", y, 0.0), ratio, down)


_Handler = Callable[[_Floats, Calc, Node, list[Node]], Node | None]
_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("min", "max", "minimum", "maximum"), _minmax),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _classify),
    "copysign": _copysign,
    "cast": _to_integer,
}
_DIVISION: dict[str, _Handler] = dict.fromkeys(("floordiv", "mod"), _python)
