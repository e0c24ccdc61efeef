"""Value structs: kept field by field. Only arrays and parameters of structs exist as such in the IR."""

from __future__ import annotations

import ast
from typing import Any

from magpie.dtypes import DType, StructType, Type
from magpie.frontend.python.arith import convert
from magpie.frontend.python.context import Fx
from magpie.frontend.python.values import Const, ElemRef, Num, Struct, Val, describe, same_struct
from magpie.ir.nodes import Node

__all__ = ["construct", "field_of", "load_struct", "make_struct", "store_struct", "struct_parameter"]


def load_struct(
    fx: Fx, ref: ElemRef, at: ast.AST, type_: Type | None = None, path: tuple[int, ...] | None = None
) -> Val:
    """The value of a reference: every leaf is loaded; those that are not used cost nothing."""
    type_ = ref.type if type_ is None else type_
    path = ref.path if path is None else path
    if isinstance(type_, DType):
        return Num(fx.emit(at, "load", *ref.indices, array=ref.array, field=path))
    return Struct(type_, [load_struct(fx, ref, at, f.type, (*path, i)) for i, f in enumerate(type_.fields)])


def store_struct(fx: Fx, ref: ElemRef, val: Val, at: ast.AST, value_at: ast.AST) -> None:
    """Write every leaf of a struct value."""
    assert isinstance(ref.type, StructType)
    if not isinstance(val, Struct) or not same_struct(val.type, ref.type):
        raise fx.fail(
            "MPG_PY_1008",
            f"{describe(val)} does not convert to a struct {ref.type.name}",
            value_at,
            help=f"write {ref.type.name}({', '.join(f.name for f in ref.type.fields)})",
        )
    for i, (f, v) in enumerate(zip(ref.type.fields, val.fields, strict=True)):
        inner = ElemRef(ref.array, ref.indices, (*ref.path, i), f.type)
        if isinstance(f.type, StructType):
            store_struct(fx, inner, v, at, value_at)
        else:
            fx.emit(
                at, "store", *ref.indices, convert(fx, v, f.type, value_at, f.name), array=ref.array, field=inner.path
            )


def field_of(fx: Fx, base: Val, name: str, at: ast.AST) -> Val:
    """A field of a struct value or of a reference to one."""
    assert isinstance(base, Struct | ElemRef) and isinstance(base.type, StructType)
    type_ = base.type
    found = type_.field(name)
    if found is None:
        raise fx.fail(
            "MPG_PY_1014",
            f"struct {type_.name} has no field {name}",
            at,
            help=f"its fields are {', '.join(f.name for f in type_.fields)}",
        )
    i = type_.position(name)
    if isinstance(base, Struct):
        return base.fields[i]
    ref = ElemRef(base.array, base.indices, (*base.path, i), found.type)
    return load_struct(fx, ref, at) if isinstance(found.type, DType) else ref


def make_struct(fx: Fx, type_: StructType, values: list[Val], at: ast.AST) -> Struct:
    """A struct value; each field is converted to its declared type."""
    out: list[Val] = []
    for f, v in zip(type_.fields, values, strict=True):
        if isinstance(f.type, StructType):
            if not isinstance(v, Struct) or not same_struct(v.type, f.type):
                raise fx.fail(
                    "MPG_PY_1008",
                    f"field {f.name} of {type_.name} is a struct {f.type.name}, not {describe(v)}",
                    at,
                    help=f"write {f.type.name}(...)",
                )
            out.append(v)
        else:
            out.append(Num(convert(fx, v, f.type, at, f"field {f.name}")))
    return Struct(type_, out)


def construct(fx: Fx, cls: Any, args: list[Val], keywords: dict[str, Val], call: ast.Call) -> Struct:
    """``P(1.0, y=2.0)``."""
    type_: StructType = cls.__magpie_struct__
    names = [f.name for f in type_.fields]
    shown = f"{type_.name}({', '.join(names)})"
    if len(args) > len(names):
        raise fx.fail(
            "MPG_PY_1012",
            f"{type_.name} has {len(names)} fields, and {len(args)} values are given",
            call,
            help=f"it is {shown}",
        )
    values = dict(zip(names, args, strict=False))
    for name, val in keywords.items():
        if name not in names or name in values:
            raise fx.fail(
                "MPG_PY_1012",
                f"{'repeated' if name in values else 'unknown'} field {name} of {type_.name}",
                call,
                help=f"it is {shown}",
            )
        values[name] = val
    for name in names:
        if name not in values:
            if name not in cls.__magpie_defaults__:
                raise fx.fail("MPG_PY_1012", f"no value for field {name} of {type_.name}", call, help=f"it is {shown}")
            values[name] = Const(cls.__magpie_defaults__[name])
    return make_struct(fx, type_, [values[n] for n in names], call)


def struct_parameter(fx: Fx, node: Node, type_: StructType) -> Struct:
    """The fields of a parameter of struct type."""
    fields: list[Val] = []
    for i, f in enumerate(type_.fields):
        part = Node("struct_get", (node,), f.type, {"field": i}, (), node.loc)
        fx.prologue.append(part)
        fields.append(struct_parameter(fx, part, f.type) if isinstance(f.type, StructType) else Num(part))
    return Struct(type_, fields)
