"""AMDGPU objects linked into code objects: what the driver loads, an ELF shared object.

An object of ours needs little of a linker. It has code, read-only data (constants and kernel descriptors) and the note
with the metadata; all symbols are its own, so that every relocation is a distance that is settled here, but for
pointers in data, which the loader adds its address to. The file has one segment for each kind of memory: read-only,
executable, and writable for the dynamic section and what a kernel may write.

Sources: LLVM, "User Guide for AMDGPU Backend", sections ELF Code Object and Relocation Records; System V ABI (generic),
chapter 5, program loading and dynamic linking.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from magpie.backends.elf_object import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_TLS,
    SHF_WRITE,
    SHN_ABS,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHT_INIT_ARRAY,
    SHT_NOBITS,
    SHT_NOTE,
    ElfObject,
    LinkError,
    Section,
    Symbol,
)

__all__ = ["link"]

EM_AMDGPU, ET_REL, ET_DYN = 224, 1, 3
OSABI_HSA = 64

# Relocations (LLVM, llvm/BinaryFormat/ELFRelocs/AMDGPU.def).
_ABS32_LO, _ABS32_HI, _ABS64, _REL32, _REL64, _ABS32 = 1, 2, 3, 4, 5, 6
_REL32_LO, _REL32_HI, _RELATIVE64, _REL16 = 10, 11, 13, 14

_PAGE = 4096
_MOST_ALIGN = 1 << 16
_MASK = (1 << 64) - 1
_HEADER, _PROGRAM, _SECTION, _SYMBOL, _RELA = 64, 56, 64, 24, 24
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_PHDR, _PT_GNU_STACK = 1, 2, 4, 6, 0x6474E551
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_HASH, _SHT_DYNAMIC, _SHT_DYNSYM = 1, 2, 3, 4, 5, 6, 11
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_RELAENT, _DT_STRSZ, _DT_SYMENT = 4, 5, 6, 7, 8, 9, 10, 11
_DT_RELACOUNT = 0x6FFFFFF9
_R, _W, _X = 4, 2, 1
_HIDDEN = (1, 2)  # visibilities: internal and hidden


def link(raw: bytes) -> bytes:
    """The code object of one relocatable object. Raises LinkError for a damaged one, and for what ours never hold."""
    if raw[:4] != b"\x7fELF" or len(raw) < _HEADER:
        raise LinkError("not an ELF object")
    kind, machine = struct.unpack_from("<HH", raw, 16)
    if raw[4:6] != b"\2\1" or machine != EM_AMDGPU or raw[7] != OSABI_HSA:
        raise LinkError("not an ELF object for AMD GPUs under HSA")
    if kind != ET_REL:
        raise LinkError(f"an ELF file of type {kind}, not a relocatable object")
    return _Linker(ElfObject(raw)).file()


class _Part:
    """A section of the output: its place, what it is made of, and its row of the section table."""

    def __init__(self, name: str, type_: int, flags: int, align: int, entry: int = 0) -> None:
        self.name, self.type, self.flags, self.align, self.entry = name, type_, flags, align, entry
        self.address = self.offset = self.size = 0
        self.link = self.info = 0
        self.inputs: list[tuple[int, Section, int]] = []  # index, section, place in this part
        self.data = bytearray()

    def add(self, index: int, section: Section) -> None:
        start = _up(self.size, max(section.align, 1))
        self.align = max(self.align, section.align)
        self.inputs.append((index, section, start))
        self.size = start + section.size

    def set(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.size = len(data)


class _Linker:
    def __init__(self, obj: ElfObject) -> None:
        self.obj = obj
        self.text = _Part(".text", _SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 4)
        self.constants = _Part(".rodata", _SHT_PROGBITS, SHF_ALLOC, 1)
        self.notes = _Part(".note", SHT_NOTE, SHF_ALLOC, 4)
        self.variables = _Part(".data", _SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 1)
        self.zeros = _Part(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 1)
        for index, section in enumerate(obj.sections):
            if section.flags & SHF_ALLOC:
                self._part_of(section).add(index, section)
        self.place = {
            index: (part, start)
            for part in (self.notes, self.constants, self.text, self.variables, self.zeros)
            for index, _, start in part.inputs
        }
        for symbol in obj.symbols:
            if symbol.section == SHN_UNDEF and symbol.name:
                raise LinkError(f"symbol {symbol.name!r} is not defined")
            if symbol.section in self.place and symbol.value > obj.sections[symbol.section].size:
                raise LinkError(f"symbol {symbol.name!r} stands behind its section")
        named = [s for s in obj.symbols if s.name and (s.section == SHN_ABS or s.section in self.place)]
        self.exports = [s for s in named if s.info >> 4 and s.other & 3 not in _HIDDEN]
        self.locals = [s for s in named if s not in self.exports]
        self.relative: list[tuple[int, int]] = []  # address of a pointer, what the load address is added to

    def _part_of(self, section: Section) -> _Part:
        if section.align > _MOST_ALIGN:
            raise LinkError(f"section {self.obj.name(section)} is aligned to {section.align}")
        if section.flags & SHF_TLS or section.type == SHT_INIT_ARRAY:
            raise LinkError(f"section {self.obj.name(section)} (thread-local data or constructors) is not supported")
        if section.type == SHT_NOTE:
            return self.notes
        if section.type == SHT_NOBITS:
            return self.zeros
        if section.flags & SHF_WRITE:
            return self.variables
        return self.text if section.flags & SHF_EXECINSTR else self.constants

    # --- layout --------------------------------------------------------------------------------------------------
    def file(self) -> bytes:
        relocations = [r for r in self.obj.relocations() if r[0] in self.place]
        pointers = sum(r[2] == _ABS64 and self.obj.symbols[r[3]].section != SHN_ABS for r in relocations)
        symbols = _Part(".dynsym", _SHT_DYNSYM, SHF_ALLOC, 8, _SYMBOL)
        names = _Part(".dynstr", _SHT_STRTAB, SHF_ALLOC, 1)
        hashes = _Part(".hash", _SHT_HASH, SHF_ALLOC, 4, 4)
        rela = _Part(".rela.dyn", _SHT_RELA, SHF_ALLOC, 8, _RELA)
        dynamic = _Part(".dynamic", _SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 8, 16)
        table = _Part(".symtab", _SHT_SYMTAB, 0, 8, _SYMBOL)
        strings = _Part(".strtab", _SHT_STRTAB, 0, 1)
        headings = _Part(".shstrtab", _SHT_STRTAB, 0, 1)

        name_bytes, at_names = _strings(s.name for s in self.exports)
        string_bytes, at_strings = _strings(s.name for s in [*self.locals, *self.exports])
        names.set(name_bytes)
        strings.set(string_bytes)
        hashes.set(_hash_table([s.name for s in self.exports]))
        symbols.size = _SYMBOL * (1 + len(self.exports))
        table.size = symbols.size + _SYMBOL * len(self.locals)
        rela.size = _RELA * pointers
        tags = 6 + (4 if pointers else 0)
        dynamic.size = 16 * tags

        readable = [self.notes, symbols, hashes, names, *([rela] if pointers else []), self.constants]
        writable = [dynamic, self.variables, self.zeros]
        segments = [[p for p in parts if p.size] for parts in (readable, [self.text], writable)]
        loaded = [part for parts in segments for part in parts]
        kept = [*loaded, table, strings, headings]
        rows = {part: n for n, part in enumerate(kept, 1)}
        headings_bytes, at_headings = _strings(part.name for part in kept)
        headings.set(headings_bytes)

        programs = 4 + sum(bool(parts) for parts in segments[1:]) + bool(self.notes.size)
        at = _HEADER + _PROGRAM * programs
        address = at
        for n, parts in enumerate(segments):
            if n and parts:  # the next page, at the same place in it as in the file
                first = max(part.align for part in parts)
                at = _up(at, min(first, _PAGE))
                address = _up(address, _PAGE) + at % _PAGE
            for part in parts:
                step = _up(address, part.align) - address
                address += step
                at += step
                part.address, part.offset = address, at
                address += part.size
                at += 0 if part.type == SHT_NOBITS else part.size
        for part in (table, strings, headings):
            part.offset = at = _up(at, part.align)
            at += part.size

        self._fill()
        self._relocate(relocations)
        rela.set(b"".join(struct.pack("<QQq", place, _RELATIVE64, to) for place, to in self.relative))
        symbols.set(bytes(_SYMBOL) + b"".join(self._symbol(s, at_names[s.name], rows) for s in self.exports))
        every = [*self.locals, *self.exports]
        table.set(bytes(_SYMBOL) + b"".join(self._symbol(s, at_strings[s.name], rows) for s in every))
        symbols.link, table.link, hashes.link, dynamic.link = rows[names], rows[strings], rows[symbols], rows[names]
        rela.link = rows[symbols]
        symbols.info, table.info = 1, 1 + len(self.locals)  # the first global symbol
        values = [(_DT_SYMTAB, symbols.address), (_DT_SYMENT, _SYMBOL), (_DT_STRTAB, names.address)]
        values += [(_DT_STRSZ, names.size), (_DT_HASH, hashes.address)]
        if pointers:
            values += [(_DT_RELA, rela.address), (_DT_RELASZ, rela.size), (_DT_RELAENT, _RELA)]
            values += [(_DT_RELACOUNT, pointers)]
        dynamic.set(b"".join(struct.pack("<QQ", *v) for v in [*values, (0, 0)]))
        assert dynamic.size == 16 * tags

        section_table = _up(at, 8)
        out = bytearray(section_table + _SECTION * (1 + len(kept)))
        for part in kept:
            if part.type != SHT_NOBITS:
                out[part.offset : part.offset + part.size] = part.data
        for part, row in rows.items():
            fields = (part.address, part.offset, part.size, part.link, part.info, part.align, part.entry)
            where = section_table + _SECTION * row
            struct.pack_into("<IIQQQQIIQQ", out, where, at_headings[part.name], part.type, part.flags, *fields)
        self._head(out, programs, section_table, len(kept) + 1, rows[headings])
        self._programs(out, segments, dynamic, programs)
        return bytes(out)

    def _fill(self) -> None:
        """Give the parts their content."""
        for part in (self.notes, self.constants, self.text, self.variables):
            part.data = bytearray(part.size)
            for _, section, start in part.inputs:
                part.data[start : start + section.size] = self.obj.content(section)

    def _head(self, out: bytearray, programs: int, sections_at: int, sections: int, names: int) -> None:
        """The ELF header: that of the object, which has the architecture in its flags, as a shared object."""
        raw = self.obj.raw
        out[:16] = raw[:16]
        (flags,) = struct.unpack_from("<I", raw, 48)
        fields = (ET_DYN, EM_AMDGPU, 1, 0, _HEADER, sections_at, flags, _HEADER, _PROGRAM, programs, _SECTION)
        struct.pack_into("<HHIQQQIHHHHHH", out, 16, *fields, sections, names)

    def _programs(self, out: bytearray, segments: list[list[_Part]], dynamic: _Part, count: int) -> None:
        size = _PROGRAM * count
        rows: list[tuple[int, int, int, int, int, int, int]] = [(_PT_PHDR, _R, _HEADER, _HEADER, size, size, 8)]
        for n, parts in enumerate(segments):
            if not parts:
                continue
            first, last = parts[0], parts[-1]
            start, address = (0, 0) if n == 0 else (first.offset, first.address)
            memory = last.address + last.size - address
            in_file = max((p.offset + p.size for p in parts if p.type != SHT_NOBITS), default=start) - start
            rows.append((_PT_LOAD, (_R, _R | _X, _R | _W)[n], start, address, in_file, memory, _PAGE))
        rows.append((_PT_DYNAMIC, _R | _W, dynamic.offset, dynamic.address, dynamic.size, dynamic.size, 8))
        rows.append((_PT_GNU_STACK, _R | _W, 0, 0, 0, 0, 0))
        if self.notes.size:
            rows.append((_PT_NOTE, _R, self.notes.offset, self.notes.address, self.notes.size, self.notes.size, 4))
        assert len(rows) == count
        for n, (type_, flags, at, address, in_file, memory, align) in enumerate(rows):
            where = _HEADER + _PROGRAM * n
            struct.pack_into("<IIQQQQQQ", out, where, type_, flags, at, address, address, in_file, memory, align)

    # --- symbols and relocations ---------------------------------------------------------------------------------
    def _address(self, symbol: Symbol) -> int:
        if symbol.section == SHN_ABS:
            return symbol.value
        if symbol.section >= SHN_LORESERVE or symbol.section not in self.place:
            raise LinkError(f"symbol {symbol.name!r} stands in no section that is loaded")
        part, start = self.place[symbol.section]
        return part.address + start + symbol.value

    def _symbol(self, symbol: Symbol, name: int, rows: dict[_Part, int]) -> bytes:
        address = self._address(symbol) & _MASK
        section = symbol.section if symbol.section == SHN_ABS else rows[self.place[symbol.section][0]]
        return struct.pack("<IBBHQQ", name, symbol.info, symbol.other, section, address, symbol.size)

    def _relocate(self, relocations: Iterable[tuple[int, int, int, int, int]]) -> None:
        for index, offset, kind, number, addend in relocations:
            part, start = self.place[index]
            symbol = self.obj.symbols[number]
            if part.type == SHT_NOBITS:
                raise LinkError("a relocation in a section without content")
            place = part.address + start + offset
            value = self._address(symbol) + addend
            size = 2 if kind == _REL16 else 8 if kind in (_ABS64, _REL64) else 4
            if offset + size > self.obj.sections[index].size:
                raise LinkError(f"a relocation ends behind section {self.obj.name(self.obj.sections[index])}")
            fixed = symbol.section == SHN_ABS
            if kind == _ABS64 and not fixed:
                if not 0 <= value < 1 << 63:
                    raise LinkError(f"a pointer that is far from {symbol.name!r}")
                self.relative.append((place, value))
            elif kind in (_ABS32, _ABS32_LO, _ABS32_HI) and not fixed:
                raise LinkError(f"a 32-bit address of {symbol.name!r}: the object is not position independent")
            struct.pack_into(_FORMS[size], part.data, start + offset, _value(kind, value, place, symbol.name))


_FORMS = {2: "<H", 4: "<I", 8: "<Q"}


def _value(kind: int, value: int, place: int, name: str) -> int:
    """What a relocation writes."""
    if kind in (_ABS64, _ABS32, _ABS32_LO, _ABS32_HI):
        value &= _MASK
        if kind == _ABS32 and value > 0xFFFFFFFF:
            raise LinkError(f"{name!r} does not fit in 32 bits")
        return value if kind == _ABS64 else value >> 32 if kind == _ABS32_HI else value & 0xFFFFFFFF
    distance = value - place
    if kind == _REL64:
        return distance & _MASK
    if kind == _REL32_LO:
        return distance & 0xFFFFFFFF
    if kind == _REL32_HI:
        return (distance & _MASK) >> 32
    if kind == _REL32:
        if not -(1 << 31) <= distance < 1 << 31:
            raise LinkError(f"{name!r} is too far away")
        return distance & 0xFFFFFFFF
    if kind == _REL16:  # a branch: words from the end of its own word
        words = (distance - 4) >> 2
        if distance % 4 or not -(1 << 15) <= words < 1 << 15:
            raise LinkError(f"{name!r} is too far away")
        return words & 0xFFFF
    raise LinkError(f"relocation type {kind} is not supported")


def _strings(names: Iterable[str]) -> tuple[bytes, dict[str, int]]:
    """A string table and where each name stands in it."""
    data, places = bytearray(1), {}
    for name in names:
        if name not in places:
            places[name] = len(data)
            data += name.encode() + b"\0"
    return bytes(data), places


def _hash_table(names: list[str]) -> bytes:
    """A hash table of one bucket a symbol (generic ABI, Hash Table)."""
    count = 1 + len(names)
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names, 1):
        slot = _elf_hash(name) % count
        chains[number], buckets[slot] = buckets[slot], number
    return struct.pack(f"<II{2 * count}I", count, count, *buckets, *chains)


def _elf_hash(name: str) -> int:
    h = 0
    for byte in name.encode():
        h = (h << 4) + byte
        high = h & 0xF0000000
        h = (h ^ high >> 24) & ~high & 0xFFFFFFFF
    return h


def _up(value: int, step: int) -> int:
    return (value + step - 1) // step * step
