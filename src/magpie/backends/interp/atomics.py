"""Atomic read-modify-writes: sequential in lane order, as arrays wherever that gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from magpie.backends.interp.memory import Window
from magpie.backends.interp.numerics import combine
from magpie.backends.interp.numerics.lanes import Lanes, select
from magpie.dtypes import bf16, f16

__all__ = ["compare_exchange", "read_modify_write"]

# More operations than this on one address are done by one accumulation instead of one round each.
_HEAVY = 16

_UNORDERED: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ACCUMULATE = {"add", "sub"}


def _groups(address: Any) -> tuple[Any, Any, Any]:
    """A stable order by address; where each group of equal addresses starts in it, and how long it is."""
    order = np.argsort(address, kind="stable")
    sorted_ = address[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_[1:] != sorted_[:-1])))
    return order, starts, np.diff(np.append(starts, len(sorted_)))


def read_modify_write(window: Window, kind: str, address: Any, value: Any, want_old: bool) -> Lanes | None:
    """Apply ``kind`` at each address in order; the old values if wanted. Arrays of one length, at least one long."""
    type_ = window.type
    fn = combine(kind, type_)
    ufunc: Any = _UNORDERED.get(kind)
    if not want_old and ufunc is not None and type_.is_int:
        ufunc.at(window.flat, address, value)
        return None
    in_order = kind in _ACCUMULATE and type_.is_float and type_ not in (f16, bf16)
    if not want_old and in_order:
        ufunc.at(window.flat, address, value)  # one by one, in order
        return None
    order, starts, lengths = _groups(address)
    if len(starts) == len(address):
        old = window.get(address)
        window.put(address, fn(old, value))
        return old
    old = np.empty(len(address), value.dtype)
    bitwise = type_.is_int and ufunc is not None
    heavy = (lengths > _HEAVY) & (bitwise or in_order or kind == "exchange")
    for start, length in zip(starts[heavy].tolist(), lengths[heavy].tolist(), strict=True):
        members = order[start : start + length]
        at = int(address[members[0]])
        chain = np.concatenate((np.asarray(window.get(at))[None], value[members]))
        if kind != "exchange":
            chain = ufunc.accumulate(chain, dtype=chain.dtype)
        old[members] = chain[:-1]
        window.put(at, chain[-1])
    light = ~heavy
    _rounds(order, starts[light], lengths[light], lambda who: _step(window, fn, address, value, old, who))
    return old


def _rounds(order: Any, starts: Any, lengths: Any, step: Callable[[Any], None]) -> None:
    """Call ``step`` with the first lane of every group, then with the second ones, ..."""
    turn = 0
    while len(starts):
        step(order[starts + turn])
        turn += 1
        more = lengths > turn
        starts, lengths = starts[more], lengths[more]


def _step(window: Window, fn: Callable[..., Lanes], address: Any, value: Any, old: Any, who: Any) -> None:
    at = address[who]
    before = window.get(at)
    old[who] = before
    window.put(at, fn(before, value[who]))


def compare_exchange(window: Window, address: Any, expected: Any, desired: Any) -> Lanes:
    """Write ``desired`` where memory has the bits of ``expected``, one after the other; the old values."""
    old = np.empty(len(address), expected.dtype)
    order, starts, lengths = _groups(address)
    bits = np.dtype(f"u{expected.dtype.itemsize}")

    def step(who: Any) -> None:
        at = address[who]
        before = window.get(at)
        old[who] = before
        same = before.view(bits) == expected[who].view(bits)
        window.put(at, select(same, desired[who], before))

    heavy = lengths > 64
    for start, length in zip(starts[heavy].tolist(), lengths[heavy].tolist(), strict=True):
        _one_address(window, address, expected, desired, old, order[start : start + length], bits)
    _rounds(order, starts[~heavy], lengths[~heavy], step)
    return old


def _one_address(
    window: Window, address: Any, expected: Any, desired: Any, old: Any, who: Any, bits: np.dtype[Any]
) -> None:
    """Many on one address: on the bits, as Python integers."""
    at = int(address[who[0]])
    now = int(np.asarray(window.get(at))[None].view(bits)[0])
    seen = []
    for want, new in zip(expected[who].view(bits).tolist(), desired[who].view(bits).tolist(), strict=True):
        seen.append(now)
        if now == want:
            now = new
    old[who] = np.array(seen, bits).view(expected.dtype)
    window.put(at, np.array([now], bits).view(expected.dtype)[0])
