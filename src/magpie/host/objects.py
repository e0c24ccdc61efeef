"""Structs, enums, callables, references and raw pointers."""

from __future__ import annotations

from typing import Any
from weakref import ref

from magpie.host.builtins import Call, Site, Step, builtin, operation
from magpie.host.panics import Panic
from magpie.host.values import ArrayValue, BuilderValue, CallableValue, EnumValue, MapValue, StructValue
from magpie.mpir.nodes import Word
from magpie.mpir.prelude import variants_of
from magpie.mpir.types import Ty

__all__: list[str] = []

_OBJECTS = (ArrayValue, BuilderValue, MapValue, StructValue)


def _word(site: Site, key: str) -> str:
    found = site.instr.args[key]
    assert isinstance(found, Word)
    return found.name


# --- structs ---------------------------------------------------------------------------------------------------------
@operation("new")
def _new(site: Site) -> Step:
    type_ = site.instr.targs[0]
    assert isinstance(type_, Ty)
    fields = list(site.slots.items())
    return lambda frame: StructValue(type_, {name: frame[slot] for name, slot in fields})


@operation("getfield")
def _getfield(site: Site) -> Step:
    obj, name = site.slots["obj"], _word(site, "field")
    return lambda frame: frame[obj].fields[name]


@operation("setfield")
def _setfield(site: Site) -> Step:
    obj, name, v = site.slots["obj"], _word(site, "field"), site.slots["v"]

    def step(frame: list[Any]) -> None:
        frame[obj].fields[name] = frame[v]

    return step


# --- enums -----------------------------------------------------------------------------------------------------------
def _variant(site: Site) -> str:
    """The variant in angle brackets."""
    found = site.instr.targs[0]
    assert isinstance(found, Ty)
    return found.name.rpartition(".")[2]


@operation("enum.new")
def _enum_new(site: Site) -> Step:
    type_, name = site.type.owned, _variant(site)
    variants = variants_of(site.program.module, type_)
    assert variants is not None
    tag = list(variants).index(name)
    slots = [site.slots.get(field) for field, _ in variants[name]]
    if not any(slot is not None for slot in slots):
        made = EnumValue(type_, name, tag, (None,) * len(slots))
        return lambda frame: made
    if len(slots) == 1 and slots[0] is not None:
        a = slots[0]
        return lambda frame: EnumValue(type_, name, tag, (frame[a],))
    return lambda frame: EnumValue(type_, name, tag, tuple([None if k is None else frame[k] for k in slots]))


@operation("enum.tag")
def _enum_tag(site: Site) -> Step:
    a = site.slots["v"]
    return lambda frame: frame[a].tag


@operation("enum.is")
def _enum_is(site: Site) -> Step:
    a, name = site.slots["v"], _variant(site)
    return lambda frame: frame[a].variant == name


@operation("enum.payload")
def _enum_payload(site: Site) -> Step:
    a, name = site.slots["v"], _variant(site)
    variants = variants_of(site.program.module, site.of("v").owned)
    assert variants is not None
    names = [field for field, _ in variants[name]]
    at = names.index(_word(site, "field")) if "field" in site.instr.args else 0

    def step(frame: list[Any]) -> Any:
        found: EnumValue = frame[a]
        if found.variant != name:
            raise Panic(f"{site.instr.op}<{name}> of {found.variant}")
        return found.fields[at] if found.fields else None

    return step


# --- callables -------------------------------------------------------------------------------------------------------
@operation("callable.capture")
def _capture(site: Site) -> Step:
    name = site.instr.callee
    params = site.program.functions[name].params
    slots = [site.slots[param] for param, _ in params if param in site.slots]
    return lambda frame: CallableValue(name, tuple([frame[k] for k in slots]))


@operation("global")
def _global(site: Site) -> Step:
    a = site.slots["v"]
    return lambda frame: frame[a]


# --- references: Python counts them; what is here keeps the meaning of the text ---------------------------------------
@builtin("retain", "release")
def _counted(call: Call, v: Any) -> None:
    """One owner more, or one less: an object lives as long as a value names it."""


@builtin("share")
def _share(call: Call, v: Any) -> Any:
    return v


@builtin("weak.downgrade")
def _downgrade(call: Call, v: Any) -> Any:
    """A reference to an object; a value that is no object of its own is its own reference."""
    return ref(v) if isinstance(v, _OBJECTS) else v


@builtin("weak.upgrade")
def _upgrade(call: Call, v: Any) -> EnumValue:
    found = v() if isinstance(v, ref) else v
    return call.none() if found is None and isinstance(v, ref) else call.some(found)


@builtin("clone")
def _clone(call: Call, v: Any) -> Any:
    """A new Array, Map, builder or struct with the same parts; of anything else the value."""
    if isinstance(v, ArrayValue):
        return ArrayValue(v.element, list(v.items))
    if isinstance(v, MapValue):
        return MapValue(v.key, v.value, dict(v.items))
    if isinstance(v, StructValue):
        return StructValue(v.type, dict(v.fields))
    return BuilderValue(list(v.parts)) if isinstance(v, BuilderValue) else v
