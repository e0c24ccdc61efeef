"""Operations on Array<T>. Elements are counted from 0; a place that there is not panics."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from magpie.host.builtins import Call, Site, Step, builtin, operation
from magpie.host.panics import Panic
from magpie.host.values import ArrayValue, CallableValue, EnumValue
from magpie.mpir.types import UNIT, Ty

__all__: list[str] = []

#: The most elements of an Array that is made at once, which take 1 GB. Systems that promise more memory than they have
#: would end the process instead of an allocation.
MOST = 1 << 27

Calls = Generator[tuple[CallableValue, tuple[Any, ...]], Any, Any]


def _element(call: Call) -> Ty:
    """The type of the elements of the result."""
    return call.type.args[0] if call.type is not None and call.type.args else UNIT


def _outside(idx: int, items: list[Any]) -> Panic:
    return Panic(f"there is no element {idx} in an Array of {len(items)}")


# --- what runs often -------------------------------------------------------------------------------------------------
@operation("arr.len")
def _len(site: Site) -> Step:
    a = site.slots["arr"]
    return lambda frame: len(frame[a].items)


@operation("arr.get")
def _get(site: Site) -> Step:
    a, i = site.slots["arr"], site.slots["idx"]

    def step(frame: list[Any]) -> Any:
        items, idx = frame[a].items, frame[i]
        if 0 <= idx < len(items):
            return items[idx]
        raise _outside(idx, items)

    return step


@operation("arr.set")
def _set(site: Site) -> Step:
    a, i, v = site.slots["arr"], site.slots["idx"], site.slots["v"]

    def step(frame: list[Any]) -> None:
        items, idx = frame[a].items, frame[i]
        if not 0 <= idx < len(items):
            raise _outside(idx, items)
        items[idx] = frame[v]

    return step


@operation("arr.push")
def _push(site: Site) -> Step:
    a, v = site.slots["arr"], site.slots["v"]
    return lambda frame: frame[a].items.append(frame[v])


# --- making and changing ---------------------------------------------------------------------------------------------
@builtin("arr.new")
def new(call: Call, **v: Any) -> ArrayValue:
    return ArrayValue(_element(call), [v[f"v{k}"] for k in range(len(v))])


@builtin("arr.with_len")
def with_len(call: Call, len: int, v: Any) -> ArrayValue:
    if len < 0:
        raise call.panic(f"an Array of {len} elements")
    if len > MOST:
        raise call.panic(f"out of memory: an Array of {len} elements")
    return ArrayValue(_element(call), [v] * len)


@builtin("arr.pop")
def pop(call: Call, arr: ArrayValue) -> EnumValue:
    return call.some(arr.items.pop()) if arr.items else call.none()


@builtin("arr.insert")
def insert(call: Call, arr: ArrayValue, idx: int, v: Any) -> None:
    if not 0 <= idx <= len(arr.items):
        raise call.panic(f"no place before element {idx} in an Array of {len(arr.items)}")
    arr.items.insert(idx, v)


@builtin("arr.remove")
def remove(call: Call, arr: ArrayValue, idx: int) -> Any:
    if not 0 <= idx < len(arr.items):
        raise _outside(idx, arr.items)
    return arr.items.pop(idx)


@builtin("arr.clear")
def clear(call: Call, arr: ArrayValue) -> None:
    arr.items.clear()


@builtin("arr.fill")
def fill(call: Call, arr: ArrayValue, v: Any) -> None:
    arr.items[:] = [v] * len(arr.items)


@builtin("arr.slice")
def slice_(call: Call, arr: ArrayValue, start: int, end: int) -> ArrayValue:
    if not 0 <= start <= end <= len(arr.items):
        raise call.panic(f"no elements {start} to {end} in an Array of {len(arr.items)}")
    return ArrayValue(arr.element, arr.items[start:end])


@builtin("arr.concat")
def concat(call: Call, a: ArrayValue, b: ArrayValue) -> ArrayValue:
    return ArrayValue(a.element, a.items + b.items)


@builtin("arr.reverse")
def reverse(call: Call, arr: ArrayValue) -> None:
    arr.items.reverse()


@builtin("arr.sort")
def sort(call: Call, arr: ArrayValue) -> None:
    arr.items.sort(key=_order if arr.element.is_float else None)


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, value)


# --- looking for an element: a NaN equals nothing, not even itself ---------------------------------------------------
@builtin("arr.contains")
def contains(call: Call, arr: ArrayValue, v: Any) -> bool:
    return v == v and v in arr.items


@builtin("arr.find")
def find(call: Call, arr: ArrayValue, v: Any) -> EnumValue:
    return call.some(arr.items.index(v)) if v == v and v in arr.items else call.none()


# --- with a callable: it is given the elements that there were at the beginning ---------------------------------------
@builtin("arr.map")
def map_(call: Call, arr: ArrayValue, fn: CallableValue) -> Calls:
    made = ArrayValue(_element(call), [])
    for v in arr.items.copy():
        made.items.append((yield fn, (v,)))
    return made


@builtin("arr.filter")
def filter_(call: Call, arr: ArrayValue, fn: CallableValue) -> Calls:
    made = ArrayValue(arr.element, [])
    for v in arr.items.copy():
        if (yield fn, (v,)):
            made.items.append(v)
    return made


@builtin("arr.reduce")
def reduce(call: Call, arr: ArrayValue, init: Any, fn: CallableValue) -> Calls:
    for v in arr.items.copy():
        init = yield fn, (init, v)
    return init


@builtin("arr.foreach")
def foreach(call: Call, arr: ArrayValue, fn: CallableValue) -> Calls:
    for v in arr.items.copy():
        yield fn, (v,)
