"""A kernel for one launch: what the launch decides becomes constants, and what follows from constants is computed.

tiny-gpu has no division, no shift and no kernel arguments, so sizes, strides and scalars must be numbers in the code;
what is computed from them alone is computed here, whatever operation it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from magpie.dtypes import DType
from magpie.ir.layout import HostEnv, evaluate
from magpie.ir.nodes import Kernel, Node, SharedArray, walk
from magpie.ir.ops import OPS
from magpie.passes.expand import range_length
from magpie.passes.rewrite import Rewriter
from magpie.records import record, replaced

__all__ = ["Binding", "Place", "evaluate_op", "into", "shared_shape", "specialise"]


@record
class Place:
    """Where an array lies in memory: word address of its first element, extents, strides in words.

    ``array_strides`` are the strides that the kernel is told of, in elements of the array that it was launched with.
    """

    addr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    array_strides: tuple[int, ...] = ()

    @staticmethod
    def contiguous(addr: int, shape: tuple[int, ...]) -> Place:
        """A row-major array."""
        strides = [1]
        for n in reversed(shape[1:]):
            strides.append(strides[-1] * n)
        in_order = tuple(reversed(strides[: len(shape)])) if shape else ()
        return Place(addr, shape, in_order, in_order)


@record
class Binding:
    """One launch of a kernel: workgroups and work-items of a workgroup along each dimension, where its arrays lie,
    and the values of its scalars (those of structs under dotted names)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    buffers: Mapping[str, Place]
    scalars: Mapping[str, Any]


def specialise(kernel: Kernel, binding: Binding) -> Kernel:
    """``kernel``, which is without calls and structs, for one launch."""
    handlers: dict[str, Callable[[Rewriter, Node], Node | None]] = {
        "param": lambda rw, n: _number(rw, n, binding.scalars[n.attrs["name"]]),
        "workgroup_size": lambda rw, n: _number(rw, n, binding.block[n.attrs["dim"]]),
        "num_workgroups": lambda rw, n: _number(rw, n, binding.grid[n.attrs["dim"]]),
        "extent": lambda rw, n: _array(rw, n, binding),
        "stride": lambda rw, n: _array(rw, n, binding),
        "thread_id": lambda rw, n: _zero_if(rw, n, binding.block[n.attrs["dim"]] == 1),
        "workgroup_id": lambda rw, n: _zero_if(rw, n, binding.grid[n.attrs["dim"]] == 1),
    }
    for name, row in OPS.items():
        if row.pure and name not in handlers and name != "const" and row.operands:
            handlers[name] = _folded
    rewriter = Rewriter(handlers)
    body = rewriter.region(_substituted_slots(kernel).body)
    return replace(kernel, body=body, workgroup=binding.block, facts=replaced(kernel.facts, small=True))


def shared_shape(array: SharedArray, binding: Binding) -> tuple[int, ...]:
    """The extents of a shared array in one launch."""
    shapes = {name: place.shape for name, place in binding.buffers.items()}
    strides = {name: place.array_strides for name, place in binding.buffers.items()}
    env = HostEnv(dict(binding.scalars), shapes, strides, binding.block, binding.grid)
    return tuple(evaluate(n, env) for n in array.shape)


def _number(rw: Rewriter, node: Node, value: Any) -> Node:
    return rw.out.const(value, node.dtype)


def _zero_if(rw: Rewriter, node: Node, zero: bool) -> Node:
    return rw.out.const(0, node.dtype) if zero else rw.keep(node)


def _array(rw: Rewriter, node: Node, binding: Binding) -> Node:
    array, dim = node.attrs["array"], node.attrs["dim"]
    place = binding.buffers.get(array.name)
    if place is None:
        assert isinstance(array, SharedArray)
        place = Place.contiguous(0, shared_shape(array, binding))
    return rw.out.const((place.shape if node.op == "extent" else place.array_strides)[dim], node.dtype)


def _folded(rw: Rewriter, node: Node) -> Node | None:
    args = [rw.value(a) for a in node.args]
    if node.op == "select" and args[0].op == "const":
        return args[1] if args[0].attrs["value"] else args[2]
    if all(a.op == "const" for a in args) and isinstance(node.type, DType) and not node.type.is_float:
        types = [a.type for a in args]
        if all(isinstance(t, DType) and not t.is_float for t in types):
            value = evaluate_op(node.op, node.type, args[0].dtype, [int(a.attrs["value"]) for a in args])
            if value is not None:
                return rw.out.const(value, node.type)
    return rw.keep(node)


def _substituted_slots(kernel: Kernel) -> Kernel:
    """``kernel`` where slots that are set once, above all their uses, are the value itself."""
    sets: dict[Any, list[Node]] = {}
    for node in walk(kernel.body):
        if node.op == "slot_set":
            sets.setdefault(node.attrs["slot"], []).append(node)
    once = {slot: found[0] for slot, found in sets.items() if len(found) == 1}
    held: set[Any] = set()  # set above here, in this region or one around it
    early: set[Any] = set()

    def look(region: list[Node]) -> None:
        mine: list[Any] = []
        for node in region:
            slot = node.attrs.get("slot")
            if node.op == "slot_get" and slot not in held:
                early.add(slot)
            if node.op == "loop" and node.attrs.get("counted"):
                early.add(node.attrs["counted"][0])
            for inner in node.regions:
                look(inner)
            if node.op == "slot_set" and slot in once:
                held.add(slot)
                mine.append(slot)
        held.difference_update(mine)

    look(kernel.body)
    known = once.keys() - early

    def get(rw: Rewriter, node: Node) -> Node | None:
        slot = node.attrs["slot"]
        return rw.value(once[slot].args[0]) if slot in known else rw.keep(node)

    def put(rw: Rewriter, node: Node) -> Node | None:
        return None if node.attrs["slot"] in known else rw.keep(node)

    return replace(kernel, body=Rewriter({"slot_get": get, "slot_set": put}).region(kernel.body))


# --- the meaning of each operation on integers (the op table has it in words) ----------------------------------------
def _tdiv(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


_FOLD: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "tdiv": _tdiv,
    "trem": lambda a, b: a - _tdiv(a, b) * b if b else 0,
    "pow": _power,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "select": lambda c, a, b: a if c else b,
    "uniform": lambda a: a,
    "cast": lambda a: a,
    "bitcast": lambda a: a,
    "trip_count": range_length,
}


def evaluate_op(op: str, type_: DType, operand: DType, values: list[int]) -> int | None:
    """The value of a pure operation on numbers, in the range of its type; None for one that is not computed here."""
    bits = operand.bits
    if op == "not":
        return int(not values[0]) if type_.is_bool else into(~values[0], type_)
    if op == "shl":
        return into(values[0] << (values[1] % bits), type_)
    if op == "shr":
        return into(values[0] >> (values[1] % bits), type_)
    if op in ("popcount", "clz", "ctz"):
        pattern = values[0] & ((1 << bits) - 1)
        if op == "popcount":
            return pattern.bit_count()
        if op == "clz":
            return bits - pattern.bit_length()
        return bits if pattern == 0 else (pattern & -pattern).bit_length() - 1
    if op == "trip_count":
        return min(range_length(*values), type_.max)
    compute = _FOLD.get(op)
    return None if compute is None else into(int(compute(*values)), type_)


def into(value: int, type_: DType) -> int:
    """A number modulo the size of its type; of a bool, whether it is not zero."""
    if type_.is_bool:
        return int(value != 0)
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if value > type_.max else value
