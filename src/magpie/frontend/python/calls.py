"""Calls: casts, struct constructors, Python's own functions, builtins of mp, and device functions."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from magpie.dtypes import DType, bool_, f32, f64, i32, i64
from magpie.frontend.python.arith import adapt, binary, lazy, number, truth, weak_kind
from magpie.frontend.python.context import EXPRESSIONS, Fx
from magpie.frontend.python.errors import LATER, REJECTED_CALLS
from magpie.frontend.python.functions import call_device
from magpie.frontend.python.structs import construct
from magpie.frontend.python.values import Const, Lazy, Num, Pointer, Shape, Table, Tuple, Val, View, describe
from magpie.frontend.python.views import extent
from magpie.language import numeric
from magpie.language._builtin import Builtin
from magpie.language.declare import DeviceFunction, cdiv, struct_type

__all__ = ["BUILTINS", "cast_to"]

# name of a builtin -> handler(fx, call, arguments by name, extra positional ones)
Handler = Callable[[Fx, ast.Call, dict[str, Val], list[Val]], Val]
BUILTINS: dict[str, Handler] = {}

NOTHING = Const(None)


def _call(fx: Fx, e: ast.Call) -> Val:
    if isinstance(e.func, ast.Attribute) and e.func.attr == "astype":
        return _astype(fx, e)
    callee = fx.expr(e.func)
    if not isinstance(callee, Const):
        raise fx.fail(
            "MPG_PY_1026",
            f"{describe(callee)} cannot be called",
            e,
            help="call a builtin of mp, a function of math or one marked @mp.func",
        )
    f = callee.value
    if isinstance(f, Builtin):
        return _builtin(fx, e, f)
    if isinstance(f, DType):
        return _dtype_call(fx, e, f)
    args, keywords = _arguments(fx, e)
    if isinstance(f, DeviceFunction):
        return call_device(fx, f, args, keywords, e)
    if isinstance(f, type) and struct_type(f) is not None:
        return construct(fx, f, args, keywords, e)
    handler = _PYTHON.get(f) if getattr(f, "__hash__", None) else None
    if handler is not None:
        return handler(fx, e, args, keywords)
    raise _not_callable(fx, e, f)


def _not_callable(fx: Fx, e: ast.Call, f: Any) -> Exception:
    name = getattr(f, "__name__", type(f).__name__)
    module = getattr(f, "__module__", None) or ""
    if isinstance(f, FunctionType):
        return fx.fail(
            "MPG_PY_1026", f"{name} is a plain Python function", e, help=f"mark it: @mp.func above def {name}"
        )
    if module == "builtins" and name in REJECTED_CALLS:
        return fx.fail("MPG_PY_1001", f"{name}() is not possible in a kernel", e, help=REJECTED_CALLS[name])
    root = module.split(".")[0]
    if name in LATER and root in ("math", "numpy", "scipy", ""):  # ufuncs have no module
        return fx.fail("MPG_PY_1034", f"{name} is not there yet", e, help=LATER[name])
    if root == "math" or hasattr(numeric, name):
        help = f"use mp.{name}" if hasattr(numeric, name) else "write it with the functions that mp has"
        return fx.fail("MPG_PY_1026", f"{root or 'this'}.{name} has no code for a device", e, help=help)
    if type(f).__name__ == "Kernel" or root == "magpie":
        return fx.fail(
            "MPG_PY_1026",
            f"{name} cannot be called in a kernel",
            e,
            help="mark shared code @mp.func and call that from both kernels",
        )
    return fx.fail(
        "MPG_PY_1026",
        f"{name} is no device function",
        e,
        help="call a builtin of mp, a function of math or one marked @mp.func",
    )


def _arguments(fx: Fx, e: ast.Call) -> tuple[list[Val], dict[str, Val]]:
    for a in e.args:
        if isinstance(a, ast.Starred):
            raise fx.fail(
                "MPG_PY_1001",
                "a starred argument is not possible in a kernel",
                a,
                help="write the arguments one by one",
            )
    for k in e.keywords:
        if k.arg is None:
            raise fx.fail(
                "MPG_PY_1001",
                "a ** argument is not possible in a kernel",
                k.value,
                help="write the arguments one by one",
            )
    return [fx.expr(a) for a in e.args], {str(k.arg): fx.expr(k.value) for k in e.keywords}


# --- builtins of mp ---------------------------------------------------------------------------------------------------
def _builtin(fx: Fx, e: ast.Call, f: Builtin) -> Val:
    handler = BUILTINS.get(f.name)
    if handler is None:
        raise fx.fail(
            "MPG_PY_1012",
            f"mp.{f.name} cannot be called here",
            e,
            help="mp.static_range stands only in for ... in mp.static_range(...)",
        )
    if f.name == "print":
        return handler(fx, e, {}, [])
    args, keywords = _arguments(fx, e)
    names = [n for n, _, _ in f.parameters]
    if len(args) > len(names) and not f.variadic:
        raise fx.fail(
            "MPG_PY_1012",
            f"mp.{f.name} takes {len(names)} argument{'s' * (len(names) != 1)}, and {len(args)} are given",
            e,
            help=f"it is {f.shown}",
        )
    bound = dict(zip(names, args, strict=False))
    for name, val in keywords.items():
        if name not in names or name in bound:
            what = "given twice" if name in bound else "unknown"
            raise fx.fail("MPG_PY_1012", f"argument {name} of mp.{f.name} is {what}", e, help=f"it is {f.shown}")
        bound[name] = val
    for name, has_default, value in f.parameters:
        if name not in bound:
            if not has_default:
                raise fx.fail("MPG_PY_1012", f"mp.{f.name} needs an argument {name}", e, help=f"it is {f.shown}")
            bound[name] = Const(value)
    return handler(fx, e, bound, args[len(names) :])


def argument_node(e: ast.Call, names: list[str], name: str) -> ast.AST:
    """The syntax of an argument, for the place of an error."""
    for k in e.keywords:
        if k.arg == name:
            return k.value
    i = names.index(name)
    return e.args[i] if i < len(e.args) else e


# --- casts ------------------------------------------------------------------------------------------------------------
def cast_to(fx: Fx, val: Val, to: DType, at: ast.AST) -> Val:
    """An explicit cast: any number to any type; float to integer goes toward zero and saturates, NaN gives 0."""
    number(fx, val, at, f"mp.{to}(...)")
    if isinstance(val, Const):
        v = val.value
        if to.is_int and isinstance(v, float):
            v = 0 if math.isnan(v) else to.max if v >= to.max else to.min if v <= to.min else int(v)
        elif to.is_bool:
            v = bool(v)
        elif to.is_int:
            v = (int(v) - to.min) % (1 << to.bits) + to.min if to.kind == "int" else int(v) % (1 << to.bits)
        elif to.is_float:
            return Num(fx.b.const(v, to)) if not _rounds(v, to) else Num(fx.b.emit("cast", fx.b.const(v, f64), type=to))
        return Num(fx.b.const(v, to))
    if isinstance(val, Num) and val.weak is not None and val.type is not to:
        return Num(fx.emit(at, "cast", val.node, type=to))  # says nothing about the type of an open variable
    return Num(adapt(fx, val, to, at))


def _rounds(v: Any, to: DType) -> bool:
    """A value beyond the range of the type: left to the cast op, which gives an infinity."""
    from magpie.frontend.python.arith import _float_max

    try:
        return abs(float(v)) > _float_max(to) and not math.isinf(float(v))
    except OverflowError:
        return False


def _dtype_call(fx: Fx, e: ast.Call, to: DType) -> Val:
    args, keywords = _arguments(fx, e)
    if len(args) != 1 or keywords:
        raise fx.fail("MPG_PY_1012", f"mp.{to} takes one value", e, help=f"write mp.{to}(x)")
    return cast_to(fx, args[0], to, e.args[0])


def _astype(fx: Fx, e: ast.Call) -> Val:
    assert isinstance(e.func, ast.Attribute)
    val = fx.expr(e.func.value)
    args, keywords = _arguments(fx, e)
    if len(args) != 1 or keywords:
        raise fx.fail("MPG_PY_1012", "astype takes one dtype", e, help="write x.astype(mp.f32)")
    target = args[0].value if isinstance(args[0], Const) else None
    target = {float: f32, int: i32, bool: bool_}.get(target, target) if isinstance(target, type) else target
    if not isinstance(target, DType):
        raise fx.fail("MPG_PY_1012", f"astype takes a dtype, not {describe(args[0])}", e, help="write x.astype(mp.f32)")
    return cast_to(fx, val, target, e)


# --- Python's own functions -------------------------------------------------------------------------------------------
PyHandler = Callable[[Fx, ast.Call, list[Val], dict[str, Val]], Val]


def _one(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val], name: str) -> Val:
    if len(args) != 1 or keywords:
        raise fx.fail("MPG_PY_1012", f"{name} takes one value in a kernel", e, help=f"write {name}(x)")
    return args[0]


def _int(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    """int(x): integers of 32 bits and more stay what they are, f64 gives i64, everything else i32."""
    val = number(fx, _one(fx, e, args, keywords, "int"), e, "int()")
    if isinstance(val, Const):
        if isinstance(val.value, float) and not math.isfinite(val.value):
            raise fx.fail("MPG_PY_1018", f"int() of {val.value}", e, help="use a finite number")
        return Const(int(val.value))
    if isinstance(val, Lazy):
        return lazy("int", val.make, fx) if val.kind != "float" else Num(adapt(fx, val, i32, e))
    assert isinstance(val, Num)
    t = val.type
    if t.is_int and t.bits >= 32:
        return val
    return cast_to(fx, val, i64 if t is f64 else i32, e)


def _float(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    """float(x): f64 stays, everything else gives f32."""
    if len(args) == 1 and isinstance(args[0], Const) and isinstance(args[0].value, str):
        try:
            return Const(float(args[0].value))  # float("inf")
        except ValueError:
            raise fx.fail(
                "MPG_PY_1018", f"float({args[0].value!r}) is no number", e, help='use float("inf") or a literal'
            ) from None
    val = number(fx, _one(fx, e, args, keywords, "float"), e, "float()")
    if isinstance(val, Const):
        return Const(float(val.value))
    if isinstance(val, Lazy):
        return lazy("float", val.make, fx)
    assert isinstance(val, Num)
    return val if val.type is f64 else cast_to(fx, val, f32, e)


def _bool(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    out = truth(fx, _one(fx, e, args, keywords, "bool"), e)
    return out if isinstance(out, Const) else Num(out)


def _len(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    val = _one(fx, e, args, keywords, "len")
    if isinstance(val, View):
        if val.rank == 0:
            raise fx.fail(
                "MPG_PY_1011", f"{describe(val)} has no dimension", e, help="an array of rank 0 has one element: x[()]"
            )
        return Num(extent(fx, val, 0))
    if isinstance(val, Pointer):
        return Num(val.count)
    if isinstance(val, Tuple):
        return Const(len(val.items))
    if isinstance(val, Shape):
        return Const(val.view.rank)
    if isinstance(val, Table):
        return Const(val.shape[len(val.indices)])
    if isinstance(val, Const) and isinstance(val.value, str):
        return Const(len(val.value))
    raise fx.fail("MPG_PY_1018", f"{describe(val)} has no length", e, help="arrays and tuples have one")


def _via(name: str, count: int | None = None) -> PyHandler:
    """Python's function is the builtin of mp called ``name``."""

    def handler(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
        builtin: Any = getattr(numeric, name)
        wanted = [n for n, has, _ in builtin.parameters if not has]
        if keywords or len(args) < len(wanted) or (not builtin.variadic and len(args) > len(wanted)):
            count = f"{len(wanted)}{' or more' * builtin.variadic} value{'s' * (len(wanted) != 1)}"
            given = len(args) + len(keywords)
            raise fx.fail(
                "MPG_PY_1012", f"{name} takes {count} in a kernel, not {given}", e, help=f"it is {builtin.shown}"
            )
        return BUILTINS[name](fx, e, dict(zip(wanted, args, strict=False)), args[len(wanted) :])

    return handler


def _cdiv(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    if len(args) != 2 or keywords:
        raise fx.fail("MPG_PY_1012", "mp.cdiv takes two values", e, help="it is mp.cdiv(a, b)")
    a, b = args
    for side in args:
        number(fx, side, e, "mp.cdiv")
        if weak_kind(side) == "float" or (isinstance(side, Num) and side.type.is_float):
            raise fx.fail(
                "MPG_PY_1018", f"mp.cdiv takes integers, not {describe(side)}", e, help="use mp.ceil(a / b) for floats"
            )
    up = binary(fx, ast.Add, a, binary(fx, ast.Sub, b, Const(1), e), e)
    return binary(fx, ast.FloorDiv, up, b, e)


def _divmod(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    if len(args) != 2 or keywords:
        raise fx.fail("MPG_PY_1012", "divmod takes two values", e, help="it is divmod(a, b)")
    a, b = args
    return Tuple([binary(fx, ast.FloorDiv, a, b, e), binary(fx, ast.Mod, a, b, e)])


def _whole(name: str) -> PyHandler:
    """math.floor, ceil and trunc give an integer, as in Python; those of mp give a float."""
    inner = _via(name)

    def handler(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
        return _int(fx, e, [inner(fx, e, args, keywords)], {})

    return handler


def _math_log(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    if len(args) == 2 and not keywords:
        top = BUILTINS["log"](fx, e, {"x": args[0]}, [])
        return binary(fx, ast.Div, top, BUILTINS["log"](fx, e, {"x": args[1]}, []), e)
    return _via("log")(fx, e, args, keywords)


def _math_pow(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
    """math.pow is a float also of integers."""
    return _via("pow")(fx, e, [_float(fx, e, [a], {}) for a in args], keywords)


def _angle(factor: float) -> PyHandler:
    def handler(fx: Fx, e: ast.Call, args: list[Val], keywords: dict[str, Val]) -> Val:
        return binary(fx, ast.Mult, _one(fx, e, args, keywords, "the function"), Const(factor), e)

    return handler


_PYTHON: dict[Any, PyHandler] = {
    int: _int,
    float: _float,
    bool: _bool,
    len: _len,
    cdiv: _cdiv,
    divmod: _divmod,
    abs: _via("abs"),
    min: _via("min"),
    max: _via("max"),
    round: _via("round"),
    pow: _via("pow"),
    math.fabs: _via("abs"),
    math.log: _math_log,
    math.floor: _whole("floor"),
    math.ceil: _whole("ceil"),
    math.trunc: _whole("trunc"),
    math.pow: _math_pow,
    math.radians: _angle(math.pi / 180),
    math.degrees: _angle(180 / math.pi),
}
_SAME_IN_MATH = (
    "sqrt exp expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf atan2 hypot fmod "
    "remainder copysign ldexp frexp isnan isinf isfinite cbrt exp2 fma"
)
for _name in _SAME_IN_MATH.split():
    if hasattr(math, _name):
        _PYTHON[getattr(math, _name)] = _via(_name)

EXPRESSIONS[ast.Call] = _call
