"""From a prepared kernel to code: values and effects. `control` has branches, loops and conditions.

A comparison is not computed where it stands: the branch that asks for it does so (`CMP` and a branch). What reads a
slot is the slot's own register, until the slot changes while the old value is still needed; then it is copied first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from magpie.backends.tgpu import arithmetic, hostexpr
from magpie.backends.tgpu.arithmetic import ADVICE
from magpie.backends.tgpu.code import Code, Label, Virtual
from magpie.backends.tgpu.counters import bounded_counters
from magpie.backends.tgpu.hostexpr import Known
from magpie.backends.tgpu.ids import identity
from magpie.backends.tgpu.isa import wrap
from magpie.backends.tgpu.specialise import into
from magpie.diagnostics import Diagnostic
from magpie.dtypes import DType, index
from magpie.ir.nodes import Array, Buffer, Kernel, Node, Region, SharedArray, Slot, walk
from magpie.passes.narrow_index import Ranges

__all__ = ["Emitter", "Value"]

#: What a value is held as: a register, or a number that the launch knows.
Value = Virtual | Known

_INT32 = (-(1 << 31), (1 << 31) - 1)
COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
#: Operations whose result is only asked for by branches, where that is all that asks.
CONDITIONS = COMPARES | {"and", "or", "not", "cast"}
_BRANCHES = frozenset({"if", "break_if", "select"})


class Emitter:
    """Emits one kernel. ``strides`` are the word strides of each array, ``addresses`` where it begins."""

    def __init__(
        self,
        kernel: Kernel,
        ranges: Ranges,
        grid: tuple[Known, Known, Known],
        block: tuple[Known, Known, Known],
        addresses: Mapping[Array, Known],
        strides: Mapping[Array, tuple[Known, ...]],
        leaf: Callable[[Node], Known | None],
    ) -> None:
        self.kernel, self.ranges, self.grid, self.block = kernel, ranges, grid, block
        self.addresses, self.strides, self.leaf = addresses, strides, leaf
        self.code = Code()
        self.values: dict[Node, Value] = {}
        self.slots: dict[Slot, Virtual] = {}
        self.nodes_of: dict[Virtual, list[Node]] = {}  # the values that a register holds
        self.left: Counter[Node] = Counter()  # how often a value is still asked for
        self.lazy: set[Node] = set()
        self.found: list[Diagnostic] = []
        self.ids: dict[tuple[str, int], Value] = {}
        self.depth = 0
        self.loops: list[tuple[Label, Label]] = []  # (behind the loop, its step)
        self.end = Label()
        self.bounded = bounded_counters(kernel, ranges)
        self._count(kernel.body)

    def _count(self, region: Region) -> None:
        """How often each value is asked for, and which conditions only branches ask for."""
        users: dict[Node, list[tuple[Node, int]]] = {}
        conditions: list[Node] = []
        for node in walk(region):
            for position, arg in enumerate(node.args):
                self.left[arg] += 1
                users.setdefault(arg, []).append((node, position))
            if node.op == "loop" and node.attrs.get("counted"):
                self.left[node.attrs["counted"][1]] += 1
            if node.op in CONDITIONS and isinstance(node.type, DType) and node.type.is_bool:
                conditions.append(node)
        for node in reversed(conditions):
            asking = users.get(node, [])
            if asking and all(user in self.lazy or (user.op in _BRANCHES and at == 0) for user, at in asking):
                self.lazy.add(node)

    # --- what may go wrong -------------------------------------------------------------------------------------------
    def refuse(self, code: int, message: str, node: Node, help: str | None = None) -> Value:
        """Note what does not fit; the value that stands for it is 0."""
        self.found.append(Diagnostic(f"MPG_TGPU_{code}", message, node.loc, help=help))
        return 0

    # --- values ------------------------------------------------------------------------------------------------------
    def value(self, node: Node) -> Value:
        """What a node is held as."""
        found = self.values.get(node)
        if found is None:
            assert node in self.lazy, node
            return self.materialise(node)
        return found

    def release(self, node: Node) -> None:
        """One of those that ask for a value has asked."""
        self.left[node] -= 1
        if node in self.lazy and self.left[node] == 0:
            for arg in node.args:
                self.release(arg)

    def interval(self, node: Node) -> tuple[int, int]:
        """Where the value of an integer or bool lies."""
        if node.dtype.is_bool:
            return (0, 1)
        return self.ranges.of(node)

    def number(self, node: Node) -> Value:
        """The value of an operand that is compared or so: it must be what a register can hold."""
        low, high = self.interval(node)
        value = self.value(node)
        if node.op == "slot_get" and node.attrs["slot"] in self.bounded:
            return value
        if node.dtype is index and (low < _INT32[0] or high > _INT32[1]) and isinstance(value, Virtual):
            self.found.append(
                Diagnostic(
                    "MPG_TGPU_2005",
                    "this integer has 64 bits in meaning and 32 on tiny-gpu, and nothing shows that they are enough",
                    node.loc,
                    help="give it a type: mp.i32(0) as the first value of a sum, mp.i32(x) for an index",
                )
            )
        return value

    def fresh(self, op: str, *operands: Value) -> Virtual:
        """A new value by one instruction."""
        made = Virtual()
        self.code.emit(op, made, *(self.operand(o) for o in operands))
        return made

    def operand(self, value: Value) -> Value:
        """A number as an instruction takes it."""
        return wrap(value) if isinstance(value, int) else value

    def register(self, value: Value) -> Virtual:
        """A value in a register of its own, for what is changed in place."""
        return self.fresh("SET", value)

    def add(self, a: Value, b: Value) -> Value:
        """a + b, computed here where both are known."""
        if isinstance(a, Virtual) or isinstance(b, Virtual):
            if b == 0:
                return a
            return b if a == 0 else self.fresh("ADD", *((b, a) if not isinstance(a, Virtual) else (a, b)))
        return hostexpr.add(a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b, computed here where both are known."""
        if isinstance(a, Virtual) or isinstance(b, Virtual):
            if 0 in (a, b):
                return 0
            if b == 1:
                return a
            return b if a == 1 else self.fresh("MUL", *((b, a) if not isinstance(a, Virtual) else (a, b)))
        return hostexpr.mul(a, b)

    def address(self, node: Node, indices: tuple[Node, ...]) -> Value:
        """The word that an access addresses: base + sum of index * stride."""
        array: Array = node.attrs["array"]
        at: Value = 0
        for i, stride in zip(indices, self.strides[array], strict=True):
            at = self.add(at, self.mul(self.value(i), stride))
        return self.add(at, self.addresses[array])

    # --- regions -----------------------------------------------------------------------------------------------------
    def region(self, region: Region) -> None:
        """Emit the nodes of a region in order."""
        for node in region:
            self.node(node)

    def node(self, node: Node) -> None:
        """Emit one node, or leave it to what asks for it."""
        self.code.loc = node.loc
        if node in self.lazy:
            return
        known = self.leaf(node) if node.type is not None else None
        if known is not None:
            self.values[node] = known
            return
        from magpie.backends.tgpu.control import HANDLERS

        handler = _HANDLERS.get(node.op) or HANDLERS.get(node.op)
        if handler is None:
            self.refuse(2001, f"tiny-gpu has nothing to compute `{node.op}` with", node, ADVICE.get(node.op))
            self.values[node] = 0
            return
        if node.type is not None and not self.fits(node):
            self.values[node] = 0
            return
        handler(self, node)
        held = self.values.get(node)
        if isinstance(held, int) and isinstance(node.type, DType):
            self.values[node] = into(held, node.type)
        elif isinstance(held, Virtual):
            self.nodes_of.setdefault(held, []).append(node)
        if node.op not in _RELEASING:
            for arg in node.args:
                self.release(arg)

    def fits(self, node: Node) -> bool:
        """Whether the type of a value is one that registers can hold; a diagnostic where not."""
        t = node.type
        if isinstance(t, DType) and not t.is_float and (t.bits <= 32 or t is index):
            return True
        self.refuse(
            2002,
            f"tiny-gpu has 32-bit integers only, and `{node.op}` gives a value of type {t}",
            node,
            "use i32, a narrower integer or bool",
        )
        return False

    def narrow(self, node: Node, low: int, high: int) -> bool:
        """Whether a result between these two needs no wrapping in its type; a diagnostic where it does and cannot."""
        t = node.dtype
        if t.bits >= 32 or t.is_bool or (t.min <= low and high <= t.max):
            return True
        self.refuse(
            2003,
            f"the result may be outside of {t}, and tiny-gpu can only wrap 32-bit numbers",
            node,
            f"compute in i32, and clamp with min and max before it becomes {t}",
        )
        return False

    # --- slots -------------------------------------------------------------------------------------------------------
    def slot(self, slot: Slot) -> Virtual:
        """The register of a slot."""
        return self.slots.setdefault(slot, Virtual())

    def asked(self, register: Virtual) -> list[Node]:
        """The values that a register holds and that are still asked for."""
        return [n for n in self.nodes_of.get(register, ()) if self.left[n] > 0 and self.values[n] is register]

    def keep_old(self, slots: set[Slot]) -> None:
        """Copy the values that slots hold and that are still asked for, before the slots change."""
        for slot, register in self.slots.items():
            asked = self.asked(register) if slot in slots else []
            if asked:
                copy = self.fresh("SET", register)
                self.nodes_of[copy] = asked
                for node in asked:
                    self.values[node] = copy

    def slot_get(self, node: Node) -> None:
        self.values[node] = self.slot(node.attrs["slot"])

    def slot_set(self, node: Node) -> None:
        source, slot = node.args[0], node.attrs["slot"]
        value = self.value(source)
        self.release(source)
        mine = self.slot(slot)
        if value is mine:
            return
        last = self.code.last()
        if isinstance(value, Virtual) and last is not None and last.dest is value:
            # What was computed just now, for nothing else, is computed into the slot.
            if not self.asked(value) and not self.asked(mine) and value not in self.slots.values():
                last.operands[0] = mine
                return
        self.keep_old({slot})
        self.code.emit("SET", mine, self.operand(value))

    # --- memory ------------------------------------------------------------------------------------------------------
    def load(self, node: Node) -> None:
        if not self.addressable(node):
            self.values[node] = 0
            return
        shared = isinstance(node.attrs["array"], SharedArray)
        at = self.address(node, node.args)
        self.values[node] = self.fresh("SHLD" if shared else "LD", at)

    def store(self, node: Node) -> None:
        if not self.addressable(node):
            return
        shared = isinstance(node.attrs["array"], SharedArray)
        at = self.address(node, node.args[:-1])
        self.code.emit("SHST" if shared else "ST", self.operand(at), self.operand(self.value(node.args[-1])))

    def addressable(self, node: Node) -> bool:
        """Whether tiny-gpu has the memory that an access addresses; a diagnostic where not."""
        array: Array = node.attrs["array"]
        t = array.type
        if not isinstance(array, Buffer | SharedArray):
            what = "local arrays" if array.space == "local" else "tables of constants"
            self.refuse(2001, f"tiny-gpu has no memory for {what}", node, "pass an array")
            return False
        if not isinstance(t, DType) or t.is_float or t.bits > 32:
            self.refuse(2002, f"tiny-gpu has words of 32-bit integers, and {array.name!r} holds {t}", node, "use i32")
            return False
        return True

    # --- conditions: see control -------------------------------------------------------------------------------------
    def materialise(self, node: Node) -> Value:
        """A condition as a number, 0 or 1."""
        from magpie.backends.tgpu.control import materialise

        return materialise(self, node)


#: What asks for its operands in its own order.
_RELEASING = frozenset({"if", "break_if", "slot_set", "select", "loop"})

_HANDLERS: dict[str, Callable[[Any, Node], None]] = {
    **arithmetic.HANDLERS,
    "slot_get": Emitter.slot_get,
    "slot_set": Emitter.slot_set,
    "load": Emitter.load,
    "store": Emitter.store,
    **dict.fromkeys(("thread_id", "workgroup_id", "global_id", "linear_local_id"), identity),
}
