"""What a run finds: reports with places, work-items and addresses, one for each kind of fault and pair of lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from magpie.diagnostics import Diagnostic, Loc
from magpie.errors import GpuError, GpuErrorKind

__all__ = ["Collector", "Dims", "Outcome", "Report", "WorkItem", "show_item"]

Dims = tuple[int, int, int]
#: (workgroup id, thread id), x first.
WorkItem = tuple[Dims, Dims]

#: Kinds that end a plain launch with an error; the others do so in checked mode only.
_FATAL = frozenset({"trap", "livelock", "barrier"})


def show_item(item: WorkItem) -> str:
    """``thread (3, 0, 0) of workgroup (1, 0, 0)``."""
    return f"thread {item[1]} of workgroup {item[0]}"


@dataclass(slots=True)
class Report:
    """One finding, seen ``count`` times; places and work-items are those of the first time.

    kind: race, bounds, uninit, leak, barrier, divide, overflow, shuffle, uniform, livelock, assert or trap.
    work_items: one, or two for a race and a divergent barrier.  address: (array name, index tuple) or None.
    """

    kind: str
    code: str
    message: str
    loc: Loc | None
    other_loc: Loc | None = None
    other_text: str = ""
    work_items: tuple[WorkItem, ...] = ()
    address: tuple[str, tuple[int, ...]] | None = None
    help: str | None = None
    count: int = 1

    @property
    def file(self) -> str:
        """The file of `line`, "" where the kernel has no source."""
        return self.loc.file if self.loc else ""

    @property
    def line(self) -> int:
        """1-based line, 0 where the kernel has no source."""
        return self.loc.line if self.loc else 0

    @property
    def other_line(self) -> int | None:
        """The other access of a race, the branch of a divergent barrier."""
        return self.other_loc.line if self.other_loc else None

    def diagnostic(self) -> Diagnostic:
        """As a diagnostic, with both places."""
        notes: list[tuple[str, Loc | None]] = []
        if self.other_loc is not None:
            notes.append((self.other_text or "the other place", self.other_loc))
            call = self.other_loc.inlined_at
            while call is not None:
                notes.append(("called from here", call))
                call = call.inlined_at
        if self.count > 1:
            notes.append((f"{self.count:,} times in this launch", None))
        return Diagnostic(self.code, self.message, self.loc, tuple(notes), self.help)

    def __str__(self) -> str:
        return str(self.diagnostic())


def _place(loc: Loc | None) -> tuple[str, int]:
    return (loc.file, loc.line) if loc else ("", 0)


class Collector:
    """Gathers reports of one launch and counts repetitions."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Report] = {}

    def seen(self, code: str, loc: Loc | None, other: Loc | None = None, count: int = 1) -> bool:
        """Count one more of a known report; False when it is new. The order of the two places does not matter."""
        for key in ((code, _place(loc), _place(other)), (code, _place(other), _place(loc))):
            report = self._found.get(key)
            if report is not None:
                report.count += count
                return True
        return False

    def add(self, report: Report) -> None:
        """Keep a report that `seen` did not know."""
        self._found[(report.code, _place(report.loc), _place(report.other_loc))] = report

    @property
    def reports(self) -> list[Report]:
        """In the order in which they were first seen."""
        return list(self._found.values())


@dataclass(slots=True)
class Outcome:
    """What a launch gave besides its writes: reports, and the lines that `print` made."""

    reports: list[Report] = field(default_factory=list)
    prints: list[str] = field(default_factory=list)

    def error(self, checked: bool = False) -> GpuError | None:
        """The error that this launch should end with, or None.

        Traps, divergent barriers and loops without progress are errors always, and with ``checked`` every report.
        """
        for report in self.reports:
            if checked or report.kind in _FATAL:
                kind = GpuErrorKind.TimeoutExpired if report.kind == "livelock" else GpuErrorKind.LaunchFailed
                return GpuError(kind, "interp", f"{report}", diagnostic=report.code, help=report.help)
        return None
