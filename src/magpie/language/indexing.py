"""Where a work-item is, and how it synchronises with others."""

from __future__ import annotations

from typing import Any

from magpie.language._builtin import builtin

__all__ = [
    "barrier",
    "fence",
    "global_id",
    "grid_sync",
    "local",
    "num_workgroups",
    "shared",
    "thread_id",
    "uniform",
    "workgroup_id",
    "workgroup_size",
]


@builtin
def thread_id(dim: int = 0) -> Any:
    """The work-item's number within its workgroup along ``dim`` (0, 1 or 2: x, y or z; x is the fastest)."""


@builtin
def workgroup_id(dim: int = 0) -> Any:
    """The workgroup's number within the launch along ``dim``."""


@builtin
def workgroup_size(dim: int = 0) -> Any:
    """The number of work-items of a workgroup along ``dim``."""


@builtin
def num_workgroups(dim: int = 0) -> Any:
    """The number of workgroups of the launch along ``dim``."""


@builtin
def global_id(dim: int = 0) -> Any:
    """``workgroup_id(dim) * workgroup_size(dim) + thread_id(dim)``."""


@builtin
def shared(shape: Any, dtype: Any) -> Any:
    """An array that the work-items of one workgroup share.

    ``shape`` is an integer or a tuple of up to 4: compile-time values, or values that the host can compute at launch
    from arguments, shapes and launch sizes. The content is unspecified until it is written.
    """


@builtin
def local(shape: Any, dtype: Any) -> Any:
    """An array that belongs to one work-item, of compile-time ``shape``. It starts at zero."""


@builtin
def barrier() -> None:
    """Wait until every work-item of the workgroup arrives; orders shared and buffer memory within the workgroup."""


@builtin
def fence(scope: str = "device", order: str = "acq_rel") -> None:
    """Order this work-item's memory accesses for others.

    ``scope`` is workgroup or device, ``order`` acquire, release or acq_rel.
    """


@builtin
def grid_sync() -> None:
    """Wait until every work-item of the launch arrives. Needs ``requires=("cooperative_groups",)``."""


@builtin
def uniform(value: Any) -> Any:
    """``value``, which you assert to be the same for the whole workgroup; the sanitizer checks it."""
