"""NVIDIA's driver library, opened at run time: its functions by ctypes, and its error codes as `GpuError`.

Importing this needs no CUDA. The library comes with the driver; `cuda-bindings` (the extra
`magpie-gpu[cuda]`) is used for launches where it is installed, since its call is the faster one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from magpie.errors import GpuError, GpuErrorKind

__all__ = ["STICKY", "Api", "Attribute", "open_library"]

_int, _uint, _size, _ptr = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_address = ctypes.c_uint64  # CUdeviceptr
_P = ctypes.POINTER

#: Every function that is called, with its parameters; the result is always a CUresult.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuDriverGetVersion": (_P(_int),),
    "cuDeviceGetCount": (_P(_int),),
    "cuDeviceGet": (_P(_int), _int),
    "cuDeviceGetName": (ctypes.c_char_p, _int, _int),
    "cuDeviceGetUuid": (ctypes.c_char_p, _int),
    "cuDeviceGetAttribute": (_P(_int), _int, _int),
    "cuDeviceTotalMem_v2": (_P(_size), _int),
    "cuDevicePrimaryCtxRetain": (_P(_ptr), _int),
    "cuCtxSetCurrent": (_ptr,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_P(_size), _P(_size)),
    "cuMemAlloc_v2": (_P(_address), _size),
    "cuMemAllocManaged": (_P(_address), _size, _uint),
    "cuMemHostAlloc": (_P(_address), _size, _uint),
    "cuMemFree_v2": (_address,),
    "cuMemFreeHost": (_address,),
    "cuMemsetD8Async": (_address, ctypes.c_ubyte, _size, _ptr),
    "cuPointerGetAttribute": (_P(_int), _int, _address),
    "cuMemcpyHtoD_v2": (_address, _ptr, _size),
    "cuMemcpyDtoH_v2": (_ptr, _address, _size),
    "cuMemcpyHtoDAsync_v2": (_address, _ptr, _size, _ptr),
    "cuMemcpyDtoHAsync_v2": (_ptr, _address, _size, _ptr),
    "cuMemcpyDtoDAsync_v2": (_address, _address, _size, _ptr),
    "cuModuleLoadDataEx": (_P(_ptr), ctypes.c_char_p, _uint, _P(_int), _P(_ptr)),
    "cuModuleUnload": (_ptr,),
    "cuModuleGetFunction": (_P(_ptr), _ptr, ctypes.c_char_p),
    "cuFuncGetAttribute": (_P(_int), _int, _ptr),
    "cuFuncSetAttribute": (_ptr, _int, _int),
    "cuStreamCreate": (_P(_ptr), _uint),
    "cuStreamDestroy_v2": (_ptr,),
    "cuStreamWaitEvent": (_ptr, _ptr, _uint),
    "cuStreamSynchronize": (_ptr,),
    "cuEventCreate": (_P(_ptr), _uint),
    "cuEventRecord": (_ptr, _ptr),
    "cuEventSynchronize": (_ptr,),
    "cuEventElapsedTime": (_P(ctypes.c_float), _ptr, _ptr),
    "cuEventDestroy_v2": (_ptr,),
    "cuGetErrorName": (_int, _P(ctypes.c_char_p)),
    "cuGetErrorString": (_int, _P(ctypes.c_char_p)),
}


class Attribute:
    """Numbers of CUdevice_attribute, CUpointer_attribute and CUfunction_attribute that are asked for (cuda.h)."""

    MAX_THREADS_PER_BLOCK = 1
    MULTIPROCESSOR_COUNT = 16
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    POINTER_DEVICE_ORDINAL = 9
    FUNC_MAX_THREADS_PER_BLOCK = 0
    FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


_K = GpuErrorKind
#: CUresult -> kind, and what to do where the kind's own advice is too general.
_KINDS: dict[int, GpuErrorKind] = {
    1: _K.ValidationFailed,
    2: _K.OutOfMemory,
    100: _K.BackendUnavailable,
    101: _K.ValidationFailed,
    200: _K.InvalidKernel,
    201: _K.DriverError,
    209: _K.InvalidKernel,
    214: _K.DeviceLost,
    218: _K.CompilationFailed,
    220: _K.DeviceLost,
    221: _K.CompilationFailed,
    222: _K.CompilationFailed,
    300: _K.InvalidKernel,
    400: _K.BufferError,
    500: _K.InvalidKernel,
    700: _K.LaunchFailed,
    701: _K.ResourceExhausted,
    702: _K.TimeoutExpired,
    709: _K.DeviceLost,
    710: _K.LaunchFailed,
    714: _K.LaunchFailed,
    715: _K.LaunchFailed,
    716: _K.LaunchFailed,
    717: _K.LaunchFailed,
    718: _K.LaunchFailed,
    719: _K.LaunchFailed,
    720: _K.ResourceExhausted,
    801: _K.Unsupported,
    802: _K.BackendUnavailable,
    803: _K.BackendUnavailable,
    804: _K.BackendUnavailable,
}

#: After these the device's context takes no more work in this process (CUDA driver API, CUresult).
STICKY = frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719})

_GONE = (
    "this process cannot use the device any more: start it again. Run the kernel with checked=True, or once with "
    "MAGPIE_SANITIZE=1, to find the line and the work-item"
)
_HELP: dict[int, str] = {
    218: "please report it with what MAGPIE_DUMP=ptx prints",
    222: "the driver is older than this code: update it, or compile for an older architecture (arch='sm_70')",
    701: "use a smaller workgroup: the kernel needs more registers than the device has for this one",
    803: "restart the machine: a new driver was installed beside the running one",
    804: "restart the machine: a new driver was installed beside the running one",
}


def _names() -> tuple[str, ...]:
    if sys.platform == "win32":
        return ("nvcuda.dll",)
    return ("libcuda.so.1", "libcuda.so")


def open_library(path: str | None = None) -> ctypes.CDLL:
    """NVIDIA's library. Raises OSError where there is none."""
    last: OSError | None = None
    for name in (path,) if path is not None else _names():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    assert last is not None
    raise last


class Api:
    """The library's functions. `name(...)` by attribute is the raw call; `call("name", ...)` raises on an error."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.functions: dict[str, Callable[..., int]] = {}
        for name, parameters in _FUNCTIONS.items():
            function = getattr(library, name)  # AttributeError: a driver older than CUDA 11
            function.argtypes = parameters
            function.restype = _int
            self.functions[name] = function

    def call(self, name: str, *args: Any, what: str = "") -> None:
        """Call a function. Raises GpuError with the library's name for what went wrong."""
        code = self.functions[name](*args)
        if code:
            raise self.error(code, what or name)

    def name(self, code: int) -> str:
        """CUDA_ERROR_..., as cuda.h calls it."""
        text = ctypes.c_char_p()
        if self.functions["cuGetErrorName"](code, ctypes.byref(text)) or not text.value:
            return f"CUresult {code}"
        return text.value.decode()

    def describe(self, code: int) -> str:
        """The library's own sentence."""
        text = ctypes.c_char_p()
        if self.functions["cuGetErrorString"](code, ctypes.byref(text)) or not text.value:
            return ""
        return text.value.decode()

    def error(self, code: int, what: str, help: str | None = None) -> GpuError:
        """The error for a CUresult that came back from ``what``."""
        kind = _KINDS.get(code, GpuErrorKind.DriverError)
        said = self.describe(code)
        message = f"{what}: {self.name(code)}" + (f", {said}" if said else "")
        if help is None:
            help = _HELP.get(code, _GONE if code in STICKY else None)
        diagnostic = "MPG_LAUNCH_1010" if kind is GpuErrorKind.OutOfMemory else None
        return GpuError(kind, "ptx", message, code, diagnostic=diagnostic, help=help)

    # --- values --------------------------------------------------------------------------------------------------
    def number(self, name: str, *args: Any, type_: Any = _int) -> int:
        """What a function gives through its first parameter."""
        out = type_()
        self.call(name, ctypes.byref(out), *args)
        return out.value or 0


def fast_launch() -> Callable[..., Any] | None:
    """`cuLaunchKernel` of cuda-bindings, None where that is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return None
    found: Callable[..., Any] = driver.cuLaunchKernel
    return found
