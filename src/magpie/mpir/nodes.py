"""MPIR: a control-flow graph in SSA form, with the names of the `.mp` text it was made from.

Values, blocks and functions are known by their names (without %, and with no @), which are unique in their function and
module. So a broken program can be held and shown; `magpie.mpir.verify` says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from magpie.diagnostics.loc import Loc
from magpie.mpir.types import UNIT, Ty, sid_hash
from magpie.records import record

__all__ = [
    "Block",
    "Br",
    "Cbr",
    "Const",
    "Enum",
    "Err",
    "FnRef",
    "Function",
    "Global",
    "GpuMeta",
    "Impl",
    "Instr",
    "Module",
    "Operand",
    "Phi",
    "Ret",
    "Sig",
    "Struct",
    "Switch",
    "Term",
    "Unreachable",
    "Var",
    "Word",
    "exits",
    "operands",
    "targets",
]


@record
class Var:
    """A use of the value called ``name``."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@record
class Err:
    """``%x.err``: the error in the result ``name``, where a `try` has found one."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}.err"


@record
class Const:
    """A literal of a primitive type or Str; that of unit is 0."""

    type: Ty
    value: int | float | bool | str


@record
class Word:
    """A bare name as an operand: a field, a variant without fields, a choice such as ``fallback=cpu``."""

    name: str

    def __str__(self) -> str:
        return self.name


@record
class FnRef:
    """A function or a global as an operand: ``kernel=@name`` of a launch."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


Operand = Var | Err | Const | Word | FnRef | tuple["Operand", ...]


@dataclass(slots=True, eq=False)
class Instr:
    """``%result: type = op<targs> { key=operand, ... }``; without a result, a void op. ``callee`` is the function of a
    call or capture in this module; functions of others are ops, ``std.io.@println``. ``target`` is where a `try` goes
    with an error, empty for the caller: the one instruction that may leave its block. ``unsafe``: in `unsafe { }`."""

    op: str
    args: dict[str, Operand] = field(default_factory=dict)
    result: str | None = None
    type: Ty | None = None
    targs: tuple[Ty | int, ...] = ()
    callee: str = ""
    loc: Loc | None = None
    target: str = ""
    unsafe: bool = False


@dataclass(slots=True, eq=False)
class Phi:
    """The operand of the predecessor that control came from; all phis of a block read before any is set."""

    result: str
    type: Ty
    incoming: list[tuple[str, Operand]]
    loc: Loc | None = None


@record
class Ret:
    value: Operand | None = None
    loc: Loc | None = None


@record
class Br:
    target: str
    loc: Loc | None = None


@record
class Cbr:
    cond: Operand
    then: str
    other: str
    loc: Loc | None = None


@record
class Switch:
    """Go to the block of the case that equals ``value``, else to ``default``. Cases are integers."""

    value: Operand
    cases: tuple[tuple[int, str], ...]
    default: str
    loc: Loc | None = None


@record
class Unreachable:
    loc: Loc | None = None


Term = Ret | Br | Cbr | Switch | Unreachable


@dataclass(slots=True, eq=False)
class Block:
    label: str
    phis: list[Phi] = field(default_factory=list)
    instrs: list[Instr] = field(default_factory=list)
    term: Term = field(default_factory=Unreachable)

    @property
    def items(self) -> list[Phi | Instr]:
        """Phis and instructions in order."""
        return [*self.phis, *self.instrs]


@record
class GpuMeta:
    """What a `gpu fn` declares (specification, section 3.4)."""

    target: str
    workgroup: tuple[int, int, int] = (64, 1, 1)
    is_unsafe: bool = False
    requires: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Function:
    """``params`` are (name, type); the first block is the entry. ``gpu_meta`` is None for a plain `fn`; ``modifier`` is
    async, unsafe or empty. ``places`` has where parameters stand, and where a kernel declares what, by "target()",
    "workgroup()" and "requires()", as far as that is known."""

    name: str
    params: list[tuple[str, Ty]] = field(default_factory=list)
    ret: Ty = UNIT
    blocks: list[Block] = field(default_factory=list)
    gpu_meta: GpuMeta | None = None
    loc: Loc | None = None
    modifier: str = ""
    places: dict[str, Loc] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """What the function takes and gives, as a message has it."""
        return f"it is @{self.name}({', '.join(f'%{name}: {type_}' for name, type_ in self.params)}) -> {self.ret}"

    def place(self, name: str) -> Loc | None:
        """Where a parameter or a declaration stands, or else the function."""
        return self.places.get(name, self.loc)


@dataclass(slots=True, eq=False)
class Struct:
    """A declared struct; ``heap`` tells a heap struct from a value struct. ``params`` are names that its fields use."""

    name: str
    fields: list[tuple[str, Ty]]
    heap: bool = False
    params: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Enum:
    """A declared enum: its variants, numbered from 0, with their fields."""

    name: str
    variants: list[tuple[str, list[tuple[str, Ty]]]]
    params: tuple[str, ...] = ()


@record
class Sig:
    """The signature that a TCallable<name> has."""

    name: str
    params: tuple[Ty, ...]
    ret: Ty


@record
class Global:
    """A constant of the module: a literal, or a list of them."""

    name: str
    type: Ty
    value: Operand
    loc: Loc | None = None


@record
class Impl:
    """``impl hash for T = @f``: what T has for the keys of a map."""

    what: str
    type: Ty
    function: str
    loc: Loc | None = None


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


class _ByName(Generic[_N]):
    """The first of each name in a list that grows at its end: looking through the list takes long in large modules."""

    __slots__ = ("_found", "_items", "_read")

    def __init__(self) -> None:
        self._items: list[_N] = []
        self._found: dict[str, _N] = {}
        self._read = 0

    def find(self, items: list[_N], name: str) -> _N | None:
        if items is not self._items or len(items) < self._read:
            self._items, self._found, self._read = items, {}, 0
        while self._read < len(items):
            self._found.setdefault(items[self._read].name, items[self._read])
            self._read += 1
        return self._found.get(name)


@dataclass(slots=True, eq=False)
class Module:
    """What a file declares. Lists grow at their ends only, for the sake of looking up names."""

    name: str
    structs: list[Struct] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    file: str = ""
    enums: list[Enum] = field(default_factory=list)
    sigs: list[Sig] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    impls: list[Impl] = field(default_factory=list)
    #: What was worked out of the declarations, by whoever did.
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    _functions: _ByName[Function] = field(default_factory=_ByName, init=False, repr=False)
    _structs: _ByName[Struct] = field(default_factory=_ByName, init=False, repr=False)
    _enums: _ByName[Enum] = field(default_factory=_ByName, init=False, repr=False)
    _sigs: _ByName[Sig] = field(default_factory=_ByName, init=False, repr=False)
    _globals: _ByName[Global] = field(default_factory=_ByName, init=False, repr=False)

    def function(self, name: str) -> Function | None:
        return self._functions.find(self.functions, name)

    def struct(self, name: str) -> Struct | None:
        return self._structs.find(self.structs, name)

    def enum(self, name: str) -> Enum | None:
        return self._enums.find(self.enums, name)

    def sig(self, name: str) -> Sig | None:
        return self._sigs.find(self.sigs, name)

    def glob(self, name: str) -> Global | None:
        return self._globals.find(self.globals, name)

    def sid(self, function: Function) -> int:
        """The number of a function in a registry of kernels: the hash of ``module.@name``."""
        return sid_hash(f"{self.name}.@{function.name}")


def targets(term: Term) -> tuple[str, ...]:
    """The blocks that a terminator names, in its order; one may stand there twice."""
    match term:
        case Br():
            return (term.target,)
        case Cbr():
            return (term.then, term.other)
        case Switch():
            return (*(label for _, label in term.cases), term.default)
        case _:
            return ()


def exits(block: Block) -> tuple[str, ...]:
    """The blocks that control may go to from a block: by a `try` in it, and by its end."""
    return (*(i.target for i in block.instrs if i.target), *targets(block.term))


def operands(item: Instr | Term) -> list[Operand]:
    """The operands of an instruction or terminator, lists spelt out."""
    todo: list[Operand]
    match item:
        case Instr():
            todo = list(item.args.values())
        case Cbr():
            todo = [item.cond]
        case Switch():
            todo = [item.value]
        case Ret():
            todo = [] if item.value is None else [item.value]
        case _:
            todo = []
    found: list[Operand] = []
    for operand in todo:
        found.extend(operand if isinstance(operand, tuple) else (operand,))
    return found
