"""Functions of a syntax tree as MPIR: kernels, and what they call; `magpie.frontend.mp.host` has host programs.

What a kernel cannot have at all is refused here, where its text is known; whether names, operands and types fit is said
by `magpie.mpir.verify`.
"""

from __future__ import annotations

from collections.abc import Iterator

from magpie.diagnostics import Loc
from magpie.frontend.mp import nodes
from magpie.frontend.mp.names import Names, ty
from magpie.mpir import nodes as m
from magpie.mpir.known import listed
from magpie.mpir.ops import OPS
from magpie.mpir.types import Ty

__all__ = ["Lowering", "flat"]

_BINARY = ("lhs", "rhs")
_SHORT = {"a": "lhs", "b": "rhs"}


def flat(
    body: tuple[nodes.Instruction, ...], unsafe: bool = False
) -> Iterator[tuple[nodes.Assign | nodes.Effect, bool]]:
    """The instructions of a block in order, and whether each is unsafe."""
    for item in body:
        if isinstance(item, nodes.UnsafeBlock):
            yield from flat(item.body, True)
        else:
            yield item, unsafe


class Lowering:
    """Lowers one function; ``types`` are those of its values by name."""

    on_host = False

    def __init__(self, names: Names, function: nodes.Function) -> None:
        self.names = names
        self.function = function
        self.types = {p.name: ty(p.type) for p in function.signature.params}
        for block in function.blocks:
            self.types |= {i.result: ty(i.type) for i, _ in flat(block.body) if isinstance(i, nodes.Assign)}

    def loc(self, node: nodes.Node, end: int = 0) -> Loc:
        return self.names.source.loc(node.at, end or node.end, self.function.name)

    def report(self, code: str, text: str, node: nodes.Node, help: str | None = None) -> None:
        self.names.report(code, text, node, self.function.name, help)

    def lower(self) -> m.Function:
        function, signature = self.function, self.function.signature
        line_end = self.names.source.text.find("\n", function.at)
        made = m.Function(
            function.name,
            [(p.name, ty(p.type)) for p in signature.params],
            ty(signature.result),
            loc=self.loc(function, min(line_end, function.end) if line_end >= 0 else 0),
            modifier="" if function.gpu is not None else function.modifier,
            places={p.name: self.loc(p) for p in signature.params},
        )
        if signature.type_params:
            self.report("MPT0008", f"kernel @{function.name} has type parameters", signature)
        gpu = function.gpu
        if gpu is not None:
            made.places |= {f"{word}()": self.loc(node) for word, node in gpu.places.items()}
            made.gpu_meta = m.GpuMeta(
                gpu.target, gpu.workgroup or (64, 1, 1), function.modifier == "unsafe", gpu.requires or ()
            )
        made.blocks = [self.block(b) for b in function.blocks]
        return made

    def block(self, block: nodes.Block) -> m.Block:
        made = m.Block(block.label)
        for item, unsafe in flat(block.body):
            raw = isinstance(item.value, nodes.Op) and item.value.name.startswith("ptr.")
            if isinstance(item.value, nodes.Op) and raw and not unsafe and self.function.modifier != "unsafe":
                help = f"write unsafe {{ {item.value.name} ... }}"
                self.report("MPT0009", f"{item.value.name} outside of unsafe code", item, help)
            if isinstance(item, nodes.Assign) and isinstance(item.value, nodes.Phi):
                if made.instrs:
                    self.report("MPT0006", f"phi %{item.result} stands behind an instruction", item)
                edges: list[tuple[str, m.Operand]] = [(e.block, self.operand(e.value)) for e in item.value.edges]
                if ty(item.value.type) != ty(item.type):
                    text = f"phi %{item.result} is {ty(item.value.type)}, not {ty(item.type)}"
                    self.report("MPS0004", text, item)
                made.phis.append(m.Phi(item.result, ty(item.type), edges, self.loc(item)))
            else:
                for instr in self.instructions(item):
                    instr.unsafe = unsafe
                    made.instrs.append(instr)
        made.term = self.terminator(block.terminator)
        return made

    # --- instructions ------------------------------------------------------------------------------------------------
    def instructions(self, item: nodes.Assign | nodes.Effect) -> list[m.Instr]:
        """What an instruction of the text becomes; nothing where it was refused."""
        made = self.instruction(item)
        return [] if made is None else [made]

    def instruction(self, item: nodes.Assign | nodes.Effect) -> m.Instr | None:
        value = item.value
        result, type_ = (item.result, ty(item.type)) if isinstance(item, nodes.Assign) else (None, None)
        made = m.Instr("", {}, result, type_, loc=self.loc(item))
        match value:
            case nodes.Const():
                made.op, made.args = "const", {"v": self.operand(value)}
            case nodes.GlobalRef():
                return self.read(made, value)
            case nodes.Op():
                made.op = value.name
                made.targs = tuple(a if isinstance(a, int) else ty(a) for a in value.type_args)
                made.args = self.arguments(value.args)
                op = OPS.get(value.name)
                if op is not None and op.keys == _BINARY:
                    made.args = {
                        _SHORT.get(k, k) if _SHORT.get(k) not in made.args else k: v for k, v in made.args.items()
                    }
            case nodes.New():
                made.op, made.targs, made.args = "new", (ty(value.type),), self.arguments(value.args)
            case nodes.Capture():
                made.op, made.args = "callable.capture", self.arguments(value.args)
            case nodes.Call():
                return self.call(made, value)
            case _:
                self.report("MPG_CORE_1405", "`try` in a kernel", value, "kernels have no TResult: branch on a bool")
                return None
        return made

    def read(self, made: m.Instr, ref: nodes.GlobalRef) -> m.Instr | None:
        known = self.names.globals.get(ref.name) if self.names.is_own(ref) else None
        if known is None:
            self.report("MPT0003", f"there is no global @{ref.name} in this module", ref)
        elif not isinstance(known.value, nodes.Const):
            self.report("MPG_CORE_1405", f"@{ref.name} is no constant, and a kernel reads constants only", ref)
        else:
            made.op, made.args = "const", {"v": self.operand(known.value)}
            return made
        return None

    def call(self, made: m.Instr, call: nodes.Call) -> m.Instr | None:
        ref = call.callee
        if not self.names.is_own(ref) or (ref.name not in self.names.functions and self.elsewhere(ref.name)):
            shown = f"{ref.module}.@{ref.name}" if ref.module else f"@{ref.name}"
            help = "a kernel calls functions of its own module"
            self.report("MPG_CORE_1405", f"a call of {shown} in a kernel", ref, help)
            return None
        made.op, made.callee = "call", ref.name
        known = self.names.functions.get(ref.name)
        if known is None and ref.name in self.names.generic:
            return None  # which instance is meant was not to be told, and that was said
        if known is not None and known.modifier == "async" and not self.on_host:
            self.report("MPG_CORE_1405", f"@{ref.name} is async, and a kernel does not wait", ref)
            return None
        only = call.args[0] if len(call.args) == 1 else None
        if known is None or only is None or only.key != "args" or not isinstance(only.value, nodes.ListOf):
            made.args = self.arguments(call.args)
            return made
        params, items = known.signature.params, only.value.items
        if len(params) != len(items):
            text = f"@{ref.name} has {len(params)} parameters, and here are {len(items)} arguments"
            shown = listed(f"%{p.name}: {ty(p.type)}" for p in params)
            self.report("MPT0004", text, only, f"it takes ({shown})")
            return None
        made.args = {p.name: self.argument(v) for p, v in zip(params, items, strict=True)}
        return made

    def elsewhere(self, name: str) -> bool:
        """Whether a function is imported, or of an extern module."""
        header = self.names.module.head("imports")
        for item in header.items if header is not None else ():
            if isinstance(item, nodes.Import) and f"@{name}" in (item.symbols or ()):
                return True
        externs = (d for d in self.names.module.decls if isinstance(d, nodes.Extern))
        return any(f.signature.name == name for d in externs for f in d.functions)

    def arguments(self, args: tuple[nodes.Arg, ...]) -> dict[str, m.Operand]:
        return {a.key: self.argument(a.value) for a in args}

    def argument(self, value: nodes.Argument) -> m.Operand:
        match value:
            case nodes.ListOf():
                return tuple(self.argument(v) for v in value.items)
            case nodes.Word():
                return m.Word(value.name)
            case nodes.Text():
                return m.Const(Ty("Str"), value.value)
        return self.operand(value)

    def operand(self, value: nodes.Operand) -> m.Operand:
        match value:
            case nodes.Value():
                return m.Var(value.name)
            case nodes.Const():
                return m.Const(Ty(value.type), 0 if value.value is None else value.value)  # None: of unit
            case nodes.ErrValue():
                self.report("MPG_CORE_1405", f"the error of %{value.name} in a kernel", value)
                return m.Var(value.name)
        known = self.names.globals.get(value.name) if self.names.is_own(value) else None
        if known is not None and isinstance(known.value, nodes.Const):
            return self.operand(known.value)
        return m.FnRef(value.name)

    # --- terminators -------------------------------------------------------------------------------------------------
    def terminator(self, end: nodes.Terminator) -> m.Term:
        loc = self.loc(end)
        match end:
            case nodes.Ret():
                return m.Ret(None if end.value is None else self.operand(end.value), loc)
            case nodes.Br():
                return m.Br(end.target, loc)
            case nodes.Cbr():
                return m.Cbr(self.operand(end.cond), end.then, end.other, loc)
            case nodes.Switch():
                return self.switch(end, loc)
        return m.Unreachable(loc)

    def switch(self, end: nodes.Switch, loc: Loc) -> m.Switch:
        value = self.operand(end.value)
        type_ = value.type if isinstance(value, m.Const) else self.types.get(getattr(value, "name", ""))
        cases = []
        for case in end.cases if type_ is None or type_.is_int else ():  # of no integer: the verifier says so
            number = case.value.value
            named = case.value.type
            if not isinstance(number, int) or isinstance(number, bool) or (named and type_ and named != type_.name):
                self.report("MPT0005", f"a case of {named or 'another type'} in a switch on {type_}", case)
            else:
                cases.append((number, case.target))
        return m.Switch(value, tuple(cases), end.other, loc)
