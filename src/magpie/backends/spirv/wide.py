"""Loads and stores of several elements: see `magpie.passes.wide_accesses`.

A buffer has one more variable at its binding then, whose elements are vectors; elements of less than 4 bytes are moved
in words. A shared array is an array of vectors itself, if it has more runs than other accesses, which reach a component
of a vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from magpie.backends.spirv.memory import Memory
from magpie.dtypes import DType
from magpie.ir.nodes import Array, Buffer, Node, SharedArray, walk
from magpie.passes.wide_accesses import Run, wide_accesses

__all__ = ["Wide"]


class Wide(Memory):
    """Emits accesses, some of them together."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.runs: dict[Node, Run] = {}
        #: Shared arrays of vectors, and the elements of each vector.
        self.vectors: dict[Array, int] = {}
        if not self.checked and self.kernel.facts.aligned:
            self.plan_runs()

    def plan_runs(self) -> None:
        """Choose the accesses that are done together."""
        found = {n: r for n, r in wide_accesses(self.kernel).items() if self.can_be_wide(n.attrs["array"], r)}
        single = Counter(
            n.attrs["array"] for n in walk(self.kernel.body) if n.op in ("load", "store") and n not in found
        )
        runs: dict[Array, list[Run]] = {}
        for run in dict.fromkeys(found.values()):
            runs.setdefault(run.at.attrs["array"], []).append(run)
        for array, those in runs.items():
            if isinstance(array, SharedArray):
                widths = {len(r.elements) for r in those}
                count = prod(n for n in array.shape if isinstance(n, int))
                if len(widths) > 1 or count % max(widths) or single[array] > len(those):
                    continue
                self.vectors[array] = widths.pop()
            self.runs |= {n: r for r in those for n in r.nodes}

    def can_be_wide(self, array: Array, run: Run) -> bool:
        """Whether the device has vectors of an array's elements, as they lie in memory, or of words of them."""
        t = array.type
        assert isinstance(t, DType)
        return t.itemsize < 4 or (self.has(t) and self.type(t) == self.stored(t))

    # --- addresses -----------------------------------------------------------------------------------------------
    def wide_pointer(self, run: Run) -> int:
        """A pointer to a run, as a vector."""
        m, node, count = self.module, run.at, len(run.elements)
        array: Array = node.attrs["array"]
        first = self.plus(self.offset(array, node.args[: array.rank]), self.word(-run.place))
        at = self.op("ShiftRightLogical", self.u32, first, self.word(count.bit_length() - 1))
        nbytes = count * array.type.itemsize
        if array.type.itemsize < 4:
            vector = self.u32 if nbytes == 4 else m.type_vector(self.u32, nbytes // 4)
        else:
            vector = m.type_vector(self.stored(array.type), count)
        if isinstance(array, Buffer):
            base = self.unit.view(array, vector, nbytes)
            return self.op("AccessChain", m.type_pointer("StorageBuffer", vector), base, m.u32(0), at)
        return self.op("AccessChain", m.type_pointer("Workgroup", vector), self.variable(array)[0], at)

    def pointer(self, array: Array, indices: Sequence[Node], field: tuple[int, ...] | None = None) -> int:
        count = self.vectors.get(array)
        if count is None:
            return super().pointer(array, indices, field)
        at = self.offset(array, indices)
        whole = self.op("ShiftRightLogical", self.u32, at, self.word(count.bit_length() - 1))
        part = self.op("BitwiseAnd", self.u32, at, self.word(count - 1))
        type_ = self.module.type_pointer("Workgroup", self.stored(array.type))
        return self.op("AccessChain", type_, self.variable(array)[0], whole, part)

    # --- loads and stores ----------------------------------------------------------------------------------------
    def load(self, node: Node) -> None:
        run = self.runs.get(node)
        if run is None:
            super().load(node)
        elif run.at is node:
            whole = self.f.load(self.wide_pointer(run), *self.operands(node, node.attrs["array"]))
            for value, nodes in zip(self.parts(whole, node.dtype, len(run.elements)), run.elements, strict=True):
                self.map |= dict.fromkeys(nodes, value)

    def store(self, node: Node) -> None:
        run = self.runs.get(node)
        if run is None:
            super().store(node)
        elif run.at is node:
            pointer = self.wide_pointer(run)
            values = [self.whole(nodes[0].args[-1]) for nodes in run.elements]
            t = node.args[-1].dtype
            if t.itemsize < 4:
                each = 4 // t.itemsize
                values = [self.word_of(t, values[k : k + each]) for k in range(0, len(values), each)]
            whole = values[0]
            if len(values) > 1:
                whole = self.op("CompositeConstruct", self.module.pointee(pointer), *values)
            self.f.store(pointer, whole, *self.operands(node, node.attrs["array"]))

    def parts(self, whole: int, t: DType, count: int) -> list[int]:
        """The ``count`` values of type ``t`` of a vector, or of the words of one."""
        if t.itemsize >= 4:
            return [self.op("CompositeExtract", self.type(t), whole, k) for k in range(count)]
        size = count * t.itemsize // 4
        words = [whole] if size == 1 else [self.op("CompositeExtract", self.u32, whole, k) for k in range(size)]
        if self.native(t):
            half = self.type(t)
            pairs = [self.op("Bitcast", self.module.type_vector(half, 2), word) for word in words]
            return [self.op("CompositeExtract", half, pair, k) for pair in pairs for k in range(2)]
        bits = range(0, 32, 8 * t.itemsize)
        return [self.from_bits(t, word, self.word(bit)) for word in words for bit in bits]

    def word_of(self, t: DType, values: list[int]) -> int:
        """A word of values of fewer bits, the first one lowest."""
        if self.native(t):
            pair = self.op("CompositeConstruct", self.module.type_vector(self.type(t), 2), *values)
            return self.op("Bitcast", self.u32, pair)
        word = self.in_word(t, values[0])
        for k, value in enumerate(values[1:], 1):
            shifted = self.op("ShiftLeftLogical", self.u32, self.in_word(t, value), self.word(8 * t.itemsize * k))
            word = self.op("BitwiseOr", self.u32, word, shifted)
        return word
