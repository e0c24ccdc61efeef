"""`Buffer`, the mp array: memory of a device with a shape, freed when nothing refers to it any more.

A buffer's pointer, shape and strides never change; so what a launch needs of it (its key and its argument words) is
made once, with it.
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from typing import TYPE_CHECKING, Any

from magpie.dtypes import DType, StructType, Type
from magpie.errors import GpuError, GpuErrorKind, LaunchValueError, public
from magpie.runtime.keys import FREED, MAX_RANK, ArrayKey, array_key, is_small
from magpie.runtime.recording import current, refuse
from magpie.runtime.shapes import check_shape, is_contiguous, row_major, sliced
from magpie.runtime.types import numpy_type

if TYPE_CHECKING:
    import numpy

    from magpie.runtime.device import Device
    from magpie.runtime.driver import Allocation, MemoryHint
    from magpie.runtime.stream import Stream

__all__ = ["Buffer", "Memory", "allocate", "running"]

#: Launches that are under way: a token of each -> (kernel's name, its arguments). Filled by launchers, read by `free`.
running: dict[object, tuple[str, tuple[Any, ...]]] = {}

#: Host memory may be used by every device that reaches it, so its arrays promise what the most demanding one asks for.
ALIGNMENT = 64

# By rank: the address, extents and strides, one number more.
_PACKED = tuple(f"<Q{2 * rank + 1}q" for rank in range(MAX_RANK + 1))

_free_lock = threading.RLock()


class Memory:
    """One allocation. It goes back to the device when the last array on it is gone, or when one of them is freed."""

    __slots__ = ("allocation", "arrays", "device", "exported", "hint", "parked")

    def __init__(self, device: Device, nbytes: int, hint: MemoryHint, zero: bool) -> None:
        self.device = device
        self.hint = hint
        self.exported = False
        # Both stand here before alloc, which may raise: __del__ runs then too.
        self.allocation: Allocation | None = None
        self.parked: Allocation | None = None
        self.allocation = device.driver.alloc(device.index, nbytes, hint, zero=zero)
        self.arrays: weakref.WeakSet[Buffer] = weakref.WeakSet()

    def release(self) -> None:
        """Free now. Raises GpuError BufferError while a launch still uses this memory."""
        with _free_lock:
            if self.allocation is None:
                return
            # Keys first, then the look at running launches: a launch registers itself first and reads keys then, so one
            # of the two sees the other.
            keys = [(array, array._key) for array in self.arrays]
            for array, _ in keys:
                array._key = FREED
            user = next((name for name, arguments in tuple(running.values()) if self._among(arguments)), None)
            if user is not None:
                for array, key in keys:
                    array._key = key
                raise GpuError(
                    GpuErrorKind.BufferError,
                    self.device.backend,
                    f"the array is still used by a launch of kernel {user!r}",
                    help="call mp.synchronize() before free(), or leave freeing to Python",
                )
            allocation, self.allocation = self.allocation, None
            if self.exported:
                # NumPy may still look at the memory: it goes when the last view does, and this object with it.
                self.parked = allocation
            else:
                self.device.driver.free(self.device.index, allocation)

    def _among(self, arguments: tuple[Any, ...]) -> bool:
        return any(isinstance(a, Buffer) and a._memory is self for a in arguments)

    def __del__(self) -> None:
        allocation = self.allocation or self.parked
        if allocation is not None:
            self.device.driver.free(self.device.index, allocation)


class ForeignMemory(Memory):
    """All memory of one device that other libraries own: arrays on it are made for a launch, and never freed here.

    One object for all, so that a launch compares the addresses of any two of its arrays (see `fastpath`).
    """

    __slots__ = ()

    def __init__(self, device: Device) -> None:
        from magpie.runtime.driver import Allocation, MemoryHint

        self.device = device
        self.hint = MemoryHint.Auto
        self.exported = False
        self.allocation = Allocation(0, 0)
        self.parked = None
        self.arrays = weakref.WeakSet()

    @classmethod
    def of(cls, device: Device) -> ForeignMemory:
        """The device's object."""
        found = _foreign.get(device)
        if found is None:
            found = _foreign.setdefault(device, cls(device))
        return found

    def release(self) -> None:
        """Nothing: the memory belongs to others."""

    def __del__(self) -> None:
        pass


_foreign: weakref.WeakKeyDictionary[Device, ForeignMemory] = weakref.WeakKeyDictionary()


class Buffer:
    """An array on a device. Make one with `mp.empty`, `mp.zeros`, `mp.full` or `mp.asarray`.

    `dtype` is an mp type, `shape` a tuple; `strides` count elements, as in kernels (NumPy's count bytes). Indexing with
    integers and slices gives views of the same memory; assigning to one copies. Reading waits for launches.
    """

    __slots__ = ("__weakref__", "_key", "_memory", "_offset", "_packed", "_words", "dtype", "shape", "strides")

    _key: ArrayKey
    __array_priority__ = 10.0

    def __init__(
        self,
        memory: Memory,
        dtype: Type,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        *,
        writable: bool = True,
    ) -> None:
        assert memory.allocation is not None
        device = memory.device
        self._memory = memory
        self._offset = offset  # bytes from the start of the allocation
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        address = memory.allocation.address + offset
        self._words = (address, *shape, *strides)
        # The same for native launches, and the bytes of all elements.
        self._packed = struct.pack(_PACKED[len(shape)], *self._words, math.prod(shape) * dtype.itemsize)
        self._key = array_key(
            dtype,
            len(shape),
            contiguous=strides == row_major(shape) or is_contiguous(shape, strides),
            aligned=self._rows_aligned(address, ALIGNMENT if device.driver.host_memory else device.alignment),
            small=is_small(shape, sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) + 1),
            writable=writable,
            device=device,
        )
        memory.arrays.add(self)

    # --- facts -------------------------------------------------------------------------------------------------------
    def _rows_aligned(self, address: int, by: int) -> bool:
        """Whether the first element lies at a multiple of ``by``, and with it every row of an array without gaps."""
        row = self.shape[-1] * self.dtype.itemsize if len(self.shape) > 1 else 0
        return address % by == 0 and row % by == 0

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> Device:
        """The device whose memory this is."""
        return self._memory.device

    @property
    def memory_hint(self) -> MemoryHint:
        """The hint that the memory was asked for with."""
        return self._memory.hint

    @property
    def contiguous(self) -> bool:
        """C order without gaps."""
        return is_contiguous(self.shape, self.strides)

    @property
    def freed(self) -> bool:
        """True once `free` was called on this array, or on one that shares its memory."""
        return self._memory.allocation is None

    @public
    def free(self) -> None:
        """Give the memory back now, for all arrays that share it; a second call does nothing.

        Raises GpuError BufferError, naming the launch, while one still uses the memory. Without this call the memory
        goes when the last array on it does. What NumPy still views stays readable to it.
        """
        self._memory.release()

    def _span(self) -> tuple[int, int]:
        """First byte and the one after the last, as device addresses."""
        low = high = self._words[0]
        for n, s in zip(self.shape, self.strides, strict=True):
            if n == 0:
                return low, low
            if s < 0:
                low += (n - 1) * s * self.itemsize
            else:
                high += (n - 1) * s * self.itemsize
        return low, high + self.itemsize

    # --- host access -------------------------------------------------------------------------------------------------
    @public
    def to_numpy(self) -> numpy.ndarray[Any, Any]:
        """A new NumPy array with a copy of the content. Waits for launches that use this array."""
        import numpy as np

        device = self._ready()
        if self._visible:
            return np.array(self._view())
        if not self.contiguous:
            return self._spanned()[1].copy()
        result = np.empty(self.shape, numpy_type(self.dtype))
        device.driver.copy_out(device.index, result.ctypes.data, self._words[0], self.nbytes)
        return result

    def _spanned(self) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
        """A host copy of all bytes from the view's first to its last, gaps included, and the view on that copy."""
        import numpy as np

        low, high = self._span()
        device = self._memory.device
        span = np.empty(high - low, np.uint8)
        device.driver.copy_out(device.index, span.ctypes.data, low, span.nbytes)
        strides = tuple(s * self.itemsize for s in self.strides)
        return span, np.ndarray(self.shape, numpy_type(self.dtype), span.data, self._words[0] - low, strides)

    @property
    def _visible(self) -> bool:
        """Whether the host can look at the elements where they lie: host memory, pinned or managed memory."""
        return self._memory.device.driver.host_visible(self._memory.hint)

    @property
    def _writable(self) -> bool:
        return self._key.writable

    def _ready(self) -> Device:
        if self._memory.allocation is None:
            raise freed_error()
        device = self._memory.device
        refuse(device, "reading or writing an array from the host", "do it before the graph, or after a launch of it")
        device.driver.synchronize(device.index)
        return device

    def _view(self) -> numpy.ndarray[Any, Any]:
        """A NumPy array on the same memory (where `_visible`)."""
        import numpy as np

        dtype = numpy_type(self.dtype)
        return np.asarray(_HostView(self, f"|V{dtype.itemsize}")).view(dtype)

    def _interface(self, typestr: str) -> dict[str, Any]:
        self._memory.exported = True
        return {
            "version": 3,
            "data": (self._words[0], False),
            "shape": self.shape,
            "strides": tuple(s * self.itemsize for s in self.strides),
            "typestr": typestr,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # Structs and bf16 have no name in this protocol: NumPy then asks for __array__, as it does for device memory.
        dtype = numpy_type(self.dtype)
        if not self._visible or dtype.kind == "V":
            raise AttributeError("__array_interface__")
        self._ready()
        return self._interface(dtype.str)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        self._ready()
        if self._visible and not copy:
            view = self._view()
            return view if dtype is None or view.dtype == dtype else view.astype(dtype)
        if copy is False:
            raise ValueError("an array in device memory cannot be seen without a copy")
        result = self.to_numpy()
        return result if dtype is None else result.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        dtype = numpy_type(self.dtype)
        if self._visible or self._memory.device.driver.dlpack_device is None or dtype.kind == "V":
            raise AttributeError("__cuda_array_interface__")
        if self.freed:
            raise freed_error()
        return {**self._interface(dtype.str), "stream": 1}  # the legacy default one, which all of ours go with

    @property
    def _dlpack_kind(self) -> int | None:
        """What DLPack calls the memory's device; None for the host's memory, pinned memory included."""
        if self._visible and self._memory.hint.name != "Unified":
            return None
        kind = self._memory.device.driver.dlpack_device
        if kind is None and not self._visible:
            raise BufferError("DLPack has no name for this memory; use to_numpy()")
        return kind

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        device = self._memory.device
        kind = self._dlpack_kind
        if kind is None:
            self._ready()
            return self._view().__dlpack__(stream=stream, **options)
        if self.freed:
            raise freed_error()
        if not self._writable:
            raise BufferError("a read-only array cannot be shared through DLPack")
        from magpie.runtime.dlpack import capsule

        device.driver.lead(device.index, stream)
        self._memory.exported = True
        return capsule(self, kind, device.index)

    def __dlpack_device__(self) -> tuple[int, int]:
        device, kind = self._memory.device, self._dlpack_kind
        return (1, 0) if kind is None else (kind, device.index)  # 1: kDLCPU

    # --- views -------------------------------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> Buffer:
        if self._memory.allocation is None:
            raise freed_error()
        shape, strides, offset = sliced(self, index)
        return Buffer(self._memory, self.dtype, shape, strides, self._offset + offset * self.itemsize)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self[index]
        if self._assign_on_device(target, value):
            return
        device = target._ready()
        if target._visible:
            target._view()[...] = value
            return
        if not target.contiguous:
            # What lies in the gaps is written back as it was: nothing else of this device runs meanwhile.
            span, view = target._spanned()
            view[...] = value
            device.driver.copy_in(device.index, target._span()[0], span.ctypes.data, span.nbytes)
            return
        import numpy as np

        data = np.ascontiguousarray(np.broadcast_to(np.asarray(value, numpy_type(self.dtype)), target.shape))
        device.driver.copy_in(device.index, target._words[0], data.ctypes.data, data.nbytes)

    def _assign_on_device(self, target: Buffer, value: Any) -> bool:
        """Assign without the host's help where that is possible, in the order of the device's work."""
        recorder = current(target.device)
        if recorder is not None:
            recorder.record_assignment(target, value)
            return True
        if target.device.driver.host_memory:
            return False
        from magpie.runtime.copies import copier, filler

        if isinstance(value, Buffer):
            if value.freed:
                raise freed_error()
            queue = copier(target, value)
        else:
            queue = filler(target, value)
        if queue is None:
            return False
        queue()
        return True

    @public
    def copy_from(self, source: Buffer, stream: Stream | None = None) -> None:
        """Copy all elements of another mp array of the same shape and dtype, in the order of `stream`.

        The copy is queued, and the call returns at once, between arrays of one device and its pinned or managed memory
        (`memory="staging"`), and between two devices of a vendor; other pairs are copied through the host.
        """
        from magpie.runtime.copies import copy_from

        copy_from(self, source, stream)

    @public
    def to(self, device: str | Device) -> Buffer:
        """This array on a device: itself where it lies there, else a copy."""
        from magpie.runtime.creation import asarray

        return asarray(self, device=device)

    @public
    def reshape(self, *shape: int | tuple[int, ...]) -> Buffer:
        """A view of the same elements in C order under another shape, of which one extent may be -1.

        The array must be contiguous.
        """
        if not self.contiguous:
            raise LaunchValueError(
                "only a contiguous array can be reshaped without a copy", diagnostic="MPG_LAUNCH_1018"
            )
        wanted = check_shape(shape[0] if len(shape) == 1 else shape, allow_unknown=True)
        if -1 in wanted:
            rest = -math.prod(wanted)
            wanted = tuple((self.size // rest if rest else 0) if n == -1 else n for n in wanted)
        if math.prod(wanted) != self.size:
            raise LaunchValueError(f"an array of shape {self.shape} has {self.size} elements: it cannot be {wanted}")
        return Buffer(self._memory, self.dtype, wanted, row_major(wanted), self._offset)

    @public
    def item(self) -> Any:
        """The only element, as a Python or NumPy scalar."""
        if self.size != 1:
            raise LaunchValueError(f"item() needs an array of one element; this one has {self.size}")
        return self.to_numpy().reshape(()).item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array of rank 0")
        return self.shape[0]

    def __repr__(self) -> str:
        state = ", freed" if self.freed else ""
        return f"<mp array {self.dtype!r} {self.shape} on {self._memory.device.id}{state}>"


class _HostView:
    """Carries a buffer's memory to NumPy, which keeps this object, which keeps the memory."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Buffer, typestr: str) -> None:
        self.buffer = buffer
        self.__array_interface__ = buffer._interface(typestr)


def freed_error() -> GpuError:
    """The error for touching an array after `free`."""
    return GpuError(
        GpuErrorKind.BufferError,
        "",
        "the array was freed",
        diagnostic="MPG_LAUNCH_1015",
        help="keep the array until the work on it is done; free() is never needed for correctness",
    )


def allocate(device: Device, shape: tuple[int, ...], dtype: Type, hint: MemoryHint, *, zero: bool = False) -> Buffer:
    """A contiguous array in new memory. Raises GpuError OutOfMemory."""
    refuse(device, "making an array", "make it before the graph, so that it is still there when the graph runs")
    memory = Memory(device, math.prod(shape) * dtype.itemsize, hint, zero)
    return Buffer(memory, dtype, shape, row_major(shape), 0)


def type_name(dtype: Type) -> str:
    """The name of an element type for messages."""
    return dtype.name if isinstance(dtype, DType | StructType) else repr(dtype)
