"""The rules of kernels: what a `gpu fn` declares, and what neither it nor what it calls may hold."""

from __future__ import annotations

from collections.abc import Container
from math import prod

from magpie.capabilities import CAPABILITIES, TARGETS, cell, closure
from magpie.diagnostics import Diagnostic
from magpie.mpir.known import Found, Known
from magpie.mpir.nodes import Function, GpuMeta, Instr
from magpie.mpir.ops import HEAP_OPS, OPS, is_host
from magpie.mpir.types import Ty

__all__ = ["gpu_rules", "needed"]

_PLAIN_ATOMICS = ("gpu.atomic_load", "gpu.atomic_store", "gpu.atomic_exchange")
MOST_ITEMS = 1024  # of a workgroup

#: Types that no kernel has, with the code of their refusal (specification, section 13.2).
_HEAP_TYPES = {"Str": "MPG_CORE_1104", "Array": "MPG_CORE_1105", "Map": "MPG_CORE_1106", "TCallable": "MPG_CORE_1107"}


def gpu_rules(known: Known) -> Found:
    """The rules of a kernel; of a plain `fn`, and where a kernel calls one, that the call is all right stands there."""
    meta = known.function.gpu_meta
    if meta is None:
        return
    yield from _declared(known.function, meta)
    seen: set[str] = set()
    todo = [known.function]
    while todo:
        function = todo.pop()
        seen.add(function.name)
        yield from _body(known, function, closure(n for n in meta.requires if n in CAPABILITIES))
        for block in function.blocks:
            for instr in block.instrs:
                callee = known.module.function(instr.callee) if instr.op == "call" else None
                if callee is not None and callee.name not in seen:
                    seen.add(callee.name)
                    todo.append(callee)


def _declared(function: Function, meta: GpuMeta) -> Found:
    if meta.target not in TARGETS:
        shown = ", ".join(TARGETS)
        yield Diagnostic("MPG_CORE_1300", f"there is no target {meta.target}", function.loc, help=f"there are {shown}")
        return
    if min(meta.workgroup) < 1 or prod(meta.workgroup) > MOST_ITEMS:
        size = ", ".join(map(str, meta.workgroup))
        yield Diagnostic(
            "MPG_CORE_1302",
            f"workgroup({size}) has {prod(meta.workgroup)} work-items",
            function.loc,
            help=f"each size is at least 1, and their product at most {MOST_ITEMS}",
        )
    if function.ret.name != "unit":
        yield Diagnostic("MPS0008", f"kernel @{function.name} gives {function.ret}, not unit", function.loc)
    if meta.is_unsafe != bool(meta.requires):
        wanted = "says what it requires" if meta.is_unsafe else "is `unsafe` where it requires something"
        yield Diagnostic("MPS0008", f"kernel @{function.name} {wanted}", function.loc)
    for name in meta.requires:
        if name not in CAPABILITIES:
            yield Diagnostic(
                "MPG_CORE_1200",
                f"there is no capability {name}",
                function.loc,
                help=f"there are {', '.join(CAPABILITIES)}",
            )
        elif cell(name, meta.target) == "no":
            yield Diagnostic("MPG_CORE_1200", f"{meta.target} does not have {name}", function.loc)


def _body(known: Known, function: Function, has: Container[str]) -> Found:
    for name, type_ in function.params:
        yield from _type(type_, f"parameter %{name} of @{function.name}", function, None)
    for block in function.blocks:
        for phi in block.phis:
            if phi.type.name in ("ptr", "rawptr"):
                yield Diagnostic("MPG_CORE_1405", f"%{phi.result} is one of several pointers", phi.loc)
            yield from _type(phi.type, f"%{phi.result}", function, None)
        for instr in block.instrs:
            code = _refused(known, instr)
            if code is not None:
                yield Diagnostic(code, f"`{instr.op}` in a kernel", instr.loc)
            wanted = needed(instr)
            if wanted and wanted not in has:
                code = "MPG_MSL_2003" if wanted.startswith("metal.") else "MPG_CORE_1201"
                helped = f"make it an `unsafe gpu fn` with requires({wanted})"
                yield Diagnostic(
                    code, f"`{instr.op}` in a kernel that does not require {wanted}", instr.loc, help=helped
                )
            if code is None and instr.type is not None:
                yield from _type(instr.type, f"%{instr.result}", function, instr)


def _refused(known: Known, instr: Instr) -> str | None:
    if instr.op in HEAP_OPS:
        return HEAP_OPS[instr.op]
    if instr.op.startswith("str.builder."):
        return "MPG_CORE_1100"
    if instr.op == "new" and isinstance(instr.targs[0], Ty):
        struct = known.module.struct(instr.targs[0].name)
        return "MPG_CORE_1100" if struct is not None and struct.heap else None
    return "MPG_CORE_1405" if is_host(instr.op) else None


def needed(instr: Instr) -> str:
    """The capability that a kernel declares to use ``instr``; empty for none."""
    element = instr.targs[0] if instr.op.startswith("gpu.atomic_") and instr.targs else None
    if isinstance(element, Ty) and element.name in ("f32", "f64") and not instr.op.startswith(_PLAIN_ATOMICS):
        return f"atomics_{element.name}"
    return OPS[instr.op].capability if instr.op in OPS else ""


def _type(type_: Ty, what: str, function: Function, instr: Instr | None) -> Found:
    loc = function.loc if instr is None else instr.loc
    if type_.name in _HEAP_TYPES:
        yield Diagnostic(_HEAP_TYPES[type_.name], f"{what} has type {type_}", loc)
    elif type_.name in ("i128", "u128"):
        yield Diagnostic("MPG_CORE_1404", f"{what} has type {type_}, which no target has", loc)
    for inner in type_.args:
        yield from _type(inner, what, function, instr)
