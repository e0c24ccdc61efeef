"""Gives registers to values: liveness over the code, then a linear scan (Poletto and Sarkar, 1999).

R5 to R7 are never given out. A value whose last use is a `SET` of another one shares its register, and the `SET` goes.
There is nowhere to spill to: a program that needs more registers than there may be is refused by the caller.
"""

from __future__ import annotations

from magpie.backends.tgpu.code import Code, Label, Line, Virtual
from magpie.backends.tgpu.isa import MOST_REGISTERS, RESERVED

__all__ = ["TooManyValues", "allocate"]

_FREE = [r for r in range(MOST_REGISTERS) if r not in RESERVED]
#: Instructions that do nothing but compute: they go where nobody reads what they give.
_PURE = frozenset({"SET", "ADD", "MUL"})


class TooManyValues(Exception):
    """More values are alive at once than there are registers; ``line`` is where."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.line = line


def allocate(code: Code) -> dict[Virtual, int]:
    """The register of each value of ``code``, from which dead and needless instructions are taken. Values that are read
    before they are written are zero: they are set so at the start."""
    while True:
        live = _Liveness(code)
        dead = [line for line in live.lines if line.op in _PURE and line.dest not in live.after[line]]
        if not dead:
            break
        gone = set(dead)
        code.items = [item for item in code.items if item not in gone]
    early = sorted(live.at_entry, key=live.order.__getitem__)
    if early:
        first = next((line.loc for line in live.lines if line.loc is not None), None)
        code.items[:0] = [Line("SET", [value, 0], first) for value in early]
        live = _Liveness(code)
    found = _scan(live)
    code.items = [item for item in code.items if not (isinstance(item, Line) and _needless(item, found))]
    return found


def _needless(line: Line, found: dict[Virtual, int]) -> bool:
    if line.op != "SET" or not isinstance(line.operands[1], Virtual):
        return False
    source = line.operands[1]
    return line.dest is not None and source.fixed is None and found[line.dest] == found[source]


class _Liveness:
    """Which values are needed before and after each instruction."""

    def __init__(self, code: Code) -> None:
        self.lines = [item for item in code.items if isinstance(item, Line)]
        at: dict[Label, int] = {}
        number = 0
        for item in code.items:
            if isinstance(item, Label):
                at[item] = number
            else:
                number += 1
        self.order: dict[Virtual, int] = {}
        for line in self.lines:
            for value in (*line.uses, *([line.dest] if line.dest is not None else ())):
                self.order.setdefault(value, len(self.order))
        n = len(self.lines)
        before: list[frozenset[Virtual]] = [frozenset()] * (n + 1)
        after: list[frozenset[Virtual]] = [frozenset()] * n
        reads = [frozenset(v for v in line.uses if v.fixed is None) for line in self.lines]
        following = [_following(line, i, at) for i, line in enumerate(self.lines)]
        changed = True
        while changed:
            changed = False
            for i in reversed(range(n)):
                out = frozenset().union(*(before[j] for j in following[i]))
                dest = self.lines[i].dest
                into = reads[i] | (out - {dest} if dest is not None else out)
                if into != before[i] or out != after[i]:
                    before[i], after[i], changed = into, out, True
        self.at_entry = before[0]
        self.before = {line: before[i] for i, line in enumerate(self.lines)}
        self.after = {line: after[i] for i, line in enumerate(self.lines)}


def _following(line: Line, i: int, at: dict[Label, int]) -> list[int]:
    target = line.operands[-1] if line.operands else None
    if not isinstance(target, Label):
        return [i + 1]
    return [at[target]] if line.op == "JMP" else [i + 1, at[target]]


def _scan(live: _Liveness) -> dict[Virtual, int]:
    """Registers by the stretch of code from where a value is first to where it is last needed."""
    first: dict[Virtual, int] = {}
    last: dict[Virtual, int] = {}
    for i, line in enumerate(live.lines):
        # Operands are read at an even time and the result is written at the odd one behind it.
        for value in live.before[line]:
            first.setdefault(value, 2 * i)
            last[value] = 2 * i
        written = [line.dest] if line.dest is not None else []
        for value in (*live.after[line], *written):
            first.setdefault(value, 2 * i + 1)
            last[value] = max(last.get(value, 0), 2 * i + 1)
    found: dict[Virtual, int] = {}
    busy: dict[int, Virtual] = {}
    for value in sorted(first, key=lambda v: (first[v], live.order[v])):
        start = first[value]
        for register in [r for r, other in busy.items() if last[other] < start]:
            del busy[register]
        line = live.lines[start // 2]
        wanted = None
        if line.op == "SET" and line.dest is value and isinstance(line.operands[1], Virtual):
            wanted = found.get(line.operands[1])
        register = (
            wanted if wanted is not None and wanted not in busy else next((r for r in _FREE if r not in busy), -1)
        )
        if register < 0:
            raise TooManyValues(line)
        assert register not in RESERVED
        busy[register] = value
        found[value] = register
    return found
