"""What the rules of the verifier look up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice

from magpie.diagnostics import Diagnostic
from magpie.mpir.nodes import Block, Const, Err, FnRef, Function, Instr, Module, Operand, Var, Word, exits
from magpie.mpir.types import Ty

__all__ = ["Found", "Known", "Near", "field_path", "listed", "reached"]

Found = Iterator[Diagnostic]


def field_path(instr: Instr) -> list[str]:
    """The names in ``field=a.b``."""
    field = instr.args["field"]
    return field.name.split(".") if isinstance(field, Word) else []


class Near:
    """Finds names that are nearly another one, for the first faults of a run: looking takes long among many names."""

    def __init__(self) -> None:
        self.left = 20

    def __call__(self, name: str, known: Iterable[str]) -> str | None:
        """The nearest of ``known``, None where none is near or it is not worth looking."""
        self.left -= 1
        names = list(islice(known, 1001)) if self.left >= 0 else []
        found = get_close_matches(name[:100], names, 1) if len(names) <= 1000 else []
        return found[0] if found else None


def listed(names: Iterable[str]) -> str:
    """Names between commas, of many the first."""
    first = list(islice(names, 21))
    return ", ".join(first if len(first) < 21 else [*first[:20], "..."])


def reached(module: Module, *functions: Function) -> Iterator[Function]:
    """Functions and all that they come to call or to make callables of, each once. What is not there is left out, and
    so are kernels, which are launched."""
    seen = {f.name for f in functions}
    todo = list(functions)
    while todo:
        at = todo.pop()
        yield at
        for block in at.blocks:
            for instr in block.instrs:
                callee = module.function(instr.callee) if instr.callee else None
                if callee is not None and callee.gpu_meta is None and callee.name not in seen:
                    seen.add(callee.name)
                    todo.append(callee)


class Known:
    """A function of a module, with its blocks and the types of its values. ``on_device``: a kernel comes to it.
    ``on_host``: the host program does."""

    def __init__(
        self,
        module: Module,
        function: Function,
        near: Near | None = None,
        on_device: bool = False,
        on_host: bool = False,
    ) -> None:
        self.near = near or Near()
        self.fit: set[tuple[Ty, bool]] = set()  # types that were looked at, and that kernels have
        self.on_device = on_device
        self.on_host = on_host
        self.module = module
        self.function = function
        self.blocks: dict[str, Block] = {b.label: b for b in function.blocks}
        self.types: dict[str, Ty] = dict(function.params)
        for block in function.blocks:
            for item in block.items:
                if item.result is not None and item.type is not None:
                    self.types.setdefault(item.result, item.type)

    def type(self, operand: Operand) -> Ty | None:
        """The type of an operand without its mode; None for a function, a list and what is not known."""
        if isinstance(operand, Const):
            return operand.type
        found = self.types.get(operand.name) if isinstance(operand, Var | Err) else None
        if isinstance(operand, Err) and found is not None:
            found = found.args[1] if found.name == "TResult" and len(found.args) == 2 else None
        elif isinstance(operand, FnRef):
            glob = self.module.glob(operand.name)
            found = None if glob is None else glob.type
        return None if found is None else found.owned

    def instead(self, name: str, known: Collection[str]) -> str:
        """The cure of a name that is none of ``known``: the nearest, or what there is."""
        near = self.near(name, known)
        return f"did you mean {near}?" if near else f"it has {listed(known) or 'none'}"

    def shown(self, operand: Operand) -> str:
        """The type of an operand as messages name it, or what it is where it has none."""
        found = self.type(operand)
        if found is not None:
            return str(found)
        match operand:
            case tuple():
                return "a list"
            case Word():
                return f"none, as the bare name {operand}"
            case FnRef() if self.module.function(operand.name) is not None:
                return f"none, as the function {operand}"
            case Err():
                return f"none, as %{operand.name} is no TResult"
        return "none"

    def before(self) -> dict[str, list[str]]:
        """The distinct blocks that lead to each."""
        found: dict[str, list[str]] = {label: [] for label in self.blocks}
        for block in self.function.blocks:
            for label in dict.fromkeys(exits(block)):
                found[label].append(block.label)
        return found
