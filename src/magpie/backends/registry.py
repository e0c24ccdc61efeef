"""Which backends there are, and the object of each.

A backend is found by its entry point in the group `magpie.backends`, so that one can live in another package. The ids
of this package are known without asking the installation: `importlib.metadata` costs 20 ms and more, which a first
launch does not have.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import TYPE_CHECKING, Any

from magpie.errors import GpuError, GpuErrorKind
from magpie.knobs import BACKEND_ALIASES

if TYPE_CHECKING:
    from magpie.backends.base import Backend

__all__ = ["BUILTIN", "DISPLAY_NAMES", "backend", "backend_ids", "canonical"]

#: In-tree backends: id -> module that has the object BACKEND.
BUILTIN: dict[str, str] = {
    "cpu": "magpie.backends.cpu",
    "interp": "magpie.backends.interp",
    "ptx": "magpie.backends.ptx",
    "hip": "magpie.backends.hip",
    "spv": "magpie.backends.spirv",
    "tgpu": "magpie.backends.tgpu",
}

#: What people call a backend whose id is the name of its code format.
DISPLAY_NAMES = {"spv": "vulkan", "msl": "metal", "ptx": "cuda", "wgsl": "webgpu"}

_GROUP = "magpie.backends"


def canonical(name: str) -> str:
    """The id for an id or an alias (vulkan, metal, cuda, webgpu), in any case; an unknown name comes back as it is."""
    lower = name.strip().lower()
    return BACKEND_ALIASES.get(lower, lower)


@functools.cache
def backend(name: str) -> Backend:
    """The backend of this id or alias. Raises GpuError BackendUnavailable when there is none."""
    id_ = canonical(name)
    if id_ in BUILTIN:
        found: Backend = importlib.import_module(BUILTIN[id_]).BACKEND
        return found
    entry = _plugins().get(id_)
    if entry is None:
        known = ", ".join(backend_ids())
        raise GpuError(
            GpuErrorKind.BackendUnavailable,
            id_,
            f"there is no backend {name!r} in this installation; it has {known}",
            diagnostic="MPG_CORE_1300",
        )
    try:
        loaded: Backend = entry.load()
    except Exception as error:
        raise GpuError(
            GpuErrorKind.BackendUnavailable,
            id_,
            f"the plug-in {entry.value} failed to load: {type(error).__name__}: {error}",
            diagnostic="MPG_ENV_1005",
        ) from error
    return loaded


def backend_ids(*, plugins: bool = True) -> tuple[str, ...]:
    """The ids of all backends, those of this package first."""
    return (*BUILTIN, *(id_ for id_ in (_plugins() if plugins else ()) if id_ not in BUILTIN))


@functools.cache
def _plugins() -> dict[str, Any]:
    """Entry points by canonical id. A name that appears twice keeps the first one, with a warning."""
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for entry in entry_points(group=_GROUP):
        id_ = canonical(entry.name)
        if id_ in BUILTIN:
            continue
        if id_ in found:
            warnings.warn(f"two plug-ins define the backend {id_!r}; {found[id_].value} is used", RuntimeWarning)
            continue
        found[id_] = entry
    return found
