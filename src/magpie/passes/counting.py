"""Finds loops that count, and makes them as a frontend with ranges does: with the hint that backends plan by.

A graph of blocks has `while` loops only: a variable that starts somewhere, is compared at the head, and grows by a
constant at the end of each trip. Such a loop gets a counter of type index, its trips computed before it (so that the
variable cannot run past the end of its type, RULES 2), and the variable from those.
"""

from __future__ import annotations

from collections.abc import Iterator

from magpie.dtypes import DType, index
from magpie.ir.builder import Builder
from magpie.ir.nodes import Kernel, Node, Region, Slot, walk
from magpie.passes.exits import jumps_out
from magpie.records import record

__all__ = ["count_loops"]

_HEAD = 16  # nodes of a loop's head that are looked at


@record
class _Uses:
    """Where a slot is set and read."""

    sets: tuple[Node, ...]
    gets: tuple[Node, ...]


@record
class _Found:
    """A loop that counts: ``value`` is the variable at its head, ``test`` its ``break_if``, ``domain`` the type that it
    is compared in, ``stop`` what it is compared with and ``step`` what it grows by."""

    loop: Node
    first: Node
    again: Node
    value: Node
    test: Node
    domain: DType
    stop: Node
    step: int


def count_loops(kernel: Kernel) -> None:
    """Change the loops of ``kernel`` and of the functions that it calls, in place."""
    for body in (kernel.body, *(f.body for f in kernel.functions)):
        regions = list(_regions(body))
        uses = _uses(body)
        outside: set[Node] = set()
        for region in regions:
            # from the end on: what stands before the loop at hand is still where it was
            place = {n: k for k, n in enumerate(region) if n.op == "slot_set"}
            for k in reversed(range(len(region))):
                if region[k].op == "loop":
                    found = _found(region, k, uses, place)
                    if found is not None:
                        outside.add(found.first)
                        _count(region, k, found)
        for region in regions if outside else ():
            region[:] = [n for n in region if n not in outside]
        _forward(list(_regions(body)))


def _regions(body: Region) -> Iterator[Region]:
    yield body
    for node in walk(body):
        yield from node.regions


def _uses(body: Region) -> dict[Slot, _Uses]:
    sets: dict[Slot, list[Node]] = {}
    gets: dict[Slot, list[Node]] = {}
    for node in walk(body):
        if node.op in ("slot_set", "slot_get"):
            (sets if node.op == "slot_set" else gets).setdefault(node.attrs["slot"], []).append(node)
    return {slot: _Uses(tuple(found), tuple(gets.get(slot, ()))) for slot, found in sets.items()}


def _forward(regions: list[Region]) -> None:
    """Read a variable of a loop itself behind the loop, where its value at the head was put aside for that.

    Outside of the loop both are the same: what sets the variable for the next trip stands at the end of the body,
    where nothing leaves the loop any more.
    """
    uses = _uses(regions[0])
    home = {n: id(region) for region in regions for n in region if n.op in ("slot_set", "slot_get")}
    loops = [(region, node) for region in regions for node in region if node.op == "loop"]
    instead: dict[Slot, Slot] = {}
    for outer, loop in loops:
        body, step = loop.regions
        end = len(body)
        while end and body[end - 1].op == "slot_set":
            end -= 1
        trailing = {*body[end:], *step}
        for node in body[:_HEAD]:
            if node.op == "break_if":
                break
            if node.op == "slot_set" and node.args[0].op == "slot_get" and home.get(node.args[0]) == id(body):
                kept, variable = node.attrs["slot"], node.args[0].attrs["slot"]
                known = uses.get(variable)
                if len(uses[kept].sets) == 1 and known is not None and len(known.sets) == 2:
                    before = [n for n in known.sets if home[n] == id(outer)]
                    if before and all(n in trailing for n in known.sets if n not in before):
                        instead[kept] = variable
    for region in regions if instead else ():
        region[:] = [n for n in region if not (n.op == "slot_set" and n.attrs["slot"] in instead)]
        for node in region:
            if node.op == "slot_get":
                node.attrs["slot"] = instead.get(node.attrs["slot"], node.attrs["slot"])


def _found(region: Region, at: int, uses: dict[Slot, _Uses], place: dict[Node, int]) -> _Found | None:
    """The loop at ``region[at]``, if it counts. ``place`` has where in the region slots are set before it."""
    loop = region[at]
    body, step = loop.regions
    test = next((n for n in body[:_HEAD] if n.op == "break_if"), None)
    if loop.attrs.get("counted") is not None or test is None:
        return None
    if not all(n.info.pure or n.op in ("slot_get", "slot_set") for n in body[: body.index(test)]):
        return None
    compare = test.args[0]
    negated = compare.op == "not"
    compare = compare.args[0] if negated else compare
    if compare.op != ("lt" if negated else "ge"):
        return None
    tested, stop = compare.args
    domain = tested.dtype
    value = tested.args[0] if tested.op == "cast" and tested.args[0].op == "slot_get" else tested
    if value.op != "slot_get" or not (domain.is_int and value.dtype.is_int) or value.dtype.bits != domain.bits:
        return None
    if domain.bits == 64 and not domain.is_signed:
        return None  # an index does not hold it
    known = uses.get(value.attrs["slot"])
    if known is None or len(known.sets) != 2 or known.gets != (value,):
        return None
    again = next((n for n in (*body, *step) if n in known.sets), None)
    first = min((n for n in known.sets if place.get(n, at) < at), key=lambda n: place[n], default=None)
    if again is None or first is None or (again in body and jumps_out(loop, "continue")):
        return None
    inside = {n for r in loop.regions for n in walk(r)}
    grown = again.args[0]
    if grown.op != "add" or grown.args[0] is not value or grown.args[1].op != "const":
        return None
    by = grown.args[1].attrs["value"]
    if by < 1 or (by > 1 and not _below(stop, domain, by)):
        return None
    if not _free(stop, inside):
        return None
    return _Found(loop, first, again, value, test, domain, stop, by)


def _free(node: Node, inside: set[Node]) -> bool:
    """Whether a value of the loop may be computed before it."""
    if node not in inside or node.op in ("const", "param"):
        return True
    return node.op == "cast" and _free(node.args[0], inside)


def _outside(out: Builder, node: Node, inside: set[Node]) -> Node:
    """``node`` as it is computed before the loop."""
    if node not in inside:
        return node
    args = tuple(_outside(out, a, inside) for a in node.args)
    out.region.append(Node(node.op, args, node.type, node.attrs, (), node.loc))
    return out.region[-1]


def _below(stop: Node, domain: DType, step: int) -> bool:
    """Whether a variable below ``stop`` grows by ``step`` without running past the end of its type."""
    limit = domain.max
    return stop.op == "const" and stop.attrs["value"] <= limit - step + 1


def _count(region: Region, at: int, found: _Found) -> None:
    loop, value = found.loop, found.value
    body, step = loop.regions
    before = Builder([], loop.loc)
    stop = _outside(before, found.stop, set(body))
    start = before.as_index(before.cast(found.first.args[0], found.domain))
    by = before.const(found.step, index)
    end = before.as_index(stop)
    # one that counts to the trips of a range is that range's loop, as Python kernels in `.mp` text have it
    whole = end.op == "trip_count" and found.step == 1 and start.op == "const" and start.attrs["value"] == 0
    trips = end if whole else before.emit("trip_count", start, end, by)
    zero, one = before.const(0, index), before.const(1, index)
    slot = Slot(value.attrs["slot"].name, index)
    before.set(slot, zero)
    loop.attrs["counted"] = (slot, trips)

    head = Builder([], value.loc)
    count = head.get(slot)
    early = Builder([], value.loc)
    _variable(early, start, count, by, value)
    test = Builder([], found.test.loc)
    test.emit("break_if", test.emit("ge", count, trips))
    late = Builder([], found.test.loc)
    _variable(late, start, count, by, value)
    cut = body.index(found.test)
    rest = [n for n in body[cut + 1 :] if n is not found.again]
    tail = [n for n in step if n is not found.again]
    kept = [n for n in body[:cut] if n is not value]
    tested = _chain(found.test, value)
    if not any(a in tested for n in walk([*kept, *rest, *tail]) if n not in tested for a in n.args):
        kept = [n for n in kept if n not in tested]
    needs = any(value in n.args for n in kept)
    _replace([kept], value, early.region[-1])
    _replace([rest, tail], value, late.region[-1])
    body[:] = [*head.region, *(early.region if needs else ()), *kept, *test.region, *late.region, *rest]
    last = Builder([], found.again.loc)
    last.set(slot, last.emit("add", last.get(slot), one))
    step[:] = [*tail, *last.region]
    region[at:at] = before.region


def _chain(test: Node, value: Node) -> set[Node]:
    """What is between a variable and the test of it."""
    found: set[Node] = set()
    todo = [test.args[0]]
    while todo:
        node = todo.pop()
        if node is not value and node.op in ("not", "lt", "ge", "cast"):
            found.add(node)
            todo += node.args
    return found


def _variable(out: Builder, start: Node, count: Node, by: Node, value: Node) -> Node:
    """The variable in a trip, in its own type."""
    return out.cast(out.emit("add", start, out.emit("mul", count, by)), value.dtype)


def _replace(regions: list[Region], old: Node, new: Node) -> None:
    for region in regions:
        for node in walk(region):
            if old in node.args:
                node.args = tuple(new if a is old else a for a in node.args)
