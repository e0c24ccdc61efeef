"""The kernels of a user's file, for commands that compile them without running the file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from magpie.cli.program import exit_status, show_diagnostics, show_exception
from magpie.errors import MagpieError

if TYPE_CHECKING:
    from magpie.runtime.kernel import Kernel

__all__ = ["annotated", "count", "kernels_in"]


def kernels_in(file: Path, max_bytes: int | None = None) -> dict[str, Kernel] | None:
    """The kernels that ``file`` defines or names, each once, by its first name, in the order of definition.

    None when it cannot be imported, once that is shown; of a `.mp` file, when it has errors.
    """
    from magpie.runtime.kernel import Kernel

    if file.suffix == ".mp":
        return _kernels_of_text(file, max_bytes)
    try:
        module = _load(file)
    except SystemExit as stop:
        if not exit_status(stop):
            print(f"{file} ended the program while it was imported, so its kernels are not known")
        return None
    except Exception as error:
        show_exception(error)
        return None
    found: dict[int, tuple[str, Kernel]] = {}
    for name, value in list(vars(module).items()):
        if isinstance(value, Kernel):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _kernels_of_text(file: Path, max_bytes: int | None) -> dict[str, Kernel] | None:
    from magpie.diagnostics import CompileError
    from magpie.runtime.modules import load_module

    try:
        module = load_module(file, max_bytes=max_bytes)
    except CompileError as error:
        show_diagnostics(error.diagnostics)
        return None
    return {name: module[name] for name in module}


def _load(file: Path) -> ModuleType:
    """Import ``file`` under its own name, so that ``if __name__ == "__main__"`` does not run."""
    name = file.stem if file.stem.isidentifier() else "checked_file"
    if name in sys.modules:
        name = f"magpie_checked_{name}"  # never take the place of a module that something else has imported
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise MagpieError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def annotated(kernel: Kernel) -> bool:
    """Whether annotations and defaults alone say what to compile."""
    from magpie.frontend.python.annotations import NO_DEFAULT

    return all(
        p.default is not NO_DEFAULT or (p.kind in ("array", "scalar") and p.type is not None) for p in kernel.parameters
    )


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
