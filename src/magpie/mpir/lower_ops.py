"""MPIR instructions in Kernel IR. Every operation is total there: integers wrap, x / 0 is 0, shift counts masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.dtypes import DType, bf16, f32, i8, i16, i32, i64, u8, u16, u32, u64
from magpie.ir.builder import Builder
from magpie.ir.nodes import Node
from magpie.mpir.ops import FENCES, MATH, OPS

__all__ = ["ELEMENTWISE"]

_SIGNED = {8: i8, 16: i16, 32: i32, 64: i64}
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}

Emit = Callable[[Builder, list[Node], Any], Node]  # the operands, and the type that the result is to have


def _plain(op: str) -> Emit:
    return lambda out, args, type_: out.emit(op, *args)


def _wrapping(op: str) -> Emit:
    """An op that wraps on purpose: the sanitizer does not report the overflow of strict nodes."""
    return lambda out, args, type_: out.emit(op, *args, strict=True)


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


def _not(op: str) -> Emit:
    """The opposite of a compare: what is false for a NaN becomes true for it."""
    return lambda out, args, type_: out.emit("not", out.emit(op, *args))


def _not_one(out: Builder, args: list[Node], type_: DType) -> Node:
    """Unordered or equal."""
    return out.emit("not", _one(out, args, type_))


def _unordered(out: Builder, args: list[Node], type_: DType) -> Node:
    return out.emit("or", *(out.emit("isnan", a) for a in args))


def _ordered(out: Builder, args: list[Node], type_: DType) -> Node:
    return out.emit("not", _unordered(out, args, type_))


def _trip_count(out: Builder, args: list[Node], type_: DType) -> Node:
    return out.cast(out.emit("trip_count", *map(out.as_index, args)), type_)


def _convert(to: DType | None) -> Emit:
    return lambda out, args, type_: out.cast(args[0], to or type_)


def _id(op: str) -> Emit:
    def emit(out: Builder, args: list[Node], type_: DType) -> Node:
        return out.cast(out.emit(op, dim=args[0].attrs["value"]), type_)

    return emit


def _counted(op: str) -> Emit:
    return lambda out, args, type_: out.cast(out.emit(op), type_)


def _over_subgroup(op: str, kind: str, **extra: Any) -> Emit:
    return lambda out, args, type_: out.emit(op, *args, kind=kind, **extra)


def _fence(name: str) -> Emit:
    words = name.split(".")[2:]
    scope = "workgroup" if "workgroup" in words else "device"
    order = next((w for w in words if w != "workgroup"), "acq_rel")
    return lambda out, args, type_: out.emit("fence", scope=scope, order=order)


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
    "fcmp.une": _plain("ne"),
    "fcmp.ueq": _not_one,
    "fcmp.ord": _ordered,
    "fcmp.uno": _unordered,
    "select": lambda out, args, type_: out.select(*args),
    "bitcast": lambda out, args, type_: out.emit("bitcast", args[0], type=type_),
    "bf16.to_f32": _convert(f32),
    "f32.to_bf16": _convert(bf16),
    "f64.to_bf16": _convert(bf16),
    "cast": _convert(None),
    "const": lambda out, args, type_: args[0],
    "i.not": _plain("not"),
    "i.neg": _plain("neg"),
    "i.abs": _with_sign("abs", True),
    "i.floordiv": _with_sign("floordiv", True),
    "i.mod": _with_sign("mod", True),
    "i.trip_count": _trip_count,
    "gpu.barrier": _plain("barrier"),
    "gpu.grid_sync": _plain("grid_sync"),
    "gpu.uniform": _plain("uniform"),
    "gpu.linear_local_id": _counted("linear_local_id"),
}
for _suffix in ("", ".wrap", ".checked"):
    for _name in ("add", "sub", "mul"):
        ELEMENTWISE[f"i.{_name}{_suffix}"] = _wrapping(_name) if _suffix == ".wrap" else _plain(_name)
    for _name, _op in (("div", "tdiv"), ("rem", "trem")):
        ELEMENTWISE[f"i.s{_name}{_suffix}"] = _with_sign(_op, True)
        ELEMENTWISE[f"i.u{_name}{_suffix}"] = _with_sign(_op, False)
for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("rem", "fmod")):
    # `.fast` allows what a whole kernel may allow here; the strict result is one of those it allows
    ELEMENTWISE[f"f.{_name}"] = ELEMENTWISE[f"f.{_name}.fast"] = _plain(_op)
    if _name != "rem":
        ELEMENTWISE[f"bf16.{_name}"] = _plain(_op)
for _name in ("popcount", "clz", "ctz"):
    ELEMENTWISE[f"i.{_name}"] = _plain(_name)
for _name in ("min", "max", "pow"):
    ELEMENTWISE[f"i.s{_name}"] = _with_sign(_name, True)
    ELEMENTWISE[f"i.u{_name}"] = _with_sign(_name, False)
for _name in ("min", "max", "minimum", "maximum", "floordiv", "mod", "copysign", "neg", "abs", "fma"):
    ELEMENTWISE[f"f.{_name}"] = _plain(_name)
for _name in ("sqrt", "floor", "ceil", "trunc", "round"):
    ELEMENTWISE[f"f.{_name}"] = _plain(_name)
for _name in ("nan", "inf", "finite"):
    ELEMENTWISE[f"f.is_{_name}"] = _plain(f"is{_name}")
for _name in (*MATH, "pow", "atan2", "hypot", "remainder", "ldexp", "frexp_mantissa", "frexp_exponent"):
    ELEMENTWISE[f"math.{_name}"] = _plain(_name)
for _name, _other in (("lt", "ge"), ("gt", "le"), ("le", "gt"), ("ge", "lt")):
    ELEMENTWISE[f"icmp.s{_name}"] = _with_sign(_name, True)
    ELEMENTWISE[f"icmp.u{_name}"] = _with_sign(_name, False)
    ELEMENTWISE[f"fcmp.o{_name}"] = _plain(_name)
    ELEMENTWISE[f"fcmp.u{_name}"] = _not(_other)
for _name in ("thread_id", "workgroup_id", "workgroup_size", "global_id", "num_workgroups"):
    ELEMENTWISE[f"gpu.{_name}"] = _id(_name)
_KINDS = {"sum": "add", "prod": "mul"}
for _name in ("size", "lane", "id", "count"):
    ELEMENTWISE[f"gpu.subgroup_{_name}"] = _counted(f"subgroup_{_name}")
for _name in ("sum", "prod", "min", "max", "and", "or", "xor"):
    ELEMENTWISE[f"gpu.subgroup_{_name}"] = _over_subgroup("subgroup_reduce", _KINDS.get(_name, _name))
    for _suffix in ("", ".exclusive"):
        ELEMENTWISE[f"gpu.subgroup_scan_{_name}{_suffix}"] = _over_subgroup(
            "subgroup_scan", _KINDS.get(_name, _name), exclusive=bool(_suffix)
        )
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
for _name in FENCES:
    ELEMENTWISE[_name] = _fence(_name)
assert ELEMENTWISE.keys() <= OPS.keys()
