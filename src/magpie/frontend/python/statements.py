"""Statements: assignment, control flow, assert and return."""

from __future__ import annotations

import ast
from typing import Any

from magpie.dtypes import DType, StructType, bool_
from magpie.frontend.python.annotations import read_annotation
from magpie.frontend.python.arith import adapt, binary, convert
from magpie.frontend.python.context import STATEMENTS, Fx
from magpie.frontend.python.errors import Fail
from magpie.frontend.python.expressions import condition, static_value
from magpie.frontend.python.structs import field_of
from magpie.frontend.python.values import (
    Const,
    ElemRef,
    MatrixTile,
    Num,
    Pointer,
    Shape,
    Struct,
    Table,
    Tuple,
    Val,
    View,
    describe,
    flatten,
    is_number,
    skeleton,
)
from magpie.frontend.python.views import _pointer_at, load, shape_items, store, subscript_view
from magpie.ir.nodes import Node
from magpie.language._builtin import Builtin
from magpie.language.declare import DeviceFunction

__all__ = ["assign_to", "meet", "unpack"]

Flow = Any  # the set of assigned names, or None where the end is not reached


def meet(*states: Flow) -> Flow:
    """What is assigned where several paths join."""
    live = [s for s in states if s is not None]
    if not live:
        return None
    out = live[0]
    for s in live[1:]:
        out = out & s
    return out


# --- assignment -------------------------------------------------------------------------------------------------------
def _assign(fx: Fx, s: ast.Assign) -> None:
    val = fx.expr(s.value)
    for target in s.targets:
        assign_to(fx, target, val, s)


def assign_to(fx: Fx, target: ast.expr, val: Val, s: ast.stmt) -> None:
    value_at: ast.AST = getattr(s, "value", s)
    if isinstance(target, ast.Name):
        if isinstance(val, Table | Pointer) and fx.vars[target.id].slotted:
            raise fx.fail(
                "MPG_PY_1019",
                f"{describe(val)} cannot be kept in a variable that is assigned several times",
                s,
                help="use a name of its own",
            )
        fx.assign(target.id, val, s)
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            if isinstance(part, ast.Starred):
                raise fx.fail(
                    "MPG_PY_1001", "a starred target is not possible in a kernel", part, help="name each value"
                )
        items = unpack(fx, val, len(target.elts), s)
        for part, item in zip(target.elts, items, strict=True):
            assign_to(fx, part, item, s)
    elif isinstance(target, ast.Subscript):
        _store_subscript(fx, target, val, s, value_at)
    elif isinstance(target, ast.Attribute):
        _store_attribute(fx, target, val, s, value_at)
    else:
        raise fx.fail(
            "MPG_PY_1019", "this cannot be assigned to", target, help="assign to a variable, an element or a field"
        )


def unpack(fx: Fx, val: Val, count: int, at: ast.AST) -> list[Val]:
    if isinstance(val, Shape):
        items = shape_items(fx, val)
    elif isinstance(val, Tuple):
        items = val.items
    else:
        raise fx.fail(
            "MPG_PY_1030", f"{count} variables for {describe(val)}", at, help="give one value for each variable"
        )
    if len(items) != count:
        raise fx.fail(
            "MPG_PY_1030", f"{count} variables for {len(items)} values", at, help="give one value for each variable"
        )
    return items


def _element(fx: Fx, target: ast.Subscript) -> View | tuple[Pointer, Node]:
    base = fx.ref(target.value)
    if isinstance(base, Pointer):
        return base, _pointer_at(fx, base, target)
    if isinstance(base, Shape):
        raise fx.fail(
            "MPG_PY_1019", f".{base.what} cannot be assigned", target, help="copy it to a variable: n = x.shape[0]"
        )
    if not isinstance(base, View):
        raise fx.fail(
            "MPG_PY_1019",
            f"elements of {describe(base)} cannot be assigned",
            target,
            help="use mp.local(shape, dtype) for values that change",
        )
    if base.array.space == "const":
        raise fx.fail(
            "MPG_PY_1019", "a table of constants cannot be assigned", target, help="use mp.local(shape, dtype)"
        )
    view = subscript_view(fx, base, target)
    if view.rank:
        raise fx.fail(
            "MPG_PY_1011",
            f"only elements can be assigned, and {fx.text(target)} is {describe(view)}",
            target,
            help="write a loop, one element per trip",
        )
    return view


def _store_subscript(fx: Fx, target: ast.Subscript, val: Val, s: ast.stmt, value_at: ast.AST) -> None:
    place = _element(fx, target)
    if isinstance(place, View):
        store(fx, place, val, s, value_at)
    else:
        pointer, node = place
        fx.emit(s, "ptr_store", node, convert(fx, val, pointer.element, value_at, "the element"))


def _field_place(fx: Fx, target: ast.Attribute) -> tuple[ElemRef | None, str, list[str]]:
    """Where ``a.b.c`` lies: (a reference, "", []) for an element, or (None, variable, field names)."""
    names: list[str] = []
    e: ast.expr = target
    while isinstance(e, ast.Attribute):
        names.append(e.attr)
        e = e.value
    names.reverse()
    if isinstance(e, ast.Name) and fx.is_local(e.id):
        val = fx.read(e.id, e)
        if isinstance(val, Struct):
            return None, e.id, names
    base = fx.ref(e)
    if isinstance(base, View | Shape | Const):
        what = f".{names[0]} of {describe(base)}"
        raise fx.fail(
            "MPG_PY_1019",
            f"{what} cannot be assigned",
            target,
            help="copy it to a variable of your own" if isinstance(base, View) else "assign to a local variable",
        )
    if not isinstance(base, ElemRef):
        raise fx.fail(
            "MPG_PY_1019",
            f"a field of {describe(base)} cannot be assigned",
            target,
            help="assign the struct to a variable first",
        )
    ref = base
    for name in names[:-1]:
        inner = field_of(fx, ref, name, target)
        if not isinstance(inner, ElemRef):
            raise fx.fail("MPG_PY_1014", f"{name} has no fields", target, help="assign to it directly")
        ref = inner
    assert isinstance(ref.type, StructType)
    found = ref.type.field(names[-1])
    if found is None:
        field_of(fx, ref, names[-1], target)  # reports it
    assert found is not None
    return ElemRef(ref.array, ref.indices, (*ref.path, ref.type.position(names[-1])), found.type), "", []


def _store_attribute(fx: Fx, target: ast.Attribute, val: Val, s: ast.stmt, value_at: ast.AST) -> None:
    ref, variable, names = _field_place(fx, target)
    if ref is not None:
        store(fx, ref, val, s, value_at)
        return
    old = fx.read(variable, target)
    fx.assign(variable, _with_field(fx, old, names, val, target, value_at), s)


def _with_field(fx: Fx, old: Val, names: list[str], val: Val, target: ast.AST, value_at: ast.AST) -> Val:
    """``old`` with one field replaced."""
    if not isinstance(old, Struct):
        raise fx.fail(
            "MPG_PY_1014", f"{describe(old)} has no field {names[0]}", target, help="only structs have fields"
        )
    field_of(fx, old, names[0], target)  # reports an unknown one
    i = old.type.position(names[0])
    field = old.type.fields[i]
    new: Val
    if len(names) > 1:
        new = _with_field(fx, old.fields[i], names[1:], val, target, value_at)
    elif isinstance(field.type, StructType):
        if not isinstance(val, Struct) or skeleton(val) != skeleton(old.fields[i]):
            raise fx.fail(
                "MPG_PY_1008",
                f"{describe(val)} does not convert to a struct {field.type.name}",
                value_at,
                help=f"write {field.type.name}(...)",
            )
        new = val
    else:
        new = Num(convert(fx, val, field.type, value_at, f"field {field.name}"))
    return Struct(old.type, [*old.fields[:i], new, *old.fields[i + 1 :]])


def _augassign(fx: Fx, s: ast.AugAssign) -> None:
    op, target = type(s.op), s.target
    if isinstance(target, ast.Name):
        if not fx.is_local(target.id):
            raise fx.fail("MPG_PY_1003", f"{target.id} has no value here", s, help=f"assign {target.id} before")
        old = fx.read(target.id, target)
        fx.assign(target.id, binary(fx, op, old, fx.expr(s.value), s), s)
        return
    if isinstance(target, ast.Subscript):
        place = _element(fx, target)  # the indices are computed once
        if isinstance(place, View):
            if isinstance(place.array.type, StructType):
                raise fx.fail(
                    "MPG_PY_1018", f"arithmetic on a struct {place.array.type.name}", target, help="use its fields"
                )
            new = binary(fx, op, load(fx, place, target), fx.expr(s.value), s)
            store(fx, place, new, s, s)
        else:
            pointer, node = place
            old = Num(fx.emit(target, "ptr_load", node, type=pointer.element))
            new = binary(fx, op, old, fx.expr(s.value), s)
            fx.emit(s, "ptr_store", node, convert(fx, new, pointer.element, s, "the element"))
        return
    assert isinstance(target, ast.Attribute)
    ref, variable, names = _field_place(fx, target)
    if ref is not None:
        from magpie.frontend.python.structs import load_struct

        new = binary(fx, op, load_struct(fx, ref, target), fx.expr(s.value), s)
        store(fx, ref, new, s, s)
        return
    struct = fx.read(variable, target)
    old = struct
    for name in names:
        old = field_of(fx, old, name, target) if isinstance(old, Struct) else old
    new = binary(fx, op, old, fx.expr(s.value), s)
    fx.assign(variable, _with_field(fx, struct, names, new, target, s), s)


def _annassign(fx: Fx, s: ast.AnnAssign) -> None:
    annotation = fx.expr(s.annotation)
    read = read_annotation(annotation.value) if isinstance(annotation, Const) else None
    if read is None or read[0] not in ("scalar", "any", "constexpr"):
        raise fx.fail(
            "MPG_PY_1022",
            f"the annotation {fx.text(s.annotation)} is not understood",
            s.annotation,
            help="use a dtype, such as mp.f32",
        )
    if s.value is None:
        return
    val = fx.expr(s.value)
    kind, type_, _ = read
    if kind == "constexpr":
        val = _constant_value(fx, val, s.value)
    elif isinstance(type_, DType):
        val = Num(convert(fx, val, type_, s.value, fx.text(s.target)))
    elif isinstance(type_, StructType) and not isinstance(val, Struct):
        raise fx.fail(
            "MPG_PY_1008",
            f"{describe(val)} does not convert to a struct {type_.name}",
            s.value,
            help=f"write {type_.name}(...)",
        )
    assign_to(fx, s.target, val, s)


def _constant_value(fx: Fx, val: Val, at: ast.AST) -> Val:
    if isinstance(val, Tuple):
        return Tuple([_constant_value(fx, v, at) for v in val.items])
    return Const(static_value(fx, val, at, "an mp.constexpr variable"))


# --- branches ---------------------------------------------------------------------------------------------------------
def _if(fx: Fx, s: ast.If) -> None:
    cond = condition(fx, s.test)
    if isinstance(cond, Const):
        fx.pruned = True
        fx.block(s.body if cond.value else s.orelse)
        return
    fx.b.loc = fx.source.loc(s)
    _, then, else_ = fx.b.if_(cond)
    before = fx.assigned
    with fx.into(then):
        fx.block(s.body)
    after_then, fx.assigned = fx.assigned, before
    if s.orelse:
        with fx.into(else_):
            fx.block(s.orelse)
    fx.assigned = meet(after_then, fx.assigned)


# --- the rest ---------------------------------------------------------------------------------------------------------
def _return(fx: Fx, s: ast.Return) -> None:
    none = s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None)
    if fx.is_kernel:
        if not none:
            raise fx.fail(
                "MPG_PY_1024", "a kernel returns nothing", s, help="write the result into an array that is an argument"
            )
        fx.b.emit("return")
        fx.assigned = None
        return
    if none:
        if fx.result.like is not None:
            raise fx.fail(
                "MPG_PY_1024",
                "this return gives nothing, and another one gives a value",
                s,
                help="return values of the same types everywhere",
            )
        fx.returns.append((None, s))
        fx.b.emit("return")
        fx.assigned = None
        return
    assert s.value is not None
    val = fx.expr(s.value)
    if isinstance(val, Shape):
        val = Tuple(shape_items(fx, val))
    if any(v is None for v, _ in fx.returns):
        raise fx.fail(
            "MPG_PY_1024",
            "this return gives a value, and another one gives nothing",
            s,
            help="return values of the same types everywhere",
        )
    if _holds_place(val):
        raise fx.fail(
            "MPG_PY_1024", f"a function cannot return {describe(val)}", s, help="return the index, or the number at it"
        )
    try:
        cells = fx.join(fx.result, val, s)
    except Fail as fail:
        raise _as_return(fx, fail, s) from None
    nodes = [adapt(fx, number, cell.type, s.value) for cell, number in cells]
    fx.returns.append((val, s))
    fx.b.loc = fx.source.loc(s)
    fx.b.emit("return", *nodes)
    fx.assigned = None


def _holds_place(val: Val) -> bool:
    if isinstance(val, Tuple):
        return any(_holds_place(v) for v in val.items)
    return isinstance(val, Table | Pointer | MatrixTile)


def _as_return(fx: Fx, fail: Fail, s: ast.Return) -> Fail:
    d = fail.diagnostic
    if d is None or d.code != "MPG_PY_1004":
        return fail
    return fx.fail(
        "MPG_PY_1024",
        "the returns of this function give different types",
        s,
        help=d.help or "return values of the same types everywhere",
        notes=d.notes,
    )


def _assert(fx: Fx, s: ast.Assert) -> None:
    message = f"assert {fx.text(s.test)}"
    if s.msg is not None:
        val = fx.expr(s.msg) if not isinstance(s.msg, ast.JoinedStr) else None
        if not isinstance(val, Const) or not isinstance(val.value, str):
            raise fx.fail("MPG_PY_1001", "the message of assert is a plain text", s.msg, help="use mp.print for values")
        message = val.value
    cond = condition(fx, s.test)
    if isinstance(cond, Const):
        if cond.value:
            return
        cond = fx.b.const(False, bool_)
    fx.emit(s, "assert", cond, message=message)


def _expression(fx: Fx, s: ast.Expr) -> None:
    e = s.value
    if isinstance(e, ast.Constant):
        return  # a docstring, or ...
    val = fx.expr(e)
    if isinstance(val, Const) and isinstance(val.value, Builtin | DeviceFunction) and not isinstance(e, ast.Call):
        raise fx.fail("MPG_PY_1012", f"{fx.text(e)} is not called", e, help=f"write {fx.text(e)}()")
    if not isinstance(e, ast.Call | ast.NamedExpr) and (is_number(val) or list(flatten(val))):
        fx.warn("MPG_PY_1032", f"the value of {fx.text(e)} is never used", s, "assign it, or remove the statement")


def _pass(fx: Fx, s: ast.Pass) -> None:
    del fx, s


STATEMENTS.update(
    {
        ast.Assign: _assign,
        ast.AugAssign: _augassign,
        ast.AnnAssign: _annassign,
        ast.If: _if,
        ast.Return: _return,
        ast.Assert: _assert,
        ast.Expr: _expression,
        ast.Pass: _pass,
    }
)
