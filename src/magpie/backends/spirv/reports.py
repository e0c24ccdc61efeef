"""What a work-item reports: `print`, failed asserts, traps and, in checked mode, faults (RULES 17).

Reports go into the record buffer (`magpie.backends.record_format`) by words of 32 bits: the host prints them, or raises
the error with the source line, when the launch is done. A faulting access is recorded and skipped, a load gives 0, and
the work-item goes on: leaving before a barrier would hang the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magpie.backends.record_format import RECORD_HEADER, RECORD_WORDS
from magpie.backends.spirv.control import Control
from magpie.dtypes import DType, f32, u32
from magpie.ir.nodes import Array, Node
from magpie.passes.index_forms import is_wide

__all__ = ["Reports"]

Words = tuple[int, int]


class Reports(Control):
    """Emits reports; ``sites`` describes the places they come from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sites: list[dict[str, Any]] = []

    def linear_group(self) -> Words:
        """The number of the workgroup, x fastest, as two words."""
        raise NotImplementedError

    def linear_item(self) -> int:
        """The number of the work-item in its workgroup, x fastest."""
        raise NotImplementedError

    # --- assert, print, trap -------------------------------------------------------------------------------------
    def report(self, node: Node) -> None:
        if node.op == "print":
            types = [a.dtype for a in node.args]
            site = self.site(node, "print", pieces=list(node.attrs["pieces"]), types=[t.name for t in types])
            self.append(site, [self.words_of(a) for a in node.args])
        elif node.op == "trap":
            self.append(self.site(node, "trap", message=node.attrs.get("message")), [])
        elif self.checked:  # asserts run in checked mode only
            site = self.site(node, node.attrs.get("kind", "assert"), message=node.attrs.get("message"))
            self.append_unless(self.map[node.args[0]], site, [])

    def site(self, node: Node, kind: str, **more: object) -> int:
        """The number of a place that reports."""
        loc = node.loc
        place: dict[str, Any] = {"kind": kind, **more}
        if loc is not None:
            place |= {"file": loc.file, "line": loc.line, "col": loc.col, "function": loc.function}
        self.sites.append(place)
        return len(self.sites) - 1

    def append_unless(self, fine: int, site: int, values: Sequence[Node]) -> None:
        """Report where ``fine`` is false."""
        bad = self.op("LogicalNot", self.bool, fine)
        self.when(bad, lambda: self.append(site, [self.words_of(v) for v in values]))

    def append(self, site: int, values: Sequence[Words]) -> None:
        """Append a record; its head comes last, so that a torn one shows."""
        count = len(values)
        size = RECORD_WORDS + count
        used = self.record_word(self.word(2))
        at = self.op("AtomicIAdd", self.u32, used, "Device", "Relaxed", self.word(size))
        capacity = self.f.load(self.record_word(self.word(0)))
        end = self.op("IAdd", self.u32, at, self.word(size))
        fits = self.op("ULessThanEqual", self.bool, end, capacity)

        def write() -> None:
            first = self.op("IAdd", self.u32, at, self.word(RECORD_HEADER))
            first = self.op("ShiftLeftLogical", self.u32, first, self.word(1))
            body = [self.linear_group(), (self.linear_item(), self.word(0)), *values]
            for k, pair in enumerate(body, 1):
                self.write_pair(first, 2 * k, pair)
            self.write_pair(first, 0, (self.word(site + 1), self.word(count)))

        self.when(fits, write)

    def record_word(self, at: int) -> int:
        """A pointer to a word of the record buffer."""
        pointer = self.module.type_pointer("StorageBuffer", self.u32)
        return self.op("AccessChain", pointer, self.unit.records, self.word(0), at)

    def write_pair(self, first: int, at: int, pair: Words) -> None:
        for k, value in enumerate(pair):
            self.f.store(self.record_word(self.plus(first, self.word(at + k))), value)

    def words_of(self, node: Node) -> Words:
        """A value as the two words of 64 bits: floats as f64, integers extended."""
        t = node.dtype
        if is_wide(t):
            return self.pair(node)
        if t.is_float:
            return self.float_words(self.map[node], t)
        if t.is_bool:
            return self.cast(self.map[node], t, u32), self.word(0)
        low = self.low(node)
        if t.kind == "uint":
            return low, self.word(0)
        return low, self.op("ShiftRightArithmetic", self.u32, low, self.word(31))

    def float_words(self, value: int, t: DType) -> Words:
        """The bits of a float as an f64, whether the device has that or not."""
        m, u = self.module, self.u32
        if t.bits == 64:
            both = self.op("Bitcast", m.type_vector(u, 2), value)
            return self.op("CompositeExtract", u, both, 0), self.op("CompositeExtract", u, both, 1)
        if t.bits == 16:
            value = self.half_as_float(value, t)
        bits = self.op("Bitcast", u, value)
        sign = self.op("BitwiseAnd", u, bits, self.word(1 << 31))
        size = self.op("BitwiseAnd", u, bits, self.word((1 << 31) - 1))
        low_bits = self.word((1 << 23) - 1)
        small = self.op("ULessThan", self.bool, size, self.word(1 << 23))
        huge = self.op("UGreaterThanEqual", self.bool, size, self.word(255 << 23))
        # A denormal is m * 2**-149: its leading bit becomes the hidden one.
        top = self.ext("FindUMsb", u, size)
        moved = self.op("ShiftLeftLogical", u, size, self.op("ISub", u, self.word(23), top))
        fraction = self.op("BitwiseAnd", u, self.op("Select", u, small, moved, size), low_bits)
        bias = self.op("Select", u, huge, self.word(2047 - 255), self.word(1023 - 127))
        exponent = self.op("IAdd", u, self.op("ShiftRightLogical", u, size, self.word(23)), bias)
        exponent = self.op("Select", u, small, self.op("IAdd", u, top, self.word(1023 - 149)), exponent)
        # The upper word has 20 bits of the fraction, the lower one the other three.
        high = self.op("ShiftLeftLogical", u, exponent, self.word(20))
        high = self.op("BitwiseOr", u, high, self.op("ShiftRightLogical", u, fraction, self.word(3)))
        low = self.op("ShiftLeftLogical", u, fraction, self.word(29))
        none, zero = self.op("IEqual", self.bool, size, self.word(0)), self.word(0)
        high = self.op("Select", u, none, zero, high)
        return self.op("Select", u, none, zero, low), self.op("BitwiseOr", u, high, sign)

    def half_as_float(self, value: int, t: DType) -> int:
        """An f16 or bf16 as f32."""
        if t.name == "f16" and self.native(t):
            return self.op("FConvert", self.type(f32), value)
        m = self.module
        bits = value if m.type_of(value) == self.u32 else self.op("UConvert", self.u32, value)
        if t.name == "bf16":
            return self.op("Bitcast", self.type(f32), self.op("ShiftLeftLogical", self.u32, bits, self.word(16)))
        both = self.ext("UnpackHalf2x16", m.type_vector(self.type(f32), 2), bits)
        return self.op("CompositeExtract", self.type(f32), both, 0)

    # --- checked mode --------------------------------------------------------------------------------------------
    def visit(self, node: Node) -> None:
        array: Array | None = node.attrs.get("array") if self.checked and node.checked else None
        if array is None or node.op in ("extent", "stride") or not array.rank:
            return super().visit(node)
        if node.loc is not None:
            self.line(node.loc)
        indices = node.args[: array.rank]
        inside = 0
        for dim, at in enumerate(indices):
            ok = self.in_extent(at, array, dim)
            inside = self.op("LogicalAnd", self.bool, inside, ok) if inside else ok
        site = self.site(node, "bounds", array=array.name, types=[a.dtype.name for a in indices])
        self.append_unless(inside, site, indices)
        if not isinstance(node.type, DType):
            self.when(inside, lambda: super(Reports, self).visit(node))
            return None
        self.guarded(node, inside)
        return None

    def guarded(self, node: Node, inside: int) -> None:
        """A node with a value that is 0 where it does not run."""
        t = node.dtype

        def run() -> list[int]:
            super(Reports, self).visit(node)
            if node in self.highs:
                return [self.lows.pop(node), self.highs.pop(node)]
            return [self.map.pop(node)]

        zeros = [self.word(0)] * 2 if is_wide(t) and not self.has(t) else [self.zero(t)]
        values = self.choose(inside, run, zeros)
        if len(values) == 2:
            self.set_pair(node, *values)
        else:
            self.map[node] = values[0]

    def in_extent(self, index: Node, array: Array, dim: int) -> int:
        """Whether an index is below an extent, and not negative."""
        raise NotImplementedError
