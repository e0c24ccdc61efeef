"""Running a user's file, and showing what it raises without a frame of Magpie's own."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TextIO

import magpie
from magpie import knobs
from magpie.diagnostics import CompileError, Diagnostic, render
from magpie.errors import MagpieError

_OWN_FILES = (str(Path(magpie.__file__).parent), "<frozen runpy>", "<frozen importlib")


def run_command(
    file: Path,
    args: list[str],
    backend: str | None,
    device: str | None,
    profile: str | None = None,
    max_bytes: int | None = None,
) -> int:
    """``magpie run``: the exit status is the program's, or 1 for an exception."""
    try:
        if backend is not None:
            os.environ["MAGPIE_BACKEND"] = backend
            knobs.backend()
        if device is not None:
            os.environ["MAGPIE_DEVICE"] = device
            knobs.device()
        if profile is not None:
            os.environ["MAGPIE_PROFILE"] = profile
    except MagpieError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if file.suffix == ".mp":
        from magpie.cli.host import run_text

        return run_text(file, args, max_bytes)
    return execute(file, args)


def execute(file: Path, args: list[str]) -> int:
    """Run ``file`` as ``__main__`` in this process; what it raises is shown on standard error."""
    with argv_of(file, args):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except SystemExit as stop:
            return exit_status(stop)
        except KeyboardInterrupt:
            return 130
        except BaseException as error:
            show_exception(error)
            return 1
        finally:
            sys.stdout.flush()
    return 0


@contextmanager
def argv_of(file: Path, args: list[str]) -> Iterator[None]:
    """``sys.argv`` and ``sys.path[0]`` as ``python FILE ARGS`` sets them."""
    old_argv, old_path = sys.argv, sys.path[:]
    sys.argv = [str(file), *args]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = old_argv, old_path


def exit_status(stop: SystemExit) -> int:
    """What Python would end with: None is 0, a number itself, anything else is printed and is 1."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def wants_color(stream: TextIO) -> bool:
    """True for a terminal, unless NO_COLOR (no-color.org) is set or the terminal is dumb."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def show_diagnostics(items: list[Diagnostic] | tuple[Diagnostic, ...], stream: TextIO | None = None) -> None:
    """Print diagnostics, with an empty line after each."""
    out = stream or sys.stdout
    for item in items:
        print(render(item, color=wants_color(out)), end="\n\n", file=out)


def show_exception(error: BaseException) -> None:
    """Show an exception of a user's program on standard error: diagnostics as such, else the user's own frames."""
    if isinstance(error, CompileError):
        show_diagnostics(error.diagnostics, sys.stderr)
        return
    if not knobs.debug():
        _strip(error)
    traceback.print_exception(error)


def _strip(error: BaseException | None) -> None:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _user_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _user_frames(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_OWN_FILES):
            kept.append(tb)
        tb = tb.tb_next
    chain: TracebackType | None = None
    for frame in reversed(kept):
        chain = TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain
