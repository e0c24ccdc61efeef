"""The rules of a module's declarations: names, structs, globals, impls, and what @main is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from magpie.diagnostics import Diagnostic
from magpie.mpir.cfg import strongly_connected
from magpie.mpir.known import Found, Near, listed
from magpie.mpir.nodes import Const, Function, Global, Impl, Module, Operand
from magpie.mpir.prelude import ENUMS, STRUCTS
from magpie.mpir.types import Ty
from magpie.mpir.unify import bare

__all__ = ["declared_once", "module_rules"]

_IMPLS = {"hash": ("u64", 1), "eq": ("bool", 2)}


def declared_once(module: Module) -> Found:
    """Names are declared once, and value structs have an end: what all other rules rest on."""
    names: set[str] = set()
    for f in module.functions:
        if f.name in names:
            yield Diagnostic("MPS0003", f"@{f.name} is defined twice in {module.name}", f.loc)
        names.add(f.name)
    for name in (*(struct.name for struct in module.structs), *(enum.name for enum in module.enums)):
        if name in names:
            yield Diagnostic("MPS0003", f"{name} is defined twice in {module.name}")
        names.add(name)
    for struct in module.structs:
        yield from _apart(struct.name, "field", struct.fields)
    for enum in module.enums:
        yield from _apart(enum.name, "variant", enum.variants)
        for variant, fields in enum.variants:
            yield from _apart(variant, "field", fields)
    endless = _nested_in_itself(module)
    if endless is not None:
        yield Diagnostic("MPS0004", f"{endless} holds itself, and would have no end")


def _apart(owner: str, what: str, parts: Sequence[tuple[str, object]]) -> Found:
    for name, times in sorted(Counter(name for name, _ in parts).items()):
        if times > 1:
            yield Diagnostic("MPS0003", f"{owner} has the {what} {name} twice")


def _nested_in_itself(module: Module) -> str | None:
    """A value struct that holds itself, directly or through others; fields of heap structs are references."""
    value = {s.name: [t for _, t in s.fields] for s in module.structs if not s.heap}
    inner: dict[str, list[str]] = {}
    for name, types in value.items():
        found, names = list(types), set[str]()
        while found:
            type_ = found.pop()
            if type_.name in value:
                names.add(type_.name)
                found += type_.args  # a generic struct may hold what it is of
        inner[name] = sorted(names)
    for part in strongly_connected(inner, inner):
        return part[0]
    return None


def module_rules(module: Module, near: Near) -> Found:
    """The rules of globals, impls and @main."""
    for glob in module.globals:
        yield from _global(glob)
    seen: set[tuple[str, Ty]] = set()
    for impl in module.impls:
        yield from _impl(module, impl, seen, near)
    main = module.function("main")
    if main is not None and main.gpu_meta is None:
        yield from _main(main)


def _main(main: Function) -> Found:
    status = main.ret.args[0] if main.ret.name == "TResult" and main.ret.args else main.ret
    if main.params or not (status.name == "unit" or (status.is_int and status.bits <= 64)):
        text = "@main takes nothing, and gives an integer, unit, or a TResult of one of these"
        helped = "write `fn @main() -> i64`; std.env.@args gives arguments"
        yield Diagnostic("MPT0020", text, main.loc, help=helped)


def _global(glob: Global) -> Found:
    fault = _value(glob.value, bare(glob.type))
    if fault:
        yield Diagnostic("MPT0019", f"@{glob.name} is {glob.type}, and its value {fault}", glob.loc)


def _value(value: Operand, type_: Ty) -> str:
    """What is wrong with the value of a global; empty for nothing."""
    if isinstance(value, Const):
        return "" if value.type == type_ else f"has a literal of type {value.type}"
    if not isinstance(value, tuple):
        return f"is {value}, which is no literal"
    if type_.name != "Array" or len(type_.args) != 1:
        return "is a list"
    return next(filter(None, (_value(item, type_.args[0]) for item in value)), "")


def _impl(module: Module, impl: Impl, seen: set[tuple[str, Ty]], near: Near) -> Found:
    type_ = bare(impl.type)
    text = f"impl {impl.what} for {impl.type}"
    known = _IMPLS.get(impl.what)
    if known is None:
        yield Diagnostic("MPT0022", f"there is no {text}", impl.loc, help=f"there are {' and '.join(_IMPLS)}")
        return
    if (impl.what, type_) in seen:
        yield Diagnostic("MPT0022", f"{text} stands there twice", impl.loc)
    seen.add((impl.what, type_))
    name, count = known
    wanted = f"it is @f({', '.join(['borrow ' + str(type_)] * count)}) -> {name}"
    function = module.function(impl.function)
    if (module.struct(type_.name) or module.enum(type_.name)) is None:
        owner = "Magpie's own" if type_.name in (STRUCTS.keys() | ENUMS.keys()) else "no struct or enum of this module"
        yield Diagnostic("MPT0022", f"{text}: {type_} is {owner}", impl.loc)
    elif function is None:
        close = near(impl.function, (f.name for f in module.functions))
        helped = f"did you mean @{close}?" if close else wanted
        yield Diagnostic("MPT0022", f"{text}: there is no function @{impl.function}", impl.loc, help=helped)
    elif [bare(t) for _, t in function.params] != [type_] * count or function.ret != Ty(name) or function.gpu_meta:
        shown = f"({listed(str(t) for _, t in function.params)}) -> {function.ret}"
        yield Diagnostic("MPT0022", f"{text}: @{function.name} is {shown}", impl.loc, help=wanted)
