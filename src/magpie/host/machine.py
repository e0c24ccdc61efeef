"""The machine that runs prepared functions. Its stack is a list: user functions may call each other `DEPTH` deep."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any

from magpie.errors import MagpieError
from magpie.host.code import CALL, CHOOSE, GO, INDIRECT, RETURN, Code, Stretch
from magpie.host.panics import Panic
from magpie.host.text import display
from magpie.host.values import CallableValue
from magpie.mpir.nodes import Instr, Phi, Term, Var, operands
from magpie.mpir.printer import item_text

__all__ = ["DEPTH", "run"]

DEPTH = 200_000

_Frame = list[Any]
# a frame that waits, the stretch whose call it waits for, and the generator that asked for that call
_Stack = list[tuple[_Frame, Stretch, Any]]


def run(codes: dict[str, Code], code: Code, arguments: Sequence[Any]) -> Any:
    """What a function gives. Raises Panic, with the trace from that function on."""
    stack: _Stack = []
    steps: Any = None
    frame: _Frame = []
    at: Stretch | None = None
    value: Any = None
    try:
        frame, at = enter(code, arguments)
        while True:
            steps = iter(at.steps)
            for slot, step in steps:
                frame[slot] = step(frame)
            steps = None
            way = at.way
            if way == GO:
                at = at.next
                continue
            if way == CHOOSE:
                at = at.choose(frame)
                continue
            if way == RETURN:
                value = frame[at.slot]
                if not stack:
                    return value
                frame, at, generator = stack.pop()
                if generator is None:
                    frame[at.slot] = value
                    at = at.next
                    continue
            elif len(stack) >= DEPTH:
                raise Panic(f"calls nest deeper than {DEPTH:,}: does the recursion end?")
            elif way == CALL:
                stack.append((frame, at, None))
                frame, at = enter(at.function, [frame[k] for k in at.inputs])
                continue
            elif way == INDIRECT:
                callee, inputs = frame[at.callee], [frame[k] for k in at.inputs]
                stack.append((frame, at, None))
                frame, at = enter(*resolve(codes, callee, inputs))
                continue
            else:
                generator, value = at.start(frame), None
            try:
                callee, inputs = generator.send(value)
            except StopIteration as end:
                frame[at.slot] = end.value
                at = at.next
            else:
                stack.append((frame, at, generator))
                frame, at = enter(*resolve(codes, callee, inputs))
    except MagpieError as error:
        raise traced(error, stack, frame, at, steps) from None
    except RecursionError:
        raise traced(Panic("calls back from operations nest too deep"), stack, frame, at, steps) from None
    except MemoryError:
        raise traced(Panic("out of memory"), stack, frame, at, steps) from None


def enter(code: Code, arguments: Sequence[Any]) -> tuple[_Frame, Stretch]:
    """A frame for a call, and where it begins."""
    if code.entry is None:
        code.prepare(code)
    assert code.entry is not None
    frame = code.template.copy()
    frame[: code.count] = arguments
    return frame, code.entry


def resolve(codes: dict[str, Code], callee: CallableValue, arguments: Sequence[Any]) -> tuple[Code, Sequence[Any]]:
    """The function of a callable, and all its arguments."""
    return codes[callee.function], [*callee.captured, *arguments] if callee.captured else arguments


def traced(error: MagpieError, stack: _Stack, frame: _Frame, at: Stretch | None, steps: Any) -> Panic:
    """The error as a Panic, with the place of ``steps`` in ``at``, its operands, and the functions that wait."""
    panic = error if isinstance(error, Panic) else Panic(str(error))
    if at is None:
        return panic
    item: Instr | Phi | Term | None = at.at if steps is None else at.items[len(at.steps) - length_hint(steps) - 1]
    if item is not None and not panic.trace:
        panic.line = item_text(item)
        if not isinstance(item, Phi):
            names = dict.fromkeys(o.name for o in operands(item) if isinstance(o, Var))
            code = at.code
            panic.values = [
                (name, display(frame[code.slots[name]], code.types.get(name), code.module)) for name in names
            ]
    panic.trace.append((at.code.name, item.loc if item is not None else None))
    for _, waiting, _ in reversed(stack):
        panic.trace.append((waiting.code.name, waiting.at.loc if waiting.at is not None else None))
    return panic
