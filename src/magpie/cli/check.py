"""``magpie check``: compile the kernels of a file, or run it under the sanitizer."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from magpie import knobs
from magpie.cli.program import argv_of, execute, exit_status, show_diagnostics, show_exception
from magpie.errors import MagpieError

if TYPE_CHECKING:
    from magpie.runtime.kernel import Kernel

def check_command(file: Path) -> int:
    """Compile every kernel of ``file`` that has full annotations; 1 if one has an error."""
    with argv_of(file, []):
        try:
            module = _load(file)
        except SystemExit as stop:
            if exit_status(stop):
                return 1
            print(f"{file} ended the program while it was imported, so its kernels are not known")
            return 1
        except Exception as error:
            show_exception(error)
            return 1
        kernels = _kernels(module)
        errors = warnings = 0
        skipped: list[str] = []
        for kernel in kernels:
            found = kernel.check()
            if not found and not _annotated(kernel):
                skipped.append(kernel.__name__)
                continue
            show_diagnostics(found)
            errors += sum(item.is_error for item in found)
            warnings += sum(not item.is_error for item in found)
    checked = len(kernels) - len(skipped)
    print(f"{_count(checked, 'kernel')} checked, {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    if skipped:
        print(f"not checked, since a parameter has no annotation: {', '.join(skipped)}")
    return 1 if errors else 0


def sanitize_command(file: Path, args: list[str], checks: str | None) -> int:
    """Run ``file`` with every launch under the sanitizer; 1 if there is a report, else the program's own status."""
    from magpie.runtime import sanitize

    try:
        chosen = _chosen_checks(checks)
    except MagpieError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with sanitize.collecting(chosen) as reports:
        status = execute(file, args)
    if reports:
        print(flush=True)
    show_diagnostics([report.diagnostic() for report in reports])
    print(f"sanitizer ({', '.join(chosen)}): {_count(len(reports), 'report')}")
    return 1 if reports else status


def _chosen_checks(checks: str | None) -> tuple[str, ...]:
    if checks is None:
        return knobs.sanitize() or knobs.SANITIZE_DEFAULT
    try:
        chosen = knobs.parse_checks(checks)
    except ValueError as error:
        raise MagpieError(f"--checks: {error}; it takes {', '.join(knobs.SANITIZE_CHECKS)}, or all") from None
    if not chosen:
        raise MagpieError("--checks: no check is chosen")
    return chosen


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


def _kernels(module: ModuleType) -> list[Kernel]:
    """The kernels that ``module`` defines or names, each once, in the order of definition."""
    from magpie.runtime.kernel import Kernel

    found: dict[int, Kernel] = {}
    for value in list(vars(module).values()):
        if isinstance(value, Kernel):
            found.setdefault(id(value), value)
    return list(found.values())


def _annotated(kernel: Kernel) -> bool:
    """Whether annotations and defaults alone say what to compile."""
    from magpie.frontend.python.annotations import NO_DEFAULT

    return all(
        p.default is not NO_DEFAULT or (p.kind in ("array", "scalar") and p.type is not None) for p in kernel.parameters
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
