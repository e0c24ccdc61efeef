"""MAGPIE_DUMP: stages of a kernel that is being compiled, to standard error or into MAGPIE_DUMP_DIR."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from magpie import knobs
from magpie.backends.registry import backend_ids

if TYPE_CHECKING:
    from magpie.backends.base import Backend, Options
    from magpie.ir.nodes import Kernel

__all__ = ["dump_stages", "stage_names"]


def dump_stages(kernel: Kernel, backend: Backend, options: Options, wanted: Sequence[str]) -> None:
    """Print the wanted stages in the backend's order; a stage that only other backends have is passed over."""
    stages = backend.stages
    everything = "all" in wanted
    for name in wanted:
        if name != "all" and name not in stages and name not in stage_names():
            warnings.warn(
                f"[MPG_ENV_1006] no backend has a stage {name!r}, so MAGPIE_DUMP prints nothing for it; "
                f"{backend.id} has {', '.join(stages)}",
                RuntimeWarning,
                stacklevel=2,
            )
    folder = knobs.dump_dir()
    for name, make in stages.items():
        if not everything and name not in wanted:
            continue
        text = make(kernel, options).rstrip("\n") + "\n"
        if folder is None:
            print(f"--- {kernel.name}: {name} ({backend.id}) ---\n{text}", file=sys.stderr, end="", flush=True)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        # Variants of one kernel would overwrite each other: number them.
        stem = f"{kernel.name}.{backend.id}"
        number = 0
        while (path := folder / f"{stem}{f'.{number}' if number else ''}.{name}").exists() and path.read_text() != text:
            number += 1
        path.write_text(text)


def stage_names() -> frozenset[str]:
    """The stages of all in-tree backends that are there."""
    from magpie.backends.registry import backend
    from magpie.errors import GpuError

    found: set[str] = set()
    for id_ in backend_ids(plugins=False):
        try:
            found |= set(backend(id_).stages)
        except (GpuError, ImportError):
            continue
    return frozenset(found)
