"""Generic functions: each call of one is a call of an instance, a copy of the function for the types of that call.

Types stand in angle brackets, ``call @first<i64> { ... }``, or follow from those of the arguments and of the result.
The instance of @first for i64 is called @first.i64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from magpie.frontend.mp import nodes
from magpie.frontend.mp.names import Names, ty
from magpie.frontend.mp.value_structs import shortened
from magpie.mpir.types import Ty

__all__ = ["expand"]

#: Instances of a module, and the names in one type: a generic function that calls itself with ever larger types has no
#: end.
_MOST, _LARGEST = 1000, 64

Operation = nodes.Const | nodes.GlobalRef | nodes.Phi | nodes.Operation


def expand(names: Names) -> None:
    """Put the instances that are called in the place of each generic function; errors go to ``names.found``."""
    _Expanding(names).run()


class _Expanding:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.generic = {n: f for n, f in names.functions.items() if f.signature.type_params and f.gpu is None}
        self.sigs = {d.name: d for d in names.module.decls if isinstance(d, nodes.Sig)}
        self.made: dict[str, dict[tuple[Ty, ...], str]] = {name: {} for name in self.generic}
        self.instances: dict[str, nodes.Function] = {}
        self.todo: list[tuple[nodes.Function, dict[str, nodes.Type], str]] = []
        self.count = 0

    def run(self) -> None:
        plain = {n: self.rewritten(f) for n, f in self.names.functions.items() if n not in self.generic}
        while self.todo:
            function, types, name = self.todo.pop()
            signature = replace(function.signature, name=name, type_params=())
            made = _Substituted(types).function(replace(function, signature=signature))
            if all(self.names.knows(ty(t)) for t in types.values()):
                self.names.check_types(made)
            self.instances[name] = self.rewritten(made)
        self.names.generic = set(self.generic)
        found: dict[str, nodes.Function] = {}
        for name in self.names.functions:
            if name in self.generic:
                found |= {made: self.instances[made] for made in self.made[name].values()}
            else:
                found[name] = plain[name]
        self.names.functions = found

    def rewritten(self, function: nodes.Function) -> nodes.Function:
        """A function that calls instances where it called generic functions."""
        types = {p.name: ty(p.type) for p in function.signature.params}
        for block in function.blocks:
            types |= {i.result: ty(i.type) for i in _flat(block.body) if isinstance(i, nodes.Assign)}
        caller = _Caller(self, function.name, types)
        blocks = tuple(replace(b, body=tuple(map(caller.instruction, b.body))) for b in function.blocks)
        return replace(function, blocks=blocks) if caller.changed else function

    def instance(self, function: nodes.Function, args: dict[str, nodes.Type], at: nodes.Node, caller: str) -> str:
        """The name of the instance of a function for these types."""
        key = tuple(ty(t) for t in args.values())
        known = self.made[function.name]
        if key not in known:
            self.count += 1
            if self.count > _MOST or max(map(_size, key)) > _LARGEST:
                if self.count <= _MOST + 1:
                    text = f"@{function.name} is called with ever more types"
                    self.names.report("MPT0026", text, at, caller, "let it call itself with the types that it has")
                return function.name
            name = ".".join([function.name, *re.findall(r"\w+", " ".join(map(str, key)))])
            while name in self.instances or any(name == n for _, _, n in self.todo):
                name += "."  # Map<A<B>, C> and Map<A<B, C>> have the same words
            known[key] = name
            self.names.instances[name] = f"{function.name}<{', '.join(map(shortened, key))}>"
            self.todo.append((function, args, name))
        return known[key]


class _Caller:
    """What one function calls. ``types`` are those of its values."""

    def __init__(self, around: _Expanding, name: str, types: dict[str, Ty]) -> None:
        self.around = around
        self.name = name
        self.types = types
        self.changed = False

    def instruction(self, item: nodes.Instruction) -> nodes.Instruction:
        match item:
            case nodes.UnsafeBlock():
                return replace(item, body=tuple(map(self.instruction, item.body)))
            case nodes.Assign(value=nodes.Call() | nodes.TryCall() as call):
                return replace(item, value=self.call(call, ty(item.type)))
            case nodes.Assign(value=nodes.Capture() as capture):
                return replace(item, value=self.capture(capture, ty(item.type)))
            case nodes.Effect(value=nodes.Call() | nodes.TryCall() as call):
                return replace(item, value=self.call(call, None))
        return item

    def generic(self, ref: nodes.GlobalRef) -> nodes.Function | None:
        return self.around.generic.get(ref.name) if self.around.names.is_own(ref) else None

    def call(self, call: nodes.Call | nodes.TryCall, result: Ty | None) -> nodes.Call | nodes.TryCall:
        function = self.generic(call.callee)
        if function is None:
            self.plain(call)
            return call
        signature = function.signature
        given: list[nodes.Type] = [a for a in call.type_args if isinstance(a, nodes.Type)]
        if call.type_args:
            if len(given) != len(signature.type_params) or len(given) != len(call.type_args):
                text = f"@{function.name} has {len(signature.type_params)} type parameters, and here are "
                self.report("MPT0002", f"{text}{len(call.type_args)}", function, call)
                return call
            found = {p.name: t for p, t in zip(signature.type_params, given, strict=True)}
        else:
            pairs = [(p.type, t) for p, t in zip(signature.params, self.arguments(call, signature), strict=True)]
            if isinstance(call, nodes.TryCall):
                result = Ty("TResult", (result, Ty(""))) if result is not None else None
            inferred = self.inferred(function, [*pairs, (signature.result, result)], call)
            if inferred is None:
                return call
            found = inferred
        return replace(call, callee=self.instance(function, found, call.callee), type_args=())

    def plain(self, call: nodes.Call | nodes.TryCall) -> None:
        """A function without type parameters is called without types."""
        names = self.around.names
        if call.type_args and names.is_own(call.callee) and call.callee.name in names.functions:
            text = f"@{call.callee.name} has no type parameters, and here are {len(call.type_args)}"
            names.report("MPT0002", text, call, self.name, f"write @{call.callee.name}")

    def capture(self, capture: nodes.Capture, result: Ty) -> nodes.Capture:
        """A callable of a generic function is of the instance that its signature asks for."""
        function = self.generic(capture.function)
        if function is None:
            return capture
        sig = self.around.sigs.get(result.args[0].name) if result.name == "TCallable" and result.args else None
        types = {a.key: self.argument(a.value) for a in capture.args}
        params = function.signature.params
        pairs = [(p.type, types.get(p.name)) for p in params]
        if sig is not None:
            rest = params[len(types) :]
            pairs += [(p.type, ty(s.type)) for p, s in zip(rest, sig.params, strict=False)]
            pairs.append((function.signature.result, ty(sig.result)))
        found = self.inferred(function, pairs, capture)
        return capture if found is None else replace(capture, function=self.instance(function, found, capture.function))

    def instance(self, function: nodes.Function, found: dict[str, nodes.Type], ref: nodes.GlobalRef) -> nodes.GlobalRef:
        self.changed = True
        return replace(ref, name=self.around.instance(function, found, ref, self.name))

    def arguments(self, call: nodes.Call | nodes.TryCall, signature: nodes.Signature) -> list[Ty | None]:
        """The types of the arguments in the order of the parameters, as far as they are known."""
        only = call.args[0] if len(call.args) == 1 else None
        if only is not None and only.key == "args" and isinstance(only.value, nodes.ListOf):
            listed = [self.argument(v) for v in only.value.items]
            return (listed + [None] * len(signature.params))[: len(signature.params)]
        types = {a.key: self.argument(a.value) for a in call.args}
        return [types.get(p.name) for p in signature.params]

    def argument(self, value: nodes.Argument) -> Ty | None:
        match value:
            case nodes.Value():
                return self.types.get(value.name)
            case nodes.Const():
                return Ty(value.type)
            case nodes.Text():
                return Ty("Str")
            case nodes.ErrValue():
                known = self.types.get(value.name)
                return known.args[1] if known is not None and len(known.args) == 2 else None
            case nodes.GlobalRef():
                glob = self.around.names.globals.get(value.name)
                return ty(glob.type) if glob is not None else None
        return None

    def inferred(
        self, function: nodes.Function, pairs: Iterable[tuple[nodes.Type, Ty | None]], at: nodes.Node
    ) -> dict[str, nodes.Type] | None:
        """The types that the parameters stand for; None where one cannot be told, which is said. What contradicts the
        first that is found is an error of types then, as in a call of any function."""
        names = [p.name for p in function.signature.type_params]
        found: dict[str, Ty] = {}
        for want, got in pairs:
            if got is not None:
                _match(ty(want), got, names, found)
        lacking = [n for n in names if n not in found]
        if lacking:
            text = f"the arguments of @{function.name} do not say what {lacking[0]} is"
            self.report("MPT0021", text, function, at)
            return None
        return {n: _node(found[n]) for n in names}

    def report(self, code: str, text: str, function: nodes.Function, at: nodes.Node) -> None:
        shown = ", ".join(p.name for p in function.signature.type_params)
        self.around.names.report(code, text, at, self.name, f"write @{function.name}<{shown}> with types for {shown}")


def _match(want: Ty, got: Ty, names: list[str], found: dict[str, Ty]) -> None:
    if want.name in names and not want.args:
        if got.name:
            found.setdefault(want.name, got.owned)
    elif want.name == got.name:
        for inner, other in zip(want.args, got.args, strict=False):
            _match(inner, other, names, found)


def _size(type_: Ty) -> int:
    """How many names a type has."""
    return 1 + sum(map(_size, type_.args))


def _node(type_: Ty) -> nodes.Type:
    return nodes.Type(type_.name, tuple(map(_node, type_.args)), tuple(type_.mode.split()))


def _flat(body: Iterable[nodes.Instruction]) -> Iterable[nodes.Assign | nodes.Effect]:
    for item in body:
        if isinstance(item, nodes.UnsafeBlock):
            yield from _flat(item.body)
        else:
            yield item


class _Substituted:
    """Copies a function with types in the places of its type parameters."""

    def __init__(self, types: dict[str, nodes.Type]) -> None:
        self.types = types

    def type(self, type_: nodes.Type) -> nodes.Type:
        found = self.types.get(type_.name)
        if found is not None and not type_.args:
            return replace(type_, name=found.name, args=found.args, qualifiers=type_.qualifiers or found.qualifiers)
        return replace(type_, args=self.args(type_.args)) if type_.args else type_

    def args(self, args: tuple[nodes.Type | int, ...]) -> tuple[nodes.Type | int, ...]:
        return tuple(a if isinstance(a, int) else self.type(a) for a in args)

    def function(self, function: nodes.Function) -> nodes.Function:
        signature = function.signature
        params = tuple(replace(p, type=self.type(p.type)) for p in signature.params)
        signature = replace(signature, params=params, result=self.type(signature.result))
        blocks = tuple(replace(b, body=tuple(map(self.instruction, b.body))) for b in function.blocks)
        return replace(function, signature=signature, blocks=blocks)

    def instruction(self, item: nodes.Instruction) -> nodes.Instruction:
        match item:
            case nodes.UnsafeBlock():
                return replace(item, body=tuple(map(self.instruction, item.body)))
            case nodes.Assign():
                return replace(item, type=self.type(item.type), value=self.operation(item.value))
        value = self.operation(item.value)
        assert not isinstance(value, nodes.Const | nodes.GlobalRef | nodes.Phi)
        return replace(item, value=value)

    def operation(self, value: Operation) -> Operation:
        match value:
            case nodes.Phi() | nodes.New():
                return replace(value, type=self.type(value.type))
            case nodes.Op() | nodes.Call() | nodes.TryCall():
                return replace(value, type_args=self.args(value.type_args))
        return value
