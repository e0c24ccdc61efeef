"""Vulkan's structs as ctypes classes, made when they are first asked for, and chains of them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from magpie.runtime.drivers.vk.structs import STRUCTS

__all__ = ["KINDS", "array", "chain", "fields", "make", "names", "prototype", "struct"]

KINDS: dict[str, Any] = {
    "I": ctypes.c_uint32,
    "i": ctypes.c_int32,
    "Q": ctypes.c_uint64,
    "q": ctypes.c_int64,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "B": ctypes.c_uint8,
    "c": ctypes.c_char,
    "Z": ctypes.c_size_t,
    "P": ctypes.c_void_p,
    "v": None,
}


def fields(name: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """The fields of a struct: name, kind, and its sizes where it is an array."""
    found = []
    for text in STRUCTS[name][1].split():
        field, _, rest = text.partition(":")
        kind, *sizes = rest.split("*")
        found.append((field, kind, tuple(map(int, sizes))))
    return found


@functools.cache
def struct(name: str) -> Any:
    """The class of a struct."""
    made: list[tuple[str, Any]] = []
    for field, kind, sizes in fields(name):
        type_ = KINDS[kind] if kind in KINDS else struct(kind)
        for size in reversed(sizes):
            type_ = type_ * size
        made.append((field, type_))
    return type(name, (ctypes.Structure,), {"_fields_": made})


def make(name: str, **values: Any) -> Any:
    """A struct of that name with its sType; what is not given is zero."""
    number = STRUCTS[name][0]
    made = struct(name)(**values)
    if number >= 0:
        made.sType = number
    return made


def chain(*parts: Any) -> Any:
    """Link structs by pNext; the first one, which keeps the others alive."""
    for this, following in pairwise(parts):
        this.pNext = ctypes.addressof(following)
    parts[0].following = parts[1:]
    return parts[0]


def array(type_: Any, values: Sequence[Any]) -> Any:
    """A ctypes array of these values."""
    return (type_ * len(values))(*values)


def names(values: Sequence[str]) -> Any:
    """An array of C strings."""
    return array(ctypes.c_char_p, [v.encode() for v in values])


@functools.cache
def prototype(signature: str, *, quick: bool = False) -> Any:
    """The ctypes function type of a signature, as `structs` writes them.

    Quick ones keep the GIL: right for what only writes a few words, such as recording a command.
    """
    result, *parameters = (KINDS[kind] for kind in signature.split())
    make_type: Any = ctypes.PYFUNCTYPE if quick else ctypes.CFUNCTYPE
    return make_type(result, *parameters)
