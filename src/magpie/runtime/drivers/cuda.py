"""The CUDA driver: NVIDIA's devices and their contexts.

Each device's primary context is used, which is that of torch, CuPy and JAX too: their memory can be passed as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from magpie.errors import LaunchValueError
from magpie.records import replaced
from magpie.runtime.driver import DeviceInfo, Dims
from magpie.runtime.drivers.cuda_api import CudaApi, fast_launch
from magpie.runtime.drivers.gpu.driver import GpuDriver

__all__ = ["CudaDriver"]

_GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
_COOPERATIVE = {"cooperative_groups", "cuda.cooperative_launch"}
_LOG = 8192
_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size


class CudaDriver(GpuDriver):
    """NVIDIA devices. ``library`` is a path for tests; None: what the system has."""

    id = "ptx"
    api_type = CudaApi
    title = "CUDA"
    vendor = "NVIDIA"
    free_shared = 48 * 1024
    dlpack_device = 2  # kDLCUDA

    def __init__(self, library: str | None = None) -> None:
        super().__init__(library)
        self._contexts: dict[int, int] = {}

    def _info(self, index: int) -> DeviceInfo:
        from magpie.backends.ptx.arch import TENSOR_CORES, nearest
        from magpie.backends.registry import backend

        api = self.api
        ordinal = api.number("device", index)
        name, uuid = self._named(ordinal)
        major, minor = self._attribute("capability_major", ordinal), self._attribute("capability_minor", ordinal)
        version = api.number("driver_version")
        own, arch = backend("ptx").manifest, nearest(major, minor)
        lacks = set() if arch.number >= TENSOR_CORES else {"cuda.tensor_cores"}
        if not self._attribute("cooperative_launch", ordinal):
            lacks |= _COOPERATIVE
        manifest = replaced(
            own,
            capabilities=own.capabilities - lacks,
            max_workgroup_size=self._attribute("max_threads", ordinal),
            max_shared_bytes=self._attribute("max_shared", ordinal),
        )
        return DeviceInfo(
            name=name,
            index=index,
            manifest=manifest,
            subgroup_size=32,
            memory_total=api.number("device_memory", ordinal, type_=ctypes.c_size_t),
            backends=("ptx",),
            properties={
                "arch": arch.name,
                "compute_capability": f"{major}.{minor}",
                "multiprocessors": self._attribute("multiprocessors", ordinal),
                "cuda": f"{version // 1000}.{version % 1000 // 10}",
                **uuid,
            },
        )

    def _make_current(self, device: int) -> None:
        self.api.call("set_context", self.context(device))

    def current_mark(self, device: int) -> int:
        return self.context(device)

    def context(self, device: int) -> int:
        """The device's primary context."""
        found = self._contexts.get(device)
        if found is None:
            with self._lock:
                found = self._contexts.get(device)
                if found is None:
                    ordinal = self.api.number("device", device)
                    found = self.api.number("retain_context", ordinal, type_=ctypes.c_void_p)
                    self._contexts[device] = found
        return found

    def peer(self, device: int) -> int:
        return self.context(device)

    def quick_launch(self) -> Callable[..., Any] | None:
        return fast_launch() if self.system_library else None

    def load_module(self, code: bytes) -> tuple[int, int, str]:
        log = ctypes.create_string_buffer(_LOG)
        kinds = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG)
        module = ctypes.c_void_p()
        result = self.api.functions["load_module"](ctypes.byref(module), code, 2, kinds, values)
        return result, module.value or 0, log.value.decode("utf-8", "replace").strip()

    def check_grid(self, grid: Dims, block: Dims) -> None:
        for axis, n, most in zip("xyz", grid, _GRID_LIMITS, strict=True):
            if n > most:
                raise LaunchValueError(
                    f"the grid has {n} workgroups along {axis}; CUDA devices take {most}",
                    backend=self.id,
                    diagnostic="MPG_LAUNCH_1006",
                    help="put the longest extent along x, or give a workgroup more to do",
                )
        if block[2] > 64:
            raise LaunchValueError(
                f"the workgroup has {block[2]} work-items along z; CUDA devices take 64",
                backend=self.id,
                diagnostic="MPG_LAUNCH_1007",
            )
