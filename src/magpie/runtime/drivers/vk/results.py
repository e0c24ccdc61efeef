"""Vulkan's result codes: their names, the kind of error that each is, and what a user can do."""

from __future__ import annotations

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.drivers.vk import constants

__all__ = ["BACKEND", "error", "result_name"]

BACKEND = "spv"

_K = GpuErrorKind
_KINDS: dict[int, GpuErrorKind] = {
    constants.VK_TIMEOUT: _K.TimeoutExpired,
    constants.VK_NOT_READY: _K.TimeoutExpired,
    constants.VK_ERROR_OUT_OF_HOST_MEMORY: _K.OutOfMemory,
    constants.VK_ERROR_OUT_OF_DEVICE_MEMORY: _K.OutOfMemory,
    constants.VK_ERROR_INITIALIZATION_FAILED: _K.BackendUnavailable,
    constants.VK_ERROR_DEVICE_LOST: _K.DeviceLost,
    constants.VK_ERROR_MEMORY_MAP_FAILED: _K.BufferError,
    constants.VK_ERROR_LAYER_NOT_PRESENT: _K.BackendUnavailable,
    constants.VK_ERROR_EXTENSION_NOT_PRESENT: _K.Unsupported,
    constants.VK_ERROR_FEATURE_NOT_PRESENT: _K.Unsupported,
    constants.VK_ERROR_INCOMPATIBLE_DRIVER: _K.BackendUnavailable,
    constants.VK_ERROR_TOO_MANY_OBJECTS: _K.ResourceExhausted,
    constants.VK_ERROR_FORMAT_NOT_SUPPORTED: _K.Unsupported,
    constants.VK_ERROR_FRAGMENTED_POOL: _K.ResourceExhausted,
    constants.VK_ERROR_OUT_OF_POOL_MEMORY: _K.ResourceExhausted,
    constants.VK_ERROR_FRAGMENTATION: _K.ResourceExhausted,
    constants.VK_ERROR_NOT_PERMITTED: _K.ResourceExhausted,
    constants.VK_ERROR_INVALID_EXTERNAL_HANDLE: _K.BufferError,
    constants.VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS: _K.BufferError,
    constants.VK_ERROR_VALIDATION_FAILED: _K.ValidationFailed,
    constants.VK_ERROR_INVALID_SHADER_NV: _K.CompilationFailed,
    constants.VK_PIPELINE_COMPILE_REQUIRED: _K.CompilationFailed,
    constants.VK_ERROR_UNKNOWN: _K.DriverError,
}

_HELP: dict[int, str] = {
    constants.VK_ERROR_DEVICE_LOST: "this process cannot use the device any more: start it again. Run the kernel with "
    "checked=True, or once with MAGPIE_SANITIZE=1, to find the line and the work-item; a kernel that runs for many "
    "seconds may have been ended by the system",
    constants.VK_ERROR_INCOMPATIBLE_DRIVER: "no Vulkan driver that the loader found takes this program: install one "
    "for the device, or name its manifest in VK_ICD_FILENAMES",
    constants.VK_ERROR_INVALID_SHADER_NV: "please report it with what MAGPIE_DUMP=spv prints",
}

_NAMES = {value: name for name, value in vars(constants).items() if name.startswith(("VK_ERROR", "VK_PIPELINE_COMP"))}
_NAMES |= {0: "VK_SUCCESS", 1: "VK_NOT_READY", 2: "VK_TIMEOUT", 5: "VK_INCOMPLETE"}


def result_name(code: int) -> str:
    """A VkResult as Vulkan calls it."""
    return _NAMES.get(code, f"VkResult {code}")


def error(code: int, what: str, kind: GpuErrorKind | None = None) -> GpuError:
    """The error for a result that ``what`` gave; ``kind`` where the place tells more than the code."""
    kind = _KINDS.get(code, GpuErrorKind.DriverError) if kind is None else kind
    diagnostic = "MPG_LAUNCH_1010" if kind is GpuErrorKind.OutOfMemory else None
    return GpuError(kind, BACKEND, f"{what}: {result_name(code)}", code, diagnostic=diagnostic, help=_HELP.get(code))
