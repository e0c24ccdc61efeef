"""How much of each 64-bit integer anybody asks for (RULES 1): all of it, or its low 32 bits.

An array that a kernel is given has fewer than 2^32 bytes on some targets (a Vulkan or WebGPU binding), so an offset
into it is right modulo 2^32, and so are the sums and products that it is made of. `index_forms(kernel)` gives each
value of 64 bits one of three forms:

* ``narrow``: it always fits in an i32 (`magpie.passes.narrow_index`), whose extension it is;
* ``low``: nobody asks for more than its low 32 bits;
* neither: it takes 64 bits, or a pair of 32.
"""

from __future__ import annotations

from magpie.dtypes import DType, i64, index, u64
from magpie.ir.nodes import Kernel, Node, Slot, ValueType, walk
from magpie.passes.narrow_index import Ranges, ranges

__all__ = ["LOW_OPS", "IndexForms", "index_forms", "is_wide"]

#: Ops whose low bits follow from the low bits of their operands.
LOW_OPS = frozenset(
    ["add", "sub", "mul", "and", "or", "xor", "not", "neg", "uniform", "select", "cast", "bitcast", "shl"]
)


def is_wide(t: ValueType | None) -> bool:
    """Whether values of a type are integers of 64 bits."""
    return t is index or t is i64 or t is u64


class IndexForms:
    """The forms of one kernel's values and slots. `ranges` has the intervals that they follow from."""

    __slots__ = ("_asked", "_slots", "ranges")

    def __init__(self, known: Ranges, asked: set[Node], slots: set[Slot]) -> None:
        self.ranges = known
        self._asked = asked
        self._slots = slots

    def narrow(self, node: Node) -> bool:
        """Whether a value of 64 bits is always an i32."""
        return is_wide(node.type) and fits32(self.ranges, node)

    def low(self, node: Node) -> bool:
        """Whether 32 bits of a value of 64 are enough: it is narrow, or nobody asks for more."""
        return is_wide(node.type) and (node not in self._asked or fits32(self.ranges, node))

    def narrow_slot(self, slot: Slot) -> bool:
        """Whether all values of a slot of 64 bits are i32."""
        return is_wide(slot.type) and self.ranges.slot_fits32(slot)

    def low_slot(self, slot: Slot) -> bool:
        """Whether 32 bits of a slot of 64 are enough."""
        return is_wide(slot.type) and (slot not in self._slots or self.ranges.slot_fits32(slot))


def fits32(known: Ranges, node: Node) -> bool:
    """Whether a value is always an i32, or is read from a slot whose values all are."""
    return known.fits32(node) or (node.op == "slot_get" and known.slot_fits32(node.attrs["slot"]))


def low_bits_follow(node: Node) -> bool:
    """Whether the low 32 bits of a value of 64 follow from those of its operands."""
    if node.op == "shl":
        return node.args[1].op == "const"
    if node.op in ("cast", "bitcast"):
        t = node.args[0].type
        return isinstance(t, DType) and (t.is_int or t.is_bool)
    return node.op in LOW_OPS


def index_forms(kernel: Kernel, *, places: bool = False) -> IndexForms:
    """The forms of a prepared kernel. ``places``: accesses ask for all bits of their indices, to check them."""
    nothing = Ranges()
    asked, slots = _asked(kernel, places, nothing)
    if not asked:  # often: what fits in 32 bits was made an i32 before, and no interval matters
        return IndexForms(nothing, asked, slots)
    known = ranges(kernel)
    return IndexForms(known, *_asked(kernel, places, known))


def _asked(kernel: Kernel, places: bool, known: Ranges) -> tuple[set[Node], set[Slot]]:
    """The values and the slots of 64 bits of which all bits are asked for, but for those that ``known`` has as i32."""
    sets: dict[Slot, list[Node]] = {}
    asked: set[Node] = set()
    slots: set[Slot] = set()
    todo: list[Node] = []

    def ask(values: tuple[Node, ...]) -> None:
        for value in values:
            if is_wide(value.type) and value not in asked and not fits32(known, value):
                asked.add(value)
                todo.append(value)

    for node in walk(kernel.body):
        op, args = node.op, node.args
        if op == "slot_set":
            sets.setdefault(node.attrs["slot"], []).append(args[0])
        elif not args or op == "loop":
            pass  # the hint of a counted loop names values that its test asks for
        elif "array" in node.attrs:
            array = node.attrs["array"]
            # what is clipped at the array's edge is compared with that
            ask(args if places or node.attrs.get("clip") else args[array.rank :])
        elif is_wide(node.type) and low_bits_follow(node):
            pass  # asked for when this is
        elif op == "cast" and isinstance(node.type, DType) and node.type.is_int:
            pass  # to fewer bits
        else:
            ask(args)
    while todo:
        node = todo.pop()
        if node.op == "slot_get":
            slot = node.attrs["slot"]
            if slot not in slots and not known.slot_fits32(slot):
                slots.add(slot)
                ask(tuple(sets.get(slot, ())))
        elif low_bits_follow(node):
            ask(node.args)
    return asked, slots
