"""The HIP driver: AMD's devices under ROCm."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from magpie.errors import LaunchValueError
from magpie.records import replaced
from magpie.runtime.driver import DeviceInfo, Dims
from magpie.runtime.drivers.gpu.driver import GpuDriver
from magpie.runtime.drivers.hip_api import HipApi, library_names

__all__ = ["HipDriver"]

_PROPERTIES = 1 << 14  # ten times what any version of hipDeviceProp_t takes
_NAME = 256  # its first field, which is for people
# The architecture and its settings, as in gfx90a:sramecc+:xnack-
_ARCH = re.compile(rb"(gfx[0-9a-f]+)((?::[a-z]+[+-])*)\0")
_MOST_ITEMS = (1 << 32) - 1  # along one axis of a grid


class HipDriver(GpuDriver):
    """AMD devices. ``library`` is a path for tests; None: what the system has."""

    id = "hip"
    api_type = HipApi
    title = "HIP"
    vendor = "AMD"
    dlpack_device = 10  # kDLROCM
    any_direction = (4,)  # hipMemcpyDefault

    def library_names(self) -> Sequence[str]:
        return library_names()

    def _info(self, index: int) -> DeviceInfo:
        from magpie.backends.hip.arch import ARCHS
        from magpie.backends.registry import backend

        api = self.api
        ordinal = api.number("device", index)
        name, uuid = self._named(ordinal)
        arch, settings = self._arch(ordinal)
        version = api.number("driver_version")
        wave = self._attribute("warp_size", ordinal)
        known = ARCHS.get(arch)
        return DeviceInfo(
            name=name or arch,
            index=index,
            manifest=replaced(
                backend(self.id).manifest,
                max_workgroup_size=self._attribute("max_threads", ordinal),
                max_shared_bytes=self._attribute("max_shared", ordinal),
                subgroup_sizes=known.waves if known is not None else (wave,),
            ),
            subgroup_size=wave,
            memory_total=api.number("device_memory", ordinal, type_=ctypes.c_size_t),
            backends=(self.id,) if known is not None else (),
            properties={
                "arch": arch,
                "settings": settings,
                "multiprocessors": self._attribute("multiprocessors", ordinal),
                "hip": f"{version // 10_000_000}.{version // 100_000 % 100}",
                **uuid,
            },
        )

    def _arch(self, ordinal: int) -> tuple[str, str]:
        """The architecture's name and its settings.

        The library tells them in a struct whose form depends on its version, and in no other way; so they are looked
        for in what it wrote.
        """
        api = self.api
        data = ctypes.create_string_buffer(_PROPERTIES)
        api.call("properties" if "properties" in api.functions else "properties_before_6", data, ordinal)
        found = _ARCH.search(data.raw, _NAME)
        if found is None:
            return "", ""
        return found[1].decode(), found[2].decode().strip(":")

    def _make_current(self, device: int) -> None:
        self.api.call("set_device", device)

    def peer(self, device: int) -> int:
        return device

    def current_mark(self, device: int) -> int:
        return device

    def load_module(self, code: bytes) -> tuple[int, int, str]:
        module = ctypes.c_void_p()
        result = self.api.functions["load_module"](ctypes.byref(module), code)
        return result, module.value or 0, ""

    def check_grid(self, grid: Dims, block: Dims) -> None:
        for axis, n, items in zip("xyz", grid, block, strict=True):
            if n * items > _MOST_ITEMS:
                raise LaunchValueError(
                    f"the grid has {n} workgroups of {items} work-items along {axis}; HIP takes {_MOST_ITEMS} "
                    "work-items",
                    backend=self.id,
                    diagnostic="MPG_LAUNCH_1006",
                    help="give a work-item more to do, or launch several times",
                )
