"""Functions of host programs, which no kernel calls, as MPIR.

Functions of other modules are operations there, by their full names: ``std.io.@println``. A `try` of a call is two
instructions, the call and the `try` of what it gives.
"""

from __future__ import annotations

from magpie.frontend.mp import nodes
from magpie.frontend.mp.imports import Imports
from magpie.frontend.mp.lower import Lowering
from magpie.frontend.mp.names import Names, ty
from magpie.mpir import nodes as m
from magpie.mpir.prelude import replace
from magpie.mpir.signatures import signature
from magpie.mpir.types import UNIT, Ty

__all__ = ["HostLowering", "constant"]


def constant(value: nodes.Argument) -> m.Operand:
    """A literal or a list of them; a name for anything else, which is an error of the module."""
    match value:
        case nodes.Const():
            return m.Const(Ty(value.type), 0 if value.value is None else value.value)
        case nodes.Text():
            return m.Const(Ty("Str"), value.value)
        case nodes.ListOf():
            return tuple(map(constant, value.items))
        case nodes.GlobalRef():
            return m.FnRef(value.name)
        case nodes.Value():
            return m.Var(value.name)
    return m.Word(value.name)


class HostLowering(Lowering):
    """Lowers one function of a host program. One that is async runs to its end where it is called."""

    on_host = True

    def __init__(self, names: Names, function: nodes.Function, imports: Imports) -> None:
        super().__init__(names, function)
        self.imports = imports

    def operand(self, value: nodes.Operand) -> m.Operand:
        match value:
            case nodes.ErrValue():
                return m.Err(value.name)
            case nodes.GlobalRef():
                return m.FnRef(value.name)  # a global too: what is on the heap is one object
        return super().operand(value)

    def instructions(self, item: nodes.Assign | nodes.Effect) -> list[m.Instr]:
        if isinstance(item.value, nodes.TryCall):
            return self.try_call(item, item.value)
        return super().instructions(item)

    def instruction(self, item: nodes.Assign | nodes.Effect) -> m.Instr | None:
        value = item.value
        result, type_ = (item.result, ty(item.type)) if isinstance(item, nodes.Assign) else (None, None)
        made = m.Instr("", {}, result, type_, loc=self.loc(item))
        match value:
            case nodes.GlobalRef():
                made.op, made.args = "global", {"v": m.FnRef(value.name)}
            case nodes.Op() if value.name == "call_void.indirect" and result is None:
                made.op, made.args = "call.indirect", self.arguments(value.args)
            case nodes.Op() if value.name.startswith("enum."):
                return self.enum(made, value)
            case nodes.Capture():
                ref, module = value.function, self.imports.module_of(value.function)
                if module or (ref.name not in self.names.functions and ref.name in self.names.generic):
                    if module:
                        help = "capture a function of this module that calls it"
                        self.report("MPT0017", f"a callable of {module}.@{ref.name}", ref, help)
                    return None  # which instance is meant was not to be told, and that was said
                made.op, made.callee, made.args = "callable.capture", ref.name, self.arguments(value.args)
            case nodes.Try():
                made.op, made.args, made.target = "try", {"v": self.operand(value.value)}, value.target or ""
            case _:
                made = super().instruction(item) or made
                return self.named(made, value) if made.op else None
        return made

    def named(self, made: m.Instr, node: nodes.Node) -> m.Instr | None:
        """The instruction with its operands called as the table of signatures has them; None where a list of them has
        another length."""
        known = signature(made.op)
        if known is None:
            return made
        listed = made.args.get("args")
        if "@" in made.op and len(made.args) == 1 and isinstance(listed, tuple):
            if not sum(not p.optional for p in known.operands) <= len(listed) <= len(known.operands):
                text = f"{made.op} has {len(known.operands)} operands, and here are {len(listed)}"
                self.report("MPT0004", text, node, f"it is {known.text}")
                return None
            made.args = {p.name: value for p, value in zip(known.operands, listed, strict=False)}
        other = {p.other: p.name for p in known.operands if p.other}
        if not other.keys().isdisjoint(made.args):
            made.args = {other.get(k, k) if other.get(k) not in made.args else k: v for k, v in made.args.items()}
        return made

    def call(self, made: m.Instr, call: nodes.Call) -> m.Instr | None:
        ref = call.callee
        unknown = self.imports.unknown(ref)
        if unknown is not None:
            self.report("MPT0025", unknown[0], ref, unknown[1] or None)
            return None
        if call.keyword and (call.keyword == "call") != (made.result is not None):
            text = "call_void gives no value" if made.result is not None else "the value of this call has no name"
            helped = "write call" if made.result is not None else "write call_void, which drops what there is"
            self.report("MPT0024", text, call, helped)
        module = self.imports.module_of(ref)
        if not module:
            return super().call(made, call)
        made.op = f"{module}.@{ref.name}"
        made.targs = tuple(a if isinstance(a, int) else ty(a) for a in call.type_args)
        made.args = self.arguments(call.args)
        return made

    def try_call(self, item: nodes.Assign | nodes.Effect, value: nodes.TryCall) -> list[m.Instr]:
        """The call, and the `try` of what it gives."""
        before = m.Instr("", loc=self.loc(item))
        call = nodes.Call(value.callee, value.type_args, value.args, "", at=value.at, end=value.end)
        if self.call(before, call) is None or self.named(before, value) is None:
            return []
        result, type_ = (item.result, ty(item.type)) if isinstance(item, nodes.Assign) else (None, None)
        before.result = self.fresh(f"{result or 'try'}_r")
        known = self.names.functions.get(value.callee.name) if before.op == "call" else None
        row = signature(before.op)
        given = row.result if row is not None and row.result.name == "TResult" else None
        error = Ty("gpu.TError") if given is None else given.args[1]
        before.type = ty(known.signature.result) if known is not None else Ty("TResult", (type_ or UNIT, error))
        types = [t for t in before.targs if isinstance(t, Ty)]
        if given is not None and row is not None and len(types) == len(row.params):
            before.type = replace(given, dict(zip((n for n, _ in row.params), types, strict=True)))
        return [before, m.Instr("try", {"v": m.Var(before.result)}, result, type_, loc=before.loc)]

    def fresh(self, name: str) -> str:
        """A name that no value of the function has."""
        while name in self.types:
            name += "_"
        self.types[name] = UNIT
        return name

    def enum(self, made: m.Instr, op: nodes.Op) -> m.Instr | None:
        """``enum.new<Ok>``, and ``enum.new<TResult, 0>``, which is the same; the names of variants are words."""
        made.op, made.args = op.name, self.arguments(op.args)
        made.targs = tuple(a if isinstance(a, int) else ty(a) for a in op.type_args)
        if len(made.targs) == 2 and isinstance(made.targs[0], Ty) and isinstance(made.targs[1], int):
            name, number = made.targs[0].name, made.targs[1]
            variants = self.names.variants(name)
            if op.name == "enum.new" and made.type is not None and made.type.name != name:
                self.report("MPT0016", f"{op.name}<{name}, {number}> of a {made.type}", op, f"write {made.type.name}")
                return None
            if not 0 <= number < len(variants):
                has = ", ".join(f"{k} {v}" for k, v in enumerate(variants))
                text = f"{name} has no variant {number}" if variants else f"{name} is no enum"
                self.report("MPT0016", text, op, f"it has {has}" if variants else None)
                return None
            made.targs = (Ty(variants[number]),)
        return made
