"""``magpie mpir``: tools for MPIR, the SSA form of `.mp` programs."""

from __future__ import annotations

import sys
from pathlib import Path

from magpie.cli.kernels import count
from magpie.cli.program import show_diagnostics
from magpie.diagnostics import CompileError


def show_command(file: Path, max_bytes: int | None = None) -> int:
    """Print the MPIR of a `.mp` file; 1 if it has an error, and then what is wrong goes to standard error."""
    from magpie.frontend.mp import MAX_BYTES, read
    from magpie.frontend.mp.kernels import check_source
    from magpie.mpir import print_module

    try:
        found = check_source(read(file, max_bytes=max_bytes or MAX_BYTES))
        text = print_module(found.checked)
    except CompileError as error:
        show_diagnostics(error.diagnostics, sys.stderr)
        return 1
    show_diagnostics(found.diagnostics, sys.stderr)
    print(text, end="")
    return 0


def verify_command(file: Path) -> int:
    """Check the MPIR text in ``file``; 1 if there is an error."""
    from magpie.mpir import parse_module, verify

    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        print(f"error: {file} is not UTF-8: byte {error.start}", file=sys.stderr)
        return 1
    try:
        module = parse_module(text, str(file))
        found = verify(module)
    except CompileError as error:
        module, found = None, list(error.diagnostics)
    show_diagnostics(found)
    errors = sum(d.is_error for d in found)
    checked = f"{count(len(module.functions), 'function')} checked, " if module is not None else ""
    print(f"{checked}{count(errors, 'error')}")
    return 1 if errors else 0
