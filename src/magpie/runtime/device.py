"""`Device`: one device of one backend, as users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magpie.errors import LaunchValueError, public

if TYPE_CHECKING:
    from magpie.runtime.driver import DeviceInfo, Driver

__all__ = ["Device", "device", "devices"]


class Device:
    """One device: `cpu:0`, `cuda:1`. There is one object per device and runtime, so `is` and `==` agree.

    `backend` is the canonical backend id, `index` its number there, `name` what the vendor calls it, `backends` every
    backend that can run on it. Limits are in work-items and bytes.
    """

    __slots__ = ("__weakref__", "_also", "_info", "backend", "driver", "index")

    def __init__(self, backend: str, driver: Driver, info: DeviceInfo) -> None:
        self.backend = backend
        self.driver = driver
        self.index = info.index
        self._info = info
        self._also: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`backend:index`, the form that `mp.device` takes."""
        return f"{self.backend}:{self.index}"

    @property
    def name(self) -> str:
        """The vendor's name of the device."""
        return self._info.name

    @property
    def backends(self) -> tuple[str, ...]:
        """Every backend that can run on this device, this one first.

        Those through which another driver reaches the same GPU are known once `mp.devices()` has looked.
        """
        return (*self._info.backends, *self._also)

    def reached_by(self, other: Device) -> None:
        """Another driver's device is this one, too."""
        self._also = tuple(b for b in dict.fromkeys((*self._also, *other.backends)) if b not in self._info.backends)

    @property
    def capabilities(self) -> frozenset[str]:
        """Capability names, as in `requires=`."""
        return self._info.manifest.capabilities

    @property
    def max_workgroup_size(self) -> int:
        """Most work-items of a workgroup."""
        return self._info.manifest.max_workgroup_size

    @property
    def max_shared_bytes(self) -> int:
        """Most bytes of shared memory of a workgroup."""
        return self._info.manifest.max_shared_bytes

    @property
    def max_buffers(self) -> int:
        """Most array arguments of a kernel."""
        return self._info.manifest.max_buffers

    @property
    def static_workgroup(self) -> bool:
        """Whether launches are compiled for their workgroup size, up to a number of sizes."""
        return self._info.manifest.static_workgroup

    @property
    def software(self) -> bool:
        """A driver for GPUs that runs on the processor (lavapipe, SwiftShader): never chosen before the cpu backend."""
        found: bool = self._info.properties.get("software", False)
        return found

    @property
    def arch(self) -> str:
        """The architecture that code is made for, as `compile(arch=)` takes it; empty where there is one only."""
        found: str = self._info.properties.get("arch", "")
        return found

    @property
    def alignment(self) -> int:
        """Bytes of alignment of arrays for which kernels get faster code here; 1 where it makes no difference."""
        return self._info.manifest.alignment

    @property
    def subgroup_size(self) -> int:
        """Work-items of a full subgroup; 0 where it is chosen per kernel."""
        return self._info.subgroup_size

    @property
    def subgroup_sizes(self) -> tuple[int, ...]:
        """What `launch(subgroup_size=)` may ask for."""
        return self._info.manifest.subgroup_sizes or (self.subgroup_size,)

    @property
    def memory_total(self) -> int:
        """Bytes of memory; 0 where the vendor does not tell."""
        return self._info.memory_total

    @property
    def memory_available(self) -> int:
        """Bytes that could be allocated now; 0 where the vendor does not tell."""
        return self.driver.memory_available(self.index)

    @property
    def properties(self) -> dict[str, Any]:
        """What else the driver tells: plain values, by name."""
        return {
            "name": self.name,
            "backend": self.backend,
            "index": self.index,
            "max_workgroup_size": self.max_workgroup_size,
            "max_shared_bytes": self.max_shared_bytes,
            "max_buffers": self.max_buffers,
            "subgroup_size": self.subgroup_size,
            "subgroup_sizes": self.subgroup_sizes,
            "memory_total": self.memory_total,
            "capabilities": tuple(sorted(self.capabilities)),
            **self._info.properties,
        }

    @public
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all work on this device is done; `timeout` is as for `Stream.synchronize`."""
        from magpie.runtime.recording import refuse
        from magpie.runtime.stream import check_timeout

        refuse(self, "waiting for a device", "nothing runs while a graph is recorded; wait after graph.launch()")
        self.driver.synchronize(self.index, timeout=check_timeout(timeout))

    def __repr__(self) -> str:
        return f"<mp.Device {self.id}: {self.name}>"


@public
def devices() -> list[Device]:
    """The devices of every available backend, best first; a device that several backends reach appears once."""
    from magpie.runtime.dispatch import runtime

    return runtime().devices()


@public
def device(name: str | Device | None = None) -> Device:
    """The device called `cuda:0`, `cuda` (its first one), or any alias of a backend; without a name the default one.

    Raises GpuError BackendUnavailable (a backend that cannot be used here, with the reason) or LaunchValueError (no
    such name).
    """
    from magpie.runtime.dispatch import runtime

    if name is None:
        return runtime().default_device()
    if isinstance(name, Device):
        return name
    if not isinstance(name, str):
        raise LaunchValueError(
            f"device= takes a name such as 'cpu' or 'cuda:0', or an mp.Device; got {type(name).__name__}",
            diagnostic="MPG_LAUNCH_1016",
        )
    return runtime().device(name)


def unknown_device(name: str, why: str) -> LaunchValueError:
    """The error for a device name that names nothing."""
    return LaunchValueError(
        f"there is no device {name!r}: {why}",
        diagnostic="MPG_LAUNCH_1016",
        help="a name is backend:index, for example 'cpu' or 'cuda:0'; mp.devices() lists what this machine has",
    )
