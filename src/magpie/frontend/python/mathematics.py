"""Numeric builtins: bits, selection and mathematical functions."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from magpie.dtypes import DType, bool_, f32, i32, u64
from magpie.frontend.python.arith import adapt, binary, combine, common, lazy, number, origins, truth
from magpie.frontend.python.calls import BUILTINS, Handler
from magpie.frontend.python.context import Fx
from magpie.frontend.python.expressions import merge
from magpie.frontend.python.values import Const, Lazy, Num, Tuple, Val, describe

__all__: list[str] = []

Args = dict[str, Val]


def _floats(fx: Fx, name: str, vals: list[Val], at: ast.AST) -> DType | None:
    """The float type in which a function of ``vals`` is computed; None if all are weak. Integers count as f32."""
    t: DType | None = None
    for v in vals:
        number(fx, v, at, f"mp.{name}")
        if isinstance(v, Num) and v.weak is None:
            own = v.type if v.type.is_float else f32
            if t is None or t is own:
                t = own
            else:
                strong, _ = common(fx, Num(fx.b.const(0, t)), Num(fx.b.const(0, own)), at, f"mp.{name}")
                t = strong
    return t


def _function(name: str, op: str, names: tuple[str, ...], fold: Callable[..., Any] | None) -> Handler:
    """A function of floats that gives a float of the same type."""

    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        vals = [args[n] for n in names]
        t = _floats(fx, name, vals, e)
        if t is not None:
            return Num(fx.emit(e, op, *(adapt(fx, v, t, e) for v in vals)))
        if fold is not None and all(isinstance(v, Const) for v in vals):
            try:
                return Const(float(fold(*(float(v.value) for v in vals))))  # type: ignore[attr-defined]
            except (ValueError, OverflowError):
                return Num(fx.emit(e, op, *(adapt(fx, v, f32, e) for v in vals)))
        if any(isinstance(v, Num) for v in vals):
            return Num(fx.emit(e, op, *(adapt(fx, v, f32, e) for v in vals)), "float", origins(*vals))
        return lazy("float", lambda t: fx.emit(e, op, *(adapt(fx, v, t, e) for v in vals)), fx)

    return lower


_UNARY = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf"
for _name in _UNARY.split():
    BUILTINS[_name] = _function(_name, _name, ("x",), getattr(math, _name, None))
BUILTINS["rsqrt"] = _function("rsqrt", "rsqrt", ("x",), lambda x: 1 / math.sqrt(x))
BUILTINS["atan2"] = _function("atan2", "atan2", ("y", "x"), math.atan2)
for _name in ("hypot", "fmod", "remainder", "copysign"):
    BUILTINS[_name] = _function(_name, _name, ("x", "y"), getattr(math, _name))
BUILTINS["minimum"] = _function("minimum", "minimum", ("a", "b"), None)
BUILTINS["maximum"] = _function("maximum", "maximum", ("a", "b"), None)
BUILTINS["fma"] = _function("fma", "fma", ("a", "b", "c"), None)


def _integral(name: str, fold: Callable[[float], float]) -> Handler:
    """floor, ceil, trunc and round: an integer stays as it is, a float stays a float."""
    inner = _function(name, name, ("x",), fold)

    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        val = number(fx, args["x"], e, f"mp.{name}")
        if (isinstance(val, Num) and val.type.is_int) or (isinstance(val, Const) and isinstance(val.value, int)):
            return val
        return inner(fx, e, args, more)

    return lower


for _name, _fold in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", round)):
    BUILTINS[_name] = _integral(_name, _fold)


def _test(name: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        t = _floats(fx, name, [args["x"]], e) or f32
        return Num(fx.emit(e, name, adapt(fx, args["x"], t, e)))

    return lower


for _name in ("isnan", "isinf", "isfinite"):
    BUILTINS[_name] = _test(_name)


def _ldexp(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    t = _floats(fx, "ldexp", [args["x"]], e) or f32
    n = number(fx, args["n"], e, "mp.ldexp")
    if (isinstance(n, Num) and n.type.is_float) or (isinstance(n, Const) and isinstance(n.value, float)):
        raise fx.fail(
            "MPG_PY_1018", f"the exponent of mp.ldexp is an integer, not {describe(n)}", e, help="write int(n)"
        )
    return Num(fx.emit(e, "ldexp", adapt(fx, args["x"], t, e), adapt(fx, n, i32, e)))


def _frexp(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    t = _floats(fx, "frexp", [args["x"]], e) or f32
    x = adapt(fx, args["x"], t, e)
    return Tuple([Num(fx.emit(e, "frexp_mantissa", x)), Num(fx.emit(e, "frexp_exponent", x))])


BUILTINS["ldexp"] = _ldexp
BUILTINS["frexp"] = _frexp


def _abs(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    val = number(fx, args["x"], e, "abs")
    if isinstance(val, Const):
        return Const(abs(val.value))
    if isinstance(val, Lazy):
        return lazy("int" if val.kind == "bool" else val.kind, lambda t: fx.emit(e, "abs", val.make(t)), fx)
    assert isinstance(val, Num)
    if val.type.kind == "uint":
        return val
    t = i32 if val.type.is_bool else val.type
    return Num(fx.emit(e, "abs", adapt(fx, val, t, e)), val.weak, val.origins)


def _extreme(op: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        vals = [args["a"], args["b"], *more]
        for v in vals:
            number(fx, v, e, f"mp.{op}")
        out = vals[0]
        for v in vals[1:]:
            if isinstance(out, Const) and isinstance(v, Const):
                out = Const(min(out.value, v.value) if op == "min" else max(out.value, v.value))
            else:
                out = combine(fx, op, out, v, e, f"mp.{op}")
        return out

    return lower


def _pow(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    return binary(fx, ast.Pow, args["x"], args["y"], e)


def _select(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    cond = truth(fx, args["cond"], e)
    a, b = args["a"], args["b"]
    if isinstance(cond, Const):
        return a if cond.value else b
    return merge(fx, cond, (a, b), ([], []), e)


def _bitcast(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    target = args["dtype"].value if isinstance(args["dtype"], Const) else None
    if not isinstance(target, DType) or target is bool_:
        raise fx.fail(
            "MPG_PY_1012",
            f"mp.bitcast takes a value and a number type, not {describe(args['dtype'])}",
            e,
            help="write mp.bitcast(x, mp.u32)",
        )
    val = number(fx, args["x"], e, "mp.bitcast")
    if not isinstance(val, Num) or val.weak is not None:
        raise fx.fail(
            "MPG_PY_1018",
            f"the bits of {describe(val)}, which has no type of its own",
            e,
            help=f"give it one: mp.{'f32' if target.is_int else 'u32'}(...)",
        )
    if val.type.bits != target.bits:
        raise fx.fail(
            "MPG_PY_1018",
            f"{val.type} has {val.type.bits} bits and {target} has {target.bits}",
            e,
            help="choose a type of the same width, or convert with a cast",
        )
    return val if val.type is target else Num(fx.emit(e, "bitcast", val.node, type=target))


def _bits(op: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        val = args["x"]
        number(fx, val, e, f"mp.{op}")
        if isinstance(val, Const) and isinstance(val.value, int):
            node = fx.b.const(val.value, i32 if i32.min <= val.value <= i32.max else u64)
        elif isinstance(val, Lazy) and val.kind == "int":
            node = val.make(i32)
        elif isinstance(val, Num) and val.type.is_int:
            node = val.node
        else:
            raise fx.fail(
                "MPG_PY_1018",
                f"mp.{op} takes an integer, not {describe(val)}",
                e,
                help="cast it, or reinterpret the bits with mp.bitcast(x, mp.u32)",
            )
        return Num(fx.emit(e, op, node))

    return lower


BUILTINS["abs"] = _abs
BUILTINS["min"] = _extreme("min")
BUILTINS["max"] = _extreme("max")
BUILTINS["pow"] = _pow
BUILTINS["select"] = _select
BUILTINS["bitcast"] = _bitcast
for _name in ("popcount", "clz", "ctz"):
    BUILTINS[_name] = _bits(_name)
