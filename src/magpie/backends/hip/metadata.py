"""What a code object says of its kernels: the note with the metadata, and kernel descriptors.

Sources: LLVM, "User Guide for AMDGPU Backend", sections Code Object V3 and Above Note Records, Code Object Metadata and
Kernel Descriptor; the MessagePack specification, of which LLVM writes maps, arrays, strings, booleans and integers.
"""

from __future__ import annotations

import struct
from typing import Any

from magpie.backends.elf_object import SHT_NOTE, ElfObject, LinkError

__all__ = ["kernel_facts", "metadata", "unpack"]

_NT_AMDGPU_METADATA = 32


def metadata(blob: bytes) -> dict[str, Any]:
    """The metadata of an object or code object. Raises LinkError where there is none."""
    obj = ElfObject(blob)
    for section in obj.sections:
        if section.type != SHT_NOTE:
            continue
        data, at = obj.content(section), 0
        while at + 12 <= len(data):
            name_size, size, kind = struct.unpack_from("<III", data, at)
            name = data[at + 12 : at + 12 + name_size]
            start = at + 12 + (name_size + 3) // 4 * 4
            at = start + (size + 3) // 4 * 4
            if at > len(data):
                raise LinkError("a damaged note")
            if name == b"AMDGPU\0" and kind == _NT_AMDGPU_METADATA:
                found = unpack(data[start : start + size])
                if not isinstance(found, dict):
                    raise LinkError("damaged metadata: no map")
                return found
    raise LinkError("a code object without metadata")


def kernel_facts(blob: bytes, entry: str) -> dict[str, int]:
    """What a driver may want to know of a kernel: bytes of arguments, of shared and of private memory, registers."""
    kernels = metadata(blob).get("amdhsa.kernels")
    for kernel in kernels if isinstance(kernels, list) else ():
        if isinstance(kernel, dict) and kernel.get(".name") == entry:
            try:
                return {
                    "kernarg_bytes": kernel[".kernarg_segment_size"],
                    "lds_bytes": kernel[".group_segment_fixed_size"],
                    "private_bytes": kernel[".private_segment_fixed_size"],
                    "vgprs": kernel[".vgpr_count"],
                    "sgprs": kernel[".sgpr_count"],
                    "spilled": kernel[".vgpr_spill_count"] + kernel[".sgpr_spill_count"],
                    "max_workgroup": kernel[".max_flat_workgroup_size"],
                }
            except KeyError as error:
                raise LinkError(f"the metadata of {entry!r} lack {error}") from None
    raise LinkError(f"the metadata do not name the kernel {entry!r}")


def unpack(data: bytes) -> Any:
    """The value of a MessagePack document. Raises LinkError for a damaged one."""
    try:
        value, end = _value(data, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise LinkError(f"damaged metadata: {error}") from None
    if end != len(data):
        raise LinkError("damaged metadata: something stands behind them")
    return value


# First byte -> format of the number behind it.
_NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
_NUMBERS |= {0xCA: "f", 0xCB: "d"}
_LENGTHS = {0xD9: ("str", "B"), 0xDA: ("str", "H"), 0xDB: ("str", "I"), 0xDC: ("array", "H"), 0xDD: ("array", "I")}
_LENGTHS |= {0xDE: ("map", "H"), 0xDF: ("map", "I")}
_SINGLE = {0xC0: None, 0xC2: False, 0xC3: True}


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """The value at a place, and the place behind it."""
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head in _SINGLE:
        return _SINGLE[head], at
    if head in _NUMBERS:
        form = ">" + _NUMBERS[head]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if head < 0xC0:
        kind = "map" if head < 0x90 else "array" if head < 0xA0 else "str"
        count = head & (0x1F if kind == "str" else 0xF)
    elif head in _LENGTHS:
        kind, code = _LENGTHS[head]
        (count,) = struct.unpack_from(">" + code, data, at)
        at += struct.calcsize(code)
    else:
        raise LinkError(f"damaged metadata: byte {head:#x}")
    if count > len(data):
        raise IndexError("more values than bytes")
    if kind == "str":
        if at + count > len(data):
            raise IndexError("a string ends behind them")
        return data[at : at + count].decode(), at + count
    values = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, at = _value(data, at)
        values.append(value)
    if kind == "array":
        return values, at
    if not all(isinstance(key, str) for key in values[::2]):
        raise LinkError("damaged metadata: a key that is no string")
    return dict(zip(values[::2], values[1::2], strict=True)), at
