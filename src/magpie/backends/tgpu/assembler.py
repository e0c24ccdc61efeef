"""tiny-gpu assembly as text: from it to a program, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from magpie.backends.tgpu.isa import DEFAULT_REGISTERS, OPCODES, Instruction, Operand, Program, Reg, Symbol
from magpie.diagnostics import CompileError, Diagnostic, Loc

__all__ = ["MOST_ERRORS", "assemble", "print_program"]

#: Errors of one text that are reported.
MOST_ERRORS = 20

_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+) | (?P<symbol>\$\{[^}]*\}) | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.]))
      | (?P<word>[A-Za-z_.][\w.]*) | (?P<comma>,) | (?P<colon>:)""",
    re.VERBOSE | re.ASCII,
)
_REGISTER = re.compile(r"[Rr][0-9]+")


class _Refused(Exception):
    """A line that is not right; the diagnostic says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


class _Token:
    """A piece of a line: what it is, its text, and the column it begins at (from 0)."""

    __slots__ = ("col", "kind", "text")

    def __init__(self, kind: str, text: str, col: int) -> None:
        self.kind = kind
        self.text = text
        self.col = col


def assemble(
    text: str,
    *,
    num_registers: int = DEFAULT_REGISTERS,
    symbols: Mapping[str, int] = _NO_SYMBOLS,
    file: str = "<assembly>",
) -> Program:
    """The program of ``text``. ``symbols`` are the numbers that ``${name}`` operands stand for; others stay symbols.

    Raises CompileError with up to 20 diagnostics, MPG_TGPU_1001 to 1004, each with line and column in ``file``.
    """
    reader = _Reader(num_registers, symbols, file)
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.line(number, line)
        except _Refused as refused:
            reader.errors.append(refused.diagnostic)
    reader.check_labels()
    if reader.errors:
        ordered = sorted(reader.errors, key=lambda d: (d.loc.line, d.loc.col) if d.loc else (0, 0))
        raise CompileError(ordered[:MOST_ERRORS])
    return Program(tuple(reader.instructions), MappingProxyType(reader.labels))


class _Reader:
    """What was read so far."""

    def __init__(self, num_registers: int, symbols: Mapping[str, int], file: str) -> None:
        self.num_registers = num_registers
        self.symbols = symbols
        self.file = file
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.places: dict[str, Loc] = {}
        self.uses: list[tuple[str, Loc]] = []
        self.errors: list[Diagnostic] = []
        self.number = 0

    def loc(self, token: _Token) -> Loc:
        end = token.col + max(1, len(token.text))
        return Loc(self.file, self.number, token.col, self.number, end)

    def refuse(self, code: str, message: str, token: _Token, help: str | None = None) -> _Refused:
        return _Refused(Diagnostic(code, message, self.loc(token), help=help))

    def line(self, number: int, line: str) -> None:
        """Read one line."""
        self.number = number
        code, _, comment = line.partition(";")
        tokens = list(self._tokens(code))
        while len(tokens) >= 2 and tokens[0].kind == "word" and tokens[1].kind == "colon":
            self._label(tokens[0])
            del tokens[:2]
        if not tokens:
            return
        head = tokens[0]
        row = OPCODES.get(head.text.upper()) if head.kind == "word" else None
        if row is None:
            what = "an instruction" if head.kind == "word" else "an instruction or a label"
            known = ", ".join(OPCODES)
            raise self.refuse("MPG_TGPU_1001", f"{head.text!r} is not {what}", head, f"tiny-gpu has {known}")
        operands = self._operands(tokens[1:], row.operands, head)
        self.instructions.append(Instruction(row.name, tuple(operands), comment.strip(), number))

    def _tokens(self, code: str) -> Iterator[_Token]:
        at = 0
        while at < len(code):
            match = _TOKEN.match(code, at)
            if match is None:
                raise self.refuse("MPG_TGPU_1001", f"{code[at]!r} does not belong here", _Token("", code[at], at))
            kind = match.lastgroup or ""
            if kind != "space":
                yield _Token(kind, match[0], at)
            at = match.end()

    def _label(self, token: _Token) -> None:
        name = token.text
        if name[0] in "Rr":
            raise self.refuse(
                "MPG_TGPU_1002",
                f"tiny-gpu's assembler takes the label {name!r} for a register",
                token,
                "let it begin with another letter",
            )
        if name in self.labels:
            first = ("it was defined here first", self.places[name])
            at = self.loc(token)
            self.errors.append(Diagnostic("MPG_TGPU_1003", f"label {name!r} is defined twice", at, (first,)))
            return
        self.labels[name] = len(self.instructions)
        self.places[name] = self.loc(token)

    def _operands(self, tokens: list[_Token], classes: tuple[str, ...], head: _Token) -> list[Operand]:
        found: list[_Token] = []
        last = head
        for position, token in enumerate(tokens):
            if (token.kind == "comma") != bool(position % 2) or token.kind == "colon":
                wanted = "a comma" if position % 2 else "an operand"
                raise self.refuse("MPG_TGPU_1001", f"{token.text!r} stands where {wanted} should", token)
            if token.kind != "comma":
                found.append(token)
            last = token
        if last.kind == "comma":
            raise self.refuse("MPG_TGPU_1001", "an operand is missing behind the comma", last)
        if len(found) != len(classes):
            count = f"{len(classes)} operand{'' if len(classes) == 1 else 's'}"
            shown = f"{head.text.upper()} {', '.join(_SHOWN[c] for c in classes)}".rstrip()
            at = found[len(classes)] if len(found) > len(classes) else head
            raise self.refuse("MPG_TGPU_1001", f"{head.text.upper()} has {count}; {len(found)} are given", at, shown)
        return [self._operand(token, class_) for token, class_ in zip(found, classes, strict=True)]

    def _operand(self, token: _Token, class_: str) -> Operand:
        text = token.text
        if class_ == "target":
            if token.kind != "word":
                raise self.refuse("MPG_TGPU_1001", f"a branch leads to a label; {text!r} is none", token)
            if text[0] in "Rr":
                raise self.refuse("MPG_TGPU_1002", f"tiny-gpu's assembler takes {text!r} for a register", token)
            self.uses.append((text, self.loc(token)))
            return text
        if token.kind == "word":
            if not _REGISTER.fullmatch(text):
                raise self.refuse("MPG_TGPU_1001", f"{text!r} is neither a register nor a number", token)
            number = int(text[1:]) if len(text) < 8 else self.num_registers
            if number >= self.num_registers:
                there = f"the launch has the registers R0 to R{self.num_registers - 1}"
                raise self.refuse("MPG_TGPU_1004", f"there is no register {text}", token, there)
            return Reg(number)
        if class_ == "dest":
            raise self.refuse("MPG_TGPU_1001", f"the result goes to a register; {text!r} is none", token)
        if token.kind == "symbol":
            name = text[2:-1]
            value = self.symbols.get(name)
            return Symbol(name) if value is None else self._number(value, token)
        return self._number(int(text, 0 if "x" in text.lower() else 10) if len(text) < 40 else 1 << 40, token)

    def _number(self, value: int, token: _Token) -> int:
        if not -(1 << 31) <= value < 1 << 31:
            raise self.refuse(
                "MPG_TGPU_1004", f"{token.text} has more than 32 bits", token, "-2147483648 to 2147483647"
            )
        return value

    def check_labels(self) -> None:
        """Report branches to labels that there are not."""
        for name, loc in self.uses:
            if name not in self.labels:
                near = next((known for known in self.labels if known.lower() == name.lower()), None)
                help = f"there is {near!r}" if near else None
                self.errors.append(Diagnostic("MPG_TGPU_1003", f"there is no label {name!r}", loc, help=help))


_SHOWN = {"dest": "Rd", "value": "a", "target": "label"}


def print_program(program: Program) -> str:
    """The text of a program, which `assemble` reads back; comments stand in one column."""
    at: dict[int, list[str]] = {}
    for name, address in program.labels.items():
        at.setdefault(address, []).append(name)
    bodies = [str(i) for i in program.instructions]
    width = max((len(b) for b, i in zip(bodies, program.instructions, strict=True) if i.comment), default=0)
    lines: list[str] = []
    for address, (body, instruction) in enumerate(zip(bodies, program.instructions, strict=True)):
        lines += _labels(at.get(address, ()))
        lines.append(f"    {body.ljust(width)} ; {instruction.comment}" if instruction.comment else f"    {body}")
    lines += _labels(at.get(len(program), ()))
    return "\n".join(lines) + "\n"


def _labels(names: Iterable[str]) -> list[str]:
    return [f"{name}:" for name in names]
