"""Code before registers are given out: instructions over any number of values, and labels between them."""

from __future__ import annotations

from dataclasses import dataclass

from magpie.backends.tgpu.hostexpr import Known
from magpie.backends.tgpu.isa import BLOCK, OPCODES, THREAD, THREAD_IN_BLOCK
from magpie.diagnostics.loc import Loc

__all__ = ["BLOCK_ID", "LOCAL_ID", "THREAD_ID", "Code", "Label", "Line", "Operand", "Virtual"]


@dataclass(slots=True, eq=False)
class Virtual:
    """A value that will have a register; ``fixed`` is the number of one that the machine sets and nothing writes."""

    fixed: int | None = None


BLOCK_ID, LOCAL_ID, THREAD_ID = Virtual(BLOCK), Virtual(THREAD_IN_BLOCK), Virtual(THREAD)


@dataclass(slots=True, eq=False)
class Label:
    """A place that branches lead to."""


Operand = Virtual | Known | Label


@dataclass(slots=True, eq=False)
class Line:
    """One instruction, and the source that it comes from."""

    op: str
    operands: list[Operand]
    loc: Loc | None = None

    @property
    def dest(self) -> Virtual | None:
        """The value that it writes."""
        first = self.operands[0] if OPCODES[self.op].dest else None
        return first if isinstance(first, Virtual) else None

    @property
    def uses(self) -> list[Virtual]:
        """The values that it reads."""
        read = self.operands[1:] if OPCODES[self.op].dest else self.operands
        return [o for o in read if isinstance(o, Virtual)]


class Code:
    """Instructions and labels in order."""

    def __init__(self) -> None:
        self.items: list[Line | Label] = []
        self.loc: Loc | None = None

    def emit(self, op: str, *operands: Operand) -> None:
        """Append an instruction; registers that the machine sets are never written."""
        line = Line(op, list(operands), self.loc)
        assert line.dest is None or line.dest.fixed is None, f"{op} writes a reserved register"
        self.items.append(line)

    def place(self, label: Label) -> None:
        """Put a label here."""
        self.items.append(label)

    def last(self) -> Line | None:
        """The instruction at the end, where no label stands behind it."""
        return self.items[-1] if self.items and isinstance(self.items[-1], Line) else None
