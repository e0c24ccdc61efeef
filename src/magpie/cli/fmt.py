"""``magpie fmt``: `.mp` files in their canonical form, with their digests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from magpie.cli.program import show_diagnostics
from magpie.diagnostics import CompileError

__all__ = ["fmt_command"]


def fmt_command(files: list[Path], check: bool, max_bytes: int | None) -> int:
    """Rewrite the files that are not canonical, or with ``check`` name them only; 1 for those, and for errors."""
    status = 0
    for file in files:
        try:
            changes = _format(file, check, max_bytes)
        except CompileError as error:
            show_diagnostics(error.diagnostics, sys.stderr)
            status = 1
        except OSError as error:
            print(f"error: {file}: {error.strerror or error}", file=sys.stderr)
            status = 1
        else:
            if changes:
                print(f"{file} is not formatted" if check else f"{file} formatted")
            status |= check and changes
    return status


def _format(file: Path, check: bool, max_bytes: int | None) -> bool:
    """Whether a file is not canonical, and unless ``check`` is set, make it so."""
    from magpie.frontend.mp import MAX_BYTES, format_source, read

    if not file.is_file():
        raise OSError("this is no regular file, whose text could be replaced")
    text = format_source(read(file, max_bytes=max_bytes or MAX_BYTES))
    if text.encode() == file.read_bytes():
        return False
    if not check:
        _replace(file, text)
    return True


def _replace(file: Path, text: str) -> None:
    """Put ``text`` in the place of ``file`` at once, so that nothing is lost if this process ends in between."""
    target = file.resolve()  # of a link, the file that it leads to
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        made.write_bytes(text.encode())
        made.chmod(target.stat().st_mode & 0o7777)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
