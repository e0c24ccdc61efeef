"""The command line: ``magpie run | check | fmt | build | devices | explain | mpir | knobs | version``."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def lenient_output() -> None:
    """Characters that standard output cannot have are escaped, as on standard error: those of a source in a locale
    without them, and bytes of a file's name that are not UTF-8."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point of the script ``magpie`` and of ``python -m magpie``."""
    if sys.argv[1:2] != ["run"]:  # a program's output is its own
        lenient_output()
    match sys.argv[1:]:
        case ["explain", code] if not code.startswith("-"):
            # Asked in the middle of an edit: answered without loading typer, which takes three times as long.
            from magpie.cli.explain import explain_command

            try:
                status = explain_command(code)
                sys.stdout.flush()
            except BrokenPipeError:  # nobody reads on: Python's own flush at exit goes nowhere, as typer has it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                status = 1
            sys.exit(status)
        case _:
            from magpie.cli.app import app
            from magpie.errors import MagpieError

            try:
                app(prog_name="magpie")
            except MagpieError as error:  # a missing backend, a bad variable: a user's matter, not a crash
                print(f"error: {error}", file=sys.stderr)
                sys.exit(1)


__all__ = ["lenient_output", "main"]
