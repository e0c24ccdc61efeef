"""`mp.mma` and its like: matrix tiles, and copies to shared memory."""

from __future__ import annotations

import ast

from magpie.dtypes import DType, index
from magpie.frontend.python.arith import convert
from magpie.frontend.python.calls import BUILTINS, NOTHING, Handler, argument_node
from magpie.frontend.python.context import Fx
from magpie.frontend.python.expressions import static_value
from magpie.frontend.python.values import Const, Fixed, Free, MatrixTile, Val, View, describe
from magpie.frontend.python.views import element_indices, extent
from magpie.ir.host_expr import host_expr
from magpie.ir.nodes import Node, SharedArray
from magpie.ir.tiles import ACCUMULATORS, GRAIN, Tile

__all__: list[str] = []

Args = dict[str, Val]

_OPERANDS = "an operand has elements of " + ", ".join(map(str, ACCUMULATORS))


def _extents(fx: Fx, e: ast.Call, args: Args, names: list[str]) -> tuple[int, int]:
    """The shape of a tile."""
    at = argument_node(e, names, "shape")
    shape = static_value(fx, args["shape"], at, "the shape of a tile")
    if not (isinstance(shape, tuple) and len(shape) == 2):
        raise fx.fail("MPG_PY_1035", "a tile has two extents", at, help="write a tuple of constants: (64, 16)")
    rows, cols = shape
    for n in (rows, cols):
        if not isinstance(n, int) or n <= 0 or n % GRAIN:
            raise fx.fail(
                "MPG_PY_1035",
                f"{n!r} is no extent of a tile",
                at,
                help=f"extents are multiples of {GRAIN}; clip=True pads a block that the array does not fill",
            )
    return rows, cols


def _new_tile(fx: Fx, e: ast.Call, type_: DType, role: str, shape: tuple[int, int]) -> Tile:
    """The tile of this call: one for each time that it is lowered, so that unrolled trips have tiles of their own."""
    nth = fx.declared.get(id(e), 0)
    fx.declared[id(e)] = nth + 1
    key = (fx.key, id(e), nth, shape, type_)
    tile = fx.module.tiles.get(key)
    if tile is None:
        tile = Tile(fx.module.unique("acc" if role == "acc" else f"tile_{role}"), type_, role, *shape, fx.source.loc(e))
        fx.module.tiles[key] = tile
    return tile


def _tile(fx: Fx, e: ast.Call, args: Args, name: str, names: list[str], role: str) -> Tile:
    val = args[name]
    at = argument_node(e, names, name)
    if not isinstance(val, MatrixTile):
        made = {"acc": "mp.mma.zeros", "a": "mp.mma.load_a", "b": "mp.mma.load_b"}[role]
        raise fx.fail("MPG_PY_1035", f"{name} is a matrix tile, not {describe(val)}", at, help=f"make it with {made}")
    if val.tile.role != role:
        kinds = {"acc": "an accumulator", "a": "a left operand", "b": "a right operand"}
        raise fx.fail(
            "MPG_PY_1035",
            f"{name} is {kinds[role]}, and {describe(val)} is given",
            at,
            help="load_a makes left operands, load_b right ones, zeros and load accumulators",
        )
    return val.tile


def _flag(fx: Fx, e: ast.Call, args: Args, name: str) -> bool:
    return bool(static_value(fx, args[name], e, name))


def _matrix(fx: Fx, e: ast.Call, args: Args, names: list[str], what: str) -> tuple[View, tuple[Node, ...], DType]:
    """The array argument with the indices at which a block of it begins."""
    view = args["array"]
    at = argument_node(e, names, "array")
    if not isinstance(view, View):
        raise fx.fail("MPG_PY_1035", f"{what} takes an array, not {describe(view)}", at, help="pass x, not x[i, j]")
    if view.rank != 2:
        raise fx.fail(
            "MPG_PY_1035",
            f"a tile has two dimensions, and {describe(view)} has {view.rank}",
            at,
            help="fix the others: x[batch]" if view.rank > 2 else "pass an array of two dimensions",
        )
    type_ = view.array.type
    if not isinstance(type_, DType):
        raise fx.fail("MPG_PY_1035", f"{describe(view)} has elements of {type_}", at, help=_OPERANDS)
    if view.array.space not in ("buffer", "shared"):
        raise fx.fail(
            "MPG_PY_1035",
            f"{describe(view)} is in {view.array.space} memory",
            at,
            help="tiles are read from and written to arguments and shared arrays",
        )
    if any(isinstance(d, Free) and d.step is not None for d in view.dims):
        raise fx.fail("MPG_PY_1035", "a tile of a view with steps", at, help="pass the whole array")
    return view, element_indices(fx, view, args["at"], argument_node(e, names, "at")), type_


def _dims(fx: Fx, e: ast.Call, view: View, args: Args) -> tuple[int, int]:
    rows, cols = view.free
    return (cols, rows) if _flag(fx, e, args, "transposed") else (rows, cols)


_LOAD = ["array", "at", "shape", "transposed", "clip", "into"]
_LOAD_ACC = ["array", "at", "shape", "dtype", "transposed", "clip"]
_STORE = ["acc", "array", "at", "transposed", "clip"]


def _load_operand(role: str) -> Handler:
    def lower(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
        view, indices, type_ = _matrix(fx, e, args, _LOAD, f"mp.mma.load_{role}")
        if type_ not in ACCUMULATORS:
            raise fx.fail("MPG_PY_1035", f"{describe(view)} has elements of {type_}", e, help=_OPERANDS)
        shape = _extents(fx, e, args, _LOAD)
        if isinstance(args["into"], Const) and args["into"].value is None:
            tile = _new_tile(fx, e, type_, role, shape)
        else:
            tile = _tile(fx, e, args, "into", _LOAD, role)
            if tile.type is not type_ or (tile.rows, tile.cols) != shape:
                raise fx.fail(
                    "MPG_PY_1035",
                    f"a block of {shape[0]}x{shape[1]} {type_} into {describe(args['into'])}",
                    e,
                    help="load the shape and the type that the tile has, or leave out into=",
                )
        clip, dims = _flag(fx, e, args, "clip"), _dims(fx, e, view, args)
        fx.emit(e, "tile_load", *indices, tile=tile, array=view.array, dims=dims, clip=clip)
        return MatrixTile(tile)

    return lower


BUILTINS["mma.load_a"] = _load_operand("a")
BUILTINS["mma.load_b"] = _load_operand("b")


def _accumulator_type(fx: Fx, e: ast.Call, type_: object) -> DType:
    wanted = dict.fromkeys(ACCUMULATORS.values())
    if not isinstance(type_, DType) or type_ not in wanted:
        raise fx.fail(
            "MPG_PY_1035",
            f"an accumulator has no elements of {type_}",
            e,
            help=f"they are {', '.join(map(str, wanted))}",
        )
    return type_


def _zeros(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    names = ["shape", "dtype"]
    type_ = _accumulator_type(fx, e, args["dtype"].value if isinstance(args["dtype"], Const) else None)
    tile = _new_tile(fx, e, type_, "acc", _extents(fx, e, args, names))
    fx.emit(e, "tile_fill", fx.b.const(0, type_), tile=tile)
    return MatrixTile(tile)


def _fill(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    names = ["acc", "value"]
    tile = _tile(fx, e, args, "acc", names, "acc")
    value = convert(fx, args["value"], tile.type, argument_node(e, names, "value"), "a tile")
    fx.emit(e, "tile_fill", value, tile=tile)
    return NOTHING


def _load(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    view, indices, type_ = _matrix(fx, e, args, _LOAD_ACC, "mp.mma.load")
    given = args["dtype"]
    asked = type_ if isinstance(given, Const) and given.value is None else getattr(given, "value", None)
    held = _accumulator_type(fx, e, asked)
    _check_kinds(fx, e, view, type_, held)
    tile = _new_tile(fx, e, held, "acc", _extents(fx, e, args, _LOAD_ACC))
    clip, dims = _flag(fx, e, args, "clip"), _dims(fx, e, view, args)
    fx.emit(e, "tile_load", *indices, tile=tile, array=view.array, dims=dims, clip=clip)
    return MatrixTile(tile)


def _store(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    tile = _tile(fx, e, args, "acc", _STORE, "acc")
    view, indices, type_ = _matrix(fx, e, args, _STORE, "mp.mma.store")
    _check_kinds(fx, e, view, type_, tile.type)
    clip, dims = _flag(fx, e, args, "clip"), _dims(fx, e, view, args)
    fx.emit(e, "tile_store", *indices, tile=tile, array=view.array, dims=dims, clip=clip)
    return NOTHING


def _check_kinds(fx: Fx, e: ast.Call, view: View, type_: DType, held: DType) -> None:
    if type_.is_bool or type_.is_float != held.is_float:
        raise fx.fail(
            "MPG_PY_1035",
            f"an accumulator of {held}, and {describe(view)} has elements of {type_}",
            e,
            help="use an array of floats for f32 and f64, of integers for i32",
        )


def _mma(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    names = ["acc", "a", "b"]
    acc, a, b = (_tile(fx, e, args, n, names, n) for n in names)
    if a.cols != b.rows or (a.rows, b.cols) != (acc.rows, acc.cols):
        raise fx.fail(
            "MPG_PY_1035",
            f"{a.rows}x{a.cols} times {b.rows}x{b.cols} is no {acc.rows}x{acc.cols}",
            e,
            help=f"load a with shape ({acc.rows}, k) and b with (k, {acc.cols})",
        )
    if a.type is not b.type and (a.type.bits != 8 or b.type.bits != 8):
        raise fx.fail(
            "MPG_PY_1035", f"a product of {a.type} and {b.type}", e, help="give both operands one element type"
        )
    if acc.type is not a.held:
        raise fx.fail(
            "MPG_PY_1035",
            f"products of {a.type} are summed in {a.held}, not in {acc.type}",
            e,
            help=f"make the accumulator with mp.mma.zeros(shape, mp.{a.held})",
        )
    fx.emit(e, "tile_mma", tile=acc, a=a, b=b)
    return NOTHING


def _copy_async(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    names = ["target", "source", "at"]
    target, source = args["target"], args["source"]
    where = argument_node(e, names, "target")
    if not isinstance(target, View) or not isinstance(target.array, SharedArray) or target.rank != 2:
        raise fx.fail(
            "MPG_PY_1035",
            f"mp.copy_async copies to a part of a shared array of two dimensions, not to {describe(target)}",
            where,
            help="pass tile, or tile[stage] of an array of three",
        )
    extents = [host_expr(extent(fx, target, k)) for k in range(2)]
    shape = tuple(x[1] for x in extents if x is not None and x[0] == "const" and x[1] > 0)
    if len(shape) < 2:
        raise fx.fail(
            "MPG_PY_1035",
            "the extents of the target are no constants",
            where,
            help="slice it with constants: t[:, :32]",
        )
    if not isinstance(source, View) or source.rank != 2 or source.array.space != "buffer":
        raise fx.fail(
            "MPG_PY_1035",
            f"mp.copy_async copies from an argument of two dimensions, not from {describe(source)}",
            argument_node(e, names, "source"),
            help="pass x, or x[batch] of an array of three",
        )
    if source.array.type is not target.array.type or not isinstance(source.array.type, DType):
        raise fx.fail(
            "MPG_PY_1035",
            f"a copy of {source.array.type} to {target.array.type}",
            e,
            help="declare the shared array with the type of the source",
        )
    for view in (source, target):
        if any(isinstance(d, Free) and d.step is not None for d in view.dims):
            raise fx.fail("MPG_PY_1035", "a copy of a view with steps", e, help="use slices without steps")
    at = element_indices(fx, source, args["at"], argument_node(e, names, "at"))
    fx.emit(
        e,
        "copy_async",
        *at,
        *_origin(fx, target),
        array=source.array,
        dims=tuple(source.free),
        target=target.array,
        target_dims=tuple(target.free),
        shape=shape,
    )
    return NOTHING


def _origin(fx: Fx, view: View) -> list[Node]:
    """The indices of a view's first element."""
    out: list[Node] = []
    for dim in view.dims:
        if isinstance(dim, Fixed):
            out.append(dim.index)
        else:
            out.append(dim.offset if dim.offset is not None else fx.b.const(0, index))
    return out


def _copy_wait(fx: Fx, e: ast.Call, args: Args, more: list[Val]) -> Val:
    pending = static_value(fx, args["pending"], e, "the number of copies")
    if type(pending) is not int or pending < 0:
        raise fx.fail("MPG_PY_1035", f"{pending!r} copies cannot be under way", e, help="use 0 or more")
    fx.emit(e, "copy_wait", pending=pending)
    return NOTHING


BUILTINS["mma"] = _mma
BUILTINS["mma.zeros"] = _zeros
BUILTINS["mma.fill"] = _fill
BUILTINS["mma.load"] = _load
BUILTINS["mma.store"] = _store
BUILTINS["copy_async"] = _copy_async
BUILTINS["copy_wait"] = _copy_wait
