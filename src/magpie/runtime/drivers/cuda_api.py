"""NVIDIA's driver library: its functions, numbers and errors (cuda.h).

Where a program has loaded `cuda-bindings`, launches go through that, since its call is faster than one by ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from magpie.errors import GpuErrorKind
from magpie.runtime.drivers.gpu.api import Api, Function, Table

__all__ = ["CudaApi", "fast_launch"]

_int, _uint, _size, _ptr = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_address = ctypes.c_uint64  # CUdeviceptr
_P = ctypes.POINTER

_FUNCTIONS = {
    "init": Function("cuInit", (_uint,)),
    "driver_version": Function("cuDriverGetVersion", (_P(_int),)),
    "device_count": Function("cuDeviceGetCount", (_P(_int),)),
    "device": Function("cuDeviceGet", (_P(_int), _int)),
    "device_name": Function("cuDeviceGetName", (ctypes.c_char_p, _int, _int)),
    "device_uuid": Function("cuDeviceGetUuid", (ctypes.c_char_p, _int)),
    "device_attribute": Function("cuDeviceGetAttribute", (_P(_int), _int, _int)),
    "device_memory": Function("cuDeviceTotalMem_v2", (_P(_size), _int)),
    "retain_context": Function("cuDevicePrimaryCtxRetain", (_P(_ptr), _int)),
    "set_context": Function("cuCtxSetCurrent", (_ptr,)),
    "current": Function("cuCtxGetCurrent", (_P(_ptr),)),
    "synchronize": Function("cuCtxSynchronize", ()),
    "memory_info": Function("cuMemGetInfo_v2", (_P(_size), _P(_size))),
    "alloc": Function("cuMemAlloc_v2", (_P(_address), _size)),
    "alloc_managed": Function("cuMemAllocManaged", (_P(_address), _size, _uint)),
    "alloc_host": Function("cuMemHostAlloc", (_P(_address), _size, _uint)),
    "free": Function("cuMemFree_v2", (_address,)),
    "free_host": Function("cuMemFreeHost", (_address,)),
    "set_bytes": Function("cuMemsetD8Async", (_address, ctypes.c_ubyte, _size, _ptr)),
    "set_halves": Function("cuMemsetD16Async", (_address, ctypes.c_ushort, _size, _ptr)),
    "set_words": Function("cuMemsetD32Async", (_address, _uint, _size, _ptr)),
    "pointer_attribute": Function("cuPointerGetAttribute", (_P(_int), _int, _address)),
    "copy_in": Function("cuMemcpyHtoD_v2", (_address, _ptr, _size)),
    "copy_out": Function("cuMemcpyDtoH_v2", (_ptr, _address, _size)),
    "copy_in_async": Function("cuMemcpyHtoDAsync_v2", (_address, _ptr, _size, _ptr)),
    "copy_out_async": Function("cuMemcpyDtoHAsync_v2", (_ptr, _address, _size, _ptr)),
    "copy_async": Function("cuMemcpyAsync", (_address, _address, _size, _ptr)),
    "copy_peer_async": Function("cuMemcpyPeerAsync", (_address, _ptr, _address, _ptr, _size, _ptr)),
    "can_access_peer": Function("cuDeviceCanAccessPeer", (_P(_int), _int, _int)),
    "enable_peer": Function("cuCtxEnablePeerAccess", (_ptr, _uint)),
    "load_module": Function("cuModuleLoadDataEx", (_P(_ptr), ctypes.c_char_p, _uint, _P(_int), _P(_ptr))),
    "unload_module": Function("cuModuleUnload", (_ptr,)),
    "module_function": Function("cuModuleGetFunction", (_P(_ptr), _ptr, ctypes.c_char_p)),
    "function_attribute": Function("cuFuncGetAttribute", (_P(_int), _int, _ptr)),
    "set_function_attribute": Function("cuFuncSetAttribute", (_ptr, _int, _int)),
    "create_stream": Function("cuStreamCreate", (_P(_ptr), _uint)),
    "destroy_stream": Function("cuStreamDestroy_v2", (_ptr,)),
    "wait_event": Function("cuStreamWaitEvent", (_ptr, _ptr, _uint)),
    "synchronize_stream": Function("cuStreamSynchronize", (_ptr,)),
    "create_event": Function("cuEventCreate", (_P(_ptr), _uint)),
    "record_event": Function("cuEventRecord", (_ptr, _ptr)),
    "synchronize_event": Function("cuEventSynchronize", (_ptr,)),
    "query_event": Function("cuEventQuery", (_ptr,)),
    "elapsed_time": Function("cuEventElapsedTime", (_P(ctypes.c_float), _ptr, _ptr)),
    "destroy_event": Function("cuEventDestroy_v2", (_ptr,)),
    # Its parameters are made once for a launch: see `gpu.launch`.
    "launch": Function("cuLaunchKernel", (_ptr, *(_uint,) * 7, _ptr, _ptr, _ptr)),
    "launch_cooperative": Function("cuLaunchCooperativeKernel", (_ptr, *(_uint,) * 7, _ptr, _ptr)),
    "resident_blocks": Function("cuOccupancyMaxActiveBlocksPerMultiprocessor", (_P(_int), _ptr, _int, _size)),
    "begin_capture": Function("cuStreamBeginCapture_v2", (_ptr, _int), optional=True),
    "is_capturing": Function("cuStreamIsCapturing", (_ptr, _P(_int)), optional=True),
    "capture_info": Function("cuStreamGetCaptureInfo_v2", (_ptr, *(_ptr,) * 5), optional=True),
    "end_capture": Function("cuStreamEndCapture", (_ptr, _P(_ptr)), optional=True),
    "instantiate_graph": Function("cuGraphInstantiateWithFlags", (_P(_ptr), _ptr, ctypes.c_uint64), optional=True),
    "launch_graph": Function("cuGraphLaunch", (_ptr, _ptr), optional=True),
    "kernel_node_parameters": Function("cuGraphKernelNodeGetParams", (_ptr, _ptr), optional=True),
    "set_kernel_node_parameters": Function("cuGraphExecKernelNodeSetParams", (_ptr, _ptr, _ptr), optional=True),
    "destroy_graph": Function("cuGraphDestroy", (_ptr,), optional=True),
    "destroy_executable_graph": Function("cuGraphExecDestroy", (_ptr,), optional=True),
    "error_name": Function("cuGetErrorName", (_int, _P(ctypes.c_char_p))),
    "error_string": Function("cuGetErrorString", (_int, _P(ctypes.c_char_p))),
}

# CUdevice_attribute, CUpointer_attribute and CUfunction_attribute
_ATTRIBUTES = {
    "max_threads": 1,
    "multiprocessors": 16,
    "threads_of_multiprocessor": 39,
    "capability_major": 75,
    "capability_minor": 76,
    "cooperative_launch": 95,
    "max_shared": 97,  # by opting in
    "pointer_device": 9,
    "function_max_threads": 0,
    "function_max_dynamic_shared": 8,
}

_K = GpuErrorKind
_KINDS: dict[int, GpuErrorKind] = {
    1: _K.ValidationFailed,
    2: _K.OutOfMemory,
    100: _K.BackendUnavailable,
    101: _K.ValidationFailed,
    200: _K.InvalidKernel,
    201: _K.DriverError,
    209: _K.InvalidKernel,
    214: _K.DeviceLost,
    217: _K.Unsupported,
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
    705: _K.ValidationFailed,
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

_HELP: dict[int, str] = {
    218: "please report it with what MAGPIE_DUMP=ptx prints",
    222: "the driver is older than this code: update it, or compile for an older architecture (arch='sm_70')",
    701: "use a smaller workgroup: the kernel needs more registers than the device has for this one",
    803: "restart the machine: a new driver was installed beside the running one",
    804: "restart the machine: a new driver was installed beside the running one",
}


class CudaApi(Api):
    """libcuda."""

    table = Table(
        backend="ptx",
        libraries=("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so"),
        result="CUresult",
        functions=_FUNCTIONS,
        attributes=_ATTRIBUTES,
        kinds=_KINDS,
        sticky=frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719}),
        help=_HELP,
    )

    def name(self, code: int) -> str:
        return self._text("error_name", code) or self.unknown(code)

    def describe(self, code: int) -> str:
        return self._text("error_string", code)

    def _text(self, function: str, code: int) -> str:
        text = ctypes.c_char_p()
        if self.functions[function](code, ctypes.byref(text)) or not text.value:
            return ""
        return text.value.decode()


def fast_launch() -> Callable[..., Any] | None:
    """`cuLaunchKernel` of cuda-bindings where the program has loaded that; None otherwise.

    Loading it here would take longer than a first launch from the disk cache may: some 15 ms.
    """
    driver = sys.modules.get("cuda.bindings.driver")
    found: Callable[..., Any] | None = getattr(driver, "cuLaunchKernel", None)
    return found
