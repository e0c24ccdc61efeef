"""The text of a SPIR-V binary, as `spirv-dis` writes it: what `kernel.inspect("spv")` shows. spirv-as reads it back."""

from __future__ import annotations

import functools
import sys
from array import array

from magpie.backends.spirv.encode import Form, form, parse_kinds
from magpie.backends.spirv.module import MAGIC
from magpie.backends.spirv.names import Names, number_text, text_of
from magpie.backends.spirv.table import ENUMS, GLSL, MASKS, OPS

__all__ = ["disassemble", "instructions"]

_INDENT = 15


def instructions(binary: bytes) -> list[tuple[int, list[int]]]:
    """The instructions of a module: number and words behind it. Raises ValueError for what is no SPIR-V."""
    if len(binary) < 20 or len(binary) % 4:
        raise ValueError("a SPIR-V module has whole words, five at least")
    words = array("I", binary)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != MAGIC:
        raise ValueError("not SPIR-V: it begins with another number")
    found, at, end = [], 5, len(words)
    while at < end:
        first = words[at]
        count = first >> 16
        if not count or at + count > end:
            raise ValueError(f"the instruction at word {at} has no good length")
        found.append((first & 0xFFFF, words[at + 1 : at + count].tolist()))
        at += count
    return found


def disassemble(binary: bytes) -> str:
    """The module as text, with the names that OpName gives. Raises ValueError for what is no SPIR-V."""
    listed = instructions(binary)
    header = array("I", binary[:20])
    if sys.byteorder == "big":
        header.byteswap()
    version, generator = header[1], header[2]
    lines = [
        "; SPIR-V",
        f"; Version: {version >> 16}.{version >> 8 & 0xFF}",
        f"; Generator: {'Khronos' if generator >> 16 == 0 else generator >> 16}; {generator & 0xFFFF}",
        f"; Bound: {header[3]}",
        f"; Schema: {header[4]}",
    ]
    text = _Text(listed)
    lines += [text.line(number, words) for number, words in listed]
    return "\n".join(lines) + "\n"


class _Text:
    """Writes the instructions of one module."""

    def __init__(self, listed: list[tuple[int, list[int]]]) -> None:
        names = Names(listed)
        self.names = names.of
        self.types = names.types
        self.glsl = {row[0]: name for name, row in GLSL.items()}

    def line(self, number: int, words: list[int]) -> str:
        what = _by_number(number)
        at = what.typed + what.result
        rest = self.operands(what.kinds, words[at:], words) if len(words) > at else ""
        if not what.result:
            return f"{'':{_INDENT}}Op{what.name}{rest}"
        type_ = f" {self.id(words[0])}" if what.typed else ""
        return f"{self.id(words[what.typed]):>{_INDENT - 3}} = Op{what.name}{type_}{rest}"

    def id(self, number: int) -> str:
        return self.names.get(number) or f"%{number}"

    def operands(self, kinds: tuple[tuple[str, str], ...], words: list[int], all_: list[int]) -> str:
        """Operands with a space before each; ``all_`` are the words of the whole instruction."""
        parts: list[str] = []
        queue = list(reversed(kinds))
        at, end = 0, len(words)
        while queue and at < end:
            quantifier, kind = queue.pop()
            if quantifier == "*":
                queue = [*queue, (quantifier, kind), *queue]
            word = words[at]
            if kind.startswith("Id"):
                parts.append(self.names.get(word) or f"%{word}")
            elif kind == "LiteralInteger":
                parts.append(str(word))
            elif kind in ENUMS:
                shown, more = _enumerant(kind, word)
                parts.append(shown)
                queue += reversed(more)
            elif kind == "LiteralString":
                text, count = text_of(words[at:])
                quoted = text.replace("\\", "\\\\").replace('"', '\\"')
                parts.append(f'"{quoted}"')
                at += count - 1
            elif kind == "LiteralExtInstInteger":
                parts.append(self.glsl.get(word, str(word)))
            elif kind == "LiteralSpecConstantOpInteger":
                inner = _by_number(word)
                parts.append(inner.name)
                queue += reversed(inner.kinds)
            else:  # LiteralContextDependentNumber
                parts.append(number_text(self.types[all_[0]], words[at:]))
                at = end
            at += 1
        return "".join(f" {p}" for p in parts)


@functools.cache
def _by_number(number: int) -> Form:
    for name, row in OPS.items():
        if row[0] == number:
            return form(name)
    raise ValueError(f"the table has no instruction {number}")


@functools.cache
def _enumerant(kind: str, value: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The name of a value, those of its bits for a mask, and the kinds of operands behind it."""
    rows = sorted((row[0], name, row[1]) for name, row in ENUMS[kind].items())
    found = [r for r in rows if (value & r[0] if kind in MASKS and value else r[0] == value)]
    if not found:
        return str(value), ()
    return "|".join(name for _, name, _ in found), tuple(k for *_, kinds in found for k in parse_kinds(kinds))
