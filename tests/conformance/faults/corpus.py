"""How the corpus declares its kernels.

A fault carries ``# FAULT: <code>`` on each line at which a report must point; a look-alike carries none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DEFAULT = ("race", "bounds", "uninit", "barrier", "divide")
MARK = re.compile(r"#\s*FAULT:\s*(MPG_[A-Z]+_[0-9]{4})")


@dataclass(frozen=True)
class Entry:
    """A kernel of the corpus and the launch that shows its fault; ``args`` makes the arguments anew."""

    kernel: Any
    faulty: bool
    grid: Any
    block: Any
    args: Callable[[], tuple[Any, ...]]
    checks: tuple[str, ...] = DEFAULT
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kernel.__name__


ENTRIES: list[Entry] = []


def _entry(faulty: bool) -> Callable[..., Callable[[Any], Any]]:
    def declare(
        args: Callable[[], tuple[Any, ...]],
        grid: Any = 1,
        block: Any = 64,
        checks: tuple[str, ...] = DEFAULT,
        **options: Any,
    ) -> Callable[[Any], Any]:
        def add(kernel: Any) -> Any:
            ENTRIES.append(Entry(kernel, faulty, grid, block, args, checks, options))
            return kernel

        return add

    return declare


fault = _entry(True)
lookalike = _entry(False)
