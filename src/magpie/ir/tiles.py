"""Matrix tiles: what a whole subgroup holds of a matrix, and the products of such tiles.

A tile is a static object like an array, and no value: `tile_load` and `tile_fill` write all of it, `tile_mma` adds to
an accumulator. How its elements are spread over lanes is the target's affair: the fragments of a matrix unit, or the
columns of `magpie.passes.lower_tiles`.
"""

from __future__ import annotations

from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, bf16, f16, f32, f64, i8, i32, u8

__all__ = ["ACCUMULATORS", "GRAIN", "TILE_OPS", "Tile"]

#: Extents of a tile are multiples of this.
GRAIN = 16

#: Element type of the operands of a product -> that of the accumulator. f32 operands are rounded to tf32, see `Tile`.
ACCUMULATORS: dict[DType, DType] = {f16: f32, bf16: f32, f32: f32, f64: f64, i8: i32, u8: i32}

TILE_OPS = frozenset(["tile_fill", "tile_load", "tile_mma", "tile_store"])


class Tile:
    """A matrix of ``rows`` by ``cols`` elements that the work-items of a subgroup hold together. Compared by identity.

    `role` is ``a`` or ``b``, the left and the right operand of a product, or ``acc``. Operands of type f32 hold tf32
    numbers: 8 bits of exponent and 10 of fraction, rounded to nearest, ties away from zero, when they are loaded.
    """

    __slots__ = ("cols", "loc", "name", "role", "rows", "type")

    def __init__(self, name: str, type_: DType, role: str, rows: int, cols: int, loc: Loc | None = None) -> None:
        self.name = name
        self.type = type_
        self.role = role
        self.rows = rows
        self.cols = cols
        self.loc = loc

    @property
    def held(self) -> DType:
        """The type in which products are computed: that of the accumulator, which holds every operand exactly."""
        return self.type if self.role == "acc" else ACCUMULATORS[self.type]

    def __repr__(self) -> str:
        return f"tile {self.name}: {self.role} {self.type} {self.rows}x{self.cols}"
