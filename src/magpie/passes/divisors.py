"""Which powers of two divide an integer: what alignment of an address follows from the program alone."""

from __future__ import annotations

from magpie.dtypes import DType
from magpie.ir.nodes import Kernel, Node, Slot, walk

__all__ = ["Divisors"]

#: Zero is divisible by everything; no question is about more than this.
_MOST = 1 << 20


class Divisors:
    """For a kernel without calls: the largest known power of two that divides a value.

    Integers wrap at a power of two, so that sums and products keep what divides them. What a slot holds is divisible
    by what divides everything it is set to; slots that depend on each other start at the best and fall until they
    agree.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._sets: dict[Slot, list[Node]] = {}
        for node in walk(kernel.body):
            if node.op == "slot_set":
                self._sets.setdefault(node.attrs["slot"], []).append(node.args[0])
        self._slots: dict[Slot, int] = {}
        self._known: dict[Node, int] = {}

    def of(self, node: Node) -> int:
        """The power of two for ``node``, at most 2**20."""
        found = self._known.get(node)
        if found is None:
            while True:
                self._fell = False
                found = self._value(node, {}, set())
                if not self._fell:
                    break
            self._known[node] = found
        return found

    def _value(self, node: Node, seen: dict[Node, int], open_: set[Slot]) -> int:
        if node in seen:
            return seen[node]
        op, args = node.op, node.args
        out = 1
        if op == "const" and isinstance(node.type, DType) and node.type.is_int:
            value = int(node.attrs["value"])
            out = min(_MOST, value & -value) if value else _MOST
        elif op == "slot_get":
            out = self._slot(node.attrs["slot"], seen, open_)
        elif op == "mul":
            out = min(_MOST, self._value(args[0], seen, open_) * self._value(args[1], seen, open_))
        elif op in ("add", "sub", "min", "max", "mod", "trem", "or", "xor"):
            out = min(self._value(a, seen, open_) for a in args)
        elif op == "and" and isinstance(node.type, DType) and node.type.is_int:
            out = max(self._value(a, seen, open_) for a in args)
        elif op == "select":
            out = min(self._value(a, seen, open_) for a in args[1:])
        elif op == "shl" and args[1].op == "const":
            out = min(_MOST, self._value(args[0], seen, open_) << min(20, max(0, args[1].attrs["value"])))
        elif (op == "cast" and isinstance(args[0].type, DType) and args[0].type.is_int) or op in ("neg", "uniform"):
            out = self._value(args[0], seen, open_)
        if not (isinstance(node.type, DType) and node.type.is_int):
            out = 1
        seen[node] = out
        return out

    def _slot(self, slot: Slot, seen: dict[Node, int], open_: set[Slot]) -> int:
        before = self._slots.get(slot, _MOST)
        if slot in open_:
            return before
        values = [self._value(a, seen, open_ | {slot}) for a in self._sets.get(slot, ())]
        now = min([before, *values])
        if now < before:
            self._slots[slot] = now
            self._fell = True
        return now
