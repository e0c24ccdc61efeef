"""Generated programs of integers, control flow and one array mean the same to Python and to Magpie.

Each is run by Python itself and, as a kernel of one work-item, by the interpreter. Values stay small, so that i32 is
enough. A program that reads a variable which may be unassigned must be refused, never misread.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from frontend_helpers import define

import magpie as mp

OPERATORS = ("<", "<=", ">", ">=", "==", "!=")


class Program:
    """A random program. ``leaky``: a variable may be read where only one branch assigned it."""

    def __init__(self, seed: int, leaky: bool) -> None:
        self.random = random.Random(seed)
        self.leaky = leaky
        self.counters = 0
        self.loops = 0
        self.inside_function = False

    def source(self) -> str:
        self.inside_function = True
        body = ["a = p % 50", "b = 1", *self.block(0, ["a", "b", "p", "q"], 1, False, 3)]
        function = ["@func", "def f(p, q):", *body_of(body), f"    return ({self.number(['a', 'b', 'p', 'q'])}) % 100"]
        self.inside_function = False
        names = ["a", "b"]
        body = ["a = x[0] % 10", "b = x[1] % 10", *self.block(0, names, 0, False, 8)]
        return "\n".join([*function, "def k(x):", *body_of(body), f"    x[7] = ({self.number(['a', 'b'])}) % 1000"])

    def number(self, names: list[str], depth: int = 0) -> str:
        pick, a = self.random.choice, lambda: self.number(names, depth + 1)
        if depth > 2 or self.random.random() < 0.25:
            return pick(names) if self.random.random() < 0.6 else str(self.random.randint(-9, 9))
        kinds = [
            lambda: f"({a()} {pick('+-')} {a()})",
            lambda: f"(({a()}) % 31 * (({a()}) % 31))",
            lambda: f"({a()} {pick(('//', '%'))} {pick((-7, -3, 2, 3, 5))})",
            lambda: f"min({a()}, {a()})",
            lambda: f"max({a()}, {a()}, {a()})",
            lambda: f"abs({a()})",
            lambda: f"({a()} if {self.condition(names, depth + 1)} else {a()})",
            lambda: f"({a()} {pick('&|^')} {a()})",
            lambda: f"(1, 2, 3, 5)[{a()} % 4]",
            lambda: f"(-{a()})",
        ]
        if not self.inside_function:
            kinds += [lambda: f"x[{a()} % 8]", lambda: f"f({a()}, {a()})"]
        return pick(kinds)()

    def condition(self, names: list[str], depth: int = 0) -> str:
        pick, a, c = self.random.choice, lambda: self.number(names, depth + 1), lambda: self.condition(names, depth + 1)
        kinds = [lambda: f"{a()} {pick(OPERATORS)} {a()}"]
        if depth < 3:
            kinds += [
                lambda: f"{a()} {pick(OPERATORS)} {a()} {pick(OPERATORS)} {a()}",
                lambda: f"({c()} and {c()})",
                lambda: f"({c()} or {c()})",
                lambda: f"not ({c()})",
            ]
        return pick(kinds)()

    def block(self, depth: int, names: list[str], nested: int, in_loop: bool, count: int = 0) -> list[str]:
        """Statements; nested ones are indented by `body_of`."""
        if not self.leaky or self.random.random() < 0.5:
            names = list(names)
        out: list[str] = []
        for _ in range(count or self.random.randint(1, 4)):
            out += self.statement(depth, names, nested, in_loop)
        return out or ["pass"]

    def statement(self, depth: int, names: list[str], nested: int, in_loop: bool) -> list[str]:
        pick, chance = self.random.choice, self.random.random
        number, condition = lambda: self.number(names), lambda: self.condition(names)

        def inner(loop: bool, extra: tuple[str, ...] = ()) -> list[str]:
            # a leaky block adds what it assigns to the names of this one
            return body_of(self.block(depth + 1, [*names, *extra] if extra else names, nested + 1, loop))

        kind = self.random.randint(0, 9)
        if kind < 3:
            name = pick("abcd")
            line = f"{name} = ({number()}) % 1000"
            if name not in names:
                names.append(name)
            return [line]
        if kind == 3:
            return [f"{pick([n for n in names if n in 'abcd'])} {pick(('+=', '-='))} {number()} % 100"]
        if kind == 4 and not self.inside_function:
            return [f"x[({number()}) % 8] {pick(('=', '+='))} ({number()}) % 100"]
        if kind == 5 and nested < 3:
            out = [f"if {condition()}:", *inner(in_loop)]
            if chance() < 0.3:
                out += [f"elif {condition()}:", *inner(in_loop)]
            return [*out, "else:", *inner(in_loop)] if chance() < 0.5 else out
        if kind in (6, 7) and nested < 3 and self.loops < 2:
            self.loops += 1
            if kind == 6:
                name = pick("ijk")
                start, stop, step = self.random.randint(-3, 3), self.random.randint(-3, 6), pick((1, 1, 2, -1, -2))
                bounds = pick(
                    (f"{stop}", f"{start}, {stop}, {step}", f"({number()}) % 5", f"{number()} % 4, {stop}, {step}")
                )
                out = [f"for {name} in range({bounds}):", *inner(True, (name,))]
            else:
                name = f"w{self.counters}"
                self.counters += 1
                test = f"{name} > 0 and {self.condition([*names, name])}" if chance() < 0.5 else f"{name} > 0"
                out = [
                    f"{name} = {self.random.randint(1, 5)}",
                    f"while {test}:",
                    f"    {name} -= 1",
                    *inner(True, (name,)),
                ]
            self.loops -= 1
            return [*out, "else:", *inner(in_loop)] if chance() < 0.2 else out
        if kind == 8 and in_loop:
            return [f"if {condition()}:", f"    {pick(('break', 'continue'))}"]
        if kind == 9 and chance() < 0.3:
            return [f"if {condition()}:", f"    return {number() + ' % 100' if self.inside_function else ''}"]
        return ["a, b = b, a"] if {"a", "b"} <= set(names) else []


def body_of(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_generated_program(seed, leaky):
    source = Program(seed, leaky).source()
    start = np.random.default_rng(seed).integers(-20, 20, 8)
    expected = [int(v) for v in start]
    unassigned = False
    try:
        define(source, func=lambda fn: fn)["k"](expected)
    except UnboundLocalError:
        unassigned = True
    found = start.astype(np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mp.kernel(define(source, func=mp.func)["k"]).launch(grid=1, block=1, args=(found,), device="interp")
        except mp.CompileError as error:
            codes = {d.code for d in error.diagnostics}
        else:
            codes = set()
    if codes:
        assert leaky, source
        assert codes == {"MPG_PY_1003"}, source
        return
    assert not unassigned, source
    assert found.tolist() == expected, source
