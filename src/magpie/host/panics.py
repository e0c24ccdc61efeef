"""How a host program ends that cannot go on: what is wrong, where, with which values, and who called it."""

from __future__ import annotations

from magpie.diagnostics.loc import Loc
from magpie.errors import MagpieError

__all__ = ["INTERRUPTED", "PANICKED", "PIPE_CLOSED", "Panic"]

#: Exit statuses: of a panic, of Ctrl-C and of a reader that went away (128 and the signal's number, as shells say).
PANICKED, INTERRUPTED, PIPE_CLOSED = 101, 130, 141

_MOST_FRAMES = 20


class Panic(MagpieError):
    """A fault of the program. An operation raises it with ``text``, what is wrong; the machine adds the rest: ``line``,
    the instruction as text, ``values``, its operands by name, and ``trace``, the functions that run with the place that
    each has come to, innermost first."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.line = ""
        self.values: list[tuple[str, str]] = []
        self.trace: list[tuple[str, Loc | None]] = []

    def __str__(self) -> str:
        place = next((loc for _, loc in self.trace if loc is not None), None)
        where = f"{place.file}:{place.line}: " if place is not None else ""
        lines = [f"{where}panic: {self.text}"]
        if self.line:
            lines.append(f"    {self.line}")
        lines += [f"    %{name} = {value}" for name, value in self.values]
        shown = self.trace
        if len(shown) > _MOST_FRAMES:
            shown = shown[: _MOST_FRAMES // 2]
        lines += map(_frame, shown)
        if len(shown) < len(self.trace):
            rest = self.trace[-_MOST_FRAMES // 2 :]
            lines.append(f"  ... {len(self.trace) - len(shown) - len(rest)} more ...")
            lines += map(_frame, rest)
        return "\n".join(lines)


def _frame(frame: tuple[str, Loc | None]) -> str:
    name, loc = frame
    return f"  in @{name}" + (f", {loc.file}:{loc.line}" if loc is not None else "")
