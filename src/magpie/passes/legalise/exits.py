"""Values that leave loops which work-items leave one by one, on drivers that compute them anew in each trip.

Mesa's CPU driver (22.3) runs the lanes of a subgroup in step, and masks what is stored but not what is computed. What a
trip computes and what follows the loop uses, it computes again in the trips that other lanes still make, of registers
that hold something else by then; so lanes that left early get a wrong value. (Later versions bring such values
into loop-closed form first.) Only what several ways out bring along differently is stored before a lane leaves. So such
a loop is given one more way out, on which all that leaves it is zero. Nobody takes it, but no compiler knows: no grid
has a workgroup of that number. Each loop has its own number, since within a loop that goes on as long as a condition
is false another loop's is known to be false.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from magpie.dtypes import DType, u32
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, Region, Slot, walk
from magpie.passes.rewrite import Rewriter
from magpie.passes.uniformity import Level, analyse

__all__ = ["close_loops"]

_LAST = 0xFFFF_FFFF


def _inside(loop: Node, op: str, key: str) -> list[Node]:
    return [n for r in loop.regions for n in walk(r) if n.op == op and isinstance(n.attrs[key], Slot | LocalArray)]


def _leaving(loop: Node, reads: Counter[Slot | Array]) -> list[Node]:
    """One `slot_set` of each slot, and one `store` of each element of a local array at a known place (drivers make it
    a register), that the loop sets and that is read outside of it."""
    mine = Counter[Slot | Array](n.attrs["slot"] for n in _inside(loop, "slot_get", "slot"))
    mine.update(n.attrs["array"] for n in _inside(loop, "load", "array"))
    found: dict[tuple[object, ...], Node] = {}
    for n in _inside(loop, "slot_set", "slot"):
        if mine[n.attrs["slot"]] < reads[n.attrs["slot"]]:
            found.setdefault((n.attrs["slot"],), n)
    for n in _inside(loop, "store", "array"):
        at = n.args[:-1]
        if mine[n.attrs["array"]] < reads[n.attrs["array"]] and all(i.op == "const" for i in at):
            found.setdefault((n.attrs["array"], n.attrs["field"], *(i.attrs["value"] for i in at)), n)
    return [n for n in found.values() if isinstance(n.args[-1].type, DType)]


class _Closing(Rewriter):
    def __init__(self, leaving: dict[Node, list[Node]]) -> None:
        super().__init__({"loop": _loop})
        self.leaving = leaving
        self.number = self.out.emit("cast", self.out.emit("workgroup_id", dim=2), type=u32)
        self.start = list(self.out.region)
        self.next = _LAST

    def exit(self, sets: list[Node]) -> None:
        """The way out."""
        out = self.out
        _, then, _ = out.if_(out.emit("eq", self.number, out.const(self.next, u32)))
        self.next -= 1
        with out.into(then):
            for node in sets:
                copies = [out.const(i.attrs["value"], i.type) for i in node.args[:-1] if isinstance(i.type, DType)]
                value = node.args[-1].type
                assert isinstance(value, DType)
                out.emit(node.op, *copies, out.const(0, value), **node.attrs)
            out.emit("break")


def _loop(rw: Rewriter, node: Node) -> Node | None:
    assert isinstance(rw, _Closing)
    sets = rw.leaving.get(node)
    if sets is None:
        rw.keep(node)
        return None
    body: Region = []
    with rw.out.into(body):
        rw.exit(sets)
    start, step = (rw.region(r) for r in node.regions)
    rw.out.region.append(Node("loop", (), None, node.attrs, (body + start, step), node.loc))
    return None


def close_loops(kernel: Kernel) -> Kernel:
    """``kernel``, one ready to be emitted, where what leaves divergent loops does so by several ways."""
    reads = Counter[Slot | Array](n.attrs["slot"] for n in walk(kernel.body) if n.op == "slot_get")
    reads.update(n.attrs["array"] for n in walk(kernel.body) if n.op == "load")
    loops = [n for n in walk(kernel.body) if n.op == "loop"]
    for loop in loops:
        if loop.attrs.get("counted") is not None:
            del reads[loop.attrs["counted"][0]]  # the loop's own, which its step alone sets
    leaving = {n: _leaving(n, reads) for n in loops}
    if not any(leaving.values()):
        return kernel
    found = analyse(kernel)
    leaving = {n: sets for n, sets in leaving.items() if sets and found.branch_level(n) > Level.WORKGROUP}
    if not leaving:
        return kernel
    closing = _Closing(leaving)
    return replace(kernel, body=closing.start + closing.region(kernel.body))
