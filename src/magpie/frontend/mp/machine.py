"""lark's LALR(1) tables for the grammar, in the form in which the parser runs them.

lark reads the grammar, makes the tables and the functions that sort a rule's parts.  Its own loop is left out: this one
also recovers from errors, and takes half the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from importlib import resources
from typing import Any, TypeAlias

from lark import Lark
from lark.lexer import PatternStr, TerminalDef

from magpie.frontend.mp.builder import Builder
from magpie.frontend.mp.lexer import Scanner

#: A state's entry of a terminal: the next state, or how many parts a rule has, what makes its value, and its name.
Action: TypeAlias = "int | tuple[int, Callable[[list[Any]], Any], str]"

#: Held while a source is parsed: the builder works on one at a time.
lock = threading.Lock()


class Machine:
    """The tables, the scanner, and the builder that the tables' rules call."""

    def __init__(self) -> None:
        self.builder = Builder()
        text = (resources.files(__package__) / "grammar.lark").read_text(encoding="utf-8")
        lark = Lark(
            text,
            parser="lalr",
            lexer="basic",
            maybe_placeholders=True,
            transformer=self.builder,  # lark looks for methods by the rules' names
        )
        state = lark.parse_interactive("").parser_state
        conf = state.parse_conf
        self.start: int = conf.start_state
        self.accept: int = conf.end_state
        self.actions: list[dict[str, Action]] = [{} for _ in conf.states]
        for number, row in conf.states.items():
            for name, (_, target) in row.items():
                self.actions[number][name] = (
                    target
                    if isinstance(target, int)
                    else (len(target.expansion), conf.callbacks[target], str(target.origin.name))
                )
        self.terminals = {definition.name for definition in lark.terminals} | {"$END"}
        self.shown = {item.name: item.pattern.value for item in lark.terminals if isinstance(item.pattern, PatternStr)}
        self.scanner = _scanner(lark.terminals)

    def expected(self, states: list[int]) -> set[str]:
        """The terminals that can follow when the parser's stack is ``states``."""
        return {name for name in self.actions[states[-1]] if name in self.terminals and self.takes(states, name)}

    def takes(self, states: list[int], name: str) -> bool:
        """Whether terminal ``name`` can follow; the tables alone may find out late, after reductions."""
        stack = list(states)
        while (action := self.actions[stack[-1]].get(name)) is not None:
            if isinstance(action, int):
                return True
            size, _, origin = action
            if size:
                del stack[-size:]
            target = self.actions[stack[-1]][origin]
            assert isinstance(target, int)
            stack.append(target)
            if name == "$END" and target == self.accept:
                return True
        return False


def _scanner(terminals: Collection[TerminalDef]) -> Scanner:
    fixed = {item.name: item.pattern.value for item in terminals if isinstance(item.pattern, PatternStr)}
    patterns = sorted((item for item in terminals if item.name not in fixed), key=lambda item: -item.priority)
    words = {text: name for name, text in fixed.items() if text[0].isalpha()}
    marks = {text: name for name, text in fixed.items() if not text[0].isalpha()}
    return Scanner([(item.name, item.pattern.value) for item in patterns], words, marks)


_machine: Machine | None = None


def machine() -> Machine:
    """The one machine, made when first needed: it takes a quarter of a second.  Call it with ``lock`` held."""
    global _machine
    if _machine is None:
        _machine = Machine()
    return _machine


__all__ = ["Action", "Machine", "lock", "machine"]
