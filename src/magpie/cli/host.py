"""``magpie run FILE.mp``: check a module, and run its host program."""

from __future__ import annotations

import sys
from pathlib import Path

from magpie import knobs
from magpie.cli.program import show_diagnostics
from magpie.diagnostics import CompileError, Diagnostic, Loc
from magpie.errors import MagpieError
from magpie.mpir.nodes import Module

_OPERAND_FREE = "fn @main() -> i64"


def run_text(file: Path, args: list[str], max_bytes: int | None) -> int:
    """Run `@main` of a file; the exit status is its value modulo 256, as systems have it, and 1 where there are errors.

    What is wrong with the file is shown on standard error; nothing runs then. A panic gives 101.
    """
    from magpie.frontend.mp import MAX_BYTES, read
    from magpie.host.gpu import gpu_of
    from magpie.host.program import Program
    from magpie.runtime.modules import checked_module

    try:
        knobs.backend(), knobs.device()
        module, found = checked_module(read(file, max_bytes=max_bytes or MAX_BYTES))
        if module is not None:
            found += _without_main(module, file)
        show_diagnostics(found, sys.stderr)
        if module is None or any(item.is_error for item in found):
            return 1
        program = Program(module)
        gpu_of(program)  # reads the manifest
    except CompileError as error:
        show_diagnostics(error.diagnostics, sys.stderr)
        return 1
    except MagpieError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return program.main(args) % 256


def _without_main(module: Module, file: Path) -> list[Diagnostic]:
    """What keeps a module from being a program."""
    main = module.function("main")
    if main is None or main.gpu_meta is not None:
        text = "this module has no function @main, so there is nothing to run"
        return [Diagnostic("MPT0020", text, Loc(str(file), 1), help=f"write `{_OPERAND_FREE}`")]
    return []
