"""What MPIR does to memory, in Kernel IR: buffers, shared and local memory, tables, atomics, the device's heap; and
what a kernel says or stops at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.dtypes import DType, StructType, Type, index, leaves
from magpie.ir.builder import Builder
from magpie.ir.host_expr import host_expr
from magpie.ir.nodes import Array, ConstArray, LocalArray, Node, PtrType, SharedArray
from magpie.mpir import nodes as m
from magpie.mpir.known import field_path
from magpie.mpir.ops import OPS
from magpie.mpir.types import Ty

if TYPE_CHECKING:
    from magpie.mpir.lower import Body

__all__ = ["MEMORY", "debug", "pointer", "wandering"]


def array_of(body: Body, instr: m.Instr) -> Array:
    """The array that an instruction works on: pointers are no values here (each is one array)."""
    operand = instr.args["buf"]
    assert isinstance(operand, m.Var)
    found = body.arrays.get(operand.name)
    if found is None:
        raise CompileError(wandering(operand.name, instr.loc))
    element = instr.targs[0] if instr.targs else None
    if isinstance(element, Ty) and body.type(element) != found.type:
        text = f"{instr.op} of {element} in an array of {found.type}, which %{operand.name} is"
        raise CompileError(Diagnostic("MPS0004", text, instr.loc))
    return found


def wandering(name: str, loc: Loc | None) -> Diagnostic:
    return Diagnostic(
        "MPG_CORE_1405",
        f"which memory %{name} is depends on the way that control came",
        loc,
        help="it comes from one gpu.shared or gpu.malloc: take an array of twice the length and choose the index",
    )


# --- declarations -----------------------------------------------------------------------------------------------------
def _shared(body: Body, instr: m.Instr) -> None:
    count, element = instr.targs
    assert isinstance(count, int) and isinstance(element, Ty) and instr.result is not None
    array = SharedArray(instr.result, body.type(element), (count,), instr.loc)
    body.context.kernel.shared.append(array)
    body.arrays[instr.result] = array


def _dynamic(body: Body, instr: m.Instr) -> None:
    (element,) = instr.targs
    assert isinstance(element, Ty) and instr.result is not None
    count = host_expr(body.out.as_index(body.value(instr.args["count"])))
    if count is None or body.function.gpu_meta is None:
        text = f"the length of %{instr.result} is computed from values that only the device knows"
        help = "compute it in the kernel from parameters, lengths of buffers and launch sizes, without tdiv and phis"
        raise CompileError(Diagnostic("MPS0001", text, instr.loc, help=help))
    array = SharedArray(instr.result, body.type(element), (count,), instr.loc)
    body.context.kernel.shared.append(array)
    body.arrays[instr.result] = array


def _local(body: Body, instr: m.Instr) -> None:
    """A local array; a kernel's is zero where it starts, any other one is made so where it stands."""
    count, element = instr.targs
    assert isinstance(count, int) and isinstance(element, Ty) and instr.result is not None
    array = LocalArray(instr.result, body.type(element), (count,), instr.loc)
    body.context.kernel.locals.append(array)
    body.arrays[instr.result] = array
    if body.out.region is not body.region or body.function.gpu_meta is None:
        out = body.out
        with out.counted(out.const(0, index), out.const(count, index), out.const(1, index), "zero") as k:
            for path, type_, _ in leaves(array.type):
                out.store(array, (k,), out.const(0, type_), path or None)


def _table(body: Body, instr: m.Instr) -> None:
    (element,), values = instr.targs, instr.args["values"]
    assert isinstance(element, Ty) and isinstance(values, tuple) and instr.result is not None
    type_ = body.type(element)
    assert isinstance(type_, DType)
    numbers = tuple(v.value for v in values if isinstance(v, m.Const))
    array = ConstArray(instr.result, type_, (len(numbers),), tuple(map(_number(type_), numbers)), instr.loc)
    body.context.kernel.consts.append(array)
    body.arrays[instr.result] = array


def _number(type_: DType) -> Callable[[object], object]:
    return bool if type_.is_bool else float if type_.is_float else int  # type: ignore[return-value]


# --- accesses ---------------------------------------------------------------------------------------------------------
def _load(body: Body, instr: m.Instr) -> Node:
    return body.out.load(array_of(body, instr), body.value(instr.args["idx"]))


def _store(body: Body, instr: m.Instr) -> None:
    body.out.store(array_of(body, instr), (body.value(instr.args["idx"]),), body.value(instr.args["v"]))


def _path(array: Array, instr: m.Instr) -> tuple[int, ...]:
    assert isinstance(array.type, StructType)
    type_: Type = array.type
    found: list[int] = []
    for name in field_path(instr):
        assert isinstance(type_, StructType)
        found.append(type_.position(name))
        type_ = type_.fields[found[-1]].type
    return tuple(found)


def _load_field(body: Body, instr: m.Instr) -> Node:
    array = array_of(body, instr)
    return body.out.load(array, body.value(instr.args["idx"]), field=_path(array, instr))


def _store_field(body: Body, instr: m.Instr) -> None:
    array = array_of(body, instr)
    value = body.value(instr.args["v"])
    body.out.store(array, (body.value(instr.args["idx"]),), value, _path(array, instr))


def _length(body: Body, instr: m.Instr) -> Node:
    type_ = body.types[instr.result or ""]
    assert isinstance(type_, DType)
    return body.out.cast(body.out.emit("extent", array=array_of(body, instr), dim=0), type_)


def _atomic(body: Body, instr: m.Instr) -> Node:
    out, array = body.out, array_of(body, instr)
    kind, *suffixes = instr.op[len("gpu.atomic_") :].split(".")
    scope = "device" if array.space == "buffer" else "workgroup"
    scope = next((s for s in suffixes if s != "relaxed"), scope)
    args = [body.value(instr.args[k]) for k in OPS[instr.op].keys[1:]]
    if kind == "cas":
        return out.emit("atomic_cas", *args, array=array, scope=scope)
    if kind == "load":
        order = "relaxed" if "relaxed" in suffixes else "acquire"
        return out.emit("atomic_load", *args, array=array, order=order, scope=scope)
    if kind == "store":
        order = "relaxed" if "relaxed" in suffixes else "release"
        return out.emit("atomic_store", *args, array=array, order=order, scope=scope)
    return out.emit("atomic_rmw", *args, array=array, kind=kind, scope=scope)


Lower = Callable[["Body", m.Instr], Node | None]

#: Of each operation on arrays what makes it; those that declare one give no value.
MEMORY: dict[str, Lower] = {
    "gpu.shared": _shared,
    "gpu.shared_dynamic": _dynamic,
    "gpu.local": _local,
    "gpu.table": _table,
    "gpu.buffer_load": _load,
    "gpu.buffer_store": _store,
    "gpu.buffer_load_field": _load_field,
    "gpu.buffer_store_field": _store_field,
    "gpu.buffer_len": _length,
    **{name: _atomic for name in OPS if name.startswith("gpu.atomic_")},
}


# --- the device's heap ------------------------------------------------------------------------------------------------
def pointer(out: Builder, op: str, args: list[Node], element: Type | None) -> Node | None:
    """Memory of the device's heap; ``args`` in the order of the table's keys."""
    match op:
        case "gpu.malloc":
            assert isinstance(element, DType)
            return out.emit("malloc", out.as_index(args[0]), type=PtrType(element, "device"), dtype=element)
        case "ptr.load":
            return out.emit("ptr_load", args[0], type=element)
        case "ptr.add":
            return out.emit("ptr_add", args[0], out.as_index(args[1]))
        case "ptr.is_null":
            return out.emit("not", out.emit("ptr_valid", args[0]))
    out.emit("free" if op == "gpu.free" else "ptr_store", *args)
    return None


def debug(body: Body, instr: m.Instr) -> None:
    """What a kernel says or stops at."""
    text, args = instr.args["text"], instr.args.get("args", ())
    assert isinstance(text, m.Const) and isinstance(args, tuple)
    match instr.op:
        case "gpu.print":
            body.out.emit("print", *map(body.value, args), pieces=pieces(str(text.value)))
        case "gpu.assert":
            body.out.emit("assert", body.value(instr.args["cond"]), message=str(text.value))
        case _:
            body.out.emit("trap", message=str(text.value))


def pieces(text: str) -> tuple[str, ...]:
    """What stands around the ``{}`` of a text; ``{{`` and ``}}`` are braces."""
    found = [""]
    for word in re.split(r"(\{\}|\{\{|\}\})", text):
        if word == "{}":
            found.append("")
        else:
            found[-1] += word[0] if word in ("{{", "}}") else word
    return tuple(found)
