"""Fewer taken branches, each of which costs a cycle. None is made to lead to itself: tiny-gpu would not take it."""

from __future__ import annotations

from magpie.backends.tgpu.code import Code, Label, Line
from magpie.backends.tgpu.isa import OPCODES

__all__ = ["straighten"]

_OPPOSITE = {"BEQ": "BNE", "BNE": "BEQ"}


def straighten(code: Code) -> None:
    """Let branches lead to where jumps lead, turn branches over a jump, and drop what is never reached or needless."""
    while _threaded(code) | _turned(code) | _unreached(code) | _needless(code):
        pass
    first = _first_lines(code)
    for item in [item for item in code.items if isinstance(item, Line) and item.op == "JMP"]:
        label = _target(item)
        if label is not None and first.get(label) is item:  # an endless loop of which nothing is left
            code.items.insert(code.items.index(item), Line("CMP", [0, 0], item.loc))


def _target(item: Line | Label) -> Label | None:
    """The label that a branch leads to."""
    if isinstance(item, Line) and OPCODES[item.op].kind == "branch":
        label = item.operands[-1]
        assert isinstance(label, Label)
        return label
    return None


def _first_lines(code: Code) -> dict[Label, Line]:
    """The instruction that each label stands before; none at the end."""
    found: dict[Label, Line] = {}
    line: Line | None = None
    for item in reversed(code.items):
        if isinstance(item, Line):
            line = item
        elif line is not None:
            found[item] = line
    return found


def _threaded(code: Code) -> bool:
    """A branch to a jump leads to where the jump leads."""
    first, changed = _first_lines(code), False
    for item in code.items:
        label = _target(item)
        if label is None:
            continue
        seen: set[Label] = set()
        to = label
        while to in first and first[to].op == "JMP" and to not in seen:
            seen.add(to)
            further = _target(first[to])
            assert further is not None
            to = further
        if to is not label and to not in seen and first.get(to) is not item:
            assert isinstance(item, Line)
            item.operands[-1] = to
            changed = True
    return changed


def _turned(code: Code) -> bool:
    """``BEQ a, b, L / JMP M / L:`` is ``BNE a, b, M``."""
    first = _first_lines(code)
    for i, item in enumerate(code.items[:-2]):
        jump = code.items[i + 1]
        if not (isinstance(item, Line) and item.op in _OPPOSITE and isinstance(jump, Line) and jump.op == "JMP"):
            continue
        to = _target(jump)
        assert to is not None
        if _target(item) in _labels_behind(code, i + 1) and first.get(to) is not item:
            item.op = _OPPOSITE[item.op]
            item.operands[-1] = to
            del code.items[i + 1]
            return True
    return False


def _labels_behind(code: Code, at: int) -> list[Label]:
    """The labels that stand directly behind an item."""
    found: list[Label] = []
    for item in code.items[at + 1 :]:
        if not isinstance(item, Label):
            break
        found.append(item)
    return found


def _unreached(code: Code) -> bool:
    """What stands behind a jump, up to a label that a branch leads to, and labels that none leads to, go."""
    used = {label for item in code.items if (label := _target(item)) is not None}
    kept: list[Line | Label] = []
    reached = True
    for item in code.items:
        if isinstance(item, Label):
            if item not in used:
                continue
            reached = True
        if reached:
            kept.append(item)
        if isinstance(item, Line) and item.op == "JMP":
            reached = False
    changed = len(kept) != len(code.items)
    code.items = kept
    return changed


def _needless(code: Code) -> bool:
    """A branch to what comes next anyway goes."""
    for i, item in enumerate(code.items):
        label = _target(item)
        if label is not None and label in _labels_behind(code, i):
            del code.items[i]
            return True
    return False
