"""Operations on Map<K, V>. Keys of a declared type are compared by its `impl hash` and `impl eq`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magpie.host.builtins import Call, builtin
from magpie.host.values import ArrayValue, CallableValue, EnumValue, MapValue, UserKey
from magpie.mpir.types import UNIT, Ty

__all__: list[str] = []


def _args(call: Call) -> tuple[Ty, ...]:
    return call.type.args if call.type is not None and call.type.args else (UNIT, UNIT)


def _wrap(call: Call, map_: MapValue) -> Callable[[Any], Any]:
    """What makes a key of the dict from a key of the program."""
    functions = _implemented(call, map_.key)
    if functions is None:
        return lambda key: key
    hash_, equal = functions
    return lambda key: UserKey(key, call.invoke(hash_, key), lambda a, b: call.invoke(equal, a, b))


def _implemented(call: Call, key: Ty) -> tuple[CallableValue, CallableValue] | None:
    found = {impl.what: impl.function for impl in call.program.module.impls if impl.type.owned == key.owned}
    return (CallableValue(found["hash"]), CallableValue(found["eq"])) if {"hash", "eq"} <= found.keys() else None


@builtin("map.new")
def new(call: Call) -> MapValue:
    key, value = _args(call)
    return MapValue(key, value, {})


@builtin("map.len")
def len_(call: Call, map: MapValue) -> int:
    return len(map.items)


@builtin("map.get")
def get(call: Call, map: MapValue, key: Any) -> EnumValue:
    found = map.items.get(_wrap(call, map)(key), map)
    return call.none() if found is map else call.some(found)


@builtin("map.get_or")
def get_or(call: Call, map: MapValue, key: Any, default: Any) -> Any:
    return map.items.get(_wrap(call, map)(key), default)


@builtin("map.set")
def set_(call: Call, map: MapValue, key: Any, v: Any) -> None:
    map.items[_wrap(call, map)(key)] = v


@builtin("map.contains")
def contains(call: Call, map: MapValue, key: Any) -> bool:
    return _wrap(call, map)(key) in map.items


@builtin("map.remove")
def remove(call: Call, map: MapValue, key: Any) -> EnumValue:
    found = map.items.pop(_wrap(call, map)(key), map)
    return call.none() if found is map else call.some(found)


@builtin("map.clear")
def clear(call: Call, map: MapValue) -> None:
    map.items.clear()


@builtin("map.keys")
def keys(call: Call, map: MapValue) -> ArrayValue:
    return ArrayValue(map.key, [key.value if isinstance(key, UserKey) else key for key in map.items])


@builtin("map.values")
def values(call: Call, map: MapValue) -> ArrayValue:
    return ArrayValue(map.value, list(map.items.values()))
