"""AMD's HIP runtime library: its functions, numbers and errors (hip_runtime_api.h of ROCm 5 to 7).

Numbers and signatures are CUDA's wherever HIP has the call. What differs: a device is made current by its number, names
of errors are results and not outputs, and there is no opting in to more shared memory.
"""

from __future__ import annotations

import ctypes
import os
import sys

from magpie.errors import GpuErrorKind
from magpie.runtime.drivers.gpu.api import Api, Function, Table

__all__ = ["HipApi", "library_names"]

_int, _uint, _size, _ptr = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_address = ctypes.c_uint64  # hipDeviceptr_t
_P = ctypes.POINTER

_FUNCTIONS = {
    "init": Function("hipInit", (_uint,)),
    "driver_version": Function("hipRuntimeGetVersion", (_P(_int),)),
    "device_count": Function("hipGetDeviceCount", (_P(_int),)),
    "device": Function("hipDeviceGet", (_P(_int), _int)),
    "device_name": Function("hipDeviceGetName", (ctypes.c_char_p, _int, _int)),
    "device_uuid": Function("hipDeviceGetUuid", (ctypes.c_char_p, _int), optional=True),
    "device_attribute": Function("hipDeviceGetAttribute", (_P(_int), _int, _int)),
    "device_memory": Function("hipDeviceTotalMem", (_P(_size), _int)),
    # The properties have the architecture's name. Their form changed with ROCm 6, and the function's name with it.
    "properties": Function("hipGetDevicePropertiesR0600", (_ptr, _int), optional=True),
    "properties_before_6": Function("hipGetDeviceProperties", (_ptr, _int), optional=True),
    "set_device": Function("hipSetDevice", (_int,)),
    "current": Function("hipGetDevice", (_P(_int),)),
    "synchronize": Function("hipDeviceSynchronize", ()),
    "memory_info": Function("hipMemGetInfo", (_P(_size), _P(_size))),
    "alloc": Function("hipMalloc", (_P(_address), _size)),
    "alloc_managed": Function("hipMallocManaged", (_P(_address), _size, _uint)),
    "alloc_host": Function("hipHostMalloc", (_P(_address), _size, _uint)),
    "free": Function("hipFree", (_address,)),
    "free_host": Function("hipHostFree", (_address,)),
    "set_bytes": Function("hipMemsetD8Async", (_address, ctypes.c_ubyte, _size, _ptr)),
    "set_halves": Function("hipMemsetD16Async", (_address, ctypes.c_ushort, _size, _ptr)),
    "set_words": Function("hipMemsetD32Async", (_address, _int, _size, _ptr)),
    "pointer_attribute": Function("hipPointerGetAttribute", (_P(_int), _int, _address), optional=True),
    "copy_in": Function("hipMemcpyHtoD", (_address, _ptr, _size)),
    "copy_out": Function("hipMemcpyDtoH", (_ptr, _address, _size)),
    "copy_in_async": Function("hipMemcpyHtoDAsync", (_address, _ptr, _size, _ptr)),
    "copy_out_async": Function("hipMemcpyDtoHAsync", (_ptr, _address, _size, _ptr)),
    "copy_async": Function("hipMemcpyAsync", (_address, _address, _size, _int, _ptr)),
    "copy_peer_async": Function("hipMemcpyPeerAsync", (_address, _int, _address, _int, _size, _ptr)),
    "can_access_peer": Function("hipDeviceCanAccessPeer", (_P(_int), _int, _int)),
    "enable_peer": Function("hipDeviceEnablePeerAccess", (_int, _uint)),
    "load_module": Function("hipModuleLoadData", (_P(_ptr), ctypes.c_char_p)),
    "unload_module": Function("hipModuleUnload", (_ptr,)),
    "module_function": Function("hipModuleGetFunction", (_P(_ptr), _ptr, ctypes.c_char_p)),
    "function_attribute": Function("hipFuncGetAttribute", (_P(_int), _int, _ptr)),
    "create_stream": Function("hipStreamCreateWithFlags", (_P(_ptr), _uint)),
    "destroy_stream": Function("hipStreamDestroy", (_ptr,)),
    "wait_event": Function("hipStreamWaitEvent", (_ptr, _ptr, _uint)),
    "synchronize_stream": Function("hipStreamSynchronize", (_ptr,)),
    "create_event": Function("hipEventCreateWithFlags", (_P(_ptr), _uint)),
    "record_event": Function("hipEventRecord", (_ptr, _ptr)),
    "synchronize_event": Function("hipEventSynchronize", (_ptr,)),
    "query_event": Function("hipEventQuery", (_ptr,)),
    "elapsed_time": Function("hipEventElapsedTime", (_P(ctypes.c_float), _ptr, _ptr)),
    "destroy_event": Function("hipEventDestroy", (_ptr,)),
    # Its parameters are made once for a launch: see `gpu.launch`.
    "launch": Function("hipModuleLaunchKernel", (_ptr, *(_uint,) * 7, _ptr, _ptr, _ptr)),
    "begin_capture": Function("hipStreamBeginCapture", (_ptr, _int), optional=True),
    "is_capturing": Function("hipStreamIsCapturing", (_ptr, _P(_int)), optional=True),
    "capture_info": Function("hipStreamGetCaptureInfo_v2", (_ptr, *(_ptr,) * 5), optional=True),
    "end_capture": Function("hipStreamEndCapture", (_ptr, _P(_ptr)), optional=True),
    "instantiate_graph": Function("hipGraphInstantiateWithFlags", (_P(_ptr), _ptr, ctypes.c_uint64), optional=True),
    "launch_graph": Function("hipGraphLaunch", (_ptr, _ptr), optional=True),
    "kernel_node_parameters": Function("hipGraphKernelNodeGetParams", (_ptr, _ptr), optional=True),
    "set_kernel_node_parameters": Function("hipGraphExecKernelNodeSetParams", (_ptr, _ptr, _ptr), optional=True),
    "destroy_graph": Function("hipGraphDestroy", (_ptr,), optional=True),
    "destroy_executable_graph": Function("hipGraphExecDestroy", (_ptr,), optional=True),
    "error_name": Function("hipGetErrorName", (_int,), result=ctypes.c_char_p),
    "error_string": Function("hipGetErrorString", (_int,), result=ctypes.c_char_p),
}

# hipDeviceAttribute_t, hipPointer_attribute and hipFunction_attribute
_ATTRIBUTES = {
    "max_threads": 56,
    "max_threads_z": 28,
    "threads_of_multiprocessor": 57,
    "multiprocessors": 63,
    "max_shared": 74,
    "warp_size": 87,
    "pointer_device": 9,
    "function_max_threads": 0,
}

_K = GpuErrorKind
_KINDS: dict[int, GpuErrorKind] = {
    1: _K.ValidationFailed,
    2: _K.OutOfMemory,
    9: _K.ValidationFailed,
    17: _K.BufferError,
    35: _K.BackendUnavailable,
    53: _K.LaunchFailed,
    98: _K.InvalidKernel,
    100: _K.BackendUnavailable,
    101: _K.ValidationFailed,
    200: _K.InvalidKernel,
    201: _K.DriverError,
    209: _K.InvalidKernel,
    214: _K.DeviceLost,
    217: _K.Unsupported,
    218: _K.InvalidKernel,
    300: _K.InvalidKernel,
    301: _K.InvalidKernel,
    302: _K.InvalidKernel,
    303: _K.InvalidKernel,
    400: _K.BufferError,
    500: _K.InvalidKernel,
    700: _K.LaunchFailed,
    701: _K.ResourceExhausted,
    702: _K.TimeoutExpired,
    705: _K.ValidationFailed,
    709: _K.DeviceLost,
    710: _K.LaunchFailed,
    719: _K.LaunchFailed,
    720: _K.ResourceExhausted,
    801: _K.Unsupported,
}

_HELP: dict[int, str] = {
    209: "the code is for another architecture: compile for the device's own (device.arch)",
    701: "use a smaller workgroup: the kernel needs more registers or shared memory than the device has for this one",
}


class HipApi(Api):
    """libamdhip64."""

    table = Table(
        backend="hip",
        libraries=(
            ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")
            if sys.platform == "win32"
            else ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")
        ),
        result="hipError_t",
        functions=_FUNCTIONS,
        attributes=_ATTRIBUTES,
        kinds=_KINDS,
        sticky=frozenset({214, 700, 702, 709, 710, 719}),
        help=_HELP,
    )

    def name(self, code: int) -> str:
        text: bytes | None = self.functions["error_name"](code)  # type: ignore[assignment]  # see `Function.result`
        found = text.decode() if text else ""
        # For a number that it does not know the library says hipErrorUnknown, which has a number of its own.
        return found if found and (found != "hipErrorUnknown" or code == 999) else self.unknown(code)

    def describe(self, code: int) -> str:
        text: bytes | None = self.functions["error_string"](code)  # type: ignore[assignment]
        return text.decode() if text else ""


def library_names() -> tuple[str, ...]:
    """Where the library may be: first that of a torch that is loaded, whose arrays no other library would know."""
    names: list[str] = []
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(torch, "version", None), "hip", None):
        names.append(os.path.join(os.path.dirname(torch.__file__ or ""), "lib", "libamdhip64.so"))
    names += HipApi.table.libraries
    if sys.platform != "win32":
        names.append("/opt/rocm/lib/libamdhip64.so")  # where AMD's packages put it, which the loader need not search
    return tuple(names)
