"""Compiled kernels on disk, between processes.

An entry is one file: magic, checksum, a header (layout and the backend's own data, plain
values) and the blob. It is written
under another name and moved into place, so a reader sees all of it or none; two processes that compile the same kernel
both write the same bytes. An entry that does not read back is treated as absent and written again; a folder that cannot
be used is left alone. Nothing here ever makes a launch fail.

The oldest entries by last use (the file's mtime, touched on every hit) go when the folder grows over its cap.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import struct
import threading
import warnings
import zlib
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.base import Artifact
from magpie.hashing import digest
from magpie.ir.layout import KernelLayout

if TYPE_CHECKING:  # pathlib is not imported for a lookup: that would take longer than all the rest
    from pathlib import Path

__all__ = ["Cache", "current", "plain_key"]

_MAGIC = b"MPGC\x00\x01\r\n"  # the last two bytes catch a transfer in text mode
_FIXED = struct.Struct("<8sIII")  # magic, crc32 of the rest, bytes of header, bytes of blob

#: Bytes over which old entries go, and what remains then. A kernel takes 4 to 50 KB.
CAP = 512 << 20
_KEEP = 0.75
# A scan of a full folder costs milliseconds: not on every write.
_WRITES_PER_SCAN = 64


class Cache:
    """The entries of one folder. Safe from several threads and processes."""

    def __init__(self, folder: str | Path, cap: int = CAP) -> None:
        self.folder = os.fspath(folder)
        self.cap = cap
        self.hits = 0
        self.misses = 0
        self._writes = 0
        self._usable = True

    def path(self, key: str) -> str:
        """The file of an entry; 256 subfolders keep listings short."""
        return os.path.join(self.folder, key[:2], key[2:] + ".mpk1")

    def load(self, key: str) -> Artifact | None:
        """The entry of a key, or None. A damaged one is reported once and removed."""
        path = self.path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            self.misses += 1
            return None
        try:
            artifact = _decode(data)
        except (ValueError, KeyError, TypeError, EOFError, struct.error) as error:
            warnings.warn(
                f"[MPG_ENV_1004] damaged cache entry {path} ({error}); the kernel is compiled again",
                RuntimeWarning,
                stacklevel=2,
            )
            with contextlib.suppress(OSError):
                os.unlink(path)
            self.misses += 1
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        self.hits += 1
        return artifact

    def discard(self, key: str) -> None:
        """Remove an entry whose content turned out to be unusable."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(key))

    def store(self, key: str, artifact: Artifact) -> None:
        """Write an entry; does nothing for an artifact that only means something in this process."""
        if artifact.payload is not None or not self._usable:
            return
        path = self.path(key)
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{os.getpid()}.{threading.get_ident()}")
        try:
            data = _encode(artifact)
        except ValueError:  # the backend's info is no plain data
            return
        try:
            # Code is loaded from here: nobody else may write into it.
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError as error:
            self._usable = False
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            warnings.warn(
                f"[MPG_ENV_1003] the cache {self.folder} cannot be written ({error.strerror or error}); kernels are "
                "compiled anew in each process. Set MAGPIE_CACHE_DIR to a writable folder, or MAGPIE_CACHE=0",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self._writes += 1
        if self._writes % _WRITES_PER_SCAN == 1:
            self.evict()

    def entries(self) -> list[tuple[float, int, str]]:
        """(last use, bytes, file) of every entry, oldest first; left-overs of killed writers count too."""
        found: list[tuple[float, int, str]] = []
        try:
            folders = [f for f in os.scandir(self.folder) if f.is_dir() and len(f.name) == 2]
            for folder in folders:
                for entry in os.scandir(folder):
                    with contextlib.suppress(OSError):
                        status = entry.stat()
                        found.append((status.st_mtime, status.st_size, entry.path))
        except OSError:
            pass
        found.sort(key=lambda item: (item[0], item[2]))
        return found

    def evict(self) -> int:
        """Remove the least recently used entries when the folder is over its cap; the number of removed files."""
        found = self.entries()
        total = sum(size for _, size, _ in found)
        if total <= self.cap:
            return 0
        removed = 0
        for _, size, path in found:
            if total <= self.cap * _KEEP:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed += 1
            total -= size
        return removed

    def clear(self) -> int:
        """Remove every entry; the number of removed files."""
        removed = 0
        for _, _, path in self.entries():
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed += 1
        return removed


def plain_key(*parts: str) -> str:
    """The key of something that is found by a few words: a hash of them and of the package's version."""
    from magpie import __version__

    return digest("\0".join((__version__, _build(), *parts)))


@functools.cache
def _build() -> str:
    """For a development version, when its files were last changed: the same version then stands for many compilers."""
    from magpie import __version__

    if "dev" not in __version__:
        return ""
    stamps: list[str] = []
    folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    while folders:
        for entry in os.scandir(folders.pop()):
            if entry.name.endswith(".py"):
                stamps.append(f"{entry.name} {entry.stat().st_mtime_ns}")
            elif entry.is_dir() and entry.name != "__pycache__":
                folders.append(entry.path)
    return digest("\n".join(sorted(stamps)))


def _encode(artifact: Artifact) -> bytes:
    header: dict[str, Any] = {
        "backend": artifact.backend,
        "kernel": artifact.kernel,
        "extension": artifact.extension,
        "layout": artifact.layout.to_json(),
        "info": artifact.info,
    }
    # marshal, since importing json costs a tenth of a warm start. Its version 2 has no references between objects, so
    # equal headers are equal bytes, and it reads back in every Python.
    text = marshal.dumps(header, 2)
    checksum = zlib.crc32(artifact.blob, zlib.crc32(text))
    return _FIXED.pack(_MAGIC, checksum, len(text), len(artifact.blob)) + text + artifact.blob


def _decode(data: bytes) -> Artifact:
    if len(data) < _FIXED.size:
        raise ValueError("it is cut short")
    magic, checksum, header_size, blob_size = _FIXED.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it is no cache entry")
    start = _FIXED.size + header_size
    if len(data) != start + blob_size:
        raise ValueError("it is cut short")
    text, blob = data[_FIXED.size : start], data[start:]
    if zlib.crc32(blob, zlib.crc32(text)) != checksum:
        raise ValueError("its checksum is wrong")
    header = marshal.loads(text)
    layout = KernelLayout.from_json(header["layout"])
    return Artifact(header["backend"], header["kernel"], blob, layout, header["extension"], "", header["info"])


_caches: dict[str, Cache] = {}


def current() -> Cache | None:
    """The cache that the environment asks for now (MAGPIE_CACHE, MAGPIE_CACHE_DIR), or None."""
    if not knobs.cache():
        return None
    folder = knobs.cache_folder()
    found = _caches.get(folder)
    if found is None:
        found = _caches.setdefault(folder, Cache(folder))
    return found
