"""Plans: what a launch must be like to take the native path, and what it does then, as a table of 64-bit words.

A table is the content of a `bytes` object, and refers to Python objects by address; a `Plan` holds the table together
with those objects. `text` reads tables; the enumerations here are their layout, in words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, Type
from magpie.ir.layout import BufferField, KernelLayout
from magpie.runtime.buffer import Buffer, running
from magpie.runtime.fastpath import ENVIRONMENT
from magpie.runtime.keys import FREED, SMALL
from magpie.runtime.native import Plan
from magpie.runtime.native.target import Target

if TYPE_CHECKING:
    from magpie.frontend.python.annotations import Parameter

__all__ = [
    "ARGUMENT_WORDS",
    "Argument",
    "Head",
    "Operation",
    "environment",
    "make_plan",
]


class Head(IntEnum):
    """The first words of a table. `..._AT` are byte offsets from its start."""

    ARGUMENT_COUNT = 0
    VARIABLE_COUNT = 1
    VARIABLES = 2  # the dict of the environment
    VARIABLES_AT = 3  # key and value (or null) of each variable that a launch depends on
    ARGUMENTS_AT = 4
    PAIR_COUNT = 5
    PAIRS_AT = 6  # pairs of arrays that must not overlap: offsets of their spans
    GATE = 7  # address of a word that is 0 while this plan may be used, or null
    CHANGED = 8  # a callable that says whether a captured value is another now, or null
    RUNNING = 9  # the dict of launches under way, or null
    NAME = 10
    ARGUMENT_BYTES = 11
    KIND = 12
    TARGET_AT = 13


class Argument(IntEnum):
    """One parameter of the kernel."""

    OPERATION = 0
    OBJECT = 1  # the constant itself, the key of an mp array, the dtype of a NumPy array
    OFFSET = 2  # of its words
    RANK = 3
    TAKES = 3  # of a float: 1 for floats, 2 for ints, 3 for both
    SIZE = 4  # bytes of an element or of the number
    LOW = 5  # least int; flags of a NumPy array that must be set or not
    HIGH = 6  # greatest int; the bits of a double that finite floats are below; which flags are looked at


ARGUMENT_WORDS = 7


class Operation(IntEnum):
    """What an argument is."""

    CONSTANT = 0
    BUFFER = 1
    NDARRAY = 2
    FLOAT = 3
    INT = 4
    BOOL = 5


# Larger argument blocks would be a burden for the stack of a small thread.
_MOST_BYTES = 2048

# As `fastpath` has them: finite floats below these need no look at what they become.
_LIMITS = {"f32": 3.4028234e38}


# NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE: what `arguments.numpy_key` looks at.
_FLAGS = 0x0001 | 0x0100 | 0x0400


class _Unknown(Exception):
    """An argument that only the Python path knows."""


def make_plan(
    kernel: str,
    parameters: Sequence[Parameter],
    layout: KernelLayout,
    types: Sequence[Type | None],
    values: Sequence[Any],
    *,
    fast: bool,
    changed: Callable[[], bool] | None,
    target: Target,
    environment: tuple[dict[Any, Any], Sequence[Any]],
) -> Plan | None:
    """The plan of launches like the one with `values`, or None where an argument is of a kind that has none.

    `types` has the type of each by-value parameter. `fast`: arrays are contiguous, and none overlaps one that is
    written. `environment` is the dict of variables and the keys that launches depend on.
    """
    if layout.size > _MOST_BYTES:
        return None
    keep: list[Any] = [*target.keep, changed, kernel]
    fields = {f.name: f for f in layout.params}
    arguments: list[int] = []
    arrays: list[tuple[int, bool]] = []
    buffers = False
    try:
        for n, (p, value) in enumerate(zip(parameters, values, strict=True)):
            field = fields.get(p.name)
            if field is None:
                keep.append(value)
                arguments += _words(Operation.CONSTANT, object=id(value))
            elif isinstance(field, BufferField):
                arguments += _array(field, value, fast, keep)
                arrays.append((n, field.access in ("write", "read_write")))
                buffers = buffers or type(value) is Buffer
            else:
                arguments += _number(types[n], value, field.offset, p.kind == "scalar")
    except _Unknown:
        return None
    pairs = [16 * i for k, a in enumerate(arrays) for b in arrays[:k] if fast and (a[1] or b[1]) for i in (a[0], b[0])]
    variables, keys = environment
    watched = [(key, variables.get(key)) for key in keys]
    keep += [variables, *watched, running]
    head = [0] * len(Head)
    table = [*head]
    head[Head.VARIABLES_AT] = 8 * len(table)
    table += [word for key, value in watched for word in (id(key), 0 if value is None else id(value))]
    head[Head.ARGUMENTS_AT] = 8 * len(table)
    table += arguments
    head[Head.PAIRS_AT] = 8 * len(table)
    table += pairs
    head[Head.TARGET_AT] = 8 * len(table)
    table += target.words
    head[Head.ARGUMENT_COUNT] = len(parameters)
    head[Head.VARIABLE_COUNT] = len(watched)
    head[Head.VARIABLES] = id(variables)
    head[Head.PAIR_COUNT] = len(pairs) // 2
    head[Head.GATE] = target.gate
    head[Head.CHANGED] = 0 if changed is None else id(changed)
    head[Head.RUNNING] = id(running) if buffers and target.takes_time else 0
    head[Head.NAME] = id(kernel)
    head[Head.ARGUMENT_BYTES] = layout.size
    head[Head.KIND] = target.kind
    table[: len(head)] = head
    return struct.pack(f"<{len(table)}q", *table), tuple(keep)


def _words(
    operation: Operation, *, object: int = 0, offset: int = 0, rank: int = 0, size: int = 0, low: int = 0, high: int = 0
) -> list[int]:
    return [operation, object, offset, rank, size, low, high]


def _array(field: BufferField, value: Any, fast: bool, keep: list[Any]) -> list[int]:
    if (field.extents, field.strides) != (field.offset + 8, field.offset + 8 + 8 * field.rank) and field.rank:
        raise _Unknown  # words of another size
    common = {"offset": field.offset, "rank": field.rank, "size": field.itemsize}
    if type(value) is Buffer:
        key = value._key
        if key is FREED:
            raise _Unknown
        keep.append(key)
        return _words(Operation.BUFFER, object=id(key), **common)
    if not fast or value.size >= SMALL:
        raise _Unknown  # its strides are looked at by Python
    keep.append(value.dtype)
    return _words(Operation.NDARRAY, object=id(value.dtype), low=value.flags.num & _FLAGS, high=_FLAGS, **common)


def _number(type_: Type | None, value: Any, offset: int, declared: bool) -> list[int]:
    if not isinstance(type_, DType):
        raise _Unknown
    kind, size = type(value), type_.itemsize
    if type_.is_bool and (declared or kind is bool):
        return _words(Operation.BOOL, offset=offset, size=size)
    if type_.is_int and (declared or kind is int):
        return _words(Operation.INT, offset=offset, size=size, low=type_.min, high=min(type_.max, (1 << 63) - 1))
    if type_.name in ("f32", "f64") and (declared or kind in (int, float)):
        takes = 3 if declared else 1 if kind is float else 2
        (limit,) = struct.unpack("<q", struct.pack("<d", _LIMITS.get(type_.name, 0.0)))
        return _words(Operation.FLOAT, offset=offset, rank=takes, size=size, high=limit)
    raise _Unknown


def environment() -> tuple[dict[Any, Any], Sequence[Any]] | None:
    """The dict of variables and the keys that launches depend on; None where this interpreter hides the dict."""
    read, keys = ENVIRONMENT
    variables = getattr(read, "__self__", None)
    return (variables, keys) if type(variables) is dict else None
