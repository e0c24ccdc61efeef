"""Value ranges of integers: 64-bit index arithmetic is done in 32 bits where that is proven right (RULES 1).

`ranges(kernel)` gives for every integer node an interval that holds its value in every work-item; `fits32` asks whether
a value and everything it is made of in one step stay inside 32 bits. Slots get the interval of all their sets, widened
to the whole type where a loop makes it grow.
"""

from __future__ import annotations

from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, Region, Slot

__all__ = ["Interval", "Ranges", "ranges"]

Interval = tuple[int, int]

# A launch has fewer than 2**48 work-items along a dimension, and no array has 2**60 elements.
_ITEMS = 1 << 48
_EXTENT = 1 << 60
_SMALL = (1 << 31) - 1
# What a workgroup may hold on any target.
_WORKGROUP = 1 << 16
_INTEGERS = ("int", "uint")
# Values that go from slot to slot come to rest after as many rounds as there are slots in the chain; few have three.
_ROUNDS = 16


class Ranges:
    """Intervals of the integer nodes and slots of one kernel."""

    __slots__ = ("nodes", "slots")

    def __init__(self) -> None:
        self.nodes: dict[Node, Interval] = {}
        self.slots: dict[Slot, Interval] = {}

    def of(self, node: Node) -> Interval:
        """The interval of a node; the whole type where nothing is known."""
        known = self.nodes.get(node)
        return known if known is not None else full(node.dtype)

    def fits32(self, node: Node) -> bool:
        """Whether the value of ``node`` is an i32."""
        low, high = self.of(node)
        return low >= -(1 << 31) and high <= _SMALL

    def slot_fits32(self, slot: Slot) -> bool:
        """Whether all values of ``slot`` are."""
        low, high = self.slots.get(slot, full(slot.type) if isinstance(slot.type, DType) else (1, 0))
        return low >= -(1 << 31) and high <= _SMALL


_FULL: dict[DType, Interval] = {}


def full(t: DType) -> Interval:
    """All values of an integer or bool type."""
    found = _FULL.get(t)
    if found is None:
        found = _FULL[t] = (t.min, t.max)
    return found


def ranges(kernel: Kernel, grid: tuple[int, int, int] | None = None) -> Ranges:
    """The intervals of ``kernel``: rounds over the body until no slot grows, those that still do after two widened.

    ``grid``: the workgroups of the one launch that is asked about, along each dimension.
    """
    walk = _Walk(kernel, grid)
    for round_ in range(_ROUNDS):
        before = dict(walk.result.slots)
        walk.region(kernel.body)
        grown = {s for s, r in walk.result.slots.items() if before.get(s) != r}
        if not grown:
            return walk.result
        if round_ > 0:
            for slot in grown - walk.counted.keys():
                if isinstance(slot.type, DType):
                    walk.result.slots[slot] = full(slot.type)
    return Ranges()  # what did not come to rest says nothing


class _Walk:
    def __init__(self, kernel: Kernel, grid: tuple[int, int, int] | None) -> None:
        self.kernel = kernel
        self.grid = grid
        self.result = Ranges()
        self.small = kernel.facts.small
        self.items = _SMALL if self.small else _ITEMS
        self.counted: dict[Slot, Node] = {}
        # Counters that are below their trips here: behind the test that ends the loop, and up to the next count. And
        # what was read of them before the test, with the interval that it has here.
        self.below: set[Slot] = set()
        self.here: dict[Node, Interval] = {}

    def region(self, region: Region) -> None:
        for node in region:
            op = node.op
            if op == "loop":
                self.loop(node)
                continue
            if op == "break_if":
                self.passed(node.args[0])
            elif op == "slot_set":
                slot = node.attrs["slot"]
                if isinstance(slot.type, DType) and slot.type.is_int:
                    self.set(slot, self.of(node.args[0]))
                self.below.discard(slot)
            elif node.type.__class__ is DType and node.type.kind in _INTEGERS:
                found = self.interval(node)
                whole = full(node.type)
                if found is None or found[0] < whole[0] or found[1] > whole[1]:
                    found = whole
                self.result.nodes[node] = found
            for inner in node.regions:
                self.region(inner)

    def loop(self, node: Node) -> None:
        counted = node.attrs.get("counted")
        if counted is not None:
            slot, trips = counted
            self.counted[slot] = trips
            ends = _ends(trips)
            if ends is not None and trips in self.result.nodes:
                most = self.of(ends[0])[1] - self.of(ends[1])[0]
                low, high = self.of(trips)
                self.result.nodes[trips] = (max(0, low), max(0, min(high, most)))
        below, here = set(self.below), dict(self.here)
        self.region(node.regions[0])
        # A trip comes to the step only by way of the test, which stands first in the body.
        self.region(node.regions[1])
        self.below, self.here = below, here

    def passed(self, end: Node) -> None:
        """Behind a `break_if`: a counter that did not reach its trips is below them."""
        if end.op != "ge" or end.args[0].op != "slot_get":
            return
        slot = end.args[0].attrs["slot"]
        if self.counted.get(slot) is end.args[1]:
            self.below.add(slot)
            low, high = self.of(end.args[0])
            self.here[end.args[0]] = (low, max(low, high - 1))

    def of(self, node: Node) -> Interval:
        """The interval of a value where the walk stands."""
        return self.here.get(node) or self.result.of(node)

    def plain(self, node: Node) -> Node:
        """An end of a range with a step that is known at run time only, where that is known not to be negative."""
        if node.op == "select":
            down = node.args[0]
            if down.op == "lt" and down.args[1].op == "const" and down.args[1].attrs["value"] == 0:
                return node.args[2] if self.of(down.args[0])[0] >= 0 else node
        return node

    def in_range(self, node: Node) -> Interval | None:
        """The interval of a loop variable, start + count * step, from the ends of its range."""
        start, moved = node.args
        if moved.op != "mul" or moved.args[0].op != "slot_get" or moved.args[0].attrs["slot"] not in self.below:
            return None
        ends = _ends(self.counted[moved.args[0].attrs["slot"]])
        if ends is None:
            return None
        ends = (self.plain(ends[0]), self.plain(ends[1]))
        high, low = (self.of(e) for e in ends)
        step = self.of(moved.args[1])
        if step[0] >= 0 and ends[1] is start:  # up, to below the upper end
            return (low[0], max(low[0], high[1] - 1))
        if step[1] <= 0 and ends[0] is start:  # down, to above the lower end
            return (min(low[0] + 1, high[1]), high[1])
        return None

    def set(self, slot: Slot, new: Interval) -> None:
        if slot in self.counted:
            # counts 0..trips; the last value is trips itself
            high = max(0, self.result.of(self.counted[slot])[1])
            self.result.slots[slot] = (0, high)
            return
        old = self.result.slots.get(slot, (0, 0))
        self.result.slots[slot] = (min(old[0], new[0]), max(old[1], new[1]))

    def interval(self, node: Node) -> Interval | None:
        op, r = node.op, self.of
        if op == "const":
            return (node.attrs["value"], node.attrs["value"])
        if op in _LEAVES:
            return self.leaf(node)
        if op == "slot_get":
            slot = node.attrs["slot"]
            low, high = self.result.slots.get(slot, (0, 0))
            return (low, max(low, high - 1)) if slot in self.below else (low, high)
        if op == "select":
            a, b = r(node.args[1]), r(node.args[2])
            return (min(a[0], b[0]), max(a[1], b[1]))
        if op == "cast":
            source = node.args[0].dtype
            if source.is_bool:
                return (0, 1)
            return r(node.args[0]) if source.is_int else None
        if op in ("uniform", "subgroup_broadcast", "subgroup_shuffle"):
            return r(node.args[0])
        if op in ("popcount", "clz", "ctz"):
            return (0, node.dtype.bits)
        if op in ("neg", "abs") and node.args[0].dtype.is_int:
            low, high = r(node.args[0])
            return (-high, -low) if op == "neg" else (max(0, low, -high), max(high, -low))
        if len(node.args) != 2 or not all(isinstance(a.type, DType) and a.type.is_int for a in node.args):
            return None
        a, b = r(node.args[0]), r(node.args[1])
        if op == "add":
            sum_ = (a[0] + b[0], a[1] + b[1])
            bounds = self.in_range(node)
            return sum_ if bounds is None else (max(sum_[0], bounds[0]), min(sum_[1], bounds[1]))
        if op == "sub":
            return (a[0] - b[1], a[1] - b[0])
        if op == "mul":
            products = [x * y for x in a for y in b]
            return (min(products), max(products))
        if op in ("min", "max"):
            pick = min if op == "min" else max
            return (pick(a[0], b[0]), pick(a[1], b[1]))
        if op in ("floordiv", "tdiv") and b[0] >= 0:
            by = (max(1, b[0]), max(1, b[1]))
            quotients = [_quotient(op, x, y) for x in a for y in by] + [0] * (b[0] == 0)  # by 0 it is 0
            return (min(quotients), max(quotients))
        if op in ("mod", "trem") and b[0] >= 0 and (a[0] >= 0 or op == "mod"):
            top = max(0, b[1] - 1)
            return (0, min(top, a[1]) if a[0] >= 0 else top)
        if op == "and" and (a[0] >= 0 or b[0] >= 0):
            return (0, min(x[1] for x in (a, b) if x[0] >= 0))
        if op in ("or", "xor") and a[0] >= 0 and b[0] >= 0:
            return (0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1)
        if op == "shr" and b[0] == b[1] and 0 <= b[0] < node.dtype.bits:
            return (a[0] >> b[0], a[1] >> b[0])
        if op == "shl" and b[0] == b[1] and 0 <= b[0] < node.dtype.bits:
            return (a[0] << b[0], a[1] << b[0])
        return None

    def leaf(self, node: Node) -> Interval:
        op, size = node.op, self.kernel.known_workgroup
        if op == "extent":
            return (0, _SMALL if self.small else _EXTENT)
        if op == "stride":
            top = _SMALL if self.small else _EXTENT
            return (-top, top)
        dim = node.attrs.get("dim", 0)
        if op == "workgroup_size":
            return (size[dim], size[dim]) if size else (1, _WORKGROUP)
        if op == "thread_id":
            return (0, (size[dim] if size else _WORKGROUP) - 1)
        if self.grid is not None and op in ("num_workgroups", "workgroup_id", "global_id"):
            groups = self.grid[dim]
            if op == "global_id":
                return (0, groups * (size[dim] if size else _WORKGROUP) - 1)
            return (groups, groups) if op == "num_workgroups" else (0, groups - 1)
        if op == "num_workgroups":
            return (1, self.items)
        if op in ("workgroup_id", "global_id"):
            return (0, self.items - 1)
        return (0, _WORKGROUP)


def _ends(trips: Node) -> tuple[Node, Node] | None:
    """(upper end, lower end) of the range that has these trips, as they are or as `magpie.passes.expand` writes them
    down: none where the one is not above the other."""
    if trips.op == "trip_count":
        start, stop, step = trips.args
        if step.op != "const" or step.attrs["value"] == 0:
            return None
        return (stop, start) if step.attrs["value"] > 0 else (start, stop)
    if trips.op != "select":
        return None
    some = trips.args[0]
    if some.op == "and":  # and the step is not 0
        some = some.args[0]
    return (some.args[0], some.args[1]) if some.op == "gt" else None


def _quotient(op: str, a: int, b: int) -> int:
    down = a // b
    return down + (op == "tdiv" and a < 0 and down * b != a)


_LEAVES = frozenset(
    [
        "thread_id",
        "workgroup_id",
        "workgroup_size",
        "num_workgroups",
        "global_id",
        "linear_local_id",
        "subgroup_size",
        "subgroup_lane",
        "subgroup_id",
        "subgroup_count",
        "extent",
        "stride",
    ]
)
