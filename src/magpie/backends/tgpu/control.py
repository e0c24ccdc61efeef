"""Branches and loops of tiny-gpu code.

A comparison is `CMP` and a branch, `BRLT` or `BRGT`; against a number, "less or equal" is "less" of the one above it.
Loops count up and test at their end:  SET k, 0 / L: ... / ADD k, k, 1 / CMP k, K / BRLT L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.backends.tgpu import hostexpr
from magpie.backends.tgpu.arithmetic import signed
from magpie.backends.tgpu.code import Label, Virtual
from magpie.backends.tgpu.emit import COMPARES, Emitter, Value
from magpie.ir.nodes import Node, Region, Slot, walk

__all__ = ["HANDLERS", "branch", "materialise"]

_MIRROR = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_TOP = (1 << 31) - 1


def branch(e: Emitter, cond: Node, target: Label, sense: bool) -> None:
    """Go to ``target`` where the condition is ``sense``, else on."""
    if cond not in e.lazy:
        value = e.value(cond)
        if isinstance(value, int):
            if bool(value) is sense:
                e.code.emit("JMP", target)
            return
        e.code.emit("BNE" if sense else "BEQ", value, 0, target)
        return
    if cond.op == "not":
        branch(e, cond.args[0], target, not sense)
    elif cond.op in ("and", "or"):
        decides = cond.op == "or"  # the value of one operand that settles the whole
        if sense is decides:
            branch(e, cond.args[0], target, sense)
            branch(e, cond.args[1], target, sense)
        else:
            skip = Label()
            branch(e, cond.args[0], skip, not sense)
            branch(e, cond.args[1], target, sense)
            e.code.place(skip)
    elif cond.op == "cast":
        _equal(e, "ne" if sense else "eq", e.value(cond.args[0]), 0, target)
    else:
        _compare(e, cond, target, sense)


def _equal(e: Emitter, op: str, a: Value, b: Value, target: Label) -> None:
    if isinstance(a, int) and isinstance(b, int):
        if (a == b) is (op == "eq"):
            e.code.emit("JMP", target)
        return
    e.code.emit("BEQ" if op == "eq" else "BNE", e.operand(a), e.operand(b), target)


def _compare(e: Emitter, cond: Node, target: Label, sense: bool) -> None:
    op = cond.op if sense else _OPPOSITE[cond.op]
    decided = _decided(op, e.interval(cond.args[0]), e.interval(cond.args[1]))
    if decided is not None:
        if decided:
            e.code.emit("JMP", target)
        return
    a, b = e.number(cond.args[0]), e.number(cond.args[1])
    if op in ("eq", "ne"):
        _equal(e, op, a, b, target)
        return
    a, b, _ = signed(e, cond.args[0], a, b)
    _ordered(e, op, a, b, target)


def _ordered(e: Emitter, op: str, a: Value, b: Value, target: Label) -> None:
    """Go to ``target`` where ``a op b``, as signed numbers of 32 bits."""
    if not isinstance(a, Virtual):
        a, b, op = b, a, _MIRROR[op]
    if not isinstance(b, Virtual) and op in ("le", "ge"):
        if b in (_TOP, -_TOP - 1):  # beyond it there is no number
            e.code.emit("CMP", e.operand(a), e.operand(b))
            e.code.emit("BRLT" if op == "le" else "BRGT", target)
            e.code.emit("BRZ", target)
            return
        b, op = (hostexpr.add(b, 1), "lt") if op == "le" else (hostexpr.add(b, -1), "gt")
    e.code.emit("CMP", e.operand(a), e.operand(b))
    e.code.emit("BRLT" if op in ("lt", "le") else "BRGT", target)
    if op in ("le", "ge"):
        e.code.emit("BRZ", target)


def _decided(op: str, a: tuple[int, int], b: tuple[int, int]) -> bool | None:
    """What a comparison gives by where its operands lie; None where both is possible."""
    if op in ("gt", "ge"):
        a, b, op = b, a, _MIRROR[op]
    if op == "lt":
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if op == "le":
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    apart = a[1] < b[0] or b[1] < a[0]
    same = a[0] == a[1] == b[0] == b[1]
    return (op == "ne") if apart else (op == "eq") if same else None


def materialise(e: Emitter, node: Node) -> Value:
    """A condition as a number: SET r, 1 / branch / SET r, 0."""
    made, skip = e.register(1), Label()
    e.lazy.add(node)
    branch(e, node, skip, True)
    e.lazy.discard(node)
    e.code.emit("SET", made, 0)
    e.code.place(skip)
    return made


def _condition(e: Emitter, node: Node) -> None:
    """A comparison whose result is a value."""
    known = _known(e, node)
    e.values[node] = materialise(e, node) if known is None else int(known)


def _known(e: Emitter, cond: Node) -> bool | None:
    """The value of a condition that is clear without a branch."""
    value = e.values.get(cond)
    if isinstance(value, int):
        return bool(value)
    if value is not None:
        return None
    if cond.op in COMPARES:
        return _decided(cond.op, e.interval(cond.args[0]), e.interval(cond.args[1]))
    if cond.op in ("and", "or", "not") and cond in e.lazy:
        parts = [_known(e, arg) for arg in cond.args]
        if cond.op == "not":
            return None if parts[0] is None else not parts[0]
        decides = cond.op == "or"
        if decides in parts:
            return decides
        return None if None in parts else not decides
    return None


def _select(e: Emitter, node: Node) -> None:
    cond, first, second = node.args
    known = _known(e, cond)
    if known is not None:
        e.values[node] = e.value(first if known else second)
    else:
        made, skip = e.register(e.value(first)), Label()
        branch(e, cond, skip, True)
        e.code.emit("SET", made, e.operand(e.value(second)))
        e.code.place(skip)
        e.values[node] = made
    for arg in node.args:
        e.release(arg)


def _changed(*regions: Region) -> set[Slot]:
    return {n.attrs["slot"] for r in regions for n in walk(r) if n.op == "slot_set"}


def _inside(e: Emitter, region: Region) -> None:
    e.depth += 1
    e.region(region)
    e.depth -= 1


def _leaves(e: Emitter, region: Region) -> Label | None:
    """Where a region leads that does nothing but break, continue or return."""
    if len(region) != 1:
        return None
    op = region[0].op
    if op == "return":
        return e.end
    return {"break": e.loops[-1][0], "continue": e.loops[-1][1]}.get(op) if e.loops else None


def _ends_away(region: Region) -> bool:
    return bool(region) and region[-1].info.terminator


def _if(e: Emitter, node: Node) -> None:
    cond, (then, other) = node.args[0], node.regions
    known = _known(e, cond)
    if known is not None:
        e.release(cond)
        e.region(then if known else other)
        return
    e.release(cond)
    e.keep_old(_changed(then, other))
    behind = Label()
    leaves = _leaves(e, then)
    if leaves is not None and not other:
        branch(e, cond, leaves, True)
    elif not then:
        branch(e, cond, behind, True)
        _inside(e, other)
    elif not other:
        branch(e, cond, behind, False)
        _inside(e, then)
    else:
        second = Label()
        branch(e, cond, second, False)
        _inside(e, then)
        if not _ends_away(then):
            e.code.emit("JMP", behind)
        e.code.place(second)
        _inside(e, other)
    e.code.place(behind)


def _loop(e: Emitter, node: Node) -> None:
    body, step = node.regions
    counted = node.attrs.get("counted")
    if counted is not None and _leads(body, *counted):
        _counted(e, node, *counted)
        return
    e.keep_old(_changed(body, step))
    top, tail, behind = Label(), Label(), Label()
    e.loops.append((behind, tail))
    e.code.place(top)
    _inside(e, body)
    e.code.place(tail)
    _inside(e, step)
    e.code.loc = node.loc
    if not _ends_away(step):
        e.code.emit("JMP", top)
    e.code.place(behind)
    e.loops.pop()


def _leads(body: Region, slot: Slot, trips: Node) -> bool:
    """Whether a loop begins with the test of its count: slot_get, ge, break_if, with nothing that acts before."""
    for node in body:
        if node.op == "break_if":
            test = node.args[0]
            return (
                test.op == "ge"
                and test.args[0].op == "slot_get"
                and test.args[0].attrs["slot"] is slot
                and test.args[1] is trips
            )
        if node.regions or not (node.info.pure or node.op == "slot_get"):
            return False
    return False


def _counted(e: Emitter, node: Node, slot: Slot, trips: Node) -> None:
    """A loop that counts ``slot`` from 0 to below ``trips``, tested at its end."""
    body, step = node.regions
    at = next(i for i, n in enumerate(body) if n.op == "break_if")
    end = e.values[trips]
    low, high = e.interval(trips)
    if high <= 0 or (isinstance(end, int) and end <= 0):
        return
    e.keep_old(_changed(body, step))
    end = e.values[trips]
    top, tail, behind = Label(), Label(), Label()
    if low < 1 and not (isinstance(end, int) and end >= 1):
        _ordered(e, "lt", end, 1, behind)
    e.loops.append((behind, tail))
    e.code.place(top)
    e.depth += 1
    test = body[at].args[0]
    e.region([n for n in body[:at] if n is not test])
    e.release(test)
    if test not in e.lazy:
        e.left[test] = 0
        for arg in test.args:
            e.release(arg)
    e.region(body[at + 1 :])
    e.code.place(tail)
    e.region(step)
    e.depth -= 1
    e.code.loc = node.loc
    e.code.emit("CMP", e.slot(slot), e.operand(end))
    e.code.emit("BRLT", top)
    e.code.place(behind)
    e.loops.pop()
    e.left[trips] -= 1


def _trip_count(e: Emitter, node: Node) -> None:
    """The trips of a range: with a step of 1 or -1 the distance of its ends, not below 0; with others, as many steps as
    go into that, which are counted."""
    start, stop = (e.number(a) for a in node.args[:2])
    step, (low, high) = e.number(node.args[2]), e.interval(node.args[2])
    if low <= 0 <= high:
        e.refuse(2001, "tiny-gpu has no division, and nothing says whether this range goes up or down", node)
        e.values[node] = 0
        return
    first, last = (start, stop) if low > 0 else (stop, start)
    distance = e.add(last, e.mul(first, -1))
    held = isinstance(distance, Virtual) and (distance in e.slots.values() or e.asked(distance))
    if not isinstance(distance, Virtual) or held or distance.fixed is not None:
        distance = e.register(distance)
    if step in (1, -1) and e.left[node] == 2:  # only the loop asks, which knows what to do with less than one trip
        e.values[node] = distance
        return
    if step in (1, -1):
        skip = Label()
        e.code.emit("CMP", distance, 0)
        e.code.emit("BRGT", skip)
        e.code.emit("SET", distance, 0)
        e.code.place(skip)
        e.values[node] = distance
        return
    less = e.mul(step, -1 if low > 0 else 1)
    count, top, done = e.register(0), Label(), Label()
    e.code.emit("CMP", distance, 1)
    e.code.emit("BRLT", done)
    e.code.place(top)
    e.code.emit("ADD", count, count, 1)
    e.code.emit("ADD", distance, distance, e.operand(less))
    e.code.emit("CMP", distance, 0)
    e.code.emit("BRGT", top)
    e.code.place(done)
    e.values[node] = count


def _break(e: Emitter, node: Node) -> None:
    e.code.emit("JMP", e.loops[-1][0])


def _break_if(e: Emitter, node: Node) -> None:
    branch(e, node.args[0], e.loops[-1][0], True)
    e.release(node.args[0])


def _continue(e: Emitter, node: Node) -> None:
    e.code.emit("JMP", e.loops[-1][1])


def _return(e: Emitter, node: Node) -> None:
    e.code.emit("JMP", e.end)


def _barrier(e: Emitter, node: Node) -> None:
    if e.depth:
        e.refuse(
            2004,
            "a barrier inside a branch or a loop: tiny-gpu kernels have barriers at the top level only, so that every "
            "thread comes to them",
            node,
            "unroll the loop with mp.static_range, or split the kernel at the barrier",
        )
        return
    e.code.emit("SYNCB")


def _nothing(e: Emitter, node: Node) -> None:
    """A fence: threads of tiny-gpu see each other's accesses in order."""


HANDLERS: dict[str, Callable[[Any, Node], None]] = {
    **dict.fromkeys(COMPARES, _condition),
    "select": _select,
    "if": _if,
    "loop": _loop,
    "trip_count": _trip_count,
    "break": _break,
    "break_if": _break_if,
    "continue": _continue,
    "return": _return,
    "barrier": _barrier,
    "fence": _nothing,
}
