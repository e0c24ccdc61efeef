"""Where an access of a gang goes: one place, a line with a stride, or a place for each lane."""

from __future__ import annotations

from magpie.backends.cpu.gang import GangBase
from magpie.backends.cpu.plain import plain
from magpie.backends.cpu.streaming import Past
from magpie.backends.cpu.values import Value
from magpie.backends.llvm.emitter import constant, memory_element, splat
from magpie.dtypes import DType, index
from magpie.ir.nodes import Array, Buffer, ConstArray, Node, leaf_offset
from magpie.ir.ops import OPS
from magpie.passes.narrow_index import full

__all__ = ["Address", "AddressMixin"]


@plain
class Address:
    """Where a gang accesses an array: ``base`` (with all uniform parts), plus per lane nothing (kind 0), ``stride``
    bytes times the lane (kind 1), or the vector ``offset`` times ``scale`` bytes (kind 2)."""

    kind: int
    base: str
    t: DType
    suffix: str  # metadata
    stride: int | str = 0
    offset: str = ""
    offset_elem: str = ""
    scale: int = 1
    private: bool = False  # memory of these work-items alone
    regular: bool = False  # a vector of offsets made from coordinates, which may turn out to be consecutive
    past: Past | None = None  # how a store of consecutive lanes goes past the cache


class AddressMixin(GangBase):
    """Addresses of elements."""

    # --- addresses -----------------------------------------------------------------------------------------------
    def pointer(self, array: Array) -> str:
        """The first element of an array; for a local array, of this gang's part."""
        if isinstance(array, Buffer):
            return self.env.launch.pointer(array)
        if isinstance(array, ConstArray):
            return self.const_array(array)
        found = self.local_pointer(array)
        return found if found else self.env.arrays[array][0]

    def local_pointer(self, array: Array) -> str:
        """The pointer of a local array, made by the owner of the gang loop."""
        return ""

    def const_array(self, array: ConstArray) -> str:
        assert isinstance(array.type, DType)
        name = f"table.{array.name}"
        module = self.c.module
        if name not in module.globals:
            elem = memory_element(array.type)
            values = ", ".join(f"{elem} {_memory_literal(v, array.type)}" for v in array.values)
            module.globals[name] = (
                f"@{name} = internal unnamed_addr constant [{len(array.values)} x {elem}] [{values}], align 64"
            )
        return f"@{name}"

    def add(self, a: str, b: str) -> str:
        if a == "0" or b == "0":
            return b if a == "0" else a
        if _is_number(a) and _is_number(b):
            return str(int(a) + int(b))
        return self.c.op(f"add i64 {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        if a == "1" or b == "1":
            return b if a == "1" else a
        if a == "0" or b == "0":
            return "0"
        if _is_number(a) and _is_number(b):
            return str(int(a) * int(b))
        return self.c.op(f"mul i64 {a}, {b}")

    def as_index(self, v: Value, node: Node) -> Value:
        """The operand ``node`` of an access as 64-bit scalars, or a vector of any width."""
        t = node.dtype
        if v.kind == 1 and t.kind == "uint" and v.elem != "i64" and self.env.ranges.of(node) == full(t):
            # a line in its own type, which may wrap around between two lanes; where a signed one does, its lanes lie
            # out of bounds on both sides
            v = Value(2, self.lanes(v), v.elem)
        if v.kind == 2 or v.elem == "i64":
            if v.kind == 2 and t.kind == "uint" and v.elem != "i64":
                wide = self.c.op(f"zext <{self.w} x {v.elem}> {v.text} to <{self.w} x i64>")
                return Value(2, wide, "i64")
            return v
        how = "sext" if t.kind == "int" else "zext"
        text = self.c.op(f"{how} {v.elem} {v.text} to i64") if v.text.startswith("%") else v.text
        if v.kind == 0:
            return self.uni(text, "i64")
        if isinstance(v.stride, int):
            return self.lin(text, "i64", v.stride)
        return self.lin(text, "i64", self.c.op(f"{how} {v.elem} {v.stride} to i64"))

    def address(self, node: Node, indices: list[Value]) -> Address:
        array: Array = node.attrs["array"]
        t, leaf, size = leaf_offset(array, node.attrs.get("field"))
        local = array.space == "local"
        launch = self.env.launch
        fixed, line, vector, vector_elem, beyond = "0", "0", "", "i64", 0
        narrow = self.env.kernel.facts.small and not self.env.checked
        for dim, (v, arg) in enumerate(zip(indices, node.args, strict=False)):
            v = self.as_index(v, arg)
            stride = launch.stride(array, dim)
            if stride == "1" and v.kind < 2 and not local:
                v, beyond = self.split_constant(v, arg)
            if v.kind == 2:
                # spans are below 2**31, so only the low bits of an offset matter (RULES 1)
                elem = "i32" if narrow or (v.elem == "i32" and stride == "1") else "i64"
                part = self.lanes(v, elem)
                if stride != "1":
                    scale = self.narrowed(stride, elem)
                    part = self.c.op(f"mul <{self.w} x {elem}> {part}, {self.splat_in(self.c.at_block, scale, elem)}")
                if not vector:
                    vector, vector_elem = part, elem
                else:
                    if elem != vector_elem:
                        part, vector = (
                            self.lanes(Value(2, x, e), "i64") for x, e in ((part, elem), (vector, vector_elem))
                        )
                        vector_elem = "i64"
                    vector = self.c.op(f"add <{self.w} x {vector_elem}> {vector}, {part}")
                continue
            fixed = self.add(fixed, self.mul(v.text, stride))
            if v.kind == 1:
                line = self.add(line, self.mul(str(v.stride), stride))
        if local:  # [n][W]: the lanes of an element lie side by side
            fixed, line = self.mul(fixed, str(self.w)), self.add(self.mul(line, str(self.w)), "1")
            if vector:
                vector = self.c.op(
                    f"mul <{self.w} x {vector_elem}> {vector}, {splat(str(self.w), vector_elem, self.w)}"
                )
        suffix = self.env.alias.get(array, "")
        base = self.pointer(array)
        if fixed != "0" or leaf:
            offset = self.add(self.mul(fixed, str(size)), str(leaf))
            base = self.c.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        if beyond:
            base = self.c.op(f"getelementptr i8, ptr {base}, i64 {beyond * size}")
        if vector:
            if line != "0":
                # a line beside a vector: spread it
                value = Value(1, "0", "i64", None, int(line) if _is_number(line) else line)
                value.block = self.c.at_block
                part = self.lanes(value, vector_elem)
                vector = self.c.op(f"add <{self.w} x {vector_elem}> {vector}, {part}")
            regular = (
                size == t.itemsize
                and not local
                and not self.env.large
                and all(self.is_regular(n) for n in node.args[: len(indices)])
            )
            return Address(2, base, t, suffix, 0, vector, vector_elem, size, local, regular)
        if line != "0":
            stride_bytes = self.mul(line, str(size))
            step: int | str = int(stride_bytes) if _is_number(stride_bytes) else stride_bytes
            return Address(1, base, t, suffix, step, private=local)
        return Address(0, base, t, suffix, private=local)

    def split_constant(self, v: Value, node: Node) -> tuple[Value, int]:
        """An index as another one and a constant: neighbours then share an address, and differ in its displacement."""
        inner, constant = node, 0
        while inner.dtype is index and inner.op in ("add", "sub") and inner.args[1].op == "const":
            by = inner.args[1].attrs["value"]
            constant += by if inner.op == "add" else -by
            inner = inner.args[0]
        if inner is node or inner not in self.map or inner.dtype is not index:
            return v, 0
        found = self.as_index(self.map[inner], inner)
        return (found, constant) if (found.kind, found.stride) == (v.kind, v.stride) else (v, 0)

    def is_regular(self, node: Node) -> bool:
        """Whether an index is made of coordinates and uniform values alone: no loads, no slots that vary."""
        known = self.env.regular
        stack = [node]
        while stack:
            top = stack[-1]
            if top in known or self.shape(top) < 2:
                known.setdefault(top, True)
                stack.pop()
                continue
            if not OPS[top.op].pure or not top.args:
                known[top] = False
                stack.pop()
                continue
            missing = [a for a in top.args if a not in known]
            if missing:
                stack.extend(missing)
                continue
            known[top] = all(known[a] for a in top.args)
            stack.pop()
        return known[node]

    def narrowed(self, text: str, elem: str) -> str:
        if elem == "i64" or not text.startswith("%"):
            return text
        return self.c.op(f"trunc i64 {text} to {elem}")


def _memory_literal(value: object, t: DType) -> str:
    assert isinstance(value, int | float)
    if t.bits == 16 and t.is_float:
        import struct

        if t.name == "f16":
            return str(struct.unpack("<H", struct.pack("<e", value))[0])
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return str((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    return str(int(value)) if t.is_bool else constant(value, memory_element(t))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
