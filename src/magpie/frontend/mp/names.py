"""What a module declares, and whether the types and exports that it names are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from magpie.diagnostics import Diagnostic
from magpie.frontend.mp import nodes
from magpie.frontend.mp.lexer import MAX_ERRORS
from magpie.frontend.mp.source import Source
from magpie.frontend.mp.value_structs import Sizes
from magpie.mpir.known import Near
from magpie.mpir.prelude import ENUMS, HANDLES, MLX_ELEMENTS, STRUCTS
from magpie.mpir.types import TYPE_IDS, Ty

__all__ = ["Names", "ty"]

#: The language's types that take arguments, with their number; all others take none.
_GENERIC = {
    "Array": 1,
    "Map": 2,
    "TCallable": 1,
    "rawptr": 1,
}
_PLAIN = ("unit", "Str", "ptr")
_BUILT_IN = {
    **dict.fromkeys(TYPE_IDS, 0),
    **dict.fromkeys(_PLAIN, 0),
    **_GENERIC,
    **HANDLES,
    **{name: len(struct.params) for name, struct in STRUCTS.items()},
    **{name: len(enum.params) for name, enum in ENUMS.items()},
}
_MLX_ARRAY = "mlx.TArray"
_KNOWN = ("gpu.", "mlx.")  # other dotted names of types come with imported modules


def ty(type_: nodes.Type) -> Ty:
    """A type of the tree as MPIR has it."""
    args = tuple(ty(a) for a in type_.args if isinstance(a, nodes.Type))
    return Ty(type_.name, args, " ".join(type_.qualifiers))


class Names:
    """The declarations of one module by name. ``found`` collects what is wrong, up to the limit of a run."""

    def __init__(self, module: nodes.Module, source: Source) -> None:
        self.module = module
        self.source = source
        self.found: list[Diagnostic] = []
        self.near = Near()
        self.functions: dict[str, nodes.Function] = {}
        self.instances: dict[str, str] = {}  # the functions that those are now, with what messages call them: f<i32>
        self.generic: set[str] = set()  # functions with type parameters, which have given way to their instances
        self.globals: dict[str, nodes.Global] = {}
        self.sigs: set[str] = set()
        self.keys: dict[Ty, set[str]] = {}  # the types that have an impl, and of what
        self.types: dict[str, int] = dict(_BUILT_IN)
        self._declare()
        self.sizes = Sizes(
            {
                d.name: (tuple(p.name for p in d.type_params), [ty(f.type) for f in d.fields])
                for d in module.decls
                if isinstance(d, nodes.Struct) and d.kind == "value"
            }
        )

    def report(self, code: str, text: str, node: nodes.Node, function: str = "", help: str | None = None) -> None:
        """Add an error at ``node``."""
        if len(self.found) < MAX_ERRORS:
            self.found.append(Diagnostic(code, text, self.source.loc(node.at, node.end, function), help=help))

    def is_own(self, ref: nodes.GlobalRef) -> bool:
        """Whether a name is one of this module's, as far as it says."""
        return ref.module in ("", self.module.path)

    def variants(self, name: str) -> list[str]:
        """The variants of an enum in their order; none where it is not known."""
        for decl in self.module.decls:
            if isinstance(decl, nodes.Enum) and decl.name == name:
                return [v.name for v in decl.variants]
        known = ENUMS.get(name)
        return [] if known is None else [v for v, _ in known.variants]

    def _declare(self) -> None:
        values: dict[str, nodes.Node] = {}
        types: dict[str, nodes.Node] = {}
        for decl in self.module.decls:
            match decl:
                case nodes.Function():
                    self._once(values, f"@{decl.name}", decl)
                    self.functions.setdefault(decl.name, decl)
                case nodes.Global():
                    self._once(values, f"@{decl.name}", decl)
                    self.globals.setdefault(decl.name, decl)
                case nodes.Struct() | nodes.Enum():
                    self._once(types, decl.name, decl)
                    self.types.setdefault(decl.name, len(decl.type_params))
                case nodes.Impl():
                    self.keys.setdefault(ty(decl.type).owned, set()).add(decl.what)
                case nodes.Sig():
                    self.sigs.add(decl.name)
                    self._once(types, decl.name, decl)
                    self.types.setdefault(decl.name, 0)

    def _once(self, seen: dict[str, nodes.Node], name: str, decl: nodes.Node) -> None:
        if name in _BUILT_IN:
            self.report("MPT0007", f"{name} is a type of the language", _head(decl, self.source))
        elif seen.setdefault(name, decl) is not decl:
            line = self.source.line_of(seen[name].at)
            self.report("MPT0007", f"{name} is declared in line {line} already", _head(decl, self.source))

    # --- checks ------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Look at every type of the module and at its exports."""
        exports = self.module.head("exports")
        known = self.functions.keys() | self.globals.keys()
        for name in exports.items if exports is not None else ():
            bare = str(name).removeprefix("@")
            own = bare in known if bare != name else name in self.types and name not in _BUILT_IN
            if exports is not None and not own:
                near = self.near(bare, known)
                help = f"did you mean @{near}?" if near else None
                self.report("MPT0003", f"there is no {name} to export", exports, help=help)
        self._structs()
        for decl in self.module.decls:
            scope = {p.name for p in getattr(decl, "type_params", ())}
            if isinstance(decl, nodes.Function):
                scope = {p.name for p in decl.signature.type_params}
            if isinstance(decl, nodes.Extern):
                for function in decl.functions:
                    generic = {p.name for p in function.signature.type_params}
                    for type_ in _signature(function.signature):
                        self._type(type_, generic, "")
            self.check_types(decl, scope)

    def check_types(self, decl: nodes.Decl, scope: Collection[str] = ()) -> None:
        """Look at the types that a declaration names; ``scope`` are its type parameters."""
        names = set(scope)
        for type_ in _types(decl):
            self._type(type_, names, decl.name if isinstance(decl, nodes.Function) else "")

    def knows(self, type_: Ty) -> bool:
        """Whether there is such a type, with as many arguments."""
        return self.types.get(type_.name) == len(type_.args) and all(map(self.knows, type_.args))

    def _structs(self) -> None:
        """Fields, variants and type parameters have names of their own, and value structs an end."""
        for decl in self.module.decls:
            match decl:
                case nodes.Struct():
                    self._type_params(decl.name, decl.type_params)
                    self._apart(decl.name, "field", decl.fields)
                case nodes.Enum():
                    self._type_params(decl.name, decl.type_params)
                    self._apart(decl.name, "variant", decl.variants)
                    for variant in decl.variants:
                        self._apart(variant.name, "field", variant.fields)
                case nodes.Function():
                    self._type_params(f"@{decl.name}", decl.signature.type_params)
        for decl in self.module.decls:
            if isinstance(decl, nodes.Struct) and decl.kind == "value":
                fault = self.sizes.fault(Ty(decl.name, tuple(Ty(p.name) for p in decl.type_params)))
                if fault is not None:
                    self.report("MPT0011", fault[0], _head(decl, self.source), help=fault[1])

    def _apart(self, owner: str, what: str, parts: Iterable[nodes.Field | nodes.Variant | nodes.TypeParam]) -> None:
        seen: set[str] = set()
        for part in parts:
            if part.name in seen:
                self.report("MPS0003", f"{owner} has the {what} {part.name} twice", part)
            seen.add(part.name)

    def _type_params(self, owner: str, params: tuple[nodes.TypeParam, ...]) -> None:
        self._apart(owner, "type parameter", params)
        for param in params:
            if param.name in self.types:
                self.report("MPT0007", f"{param.name} is a type, and no name for a parameter", param)
            if param.kind not in (None, "type"):
                help = f"write {param.name}: type"
                self.report("MPT0001", f"there is no kind of type parameters {param.kind}", param, help=help)

    def _type(self, type_: nodes.Type, scope: set[str], function: str) -> None:
        name = type_.name
        for inner in type_.args:
            if isinstance(inner, nodes.Type):
                self._type(inner, scope, function)
        if name in scope:
            return
        wanted = self.types.get(name)
        if wanted is None:
            if "." not in name or name.startswith(_KNOWN):
                near = self.near(name, chain(self.types, scope))
                help = f"did you mean {near}?" if near else None
                self.report("MPT0001", f"there is no type {name}", type_, function, help)
        elif len(type_.args) != wanted:
            shown = "no arguments" if wanted == 0 else "1 argument" if wanted == 1 else f"{wanted} arguments"
            self.report("MPT0002", f"{name} has {shown} in <>, and here {len(type_.args)}", type_, function)
        elif type_.args and (fault := self.sizes.fault(ty(type_))) is not None:
            self.report("MPT0011", fault[0], type_, function, fault[1])
        elif name == "TCallable" and not self._is_sig(type_.args[0], scope):
            shown = ty(type_).args[0].name if ty(type_).args else str(type_.args[0])
            near = self.near(shown, self.sigs)
            help = f"did you mean {near}?" if near else "declare one: sig TSig(i32) -> i32"
            self.report("MPT0001", f"there is no signature {shown}", type_, function, help)
        elif name == "Map" and not self._is_key(type_.args[0], scope):
            help = "keys are integers, bool, Str, and types with an `impl hash` and an `impl eq`"
            self.report("MPT0014", f"{ty(type_).args[0]} is no type of keys", type_, function, help)
        elif name == _MLX_ARRAY:
            self._mlx(type_, scope, function)

    def _is_key(self, type_: nodes.Type | int, scope: set[str]) -> bool:
        if not isinstance(type_, nodes.Type):
            return True  # said by another rule
        found = ty(type_).owned
        plain = found.is_int or found.is_bool or found.name == "Str" or found.name in scope
        return plain or self.keys.get(found, set()) >= {"hash", "eq"}

    def _is_sig(self, type_: nodes.Type | int, scope: set[str]) -> bool:
        return isinstance(type_, nodes.Type) and (type_.name in self.sigs or type_.name in scope)

    def _mlx(self, type_: nodes.Type, scope: set[str], function: str) -> None:
        (element,) = type_.args
        if isinstance(element, nodes.Type) and element.name not in scope | MLX_ELEMENTS:
            help = f"its elements are {', '.join(sorted(MLX_ELEMENTS))}"
            self.report("MPG_MLX_1002", f"an array of MLX has no elements of type {ty(element)}", type_, function, help)


def _head(decl: nodes.Node, source: Source) -> nodes.Node:
    """The first line of a declaration, as a place."""
    end = source.text.find("\n", decl.at)
    return nodes.Node(at=decl.at, end=min(decl.end, end) if end >= 0 else decl.end)


def _types(decl: nodes.Decl) -> Iterator[nodes.Type]:
    match decl:
        case nodes.Function():
            yield from _signature(decl.signature)
            for block in decl.blocks:
                yield from _body(block.body)
        case nodes.Struct():
            yield from (f.type for f in decl.fields)
        case nodes.Enum():
            yield from (f.type for v in decl.variants for f in v.fields)
        case nodes.Sig():
            yield from (p.type for p in decl.params)
            yield decl.result
        case nodes.Global() | nodes.Impl():
            yield decl.type


def _signature(signature: nodes.Signature) -> Iterator[nodes.Type]:
    yield from (p.type for p in signature.params)
    yield signature.result


def _body(body: Iterable[nodes.Instruction]) -> Iterator[nodes.Type]:
    for item in body:
        if isinstance(item, nodes.UnsafeBlock):
            yield from _body(item.body)
            continue
        if isinstance(item, nodes.Assign):
            yield item.type
        value = item.value
        match value:
            case nodes.Op() if not value.name.startswith("enum."):  # those name variants
                yield from (a for a in value.type_args if isinstance(a, nodes.Type))
            case nodes.Call() | nodes.TryCall():
                yield from (a for a in value.type_args if isinstance(a, nodes.Type))
            case nodes.New() | nodes.Phi():
                yield value.type
