"""Builds regions node by node. Result types come from the op table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from magpie.diagnostics.loc import Loc
from magpie.dtypes import DType, Type, bool_, i32, index, u32, u64
from magpie.ir.nodes import Array, Node, PtrType, Region, Slot, ValueType
from magpie.ir.ops import OPS

__all__ = ["Builder"]

# significant bits and the least exponent (of frexp) of a normal number
_FLOATS = {"f16": (11, -13, 16), "bf16": (8, -125, 128), "f32": (24, -125, 128)}


def nearest(value: float, type: DType) -> float:
    """``value`` rounded once, ties to even, to a number that the float ``type`` holds."""
    if type.bits == 64 or not math.isfinite(value) or value == 0.0:
        return value
    precision, least, most = _FLOATS[type.name]
    quantum = max(math.frexp(value)[1], least) - precision
    # Scaling by a power of two is exact, but for a value far below the least denormal, which rounds to zero anyway.
    rounded = math.ldexp(round(math.ldexp(value, -quantum)), quantum)
    if math.frexp(rounded)[1] > most:
        rounded = math.inf
    return math.copysign(rounded, value)


_FIXED: dict[str, DType] = {"bool": bool_, "index": index, "u64": u64, "u32": u32, "i32": i32}


class Builder:
    """Appends nodes to a current region. ``loc`` is given to every node made."""

    def __init__(self, region: Region, loc: Loc | None = None) -> None:
        self.region = region
        self.loc = loc

    def emit(
        self, op: str, *args: Node, type: ValueType | None = None, regions: tuple[Region, ...] = (), **attrs: Any
    ) -> Node:
        """Append the op. ``type`` is needed where the op table says that the result type is given."""
        node = Node(op, args, self._result(op, args, type, attrs), attrs, regions, self.loc)
        self.region.append(node)
        return node

    @staticmethod
    def _result(op: str, args: tuple[Node, ...], given: ValueType | None, attrs: dict[str, Any]) -> ValueType | None:
        rule = OPS[op].result
        if rule == "given":
            assert given is not None or op == "call", f"{op} needs a type"
            return given
        if rule == "same":
            return args[0].type
        if rule == "none":
            return None
        if rule == "elem":
            return _element(attrs["array"], attrs.get("field"))
        if rule == "ptr":
            if op == "ptr_add":
                return args[0].type
            array: Array = attrs["array"]
            return PtrType(array.type, array.space)
        return _FIXED[rule]

    # --- shorthands for what is written often --------------------------------------------------------------------
    def const(self, value: int | float | bool, type: DType) -> Node:
        """A constant; an integer must be in range, and a value for a bool or float type is converted."""
        if type.is_bool:
            value = bool(value)
        elif type.is_float:
            value = nearest(float(value), type)
        else:
            value = int(value)
            assert type.min <= value <= type.max, (value, type)
        return self.emit("const", type=type, value=value)

    def cast(self, value: Node, type: DType) -> Node:
        return value if value.type is type else self.emit("cast", value, type=type)

    def as_index(self, value: Node) -> Node:
        """An integer as an index: a constant is one, and what was made from an index by casts of 64 bits is that."""
        if value.op == "const" and index.min <= value.attrs["value"] <= index.max:
            return self.const(value.attrs["value"], index)
        source = value
        while source.op == "cast" and source.type is not index and source.dtype.is_int and source.dtype.bits == 64:
            source = source.args[0]
        return source if source.type is index else self.cast(value, index)

    def select(self, cond: Node, a: Node, b: Node) -> Node:
        return self.emit("select", cond, a, b, type=a.type)

    def get(self, slot: Slot) -> Node:
        return self.emit("slot_get", type=slot.type, slot=slot)

    def set(self, slot: Slot, value: Node) -> Node:
        return self.emit("slot_set", value, slot=slot)

    def load(self, array: Array, *indices: Node, field: tuple[int, ...] | None = None) -> Node:
        return self.emit("load", *indices, array=array, field=field)

    def store(self, array: Array, indices: tuple[Node, ...], value: Node, field: tuple[int, ...] | None = None) -> Node:
        return self.emit("store", *indices, value, array=array, field=field)

    @contextmanager
    def into(self, region: Region) -> Iterator[Region]:
        """Append to ``region`` inside the block."""
        saved, self.region = self.region, region
        try:
            yield region
        finally:
            self.region = saved

    def if_(self, cond: Node) -> tuple[Node, Region, Region]:
        """An `if`; fill the two regions with `into`."""
        then: Region = []
        else_: Region = []
        return self.emit("if", cond, regions=(then, else_)), then, else_

    def loop(self, counted: tuple[Slot, Node] | None = None) -> tuple[Node, Region, Region]:
        """A `loop` with empty body and step; fill them with `into`."""
        body: Region = []
        step: Region = []
        return self.emit("loop", regions=(body, step), counted=counted), body, step

    @contextmanager
    def counted(
        self, start: Node, stop: Node, step: Node, name: str = "k", *, rolled: bool = False
    ) -> Iterator[Node]:
        """A counted loop over range(start, stop, step), all of type index; yields the loop variable inside the body.

        The trip count is computed once, before entry, so that the variable cannot run past the end of its type, and
        assigning to the user's variable does not steer the loop (RULES 2). ``rolled``: it shall stay a loop.
        """
        trips = self.emit("trip_count", start, stop, step)
        zero, one = self.const(0, index), self.const(1, index)
        slot = Slot(name, index)
        self.set(slot, zero)
        loop, body, tail = self.loop(counted=(slot, trips))
        if rolled:
            loop.attrs["rolled"] = True
        with self.into(tail):
            self.set(slot, self.emit("add", self.get(slot), one))
        with self.into(body):
            k = self.get(slot)
            self.emit("break_if", self.emit("ge", k, trips))
            yield self.emit("add", start, self.emit("mul", k, step))


def _element(array: Array, field: tuple[int, ...] | None) -> Type:
    type_: Type = array.type
    for position in field or ():
        assert not isinstance(type_, DType)
        type_ = type_.fields[position].type
    return type_
