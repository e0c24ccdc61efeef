"""Numbers: how weak values adapt, which type an operation has, and what it becomes in the IR."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, PromotionError, bool_, f32, f64, i8, i16, i32, i64, index, promote, u64
from magpie.frontend.python.values import Const, Lazy, Num, Pointer, Shape, Tuple, Val, describe, is_number
from magpie.ir.nodes import Node, Region

if TYPE_CHECKING:
    from magpie.frontend.python.context import Fx

__all__ = [
    "DEFAULTS",
    "SYMBOLS",
    "adapt",
    "binary",
    "common",
    "compare",
    "convert",
    "default",
    "invert",
    "negate",
    "truth",
    "weak_kind",
]

DEFAULTS: dict[str, DType] = {"bool": bool_, "int": i32, "float": f32}
_RANK = {"bool": 0, "int": 1, "float": 2}

# Operator class -> (symbol, op name, Python's function for constants)
_BINARY: dict[type[ast.operator], tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", "add", operator.add),
    ast.Sub: ("-", "sub", operator.sub),
    ast.Mult: ("*", "mul", operator.mul),
    ast.Div: ("/", "div", operator.truediv),
    ast.FloorDiv: ("//", "floordiv", operator.floordiv),
    ast.Mod: ("%", "mod", operator.mod),
    ast.Pow: ("**", "pow", operator.pow),
    ast.BitAnd: ("&", "and", operator.and_),
    ast.BitOr: ("|", "or", operator.or_),
    ast.BitXor: ("^", "xor", operator.xor),
    ast.LShift: ("<<", "shl", operator.lshift),
    ast.RShift: (">>", "shr", operator.rshift),
}
SYMBOLS = {cls: row[0] for cls, row in _BINARY.items()}
_COMPARE: dict[type[ast.cmpop], tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", "eq", operator.eq),
    ast.NotEq: ("!=", "ne", operator.ne),
    ast.Lt: ("<", "lt", operator.lt),
    ast.LtE: ("<=", "le", operator.le),
    ast.Gt: (">", "gt", operator.gt),
    ast.GtE: (">=", "ge", operator.ge),
}
_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def weak_kind(val: Val) -> str | None:
    """``bool``, ``int`` or ``float`` for a number whose type is open, None for one of a declared type."""
    if isinstance(val, Num):
        return val.weak
    if isinstance(val, Lazy):
        return val.kind
    assert isinstance(val, Const)
    v = val.value
    return "bool" if isinstance(v, bool) else "int" if isinstance(v, int) else "float"


def number(fx: Fx, val: Val, at: ast.AST, what: str) -> Val:
    """``val`` if it is a number, else an error about ``what``."""
    if is_number(val):
        return val
    from magpie.frontend.python.values import View

    help = "take an element or a field of it"
    if isinstance(val, View):
        shown = ", ".join("ijkl"[: val.rank])
        help = f"index it: {val.array.name}[{shown}]" if val.rank == len(val.dims) else "give all indices"
    elif isinstance(val, Pointer):
        help = "index it: p[i]"
    elif isinstance(val, Const) and isinstance(val.value, str):
        help = "texts exist only in mp.print and assert"
    elif isinstance(val, Const) and callable(val.value):
        help = f"call it: {fx.text(at)}(...)" if isinstance(at, ast.Name | ast.Attribute) else "call it"
    some_indices = isinstance(val, View) and val.rank != len(val.dims)
    raise fx.fail(
        "MPG_PY_1011" if some_indices else "MPG_PY_1018", f"{what} takes numbers, not {describe(val)}", at, help=help
    )


def adapt(fx: Fx, val: Val, to: DType, at: ast.AST | None = None) -> Node:
    """``val`` in type ``to``. A weak literal must be in range; a strong number is cast without question."""
    if isinstance(val, Num):
        node = val.node
        if node.type is to:
            return node
        if val.weak is not None:
            for cell in val.origins:
                cell.met.add(to)
        if node.op == "const" and not node.dtype.is_float:  # a float constant still waits for its one rounding
            folded = _fold_cast(node.attrs["value"], to)
            if folded is not None:
                return fx.b.const(folded, to)
        return fx.b.emit("cast", node, type=to)
    if isinstance(val, Lazy):
        return val.make(to)
    assert isinstance(val, Const)
    v = val.value
    if to.is_int:
        v = int(v)
        if not to.min <= v <= to.max:
            raise fx.fail(
                "MPG_PY_1009",
                f"{v} is out of range of {to} ({to.min} to {to.max})",
                at,
                help=f"use a value in range, or cast the other operand to a wider type such as mp.{_wider(v)}(...)",
            )
    elif to.is_float:
        try:
            v = float(v)
        except OverflowError:
            v = math.inf
        if (not math.isinf(v) and abs(v) > _float_max(to)) or (math.isinf(v) and isinstance(val.value, int)):
            raise fx.fail("MPG_PY_1009", f"{val.value} is out of range of {to}", at, help="use a wider float type")
    return fx.b.const(v, to)


def _fold_cast(value: Any, to: DType) -> Any:
    """A typed constant in another type, where that keeps its value."""
    if to.is_bool:
        return bool(value)
    if to.is_float:
        # an integer may round: the cast op has the one rounding rule
        return float(value) if to is f64 and abs(value) <= 1 << 53 else None
    return int(value) if to.min <= int(value) <= to.max else None


def _float_max(t: DType) -> float:
    # below these, rounding to nearest gives a finite value
    return {"f16": 65519.99, "bf16": 3.3961775292304957e38, "f32": 3.4028235677973365e38}.get(t.name, math.inf)


def _wider(v: int) -> DType:
    return next((t for t in (i8, i16, i32, i64) if t.min <= v <= t.max), u64)


def default(val: Val) -> DType:
    """The type of ``val`` where it meets none: f32, i32, or i64 for a literal that i32 cannot hold."""
    if isinstance(val, Num):
        return val.type
    kind = weak_kind(val)
    assert kind is not None
    if kind == "int" and isinstance(val, Const) and not i32.min <= val.value <= i32.max:
        return i64 if i64.min <= val.value <= i64.max else u64
    return DEFAULTS[kind]


def common(
    fx: Fx, a: Val, b: Val, at: ast.AST, what: str, *, keep_bool: bool = False
) -> tuple[DType | None, str | None]:
    """The type in which ``a`` and ``b`` meet: (strong type, None), or (None, kind) if both are weak.

    ``keep_bool``: two bools stay bool (selection, assignment); else they become i32 (arithmetic).
    """
    ka, kb = weak_kind(a), weak_kind(b)
    if ka is not None and kb is not None:
        kind = ka if _RANK[ka] >= _RANK[kb] else kb
        return None, ("int" if kind == "bool" and not keep_bool else kind)
    if ka is None and kb is None:
        ta, tb = a.type, b.type  # type: ignore[attr-defined]
        if keep_bool and ta is tb:
            return ta, None
        try:
            return (promote(ta, tb) if not (ta is bool_ and tb is bool_) else (bool_ if keep_bool else i32)), None
        except PromotionError as error:
            raise _mixed(fx, a, b, at, what, error) from None
    strong: DType = (a if ka is None else b).type  # type: ignore[attr-defined]
    kind = kb or ka or "int"
    if kind == "float" and not strong.is_float:
        return f32, None
    if strong.is_bool and (kind == "int" or not keep_bool):
        return i32, None
    return strong, None


def _mixed(fx: Fx, a: Val, b: Val, at: ast.AST, what: str, error: PromotionError) -> Exception:
    ta, tb = a.type, b.type  # type: ignore[attr-defined]
    left, right = fx.operand_texts(at)
    if error.reason == "half":
        return fx.fail(
            "MPG_PY_1006", f"{what} mixes {ta} and {tb}", at, help=f"write mp.f32({left}) or mp.f32({right})"
        )
    signed, text = (ta, right) if ta.kind == "int" else (tb, left)
    both = f", or cast both to mp.{error.cast}" if error.cast.bits > signed.bits else ""
    unsigned, other = (tb, left) if ta.kind == "int" else (ta, right)
    return fx.fail(
        "MPG_PY_1005",
        f"{what} mixes {ta} and {tb}",
        at,
        help=f"write mp.{signed}({text}) or mp.{unsigned}({other}){both}",
    )


def lazy(kind: str, emit: Callable[[DType], Node], fx: Fx) -> Lazy:
    """A weak result, emitted once per type in which it is needed.

    An integer one that meets a float is computed as an integer first: 7 // 2 is 3 in any type.
    """
    made: dict[DType, tuple[Node, Region]] = {}

    def make(t: DType) -> Node:
        found = made.get(t)
        if found is not None and fx.encloses(found[1]):
            return found[0]
        if kind == "float":
            node = emit(t) if t.is_float else fx.b.cast(make(f32), t)
        else:
            node = emit(t) if t.is_int else fx.b.cast(make(index), t)
        made[t] = (node, fx.b.region)
        return node

    return Lazy(kind, make)


def combine(fx: Fx, op: str, a: Val, b: Val, at: ast.AST, what: str, *, floats: bool = False) -> Val:
    """``op`` on both operands in their common type (a float type if ``floats``)."""
    strong, kind = common(fx, a, b, at, what)
    if strong is not None:
        if floats and not strong.is_float:
            strong = f32
        x, y = adapt(fx, a, strong, at), adapt(fx, b, strong, at)
        return Num(fx.emit(at, op, x, y))
    assert kind is not None
    if floats:
        kind = "float"
    if isinstance(a, Num) or isinstance(b, Num):  # a variable whose type is still open: its present type, marked weak
        t = _open_type(kind, a, b)
        x, y = adapt(fx, a, t, at), adapt(fx, b, t, at)
        return Num(fx.emit(at, op, x, y), kind, origins(a, b))
    return lazy(kind, lambda t: fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at)), fx)


def _open_type(kind: str, *sides: Val) -> DType:
    """The type in which open values meet: that of an open variable among them, else index for integers and f32."""
    nums = [s.type for s in sides if isinstance(s, Num) and s.type.kind == DEFAULTS[kind].kind]
    t = nums[0] if nums else index if kind == "int" else DEFAULTS[kind]
    if t is i32 and any(isinstance(s, Const) and not i32.min <= s.value <= i32.max for s in sides):
        return index
    return t


def origins(*vals: Val) -> tuple[Any, ...]:
    """The open variables that the values come from."""
    return tuple(dict.fromkeys(o for v in vals if isinstance(v, Num) for o in v.origins))


def binary(fx: Fx, cls: type[ast.operator], a: Val, b: Val, at: ast.AST) -> Val:
    """``a <operator> b`` with Python's meaning."""
    if cls not in _BINARY:
        raise fx.fail(
            "MPG_PY_1001",
            "matrix product `@` is not available in kernels",
            at,
            help="write the loop over k, or or use matrix tiles: mp.mma",
        )
    symbol, op, fold = _BINARY[cls]
    if isinstance(a, Const) and isinstance(b, Const) and not (is_number(a) and is_number(b)):
        if isinstance(a.value, str) or isinstance(b.value, str):
            raise fx.fail("MPG_PY_1018", f"`{symbol}` on texts", at, help="texts exist only in mp.print and assert")
    what = f"`{symbol}`"
    number(fx, a, at, what)
    number(fx, b, at, what)
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(fx, symbol, fold, a.value, b.value, at)
    if op == "pow":
        return _power(fx, a, b, at)
    if op in ("shl", "shr"):
        return _shift(fx, op, a, b, at, what)
    if op in ("and", "or", "xor"):
        return _bits(fx, op, a, b, at, what)
    return combine(fx, op, a, b, at, what, floats=op == "div")


def _fold(fx: Fx, symbol: str, fold: Callable[[Any, Any], Any], x: Any, y: Any, at: ast.AST) -> Const:
    if symbol == "**" and isinstance(x, int) and isinstance(y, int) and abs(y) > 1024:
        raise fx.fail("MPG_PY_1009", f"{x} ** {y} is too large for any integer type", at, help="use a float")
    try:
        value = fold(x, y)
    except ZeroDivisionError:
        raise fx.fail(
            "MPG_PY_1018",
            "division of a constant by zero",
            at,
            help="Python raises here; write float('inf') as mp.inf if you mean it",
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise fx.fail(
            "MPG_PY_1018", f"`{symbol}` on constants: {error}", at, help="change one of the operands"
        ) from None
    if isinstance(value, complex):
        raise fx.fail("MPG_PY_1018", "the result is a complex number", at, help="kernels have real numbers only")
    return Const(value)


def _integer(val: Val) -> bool:
    kind = weak_kind(val)
    if kind is None:
        assert isinstance(val, Num)
        return not val.type.is_float
    return kind != "float"


def _bits(fx: Fx, op: str, a: Val, b: Val, at: ast.AST, what: str) -> Val:
    for side in (a, b):
        if not _integer(side):
            raise fx.fail(
                "MPG_PY_1018",
                f"{what} takes integers or bools, not {describe(side)}",
                at,
                help="cast to an integer type, or reinterpret the bits with mp.bitcast(x, mp.u32)",
            )
    strong, kind = common(fx, a, b, at, what, keep_bool=True)
    t = strong or DEFAULTS[kind or "int"]
    if strong is None and not isinstance(a, Num) and not isinstance(b, Num) and kind == "int":
        return lazy("int", lambda t: fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at)), fx)
    node = fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at))
    return Num(node, None if strong is not None else kind, origins(a, b) if strong is None else ())


def _shift(fx: Fx, op: str, a: Val, b: Val, at: ast.AST, what: str) -> Val:
    """The result has the type of the left operand; a weak left one takes that of the right. Counts are masked."""
    for side in (a, b):
        if not _integer(side):
            raise fx.fail(
                "MPG_PY_1018",
                f"{what} takes integers, not {describe(side)}",
                at,
                help="for a float multiply or divide by a power of 2: x * 2.0 ** k",
            )
    if isinstance(b, Const) and b.value < 0:
        raise fx.fail("MPG_PY_1018", f"{what} by the negative count {b.value}", at, help="shift the other way")
    if weak_kind(a) is None or weak_kind(b) is None:
        t = a.type if weak_kind(a) is None else b.type  # type: ignore[attr-defined]
        if t.is_bool:
            t = i32
        if isinstance(b, Const) and b.value >= t.bits:
            raise fx.fail(
                "MPG_PY_1018",
                f"{what} by {b.value} in {t}, which has {t.bits} bits",
                at,
                help=f"use a count below {t.bits}, or a wider type",
            )
        return Num(fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at)))
    if isinstance(a, Num) or isinstance(b, Num):
        return Num(fx.emit(at, op, adapt(fx, a, i32, at), adapt(fx, b, i32, at)), "int", origins(a, b))
    return lazy("int", lambda t: fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at)), fx)


def _power(fx: Fx, a: Val, b: Val, at: ast.AST) -> Val:
    if isinstance(b, Const) and isinstance(b.value, int | float):
        n = b.value
        if _integer(a) and isinstance(n, int):
            if n < 0:
                left, _ = fx.operand_texts(at)
                raise fx.fail(
                    "MPG_PY_1018",
                    f"an integer to the power {n} is no integer",
                    at,
                    help=f"make the base a float: mp.f32({left}) ** {n}",
                )
            if n <= 8:
                return _repeated(fx, a, n, at)
        elif not _integer(a):
            if n in (1, 2, 3, 4):
                return _repeated(fx, a, int(n), at)
            if n == 0:
                return _repeated(fx, a, 0, at)
    if _integer(a) and _integer(b):
        if weak_kind(b) is None and isinstance(b, Num) and weak_kind(a) is None and isinstance(a, Num):
            t = a.type if a.type.is_int else i32
            if {a.type.kind, b.type.kind} != {"int", "uint"}:
                t = promote(t, b.type)
            # else: the exponent's signedness does not matter to the result's type
            return Num(fx.emit(at, "pow", adapt(fx, a, t, at), adapt(fx, b, t, at)))
        return combine(fx, "pow", a, b, at, "`**`")
    return combine(fx, "pow", a, b, at, "`**`", floats=True)


def _repeated(fx: Fx, a: Val, n: int, at: ast.AST) -> Val:
    """``a ** n`` by squaring, n from 0 to 8."""
    if isinstance(a, Num) and a.type.is_bool:
        a = Num(adapt(fx, a, i32, at), a.weak, a.origins)
    if n == 0:
        return (
            Num(fx.b.const(1, a.type))
            if isinstance(a, Num) and a.weak is None
            else Const(1.0 if not _integer(a) else 1)
        )
    result: Val | None = None
    power, rest = a, n
    while True:
        if rest & 1:
            result = power if result is None else combine(fx, "mul", result, power, at, "`**`")
        rest >>= 1
        if not rest:
            break
        power = combine(fx, "mul", power, power, at, "`**`")
    assert result is not None
    return result


def negate(fx: Fx, val: Val, at: ast.AST) -> Val:
    """``-val``."""
    number(fx, val, at, "unary `-`")
    if isinstance(val, Const):
        return Const(-val.value)
    if isinstance(val, Lazy):
        kind = "int" if val.kind == "bool" else val.kind
        return lazy(kind, lambda t: fx.emit(at, "neg", val.make(t)), fx)
    assert isinstance(val, Num)
    t = i32 if val.type.is_bool else val.type
    return Num(fx.emit(at, "neg", adapt(fx, val, t, at)), "int" if val.weak == "bool" else val.weak, val.origins)


def invert(fx: Fx, val: Val, at: ast.AST) -> Val:
    """``~val``: complement of an integer, logical not of a bool (as NumPy)."""
    number(fx, val, at, "`~`")
    if not _integer(val):
        raise fx.fail(
            "MPG_PY_1018",
            f"`~` takes an integer or a bool, not {describe(val)}",
            at,
            help="reinterpret the bits with mp.bitcast(x, mp.u32) first",
        )
    if isinstance(val, Const):
        return Const(not val.value if isinstance(val.value, bool) else ~val.value)
    if isinstance(val, Lazy):
        if val.kind == "bool":
            return Num(fx.emit(at, "not", val.make(bool_)))
        return lazy("int", lambda t: fx.emit(at, "not", val.make(t)), fx)
    assert isinstance(val, Num)
    return Num(fx.emit(at, "not", val.node), val.weak, val.origins)


def truth(fx: Fx, val: Val, at: ast.AST) -> Const | Node:
    """``bool(val)``: a constant or a node of type bool."""
    if isinstance(val, Const):
        if isinstance(val.value, int | float | str | tuple) or val.value is None:
            return Const(bool(val.value))
        raise fx.fail(
            "MPG_PY_1018",
            f"a condition is a number or a bool, not {describe(val)}",
            at,
            help="compare it with something",
        )
    if isinstance(val, Pointer):
        return fx.emit(at, "ptr_valid", val.node)
    number(fx, val, at, "a condition")
    if isinstance(val, Lazy):
        if val.kind == "bool":
            return val.make(bool_)
        t = index if val.kind == "int" else f32
        return fx.emit(at, "ne", val.make(t), fx.b.const(0, t))
    assert isinstance(val, Num)
    if val.type.is_bool:
        return val.node
    return fx.emit(at, "ne", val.node, fx.b.const(0, val.type))


def compare(fx: Fx, cls: type[ast.cmpop], a: Val, b: Val, at: ast.AST) -> Val:
    """One comparison; right for every pair of values, also of different signedness."""
    if cls in (ast.Is, ast.IsNot, ast.In, ast.NotIn):
        return _identity(fx, cls, a, b, at)
    symbol, op, fold = _COMPARE[cls]
    if isinstance(a, Tuple | Shape) and isinstance(b, Tuple | Shape):
        return _compare_tuples(fx, cls, a, b, at)
    if isinstance(a, Const) and isinstance(b, Const):
        try:
            return Const(bool(fold(a.value, b.value)))
        except TypeError as error:
            raise fx.fail(
                "MPG_PY_1018", f"`{symbol}` on constants: {error}", at, help="compare values of one kind"
            ) from None
    what = f"`{symbol}`"
    number(fx, a, at, what)
    number(fx, b, at, what)
    signs = _signs(fx, op, a, b, at)
    if signs is not None:
        return Num(signs)
    strong, kind = common(fx, a, b, at, what, keep_bool=op in ("eq", "ne"))
    t = strong
    if t is None:
        t = _open_type(kind or "int", a, b)
    return Num(fx.emit(at, op, adapt(fx, a, t, at), adapt(fx, b, t, at)))


def _compare_tuples(fx: Fx, cls: type[ast.cmpop], a: Tuple | Shape, b: Tuple | Shape, at: ast.AST) -> Val:
    """Equality of two tuples, or shapes: that of all items."""
    if cls not in (ast.Eq, ast.NotEq):
        raise fx.fail(
            "MPG_PY_1018", f"tuples have no order in a kernel (`{_COMPARE[cls][0]}`)", at, help="compare the items"
        )
    left, right = fx.items(a), fx.items(b)
    result: Val = Const(len(left) == len(right))
    if result.value:  # type: ignore[attr-defined]
        for x, y in zip(left, right, strict=True):
            one = compare(fx, ast.Eq, x, y, at)
            result = one if isinstance(result, Const) and result.value else binary(fx, ast.BitAnd, result, one, at)
    return invert(fx, result, at) if cls is ast.NotEq else result


def _signs(fx: Fx, op: str, a: Val, b: Val, at: ast.AST) -> Node | None:
    """The comparison where the two sides' types cannot hold each other's values; None where the plain one is right."""
    for x, y, flipped in ((a, b, False), (b, a, True)):
        if isinstance(x, Num) and x.weak is None and x.type.is_int:
            if isinstance(y, Const) and isinstance(y.value, int) and not x.type.min <= y.value <= x.type.max:
                # known: the literal lies outside of every value that the other side can have
                above = y.value > x.type.max
                here = _MIRROR[op] if flipped else op  # x here y
                return fx.b.const(
                    {"lt": above, "le": above, "gt": not above, "ge": not above, "eq": False, "ne": True}[here], bool_
                )
            if isinstance(y, Lazy) and y.kind == "int" and x.type.bits < 32:
                left, right = fx.b.cast(x.node, index), y.make(index)
                return fx.emit(at, op, *((right, left) if flipped else (left, right)))
    if not (isinstance(a, Num) and isinstance(b, Num) and a.weak is None and b.weak is None):
        return None
    kinds = {a.type.kind, b.type.kind}
    if kinds != {"int", "uint"}:
        return None
    signed, unsigned = (a, b) if a.type.kind == "int" else (b, a)
    if signed.type.bits > unsigned.type.bits:
        return None
    if unsigned.type.bits <= 16:
        return fx.emit(at, op, fx.b.cast(a.node, i32), fx.b.cast(b.node, i32))
    # one test of the sign, then an unsigned comparison
    t = unsigned.type
    negative = fx.emit(at, "lt", signed.node, fx.b.const(0, signed.type))
    plain = fx.emit(at, op, fx.b.cast(a.node, t), fx.b.cast(b.node, t))
    here = op if signed is a else _MIRROR[op]  # signed here unsigned
    if here in ("lt", "le", "ne"):  # true for a negative value
        return fx.emit(at, "or", negative, plain)
    return fx.emit(at, "and", fx.emit(at, "not", negative), plain)


def _identity(fx: Fx, cls: type[ast.cmpop], a: Val, b: Val, at: ast.AST) -> Val:
    word = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[cls]
    negated = cls in (ast.IsNot, ast.NotIn)
    if cls in (ast.Is, ast.IsNot):
        none = [v for v in (a, b) if isinstance(v, Const) and v.value is None]
        if isinstance(a, Const) and isinstance(b, Const):
            return Const((a.value is b.value) != negated)
        if none:  # an array or a number is never None
            return Const(negated)
        raise fx.fail("MPG_PY_1001", f"`{word}` on run-time values", at, help=f"use {'!=' if negated else '=='}")
    if isinstance(b, Tuple) and b.items:
        result: Val | None = None
        for item in b.items:
            one = compare(fx, ast.NotEq if negated else ast.Eq, a, item, at)
            result = one if result is None else binary(fx, ast.BitAnd if negated else ast.BitOr, result, one, at)
        assert result is not None
        return result
    if isinstance(a, Const) and isinstance(b, Const) and isinstance(b.value, tuple | str):
        return Const((a.value in b.value) != negated)
    raise fx.fail(
        "MPG_PY_1001",
        f"`{word}` on {describe(b)}",
        at,
        help="write the comparisons: v == a or v == b; for an array use a loop",
    )


def convert(fx: Fx, val: Val, to: DType, at: ast.AST, target: str) -> Node:
    """``val`` for a place of type ``to`` (element, field, declared variable or parameter): NumPy's same_kind rule."""
    number(fx, val, at, f"{target} of type {to}")
    kind = weak_kind(val)
    source = val.type if kind is None else None  # type: ignore[attr-defined]
    is_float = source.is_float if source is not None else kind == "float"
    is_bool = source.is_bool if source is not None else kind == "bool"
    if (to.is_float or to is source) or (to.is_int and not is_float) or (to.is_bool and is_bool):
        return adapt(fx, val, to, at)
    text = fx.text(at)
    if to.is_bool:
        help = f"write {text} != 0"
    elif isinstance(val, Const) and float(val.value).is_integer():
        help = f"write {int(val.value)}"
    else:
        help = f"write mp.{to}({text}), which goes toward zero and saturates"
    raise fx.fail(
        "MPG_PY_1008", f"{describe(val)} does not convert to {to} by itself ({target} is {to})", at, help=help
    )
