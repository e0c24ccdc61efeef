"""Splits value structs into their scalars, so that backends see scalars only.

Struct slots become one slot a leaf; a struct parameter ``p`` becomes scalars ``p.x``, which keep their place in the
layout (computed before); an element of a struct buffer is accessed leaf by leaf through the `field` attribute; shared
and local arrays of structs become one array a leaf.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from magpie.dtypes import DType, StructType, Type, leaf_name, leaves
from magpie.ir.nodes import Array, Buffer, Kernel, LocalArray, Node, Scalar, SharedArray, Slot
from magpie.passes.rewrite import Rewriter

__all__ = ["split_structs"]

Path = tuple[int, ...]
A = TypeVar("A", bound=Array)


class _Splitter(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel_in = kernel
        # the leaves of each struct value, in order
        self.parts: dict[Node, list[Node]] = {}
        # of a struct type, by identity, which leaf each field begins with
        self.starts: dict[int, tuple[StructType, list[int]]] = {}
        self.leaf_slots: dict[Slot, list[Slot]] = {}
        self.leaf_arrays: dict[Array, dict[Path, Array]] = {}
        self.shared: list[SharedArray] = []
        self.locals: list[LocalArray] = []
        for shared in kernel.shared:
            made = [SharedArray(n, t, shared.shape, shared.loc) for n, t in self.leaf_list(shared)]
            self.shared += self.split_to(shared, made)
        for local in kernel.locals:
            parts = [LocalArray(n, t, local.shape, local.loc) for n, t in self.leaf_list(local)]
            self.locals += self.split_to(local, parts)

    @staticmethod
    def leaf_list(array: Array) -> list[tuple[str, DType]]:
        return [(leaf_name(array.name, array.type, path), t) for path, t, _ in leaves(array.type)]

    def split_to(self, array: A, made: list[A]) -> list[A]:
        """Note which array holds which leaf; arrays of scalars stay as they are."""
        if not isinstance(array.type, StructType):
            return [array]
        paths = [path for path, _, _ in leaves(array.type)]
        self.leaf_arrays[array] = dict(zip(paths, made, strict=True))
        return made

    def of(self, node: Node) -> list[Node]:
        """The scalar leaves of a value."""
        return self.parts[node] if node in self.parts else [self.value(node)]

    def slots_of(self, slot: Slot) -> list[Slot]:
        if slot not in self.leaf_slots:
            self.leaf_slots[slot] = [Slot(leaf_name(slot.name, slot.type, p), t) for p, t, _ in leaves(slot.type)]
        return self.leaf_slots[slot]

    def visit(self, node: Node) -> None:
        out = self.out
        out.loc = node.loc
        op = node.op
        struct = isinstance(node.type, StructType)
        if op == "struct_make":
            self.parts[node] = [leaf for a in node.args for leaf in self.of(a)]
        elif op == "struct_get":
            self.get_field(node)
        elif op == "param" and struct:
            self.parts[node] = [
                out.emit("param", type=t, name=leaf_name(node.attrs["name"], node.type, path))  # type: ignore[arg-type]
                for path, t, _ in leaves(node.type)  # type: ignore[arg-type]
            ]
        elif op == "slot_get" and struct:
            self.parts[node] = [out.get(s) for s in self.slots_of(node.attrs["slot"])]
        elif op == "slot_set" and isinstance(node.attrs["slot"].type, StructType):
            for slot, value in zip(self.slots_of(node.attrs["slot"]), self.of(node.args[0]), strict=True):
                out.set(slot, value)
        elif op == "select" and struct:
            cond = self.value(node.args[0])
            pairs = zip(self.of(node.args[1]), self.of(node.args[2]), strict=True)
            self.parts[node] = [out.select(cond, a, b) for a, b in pairs]
        elif op in ("load", "store") and isinstance(node.attrs["array"].type, StructType):
            self.access(node)
        else:
            self.keep(node)

    def get_field(self, node: Node) -> None:
        struct = node.args[0].type
        assert isinstance(struct, StructType)
        if id(struct) not in self.starts:
            counts = [sum(1 for _ in leaves(f.type)) for f in struct.fields]
            self.starts[id(struct)] = (struct, list(accumulate(counts, initial=0)))  # it stays, and its id with it
        starts, field = self.starts[id(struct)][1], node.attrs["field"]
        picked = self.of(node.args[0])[starts[field] : starts[field + 1]]
        if isinstance(node.type, StructType):
            self.parts[node] = picked
        else:
            self.values[node] = picked[0]

    def access(self, node: Node) -> None:
        array: Array = node.attrs["array"]
        head: Path = node.attrs.get("field") or ()
        element: Type = array.type
        for position in head:
            assert isinstance(element, StructType)
            element = element.fields[position].type
        indices = tuple(self.value(a) for a in node.args[: array.rank])
        split = self.leaf_arrays.get(array)
        places: list[tuple[Array, Path | None]] = [
            (split[head + p], None) if split else (array, head + p) for p, _, _ in leaves(element)
        ]
        if node.op == "load":
            loaded = [self.out.load(a, *indices, field=f) for a, f in places]
            if isinstance(element, StructType):
                self.parts[node] = loaded
            else:
                self.values[node] = loaded[0]
        else:
            for (a, f), value in zip(places, self.of(node.args[-1]), strict=True):
                self.out.store(a, indices, value, field=f)
        if not node.checked:
            for made in self.out.region[-len(places) :]:
                made.attrs["unchecked"] = True


def _needed(kernel: Kernel) -> bool:
    types: list[Type] = [a.type for a in (*kernel.buffers, *kernel.shared, *kernel.locals)]
    types += [p.type for p in kernel.scalars]
    if any(isinstance(t, StructType) for t in types):
        return True
    stack = [kernel.body]
    while stack:
        for node in stack.pop():
            if isinstance(node.type, StructType):
                return True
            stack.extend(node.regions)
    return False


def split_structs(kernel: Kernel) -> Kernel:
    """``kernel`` without struct values. Calls must have been inlined."""
    if not _needed(kernel):
        return kernel
    splitter = _Splitter(kernel)
    body = splitter.region(kernel.body)
    params: list[Buffer | Scalar] = []
    for p in kernel.params:
        if isinstance(p, Scalar) and isinstance(p.type, StructType):
            params += [Scalar(leaf_name(p.name, p.type, path), t, p.loc) for path, t, _ in leaves(p.type)]
        else:
            params.append(p)
    return replace(kernel, body=body, params=params, shared=splitter.shared, locals=splitter.locals)
