"""The emitter of gang code: which method emits which op."""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.atomics import AtomicsMixin
from magpie.backends.cpu.control import ControlMixin, LoopFrame
from magpie.backends.cpu.gang import Coordinates, Env
from magpie.backends.cpu.heap import HeapMixin
from magpie.backends.cpu.strided import StridedMixin, Waiting
from magpie.backends.cpu.subgroups import SubgroupMixin
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.llvm.emitter import Block
from magpie.ir.nodes import Array, Node
from magpie.ir.ops import OPS

__all__ = ["Gang", "supported"]


class Gang(ControlMixin, StridedMixin, AtomicsMixin, SubgroupMixin, HeapMixin):
    """Emits nodes for one gang at ``at`` under ``mask`` (None: all lanes). The current block is where it starts."""

    def __init__(self, env: Env, at: Coordinates, mask: Mask | None = None, end: Block | None = None) -> None:
        super().__init__(env, at)
        self.mask = mask
        self.full = mask is None
        self.frames: list[LoopFrame] = []
        self.depth = 0
        self.departures = 0
        self.dirty = False
        self.stopped = False
        self.alive = ""
        self.end = end if end is not None else env.code.block("end")
        self.prologue = env.code.at_block
        self.locals: dict[Array, str] = {}
        self.ready: dict[Node, Value] = {}
        self.waiting: dict[Node, Waiting] = {}
        self.lines: dict[Node, str] = {}
        self.kept: dict[Node, Callable[[Value], None]] = {}  # values to store into context memory

    def local_pointer(self, array: Array) -> str:
        return self.locals.get(array, "")

    def visit(self, node: Node) -> None:
        """Emit one node."""
        if node in self.map:  # assumed, or emitted by the scaffold
            return
        self.spilled = 0
        handler = _VALUES.get(node.op)
        if handler is not None:
            self.map[node] = handler(self, node)
            if node in self.kept:
                self.kept[node](self.map[node])
            return
        effect = _EFFECTS.get(node.op)
        if effect is not None:
            effect(self, node)
            return
        if self.env.checked and node.op in _DIVIDE and node.checked:
            self.check_divisor(node)
        self.map[node] = self.pure(node)
        if node in self.kept:
            self.kept[node](self.map[node])

    def fence(self, node: Node) -> None:
        """Lanes run in lockstep, so only other threads matter."""
        if node.op == "fence" and node.attrs.get("scope") != "workgroup":
            self.env.streams.drain()
            order = {"acquire": "acquire", "release": "release"}.get(str(node.attrs.get("order")), "acq_rel")
            self.c.do(f"fence {order}")


_DIVIDE = frozenset(("floordiv", "mod", "tdiv", "trem"))
_Value = Callable[[Gang, Node], Value]
_VALUES: dict[str, _Value] = {
    "slot_get": Gang.slot_get,
    "load": Gang.load,
    "atomic_rmw": Gang.atomic_rmw,
    "atomic_cas": Gang.atomic_cas,
    "atomic_load": Gang.atomic_load,
    "uniform": Gang.uniform,
    "subgroup_reduce": Gang.subgroup_reduce,
    "subgroup_scan": Gang.subgroup_scan,
    **dict.fromkeys(
        ("subgroup_shuffle", "subgroup_shuffle_xor", "subgroup_shuffle_up", "subgroup_shuffle_down"),
        Gang.subgroup_shuffle,
    ),
    "subgroup_broadcast": Gang.subgroup_broadcast,
    "subgroup_ballot": Gang.subgroup_ballot,
    "subgroup_any": Gang.subgroup_vote,
    "subgroup_all": Gang.subgroup_vote,
    "subgroup_elect": Gang.subgroup_elect,
    "malloc": Gang.malloc,
    "ptr_load": Gang.ptr_load,
}
_EFFECTS: dict[str, Callable[[Gang, Node], None]] = {
    "slot_set": Gang.slot_set,
    "store": Gang.store,
    "atomic_store": Gang.atomic_store,
    "if": Gang.if_,
    "loop": Gang.loop,
    "break": Gang.break_,
    "break_if": Gang.break_if,
    "continue": Gang.continue_,
    "return": Gang.return_,
    "fence": Gang.fence,
    "subgroup_barrier": Gang.fence,
    "assert": Gang.assert_,
    "print": Gang.print_,
    "trap": Gang.assert_,
    "free": Gang.free,
    "ptr_store": Gang.ptr_store,
}


def supported(op: str) -> bool:
    """Whether the cpu backend has code for ``op``."""
    from magpie.backends.cpu.gang import LEAVES
    from magpie.backends.llvm.elementwise import knows

    return (
        op in _VALUES
        or op in _EFFECTS
        or op in LEAVES
        or op in ("const", "barrier", "select", "cast", "bitcast")
        or op in ("ptr_add", "ptr_valid")  # arithmetic on addresses
        or (op in OPS and knows(op))
    )
