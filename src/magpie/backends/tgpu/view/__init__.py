"""Pictures of a launch: a page that steps through it, a still and a moving picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from magpie.backends.tgpu.launch import Launch
from magpie.backends.tgpu.machine import MAX_STEPS
from magpie.errors import GpuError, GpuErrorKind, MagpieError

__all__ = ["FORMATS", "MOST_CELLS", "Shown", "show", "simulate_for_view"]

FORMATS = (".html", ".png", ".gif")
#: Threads times cycles, and words of memory, of all kernels that are shown together.
MOST_CELLS, MOST_WORDS = 1_000_000, 2_000_000


class Shown:
    """A document that was run, and which of its kernels are shown, by position."""

    __slots__ = ("kernels", "launch", "results")

    def __init__(self, launch: Launch, results: list[Any], kernels: list[int]) -> None:
        self.launch, self.results, self.kernels = launch, results, kernels


def simulate_for_view(
    launch: Launch, inputs: Mapping[str, Any], *, kernel: str | None = None, max_steps: int = MAX_STEPS
) -> Shown:
    """Run a document and keep what is needed to show it: all kernels, or the one called ``kernel``.

    Inputs that are left out are zeros. Raises GpuError MPG_TGPU_1203 for more than there is room for, and the errors of
    `run_launch`.
    """
    import numpy as np

    from magpie.backends.tgpu.runner import run_launch

    names = [k.name for k in launch.kernels]
    if kernel is not None and kernel not in names:
        raise MagpieError(f"the document has no kernel {kernel!r}; it has {', '.join(names) or 'none'}")
    chosen = [i for i, name in enumerate(names) if kernel is None or name == kernel]
    zeros = {name: np.zeros(launch.buffers[name].shape, np.int32) for name in launch.inputs if name not in inputs}
    # Once without a history, which tells how large it would be.
    plain = run_launch(launch, {**inputs, **zeros}, max_steps=max_steps)
    cells = sum(plain.kernels[i].cycles * len(plain.kernels[i].thread_cycles) for i in chosen)
    words = sum(launch.mem_size + launch.kernels[i].shared_size * launch.kernels[i].grid[0] for i in chosen)
    for n, most, what in ((cells, MOST_CELLS, "cells, threads times cycles,"), (words, MOST_WORDS, "words of memory")):
        if n > most:
            raise GpuError(
                GpuErrorKind.ResourceExhausted,
                "tgpu",
                f"a picture of {n:,} {what} is asked for; there is room for {most:,}",
                diagnostic="MPG_TGPU_1203",
                help="show one kernel (--kernel), or a smaller problem",
            )
    run = run_launch(launch, {**inputs, **zeros}, max_steps=max_steps, history=True)
    return Shown(launch, run.kernels, chosen)


def show(shown: Shown, path: str | Path) -> None:
    """Write a picture in the format that the name of the file ends in: .html, .png or .gif.

    The last two need Pillow (`pip install 'magpie-gpu[view]'`). Raises MagpieError for another ending, or without it.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise MagpieError(f"a picture is a file that ends in {', '.join(FORMATS)}; got {path.name!r}")
    if ending == ".html":
        from magpie.backends.tgpu.view.page import page

        data = page(shown).encode("utf-8")
    else:
        from magpie.backends.tgpu.view.image import moving, still

        data = still(shown) if ending == ".png" else moving(shown)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise MagpieError(f"{path}: {error.strerror or error}") from None
