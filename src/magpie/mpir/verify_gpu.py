"""The rules of kernels: what a `gpu fn` declares, and what neither it nor what it calls may hold."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice
from math import prod

from magpie.capabilities import CAPABILITIES, TARGETS, cell, closure, targets_with
from magpie.diagnostics import Diagnostic, Loc
from magpie.mpir.known import Found, Known, reached
from magpie.mpir.nodes import Const, Function, GpuMeta, Instr, operands
from magpie.mpir.ops import HEAP_OPS, NO_CODE, OPS, is_host
from magpie.mpir.prelude import fields_of
from magpie.mpir.types import Ty, scalar

__all__ = ["gpu_rules", "needed"]

_PLAIN_ATOMICS = ("gpu.atomic_load", "gpu.atomic_store", "gpu.atomic_exchange")
MOST_ITEMS = 1024  # of a workgroup

#: Targets whose kernels require nothing, with the code of that (section 13.7).
_NO_REQUIRES = {"wgsl": "MPG_WGSL_1004"}

#: Types that no kernel has, with the code of their refusal (specification, section 13.2).
_HEAP_TYPES = {"Str": "MPG_CORE_1104", "Array": "MPG_CORE_1105", "Map": "MPG_CORE_1106", "TCallable": "MPG_CORE_1107"}

#: Types of values in kernels that are no numbers and no structs; where they may stand is said by other rules.
_OWN_TYPES = ("unit", "ptr", "rawptr", "gpu.TBuffer")

_HAS = "kernels have numbers, value structs of numbers, and buffers of these"


def gpu_rules(known: Known) -> Found:
    """The rules of a kernel; of a plain `fn`, and where a kernel calls one, that the call is all right stands there."""
    meta = known.function.gpu_meta
    if meta is None:
        return
    yield from _declared(known.function, meta)
    has = closure(n for n in meta.requires if n in CAPABILITIES)
    for function in reached(known.module, known.function):
        yield from _body(known, function, meta, has)
    yield from _recursion(known, meta)


def _declared(function: Function, meta: GpuMeta) -> Found:
    if meta.target not in TARGETS:
        text = f"there is no target {meta.target}"
        yield Diagnostic("MPG_CORE_1300", text, function.place("target()"), help=f"there are {', '.join(TARGETS)}")
        return
    if min(meta.workgroup) < 1 or prod(meta.workgroup) > MOST_ITEMS:
        size = ", ".join(map(str, meta.workgroup))
        yield Diagnostic(
            "MPG_CORE_1302",
            f"workgroup({size}) has {prod(meta.workgroup)} work-items",
            function.place("workgroup()"),
            help=f"each size is at least 1, and their product at most {MOST_ITEMS}",
        )
    if function.ret.name != "unit":
        yield Diagnostic("MPS0008", f"kernel @{function.name} gives {function.ret}, not unit", function.loc)
    if meta.is_unsafe != bool(meta.requires):
        wanted = "says what it requires" if meta.is_unsafe else "is `unsafe` where it requires something"
        yield Diagnostic("MPS0008", f"kernel @{function.name} {wanted}", function.loc)
    where = function.place("requires()")
    none = _NO_REQUIRES.get(meta.target)
    if none is not None and meta.requires:
        text = (
            f"kernel @{function.name} requires {', '.join(meta.requires)}, and {meta.target} has the portable core only"
        )
        yield Diagnostic(none, text, where, help="write a portable kernel for this target beside the other one")
    for name in meta.requires:
        if name not in CAPABILITIES:
            yield Diagnostic(
                "MPG_CORE_1200",
                f"there is no capability {name}",
                where,
                help=f"there are {', '.join(CAPABILITIES)}",
            )
        elif none is None and not _could(name, meta.target):
            having = ", ".join(targets_with(name)) or "no target yet"
            text = f"{meta.target} does not have {name}"
            yield Diagnostic("MPG_CORE_1200", text, where, help=f"those that have it: {having}")


def _could(name: str, target: str) -> bool:
    """Whether a target has a capability, with code for it or not; of an unknown target nothing more is to be said."""
    return target not in TARGETS or cell(name, target) != "no"


def _body(known: Known, function: Function, meta: GpuMeta, has: Container[str]) -> Found:
    for name, type_ in function.params:
        yield from _type(known, type_, f"parameter %{name} of @{function.name}", function.place(name))
    yield from _type(known, function.ret, f"what @{function.name} gives", function.loc)
    for block in function.blocks:
        for phi in block.phis:
            if phi.type.name in ("ptr", "rawptr"):
                yield Diagnostic("MPG_CORE_1405", f"%{phi.result} is one of several pointers", phi.loc)
            yield from _type(known, phi.type, f"%{phi.result}", phi.loc)
        for instr in block.instrs:
            if instr.op in NO_CODE:
                yield from _no_code(f"`{instr.op}`", NO_CODE[instr.op], meta, has, instr)
                continue
            code = _refused(known, instr)
            if code is not None:
                yield Diagnostic(code, f"`{instr.op}` in a kernel", instr.loc)
                continue
            wanted = needed(instr)
            if wanted and wanted not in has:
                yield _undeclared(f"`{instr.op}` in a kernel that does not require {wanted}", wanted, meta, instr)
            yield from islice(_types(known, instr), 1)
        for operand in operands(block.term):
            if isinstance(operand, Const):
                yield from _type(known, operand.type, "a constant", block.term.loc)


def _undeclared(text: str, name: str, meta: GpuMeta, instr: Instr) -> Diagnostic:
    code = "MPG_MSL_2003" if name.startswith("metal.") else "MPG_CORE_1201"
    help = f"make it an `unsafe gpu fn` with requires({name})"
    if meta.target in _NO_REQUIRES or not _could(name, meta.target):
        having = ", ".join(targets_with(name))
        help = f"{meta.target} has no {name}: do without" + (f", or write it for {having}" if having else "")
    return Diagnostic(code, text, instr.loc, help=help)


def _no_code(what: str, name: str, meta: GpuMeta, has: Container[str], instr: Instr) -> Found:
    """What devices of the target can do with a capability, and Magpie has no code for."""
    if name not in has:
        yield _undeclared(f"{what} in a kernel that does not require {name}", name, meta, instr)
    elif _could(name, meta.target) and meta.target not in targets_with(name):
        text = f"{what} needs {name}, which Magpie has no code for on {meta.target} yet"
        yield Diagnostic("MPG_CORE_1200", text, instr.loc)


def _recursion(known: Known, meta: GpuMeta) -> Found:
    """A call that closes a cycle of calls, one for each function that comes to call itself."""
    for function, instr, way in _cycles(known):
        text = f"@{function} comes to call itself: {' -> '.join(f'@{n}' for n in way)}"
        if not meta.is_unsafe or not _could("recursion", meta.target):
            help = "write a loop, with a local array as the stack where one is needed"
            yield Diagnostic("MPG_CORE_1103", text, instr.loc, help=help)
        else:
            yield from _no_code(text, "recursion", meta, meta.requires, instr)


def _cycles(known: Known) -> Iterator[tuple[str, Instr, list[str]]]:
    """Depth-first through the calls: the name, the call and the way of each edge back to a function on the way."""

    def calls(function: Function) -> Iterator[Instr]:
        return (i for b in function.blocks for i in b.instrs if i.op == "call" and known.module.function(i.callee))

    way = {known.function.name: None}  # in order
    stack = [calls(known.function)]
    seen = {known.function.name}
    while stack:
        instr = next(stack[-1], None)
        if instr is None:
            stack.pop()
            way.popitem()
        elif instr.callee in way:
            names = list(way)
            yield instr.callee, instr, [*names[names.index(instr.callee) :], instr.callee]
        elif instr.callee not in seen:
            seen.add(instr.callee)
            way[instr.callee] = None
            callee = known.module.function(instr.callee)
            assert callee is not None
            stack.append(calls(callee))


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


def _types(known: Known, instr: Instr) -> Found:
    """What is wrong with the types of an instruction: of its result, in <>, of literals."""
    if instr.type is not None:
        yield from _type(known, instr.type, f"%{instr.result}", instr.loc)
    for targ in instr.targs:
        if isinstance(targ, Ty):
            what = f"an operand of `{instr.op}`"
            yield from _type(known, targ, what, instr.loc, element=True)
            if instr.op.startswith(("gpu.", "ptr.")) and _is_empty(known, targ):
                yield _nothing(what, targ, instr.loc)
    for operand in operands(instr):
        if isinstance(operand, Const) and operand.type.is_int:
            yield from _type(known, operand.type, "a constant", instr.loc)


def _is_empty(known: Known, type_: Ty) -> bool:
    """Whether a value struct has no number in it, so that memory of it would have no bytes."""
    todo, seen = [type_], {type_}
    while todo:
        at = todo.pop()
        struct, fields = known.module.struct(at.name), fields_of(known.module, at.owned)
        if struct is None or struct.heap or fields is None:
            return False
        inner = {field for _, field in fields} - seen
        seen |= inner
        todo += inner
    return True


def _nothing(what: str, type_: Ty, loc: Loc | None) -> Diagnostic:
    text = f"{what} has type {type_}, and memory holds no struct without numbers"
    return Diagnostic("MPG_CORE_1404", text, loc, help=_HAS)


def _type(known: Known, type_: Ty, what: str, loc: Loc | None, element: bool = False) -> Found:
    """The first thing in a type that no kernel has; fields of value structs are part of it. ``element``: of memory."""
    if scalar(type_) is not None or (type_, element) in known.fit:
        return
    todo = [type_]
    seen: set[str] = set()
    other: Ty | None = None
    while todo:
        at = todo.pop()
        if at.name in _HEAP_TYPES:
            inside = "" if at is type_ else f", which holds {at}"
            yield Diagnostic(_HEAP_TYPES[at.name], f"{what} has type {type_}{inside}", loc)
            return
        if at.name in ("i128", "u128"):
            yield Diagnostic("MPG_CORE_1404", f"{what} has type {type_}, and no target has {at}", loc)
            return
        struct = known.module.struct(at.name)
        if struct is not None and not struct.heap:
            if at.name not in seen:  # of another use of it, the arguments say enough
                seen.add(at.name)
                todo += [field for _, field in reversed(fields_of(known.module, at.owned) or [])]
        elif scalar(at.owned) is None and not (at is type_ and not element and at.name in _OWN_TYPES):
            other = other or at
        todo += reversed(at.args)
    if other is not None:
        inside = "" if other is type_ else f", which holds {other}"
        yield Diagnostic("MPG_CORE_1404", f"{what} has type {type_}{inside}, and a kernel has none", loc, help=_HAS)
    elif type_.name in ("gpu.TBuffer", "rawptr") and any(_is_empty(known, arg) for arg in type_.args):
        yield _nothing(what, type_, loc)
    else:
        known.fit.add((type_, element))
