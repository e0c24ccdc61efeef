"""Arrays, slots and the accesses to them.

A buffer is a storage buffer at its own binding, a runtime array of its elements; shared arrays are Workgroup variables,
local ones and slots Function variables, tables of constants Private ones. Offsets are computed modulo 2^32, since no
binding is larger. What a device cannot address in its own size (bytes, halves, 64 bits) is reached by words.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from magpie.backends.spirv.index import Index
from magpie.backends.spirv.module import Operand
from magpie.dtypes import DType, StructType, Type, u8, u16
from magpie.ir.nodes import Array, Buffer, ConstArray, LocalArray, Node, SharedArray, Slot, leaf_offset

__all__ = ["LONG", "Memory"]

#: Elements of a local array that its initialiser may set to zero: drivers write each by itself. Longer ones are cleared
#: in a loop, for which they need less time by far (lavapipe's is quadratic, and NVIDIA's refuses the module).
LONG = 64


class Memory(Index):
    """Emits slots, loads and stores."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slots: dict[Slot, int] = {}
        self.places: dict[Array, int] = {}  # shared, local and constant arrays: their variables

    # --- seams ---------------------------------------------------------------------------------------------------
    def extent(self, array: Array, dim: int) -> int:
        """The low 32 bits of an extent."""
        raise NotImplementedError

    def stride(self, array: Array, dim: int) -> int:
        """The low 32 bits of a stride in elements."""
        raise NotImplementedError

    def first_element(self, buffer: Buffer) -> int:
        """The element of its binding at which a buffer begins."""
        raise NotImplementedError

    def shared_variable(self, array: SharedArray) -> int:
        """The Workgroup variable of a shared array."""
        raise NotImplementedError

    def operands(self, node: Node, array: Array) -> tuple[Operand, ...]:
        """The memory operands of a load or a store: what the memory model asks of it."""
        return ()

    # --- slots ---------------------------------------------------------------------------------------------------
    def slot(self, slot: Slot) -> int:
        """The variable of a slot, zero at the start."""
        found = self.slots.get(slot)
        if found is None:
            type_ = self.type(self.slot_type(slot))
            found = self.slots[slot] = self.f.variable(type_, slot.name, self.module.null(type_))
        return found

    def slot_get(self, node: Node) -> None:
        slot = node.attrs["slot"]
        held = self.lows if self.forms.low_slot(slot) else self.map
        held[node] = self.f.load(self.slot(slot))

    def slot_set(self, node: Node) -> None:
        slot, value = node.attrs["slot"], node.args[0]
        self.f.store(self.slot(slot), self.low(value) if self.forms.low_slot(slot) else self.whole(value))

    # --- variables -----------------------------------------------------------------------------------------------
    def stored(self, t: Type) -> int:
        """The type of an element of a buffer."""
        if isinstance(t, StructType):
            members, offsets = [self.stored(f.type) for f in t.fields], [f.offset for f in t.fields]
            return self.module.type_struct(members, offsets, [f.name for f in t.fields], t.name)
        if t.is_bool:
            return self.module.type_int(8)
        if t.is_float and (t.bits > 16 or self.native(t)):
            return self.module.type_float(t.bits)
        return self.module.type_int(t.bits)

    def storable(self, t: Type) -> bool:
        """Whether elements of buffers of a type can be loaded and stored by themselves."""
        if isinstance(t, StructType):
            return all(self.storable(f.type) for f in t.fields)
        if t.itemsize < 4:
            return f"s{8 * t.itemsize}" in self.profile
        return t.bits == 32 or self.has(t)

    def variable(self, array: Array) -> tuple[int, str]:
        """(variable, storage class) of an array that is no buffer."""
        found = self.places.get(array)
        if isinstance(array, SharedArray):
            if found is None:
                found = self.places[array] = self.shared_variable(array)
            return found, "Workgroup"
        assert isinstance(array.type, DType)
        m, t = self.module, array.type
        storage = "Function" if isinstance(array, LocalArray) else "Private"
        if found is None:
            element = self.type(t)
            count = prod(array.shape)  # type: ignore[attr-defined]
            type_ = m.type_array(element, m.u32(max(1, count)))
            if isinstance(array, ConstArray):
                values = [self.constant(v, t) for v in array.values] or [self.zero(t)]
                found = m.variable("Private", type_, array.name, m.constant_composite(type_, *values))
                m.decorate(found, "NonWritable")
            else:
                found = self.f.variable(type_, array.name, m.null(type_) if count <= LONG else None)
            self.places[array] = found
        return found, storage

    # --- addresses -----------------------------------------------------------------------------------------------
    def plus(self, a: int, b: int) -> int:
        """The sum of two numbers of 32 bits."""
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return self.word(x + y)
        return b if x == 0 else a if y == 0 else self.op("IAdd", self.u32, a, b)

    def times(self, a: int, b: int) -> int:
        """The product of two numbers of 32 bits."""
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return self.word(x * y)
        if x == 0 or y == 0:
            return self.word(0)
        return b if x == 1 else a if y == 1 else self.op("IMul", self.u32, a, b)

    def offset(self, array: Array, indices: Sequence[Node]) -> int:
        """The number of an element, in its binding or its variable, modulo 2^32."""
        total = self.first_element(array) if isinstance(array, Buffer) else self.word(0)
        for dim, index in enumerate(indices):
            total = self.plus(total, self.times(self.low(index), self.stride(array, dim)))
        return total

    def pointer(self, array: Array, indices: Sequence[Node], field: tuple[int, ...] | None = None) -> int:
        """A pointer to an element, or to a leaf of it, of its own type in memory."""
        m = self.module
        at = self.offset(array, indices)
        if isinstance(array, Buffer):
            base = self.unit.view(array, self.stored(array.type), array.type.itemsize)
            leaf = self.stored(leaf_offset(array, field)[0])
            path = [m.u32(k) for k in field or ()]
            return self.op("AccessChain", m.type_pointer("StorageBuffer", leaf), base, m.u32(0), at, *path)
        base, storage = self.variable(array)
        assert isinstance(array.type, DType)
        element = self.shared_element(array.type) if storage == "Workgroup" else self.type(array.type)
        return self.op("AccessChain", m.type_pointer(storage, element), base, at)

    def shared_element(self, t: DType) -> int:
        """The type of an element of a shared array."""
        return self.type(u8) if t.is_bool else self.type(t)

    def word_pointer(self, buffer: Buffer, at: int, more: int = 0) -> int:
        """A pointer to word number ``at + more`` of a buffer's binding."""
        base = self.unit.view(buffer, self.u32, 4)
        at = self.plus(at, self.word(more))
        return self.op("AccessChain", self.module.type_pointer("StorageBuffer", self.u32), base, self.word(0), at)

    def by_words(self, array: Array) -> bool:
        """Whether an array is reached by words."""
        return isinstance(array, Buffer) and not self.storable(array.type)

    def place_in_words(self, buffer: Buffer, indices: Sequence[Node], field: tuple[int, ...] | None) -> tuple[int, int]:
        """Where a leaf of an element lies: its word, and the first of its bits in there."""
        _, offset, _ = leaf_offset(buffer, field)
        size, at = buffer.type.itemsize, self.offset(buffer, indices)
        if size % 4 == 0:
            word = self.plus(self.times(at, self.word(size // 4)), self.word(offset // 4))
            return word, self.word(offset % 4 * 8)
        byte = self.plus(self.times(at, self.word(size)), self.word(offset))
        word = self.op("ShiftRightLogical", self.u32, byte, self.word(2))
        rest = self.op("BitwiseAnd", self.u32, byte, self.word(3))
        return word, self.op("ShiftLeftLogical", self.u32, rest, self.word(3))

    # --- loads and stores ----------------------------------------------------------------------------------------
    def load(self, node: Node) -> None:
        array: Array = node.attrs["array"]
        field = node.attrs.get("field")
        if self.by_words(array):
            assert isinstance(array, Buffer)
            self.load_words(node, array, field)
            return
        pointer = self.pointer(array, node.args, field)
        raw = self.f.load(pointer, *self.operands(node, array))
        self.map[node] = self.from_memory(raw, node.dtype)

    def store(self, node: Node) -> None:
        array: Array = node.attrs["array"]
        field = node.attrs.get("field")
        if self.by_words(array):
            assert isinstance(array, Buffer)
            self.store_words(node, array, field)
            return
        pointer = self.pointer(array, node.args[:-1], field)
        value = self.to_memory(self.whole(node.args[-1]), node.args[-1].dtype, self.module.pointee(pointer))
        self.f.store(pointer, value, *self.operands(node, array))

    def from_memory(self, raw: int, t: DType) -> int:
        """A loaded element as values of its type are held."""
        have, want = self.module.type_of(raw), self.type(t)
        if have == want:
            return raw
        if t.is_bool:
            # A device that only stores bytes converts them, and does no more.
            byte = raw if have == self.u32 or self.has(u8) else self.op("UConvert", self.u32, raw)
            return self.op("INotEqual", self.bool, byte, self.module.null(self.module.type_of(byte)))
        return self.op("SConvert" if t.kind == "int" else "UConvert", want, raw)

    def to_memory(self, value: int, t: DType, element: int) -> int:
        """A value as an element of type ``element``."""
        if self.module.type_of(value) == element:
            return value
        if t.is_bool:
            m, held = self.module, element if self.has(u8) else self.u32
            value = self.op("Select", held, value, m.constant(held, 1), m.null(held))
            if held == element:
                return value
        return self.op("UConvert", element, value)

    def load_words(self, node: Node, buffer: Buffer, field: tuple[int, ...] | None) -> None:
        t = node.dtype
        at, first = self.place_in_words(buffer, node.args, field)
        operands = self.operands(node, buffer)
        word = self.f.load(self.word_pointer(buffer, at), *operands)
        if t.bits == 64:
            self.set_pair(node, word, self.f.load(self.word_pointer(buffer, at, 1), *operands))
        elif t.itemsize == 4:
            self.map[node] = word if self.type(t) == self.u32 else self.op("Bitcast", self.type(t), word)
        else:
            self.map[node] = self.from_bits(t, word, first)

    def from_bits(self, t: DType, word: int, first: int) -> int:
        """The value of type ``t`` that begins at a bit of a word."""
        size = self.word(8 * t.itemsize)
        name = "BitFieldSExtract" if t.kind == "int" else "BitFieldUExtract"
        value = self.op(name, self.u32, word, first, size)
        if t.is_bool:
            return self.op("INotEqual", self.bool, value, self.word(0))
        if self.type(t) == self.u32:
            return value
        small = u8 if t.itemsize == 1 else u16
        self.module.need_narrow(self.type(small))
        return self.bitcast(self.op("UConvert", self.type(small), value), small, t)

    def in_word(self, t: DType, value: int) -> int:
        """The bits of a value of fewer than 32, zeros above."""
        if t.is_bool:
            return self.op("Select", self.u32, value, self.word(1), self.word(0))
        if self.type(t) == self.u32:
            return self.op("BitwiseAnd", self.u32, value, self.word((1 << t.bits) - 1))
        bits = self.bitcast(value, t, u8 if t.itemsize == 1 else u16)
        return self.op("UConvert", self.u32, bits)

    def store_words(self, node: Node, buffer: Buffer, field: tuple[int, ...] | None) -> None:
        value = node.args[-1]
        t = value.dtype
        at, first = self.place_in_words(buffer, node.args[:-1], field)
        pointer = self.word_pointer(buffer, at)
        operands = self.operands(node, buffer)
        if t.bits == 64:
            low, high = self.pair(value)
            self.f.store(pointer, low, *operands)
            self.f.store(self.word_pointer(buffer, at, 1), high, *operands)
        elif t.itemsize == 4:
            bits = self.whole(value)
            self.f.store(pointer, bits if self.type(t) == self.u32 else self.op("Bitcast", self.u32, bits), *operands)
        else:
            self.insert_bits(pointer, t, self.whole(value), first)

    def insert_bits(self, pointer: int, t: DType, value: int, first: int) -> None:
        """Write a part of a word, whose other parts others may be writing: two atomic operations (RULES 15)."""
        value = self.in_word(t, value)
        full = self.word((1 << 8 * t.itemsize) - 1)
        mask = self.op("ShiftLeftLogical", self.u32, full, first)
        part = self.op("BitwiseAnd", self.u32, self.op("ShiftLeftLogical", self.u32, value, first), mask)
        others = self.op("Not", self.u32, mask)
        self.op("AtomicAnd", self.u32, pointer, "Device", "Relaxed", others)
        self.op("AtomicOr", self.u32, pointer, "Device", "Relaxed", part)
