"""A module's tree as MPIR: its declarations, its kernels and its host programs."""

from __future__ import annotations

from magpie.frontend.mp import nodes
from magpie.frontend.mp.generics import expand
from magpie.frontend.mp.host import HostLowering, constant
from magpie.frontend.mp.imports import Imports
from magpie.frontend.mp.lower import Lowering, flat
from magpie.frontend.mp.names import Names, ty
from magpie.mpir import nodes as m
from magpie.mpir.types import Ty

__all__ = ["lower_module"]


def lower_module(names: Names) -> m.Module:
    """A module as MPIR; errors go to ``names.found``. Functions stand in the order of the text."""
    module = m.Module(names.module.path, file=names.source.file)
    expand(names)
    for decl in names.module.decls:
        match decl:
            case nodes.Struct():
                module.structs.append(m.Struct(decl.name, _fields(decl.fields), decl.kind != "value", _params(decl)))
            case nodes.Enum():
                variants = [(v.name, _fields(v.fields)) for v in decl.variants]
                module.enums.append(m.Enum(decl.name, variants, _params(decl)))
            case nodes.Sig():
                module.sigs.append(m.Sig(decl.name, tuple(ty(p.type) for p in decl.params), ty(decl.result)))
            case nodes.Impl():
                place = names.source.loc(decl.at, decl.end)
                module.impls.append(m.Impl(decl.what, ty(decl.type), decl.function.name, place))
            case nodes.Global():
                place = names.source.loc(decl.at, decl.end)
                module.globals.append(m.Global(decl.name, ty(decl.type), constant(decl.value), place))
    imports = Imports(names)
    imports.check()
    reached = {f.name for f in _reached(names)}
    for function in names.functions.values():
        if function.name in reached:
            module.functions.append(Lowering(names, function).lower())
        elif not function.signature.type_params:
            module.functions.append(HostLowering(names, function, imports).lower())
    return module


def _fields(fields: tuple[nodes.Field, ...]) -> list[tuple[str, Ty]]:
    return [(f.name, ty(f.type)) for f in fields]


def _params(decl: nodes.Struct | nodes.Enum) -> tuple[str, ...]:
    return tuple(p.name for p in decl.type_params)


def _reached(names: Names) -> list[nodes.Function]:
    """Kernels and the functions that they come to, in the order of the text."""
    todo = [f for f in names.functions.values() if f.gpu is not None]
    seen = {f.name for f in todo}
    while todo:
        for block in todo.pop().blocks:
            for item, _ in flat(block.body):
                if isinstance(item.value, nodes.Call) and names.is_own(item.value.callee):
                    found = names.functions.get(item.value.callee.name)
                    if found is not None and not found.signature.type_params and found.name not in seen:
                        seen.add(found.name)
                        todo.append(found)
    return [f for f in names.functions.values() if f.name in seen]
