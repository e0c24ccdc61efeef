"""The verifier's rules for matrix tiles and copies to shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from magpie.dtypes import DType
from magpie.ir.nodes import Array, Buffer, Kernel, Node, SharedArray, walk
from magpie.ir.tiles import ACCUMULATORS, GRAIN, TILE_OPS, Tile

__all__ = ["TWO_ARRAYS", "tile_problems"]

#: Ops that say in `dims` how they go through an array, and have one index a dimension of it.
TWO_ARRAYS = ("tile_load", "tile_store", "copy_async")


def tile_problems(kernel: Kernel) -> Iterator[tuple[Node | None, str]]:
    """Tiles are declared and of legal shapes, operands of products fit, and accesses name dimensions that there are."""
    for tile in kernel.tiles:
        yield from ((None, text) for text in _declaration(tile))
    for body in kernel.bodies():
        for node in walk(body):
            if node.op in TILE_OPS:
                yield from ((node, text) for text in _operation(kernel, node))
            elif node.op == "copy_async":
                yield from ((node, text) for text in _copy(kernel, node))


def _declaration(tile: Tile) -> Iterator[str]:
    if tile.role not in ("a", "b", "acc"):
        yield f"role {tile.role} of {tile.name}"
    elif tile.type not in (ACCUMULATORS.values() if tile.role == "acc" else ACCUMULATORS):
        yield f"{tile!r} has no such elements"
    if tile.rows <= 0 or tile.cols <= 0 or tile.rows % GRAIN or tile.cols % GRAIN:
        yield f"extents of {tile!r} are no multiples of {GRAIN}"


def _operation(kernel: Kernel, node: Node) -> Iterator[str]:
    tile: Tile = node.attrs["tile"]
    operands = [node.attrs[k] for k in ("a", "b") if k in node.attrs]
    for t in (tile, *operands):
        if t not in kernel.tiles:
            yield f"{t!r} is not declared"
    if node.op == "tile_mma":
        a, b = operands
        if (a.role, b.role, tile.role) != ("a", "b", "acc"):
            yield f"product of {a.role} and {b.role} into {tile.role}"
        if (a.rows, b.cols) != (tile.rows, tile.cols) or a.cols != b.rows:
            yield f"{a!r} times {b!r} into {tile!r}"
        if a.held is not tile.type or b.held is not tile.type or (a.type is not b.type and a.type.bits != 8):
            yield f"{a.type} times {b.type} into {tile.type}"
    elif node.op == "tile_fill":
        if node.args[0].type is not tile.type:
            yield f"{node.args[0].type} into {tile!r}"
    else:
        array: Array = node.attrs["array"]
        yield from _place(array, node.attrs["dims"], len(node.args))
        if node.op == "tile_store" and not isinstance(array, Buffer | SharedArray):
            yield f"a tile cannot be stored to {array!r}"
        if not isinstance(array.type, DType):
            yield f"tile of {array!r}"


def _copy(kernel: Kernel, node: Node) -> Iterator[str]:
    source: Array = node.attrs["array"]
    target: Array = node.attrs["target"]
    if target not in kernel.shared:
        yield f"{target!r} is no shared array of this kernel"
    if source.type is not target.type:
        yield f"copy of {source.type} to {target.type}"
    count = len(node.args) - target.rank
    yield from _place(source, node.attrs["dims"], count)
    yield from _place(target, node.attrs["target_dims"], len(node.args) - source.rank)
    if any(n <= 0 for n in node.attrs["shape"]):
        yield f"copy of shape {node.attrs['shape']}"


def _place(array: Array, dims: tuple[int, int], indices: int) -> Iterator[str]:
    if indices != array.rank:
        yield f"{indices} indices for {array!r}"
    if len(set(dims)) != 2 or not all(0 <= d < array.rank for d in dims):
        yield f"dimensions {dims} of {array!r}"
