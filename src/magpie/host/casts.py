"""Conversions: integers truncate or extend, floats become integers toward zero and saturate (a NaN is 0), and every
step to a float rounds once."""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Any

from magpie.host.builtins import Site, Step, operation
from magpie.host.constants import wrapped
from magpie.host.integers import limits
from magpie.host.rounding import round_exact, rounding
from magpie.mpir.types import Ty

__all__ = ["converter"]

Unary = Callable[[Any], Any]


def converter(source: Ty, target: Ty) -> Unary | None:
    """The conversion from a type to another; None where the value stays what it is."""
    if source == target:
        return None
    if target.is_bool:
        return lambda x: x != 0
    if target.is_int:
        if source.is_float:
            return _saturating(target)
        low, high = limits(target)
        if source.is_bool:
            return lambda x: wrapped(int(x), target)
        own = limits(source)
        return None if low <= own[0] and own[1] <= high else lambda x: wrapped(x, target)
    if source.is_float:
        return None if target.name == "f64" else rounding(target.name)
    rounds = rounding(target.name)
    if source.is_bool or source.bits <= 32:  # every such integer is a double
        return lambda x: rounds(float(x))
    if target.name == "f64":
        return float
    name = target.name
    return lambda x: rounds(float(x)) if -_EXACT <= x <= _EXACT else round_exact(x, name)


_EXACT = 1 << 53


def _saturating(target: Ty) -> Unary:
    low, high = limits(target)

    def convert(x: float) -> int:
        if x != x:
            return 0
        if math.isinf(x):
            return high if x > 0 else low
        return min(max(int(x), low), high)

    return convert


def _step(site: Site, convert: Unary | None) -> Step:
    a = site.slots["v"]
    if convert is None:
        return lambda frame: frame[a]
    return lambda frame: convert(frame[a])


@operation("cast", "bf16.to_f32", "f32.to_bf16", "f64.to_bf16")
def _cast(site: Site) -> Step:
    return _step(site, converter(site.of("v").owned, site.type.owned))


_FLOATS = {"f16": Struct("<e"), "f32": Struct("<f"), "f64": Struct("<d")}


@operation("bitcast")
def _bitcast(site: Site) -> Step:
    source, target = site.of("v").owned, site.type.owned
    if source.is_int and target.is_int:
        return _step(site, lambda x: wrapped(x, target))
    to_bits, from_bits = _bits(source), _number(target)
    return _step(site, lambda x: from_bits(to_bits(x)))


def _bits(source: Ty) -> Unary:
    """The bits of a number as an integer. Every NaN is the quiet one without a payload."""
    if source.is_int:
        return lambda x: x
    shift, name = (16, "f32") if source.name == "bf16" else (0, source.name)
    form = _FLOATS[name]
    return lambda x: int.from_bytes(form.pack(math.nan if x != x else x), "little") >> shift


def _number(target: Ty) -> Unary:
    """The number that bits are."""
    if target.is_int:
        return lambda x: wrapped(x, target)
    shift, name = (16, "f32") if target.name == "bf16" else (0, target.name)
    form = _FLOATS[name]
    mask = (1 << (8 * form.size)) - 1
    return lambda x: form.unpack((x << shift & mask).to_bytes(form.size, "little"))[0]


@operation("const")
def _const(site: Site) -> Step:
    a = site.slots["v"]
    return lambda frame: frame[a]


@operation("select")
def _select(site: Site) -> Step:
    cond, a, b = site.slots["cond"], site.slots["a"], site.slots["b"]
    return lambda frame: frame[a] if frame[cond] else frame[b]
