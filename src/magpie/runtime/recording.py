"""Which graph each thread records. What must not happen meanwhile asks here; so this imports nothing of the runtime."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError, GpuErrorKind

if TYPE_CHECKING:
    from magpie.runtime.device import Device
    from magpie.runtime.graph import Graph

__all__ = ["active", "current", "refuse", "refused", "refused_by"]

#: Thread -> the graph that it records. Empty nearly always, which is all that a launch looks at.
active: dict[int, Graph] = {}


def current(device: Device | None = None) -> Graph | None:
    """The graph that this thread records, on `device` if one is given."""
    if not active:
        return None
    found = active.get(get_ident())
    return found if found is not None and (device is None or found.device is device) else None


def refuse(device: Device, what: str, help: str) -> None:
    """Raises GpuError where this thread records a graph on the device, and `what` cannot be part of it."""
    if active and current(device) is not None:
        raise refused(device, what, help)


def refused(device: Any, what: str, help: str) -> GpuError:
    """The error for something that cannot be recorded."""
    return refused_by(device.backend, what, help)


def refused_by(backend: str, what: str, help: str) -> GpuError:
    """The same, for who knows the backend's id only."""
    return GpuError(
        GpuErrorKind.ValidationFailed,
        backend,
        f"{what} cannot be part of a graph",
        diagnostic="MPG_LAUNCH_1022",
        help=help,
    )
