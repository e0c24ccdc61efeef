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


def full(t: DType) -> Interval:
    """All values of an integer or bool type."""
    return (t.min, t.max)


def ranges(kernel: Kernel) -> Ranges:
    """The intervals of ``kernel``; three rounds over the body, the third with every growing slot widened."""
    walk = _Walk(kernel)
    for round_ in range(3):
        before = dict(walk.result.slots)
        walk.region(kernel.body)
        grown = {s for s, r in walk.result.slots.items() if before.get(s) != r}
        if not grown:
            break
        if round_ == 1:
            for slot in grown:
                if isinstance(slot.type, DType):
                    walk.result.slots[slot] = full(slot.type)
    return walk.result


class _Walk:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.result = Ranges()
        self.small = kernel.facts.small
        self.items = _SMALL if self.small else _ITEMS
        self.counted: dict[Slot, Node] = {}

    def region(self, region: Region) -> None:
        for node in region:
            op = node.op
            if op == "loop":
                counted = node.attrs.get("counted")
                if counted is not None:
                    self.counted[counted[0]] = counted[1]
            elif op == "slot_set":
                slot = node.attrs["slot"]
                if isinstance(slot.type, DType) and slot.type.is_int:
                    self.set(slot, self.result.of(node.args[0]))
            elif isinstance(node.type, DType) and node.type.is_int:
                found = self.interval(node)
                whole = full(node.type)
                if found is None or found[0] < whole[0] or found[1] > whole[1]:
                    found = whole
                self.result.nodes[node] = found
            for inner in node.regions:
                self.region(inner)

    def set(self, slot: Slot, new: Interval) -> None:
        if slot in self.counted:
            # counts 0..trips; the last value is trips itself
            high = max(0, self.result.of(self.counted[slot])[1])
            self.result.slots[slot] = (0, high)
            return
        old = self.result.slots.get(slot, (0, 0))
        self.result.slots[slot] = (min(old[0], new[0]), max(old[1], new[1]))

    def interval(self, node: Node) -> Interval | None:
        op, r = node.op, self.result.of
        if op == "const":
            return (node.attrs["value"], node.attrs["value"])
        if op in _LEAVES:
            return self.leaf(node)
        if op == "slot_get":
            return self.result.slots.get(node.attrs["slot"], (0, 0))
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
        if len(node.args) != 2 or not all(isinstance(a.type, DType) and a.type.is_int for a in node.args):
            return None
        a, b = r(node.args[0]), r(node.args[1])
        if op == "add":
            return (a[0] + b[0], a[1] + b[1])
        if op == "sub":
            return (a[0] - b[1], a[1] - b[0])
        if op == "mul":
            products = [x * y for x in a for y in b]
            return (min(products), max(products))
        if op in ("min", "max"):
            pick = min if op == "min" else max
            return (pick(a[0], b[0]), pick(a[1], b[1]))
        if op in ("floordiv", "tdiv") and a[0] >= 0 and b[0] >= 0:
            return (0, a[1] // max(1, b[0]))
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
        if op == "num_workgroups":
            return (1, self.items)
        if op in ("workgroup_id", "global_id"):
            return (0, self.items - 1)
        return (0, _WORKGROUP)


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
