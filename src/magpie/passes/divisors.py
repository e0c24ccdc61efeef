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
    by what divides everything it is set to; slots begin at the best and fall until all of them agree.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._known: dict[Node, int] | None = None  # made when first asked: few kernels do

    def of(self, node: Node) -> int:
        """The power of two for ``node``, at most 2**20."""
        if self._known is None:
            self._known = self._solve()
        return self._known.get(node, 1)

    def _solve(self) -> dict[Node, int]:
        nodes = list(walk(self._kernel.body))
        slots: dict[Slot, int] = {}
        while True:
            known: dict[Node, int] = {}
            found: dict[Slot, int] = {}
            for node in nodes:  # operands stand before their uses
                if node.op == "slot_set":
                    slot = node.attrs["slot"]
                    found[slot] = min(found.get(slot, _MOST), known.get(node.args[0], 1))
                elif isinstance(node.type, DType) and node.type.is_int:
                    known[node] = _divisor(node, [known.get(a, 1) for a in node.args], slots)
            if found == slots:
                return known
            slots = found


def _divisor(node: Node, args: list[int], slots: dict[Slot, int]) -> int:
    op = node.op
    if op == "const":
        value = int(node.attrs["value"])
        return min(_MOST, value & -value) if value else _MOST
    if op == "slot_get":
        return slots.get(node.attrs["slot"], _MOST)
    if op == "mul":
        return min(_MOST, args[0] * args[1])
    if op in ("add", "sub", "min", "max", "mod", "trem", "or", "xor"):
        return min(args)
    if op == "and":
        return max(args)
    if op == "select":
        return min(args[1:])
    if op == "shl" and node.args[1].op == "const":
        count = int(node.args[1].attrs["value"])
        return min(_MOST, args[0] << min(20, max(0, count)))
    if op in ("cast", "neg", "uniform"):
        return args[0]  # of a number that is no integer nothing is known
    return 1
