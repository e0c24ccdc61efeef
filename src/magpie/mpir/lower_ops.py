"""MPIR instructions in Kernel IR. Every operation is total there: integers wrap, x / 0 is 0, shift counts masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.dtypes import DType, Type, bf16, f32, i8, i16, i32, i64, index, u8, u16, u32, u64
from magpie.ir.builder import Builder
from magpie.ir.nodes import Array, Node, PtrType
from magpie.mpir.ops import OPS

__all__ = ["ELEMENTWISE"]

_SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}

Emit = Callable[[Builder, list[Node], DType], Node]


def _plain(op: str) -> Emit:
    return lambda out, args, type_: out.emit(op, *args)


def _with_sign(op: str, signed: bool) -> Emit:
    """``op`` on operands of the given sign, whatever the type says: the name of the operation decides in MPIR."""

    def emit(out: Builder, args: list[Node], type_: DType) -> Node:
        own = args[0].dtype
        if own.is_bool:  # compares as 0 and 1
            return out.emit(op, *(out.cast(a, u8) for a in args))
        kind = (_SIGNED if signed else _UNSIGNED)[own.bits]
        found = out.emit(op, *(out.cast(a, kind) for a in args))
        return found if found.dtype.is_bool else out.cast(found, own)

    return emit


def _one(out: Builder, args: list[Node], type_: DType) -> Node:
    """Ordered and not equal: false for a NaN, unlike `ne`."""
    return out.emit("or", out.emit("lt", *args), out.emit("gt", *args))


def _convert(to: DType | None) -> Emit:
    return lambda out, args, type_: out.cast(args[0], to or type_)


def _id(op: str) -> Emit:
    def emit(out: Builder, args: list[Node], type_: DType) -> Node:
        return out.cast(out.emit(op, dim=args[0].attrs["value"]), type_)

    return emit


def _counted(op: str) -> Emit:
    return lambda out, args, type_: out.cast(out.emit(op), type_)


def _over_subgroup(op: str, kind: str) -> Emit:
    extra: dict[str, Any] = {"exclusive": False} if op == "subgroup_scan" else {}
    return lambda out, args, type_: out.emit(op, *args, kind=kind, **extra)


#: Of each op without arrays, calls and structs what computes it from its operands, in the order of the table's keys.
ELEMENTWISE: dict[str, Emit] = {
    "i.and": _plain("and"),
    "i.or": _plain("or"),
    "i.xor": _plain("xor"),
    "i.shl": _plain("shl"),
    "i.lshr": _with_sign("shr", False),
    "i.ashr": _with_sign("shr", True),
    "icmp.eq": _plain("eq"),
    "icmp.ne": _plain("ne"),
    "fcmp.oeq": _plain("eq"),
    "fcmp.one": _one,
    "bf16.to_f32": _convert(f32),
    "f32.to_bf16": _convert(bf16),
    "cast": _convert(None),
    "const": lambda out, args, type_: args[0],
    "gpu.barrier": lambda out, args, type_: out.emit("barrier"),
}
for _suffix in ("", ".wrap", ".checked"):
    for _name in ("add", "sub", "mul"):
        ELEMENTWISE[f"i.{_name}{_suffix}"] = _plain(_name)
    for _name, _op in (("div", "tdiv"), ("rem", "trem")):
        ELEMENTWISE[f"i.s{_name}{_suffix}"] = _with_sign(_op, True)
        ELEMENTWISE[f"i.u{_name}{_suffix}"] = _with_sign(_op, False)
for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("rem", "fmod")):
    # `.fast` allows what a whole kernel may allow here; the strict result is one of those it allows
    ELEMENTWISE[f"f.{_name}"] = ELEMENTWISE[f"f.{_name}.fast"] = _plain(_op)
    if _name != "rem":
        ELEMENTWISE[f"bf16.{_name}"] = _plain(_op)
for _name in ("lt", "gt", "le", "ge"):
    ELEMENTWISE[f"icmp.s{_name}"] = _with_sign(_name, True)
    ELEMENTWISE[f"icmp.u{_name}"] = _with_sign(_name, False)
    ELEMENTWISE[f"fcmp.o{_name}"] = _plain(_name)
for _name in ("thread_id", "workgroup_id", "workgroup_size", "global_id", "num_workgroups"):
    ELEMENTWISE[f"gpu.{_name}"] = _id(_name)
_KINDS = {"sum": "add", "prod": "mul"}
for _name in ("size", "lane", "id", "count"):
    ELEMENTWISE[f"gpu.subgroup_{_name}"] = _counted(f"subgroup_{_name}")
for _name in ("sum", "prod", "min", "max", "and", "or", "xor"):
    ELEMENTWISE[f"gpu.subgroup_{_name}"] = _over_subgroup("subgroup_reduce", _KINDS.get(_name, _name))
for _name in ("sum", "prod", "min", "max"):
    ELEMENTWISE[f"gpu.subgroup_scan_{_name}"] = _over_subgroup("subgroup_scan", _KINDS.get(_name, _name))
for _name in (
    "shuffle",
    "shuffle_xor",
    "shuffle_up",
    "shuffle_down",
    "broadcast",
    "ballot",
    "any",
    "all",
    "elect",
    "barrier",
):
    ELEMENTWISE[f"gpu.subgroup_{_name}"] = _plain(f"subgroup_{_name}")
ELEMENTWISE["gpu.metal.simd_shuffle"] = ELEMENTWISE["gpu.subgroup_shuffle"]
ELEMENTWISE["gpu.metal.simd_sum"] = ELEMENTWISE["gpu.subgroup_sum"]
ELEMENTWISE["gpu.metal.simd_prefix_sum"] = ELEMENTWISE["gpu.subgroup_scan_sum"]
ELEMENTWISE["gpu.fence"] = lambda out, args, type_: out.emit("fence", scope="device", order="acq_rel")
assert ELEMENTWISE.keys() <= OPS.keys()


def atomic(out: Builder, op: str, array: Array, args: list[Node]) -> Node:
    """An atomic operation on an element: ``args`` are the index and the values."""
    scope = "device" if array.space == "buffer" else "workgroup"
    kind = op[len("gpu.atomic_") :]
    if kind == "cas":
        return out.emit("atomic_cas", *args, array=array, scope=scope)
    if kind == "load":
        return out.emit("atomic_load", *args, array=array, order="acquire", scope=scope)
    if kind == "store":
        return out.emit("atomic_store", *args, array=array, order="release", scope=scope)
    return out.emit("atomic_rmw", *args, array=array, kind=kind, scope=scope)


def pointer(out: Builder, op: str, args: list[Node], element: Type | None) -> Node | None:
    """Memory of the device's heap; ``args`` in the order of the table's keys."""
    match op:
        case "gpu.malloc":
            assert isinstance(element, DType)
            return out.emit("malloc", out.cast(args[0], index), type=PtrType(element, "device"), dtype=element)
        case "ptr.load":
            return out.emit("ptr_load", args[0], type=element)
        case "ptr.add":
            return out.emit("ptr_add", args[0], out.cast(args[1], index))
        case "ptr.is_null":
            return out.emit("not", out.emit("ptr_valid", args[0]))
    out.emit("free" if op == "gpu.free" else "ptr_store", *args)
    return None


def length(out: Builder, extent: Node, type_: DType) -> Node:
    """The length of a buffer in the type that the program asks for."""
    assert extent.dtype is index
    return out.cast(extent, type_)
