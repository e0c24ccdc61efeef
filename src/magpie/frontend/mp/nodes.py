"""The syntax tree of `.mp` text: what a module says, with the place of everything, and the comments.

Nodes compare by what they say: places are left out, so that a tree equals the tree of its printed text.  They are made
once and not changed; ``dataclasses.replace`` makes a changed copy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, dataclass_transform


@dataclass(slots=True)
class Node:
    """``at`` and ``end`` are offsets into the text, in characters; both are 0 in a tree that was not parsed."""

    at: int = field(default=0, compare=False, repr=False, kw_only=True)
    end: int = field(default=0, compare=False, repr=False, kw_only=True)


@dataclass_transform(field_specifiers=(field,))
def _node(cls: type) -> type:
    return dataclass(slots=True)(cls)


@_node
class Notes:
    """The comments of a node: lines before it, "" for a blank one, and the one behind it, all with their semicolons."""

    lead: tuple[str, ...] = ()
    trail: str = ""


@dataclass(slots=True)
class Noted(Node):
    """A node that stands on lines of its own and so has comments; None where it has none."""

    notes: Notes | None = field(default=None, kw_only=True)

    @property
    def docs(self) -> str:
        """The text of the ``;;;`` comments before the node, without the semicolons."""
        lines = self.notes.lead if self.notes is not None else ()
        return "\n".join(line[3:].strip() for line in lines if line.startswith(";;;") and not line.startswith(";;;;"))


# Types


@_node
class Type(Node):
    """``borrow Array<f32>``: qualifiers (borrow, mutborrow, shared, weak), a name, and arguments: types, or numbers."""

    name: str
    args: tuple[Type | int, ...] = ()
    qualifiers: tuple[str, ...] = ()


@_node
class TypeParam(Node):
    """``T: type`` of a generic declaration; ``kind`` is None where only the name is given."""

    name: str
    kind: str | None = None


@_node
class Param(Node):
    """``%x: T``, a parameter."""

    name: str
    type: Type


# Operands


@_node
class Const(Node):
    """``const.i32 7``.  ``type`` is "" for the bare literals of a switch; ``const.unit`` has the value None."""

    type: str
    value: int | float | bool | str | None


@_node
class Value(Node):
    """``%x``."""

    name: str


@_node
class ErrValue(Node):
    """``%x.err``: the error in a TResult on whose error the edge was taken."""

    name: str


@_node
class GlobalRef(Node):
    """``@name`` or ``a.b.@name``: a function or a global, its name without the @; ``module`` is "" if not given."""

    name: str
    module: str = ""


Operand: TypeAlias = Value | ErrValue | Const | GlobalRef


@_node
class Word(Node):
    """A bare name as an argument: a field, a variant, a choice such as ``fallback=cpu``."""

    name: str


@_node
class Text(Node):
    """A bare string as an argument."""

    value: str


@_node
class ListOf(Node):
    """``[a, b]`` as an argument."""

    items: tuple[Argument, ...]


Argument: TypeAlias = Value | ErrValue | Const | GlobalRef | Word | Text | ListOf


@_node
class Arg(Node):
    """``key=value``."""

    key: str
    value: Argument


# Instructions


@_node
class Op(Node):
    """``name<T, 4> { key=value }``: an operation of the language, by its dotted name."""

    name: str
    type_args: tuple[Type | int, ...] = ()
    args: tuple[Arg, ...] = ()


@_node
class New(Node):
    """``new TPoint { x=%a }``."""

    type: Type
    args: tuple[Arg, ...] = ()


@_node
class Capture(Node):
    """``callable.capture @f { x=%a }``: a callable of a function, with values for its first parameters."""

    function: GlobalRef
    args: tuple[Arg, ...] = ()


@_node
class Call(Node):
    """``call @f { ... }``; ``keyword`` is call, call_void, or "" for functions that need none."""

    callee: GlobalRef
    type_args: tuple[Type | int, ...] = ()
    args: tuple[Arg, ...] = ()
    keyword: str = "call"


@_node
class TryCall(Node):
    """``try @f { ... }``: a call whose error goes to the caller."""

    callee: GlobalRef
    type_args: tuple[Type | int, ...] = ()
    args: tuple[Arg, ...] = ()


@_node
class Try(Node):
    """``try %r``: the error goes to the caller, or to block ``target``."""

    value: Value | ErrValue
    target: str | None = None


@_node
class Edge(Node):
    """``[bb0: %x]`` of a phi."""

    block: str
    value: Operand


@_node
class Phi(Node):
    """``phi T { [bb0: %x], [bb1: %y] }``; the short form without a type takes that of its result."""

    type: Type
    edges: tuple[Edge, ...]


Operation: TypeAlias = Op | New | Capture | Call | TryCall | Try


@_node
class Assign(Noted):
    """``%x: T = ...``."""

    result: str
    type: Type
    value: Const | GlobalRef | Phi | Op | New | Capture | Call | TryCall | Try


@_node
class Effect(Noted):
    """An operation without a result."""

    value: Operation


@_node
class UnsafeBlock(Noted):
    """``unsafe { ... }``; ``tail`` holds comments before the closing brace, as everywhere below."""

    body: tuple[Instruction, ...]
    tail: tuple[str, ...] = ()


Instruction: TypeAlias = Assign | Effect | UnsafeBlock

# Terminators


@_node
class Ret(Noted):
    """``ret`` or ``ret %x``."""

    value: Operand | None = None


@_node
class Br(Noted):
    """``br bb1``."""

    target: str


@_node
class Cbr(Noted):
    """``cbr %c bb1 bb2``."""

    cond: Operand
    then: str
    other: str


@_node
class Case(Noted):
    """``case 1 -> bb1`` of a switch."""

    value: Const
    target: str


@_node
class Switch(Noted):
    """``switch %v { case 1 -> bb1 } else bb2``."""

    value: Operand
    cases: tuple[Case, ...]
    other: str
    tail: tuple[str, ...] = ()


@_node
class Unreachable(Noted):
    """``unreachable``."""


Terminator: TypeAlias = Ret | Br | Cbr | Switch | Unreachable


@_node
class Block(Noted):
    """``bb0:``, instructions and one terminator."""

    label: str
    body: tuple[Instruction, ...]
    terminator: Terminator


# Declarations


@_node
class Signature(Node):
    """``@f<T: type>(%x: T) -> T``; the name is without the @."""

    name: str
    params: tuple[Param, ...]
    result: Type
    type_params: tuple[TypeParam, ...] = ()


@_node
class Gpu(Node):
    """What only kernels have: the target, the workgroup's size if given, and the capabilities of requires(...).

    ``places`` has where target(...), workgroup(...) and requires(...) stand, by these words.
    """

    target: str
    workgroup: tuple[int, int, int] | None = None
    requires: tuple[str, ...] | None = None
    places: dict[str, Node] = field(default_factory=dict, compare=False, repr=False)


@_node
class Function(Noted):
    """``fn``, ``async fn``, ``unsafe fn``; with ``gpu`` a kernel, ``gpu fn`` or ``unsafe gpu fn``."""

    signature: Signature
    blocks: tuple[Block, ...]
    modifier: str = ""
    gpu: Gpu | None = None
    tail: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name without the @."""
        return self.signature.name


@_node
class Field(Noted):
    """``field x: T``."""

    name: str
    type: Type


@_node
class Struct(Noted):
    """``heap struct TName { ... }``; ``kind`` is heap, value or ""."""

    name: str
    fields: tuple[Field, ...]
    kind: str = ""
    type_params: tuple[TypeParam, ...] = ()
    tail: tuple[str, ...] = ()


@_node
class Variant(Noted):
    """One variant of an enum, with its fields."""

    name: str
    fields: tuple[Field, ...] = ()
    tail: tuple[str, ...] = ()


@_node
class Enum(Noted):
    """``enum TName { ... }``."""

    name: str
    variants: tuple[Variant, ...]
    kind: str = ""
    type_params: tuple[TypeParam, ...] = ()
    tail: tuple[str, ...] = ()


@_node
class SigParam(Node):
    """A parameter of a ``sig``: a type, with a name if one is given."""

    type: Type
    name: str = ""


@_node
class Sig(Noted):
    """``sig TSig(i32, f32) -> f32``: the type of callables."""

    name: str
    params: tuple[SigParam, ...]
    result: Type


@_node
class Global(Noted):
    """``global @name: T = const.T ...``."""

    name: str
    type: Type
    value: Argument


@_node
class Impl(Noted):
    """``impl hash for TKey = @hash_key``."""

    what: str
    type: Type
    function: GlobalRef


@_node
class ExternFn(Noted):
    """``fn @f(...) -> T`` inside an extern module."""

    signature: Signature


@_node
class Extern(Noted):
    """``extern "c" module libm { fn @sinf(%x: f32) -> f32 }``; ``abi`` is None where it is not given."""

    name: str
    functions: tuple[ExternFn, ...]
    abi: str | None = None
    tail: tuple[str, ...] = ()


Decl: TypeAlias = Function | Struct | Enum | Sig | Global | Impl | Extern


@_node
class Import(Node):
    """``std.io::{@println}``: symbols of a module, or with None the module itself."""

    module: str
    symbols: tuple[str, ...] | None = None


@_node
class Header(Noted):
    """One line of the header; ``kind`` is module, exports, imports or digest.

    ``items`` are the module's path, the exported symbols, the ``Import``s, or the digest's 64 digits.
    """

    kind: str
    items: tuple[str | Import, ...]


@_node
class Module(Node):
    """A file."""

    header: tuple[Header, ...]
    decls: tuple[Decl, ...]
    tail: tuple[str, ...] = ()

    def head(self, kind: str) -> Header | None:
        """The line ``kind`` of the header, if it is there."""
        return next((line for line in self.header if line.kind == kind), None)

    @property
    def path(self) -> str:
        """The module's dotted name."""
        line = self.head("module")
        return str(line.items[0]) if line is not None else ""

    @property
    def digest(self) -> str:
        """The digest that the file states, "" if none."""
        line = self.head("digest")
        return str(line.items[0]) if line is not None else ""
