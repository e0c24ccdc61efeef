"""Reads the text form of MPIR. It checks the syntax: `magpie.mpir.verify` says whether a module means something."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from magpie.diagnostics import CompileError, Diagnostic
from magpie.diagnostics.loc import Loc
from magpie.mpir.nodes import (
    Block,
    Br,
    Cbr,
    Const,
    Enum,
    Err,
    FnRef,
    Function,
    Global,
    GpuMeta,
    Impl,
    Instr,
    Module,
    Operand,
    Phi,
    Ret,
    Sig,
    Struct,
    Switch,
    Term,
    Unreachable,
    Var,
    Word,
)
from magpie.mpir.ops import OPS
from magpie.mpir.types import Ty
from magpie.records import record

__all__ = ["parse_module"]

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|;[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<place>![0-9]{1,9}:[0-9]{1,9})
    |(?P<number>-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf\b|nan\b))
    |(?P<value>%\w+(?:\.err\b)?)
    |(?P<function>@[\w.]+)
    |(?P<name>[A-Za-z_]\w*(?:\.@?\w+)*)
    |(?P<mark>->|[{}()\[\]<>,:=])""",
    re.VERBOSE | re.ASCII,
)
_MODES = ("borrow", "mutborrow", "shared", "weak")
_DECLARATIONS = ("heap", "struct", "enum", "sig", "global", "impl")
_DEEPEST = 64  # of types in types and lists in lists
_T = TypeVar("_T")


@record
class Token:
    kind: str
    text: str
    line: int
    col: int


def _tokens(text: str, file: str) -> list[Token]:
    found: list[Token] = []
    at, line, start = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            loc = Loc(file, line, at - start)
            raise CompileError(Diagnostic("MPS0009", f"{text[at]!r} begins no word of MPIR", loc))
        kind = match.lastgroup or ""
        if kind != "skip":
            found.append(Token(kind, match[0], line, at - start))
        newlines = match[0].count("\n")
        if newlines:
            line += newlines
            start = at + match[0].rindex("\n") + 1
        at = match.end()
    found.append(Token("end", "end of file", line, at - start))
    return found


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.tokens = _tokens(text, file)
        self.at = 0
        self.depth = 0
        self.source = file

    # --- words ------------------------------------------------------------------------------------------------------
    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def fail(self, wanted: str, token: Token | None = None) -> NoReturn:
        token = token or self.next
        loc = Loc(self.file, token.line, token.col, token.line, token.col + len(token.text))
        raise CompileError(Diagnostic("MPS0009", f"found {token.text}, expected {wanted}", loc))

    def take(self, kind: str, wanted: str) -> str:
        if self.next.kind != kind:
            self.fail(wanted)
        self.at += 1
        return self.tokens[self.at - 1].text

    def sees(self, text: str) -> bool:
        return self.next.text == text and self.next.kind in ("mark", "name")

    def accept(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"`{text}`")

    def many(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Items between commas up to ``close``."""
        found: list[_T] = []
        while not self.accept(close):
            if found:
                self.expect(",")
            found.append(item())
        return found

    def name(self, wanted: str) -> str:
        return self.take("name", wanted)

    def value(self) -> str:
        """The name of a value that is defined here."""
        if self.next.text.endswith(".err"):
            self.fail("a value")
        return self.take("value", "a value")[1:]

    def integer(self) -> int:
        text = self.take("number", "an integer")
        if not text.lstrip("-").isdigit() or len(text) > 60:
            self.at -= 1
            self.fail("an integer")
        return int(text)

    def place(self, start: Token) -> Loc:
        """The place that the text gives; else where it stands itself, which begins at ``start``."""
        if self.next.kind != "place":
            return Loc(self.file, start.line, start.col)
        line, col = self.take("place", "")[1:].split(":")
        return Loc(self.source, int(line), max(int(col) - 1, 0))

    # --- types and operands -----------------------------------------------------------------------------------------
    def nested(self, item: Callable[[], _T]) -> _T:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("something less deeply nested")
        found = item()
        self.depth -= 1
        return found

    def type(self) -> Ty:
        name = self.name("a type")
        modes: list[str] = []
        while len(modes) < 2 and name in _MODES and self.next.kind == "name":
            modes.append(name)
            name = self.name("a type")
        args = tuple(self.many(">", lambda: self.nested(self.type))) if self.accept("<") else ()
        return Ty(name, args, " ".join(modes))

    def targ(self) -> Ty | int:
        return self.integer() if self.next.kind == "number" else self.type()

    def operand(self) -> Operand:
        token = self.next
        if token.kind == "value":
            name = self.take("value", "")[1:]
            return Err(name.removesuffix(".err")) if "." in name else Var(name)
        if token.kind == "function":
            return FnRef(self.take("function", "")[1:])
        if self.accept("["):
            return tuple(self.many("]", lambda: self.nested(self.operand)))
        if token.kind == "name" and token.text.startswith("const."):
            self.at += 1
            return self.literal(Ty(token.text[6:]))
        if token.kind == "name":
            return Word(self.name(""))
        return self.fail("a value, a constant, a function, a list or a word")

    def literal(self, type_: Ty) -> Const:
        if type_.name == "unit":
            return Const(type_, 0)
        if type_.name == "Str":
            try:
                return Const(type_, str(json.loads(self.take("string", "a string"))))
            except ValueError:
                self.at -= 1
                self.fail("a string with the escapes of JSON")
        if type_.is_bool:
            text = self.name("true or false")
            if text not in ("true", "false"):
                self.at -= 1
                self.fail("true or false")
            return Const(type_, text == "true")
        if type_.is_float:
            return Const(type_, float(self.take("number", "a number")))
        if not type_.is_int:
            self.at -= 1
            self.fail("a constant of a primitive type")
        return Const(type_, self.integer())

    # --- blocks -----------------------------------------------------------------------------------------------------
    def pair(self) -> tuple[str, Operand]:
        key = self.name("the name of an operand")
        self.expect("=")
        return key, self.operand()

    def incoming(self) -> tuple[str, Operand]:
        self.expect("[")
        label = self.name("a block")
        self.expect(":")
        found = (label, self.operand())
        self.expect("]")
        return found

    def instruction(self, block: Block) -> None:
        start = self.next
        result: str | None = None
        type_: Ty | None = None
        if self.next.kind == "value":
            result = self.value()
            self.expect(":")
            type_ = self.type()
            self.expect("=")
            if self.accept("phi"):
                self.expect("{")
                block.phis.append(Phi(result, type_, self.many("}", self.incoming), self.place(start)))
                if block.instrs:
                    self.at -= 1
                    self.fail("phis before all other instructions")
                return
        unsafe = self.accept("unsafe")
        op = self.name("an operation")
        targs = tuple(self.many(">", self.targ)) if self.accept("<") else ()
        callee = self.take("function", "")[1:] if self.next.kind == "function" else ""
        self.expect("{")
        args: dict[str, Operand] = {}
        for key, value in self.many("}", self.pair):
            # a and b are lhs and rhs of every binary operation
            if op in OPS and "lhs" in OPS[op].keys:
                key = {"a": "lhs", "b": "rhs"}.get(key, key)
            if key in args:
                self.fail(f"one operand called {key}, not two", start)
            args[key] = value
        target = self.name("a block") if self.accept("->") else ""
        block.instrs.append(Instr(op, args, result, type_, targs, callee, self.place(start), target, unsafe))

    def terminator(self) -> Term | None:
        """The terminator that stands here; None for an instruction."""
        start = self.next
        if self.accept("ret"):
            ends = self.next.kind not in ("value", "function") and not self.next.text.startswith("const.")
            value = None if ends else self.operand()
            return Ret(value, self.place(start))
        if self.accept("br"):
            return Br(self.name("a block"), self.place(start))
        if self.accept("cbr"):
            return Cbr(self.operand(), self.name("a block"), self.name("a block"), self.place(start))
        if self.accept("switch"):
            value = self.operand()
            cases: list[tuple[int, str]] = []
            self.expect("{")
            while not self.accept("}"):
                self.expect("case")
                number = self.integer()
                self.expect("->")
                cases.append((number, self.name("a block")))
            self.expect("else")
            return Switch(value, tuple(cases), self.name("a block"), self.place(start))
        if self.accept("unreachable"):
            return Unreachable(self.place(start))
        return None

    def block(self) -> Block:
        block = Block(self.name("a block"))
        self.expect(":")
        while True:
            term = self.terminator()
            if term is not None:
                block.term = term
                return block
            self.instruction(block)

    # --- declarations -----------------------------------------------------------------------------------------------
    def field(self) -> tuple[str, Ty]:
        name = self.name("a field")
        self.expect(":")
        return name, self.type()

    def param(self) -> tuple[str, Ty]:
        name = self.value()
        self.expect(":")
        return name, self.type()

    def meta(self, is_unsafe: bool) -> GpuMeta:
        self.expect("target")
        self.expect("(")
        target = self.name("a target")
        self.expect(")")
        size = [64, 1, 1]
        if self.accept("workgroup"):
            self.expect("(")
            size = self.many(")", self.integer)
            if len(size) != 3:
                self.at -= 1
                self.fail("three sizes of a workgroup")
        requires: list[str] = []
        if self.accept("requires"):
            self.expect("(")
            requires = self.many(")", lambda: self.name("a capability"))
        return GpuMeta(target, (size[0], size[1], size[2]), is_unsafe, tuple(requires))

    def function(self) -> Function:
        start = self.next
        modifier = next((m for m in ("unsafe", "async") if self.accept(m)), "")
        gpu = modifier != "async" and self.accept("gpu")
        self.expect("fn")
        name = self.take("function", "the name of a function")[1:]
        self.expect("(")
        params = self.many(")", self.param)
        self.expect("->")
        ret = self.type()
        meta = self.meta(modifier == "unsafe") if gpu else None
        self.expect("{")
        loc = self.place(start)
        blocks: list[Block] = []
        while not self.accept("}"):
            blocks.append(self.block())
        return Function(name, params, ret, blocks, meta, loc, "" if gpu else modifier)

    def declaration(self, module: Module) -> None:
        """One declaration that is no function."""
        start, heap = self.next, self.accept("heap")
        if self.accept("struct"):
            name, params = self.name("the name of a struct"), self.type_params()
            self.expect("{")
            module.structs.append(Struct(name, self.many("}", self.field), heap, params))
        elif heap:
            self.fail("`struct`")
        elif self.accept("enum"):
            name, params = self.name("the name of an enum"), self.type_params()
            self.expect("{")
            module.enums.append(Enum(name, self.many("}", self.variant), params))
        elif self.accept("sig"):
            name = self.name("the name of a signature")
            self.expect("(")
            types = tuple(self.many(")", self.type))
            self.expect("->")
            module.sigs.append(Sig(name, types, self.type()))
        elif self.accept("global"):
            name = self.take("function", "the name of a global")[1:]
            self.expect(":")
            type_ = self.type()
            self.expect("=")
            value = self.operand()
            module.globals.append(Global(name, type_, value, self.place(start)))
        else:
            self.expect("impl")
            what, type_ = self.name("what is implemented"), self.type()
            module.impls.append(Impl(what, type_, self.take("function", "a function")[1:]))

    def type_params(self) -> tuple[str, ...]:
        return tuple(self.many(">", lambda: self.name("the name of a type"))) if self.accept("<") else ()

    def variant(self) -> tuple[str, list[tuple[str, Ty]]]:
        name = self.name("a variant")
        self.expect("{")
        return name, self.many("}", self.field)

    def module(self) -> Module:
        self.expect("mpir")
        module = Module(self.name("the name of the module"))
        if self.next.kind == "string":
            file = self.literal(Ty("Str")).value
            module.file = self.source = str(file)
        while self.next.kind != "end":
            if self.next.text in _DECLARATIONS:
                self.declaration(module)
            else:
                module.functions.append(self.function())
        return module


def parse_module(text: str, file: str = "<mpir>") -> Module:
    """The module that ``text`` shows; ``file`` names the text in errors. Raises CompileError (MPS0009)."""
    return _Parser(text, file).module()
