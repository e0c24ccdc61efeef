"""The part of a module that one function needs."""

from __future__ import annotations

from dataclasses import replace

from magpie.mpir.known import reached
from magpie.mpir.nodes import FnRef, Function, Instr, Module, operands
from magpie.mpir.types import Ty

__all__ = ["part_of"]


def part_of(module: Module, function: Function) -> Module:
    """A module with a function, those that it comes to call, the globals that these read, and the types that they name.

    Declarations stand in their old order. A kernel's code depends on nothing else.
    """
    functions = set(map(id, reached(module, function)))
    kept = [f for f in module.functions if id(f) in functions]
    types: list[Ty] = []
    words: set[str] = set()
    for f in kept:
        types += [f.ret, *(type_ for _, type_ in f.params)]
        for block in f.blocks:
            for item in block.items:
                types += [item.type] if item.type is not None else []
                if isinstance(item, Instr):
                    types += [t for t in item.targs if isinstance(t, Ty)]
                    words.update(o.name for o in operands(item) if isinstance(o, FnRef))
    globals_ = [g for g in module.globals if g.name in words]
    names = _names(module, [*types, *(g.type for g in globals_)])
    return replace(
        module,
        functions=kept,
        globals=globals_,
        structs=[s for s in module.structs if s.name in names],
        enums=[e for e in module.enums if e.name in names],
        sigs=[],
        impls=[],
    )


def _names(module: Module, types: list[Ty]) -> set[str]:
    """The names of these types and of the fields of those that the module declares."""
    names: set[str] = set()
    while types:
        type_ = types.pop()
        types += type_.args
        if type_.name in names:
            continue
        names.add(type_.name)
        struct, enum = module.struct(type_.name), module.enum(type_.name)
        types += [field for _, field in struct.fields] if struct is not None else []
        types += [field for _, fields in enum.variants for _, field in fields] if enum is not None else []
    return names
