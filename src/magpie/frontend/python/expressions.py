"""Expressions: constants, names, operators, comparisons, short circuit and conditional expressions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from magpie.dtypes import ALL_DTYPES, DType, StructType, bool_
from magpie.frontend.python.arith import (
    DEFAULTS,
    adapt,
    binary,
    common,
    compare,
    invert,
    negate,
    truth,
    weak_kind,
)
from magpie.frontend.python.context import EXPRESSIONS, Fx
from magpie.frontend.python.values import (
    Const,
    Lazy,
    Num,
    Shape,
    Struct,
    Tuple,
    Val,
    View,
    describe,
    flatten,
    is_number,
    rebuild,
    skeleton,
)
from magpie.ir.nodes import Node, Region, Slot
from magpie.language._builtin import Builtin
from magpie.language.declare import DeviceFunction, struct_type

__all__ = ["condition", "node_of", "static_value", "wrap"]

_SPLICE_LIMIT = 16  # a pure right side of `and` up to this size is computed without a branch


def wrap(fx: Fx, value: Any, name: str, at: ast.AST) -> Val:
    """A captured Python object as a value. Raises ``MPG_PY_1023`` for what a kernel cannot use."""
    if isinstance(value, int | float):
        if type(value) in (int, float, bool):
            return Const(value)
        # an enum member, or NumPy's float64: as a Python number
        return Const(int(value) if isinstance(value, int) else float(value))
    if isinstance(value, tuple):
        return Tuple([wrap(fx, v, name, at) for v in value])
    if isinstance(value, type) and value.__module__ == "numpy":
        for t in ALL_DTYPES:
            if t.name != "bf16" and t.numpy.type is value:
                return Const(t)  # np.float32 means mp.f32
    if value is None or isinstance(value, DType | str | FunctionType | DeviceFunction | Builtin | ModuleType | type):
        return Const(value)
    if hasattr(type(value), "__members__"):
        return Const(value)  # a member of an Enum: compared when the kernel is compiled
    if struct_type(value) is not None:
        return _captured_struct(fx, value, name, at)
    kind = type(value).__module__.split(".")[0]
    if callable(value) and not hasattr(value, "dtype"):
        return Const(value)
    if kind in ("numpy", "ml_dtypes") and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return _numpy_scalar(fx, value)
    what = f"{name} is a {type(value).__name__}, which a kernel cannot take from outside"
    if isinstance(value, list | dict | set):
        raise fx.fail(
            "MPG_PY_1023",
            what,
            at,
            help="make it a tuple of numbers" if isinstance(value, list) else "pass arrays instead",
        )
    raise fx.fail(
        "MPG_PY_1023",
        what,
        at,
        help="pass it as an argument; from outside come numbers, tuples of numbers, dtypes, structs and functions",
    )


def _numpy_scalar(fx: Fx, value: Any) -> Val:
    """A NumPy scalar keeps its type, except int64, float64 and bool, which NumPy makes by itself: they are literals."""
    name = value.dtype.name
    plain = value.item() if name != "bfloat16" else float(value)
    if name in ("int64", "float64", "bool"):
        return Const(plain)
    for t in ALL_DTYPES:
        if (t.name == "bf16" and name == "bfloat16") or (t.name != "bf16" and t.numpy.name == name):
            return Num(fx.b.const(plain, t))
    return Const(plain)


def _captured_struct(fx: Fx, value: Any, name: str, at: ast.AST) -> Val:
    type_ = struct_type(value)
    assert isinstance(type_, StructType)
    from magpie.frontend.python.structs import make_struct

    return make_struct(fx, type_, [wrap(fx, getattr(value, f.name), f"{name}.{f.name}", at) for f in type_.fields], at)


def _constant(fx: Fx, e: ast.Constant) -> Val:
    if isinstance(e.value, complex):
        raise fx.fail(
            "MPG_PY_1001",
            "complex numbers are not possible in a kernel",
            e,
            help="use a struct of two floats, or two arrays",
        )
    if isinstance(e.value, bytes) or e.value is ...:
        raise fx.fail(
            "MPG_PY_1001",
            f"{'bytes are' if e.value is not ... else '... is'} not possible in a kernel",
            e,
            help="use numbers",
        )
    return Const(e.value)


def _name(fx: Fx, e: ast.Name) -> Val:
    name = e.id
    if fx.is_local(name):
        return fx.read(name, e)
    if name in fx.closure:
        value = fx.closure[name]
        cells = fx.fn.__closure__ or ()
        fx.module.dependencies.cell(cells[fx.fn.__code__.co_freevars.index(name)], name, value)
        return wrap(fx, value, name, e)
    scope = fx.fn.__globals__
    if name in scope:
        value = scope[name]
        fx.module.dependencies.name(scope, name, value)
        return wrap(fx, value, name, e)
    if hasattr(builtins, name):
        return Const(getattr(builtins, name))
    close = _closest(name, [*fx.vars, *scope])
    raise fx.fail(
        "MPG_PY_1002",
        f"unknown name {name}",
        e,
        help=f"did you mean {close}?"
        if close
        else "make it a parameter, or define it outside of the kernel before the first launch",
    )


def _closest(name: str, names: list[str]) -> str | None:
    import difflib

    found = difflib.get_close_matches(name, names, 1)
    return found[0] if found else None


def _binop(fx: Fx, e: ast.BinOp) -> Val:
    a = fx.expr(e.left)
    b = fx.expr(e.right)
    return binary(fx, type(e.op), a, b, e)


def _unary(fx: Fx, e: ast.UnaryOp) -> Val:
    if isinstance(e.op, ast.Not):
        cond = condition(fx, e.operand)
        return Const(not cond.value) if isinstance(cond, Const) else Num(fx.emit(e, "not", cond))
    val = fx.expr(e.operand)
    if isinstance(e.op, ast.USub):
        return negate(fx, val, e)
    if isinstance(e.op, ast.Invert):
        return invert(fx, val, e)
    if not is_number(val):
        raise fx.fail("MPG_PY_1018", f"unary `+` takes numbers, not {describe(val)}", e, help="leave it out")
    return val


# --- short circuit ----------------------------------------------------------------------------------------------------
def _pure(region: Region) -> bool:
    return len(region) <= _SPLICE_LIMIT and all(n.info.pure or n.op == "slot_get" for n in region)


def short_circuit(fx: Fx, parts: list[Callable[[], Const | Node]], is_and: bool, at: ast.expr) -> Const | Node:
    """``parts`` lower one side each; those after the first are evaluated only if the ones before decide nothing.

    The rest is nested inside: a side may use values of the one before it, as a chained comparison does.
    """
    left = parts[0]()
    if len(parts) == 1:
        return left
    if isinstance(left, Const):
        return left if bool(left.value) != is_and else short_circuit(fx, parts[1:], is_and, at)
    region: Region = []
    before = fx.assigned
    with fx.into(region):
        right = short_circuit(fx, parts[1:], is_and, at)
        if isinstance(right, Const):
            right = fx.b.const(bool(right.value), bool_)
    fx.assigned = before  # what a walrus on the right assigned may not have happened
    if _pure(region):
        fx.b.region.extend(region)
        return fx.emit(at, "and" if is_and else "or", left, right)
    return _branch(fx, left, region, right, is_and, at)


def _branch(fx: Fx, left: Node, region: Region, right: Node, is_and: bool, at: ast.expr) -> Node:
    fx.b.loc = fx.source.loc(at)
    slot = Slot("and" if is_and else "or", bool_)
    fx.b.set(slot, left)
    test = left if is_and else fx.b.emit("not", left)
    _, then, _ = fx.b.if_(test)
    then.extend(region)
    with fx.into(then):
        fx.b.set(slot, right)
    return fx.b.get(slot)


def condition(fx: Fx, e: ast.expr) -> Const | Node:
    """The truth of an expression: a constant, or a bool node. `and`, `or` and `not` take any numbers here."""
    if isinstance(e, ast.BoolOp):
        return short_circuit(fx, [partial(condition, fx, v) for v in e.values], isinstance(e.op, ast.And), e)
    return truth(fx, fx.expr(e), e)


def _boolop(fx: Fx, e: ast.BoolOp) -> Val:
    """`and` and `or` as values: of bools only, since Python gives one of the operands, which may have two types."""
    word = "and" if isinstance(e.op, ast.And) else "or"

    def side(v: ast.expr) -> Const | Node:
        val = fx.expr(v)
        if isinstance(val, Const):
            if isinstance(val.value, bool):
                return val
        elif is_number(val) and (weak_kind(val) == "bool" or (isinstance(val, Num) and val.type.is_bool)):
            return adapt(fx, val, bool_, v)
        left, right = fx.text(e.values[0]), fx.text(e.values[1])
        a, b = (right, left) if word == "and" else (left, right)
        raise fx.fail(
            "MPG_PY_1018",
            f"`{word}` gives a bool in a kernel, and {describe(val)} is none",
            v,
            help=f"write {a} if {left} else {b}, or a comparison such as {fx.text(v)} != 0",
        )

    out = short_circuit(fx, [partial(side, v) for v in e.values], word == "and", e)
    return out if isinstance(out, Const) else Num(out)


def _compare(fx: Fx, e: ast.Compare) -> Val:
    if len(e.ops) == 1:
        a = fx.expr(e.left)
        return compare(fx, type(e.ops[0]), a, fx.expr(e.comparators[0]), e)
    # a < b < c: b is evaluated once, c only if a < b
    values: list[Val] = [fx.expr(e.left)]

    def link(i: int) -> Const | Node:
        values.append(fx.expr(e.comparators[i]))
        return truth(fx, compare(fx, type(e.ops[i]), values[i], values[i + 1], e), e)

    out = short_circuit(fx, [partial(link, i) for i in range(len(e.ops))], True, e)
    return out if isinstance(out, Const) else Num(out)


def _ifexp(fx: Fx, e: ast.IfExp) -> Val:
    cond = condition(fx, e.test)
    if isinstance(cond, Const):
        return fx.expr(e.body if cond.value else e.orelse)
    regions: tuple[Region, Region] = ([], [])
    vals = []
    before = fx.assigned
    for region, arm in zip(regions, (e.body, e.orelse), strict=True):
        with fx.into(region):
            vals.append(fx.expr(arm))
        fx.assigned = before
    return merge(fx, cond, (vals[0], vals[1]), regions, e)


def merge(fx: Fx, cond: Node, vals: tuple[Val, Val], regions: tuple[Region, Region], at: ast.expr) -> Val:
    """One of two values by ``cond``: selects where both sides are pure, else a branch with a slot per number."""
    a, b = vals
    for i, val in enumerate(vals):
        if isinstance(val, Shape):
            with fx.into(regions[i]):
                a, b = (Tuple(fx.items(val)), b) if i == 0 else (a, Tuple(fx.items(val)))
    if skeleton(a) != skeleton(b):
        if isinstance(a, View) or isinstance(b, View):
            raise fx.fail(
                "MPG_PY_1015",
                f"the expression stands for {describe(a)} or {describe(b)}",
                at,
                help="index inside: a[i] if c else b[i]",
            )
        raise fx.fail(
            "MPG_PY_1004", f"the two sides are {describe(a)} and {describe(b)}", at, help="use values of one kind"
        )
    if isinstance(a, Const) and isinstance(b, Const) and type(a.value) is type(b.value) and a.value == b.value:
        return a
    pairs = list(zip((v for _, v in flatten(a)), (v for _, v in flatten(b)), strict=True))
    types: list[tuple[DType, str | None]] = []
    for x, y in pairs:
        strong, kind = common(fx, x, y, at, "the conditional expression", keep_bool=True)
        t = strong
        if t is None:
            t = next(
                (s.type for s in (x, y) if isinstance(s, Num) and s.type.kind == DEFAULTS[kind or "int"].kind),
                DEFAULTS[kind or "int"],
            )
        types.append((t, None if strong is not None else kind))
    lazy = all(not isinstance(v, Num) for pair in pairs for v in pair) and not regions[0] and not regions[1]
    if lazy and len(pairs) == 1 and types[0][1] in ("int", "float"):
        x, y = pairs[0]
        kind = types[0][1]
        assert kind is not None
        from magpie.frontend.python.arith import lazy as weak_result

        return weak_result(kind, lambda t: fx.b.select(cond, adapt(fx, x, t, at), adapt(fx, y, t, at)), fx)
    nodes: list[list[Node]] = []
    for i, region in enumerate(regions):
        with fx.into(region):
            nodes.append([adapt(fx, pair[i], t, at) for pair, (t, _) in zip(pairs, types, strict=True)])
    fx.b.loc = fx.source.loc(at)
    out: list[Val] = []
    if _pure(regions[0]) and _pure(regions[1]):
        for region in regions:
            fx.b.region.extend(region)
        found = [fx.b.select(cond, x, y) for x, y in zip(*nodes, strict=True)]
    else:
        slots = [Slot("cond", t) for t, _ in types]
        _, then, else_ = fx.b.if_(cond)
        for target, region, values in zip((then, else_), regions, nodes, strict=True):
            target.extend(region)
            with fx.into(target):
                for slot, value in zip(slots, values, strict=True):
                    fx.b.set(slot, value)
        found = [fx.b.get(slot) for slot in slots]
    for node, (_, kind), pair in zip(found, types, pairs, strict=True):
        from magpie.frontend.python.arith import origins

        out.append(Num(node, kind, origins(*pair)) if kind is not None and origins(*pair) else Num(node))
    return rebuild(a, iter(out))


def _tuple(fx: Fx, e: ast.Tuple) -> Val:
    return Tuple([fx.expr(item) for item in e.elts])


def _walrus(fx: Fx, e: ast.NamedExpr) -> Val:
    val = fx.expr(e.value)
    assert isinstance(e.target, ast.Name)
    fx.assign(e.target.id, val, e)
    return val


# --- helpers for calls and statements ---------------------------------------------------------------------------------
def static_value(fx: Fx, val: Val, at: ast.AST, what: str) -> Any:
    """The compile-time Python value behind ``val``. Raises ``MPG_PY_1013``."""
    if isinstance(val, Const):
        return val.value
    if isinstance(val, Num) and val.node.op == "const":
        return val.node.attrs["value"]
    if isinstance(val, Tuple):
        return tuple(static_value(fx, v, at, what) for v in val.items)
    if isinstance(val, View | Struct):
        raise fx.fail(
            "MPG_PY_1013",
            f"{what} is a compile-time value, and {describe(val)} is none",
            at,
            help="use a literal, or a constant outside of the kernel",
        )
    text = fx.text(at)
    help = "use a literal, a constant outside of the kernel, or an mp.constexpr parameter"
    if isinstance(at, ast.Name) and isinstance(val, Num | Lazy):
        help = f"annotate the parameter: {text}: mp.constexpr, or use a constant outside of the kernel"
    raise fx.fail("MPG_PY_1013", f"{what} must be known when the kernel is compiled", at, help=help)


def node_of(fx: Fx, val: Val, at: ast.AST, what: str) -> Node:
    """A number in its own type, or the type that it has by default."""
    from magpie.dtypes import index
    from magpie.frontend.python.arith import default, number

    number(fx, val, at, what)
    if isinstance(val, Lazy) and val.kind == "int":
        return val.make(index)
    return adapt(fx, val, default(val), at)


EXPRESSIONS.update(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.BinOp: _binop,
        ast.UnaryOp: _unary,
        ast.BoolOp: _boolop,
        ast.Compare: _compare,
        ast.IfExp: _ifexp,
        ast.Tuple: _tuple,
        ast.NamedExpr: _walrus,
    }
)
