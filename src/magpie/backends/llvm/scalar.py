"""Total integer and floating-point operations as LLVM text, for scalars and vectors alike.

Each function returns the lines that define `out` from operands (names or constants) of a type such as "i32" or
"<8 x float>". LLVM's own instructions have poison or traps where Magpie's ops have values (x / 0, MIN / -1, a shift by
the width, a cast out of range); these texts have the values of the op table. Nothing here needs a declaration: the
parser declares intrinsics itself. Calls of `@magpie.*` functions are met by appending `helpers(text)` to the module.
"""

from __future__ import annotations

import math
import re

from magpie.backends.llvm.snippet import Text, bits, const, element, lanes, mangle, retype

__all__ = [
    "clz",
    "ctz",
    "div",
    "float_floordiv",
    "float_mod",
    "float_to_int",
    "floordiv",
    "fma",
    "fmod",
    "helpers",
    "ieee_remainder",
    "max_number",
    "max_propagate",
    "min_number",
    "min_propagate",
    "mod",
    "popcount",
    "rem",
    "shift",
]


# Integers


def _divide(text: Text, ty: str, a: str, b: str, signed: bool) -> tuple[str, str, str]:
    """(divisor that cannot fault, quotient by it, mask of b == 0)."""
    by_zero = text.compare("eq", ty, b, const(ty, 0))
    unsafe = by_zero
    if signed:
        minus = text.compare("eq", ty, b, const(ty, -1))
        lowest = text.compare("eq", ty, a, const(ty, -(1 << bits(ty) - 1)))
        unsafe = text.both("or", ty, by_zero, text.both("and", ty, minus, lowest))
    # MIN / 1 is the wrapped MIN / -1, and its remainder 0 is right too.
    divisor = text.select(ty, unsafe, const(ty, 1), b)
    return divisor, _quotient(text, ty, a, divisor, signed), by_zero


def _quotient(text: Text, ty: str, a: str, divisor: str, signed: bool) -> str:
    sign = "s" if signed else "u"
    width = bits(ty)
    if not lanes(ty) or width > 32:
        return text.let(f"{sign}div {ty} {a}, {divisor}")
    # No CPU divides integer vectors: LLVM would do it lane by lane. Through floats it is exact, because a quotient that
    # is not a whole number differs from one by a part of 2^-width at least, and the float has more bits than that.
    wide = retype(ty, "i32")
    if width < 32:
        extend = "sext" if signed else "zext"
        a, divisor = text.let(f"{extend} {ty} {a} to {wide}"), text.let(f"{extend} {ty} {divisor} to {wide}")
        sign = "s"
    real = retype(ty, "double" if width == 32 else "float")
    x = text.let(f"{sign}itofp {wide} {a} to {real}")
    y = text.let(f"{sign}itofp {wide} {divisor} to {real}")
    quotient = text.let(f"fpto{sign}i {real} {text.let(f'fdiv {real} {x}, {y}')} to {wide}")
    return quotient if width == 32 else text.let(f"trunc {wide} {quotient} to {ty}")


def div(out: str, a: str, b: str, ty: str, *, signed: bool) -> list[str]:
    """Quotient toward zero; x / 0 = 0, MIN / -1 = MIN."""
    text = Text(out)
    _, quotient, by_zero = _divide(text, ty, a, b, signed)
    return text.done(text.pick(ty, by_zero, const(ty, 0), quotient))


def rem(out: str, a: str, b: str, ty: str, *, signed: bool) -> list[str]:
    """Remainder of `div`, with the sign of the dividend; x % 0 = 0, MIN % -1 = 0."""
    text = Text(out)
    divisor, quotient, _ = _divide(text, ty, a, b, signed)
    return text.done(f"sub {ty} {a}, {text.let(f'mul {ty} {quotient}, {divisor}')}")


def floordiv(out: str, a: str, b: str, ty: str, *, signed: bool) -> list[str]:
    """Python's //: quotient toward minus infinity; x // 0 = 0, MIN // -1 = MIN."""
    if not signed:
        return div(out, a, b, ty, signed=False)
    text = Text(out)
    divisor, quotient, by_zero = _divide(text, ty, a, b, True)
    _, crossed = _floor_fix(text, ty, a, quotient, divisor)
    lower = text.let(f"add {ty} {quotient}, {text.select(ty, crossed, const(ty, -1), const(ty, 0))}")
    return text.done(text.pick(ty, by_zero, const(ty, 0), lower))


def mod(out: str, a: str, b: str, ty: str, *, signed: bool) -> list[str]:
    """Python's %: remainder with the sign of the divisor; x % 0 = 0."""
    if not signed:
        return rem(out, a, b, ty, signed=False)
    text = Text(out)
    divisor, quotient, _ = _divide(text, ty, a, b, True)
    remainder, crossed = _floor_fix(text, ty, a, quotient, divisor)
    return text.done(f"add {ty} {remainder}, {text.select(ty, crossed, divisor, const(ty, 0))}")


def _floor_fix(text: Text, ty: str, a: str, quotient: str, divisor: str) -> tuple[str, str]:
    """(remainder toward zero, mask where the floor is one lower)."""
    remainder = text.let(f"sub {ty} {a}, {text.let(f'mul {ty} {quotient}, {divisor}')}")
    differ = text.compare("slt", ty, text.let(f"xor {ty} {remainder}, {divisor}"), const(ty, 0))
    return remainder, text.both("and", ty, differ, text.compare("ne", ty, remainder, const(ty, 0)))


def shift(out: str, op: str, a: str, count: str, ty: str) -> list[str]:
    """shl, lshr or ashr (`op`) with the count taken modulo the width."""
    text = Text(out)
    return text.done(f"{op} {ty} {a}, {text.let(f'and {ty} {count}, {const(ty, bits(ty) - 1)}')}")


def popcount(out: str, a: str, ty: str) -> list[str]:
    """Number of set bits."""
    return Text(out).done(Text.invoke("ctpop", ty, a))


def clz(out: str, a: str, ty: str) -> list[str]:
    """Leading zeros; clz(0) is the width."""
    return Text(out).done(f"call {ty} @llvm.ctlz.{mangle(ty)}({ty} {a}, i1 false)")


def ctz(out: str, a: str, ty: str) -> list[str]:
    """Trailing zeros; ctz(0) is the width."""
    return Text(out).done(f"call {ty} @llvm.cttz.{mangle(ty)}({ty} {a}, i1 false)")


# Floats


def min_number(out: str, a: str, b: str, ty: str) -> list[str]:
    """IEEE 754-2019 minimumNumber: a number beats NaN, -0 < +0."""
    return Text(out).done(Text.invoke("minimumnum", ty, a, b))


def max_number(out: str, a: str, b: str, ty: str) -> list[str]:
    """IEEE 754-2019 maximumNumber: a number beats NaN, -0 < +0."""
    return Text(out).done(Text.invoke("maximumnum", ty, a, b))


def min_propagate(out: str, a: str, b: str, ty: str) -> list[str]:
    """IEEE 754-2019 minimum: NaN if one operand is, -0 < +0."""
    return Text(out).done(Text.invoke("minimum", ty, a, b))


def max_propagate(out: str, a: str, b: str, ty: str) -> list[str]:
    """IEEE 754-2019 maximum: NaN if one operand is, -0 < +0."""
    return Text(out).done(Text.invoke("maximum", ty, a, b))


def fma(out: str, a: str, b: str, c: str, ty: str) -> list[str]:
    """a * b + c, rounded once. A CPU without the instruction calls libm's, which is exact too."""
    return Text(out).done(Text.invoke("fma", ty, a, b, c))


def float_to_int(out: str, a: str, source: str, to: str, *, signed: bool) -> list[str]:
    """Truncate toward zero; out of range saturates, NaN gives 0. `source` is a float or double type."""
    text = Text(out)
    sign = "s" if signed else "u"
    if not lanes(source):
        return text.done(f"call {to} @llvm.fpto{sign}i.sat.{mangle(to)}.{mangle(source)}({source} {a})")
    # x86 does LLVM's saturating cast lane by lane. Only lanes in range are converted, so nothing here is poison.
    width = bits(to)
    top = float(1 << (width - 1 if signed else width))  # the first value above the range; both bounds are exact
    high = text.compare("oge", source, a, const(source, top))
    low_bound = -top if signed else -1.0
    # Just below -2^(n-1) truncation still gives -2^(n-1) where the float can tell them apart.
    inexact = signed and width < (24 if element(source) == "float" else 53)
    fits = text.compare("ogt" if inexact or not signed else "oge", source, a, const(source, low_bound - inexact))
    fits = text.both("and", source, fits, text.compare("olt", source, a, const(source, top)))
    value = text.select(source, fits, a, const(source, 0.0))
    wide = to if width >= 32 else retype(to, "i32")
    whole = text.let(f"fpto{sign if width >= 32 else 's'}i {source} {value} to {wide}")
    if wide != to:
        whole = text.let(f"trunc {wide} {whole} to {to}")
    most = (1 << (width - 1 if signed else width)) - 1
    if not signed:
        return text.done(text.pick(to, high, const(to, most), whole))
    low = text.compare("ole", source, a, const(source, -top))
    capped = text.select(to, high, const(to, most), whole)
    return text.done(text.pick(to, low, const(to, -(1 << width - 1)), capped))


def fmod(out: str, a: str, b: str, ty: str) -> list[str]:
    """C's fmod, exact: the sign of the dividend; NaN for x mod 0 and inf mod y."""
    return Text(out).done(f"call {ty} @magpie.fmod.{mangle(ty)}({ty} {a}, {ty} {b})")


def _python_mod(text: Text, ty: str, a: str, b: str) -> tuple[str, str, str]:
    """(fmod, its mask of nonzero, mask where divisor and remainder have different signs and it is nonzero)."""
    remainder = text.let(f"call {ty} @magpie.fmod.{mangle(ty)}({ty} {a}, {ty} {b})")
    some = text.compare("une", ty, remainder, const(ty, 0.0))
    negative = text.compare("olt", ty, remainder, const(ty, 0.0))
    differ = text.both("xor", ty, negative, text.compare("olt", ty, b, const(ty, 0.0)))
    return remainder, some, text.both("and", ty, some, differ)


def float_floordiv(out: str, a: str, b: str, ty: str) -> list[str]:
    """CPython's float // (Objects/floatobject.c, _float_div_mod); x // 0.0 is the quotient x / 0.0."""
    text = Text(out)
    remainder, _, crossed = _python_mod(text, ty, a, b)
    quotient = text.let(f"fdiv {ty} {a}, {b}")
    whole = text.let(f"fdiv {ty} {text.let(f'fsub {ty} {a}, {remainder}')}, {b}")
    whole = text.select(ty, crossed, text.let(f"fsub {ty} {whole}, {const(ty, 1.0)}"), whole)
    floor = text.call("floor", ty, whole)
    more = text.compare("ogt", ty, text.let(f"fsub {ty} {whole}, {floor}"), const(ty, 0.5))
    floor = text.select(ty, more, text.let(f"fadd {ty} {floor}, {const(ty, 1.0)}"), floor)
    zero = text.call("copysign", ty, const(ty, 0.0), quotient)
    result = text.select(ty, text.compare("une", ty, whole, const(ty, 0.0)), floor, zero)
    return text.done(text.pick(ty, text.compare("oeq", ty, b, const(ty, 0.0)), quotient, result))


def float_mod(out: str, a: str, b: str, ty: str) -> list[str]:
    """CPython's float %: the sign of the divisor, also on a zero; x % 0.0 is NaN."""
    text = Text(out)
    remainder, some, crossed = _python_mod(text, ty, a, b)
    moved = text.select(ty, crossed, text.let(f"fadd {ty} {remainder}, {b}"), remainder)
    return text.done(text.pick(ty, some, moved, text.call("copysign", ty, const(ty, 0.0), b)))


def ieee_remainder(out: str, a: str, b: str, ty: str) -> list[str]:
    """IEEE 754 remainder, x - n * y with n nearest to x / y, ties to even (the method of fdlibm's e_remainder.c)."""
    text = Text(out)
    divisor = text.call("fabs", ty, b)
    double = text.let(f"fadd {ty} {divisor}, {divisor}")
    first = text.let(f"call {ty} @magpie.fmod.{mangle(ty)}({ty} {a}, {ty} {double})")
    # Where 2y overflows, x is below it already; an infinite or NaN x must still give NaN.
    finite = text.compare("one", ty, double, const(ty, math.inf))
    infinite = text.compare("oeq", ty, divisor, const(ty, math.inf))
    nothing = text.let(f"fmul {ty} {a}, {const(ty, 0.0)}")
    step = text.call("fabs", ty, text.select(ty, finite, first, text.let(f"fsub {ty} {a}, {nothing}")))
    # Twice at most a whole y comes off. x > y/2 is asked as x > y - x: halving a subnormal would round, and where it
    # matters y - x is exact (Sterbenz).
    over = text.compare("ogt", ty, step, text.let(f"fsub {ty} {divisor}, {step}"))
    once = text.select(ty, over, text.let(f"fsub {ty} {step}, {divisor}"), step)
    again = text.compare("oge", ty, text.let(f"fadd {ty} {once}, {once}"), divisor)
    again = text.both("and", ty, over, again)
    once = text.select(ty, again, text.let(f"fsub {ty} {once}, {divisor}"), once)
    once = text.select(ty, infinite, step, once)
    # The sign of x times the sign of what is left; a zero keeps the sign of x.
    integer = retype(ty, f"i{bits(ty)}")
    sign = text.let(f"and {integer} {text.let(f'bitcast {ty} {a} to {integer}')}, {const(integer, 1 << bits(ty) - 1)}")
    flipped = text.let(f"xor {integer} {text.let(f'bitcast {ty} {once} to {integer}')}, {sign}")
    signed = text.let(f"bitcast {integer} {flipped} to {ty}")
    return text.done(text.pick(ty, text.compare("uno", ty, a, b), const(ty, math.nan), signed))


_HELPER = re.compile(r"@magpie\.fmod\.((?:v\d+)?)(f32|f64)\b")


def helpers(text: str) -> str:
    """Definitions of the `@magpie.*` functions that a module's text calls."""
    found = sorted(set(_HELPER.findall(text)))
    return "\n".join(_fmod_helper(f"{vector}{scalar}") for vector, scalar in found)


def _fmod_helper(name: str) -> str:
    """The exact fmod of one type, a loop that takes all but one or two bits of the mantissa a round.

    With |x| >= |y|, and y scaled up to s so that x / s is below 2^(p-1), q = trunc(x / s) is the whole quotient or one
    more, and fma(-q, s, x) is exact: a multiple of s's last place that is smaller than s. So one round serves
    quotients below 2^(p-2), and the largest of all takes 13 (f32) or 42 (f64).
    """
    scalar = "float" if name.endswith("f32") else "double"
    ty = f"<{name[1:-3]} x {scalar}>" if name.startswith("v") else scalar
    mantissa, bias = (23, 127) if scalar == "float" else (52, 1023)
    integer = retype(ty, f"i{bits(ty)}")
    mask = retype(ty, "i1")

    start = Text("%s")
    x, y = start.call("fabs", ty, "%a"), start.call("fabs", ty, "%b")
    valid = start.both(
        "and", ty, start.compare("olt", ty, x, const(ty, math.inf)), start.compare("ogt", ty, y, const(ty, 0.0))
    )
    x, y = start.select(ty, valid, x, const(ty, 0.0)), start.select(ty, valid, y, const(ty, 1.0))

    def exponent(text: Text, value: str) -> str:
        small = text.compare("olt", ty, value, const(ty, 2.0 ** (1 - bias)))
        scaled = text.let(f"fmul {ty} {value}, {const(ty, 2.0 ** (mantissa + 2))}")
        raw = text.let(f"bitcast {ty} {text.select(ty, small, scaled, value)} to {integer}")
        biased = text.let(f"lshr {integer} {raw}, {const(integer, mantissa)}")
        less = text.select(integer, small, const(integer, mantissa + 2), const(integer, 0))
        return text.let(f"sub {integer} {biased}, {less}")

    low = exponent(start, y)

    head = Text("%h")
    live = head.compare("oge", ty, "%r", y)
    more = head.let(f"call i1 @llvm.vector.reduce.or.{mangle(mask)}({mask} {live})") if lanes(ty) else live

    body = Text("%t")
    distance = body.let(f"sub {integer} {exponent(body, '%r')}, {low}")
    distance = body.let(f"sub {integer} {distance}, {const(integer, mantissa - 1)}")
    distance = body.call("smax", integer, distance, const(integer, 0))
    # Up to 2^(2 * bias): in two factors, each a normal number.
    part = body.call("smin", integer, distance, const(integer, bias))
    scaled = y
    for count in (part, body.let(f"sub {integer} {distance}, {part}")):
        biased = body.let(f"add {integer} {count}, {const(integer, bias)}")
        power = body.let(f"bitcast {integer} {body.let(f'shl {integer} {biased}, {const(integer, mantissa)}')} to {ty}")
        scaled = body.let(f"fmul {ty} {scaled}, {power}")
    quotient = body.call("trunc", ty, body.let(f"fdiv {ty} %r, {scaled}"))
    rest = body.call("fma", ty, body.let(f"fneg {ty} {quotient}"), scaled, "%r")
    under = body.compare("olt", ty, rest, const(ty, 0.0))
    rest = body.select(ty, under, body.let(f"fadd {ty} {rest}, {scaled}"), rest)
    body.lines.append(f"%next = {body.pick(ty, live, rest, '%r')}")

    end = Text("%e")
    signed = end.call("copysign", ty, "%r", "%a")
    result = end.select(ty, valid, signed, const(ty, math.nan))
    blocks = [
        f"define internal {ty} @magpie.fmod.{name}({ty} %a, {ty} %b) nounwind convergent {{",
        "entry:",
        *start.lines,
        "br label %head",
        "head:",
        f"%r = phi {ty} [ {x}, %entry ], [ %next, %body ]",
        *head.lines,
        f"br i1 {more}, label %body, label %end",
        "body:",
        *body.lines,
        "br label %head",
        "end:",
        *end.lines,
        f"ret {ty} {result}",
        "}",
        "",
    ]
    return "\n".join(blocks)
