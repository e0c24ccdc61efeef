"""The launch block as values of the entry block: arguments, extents, strides, sizes."""

from __future__ import annotations

from magpie.backends.cpu import abi
from magpie.backends.cpu.values import Value
from magpie.backends.llvm.emitter import Code, element, memory_element
from magpie.dtypes import DType, StructType, leaf_name, leaves
from magpie.ir.layout import BufferField, KernelLayout, ScalarField, folded
from magpie.ir.nodes import Array, Buffer, Kernel, Node

__all__ = ["Launch"]


class Launch:
    """Reads the launch block once, in the entry block, each word at its first use."""

    def __init__(self, code: Code, kernel: Kernel, original: Kernel, layout: KernelLayout) -> None:
        self.code = code
        self.kernel = kernel
        self.layout = layout
        self.words: dict[tuple[int, str], str] = {}
        self.buffers = {p.name: p for p in layout.params if isinstance(p, BufferField)}
        # by name, and by leaf name ("p.x") for structs, which `prepare` has split
        offset = {p.name: p.offset for p in layout.params if isinstance(p, ScalarField)}
        self.scalars = dict(offset)
        for scalar in original.scalars:
            if isinstance(scalar.type, StructType):
                for path, _, at in leaves(scalar.type):
                    self.scalars[leaf_name(scalar.name, scalar.type, path)] = offset[scalar.name] + at
        self.shared_word: dict[str, int] = {}
        word = abi.EXTENT_WORD
        for s in layout.shared:
            if s.dynamic:
                self.shared_word[s.name] = word
                word += len(s.extents)

    def load(self, offset: int, type_: str = "i64") -> str:
        """The value of ``type_`` at a byte offset of the block."""
        found = self.words.get((offset, type_))
        if found is None:
            entry, c = self.code.entry, self.code
            at = c.op_in(entry, f"getelementptr i8, ptr %args, i64 {offset}")
            found = c.op_in(entry, f"load {type_}, ptr {at}, align 1, !invariant.load !0")
            self.words[offset, type_] = found
        return found

    def tail(self, word: int) -> str:
        """A word after the arguments."""
        return self.load(self.layout.size + 8 * word)

    def reads(self, word: int) -> bool:
        """Whether the code so far looks at a word after the arguments."""
        return (self.layout.size + 8 * word, "i64") in self.words

    def uniform(self, text: str) -> Value:
        return Value(0, text, "i64", self.code.entry if text.startswith("%") else None)

    def size(self, dim: int) -> str:
        """workgroup_size along ``dim``."""
        fixed = self.kernel.known_workgroup
        return str(fixed[dim]) if fixed else self.tail(abi.BLOCK_WORD + dim)

    def groups(self, dim: int) -> str:
        """num_workgroups along ``dim``."""
        return self.tail(abi.GRID_WORD + dim)

    def scalar(self, node: Node) -> Value:
        """A `param` node. Leaves of a split struct are called ``p.x``."""
        name, t = node.attrs["name"], node.dtype
        raw = self.load(self.scalars[name], memory_element(t))
        if t.is_bool or t.bits == 16:
            raw = self.decode(raw, t)
        return Value(0, raw, element(t), self.code.entry)

    def decode(self, raw: str, t: DType) -> str:
        """The register form of a bool or half, made in the entry block."""
        from magpie.backends.llvm.casts import Casts

        c, saved = self.code, self.code.at_block
        c.at_block = c.entry
        out = Casts(c, 1).from_memory(raw, t)
        c.at_block = saved
        return out

    def pointer(self, buffer: Buffer) -> str:
        return self.load(self.buffers[buffer.name].offset, "ptr")

    def extent(self, array: Array, dim: int) -> str:
        """An extent as text of an i64."""
        if isinstance(array, Buffer):
            return self.load(self.buffers[array.name].extents + 8 * dim)
        size = folded(array.shape[dim], self.kernel.known_workgroup)  # type: ignore[attr-defined]
        if size is not None:
            return str(size)
        return self.tail(self.shared_word[self.shared_name(array)] + dim)

    def shared_name(self, array: Array) -> str:
        """The name under which the layout knows a shared array (leaves of split struct arrays are called ``s.x``)."""
        return array.name if array.name in self.shared_word else array.name.partition(".")[0]

    def stride(self, array: Array, dim: int) -> str:
        """A stride in elements as text of an i64; a product of extents where the array is known to be contiguous."""
        if isinstance(array, Buffer) and array.name not in self.kernel.facts.contiguous:
            return self.load(self.buffers[array.name].strides + 8 * dim)
        text = "1"
        for d in range(array.rank - 1, dim, -1):
            text = self.times(text, self.extent(array, d))
        return text

    def times(self, a: str, b: str) -> str:
        """A product of two words, made once, in the entry block."""
        if a.isdigit() and b.isdigit():
            return str(int(a) * int(b))
        if a == "1" or b == "1":
            return b if a == "1" else a
        key = (0, f"{a}*{b}")
        if key not in self.words:
            self.words[key] = self.code.op_in(self.code.entry, f"mul i64 {a}, {b}")
        return self.words[key]
