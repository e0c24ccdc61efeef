"""Device functions: each call is specialised by what it is given, and becomes a call of an IR function.

Numbers and the numbers inside structs, tuples and views are parameters of the function; arrays, constants and functions
are part of the specialisation, so that the body refers to them directly.
"""

from __future__ import annotations

import ast
from typing import Any

from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, StructType
from magpie.frontend.python.annotations import NO_DEFAULT, Parameter, signature_of
from magpie.frontend.python.arith import adapt, convert, weak_kind
from magpie.frontend.python.context import Fx
from magpie.frontend.python.errors import Fail
from magpie.frontend.python.expressions import static_value, wrap
from magpie.frontend.python.values import (
    Const,
    Num,
    Shape,
    Struct,
    Table,
    Tuple,
    Val,
    View,
    describe,
    flatten,
    rebuild,
    same_struct,
    skeleton,
)
from magpie.ir.nodes import Function, Node, Scalar
from magpie.language.declare import DeviceFunction

__all__ = ["call_device"]

_MAX_SPECIALISATIONS = 256
_MAX_LITERALS = 64


class Specialisation:
    """A function that was lowered for one kind of arguments. `like` is None for one without a result."""

    __slots__ = ("constant", "diagnostics", "function", "like", "scalars")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.scalars: list[Scalar] = []
        self.like: Val | None = None
        self.constant = False
        self.diagnostics: list[Diagnostic] = []


def call_device(fx: Fx, device: DeviceFunction, args: list[Val], keywords: dict[str, Val], call: ast.Call) -> Val:
    """Lower a call; the function itself is lowered the first time it is called with such arguments."""
    values = _bind(fx, device, args, keywords, call)
    key = _key(device, values)
    special = fx.module.functions.get(key)
    if special is None and sum(k[0] is device for k in fx.module.functions) >= _MAX_LITERALS:
        # an unrolled loop passes many numbers: from here on they are parameters
        values = [(p, Const(v.value) if isinstance(v, Literal) else v) for p, v in values]
        key = _key(device, values)
        special = fx.module.functions.get(key)
    if special is None:
        special = _specialise(fx, device, values, key, call)
    if special.diagnostics:
        here = fx.source.loc(call)
        for d in special.diagnostics:
            shown = Diagnostic(d.code, d.message, _through(d.loc, here), d.notes, d.help, d.severity)
            fx.record(Fail(shown))
        raise Fail(None)
    numbers = [n for _, val in values if not isinstance(val, Captured) for _, n in flatten(val)]
    nodes = [
        adapt(fx, number, _scalar_type(scalar), call) for number, scalar in zip(numbers, special.scalars, strict=True)
    ]
    node = fx.emit(call, "call", *nodes, function=special.function)
    if special.like is None:
        return Const(None)
    if special.constant:
        return special.like
    results = [fx.b.emit("call_result", type=t, call=node, index=i) for i, t in enumerate(special.function.results)]
    return rebuild(special.like, iter([Num(r) for r in results]))


def _scalar_type(scalar: Scalar) -> DType:
    assert isinstance(scalar.type, DType)
    return scalar.type


def _through(loc: Loc | None, call: Loc) -> Loc | None:
    if loc is None:
        return call
    outer = call if loc.inlined_at is None else _through(loc.inlined_at, call)
    return Loc(loc.file, loc.line, loc.col, loc.end_line, loc.end_col, loc.function, outer)


def _parameters(fx: Fx, device: DeviceFunction, call: ast.Call) -> tuple[Parameter, ...]:
    found: tuple[Parameter, ...] | None = getattr(device, "_parameters", None)
    if found is None:
        try:
            found = signature_of(device.fn)
        except CompileError as error:
            for d in error.diagnostics:
                fx.record(Fail(d))
            raise Fail(None) from None
        device._parameters = found  # type: ignore[attr-defined]
    return found


def _bind(
    fx: Fx, device: DeviceFunction, args: list[Val], keywords: dict[str, Val], call: ast.Call
) -> list[tuple[Parameter, Val]]:
    parameters = _parameters(fx, device, call)
    name = device.__name__
    shown = f"{name}({', '.join(p.name if p.default is NO_DEFAULT else f'{p.name}={p.default!r}' for p in parameters)})"
    positional = [p for p in parameters if not p.keyword_only]
    if len(args) > len(positional):
        raise fx.fail(
            "MPG_PY_1012",
            f"{name} takes {len(positional)} argument{'s' * (len(positional) != 1)}, and {len(args)} are given",
            call,
            help=f"it is {shown}",
        )
    given: dict[str, tuple[Val, ast.AST]] = {
        p.name: (v, at) for p, v, at in zip(positional, args, call.args, strict=False)
    }
    nodes = {k.arg: k.value for k in call.keywords}
    known = {p.name for p in parameters}
    for k, v in keywords.items():
        if k not in known or k in given:
            raise fx.fail(
                "MPG_PY_1012",
                f"argument {k} of {name} is {'given twice' if k in given else 'unknown'}",
                call,
                help=f"it is {shown}",
            )
        given[k] = (v, nodes[k])
    out = []
    for p in parameters:
        if p.name in given:
            val, at = given[p.name]
        elif p.default is not NO_DEFAULT:
            val, at = wrap(fx, p.default, p.name, call), call
        else:
            raise fx.fail("MPG_PY_1012", f"{name} needs an argument {p.name}", call, help=f"it is {shown}")
        out.append((p, _check(fx, device, p, val, at)))
    return out


def _check(fx: Fx, device: DeviceFunction, p: Parameter, val: Val, at: ast.AST) -> Val:
    """The argument as the annotation of the parameter asks for it."""
    what = f"argument {p.name} of {device.__name__}"
    if isinstance(val, Shape):
        from magpie.frontend.python.views import shape_items

        val = Tuple(shape_items(fx, val))
    if isinstance(val, Table):
        raise fx.fail(
            "MPG_PY_1012", f"{what} cannot be a row of a tuple", at, help="pass the whole tuple and the index"
        )
    if p.kind == "constexpr":
        return Captured(static_value(fx, val, at, what))
    if p.kind == "array":
        if not isinstance(val, View):
            raise fx.fail(
                "MPG_PY_1012", f"{what} is an array, not {describe(val)}", at, help="pass an array or a view of one"
            )
        if p.type is not None and not (p.type is val.array.type or same_struct(p.type, val.array.type)):
            raise fx.fail(
                "MPG_PY_1012",
                f"{what} is an array of {p.type}, and {val.array.name} has elements of {val.array.type}",
                at,
                help="leave the annotation out to take any",
            )
        if p.rank is not None and p.rank != val.rank:
            raise fx.fail(
                "MPG_PY_1012",
                f"{what} has {p.rank} dimension{'s' * (p.rank != 1)}, and {describe(val)} is given",
                at,
                help="index it, or change the annotation",
            )
        return val
    if p.kind == "scalar":
        if isinstance(p.type, StructType):
            if not isinstance(val, Struct) or not same_struct(val.type, p.type):
                raise fx.fail(
                    "MPG_PY_1012",
                    f"{what} is a struct {p.type.name}, not {describe(val)}",
                    at,
                    help=f"pass {p.type.name}(...)",
                )
            return val
        assert isinstance(p.type, DType)
        return Num(convert(fx, val, p.type, at, what))
    if isinstance(val, Tuple) and _constant(val):
        return Captured(static_value(fx, val, at, what))  # a table
    if isinstance(val, Const) and isinstance(val.value, int | float):
        return Literal(val.value)
    return val


def _constant(val: Val) -> bool:
    return all(map(_constant, val.items)) if isinstance(val, Tuple) else isinstance(val, Const)


class Captured(Const):
    """A compile-time argument: part of the specialisation, also if it is a number."""

    __slots__ = ()


class Literal(Captured):
    """A number written at the call: it stays a literal inside, and takes the type that it meets there."""

    __slots__ = ()


def _key(device: DeviceFunction, values: list[tuple[Parameter, Val]]) -> Any:
    parts: list[Any] = [device]
    for _, val in values:
        if isinstance(val, Captured):
            parts.append(("constexpr", type(val.value), _hashable(val.value)))
            continue
        parts.append(skeleton(val))
        for _, number in flatten(val):
            kind = weak_kind(number)
            parts.append(kind if kind is not None else number.type)  # type: ignore[attr-defined]
    return tuple(parts)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _specialise(
    fx: Fx, device: DeviceFunction, values: list[tuple[Parameter, Val]], key: Any, call: ast.Call
) -> Specialisation:
    module = fx.module
    if device in module.active:
        chain = " -> ".join(d.__name__ for d in (*module.active[module.active.index(device) :], device))
        raise fx.fail(
            "MPG_CORE_1103",
            f"{device.__name__} calls itself ({chain})",
            call,
            help="write a loop, with mp.local as the stack if one is needed; no target has recursion yet",
        )
    if len(module.functions) >= _MAX_SPECIALISATIONS:
        raise fx.fail(
            "MPG_PY_1025",
            f"the kernel has more than {_MAX_SPECIALISATIONS} specialisations of device functions",
            call,
            help="pass run-time values instead of compile-time ones",
        )
    if device.fn.__code__.co_freevars and "__class__" in device.fn.__code__.co_freevars:
        raise fx.fail(
            "MPG_PY_1026", f"{device.__name__} is a method", call, help="write it as a function outside of the class"
        )
    function = Function(module.unique(device.__name__), [], [], None)
    special = Specialisation(function)

    def bind(inner: Fx) -> None:
        function.params.clear()
        special.scalars.clear()
        for p, val in values:
            inner.mark(p.name)
            inner_val = _parameter_value(inner, p.name, val, special)
            var = inner.vars[p.name]
            var.first = inner.source.loc(inner.source.tree)
            if var.slotted:
                inner.store_into(var, inner_val, inner.source.tree)
            else:
                inner.env[p.name] = (inner_val, inner.body)

    module.active.append(device)
    try:
        inner = Fx(module, device.fn, key, bind, False)
        inner.run()
    except CompileError as error:
        special.diagnostics = list(error.diagnostics)
    else:
        _finish(inner, special)
    finally:
        module.active.pop()
    module.functions[key] = special
    if not special.diagnostics:
        module.kernel.functions.append(function)
    return special


def _parameter_value(fx: Fx, name: str, val: Val, special: Specialisation) -> Val:
    """The value of a parameter inside the function: as the argument, with each number a scalar parameter."""
    if isinstance(val, Captured):
        return wrap(fx, val.value, name, fx.source.tree) if isinstance(val.value, tuple) else Const(val.value)
    out: list[Val] = []
    for part, number in flatten(val, name):
        kind = weak_kind(number)
        here = fx.source.loc(fx.source.tree)
        if kind is None:
            type_ = number.type  # type: ignore[attr-defined]
            scalar = Scalar(part, type_, here)
            out.append(Num(fx.parameter(scalar, type_)))
        else:
            from magpie.frontend.python.arith import DEFAULTS

            scalar = Scalar(part, DEFAULTS[kind], here)
            out.append(fx.weak_parameter(scalar, kind))
        special.scalars.append(scalar)
        special.function.params.append(scalar)
    return rebuild(val, iter(out))


def _finish(inner: Fx, special: Specialisation) -> None:
    function = special.function
    special.diagnostics = inner.diagnostics
    function.body = inner.body
    function.loc = inner.source.loc(inner.source.tree)
    like = inner.result.like
    if like is None:
        return
    values = [v for v, _ in inner.returns if v is not None]
    first = values[0]
    if isinstance(first, Const) and all(
        isinstance(v, Const) and type(v.value) is type(first.value) and v.value == first.value for v in values
    ):
        # the same constant everywhere stays a constant for the caller
        special.like, special.constant = first, True
        _strip_results(inner.body)
        return
    special.like = like
    function.results = [inner.result.cell(n).type for n, _ in flatten(like, "result")]


def _strip_results(body: list[Node]) -> None:
    from magpie.ir.nodes import walk

    for node in walk(body):
        if node.op == "return":
            node.args = ()
