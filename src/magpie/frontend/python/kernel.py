"""A kernel as a whole: parameters, the body, and what the finished kernel declares."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from magpie import knobs
from magpie.capabilities import closure
from magpie.diagnostics.diagnostic import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, StructType
from magpie.frontend.python import builtins as _builtins
from magpie.frontend.python import calls as _calls
from magpie.frontend.python import loops as _loops
from magpie.frontend.python import mathematics as _mathematics
from magpie.frontend.python import statements as _statements
from magpie.frontend.python import tiles as _tiles
from magpie.frontend.python import views as _views
from magpie.frontend.python import workgroups as _workgroups
from magpie.frontend.python.arith import DEFAULTS
from magpie.frontend.python.context import Fx, Module
from magpie.frontend.python.dependencies import Dependencies
from magpie.frontend.python.expressions import wrap
from magpie.frontend.python.structs import struct_parameter
from magpie.frontend.python.values import Const, Num, Val
from magpie.frontend.python.views import whole
from magpie.frontend.signature import Arg, ArrayArg, ConstArg, ScalarArg, WeakArg
from magpie.ir.nodes import Buffer, ConstArray, Function, Kernel, LocalArray, Scalar, SharedArray, walk
from magpie.ir.ops import OPS
from magpie.ir.verify import VerifyError, verify
from magpie.passes.access import infer
from magpie.passes.capabilities import undeclared

__all__ = ["lower_kernel"]

# These modules register what they lower; naming them here keeps the imports.
_REGISTERED = (_builtins, _calls, _loops, _mathematics, _statements, _tiles, _views, _workgroups)


def lower_kernel(
    fn: FunctionType,
    args: tuple[Arg, ...],
    workgroup: tuple[int, int, int] | None,
    fastmath: bool,
    requires: frozenset[str],
) -> tuple[Kernel, tuple[Diagnostic, ...], Dependencies]:
    """See `magpie.frontend.python.lower`."""
    kernel = Kernel(fn.__name__, workgroup=workgroup, fastmath=fastmath)
    module = Module(kernel)
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if len(names) != len(args):
        raise TypeError(f"{fn.__name__} has {len(names)} parameters, {len(args)} were described")
    for name in names:
        module.unique(name)

    def bind(fx: Fx) -> None:
        for name, val in zip(names, _values(fx, names, args, buffers, scalars), strict=True):
            var = fx.vars[name]
            fx.mark(name)
            if var.first is None:
                var.first = places[name]
            if var.slotted:
                fx.store_into(var, val, fx.source.tree)
            else:
                fx.env[name] = (val, fx.body)

    buffers: dict[str, Buffer] = {}
    scalars: dict[str, Scalar] = {}
    fx = Fx(module, fn, "kernel", bind, True)
    tree = fx.source.tree
    places = {a.arg: fx.source.loc(a) for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
    kernel.loc = here = fx.source.loc(tree)
    for name, arg in zip(names, args, strict=True):
        if isinstance(arg, ArrayArg):
            buffers[name] = Buffer(name, arg.type, arg.rank, loc=places[name])
        elif isinstance(arg, ScalarArg):
            scalars[name] = Scalar(name, arg.type, places[name])
        elif isinstance(arg, WeakArg):
            scalars[name] = Scalar(name, DEFAULTS[arg.kind], places[name])
    try:
        fx.run()
    except RecursionError:
        raise CompileError(_too_deep(fn, here)) from None
    if any(d.is_error for d in fx.diagnostics):
        raise CompileError(_sorted(fx.diagnostics))
    kernel.params = [buffers.get(n) or scalars[n] for n in names if n in buffers or n in scalars]
    kernel.body = fx.body
    _collect(kernel, module, requires)
    missing = undeclared(kernel, requires)
    if missing:
        raise CompileError(missing)
    infer(kernel)
    try:
        verify(kernel)
    except VerifyError as error:  # our fault, not the user's
        if knobs.debug():
            raise
        raise CompileError(
            Diagnostic("MPG_CORE_1900", f"the frontend made IR that is not valid: {error}", here)
        ) from error
    return kernel, tuple(_sorted(list(module.warnings.values()))), module.dependencies


def _too_deep(fn: FunctionType, loc: Loc) -> Diagnostic:
    message = f"an expression or a nesting in {fn.__name__} is too deep"
    return Diagnostic("MPG_PY_1001", message, loc, help="split it into several statements or functions")


def _values(
    fx: Fx, names: tuple[str, ...], args: tuple[Arg, ...], buffers: dict[str, Buffer], scalars: dict[str, Scalar]
) -> list[Val]:
    out: list[Val] = []
    for name, arg in zip(names, args, strict=True):
        if isinstance(arg, ArrayArg):
            out.append(whole(buffers[name]))
        elif isinstance(arg, ConstArg):
            value: Any = arg.value
            out.append(wrap(fx, value, name, fx.source.tree) if not isinstance(value, StructType) else Const(value))
        elif isinstance(arg, WeakArg):
            out.append(fx.weak_parameter(scalars[name], arg.kind))
        else:
            node = fx.parameter(scalars[name], arg.type)
            out.append(Num(node) if isinstance(arg.type, DType) else struct_parameter(fx, node, arg.type))
    return out


def _sorted(items: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(items, key=lambda d: (d.loc.file, d.loc.line, d.loc.col) if d.loc is not None else ("", 0, 0))


def _collect(kernel: Kernel, module: Module, declared: frozenset[str]) -> None:
    """Keep the functions that are called and the arrays that are used; list what is declared or what ops need."""
    called: list[Function] = []
    used: dict[int, Any] = {}
    requires = set(closure(declared))
    queue = [kernel.body]
    while queue:
        for node in walk(queue.pop()):
            capability = OPS[node.op].capability
            if capability is not None:
                requires.add(capability)
            for what in ("array", "target", "tile", "a", "b"):
                thing = node.attrs.get(what)
                if thing is not None:
                    used[id(thing)] = thing
            function = node.attrs.get("function")
            if function is not None and function not in called:
                called.append(function)
                queue.append(function.body)
    kernel.functions = [f for f in kernel.functions if f in called]
    kernel.shared = [a for a in module.arrays.values() if isinstance(a, SharedArray) and id(a) in used]
    kernel.locals = [a for a in module.arrays.values() if isinstance(a, LocalArray) and id(a) in used]
    kernel.consts = [a for a in module.tables.values() if isinstance(a, ConstArray) and id(a) in used]
    kernel.tiles = [t for t in module.tiles.values() if id(t) in used]
    kernel.requires = frozenset(requires)
