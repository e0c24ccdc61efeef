"""Atomics, fences, barriers, and the memory model that they ask for (RULES 12).

A kernel with an atomic or a fence uses the Vulkan memory model: there an access says that others may see it
(NonPrivatePointer), and what synchronises says that writes become available to others, or theirs visible. All other
kernels use GLSL450's, whose barriers order what lies in shared memory and in arrays that are `Coherent`.

Elements of buffers below 32 bits have no atomics of their own: what `magpie.passes.legalise.atomics` leaves of these is
done on the word around them, whose other elements stay as they are whoever writes them.
"""

from __future__ import annotations

from typing import Any

from magpie.backends.spirv.module import Operand
from magpie.backends.spirv.subgroups import Subgroups
from magpie.dtypes import DType
from magpie.ir.nodes import Array, Buffer, Kernel, Node, SharedArray, walk

__all__ = ["Atomics", "memory_model", "native_atomic"]

_ORDERED = ("fence", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store")
_SYNC = (*_ORDERED, "barrier", "subgroup_barrier", "grid_sync")

_INT = {"add": "IAdd", "sub": "ISub", "and": "And", "or": "Or", "xor": "Xor", "exchange": "Exchange"}
_SCOPES = {"device": "Device", "workgroup": "Workgroup"}
# What an order does besides ordering, in the Vulkan memory model.
_ORDERS = {
    "relaxed": "Relaxed",
    "acquire": "Acquire|MakeVisible",
    "release": "Release|MakeAvailable",
    "acq_rel": "AcquireRelease|MakeAvailable|MakeVisible",
}


def memory_model(kernel: Kernel) -> str:
    """The memory model of a kernel's module, "Vulkan" or "GLSL450"."""
    tiles = any(n.op.startswith("tile_") for n in walk(kernel.body))
    return "Vulkan" if tiles or any(n.op in _ORDERED for n in walk(kernel.body)) else "GLSL450"


def native_atomic(profile_has: set[str] | frozenset[str], t: DType, kind: str) -> bool:
    """Whether there is an instruction, or code here, for an atomic of a kind; see `magpie.passes.legalise.atomics`."""
    if t.is_float:
        return t.name == "f32" and "atomic_f32" in profile_has and kind in ("add", "load", "store", "exchange")
    if t.is_bool or t.bits < 32:
        return kind in ("cas", "load", "store")
    return True


class Atomics(Subgroups):
    """Emits what orders memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kernel = self.kernel
        #: Accesses say who sees them, as the Vulkan memory model asks.
        self.explicit = self.module.memory_model == "Vulkan"
        #: Work-items wait for what others write.
        self.synchronises = any(n.op in _SYNC for n in walk(kernel.body))
        self.written = {b for b in kernel.buffers if b.writes}

    # --- what an access says -------------------------------------------------------------------------------------
    def seen_by_others(self, array: Array) -> bool:
        """Whether work-items may exchange values through an array."""
        if isinstance(array, SharedArray):
            return True
        if not isinstance(array, Buffer) or not self.written:
            return False
        return array in self.written or not self.kernel.facts.noalias

    def operands(self, node: Node, array: Array) -> tuple[Operand, ...]:
        shown = self.explicit and self.synchronises and self.seen_by_others(array)
        return ("NonPrivatePointer",) if shown else ()

    # --- barriers ------------------------------------------------------------------------------------------------
    def semantics(self, order: str) -> str:
        """An order on all memory that work-items share."""
        if order == "relaxed":
            return "Relaxed"
        parts = _ORDERS[order] if self.explicit else _ORDERS[order].split("|")[0]
        return f"{parts}|WorkgroupMemory|UniformMemory"

    def barrier(self, node: Node) -> None:
        """All work-items of the workgroup, and what they wrote into shared memory and into arrays."""
        self.f.do("ControlBarrier", "Workgroup", "Workgroup", self.semantics("acq_rel"))

    def subgroup_barrier(self) -> None:
        self.unit.needs.add("subgroups")
        self.module.capability("GroupNonUniform")
        self.f.do("ControlBarrier", "Subgroup", "Subgroup", self.semantics("acq_rel"))

    def fence(self, node: Node) -> None:
        scope = _SCOPES[node.attrs.get("scope") or "device"]
        self.f.do("MemoryBarrier", scope, self.semantics(node.attrs.get("order") or "acq_rel"))

    # --- atomics -------------------------------------------------------------------------------------------------
    def scope(self, node: Node) -> str:
        if isinstance(node.attrs["array"], SharedArray):
            return "Workgroup"
        return _SCOPES[node.attrs.get("scope") or "device"]

    def packed(self, node: Node) -> bool:
        """Whether an atomic's element is a part of a word."""
        array: Array = node.attrs["array"]
        return array.type.itemsize < 4 and isinstance(array, Buffer)

    def atomic_rmw(self, node: Node) -> None:
        array, value = node.attrs["array"], node.args[-1]
        t, kind = value.dtype, node.attrs["kind"]
        pointer = self.pointer(array, node.args[:-1])
        if t.is_float and kind == "add":
            name = "AtomicFAddEXT"
        elif kind in ("min", "max"):
            name = f"Atomic{'S' if t.kind == 'int' else 'U'}{kind.capitalize()}"
        else:
            name = f"Atomic{_INT[kind]}"
        element = self.module.pointee(pointer)
        self.map[node] = self.op(name, element, pointer, self.scope(node), "Relaxed", self.whole(value))

    def atomic_load(self, node: Node) -> None:
        order = self.semantics(node.attrs.get("order") or "relaxed")
        if not self.packed(node):
            pointer = self.pointer(node.attrs["array"], node.args)
            self.map[node] = self.op("AtomicLoad", self.module.pointee(pointer), pointer, self.scope(node), order)
            return
        pointer, first = self.part(node, node.args)
        word = self.op("AtomicLoad", self.u32, pointer, self.scope(node), order)
        self.map[node] = self.from_bits(node.dtype, word, first)

    def atomic_store(self, node: Node) -> None:
        order = self.semantics(node.attrs.get("order") or "relaxed")
        value = node.args[-1]
        if not self.packed(node):
            pointer = self.pointer(node.attrs["array"], node.args[:-1])
            self.f.do("AtomicStore", pointer, self.scope(node), order, self.whole(value))
            return
        pointer, first = self.part(node, node.args[:-1])
        self.exchange_part(node, value.dtype, pointer, first, self.whole(value), None, order)

    def atomic_cas(self, node: Node) -> None:
        expected, desired = (self.whole(a) for a in node.args[-2:])
        if not self.packed(node):
            pointer = self.pointer(node.attrs["array"], node.args[:-2])
            where = (pointer, self.scope(node), "Relaxed", "Relaxed")
            element = self.module.pointee(pointer)
            self.map[node] = self.op("AtomicCompareExchange", element, *where, desired, expected)
            return
        pointer, first = self.part(node, node.args[:-2])
        t = node.dtype
        word = self.exchange_part(node, t, pointer, first, desired, expected, "Relaxed")
        self.map[node] = self.from_bits(t, word, first)

    # --- parts of words ------------------------------------------------------------------------------------------
    def part(self, node: Node, indices: tuple[Node, ...]) -> tuple[int, int]:
        """A pointer to the word around an element of a buffer, and the element's first bit in there."""
        array = node.attrs["array"]
        assert isinstance(array, Buffer)
        at, first = self.place_in_words(array, indices, None)
        return self.word_pointer(array, at), first

    def exchange_part(
        self, node: Node, t: DType, pointer: int, first: int, desired: int, expected: int | None, order: str
    ) -> int:
        """Put ``desired`` into a part of a word, if that holds ``expected`` where given; gives the word as it was.

        A loop, since others may change the other parts between the load and the exchange.
        """
        f, u, scope = self.f, self.u32, self.scope(node)
        mask = self.op("ShiftLeftLogical", u, self.word((1 << 8 * t.itemsize) - 1), first)
        new = self.op("ShiftLeftLogical", u, self.in_word(t, desired), first)
        wanted = None if expected is None else self.op("ShiftLeftLogical", u, self.in_word(t, expected), first)
        seen = f.variable(u, "seen")
        f.store(seen, self.op("AtomicLoad", u, pointer, scope, "Relaxed"))
        header, body, step, done = (f.label() for _ in range(4))
        f.branch(header)
        self.place(header)
        f.loop_merge(done, step)
        f.branch(body)
        self.place(body)
        word = f.load(seen)
        if wanted is not None:
            other = self.op("INotEqual", self.bool, self.op("BitwiseAnd", u, word, mask), wanted)
            same = f.label()
            f.selection_merge(same)
            f.branch_if(other, done, same)
            self.place(same)
        rest = self.op("BitwiseAnd", u, word, self.op("Not", u, mask))
        put = self.op("BitwiseOr", u, rest, new)
        found = self.op("AtomicCompareExchange", u, pointer, scope, order, "Relaxed", put, word)
        f.store(seen, found)
        f.branch(step)
        self.place(step)
        f.branch_if(self.op("IEqual", self.bool, found, word), done, header)
        self.place(done)
        return f.load(seen)
