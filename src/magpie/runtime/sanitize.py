"""Launches under the sanitizer: `kernel.sanitize`, `collecting` (for `magpie check --sanitize`) and MAGPIE_SANITIZE.

A sanitized launch is an ordinary launch on the interpreter's device; `run_program`, which that device's driver calls,
asks here what to look for and hands the reports over.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from magpie import knobs
from magpie.errors import LaunchValueError, MagpieError, clean

if TYPE_CHECKING:
    from magpie.backends.interp.engine import Program
    from magpie.backends.interp.reports import Outcome, Report
    from magpie.backends.interp.sanitizer import Checks
    from magpie.runtime.driver import LaunchShape
    from magpie.runtime.kernel import Kernel
    from magpie.runtime.launcher import Launcher

__all__ = ["active", "collecting", "make_checks", "run_program", "sanitize"]


@dataclass(slots=True)
class _Session:
    """Launches that are watched, and what was found. ``silent``: failed asserts are reports, and raise nothing."""

    checks: Checks
    order: int | None = None
    silent: bool = True
    reports: list[Report] = field(default_factory=list)


class _Local(threading.local):
    session: _Session | None = None


_local = _Local()
# `collecting` is for a whole program, with all its threads.
_collecting: list[_Session] = []
_lock = threading.Lock()
_shown: set[Any] = set()


def make_checks(names: Iterable[str] | str = knobs.SANITIZE_DEFAULT, race: str = "default") -> Checks:
    """The checks of these names (or of a comma list). LaunchValueError for a name that there is not."""
    from magpie.backends.interp.sanitizer import Checks

    try:
        return Checks.of(knobs.parse_checks(names) if isinstance(names, str) else names, race)
    except ValueError as error:
        raise LaunchValueError(str(error), help=f"choose from {', '.join(knobs.SANITIZE_CHECKS)}") from None


@contextmanager
def collecting(
    checks: Iterable[str] | str = knobs.SANITIZE_DEFAULT, race: str = "default", order: int | None = None
) -> Iterator[list[Report]]:
    """Inside the block every launch of this process runs under the sanitizer; gives the list that reports are put in.

    One report stands for all of the same kind at the same place. A failed assert is a report and raises nothing.
    """
    session = _Session(make_checks(checks, race), order)
    # The variable is what a launch looks at (and what processes that the program starts inherit).
    before = os.environ.get(knobs.sanitize.name)
    os.environ[knobs.sanitize.name] = ",".join(c for c in knobs.SANITIZE_CHECKS if c in session.checks.names)
    with _lock:
        _collecting.append(session)
    try:
        yield session.reports
    finally:
        with _lock:
            _collecting.remove(session)
        if before is None:
            os.environ.pop(knobs.sanitize.name, None)
        else:
            os.environ[knobs.sanitize.name] = before


def sanitize(
    kernel: Kernel,
    *,
    grid: Any,
    block: Any = None,
    args: Iterable[Any] = (),
    kwargs: dict[str, Any] | None = None,
    checks: Iterable[str] | str = knobs.SANITIZE_DEFAULT,
    race: str = "default",
    order: int | None = None,
    subgroup_size: int | None = None,
) -> list[Report]:
    """Run one launch on the interpreter under the sanitizer; the arrays get their results as from any launch.

    checks: any of race, bounds, uninit, barrier, divide, overflow.  race="strict" also reports concurrent stores of one
    value.  order=seed permutes the order of work-items at stores and atomics, and of workgroups.  subgroup_size is as
    for `kernel.launch`.
    """
    session = _Session(make_checks(checks, race), order)
    try:
        found = _on_interp(kernel, grid, block, subgroup_size, session, tuple(args), kwargs or {})
    except MagpieError as error:
        raise clean(error) from None
    return found


def _on_interp(
    kernel: Kernel,
    grid: Any,
    block: Any,
    subgroup_size: int | None,
    session: _Session,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Report]:
    from magpie.runtime.arguments import bind, signature
    launcher = kernel._make(grid, block, (None, None, None, None, None, "interp", subgroup_size))
    parameters = kernel.parameters
    found = signature(parameters, bind(kernel.__name__, parameters, args, kwargs))
    if 0 in launcher.grid:
        return session.reports
    run = launcher.plan(found)
    before, _local.session = _local.session, session
    try:
        run(*found.values)
    finally:
        _local.session = before
    return session.reports


def active(launcher: Launcher, values: tuple[Any, ...]) -> None:
    """A launch while MAGPIE_SANITIZE is set or `collecting` is on: on the interpreter, whatever device was named."""
    with _lock:
        session = _collecting[-1] if _collecting else None
    if session is not None:
        session = replace(session, reports=[])
    else:
        session = _Session(make_checks(knobs.sanitize()), silent=False)
    size = launcher.options.subgroup_size
    found = _on_interp(launcher.kernel, launcher.grid, launcher.block, size, session, values, {})
    with _lock:
        if _collecting:
            _merge(_collecting[-1].reports, found)
            return
        fresh = [r for r in found if _key(r) not in _shown]
        _shown.update(_key(r) for r in fresh)
    for report in fresh:
        print(report, end="\n\n", file=sys.stderr, flush=True)


def _key(report: Report) -> tuple[Any, ...]:
    return report.code, report.loc, report.other_loc


def _merge(known: list[Report], found: Iterable[Report]) -> None:
    by_key = {_key(r): r for r in known}
    for report in found:
        same = by_key.get(_key(report))
        if same is None:
            known.append(report)
        else:
            same.count += report.count


def run_program(program: Program, shape: LaunchShape, arguments: list[Any], checked: bool, subgroup_size: int) -> None:
    """What the interpreter's driver does for a launch. Raises GpuError for what ends a launch."""
    session = _local.session
    if session is not None:
        checks: Checks | None = session.checks
    else:
        checks = make_checks(("bounds", "divide", "barrier")) if checked else None
    outcome: Outcome = program.run(
        shape.grid,
        shape.block,
        arguments,
        sanitize=checks,
        order=session.order if session else None,
        subgroup_size=subgroup_size,
    )
    if outcome.prints:
        print("\n".join(outcome.prints), file=sys.stdout, flush=True)
    if session is not None:
        session.reports += outcome.reports
        if session.silent:
            return
    error = outcome.error(checked and session is None)
    if error is not None:
        raise error
