"""The instructions of tiny-gpu, in one table, and the form in which programs are held.

A processor of 32-bit integers: registers and a word-addressed memory. There is no subtraction, division, shift or
maximum, and no address but a register or a number. Registers R5 to R7 say which thread this is and are only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from magpie.records import record

__all__ = [
    "BLOCK",
    "DEFAULT_REGISTERS",
    "LEAST_REGISTERS",
    "MOST_REGISTERS",
    "OPCODES",
    "RESERVED",
    "THREAD",
    "THREAD_IN_BLOCK",
    "Instruction",
    "Opcode",
    "Operand",
    "Program",
    "Reg",
    "Symbol",
    "wrap",
]

BLOCK, THREAD_IN_BLOCK, THREAD = 5, 6, 7
#: Registers that the machine sets before a launch: block, thread in the block, thread of the launch.
RESERVED = frozenset({BLOCK, THREAD_IN_BLOCK, THREAD})
LEAST_REGISTERS, DEFAULT_REGISTERS, MOST_REGISTERS = 8, 16, 256


def wrap(value: int) -> int:
    """``value`` modulo 2**32, as a signed number: what a register holds of it."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@record
class Opcode:
    """One row. ``operands`` has a class for each: ``dest`` (a register that is written), ``value`` (register or
    number) or ``target`` (a label). ``kind``: ``plain``, ``branch`` or ``barrier``."""

    name: str
    operands: tuple[str, ...]
    kind: str
    doc: str

    @property
    def dest(self) -> bool:
        """Whether the first operand is a register that is written."""
        return self.operands[:1] == ("dest",)


OPCODES: dict[str, Opcode] = {}


def _op(name: str, operands: str, doc: str, kind: str = "plain") -> None:
    OPCODES[name] = Opcode(name, tuple(operands.split()), kind, doc)


_op("SET", "dest value", "Rd = a")
_op("ADD", "dest value value", "Rd = a + b, modulo 2**32")
_op("MUL", "dest value value", "Rd = a * b, modulo 2**32")
_op("LD", "dest value", "Rd = memory[a]")
_op("ST", "value value", "memory[a] = b")
_op("CMP", "value value", "compare: Z where a = b, N where a < b, G where a > b")
_op("JMP", "target", "go to the label", "branch")
_op("BEQ", "value value target", "go to the label where a = b", "branch")
_op("BNE", "value value target", "go to the label where a != b", "branch")
_op("BRZ", "target", "go to the label where Z is set", "branch")
_op("BRLT", "target", "go to the label where N is set", "branch")
_op("BRGT", "target", "go to the label where G is set", "branch")
_op("SYNC", "", "wait for all threads of the launch", "barrier")
_op("SYNCB", "", "wait for all threads of the block", "barrier")
_op("SHLD", "dest value", "Rd = shared[a] of the block")
_op("SHST", "value value", "shared[a] of the block = b")
_op("CSWAP", "value value", "exchange memory[a] and memory[b] where the first is greater")


@record
class Reg:
    """A register."""

    number: int

    def __str__(self) -> str:
        return f"R{self.number}"


@record
class Symbol:
    """A number that a launch decides: ``${text}``. Programs that run have none."""

    text: str

    def __str__(self) -> str:
        return f"${{{self.text}}}"


#: A register, a number, a number that is not known yet, or the name of a label.
Operand = Reg | int | Symbol | str


@record
class Instruction:
    """One instruction: mnemonic, operands in the order of the table, the comment behind it, and its line in the text
    (0 where it comes from none)."""

    op: str
    operands: tuple[Operand, ...] = ()
    comment: str = ""
    line: int = 0

    @property
    def row(self) -> Opcode:
        """Its row in the table."""
        return OPCODES[self.op]

    def __str__(self) -> str:
        return f"{self.op} {', '.join(map(str, self.operands))}".rstrip()


@record
class Program:
    """Instructions, and the address of each label; an address one past the last instruction is the end."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int] = MappingProxyType({})

    def __len__(self) -> int:
        return len(self.instructions)

    def target(self, instruction: Instruction) -> int:
        """The address that a branch leads to."""
        label = instruction.operands[-1]
        assert isinstance(label, str)
        return self.labels[label]

    @property
    def registers(self) -> int:
        """One more than the number of the highest register that it names, and no less than `LEAST_REGISTERS`."""
        named = (o.number for i in self.instructions for o in i.operands if isinstance(o, Reg))
        return max(LEAST_REGISTERS, 1 + max(named, default=0))
