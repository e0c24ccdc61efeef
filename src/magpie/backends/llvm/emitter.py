"""Writes LLVM IR as text: names, blocks, a function, a module.

llvmlite's own IR classes cost tens of milliseconds for a small kernel; strings cost two. Lines of a block are kept
apart from its terminator, so that a value made from another (a splat, the wide form of a mask) can be added where that
other one is defined and then dominates whatever its operand dominates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from magpie.dtypes import DType

__all__ = ["Block", "Code", "Module", "constant", "element", "memory_element", "splat", "vector"]


class Block:
    """A basic block under construction. ``end`` is its terminator, empty while it is open."""

    __slots__ = ("end", "label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []
        self.end = ""


def vector(element_type: str, width: int) -> str:
    """``element_type`` itself for width 1, else a vector of it."""
    return element_type if width == 1 else f"<{width} x {element_type}>"


def element(t: DType) -> str:
    """The LLVM type that a value of ``t`` has in registers: halves are computed as floats (RULES 21)."""
    if t.is_float:
        return "double" if t.bits == 64 else "float"
    return f"i{t.bits}"


def memory_element(t: DType) -> str:
    """The LLVM type of ``t`` in memory: bool is a byte, a half is its bits."""
    if t.is_float:
        return {64: "double", 32: "float", 16: "i16"}[t.bits]
    return "i8" if t.is_bool else f"i{t.bits}"


def constant(value: int | float | bool, element_type: str) -> str:
    """A literal of an LLVM scalar type. Floats are written by their bits."""
    if element_type in ("float", "double"):
        x = float(value)
        if element_type == "float":
            try:
                x = struct.unpack("<f", struct.pack("<f", x))[0]
            except OverflowError:
                x = float("inf") if x > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
    if element_type == "i1":
        return "true" if value else "false"
    return str(int(value))


def splat(literal: str, element_type: str, width: int) -> str:
    """The same literal in every lane."""
    if width == 1:
        return literal
    return "zeroinitializer" if literal in ("0", "false") else f"splat ({element_type} {literal})"


class Module:
    """Declarations, helper functions, constants and metadata around the functions of a module."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        # Intrinsics that only tell the optimiser something: every target takes them, and no code is made of them.
        self.hints: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.metadata: list[str] = []
        self.functions: list[str] = []

    def declare(self, name: str, result: str, args: str) -> str:
        """Declare an external function or intrinsic; gives ``@name``."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({args})"
        return f"@{name}"

    def assume(self, block: Block, fact: str) -> None:
        """Tell LLVM at the end of ``block`` that the i1 ``fact`` holds."""
        self.hints["llvm.assume"] = "declare void @llvm.assume(i1)"
        block.lines.append(f"  call void @llvm.assume(i1 {fact})")

    def helper(self, name: str, make: Callable[[], str]) -> str:
        """An internal function, made at its first use; gives ``@name``."""
        if name not in self.helpers:
            self.helpers[name] = ""
            self.helpers[name] = make()
        return f"@{name}"

    def node(self, text: str) -> str:
        """A metadata node; gives its reference. ``{self}`` in the text stands for the node itself."""
        ref = f"!{len(self.metadata)}"
        self.metadata.append(f"{ref} = {text.replace('{self}', ref)}")
        return ref

    def rolled(self) -> str:
        """Metadata for the branch at the end of a loop that is not to be unrolled."""
        off = self.node('!{!"llvm.loop.unroll.disable"}')
        return self.node(f"distinct !{{{{self}}, {off}}}")

    def text(self) -> str:
        """The whole module."""
        parts = [*self.globals.values(), *self.helpers.values(), *self.functions]
        parts += [*self.declarations.values(), *self.hints.values(), *self.metadata]
        return "\n".join(p for p in parts if p) + "\n"


class Code:
    """A function under construction: instructions are appended to the current block."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.count = 0
        self.entry = Block("entry")
        self.blocks: list[Block] = [self.entry]
        self.at_block = self.entry
        self.allocas: list[str] = []

    # --- names and instructions ----------------------------------------------------------------------------------
    def name(self) -> str:
        """A fresh local name."""
        self.count += 1
        return f"%v{self.count}"

    def op(self, text: str) -> str:
        """Append ``name = text``; gives the name."""
        self.count += 1
        name = f"%v{self.count}"
        self.at_block.lines.append(f"  {name} = {text}")
        return name

    def op_in(self, block: Block, text: str) -> str:
        """Append at the end of ``block``, which may be closed already."""
        self.count += 1
        name = f"%v{self.count}"
        block.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.at_block.lines.append(f"  {text}")

    def alloca(self, type_: str, align: int = 0) -> str:
        """Stack memory of the whole function."""
        self.count += 1
        name = f"%v{self.count}"
        self.allocas.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return name

    def call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """Call an external function or intrinsic, declaring it; ``args`` are (type, value)."""
        self.module.declare(name, result, ", ".join(t for t, _ in args))
        return self.op(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})")

    # --- blocks --------------------------------------------------------------------------------------------------
    def block(self, hint: str = "b") -> Block:
        """A new block, not placed yet."""
        self.count += 1
        return Block(f"{hint}{self.count}")

    def place(self, block: Block) -> Block:
        """Continue in ``block``."""
        self.blocks.append(block)
        self.at_block = block
        return block

    @property
    def open(self) -> bool:
        """Whether the current block has no terminator yet."""
        return not self.at_block.end

    def br(self, target: Block) -> None:
        if not self.at_block.end:
            self.at_block.end = f"  br label %{target.label}"

    def cbr(self, cond: str, yes: Block, no: Block) -> None:
        if not self.at_block.end:
            self.at_block.end = f"  br i1 {cond}, label %{yes.label}, label %{no.label}"

    def ret(self, text: str = "void") -> None:
        if not self.at_block.end:
            self.at_block.end = f"  ret {text}"

    @property
    def lines(self) -> int:
        """Instructions so far."""
        return sum(len(b.lines) for b in self.blocks)

    def function(self, header: str) -> str:
        """The finished text; ``header`` is what stands before the brace."""
        out = [header + " {"]
        for block in self.blocks:
            out.append(f"{block.label}:")
            if block is self.entry:
                out.extend(self.allocas)
            out.extend(block.lines)
            out.append(block.end or "  unreachable")
        out.append("}")
        return "\n".join(out)
