"""Replaces math ops by the functions of the math library, `magpie.lib.math`, which is written in Magpie.

A function is lowered through the frontend when a kernel first needs it and kept for the process, inlined into
itself and without places in the library's source: what it becomes in a kernel stands at the user's line.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from threading import RLock
from types import FunctionType
from typing import cast

from magpie.dtypes import DType, f32, f64, i32
from magpie.ir.nodes import Function, Kernel, Node, Region, Slot, walk
from magpie.lib.math import FUNCTIONS
from magpie.passes.inline import inline_calls
from magpie.passes.rewrite import Rewriter

__all__ = ["library_code", "lower_math", "math_function"]

_CACHE: dict[tuple[str, str], Function] = {}
_LOCK = RLock()


def lower_math(kernel: Kernel, native: Set[tuple[str, str]] = frozenset()) -> Kernel:
    """``kernel`` without math ops, but for those in ``native``, (op, dtype name), which the backend does itself.

    Calls are inlined, those of the kernel too where there is something to do. f16 and bf16 compute in f32 and round
    once. The nodes that come in have the attribute ``strict``: a fast-math kernel must not reassociate them, since
    error terms such as (a - (a + b)) + b are what the functions live from.
    """
    if not any(_wanted(node, native) for body in kernel.bodies() for node in walk(body)):
        return kernel
    kernel = inline_calls(kernel)
    used: dict[Function, None] = {}

    def handler(rw: Rewriter, node: Node) -> Node | None:
        if not _wanted(node, native):
            return rw.keep(node)
        t = f64 if node.args[0].dtype is f64 else f32
        args = [rw.value(a) for a in node.args]
        args = [rw.out.cast(a, t) if a.dtype.is_float else a for a in args]
        function = math_function(node.op, t)
        used[function] = None
        call = rw.out.emit("call", *args, function=function)
        (result_type,) = function.results
        return rw.out.cast(rw.out.emit("call_result", type=result_type, call=call, index=0), node.dtype)

    body = Rewriter(dict.fromkeys(FUNCTIONS, handler)).region(kernel.body)
    return inline_calls(replace(kernel, body=body, functions=list(used)))


def _wanted(node: Node, native: Set[tuple[str, str]]) -> bool:
    if node.op not in FUNCTIONS:
        return False
    t = node.args[0].dtype
    return t.is_float and (node.op, t.name) not in native


def math_function(op: str, dtype: DType) -> Function:
    """The library's function for ``op`` on f32 or f64, without calls."""
    key = (op, dtype.name)
    found = _CACHE.get(key)
    if found is None:
        with _LOCK:
            found = _CACHE.get(key)
            if found is None:
                found = _CACHE[key] = _lower(op, dtype)
    return found


def _lower(op: str, dtype: DType) -> Function:
    from magpie.ir.ops import OPS

    params = (dtype,) if len(OPS[op].operands) == 1 else (dtype, i32 if op == "ldexp" else dtype)
    return _flat(f"magpie.lib.math.{FUNCTIONS[op]}", f"{op}_{dtype.name}", params)


def library_code(module: str, name: str, params: tuple[DType, ...]) -> Function:
    """The device function ``name`` of a module of `magpie.lib` for parameters of these types, without calls."""
    key = (f"{module}.{name}", " ".join(p.name for p in params))
    found = _CACHE.get(key)
    if found is None:
        with _LOCK:
            found = _CACHE.get(key)
            if found is None:
                found = _CACHE[key] = _flat(f"magpie.lib.{module}", name, params)
    return found


def _flat(module: str, name: str, params: tuple[DType, ...]) -> Function:
    from importlib import import_module

    from magpie.frontend.python import lower
    from magpie.frontend.signature import ArrayArg
    from magpie.passes.dce import drop_dead

    function = getattr(import_module(module), name)

    # Kernels: the arguments below say what they take. What they do with the results does not matter.
    def one(x):  # type: ignore[no-untyped-def]
        function(x[0])

    def two(x, y):  # type: ignore[no-untyped-def]
        function(x[0], y[0])

    def three(x, y, z):  # type: ignore[no-untyped-def]
        function(x[0], y[0], z[0])

    def four(x, y, z, w):  # type: ignore[no-untyped-def]
        function(x[0], y[0], z[0], w[0])

    caller = cast(FunctionType, (one, two, three, four)[len(params) - 1])
    kernel = lower(caller, tuple(ArrayArg(t, 1) for t in params)).kernel
    (call,) = (node for node in kernel.body if node.op == "call")
    callee: Function = call.attrs["function"]
    flat = inline_calls(replace(kernel, body=callee.body))
    body = _forward(flat.body, {})
    result = Function(name, callee.params, callee.results)
    result.body = drop_dead(replace(flat, body=body)).body
    for node in walk(result.body):
        node.loc = None
        node.attrs["strict"] = True
    return result


def _forward(region: Region, known: dict[Slot, Node]) -> Region:
    """``region`` with reads of slots replaced by what was set, where straight-line code tells; owns all its nodes."""
    rw = Rewriter()

    def visit(nodes: Region, known: dict[Slot, Node]) -> Region:
        out: Region = []
        for node in nodes:
            if node.op == "slot_get" and node.attrs["slot"] in known:
                rw.values[node] = known[node.attrs["slot"]]
                continue
            inside = {n.attrs["slot"] for r in node.regions for n in walk(r) if n.op == "slot_set"}
            if node.op == "loop":
                known = {s: v for s, v in known.items() if s not in inside}
            regions = tuple(visit(r, dict(known)) for r in node.regions)
            known = {s: v for s, v in known.items() if s not in inside}
            attrs = {k: rw.attr(v) for k, v in node.attrs.items()}
            new = Node(node.op, tuple(rw.value(a) for a in node.args), node.type, attrs, regions, node.loc)
            rw.values[node] = new
            out.append(new)
            if node.op == "slot_set":
                known = {**known, node.attrs["slot"]: new.args[0]}
        return out

    return visit(region, known)
