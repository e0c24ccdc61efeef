"""Relocatable ELF x86-64 objects, linked into one position independent image.

An object that LLVM emits with `reloc=pic` and the small code model needs little of a linker: sections are laid out one
after the other, references between them are distances and are settled here, and what depends on the load address (an
external symbol, a pointer in data) is left as a short list for the loader. The image is bytes, so it can be kept in the
disk cache and a warm start neither links nor imports LLVM.

Sources: System V ABI, AMD64 supplement 1.0, section 4.4 (relocation types); the generic ABI's chapter on object files.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from magpie.backends.elf_object import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_TLS,
    SHF_WRITE,
    SHN_COMMON,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHT_INIT_ARRAY,
    SHT_NOBITS,
    ElfObject,
    LinkError,
    Section,
)
from magpie.records import record

__all__ = ["LinkError", "LinkedImage", "defined_elf", "is_elf_x86_64", "link_elf", "undefined_elf"]

PAGE = 4096

_EM_X86_64 = 62

_R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_32, _R_32S = 1, 2, 4, 9, 10, 11
_R_PC64, _R_GOTOFF64, _R_GOTPC32, _R_GOTPC64 = 24, 25, 26, 29
_R_GOTPCRELX, _R_REX_GOTPCRELX = 41, 42
_GOT_ENTRY = (_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX)

_STUB_SIZE = 8  # jmp *[rip + got]: 6 bytes, and 2 of int3
_MASK = (1 << 64) - 1

_MAGIC = b"MPIM0001"
# Magic, crc of the rest, sizes of code, data and bss, counts of exports, imports and based values.
_HEAD = struct.Struct("<8sIIIIIII")


class Import(NamedTuple):
    """An 8-byte place in the image that takes the address of `name` plus `addend`."""

    name: str
    offset: int
    addend: int


@record
class LinkedImage:
    """Code and data of one object, linked for any address.

    `code` is mapped read and execute (it holds read-only data and the address table too), then from the next page
    `data` and `bss` zero bytes read and write. `exports` are offsets from the start; `based` are offsets of 8-byte
    values that the load address is added to.
    """

    code: bytes
    data: bytes
    bss: int
    exports: dict[str, int]
    imports: tuple[Import, ...]
    based: tuple[int, ...]

    @property
    def data_offset(self) -> int:
        """Where `data` begins: the end of `code`, rounded up to a page."""
        return _up(len(self.code), PAGE)

    @property
    def size(self) -> int:
        """Bytes to map."""
        return max(_up(self.data_offset + len(self.data) + self.bss, PAGE), PAGE)

    @property
    def undefined(self) -> tuple[str, ...]:
        """The external names that it needs, sorted."""
        return tuple(sorted({item.name for item in self.imports}))

    def to_bytes(self) -> bytes:
        """For the disk cache. The form is stable for one version of Magpie only; `from_bytes` refuses others."""
        parts = [self.code, self.data]
        for name, offset in self.exports.items():
            raw = name.encode()
            parts += [struct.pack("<IH", offset, len(raw)), raw]
        for item in self.imports:
            raw = item.name.encode()
            parts += [struct.pack("<IqH", item.offset, item.addend, len(raw)), raw]
        parts.append(struct.pack(f"<{len(self.based)}I", *self.based))
        body = b"".join(parts)
        counts = (len(self.exports), len(self.imports), len(self.based))
        return _HEAD.pack(_MAGIC, zlib.crc32(body), len(self.code), len(self.data), self.bss, *counts) + body

    @classmethod
    def from_bytes(cls, raw: bytes) -> LinkedImage:
        """The inverse of `to_bytes`. Raises `LinkError` on anything else, a damaged file included."""
        if len(raw) < _HEAD.size or raw[:8] != _MAGIC:
            raise LinkError("not a stored image of this version")
        _, crc, code_size, data_size, bss, exports, imports, based = _HEAD.unpack_from(raw)
        if zlib.crc32(memoryview(raw)[_HEAD.size :]) != crc:
            raise LinkError("a stored image is damaged")
        at = _HEAD.size
        code, data = raw[at : at + code_size], raw[at + code_size : at + code_size + data_size]
        at += code_size + data_size
        names: dict[str, int] = {}
        for _ in range(exports):
            offset, length = struct.unpack_from("<IH", raw, at)
            names[raw[at + 6 : at + 6 + length].decode()] = offset
            at += 6 + length
        needs: list[Import] = []
        for _ in range(imports):
            offset, addend, length = struct.unpack_from("<IqH", raw, at)
            needs.append(Import(raw[at + 14 : at + 14 + length].decode(), offset, addend))
            at += 14 + length
        return cls(code, data, bss, names, tuple(needs), struct.unpack_from(f"<{based}I", raw, at))


def is_elf_x86_64(obj: bytes) -> bool:
    """Whether `obj` is a 64-bit little-endian ELF file for x86-64."""
    return obj[:6] == b"\x7fELF\x02\x01" and len(obj) >= 64 and struct.unpack_from("<H", obj, 18)[0] == _EM_X86_64


def undefined_elf(obj: bytes) -> tuple[str, ...]:
    """External names that a 64-bit ELF object of any machine refers to, sorted."""
    symbols = ElfObject(obj).symbols
    return tuple(sorted({s.name for s in symbols if s.section == SHN_UNDEF and s.name}))


def defined_elf(obj: bytes) -> frozenset[str]:
    """Global names that a 64-bit ELF object of any machine defines."""
    return frozenset(s.name for s in ElfObject(obj).symbols if s.info >> 4 and s.section != SHN_UNDEF and s.name)


def link_elf(obj: bytes) -> LinkedImage:
    """Link one relocatable x86-64 object. Raises `LinkError` for what Magpie's own code never holds.

    That is: thread-local data, constructors, absolute 32-bit addresses and relocations for other code models.
    """
    if not is_elf_x86_64(obj):
        raise LinkError("not an ELF object for x86-64")
    return _Linker(ElfObject(obj)).image()


class _Linker:
    def __init__(self, obj: ElfObject) -> None:
        self.obj = obj
        self.place: dict[int, int] = {}  # section index -> offset in the image
        self.common: dict[int, int] = {}  # symbol index -> offset, for symbols without a section
        self.got: dict[int, int] = {}  # symbol index -> offset of its entry
        self.stubs: dict[int, int] = {}
        self.imports: list[Import] = []
        self.based: list[int] = []
        # Unwind tables are of no use: nothing here throws, and nobody registers them.
        kept = [
            (i, s)
            for i, s in enumerate(obj.sections)
            if s.flags & SHF_ALLOC and not obj.name(s).startswith((".eh_frame", ".note"))
        ]
        for _, section in kept:
            if section.flags & SHF_TLS or section.type == SHT_INIT_ARRAY:
                raise LinkError(f"section {obj.name(section)} (thread-local data or constructors) is not supported")
        self.relocations = [r for r in obj.relocations() if r[0] in {i for i, _ in kept}]
        self._lay_out(kept)

    def _lay_out(self, kept: list[tuple[int, Section]]) -> None:
        fixed = [item for item in kept if not item[1].flags & SHF_WRITE]
        fixed.sort(key=lambda item: not item[1].flags & SHF_EXECINSTR)
        writable = [item for item in kept if item[1].flags & SHF_WRITE]
        writable.sort(key=lambda item: item[1].type == SHT_NOBITS)

        at = self._append(fixed, 0)
        # A stub and a table entry for each symbol that is reached through one.
        wanted = [(kind, symbol) for _, _, kind, symbol, _ in self.relocations]
        for kind, symbol in wanted:
            external = self.obj.symbols[symbol].section == SHN_UNDEF
            if kind in _GOT_ENTRY or (external and kind in (_R_PC32, _R_PLT32)):
                self.got.setdefault(symbol, 0)
            if external and kind in (_R_PC32, _R_PLT32) and symbol not in self.stubs:
                self.stubs[symbol] = at = _up(at, _STUB_SIZE)
                at += _STUB_SIZE
        self.got_start = at = _up(at, 8)
        for symbol in self.got:
            self.got[symbol] = at
            at += 8
        self.code_size = at

        at = self.data_start = _up(at, PAGE)
        initialised = [item for item in writable if item[1].type != SHT_NOBITS]
        at = self._append(initialised, at)
        self.data_size = at - self.data_start
        at = self._append(writable[len(initialised) :], at)
        for index, symbol_entry in enumerate(self.obj.symbols):
            if symbol_entry.section == SHN_COMMON:
                at = self.common[index] = _up(at, max(symbol_entry.value, 1))
                at += symbol_entry.size
        self.bss = at - self.data_start - self.data_size

    def _append(self, sections: list[tuple[int, Section]], at: int) -> int:
        for index, section in sections:
            self.place[index] = at = _up(at, max(section.align, 1))
            at += section.size
        return at

    def _defined(self, index: int) -> int:
        """The image offset of a symbol that this object defines."""
        symbol = self.obj.symbols[index]
        if index in self.common:
            return self.common[index]
        if symbol.section >= SHN_LORESERVE or symbol.section not in self.place:
            raise LinkError(f"symbol '{symbol.name}' stands in no section that is loaded")
        return self.place[symbol.section] + symbol.value

    def image(self) -> LinkedImage:
        size = self.data_start + self.data_size if self.data_size else self.code_size
        memory = bytearray(size)
        for index, start in self.place.items():
            section = self.obj.sections[index]
            if section.type != SHT_NOBITS:
                memory[start : start + section.size] = self.obj.content(section)
        for symbol, entry in self.got.items():
            self._pointer(memory, entry, symbol, 0)
        for symbol, stub in self.stubs.items():
            distance = self.got[symbol] - (stub + 6)
            memory[stub : stub + _STUB_SIZE] = b"\xff\x25" + struct.pack("<i", distance) + b"\xcc\xcc"
        for section_index, offset, kind, symbol, addend in self.relocations:
            self._apply(memory, self.place[section_index] + offset, kind, symbol, addend)

        exports = {
            s.name: self._defined(i)
            for i, s in enumerate(self.obj.symbols)
            if s.info >> 4 and s.section != SHN_UNDEF and s.name
        }
        code, data = bytes(memory[: self.code_size]), bytes(memory[self.data_start :])
        return LinkedImage(code, data, self.bss, exports, tuple(self.imports), tuple(self.based))

    def _pointer(self, memory: bytearray, at: int, symbol: int, addend: int) -> None:
        """An absolute 64-bit address: only the loader can write it."""
        entry = self.obj.symbols[symbol]
        if entry.section == SHN_UNDEF:
            self.imports.append(Import(entry.name, at, addend))
        else:
            struct.pack_into("<Q", memory, at, (self._defined(symbol) + addend) & _MASK)
            self.based.append(at)

    def _apply(self, memory: bytearray, at: int, kind: int, symbol: int, addend: int) -> None:
        if kind == _R_64:
            self._pointer(memory, at, symbol, addend)
        elif kind in (_R_PC32, _R_PLT32):
            _put32(memory, at, self._branch_target(memory, at, kind, symbol) + addend - at)
        elif kind in _GOT_ENTRY:
            _put32(memory, at, self.got[symbol] + addend - at)
        elif kind == _R_PC64:
            struct.pack_into("<q", memory, at, self._defined(symbol) + addend - at)
        elif kind == _R_GOTOFF64:
            struct.pack_into("<q", memory, at, self._defined(symbol) + addend - self.got_start)
        elif kind == _R_GOTPC32:
            _put32(memory, at, self.got_start + addend - at)
        elif kind == _R_GOTPC64:
            struct.pack_into("<q", memory, at, self.got_start + addend - at)
        elif kind in (_R_32, _R_32S):
            raise LinkError("an absolute 32-bit address: the object was not compiled as position independent")
        else:
            raise LinkError(f"relocation type {kind} is not supported")

    def _branch_target(self, memory: bytearray, at: int, kind: int, symbol: int) -> int:
        entry = self.obj.symbols[symbol]
        if entry.section != SHN_UNDEF:
            return self._defined(symbol)
        # Only a call or a jump may land on a stub; a load from it would read the stub's own bytes.
        conditional = memory[at - 2] == 0x0F and memory[at - 1] & 0xF0 == 0x80
        if kind == _R_PC32 and not (memory[at - 1] in (0xE8, 0xE9) or conditional):
            raise LinkError(f"external symbol '{entry.name}' is used as data at a near address")
        return self.stubs[symbol]


def _put32(memory: bytearray, at: int, value: int) -> None:
    if not -(1 << 31) <= value < 1 << 31:
        raise LinkError("an image of more than 2 GiB")
    struct.pack_into("<i", memory, at, value)


def _up(value: int, step: int) -> int:
    return (value + step - 1) // step * step
