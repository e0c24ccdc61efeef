"""The table of all that host programs call besides their own functions: operations, and functions of modules.

A row is ``name<T: class>(operand: type, ...) -> type ; what it does``, and goes on in lines that are indented.

- ``a/lhs``: the operand is called ``a``, and may be written ``lhs``. ``hint?``: it may be left out. ``v...``: any
  number, called v0, v1, ... in order; ``...``: names that depend on what the operation names.
- A class says which types a parameter stands for: ``int``, ``real`` (f32, f64), ``num``, ``scalar`` (num and bool),
  ``text`` (scalar and Str), ``equal`` (text and enums without fields), ``ordered`` (num and Str), ``element`` (of a
  buffer: scalar and value structs of scalars), ``key`` (of a map), ``enum``. As the type of an operand, a class takes
  any of its types.
- ``fn(T) -> U`` is a callable with this signature, with any parameters more behind ``...``; ``maybe T`` is T or
  TResult<T, gpu.TError>.
- Words that are no types (``kernel``, ``sizes``, ``list``, ``word``, ``cpu``, ``variant``, ``field``, ...) are for
  rules of their own, in `magpie.mpir.verify_host`.

An operand of an enum type takes a value or the name of a variant without fields.
"""

from __future__ import annotations

import re
from functools import cache

from magpie.mpir.signatures import base, gpu, mlx, std
from magpie.mpir.types import Ty
from magpie.records import record

__all__ = ["CLASSES", "MODULES", "NAMES", "Parameter", "Signature", "functions_of", "signature"]

#: The classes of types; `magpie.mpir.unify` says which types belong to each.
CLASSES = frozenset(("int", "real", "num", "scalar", "text", "equal", "ordered", "element", "key", "enum", "any"))

_WORD = re.compile(r"\s*(->|\.\.\.|[A-Za-z_]\w*(?:\.@?\w+)*|[<>(),:/?])")
_MODES = ("borrow", "mutborrow", "shared", "weak")


@record
class Parameter:
    """An operand: its ``name``, the other one that it may be written with, its type, whether it may be left out."""

    name: str
    type: Ty
    other: str = ""
    optional: bool = False


@record
class Signature:
    """``params`` are the type parameters with their classes; ``rest`` is what v0, v1, ... are called and take, with an
    empty name where names depend on what the operation names. ``text`` and ``doc`` are the row."""

    name: str
    params: tuple[tuple[str, str], ...]
    operands: tuple[Parameter, ...]
    result: Ty
    text: str
    doc: str
    rest: Parameter | None = None

    @property
    def variant(self) -> bool:
        """Whether what stands in <> is the name of a variant, which cannot be left out."""
        return self.params[:1] == (("variant", "any"),)

    @property
    def changes(self) -> bool:
        """Whether it does something beside giving its result, which may be dropped then."""
        return "@" in self.name or any(p.type.mode == "mutborrow" for p in self.operands)


def _rows() -> dict[str, str]:
    """The rows by name, unread."""
    found: dict[str, str] = {}
    for text in (base.ROWS, std.ROWS, gpu.ROWS, mlx.ROWS):
        for row in re.sub(r"\n[ \t]+", " ", text).splitlines():
            if row:
                name = re.split("[<(]", row, maxsplit=1)[0]
                assert name not in found, name
                found[name] = row
    return found


_ROWS = _rows()
#: All names, in the order of the table.
NAMES = tuple(_ROWS)
#: The modules that functions come from.
MODULES = tuple(dict.fromkeys(name.partition(".@")[0] for name in NAMES if "@" in name))


def functions_of(module: str) -> list[str]:
    """The functions of a module, without its name: ``println``; none where there is no such module."""
    return [name.removeprefix(f"{module}.@") for name in NAMES if name.startswith(f"{module}.@")]


@cache
def signature(name: str) -> Signature | None:
    """The signature of an operation or function by its full name; None where there is none."""
    row = _ROWS.get(name)
    if row is None:
        return None
    text, _, doc = row.partition(";")
    return _Row(" ".join(text.split()), doc.strip()).read()


class _Row:
    """Reads one row."""

    def __init__(self, text: str, doc: str) -> None:
        self.text = text
        self.doc = doc
        self.words: list[str] = _WORD.findall(text)
        self.at = 0
        assert "".join(self.words) == text.replace(" ", ""), text

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def accept(self, word: str) -> bool:
        found = self.at < len(self.words) and self.words[self.at] == word
        self.at += found
        return found

    def expect(self, word: str) -> None:
        assert self.accept(word), (self.text, word, self.words[self.at :])

    def read(self) -> Signature:
        name = self.take()
        params: list[tuple[str, str]] = []
        if self.accept("<"):
            while not self.accept(">"):
                param = self.take()
                params.append((param, self.take() if self.accept(":") else "any"))
                self.accept(",")
        operands: list[Parameter] = []
        rest: Parameter | None = None
        self.expect("(")
        while not self.accept(")"):
            if self.accept("..."):
                self.expect(":")
                rest = Parameter("", self.type())
            else:
                operand = self.take()
                other = self.take() if self.accept("/") else ""
                optional, many = self.accept("?"), self.accept("...")
                self.expect(":")
                made = Parameter(operand, self.type(), other, optional)
                if many:
                    rest = made
                else:
                    operands.append(made)
            self.accept(",")
        self.expect("->")
        result = self.type()
        assert self.at == len(self.words), self.text
        return Signature(name, tuple(params), tuple(operands), result, self.text, self.doc, rest)

    def type(self) -> Ty:
        word = self.take()
        if word in _MODES:
            inner = self.type()
            return Ty(inner.name, inner.args, word)
        if word == "maybe":
            return Ty("maybe", (self.type(),))
        args: list[Ty] = []
        if word == "fn":
            self.expect("(")
            while not self.accept(")"):
                args.append(Ty("...") if self.accept("...") else self.type())
                self.accept(",")
            self.expect("->")
            return Ty("fn", (*args, self.type()))
        if self.accept("<"):
            while not self.accept(">"):
                args.append(self.type())
                self.accept(",")
        return Ty(word, tuple(args))
