"""``magpie tgpu``: runs launch documents on the simulator of tiny-gpu, and shows them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magpie.cli.kernels import count
from magpie.cli.program import show_diagnostics
from magpie.diagnostics import CompileError
from magpie.errors import MagpieError

if TYPE_CHECKING:
    from magpie.backends.tgpu.launch import Launch

__all__ = ["run_launch_command", "view_command"]


def run_launch_command(
    file: Path, inputs: list[str], outputs: list[str], engine: str, silent_shared: bool, max_steps: int
) -> int:
    """Run the document in ``file`` and print what each kernel took; ``inputs`` and ``outputs`` are NAME=FILE.npy.

    Outputs that are written to no file are printed.
    """
    import numpy as np

    from magpie.backends.tgpu.runner import run_launch

    launch = _read(file)
    if launch is None:
        return 1
    given, wanted = _arrays(inputs, "--input"), dict(_pairs(outputs, "--output"))
    unknown = wanted.keys() - set(launch.outputs)
    if unknown:
        raise MagpieError(f"{file} has no output {', '.join(sorted(unknown))}; it has {', '.join(launch.outputs)}")
    run = run_launch(launch, given, engine=engine, silent_shared=silent_shared, max_steps=max_steps)
    for kernel, result in zip(launch.kernels, run.kernels, strict=True):
        ops = ", ".join(f"{name} {n}" for name, n in result.opcodes.items())
        print(f"{kernel.name}: {result.cycles} cycles, {result.instructions} instructions ({ops})")
    print(f"together: {run.cycles} cycles, {run.instructions} instructions")
    for name, array in run.outputs.items():
        if name not in wanted:
            print(f"{name} =\n{array}")
            continue
        try:
            np.save(wanted[name], array)
        except OSError as error:
            raise MagpieError(f"{wanted[name]}: {error.strerror or error}") from None
        print(f"{name} written to {wanted[name]}")
    return 0


def view_command(file: Path, out: Path, inputs: list[str], kernel: str | None, max_steps: int) -> int:
    """Write a picture of the document in ``file``; inputs that are not given are zeros."""
    from magpie.backends.tgpu.view import FORMATS, show, simulate_for_view

    if out.suffix.lower() not in FORMATS:
        raise MagpieError(f"--out is a file that ends in {', '.join(FORMATS)}; got {out.name!r}")
    launch = _read(file)
    if launch is None:
        return 1
    given = _arrays(inputs, "--input")
    missing = [name for name in launch.inputs if name not in given]
    if missing:
        print(f"note: zeros for {', '.join(missing)}", file=sys.stderr)
    shown = simulate_for_view(launch, given, kernel=kernel, max_steps=max_steps)
    show(shown, out)
    cycles = sum(shown.results[i].cycles for i in shown.kernels)
    print(f"{out}: {count(len(shown.kernels), 'kernel')}, {count(cycles, 'cycle')}")
    return 0


def _read(file: Path) -> Launch | None:
    """The document, or None after its errors were shown."""
    from magpie.backends.tgpu.launch import read_launch

    try:
        return read_launch(file)
    except CompileError as error:
        show_diagnostics(error.diagnostics, sys.stderr)
        return None


def _pairs(items: Iterable[str], option: str) -> list[tuple[str, str]]:
    found = []
    for item in items:
        name, mark, path = item.partition("=")
        if not (name and mark and path):
            raise MagpieError(f"{option} takes NAME=FILE.npy; got {item!r}")
        found.append((name, path))
    return found


def _arrays(items: Iterable[str], option: str) -> dict[str, Any]:
    """Arrays by name from files of NumPy."""
    import numpy as np

    found: dict[str, Any] = {}
    for name, path in _pairs(items, option):
        try:
            found[name] = np.load(path, allow_pickle=False)
        except OSError as error:
            raise MagpieError(f"{path}: {error.strerror or error}") from None
        except (ValueError, EOFError) as error:
            raise MagpieError(f"{path} is no array of NumPy: {error}") from None
        if not isinstance(found[name], np.ndarray):
            raise MagpieError(f"{path} is no array of NumPy, but a file of several: write one with np.save")
    return found
