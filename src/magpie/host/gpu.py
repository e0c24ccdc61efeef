"""Devices of host programs: which there are, which one is the default, and what they can do.

A `gpu.TDevice` is the runtime's `Device`, a `gpu.TBuffer` its `Buffer`, and a `gpu.TFence` an `Event`. The cpu is a
device as others are. What a program shares is a `Gpu`: the settings of its manifest, its kernels and its streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from magpie import knobs
from magpie.dtypes import StructType
from magpie.errors import GpuError, GpuErrorKind
from magpie.host.builtins import Call, builtin
from magpie.host.gpu_errors import fallible, unavailable
from magpie.host.values import ArrayValue
from magpie.mpir.types import Ty
from magpie.runtime.device import Device
from magpie.runtime.dispatch import ORDER, runtime
from magpie.runtime.manifest import GpuSettings, gpu_settings
from magpie.runtime.stream import Stream

if TYPE_CHECKING:
    from magpie.host.program import Program
    from magpie.runtime.modules import TextKernel

__all__ = ["Gpu", "gpu_of", "subgroup_size"]

#: Work-items of a subgroup where a device leaves it to the launch, as the cpu does: that of most GPUs.
_SUBGROUP = 32


class Gpu:
    """What the GPU side of one program holds. ``forced``: kernels run on the device that is given whatever their target
    is, since the environment names a backend or a device, the manifest one that no kernel has as its target, or the
    sanitizer runs all launches. Raises CompileError for a manifest that is not valid."""

    def __init__(self, program: Program) -> None:
        self.module = program.module
        self.settings: GpuSettings = gpu_settings(Path(self.module.file or ".").parent, knobs.profile())
        self.structs: dict[str, StructType] = {}
        self.kernels: dict[str, TextKernel] = {}
        self._streams: dict[Device, Stream] = {}

    @property
    def forced(self) -> bool:
        named = knobs.device() is not None or knobs.backend() is not None
        return named or self.settings.backend in ("cpu", "interp") or bool(knobs.sanitize())

    def default(self) -> Device:
        """The device for a program that names none: that of the environment; that of the manifest; the best one that
        runs a kernel of the program; the best one. Raises GpuError BackendUnavailable."""
        if knobs.device() is not None or knobs.backend() is not None:
            return runtime().default_device()
        if knobs.sanitize():
            return runtime().device("cpu")  # whose memory the interpreter reaches
        backend, index = self.settings.backend, max(0, self.settings.device_index)
        if backend is not None:
            try:
                runtime().driver(backend)
                found = runtime().of_backend(backend)
                if index >= len(found):
                    raise unavailable(backend, f"the manifest's device {index}: there are {len(found)} of {backend}")
                return found[index]
            except GpuError:
                if self.settings.fallback:
                    return runtime().device("cpu")
                raise
        best = self.best()
        return _numbered(_listed(best), index) if index else best

    def best(self) -> Device:
        targets = {f.gpu_meta.target for f in self.module.functions if f.gpu_meta is not None}
        if targets:
            try:
                return runtime().choose(sorted(targets, key=_rank))
            except GpuError:
                pass  # the program may ask for another device, or let the cpu stand in
        return runtime().default_device()

    def devices(self) -> list[Device]:
        """Every device, the default one first; the interpreter only where it is asked for."""
        return _listed(self.default())

    def by_index(self, index: int) -> Device:
        """A device by its number. Raises GpuError ValidationFailed where there are not as many."""
        first = self.default()
        return _numbered(_listed(first), index) if index else first

    def stream(self, device: Device) -> Stream:
        """The program's queue on a device: all that it starts there runs in its order."""
        if device not in self._streams:
            self._streams[device] = Stream(device)
        return self._streams[device]


_gpus: WeakKeyDictionary[Program, Gpu] = WeakKeyDictionary()


def gpu_of(program: Program) -> Gpu:
    """The GPU side of a program, made when it is first asked for."""
    found = _gpus.get(program)
    if found is None:
        found = _gpus[program] = Gpu(program)
    return found


def _rank(target: str) -> int:
    return ORDER.index(target) if target in ORDER else len(ORDER)


def _listed(first: Device) -> list[Device]:
    known = [d for d in runtime().devices() if d.backend in ORDER or d.backend == first.backend]
    return [first, *(d for d in known if not _same(d, first))]


def _numbered(devices: list[Device], index: int) -> Device:
    if index >= len(devices):
        count = f"{len(devices)} device{'s' if len(devices) != 1 else ''}"
        raise GpuError(GpuErrorKind.ValidationFailed, "", f"there is no device {index}: this machine has {count}")
    return devices[index]


def _same(a: Device, b: Device) -> bool:
    """Whether two devices are one, or one GPU that two drivers reach."""
    uuid = a.properties.get("uuid")
    return a is b or (uuid is not None and uuid == b.properties.get("uuid"))


def subgroup_size(device: Device) -> int:
    """Work-items of a subgroup as programs see it; kernels with subgroup operations are launched with that size."""
    return device.subgroup_size or _SUBGROUP


@builtin("gpu.host.@device_count")
def device_count(call: Call) -> int:
    try:
        return len(gpu_of(call.program).devices())
    except GpuError:  # the device that is asked for is not there
        return 0


@builtin("gpu.host.@device_default")
@fallible
def device_default(call: Call) -> Device:
    return gpu_of(call.program).default()


@builtin("gpu.host.@device_by_index")
@fallible
def device_by_index(call: Call, idx: int) -> Device:
    return gpu_of(call.program).by_index(idx)


@builtin("gpu.host.@device_name")
def device_name(call: Call, dev: Device) -> str:
    return dev.name


@builtin("gpu.host.@device_backends")
def device_backends(call: Call, dev: Device) -> ArrayValue:
    names = [*dev.backends]
    if dev.properties.get("uuid") is not None:
        # what else reaches it stands at the one of them that is in the list of all
        names += [name for d in runtime().devices() if _same(d, dev) for name in d.backends]
    return ArrayValue(Ty("Str"), list(dict.fromkeys(names)))


@builtin("gpu.host.@device_max_workgroup_size")
def device_max_workgroup_size(call: Call, dev: Device) -> int:
    return dev.max_workgroup_size


@builtin("gpu.host.@device_max_shared_bytes")
def device_max_shared_bytes(call: Call, dev: Device) -> int:
    return min(dev.max_shared_bytes, (1 << 32) - 1)


@builtin("gpu.host.@device_max_buffers")
def device_max_buffers(call: Call, dev: Device) -> int:
    return min(dev.max_buffers, (1 << 32) - 1)


@builtin("gpu.host.@device_warp_size")
def device_warp_size(call: Call, dev: Device) -> int:
    return subgroup_size(dev)


@builtin("gpu.host.@device_memory_total")
def device_memory_total(call: Call, dev: Device) -> int:
    return dev.memory_total


@builtin("gpu.host.@device_memory_available")
def device_memory_available(call: Call, dev: Device) -> int:
    return dev.memory_available


@builtin("gpu.host.@device_sync")
@fallible
def device_sync(call: Call, dev: Device) -> None:
    dev.synchronize()
