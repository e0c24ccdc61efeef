"""Graph IR: values with a dtype and a static shape, and the ops that make them, in order.

Every op has one result. What an op takes and gives stands in `magpie.frontend.graph.ops`. A fused op is an op with a
*prologue*, which computes the element that its first operand would have, or an *epilogue*, which is applied to each
element of its result; both are lists of elementwise steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from magpie.diagnostics import Loc
from magpie.dtypes import DType
from magpie.records import record

__all__ = ["Graph", "Op", "Operand", "Prev", "Shape", "Step", "Value", "type_text"]

Shape = tuple[int, ...]


class Value:
    """A tensor: a graph's input or an op's result. Compared by identity; ``name`` is unique in its graph."""

    __slots__ = ("dtype", "loc", "name", "shape")

    def __init__(self, name: str, dtype: DType, shape: Shape, loc: Loc | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.loc = loc

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def type(self) -> str:
        """``f32[4, 8]``; a value without dimensions is ``f32[]``."""
        return type_text(self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


def type_text(dtype: DType, shape: Shape) -> str:
    """``f32[4, 8]``."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


@record
class Prev:
    """Result number ``index`` of a prologue or an epilogue; in an epilogue number 0 is the op's own result."""

    index: int


Operand = Value | Prev


@record
class Step:
    """One elementwise op of a prologue or an epilogue, with the dtype of its result. ``attrs`` are (name, value)."""

    op: str
    args: tuple[Operand, ...]
    attrs: tuple[tuple[str, Any], ...]
    dtype: DType
    loc: Loc | None = None


class Op:
    """One op. With a prologue, operand 0 is its last result, as `Prev`.

    ``own`` is the dtype of the op's own result, before its epilogue.
    """

    __slots__ = ("attrs", "epilogue", "loc", "name", "operands", "own", "prologue", "result")

    def __init__(
        self,
        name: str,
        operands: Iterable[Operand],
        result: Value,
        attrs: dict[str, Any] | None = None,
        loc: Loc | None = None,
        prologue: Iterable[Step] = (),
        epilogue: Iterable[Step] = (),
        own: DType | None = None,
    ) -> None:
        self.name = name
        self.operands = tuple(operands)
        self.result = result
        self.attrs = attrs if attrs is not None else {}
        self.loc = loc
        self.prologue = tuple(prologue)
        self.epilogue = tuple(epilogue)
        self.own = result.dtype if own is None else own

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that the op reads, each once: operands first, then what the steps add."""
        found: dict[Value, None] = {}
        for operand in self.operands:
            if isinstance(operand, Value):
                found[operand] = None
        for step in (*self.prologue, *self.epilogue):
            for arg in step.args:
                if isinstance(arg, Value):
                    found[arg] = None
        return tuple(found)

    @property
    def epilogue_values(self) -> tuple[Value, ...]:
        """What the epilogue reads besides the op's own result."""
        return tuple(dict.fromkeys(a for step in self.epilogue for a in step.args if isinstance(a, Value)))

    @property
    def prologue_values(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys(a for step in self.prologue for a in step.args if isinstance(a, Value)))

    @property
    def fused(self) -> bool:
        return bool(self.prologue or self.epilogue)

    def __repr__(self) -> str:
        return f"<{self.result!r} = {self.name}>"


@dataclass(slots=True, eq=False)
class Graph:
    """A tensor program. ``ops`` stand in an order in which they can run; constants are ops too."""

    name: str
    inputs: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    loc: Loc | None = None

    @property
    def producers(self) -> dict[Value, Op]:
        """The op of each value that is no input."""
        return {op.result: op for op in self.ops}

    def users(self) -> dict[Value, list[Op]]:
        """The ops that read each value, in order; a graph's outputs are no users."""
        found: dict[Value, list[Op]] = {v: [] for v in self.values()}
        for op in self.ops:
            for value in op.reads:
                found[value].append(op)
        return found

    def values(self) -> Iterator[Value]:
        """Inputs, then results in order."""
        yield from self.inputs
        for op in self.ops:
            yield op.result

    def copy(self) -> Graph:
        """Another graph of the same values and ops, whose lists may be changed."""
        return Graph(self.name, list(self.inputs), list(self.ops), list(self.outputs), self.loc)
