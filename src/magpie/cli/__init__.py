"""The command line: ``magpie run | check | fmt | build | devices | explain | mpir | knobs | version``."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the script ``magpie`` and of ``python -m magpie``."""
    match sys.argv[1:]:
        case ["explain", code] if not code.startswith("-"):
            # Asked in the middle of an edit: answered without loading typer, which takes three times as long.
            from magpie.cli.explain import explain_command

            sys.exit(explain_command(code))
        case _:
            from magpie.cli.app import app
            from magpie.errors import MagpieError

            try:
                app(prog_name="magpie")
            except MagpieError as error:  # a missing backend, a bad variable: a user's matter, not a crash
                print(f"error: {error}", file=sys.stderr)
                sys.exit(1)


__all__ = ["main"]
