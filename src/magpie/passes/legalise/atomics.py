"""Atomics as those that a shading language has: on integers, and by compare-and-exchange where there is no instruction.

An array with an atomic on floats that the target lacks becomes one of integers: its bits. A shared array with atomics
on fewer than 32 bits becomes one of 32: its elements take more room there, and have no neighbours in their words. Such
arrays in buffers keep their elements; of what is done to these, loads, stores and compare-and-exchange are left, which
the backend does on the word around them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from magpie.dtypes import DType, i32, u8, u16, u32, u64
from magpie.ir.nodes import Array, Buffer, Kernel, Node, SharedArray, Slot, walk
from magpie.passes.rewrite import Rewriter

__all__ = ["Native", "lower_atomics"]

#: Whether a target does an atomic on a type itself: (type, kind) -> yes or no. The kinds are those of `atomic_rmw`, and
#: "cas", "load" and "store", which every target has for 32-bit integers.
Native = Callable[[DType, str], bool]

_BITS = {8: u8, 16: u16, 32: u32, 64: u64}

# What leaves a narrow integer one in a register of 32 bits, extended by its sign.
_CLOSED = ("and", "or", "xor", "min", "max", "exchange")


def lower_atomics(kernel: Kernel, native: Native) -> Kernel:
    """``kernel``, which has no calls, structs and tiles, with its atomics lowered. Layouts are those of ``kernel``
    itself, but for the sizes of shared arrays."""
    used: dict[Array, set[str]] = {}
    for node in walk(kernel.body):
        if node.op.startswith("atomic_"):
            used.setdefault(node.attrs["array"], set()).add(_kind(node))
    if not used:
        return kernel
    lowering = _Lowering(native, used)
    body = lowering.region(kernel.body)
    return replace(
        kernel,
        body=body,
        params=[lowering.buffers.get(p, p) if isinstance(p, Buffer) else p for p in kernel.params],
        shared=[lowering.shared.get(s, s) for s in kernel.shared],
    )


def _kind(node: Node) -> str:
    return str(node.attrs["kind"]) if node.op == "atomic_rmw" else node.op.removeprefix("atomic_")


class _Lowering(Rewriter):
    def __init__(self, native: Native, used: dict[Array, set[str]]) -> None:
        super().__init__(
            {
                "load": lambda rw, node: self.access(node),
                "store": lambda rw, node: self.access(node),
                "atomic_load": lambda rw, node: self.access(node),
                "atomic_store": lambda rw, node: self.access(node),
                "atomic_cas": lambda rw, node: self.access(node),
                "atomic_rmw": lambda rw, node: self.rmw(node),
            }
        )
        self.native = native
        self.buffers: dict[Buffer, Buffer] = {}
        self.shared: dict[SharedArray, SharedArray] = {}
        for array, kinds in used.items():
            assert isinstance(array.type, DType)
            held = self.held(array, array.type, kinds)
            if held is array.type:
                continue
            if isinstance(array, Buffer):
                new = self.buffers[array] = Buffer(array.name, held, array.rank, array.access, array.loc)
                self.arrays[array] = new
            else:
                assert isinstance(array, SharedArray)
                self.arrays[array] = self.shared[array] = SharedArray(array.name, held, array.shape, array.loc)

    def held(self, array: Array, t: DType, kinds: set[str]) -> DType:
        """The type that an array with atomics of these kinds has afterwards."""
        if t.is_float and not all(self.does(t, kind) for kind in kinds):
            t = _BITS[t.bits]
        if isinstance(array, SharedArray) and t.itemsize < 4:
            return i32 if t.is_int and t.min < 0 else u32
        return t

    def does(self, t: DType, kind: str) -> bool:
        """Whether the target does it, if by another kind: x - y is x + -y, also of floats."""
        return self.native(t, kind) or (t.is_float and kind == "sub" and self.native(t, "add"))

    # --- values --------------------------------------------------------------------------------------------------
    def encoded(self, value: Node, held: DType) -> Node:
        """A value as an element."""
        out, t = self.out, value.dtype
        if t is held:
            return value
        if t.is_bool:
            return out.select(value, out.const(1, held), out.const(0, held))
        if t.is_float:
            value = out.emit("bitcast", value, type=_BITS[t.bits])
        return out.cast(value, held)

    def decoded(self, value: Node, t: DType) -> Node:
        """An element as a value of type ``t``."""
        out, held = self.out, value.dtype
        if t is held:
            return value
        if t.is_bool:
            return out.emit("ne", value, out.const(0, held))
        if t.is_float:
            return out.emit("bitcast", out.cast(value, _BITS[t.bits]), type=t)
        return out.cast(value, t)

    # --- accesses ------------------------------------------------------------------------------------------------
    def access(self, node: Node) -> Node | None:
        """A load, a store or a compare-and-exchange: as it is, on the elements that there are."""
        old: Array = node.attrs["array"]
        array = self.arrays.get(old)
        if array is None:
            return self.keep(node)
        indices = [self.value(a) for a in node.args[: old.rank]]
        assert isinstance(array.type, DType) and isinstance(old.type, DType)
        values = [self.encoded(self.value(a), array.type) for a in node.args[old.rank :]]
        new = self.out.emit(node.op, *indices, *values, **(node.attrs | {"array": array}))
        return self.decoded(new, old.type) if node.type is not None else None

    def rmw(self, node: Node) -> Node:
        out = self.out
        old: Array = node.attrs["array"]
        array = self.arrays.get(old, old)
        t, held = old.type, array.type
        assert isinstance(t, DType) and isinstance(held, DType)
        kind: str = node.attrs["kind"]
        indices = tuple(self.value(a) for a in node.args[:-1])
        value = self.value(node.args[-1])
        attrs = node.attrs | {"array": array}
        if t is held and t.is_float and kind == "sub" and not self.native(t, kind):
            kind, value = "add", out.emit("neg", value)
        same = t is held or kind == "exchange" or (not t.is_float and kind in _CLOSED)
        if same and self.native(held, kind):
            new = out.emit("atomic_rmw", *indices, self.encoded(value, held), **(attrs | {"kind": kind}))
            return self.decoded(new, t)
        return self.looped(node, indices, kind, value, attrs)

    def looped(self, node: Node, indices: tuple[Node, ...], kind: str, value: Node, attrs: dict[str, Any]) -> Node:
        """memory = memory (kind) value, tried until nobody came between; gives what stood there before."""
        out, t = self.out, value.dtype
        attrs = {k: v for k, v in attrs.items() if k != "kind"}
        first = out.emit("atomic_load", *indices, order="relaxed", **attrs)
        held = first.dtype
        seen = Slot("seen", held)
        out.set(seen, first)
        _, body, _ = out.loop()
        with out.into(body):
            before = out.get(seen)
            new = value if kind == "exchange" else out.emit(kind, self.decoded(before, t), value)
            found = out.emit("atomic_cas", *indices, before, self.encoded(new, held), **attrs)
            out.set(seen, found)
            out.emit("break_if", out.emit("eq", found, before))
        return self.decoded(out.get(seen), t)
