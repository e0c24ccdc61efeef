"""A function of MPIR as code: operands become slots of the frame, instructions closures, blocks stretches.

Constants and globals stand in the frame from its beginning, so a step reads all operands in one way. The moves of phis
run on the edge: behind the steps of a block with one way out, else in a stretch between the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, isgeneratorfunction, signature
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from magpie.host.builtins import BUILTINS, OPERATIONS, Call, Site, Step
from magpie.host.code import CALL, CHOOSE, INDIRECT, RETURN, YIELD, Code, Stretch
from magpie.host.constants import constant
from magpie.host.panics import Panic
from magpie.host.values import CallableValue, EnumValue
from magpie.mpir.known import Known
from magpie.mpir.nodes import (
    Block,
    Br,
    Cbr,
    Const,
    Err,
    FnRef,
    Function,
    Instr,
    Operand,
    Phi,
    Ret,
    Switch,
    Term,
    Unreachable,
    Var,
    Word,
)
from magpie.mpir.types import Ty

if TYPE_CHECKING:
    from magpie.host.program import Program

__all__ = ["prepare"]

Item = Instr | Phi | Term


def prepare(program: Program, function: Function, code: Code) -> None:
    """Fill ``code`` with what ``function`` does."""
    _Preparing(program, function, code).all()


class _Preparing:
    def __init__(self, program: Program, function: Function, code: Code) -> None:
        self.program = program
        self.function = function
        self.code = code
        self.known = Known(program.module, function)
        self.template: list[Any] = [None] * len(function.params)
        self.slots = {name: k for k, (name, _) in enumerate(function.params)}
        self.constants: dict[Any, int] = {}
        self.blocks: dict[str, Stretch] = {b.label: Stretch(code) for b in function.blocks}
        for block in function.blocks:
            for item in block.items:
                if item.result is not None:
                    self.slots[item.result] = self.slot()
        self.unused = self.slot()  # where results go that nothing reads

    def all(self) -> None:
        for block in self.function.blocks:
            self.block(block)
        code = self.code
        code.template, code.slots, code.types = self.template, self.slots, self.known.types
        code.entry = self.blocks[self.function.blocks[0].label]

    # --- operands ----------------------------------------------------------------------------------------------------
    def slot(self, value: Any = None) -> int:
        """A new slot, which begins with ``value``."""
        self.template.append(value)
        return len(self.template) - 1

    def fixed(self, key: Any, value: Any) -> int:
        """The slot of a constant, one for all that have the same key."""
        if key not in self.constants:
            self.constants[key] = self.slot(value)
        return self.constants[key]

    def read(self, operand: Operand, out: Stretch, item: Item) -> int:
        """The slot of an operand; one that is made of others is made by a step of ``out``."""
        match operand:
            case Var():
                return self.slots[operand.name]
            case Const():
                return self.fixed((operand.type, repr(operand.value)), constant(operand))
            case Word():
                return self.fixed(operand.name, operand.name)
            case FnRef():
                return self.reference(operand)
            case Err():
                result = self.slots[operand.name]
                made = self.slot()
                out.add(made, lambda frame: frame[result].fields[0], item)
                return made
        slots = [self.read(o, out, item) for o in operand]
        made = self.slot()
        out.add(made, _together(slots), item)
        return made

    def reference(self, ref: FnRef) -> int:
        """A global, or a function as a value."""
        if ref.name in self.program.constants:
            return self.fixed(ref, self.program.glob(ref.name))
        return self.fixed(ref, CallableValue(ref.name))

    def type(self, operand: Operand) -> Ty | None:
        """The type of an operand, with its mode."""
        return self.known.types.get(operand.name) if isinstance(operand, Var) else self.known.type(operand)

    # --- blocks ------------------------------------------------------------------------------------------------------
    def block(self, block: Block) -> None:
        at = self.blocks[block.label]
        for instr in block.instrs:
            at = self.instruction(block, instr, at)
        self.terminator(block, at)

    def instruction(self, block: Block, instr: Instr, at: Stretch) -> Stretch:
        """Put an instruction behind a stretch; gives the stretch that goes on from it."""
        if instr.op == "try":
            return self.attempt(block, instr, at)
        if instr.op == "call":
            return self.call(instr, at)
        slots = {key: self.read(operand, at, instr) for key, operand in instr.args.items()}
        types = {key: self.type(operand) for key, operand in instr.args.items()}
        result = self.unused if instr.result is None else self.slots[instr.result]
        if instr.op == "call.indirect":
            return self.indirect(instr, slots, result, at)
        make = OPERATIONS.get(instr.op)
        if make is not None:
            at.add(result, make(Site(self.program, instr, slots, types)), instr)
            return at
        function = BUILTINS.get(instr.op)
        if function is None:
            at.add(result, _missing(instr.op), instr)
            return at
        step = _calling(function, Call(self.program, instr, types), slots)
        if not isgeneratorfunction(function):
            at.add(result, step, instr)
            return at
        behind = self.leave(at, YIELD, instr, result)
        at.start = step
        return behind

    def leave(self, at: Stretch, way: int, item: Instr, slot: int) -> Stretch:
        """End a stretch with a call; gives the stretch behind it."""
        behind = Stretch(self.code)
        at.way, at.at, at.slot, at.next = way, item, slot, behind
        return behind

    def call(self, instr: Instr, at: Stretch) -> Stretch:
        callee = self.program.functions[instr.callee]
        inputs = tuple(self.read(instr.args[name], at, instr) for name, _ in callee.params)
        behind = self.leave(at, CALL, instr, self.unused if instr.result is None else self.slots[instr.result])
        at.function, at.inputs = self.program.codes[callee.name], inputs
        return behind

    def indirect(self, instr: Instr, slots: dict[str, int], result: int, at: Stretch) -> Stretch:
        given = instr.args.get("args", ())
        inputs = tuple(self.read(o, at, instr) for o in given) if isinstance(given, tuple) else ()
        behind = self.leave(at, INDIRECT, instr, result)
        at.callee, at.inputs = slots["callee"], inputs
        return behind

    def attempt(self, block: Block, instr: Instr, at: Stretch) -> Stretch:
        """A `try`: on in a stretch of its own with the value, else to the target or back to the caller."""
        given = self.read(instr.args["v"], at, instr)
        good = Stretch(self.code)
        good.add(
            self.unused if instr.result is None else self.slots[instr.result],
            lambda frame: frame[given].fields[0] if frame[given].fields else None,
            instr,
        )
        if instr.target:
            bad = self.edge(block, instr.target, instr)
        else:
            bad = Stretch(self.code)
            bad.way, bad.at, bad.slot = RETURN, instr, self.slot()
            bad.add(bad.slot, _handed_on(given, self.function.ret), instr)
        at.way, at.at = CHOOSE, instr
        at.choose = lambda frame: bad if frame[given].tag else good
        return good

    def edge(self, block: Block, label: str, item: Item) -> Stretch:
        """The way from a block to another one: a stretch with the moves of its phis, if it has any."""
        target = self.blocks[label]
        if not self.known.blocks[label].phis:
            return target
        between = Stretch(self.code)
        self.moves(block, label, between, item)
        between.next = target
        return between

    def moves(self, block: Block, label: str, out: Stretch, item: Item) -> None:
        """Set the phis of a block for the way to it from another one: all are read before any is set."""
        pairs = []
        for phi in self.known.blocks[label].phis:
            source = self.read(dict(phi.incoming)[block.label], out, phi)
            if source != self.slots[phi.result]:
                pairs.append((self.slots[phi.result], source, phi))
        if len(pairs) == 1:
            slot, source, phi = pairs[0]
            out.add(slot, itemgetter(source), phi)
        elif pairs:
            out.add(self.unused, _move([p[0] for p in pairs], [p[1] for p in pairs]), pairs[0][2])

    def terminator(self, block: Block, at: Stretch) -> None:
        term = block.term
        at.at = term
        match term:
            case Ret():
                at.way = RETURN
                at.slot = self.fixed(None, None) if term.value is None else self.read(term.value, at, term)
            case Br():
                self.moves(block, term.target, at, term)
                at.next = self.blocks[term.target]
            case Cbr():
                cond = self.read(term.cond, at, term)
                then, other = self.edge(block, term.then, term), self.edge(block, term.other, term)
                at.way, at.choose = CHOOSE, lambda frame: then if frame[cond] else other
            case Switch():
                value, table, default = self.switch(block, term, at)
                at.way, at.choose = CHOOSE, lambda frame: table.get(frame[value], default)
            case Unreachable():
                at.way, at.choose = CHOOSE, _unreachable

    def switch(self, block: Block, term: Switch, at: Stretch) -> tuple[int, dict[int, Stretch], Stretch]:
        type_ = self.known.type(term.value)
        assert type_ is not None
        table = {constant(Const(type_, number)): self.edge(block, label, term) for number, label in term.cases}
        return self.read(term.value, at, term), table, self.edge(block, term.default, term)


def _together(slots: list[int]) -> Step:
    """The values of several slots as a tuple."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return lambda frame: tuple([frame[k] for k in slots])


def _move(to: list[int], source: list[int]) -> Step:
    if len(to) == 2:
        a, b, x, y = *to, *source

        def two(frame: list[Any]) -> None:
            frame[a], frame[b] = frame[x], frame[y]

        return two
    get = itemgetter(*source)

    def several(frame: list[Any]) -> None:
        for slot, value in zip(to, get(frame), strict=True):
            frame[slot] = value

    return several


def _handed_on(slot: int, ret: Ty) -> Step:
    """An Err or None as the result of the function that gives it to its caller."""

    def step(frame: list[Any]) -> EnumValue:
        found: EnumValue = frame[slot]
        return EnumValue(ret, found.variant, found.tag, found.fields)

    return step


def _unreachable(frame: list[Any]) -> Stretch:
    raise Panic("control has come to `unreachable`")


def _missing(name: str) -> Step:
    def step(frame: list[Any]) -> Any:
        raise Panic(f"host programs have no {name}")

    return step


def _calling(function: Callable[..., Any], call: Call, slots: dict[str, int]) -> Step:
    """The step that calls a builtin with the operands that this place has."""
    parameters = list(signature(function).parameters.values())[1:]
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return lambda frame: function(call, **{key: frame[k] for key, k in slots.items()})
    names = [p.name for p in parameters]
    given = {key if key in names else f"{key}_": k for key, k in slots.items()}
    if list(given) != names[: len(given)] and set(given) <= set(names):
        # in the order of the parameters where the text has another one, up to the first that is left out
        given = {name: given[name] for name in names if name in given}
    if list(given) != names[: len(given)]:
        return lambda frame: function(call, **{key: frame[k] for key, k in given.items()})
    order = list(given.values())
    if len(order) == 0:
        return lambda frame: function(call)
    if len(order) == 1:
        (a,) = order
        return lambda frame: function(call, frame[a])
    if len(order) == 2:
        a, b = order
        return lambda frame: function(call, frame[a], frame[b])
    get = itemgetter(*order)
    return lambda frame: function(call, *get(frame))
