"""Which device a launch runs on when the user names none.

Candidates are the backends that are bundled with the kernel and available on this machine, in the order CUDA, HIP,
Metal, Vulkan, WebGPU, CPU. The first is chosen once and kept on a `Runtime`; `reset` forgets it (tests, and users who
plug in a device). The interpreter is a device too, and never chosen by itself.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.backends.registry import BUILTIN, DISPLAY_NAMES, backend, backend_ids, canonical
from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.device import Device, unknown_device

if TYPE_CHECKING:
    from magpie.runtime.buffer import Buffer
    from magpie.runtime.driver import Driver

__all__ = ["ORDER", "Runtime", "reset", "runtime"]

#: Backends that are chosen by themselves, best first.
ORDER = ("ptx", "hip", "msl", "spv", "wgsl", "cpu")

#: In-tree drivers: backend id -> (module, class). A plug-in backend names its own in an attribute `driver`.
_DRIVERS: dict[str, tuple[str, str]] = {
    "ptx": ("magpie.runtime.drivers.cuda", "CudaDriver"),
    "hip": ("magpie.runtime.drivers.hip", "HipDriver"),
    "spv": ("magpie.runtime.drivers.vulkan", "VulkanDriver"),
    "cpu": ("magpie.runtime.drivers.cpu", "CpuDriver"),
    "interp": ("magpie.runtime.drivers.interp", "InterpDriver"),
    "tgpu": ("magpie.runtime.drivers.tgpu", "TgpuDriver"),
}

#: Files of which Linux has one where there is a device for a backend whose library takes long to open: for a GPU of any
#: vendor, NVIDIA's own, under Windows, and Qualcomm's own. Opening Vulkan takes as long as five first launches.
_FILES: dict[str, tuple[str, ...]] = {
    "spv": ("/dev/dri/renderD128", "/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0"),
}

_DEVICE_NAME = re.compile(r"([a-z][a-z0-9_]*)(?::([0-9]{1,4}))?")


class Runtime:
    """The drivers of one process, what they found, and what was chosen. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._drivers: dict[str, Driver] = {}
        self._reasons: dict[str, str | None] = {}
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._default: Device | None = None
        #: Descriptions of other libraries' arrays and the mp arrays that were made of them (`magpie.runtime.foreign`).
        self.foreign: dict[Any, Buffer] = {}

    def driver(self, id_: str) -> Driver:
        """The driver of a canonical backend id. Raises GpuError BackendUnavailable with the reason."""
        reason = self.unavailable(id_)
        if reason is not None:
            raise GpuError(
                GpuErrorKind.BackendUnavailable, id_, f"{DISPLAY_NAMES.get(id_, id_)} cannot be used: {reason}"
            )
        return self._drivers[id_]

    def unavailable(self, id_: str) -> str | None:
        """Why a backend cannot run here, or None when it can. Probed once."""
        with self._lock:
            if id_ not in self._reasons:
                self._reasons[id_] = self._probe(id_)
            return self._reasons[id_]

    def _probe(self, id_: str) -> str | None:
        place = _DRIVERS.get(id_)
        if place is None:
            if id_ not in BUILTIN and id_ not in backend_ids():
                return f"this installation has no backend {id_}"
            try:
                named: str | None = getattr(backend(id_), "driver", None)
            except GpuError as error:
                return error.message
            if named is None:
                return "it compiles only: it has no driver"
            module_name, _, class_name = named.partition(":")
            place = module_name, class_name
        try:
            driver: Driver = getattr(importlib.import_module(place[0]), place[1])()
            reason = driver.probe()
        except GpuError as error:
            return error.message
        except ImportError as error:  # a driver that needs a Python package which is not there
            return str(error)
        if reason is None:
            self._drivers[id_] = driver
        return reason

    def of_backend(self, id_: str) -> tuple[Device, ...]:
        """The devices of an available backend; none otherwise."""
        with self._lock:
            if self.unavailable(id_) is not None:
                return ()
            if id_ not in self._devices:
                driver = self._drivers[id_]
                self._devices[id_] = tuple(Device(id_, driver, info) for info in driver.devices())
            return self._devices[id_]

    def devices(self) -> list[Device]:
        """Every device, best backend first, each physical one once; the interpreter stands last."""
        ids = [*(i for i in ORDER if i in _DRIVERS), *(i for i in backend_ids() if i not in ORDER)]
        found: list[Device] = []
        seen: dict[object, Device] = {}
        for id_ in ids:
            for each in self.of_backend(id_):
                key = each.properties.get("uuid")
                same = None if key is None else seen.setdefault(key, each)
                if same is None or same is each:
                    found.append(each)
                else:
                    same.reached_by(each)
        # Stable: what runs on the processor through a driver for GPUs comes behind what is made for processors.
        return sorted(found, key=lambda each: (each.backend not in ORDER, each.software))

    def device(self, name: str) -> Device:
        """The device of a name such as `cuda:0`."""
        match = _DEVICE_NAME.fullmatch(name.strip().lower())
        if match is None:
            raise unknown_device(name, "a device name is a backend id, a colon and a number")
        id_, index = canonical(match[1]), int(match[2] or 0)
        if id_ not in _DRIVERS and id_ not in ORDER and id_ not in backend_ids():
            raise unknown_device(name, f"no backend is called {match[1]!r}")
        self.driver(id_)
        found = self.of_backend(id_)
        if index >= len(found):
            raise unknown_device(name, f"{match[1]} has {len(found)} device{'s' if len(found) != 1 else ''} here")
        return found[index]

    def default_device(self) -> Device:
        """The device of MAGPIE_DEVICE or MAGPIE_BACKEND, or the best one; the choice is made once."""
        named = knobs.device()
        if named is not None:
            return self.device(named)
        forced = knobs.backend()
        if forced is not None:
            return self.device(forced)
        if self._default is None:
            with self._lock:
                if self._default is None:
                    self._default = self.choose()
        return self._default

    def choose(self, bundled: Iterable[str] | None = None) -> Device:
        """The best device for a kernel that comes for the `bundled` backends; None: for every one.

        Raises GpuError BackendUnavailable when there is none: nothing falls back to a backend that was left out. A
        plug-in is never chosen by itself, since looking for one costs more than a first launch may (see
        `magpie.backends.registry`): name it in MAGPIE_BACKEND or `device=`.
        """
        wanted = tuple(_DRIVERS) if bundled is None else tuple(dict.fromkeys(canonical(b) for b in bundled))
        # A driver for GPUs that runs on the processor comes after everything else.
        for software in (False, True):
            for id_ in ORDER:
                if id_ in wanted and (software or _worth_a_look(id_)):
                    for found in self.of_backend(id_):
                        if id_ in found.backends and found.software is software:
                            return found
        names = wanted if bundled is not None else tuple(i for i in ORDER if i in _DRIVERS)
        shown = ", ".join(DISPLAY_NAMES.get(i, i) for i in names)
        hint = "" if "cpu" in names else "; rebuild with cpu to enable CPU fallback"
        reasons = "; ".join(f"{DISPLAY_NAMES.get(i, i)}: {self.unavailable(i)}" for i in names)
        raise GpuError(
            GpuErrorKind.BackendUnavailable, "", f"no available backend among {{{shown}}}{hint}", help=reasons or None
        )


def _worth_a_look(id_: str) -> bool:
    """Whether a backend may have a real device here, as far as its files tell."""
    files = _FILES.get(id_)
    return files is None or not sys.platform.startswith("linux") or any(map(os.path.exists, files))


_runtime: Runtime | None = None
_runtime_lock = threading.Lock()


def runtime() -> Runtime:
    """The process's runtime, made when it is first asked for."""
    global _runtime
    if _runtime is None:
        with _runtime_lock:
            if _runtime is None:
                _runtime = Runtime()
    return _runtime


def reset(replacement: Runtime | None = None) -> Runtime | None:
    """Forget the chosen device and every driver (or put `replacement` in their place); gives the old runtime.

    Arrays keep their own device; a kernel keeps what it has compiled.
    """
    global _runtime
    with _runtime_lock:
        old, _runtime = _runtime, replacement
    return old
