"""Kernel IR: nodes, the things nodes refer to, and the objects that hold them.

A region is a list of nodes. A value node stands in exactly one region, before its uses, which are in that region or in
regions inside it. There is no phi and no goto: a value that outlives a region goes through a `Slot`. Which ops exist,
and what they take and give, stands in `magpie.ir.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, StructType, Type, leaves
from magpie.ir.ops import OPS, OpInfo
from magpie.ir.tiles import Tile
from magpie.records import record

__all__ = [
    "Array",
    "Buffer",
    "ConstArray",
    "Facts",
    "Function",
    "HostExpr",
    "Kernel",
    "LocalArray",
    "Node",
    "Param",
    "PtrType",
    "Region",
    "Scalar",
    "SharedArray",
    "Slot",
    "ValueType",
    "leaf_offset",
    "origins",
    "walk",
]


@record
class PtrType:
    """Type of a pointer value: `space` is ``shared``, ``local``, ``buffer`` or ``device``."""

    element: Type
    space: str

    def __repr__(self) -> str:
        return f"ptr<{self.element}, {self.space}>"


ValueType = DType | StructType | PtrType

# An integer known to the host at launch, as nested tuples: ("const", 4), ("param", "n"), ("extent", "x", 0),
# ("stride", "x", 0), ("workgroup_size", 0), ("num_workgroups", 0), or (op, operand...) with an integer op of the table.
# `magpie.ir.layout.evaluate` computes it; being plain data, it travels in a layout.
HostExpr = tuple[Any, ...]


class Node:
    """One operation: name, operands, result type (None for no result), attributes, regions and source location."""

    __slots__ = ("args", "attrs", "loc", "op", "regions", "type")

    def __init__(
        self,
        op: str,
        args: tuple[Node, ...] = (),
        type_: ValueType | None = None,
        attrs: dict[str, Any] | None = None,
        regions: tuple[Region, ...] = (),
        loc: Loc | None = None,
    ) -> None:
        self.op = op
        self.args = args
        self.type = type_
        self.attrs = attrs if attrs is not None else {}
        self.regions = regions
        self.loc = loc

    @property
    def info(self) -> OpInfo:
        return OPS[self.op]

    @property
    def checked(self) -> bool:
        """Whether checked mode looks at this access or division; what stands in `unsafe { }` is left alone."""
        return "unchecked" not in self.attrs

    @property
    def dtype(self) -> DType:
        """The scalar type of this value; an internal error where it has none."""
        assert isinstance(self.type, DType), f"{self.op} has type {self.type}"
        return self.type

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items() if v is not None)
        return f"<{self.op}({len(self.args)}){' ' + shown if shown else ''}{f': {self.type}' if self.type else ''}>"


Region = list[Node]


class Slot:
    """A mutable local of one type, per work-item in meaning; zero at the start. Compared by identity."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: Type) -> None:
        self.name = name
        self.type = type_

    def __repr__(self) -> str:
        return f"slot {self.name}: {self.type}"


class Array:
    """What loads, stores and atomics address: one static object (a reference is never a value). Compared by identity.

    `space` is ``buffer``, ``shared``, ``local`` or ``const``.
    """

    __slots__ = ("loc", "name", "type")
    space = ""

    def __init__(self, name: str, type_: Type, loc: Loc | None = None) -> None:
        self.name = name
        self.type = type_
        self.loc = loc

    @property
    def rank(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.space} {self.name}: {self.type}, rank {self.rank}"


class Buffer(Array):
    """An array parameter: global memory with run-time extents and strides (in elements).

    `access` is ``read``, ``write``, ``read_write`` or ``none``; `magpie.passes.access` infers it.
    """

    __slots__ = ("_rank", "access")
    space = "buffer"

    def __init__(self, name: str, type_: Type, rank: int, access: str = "none", loc: Loc | None = None) -> None:
        super().__init__(name, type_, loc)
        self._rank = rank
        self.access = access

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def reads(self) -> bool:
        return self.access in ("read", "read_write")

    @property
    def writes(self) -> bool:
        return self.access in ("write", "read_write")


class SharedArray(Array):
    """Workgroup memory, row major. An extent is an int, or a HostExpr evaluated at launch (dynamic shared memory)."""

    __slots__ = ("shape",)
    space = "shared"

    def __init__(self, name: str, type_: Type, shape: tuple[int | HostExpr, ...], loc: Loc | None = None) -> None:
        super().__init__(name, type_, loc)
        self.shape = shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dynamic(self) -> bool:
        return any(not isinstance(n, int) for n in self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes, where an extent that a launch decides counts as one."""
        return self.type.itemsize * prod(n for n in self.shape if isinstance(n, int))


class LocalArray(Array):
    """Memory private to a work-item, row major, of constant shape. Its content starts at zero."""

    __slots__ = ("shape",)
    space = "local"

    def __init__(self, name: str, type_: Type, shape: tuple[int, ...], loc: Loc | None = None) -> None:
        super().__init__(name, type_, loc)
        self.shape = shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one work-item's array."""
        return self.type.itemsize * prod(self.shape)


class ConstArray(Array):
    """A table of constants in the kernel itself, row major; `values` is flat."""

    __slots__ = ("shape", "values")
    space = "const"

    def __init__(
        self, name: str, type_: DType, shape: tuple[int, ...], values: tuple[Any, ...], loc: Loc | None = None
    ) -> None:
        super().__init__(name, type_, loc)
        self.shape = shape
        self.values = values

    @property
    def rank(self) -> int:
        return len(self.shape)


def leaf_offset(array: Array, field: tuple[int, ...] | None) -> tuple[DType, int, int]:
    """(scalar type, byte offset inside an element, element size) of what an access addresses."""
    if isinstance(array.type, DType):
        return array.type, 0, array.type.itemsize
    for path, t, offset in leaves(array.type):
        if path == tuple(field or ()):
            return t, offset, array.type.itemsize
    raise AssertionError(f"no leaf {field} in {array}")


class Scalar:
    """A parameter passed by value: a scalar or a value struct."""

    __slots__ = ("loc", "name", "type")

    def __init__(self, name: str, type_: Type, loc: Loc | None = None) -> None:
        self.name = name
        self.type = type_
        self.loc = loc

    def __repr__(self) -> str:
        return f"scalar {self.name}: {self.type}"


Param = Buffer | Scalar


class Function:
    """A device function of one kernel: scalar and struct parameters by value, any number of results.

    Arrays are no parameters: the frontend specialises a function on the arrays it is given, and its body refers to them
    directly. The body reads its parameters with `param`.
    """

    __slots__ = ("body", "loc", "name", "params", "results")

    def __init__(self, name: str, params: list[Scalar], results: list[Type], loc: Loc | None = None) -> None:
        self.name = name
        self.params = params
        self.results = results
        self.body: Region = []
        self.loc = loc


@record
class Facts:
    """What a launch checked, each worth speed. The empty facts are those of the general variant.

    contiguous: names of buffers that are C-contiguous.  aligned: names of buffers whose data is aligned to the target's
    alignment, each row of it where there are several.  noalias: no two buffers overlap (unless both are only read).
    small: every span and the number of work-items of the launch are below 2**31.  workgroup: the workgroup size of
    every launch of this code.

    A fact makes code faster and changes nothing that a kernel can see, nor whether it is accepted: diagnostics are
    those of the kernel without facts.
    """

    contiguous: frozenset[str] = frozenset()
    aligned: frozenset[str] = frozenset()
    noalias: bool = False
    small: bool = False
    workgroup: tuple[int, int, int] | None = None


@dataclass(slots=True, eq=False)
class Kernel:
    """A typed kernel: what every backend compiles."""

    name: str
    params: list[Param] = field(default_factory=list)
    workgroup: tuple[int, int, int] | None = None
    shared: list[SharedArray] = field(default_factory=list)
    locals: list[LocalArray] = field(default_factory=list)
    consts: list[ConstArray] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    body: Region = field(default_factory=list)
    requires: frozenset[str] = frozenset()
    fastmath: bool = False
    facts: Facts = field(default_factory=Facts)
    loc: Loc | None = None

    @property
    def buffers(self) -> list[Buffer]:
        return [p for p in self.params if isinstance(p, Buffer)]

    @property
    def scalars(self) -> list[Scalar]:
        return [p for p in self.params if isinstance(p, Scalar)]

    @property
    def known_workgroup(self) -> tuple[int, int, int] | None:
        """The workgroup size that code may rely on: the declared one, or that of all launches it is compiled for."""
        return self.facts.workgroup if self.workgroup is None else self.workgroup

    def bodies(self) -> Iterator[Region]:
        """The kernel's body and that of each function."""
        yield self.body
        for f in self.functions:
            yield f.body


def origins(values: Iterable[Node]) -> Iterator[Node]:
    """Every node that values are made of, these included, each once; a slot's content is where that ends."""
    todo, seen = list(values), set[Node]()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            yield node
            todo += node.args


def walk(region: Region, enter: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Every node of ``region`` and inside it, in program order; not into nodes that ``enter`` refuses."""
    stack: list[Iterator[Node]] = [iter(region)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.regions and (enter is None or enter(node)):
                stack.extend(map(iter, reversed(node.regions)))
                break
        else:
            stack.pop()
