"""Object code into executable memory, in this process.

On x86-64 with ELF Magpie loads its objects itself: a warm start then takes microseconds and imports no LLVM. Elsewhere
LLVM's MCJIT does it behind the same interface. Either way the external names that an object needs are compared with a
list first: an unknown one (a half-precision helper that LLVM invented, say) would otherwise crash at the first call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import mmap
import os
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from magpie.backends.cpu.elf import LinkedImage, LinkError, defined_elf, is_elf_x86_64, link_elf, undefined_elf

__all__ = ["Image", "LoadError", "LoadedImage", "ObjectImage", "load_object", "prepare", "restore", "runtime_symbol"]

# What LLVM may call for code that Magpie emits. Everything here is exact or has one meaning: no exp, no sin.
_LIBC_NAMES = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp"})
_LIBM_NAMES = frozenset(
    name + suffix
    for name in ("fmod", "fma", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "sqrt", "ldexp")
    for suffix in ("", "f")
)


class LoadError(Exception):
    """An object that must not or cannot be loaded: an unknown external symbol, or no executable memory."""


class LoadedImage(Protocol):
    """Code that is ready to run. It stays mapped as long as this object lives: whoever calls into it must hold it."""

    @property
    def symbols(self) -> frozenset[str]:
        """Names that `address` knows."""

    def address(self, name: str) -> int:
        """The address of a symbol that the object defines. Raises `LoadError` if there is none of that name."""


class Image(Protocol):
    """An object made ready for loading, and for the disk cache."""

    @property
    def undefined(self) -> tuple[str, ...]:
        """The external names that it needs."""

    def to_bytes(self) -> bytes:
        """What `restore` takes."""

    def load(self, symbols: Mapping[str, int] | None = None) -> LoadedImage:
        """Map it. `symbols` gives addresses of more external names, such as callbacks; the caller keeps these alive."""


@functools.cache
def runtime_symbol(name: str) -> int | None:
    """The address of an external symbol that any object may use, or None for a name that is not on the list."""
    if name not in _LIBC_NAMES and name not in _LIBM_NAMES:
        return None
    for library in _runtime_libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


@functools.cache
def _runtime_libraries() -> tuple[ctypes.CDLL, ...]:
    if sys.platform == "win32":
        return (ctypes.CDLL("ucrtbase"), ctypes.CDLL("msvcrt"))
    libraries = [ctypes.CDLL(None)]
    with contextlib.suppress(OSError):  # not glibc: libm is in the process already
        libraries.append(ctypes.CDLL("libm.so.6"))
    return tuple(libraries)


def _resolve(names: Iterable[str], symbols: Mapping[str, int]) -> dict[str, int]:
    """The address of every name. Raises `LoadError` that lists all names that are not allowed."""
    found: dict[str, int] = {}
    unknown: list[str] = []
    for name in names:
        address = symbols.get(name) or runtime_symbol(name)
        if address:
            found[name] = address
        else:
            unknown.append(name)
    if unknown:
        raise LoadError(f"the compiled code needs unknown external symbols: {', '.join(unknown)}")
    return found


@functools.cache
def _libc() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """mmap, mprotect and munmap. Python's own mmap objects offer no mprotect."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    libc.mmap.restype = ctypes.c_void_p
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc.mmap, libc.mprotect, libc.munmap


class _MappedImage:
    """A `LinkedImage` in memory of its own: written first, then made executable and no longer writable."""

    __slots__ = ("__weakref__", "_base", "_exports")

    def __init__(self, image: LinkedImage, symbols: Mapping[str, int]) -> None:
        addresses = _resolve(image.undefined, symbols)
        map_memory, protect, unmap = _libc()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        size = image.size
        base = map_memory(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if base is None or base == ctypes.c_void_p(-1).value:
            raise LoadError(f"no memory for code: {os.strerror(ctypes.get_errno())}")
        # Not at exit: a daemon thread may still be inside a kernel then, and the process gives the memory back anyway.
        weakref.finalize(self, unmap, base, size).atexit = False

        memory = bytearray(image.data_offset + len(image.data))
        memory[: len(image.code)] = image.code
        memory[image.data_offset :] = image.data
        for offset in image.based:
            (value,) = struct.unpack_from("<Q", memory, offset)
            struct.pack_into("<Q", memory, offset, (value + base) & 0xFFFFFFFFFFFFFFFF)
        for item in image.imports:
            struct.pack_into("<Q", memory, item.offset, (addresses[item.name] + item.addend) & 0xFFFFFFFFFFFFFFFF)
        ctypes.memmove(base, bytes(memory), len(memory))
        if image.data_offset and protect(base, image.data_offset, mmap.PROT_READ | mmap.PROT_EXEC):
            raise LoadError(f"the system refuses executable memory: {os.strerror(ctypes.get_errno())}")
        self._base: int = base
        self._exports = image.exports

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(self._exports)

    def address(self, name: str) -> int:
        try:
            return self._base + self._exports[name]
        except KeyError:
            raise LoadError(f"the compiled code defines no symbol '{name}'") from None


class _ElfImage:
    """`Image` for x86-64 and ELF."""

    __slots__ = ("_linked",)

    def __init__(self, linked: LinkedImage) -> None:
        self._linked = linked

    @property
    def undefined(self) -> tuple[str, ...]:
        return self._linked.undefined

    def to_bytes(self) -> bytes:
        return self._linked.to_bytes()

    def load(self, symbols: Mapping[str, int] | None = None) -> LoadedImage:
        return _MappedImage(self._linked, symbols or {})


class _JitImage:
    """Code that MCJIT loaded. LLVM's table of external symbols is one per process, hence the fixed addresses there."""

    def __init__(self, obj: bytes, symbols: Mapping[str, int], defined: frozenset[str]) -> None:
        from magpie.backends.llvm import codegen

        machine = codegen.target_machine(codegen.host_target())
        binding = importlib.import_module("llvmlite.binding")
        for name, address in symbols.items():
            binding.add_symbol(name, address)
        module = binding.parse_assembly("", binding.create_context())
        self._engine: Any = binding.create_mcjit_compiler(module, machine)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(obj))
        self._engine.finalize_object()
        self.symbols = defined

    def address(self, name: str) -> int:
        # Asking MCJIT for a symbol that it does not know ends the process.
        if name not in self.symbols:
            raise LoadError(f"the compiled code defines no symbol '{name}'")
        found: int = self._engine.get_function_address(name)
        return found


class ObjectImage:
    """`Image` that keeps the object as it is and loads it through MCJIT: any machine, but it imports llvmlite."""

    __slots__ = ("_object",)

    def __init__(self, obj: bytes) -> None:
        self._object = obj

    @property
    def undefined(self) -> tuple[str, ...]:
        """The external names that it needs."""
        return _names(self._object)[0]

    def to_bytes(self) -> bytes:
        """What `restore` takes: the object."""
        return self._object

    def load(self, symbols: Mapping[str, int] | None = None) -> LoadedImage:
        """Load it. Raises `LoadError` for an unknown external symbol."""
        undefined, defined = _names(self._object)
        return _JitImage(self._object, _resolve(undefined, symbols or {}), defined)


def _names(obj: bytes) -> tuple[tuple[str, ...], frozenset[str]]:
    """External and defined names of an ELF or Mach-O object."""
    if obj[:4] == b"\x7fELF":
        return undefined_elf(obj), defined_elf(obj)
    if obj[:4] == b"\xcf\xfa\xed\xfe":
        return _names_macho(obj)
    raise LoadError("an object of a format that cannot be checked")


def _names_macho(obj: bytes) -> tuple[tuple[str, ...], frozenset[str]]:
    """From LC_SYMTAB (mach-o/loader.h, mach-o/nlist.h); C names carry a leading underscore there."""
    (commands,) = struct.unpack_from("<I", obj, 16)
    at = 32
    undefined: set[str] = set()
    defined: set[str] = set()
    for _ in range(commands):
        command, size = struct.unpack_from("<II", obj, at)
        if command == 2:
            table, count, strings, _ = struct.unpack_from("<4I", obj, at + 8)
            for i in range(count):
                name_at, kind = struct.unpack_from("<IB", obj, table + 16 * i)
                start = strings + name_at
                name = obj[start : obj.index(b"\0", start)].decode().removeprefix("_")
                if kind & 1:
                    (defined if kind & 0x0E else undefined).add(name)
        at += size
    return tuple(sorted(undefined)), frozenset(defined)


def prepare(obj: bytes) -> Image:
    """Make an object ready for this machine's way of loading. Raises `LoadError` for what cannot be loaded at all."""
    if is_elf_x86_64(obj) and sys.platform != "win32":
        try:
            return _ElfImage(link_elf(obj))
        except LinkError as error:
            raise LoadError(str(error)) from None
    return ObjectImage(obj)


def restore(raw: bytes) -> Image:
    """The image that `to_bytes` stored. Raises `LoadError` if the bytes are damaged or of another version."""
    if raw[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe"):
        return ObjectImage(raw)
    try:
        return _ElfImage(LinkedImage.from_bytes(raw))
    except LinkError as error:
        raise LoadError(str(error)) from None


def load_object(obj: bytes, symbols: Mapping[str, int] | None = None) -> LoadedImage:
    """`prepare` and `load` in one step."""
    return prepare(obj).load(symbols)
