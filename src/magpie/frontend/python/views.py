"""Arrays and views of them: indexing, slicing, shapes. A view is no value: it is an array and what was fixed of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from magpie.dtypes import DType, StructType, index
from magpie.frontend.python.arith import adapt, convert, number, weak_kind
from magpie.frontend.python.context import EXPRESSIONS, Fx
from magpie.frontend.python.errors import LATER
from magpie.frontend.python.expressions import static_value
from magpie.frontend.python.structs import field_of, store_struct
from magpie.frontend.python.values import (
    Const,
    Dim,
    ElemRef,
    Fixed,
    Free,
    Lazy,
    Num,
    Pointer,
    Shape,
    Struct,
    Table,
    Tuple,
    Val,
    View,
    describe,
    is_number,
    known,
    plural,
)
from magpie.ir.nodes import ConstArray, LocalArray, Node, SharedArray
from magpie.language._builtin import Builtin, BuiltinGroup

__all__ = ["element_indices", "extent", "index_node", "load", "resolve", "shape_items", "store", "stride", "whole"]


def whole(array: Any) -> View:
    """The view of all of ``array``."""
    return View(array, [Free() for _ in range(array.rank)])


def index_node(fx: Fx, val: Val, at: ast.AST, what: str = "an index") -> Node:
    """An integer for an index, a bound or a size, in its own integer type (index for weak ones)."""
    if (isinstance(val, Const) and isinstance(val.value, bool)) or (isinstance(val, Num) and val.type.is_bool):
        raise fx.fail("MPG_PY_1007", f"{what} is an integer, not a bool", at, help=f"write int({fx.text(at)})")
    number(fx, val, at, what)
    kind = weak_kind(val)
    if kind == "float" or (isinstance(val, Num) and val.type.is_float):
        text = fx.text(at)
        help = (
            f"write {fx.text(at.left)} // {fx.text(at.right)}"
            if isinstance(at, ast.BinOp) and isinstance(at.op, ast.Div)
            else f"write int({text})"
        )
        raise fx.fail("MPG_PY_1007", f"{what} is an integer, not {describe(val)}", at, help=help)
    return val.node if kind is None else adapt(fx, val, index, at)  # type: ignore[attr-defined]


def to_index(fx: Fx, val: Val, at: ast.AST, what: str = "an index") -> Node:
    """As `index_node`, in type index."""
    return _wide(fx, index_node(fx, val, at, what))


def _wide(fx: Fx, node: Node) -> Node:
    return adapt(fx, Num(node), index)


# --- shapes -----------------------------------------------------------------------------------------------------------
def extent(fx: Fx, view: View, k: int) -> Node:
    """Extent of the view along its dimension ``k``."""
    d = view.free[k]
    dim = view.dims[d]
    assert isinstance(dim, Free)
    if dim.extent is not None:
        return dim.extent
    array = view.array
    if isinstance(array, SharedArray | LocalArray | ConstArray):
        n = array.shape[d]
        if isinstance(n, int):
            return fx.b.const(n, index)
    return fx.b.emit("extent", array=array, dim=d)


def stride(fx: Fx, view: View, k: int) -> Node:
    """Distance of neighbours along dimension ``k``, in elements."""
    d = view.free[k]
    dim = view.dims[d]
    assert isinstance(dim, Free)
    array = view.array
    if isinstance(array, SharedArray | LocalArray | ConstArray):
        node: Node | None = None
        for j in range(d + 1, array.rank):
            n = array.shape[j]
            one = fx.b.const(n, index) if isinstance(n, int) else fx.b.emit("extent", array=array, dim=j)
            node = one if node is None else fx.b.emit("mul", node, one)
        node = node or fx.b.const(1, index)
    else:
        node = fx.b.emit("stride", array=array, dim=d)
    return node if dim.step is None else fx.b.emit("mul", node, dim.step)


def shape_items(fx: Fx, shape: Shape) -> list[Val]:
    one = extent if shape.what == "shape" else stride
    return [Num(one(fx, shape.view, k)) for k in range(shape.view.rank)]


def dimension(fx: Fx, val: Val, rank: int, at: ast.AST, what: str) -> int:
    """A literal dimension of something of rank ``rank``; negative ones count from the end."""
    d = static_value(fx, val, at, f"the dimension of {what}")
    if type(d) is not int or not -rank <= d < rank:
        raise fx.fail(
            "MPG_PY_1011",
            f"{what} has {plural(rank, 'dimension')}, and no number {d}",
            at,
            help=f"use 0{f' to {rank - 1}' if rank > 1 else ''}" if rank else "it has none",
        )
    return d % rank


# --- subscripts -------------------------------------------------------------------------------------------------------
def _subscript(fx: Fx, e: ast.Subscript) -> Val:
    base = fx.ref(e.value)
    if isinstance(base, View):
        view = subscript_view(fx, base, e)
        return load(fx, view, e) if view.rank == 0 else view
    if isinstance(base, Shape):
        d = dimension(fx, fx.expr(e.slice), base.view.rank, e.slice, f".{base.what}")
        return Num((extent if base.what == "shape" else stride)(fx, base.view, d))
    if isinstance(base, Tuple):
        return _tuple_item(fx, base, e)
    if isinstance(base, Table):
        return _table_item(fx, base, fx.expr(e.slice), e)
    if isinstance(base, Pointer):
        return Num(fx.emit(e, "ptr_load", _pointer_at(fx, base, e), type=base.element))
    if isinstance(base, Const) and isinstance(base.value, str):
        raise fx.fail(
            "MPG_PY_1018", "a text cannot be indexed in a kernel", e, help="texts exist only in mp.print and assert"
        )
    if isinstance(base, Const) and callable(base.value):
        raise fx.fail(
            "MPG_PY_1026",
            f"{describe(base)} cannot be used like this in a kernel",
            e,
            help="a kernel calls functions marked @mp.func",
        )
    what = "a number" if is_number(base) else describe(base)
    raise fx.fail("MPG_PY_1018", f"{what} cannot be indexed", e, help="only arrays, tuples, .shape and .strides can")


def _pointer_at(fx: Fx, pointer: Pointer, e: ast.Subscript) -> Node:
    i = to_index(fx, fx.expr(e.slice), e.slice)
    return fx.emit(e, "ptr_add", pointer.node, i)


def _parts(e: ast.expr) -> list[ast.expr]:
    return list(e.elts) if isinstance(e, ast.Tuple) else [e]


def subscript_view(fx: Fx, base: View, e: ast.Subscript) -> View:
    """``base[...]`` as a view: integers fix a dimension, slices keep it, missing ones stay whole."""
    parts = _parts(e.slice)
    ellipsis = [i for i, p in enumerate(parts) if isinstance(p, ast.Constant) and p.value is ...]
    if ellipsis:
        if len(ellipsis) > 1:
            raise fx.fail("MPG_PY_1011", "two ... in one index", e, help="write : for each dimension")
        fill: list[ast.expr] = [_colon(parts[ellipsis[0]]) for _ in range(base.rank - len(parts) + 1)]
        parts[ellipsis[0] : ellipsis[0] + 1] = fill
    vals: list[tuple[ast.expr, Val | None]] = []
    for p in parts:
        if isinstance(p, ast.Slice):
            vals.append((p, None))
            continue
        val = fx.expr(p)
        if isinstance(val, Tuple):  # x[ij] with ij = (i, j)
            vals.extend((p, item) for item in val.items)
        else:
            vals.append((p, val))
    if len(vals) > base.rank:
        raise fx.fail(
            "MPG_PY_1011",
            f"{_shown(base)} has {plural(base.rank, 'dimension')}, not {len(vals)}",
            e,
            help=f"give {base.rank}" if base.rank else "read it with [()]",
        )
    dims = list(base.dims)
    for k, (at, given) in enumerate(vals):
        d = base.free[k]
        dim = base.dims[d]
        assert isinstance(dim, Free)
        if given is None:
            assert isinstance(at, ast.Slice)
            dims[d] = _slice(fx, base, k, dim, at)
        else:
            dims[d] = Fixed(_place(fx, base, d, dim, given, at))
    return View(base.array, dims)


def _colon(at: ast.expr) -> ast.Slice:
    return ast.copy_location(ast.Slice(None, None, None), at)


def _shown(view: View) -> str:
    return view.array.name if view.rank == len(view.dims) else f"this view of {view.array.name}"


def _place(fx: Fx, base: View, d: int, dim: Free, val: Val, at: ast.expr) -> Node:
    """The index into dimension ``d`` of the array that stands for ``val`` in the view."""
    if isinstance(val, Const) and val.value is None:
        raise fx.fail(
            "MPG_PY_1001",
            "None in an index (a new dimension) is not possible in a kernel",
            at,
            help="index with one integer per dimension",
        )
    if isinstance(val, Const) and isinstance(val.value, int) and not isinstance(val.value, bool):
        _check_literal(fx, base, d, dim, val.value, at)
    node = index_node(fx, val, at)
    if dim.step is not None:
        node = fx.emit(at, "mul", _wide(fx, node), dim.step)
    if dim.offset is not None:
        node = fx.emit(at, "add", dim.offset, _wide(fx, node))
    return node


def _check_literal(fx: Fx, base: View, d: int, dim: Free, value: int, at: ast.expr) -> None:
    name = base.array.name
    if value < 0:
        k = base.free.index(d)
        inner = base.rank == len(base.dims)
        shown = f"{name}.shape[{k}] - {-value}" if inner else f"the extent minus {-value}"
        raise fx.fail(
            "MPG_PY_1010",
            f"negative index {value}: in a kernel it does not count from the end",
            at,
            help=f"write {shown}",
        )
    array = base.array
    n = array.shape[d] if isinstance(array, SharedArray | LocalArray | ConstArray) and dim.whole else None
    if isinstance(n, int) and value >= n:
        raise fx.fail(
            "MPG_PY_1033",
            f"index {value} is out of bounds: {name} has {plural(n, 'element')} along dimension {d}",
            at,
            help=f"use 0 to {n - 1}" if n else "the array is empty",
        )


def _slice(fx: Fx, base: View, k: int, dim: Free, at: ast.Slice) -> Dim:
    """``start:stop:step`` of a dimension; the bounds count from the beginning and are not clipped to the extent."""
    if at.lower is None and at.upper is None and at.step is None:
        return dim
    step = 1
    if at.step is not None:
        step = static_value(fx, fx.expr(at.step), at.step, "the step of a slice")
        if type(step) is not int or step < 1:
            raise fx.fail(
                "MPG_PY_1001",
                f"a slice with step {step} is not possible in a kernel",
                at.step,
                help="use a positive step, and index from the end yourself: x[n - 1 - i]",
            )
    low = _bound(fx, base, k, at.lower)
    if low is not None and low.op == "const" and low.attrs["value"] == 0:
        low = None
    high = _bound(fx, base, k, at.upper)
    n = high if high is not None else extent(fx, base, k)
    fx.b.loc = fx.source.loc(at)
    if low is not None:
        n = fx.b.emit("sub", n, low)
    if step != 1:
        n = fx.b.emit("floordiv", fx.b.emit("add", n, fx.b.const(step - 1, index)), fx.b.const(step, index))
    n = fx.b.emit("max", n, fx.b.const(0, index)) if low is not None else n
    offset = dim.offset
    if low is not None:
        shift = low if dim.step is None else fx.b.emit("mul", low, dim.step)
        offset = shift if offset is None else fx.b.emit("add", offset, shift)
    new_step = dim.step
    if step != 1:
        by = fx.b.const(step, index)
        new_step = by if new_step is None else fx.b.emit("mul", new_step, by)
    return Free(offset, new_step, n)


def _bound(fx: Fx, base: View, k: int, at: ast.expr | None) -> Node | None:
    if at is None:
        return None
    val = fx.expr(at)
    if isinstance(val, Const) and isinstance(val.value, int) and val.value < 0:
        raise fx.fail(
            "MPG_PY_1010",
            f"negative slice bound {val.value}: in a kernel it does not count from the end",
            at,
            help=f"write {base.array.name}.shape[{k}] - {-val.value}",
        )
    return to_index(fx, val, at, "a slice bound")


def _tuple_item(fx: Fx, base: Tuple, e: ast.Subscript) -> Val:
    val = fx.expr(e.slice)
    at = known(val)
    if isinstance(at, int):
        n = len(base.items)
        if not -n <= at < n:
            raise fx.fail(
                "MPG_PY_1011",
                f"the tuple has {n} values, and no number {at}",
                e.slice,
                help=f"use 0 to {n - 1}" if n else "it is empty",
            )
        return base.items[at]
    if isinstance(e.slice, ast.Slice):
        raise fx.fail(
            "MPG_PY_1001", "a slice of a tuple is not possible in a kernel", e, help="name the values: (t[0], t[1])"
        )
    table = _as_table(base)
    if table is None:
        raise fx.fail(
            "MPG_PY_1013",
            "a tuple of run-time values is indexed by a compile-time value",
            e.slice,
            help="use mp.static_range for the index, or mp.local(n, dtype) for the values",
        )
    return _table_item(fx, table, val, e)


def _as_table(val: Tuple) -> Table | None:
    def values(item: Val) -> Iterator[Any]:
        if isinstance(item, Tuple):
            for inner in item.items:
                yield from values(inner)
        elif isinstance(item, Const) and isinstance(item.value, int | float):
            yield item.value
        else:
            yield None

    def shape(item: Val) -> tuple[int, ...] | None:
        if not isinstance(item, Tuple):
            return ()
        inner = {shape(i) for i in item.items}
        if len(inner) != 1:
            return None
        rest = inner.pop()
        return None if rest is None else (len(item.items), *rest)

    flat, dims = tuple(values(val)), shape(val)
    if dims is None or not flat or any(v is None for v in flat):
        return None
    return Table(flat, dims, ())


def _table_item(fx: Fx, table: Table, val: Val, e: ast.Subscript) -> Val:
    """A captured tuple of numbers at a run-time index: an array of constants in the type that the value meets."""
    node = index_node(fx, val, e.slice)
    indices = (*table.indices, node)
    if len(indices) < len(table.shape):
        return Table(table.values, table.shape, indices)
    kind = (
        "float"
        if any(isinstance(v, float) for v in table.values)
        else "bool"
        if all(isinstance(v, bool) for v in table.values)
        else "int"
    )

    def make(t: DType) -> Node:
        key = (table.values, tuple(type(v) for v in table.values), table.shape, t)
        array = fx.module.tables.get(key)
        if array is None:
            values = tuple(adapt(fx, Const(v), t, e).attrs["value"] for v in table.values)
            array = ConstArray(fx.module.unique("table"), t, table.shape, values, fx.source.loc(e))
            fx.module.tables[key] = array
        return fx.emit(e, "load", *indices, array=array, field=None)

    if kind == "bool":
        from magpie.dtypes import bool_

        return Num(make(bool_))
    if kind == "float":
        from magpie.dtypes import f32

        return Lazy(kind, lambda t: make(t) if t.is_float else fx.b.cast(make(f32), t))
    return Lazy(kind, lambda t: make(t) if not t.is_bool else fx.emit(e, "ne", make(index), fx.b.const(0, index)))


# --- loads and stores -------------------------------------------------------------------------------------------------
def resolve(view: View) -> tuple[Node, ...]:
    """The indices of a fully indexed view."""
    return tuple(dim.index for dim in view.dims if isinstance(dim, Fixed))


def load(fx: Fx, view: View, at: ast.AST) -> Val:
    """The element of a fully indexed view; one of a struct array stays a reference."""
    array = view.array
    if isinstance(array.type, StructType):
        return ElemRef(array, resolve(view), (), array.type)
    return Num(fx.emit(at, "load", *resolve(view), array=array, field=None))


def store(fx: Fx, target: ElemRef | View, val: Val, at: ast.AST, value_at: ast.AST) -> None:
    """Write to an element, or to a field of one."""
    if isinstance(target, View):
        target = ElemRef(target.array, resolve(target), (), target.array.type)
    array, indices, path, type_ = target.array, target.indices, target.path, target.type
    if isinstance(type_, StructType):
        store_struct(fx, target, val, at, value_at)
        return
    if isinstance(val, Struct):
        raise fx.fail(
            "MPG_PY_1008", f"{describe(val)} does not convert to {type_}", value_at, help="store one of its fields"
        )
    node = convert(fx, val, type_, value_at, f"{array.name}[...]")
    fx.emit(at, "store", *indices, node, array=array, field=path or None)


def element_indices(fx: Fx, view: View, val: Val, at: ast.AST) -> tuple[Node, ...]:
    """The indices of an atomic: an integer, or a tuple with one per dimension of the view."""
    items = val.items if isinstance(val, Tuple) else [val]
    if len(items) != view.rank:
        raise fx.fail(
            "MPG_PY_1011",
            f"{_shown(view)} has {plural(view.rank, 'dimension')}, not {len(items)}",
            at,
            help="pass a tuple with one index per dimension" if view.rank != 1 else "pass one index",
        )
    dims = list(view.dims)
    for k, item in enumerate(items):
        d = view.free[k]
        dim = view.dims[d]
        assert isinstance(dim, Free) and isinstance(at, ast.expr)
        dims[d] = Fixed(_place(fx, view, d, dim, item, at))
    return resolve(View(view.array, dims))


# --- attributes -------------------------------------------------------------------------------------------------------
def _attribute(fx: Fx, e: ast.Attribute) -> Val:
    base = fx.ref(e.value)
    name = e.attr
    if isinstance(base, Const):
        return _attribute_of_constant(fx, base, e)
    if isinstance(base, Struct | ElemRef) and not (isinstance(base, ElemRef) and isinstance(base.type, DType)):
        return field_of(fx, base, name, e)
    if isinstance(base, View):
        if name in ("shape", "strides"):
            return Shape(base, name)
        if name == "ndim":
            return Const(base.rank)
        if name == "dtype":
            return Const(base.array.type)
        if name == "size":
            node: Node | None = None
            for k in range(base.rank):
                n = extent(fx, base, k)
                node = n if node is None else fx.emit(e, "mul", node, n)
            return Num(node or fx.b.const(1, index))
        raise fx.fail(
            "MPG_PY_1014",
            f"arrays have no attribute {name} in a kernel",
            e,
            help="there are .shape, .strides, .ndim, .size and .dtype",
        )
    if isinstance(base, Num) and name == "dtype":
        return Const(base.type)
    if isinstance(base, Num) and name == "T":
        raise fx.fail("MPG_PY_1014", "numbers have no .T", e, help="index the array as x[j, i]")
    raise fx.fail(
        "MPG_PY_1014", f"{describe(base)} has no attribute {name}", e, help="numbers have .dtype and .astype(dtype)"
    )


def _attribute_of_constant(fx: Fx, base: Const, e: ast.Attribute) -> Val:
    from types import ModuleType

    from magpie.frontend.python.expressions import wrap

    owner = base.value
    if hasattr(type(owner), "__members__") and e.attr in ("value", "name"):
        return wrap(fx, getattr(owner, e.attr), fx.text(e), e)
    if isinstance(owner, BuiltinGroup):
        member = vars(owner).get(e.attr)
        if isinstance(member, Builtin):
            return Const(member)
    if isinstance(owner, ModuleType | type):
        missing = object()
        value = getattr(owner, e.attr, missing)
        if value is missing and owner.__name__ == "magpie" and e.attr in LATER:
            raise fx.fail("MPG_PY_1034", f"mp.{e.attr} is not there yet", e, help=LATER[e.attr])
        if value is missing:
            raise fx.fail(
                "MPG_PY_1014",
                f"{fx.text(e.value)} has no attribute {e.attr}",
                e,
                help=_did_you_mean(e.attr, dir(owner)),
            )
        if not owner.__name__.startswith("magpie") and owner.__name__ != "math":
            fx.module.dependencies.name(vars(owner), e.attr, value)
        return wrap(fx, value, f"{fx.text(e)}", e)
    raise fx.fail(
        "MPG_PY_1014",
        f"{describe(base)} has no attribute {e.attr} in a kernel",
        e,
        help="use plain numbers, dtypes, functions and modules from outside",
    )


def _did_you_mean(name: str, names: list[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, names, 1)
    return f"did you mean {found[0]}?" if found else "see the language reference"


EXPRESSIONS[ast.Subscript] = _subscript
EXPRESSIONS[ast.Attribute] = _attribute
