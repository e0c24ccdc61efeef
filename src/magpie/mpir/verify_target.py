"""What one target refuses of a kernel that MPIR and the rules of kernels accept (specification, sections 5.3 and 13).

These are rules of text: they hold for the target that a kernel declares, whether its backend is here or not, and
whatever a program is run on. Here stands which places of a kernel need something, and what the refusal is called; what
a target has is the matter of `magpie.capabilities`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from magpie.capabilities import CAPABILITIES, TARGETS, cell, limits
from magpie.diagnostics import Diagnostic, Loc
from magpie.ir.nodes import Kernel
from magpie.mpir.known import Found, reached
from magpie.mpir.nodes import Const, Function, GpuMeta, Module, operands
from magpie.mpir.ops import FENCES
from magpie.mpir.types import Ty
from magpie.records import record

__all__ = ["check_shared", "reminder", "target_rules"]

_ALIGN = 16  # of a shared array, as the backends place them


@record
class _Place:
    """Where a kernel needs a feature, and what does."""

    what: str
    loc: Loc | None


def target_rules(module: Module, function: Function) -> list[Diagnostic]:
    """What the declared target refuses of a kernel: types, pointers, how many buffers, the size of a workgroup."""
    meta = function.gpu_meta
    assert meta is not None
    found = [d for rule in (_features, _counts) for d in rule(module, function, meta)]
    return list(dict.fromkeys(found))


# --- features ---------------------------------------------------------------------------------------------------------
def _structs(module: Module, function: Function) -> Iterator[_Place]:
    """Buffers of value structs, as parameters; functions take them from the kernel."""
    for name, type_ in function.params:
        if type_.name == "gpu.TBuffer" and type_.args and module.struct(type_.args[0].name) is not None:
            yield _Place(f"the buffer %{name} holds the struct {type_.args[0]}", function.place(name))


def _pointers(module: Module, function: Function) -> Iterator[_Place]:
    """Operations on raw pointers. The `ptr` of shared memory is a name of an array, and no pointer."""
    for f in reached(module, function):
        for block in f.blocks:
            for instr in block.instrs:
                if instr.op.startswith("ptr."):
                    yield _Place(f"`{instr.op}` works on a pointer", instr.loc)


def _fences(module: Module, function: Function) -> Iterator[_Place]:
    """Fences of the device; those of the workgroup are what a barrier does."""
    for f in reached(module, function):
        for block in f.blocks:
            for instr in block.instrs:
                if instr.op in FENCES and ".workgroup" not in instr.op:
                    yield _Place(f"`{instr.op}` orders memory of the device", instr.loc)


def _of_type(name: str) -> Callable[[Module, Function], Iterator[_Place]]:
    """The first place of each function that has a type: a parameter, or else an instruction."""

    def places(module: Module, function: Function) -> Iterator[_Place]:
        holds: dict[Ty, bool] = {}
        for f in reached(module, function):
            place = None
            for typed in _typed(f):
                if typed[0] not in holds:
                    holds[typed[0]] = _holds(module, typed[0], name)
                if holds[typed[0]]:
                    place = typed
                    break
            if place is not None:
                inside = "" if place[0].name == name else f", which holds {name}"
                yield _Place(f"{place[1]} has type {place[0]}{inside}", place[2])

    return places


def _typed(function: Function) -> Iterator[tuple[Ty, str, Loc | None]]:
    """Every type that is written in a function, with what has it."""
    for name, type_ in function.params:
        yield type_, f"parameter %{name}", function.place(name)
    for block in function.blocks:
        for phi in block.phis:
            yield phi.type, f"%{phi.result}", phi.loc
        for instr in block.instrs:
            if instr.type is not None:
                yield instr.type, f"%{instr.result}", instr.loc
            for targ in instr.targs:
                if isinstance(targ, Ty):
                    yield targ, f"an operand of `{instr.op}`", instr.loc
            for operand in operands(instr):
                if isinstance(operand, Const):
                    yield operand.type, f"an operand of `{instr.op}`", instr.loc


def _holds(module: Module, type_: Ty, name: str) -> bool:
    """Whether a type is ``name``, or has it inside: as an argument, or in a field of a value struct."""
    todo, seen = [type_], set[str]()
    while todo:
        at = todo.pop()
        if at.name == name:
            return True
        struct = module.struct(at.name)
        if struct is not None and not struct.heap and at.name not in seen:
            seen.add(at.name)
            todo += [field for _, field in struct.fields]
        todo += at.args
    return False


#: Feature -> what it is called, and where a kernel needs it. Those that are capabilities have their names.
_NEEDS: dict[str, tuple[str, Callable[[Module, Function], Iterator[_Place]]]] = {
    "value_structs": ("structs in buffers", _structs),
    "pointers": ("pointers", _pointers),
    "device_fences": ("fences of the device", _fences),
    "bf16": ("bf16", _of_type("bf16")),
    "f64": ("f64", _of_type("f64")),
}

#: (feature, target that lacks it) -> the code of its refusal, and the cure. A target that is not here has the feature,
#: or its backend says more.
_REFUSALS: dict[tuple[str, str], tuple[str, str]] = {
    ("value_structs", "wgsl"): ("MPG_WGSL_1001", "give each field a buffer of its own"),
    ("pointers", "wgsl"): ("MPG_WGSL_1002", "use an index into a buffer or into shared memory"),
    ("bf16", "wgsl"): ("MPG_WGSL_1003", "use f16 or f32"),
    ("device_fences", "wgsl"): ("MPG_CORE_1405", "use gpu.fence.workgroup, or end the kernel where others go on"),
    ("f64", "wgsl"): ("MPG_CORE_1404", "use f32"),
    ("f64", "msl"): ("MPG_CORE_1404", "use f32"),
}


def _features(module: Module, function: Function, meta: GpuMeta) -> Found:
    for feature, (name, needs) in _NEEDS.items():
        refusal = _REFUSALS.get((feature, meta.target))
        if refusal is not None:
            code, help = refusal
            for place in needs(module, function):
                yield Diagnostic(code, f"{place.what}, and {meta.target} has no {name}", place.loc, help=help)


# --- limits -----------------------------------------------------------------------------------------------------------
#: Limit of `magpie.capabilities` -> target -> the code of what is over it.
_OVER: dict[str, dict[str, str]] = {
    "max_workgroup_size": {"wgsl": "MPG_WGSL_1006"},
    "max_buffers": {"wgsl": "MPG_WGSL_1005"},
    "max_shared_bytes": {
        "spv": "MPG_SPV_2001",
        "msl": "MPG_MSL_2001",
        "ptx": "MPG_PTX_2001",
        "hip": "MPG_HIP_2001",
        "wgsl": "MPG_WGSL_2001",
    },
}


def _counts(module: Module, function: Function, meta: GpuMeta) -> Found:
    x, y, z = meta.workgroup
    buffers = sum(type_.name == "gpu.TBuffer" for _, type_ in function.params)
    for limit, count, what, where in (
        ("max_workgroup_size", x * y * z, "work-items in a workgroup", "workgroup()"),
        ("max_buffers", buffers, "buffers", ""),
    ):
        code, most = _OVER[limit].get(meta.target), limits(meta.target).get(limit)
        if code is not None and most is not None and count > most:
            text = f"kernel @{function.name} has {count} {what}, and {meta.target} takes {most}"
            yield Diagnostic(code, text, function.place(where))


def check_shared(kernel: Kernel, target: str, room: int | None = None) -> list[Diagnostic]:
    """The refusal where the shared memory of a kernel and of what it calls is more than a workgroup has, at the array
    that goes over it.

    ``room`` is the limit of an architecture in bytes; None for what the table of capabilities has.
    """
    code = _OVER["max_shared_bytes"].get(target)
    most = limits(target).get("max_shared_bytes") if room is None else room
    arrays = [s for s in kernel.shared if not s.dynamic]
    sums = list(accumulate(-(-s.nbytes // _ALIGN) * _ALIGN for s in arrays))
    if code is None or most is None or not sums or sums[-1] <= most:
        return []
    text = f"the shared memory of kernel @{kernel.name} is {sums[-1]:,} bytes, and {target} gives a workgroup {most:,}"
    at = next(k for k, size in enumerate(sums) if size > most)
    notes = [(f"{s.nbytes:,} bytes here", s.loc) for k, s in enumerate(arrays) if k != at]
    return [Diagnostic(code, text, arrays[at].loc or kernel.loc, tuple(notes), "use a smaller tile or a narrower type")]


def reminder(function: Function) -> list[Diagnostic]:
    """MPG_CORE_1202 of every `unsafe gpu fn`: which targets have what it requires, with code for it or not."""
    meta = function.gpu_meta
    if meta is None or not meta.is_unsafe:
        return []
    names = [n for n in meta.requires if n in CAPABILITIES]
    having = ", ".join(t for t in TARGETS if names and all(cell(n, t) != "no" for n in names))
    text = f"kernel @{function.name} requires {', '.join(meta.requires)}, which {having or 'no target'} can have"
    return [Diagnostic("MPG_CORE_1202", text, function.loc)]
