"""``magpie check``: compile the kernels of a file, or run it under the sanitizer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from magpie import knobs
from magpie.backends.registry import BUILTIN, backend, canonical
from magpie.cli.kernels import annotated, count, kernels_in
from magpie.cli.program import argv_of, execute, show_diagnostics
from magpie.cli.report import json_report
from magpie.diagnostics import CompileError, Diagnostic
from magpie.errors import MagpieError


def check_command(file: Path, as_json: bool = False, max_bytes: int | None = None, arch: str = "") -> int:
    """Compile every kernel of ``file`` that has full annotations, or read a `.mp` file; 1 if there is an error.

    ``arch`` are the architectures of targets that the kernels of a `.mp` file are checked for: "sm_70,hip=gfx1100".
    """
    if file.suffix == ".mp":
        return _check_text(file, as_json, max_bytes, arch)
    if as_json:
        return _check_json(file)
    with argv_of(file, []):
        kernels = kernels_in(file)
        if kernels is None:
            return 1
        errors = warnings = 0
        skipped: list[str] = []
        for kernel in kernels.values():
            found = kernel.check()
            if not found and not annotated(kernel):
                skipped.append(kernel.__name__)
                continue
            show_diagnostics(found)
            errors += sum(item.is_error for item in found)
            warnings += sum(not item.is_error for item in found)
    checked = len(kernels) - len(skipped)
    print(f"{count(checked, 'kernel')} checked, {count(errors, 'error')}, {count(warnings, 'warning')}")
    if skipped:
        print(f"not checked, since a parameter has no annotation: {', '.join(skipped)}")
    return 1 if errors else 0


def _check_text(file: Path, as_json: bool, max_bytes: int | None, arch: str) -> int:
    """Errors of how a `.mp` file is written, of its names and types and of its kernels; a digest that is not right."""
    from magpie.frontend.mp import MAX_BYTES, read
    from magpie.runtime.modules import check_module

    found: Sequence[Diagnostic]
    archs = _archs(arch)
    try:
        found = check_module(read(file, max_bytes=max_bytes or MAX_BYTES), archs)
    except CompileError as error:
        found = error.diagnostics
    errors = sum(item.is_error for item in found)
    if as_json:
        print(json_report(file, found))
    else:
        show_diagnostics(found)
        print(f"{file}: {count(errors, 'error')}, {count(len(found) - errors, 'warning')}")
    return 1 if errors else 0


def _archs(text: str) -> dict[str, str]:
    """The architecture of each target in a list such as ``sm_70,spv=vulkan1.3+f16``. Raises MagpieError."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        owner, mark, name = item.partition("=")
        if not mark:
            name = owner
            owner = next((i for i in BUILTIN if _prefix(i) and name.startswith(_prefix(i))), "")
        owner = canonical(owner)
        if owner not in BUILTIN or not _prefix(owner) or not name:
            shown = ", ".join(f"{_prefix(i)}... ({i})" for i in BUILTIN if _prefix(i))
            raise MagpieError(f"--arch: {item!r} is no architecture of a target; they begin with {shown}")
        if found.setdefault(owner, name) != name:
            raise MagpieError(f"--arch: {owner} is given twice, as {found[owner]} and {name}")
    return found


def _prefix(target: str) -> str:
    return backend(target).arch_prefix


def _check_json(file: Path) -> int:
    """What ``check_command`` finds in a Python file, as JSON; what the file prints goes to standard error."""
    found: list[Diagnostic] = []
    with argv_of(file, []), redirect_stdout(sys.stderr):
        kernels = kernels_in(file)
        for kernel in (kernels or {}).values():
            found += kernel.check()
    if kernels is None:
        return 1
    print(json_report(file, found))
    return 1 if any(item.is_error for item in found) else 0


def sanitize_command(file: Path, args: list[str], checks: str | None, max_bytes: int | None = None) -> int:
    """Run ``file`` with every launch under the sanitizer; 1 if there is a report, else the program's own status."""
    from magpie.runtime import sanitize

    try:
        chosen = _chosen_checks(checks)
    except MagpieError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with sanitize.collecting(chosen) as reports:
        if file.suffix == ".mp":
            from magpie.cli.host import run_text

            status = run_text(file, args, max_bytes)
        else:
            status = execute(file, args)
    if reports:
        print(flush=True)
    show_diagnostics([report.diagnostic() for report in reports])
    print(f"sanitizer ({', '.join(chosen)}): {count(len(reports), 'report')}")
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
