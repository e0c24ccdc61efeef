"""``magpie mpir``: tools for MPIR, the SSA form of `.mp` programs."""

from __future__ import annotations

import sys
from pathlib import Path

from magpie.cli.kernels import count
from magpie.cli.program import show_diagnostics
from magpie.diagnostics import CompileError


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
