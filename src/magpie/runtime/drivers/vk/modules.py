"""A look at a SPIR-V module before a driver gets it: drivers trust what they are given, and end the process."""

from __future__ import annotations

import struct

from magpie.backends.base import Artifact
from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.drivers.vk.results import BACKEND

__all__ = ["check_module"]

_MAGIC = 0x07230203
_HEADER = 5  # words
_NEWEST = 0x00010600  # SPIR-V 1.6
_OP_ENTRY_POINT, _OP_FUNCTION_END = 15, 56
_GL_COMPUTE = 5


def check_module(artifact: Artifact) -> None:
    """Raises GpuError InvalidKernel for a blob that is no whole SPIR-V module with the artifact's entries."""
    problem = _problem(artifact)
    if problem:
        raise GpuError(GpuErrorKind.InvalidKernel, BACKEND, f"kernel {artifact.kernel!r}: {problem}")


def _problem(artifact: Artifact) -> str:
    blob = artifact.blob
    if len(blob) < 4 * _HEADER or len(blob) % 4:
        return "the blob is no SPIR-V module"
    words = struct.unpack(f"<{len(blob) // 4}I", blob)
    if words[0] != _MAGIC:
        return "the blob is no SPIR-V module"
    if words[1] > _NEWEST:
        return f"the module is of SPIR-V {words[1] >> 16}.{words[1] >> 8 & 0xFF}, and 1.6 is the newest one here"
    entries = set()
    at, opcode = _HEADER, 0
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words):
            return "the module is cut short or damaged"
        if opcode == _OP_ENTRY_POINT and words[at + 1] == _GL_COMPUTE:
            entries.add(blob[4 * (at + 3) : 4 * (at + count)].split(b"\0", 1)[0].decode("utf-8", "replace"))
        at += count
    if opcode != _OP_FUNCTION_END:
        return "the module is cut short or damaged"
    wanted = {artifact.info.get("entry", "")} | {artifact.info.get("coarse", {}).get("entry", next(iter(entries), ""))}
    missing = wanted - entries
    return f"the module has no entry {', '.join(sorted(missing))}" if missing else ""
