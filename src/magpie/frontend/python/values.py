"""What an expression of kernel code stands for while it is lowered.

Only `Num` is a run-time value of the IR. Everything else is known to the frontend: constants, weak values that still
wait for a type, views of arrays, structs and tuples of values. Structured values are flattened to their numbers where
they meet a variable that is assigned several times, a device function or a branch: a skeleton (what it is) and
components (the numbers in it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from magpie.dtypes import DType, StructType, Type
from magpie.ir.nodes import Array, Node
from magpie.ir.tiles import Tile

__all__ = [
    "Const", "Dim", "ElemRef", "Fixed", "Free", "Lazy", "MatrixTile", "Num", "Pointer", "Shape", "Struct", "Table",
    "Tuple", "Val", "View", "describe", "flatten", "is_number", "known", "plural", "rebuild", "same_struct", "skeleton",
]  # fmt: skip


class Val:
    """Base of all values."""

    __slots__ = ()


class Const(Val):
    """A compile-time Python value. A number is a weak literal; others are dtypes, functions, modules, strings, None."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Num(Val):
    """A run-time number. `weak` is set while the type of a variable is still open: then it adapts as a literal does.

    `origins` are the open variables that it comes from.
    """

    __slots__ = ("node", "origins", "weak")

    def __init__(self, node: Node, weak: str | None = None, origins: tuple[Any, ...] = ()) -> None:
        self.node = node
        self.weak = weak
        self.origins = origins

    @property
    def type(self) -> DType:
        return self.node.dtype


class Lazy(Val):
    """A weak run-time number (`kind` bool, int or float): `make(type)` emits it in the type that it meets."""

    __slots__ = ("_make", "kind")

    def __init__(self, kind: str, make: Callable[[DType], Node]) -> None:
        self.kind = kind
        self._make = make

    def make(self, type_: DType) -> Node:
        return self._make(type_)


class Struct(Val):
    __slots__ = ("fields", "type")

    def __init__(self, type_: StructType, fields: list[Val]) -> None:
        self.type = type_
        self.fields = fields


class Tuple(Val):
    __slots__ = ("items",)

    def __init__(self, items: list[Val]) -> None:
        self.items = items


class Pointer(Val):
    """A result of mp.malloc: ``count`` elements."""

    __slots__ = ("count", "element", "node")

    def __init__(self, node: Node, element: DType, count: Node) -> None:
        self.node = node
        self.element = element
        self.count = count


class Fixed:
    """A dimension of an array that a view has fixed at an index."""

    __slots__ = ("index",)

    def __init__(self, index: Node) -> None:
        self.index = index


class Free:
    """A dimension that a view still has: element i is at `offset + i * step`; None means 0, 1 and the whole extent."""

    __slots__ = ("extent", "offset", "step")

    def __init__(self, offset: Node | None = None, step: Node | None = None, extent: Node | None = None) -> None:
        self.offset = offset
        self.step = step
        self.extent = extent

    @property
    def whole(self) -> bool:
        return self.offset is None and self.step is None and self.extent is None


Dim = Fixed | Free


class View(Val):
    """An array, or a part of one: one static array and what was done to each of its dimensions."""

    __slots__ = ("array", "dims")

    def __init__(self, array: Array, dims: list[Dim]) -> None:
        self.array = array
        self.dims = dims

    @property
    def free(self) -> list[int]:
        """The array's dimensions that the view has."""
        return [d for d, dim in enumerate(self.dims) if isinstance(dim, Free)]

    @property
    def rank(self) -> int:
        return len(self.free)


class ElemRef(Val):
    """An element of a struct array, or a field inside it, not loaded yet."""

    __slots__ = ("array", "indices", "path", "type")

    def __init__(self, array: Array, indices: tuple[Node, ...], path: tuple[int, ...], type_: Type) -> None:
        self.array = array
        self.indices = indices
        self.path = path
        self.type = type_


class MatrixTile(Val):
    """A matrix tile: a static object, as an array is."""

    __slots__ = ("tile",)

    def __init__(self, tile: Tile) -> None:
        self.tile = tile


class Shape(Val):
    """`x.shape` or `x.strides`; elements are emitted when they are asked for."""

    __slots__ = ("view", "what")

    def __init__(self, view: View, what: str) -> None:
        self.view = view
        self.what = what


class Table(Val):
    """A captured tuple of numbers, indexed at run time by `indices` so far."""

    __slots__ = ("indices", "shape", "values")

    def __init__(self, values: tuple[Any, ...], shape: tuple[int, ...], indices: tuple[Node, ...]) -> None:
        self.values = values  # flat, row major
        self.shape = shape
        self.indices = indices


def known(val: Val) -> Any:
    """The compile-time number behind ``val``, also of a declared type; None if there is none."""
    if isinstance(val, Const):
        return val.value if isinstance(val.value, int | float) else None
    return val.node.attrs["value"] if isinstance(val, Num) and val.node.op == "const" else None


def plural(count: int, what: str) -> str:
    """``2 dimensions``."""
    return f"{count} {what}{'s' * (count != 1)}"


def is_number(val: Val) -> bool:
    """True for what arithmetic takes."""
    return isinstance(val, Num | Lazy) or (isinstance(val, Const) and isinstance(val.value, int | float))


def same_struct(a: Type, b: Type) -> bool:
    """Equal field names and types; the class name and paddings do not matter, since access is by leaf."""
    if isinstance(a, DType) or isinstance(b, DType):
        return a is b
    return len(a.fields) == len(b.fields) and all(
        f.name == g.name and same_struct(f.type, g.type) for f, g in zip(a.fields, b.fields, strict=True)
    )


def skeleton(val: Val) -> Any:
    """What ``val`` is apart from its numbers: hashable, equal for values that may share a variable."""
    if is_number(val):
        return "number"
    if isinstance(val, Struct):
        return ("struct", tuple(f.name for f in val.type.fields), tuple(skeleton(f) for f in val.fields))
    if isinstance(val, Tuple):
        return ("tuple", *(skeleton(i) for i in val.items))
    if isinstance(val, View):
        dims = tuple(
            "fixed" if isinstance(d, Fixed) else ("free", d.offset is None, d.step is None, d.extent is None)
            for d in val.dims
        )
        return ("view", val.array, dims)
    if isinstance(val, Const):
        return ("const", type(val.value), val.value)
    if isinstance(val, MatrixTile):
        return ("tile", val.tile)
    if isinstance(val, Shape):
        return ("shape", val.what, skeleton(val.view))
    return ("other", id(val))


def flatten(val: Val, name: str = "") -> Iterator[tuple[str, Val]]:
    """The numbers inside ``val``, each with a name made from ``name``, in the order that `rebuild` takes them."""
    if is_number(val):
        yield name, val
    elif isinstance(val, Struct):
        for f, v in zip(val.type.fields, val.fields, strict=True):
            yield from flatten(v, f"{name}.{f.name}")
    elif isinstance(val, Tuple):
        for i, v in enumerate(val.items):
            yield from flatten(v, f"{name}.{i}")
    elif isinstance(val, View):
        for d, dim in enumerate(val.dims):
            if isinstance(dim, Fixed):
                yield f"{name}.at{d}", Num(dim.index)
            else:
                for what in ("offset", "step", "extent"):
                    node = getattr(dim, what)
                    if node is not None:
                        yield f"{name}.{what}{d}", Num(node)
    elif isinstance(val, Shape):
        yield from flatten(val.view, name)


def rebuild(like: Val, numbers: Iterator[Val]) -> Val:
    """A value with the skeleton of ``like`` and other numbers."""
    if is_number(like):
        return next(numbers)
    if isinstance(like, Struct):
        return Struct(like.type, [rebuild(f, numbers) for f in like.fields])
    if isinstance(like, Tuple):
        return Tuple([rebuild(i, numbers) for i in like.items])
    if isinstance(like, View):
        dims: list[Dim] = []
        for dim in like.dims:
            if isinstance(dim, Fixed):
                dims.append(Fixed(_node(numbers)))
            else:
                parts = [_node(numbers) if getattr(dim, w) is not None else None for w in ("offset", "step", "extent")]
                dims.append(Free(*parts))
        return View(like.array, dims)
    if isinstance(like, Shape):
        view = rebuild(like.view, numbers)
        assert isinstance(view, View)
        return Shape(view, like.what)
    return like


def _node(numbers: Iterator[Val]) -> Node:
    val = next(numbers)
    assert isinstance(val, Num)
    return val.node


def describe(val: Val) -> str:
    """What ``val`` is, for messages: "f32", "an array", "the int 3"."""
    if isinstance(val, Num):
        return f"{val.type}" if val.weak is None else {"int": "an int", "float": "a float", "bool": "a bool"}[val.weak]
    if isinstance(val, Lazy):
        return {"int": "an int", "float": "a float", "bool": "a bool"}[val.kind]
    if isinstance(val, Struct):
        return f"a struct {val.type.name}"
    if isinstance(val, ElemRef):
        return f"a struct {val.type}" if isinstance(val.type, StructType) else str(val.type)
    if isinstance(val, Tuple):
        return f"a tuple of {len(val.items)}"
    if isinstance(val, View):
        n = val.rank
        if n == len(val.dims):
            return f"the array {val.array.name}"
        return f"a view of {val.array.name} with {n} dimension{'s' * (n != 1)}"
    if isinstance(val, Shape):
        return f".{val.what}"
    if isinstance(val, Table):
        return "a row of a tuple"
    if isinstance(val, Pointer):
        return "a pointer"
    if isinstance(val, MatrixTile):
        t = val.tile
        kind = {"a": "a left operand", "b": "a right operand", "acc": "an accumulator"}[t.role]
        return f"{kind} of {t.rows}x{t.cols} {t.type}"
    if isinstance(val, Const):
        v = val.value
        if isinstance(v, DType):
            return f"the dtype {v}"
        if v is None or isinstance(v, bool):
            return repr(v)
        if isinstance(v, int | float):
            return f"the {type(v).__name__} {v!r}"
        if isinstance(v, str):
            return "a string"
        name = getattr(v, "__name__", None)
        return f"{name}" if isinstance(name, str) else f"a {type(v).__name__}"
    return "a value"
