"""`.mp` text to its syntax tree, with every error of a run, not only the first one."""

from __future__ import annotations

from typing import Any

from magpie.diagnostics import CompileError, Diagnostic
from magpie.frontend.mp import expected, nodes
from magpie.frontend.mp.collector import no_collection
from magpie.frontend.mp.comments import attach
from magpie.frontend.mp.labels import check_labels
from magpie.frontend.mp.lexer import MAX_ERRORS, Token, TooDeep
from magpie.frontend.mp.machine import Machine, lock, machine
from magpie.frontend.mp.source import Source
from magpie.records import record


@record
class Parsed:
    """What came of a source: the module, or None where there are errors, and the diagnostics in the order of lines."""

    source: Source
    module: nodes.Module | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def checked(self) -> nodes.Module:
        """The module; raises CompileError with all diagnostics where there are errors."""
        if self.module is None:
            raise CompileError(self.diagnostics)
        return self.module


def parse(source: Source) -> Parsed:
    """Read a source: names, types and values are not looked into, only how it is written.

    At most MAX_ERRORS errors are given; after each, reading goes on at the next line where it makes sense.
    """
    with no_collection():
        return _parse(source)


def _parse(source: Source) -> Parsed:
    found: list[Diagnostic] = []
    with lock:
        maker = machine()
        try:
            tokens, comments, bad = maker.scanner.scan(source)
        except TooDeep as error:
            return Parsed(source, None, (error.diagnostic,))
        maker.builder.begin(source, found)
        module = _Run(maker, source, tokens, found, bad).module()
        maker.builder.begin(Source("", ""), [])
    if module is not None and not found:
        check_labels(module, source, found)
    if found:
        found.sort(key=lambda item: (item.loc.line, item.loc.col) if item.loc is not None else (0, 0))
        return Parsed(source, None, tuple(found[:MAX_ERRORS]))
    assert module is not None
    attach(module, source, comments)
    return Parsed(source, module, ())


#: One line is reported once, but may stop the parser often.
_MAX_RECOVERIES = 200


class _Run:
    """One pass over the tokens of a source."""

    def __init__(
        self, maker: Machine, source: Source, tokens: list[Token], found: list[Diagnostic], bad: list[Diagnostic]
    ) -> None:
        self.maker = maker
        self.source = source
        self.tokens = tokens
        self.found = found
        found.extend(bad)
        self.states = [maker.start]
        self.values: list[Any] = []
        self.reported = {item.loc.line for item in bad if item.loc is not None}

    def module(self) -> nodes.Module | None:
        """The tree, or None where the end of the text was not reached."""
        at = 0
        resumed = -1
        for _ in range(_MAX_RECOVERIES):
            stop = self._run(at)
            if stop is None:
                module: nodes.Module = self.values[-1]
                return module
            self._report(stop)
            if len(self.found) >= MAX_ERRORS:
                break
            if stop == 0 and self.tokens[0].type != "MODULE":  # go on as if the line of the module were there
                self.tokens = [Token("MODULE", "", 0, 0), Token("NAME", "", 0, 0), *self.tokens]
                continue
            at = resumed = self._recover(max(stop, resumed + 1))
            if at < 0:
                break
        return None

    def _run(self, index: int) -> int | None:
        """Take tokens from ``index`` on; the index of the one that does not fit, or None at the end."""
        actions, states, values, tokens = self.maker.actions, self.states, self.values, self.tokens
        builder, accept = self.maker.builder, self.maker.accept
        while True:
            token = tokens[index]
            kind = token.type
            while True:
                action = actions[states[-1]].get(kind)
                if action is None:
                    return index
                if action.__class__ is int:
                    states.append(action)
                    values.append(token)
                    builder.last = token
                    index += 1
                    break
                size, make, origin = action  # type: ignore[misc]  # a reduction, since it is no number
                if size:
                    parts = values[-size:]
                    del values[-size:]
                    del states[-size:]
                    values.append(make(parts))
                else:
                    values.append(make([]))
                state = actions[states[-1]][origin]
                states.append(state)  # type: ignore[arg-type]  # rules lead to states
                if state == accept and kind == "$END":
                    return None

    def _report(self, index: int) -> None:
        token = self.tokens[index]
        line = self.source.line_of(token.at)
        if line in self.reported:
            return
        self.reported.add(line)
        before = self.tokens[index - 1] if index else None
        message, help = expected.explain(self.maker, self.states, before, token)
        end = max(token.end, token.at + 1)
        at = token.at
        if token.type == "$END" and before is not None:
            at, end = before.end, before.end + 1  # the end of a text is often an empty line: show the last word
        self.found.append(Diagnostic("MPP0005", message, self.source.loc(at, end), help=help))

    def _recover(self, index: int) -> int:
        """Drop what was begun and skip to where a new declaration, instruction or field begins; its index, or -1."""
        lists = self._lists()
        depth = sum(_braces(value) for value in self.values)
        line = self.source.line_of(self.tokens[index - 1].at) if index else 0
        for at in range(index, len(self.tokens)):
            token = self.tokens[at]
            here = self.source.line_of(token.at)
            first, line = here != line, here
            top = first and token.type in _DECLARATIONS and self.source.starts[here - 1] == token.at
            if token.type == "$END":
                return -1
            for size, level in reversed(lists):
                fits = top and size == lists[0][0] and self.maker.takes(self.states[: size + 1], token.type)
                if fits or (
                    level == depth
                    and (first or token.type == "RBRACE")
                    and not top
                    and self._begins(self.states[: size + 1], token.type)
                ):
                    del self.states[size + 1 :]
                    del self.values[size:]
                    return at
            depth = max(depth + _braces(token), 0)
        return -1

    def _begins(self, states: list[int], kind: str) -> bool:
        """Whether a terminal begins an item of the list, or what was meant as one: a result, a field."""
        meant = {"VALUE": "DEF", "NAME": "FIELD"}.get(kind)
        return self.maker.takes(states, kind) or (meant is not None and self.maker.takes(states, meant))

    def _lists(self) -> list[tuple[int, int]]:
        """Where in the stack a list of declarations, instructions or fields goes on, and how many braces are open."""
        found = []
        depth = 0
        for size, state in enumerate(self.states):
            depth += _braces(self.values[size - 1]) if size else 0
            row = self.maker.actions[state]
            # The braces of arguments are no list: `ret` may be an argument's name, and no field's or variant's.
            fields = "RET" not in row and ("FIELD" in row or "NAME" in row or "FN" in row)
            if "$END" in row or ("RBRACE" in row and ("DEF" in row or fields)):
                found.append((size, depth))
        return found or [(0, 0)]


def _braces(value: Any) -> int:
    """1 for an opening brace, -1 for a closing one."""
    if value.__class__ is not Token:
        return 0
    return (value.type == "LBRACE") - (value.type == "RBRACE")


_DECLARATIONS = frozenset(
    {"FN", "GPU", "UNSAFE", "ASYNC", "HEAP", "VALUE_KIND", "STRUCT", "ENUM", "SIG", "GLOBAL", "IMPL", "EXTERN"}
)

__all__ = ["Parsed", "parse"]
