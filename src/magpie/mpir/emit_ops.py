"""Operations of Kernel IR that work on values, as those of MPIR. ``index`` is i64 there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magpie.dtypes import DType, StructType
from magpie.ir.nodes import Node
from magpie.mpir import nodes as m
from magpie.mpir.ops import MATH, OPS
from magpie.mpir.types import BOOL, Ty

if TYPE_CHECKING:
    from magpie.mpir.emit import Emitter

__all__ = ["EMIT", "Emit", "as_i64"]

Emit = Callable[["Emitter", Node], m.Operand | None]

_I64, _U32 = Ty("i64"), Ty("u32")
_KINDS = {"add": "sum", "mul": "prod"}


def _simple(e: Emitter, node: Node, op: str) -> m.Operand:
    """An operation whose operands are those of the node in order, with the node's type."""
    args = dict(zip(OPS[op].keys, map(e.value, node.args), strict=True))
    type_ = e.type(node.type) if node.type is not None else None
    return e.add(op, args, type_, hint=e.hints.get(node, ""), pure=node.info.pure)


def _named(op: str) -> Emit:
    return lambda e, node: _simple(e, node, op)


def _by_sign(name: str, signed: str, unsigned: str, real: str) -> Emit:
    """The operation for signed and unsigned integers and for floats; an empty name: there is none."""

    def emit(e: Emitter, node: Node) -> m.Operand:
        type_ = node.args[0].dtype
        op = real if type_.is_float else signed if type_.is_signed else unsigned
        if type_.is_int and (found := _plain(name, e.value(node.args[0]), e.value(node.args[-1]))) is not None:
            return found
        if e.kernel.fastmath and type_.is_float and f"{op}.fast" in OPS:
            op += ".fast"
        if type_.is_int and node.attrs.get("strict") and f"{op}.wrap" in OPS:
            op += ".wrap"
        return _simple(e, node, op)

    return emit


def _plain(name: str, a: m.Operand, b: m.Operand) -> m.Operand | None:
    """What x + 0, x - 0 and x * 1 are: loops over ranges have many of them."""
    neutral = {"add": 0, "sub": 0, "mul": 1}.get(name)
    if neutral is not None and isinstance(b, m.Const) and b.value == neutral:
        return a
    return b if name in ("add", "mul") and isinstance(a, m.Const) and a.value == neutral else None


def _compare(name: str) -> Emit:
    def emit(e: Emitter, node: Node) -> m.Operand:
        type_ = node.args[0].dtype
        if type_.is_float:
            op = "fcmp.une" if name == "ne" else f"fcmp.o{name}"
        elif name in ("eq", "ne"):
            op = f"icmp.{name}"
        else:
            op = f"icmp.{'s' if type_.is_signed else 'u'}{name}"
        return _simple(e, node, op)

    return emit


def _abs(e: Emitter, node: Node) -> m.Operand:
    type_ = node.args[0].dtype
    if type_.is_int and not type_.is_signed:
        return e.value(node.args[0])
    return _simple(e, node, "f.abs" if type_.is_float else "i.abs")


def _uniform(e: Emitter, node: Node) -> m.Operand:
    return _simple(e, node, "gpu.uniform")


def convert(e: Emitter, value: m.Operand, source: Ty, to: Ty, hint: str = "") -> m.Operand:
    """A cast between two types of MPIR."""
    if source == to:
        return value
    names = (source.name, to.name)
    if names in (("bf16", "f32"), ("f32", "bf16"), ("f64", "bf16")):
        return e.add(f"{names[0]}.to_{names[1]}", {"v": value}, to, hint=hint)
    if names in (("bf16", "f64"), ("bf16", "f16"), ("f16", "bf16")):  # f32 holds both of them
        value = convert(e, value, source, Ty("f32"))
        return convert(e, value, Ty("f32"), to, hint)
    return e.add("cast", {"v": value}, to, source, to, hint=hint)


def as_i64(e: Emitter, value: m.Operand, type_: Ty) -> m.Operand:
    """An integer as an index."""
    if isinstance(value, m.Const) and isinstance(value.value, int) and value.value < 1 << 63:
        return m.Const(_I64, int(value.value))
    return convert(e, value, type_, _I64)


def _cast(e: Emitter, node: Node) -> m.Operand:
    source, to = e.type(node.args[0].type), e.type(node.type)
    return convert(e, e.value(node.args[0]), source, to, e.hints.get(node, ""))


def _bitcast(e: Emitter, node: Node) -> m.Operand:
    source, to, value = e.type(node.args[0].type), e.type(node.type), e.value(node.args[0])
    return value if source == to else e.add("bitcast", {"v": value}, to, source, to, hint=e.hints.get(node, ""))


def _select(e: Emitter, node: Node) -> m.Operand:
    if not isinstance(node.type, DType | StructType):
        raise e.refused("choice between pointers", node.loc)
    return _simple(e, node, "select")


def _id(name: str) -> Emit:
    def emit(e: Emitter, node: Node) -> m.Operand:
        args: dict[str, m.Operand] = {"dim": m.Const(_U32, node.attrs["dim"])} if "dim" in node.attrs else {}
        return e.add(f"gpu.{name}", args, _I64, hint=e.hints.get(node, name))

    return emit


def _struct_make(e: Emitter, node: Node) -> m.Operand:
    assert isinstance(node.type, StructType)
    type_ = e.type(node.type)
    args = {f.name: e.value(a) for f, a in zip(node.type.fields, node.args, strict=True)}
    return e.add("new", args, type_, type_, hint=e.hints.get(node, ""))


def _struct_get(e: Emitter, node: Node) -> m.Operand:
    struct = node.args[0].type
    assert isinstance(struct, StructType)
    name = struct.fields[node.attrs["field"]].name
    args: dict[str, m.Operand] = {"obj": e.value(node.args[0]), "field": m.Word(name)}
    return e.add("getfield", args, e.type(node.type), hint=e.hints.get(node, name))


def _subgroup(e: Emitter, node: Node) -> m.Operand:
    kind = node.attrs["kind"]
    kind = _KINDS.get(kind, kind)
    if node.op == "subgroup_reduce":
        return _simple(e, node, f"gpu.subgroup_{kind}")
    return _simple(e, node, f"gpu.subgroup_scan_{kind}{'.exclusive' if node.attrs.get('exclusive') else ''}")


def _effect(name: str) -> Emit:
    def emit(e: Emitter, node: Node) -> None:
        e.add(name, {}, None, pure=False)

    return emit


def _fence(e: Emitter, node: Node) -> None:
    scope = ".workgroup" if node.attrs.get("scope") == "workgroup" else ""
    order = node.attrs.get("order") or "acq_rel"
    e.add(f"gpu.fence{scope}{'' if order == 'acq_rel' else f'.{order}'}", {}, None, pure=False)


def _text(value: object) -> m.Const:
    return m.Const(Ty("Str"), str(value or ""))


def _assert(e: Emitter, node: Node) -> None:
    e.add("gpu.assert", {"cond": e.value(node.args[0]), "text": _text(node.attrs["message"])}, None, pure=False)


def _trap(e: Emitter, node: Node) -> None:
    e.add("gpu.trap", {"text": _text(node.attrs.get("message"))}, None, pure=False)


def _print(e: Emitter, node: Node) -> None:
    text = "{}".join(piece.replace("{", "{{").replace("}", "}}") for piece in node.attrs["pieces"])
    e.add("gpu.print", {"text": _text(text), "args": tuple(map(e.value, node.args))}, None, pure=False)


# --- the device's heap ------------------------------------------------------------------------------------------------
def _pointer(e: Emitter, node: Node) -> m.Operand | None:
    element = getattr(node.type if node.op == "malloc" else node.args[0].type, "element", None)
    of = e.type(element)
    pointer = Ty("rawptr", (of,))
    args = tuple(map(e.value, node.args))
    match node.op:
        case "malloc":
            return e.add("gpu.malloc", {"count": args[0]}, pointer, of, hint=e.hints.get(node, "p"), pure=False)
        case "free":
            return e.add("gpu.free", {"p": args[0]}, None, pure=False)
        case "ptr_add":
            return e.add("ptr.add", {"p": args[0], "count": args[1]}, pointer, of)
        case "ptr_load":
            return e.add("ptr.load", {"p": args[0]}, of, of, hint=e.hints.get(node, ""), pure=False)
        case "ptr_valid":
            null = e.add("ptr.is_null", {"p": args[0]}, BOOL, of)
            return e.add("i.not", {"v": null}, BOOL)
    return e.add("ptr.store", {"p": args[0], "v": args[1]}, None, of, pure=False)


#: Of each operation on values what emits it.
EMIT: dict[str, Emit] = {
    "floordiv": _by_sign("floordiv", "i.floordiv", "i.udiv", "f.floordiv"),
    "mod": _by_sign("mod", "i.mod", "i.urem", "f.mod"),
    "tdiv": _by_sign("tdiv", "i.sdiv", "i.udiv", ""),
    "trem": _by_sign("trem", "i.srem", "i.urem", ""),
    "div": _by_sign("div", "", "", "f.div"),
    "fmod": _by_sign("fmod", "", "", "f.rem"),
    "pow": _by_sign("pow", "i.spow", "i.upow", "math.pow"),
    "neg": _by_sign("neg", "i.neg", "i.neg", "f.neg"),
    "shr": _by_sign("shr", "i.ashr", "i.lshr", ""),
    "abs": _abs,
    "cast": _cast,
    "bitcast": _bitcast,
    "select": _select,
    "trip_count": _named("i.trip_count"),
    "uniform": _uniform,
    "struct_make": _struct_make,
    "struct_get": _struct_get,
    "subgroup_reduce": _subgroup,
    "subgroup_scan": _subgroup,
    "fence": _fence,
    "assert": _assert,
    "trap": _trap,
    "print": _print,
    **{name: _named(f"i.{name}") for name in ("and", "or", "xor", "not", "shl", "popcount", "clz", "ctz")},
    **{name: _named(f"f.{name}") for name in ("minimum", "maximum", "copysign", "fma", "sqrt")},
    **{name: _named(f"f.{name}") for name in ("floor", "ceil", "trunc", "round")},
    **{f"is{name}": _named(f"f.is_{name}") for name in ("nan", "inf", "finite")},
    **{name: _named(f"math.{name}") for name in MATH},
    **{name: _named(f"math.{name}") for name in ("atan2", "hypot", "remainder", "ldexp")},
    **{name: _named(f"math.{name}") for name in ("frexp_mantissa", "frexp_exponent")},
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _by_sign(name, f"i.{name}", f"i.{name}", f"f.{name}") for name in ("add", "sub", "mul")},
    **{name: _by_sign(name, f"i.s{name}", f"i.u{name}", f"f.{name}") for name in ("min", "max")},
    **{name: _id(name) for name in ("thread_id", "workgroup_id", "workgroup_size", "num_workgroups", "global_id")},
    **{name: _id(name) for name in ("linear_local_id", "subgroup_size", "subgroup_lane", "subgroup_id")},
    "subgroup_count": _id("subgroup_count"),
    **{
        f"subgroup_{name}": _named(f"gpu.subgroup_{name}")
        for name in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast")
    },
    **{f"subgroup_{name}": _named(f"gpu.subgroup_{name}") for name in ("ballot", "any", "all", "elect")},
    **{name: _effect(f"gpu.{name}") for name in ("barrier", "grid_sync", "subgroup_barrier")},
    **dict.fromkeys(("malloc", "free", "ptr_add", "ptr_load", "ptr_store", "ptr_valid"), _pointer),
}
