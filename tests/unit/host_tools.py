"""For tests of host programs: run a text, and what it wrote."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from typing import Any

from magpie.frontend.mp.kernels import check_source
from magpie.frontend.mp.source import Source
from magpie.host.program import Program

HEAD = "module t\nimports { std.io::{@print, @println, @eprint, @eprintln} }\n"


@dataclass
class Ran:
    """The exit status of a program, and its two outputs."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def program(text: str, head: str = HEAD) -> Program:
    """A text as a program: the module begins behind two lines."""
    return Program(check_source(Source(head + text, "t.mp")).checked)


def call(text: str, *arguments: Any, name: str = "f") -> Any:
    """What a function gives."""
    return program(text).call(name, arguments)


def run(text: str, argv: tuple[str, ...] = (), head: str = HEAD) -> Ran:
    """Run `@main`, with the outputs caught."""
    ready = program(text, head)
    before = sys.stdout, sys.stderr
    out, err = (TextIOWrapper(BytesIO(), "utf-8", newline="\n") for _ in range(2))
    sys.stdout, sys.stderr = out, err
    try:
        status = ready.main(argv)
    finally:
        sys.stdout, sys.stderr = before
    out.flush()
    err.flush()
    return Ran(status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())


def function(params: str, result: str, body: str, name: str = "f") -> str:
    """A function with one block."""
    return f"fn @{name}({params}) -> {result} {{\nbb0:\n{body}\n}}\n"


def binary(op: str, type_: str, result: str | None = None) -> str:
    """@f(%a, %b) of one operation."""
    return function(
        f"%a: {type_}, %b: {type_}",
        result or type_,
        f"    %r: {result or type_} = {op} {{ a=%a, b=%b }}\n    ret %r",
    )
