"""Buffers of host programs: made, filled, copied and read; arrays of the host as memory, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from magpie.dtypes import StructType, Type, bf16
from magpie.errors import GpuError, GpuErrorKind
from magpie.host.arrays import MOST
from magpie.host.builtins import Call, builtin
from magpie.host.gpu import gpu_of
from magpie.host.gpu_errors import fallible
from magpie.host.values import ArrayValue, EnumValue, StructValue
from magpie.mpir.kernel_types import kernel_type
from magpie.mpir.nodes import Module
from magpie.mpir.prelude import fields_of
from magpie.mpir.types import Ty
from magpie.mpir.unify import bare
from magpie.runtime.buffer import Buffer, allocate
from magpie.runtime.device import Device
from magpie.runtime.driver import MemoryHint

if TYPE_CHECKING:
    import numpy

__all__ = ["argument"]

#: Flags of `usage_flags`: what kernels read and write. Every buffer is that, so no flag says the same.
STORAGE = 1

# No device has as much, and the drivers' own sizes are signed numbers of 64 bits.
_MOST_BYTES = 1 << 62


@builtin("gpu.host.@buffer_new")
@fallible
def buffer_new(call: Call, dev: Device, len: int, usage_flags: int, hint: EnumValue | str = "Auto") -> Buffer:
    """A buffer of zeros. A hint is a wish; a device that knows no difference ignores it."""
    name = hint if isinstance(hint, str) else hint.variant
    return _made(call, dev, len, usage_flags, MemoryHint[name])


@builtin("gpu.host.@buffer_from_array")
@fallible
def buffer_from_array(call: Call, dev: Device, src: ArrayValue, usage_flags: int) -> Buffer:
    import numpy as np

    buffer = _made(call, dev, len(src.items), usage_flags, MemoryHint.Auto)
    if src.items:
        memory = np.zeros(len(src.items), buffer.dtype.numpy)
        _fill(memory, buffer.dtype, src.items)
        buffer[...] = memory
    return buffer


@builtin("gpu.host.@buffer_to_array")
@fallible
def buffer_to_array(call: Call, buf: Buffer) -> ArrayValue:
    element, length = _element(call), buf.shape[0]
    if length > MOST:
        text = f"{length:,} elements: an Array that is made at once has at most {MOST:,}"
        raise GpuError(GpuErrorKind.OutOfMemory, buf.device.backend, text)
    return ArrayValue(element, _read(buf.to_numpy(), buf.dtype, element, call.program.module))


@builtin("gpu.host.@buffer_len", "gpu.buffer_len")
def buffer_len(call: Call, buf: Buffer) -> int:
    return buf.shape[0]


@builtin("gpu.host.@buffer_copy")
@fallible
def buffer_copy(call: Call, src: Buffer, dst: Buffer) -> None:
    """Copy all of ``src`` to the start of ``dst``, on any device."""
    count, room = src.shape[0], dst.shape[0]
    if count > room:
        text = f"a copy of {count} elements into a buffer of {room}; nothing was written"
        raise GpuError(GpuErrorKind.BufferError, dst.device.backend, text)
    if src is dst or not count:
        return
    stream = gpu_of(call.program).stream(dst.device)
    if src.device is not dst.device:
        src.device.synchronize()
    dst[:count].copy_from(src, stream)
    stream.synchronize()


def _made(call: Call, device: Device, length: int, usage_flags: int, hint: MemoryHint) -> Buffer:
    if usage_flags & ~STORAGE:
        text = f"usage_flags {usage_flags:#x}: {STORAGE} is STORAGE, and there are no others"
        raise GpuError(GpuErrorKind.ValidationFailed, device.backend, text)
    element = _element(call)
    type_ = kernel_type(call.program.module, element, gpu_of(call.program).structs)
    if type_ is None:
        raise GpuError(GpuErrorKind.BufferError, device.backend, f"a buffer has no elements of type {element}")
    if length * type_.itemsize > _MOST_BYTES:
        text = f"{length} elements of {element}: no device has as much memory"
        raise GpuError(GpuErrorKind.OutOfMemory, device.backend, text)
    return allocate(device, (length,), type_, hint, zero=True)


def _element(call: Call) -> Ty:
    """The type of a buffer's elements: written in <>, or that of the operand or of the result."""
    if call.instr.targs:
        element = call.instr.targs[0]
        assert isinstance(element, Ty)
        return element
    of = call.types.get("src") or call.types.get("buf")
    if of is None:
        assert call.type is not None  # a TResult of a buffer: else nothing would say what it is of
        of = call.type.args[0]
    return bare(of.args[0])


def argument(value: Any) -> Any:
    """An argument of a launch as the runtime takes it: a value struct is a tuple of its fields."""
    return tuple(map(argument, value.fields.values())) if isinstance(value, StructValue) else value


def _fill(memory: numpy.ndarray[Any, Any], type_: Type, items: list[Any]) -> None:
    """Put values in their places: of structs field by field."""
    import numpy as np

    if isinstance(type_, StructType):
        for field in type_.fields:
            _fill(memory[field.name], field.type, [item.fields[field.name] for item in items])
    elif type_ is bf16:
        # numbers of bf16 are floats whose lower half is zero; of a NaN the upper half might be left as an infinity
        words = np.array([math.nan if x != x else x for x in items], np.float32).view(np.uint32)
        memory.view(np.uint16)[...] = words >> 16
    else:
        memory[...] = items


def _read(memory: numpy.ndarray[Any, Any], type_: Type, element: Ty, module: Module) -> list[Any]:
    """The values of an array in memory; bf16 by its bits, with or without a package for that type."""
    import numpy as np

    if isinstance(type_, StructType):
        declared = fields_of(module, element)
        assert declared is not None
        columns = [
            _read(memory[field.name], field.type, inner, module)
            for field, (_, inner) in zip(type_.fields, declared, strict=True)
        ]
        names = [field.name for field in type_.fields]
        return [StructValue(element, dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    if type_ is bf16:
        words = np.ascontiguousarray(memory).view(np.uint16).astype(np.uint32) << 16
        memory = words.view(np.float32)
    values: list[Any] = memory.tolist()
    return values
