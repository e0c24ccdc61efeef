"""The builtins of mp, one handler each: ids, arrays, synchronisation, atomics, subgroups and printing.

Numeric ones are in `mathematics`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from magpie.dtypes import DType, StructType, Type, bool_, index, u64
from magpie.frontend.python.arith import convert, truth
from magpie.frontend.python.calls import BUILTINS, NOTHING, Handler, argument_node
from magpie.frontend.python.context import Fx
from magpie.frontend.python.expressions import node_of, static_value
from magpie.frontend.python.values import Const, Num, Pointer, Struct, Tuple, Val, View, describe, known
from magpie.frontend.python.views import element_indices, to_index, whole
from magpie.ir.host_expr import host_expr
from magpie.ir.nodes import Array, HostExpr, LocalArray, Node, PtrType, Region, SharedArray
from magpie.language.declare import struct_type

__all__ = ["KINDS", "choice", "reduction_operand"]

Args = dict[str, Val]


def handler(*names: str) -> Callable[[Handler], Handler]:
    def register(fn: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = fn
        return fn

    return register


def _name(e: ast.Call) -> str:
    return (
        e.func.attr
        if isinstance(e.func, ast.Attribute)
        else e.func.id
        if isinstance(e.func, ast.Name)
        else "the function"
    )


# --- ids --------------------------------------------------------------------------------------------------------------
def _id(op: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        at = argument_node(e, ["dim"], "dim")
        d = static_value(fx, args["dim"], at, "the dimension")
        if type(d) is not int or not 0 <= d <= 2:
            raise fx.fail(
                "MPG_PY_1021", f"mp.{op} has no dimension {d!r}", at, help="use 0, 1 or 2 (x, y or z); x is the fastest"
            )
        if op == "workgroup_size" and fx.module.kernel.workgroup is not None:
            return Num(fx.b.const(fx.module.kernel.workgroup[d], index))
        return Num(fx.emit(e, op, dim=d))

    return lower


for _op in ("thread_id", "workgroup_id", "workgroup_size", "num_workgroups", "global_id"):
    BUILTINS[_op] = _id(_op)


def _plain(op: str, value: bool = True) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        node = fx.emit(e, op)
        return Num(node) if value else NOTHING

    return lower


for _name_, _op in (
    ("size", "subgroup_size"),
    ("lane", "subgroup_lane"),
    ("id", "subgroup_id"),
    ("count", "subgroup_count"),
    ("elect", "subgroup_elect"),
):
    BUILTINS[f"subgroup.{_name_}"] = _plain(_op)


@handler("subgroup.is_first")
def _is_first(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    lane = fx.emit(e, "subgroup_lane")
    return Num(fx.b.emit("eq", lane, fx.b.const(0, index)))


BUILTINS["subgroup.barrier"] = _plain("subgroup_barrier", False)
BUILTINS["barrier"] = _plain("barrier", False)
BUILTINS["grid_sync"] = _plain("grid_sync", False)


def choice(fx: Fx, e: ast.Call, val: Val, name: str, choices: tuple[str, ...]) -> str:
    """A text argument that is one of a few."""
    v = val.value if isinstance(val, Const) else None
    if v not in choices:
        shown = repr(v) if isinstance(val, Const) else describe(val)
        raise fx.fail(
            "MPG_PY_1012",
            f"{name} is one of {', '.join(map(repr, choices))}, not {shown}",
            e,
            help=f"write {name}={choices[0]!r}",
        )
    return str(v)


@handler("fence")
def _fence(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    scope = choice(fx, e, args["scope"], "scope", ("device", "workgroup"))
    order = choice(fx, e, args["order"], "order", ("acq_rel", "acquire", "release"))
    fx.emit(e, "fence", scope=scope, order=order)
    return NOTHING


@handler("uniform")
def _uniform(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    val = args["value"]
    if isinstance(val, Const):
        return val
    return Num(fx.emit(e, "uniform", node_of(fx, val, e, "mp.uniform")))


# --- arrays -----------------------------------------------------------------------------------------------------------
def _element_type(fx: Fx, val: Val, e: ast.Call, name: str) -> Type:
    v = val.value if isinstance(val, Const) else None
    if isinstance(v, DType):
        return v
    found = struct_type(v) or (v if isinstance(v, StructType) else None)
    if found is None:
        raise fx.fail(
            "MPG_PY_1020",
            f"the element type of mp.{name} is a dtype or a struct, not {describe(val)}",
            e,
            help=f"write mp.{name}(shape, mp.f32)",
        )
    return found


def _declare(fx: Fx, e: ast.Call, args: Args, kind: str) -> Val:
    type_ = _element_type(fx, args["dtype"], e, kind)
    if any(loop.static is None for loop in fx.loops):
        raise fx.fail(
            "MPG_PY_1020",
            f"mp.{kind} stands inside a loop",
            e,
            help="declare it before the loop",
        )
    at = argument_node(e, ["shape", "dtype"], "shape")
    items = args["shape"].items if isinstance(args["shape"], Tuple) else [args["shape"]]
    nodes = list(at.elts) if isinstance(at, ast.Tuple) and len(at.elts) == len(items) else [at] * len(items)
    if not 1 <= len(items) <= 4:
        raise fx.fail("MPG_PY_1020", f"the shape of mp.{kind} has {len(items)} dimensions", at, help="use 1 to 4")
    shape: list[int | HostExpr] = []
    for item, node in zip(items, nodes, strict=True):
        shape.append(_length(fx, item, node, kind))
    nth = fx.declared.get(id(e), 0)
    fx.declared[id(e)] = nth + 1
    key = (fx.key, id(e), nth, tuple(shape), type_)
    array: Array | None = fx.module.arrays.get(key)
    if array is None:
        name = fx.module.unique(_variable_of(fx, e) or kind)
        loc = fx.source.loc(e)
        if kind == "shared":
            array = SharedArray(name, type_, tuple(shape), loc)
        else:
            array = LocalArray(name, type_, tuple(int(n) for n in shape if isinstance(n, int)), loc)
        fx.module.arrays[key] = array
    view = whole(array)
    if kind == "local" and not fx.is_kernel:
        _clear(fx, array, e)
    return view


def _variable_of(fx: Fx, e: ast.Call) -> str | None:
    for node in ast.walk(fx.source.tree):
        if isinstance(node, ast.Assign) and node.value is e and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
    return None


def _length(fx: Fx, val: Val, at: ast.AST, kind: str) -> int | HostExpr:
    length = known(val)
    if length is None and kind == "shared":
        region: Region = []
        with fx.into(region):
            node = to_index(fx, val, at, "a length")
        expr = host_expr(node) if fx.is_kernel or not _parameters_in(node) else None
        if expr is not None and expr[0] != "const":
            return expr
        length = None if expr is None else expr[1]
    if length is None and kind == "shared":
        raise fx.fail(
            "MPG_PY_1020",
            "the length of a shared array is computed from values that only the device knows",
            at,
            help="compute it from arguments, shapes and launch sizes, or use a constant"
            if fx.is_kernel
            else "make it an mp.constexpr parameter, or declare the array in the kernel and pass it",
        )
    if length is None:
        length = static_value(fx, val, at, f"the length of mp.{kind}")
    if isinstance(length, float):
        raise fx.fail("MPG_PY_1007", f"a length is an integer, not {length!r}", at, help="use // instead of /")
    if isinstance(length, bool) or not isinstance(length, int) or length < 0:
        raise fx.fail("MPG_PY_1020", f"{length!r} is no length of an array", at, help="use a positive integer")
    return length


def _parameters_in(node: Node) -> bool:
    return node.op == "param" or any(map(_parameters_in, node.args))


def _clear(fx: Fx, array: Array, e: ast.Call) -> None:
    """A local array of a device function starts at zero in each call."""
    fx.b.loc = fx.source.loc(e)
    assert isinstance(array, LocalArray)

    def level(d: int, indices: tuple[Node, ...]) -> None:
        if d == array.rank:
            _zero(fx, array, indices, array.type, ())
            return
        zero, one = fx.b.const(0, index), fx.b.const(1, index)
        with fx.b.counted(zero, fx.b.const(array.shape[d], index), one, "zero") as k:
            level(d + 1, (*indices, k))

    level(0, ())


def _zero(fx: Fx, array: Array, indices: tuple[Node, ...], type_: Type, path: tuple[int, ...]) -> None:
    if isinstance(type_, DType):
        fx.b.store(array, indices, fx.b.const(0, type_), path or None)
        return
    for i, f in enumerate(type_.fields):
        _zero(fx, array, indices, f.type, (*path, i))


@handler("shared")
def _shared(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    return _declare(fx, e, args, "shared")


@handler("local")
def _local(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    return _declare(fx, e, args, "local")


# --- atomics ----------------------------------------------------------------------------------------------------------
def _place(fx: Fx, e: ast.Call, args: Args) -> tuple[Array, tuple[Node, ...], str]:
    name = _name(e)
    view = args["array"]
    if not isinstance(view, View):
        raise fx.fail(
            "MPG_PY_1012",
            f"mp.{name} takes an array, an index and values; {describe(view)} is given as the array",
            e,
            help=f"write mp.{name}(x, i, ...), not mp.{name}(x[i], ...)",
        )
    array = view.array
    if array.space == "local":
        raise fx.fail(
            "MPG_PY_1018", f"mp.{name} on a local array, which no other work-item sees", e, help="use plain assignments"
        )
    if isinstance(array.type, StructType):
        raise fx.fail(
            "MPG_PY_1018", f"mp.{name} on an array of structs", e, help="keep the field in an array of its own"
        )
    scope = args.get("scope", NOTHING)
    chosen = "workgroup" if array.space == "shared" else "device"
    if not (isinstance(scope, Const) and scope.value is None):
        chosen = choice(fx, e, scope, "scope", ("device", "workgroup"))
    at = argument_node(e, ["array", "index"], "index")
    return array, element_indices(fx, view, args["index"], at), chosen


def _value(fx: Fx, e: ast.Call, args: Args, name: str, array: Array, names: list[str]) -> Node:
    assert isinstance(array.type, DType)
    return convert(fx, args[name], array.type, argument_node(e, names, name), f"{array.name}[...]")


def _rmw(kind: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        array, indices, scope = _place(fx, e, args)
        t = array.type
        assert isinstance(t, DType)
        if (t.is_bool and kind != "exchange" and kind not in ("and", "or", "xor")) or (
            t.is_float and kind in ("and", "or", "xor")
        ):
            raise fx.fail("MPG_PY_1018", f"mp.{_name(e)} on elements of type {t}", e, help="use an array of integers")
        value = _value(fx, e, args, "value", array, ["array", "index", "value"])
        return Num(fx.emit(e, "atomic_rmw", *indices, value, array=array, kind=kind, scope=scope))

    return lower


for _kind in ("add", "sub", "min", "max", "and", "or", "xor", "exchange"):
    BUILTINS[f"atomic_{_kind}"] = _rmw(_kind)


@handler("atomic_cas")
def _cas(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    array, indices, scope = _place(fx, e, args)
    names = ["array", "index", "expected", "desired"]
    expected = _value(fx, e, args, "expected", array, names)
    desired = _value(fx, e, args, "desired", array, names)
    return Num(fx.emit(e, "atomic_cas", *indices, expected, desired, array=array, scope=scope))


@handler("atomic_load")
def _atomic_load(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    array, indices, scope = _place(fx, e, args)
    order = choice(fx, e, args["order"], "order", ("relaxed", "acquire"))
    return Num(fx.emit(e, "atomic_load", *indices, array=array, order=order, scope=scope))


@handler("atomic_store")
def _atomic_store(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    array, indices, scope = _place(fx, e, args)
    order = choice(fx, e, args["order"], "order", ("relaxed", "release"))
    value = _value(fx, e, args, "value", array, ["array", "index", "value"])
    fx.emit(e, "atomic_store", *indices, value, array=array, order=order, scope=scope)
    return NOTHING


# --- subgroups --------------------------------------------------------------------------------------------------------
KINDS = ("add", "mul", "min", "max", "and", "or", "xor")

_OF_BOOLS = {
    "subgroup": "use mp.subgroup.ballot_count, any or all; or int(x)",
    "workgroup": 'use int(x); or mp.workgroup.reduce(x, "or")',
}


def reduction_operand(fx: Fx, e: ast.Call, val: Val, kind: str, among: str) -> Node:
    """The operand of a reduction or scan with ``kind`` among a "subgroup" or a "workgroup"."""
    node = node_of(fx, val, e, f"mp.{among}.{_name(e)}")
    if node.dtype.is_bool and kind in ("add", "mul", "min", "max"):
        raise fx.fail("MPG_PY_1018", f"mp.{among}.{_name(e)} of a bool", e, help=_OF_BOOLS[among])
    if node.dtype.is_float and kind in ("and", "or", "xor"):
        raise fx.fail(
            "MPG_PY_1018", f"{kind!r} of {node.dtype}", e, help="reinterpret the bits with mp.bitcast(x, mp.u32)"
        )
    return node


def _reduce(kind: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        return Num(fx.emit(e, "subgroup_reduce", reduction_operand(fx, e, args["x"], kind, "subgroup"), kind=kind))

    return lower


for _name_, _kind in (("sum", "add"), ("prod", "mul"), ("min", "min"), ("max", "max")):
    BUILTINS[f"subgroup.{_name_}"] = _reduce(_kind)


@handler("subgroup.reduce")
def _reduce_any(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    kind = choice(fx, e, args["op"], "op", KINDS)
    return Num(fx.emit(e, "subgroup_reduce", reduction_operand(fx, e, args["x"], kind, "subgroup"), kind=kind))


@handler("subgroup.scan")
def _scan(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    kind = choice(fx, e, args["op"], "op", KINDS)
    exclusive = bool(static_value(fx, args["exclusive"], e, "exclusive"))
    return Num(
        fx.emit(
            e, "subgroup_scan", reduction_operand(fx, e, args["x"], kind, "subgroup"), kind=kind, exclusive=exclusive
        )
    )


def _shuffle(op: str, name: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        value = node_of(fx, args["x"], e, f"mp.subgroup.{_name(e)}")
        lane = to_index(fx, args[name], argument_node(e, ["x", name], name), "a lane")
        return Num(fx.emit(e, op, value, lane))

    return lower


for _op, _arg in (
    ("shuffle", "lane"),
    ("shuffle_xor", "mask"),
    ("shuffle_up", "delta"),
    ("shuffle_down", "delta"),
    ("broadcast", "lane"),
):
    BUILTINS[f"subgroup.{_op}"] = _shuffle(f"subgroup_{_op}", _arg)


def _condition(fx: Fx, e: ast.Call, val: Val) -> Node:
    out = truth(fx, val, e)
    return fx.b.const(bool(out.value), bool_) if isinstance(out, Const) else out


def _vote(op: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        return Num(fx.emit(e, op, _condition(fx, e, args["cond"])))

    return lower


for _op in ("ballot", "any", "all"):
    BUILTINS[f"subgroup.{_op}"] = _vote(f"subgroup_{_op}")


@handler("subgroup.ballot_count")
def _ballot_count(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    bits = fx.emit(e, "subgroup_ballot", _condition(fx, e, args["cond"]))
    return Num(fx.b.cast(fx.b.emit("popcount", bits), index))


@handler("subgroup.ballot_rank")
def _ballot_rank(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    bits = fx.emit(e, "subgroup_ballot", _condition(fx, e, args["cond"]))
    lane = fx.b.cast(fx.b.emit("subgroup_lane"), u64)
    one = fx.b.const(1, u64)
    below = fx.b.emit("sub", fx.b.emit("shl", one, lane), one)
    return Num(fx.b.cast(fx.b.emit("popcount", fx.b.emit("and", bits, below)), index))


# --- printing and the rest --------------------------------------------------------------------------------------------
@handler("print")
def _print(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    if e.keywords:
        raise fx.fail("MPG_PY_1012", "mp.print takes no keywords", e, help="write the separators into an f-string")
    pieces = [""]
    nodes: list[Node] = []
    for i, a in enumerate(e.args):
        if i:
            pieces[-1] += " "
        for part in a.values if isinstance(a, ast.JoinedStr) else [a]:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion not in (-1, 114):
                    raise fx.fail(
                        "MPG_PY_1001",
                        "a format in an f-string is not possible in a kernel",
                        part,
                        help="write {x} without a format",
                    )
                part = part.value
            _show(fx, fx.expr(part), part, pieces, nodes)
    fx.emit(e, "print", *nodes, pieces=tuple(pieces))
    return NOTHING


def _show(fx: Fx, val: Val, at: ast.AST, pieces: list[str], nodes: list[Node]) -> None:
    if isinstance(val, Const):
        v = val.value
        pieces[-1] += (
            v
            if isinstance(v, str)
            else repr(v)
            if isinstance(v, DType) or not hasattr(v, "__name__")
            else str(v.__name__)
        )
    elif isinstance(val, Tuple | Struct):
        items = val.items if isinstance(val, Tuple) else val.fields
        pieces[-1] += "(" if isinstance(val, Tuple) else f"{val.type.name}("
        for i, item in enumerate(items):
            if i:
                pieces[-1] += ", "
            if isinstance(val, Struct):
                pieces[-1] += f"{val.type.fields[i].name}="
            _show(fx, item, at, pieces, nodes)
        pieces[-1] += ")"
    else:
        nodes.append(node_of(fx, val, at, "mp.print"))
        pieces.append("")


@handler("trap")
def _trap(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    fx.emit(e, "trap", message=str(static_value(fx, args["message"], e, "the message")))
    return NOTHING


@handler("malloc")
def _malloc(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    type_ = _element_type(fx, args["dtype"], e, "malloc")
    if not isinstance(type_, DType):
        raise fx.fail(
            "MPG_PY_1020",
            f"the element type of mp.malloc is a dtype, not the struct {type_.name}",
            e,
            help="one allocation for each field",
        )
    count = to_index(fx, args["count"], e, "the number of elements")
    return Pointer(fx.emit(e, "malloc", count, type=PtrType(type_, "device"), dtype=type_), type_, count)


@handler("free")
def _free(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    pointer = args["pointer"]
    if not isinstance(pointer, Pointer):
        raise fx.fail(
            "MPG_PY_1012",
            f"mp.free takes a result of mp.malloc, not {describe(pointer)}",
            e,
            help="write p = mp.malloc(n, mp.f32), then mp.free(p)",
        )
    fx.emit(e, "free", pointer.node)
    return NOTHING
