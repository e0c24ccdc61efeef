"""What a file in tests/unit/mp/codes says of itself: the options that it is checked with, and what is found in it.

`; error CODE` or `; warning CODE` behind the words of a line is expected in that line; on a line of its own, in the
next line that has words. `twice` behind the code: two of them. `in no line`: the diagnostic has no place. A line `; check
OPTIONS` has options of `magpie check`. The name of a file is its code, with a word of what it shows behind a `-`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

CODES = Path(__file__).parent / "mp" / "codes"
FILES = sorted(CODES.glob("*.mp"))

_EXPECTED = re.compile(r"; (error|warning) (\w+)( twice| in no line)?\s*$")


def code_of(path: Path) -> str:
    return path.stem.partition("-")[0]


def expected(text: str) -> Counter[tuple[str, str, int]]:
    """How often a diagnostic stands in a line, as (severity, code, line); 0 is no line."""
    found: Counter[tuple[str, str, int]] = Counter()
    waiting: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _EXPECTED.search(line)
        words = line.partition(";")[0].strip()
        if match and match[3] == " in no line":
            found[match[1], match[2], 0] += 1
        elif match and not words:
            waiting.append((match[1], match[2]))
        elif match:
            found[match[1], match[2], number] += 2 if match[3] else 1
        if words:
            found.update((severity, code, number) for severity, code in waiting)
            waiting = []
    assert not waiting
    return found


def options(text: str) -> list[str]:
    """The options of `magpie check` that a file is checked with."""
    return [word for line in re.findall(r"^; check (.*)$", text, re.MULTILINE) for word in line.split()]
