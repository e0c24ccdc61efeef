"""The tables of a relocatable ELF object of any machine, 64 bits and little-endian, with every place in it checked.

Source: System V ABI (generic), chapter 4, object files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ElfObject", "LinkError", "Section", "Symbol"]

SHT_SYMTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_INIT_ARRAY = 2, 4, 7, 8, 9, 14
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2


class LinkError(Exception):
    """An object or a stored image that cannot be used; the message says what stands in it."""


class Section(NamedTuple):
    name: int
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    """``info`` is binding << 4 | type, ``other`` the visibility."""

    name: str
    info: int
    section: int
    value: int
    size: int
    other: int = 0


class ElfObject:
    """What stands in an object. Raises LinkError for one that is damaged."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        try:
            (table,) = struct.unpack_from("<Q", raw, 40)
            _, count, names = struct.unpack_from("<HHH", raw, 58)
            self.sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", raw, table + 64 * i)) for i in range(count)]
            for n, section in enumerate(self.sections):
                if section.type not in (0, SHT_NOBITS) and section.offset + section.size > len(raw):
                    raise ValueError(f"section {n} ends behind the file")
                if section.align & (section.align - 1):
                    raise ValueError(f"section {n} is aligned to {section.align}")
            self._names = self.sections[names].offset
            self.symbols = self._symbols()
        except (struct.error, IndexError, ValueError) as error:
            raise LinkError(f"a damaged ELF object: {error}") from None

    def _symbols(self) -> list[Symbol]:
        for section in self.sections:
            if section.type == SHT_SYMTAB:
                strings = self.sections[section.link].offset
                rows = struct.iter_unpack("<IBBHQQ", self.raw[section.offset : section.offset + section.size])
                return [Symbol(self._string(strings + n), i, s, v, z, o) for n, i, o, s, v, z in rows]
        return []

    def _string(self, at: int) -> str:
        try:
            return self.raw[at : self.raw.index(b"\0", at)].decode()
        except ValueError as error:
            raise LinkError(f"a damaged ELF object: a name: {error}") from None

    def name(self, section: Section) -> str:
        return self._string(self._names + section.name)

    def content(self, section: Section) -> bytes:
        return self.raw[section.offset : section.offset + section.size]

    def relocations(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(index of the section, offset in it, type, symbol, addend) of every relocation."""
        for section in self.sections:
            if section.type == SHT_RELA:
                if section.info >= len(self.sections) or section.size % 24:
                    raise LinkError("a damaged ELF object: a table of relocations")
                for offset, info, addend in struct.iter_unpack("<QQq", self.content(section)):
                    if info >> 32 >= len(self.symbols):
                        raise LinkError("a damaged ELF object: a relocation without a symbol")
                    yield section.info, offset, info & 0xFFFFFFFF, info >> 32, addend
            elif section.type == SHT_REL:
                raise LinkError(f"relocations without addends in {self.name(section)}")
