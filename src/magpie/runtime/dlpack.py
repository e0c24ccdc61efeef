"""Arrays in GPU memory for other libraries, by DLPack: the same memory, kept until they give it back.

The form is that of dlpack.h before its version 1, which every consumer takes. The capsule has a pointer to a
DLManagedTensor; whoever takes it renames the capsule, and calls the tensor's deleter in the end. A capsule that nobody
took calls it itself.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, bf16

if TYPE_CHECKING:
    from magpie.runtime.buffer import Buffer

__all__ = ["capsule"]

_NAME = b"dltensor"
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # DLDataTypeCode


class _Tensor(ctypes.Structure):
    """DLTensor, with the device and the data type spelt out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


#: What consumers hold: address of the managed tensor -> everything that must live as long.
_held: dict[int, tuple[Any, ...]] = {}


def _give_back(address: int) -> None:
    _held.pop(address, None)


def _end(capsule_address: int) -> None:
    # By address: the object is being deallocated, and a reference to it would bring it back to life.
    if _is_valid(capsule_address, _NAME):
        _give_back(_pointer(capsule_address, _NAME))


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_delete, _destroy = _Deleter(_give_back), _Destructor(_end)

# Objects of our own: an attribute of `pythonapi` is shared with everybody who declares its parameters otherwise.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def capsule(array: Buffer, device_type: int, device: int) -> Any:
    """A capsule with the array, which lives until it is given back. Raises BufferError for types without a name."""
    code, bits = _type_of(array)
    rank = len(array.shape)
    shape, strides = (ctypes.c_int64 * rank)(*array.shape), (ctypes.c_int64 * rank)(*array.strides)
    pointers = (ctypes.cast(each, ctypes.POINTER(ctypes.c_int64)) for each in (shape, strides))
    tensor = _Tensor(array._words[0], device_type, device, rank, code, bits, 1, *pointers, 0)
    managed = _Managed(tensor, None, _delete)
    address = ctypes.addressof(managed)
    _held[address] = (managed, shape, strides, array)
    return _new(address, _NAME, _destroy)


def _type_of(array: Buffer) -> tuple[int, int]:
    dtype = array.dtype
    if not isinstance(dtype, DType):
        raise BufferError("DLPack has no structs; use to_numpy()")
    if dtype.is_bool:
        kind = "bool"
    elif dtype is bf16:
        kind = "bfloat"
    elif dtype.is_float:
        kind = "float"
    else:
        kind = "int" if dtype.min < 0 else "uint"
    return _CODES[kind], 8 * dtype.itemsize
