"""The native launch code in this process: found on disk or compiled, loaded, and told where things are.

It is made for CPython with a GIL, on x86-64 with ELF. What its code takes for granted of objects is compared with what
Python says first. Wherever that does not hold there is no native path, and nothing else changes.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
from typing import Any

from magpie.runtime.native.text import CALL_SYMBOL, CONFIG_SYMBOL, FUNCTIONS, ITEM_SYMBOL, Config, native_text

__all__ = ["Library", "library", "supported"]

_OLDEST, _NEWEST = (3, 11), (3, 13)  # the versions that this was tested with

_MP_SUBSCRIPT, _TP_CALL = 5, 50  # Py_mp_subscript and Py_tp_call of typeslots.h
_BASETYPE = 1 << 10  # Py_TPFLAGS_BASETYPE


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class Library:
    """The loaded code. `launcher_type` is a `Launcher` whose calls are native, `kernel_type` a `Kernel` likewise."""

    __slots__ = ("_keep", "kernel_type", "launcher_type")

    def __init__(self, image: Any) -> None:
        import numpy as np

        from magpie.runtime import recording
        from magpie.runtime.buffer import Buffer
        from magpie.runtime.kernel import Kernel
        from magpie.runtime.launcher import Launcher
        from magpie.runtime.stream import Stream

        address: int = image.address(CONFIG_SYMBOL)
        config = (ctypes.c_int64 * len(Config)).from_address(address)
        objects = {
            Config.SLOW: Launcher.__call__,
            Config.SLOW_ITEM: Kernel.__getitem__,
            Config.BOUND_NAME: sys.intern("_by_ints"),
            Config.NONE: None,
            Config.TRUE: True,
            Config.FALSE: False,
            Config.FLOAT: float,
            Config.INT: int,
            Config.TUPLE: tuple,
            Config.BUFFER: Buffer,
            Config.NDARRAY: np.ndarray,
            Config.INTERRUPT: KeyboardInterrupt,
            Config.RECORDING: recording.active,
            Config.STREAM: Stream,
        }
        for word, value in objects.items():
            config[word] = id(value)
        config[Config.PLANS_SLOT] = slot_offset(Launcher, "native_plans")
        config[Config.KEY_SLOT] = slot_offset(Buffer, "_key")
        config[Config.PACKED_SLOT] = slot_offset(Buffer, "_packed")
        self._keep: list[Any] = [image, objects]
        self.launcher_type = self._subtype(Launcher, "__call__", _TP_CALL, image.address(CALL_SYMBOL))
        self.kernel_type = self._subtype(Kernel, "__getitem__", _MP_SUBSCRIPT, image.address(ITEM_SYMBOL))

    def _subtype(self, type_: type, name: str, slot: int, function: int) -> type:
        """A subtype with one native operation. Its objects are laid out alike: an object may become one."""
        slots = (_Slot * 2)(_Slot(slot, function), _Slot(0, None))
        spec = _Spec(b"magpie.runtime.native.Base", 0, 0, _BASETYPE, slots)
        self._keep += [slots, spec]  # the type's name may point into it
        make = ctypes.pythonapi.PyType_FromSpec
        make.argtypes, make.restype = (ctypes.POINTER(_Spec),), ctypes.py_object
        base = make(ctypes.byref(spec))
        copied = {n: getattr(type_, n) for n in ("__doc__", "__module__", "__qualname__")}
        # Python finds the base's function behind this name, and calls it without a detour.
        copied[name] = getattr(base, name)
        made = type(type_.__name__, (type_, base), {"__slots__": (), **copied})
        probe: Any = object.__new__(type_)
        try:
            probe.__class__ = made
        except TypeError as error:
            raise Unsupported(str(error)) from None
        return made


class Unsupported(Exception):
    """Something in this interpreter is not as the native code takes it to be."""


def slot_offset(type_: type, name: str) -> int:
    """Where an object keeps what `__slots__` names, in bytes. Raises Unsupported if it is found nowhere."""
    probe: Any = object.__new__(type_)
    mark = object()
    setattr(probe, name, mark)
    for at in range(object.__basicsize__, type_.__basicsize__, 8):
        if ctypes.c_void_p.from_address(id(probe) + at).value == id(mark):
            return at
    raise Unsupported(f"{type_.__name__}.{name}")


def _check_objects() -> None:
    """Compare the fields that the native code reads with what Python says. Raises Unsupported."""
    import numpy as np

    word = ctypes.c_int64.from_address
    base = np.zeros((4, 6), np.float32)
    for a in (base, base[1:], base[::-1, ::2], np.array(1.0), base.view(np.uint8), np.zeros((2, 0, 3), np.int16)):
        at = id(a)
        dimensions = tuple(word(word(at + 32).value + 8 * d).value for d in range(a.ndim))
        said = (id(type(a)), a.__array_interface__["data"][0], a.ndim, a.shape, id(a.dtype), a.flags.num)
        nd, flags = ctypes.c_int32.from_address(at + 24).value, ctypes.c_int32.from_address(at + 64).value
        if (word(at + 8).value, word(at + 16).value, nd, dimensions, word(at + 56).value, flags) != said:
            raise Unsupported("a NumPy array")


def supported() -> bool:
    """Whether this interpreter and this machine are of a kind that the native code is made for."""
    return (
        sys.implementation.name == "cpython"
        and _OLDEST <= sys.version_info[:2] <= _NEWEST
        and "t" not in getattr(sys, "abiflags", "")  # without a GIL arguments change while they are looked at
        and object.__basicsize__ == 16  # no debugging fields before the type
        and sys.platform.startswith("linux")
        and platform.machine() == "x86_64"
    )


def _functions() -> dict[str, int]:
    """Addresses of the Python functions that the code calls. Raises AttributeError for one that is not there."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS}


def _load() -> Any:
    """The image, from the disk cache where that has it."""
    from magpie.backends.base import Artifact
    from magpie.backends.cpu import loader
    from magpie.backends.llvm import codegen
    from magpie.ir.layout import KernelLayout
    from magpie.runtime import cache

    symbols = _functions()
    store = cache.current()
    key = cache.plain_key("native launch", codegen.host_fingerprint())
    found = store.load(key) if store is not None else None
    if found is not None:
        try:
            return loader.restore(found.blob).load(symbols)
        except loader.LoadError:
            pass
    target = codegen.host_target()
    made = loader.prepare(codegen.compile_object(native_text(), target, opt_level=2))
    if store is not None:
        layout = KernelLayout("native launch", "", (), 0, (), None)
        store.store(key, Artifact("cpu", "native launch", made.to_bytes(), layout, ""))
    return made.load(symbols)


_lock = threading.Lock()
_made: list[Library | None] = []


def library() -> Library | None:
    """The code, loaded when it is first asked for; None where there is none for this interpreter."""
    if not _made:
        with _lock:
            if not _made:
                _made.append(_make() if supported() else None)
    return _made[0]


def _make() -> Library | None:
    from magpie.backends.cpu.loader import LoadError
    from magpie.backends.llvm.codegen import CodegenError

    try:
        _check_objects()
        return Library(_load())
    except (Unsupported, LoadError, CodegenError, AttributeError, ImportError, OSError):
        return None
