"""What the tests of the hip backend ask of its output: sections and symbols of an ELF file, and LLVM's own linker."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from magpie.backends.elf_object import ElfObject, Section
from magpie.backends.llvm import worker

ARCHS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
TRIPLE = "amdgcn-amd-amdhsa"


def lld() -> str | None:
    """LLVM's linker: apt's lld-19, or another that is called ld.lld."""
    return shutil.which("ld.lld-19") or shutil.which("ld.lld")


def linked_by_lld(obj: bytes, folder: Path) -> bytes:
    """The code object that LLVM's linker makes of an object."""
    linker = lld()
    assert linker is not None
    source, target = folder / "k.o", folder / "k.so"
    source.write_bytes(obj)
    subprocess.run([linker, "-m", "elf64_amdgpu", "--no-undefined", "-shared", source, "-o", target], check=True)
    return target.read_bytes()


def compiled(text: str, arch: str = "gfx1100", features: str = "", opt: int = 2) -> bytes:
    """The object of a module."""
    return worker.generate(text, TRIPLE, arch, features, opt, "object")


class File:
    """An ELF file by name: its sections, and its symbols with their addresses."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.elf = ElfObject(raw)
        self.sections: dict[str, Section] = {self.elf.name(s): s for s in self.elf.sections}
        self.symbols = {s.name: s for s in self.elf.symbols if s.name}

    def content(self, name: str) -> bytes:
        return self.elf.content(self.sections[name])

    def dynamic_symbols(self) -> dict[str, tuple[int, int, str, int]]:
        """Name -> (type and binding, visibility, section, size) of what other files can see."""
        strings = self.content(".dynstr")
        found = {}
        for at, info, other, section, value, size in struct.iter_unpack("<IBBHQQ", self.content(".dynsym")):
            name = strings[at : strings.index(b"\0", at)].decode()
            if name:
                found[name] = (info, other, self.elf.name(self.elf.sections[section]), size)
                assert self.symbols[name].value == value
        return found

    def at(self, address: int, size: int) -> bytes:
        """Memory as a loader fills it."""
        (programs,) = struct.unpack_from("<H", self.raw, 56)
        for n in range(programs):
            kind, _, offset, start, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", self.raw, 64 + 56 * n)
            if kind == 1 and start <= address and address + size <= start + in_file:
                return self.raw[offset + address - start :][:size]
        raise AssertionError(f"nothing is loaded at {address:#x}")
