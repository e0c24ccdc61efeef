"""Expands ops that are one row for the sake of analysis into simpler ones: `trip_count`, quotients of global_id by the
workgroup size, and that size where it is known."""

from __future__ import annotations

from dataclasses import replace

from magpie.dtypes import i64, index, u64
from magpie.ir.nodes import Kernel, Node
from magpie.passes.rewrite import Rewriter

__all__ = ["expand", "range_length"]


def _constant(node: Node) -> int | None:
    return node.attrs["value"] if node.op == "const" else None


class _Expander(Rewriter):
    def __init__(self, workgroup: tuple[int, int, int] | None, trips: bool) -> None:
        super().__init__({"trip_count": _trip_count} if trips else {})
        self.workgroup = workgroup
        if workgroup is not None:
            self.handlers["workgroup_size"] = _size
        for op in ("floordiv", "tdiv", "mod", "trem", "shr", "and"):
            self.handlers[op] = _quotient
        # the node that a value was made from, to look through rewritten operands
        self.handlers["cast"] = _cast


def _size(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Expander) and rw.workgroup is not None
    return rw.out.const(rw.workgroup[node.attrs["dim"]], index)


def range_length(start: int, stop: int, step: int) -> int:
    """len(range(start, stop, step)), which Python limits to the size of a word; 0 if the step is."""
    distance = stop - start if step > 0 else start - stop
    return -(-distance // abs(step)) if step and distance > 0 else 0


def _trip_count(rw: Rewriter, node: Node) -> Node | None:
    """Trips of range(start, stop, step) as 64-bit arithmetic that cannot overflow, saturated at 2**63 - 1."""
    b = rw.out
    start, stop, step = (rw.value(a) for a in node.args)
    ends = [_constant(a) for a in (start, stop, step)]
    if None not in ends:
        first, last, by = (n or 0 for n in ends)
        return b.const(min(range_length(first, last, by), index.max), index)
    zero, one = b.const(0, index), b.const(1, index)
    known = _constant(step)
    if known is None:  # run-time step: a negative one counts the mirrored range
        down = b.emit("lt", step, zero)
        start, stop = b.select(down, stop, start), b.select(down, start, stop)
        step = b.emit("abs", step)
    elif known < 0:
        start, stop = stop, start
        step = b.const(min(-known, index.max), index)
    any_trip = b.emit("gt", stop, start)
    distance = b.emit("sub", stop, start)
    lowest = _constant(start)
    fits = lowest is not None and lowest >= 0
    given = step
    if known not in (1, -1):
        if not fits:  # as unsigned numbers the difference is exact; only a quotient by 1 can still be too large
            step = b.emit("bitcast", step, type=u64) if known is None else b.const(abs(known), u64)
            one, distance = (b.emit("bitcast", v, type=u64) for v in (one, distance))
        distance = b.emit("add", b.emit("tdiv", b.emit("sub", distance, one), step), one)
        if not fits:
            distance = b.emit("bitcast", distance, type=index)
        if known is None:
            any_trip = b.emit("and", any_trip, b.emit("ne", given, zero))
    if not fits:
        distance = b.select(b.emit("lt", distance, zero), b.const(index.max, index), distance)
    return b.select(any_trip, distance, zero)


def _quotient(rw: Rewriter, node: Node) -> Node | None:
    """global_id // workgroup_size is workgroup_id, and global_id % workgroup_size is thread_id (RULES 5)."""
    assert isinstance(rw, _Expander)
    numerator, by = (_same(rw.value(a)) for a in node.args)
    if numerator.op == "global_id" and node.type in (index, i64):
        dim = numerator.attrs["dim"]
        size = rw.workgroup[dim] if rw.workgroup else 0
        c = _constant(by)
        whole = (by.op == "workgroup_size" and by.attrs["dim"] == dim) or (size > 0 and c == size)
        power = size > 0 and size & (size - 1) == 0
        quotient = (node.op in ("floordiv", "tdiv") and whole) or (
            node.op == "shr" and power and c == size.bit_length() - 1
        )
        rest = (node.op in ("mod", "trem") and whole) or (node.op == "and" and power and c == size - 1)
        if quotient or rest:
            return rw.out.cast(rw.out.emit("workgroup_id" if quotient else "thread_id", dim=dim), node.dtype)
    return rw.keep(node)


def _same(node: Node) -> Node:
    """What a value is made from by casts between index and i64, which are the same 64 bits."""
    while node.op == "cast" and node.type in (index, i64) and node.args[0].type in (index, i64):
        node = node.args[0]
    return node


def _cast(rw: Rewriter, node: Node) -> Node | None:
    # index and i64 are the same 64 bits: a cast between them hides a global_id from the rule above
    source = rw.value(node.args[0])
    if (
        source.op == "cast"
        and node.type is index
        and source.dtype.bits == 64
        and source.args[0].type is index
        and source.dtype.kind == "int"
    ):
        return source.args[0]
    return rw.keep(node)


def expand(kernel: Kernel, *, trips: bool = True) -> Kernel:
    """``kernel`` without `trip_count` (unless ``trips`` is false), and with a known workgroup size and quotients of
    global_id by it resolved."""
    return replace(kernel, body=_Expander(kernel.known_workgroup, trips).region(kernel.body))
